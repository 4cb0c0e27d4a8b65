// Rotary embeddings and the operands of a decoder's attention.
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>

#include "lower/fuse_nodes.h"
#include "lower/join_operators.h"
#include "op/infer.h"
#include "op/targets.h"

namespace qdq {
namespace {

// What exporters spell these two by, call by call.
constexpr std::string_view kNegated = "torch.ops.aten.neg.default", kExpanded = "torch.ops.aten.expand.default",
                           kRepeated = "torch.ops.aten.repeat_interleave.self_int",
                           kContiguous = "torch.ops.aten.contiguous.default", kWhere = "torch.ops.aten.where.Scalar";

Node* called(const Argument& argument, std::string_view target) {
  Node* node = argument.node();
  return node != nullptr && node->is(target) ? node : nullptr;
}

const SymShape* sizes_of(const Node* node) {
  const TensorMeta* meta = node == nullptr ? nullptr : float_meta(*node);
  return meta == nullptr ? nullptr : &meta->sizes;
}

// Whether it is x[..., begin:end] for an axis of `width` elements, the last of four.
bool is_half(const Node* slice, const Node* x, int64_t begin, int64_t end, int64_t width) {
  if (slice == nullptr || !slice->is(op::kSlice) || slice->arg(0).node() != x) return false;
  const int64_t axis = slice->arg(1).integer().value_or(0), last = slice->arg(3).integer().value_or(width);
  return (axis == -1 || axis == 3) && slice->arg(2).integer().value_or(0) == begin &&
         (last == end || (end == width && last > width)) && slice->arg(4).integer().value_or(1) == 1;
}

// x of cat([-x[..., half:], x[..., :half]], -1); null for all else.
Node* turned(const Node* cat) {
  if (cat == nullptr || !cat->is(op::kCat) || !cat->arg(0).is_list() || cat->arg(0).list().size() != 2) return nullptr;
  const int64_t axis = cat->arg(1).integer().value_or(0);
  const Node* neg = called(cat->arg(0).list()[0], kNegated);
  const Node *second = neg == nullptr ? nullptr : neg->arg(0).node(), *first = cat->arg(0).list()[1].node();
  Node* x = second == nullptr || second->args().empty() ? nullptr : second->arg(0).node();
  const SymShape* sizes = sizes_of(x);
  if (sizes == nullptr || sizes->size() != 4 || (axis != -1 && axis != 3)) return nullptr;
  const std::optional<int64_t> width = (*sizes)[3].constant();
  if (!width || *width % 2 != 0) return nullptr;
  return is_half(second, x, *width / 2, *width, *width) && is_half(first, x, 0, *width / 2, *width) ? x : nullptr;
}

// Whether cosines or sines have a row for each row of x, or one for several.
bool are_for_rows(const Node* table, const SymShape& x) {
  const SymShape* sizes = sizes_of(table);
  if (sizes == nullptr || sizes->size() != 4 || (*sizes)[3] != x[3] || table->op() == Node::Op::kGetAttr) return false;
  for (size_t axis = 0; axis < 3; ++axis)
    if ((*sizes)[axis] != x[axis] && (*sizes)[axis] != SymInt(1)) return false;
  return true;
}

void join_rotary(Program& program, Node& add) {
  if (!add.kwargs().empty() || add.args().size() != 2 || sizes_of(&add) == nullptr) return;
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const Node *straight = called(add.arg(i), op::kMul), *crossed = called(add.arg(1 - i), op::kMul);
    if (straight == nullptr || crossed == nullptr) continue;
    for (const size_t j : {size_t{0}, size_t{1}}) {
      Node *x = turned(crossed->arg(j).node()), *sin = crossed->arg(1 - j).node();
      if (x == nullptr) continue;
      Node* cos = straight->arg(straight->arg(0).node() == x ? 1 : 0).node();
      if ((straight->arg(0).node() != x && straight->arg(1).node() != x) || !are_for_rows(cos, *sizes_of(x)) ||
          !are_for_rows(sin, *sizes_of(x)) || *sizes_of(&add) != *sizes_of(x))
        continue;
      const auto point = program.graph->insert_before(&add);
      Node* whole = program.graph->call(std::string(kRotaryEmbedding), {x, cos, sin});
      whole->meta = add.meta;
      add.replace_all_uses_with(whole);
      return;
    }
  }
}

// Keys or values [N, M, S, D] that are repeated to [N, H, S, D], each head of them as neighbours; null for others.
Node* not_repeated(Node* node) {
  const SymShape* all = sizes_of(node);
  if (all == nullptr || all->size() != 4) return nullptr;
  Node* x = nullptr;
  if (node->is(kRepeated)) {
    const int64_t axis = node->arg(2).integer().value_or(-1);
    if (axis == 1 || axis == -3) x = node->arg(0).node();
  } else {
    if (!node->is(op::kReshape) && !node->is(op::kView) && !node->is(op::kUnsafeView)) return nullptr;
    Node* wide = node->arg(0).node();
    while (wide != nullptr && (wide->is(op::kClone) || wide->is(kContiguous))) wide = wide->arg(0).node();
    const Node* added = wide != nullptr && wide->is(kExpanded) ? called(wide->arg(0), op::kUnsqueeze) : nullptr;
    const SymShape* sizes = sizes_of(wide);
    if (added == nullptr || sizes == nullptr || sizes->size() != 5) return nullptr;
    const int64_t axis = added->arg(1).integer().value_or(0);
    if (axis == 2 || axis == -3) x = added->arg(0).node();
    if (x == nullptr || sizes_of(x) == nullptr || (*sizes)[1] != (*sizes_of(x))[1]) return nullptr;
  }
  const SymShape* own = sizes_of(x);
  if (own == nullptr || own->size() != 4) return nullptr;
  const std::optional<int64_t> heads = (*all)[1].constant(), shared = (*own)[1].constant();
  const bool fits = heads && shared && *shared > 0 && *heads % *shared == 0 && (*all)[0] == (*own)[0] &&
                    (*all)[2] == (*own)[2] && (*all)[3] == (*own)[3];
  return fits ? x : nullptr;
}

void join_groups(Node& attention) {
  Node *key = not_repeated(attention.arg(1).node()), *value = not_repeated(attention.arg(2).node());
  if (key == nullptr || value == nullptr || (*sizes_of(key))[1] != (*sizes_of(value))[1]) return;
  Node::Kwargs kwargs = attention.kwargs();
  for (const auto& [name, argument] : kwargs)
    if (name == "enable_gqa") return;
  kwargs.emplace_back("enable_gqa", true);
  attention.set_arg(1, key);
  attention.set_arg(2, value);
  attention.set_kwargs(std::move(kwargs));
}

// The mask as numbers to add, of four axes; made once for all that read it.
Node* added_mask(Program& program, Node& mask, std::unordered_map<const Node*, Node*>& made, const Node& reader) {
  const TensorMeta* meta = mask.meta.val.tensor();
  if (meta == nullptr || meta->sizes.size() > 4 || meta->sizes.size() < 2 ||
      (meta->dtype != DType::kBool && meta->dtype != DType::kF32))
    return &mask;
  if (const auto known = made.find(&mask); known != made.end()) return known->second;
  const auto point = program.graph->insert_before(const_cast<Node*>(&reader));
  Node* out = &mask;
  TensorMeta to = *meta;
  to.dtype = DType::kF32;
  if (meta->dtype == DType::kBool) {
    out = program.graph->call(std::string(kWhere), {out, 0.0, -std::numeric_limits<double>::infinity()});
    out->meta.val.value = to;
  }
  while (to.sizes.size() < 4) {
    to.sizes.insert(to.sizes.begin(), SymInt(1));
    out = program.graph->call(std::string(op::kUnsqueeze), {out, 0});
    out->meta.val.value = to;
  }
  return made[&mask] = out;
}

// Attention whose images and heads are one axis, [images * heads, rows, width], as that of one image: only four axes go
// into a plan. Returns the node of four axes; of another rank, the node itself.
Node* raised(Program& program, Node* attention) {
  for (size_t i = 0; i < 3; ++i) {
    const SymShape* sizes = sizes_of(attention->arg(i).node());
    if (sizes == nullptr || sizes->size() != 3) return attention;
  }
  const auto point = program.graph->insert_before(attention);
  const auto call = [&](std::string_view target, std::vector<Argument> args, Node::Kwargs kwargs = {}) {
    Node* node = program.graph->call(std::string(target), std::move(args), std::move(kwargs));
    infer_value(*node);
    return node;
  };
  std::vector<Argument> args = attention->args();
  for (size_t i = 0; i < 3; ++i) args[i] = call(op::kUnsqueeze, {args[i], 0});
  Node* whole = call(op::kAttention, std::move(args), attention->kwargs());
  attention->replace_all_uses_with(call(op::kSqueezeDim, {whole, 0}));
  return whole;
}

}  // namespace

void join_decoder_operators(Program& program) {
  std::unordered_map<const Node*, Node*> masks;
  for (Node* node : program.graph->nodes()) {
    if (node->is(op::kAdd)) join_rotary(program, *node);
    if (!node->is(op::kAttention)) continue;
    node = raised(program, node);
    join_groups(*node);
    if (Node* mask = node->arg(3).node()) node->set_arg(3, added_mask(program, *mask, masks, *node));
  }
}

}  // namespace qdq
