// Operators that make tensors from sizes and numbers.
#include "op/elements.h"
#include "op/families.h"
#include "op/math.h"

namespace qdq {
namespace {

// zeros(size), new_zeros(self, size), zeros_like(self): sizes from "size" or from self, the dtype from "dtype", else
// self's, else f32.
MetaValue infer_filled(const Call<TensorMeta>& call) {
  const std::optional<size_t> size = call.op().schema->index_of("size");
  const TensorMeta* self = call[0].get_if<TensorMeta>();
  const SymShape sizes = size ? call.syms(*size) : call.tensor(0).sizes;
  for (const SymInt& extent : sizes)
    QDQ_CHECK(!extent.is_constant() || *extent.constant() >= 0, kInvalidArgument, call.op().target, " got the shape ",
              to_string(sizes));
  DType otherwise = self ? self->dtype : DType::kF32;
  if (!self) {
    // full takes the dtype of its number.
    if (const std::optional<size_t> value = call.op().schema->index_of("fill_value"))
      otherwise = call[*value].is<bool>() ? DType::kBool : call.is_integer(*value) ? DType::kS64 : DType::kF32;
  }
  return tensor_meta(call.dtype(*place_of(call, "dtype"), otherwise), sizes);
}
// Uninitialised memory is zero here, so that runs repeat.
Value eval_zeros(const Call<Tensor>& call) { return empty_result(call); }
Value eval_ones(const Call<Tensor>& call) {
  const TensorMeta meta = result_meta(call);
  return Tensor::full(constant_shape(meta.sizes), meta.dtype, 1);
}
Value eval_full(const Call<Tensor>& call) {
  const size_t value = *place_of(call, "fill_value");
  if (const TensorMeta meta = result_meta(call); meta.dtype == DType::kF32 && !call[value].is_tensor())
    return Tensor::full(constant_shape(meta.sizes), DType::kF32, call.number(value));
  const Tensor out = empty_result(call);
  out.copy_from(operand(call, value));
  return out;
}

MetaValue infer_scalar_tensor(const Call<TensorMeta>& call) {
  return tensor_meta(call.dtype(*place_of(call, "dtype"), DType::kF32), {});
}
Value eval_scalar_tensor(const Call<Tensor>& call) {
  QDQ_CHECK(operand(call, 0).dim() == 0, kInvalidArgument, call.op().target,
            " needs a number, found a tensor of shape ", to_string(operand(call, 0).sizes()));
  return operand(call, 0).to(result_meta(call).dtype);
}

// [start, end) by step: ceil((end - start) / step) elements; s64 if all three are integers, else f32.
struct RangeArguments {
  int start, end, step;
};
template <class T> bool all_integers(const Call<T>& call, const RangeArguments& at) {
  for (int i : {at.start, at.end, at.step})
    if (i >= 0 && !call.is_integer(static_cast<size_t>(i))) return false;
  return true;
}
template <class T> double number_or(const Call<T>& call, int i, double otherwise) {
  return i < 0 ? otherwise : call.number(static_cast<size_t>(i));
}
// Integers, or floats that are whole, beside which there may be open sizes.
bool is_whole(const Call<TensorMeta>& call, int i) {
  if (i < 0) return true;
  const auto* number = call[static_cast<size_t>(i)].get_if<double>();
  return number == nullptr || (std::floor(*number) == *number && std::fabs(*number) < 9e15);
}
SymInt whole(const Call<TensorMeta>& call, int i, int64_t otherwise) {
  if (i < 0) return SymInt(otherwise);
  const auto* number = call[static_cast<size_t>(i)].get_if<double>();
  return number ? SymInt(static_cast<int64_t>(*number)) : call.sym(static_cast<size_t>(i));
}
template <const RangeArguments& at> MetaValue infer_arange(const Call<TensorMeta>& call) {
  const bool integers = all_integers(call, at);
  const DType dtype = call.dtype(*place_of(call, "dtype"), integers ? DType::kS64 : DType::kF32);
  if (integers || (is_whole(call, at.start) && is_whole(call, at.end) && is_whole(call, at.step))) {
    const SymInt start = whole(call, at.start, 0), end = whole(call, at.end, 0);
    const int64_t step = whole(call, at.step, 1).constant().value_or(0);
    QDQ_CHECK(step != 0, kInvalidArgument, call.op().target, " got step 0");
    const SymInt by(step), one(1);
    const SymInt count =
        step > 0 ? (end - start + by - one).floor_div(by) : (start - end - by - one).floor_div(SymInt(0) - by);
    QDQ_CHECK(!count.is_constant() || *count.constant() >= 0, kInvalidArgument, call.op().target, " cannot go from ",
              start.to_string(), " to ", end.to_string(), " by ", step);
    return tensor_meta(dtype, {count});
  }
  const double start = number_or(call, at.start, 0), step = number_or(call, at.step, 1);
  const double count = std::ceil((call.number(static_cast<size_t>(at.end)) - start) / step);
  QDQ_CHECK(count >= 0 && count < 9e15, kInvalidArgument, call.op().target, " has the length ", count);
  return tensor_meta(dtype, {SymInt(static_cast<int64_t>(count))});
}
template <const RangeArguments& at> Value eval_arange(const Call<Tensor>& call) {
  const Tensor out = empty_result(call);
  if (all_integers(call, at)) {
    const int64_t start = at.start < 0 ? 0 : call.integer(static_cast<size_t>(at.start)),
                  step = at.step < 0 ? 1 : call.integer(static_cast<size_t>(at.step));
    const Tensor exact = Tensor::empty(out.sizes(), DType::kS64);
    for (int64_t i = 0; i < exact.numel(); ++i) exact.data<int64_t>()[i] = start + i * step;
    return exact.to(out.dtype());
  }
  const double start = number_or(call, at.start, 0), step = number_or(call, at.step, 1);
  const Tensor exact = Tensor::empty(out.sizes(), DType::kF64);
  for (int64_t i = 0; i < exact.numel(); ++i) exact.data<double>()[i] = start + static_cast<double>(i) * step;
  return exact.to(out.dtype());
}
constexpr RangeArguments kEnd{-1, 0, -1}, kStartEnd{0, 1, -1}, kStartEndStep{0, 1, 2};

// `steps` numbers from start to end at equal distances, or the powers of a base at them. From both ends to the middle,
// as ATen counts (RangeFactories.cpp).
MetaValue infer_line(const Call<TensorMeta>& call) {
  QDQ_CHECK(call.integer(2) >= 0, kInvalidArgument, call.op().target, " got ", call.integer(2), " steps");
  return tensor_meta(call.dtype(*place_of(call, "dtype"), DType::kF32), {call.sym(2)});
}
Value eval_line(const Call<Tensor>& call) {
  const TensorMeta meta = result_meta(call);
  const double start = call.number(0), end = call.number(1);
  const std::optional<size_t> base = place_of(call, "base");
  const Tensor exact = Tensor::empty(constant_shape(meta.sizes), DType::kF64);
  const int64_t n = exact.numel();
  const double step = n > 1 ? (end - start) / static_cast<double>(n - 1) : 0;
  for (int64_t i = 0; i < n; ++i) {
    const double at =
        i < n / 2 || n == 1 ? start + step * static_cast<double>(i) : end - step * static_cast<double>(n - 1 - i);
    exact.data<double>()[i] = base ? math::pow(call.number(*base), at) : at;
  }
  return exact.to(meta.dtype);
}

MetaValue infer_eye(const Call<TensorMeta>& call) {
  const bool is_square = !place_of(call, "m");
  const SymInt rows = call.sym(0), columns = is_square ? rows : call.sym(1);
  for (const SymInt& extent : {rows, columns})
    QDQ_CHECK(!extent.is_constant() || *extent.constant() >= 0, kInvalidArgument, call.op().target, " got the shape [",
              rows.to_string(), ", ", columns.to_string(), "]");
  return tensor_meta(call.dtype(*place_of(call, "dtype"), DType::kF32), {rows, columns});
}
Value eval_eye(const Call<Tensor>& call) {
  const Tensor out = empty_result(call);
  const int64_t n = std::min(out.size(0), out.size(1));
  if (n > 0) out.as_strided({n}, {out.size(1) + 1}, 0).copy_from(Tensor::scalar<int64_t>(1));
  return out;
}

// The default of these in PyTorch's schema is the number 4, which is ATen's for int64.
DType index_dtype(const Call<TensorMeta>& call) {
  const DType* given = call[*place_of(call, "dtype")].get_if<DType>();
  return given ? *given : DType::kS64;
}

// The rows and columns of the elements of a triangle, in C order: [2, count]. Row r of the lower one has the columns up
// to r + offset, that of the upper one those from there on.
struct ColumnSpan {
  int64_t begin, end;
};
template <bool lower, class T> ColumnSpan columns_of_row(const Call<T>& call, int64_t row) {
  const int64_t columns = call.integer(1),
                diagonal = std::clamp(row + call.integer(2) + (lower ? 1 : 0), int64_t{0}, columns);
  return lower ? ColumnSpan{0, diagonal} : ColumnSpan{diagonal, columns};
}
template <bool lower> MetaValue infer_triangle_indices(const Call<TensorMeta>& call) {
  const int64_t rows = call.integer(0), columns = call.integer(1), offset = call.integer(2);
  constexpr int64_t kMost = int64_t{1} << 24;
  QDQ_CHECK(rows >= 0 && columns >= 0 && rows <= kMost && columns <= kMost && offset >= -kMost && offset <= kMost,
            kInvalidArgument, call.op().target, " got ", rows, " rows, ", columns, " columns and the offset ", offset);
  int64_t count = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const ColumnSpan span = columns_of_row<lower>(call, r);
    count += span.end - span.begin;
  }
  return tensor_meta(index_dtype(call), {SymInt(2), SymInt(count)});
}
template <bool lower> Value eval_triangle_indices(const Call<Tensor>& call) {
  const TensorMeta meta = result_meta(call);
  const Tensor exact = Tensor::empty(constant_shape(meta.sizes), DType::kS64);
  int64_t *row = exact.data<int64_t>(), *column = row + exact.size(1);
  for (int64_t r = 0; r < call.integer(0); ++r) {
    const ColumnSpan span = columns_of_row<lower>(call, r);
    for (int64_t c = span.begin; c < span.end; ++c) *row++ = r, *column++ = c;
  }
  return exact.to(meta.dtype);
}

// Windows over n elements; a periodic one is the first n of n + 1.
enum class Window { kHann, kHamming, kBlackman, kBartlett, kKaiser };
MetaValue infer_window(const Call<TensorMeta>& call) {
  QDQ_CHECK(call.integer(0) >= 0, kInvalidArgument, call.op().target, " got the length ", call.integer(0));
  const DType dtype = call.dtype(*place_of(call, "dtype"), DType::kF32);
  QDQ_CHECK(is_floating(dtype), kInvalidArgument, call.op().target, " makes floats, not ", to_string(dtype));
  return tensor_meta(dtype, {call.sym(0)});
}
template <Window window> Value eval_window(const Call<Tensor>& call) {
  constexpr double kPi = 0x1.921fb54442d18p+1;
  const TensorMeta meta = result_meta(call);
  const Tensor exact = Tensor::empty(constant_shape(meta.sizes), DType::kF64);
  const auto given = [&](std::string_view name, double otherwise) {
    const std::optional<size_t> i = place_of(call, name);
    return i ? call.number(*i) : otherwise;
  };
  const int64_t n = exact.numel();
  const double last = static_cast<double>(given("periodic", 1) != 0 ? n : n - 1);
  const double alpha = given("alpha", window == Window::kHann ? 0.5 : 0.54),
               beta = given("beta", window == Window::kHann     ? 0.5
                                    : window == Window::kKaiser ? 12
                                                                : 0.46);
  for (int64_t i = 0; i < n; ++i) {
    const double at = static_cast<double>(i) / last, turn = 2 * kPi * at;
    double& value = exact.data<double>()[i];
    if (n == 1) value = 1;
    else if (window == Window::kBlackman) value = 0.42 - 0.5 * math::cos(turn) + 0.08 * math::cos(2 * turn);
    else if (window == Window::kBartlett) value = 1 - std::fabs(2 * at - 1);
    else if (window == Window::kKaiser)
      value = math::i0(beta * std::sqrt(std::max(0.0, 1 - (2 * at - 1) * (2 * at - 1)))) / math::i0(beta);
    else value = alpha - beta * math::cos(turn);
  }
  return exact.to(meta.dtype);
}

// The frequencies of a Fourier transform over n samples that are d apart: [0, 1, ..., -2, -1] / (n d), as
// aten/src/ATen/native/SpectralOps.cpp multiplies; of rfft those from 0 on, with n / 2 as the last.
template <bool one_sided> MetaValue infer_frequencies(const Call<TensorMeta>& call) {
  const int64_t n = call.integer(0);
  QDQ_CHECK(n > 0, kInvalidArgument, call.op().target, " got the length ", n);
  const DType dtype = call.dtype(*place_of(call, "dtype"), DType::kF32);
  QDQ_CHECK(is_floating(dtype), kInvalidArgument, call.op().target, " makes floats, not ", to_string(dtype));
  return tensor_meta(dtype, {SymInt(one_sided ? n / 2 + 1 : n)});
}
template <bool one_sided> Value eval_frequencies(const Call<Tensor>& call) {
  const TensorMeta meta = result_meta(call);
  const int64_t n = call.integer(0);
  const double by = 1.0 / (static_cast<double>(n) * call.number(1));
  const bool is_wide = meta.dtype == DType::kF64;
  const Tensor out = Tensor::empty(constant_shape(meta.sizes), is_wide ? DType::kF64 : DType::kF32);
  for (int64_t i = 0; i < out.numel(); ++i) {
    const int64_t turns = one_sided || i < (n + 1) / 2 ? i : i - n;
    if (is_wide) out.data<double>()[i] = static_cast<double>(turns) * by;
    else out.data<float>()[i] = static_cast<float>(turns) * static_cast<float>(by);
  }
  return out.to(meta.dtype);
}

// Random numbers: the shape is known, but a result that repeats cannot be drawn.
Value refuse_random(const Call<Tensor>& call) {
  fail(
      ErrorCode::kUnsupported, call.op().target,
      " draws random numbers, which qdq does not do: make them an input of the model, or export it in evaluation mode");
}
MetaValue infer_random_integers(const Call<TensorMeta>& call) {
  const std::optional<size_t> size = place_of(call, "size");
  return tensor_meta(index_dtype(call), size ? call.syms(*size) : SymShape{call.sym(0)});
}

// meshgrid: vectors (or numbers) spread over a grid with an axis for each; "xy" exchanges the first two axes.
MetaValue infer_meshgrid(const Call<TensorMeta>& call) {
  const std::vector<TensorMeta> tensors = call.tensors(0);
  const bool exchanged = call.string(1) == "xy" && tensors.size() >= 2;
  QDQ_CHECK(exchanged || call.string(1) == "ij" || call.string(1) == "xy", kInvalidArgument, call.op().target,
            " knows the indexings ij and xy, found ", call.string(1));
  SymShape sizes;
  for (const TensorMeta& tensor : tensors) {
    QDQ_CHECK(tensor.sizes.size() <= 1, kInvalidArgument, call.op().target, " needs vectors, found shape ",
              to_string(tensor.sizes));
    sizes.push_back(tensor.sizes.empty() ? SymInt(1) : tensor.sizes[0]);
  }
  if (exchanged) std::swap(sizes[0], sizes[1]);
  MetaValue::List out;
  for (const TensorMeta& tensor : tensors) out.push_back(tensor_meta(tensor.dtype, sizes));
  return out;
}
Value eval_meshgrid(const Call<Tensor>& call) {
  infer_call(call);
  const std::vector<Tensor> tensors = call.tensors(0);
  const auto axis_of_tensor = [&](size_t i) {
    return i < 2 && tensors.size() >= 2 && call.string(1) == "xy" ? 1 - i : i;
  };
  Shape sizes(tensors.size(), 1);
  for (size_t i = 0; i < tensors.size(); ++i) sizes[axis_of_tensor(i)] = tensors[i].numel();
  Value::List out;
  for (size_t i = 0; i < tensors.size(); ++i) {
    Shape own(tensors.size(), 1);
    own[axis_of_tensor(i)] = tensors[i].numel();
    out.push_back(tensors[i].reshape(own).expand(sizes));
  }
  return out;
}

// Entries whose keywords are those of every function that makes a tensor.
auto creator_to(std::vector<OpDef>& ops) {
  return [&ops](const char* begin, const char* end, Infer infer, Eval eval) {
    constexpr const char* kOptions =
        ", *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None";
    ops.push_back(define(concat("aten::", begin, kOptions, end, ") -> Tensor"), infer, eval, {}, Family::kCreation));
  };
}
constexpr const char* kFormat = ", MemoryFormat? memory_format=None";
constexpr const char* kIntegers =
    ", *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor";

void add_windows(std::vector<OpDef>& ops) {
  const auto add = creator_to(ops);
  add("hann_window(int window_length", "", infer_window, eval_window<Window::kHann>);
  add("hann_window.periodic(int window_length, bool periodic", "", infer_window, eval_window<Window::kHann>);
  add("hamming_window(int window_length", "", infer_window, eval_window<Window::kHamming>);
  add("hamming_window.periodic(int window_length, bool periodic", "", infer_window, eval_window<Window::kHamming>);
  add("hamming_window.periodic_alpha(int window_length, bool periodic, float alpha", "", infer_window,
      eval_window<Window::kHamming>);
  add("hamming_window.periodic_alpha_beta(int window_length, bool periodic, float alpha, float beta", "", infer_window,
      eval_window<Window::kHamming>);
  add("blackman_window(int window_length", "", infer_window, eval_window<Window::kBlackman>);
  add("blackman_window.periodic(int window_length, bool periodic", "", infer_window, eval_window<Window::kBlackman>);
  add("bartlett_window(int window_length", "", infer_window, eval_window<Window::kBartlett>);
  add("bartlett_window.periodic(int window_length, bool periodic", "", infer_window, eval_window<Window::kBartlett>);
  add("kaiser_window(int window_length", "", infer_window, eval_window<Window::kKaiser>);
  add("kaiser_window.periodic(int window_length, bool periodic", "", infer_window, eval_window<Window::kKaiser>);
  add("kaiser_window.beta(int window_length, bool periodic, float beta", "", infer_window,
      eval_window<Window::kKaiser>);
}

void add_random_ops(std::vector<OpDef>& ops) {
  const auto add = creator_to(ops);
  add("rand(SymInt[] size", "", infer_filled, refuse_random);
  add("randn(SymInt[] size", "", infer_filled, refuse_random);
  add("rand_like(Tensor self", kFormat, infer_filled, refuse_random);
  add("randn_like(Tensor self", kFormat, infer_filled, refuse_random);
  for (const char* begin : {"randint(SymInt high, SymInt[] size", "randint.low(SymInt low, SymInt high, SymInt[] size",
                            "randperm(SymInt n"})
    ops.push_back(
        define(concat("aten::", begin, kIntegers), infer_random_integers, refuse_random, {}, Family::kCreation));
  for (const char* line : {"aten::bernoulli(Tensor self, *, Generator? generator=None) -> Tensor",
                           "aten::bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor"})
    ops.push_back(define(line, infer_like_self, refuse_random, {.activation = 0}));
}

}  // namespace

