// Views of complex tensors as real ones, and back.
#include "message_of.h"
#include "tensor/complex.h"

#include <gtest/gtest.h>

#include <vector>

namespace qdq::complex_test {
namespace {

Tensor complex_of(const Shape& sizes, std::vector<float> pairs) {
  Shape with_pairs = sizes;
  with_pairs.push_back(2);
  const Tensor real = Tensor::empty(with_pairs, DType::kF32);
  std::copy(pairs.begin(), pairs.end(), real.data<float>());
  return view_as_complex(real);
}
std::vector<float> floats_of(const Tensor& x) {
  const Tensor y = x.contiguous();
  return {y.data<float>(), y.data<float>() + y.numel()};
}
TEST(Complex, HasTheNumberOfTorchsSchema) {
  EXPECT_EQ(static_cast<int>(DType::kC64), 10);  // ScalarType.COMPLEXFLOAT
  EXPECT_EQ(dtype_from_number(10), DType::kC64);
  EXPECT_EQ(dtype_from_name("torch.complex64"), DType::kC64);
  EXPECT_EQ(size_of(DType::kC64), 8u);
  EXPECT_FALSE(is_floating(DType::kC64) || is_integral(DType::kC64));
}

TEST(Complex, PartsAreViewsOfTheBytes) {
  const Tensor z = complex_of({2, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(floats_of(real_part(z)), (std::vector<float>{0, 2, 4, 6}));
  EXPECT_EQ(floats_of(imag_part(z)), (std::vector<float>{1, 3, 5, 7}));
  EXPECT_EQ(floats_of(imag_part(z.transpose(0, 1))), (std::vector<float>{1, 5, 3, 7}));
  EXPECT_EQ(floats_of(view_as_real(z.select(1, 1))), (std::vector<float>{2, 3, 6, 7}));
  imag_part(z).copy_from(Tensor::scalar(9.f));
  EXPECT_EQ(floats_of(view_as_real(z)), (std::vector<float>{0, 9, 2, 9, 4, 9, 6, 9}));
}

TEST(Complex, ViewsGoBackAndForth) {
  const Tensor x = Tensor::of<float>({3, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  const Tensor pairs = x.reshape({3, 2, 2}), z = view_as_complex(pairs.transpose(0, 1));
  EXPECT_EQ(z.storage(), x.storage());
  EXPECT_EQ(z.sizes(), (Shape{2, 3}));
  EXPECT_EQ(floats_of(real_part(z)), (std::vector<float>{0, 4, 8, 2, 6, 10}));
  EXPECT_EQ(floats_of(view_as_real(z)), floats_of(pairs.transpose(0, 1)));
  EXPECT_EQ(view_as_complex(Tensor::empty({0, 2}, DType::kF32)).sizes(), Shape{0});
  EXPECT_EQ(view_as_real(Tensor::empty({3, 0}, DType::kC64)).sizes(), (Shape{3, 0, 2}));
}

TEST(Complex, RefusesPairsThatDoNotLieTogether) {
  const Tensor x = Tensor::empty({5, 4}, DType::kF32);
  EXPECT_EQ(message_of([&] { view_as_complex(x); }),
            "view_as_complex needs a last axis of 2 elements, found the shape [5, 4]");
  EXPECT_NE(message_of([&] { view_as_complex(x.slice(1, 1, 3)); }).find("pairs at even places"), std::string::npos);
  EXPECT_NE(message_of([&] { view_as_complex(x.slice(1, 0, 4, 2)); }).find("pairs at even places"), std::string::npos);
  EXPECT_NE(message_of([&] { view_as_complex(x.as_strided({3, 2}, {3, 1}, 0)); }).find("pairs at even places"),
            std::string::npos);
  EXPECT_EQ(message_of([&] { view_as_complex(Tensor::empty({2}, DType::kF64)); }),
            "view_as_complex makes complex64 of float32, found float64");
  EXPECT_EQ(message_of([&] { real_part(x); }), "a complex64 tensor is wanted, found float32");
  EXPECT_EQ(message_of([&] { view_as_real(x); }), "a complex64 tensor is wanted, found float32");
}

TEST(Complex, TakesRealNumbersAndGivesNoneBack) {
  const Tensor z = Tensor::empty({2}, DType::kC64);
  z.copy_from(Tensor::of<int64_t>({2}, {3, 4}));
  EXPECT_EQ(floats_of(view_as_real(z)), (std::vector<float>{3, 0, 4, 0}));
  EXPECT_EQ(floats_of(view_as_real(Tensor::full({2}, DType::kC64, 2.5))), (std::vector<float>{2.5, 0, 2.5, 0}));
  EXPECT_NE(message_of([&] { z.to(DType::kF32); }).find("complex64"), std::string::npos);
  EXPECT_NE(message_of([&] { z.to(DType::kBool); }).find("complex64"), std::string::npos);
}

}  // namespace
}  // namespace qdq::complex_test
