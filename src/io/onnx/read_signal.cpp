// ONNX operators of signals: windows, Fourier transforms, mel filters. Transforms of float32 are PyTorch's; those of
// other types are products with a matrix of waves.
#include <algorithm>
#include <cmath>
#include <limits>

#include "io/onnx/chains.h"
#include "op/math.h"

namespace qdq {
namespace {

constexpr int64_t kUnscaled = 0, kScaledBySize = 2;         // PyTorch's numbers of normalizations
constexpr double kTurn = 6.283185307179586476925286766559;  // 2 pi

DType output_dtype(OnnxCall& call) {
  const int64_t number = call.integer("output_datatype", 1);
  const auto dtype = format::onnx_dtype(number);
  if (!dtype) call.refuse("makes values of data type ", number, ", which qdq does not have");
  return *dtype;
}

// a0 - a1 cos(x) + a2 cos(2 x) over one turn.
void cosine_window(OnnxCall& call, double a0, double a1, double a2) {
  if (!call.is_constant(0)) {
    Node* size = cast_to(call, call.tensor(0), DType::kF64);
    Node* period = call.integer("periodic", 1) != 0 ? size : call.call("sub.Tensor", {size, 1});
    Node* places = cast_to(call, count_up(call, as_size(call, call.tensor(0))), DType::kF64);
    Node* x = call.call("mul.Tensor", {call.call("div.Tensor", {places, period}), kTurn});
    const auto wave = [&](Node* of, double height) {
      return call.call("mul.Tensor", {call.call("cos.default", {of}), height});
    };
    Node* out = call.call("add.Tensor", {wave(x, -a1), a0});
    if (a2 != 0) out = call.call("add.Tensor", {out, wave(call.call("mul.Tensor", {x, 2}), a2)});
    return call.set(cast_to(call, out, output_dtype(call)));
  }
  const int64_t count = known_number(call, 0);
  constexpr int64_t kMost = int64_t{1} << 24;
  if (count < 0 || count > kMost) call.refuse("has ", count, " elements, wanted 0 to ", kMost);
  const int64_t period = std::max<int64_t>(1, call.integer("periodic", 1) != 0 ? count : count - 1);
  Tensor out = Tensor::empty({count}, DType::kF64);
  for (int64_t i = 0; i < count; ++i) {
    const double x = kTurn * static_cast<double>(i) / static_cast<double>(period);
    out.data<double>()[i] = a0 - a1 * math::cos(x) + a2 * math::cos(2 * x);
  }
  call.set(out.to(output_dtype(call)));
}
void hann_window(OnnxCall& call) { cosine_window(call, 0.5, 0.5, 0); }
void hamming_window(OnnxCall& call) { cosine_window(call, 25.0 / 46, 21.0 / 46, 0); }
void blackman_window(OnnxCall& call) { cosine_window(call, 0.42, 0.5, 0.08); }

// The matrix [parts * count, 2 * bins] whose product with a row (real parts, behind them imaginary ones if there are
// two parts) holds the real and the imaginary part of each bin of its Fourier transform of `length` elements.
Node* waves(OnnxCall& call, int64_t parts, int64_t count, int64_t bins, int64_t length, bool inverse, DType dtype) {
  constexpr int64_t kMost = int64_t{1} << 25;
  if (bins < 1 || count < 1 || bins > kMost || count > kMost || count * bins > kMost / (2 * parts))
    call.refuse("transforms ", length, " elements at once, which qdq does by a matrix of at most ", kMost, " numbers");
  Tensor out = Tensor::empty({parts * count, 2 * bins}, DType::kF64);
  const double scale = inverse ? 1 / static_cast<double>(length) : 1;
  // Each angle is a whole number of parts of a turn.
  std::vector<double> cosine(static_cast<size_t>(length)), sine(static_cast<size_t>(length));
  for (int64_t i = 0; i < length; ++i) {
    const double angle = kTurn * static_cast<double>(i) / static_cast<double>(length);
    cosine[static_cast<size_t>(i)] = scale * math::cos(angle);
    sine[static_cast<size_t>(i)] = (inverse ? scale : -scale) * math::sin(angle);
  }
  for (int64_t t = 0; t < count; ++t) {
    double *real = out.data<double>() + t * 2 * bins, *imaginary = real + count * 2 * bins;
    for (int64_t f = 0; f < bins; ++f) {
      const auto at = static_cast<size_t>(t * f % length);
      real[2 * f] = cosine[at];
      real[2 * f + 1] = sine[at];
      if (parts < 2) continue;
      imaginary[2 * f] = -sine[at];
      imaginary[2 * f + 1] = cosine[at];
    }
  }
  return call.import().constant(out.to(dtype), "waves");
}

// 1 for real numbers, 2 for complex ones, as the last axis says.
int64_t parts_of(OnnxCall& call, Node* x) {
  const SymShape& sizes = call.meta_of(x).sizes;
  const auto parts = sizes.empty() ? std::nullopt : sizes.back().constant();
  if (!parts || *parts < 1 || *parts > 2)
    call.refuse("has an input of shape ", to_string(sizes), ", whose last axis is neither real (1) nor complex (2)");
  return *parts;
}

// Rows [..., parts * count] -> [..., bins, 2].
Node* transformed(OnnxCall& call, Node* rows, Node* matrix, int64_t bins) {
  Node* out = call.call("matmul.default", {rows, matrix});
  return call.call("unflatten.int", {out, -1, Argument(Argument::List{bins, 2})});
}

// The transform of an axis of x, real [...] or of pairs [..., 2], to pairs.
Node* fourier_of(OnnxCall& call, Node* x, bool is_real, int64_t axis, bool inverse, bool onesided) {
  const Argument axes(Argument::List{axis});
  if (is_real && !inverse) {
    x = call.call("_fft_r2c.default", {x, axes, kUnscaled, onesided});
  } else {
    if (is_real)
      x = call.call("constant_pad_nd.default",
                    {call.call("unsqueeze.default", {x, -1}), Argument(Argument::List{0, 1})});
    x = call.call("view_as_complex.default", {x});
    x = call.call("_fft_c2c.default", {x, axes, inverse ? kScaledBySize : kUnscaled, !inverse});
    if (onesided)
      x = call.call("slice.Tensor", {x, axis, 0, *call.extent(x, static_cast<size_t>(axis)).constant() / 2 + 1});
  }
  return call.call("view_as_real.default", {x});
}

// The real signal of `length` elements whose one-sided transform the pairs x [..., 2] are, as numpy.fft.irfft.
void inverse_onesided(OnnxCall& call, Node* x, int64_t axis) {
  const auto size = call.extent(x, static_cast<size_t>(axis)).constant();
  if (call.meta_of(x).dtype != DType::kF32 || parts_of(call, x) != 2 || !size)
    call.refuse("is inverse and one-sided at once, which qdq does of complex float32 and known sizes");
  const int64_t length = call.has(1) ? known_number(call, 1) : 2 * (*size - 1), bins = length / 2 + 1;
  if (length < 1) call.refuse("transforms ", length, " elements");
  if (bins < *size) x = call.call("slice.Tensor", {x, axis, 0, bins});
  if (bins > *size) {
    Argument::List pads(2 * (call.meta_of(x).sizes.size() - static_cast<size_t>(axis)), int64_t{0});
    pads.back() = bins - *size;
    x = call.call("constant_pad_nd.default", {x, Argument(pads)});
  }
  x = call.call("view_as_complex.default", {x});
  x = call.call("_fft_c2r.default", {x, Argument(Argument::List{axis}), kScaledBySize, length});
  call.set(call.call("unsqueeze.default", {x, -1}));
}

// The axis is an input since opset 20.
void dft(OnnxCall& call) {
  Node* x = call.tensor(0);
  const size_t rank = call.rank(0);
  const int64_t parts = parts_of(call, x);
  const int64_t given = call.has(2) ? known_number(call, 2) : call.integer("axis", call.opset() < 20 ? 1 : -2);
  const int64_t axis = call.axis(given, rank), last = static_cast<int64_t>(rank) - 1;
  if (axis == last) call.refuse("goes along the last axis, which holds real and imaginary parts");
  const bool inverse = call.integer("inverse", 0) != 0, onesided = call.integer("onesided", 0) != 0;
  if (inverse && onesided) return inverse_onesided(call, x, axis);
  const auto size = call.extent(call.tensor(0), static_cast<size_t>(axis)).constant();
  if (!size) call.refuse("transforms an axis of open size; export the model with a fixed size");
  const int64_t length = call.has(1) ? known_number(call, 1) : *size, count = std::min(length, *size);
  if (length < 1) call.refuse("transforms ", length, " elements");
  if (count < *size) x = call.call("slice.Tensor", {x, axis, 0, count});
  if (call.meta(0).dtype == DType::kF32 && length == count) {
    if (parts == 1) x = call.call("select.int", {x, -1, 0});
    return call.set(fourier_of(call, x, parts == 1, axis, inverse, onesided));
  }
  if (parts == 1) {
    x = call.call("select.int", {x, -1, 0});
    if (axis != last - 1) x = call.call("transpose.int", {x, axis, -1});
  } else {
    if (axis != last - 1) x = call.call("transpose.int", {x, axis, -2});
    x = call.call("flatten.using_ints", {call.call("transpose.int", {x, -1, -2}), -2});
  }
  const int64_t bins = onesided ? length / 2 + 1 : length;
  Node* out = transformed(call, x, waves(call, parts, count, bins, length, inverse, call.meta(0).dtype), bins);
  call.set(axis == last - 1 ? out : call.call("transpose.int", {out, axis, -2}));
}

// Signals [N, length, parts], or real ones [N, length] as exporters write them -> [N, frames, bins, 2].
void stft(OnnxCall& call) {
  Node* x = call.tensor(0);
  const DType dtype = call.meta(0).dtype;
  const size_t rank = call.rank(0);
  if (rank != 2 && rank != 3) call.refuse("has a signal of ", rank, " axes, wanted 2 or 3");
  const int64_t parts = rank == 2 ? 1 : parts_of(call, x), step = known_number(call, 1);
  if (!call.has(2) && !call.has(3)) call.refuse("has neither a window nor a length of its frames");
  if (call.has(2) && call.rank(2) != 1) call.refuse("has a window of ", call.rank(2), " axes, wanted 1");
  const SymInt window = call.has(2) ? call.meta(2).sizes.at(0) : SymInt(known_number(call, 3));
  const int64_t length = call.has(3) ? known_number(call, 3) : window.constant().value_or(0);
  if (length < 1 || step < 1 || !(window == SymInt(length)))
    call.refuse("has frames of ", length, " elements, ", step, " apart, with a window of ", window.to_string());
  if (rank == 3 && parts == 1) x = call.call("select.int", {x, -1, 0});
  const bool onesided = call.integer("onesided", 1) != 0;
  if (parts == 1 && dtype == DType::kF32) {
    const Argument weights = call.has(2) ? Argument(call.tensor(2)) : Argument();
    Node* out = call.call("stft.default", {x, length, step, length, weights, false, onesided, true});
    return call.set(call.call("transpose.int", {call.call("view_as_real.default", {out}), 1, 2}));
  }
  const SymInt steps = divide_sizes(call, subtract_sizes(call, size_along(call, x, 1), length), step);
  Node* begins = call.call("mul.Tensor", {count_up(call, add_sizes(call, steps, 1)), step});
  Node* places = call.call("add.Tensor", {along_axis(call, begins, 0, 2), count_up(call, length)});
  Node* frames = call.call("index.Tensor", {x, Argument(Argument::List{Argument(), places})});
  if (parts == 2) frames = call.call("transpose.int", {frames, -1, -2});
  if (call.has(2)) frames = call.call("mul.Tensor", {frames, call.tensor(2)});
  if (parts == 2) frames = call.call("flatten.using_ints", {frames, -2});
  const int64_t bins = onesided ? length / 2 + 1 : length;
  call.set(transformed(call, frames, waves(call, parts, length, bins, length, false, dtype), bins));
}

// Triangles over the bins of a one-sided transform [bins, filters], at equal distances on the mel scale.
void mel_weight_matrix(OnnxCall& call) {
  const int64_t filters = known_number(call, 0), length = known_number(call, 1), rate = known_number(call, 2);
  constexpr int64_t kMost = int64_t{1} << 25;
  const int64_t bins = length / 2 + 1;
  if (filters < 1 || length < 1 || rate < 1 || filters > kMost || length > kMost || bins > kMost / filters)
    call.refuse("has ", filters, " filters of ", length, " samples at a rate of ", rate);
  const double lower = call.number(3), upper = call.number(4);
  constexpr double kLargest = std::numeric_limits<double>::max();
  if (!(lower >= 0 && lower <= kLargest && upper >= 0 && upper <= kLargest))
    call.refuse("has filters from ", lower, " to ", upper, " hertz, wanted finite numbers from 0 on");
  const double per_log = 2595 / math::log(10);
  const auto mel = [&](double hertz) { return per_log * math::log1p(hertz / 700); };
  const double low = mel(lower), step = (mel(upper) - low) / static_cast<double>(filters + 2);
  const auto bin = [&](int64_t i) {
    const double hertz = 700 * math::expm1((low + static_cast<double>(i) * step) / per_log);
    const double place = std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate));
    return static_cast<int64_t>(std::clamp(place, 0.0, static_cast<double>(bins)));
  };
  Tensor out = Tensor::empty({bins, filters}, DType::kF64);
  for (int64_t i = 0; i < filters; ++i) {
    const int64_t begin = bin(i), top = bin(i + 1), end = bin(i + 2);
    const auto set = [&](int64_t j, double value) {
      if (j < bins) out.data<double>()[j * filters + i] = value;
    };
    if (top == begin) set(top, 1);
    else
      for (int64_t j = begin; j <= top; ++j) set(j, static_cast<double>(j - begin) / static_cast<double>(top - begin));
    for (int64_t j = top; j < end; ++j) set(j, static_cast<double>(end - j) / static_cast<double>(end - top));
  }
  call.set(out.to(output_dtype(call)));
}

constexpr OnnxOperator kSignalOperators[] = {
    {"BlackmanWindow", blackman_window, nullptr},    {"DFT", dft, nullptr},
    {"HammingWindow", hamming_window, nullptr},      {"HannWindow", hann_window, nullptr},
    {"MelWeightMatrix", mel_weight_matrix, nullptr}, {"STFT", stft, nullptr},
};

}  // namespace

std::span<const OnnxOperator> onnx_signal_operators() { return kSignalOperators; }

}  // namespace qdq
