// Gradients of operators that only move elements.
#include <algorithm>

#include "op/targets.h"
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
Value moved(const Call<Tensor>& call, const Value& elements, std::string_view fill = {}) {
  std::vector<Value> args;
  std::vector<std::pair<std::string, Value>> kwargs;
  for (size_t i = 0; i < call.size(); ++i) {
    const SchemaArgument& argument = call.op().schema->arguments[i];
    const Value value = i == 0 ? elements : argument.name == fill && !call.is_none(i) ? Value(0.0) : call[i];
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

// Numbers for the elements of a tensor, counted on from `next`.
Tensor numbered(const Tensor& x, int64_t& next) {
  const Tensor numbers = Tensor::empty(x.sizes(), DType::kF64);
  for (double& number : numbers.span<double>()) number = static_cast<double>(next++);
  return numbers;
}

// Adds the gradients of a result to the elements that its numbers name, counted from `first`; 0 and others name none.
// Sums run in C order of the result.
void collect(const Value& places, const Value& grads, int64_t first, const Tensor& sums) {
  if (const Value::List* list = places.get_if<Value::List>()) {
    for (size_t i = 0; i < list->size(); ++i) collect((*list)[i], grads.get_if<Value::List>()->at(i), first, sums);
    return;
  }
  if (grads.is_none()) return;
  const Tensor from = places.get_if<Tensor>()->to(DType::kF64).contiguous(),
               g = contiguous_f32(*grads.get_if<Tensor>());
  for (int64_t i = 0; i < g.numel(); ++i) {
    const int64_t at = static_cast<int64_t>(from.data<double>()[i]) - first;
    if (at >= 0 && at < sums.numel()) sums.data<double>()[at] += g.data<float>()[i];
  }
}

// An operator that copies elements, to several places or to none: where it puts their numbers, counted from 1, tells
// where each comes from. Places that it fills otherwise have 0 then.
std::vector<Value> movement(const BackwardCall& c) {
  int64_t next = 1;
  const Value places = moved(c.call, numbered(c.x(0), next), "value");
  const Tensor sums = Tensor::empty(c.x(0).sizes(), DType::kF64);
  collect(places, c.grad, 1, sums);
  return {sums.to(DType::kF32)};
}

// The same for an operator on a list of tensors.
std::vector<Value> movement_of_list(const BackwardCall& c) {
  const std::vector<Tensor> parts = c.call.tensors(0);
  int64_t next = 1;
  Value::List numbers, grads;
  for (const Tensor& part : parts) numbers.emplace_back(numbered(part, next));
  const Value places = moved(c.call, Value(std::move(numbers)));
  int64_t first = 1;
  for (const Tensor& part : parts) {
    const Tensor sums = Tensor::empty(part.sizes(), DType::kF64);
    collect(places, c.grad, first, sums);
    first += part.numel();
    grads.emplace_back(sums.to(DType::kF32));
  }
  return {Value(std::move(grads))};
}

// An operator that writes elements of one tensor (or a number) over those of the first, whose places it keeps.
template <size_t source> std::vector<Value> overwriting(const BackwardCall& c) {
  int64_t next = 1;
  std::vector<Value> args, out(c.call.size());
  std::vector<std::pair<std::string, Value>> kwargs;
  int64_t first_of_source = 0;
  for (size_t i = 0; i < c.call.size(); ++i) {
    Value value = c.call[i];
    if (i == 0) {
      value = numbered(c.x(0), next);
    } else if (i == source) {
      first_of_source = next;
      value = value.is_tensor() ? Value(numbered(c.x(source), next)) : Value(0.0);
    }
    if (c.call.op().schema->arguments[i].kwarg_only) kwargs.emplace_back(c.call.op().schema->arguments[i].name, value);
    else args.push_back(std::move(value));
  }
  const Value places = c.call.op().eval(Call<Tensor>(c.call.op(), std::move(args), std::move(kwargs)));
  for (const size_t i : {size_t{0}, source}) {
    if (!c.wanted[i] || !c.call[i].is_tensor()) continue;
    const Tensor sums = Tensor::empty(c.x(i).sizes(), DType::kF64);
    collect(places, c.grad, i == 0 ? 1 : first_of_source, sums);
    out[i] = sums.to(DType::kF32);
  }
  return out;
}

// What another operator, which reads where this one adds, makes of the gradient.
Tensor read_back(std::string_view op, std::vector<Value> args) {
  const OpDef* def = find_op(op::aten(op));
  return def->eval(Call<Tensor>(*def, std::move(args))).get_if<Tensor>()->to(DType::kF32);
}

std::vector<Value> scatter_add(const BackwardCall& c) {
  std::vector<Value> out(4);
  out[0] = c.g();
  if (c.wanted[3]) {
    Tensor grad = read_back("gather.default", {contiguous_f32(c.g()), c.call[1], c.call[2]});
    // The index may be smaller than the source.
    const Tensor whole = Tensor::empty(c.x(3).sizes(), DType::kF32);
    Tensor part = whole;
    for (int64_t axis = 0; axis < grad.dim(); ++axis) part = part.slice(axis, 0, grad.size(axis));
    part.copy_from(grad);
    out[3] = whole;
  }
  return out;
}

std::vector<Value> index_add(const BackwardCall& c) {
  std::vector<Value> out(5);
  out[0] = c.g();
  if (c.wanted[3])
    out[3] = read_back("mul.Scalar",
                       {read_back("index_select.default", {contiguous_f32(c.g()), c.call[1], c.call[2]}), c.call[4]});
  return out;
}

std::vector<Value> index_put(const BackwardCall& c) {
  if (!c.call.boolean(3)) return overwriting<2>(c);
  std::vector<Value> out(4);
  out[0] = c.g();
  if (c.wanted[2]) out[2] = sum_to_shape(read_back("index.Tensor", {contiguous_f32(c.g()), c.call[1]}), c.x(2).sizes());
  return out;
}

// Patches put back are those that im2col takes.
std::vector<Value> col2im(const BackwardCall& c) {
  return {read_back("im2col.default", {contiguous_f32(c.g()), c.call[2], c.call[3], c.call[4], c.call[5]})
              .reshape(c.x(0).sizes())};
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

// Those that look at the same elements otherwise.
constexpr std::string_view kViews[] = {"view.default",
                                       "_unsafe_view.default",
                                       "reshape.default",
                                       "flatten.using_ints",
                                       "unflatten.int",
                                       "squeeze.default",
                                       "squeeze.dim",
                                       "squeeze.dims",
                                       "unsqueeze.default",
                                       "expand.default",
                                       "permute.default",
                                       "transpose.int",
                                       "t.default",
                                       "slice.Tensor",
                                       "select.int",
                                       "narrow.default",
                                       "chunk.default",
                                       "split.Tensor",
                                       "split.sizes",
                                       "split_with_sizes.default",
                                       "unbind.int",
                                       "expand_as.default",
                                       "broadcast_to.default",
                                       "view_as.default",
                                       "reshape_as.default",
                                       "ravel.default",
                                       "swapaxes.default",
                                       "swapdims.default",
                                       "movedim.int",
                                       "movedim.intlist",
                                       "diagonal.default",
                                       "linalg_diagonal.default",
                                       "unfold.default",
                                       "as_strided.default",
                                       "_reshape_alias.default",
                                       "tensor_split.sections",
                                       "tensor_split.indices",
                                       "hsplit.int",
                                       "hsplit.array",
                                       "vsplit.int",
                                       "vsplit.array",
                                       "dsplit.int",
                                       "dsplit.array",
                                       "mT.default",
                                       "adjoint.default",
                                       "numpy_T.default",
                                       "atleast_1d.default",
                                       "atleast_2d.default",
                                       "atleast_3d.default"};

// Those that give elements other places.
constexpr std::string_view kMovements[] = {"reflection_pad1d.default",
                                           "reflection_pad2d.default",
                                           "replication_pad1d.default",
                                           "replication_pad2d.default",
                                           "roll.default",
                                           "flip.default",
                                           "repeat.default",
                                           "tile.default",
                                           "pixel_shuffle.default",
                                           "pixel_unshuffle.default",
                                           "upsample_nearest2d.default",
                                           "upsample_nearest2d.vec",
                                           "reflection_pad3d.default",
                                           "replication_pad3d.default",
                                           "_pad_circular.default",
                                           "upsample_nearest1d.default",
                                           "upsample_nearest1d.vec",
                                           "upsample_nearest3d.default",
                                           "upsample_nearest3d.vec",
                                           "_upsample_nearest_exact1d.default",
                                           "_upsample_nearest_exact1d.vec",
                                           "_upsample_nearest_exact2d.default",
                                           "_upsample_nearest_exact2d.vec",
                                           "_upsample_nearest_exact3d.default",
                                           "_upsample_nearest_exact3d.vec",
                                           "channel_shuffle.default",
                                           "tril.default",
                                           "triu.default",
                                           "diag_embed.default",
                                           "diag.default",
                                           "diagflat.default",
                                           "rot90.default",
                                           "fliplr.default",
                                           "flipud.default",
                                           "im2col.default",
                                           "repeat_interleave.self_int",
                                           "view_copy.default",
                                           "_reshape_copy.default",
                                           "squeeze_copy.default",
                                           "squeeze_copy.dim",
                                           "squeeze_copy.dims",
                                           "unsqueeze_copy.default",
                                           "expand_copy.default",
                                           "permute_copy.default",
                                           "transpose_copy.int",
                                           "t_copy.default",
                                           "slice_copy.Tensor",
                                           "select_copy.int",
                                           "unfold_copy.default",
                                           "as_strided_copy.default",
                                           "diagonal_copy.default",
                                           "split_copy.Tensor",
                                           "split_with_sizes_copy.default",
                                           "unbind_copy.int",
                                           "unsafe_split.Tensor",
                                           "unsafe_split_with_sizes.default",
                                           "unsafe_chunk.default"};

}  // namespace

void add_view_backwards(std::vector<BackwardDef>& table) {
  for (const std::string_view target : kViews) table.push_back({target, view});
  for (const std::string_view target :
       {"clone.default", "contiguous.default", "alias.default", "alias_copy.default", "lift_fresh_copy.default",
        "conj.default", "conj_physical.default", "_conj_physical.default", "resolve_conj.default",
        "resolve_neg.default", "real.default"})
    table.push_back({target, same});
  for (const std::string_view target :
       {"to.dtype", "to.dtype_layout", "_to_copy.default", "to.device", "to.other", "type_as.default"})
    table.push_back({target, converted});
  table.push_back({"dropout.default", dropout});
  for (const std::string_view target : {"cat.default", "concat.default"}) table.push_back({target, cat});
  table.push_back({"stack.default", stack});
  table.push_back({"embedding.default", embedding, true, false});
  for (const std::string_view target : {"pad.default", "constant_pad_nd.default"}) table.push_back({target, pad});
  for (const std::string_view target : kMovements) table.push_back({target, movement});
  for (const std::string_view target :
       {"hstack.default", "vstack.default", "row_stack.default", "dstack.default", "column_stack.default",
        "block_diag.default", "meshgrid.default", "meshgrid.indexing", "cartesian_prod.default",
        "broadcast_tensors.default", "atleast_1d.Sequence", "atleast_2d.Sequence", "atleast_3d.Sequence"})
    table.push_back({target, movement_of_list});
  // The second of these is what they write.
  const auto writes = [&](std::string_view target, Backward backward) {
    table.push_back({target, backward, true, false});
  };
  writes("scatter.src", overwriting<3>);
  writes("scatter.value", overwriting<3>);
  writes("slice_scatter.default", overwriting<1>);
  writes("select_scatter.default", overwriting<1>);
  writes("diagonal_scatter.default", overwriting<1>);
  writes("index_copy.default", overwriting<3>);
  writes("index_fill.int_Scalar", overwriting<3>);
  writes("index_fill.int_Tensor", overwriting<3>);
  writes("masked_scatter.default", overwriting<2>);
  writes("scatter_add.default", scatter_add);
  writes("index_add.default", index_add);
  writes("index_put.default", index_put);
  writes("col2im.default", col2im);
  for (const std::string_view target :
       {"index.Tensor", "index_select.default", "gather.default", "_unsafe_index.Tensor", "take.default",
        "take_along_dim.default", "masked_select.default", "max_unpool2d.default", "max_unpool3d.default"})
    table.push_back({target, movement, true, false});  // for the sake of their indices
  for (const std::string_view target :
       {"zeros_like.default", "ones_like.default", "full_like.default", "new_zeros.default", "new_ones.default",
        "new_full.default", "sym_size.int", "detach.default", "detach_copy.default", "argmax.default", "argmin.default",
        "empty_like.default", "new_empty.default", "one_hot.default", "argsort.default", "argsort.stable",
        "count_nonzero.default", "nonzero.default"})
    table.push_back({target, nullptr});
}

}  // namespace qdq
