// Fourier transforms of tensors: PyTorch's three kernels and torch.fft made of them.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "op/elements.h"
#include "op/families.h"
#include "op/fourier.h"

namespace qdq {
namespace {

// The kernels.

enum Normalization : int64_t { kNone, kByRoot, kBySize };

double scale_of(int64_t normalization, int64_t elements, const std::string& op) {
  QDQ_CHECK(normalization >= kNone && normalization <= kBySize, kInvalidArgument, op,
            " needs normalization 0, 1 or 2, ", "found ", normalization);
  const auto n = static_cast<double>(std::max<int64_t>(elements, 1));
  return normalization == kNone ? 1 : normalization == kByRoot ? 1 / std::sqrt(n) : 1 / n;
}

// The axes in the order given, each once.
template <class T> std::vector<size_t> transformed_axes(const Call<T>& call, size_t rank) {
  std::vector<size_t> out;
  for (int64_t axis : call.integers(1)) {
    const auto at = static_cast<size_t>(wrap_axis(axis, static_cast<int64_t>(rank)));
    QDQ_CHECK(at < rank && std::find(out.begin(), out.end(), at) == out.end(), kInvalidArgument, call.op().target,
              " got axis ", axis, at < rank ? " twice" : " for a tensor without axes");
    out.push_back(at);
  }
  return out;
}

// The transform along an axis of x: `load` takes element t of the row that begins at an offset of x, `store` gives the
// row that begins at an offset of out its elements. Four rows go together, as long as they are short.
template <class Load, class Store>
void transform_rows(const Tensor& x, const Tensor& out, size_t axis, int64_t length, bool is_inverse, const Load& load,
                    const Store& store) {
  if (x.numel() == 0 || out.numel() == 0) return;
  const FourierTransform transform(length, is_inverse);
  constexpr size_t kTogether = kernel::kFourierRows;
  constexpr int64_t kShort = 1 << 14;
  const auto n = static_cast<size_t>(length);
  std::vector<Complex> row(n), result(n);
  std::vector<ComplexRows> rows(length <= kShort ? n : 0), results(rows.size());
  std::vector<std::array<int64_t, 2>> waiting;
  const auto transform_one = [&](const std::array<int64_t, 2>& at) {
    load(at[0], row);
    transform.run(row.data(), result.data());
    store(at[1], result);
  };
  // Rows that are missing are computed with what was there before.
  const auto transform_waiting = [&] {
    for (size_t r = 0; r < waiting.size(); ++r) {
      load(waiting[r][0], row);
      for (size_t t = 0; t < n; ++t) {
        rows[t].real[r] = row[t].real;
        rows[t].imag[r] = row[t].imag;
      }
    }
    transform.run(rows.data(), results.data());
    for (size_t r = 0; r < waiting.size(); ++r) {
      for (size_t k = 0; k < n; ++k) result[k] = {results[k].real[r], results[k].imag[r]};
      store(waiting[r][1], result);
    }
    waiting.clear();
  };
  Shape counted = x.sizes();
  counted[axis] = 1;
  const std::array strides{x.strides().data(), out.strides().data()};
  for_each_index<2>(counted, strides, [&](const std::array<int64_t, 2>& from) {
    if (rows.empty()) return transform_one(from);
    waiting.push_back(from);
    if (waiting.size() == kTogether) transform_waiting();
  });
  if (waiting.size() == 1) transform_one(waiting[0]);
  else if (!waiting.empty()) transform_waiting();
}

// Complex to complex along one axis.
Tensor transformed_along(const Tensor& x, size_t axis, bool is_inverse, double scale) {
  const Tensor out = Tensor::empty(x.sizes(), DType::kC64);
  const int64_t length = x.sizes()[axis], in_step = x.strides()[axis], out_step = out.strides()[axis];
  const Complex64* in = x.data<Complex64>();
  Complex64* to = out.data<Complex64>();
  transform_rows(
      x, out, axis, length, is_inverse,
      [&](int64_t from, std::vector<Complex>& row) {
        for (int64_t t = 0; t < length; ++t) {
          const Complex64 z = in[from + t * in_step];
          row[static_cast<size_t>(t)] = {z.real, z.imag};
        }
      },
      [&](int64_t at, const std::vector<Complex>& row) {
        for (int64_t k = 0; k < length; ++k) {
          const Complex z = row[static_cast<size_t>(k)];
          to[at + k * out_step] = {static_cast<float>(z.real * scale), static_cast<float>(z.imag * scale)};
        }
      });
  return out;
}

void check_dtype(const TensorMeta& x, DType wanted, const std::string& op) {
  QDQ_CHECK(x.dtype == wanted, kUnsupported, op, " transforms ", to_string(wanted), " tensors, found ",
            to_string(x.dtype));
}

MetaValue infer_r2c(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(0);
  check_dtype(x, DType::kF32, call.op().target);
  const std::vector<size_t> axes = transformed_axes(call, x.sizes.size());
  QDQ_CHECK(!axes.empty(), kInvalidArgument, call.op().target, " got no axis to transform");
  scale_of(call.integer(2), 1, call.op().target);
  SymShape sizes = x.sizes;
  if (call.boolean(3)) sizes[axes.back()] = sizes[axes.back()].floor_div(2) + 1;
  return tensor_meta(DType::kC64, std::move(sizes));
}
// The transform of a row of n real numbers, n even, by that of half as many complex ones: its even places are their
// real parts, its odd places their imaginary parts.
class RealRow {
 public:
  explicit RealRow(int64_t n) : roots_(roots_of_one(n / 2, n, -1)) {}
  // Number k of the row's, made of those of the half.
  Complex at(const std::vector<Complex>& half, int64_t k) const {
    const size_t n = roots_.size(), place = static_cast<size_t>(k), i = place < n ? place : place - n;
    const Complex a = half[i], b = half[i == 0 ? 0 : n - i], root = roots_[i];
    const Complex even{(a.real + b.real) / 2, (a.imag - b.imag) / 2}, odd{(a.imag + b.imag) / 2, (b.real - a.real) / 2};
    const double sign = place < n ? 1 : -1;
    return {even.real + sign * (odd.real * root.real - odd.imag * root.imag),
            even.imag + sign * (odd.real * root.imag + odd.imag * root.real)};
  }

