// The discrete Fourier transform of rows, in double.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernel/fourier.h"

namespace qdq {

struct Complex {
  double real, imag;
};
// The numbers of some rows at the same place, which are computed alike.
struct ComplexRows {
  std::array<double, kernel::kFourierRows> real, imag;
};

// exp(sign i 2 pi k / n) for 0 <= k < n.
Complex root_of_one(int64_t k, int64_t n, double sign);
// The first `count` of these, at most n. Those beyond a half turn, and if 8 divides n an eighth of one, mirror others.
std::vector<Complex> roots_of_one(int64_t count, int64_t n, double sign);

// out[k] = sum over t of in[t] exp(-2 pi i t k / n), or with + for the inverse one; nothing is scaled. Lengths whose
// prime factors are small are split into them (Cooley and Tukey), others become a convolution whose length is a power
// of two (Bluestein). The order of every sum depends on the length alone.
class FourierTransform {
 public:
  // Throws Error{kInvalidArgument} unless 1 <= length <= kMostLength, and half of that where a convolution is wanted;
  // Error{kOutOfMemory} if its tables do not fit into memory.
  FourierTransform(int64_t length, bool is_inverse);
  // `in` and `out` are `length` numbers each, of different places.
  void run(const Complex* in, Complex* out) const;
  // The same of several rows, each with the bits that it has alone.
  void run(const ComplexRows* in, ComplexRows* out) const;

  static constexpr int64_t kMostLength = int64_t{1} << 24;

 private:
  void split(const Complex* in, int64_t stride, Complex* out, int64_t length, size_t level) const;
  void sum_odd(const Complex* part, int64_t p, Complex* out, int64_t step) const;
  template <class Z> void convolve(const Z* in, Z* out) const;

  int64_t length_;
  std::vector<int64_t> factors_;                   // of the length; empty for a convolution
  std::vector<Complex> waves_;                     // exp(-2 pi i k / n); of a convolution the chirp exp(-pi i k^2 / n)
  std::unique_ptr<FourierTransform> convolution_;  // of the power of two
  std::vector<Complex> filter_;                    // the transform of the chirp's conjugate
};

}  // namespace qdq
