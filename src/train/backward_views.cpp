// Gradients of operators that only move elements.
#include <algorithm>

#include "train/backward.h"

namespace qdq {
namespace {

void add_into(const Tensor& to, const Tensor& grad) {
  float* into = to.data<float>();
  const float* from = grad.data<float>();
  for_each_index<2>(grad.sizes(), {to.strides().data(), grad.strides().data()},
                    [&](const auto& at) { into[at[0]] += from[at[1]]; });
}

// What an operator that only moves elements makes of other elements in the same places; `fill`, if given, is an
// argument that is 0 then.
Value moved(const Call<Tensor>& call, const Tensor& elements, std::string_view fill = {}) {
  std::vector<Value> args;
  std::vector<std::pair<std::string, Value>> kwargs;
  for (size_t i = 0; i < call.size(); ++i) {
    const SchemaArgument& argument = call.op().schema.arguments[i];
    const Value value = i == 0 ? Value(elements) : argument.name == fill && !call.is_none(i) ? Value(0.0) : call[i];
    if (argument.kwarg_only) kwargs.emplace_back(argument.name, value);
    else args.push_back(value);
  }
  return call.op().eval(Call<Tensor>(call.op(), std::move(args), std::move(kwargs)));
}

// A view shows elements of its argument. The same view of a tensor of zeros shows the places where its gradient
// belongs.
std::vector<Value> view(const BackwardCall& c) {
  const Tensor zeros = Tensor::empty(c.x(0).sizes(), DType::kF32);
  const Value places = moved(c.call, zeros);
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

// An operator that copies elements, to several places or to none: where it puts their numbers, counted from 1, tells
// where each comes from. Places that it fills otherwise have 0 then. Sums run in C order of the result.
std::vector<Value> movement(const BackwardCall& c) {
  const Shape& sizes = c.x(0).sizes();
  const Tensor numbers = Tensor::empty(sizes, DType::kF64), sums = Tensor::empty(sizes, DType::kF64);
  for (int64_t i = 0; i < numbers.numel(); ++i) numbers.data<double>()[i] = static_cast<double>(i + 1);
  const Value places = moved(c.call, numbers, "value");
  const Tensor from = places.get_if<Tensor>()->contiguous(), g = contiguous_f32(c.g());
  for (int64_t i = 0; i < g.numel(); ++i) {
    const auto number = static_cast<int64_t>(from.data<double>()[i]);
    if (number > 0) sums.data<double>()[number - 1] += g.data<float>()[i];
  }
  return {sums.to(DType::kF32)};
}

// Padding with a constant, pairs of (before, behind) from the last axis on: what lies between is all that counts.
std::vector<Value> pad(const BackwardCall& c) {
  const std::vector<int64_t> pads = c.call.integers(1);
  const bool is_constant = c.call.size() < 4 || c.call.string(2) == "constant";
  if (!is_constant || std::any_of(pads.begin(), pads.end(), [](int64_t count) { return count < 0; }))
    return movement(c);
  Tensor g = c.g();
  for (size_t i = 0; i + 1 < pads.size(); i += 2) {
    const int64_t axis = g.dim() - 1 - static_cast<int64_t>(i / 2);
    g = g.slice(axis, pads[i], pads[i] + c.x(0).size(axis));
  }
  return {Value(g)};
}

std::vector<Value> same(const BackwardCall& c) { return {c.g()}; }

// An operator that converts or copies: contiguous_f32(), which later entries call, refuses other dtypes.
std::vector<Value> converted(const BackwardCall& c) {
  contiguous_f32(c.x(0));
  return {contiguous_f32(c.g())};
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
  const Tensor out = Tensor::empty(c.x(0).sizes(), DType::kF32), indices = c.x(1).to(DType::kS64).contiguous(),
               g = contiguous_f32(c.g());
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
  for (const std::string_view target :
       {"view.default",    "_unsafe_view.default", "reshape.default", "flatten.using_ints", "unflatten.int",
        "squeeze.default", "squeeze.dim",          "squeeze.dims",    "unsqueeze.default",  "expand.default",
        "permute.default", "transpose.int",        "t.default",       "slice.Tensor",       "select.int",
        "narrow.default",  "chunk.default",        "split.Tensor",    "split.sizes",        "split_with_sizes.default",
        "unbind.int"})
    table.push_back({target, view});
  for (const std::string_view target : {"clone.default", "contiguous.default", "alias.default"})
    table.push_back({target, same});
  for (const std::string_view target : {"to.dtype", "to.dtype_layout", "_to_copy.default"})
    table.push_back({target, converted});
  table.push_back({"dropout.default", dropout});
  for (const std::string_view target : {"cat.default", "concat.default"}) table.push_back({target, cat});
  table.push_back({"stack.default", stack});
  table.push_back({"embedding.default", embedding, true, false});
  for (const std::string_view target : {"pad.default", "constant_pad_nd.default"}) table.push_back({target, pad});
  for (const std::string_view target :
       {"reflection_pad1d.default", "reflection_pad2d.default", "replication_pad1d.default",
        "replication_pad2d.default", "roll.default", "flip.default", "repeat.default", "tile.default",
        "pixel_shuffle.default", "pixel_unshuffle.default", "upsample_nearest2d.default", "upsample_nearest2d.vec"})
    table.push_back({target, movement});
  for (const std::string_view target : {"index.Tensor", "index_select.default", "gather.default"})
    table.push_back({target, movement, true, false});  // for the sake of their indices
  for (const std::string_view target :
       {"zeros_like.default", "ones_like.default", "full_like.default", "new_zeros.default", "new_ones.default",
        "new_full.default", "sym_size.int", "detach.default", "argmax.default"})
    table.push_back({target, nullptr});
}

}  // namespace qdq