void add_create_ops(std::vector<OpDef>& ops) {
  const auto add = creator_to(ops);
  add("zeros(SymInt[] size", "", infer_filled, eval_zeros);
  add("ones(SymInt[] size", "", infer_filled, eval_ones);
  add("full(SymInt[] size, Scalar fill_value", "", infer_filled, eval_full);
  add("empty.memory_format(SymInt[] size", kFormat, infer_filled, eval_zeros);
  add("zeros_like(Tensor self", kFormat, infer_filled, eval_zeros);
  add("ones_like(Tensor self", kFormat, infer_filled, eval_ones);
  add("full_like(Tensor self, Scalar fill_value", kFormat, infer_filled, eval_full);
  add("empty_like(Tensor self", kFormat, infer_filled, eval_zeros);
  add("new_zeros(Tensor self, SymInt[] size", "", infer_filled, eval_zeros);
  add("new_ones(Tensor self, SymInt[] size", "", infer_filled, eval_ones);
  add("new_full(Tensor self, SymInt[] size, Scalar fill_value", "", infer_filled, eval_full);
  add("new_empty(Tensor self, SymInt[] size", "", infer_filled, eval_zeros);
  add("empty_strided(SymInt[] size, SymInt[] stride", "", infer_filled, eval_zeros);
  add("empty_permuted(SymInt[] size, int[] physical_layout", "", infer_filled, eval_zeros);
  add("new_empty_strided(Tensor self, SymInt[] size, SymInt[] stride", "", infer_filled, eval_zeros);
  add("linspace(Scalar start, Scalar end, int steps", "", infer_line, eval_line);
  add("linspace.Tensor_Tensor(Tensor start, Tensor end, int steps", "", infer_line, eval_line);
  add("linspace.Tensor_Scalar(Tensor start, Scalar end, int steps", "", infer_line, eval_line);
  add("linspace.Scalar_Tensor(Scalar start, Tensor end, int steps", "", infer_line, eval_line);
  add("logspace(Scalar start, Scalar end, int steps, float base=10.", "", infer_line, eval_line);
  add("eye(SymInt n", "", infer_eye, eval_eye);
  add("eye.m(SymInt n, SymInt m", "", infer_eye, eval_eye);
  add("fft_fftfreq(int n, float d=1.", "", infer_frequencies<false>, eval_frequencies<false>);
  add("fft_rfftfreq(int n, float d=1.", "", infer_frequencies<true>, eval_frequencies<true>);
  add_windows(ops);
  add_random_ops(ops);
  ops.push_back(define(concat("aten::tril_indices(int row, int col, int offset=0", kIntegers),
                       infer_triangle_indices<true>, eval_triangle_indices<true>, {}, Family::kCreation));
  ops.push_back(define(concat("aten::triu_indices(int row, int col, int offset=0", kIntegers),
                       infer_triangle_indices<false>, eval_triangle_indices<false>, {}, Family::kCreation));
  ops.push_back(
      define("aten::meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]", infer_meshgrid, eval_meshgrid));
  add("scalar_tensor(Scalar s", "", infer_scalar_tensor, eval_scalar_tensor);
  add("arange(Scalar end", "", infer_arange<kEnd>, eval_arange<kEnd>);
  add("arange.start(Scalar start, Scalar end", "", infer_arange<kStartEnd>, eval_arange<kStartEnd>);
  add("arange.start_step(Scalar start, Scalar end, Scalar step=1", "", infer_arange<kStartEndStep>,
      eval_arange<kStartEndStep>);
}

}  // namespace qdq
