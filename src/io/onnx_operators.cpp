// Every ONNX operator that qdq reads, and what it becomes.
#include <algorithm>
#include <cmath>

#include "io/onnx_import.h"
#include "io/onnx_layers.h"
#include "op/targets.h"

namespace qdq {
namespace {

using format::OnnxKind;

// One call with the same inputs.
void plain(OnnxCall& call) {
  std::vector<Argument> args;
  for (size_t i = 0; i < call.num_inputs(); ++i) args.emplace_back(call.tensor(i));
  call.set(call.call(call.op().aten, args));
}

// Of two operands that broadcast, a lone number is written as one, as Python code does.
void add(OnnxCall& call) {
  // linear without bias, and a constant row that nobody adds to anything else: the bias.
  for (const size_t i : {size_t{0}, size_t{1}}) {
    Node *product = call.tensor(i), *bias = call.tensor(1 - i);
    if (!product->is(op::kLinear) || !product->arg(2).is_none() || call.num_uses_of_input(i) != 1) continue;
    if (!call.import().is_constant(bias) || call.rank(1 - i) != 1 ||
        call.meta(1 - i).sizes[0] != call.meta_of(product->arg(1).node()).sizes[0])
      continue;
    product->set_arg(2, bias);
    return call.set(product);
  }
  Argument first = call.operand(0, 1);
  if (first.is_node()) call.set(call.call("add.Tensor", {first, call.operand(1, 0)}));
  else call.set(call.call("add.Tensor", {call.tensor(1), first}));
}

void mul(OnnxCall& call) {
  const Argument first = call.operand(0, 1);
  if (first.is_node()) call.set(call.call("mul.Tensor", {first, call.operand(1, 0)}));
  else call.set(call.call("mul.Tensor", {call.tensor(1), first}));
}

void sub(OnnxCall& call) {
  const Argument first = call.operand(0, 1);
  if (first.is_node()) call.set(call.call("sub.Tensor", {first, call.operand(1, 0)}));
  else call.set(call.call("rsub.Scalar", {call.tensor(1), first}));
}

void div(OnnxCall& call) {
  const bool is_float = is_floating(call.meta(0).dtype);
  Node* first = call.tensor(0);
  const Argument second = call.operand(1, 0);
  // ONNX divides integers toward zero.
  if (is_float) call.set(call.call("div.Tensor", {first, second}));
  else call.set(call.call("div.Tensor_mode", {first, call.tensor(1)}, "rounding_mode", "trunc"));
}

void mod(OnnxCall& call) {
  call.set(call.call(call.integer("fmod", 0) ? "fmod.Tensor" : "remainder.Tensor", {call.tensor(0), call.tensor(1)}));
}

void pow(OnnxCall& call) {
  const Argument exponent = call.operand(1, 0);
  call.set(call.call(exponent.is_node() ? "pow.Tensor_Tensor" : "pow.Tensor_Scalar", {call.tensor(0), exponent}));
}

void compare(OnnxCall& call) {
  const Argument second = call.operand(1, 0);
  call.set(call.call(concat(call.op().aten, second.is_node() ? ".Tensor" : ".Scalar"), {call.tensor(0), second}));
}

void many(OnnxCall& call) {
  Node* out = call.tensor(0);
  for (size_t i = 1; i < call.num_inputs(); ++i) out = call.call(call.op().aten, {out, call.tensor(i)});
  call.set(out);
}

void mean_of_many(OnnxCall& call) {
  Node* out = call.tensor(0);
  for (size_t i = 1; i < call.num_inputs(); ++i) out = call.call("add.Tensor", {out, call.tensor(i)});
  call.set(call.call("div.Tensor", {out, static_cast<double>(call.num_inputs())}));
}

void identity(OnnxCall& call) { call.same_as_input(0); }

void dropout(OnnxCall& call) {
  if (call.has_output(1)) call.refuse("gives its mask too, which qdq does not read");
  if (call.has(2) && call.number(2) != 0) call.refuse("is in training mode; export the model in inference mode");
  call.same_as_input(0);
}

void clip(OnnxCall& call) {
  const auto is_number = [&](size_t i) {
    return !call.has(i) || (call.is_constant(i) && call.constant(i).numel() == 1);
  };
  if (!is_number(1) || !is_number(2))
    return call.set(call.call("clamp.Tensor", {call.tensor(0), call.optional_tensor(1), call.optional_tensor(2)}));
  const bool is_float = is_floating(call.meta(0).dtype);
  const auto bound = [&](size_t i) -> Argument {
    if (!call.has(i)) return {};
    return is_float ? Argument(call.number(i)) : Argument(call.constant(i).item_int());
  };
  call.set(call.call(is_float && call.has(1) && call.has(2) ? "hardtanh.default" : "clamp.default",
                     {call.tensor(0), bound(1), bound(2)}));
}

void leaky_relu(OnnxCall& call) {
  call.set(call.call("leaky_relu.default", {call.tensor(0), call.real("alpha", 0.01)}));
}
void elu(OnnxCall& call) { call.set(call.call("elu.default", {call.tensor(0), call.real("alpha", 1)})); }
void celu(OnnxCall& call) { call.set(call.call("celu.default", {call.tensor(0), call.real("alpha", 1)})); }

void selu(OnnxCall& call) {
  if (std::fabs(call.real("alpha", 1.6732632) - 1.6732632) > 1e-5 ||
      std::fabs(call.real("gamma", 1.0507010) - 1.0507010) > 1e-5)
    call.refuse("has an alpha or gamma that aten.selu does not have");
  call.set(call.call("selu.default", {call.tensor(0)}));
}

// A slope for each channel stands as [C, 1, 1]; PyTorch has it as [C].
void prelu(OnnxCall& call) {
  const SymShape& slope = call.meta(1).sizes;
  SymInt count = 1;
  for (const SymInt& size : slope) count = count * size;
  const size_t trailing = call.rank(0) < 2 ? 0 : call.rank(0) - 2;  // axes behind the channels
  const bool by_channel = slope.size() > trailing && count == slope[slope.size() - 1 - trailing];
  if (count != SymInt(1) && !by_channel) call.refuse("has slopes that differ along other axes than the channels");
  call.set(call.call("prelu.default",
                     {call.tensor(0), call.call("reshape.default", {call.tensor(1), Argument(Argument::List{-1})})}));
}

void hard_sigmoid(OnnxCall& call) {
  const double alpha = call.real("alpha", 0.2), beta = call.real("beta", 0.5);
  if (std::fabs(alpha - 1.0 / 6) < 1e-6 && beta == 0.5)
    return call.set(call.call("hardsigmoid.default", {call.tensor(0)}));
  Node* line = call.call("add.Tensor", {call.call("mul.Tensor", {call.tensor(0), alpha}), beta});
  call.set(call.call("clamp.default", {line, 0, 1}));
}

void gelu(OnnxCall& call) {
  call.set(call.call("gelu.default", {call.tensor(0)}, "approximate", call.text("approximate", "none")));
}

void softmax(OnnxCall& call) { call.set(call.call(call.op().aten, {call.tensor(0), call.integer("axis", -1)})); }

void reduce(OnnxCall& call) {
  const size_t rank = call.rank(0);
  std::optional<std::vector<int64_t>> axes = call.axes(1, rank);
  if (axes && axes->empty()) axes.reset();
  if (!axes && call.integer("noop_with_empty_axes", 0) != 0) return call.same_as_input(0);
  if (!axes) {
    axes.emplace();
    for (size_t i = 0; i < rank; ++i) axes->push_back(static_cast<int64_t>(i));
  }
  call.set(call.call(call.op().aten, {call.tensor(0), OnnxCall::list(*axes), call.integer("keepdims", 1) != 0}));
}

void reduce_prod(OnnxCall& call) {
  const auto axes = call.axes(1, call.rank(0));
  if (!axes || axes->size() != 1)
    call.refuse("multiplies along ", axes ? axes->size() : call.rank(0), " axes at once, wanted one");
  call.set(call.call("prod.dim_int", {call.tensor(0), axes->front(), call.integer("keepdims", 1) != 0}));
}

void reduce_l2(OnnxCall& call) {
  const auto axes = call.axes(1, call.rank(0));
  call.set(call.call("linalg_vector_norm.default",
                     {call.tensor(0), 2, axes ? OnnxCall::list(*axes) : Argument(), call.integer("keepdims", 1) != 0}));
}

void arg_max(OnnxCall& call) {
  if (call.integer("select_last_index", 0) != 0) call.refuse("wants the last of equal values");
  call.set(call.call(call.op().aten, {call.tensor(0), call.integer("axis", 0), call.integer("keepdims", 1) != 0}));
}

void topk(OnnxCall& call) {
  Node* both = call.call("topk.default", {call.tensor(0), call.whole_number(1), call.integer("axis", -1),
                                          call.integer("largest", 1) != 0, call.integer("sorted", 1) != 0});
  for (const int output : {0, 1}) call.set(call.call("operator.getitem", {both, output}), static_cast<size_t>(output));
}

void concat_values(OnnxCall& call) {
  Argument::List all;
  for (size_t i = 0; i < call.num_inputs(); ++i) all.emplace_back(call.tensor(i));
  if (all.size() == 1) return call.same_as_input(0);
  call.set(call.call("cat.default", {Argument(std::move(all)), call.axis(call.integer("axis", 0), call.rank(0))}));
}

void split(OnnxCall& call) {
  const int64_t axis = call.axis(call.integer("axis", 0), call.rank(0));
  std::vector<int64_t> parts;
  if (call.has(1)) {
    parts = call.integers(1);
  } else {
    const auto size = call.meta(0).sizes[static_cast<size_t>(axis)].constant();
    if (!size) call.refuse("divides an axis whose size is open");
    const auto count = static_cast<int64_t>(call.num_outputs());
    const int64_t each = count == 0 ? 0 : *size / count + (*size % count != 0);
    int64_t rest = *size;
    for (int64_t i = 0; i < count; ++i, rest -= parts.back()) parts.push_back(std::min(rest, each));
  }
  if (parts.size() != call.num_outputs())
    call.refuse("has ", call.num_outputs(), " outputs for ", parts.size(), " parts");
  Node* all = call.call("split_with_sizes.default", {call.tensor(0), OnnxCall::list(parts), axis});
  for (size_t i = 0; i < parts.size(); ++i) call.set(call.call("operator.getitem", {all, static_cast<int64_t>(i)}), i);
}

void slice(OnnxCall& call) {
  const size_t rank = call.rank(0);
  const std::vector<SymInt> starts = call.sizes(1), ends = call.sizes(2);
  std::vector<int64_t> axes, steps(starts.size(), 1);
  for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  if (call.has(3)) axes = call.integers(3);
  if (call.has(4)) steps = call.integers(4);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    call.refuse("has starts, ends, axes or steps of different number");
  Node* out = call.tensor(0);
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t axis = call.axis(axes[i], rank);
    const auto start = starts[i].constant(), end = ends[i].constant();
    if (steps[i] == -1 && start == -1 && end && *end <= -(int64_t{1} << 31)) {
      out = call.call("flip.default", {out, Argument(Argument::List{axis})});
      continue;
    }
    if (steps[i] < 1) call.refuse("has the step ", steps[i], ", wanted a positive one or a whole axis backwards");
    const Argument to =
        end && *end >= (int64_t{1} << 31) - 1 ? Argument(INT64_MAX) : call.import().size_argument(ends[i]);
    out = call.call("slice.Tensor", {out, axis, call.import().size_argument(starts[i]), to, steps[i]});
  }
  call.set(out);
}

void gather(OnnxCall& call) {
  const int64_t axis = call.axis(call.integer("axis", 0), call.rank(0));
  Node *data = call.tensor(0), *index = call.tensor(1);
  const Tensor known = call.constant(1);
  if (known.defined() && known.dim() == 0) return call.set(call.call("select.int", {data, axis, known.item_int()}));
  if (axis == 0 && call.rank(0) == 2 && call.is_constant(0) && !known.defined())
    return call.set(call.call("embedding.default", {data, index}));
  Argument::List indices(static_cast<size_t>(axis));
  indices.emplace_back(index);
  call.set(call.call("index.Tensor", {data, Argument(std::move(indices))}));
}

void gather_elements(OnnxCall& call) {
  call.set(
      call.call("gather.default", {call.tensor(0), call.axis(call.integer("axis", 0), call.rank(0)), call.tensor(1)}));
}

void reshape(OnnxCall& call) {
  std::vector<SymInt> sizes = call.sizes(1);
  const SymShape& from = call.meta(0).sizes;
  size_t open = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == SymInt(0) && call.integer("allowzero", 0) == 0) {
      if (i >= from.size()) call.refuse("copies the size of axis ", i, ", its input has ", from.size());
      sizes[i] = from[i];
      if (!sizes[i].is_constant()) call.import().know_size(sizes[i], call.tensor(0), static_cast<int64_t>(i));
    }
    if (!sizes[i].is_constant() || sizes[i] == SymInt(-1)) ++open;
  }
  Argument::List arguments;
  for (const SymInt& size : sizes)
    arguments.push_back(open == 1 && !size.is_constant() ? Argument(-1) : call.import().size_argument(size));
  call.set(call.call("reshape.default", {call.tensor(0), Argument(std::move(arguments))}));
}

