#include "io/onnx/chains.h"

#include <algorithm>

#include "tensor/strings.h"

namespace qdq {

Node* cast_to(OnnxCall& call, Node* node, DType dtype) {
  return call.meta_of(node).dtype == dtype ? node : call.call("to.dtype", {node, dtype});
}

SymInt size_along(OnnxCall& call, Node* node, size_t axis) {
  const SymInt size = call.extent(node, axis);
  call.import().know_size(size, node, static_cast<int64_t>(axis));
  return size;
}

SymInt add_sizes(OnnxCall& call, const SymInt& a, const SymInt& b) {
  const SymInt out = a + b;
  call.import().know_size(out, "operator.add", a, b);
  return out;
}
SymInt subtract_sizes(OnnxCall& call, const SymInt& a, const SymInt& b) {
  const SymInt out = a - b;
  call.import().know_size(out, "operator.sub", a, b);
  return out;
}
SymInt multiply_sizes(OnnxCall& call, const SymInt& a, const SymInt& b) {
  const SymInt out = a * b;
  call.import().know_size(out, "operator.mul", a, b);
  return out;
}
SymInt divide_sizes(OnnxCall& call, const SymInt& a, const SymInt& b) {
  const SymInt out = a.floor_div(b);
  call.import().know_size(out, "operator.floordiv", a, b);
  return out;
}
Argument as_argument(OnnxCall& call, const SymInt& size) { return call.import().size_argument(size); }

SymInt as_size(OnnxCall& call, Node* integer) {
  const Tensor known = call.import().constant_of(integer);
  if (known.defined() && known.numel() == 1) return known.reshape({}).item_int();
  Node* item = call.call_as_it_is("item.default", {cast_to(call, integer, DType::kS64)});
  const auto* size = std::get_if<SymInt>(&item->meta.val.value);
  if (size == nullptr) call.refuse("computes a size of several integers");
  call.import().know_size(*size, item);
  return *size;
}

int64_t known_number(OnnxCall& call, size_t i) {
  const Tensor known = call.wanted_constant(i);
  if (known.numel() != 1 || is_floating(known.dtype()))
    call.refuse("needs an integer as its input ", i, ", found ", to_string(known.dtype()), to_string(known.sizes()));
  return known.reshape({}).item_int();
}

Node* count_up(OnnxCall& call, const SymInt& count) {
  constexpr int64_t kMost = 1 << 20;  // longer ones are made while the model runs
  if (const auto known = count.constant(); known && *known <= kMost) {
    Tensor out = Tensor::empty({std::max<int64_t>(*known, 0)}, DType::kS64);
    for (int64_t i = 0; i < *known; ++i) out.data<int64_t>()[i] = i;
    return call.import().constant(std::move(out), "range");
  }
  return call.call("arange.default", {as_argument(call, count)}, "dtype", DType::kS64);
}

Node* along_axis(OnnxCall& call, Node* vector, int64_t axis, size_t rank) {
  if (rank == 1) return vector;
  Argument::List sizes(rank, Argument(1));
  sizes[static_cast<size_t>(axis)] = -1;
  return call.call("reshape.default", {vector, Argument(std::move(sizes))});
}

Node* reversed(OnnxCall& call, Node* node, int64_t axis) {
  return call.call("flip.default", {node, Argument(Argument::List{axis})});
}

std::vector<Node*> split_parts(OnnxCall& call, Node* x, const std::vector<int64_t>& lengths, int64_t axis) {
  std::vector<Node*> out;
  int64_t all_lengths = 0;
  bool is_possible = true;
  for (const int64_t length : lengths)
    is_possible &= length >= 0 && !__builtin_add_overflow(all_lengths, length, &all_lengths);
  if (is_possible && call.import().is_constant(x) && call.extent(x, static_cast<size_t>(axis)) == all_lengths) {
    int64_t from = 0;
    for (const int64_t length : lengths) {
      out.push_back(call.call("slice.Tensor", {x, axis, from, from + length}));
      from += length;
    }
    return out;
  }
  Node* all = call.call("split_with_sizes.default", {x, OnnxCall::list(lengths), axis});
  for (size_t i = 0; i < lengths.size(); ++i)
    out.push_back(call.call("operator.getitem", {all, static_cast<int64_t>(i)}));
  return out;
}

Node* constant_vector(OnnxCall& call, const std::vector<int64_t>& values) {
  return call.import().constant(Tensor::of<int64_t>({static_cast<int64_t>(values.size())}, values), "indices");
}

Tensor string_vector(const std::vector<std::string>& texts) {
  return string_tensor({static_cast<int64_t>(texts.size())}, texts);
}

void along_rows(OnnxCall& call, const std::function<Node*(Node* x, int64_t axis)>& body) {
  Node* x = call.tensor(0);
  const size_t rank = call.rank(0);
  if (call.opset() >= 13) return call.set(body(x, rank == 0 ? 0 : call.axis(call.integer("axis", -1), rank)));
  const int64_t given = call.integer("axis", 1);
  const int64_t axis = given == static_cast<int64_t>(rank) ? given : rank == 0 ? 0 : call.axis(given, rank);
  const SymShape sizes = call.meta(0).sizes;
  // Where all those axes but one have the size 1, it goes along that one.
  std::vector<int64_t> wide;
  for (int64_t i = axis; i < static_cast<int64_t>(rank); ++i)
    if (!(sizes[static_cast<size_t>(i)] == SymInt(1))) wide.push_back(i);
  const int64_t last = std::max<int64_t>(static_cast<int64_t>(rank) - 1, 0);
  if (wide.size() < 2 && axis <= last) return call.set(body(x, wide.empty() ? last : wide[0]));
  if (axis > last) {  // rows of one element each
    Node* out = body(call.call("unsqueeze.default", {x, last + 1}), last + 1);
    return call.set(call.call("squeeze.dim", {out, last + 1}));
  }
  Argument::List back;
  for (int64_t i = axis; i <= last; ++i) back.push_back(as_argument(call, size_along(call, x, i)));
  Node* rows = body(call.call("flatten.using_ints", {x, axis, -1}), axis);
  call.set(call.call("unflatten.int", {rows, axis, Argument(std::move(back))}));
}

}  // namespace qdq
