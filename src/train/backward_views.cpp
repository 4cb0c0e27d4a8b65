// Gradients of operators that only move elements.
#include <algorithm>

#include "train/backward.h"

namespace qdq {
namespace {

void add_into(const Tensor& to, const Tensor& grad) {
  float* into = to.data<float>();
  const float* from = grad.data<float>();
  for_each_index<2>(grad.sizes(), {to.strides().data(), grad.strides().data()}, [&](const auto& at) { into[at[0]] += from[at[1]]; });
}

// A view shows elements of its argument. The same view of a tensor of zeros shows the places where its gradient belongs.
std::vector<Value> view(const BackwardCall& c) {
  const Tensor zeros = Tensor::empty(c.x(0).sizes(), DType::kF32);
  std::vector<Value> args;
  std::vector<std::pair<std::string, Value>> kwargs;
  for (size_t i = 0; i < c.call.size(); ++i) {
    const SchemaArgument& argument = c.call.op().schema.arguments[i];
    if (argument.kwarg_only) kwargs.emplace_back(argument.name, c.call[i]);
    else args.push_back(i == 0 ? Value(zeros) : c.call[i]);
  }
  const Value places = c.call.op().eval(Call<Tensor>(c.call.op(), std::move(args), std::move(kwargs)));
  if (const Tensor* place = places.get_if<Tensor>()) {
    QDQ_CHECK(place->storage() == zeros.storage(), kInternal, c.call.op().target, " copied where it should show");
    add_into(*place, c.g());
    return {zeros};
  }
  const Value::List &all = *places.get_if<Value::List>(), &grads = *c.grad.get_if<Value::List>();
  for (size_t i = 0; i < all.size(); ++i)
    if (const Tensor* grad = grads.at(i).get_if<Tensor>()) add_into(*all[i].get_if<Tensor>(), *grad);
  return {zeros};
}

std::vector<Value> same(const BackwardCall& c) { return {c.g()}; }

// An operator that converts or copies: floats(), which later entries call, refuses other dtypes.
std::vector<Value> converted(const BackwardCall& c) {
  floats(c.x(0));
  return {floats(c.g())};
}

std::vector<Value> dropout(const BackwardCall& c) {
  QDQ_CHECK(!c.call.boolean(2), kUnsupported, "a dropout that drops has no gradient here");
  return {c.g()};
}

std::vector<Value> cat(const BackwardCall& c) {
  const int64_t axis = wrap_axis(c.call.integer(1), c.g().dim());
  Value::List out;
  int64_t begin = 0;
  for (const Tensor& part : c.call.tensors(0)) {
    if (part.dim() != c.g().dim()) {  // PyTorch lets an empty vector pass
      out.emplace_back();
      continue;
    }
    out.emplace_back(c.g().slice(axis, begin, begin + part.size(axis)));
    begin += part.size(axis);
  }
  return std::vector<Value>{Value(std::move(out))};
}

std::vector<Value> stack(const BackwardCall& c) {
  Value::List out;
  const int64_t axis = wrap_axis(c.call.integer(1), c.g().dim());
  for (int64_t i = 0; i < c.g().size(axis); ++i) out.emplace_back(c.g().select(axis, i));
  return std::vector<Value>{Value(std::move(out))};
}

std::vector<Value> embedding(const BackwardCall& c) {
  const Tensor out = Tensor::empty(c.x(0).sizes(), DType::kF32), indices = c.x(1).to(DType::kS64).contiguous(), g = floats(c.g());
  const int64_t width = out.size(1), padding = c.call.integer(2);
  for (int64_t i = 0; i < indices.numel(); ++i) {
    const int64_t row = indices.data<int64_t>()[i];
    if (row == padding) continue;
    for (int64_t k = 0; k < width; ++k) out.data<float>()[row * width + k] += g.data<float>()[i * width + k];
  }
  return {out};
}

}  // namespace

void add_view_backwards(std::vector<BackwardDef>& table) {
  for (const std::string_view target : {"torch.ops.aten.view.default",      "torch.ops.aten._unsafe_view.default",
                                        "torch.ops.aten.reshape.default",   "torch.ops.aten.flatten.using_ints",
                                        "torch.ops.aten.unflatten.int",     "torch.ops.aten.squeeze.default",
                                        "torch.ops.aten.squeeze.dim",       "torch.ops.aten.squeeze.dims",
                                        "torch.ops.aten.unsqueeze.default", "torch.ops.aten.expand.default",
                                        "torch.ops.aten.permute.default",   "torch.ops.aten.transpose.int",
                                        "torch.ops.aten.t.default",         "torch.ops.aten.slice.Tensor",
                                        "torch.ops.aten.select.int",        "torch.ops.aten.narrow.default",
                                        "torch.ops.aten.chunk.default",     "torch.ops.aten.split.Tensor",
                                        "torch.ops.aten.split.sizes",       "torch.ops.aten.split_with_sizes.default",
                                        "torch.ops.aten.unbind.int"})
    table.push_back({target, view});
  for (const std::string_view target : {"torch.ops.aten.clone.default", "torch.ops.aten.contiguous.default", "torch.ops.aten.alias.default"})
    table.push_back({target, same});
  for (const std::string_view target : {"torch.ops.aten.to.dtype", "torch.ops.aten.to.dtype_layout", "torch.ops.aten._to_copy.default"})
    table.push_back({target, converted});
  table.push_back({"torch.ops.aten.dropout.default", dropout});
  for (const std::string_view target : {"torch.ops.aten.cat.default", "torch.ops.aten.concat.default"}) table.push_back({target, cat});
  table.push_back({"torch.ops.aten.stack.default", stack});
  table.push_back({"torch.ops.aten.embedding.default", embedding, true, false});
  for (const std::string_view target : {"torch.ops.aten.zeros_like.default", "torch.ops.aten.ones_like.default", "torch.ops.aten.full_like.default",
                                        "torch.ops.aten.sym_size.int", "torch.ops.aten.detach.default", "torch.ops.aten.argmax.default"})
    table.push_back({target, nullptr});
}

}  // namespace qdq