void flatten(OnnxCall& call) {
  const size_t rank = call.rank(0);
  const int64_t given = call.integer("axis", 1);
  const int64_t axis = given < 0 ? given + static_cast<int64_t>(rank) : given;
  if (axis < 0 || axis > static_cast<int64_t>(rank))
    call.refuse("has the axis ", given, " for an input of ", rank, " axes");
  if (axis == 1 && rank > 1) return call.set(call.call("flatten.using_ints", {call.tensor(0), 1}));
  // Axes before it become one, and those behind it.
  Argument::List sizes = {-1, 1};
  if (axis == 0) std::swap(sizes[0], sizes[1]);
  SymInt inner = 1;
  for (size_t i = static_cast<size_t>(axis); i < rank; ++i) inner = inner * call.meta(0).sizes[i];
  if (axis > 0 && !inner.is_constant()) call.refuse("joins axes of open size");
  if (axis > 0) sizes[1] = *inner.constant();
  call.set(call.call("reshape.default", {call.tensor(0), Argument(std::move(sizes))}));
}

void transpose(OnnxCall& call) {
  const auto rank = static_cast<int64_t>(call.rank(0));
  std::vector<int64_t> axes;
  for (int64_t i = rank; i-- > 0;) axes.push_back(i);
  axes = call.integers("perm", axes);
  std::vector<int64_t> moved;
  for (int64_t i = 0; i < static_cast<int64_t>(axes.size()); ++i)
    if (axes[static_cast<size_t>(i)] != i) moved.push_back(i);
  if (moved.empty()) return call.same_as_input(0);
  if (moved.size() == 2 && static_cast<int64_t>(axes.size()) == rank)
    return call.set(call.call("transpose.int", {call.tensor(0), moved[0], moved[1]}));
  call.set(call.call("permute.default", {call.tensor(0), OnnxCall::list(axes)}));
}