 private:
  std::vector<Complex> roots_;
};

Value eval_r2c(const Call<Tensor>& call) {
  Tensor out = empty_result(call);
  const Tensor& x = call.tensor(0);
  const std::vector<size_t> axes = transformed_axes(call, x.sizes().size());
  int64_t elements = 1;
  for (size_t axis : axes) elements *= x.sizes()[axis];
  const double scale = scale_of(call.integer(2), elements, call.op().target);
  const size_t axis = axes.back();
  const int64_t length = x.sizes()[axis], bins = out.sizes()[axis];
  QDQ_CHECK(length > 0, kInvalidArgument, call.op().target, " transforms an axis of no elements");
  const int64_t in_step = x.strides()[axis], out_step = out.strides()[axis];
  const float* in = x.data<float>();
  Complex64* to = out.data<Complex64>();
  const bool is_even = length % 2 == 0;
  const RealRow whole(is_even ? length : 0);
  transform_rows(
      x, out, axis, is_even ? length / 2 : length, false,
      [&](int64_t from, std::vector<Complex>& row) {
        const int64_t step = is_even ? 2 * in_step : in_step;
        for (Complex& z : row) {
          z = {in[from], is_even ? in[from + in_step] : 0};
          from += step;
        }
      },
      [&](int64_t at, const std::vector<Complex>& row) {
        for (int64_t k = 0; k < bins; ++k) {
          const Complex z = is_even ? whole.at(row, k) : row[static_cast<size_t>(k)];
          to[at + k * out_step] = {static_cast<float>(z.real * scale), static_cast<float>(z.imag * scale)};
        }
      });
  for (size_t i = axes.size() - 1; i-- > 0;) out = transformed_along(out, axes[i], false, 1);
  return out;
}

MetaValue infer_c2c(const Call<TensorMeta>& call) {
  check_dtype(call.tensor(0), DType::kC64, call.op().target);
  transformed_axes(call, call.tensor(0).sizes.size());
  scale_of(call.integer(2), 1, call.op().target);
  return infer_like_self(call);
}
Value eval_c2c(const Call<Tensor>& call) {
  infer_call(call);
  Tensor out = call.tensor(0);
  const std::vector<size_t> axes = transformed_axes(call, out.sizes().size());
  int64_t elements = 1;
  for (size_t axis : axes) elements *= out.sizes()[axis];
  const double scale = scale_of(call.integer(2), elements, call.op().target);
  if (axes.empty()) return out.clone();
  for (size_t i = axes.size(); i-- > 0;) out = transformed_along(out, axes[i], !call.boolean(3), i == 0 ? scale : 1);
  return out;
}

MetaValue infer_c2r(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(0);
  check_dtype(x, DType::kC64, call.op().target);
  const std::vector<size_t> axes = transformed_axes(call, x.sizes.size());
  QDQ_CHECK(!axes.empty(), kInvalidArgument, call.op().target, " got no axis to transform");
  scale_of(call.integer(2), 1, call.op().target);
  SymShape sizes = x.sizes;
  const SymInt last = call.sym(3);
  QDQ_CHECK(!last.is_constant() || *last.constant() > 0, kInvalidArgument, call.op().target, " makes ",
            last.to_string(), " elements, wanted at least 1");
  QDQ_CHECK(may_be_equal(sizes[axes.back()], last.floor_div(2) + 1), kInvalidArgument, call.op().target, " makes ",
            last.to_string(), " elements of ", sizes[axes.back()].to_string(), ", wanted half of them and one");
  sizes[axes.back()] = last;
  return tensor_meta(DType::kF32, std::move(sizes));
}
// The missing half of the numbers is the conjugate of the other; the imaginary parts of those that are their own
// conjugates do not count.
Value eval_c2r(const Call<Tensor>& call) {
  const Tensor out = empty_result(call);
  Tensor x = call.tensor(0);
  const std::vector<size_t> axes = transformed_axes(call, x.sizes().size());
  int64_t elements = 1;
  for (size_t axis : axes) elements *= out.sizes()[axis];
  const double scale = scale_of(call.integer(2), elements, call.op().target);
  for (size_t i = 0; i + 1 < axes.size(); ++i) x = transformed_along(x, axes[i], true, 1);
  const size_t axis = axes.back();
  const int64_t length = out.sizes()[axis], bins = x.sizes()[axis];
  const int64_t in_step = x.strides()[axis], out_step = out.strides()[axis];
  const Complex64* in = x.data<Complex64>();
  float* to = out.data<float>();
  transform_rows(
      x, out, axis, length, true,
      [&](int64_t from, std::vector<Complex>& row) {
        for (int64_t k = 0; k < bins; ++k) {
          const Complex64 z = in[from + k * in_step];
          const bool is_alone = k == 0 || 2 * k == length;
          row[static_cast<size_t>(k)] = {z.real, is_alone ? 0.0 : z.imag};
          if (!is_alone) row[static_cast<size_t>(length - k)] = {z.real, -static_cast<double>(z.imag)};
        }
      },
      [&](int64_t at, const std::vector<Complex>& row) {
        for (int64_t t = 0; t < length; ++t)
          to[at + t * out_step] = static_cast<float>(row[static_cast<size_t>(t)].real * scale);
      });
  return out;
}

// torch.fft.

DType dtype_of_value(const Tensor& x) { return x.dtype(); }
DType dtype_of_value(const TensorMeta& x) { return x.dtype; }
SymShape extents_of(const Tensor& x) { return {x.sizes().begin(), x.sizes().end()}; }
SymShape extents_of(const TensorMeta& x) { return x.sizes; }
template <class T> SymShape extents_of(const BasicValue<T>& x) { return extents_of(*x.template get_if<T>()); }
template <class T> bool is_complex_value(const BasicValue<T>& x) {
  return is_complex(dtype_of_value(*x.template get_if<T>()));
}
template <class T> typename BasicValue<T>::List list_of_axes(const std::vector<size_t>& axes) {
  typename BasicValue<T>::List out;
  for (size_t axis : axes) out.push_back(static_cast<int64_t>(axis));
  return out;
}

// The first n elements along an axis, with zeros behind them if there are fewer.
template <class T> BasicValue<T> with_extent(const BasicValue<T>& x, size_t axis, const SymInt& n) {
  SymShape sizes = extents_of(x);
  if (sizes[axis] == n) return x;
  QDQ_CHECK(!n.is_constant() || *n.constant() > 0, kInvalidArgument, "a Fourier transform of ", n.to_string(),
            " elements is wanted");
  const SymInt before = sizes[axis];
  sizes[axis] = n;
  if constexpr (std::is_same_v<T, TensorMeta>) {
    return tensor_meta(x.template get_if<T>()->dtype, sizes);
  } else {
    const auto at = static_cast<int64_t>(axis);
    if (*n.constant() < *before.constant()) return run_op<T>("slice.Tensor", {x, at, 0, *n.constant()});
    const Tensor out = Tensor::empty(constant_shape(sizes), x.template get_if<T>()->dtype());
    out.slice(at, 0, *before.constant()).copy_from(*x.template get_if<T>());
    return out;
  }
}
// Integers become floats.
template <class T> BasicValue<T> as_float(const BasicValue<T>& x) {
  const DType dtype = dtype_of_value(*x.template get_if<T>());
  return is_complex(dtype) || is_floating(dtype) ? x : run_op<T>("to.dtype", {x, DType::kF32});
}
template <class T> BasicValue<T> as_complex(const BasicValue<T>& x) {
  return is_complex_value(x) ? x : run_op<T>("to.dtype", {as_float(x), DType::kC64});
}
template <class T> int64_t normalization_of(const Call<T>& call, size_t i, bool is_inverse) {
  const std::string norm = call.is_none(i) ? "backward" : call.string(i);
  if (norm == "ortho") return kByRoot;
  QDQ_CHECK(norm == "backward" || norm == "forward", kInvalidArgument, call.op().target,
            " needs norm 'forward', 'backward' or 'ortho', found '", norm, "'");
  return (norm == "backward") == is_inverse ? kBySize : kNone;
}

enum class Kind { kComplex, kFromReal, kToReal };

// What a transform goes along, and how many elements of each axis.
struct TransformedAxes {
  std::vector<size_t> axes;
  SymShape sizes;
  bool has_last = false;  // whether the last size was given
};
// One axis: n, dim. Several: s, dim.
template <class T> TransformedAxes extents_in(const Call<T>& call, bool is_one) {
  const SymShape sizes = extents_of(call.tensor(0));
  const auto rank = static_cast<int64_t>(sizes.size());
  TransformedAxes out;
  SymShape given;
  if (!call.is_none(1)) given = is_one ? SymShape{call.sym(1)} : call.syms(1);
  std::vector<int64_t> axes;
  if (!call.is_none(2)) {
    axes = is_one ? std::vector<int64_t>{call.integer(2)} : call.integers(2);
  } else {
    axes.resize(given.empty() ? sizes.size() : given.size());
    std::iota(axes.begin(), axes.end(), -static_cast<int64_t>(axes.size()));
  }
  QDQ_CHECK(call.is_none(1) || given.size() == axes.size(), kInvalidArgument, call.op().target, " got ", given.size(),
            " sizes for ", axes.size(), " axes");
  for (size_t i = 0; i < axes.size(); ++i) {
    QDQ_CHECK(rank > 0, kInvalidArgument, call.op().target, " got an axis for a tensor without axes");
    const auto at = static_cast<size_t>(wrap_axis(axes[i], rank));
    QDQ_CHECK(std::find(out.axes.begin(), out.axes.end(), at) == out.axes.end(), kInvalidArgument, call.op().target,
              " got axis ", axes[i], " twice");
    const bool is_given = !given.empty() && !(given[i] == SymInt(-1));
    out.axes.push_back(at);
    out.sizes.push_back(is_given ? given[i] : sizes[at]);
    out.has_last = is_given;
  }
  return out;
}

template <class T, Kind kind, bool is_inverse, bool is_one> BasicValue<T> torch_fft(const Call<T>& call) {
  using V = BasicValue<T>;
  TransformedAxes extents = extents_in(call, is_one);
  V x = call.tensor(0);
  QDQ_CHECK(kind != Kind::kFromReal || !is_complex_value(x), kInvalidArgument, call.op().target,
            " needs a real tensor, found complex64");
  if (extents.axes.empty()) {
    QDQ_CHECK(kind == Kind::kComplex, kInvalidArgument, call.op().target, " got no axis to transform");
    return as_complex(x);
  }
  SymInt last = extents.sizes.back();
  if (kind == Kind::kToReal) {
    if (!extents.has_last) last = (last - 1) * 2;
    extents.sizes.back() = last.floor_div(2) + 1;
  }
  x = kind == Kind::kFromReal ? as_float(x) : as_complex(x);
  for (size_t i = 0; i < extents.axes.size(); ++i) x = with_extent(x, extents.axes[i], extents.sizes[i]);
  const V axes = list_of_axes<T>(extents.axes);
  const int64_t normalization = normalization_of(call, 3, is_inverse);
  switch (kind) {
    case Kind::kComplex: return run_op<T>("_fft_c2c", {x, axes, normalization, !is_inverse});
    case Kind::kFromReal:
      x = run_op<T>("_fft_r2c", {x, axes, normalization, true});
      return is_inverse ? run_op<T>("conj_physical", {x}) : x;
    case Kind::kToReal:
      if (!is_inverse) x = run_op<T>("conj_physical", {x});
      return run_op<T>("_fft_c2r", {x, axes, normalization, last});
  }
  fail(ErrorCode::kInternal, "an unknown kind of Fourier transform");
}

// Half of each axis to the other end.
template <class T, bool is_inverse> BasicValue<T> fft_shift(const Call<T>& call) {
  const SymShape sizes = extents_of(call.tensor(0));
  const std::vector<size_t> axes = axes_of(call, 1, sizes.size());
  typename BasicValue<T>::List shifts;
  for (size_t axis : axes) shifts.push_back((sizes[axis] + SymInt(is_inverse ? 1 : 0)).floor_div(2));
  if (axes.empty()) return call[0];
  return run_op<T>("roll", {call[0], shifts, list_of_axes<T>(axes)});
}

}  // namespace

void add_fourier_ops(std::vector<OpDef>& ops) {
  const auto add = [&](std::string_view line, Infer infer, Eval eval) {
    ops.push_back(define(line, infer, eval));
    ops.back().takes_complex = true;
  };
  add("aten::_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor", infer_r2c, eval_r2c);
  add("aten::_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor", infer_c2c, eval_c2c);
  add("aten::_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor", infer_c2r, eval_c2r);
  const std::string one = "(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor",
                    two = "(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor",
                    all = "(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor";
  const auto add_one = [&]<Kind kind, bool is_inverse>(const char* name) {
    add(concat("aten::fft_", name, one), torch_fft<TensorMeta, kind, is_inverse, true>,
        torch_fft<Tensor, kind, is_inverse, true>);
  };
  const auto add_several = [&]<Kind kind, bool is_inverse>(const char* name) {
    add(concat("aten::fft_", name, "2", two), torch_fft<TensorMeta, kind, is_inverse, false>,
        torch_fft<Tensor, kind, is_inverse, false>);
    add(concat("aten::fft_", name, "n", all), torch_fft<TensorMeta, kind, is_inverse, false>,
        torch_fft<Tensor, kind, is_inverse, false>);
  };
  add_one.operator()<Kind::kComplex, false>("fft");
  add_one.operator()<Kind::kComplex, true>("ifft");
  add_one.operator()<Kind::kFromReal, false>("rfft");
  add_one.operator()<Kind::kToReal, true>("irfft");
  add_one.operator()<Kind::kToReal, false>("hfft");
  add_one.operator()<Kind::kFromReal, true>("ihfft");
  add_several.operator()<Kind::kComplex, false>("fft");
  add_several.operator()<Kind::kComplex, true>("ifft");
  add_several.operator()<Kind::kFromReal, false>("rfft");
  add_several.operator()<Kind::kToReal, true>("irfft");
  add("aten::fft_fftshift(Tensor self, int[1]? dim=None) -> Tensor", fft_shift<TensorMeta, false>,
      fft_shift<Tensor, false>);
  add("aten::fft_ifftshift(Tensor self, int[1]? dim=None) -> Tensor", fft_shift<TensorMeta, true>,
      fft_shift<Tensor, true>);
}

}  // namespace qdq
