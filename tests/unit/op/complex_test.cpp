// Operators on complex tensors: what golden data cannot tell (views, refusals), and stft with its inverse.
#include "tensor/complex.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "message_of.h"
#include "op/infer.h"

namespace qdq::complex_test {
namespace {

Tensor tensor(const Value& value) { return *value.get_if<Tensor>(); }
Tensor complex_row(std::vector<float> pairs) {
  const auto count = static_cast<int64_t>(pairs.size()) / 2;
  const Tensor real = Tensor::empty({count, 2}, DType::kF32);
  std::copy(pairs.begin(), pairs.end(), real.data<float>());
  return view_as_complex(real);
}
std::vector<float> pairs_of(const Value& z) {
  const Tensor x = view_as_real(tensor(z)).contiguous();
  return {x.data<float>(), x.data<float>() + x.numel()};
}
std::vector<float> numbers_of(const Value& value) {
  const Tensor x = tensor(value).contiguous();
  return {x.data<float>(), x.data<float>() + x.numel()};
}
Tensor signal(int64_t rows, int64_t length) {
  const Tensor x = Tensor::empty({rows, length}, DType::kF32);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = static_cast<float>(i * 7 % 23) / 5 - 2;
  return x;
}
std::string refusal(std::string_view op, const std::vector<Value>& args) {
  return message_of([&] { run_op<Tensor>(op, args); });
}

TEST(ComplexOps, PartsAreViewsAndConjugatesAreNot) {
  const Tensor z = complex_row({1, 2, 3, 4});
  EXPECT_EQ(tensor(run_op<Tensor>("real", {z})).storage(), z.storage());
  EXPECT_EQ(tensor(run_op<Tensor>("imag", {z})).storage(), z.storage());
  EXPECT_EQ(tensor(run_op<Tensor>("view_as_real", {z})).storage(), z.storage());
  EXPECT_EQ(pairs_of(run_op<Tensor>("conj", {z})), (std::vector<float>{1, -2, 3, -4}));
  EXPECT_NE(tensor(run_op<Tensor>("conj", {z})).storage(), z.storage());
}

TEST(ComplexOps, ComputeWithBothPartsInDouble) {
  const Tensor a = complex_row({1, 2, -3, 0}), b = complex_row({3, -1, 0, 2});
  EXPECT_EQ(pairs_of(run_op<Tensor>("mul.Tensor", {a, b})), (std::vector<float>{5, 5, 0, -6}));
  EXPECT_EQ(pairs_of(run_op<Tensor>("div.Tensor", {run_op<Tensor>("mul.Tensor", {a, b}), b})), pairs_of(a));
  EXPECT_EQ(pairs_of(run_op<Tensor>("add.Tensor", {a, b, 2})), (std::vector<float>{7, 0, -3, 4}));
  EXPECT_EQ(pairs_of(run_op<Tensor>("sum", {a})), (std::vector<float>{-2, 2}));
  // The square of 1e30 is beyond float.
  EXPECT_FLOAT_EQ(numbers_of(run_op<Tensor>("abs", {complex_row({3e30f, 4e30f})}))[0], 5e30f);
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(numbers_of(run_op<Tensor>("abs", {complex_row({kNan, -kInf})}))[0], kInf);
  EXPECT_EQ(numbers_of(run_op<Tensor>("angle", {complex_row({0, 0, 0, 1})})),
            (std::vector<float>{0, static_cast<float>(std::acos(0.0))}));
}

TEST(ComplexOps, OthersRefuseInOneSentence) {
  const Tensor z = complex_row({1, 2});
  EXPECT_EQ(refusal("relu", {z}),
            "torch.ops.aten.relu.default has no form for complex numbers, and its argument 'self' is complex64");
  EXPECT_EQ(refusal("to.dtype", {z, DType::kF32}),
            "a complex64 tensor is converted to float32, which would lose its imaginary parts; take real, imag or abs "
            "of it");
  EXPECT_EQ(refusal("view_as_real", {Tensor::scalar(1.f)}),
            "torch.ops.aten.view_as_real.default needs a complex tensor, found float32");
  EXPECT_EQ(refusal("imag", {Tensor::scalar(1.f)}),
            "torch.ops.aten.imag.default needs a complex tensor, found float32");
  EXPECT_EQ(refusal("einsum", {"a,a,a->a", Value::List{z, z, z}}),
            "torch.ops.aten.einsum.default multiplies at most 2 complex tensors, found 3");
  EXPECT_EQ(refusal("complex", {Tensor::empty({2}, DType::kF64), Tensor::empty({2}, DType::kF64)}),
            "torch.ops.aten.complex.default makes complex64 of float32, found float64");
  EXPECT_NE(refusal("mul.Tensor", {z, Tensor::empty({1}, DType::kF64)}).find("complex128"), std::string::npos);
}

TEST(Frames, MakeASignalAgain) {
  const Tensor x = signal(2, 60), window = Tensor::full({12}, DType::kF32, 0.75);
  for (const bool is_normalized : {false, true})
    for (const bool is_onesided : {false, true}) {
      const Value z =
          run_op<Tensor>("stft.center", {x, 16, 4, 12, window, true, "reflect", is_normalized, is_onesided, true});
      EXPECT_EQ(tensor(z).sizes(), (Shape{2, is_onesided ? 9 : 16, 16}));
      const Value back = run_op<Tensor>("istft", {z, 16, 4, 12, window, true, is_normalized, is_onesided, 60});
      const std::vector<float> found = numbers_of(back), wanted = numbers_of(x);
      ASSERT_EQ(found.size(), wanted.size());
      for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-5) << i;
    }
}

TEST(Frames, OpenSizesAreInferred) {
  const SymInt n = SymInt::symbol("n");
  const MetaValue z = run_op<TensorMeta>("stft", {tensor_meta(DType::kF32, {2, n}), 16, 4, {}, {}, false, true, true});
  EXPECT_EQ(z.get_if<TensorMeta>()->dtype, DType::kC64);
  EXPECT_EQ(z.get_if<TensorMeta>()->sizes, (SymShape{2, 9, (n - 16).floor_div(4) + 1}));
  const MetaValue x = run_op<TensorMeta>("istft", {tensor_meta(DType::kC64, {2, 9, n}), 16, 4});
  EXPECT_EQ(x.get_if<TensorMeta>()->dtype, DType::kF32);
  EXPECT_EQ(x.get_if<TensorMeta>()->sizes, (SymShape{2, (n - 1) * 4}));
  const MetaValue cut =
      run_op<TensorMeta>("istft", {tensor_meta(DType::kC64, {9, n}), 16, 4, {}, {}, true, false, {}, 30});
  EXPECT_EQ(cut.get_if<TensorMeta>()->sizes, (SymShape{30}));
}

TEST(Frames, RefuseWhatPyTorchRefuses) {
  const Tensor x = signal(2, 20), z = tensor(run_op<Tensor>("to.dtype", {x, DType::kC64}));
  const std::string name = "torch.ops.aten.stft.default", inverse = "torch.ops.aten.istft.default";
  EXPECT_EQ(refusal("stft", {x, 0}),
            name +
                " got n_fft 0, hop_length 0 and win_length 0; wanted 0 < win_length <= n_fft <= 67108864 and 0 < "
                "hop_length");
  EXPECT_EQ(refusal("stft", {x, 32, 4, {}, {}, false, {}, true}),
            name + " takes frames of 32 elements from a signal of 20");
  EXPECT_EQ(refusal("stft", {x, 16, 4, 12, Tensor::empty({16}, DType::kF32), false, {}, true}),
            name + " needs a window of shape [12], found [16]");
  EXPECT_EQ(refusal("stft", {z, 16, 4, {}, {}, false, true}),
            name + " cannot be one-sided where the signal or the window is complex");
  EXPECT_EQ(refusal("stft", {x, 16}), name + " needs return_complex for a real signal");
  EXPECT_EQ(refusal("stft", {Tensor::empty({1, 2, 20}, DType::kF32), 16}),
            name + " needs a signal of 1 or 2 axes, found 3");
  EXPECT_EQ(refusal("stft", {x.to(DType::kF64), 16, 4, {}, {}, false, {}, true}),
            "torch.ops.aten._fft_r2c.default transforms float32 tensors, found float64");
  EXPECT_EQ(refusal("istft", {x, 16}), inverse + " needs a complex tensor, found float32");
  EXPECT_EQ(refusal("istft", {z, 4}), inverse + " needs 3 frequencies for n_fft 4 and a one-sided transform, found 2");
  EXPECT_EQ(refusal("istft", {z, 2, 2, 1}), inverse + " needs a hop_length of at most win_length, found 2 and 1");
  EXPECT_EQ(refusal("istft", {z, 2, 1, {}, {}, true, false, {}, -7}),
            inverse + " makes a signal of -7 elements, wanted at least 1");
  EXPECT_EQ(refusal("istft", {z, 2, 2, {}, Tensor::of<float>({2}, {0, 1}), false}),
            inverse +
                " divides by a window that is zero where frames do not overlap; it needs a smaller hop_length or "
                "a window without zeros");
}

TEST(Frames, AreAddedWhereTheyOverlap) {
  const Tensor windows = Tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(numbers_of(run_op<Tensor>("unfold_backward", {windows, Value::List{4}, 0, 2, 1})),
            (std::vector<float>{1, 5, 9, 6}));
  EXPECT_EQ(numbers_of(run_op<Tensor>("unfold_backward", {windows, Value::List{9}, 0, 2, 3})),
            (std::vector<float>{1, 2, 0, 3, 4, 0, 5, 6, 0}));
  EXPECT_EQ(refusal("unfold_backward", {windows, Value::List{9}, 0, 2, 1}),
            "torch.ops.aten.unfold_backward.default needs windows of shape [8, 2], found [3, 2]");
  EXPECT_EQ(refusal("unfold_backward", {windows, Value::List(), 0, 2, 1}),
            "torch.ops.aten.unfold_backward.default makes a tensor without axes");
}

}  // namespace
}  // namespace qdq::complex_test