void squeeze(OnnxCall& call) {
  const auto axes = call.axes(1, call.rank(0));
  if (!axes) return call.set(call.call("squeeze.default", {call.tensor(0)}));
  if (axes->size() == 1) return call.set(call.call("squeeze.dim", {call.tensor(0), axes->front()}));
  call.set(call.call("squeeze.dims", {call.tensor(0), OnnxCall::list(*axes)}));
}

void unsqueeze(OnnxCall& call) {
  Node* out = call.tensor(0);
  std::vector<int64_t> axes = call.integers(1);
  for (int64_t& axis : axes) axis = call.axis(axis, call.rank(0) + axes.size());
  std::sort(axes.begin(), axes.end());
  for (const int64_t axis : axes) out = call.call("unsqueeze.default", {out, axis});
  call.set(out);
}

// Sizes of 1 on either side stretch to the other's.
void expand(OnnxCall& call) {
  const std::vector<SymInt> wanted = call.sizes(1);
  const SymShape& from = call.meta(0).sizes;
  const size_t rank = std::max(wanted.size(), from.size());
  Argument::List sizes;
  for (size_t i = 0; i < rank; ++i) {
    const SymInt own = i + from.size() < rank ? SymInt(1) : from[i + from.size() - rank];
    const SymInt given = i + wanted.size() < rank ? SymInt(1) : wanted[i + wanted.size() - rank];
    sizes.push_back(i + from.size() >= rank && (given == SymInt(1) || given == own)
                        ? Argument(-1)
                        : call.import().size_argument(given));
  }
  call.set(call.call("expand.default", {call.tensor(0), Argument(std::move(sizes))}));
}

