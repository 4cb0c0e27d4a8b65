#include "op/functional_write.h"

#include <string>
#include <utility>

#include "op/facts.h"
#include "op/targets.h"

namespace qdq {
namespace {

bool has_sizes_and_dtype_of(const Node& x, const Node& y) {
  const TensorMeta *a = x.meta.val.tensor(), *b = y.meta.val.tensor();
  return a != nullptr && b != nullptr && a->dtype == b->dtype && a->sizes == b->sizes;
}

}  // namespace

bool has_functional_form(const Node& write) {
  const OpDef* op = op_of(write);
  return op != nullptr && op->functional != nullptr;
}

std::string_view view_of_in_place(std::string_view target) {
  static constexpr std::pair<std::string_view, std::string_view> kViews[] = {
      {"torch.ops.aten.squeeze_.default", "torch.ops.aten.squeeze.default"},
      {"torch.ops.aten.squeeze_.dim", op::kSqueezeDim},
      {"torch.ops.aten.squeeze_.dims", op::kSqueezeDims},
      {"torch.ops.aten.unsqueeze_.default", op::kUnsqueeze},
      {"torch.ops.aten.transpose_.default", op::kTranspose},
      {"torch.ops.aten.swapaxes_.default", "torch.ops.aten.swapaxes.default"},
      {"torch.ops.aten.swapdims_.default", "torch.ops.aten.swapdims.default"},
      {"torch.ops.aten.t_.default", "torch.ops.aten.t.default"}};
  for (const auto& [in_place, view] : kViews)
    if (target == in_place) return view;
  return {};
}

bool takes_part(const Node& view) { return view.is(op::kSlice) || view.is(op::kSelect); }

std::vector<Node*> make_written(Graph& graph, Node& write, const std::vector<Node*>& chain,
                                const std::vector<Node*>& values) {
  const auto point = graph.insert_before(&write);
  const auto call = [&](const std::string& target, std::vector<Argument> args, Node::Kwargs kwargs, const Node& like) {
    Node* made = graph.call(target, std::move(args), std::move(kwargs));
    made->meta = write.meta;
    made->meta.val = like.meta.val;
    return made;
  };
  std::vector<Node*> made;
  Node* source = write.is(op::kCopyTo) ? write.arg(1).node() : nullptr;
  if (source != nullptr && chain.size() > 1 && write.users().empty() && has_sizes_and_dtype_of(*source, *chain[0])) {
    made.push_back(source);
  } else {
    std::vector<Argument> args = write.args();
    args[0] = values[0];
    made.push_back(call(op_of(write)->functional->target, std::move(args), write.kwargs(), *chain[0]));
  }
  for (size_t i = 0; i + 1 < chain.size(); ++i) {
    const Node& part = *chain[i];
    std::vector<Argument> args = {values[i + 1], made.back()};
    for (size_t k = 1; k < part.args().size(); ++k) args.push_back(part.arg(k));
    const std::string target(part.is(op::kSlice) ? op::kSliceScatter : op::kSelectScatter);
    made.push_back(call(target, std::move(args), part.kwargs(), *chain[i + 1]));
  }
  return made;
}

}  // namespace qdq
