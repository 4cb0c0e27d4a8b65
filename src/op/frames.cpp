// torch.stft and torch.istft: Fourier transforms of the frames of a signal, made of other operators as PyTorch's are
// (ATen/native/SpectralOps.cpp). Each is written once, for shapes and for tensors.
#include <algorithm>

#include "op/elements.h"
#include "op/families.h"

namespace qdq {
namespace {

constexpr int64_t kUnscaled = 0, kScaledByRoot = 1, kScaledBySize = 2;  // normalization of _fft_r2c and its relatives

DType dtype_in(const Tensor& x) { return x.dtype(); }
DType dtype_in(const TensorMeta& x) { return x.dtype; }
SymShape sizes_in(const Tensor& x) { return {x.sizes().begin(), x.sizes().end()}; }
SymShape sizes_in(const TensorMeta& x) { return x.sizes; }
template <class T> SymShape sizes_in(const BasicValue<T>& x) { return sizes_in(*x.template get_if<T>()); }
template <class T> bool has_complex_elements(const BasicValue<T>& x) {
  return is_complex(dtype_in(*x.template get_if<T>()));
}
template <class T> BasicValue<T> numbers(std::initializer_list<SymInt> list) {
  return typename BasicValue<T>::List(list.begin(), list.end());
}
template <class T> BasicValue<T> filled(DType dtype, int64_t size, double value) {
  return run_op<T>("full", {numbers<T>({size}), value, dtype});
}

// How a signal is cut: frames of `size` elements, `step` apart, of which a window weighs the `window` in the middle.
struct Framing {
  int64_t size, step, window;
};
// The arguments n_fft, hop_length, win_length and window.
template <class T> Framing framing_of(const Call<T>& call) {
  Framing out{};
  out.size = call.integer(1);
  out.step = call.is_none(2) ? out.size / 4 : call.integer(2);
  out.window = call.is_none(3) ? out.size : call.integer(3);
  constexpr int64_t kMost = int64_t{1} << 26;
  QDQ_CHECK(out.size > 0 && out.size <= kMost && out.step > 0 && out.step <= kMost && out.window > 0 &&
                out.window <= out.size,
            kInvalidArgument, call.op().target, " got n_fft ", out.size, ", hop_length ", out.step, " and win_length ",
            out.window, "; wanted 0 < win_length <= n_fft <= ", kMost, " and 0 < hop_length");
  if (const T* window = call.optional_tensor(4)) {
    const SymShape sizes = sizes_in(*window);
    QDQ_CHECK(sizes.size() == 1 && may_be_equal(sizes[0], out.window), kInvalidArgument, call.op().target,
              " needs a window of shape [", out.window, "], found ", to_string(sizes));
  }
  return out;
}
// The window as long as a frame, with zeros on both sides; None if every element counts alike.
template <class T> BasicValue<T> window_of_frame(const Call<T>& call, const Framing& framing, DType dtype) {
  const int64_t missing = framing.size - framing.window, left = missing / 2;
  if (missing == 0) return call[4];
  const BasicValue<T> window = call.is_none(4) ? filled<T>(dtype, framing.window, 1) : call[4];
  const DType of_zeros = dtype_in(*window.template get_if<T>());
  const typename BasicValue<T>::List parts{filled<T>(of_zeros, left, 0), window,
                                           filled<T>(of_zeros, missing - left, 0)};
  return run_op<T>("cat", {parts, 0});
}

// A signal [B, L] with half a frame more on both sides.
template <class T> BasicValue<T> padded(const BasicValue<T>& x, int64_t frame, const std::string& mode) {
  const BasicValue<T> rows = run_op<T>("unsqueeze", {x, 0});
  return run_op<T>("squeeze.dim", {run_op<T>("pad", {rows, numbers<T>({frame / 2, frame / 2}), mode}), 0});
}

// Signals [B, L] or [L] -> [B, bins, frames] complex, or [B, bins, frames, 2]. The arguments from `at` on are
// normalized, onesided, return_complex.
template <class T> BasicValue<T> transform_frames(const Call<T>& call, BasicValue<T> x, size_t at) {
  const Framing framing = framing_of(call);
  const bool has_batch = sizes_in(call.tensor(0)).size() == 2;
  const SymInt length = sizes_in(x)[1];
  QDQ_CHECK(!length.is_constant() || framing.size <= *length.constant(), kInvalidArgument, call.op().target,
            " takes frames of ", framing.size, " elements from a signal of ", length.to_string());
  x = run_op<T>("unfold", {x, 1, framing.size, framing.step});
  const BasicValue<T> window = window_of_frame(call, framing, dtype_in(*x.template get_if<T>()));
  if (!window.is_none()) x = run_op<T>("mul.Tensor", {x, window});
  const bool is_of_complex = has_complex_elements(x),
             is_onesided = call.is_none(at + 1) ? !is_of_complex : call.boolean(at + 1);
  QDQ_CHECK(!is_of_complex || !is_onesided, kInvalidArgument, call.op().target,
            " cannot be one-sided where the signal or the window is complex");
  // PyTorch wants to be told of real signals.
  QDQ_CHECK(is_of_complex || !call.is_none(at + 2), kInvalidArgument, call.op().target,
            " needs return_complex for a real signal");
  const int64_t normalization = call.boolean(at) ? kScaledByRoot : kUnscaled;
  x = is_of_complex ? run_op<T>("_fft_c2c", {x, numbers<T>({2}), normalization, true})
                    : run_op<T>("_fft_r2c", {x, numbers<T>({2}), normalization, is_onesided});
  x = run_op<T>("transpose.int", {x, 1, 2});
  if (!has_batch) x = run_op<T>("squeeze.dim", {x, 0});
  const bool is_result_complex = call.is_none(at + 2) || call.boolean(at + 2);
  return is_result_complex ? x : run_op<T>("view_as_real", {x});
}
template <class T> BasicValue<T> signal_of(const Call<T>& call) {
  const size_t rank = sizes_in(call.tensor(0)).size();
  QDQ_CHECK(rank == 1 || rank == 2, kInvalidArgument, call.op().target, " needs a signal of 1 or 2 axes, found ", rank);
  return rank == 2 ? call[0] : run_op<T>("unsqueeze", {call[0], 0});
}
template <class T> BasicValue<T> stft(const Call<T>& call) { return transform_frames(call, signal_of(call), 5); }
template <class T> BasicValue<T> stft_center(const Call<T>& call) {
  BasicValue<T> x = signal_of(call);
  if (call.boolean(5)) x = padded(x, framing_of(call).size, call.string(6));
  return transform_frames(call, x, 7);
}

// Refuses to divide by a window that leaves elements out; symbols have no elements yet.
template <class T> void check_envelope(const Call<T>& call, const BasicValue<T>& envelope) {
  if constexpr (std::is_same_v<T, Tensor>) {
    const Tensor size = *run_op<T>("abs", {envelope}).template get_if<Tensor>();
    constexpr float kLeast = 1e-11f;
    const auto values = size.contiguous().template span<float>();
    const auto least = std::min_element(values.begin(), values.end());
    QDQ_CHECK(
        least != values.end() && !(*least < kLeast), kInvalidArgument, call.op().target,
        " divides by a window that is zero where frames do not overlap; it needs a smaller hop_length or a window "
        "without zeros");
  }
}

// A signal [B, any] that is shorter than it shall be ends with zeros.
template <class T> BasicValue<T> lengthened(const BasicValue<T>& x, const SymInt& missing, const SymInt& length) {
  if constexpr (std::is_same_v<T, Tensor>) {
    const Tensor& cut_off = *x.template get_if<Tensor>();
    const int64_t zeros = std::max<int64_t>(0, *missing.constant());
    return run_op<T>("cat", {Value::List{cut_off, Tensor::empty({cut_off.size(0), zeros}, cut_off.dtype())}, 1});
  } else {
    return tensor_meta(dtype_in(*x.template get_if<T>()), {sizes_in(x)[0], length});
  }
}

// [B, bins, frames] complex -> [B, L]: the frames are laid over each other and divided by the sum of the squares of
// their windows.
template <class T> BasicValue<T> istft(const Call<T>& call) {
  const Framing framing = framing_of(call);
  QDQ_CHECK(framing.step <= framing.window, kInvalidArgument, call.op().target,
            " needs a hop_length of at most win_length, found ", framing.step, " and ", framing.window);
  QDQ_CHECK(is_complex(dtype_in(call.tensor(0))), kInvalidArgument, call.op().target, " needs a complex tensor, found ",
            to_string(dtype_in(call.tensor(0))));
  const SymShape sizes = sizes_in(call.tensor(0));
  const bool has_batch = sizes.size() == 3;
  QDQ_CHECK(has_batch || sizes.size() == 2, kInvalidArgument, call.op().target, " needs 2 or 3 axes, found ",
            sizes.size());
  const SymInt bins = sizes[sizes.size() - 2], frames = sizes.back();
  const bool is_onesided = call.is_none(7) ? !(bins == SymInt(framing.size)) : call.boolean(7),
             is_result_complex = call.boolean(9);
  const int64_t wanted = is_onesided ? framing.size / 2 + 1 : framing.size;
  QDQ_CHECK(may_be_equal(bins, wanted), kInvalidArgument, call.op().target, " needs ", wanted,
            " frequencies for n_fft ", framing.size, is_onesided ? " and a one-sided transform, found " : ", found ",
            bins.to_string());
  QDQ_CHECK(!is_result_complex || !is_onesided, kInvalidArgument, call.op().target,
            " cannot make complex numbers of a one-sided transform");
  QDQ_CHECK(is_result_complex || call.is_none(4) || !has_complex_elements<T>(call[4]), kInvalidArgument,
            call.op().target, " with a complex window needs return_complex");
  BasicValue<T> x = has_batch ? call[0] : run_op<T>("unsqueeze", {call[0], 0});
  x = run_op<T>("transpose.int", {x, 1, 2});
  const int64_t normalization = call.boolean(6) ? kScaledByRoot : kScaledBySize;
  if (is_result_complex) {
    x = run_op<T>("_fft_c2c", {x, numbers<T>({2}), normalization, false});
  } else {
    if (!is_onesided) x = run_op<T>("slice.Tensor", {x, 2, 0, framing.size / 2 + 1});
    x = run_op<T>("_fft_c2r", {x, numbers<T>({2}), normalization, framing.size});
  }
  BasicValue<T> window = window_of_frame(call, framing, DType::kF32);
  if (window.is_none()) window = filled<T>(DType::kF32, framing.size, 1);
  const SymInt laid = SymInt(framing.size) + SymInt(framing.step) * (frames - SymInt(1));
  const auto lay = [&](const BasicValue<T>& rows, const SymInt& count) {
    return run_op<T>("unfold_backward", {rows, numbers<T>({count, laid}), 1, framing.size, framing.step});
  };
  x = lay(run_op<T>("mul.Tensor", {x, window}), has_batch ? sizes[0] : SymInt(1));
  const BasicValue<T> square = run_op<T>("mul.Tensor", {window, window});
  BasicValue<T> envelope = lay(run_op<T>("expand", {square, numbers<T>({1, frames, framing.size})}), 1);

  const SymInt start = call.boolean(5) ? framing.size / 2 : 0;
  const std::optional<SymInt> length = call.is_none(8) ? std::nullopt : std::optional(call.sym(8));
  QDQ_CHECK(!length || length->constant().value_or(1) > 0, kInvalidArgument, call.op().target, " makes a signal of ",
            length ? length->to_string() : "", " elements, wanted at least 1");
  const SymInt end = length ? start + *length : laid - start;
  const auto cut = [&](const BasicValue<T>& rows) { return run_op<T>("slice.Tensor", {rows, 1, start, end}); };
  envelope = cut(envelope);
  check_envelope(call, envelope);
  x = run_op<T>("div.Tensor", {cut(x), envelope});
  if (length) x = lengthened<T>(x, end - laid, *length);
  return has_batch ? x : run_op<T>("squeeze.dim", {x, 0});
}

}  // namespace

void add_frame_ops(std::vector<OpDef>& ops) {
  const auto add = [&](const char* line, Infer infer, Eval eval) {
    ops.push_back(define(line, infer, eval));
    ops.back().takes_complex = true;
  };
  add("aten::stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, "
      "bool normalized=False, bool? onesided=None, bool? return_complex=None) -> Tensor",
      stft<TensorMeta>, stft<Tensor>);
  add("aten::stft.center(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, "
      "bool center=True, str pad_mode=\"reflect\", bool normalized=False, bool? onesided=None, "
      "bool? return_complex=None) -> Tensor",
      stft_center<TensorMeta>, stft_center<Tensor>);
  add("aten::istft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, "
      "bool center=True, bool normalized=False, bool? onesided=None, int? length=None, bool return_complex=False) -> "
      "Tensor",
      istft<TensorMeta>, istft<Tensor>);
}

}  // namespace qdq