void tile(OnnxCall& call) { call.set(call.call("repeat.default", {call.tensor(0), call.list(call.sizes(1))})); }

void pad(OnnxCall& call) {
  static constexpr std::pair<std::string_view, const char*> kModes[] = {
      {"constant", "constant"}, {"reflect", "reflect"}, {"edge", "replicate"}};
  const std::string mode = call.text("mode", "constant");
  const auto known = std::find_if(std::begin(kModes), std::end(kModes), [&](const auto& m) { return m.first == mode; });
  if (known == std::end(kModes)) call.refuse("pads in the mode ", mode, ", wanted constant, reflect or edge");
  const std::vector<int64_t> pads = call.integers(1);
  const size_t rank = call.rank(0);
  std::vector<int64_t> axes;
  for (size_t i = 0; i < rank; ++i) axes.push_back(static_cast<int64_t>(i));
  if (call.has(3)) axes = *call.axes(3, rank);
  if (pads.size() != 2 * axes.size()) call.refuse("has ", pads.size(), " pads for ", axes.size(), " axes");
  // PyTorch counts from the last axis, and only as far as it pads.
  std::vector<int64_t> reversed(2 * rank, 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t from_last = rank - 1 - static_cast<size_t>(axes[i]);
    reversed[2 * from_last] = pads[i];
    reversed[2 * from_last + 1] = pads[i + axes.size()];
  }
  while (!reversed.empty() && reversed.back() == 0 && reversed[reversed.size() - 2] == 0)
    reversed.resize(reversed.size() - 2);
  if (reversed.empty()) return call.same_as_input(0);
  std::vector<Argument> args = {call.tensor(0), OnnxCall::list(reversed), Argument(known->second)};
  if (call.has(2) && mode == "constant") args.emplace_back(call.number(2));
  call.set(call.call("pad.default", args));
}

