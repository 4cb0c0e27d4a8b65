// ATen operators on complex numbers as ONNX ones, which know pairs: a complex tensor is written as one of real numbers
// with a last axis of 2.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "io/onnx/formula.h"
#include "tensor/complex.h"

namespace qdq {
namespace {

constexpr int64_t kFirstWithAxesAsInput = 18, kFirstWithAxisOfDft = 20;  // opsets

bool is_pairs(AtenCall& call, size_t i) { return is_complex(call.meta(i).dtype); }
// Where the parts stand in an argument's pairs.
int64_t axis_of_parts(AtenCall& call, size_t i) { return static_cast<int64_t>(call.rank(i)); }

std::string with_last_axis(AtenCall& call, const std::string& x) {
  return call.emit("Unsqueeze", {x, call.integers_as_tensor({-1})});
}
std::string vector_of(AtenCall& call, float first, float second) {
  return call.file().constant(Tensor::of<float>({2}, {first, second}), "parts");
}
// Real numbers [...] as pairs [..., 2], the other part being 0.
std::string pairs_of(AtenCall& call, size_t i, bool are_imaginary = false) {
  std::vector<int64_t> pads(2 * (call.rank(i) + 1), 0);
  pads[are_imaginary ? call.rank(i) : pads.size() - 1] = 1;
  const std::string x = call.cast(call.tensor(i), call.meta(i).dtype, DType::kF32);
  return call.emit("Pad", {with_last_axis(call, x), call.integers_as_tensor(pads)});
}
// An operand, a tensor or a number, as pairs.
std::string operand_as_pairs(AtenCall& call, size_t i) {
  if (!call.arg(i).is_node()) return vector_of(call, static_cast<float>(call.number(i)), 0);
  return is_pairs(call, i) ? call.tensor(i) : pairs_of(call, i);
}
// One part of pairs, with a last axis of 1.
std::string part(AtenCall& call, size_t i, int64_t which) {
  return call.emit("Gather", {call.tensor(i), call.integers_as_tensor({which})}, {"axis", axis_of_parts(call, i)});
}

// Fourier transforms.

std::string dft(AtenCall& call, const std::string& x, int64_t axis, bool is_inverse, bool is_onesided) {
  if (call.file().opset() < kFirstWithAxisOfDft)
    return call.emit("DFT", {x}, {"axis", axis, "inverse", is_inverse, "onesided", is_onesided});
  return call.emit("DFT", {x, "", call.scalar(static_cast<double>(axis), DType::kS64)},
                   {"inverse", is_inverse, "onesided", is_onesided});
}
// The first `wanted` elements along an axis of pairs, with zeros behind them if there are fewer.
std::string with_extent(AtenCall& call, const std::string& x, int64_t axis, const SymInt& own, const SymInt& wanted) {
  if (own == wanted) return x;
  if (!own.is_constant() || !wanted.is_constant()) call.refuse("cuts or lengthens an axis of open size");
  const int64_t missing = *wanted.constant() - *own.constant();
  if (missing < 0) {
    const auto one = [&](int64_t value) { return call.integers_as_tensor({value}); };
    return call.emit("Slice", {x, one(0), one(*wanted.constant()), one(axis)});
  }
  std::vector<int64_t> pads(2 * (call.rank(0) + 1), 0);
  pads[pads.size() / 2 + static_cast<size_t>(axis)] = missing;
  return call.emit("Pad", {x, call.integers_as_tensor(pads)});
}
std::string scaled(AtenCall& call, const std::string& x, double factor) {
  return factor == 1 ? x : call.emit("Mul", {x, call.scalar(factor, DType::kF32)});
}
// What PyTorch multiplies by, for transforms of these axes; `by` is its number of a normalization, and an inverse DFT
// of ONNX has divided by all sizes already.
double factor_of(AtenCall& call, const std::vector<SymInt>& sizes, int64_t by, bool is_inverse) {
  if (by == (is_inverse ? 2 : 0)) return 1;
  double elements = 1;
  for (const SymInt& size : sizes) {
    const auto known = size.constant();
    if (!known) call.refuse("is scaled by an open size");
    elements *= static_cast<double>(*known);
  }
  const double scale = by == 0 ? 1 : by == 1 ? 1 / std::sqrt(elements) : 1 / elements;
  return is_inverse ? scale * elements : scale;
}
std::vector<SymInt> sizes_along(const SymShape& sizes, const std::vector<int64_t>& axes) {
  std::vector<SymInt> out;
  for (const int64_t axis : axes) out.push_back(sizes[static_cast<size_t>(axis)]);
  return out;
}

void fft_of_real(AtenCall& call) {
  const std::vector<int64_t> axes = call.axes(1, call.rank(0));
  std::string x = dft(call, with_last_axis(call, call.tensor(0)), axes.back(), false, call.flag(3));
  for (size_t i = axes.size() - 1; i-- > 0;) x = dft(call, x, axes[i], false, false);
  call.same_as(scaled(call, x, factor_of(call, sizes_along(call.meta(0).sizes, axes), call.integer(2), false)));
}
void fft_of_complex(AtenCall& call) {
  const std::vector<int64_t> axes = call.axes(1, call.rank(0));
  const bool is_inverse = !call.flag(3);
  std::string x = call.tensor(0);
  for (const int64_t axis : axes) x = dft(call, x, axis, is_inverse, false);
  call.same_as(scaled(call, x, factor_of(call, sizes_along(call.meta(0).sizes, axes), call.integer(2), is_inverse)));
}
// The missing numbers are the conjugates of those that are there; then only real parts are left. `by`: the number of
// the normalization.
void finish_real(AtenCall& call, std::string x, const std::vector<int64_t>& axes, int64_t length, int64_t by) {
  const int64_t last = axes.back(), missing = length - (length / 2 + 1);
  for (size_t i = 0; i + 1 < axes.size(); ++i) x = dft(call, x, axes[i], true, false);
  if (missing > 0) {
    const auto one = [&](int64_t value) { return call.integers_as_tensor({value}); };
    const std::string mirrored = call.emit("Slice", {x, one(missing), one(0), one(last), one(-1)});
    x = call.emit("Concat", {x, call.emit("Mul", {mirrored, vector_of(call, 1, -1)})}, {"axis", last});
  }
  x = dft(call, x, last, true, false);
  x = scaled(call, x, factor_of(call, sizes_along(call.result().sizes, axes), by, true));
  call.finish("Gather", {x, call.scalar(0, DType::kS64)}, {"axis", axis_of_parts(call, 0)});
}
void fft_to_real(AtenCall& call) {
  finish_real(call, call.tensor(0), call.axes(1, call.rank(0)), call.integer(3), call.integer(2));
}

// PyTorch's number of a normalization by its name: what the named function says of the transform and of its inverse.
int64_t normalization(AtenCall& call, size_t i, bool is_inverse) {
  if (call.is_none(i) || call.arg(i) == Argument("backward")) return is_inverse ? 2 : 0;
  return call.arg(i) == Argument("ortho") ? 1 : is_inverse ? 0 : 2;
}
// The axes of torch.fft's functions, (self, n or s, dim, norm), and how many elements of each are transformed.
struct Transformed {
  std::vector<int64_t> axes;
  std::vector<SymInt> sizes;
  bool has_last = false;  // whether the last size was given
};
Transformed transformed(AtenCall& call) {
  const auto rank = static_cast<int64_t>(call.rank(0));
  const std::vector<int64_t> given = call.is_none(1) ? std::vector<int64_t>() : call.integers(1);
  Transformed out;
  if (!call.is_none(2)) out.axes = call.axes(2, call.rank(0));
  for (int64_t axis = given.empty() ? 0 : rank - static_cast<int64_t>(given.size()); call.is_none(2) && axis < rank;)
    out.axes.push_back(axis++);
  out.sizes = sizes_along(call.meta(0).sizes, out.axes);
  for (size_t i = 0; i < given.size(); ++i)
    if (given[i] != -1) out.sizes[i] = given[i];
  out.has_last = !given.empty() && given.back() != -1;
  return out;
}
// The operand of torch.fft's functions as pairs, cut or lengthened.
std::string operand_of(AtenCall& call, const Transformed& how, const std::string& x) {
  std::string out = x;
  for (size_t i = 0; i < how.axes.size(); ++i) {
    const SymInt& own = call.meta(0).sizes[static_cast<size_t>(how.axes[i])];
    out = with_extent(call, out, how.axes[i], own, how.sizes[i]);
  }
  return out;
}
// fft_fft, fft_ifft, fft_rfft, and the same of several axes
template <bool is_inverse, bool is_onesided> void fft(AtenCall& call) {
  const Transformed how = transformed(call);
  std::string x =
      operand_of(call, how,
                 is_pairs(call, 0) ? call.tensor(0)
                                   : with_last_axis(call, call.cast(call.tensor(0), call.meta(0).dtype, DType::kF32)));
  for (size_t i = how.axes.size(); i-- > 0;)
    x = dft(call, x, how.axes[i], is_inverse, is_onesided && i + 1 == how.axes.size());
  call.same_as(scaled(call, x, factor_of(call, how.sizes, normalization(call, 3, is_inverse), is_inverse)));
}
// fft_irfft, fft_irfft2, fft_irfftn
void fft_to_real_of_torch(AtenCall& call) {
  Transformed how = transformed(call);
  const auto last = how.sizes.back().constant();
  if (!last) call.refuse("makes a signal of open size");
  const int64_t length = how.has_last ? *last : 2 * (*last - 1);
  how.sizes.back() = length / 2 + 1;
  finish_real(call, operand_of(call, how, operand_as_pairs(call, 0)), how.axes, length, normalization(call, 3, true));
}

// ONNX's frames stand in front of the frequencies.
void short_time(AtenCall& call) {
  const bool has_batch = call.rank(0) == 2;
  const int64_t length = call.integer(1), step = call.is_none(2) ? length / 4 : call.integer(2),
                window = call.is_none(3) ? length : call.integer(3), left = (length - window) / 2;
  if (is_pairs(call, 0) || (!call.is_none(4) && is_pairs(call, 4))) call.refuse("has a complex signal or window");
  if (call.is_none(4) && window < length) call.refuse("has a window shorter than its frames and no numbers of it");
  std::string weights = call.is_none(4) ? "" : call.tensor(4);
  if (window < length) weights = call.emit("Pad", {weights, call.integers_as_tensor({left, length - window - left})});
  std::string x = call.tensor(0);
  if (!has_batch) x = call.emit("Unsqueeze", {x, call.integers_as_tensor({0})});
  x = call.emit("STFT",
                {with_last_axis(call, x), call.scalar(static_cast<double>(step), DType::kS64), weights,
                 call.scalar(static_cast<double>(length), DType::kS64)},
                {"onesided", call.is_none(6) || call.flag(6)});
  x = scaled(call, x, call.flag(5) ? 1 / std::sqrt(static_cast<double>(length)) : 1);
  if (has_batch) return call.finish("Transpose", {x}, {"perm", std::vector<int64_t>{0, 2, 1, 3}});
  x = call.emit("Transpose", {x}, {"perm", std::vector<int64_t>{0, 2, 1, 3}});
  call.finish("Squeeze", {x, call.integers_as_tensor({0})});
}

// [2 * bins, 1, n_fft]: what each part of each frequency adds to a frame of the inverse transform, real numbers with
// real results.
Tensor inverse_waves(int64_t length, bool is_onesided, double scale) {
  const int64_t bins = is_onesided ? length / 2 + 1 : length;
  const Tensor out = Tensor::empty({2 * bins, 1, length}, DType::kF32);
  float *real = out.data<float>(), *imag = real + bins * length;
  for (int64_t k = 0; k < bins; ++k) {
    const bool is_alone = !is_onesided || k == 0 || 2 * k == length;  // else its conjugate is not there
    for (int64_t t = 0; t < length; ++t) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(k * t % length) / static_cast<double>(length);
      *real++ = static_cast<float>(std::cos(angle) * (is_alone ? scale : 2 * scale));
      *imag++ = static_cast<float>(-std::sin(angle) * (is_alone ? scale : 2 * scale));
    }
  }
  return out;
}

// istft: (self, n_fft, hop_length, win_length, window, center, normalized, onesided, length). A transposed convolution
// transforms the frames and lays them over each other; another one does so with the squares of the windows.
void inverse_short_time(AtenCall& call) {
  const size_t rank = call.rank(0);
  const int64_t length = call.integer(1), step = call.is_none(2) ? length / 4 : call.integer(2),
                width = call.is_none(3) ? length : call.integer(3), left = (length - width) / 2;
  const SymInt& bins = call.meta(0).sizes[rank - 2];
  const bool is_onesided = call.is_none(7) ? !(bins == SymInt(length)) : call.flag(7);
  if (call.flag(9) || (!call.is_none(4) && is_pairs(call, 4))) call.refuse("gives complex numbers");
  const auto vector = [&](const std::vector<int64_t>& values) { return call.integers_as_tensor(values); };
  const auto ones = [&](int64_t n) { return call.file().constant(Tensor::full({n}, DType::kF32, 1), "window"); };
  std::string window = call.is_none(4) ? ones(width) : call.cast(call.tensor(4), call.meta(4).dtype, DType::kF32);
  if (width < length) window = call.emit("Pad", {window, vector({left, length - width - left})});
  const double scale = call.flag(6) ? 1 / std::sqrt(static_cast<double>(length)) : 1 / static_cast<double>(length);
  const std::string waves = call.file().constant(inverse_waves(length, is_onesided, scale), "waves");
  const auto lay = [&](const std::string& x, const std::string& weight) {
    return call.emit("ConvTranspose", {x, weight}, {"strides", std::vector<int64_t>{step}});
  };

  std::string x = rank == 3 ? call.tensor(0) : call.emit("Unsqueeze", {call.tensor(0), vector({0})});
  x = call.emit("Transpose", {x}, {"perm", std::vector<int64_t>{0, 3, 1, 2}});
  x = call.emit("Reshape", {x, vector({0, is_onesided ? 2 * (length / 2 + 1) : 2 * length, -1})});
  const std::string frames = call.emit("Slice", {call.emit("Shape", {x}), vector({2}), vector({3})});
  const std::string each = call.emit("ConstantOfShape", {call.emit("Concat", {vector({1, 1}), frames}, {"axis", 0})},
                                     {"value", Tensor::full({1}, DType::kF32, 1)});
  const std::string squares = call.emit("Reshape", {call.emit("Mul", {window, window}), vector({1, 1, -1})});
  x = lay(x, call.emit("Mul", {waves, window}));
  // From the middle of the first frame on.
  const int64_t start = call.flag(5) ? length / 2 : 0;
  const int64_t end = !call.is_none(8) ? start + call.integer(8) : start > 0 ? -start : INT64_MAX;
  const auto cut = [&](const std::string& y) {
    return call.emit("Slice", {y, vector({start}), vector({end}), vector({2})});
  };
  x = call.emit("Div", {cut(x), cut(lay(each, squares))});
  if (const auto found = call.result().sizes.back().constant(); !call.is_none(8) && found) {
    // A signal that is shorter ends with zeros.
    const auto count = call.meta(0).sizes.back().constant();
    if (!count) call.refuse("has a length and an open number of frames");
    const int64_t missing = end - (length + step * (*count - 1));
    if (missing > 0) x = call.emit("Pad", {x, vector({0, 0, 0, 0, 0, missing})});
  }
  call.finish("Squeeze", {x, vector(rank == 3 ? std::vector<int64_t>{1} : std::vector<int64_t>{0, 1})});
}

// Parts, sums and products.

void same_pairs(AtenCall& call) { call.same_as(call.tensor(0)); }
template <int64_t which> void only_part(AtenCall& call) {
  call.finish("Gather", {call.tensor(0), call.scalar(which, DType::kS64)}, {"axis", axis_of_parts(call, 0)});
}
void magnitude(AtenCall& call) {
  const std::vector<int64_t> axes{axis_of_parts(call, 0)};
  if (call.file().opset() < kFirstWithAxesAsInput)
    return call.finish("ReduceL2", {call.tensor(0)}, {"axes", axes, "keepdims", false});
  call.finish("ReduceL2", {call.tensor(0), call.integers_as_tensor(axes)}, {"keepdims", false});
}
void conjugate(AtenCall& call) { call.finish("Mul", {call.tensor(0), vector_of(call, 1, -1)}); }
void join_parts(AtenCall& call) { call.finish("Add", {pairs_of(call, 0), pairs_of(call, 1, true)}); }
// (abs, angle)
void join_polar(AtenCall& call) {
  const Formula f(call, DType::kF32);
  const std::string size = f.operand(0), angle = f.operand(1);
  const auto along = [&](const char* function) { return with_last_axis(call, f.mul(size, f.op(function, {angle}))); };
  call.finish("Concat", {along("Cos"), along("Sin")}, {"axis", -1});
}
void angle_of_pairs(AtenCall& call) {
  const Formula f(call);
  const auto side = [&](double which) {
    return call.emit("Gather", {call.tensor(0), call.scalar(which, DType::kS64)}, {"axis", axis_of_parts(call, 0)});
  };
  f.finish(angle_of(f, side(1), side(0)));
}
void negate(AtenCall& call) { call.finish("Neg", {call.tensor(0)}); }
template <bool is_difference> void add_pairs(AtenCall& call) {
  if (call.number(2) != 1) call.refuse("has an alpha");
  call.finish(is_difference ? "Sub" : "Add", {operand_as_pairs(call, 0), operand_as_pairs(call, 1)});
}
bool is_real(AtenCall& call, size_t i) { return !call.arg(i).is_node() || !is_pairs(call, i); }
// A real operand, to be joined with pairs.
std::string real_operand(AtenCall& call, size_t i) {
  if (!call.arg(i).is_node()) return call.operand(i, DType::kF32);
  return with_last_axis(call, call.cast(call.tensor(i), call.meta(i).dtype, DType::kF32));
}
std::string exchanged_parts(AtenCall& call, size_t i) {
  return call.emit("Gather", {call.tensor(i), call.integers_as_tensor({1, 0})}, {"axis", axis_of_parts(call, i)});
}
// (a + bi) z = a z + b (i z), where i z has the parts of z exchanged and one negated.
void multiply_pairs(AtenCall& call) {
  for (const size_t real : {size_t{0}, size_t{1}})
    if (is_real(call, real)) return call.finish("Mul", {call.tensor(1 - real), real_operand(call, real)});
  const std::string turned = call.emit("Mul", {exchanged_parts(call, 1), vector_of(call, -1, 1)});
  call.finish("Add",
              {call.emit("Mul", {part(call, 0, 0), call.tensor(1)}), call.emit("Mul", {part(call, 0, 1), turned})});
}
// By z: times its conjugate, over the square of its size. i times the conjugate is z with its parts exchanged.
void divide_pairs(AtenCall& call) {
  if (is_real(call, 1)) return call.finish("Div", {call.tensor(0), real_operand(call, 1)});
  const std::string conjugate = call.emit("Mul", {call.tensor(1), vector_of(call, 1, -1)});
  const auto square = [&](const std::string& number) { return call.emit("Mul", {number, number}); };
  const std::string size = call.emit("Add", {square(part(call, 1, 0)), square(part(call, 1, 1))});
  const std::string above = is_real(call, 0)
                                ? call.emit("Mul", {conjugate, real_operand(call, 0)})
                                : call.emit("Add", {call.emit("Mul", {part(call, 0, 0), conjugate}),
                                                    call.emit("Mul", {part(call, 0, 1), exchanged_parts(call, 1)})});
  call.finish("Div", {above, size});
}
// Of one operand or two: the sums over the products of their parts.
void einsum_of_pairs(AtenCall& call) {
  const Argument::List& operands = call.arg(1).list();
  const std::string equation = call.arg(0).as<std::string>();
  if (operands.empty() || operands.size() > 2) call.refuse("takes ", operands.size(), " operands, wanted 1 or 2");
  // The real or the imaginary numbers of an operand; no name if it has none.
  const auto side = [&](const Argument& operand, int64_t which) -> std::string {
    const TensorMeta& meta = call.meta_of(operand.node());
    if (!is_complex(meta.dtype)) return which == 0 ? call.operand(operand, DType::kF32) : std::string();
    return call.emit("Gather",
                     {call.file().value(operand.node()), call.scalar(static_cast<double>(which), DType::kS64)},
                     {"axis", static_cast<int64_t>(meta.sizes.size())});
  };
  const auto product = [&](int64_t first, int64_t second) -> std::string {
    std::vector<std::string> inputs = {side(operands[0], first)};
    if (operands.size() > 1) inputs.push_back(side(operands[1], second));
    else if (second != 0) return {};
    if (std::any_of(inputs.begin(), inputs.end(), [](const std::string& name) { return name.empty(); })) return {};
    return call.emit("Einsum", inputs, {"equation", equation.c_str()});
  };
  const auto joined = [&](const std::string& a, const char* op, const std::string& b) {
    return with_last_axis(call, a.empty() ? b : b.empty() ? a : call.emit(op, {a, b}));
  };
  const std::string real = joined(product(0, 0), "Sub", product(1, 1)),
                    imag = joined(product(0, 1), "Add", product(1, 0));
  call.finish("Concat", {real, imag}, {"axis", -1});
}
void zeros(AtenCall& call) {
  std::string sizes;
  if (call.arg(0).is_node()) {
    sizes = call.emit("Shape", {call.tensor(0)});
    if (!is_pairs(call, 0)) sizes = call.emit("Concat", {sizes, call.integers_as_tensor({2})}, {"axis", 0});
  } else {
    Argument::List list = call.arg(0).list();
    list.push_back(Argument(int64_t{2}));
    sizes = call.sizes(list, false);
  }
  call.finish("ConstantOfShape", {sizes}, {"value", Tensor::full({1}, DType::kF32, 0)});
}
void permute_pairs(AtenCall& call) {
  const size_t rank = call.rank(0);
  std::vector<int64_t> order;
  if (call.name() == "permute.default") {
    order = call.axes(1, rank);
  } else {
    for (size_t i = 0; i < rank; ++i) order.push_back(static_cast<int64_t>(i));
    std::swap(order[static_cast<size_t>(call.axis(1, rank))], order[static_cast<size_t>(call.axis(2, rank))]);
  }
  order.push_back(axis_of_parts(call, 0));
  call.finish("Transpose", {call.tensor(0)}, {"perm", order});
}

// The sizes of numbers, and 2.
void reshape_pairs(AtenCall& call) {
  Argument::List sizes = call.arg(1).list();
  sizes.push_back(Argument(int64_t{2}));
  call.finish("Reshape", {call.tensor(0), call.sizes(sizes, true)});
}
void insert_axis(AtenCall& call) {
  call.finish("Unsqueeze", {call.tensor(0), call.integers_as_tensor({call.axis(1, call.rank(0) + 1)})});
}
void join_pairs(AtenCall& call) {
  std::vector<std::string> inputs;
  for (const Argument& part : call.arg(0).list()) {
    if (!is_complex(call.meta_of(part.node()).dtype)) call.refuse("joins complex numbers and others");
    inputs.push_back(call.file().value(part.node()));
  }
  call.finish("Concat", inputs, {"axis", call.axis(1, call.result().sizes.size())});
}

constexpr AtenExporter kComplexExporters[] = {
    {"_conj.default", conjugate},
    {"_conj_physical.default", conjugate},
    {"_fft_c2c.default", fft_of_complex},
    {"_fft_c2r.default", fft_to_real},
    {"_fft_r2c.default", fft_of_real},
    {"_unsafe_view.default", reshape_pairs},
    {"abs.default", magnitude},
    {"add.Tensor", add_pairs<false>},
    {"angle.default", angle_of_pairs},
    {"cat.default", join_pairs},
    {"clone.default", same_pairs},
    {"complex.default", join_parts},
    {"conj.default", conjugate},
    {"conj_physical.default", conjugate},
    {"contiguous.default", same_pairs},
    {"div.Tensor", divide_pairs},
    {"einsum.default", einsum_of_pairs},
    {"fft_fft.default", fft<false, false>},
    {"fft_fft2.default", fft<false, false>},
    {"fft_fftn.default", fft<false, false>},
    {"fft_ifft.default", fft<true, false>},
    {"fft_ifft2.default", fft<true, false>},
    {"fft_ifftn.default", fft<true, false>},
    {"fft_irfft.default", fft_to_real_of_torch},
    {"fft_irfft2.default", fft_to_real_of_torch},
    {"fft_irfftn.default", fft_to_real_of_torch},
    {"fft_rfft.default", fft<false, true>},
    {"fft_rfft2.default", fft<false, true>},
    {"fft_rfftn.default", fft<false, true>},
    {"imag.default", only_part<1>},
    {"istft.default", inverse_short_time},
    {"mul.Tensor", multiply_pairs},
    {"neg.default", negate},
    {"permute.default", permute_pairs},
    {"polar.default", join_polar},
    {"real.default", only_part<0>},
    {"reshape.default", reshape_pairs},
    {"resolve_conj.default", same_pairs},
    {"stft.default", short_time},
    {"sub.Tensor", add_pairs<true>},
    {"transpose.int", permute_pairs},
    {"unsqueeze.default", insert_axis},
    {"view.default", reshape_pairs},
    {"view_as_complex.default", same_pairs},
    {"view_as_real.default", same_pairs},
    {"zeros.default", zeros},
    {"zeros_like.default", zeros},
};
// What counts axes from the front writes pairs as it writes numbers.
constexpr std::string_view kLikeNumbers[] = {"select.int", "slice.Tensor", "slice_scatter.default"};

constexpr AtenExporter kSignalExporters[] = {{"stft.default", short_time}};

}  // namespace

std::span<const AtenExporter> signal_exporters() { return kSignalExporters; }

const AtenExporter* find_complex_exporter(std::string_view name) {
  if (std::find(std::begin(kLikeNumbers), std::end(kLikeNumbers), name) != std::end(kLikeNumbers))
    return find_aten_exporter(name);
  const auto found = std::find_if(std::begin(kComplexExporters), std::end(kComplexExporters),
                                  [&](const AtenExporter& exporter) { return exporter.name == name; });
  return found == std::end(kComplexExporters) ? nullptr : found;
}

}  // namespace qdq