void constant(OnnxCall& call) {
  if (const auto* value = call.attribute("value"); value && value->kind == OnnxKind::kTensor) return call.set(value->t);
  if (const auto* value = call.attribute("value_float")) return call.set(Tensor::scalar(value->f));
  if (const auto* value = call.attribute("value_int")) return call.set(Tensor::scalar(value->i));
  if (const auto* value = call.attribute("value_floats"))
    return call.set(
        Tensor::of<float>({static_cast<int64_t>(value->floats.size())}, std::span<const float>(value->floats)));
  if (const auto* value = call.attribute("value_ints"))
    return call.set(
        Tensor::of<int64_t>({static_cast<int64_t>(value->ints.size())}, std::span<const int64_t>(value->ints)));
  call.refuse("has a value that is no dense tensor of numbers");
}

void constant_of_shape(OnnxCall& call) {
  const auto* value = call.attribute("value");
  const Tensor fill = value && value->kind == OnnxKind::kTensor ? value->t : Tensor::scalar(0.0f);
  if (fill.numel() != 1) call.refuse("has a value of ", fill.numel(), " elements, wanted one");
  const std::vector<SymInt> sizes = call.sizes(0);
  constexpr int64_t kSmall = 64;  // a shape in the making
  if (sizes.size() == 1 && sizes[0].constant() && *sizes[0].constant() >= 0 && *sizes[0].constant() <= kSmall) {
    Tensor out = Tensor::empty({*sizes[0].constant()}, fill.dtype());
    out.copy_from(fill);
    return call.set(std::move(out));
  }
  const Argument number = is_floating(fill.dtype()) ? Argument(fill.item()) : Argument(fill.item_int());
  call.set(call.call("full.default", {call.list(sizes), number}, "dtype", fill.dtype()));
}

void cast(OnnxCall& call) {
  const int64_t number = call.integer("to", 0);
  const auto dtype = format::onnx_dtype(number);
  if (!dtype) call.refuse("makes values of data type ", number, ", which qdq does not have");
  if (*dtype == call.meta(0).dtype) return call.same_as_input(0);
  call.set(call.call("to.dtype", {call.tensor(0), *dtype}));
}

void cast_like(OnnxCall& call) {
  const DType dtype = call.meta(1).dtype;
  if (dtype == call.meta(0).dtype) return call.same_as_input(0);
  call.set(call.call("to.dtype", {call.tensor(0), dtype}));
}

void where(OnnxCall& call) { call.set(call.call("where.self", {call.tensor(0), call.tensor(1), call.tensor(2)})); }

void range(OnnxCall& call) {
  if (is_floating(call.meta(0).dtype)) {
    call.set(
        call.call("arange.start_step", {call.number(0), call.number(1), call.number(2)}, "dtype", call.meta(0).dtype));
    return;
  }
  std::vector<Argument> args;
  for (size_t i = 0; i < 3; ++i) args.push_back(call.import().size_argument(call.size(i)));
  call.set(call.call("arange.start_step", args, "dtype", DType::kS64));
}

void cumsum(OnnxCall& call) {
  if (call.integer("exclusive", 0) != 0 || call.integer("reverse", 0) != 0)
    call.refuse("sums exclusively or in reverse");
  call.set(call.call("cumsum.default", {call.tensor(0), call.whole_number(1)}));
}

void einsum(OnnxCall& call) {
  Argument::List all;
  for (size_t i = 0; i < call.num_inputs(); ++i) all.emplace_back(call.tensor(i));
  call.set(call.call("einsum.default", {call.text("equation", ""), Argument(std::move(all))}));
}

void depth_to_space(OnnxCall& call) {
  if (call.text("mode", "DCR") != "CRD") call.refuse("has the mode DCR, wanted CRD, which PyTorch's pixel_shuffle is");
  call.set(call.call("pixel_shuffle.default", {call.tensor(0), call.integer("blocksize", 1)}));
}

void trilu(OnnxCall& call) {
  const int64_t diagonal = call.has(1) ? call.whole_number(1) : 0;
  call.set(call.call(call.integer("upper", 1) ? "triu.default" : "tril.default", {call.tensor(0), diagonal}));
}

void shape(OnnxCall& call) {
  const SymShape& all = call.meta(0).sizes;
  const auto rank = static_cast<int64_t>(all.size());
  const auto bound = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const int64_t start = bound(call.integer("start", 0)), end = bound(call.integer("end", rank));
  for (int64_t i = start; i < end; ++i) call.import().know_size(all[static_cast<size_t>(i)], call.tensor(0), i);
  call.set(start < end ? std::vector<SymInt>(all.begin() + start, all.begin() + end) : std::vector<SymInt>(), true);
}

using Op = OnnxOperator;
constexpr Op kOperators[] = {{"Abs", plain, "abs.default"},
                             {"Add", add, "add.Tensor"},
                             {"And", plain, "logical_and.default"},
                             {"ArgMax", arg_max, "argmax.default"},
                             {"ArgMin", arg_max, "argmin.default"},
                             {"AveragePool", onnx::average_pool, nullptr},
                             {"BatchNormalization", onnx::batch_norm, nullptr},
                             {"Cast", cast, nullptr},
                             {"CastLike", cast_like, nullptr},
                             {"Ceil", plain, "ceil.default"},
                             {"Celu", celu, nullptr},
                             {"Clip", clip, nullptr},
                             {"Concat", concat_values, nullptr},
                             {"Constant", constant, nullptr},
                             {"ConstantOfShape", constant_of_shape, nullptr},
                             {"Conv", onnx::conv, nullptr},
                             {"ConvTranspose", onnx::conv_transpose, nullptr},
                             {"Cos", plain, "cos.default"},
                             {"CumSum", cumsum, nullptr},
                             {"DepthToSpace", depth_to_space, nullptr},
                             {"DequantizeLinear", onnx::dequantize_linear, nullptr},
                             {"Div", div, nullptr},
                             {"Dropout", dropout, nullptr},
                             {"DynamicQuantizeLinear", onnx::dynamic_quantize_linear, nullptr},
                             {"Einsum", einsum, nullptr},
                             {"Elu", elu, nullptr},
                             {"Equal", compare, "eq"},
                             {"Erf", plain, "erf.default"},
                             {"Exp", plain, "exp.default"},
                             {"Expand", expand, nullptr},
                             {"Flatten", flatten, nullptr},
                             {"Floor", plain, "floor.default"},
                             {"Gather", gather, nullptr},
                             {"GatherElements", gather_elements, nullptr},
                             {"Gelu", gelu, nullptr},
                             {"Gemm", onnx::gemm, nullptr},
                             {"GlobalAveragePool", onnx::global_average_pool, nullptr},
                             {"GlobalMaxPool", onnx::global_max_pool, nullptr},
                             {"Greater", compare, "gt"},
                             {"GreaterOrEqual", compare, "ge"},
                             {"GroupNormalization", onnx::group_norm, nullptr},
                             {"HardSigmoid", hard_sigmoid, nullptr},
                             {"HardSwish", plain, "hardswish.default"},
                             {"Identity", identity, nullptr},
                             {"InstanceNormalization", onnx::instance_norm, nullptr},
                             {"IsInf", plain, "isinf.default"},
                             {"IsNaN", plain, "isnan.default"},
                             {"LayerNormalization", onnx::layer_norm, nullptr},
                             {"LeakyRelu", leaky_relu, nullptr},
                             {"Less", compare, "lt"},
                             {"LessOrEqual", compare, "le"},
                             {"Log", plain, "log.default"},
                             {"LogSoftmax", softmax, "log_softmax.int"},
                             {"MatMul", onnx::matmul, nullptr},
                             {"Max", many, "maximum.default"},
                             {"MaxPool", onnx::max_pool, nullptr},
                             {"Mean", mean_of_many, nullptr},
                             {"Min", many, "minimum.default"},
                             {"Mish", plain, "mish.default"},
                             {"Mod", mod, nullptr},
                             {"Mul", mul, "mul.Tensor"},
                             {"Neg", plain, "neg.default"},
                             {"Not", plain, "logical_not.default"},
                             {"Or", plain, "logical_or.default"},
                             {"PRelu", prelu, nullptr},
                             {"Pad", pad, nullptr},
                             {"Pow", pow, nullptr},
                             {"QuantizeLinear", onnx::quantize_linear, nullptr},
                             {"Range", range, nullptr},
                             {"Reciprocal", plain, "reciprocal.default"},
                             {"ReduceL2", reduce_l2, nullptr},
                             {"ReduceLogSumExp", reduce, "logsumexp.default"},
                             {"ReduceMax", reduce, "amax.default"},
                             {"ReduceMean", reduce, "mean.dim"},
                             {"ReduceMin", reduce, "amin.default"},
                             {"ReduceProd", reduce_prod, nullptr},
                             {"ReduceSum", reduce, "sum.dim_IntList"},
                             {"Relu", plain, "relu.default"},
                             {"Reshape", reshape, nullptr},
                             {"Resize", onnx::resize, nullptr},
                             {"Round", plain, "round.default"},
                             {"Selu", selu, nullptr},
                             {"Shape", shape, nullptr},
                             {"Sigmoid", plain, "sigmoid.default"},
                             {"Sign", plain, "sign.default"},
                             {"Sin", plain, "sin.default"},
                             {"Slice", slice, nullptr},
                             {"Softmax", softmax, "softmax.int"},
                             {"Softplus", plain, "softplus.default"},
                             {"Split", split, nullptr},
                             {"Sqrt", plain, "sqrt.default"},
                             {"Squeeze", squeeze, nullptr},
                             {"Sub", sub, "sub.Tensor"},
                             {"Sum", many, "add.Tensor"},
                             {"Tanh", plain, "tanh.default"},
                             {"Tile", tile, nullptr},
                             {"TopK", topk, nullptr},
                             {"Transpose", transpose, nullptr},
                             {"Trilu", trilu, nullptr},
                             {"Unsqueeze", unsqueeze, nullptr},
                             {"Where", where, "where.self"},
                             {"Xor", plain, "logical_xor.default"}};

}  // namespace

const OnnxOperator* find_onnx_operator(std::string_view name) {
  for (const OnnxOperator& op : kOperators)
    if (op.name == name) return &op;
  return nullptr;
}

const OnnxOperator* find_onnx_operator_of(std::string_view aten) {
  for (const OnnxOperator& op : kOperators)
    if (op.import == plain && op.aten == aten) return &op;
  return nullptr;
}

}  // namespace qdq
