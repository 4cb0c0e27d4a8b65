#include "op/fourier.h"

#include "base/error.h"
#include "base/memory.h"
#include "op/math.h"

namespace qdq {
namespace {

constexpr double kHalfTurn = 3.14159265358979323846;
constexpr int64_t kMostFactor = kernel::kMostFourierFactor;  // beyond which a convolution is quicker than its sums

Complex operator+(const Complex& a, const Complex& b) { return {a.real + b.real, a.imag + b.imag}; }
Complex operator-(const Complex& a, const Complex& b) { return {a.real - b.real, a.imag - b.imag}; }
Complex operator*(const Complex& a, const Complex& b) {
  return {a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real};
}
Complex conjugate(const Complex& z) { return {z.real, -z.imag}; }

// f of each row.
template <class F> ComplexRows of_each(const ComplexRows& rows, F&& f) {
  ComplexRows out;
  for (size_t r = 0; r < rows.real.size(); ++r) {
    const Complex z = f(Complex{rows.real[r], rows.imag[r]});
    out.real[r] = z.real;
    out.imag[r] = z.imag;
  }
  return out;
}
template <class F> Complex of_each(const Complex& z, F&& f) { return f(z); }

std::vector<int64_t> small_factors(int64_t n) {
  std::vector<int64_t> out;
  for (int64_t p : {int64_t{4}, int64_t{2}, int64_t{3}})
    for (; n % p == 0; n /= p) out.push_back(p);
  for (int64_t p = 5; p <= kMostFactor; p += 2)
    for (; n % p == 0; n /= p) out.push_back(p);
  return n == 1 ? out : std::vector<int64_t>();
}

}  // namespace

Complex root_of_one(int64_t k, int64_t n, double sign) {
  const double angle = 2 * kHalfTurn * static_cast<double>(k) / static_cast<double>(n);
  return {math::cos(angle), sign * math::sin(angle)};
}

std::vector<Complex> roots_of_one(int64_t count, int64_t n, double sign) {
  std::vector<Complex> out;
  out.reserve(static_cast<size_t>(count));
  const bool folds = n % 8 == 0;
  for (int64_t k = 0; k < count; ++k) {
    const auto mirrored = [&](int64_t around) { return out[static_cast<size_t>(around - k)]; };
    if (2 * k > n) out.push_back(conjugate(mirrored(n)));
    else if (folds && 4 * k > n) out.push_back({-mirrored(n / 2).real, mirrored(n / 2).imag});
    else if (folds && 8 * k > n) out.push_back({sign * mirrored(n / 4).imag, sign * mirrored(n / 4).real});
    else out.push_back(root_of_one(k, n, sign));
  }
  return out;
}

FourierTransform::FourierTransform(int64_t length, bool is_inverse) : length_(length) {
  QDQ_CHECK(length >= 1 && length <= kMostLength, kInvalidArgument, "a Fourier transform of ", length,
            " elements is wanted; qdq transforms 1 to ", kMostLength);
  const double sign = is_inverse ? 1 : -1;
  const auto n = static_cast<size_t>(length);
  factors_ = small_factors(length);
  const bool is_split = !factors_.empty() || length == 1;
  QDQ_CHECK(is_split || length <= kMostLength / 2, kInvalidArgument, "a Fourier transform of ", length,
            " elements is wanted, a number with a prime factor above ", kMostFactor,
            "; qdq transforms such numbers up to ", kMostLength / 2);
  constexpr uint64_t kTables = 21;  // of a convolution, whose power of two is below 4 times the length, and its rows
  check_memory((is_split ? 1 : kTables) * n * sizeof(Complex), "a Fourier transform");
  if (is_split) {
    waves_ = roots_of_one(length, length, sign);
    return;
  }
  waves_.resize(n);
  for (int64_t k = 0; k < length; ++k)
    waves_[static_cast<size_t>(k)] = root_of_one(k * k % (2 * length), 2 * length, sign);
  int64_t power = 1;
  while (power < 2 * length - 1) power *= 2;
  convolution_ = std::make_unique<FourierTransform>(power, false);
  std::vector<Complex> chirp(static_cast<size_t>(power));
  filter_.resize(chirp.size());
  for (size_t k = 0; k < n; ++k) {
    chirp[k] = conjugate(waves_[k]);
    if (k > 0) chirp[chirp.size() - k] = chirp[k];
  }
  convolution_->run(chirp.data(), filter_.data());
}

void FourierTransform::run(const Complex* in, Complex* out) const {
  if (convolution_) return convolve(in, out);
  split(in, 1, out, length_, 0);
}
void FourierTransform::run(const ComplexRows* in, ComplexRows* out) const {
  if (convolution_) return convolve(in, out);
  kernel::transform_rows_f64({length_, factors_.data(), &waves_[0].real}, in->real.data(), out->real.data());
}

// The transforms of every p-th element, then sums of p of their results.
void FourierTransform::split(const Complex* in, int64_t stride, Complex* out, int64_t length, size_t level) const {
  if (length == 1) {
    out[0] = in[0];
    return;
  }
  const int64_t p = factors_[level], m = length / p, turn = length_ / length;
  for (int64_t q = 0; q < p; ++q) {
    if (m == 1) out[q] = in[q * stride];
    else split(in + q * stride, stride * p, out + q * m, m, level + 1);
  }
  const Complex* waves = waves_.data();
  Complex part[kMostFactor];
  for (int64_t k = 0; k < m; ++k) {
    part[0] = out[k];
    for (int64_t q = 1; q < p; ++q) part[q] = out[q * m + k] * waves[q * k * turn];
    if (p == 2) {
      out[k] = part[0] + part[1];
      out[m + k] = part[0] - part[1];
    } else if (p == 4) {
      const Complex quarter = waves[length_ / 4];
      const Complex a = part[0] + part[2], b = part[0] - part[2], c = part[1] + part[3], d = part[1] - part[3];
      const Complex turned = {-quarter.imag * d.imag, quarter.imag * d.real};  // the quarter is -i or i
      out[k] = a + c;
      out[m + k] = b + turned;
      out[2 * m + k] = a - c;
      out[3 * m + k] = b - turned;
    } else {
      sum_odd(part, p, out + k, m);
    }
  }
}

// out[r * step] = sum over q of part[q] exp(-2 pi i q r / p) for an odd p, whose roots of q and p - q are conjugates.
void FourierTransform::sum_odd(const Complex* part, int64_t p, Complex* out, int64_t step) const {
  const int64_t half = p / 2, turn = length_ / p;
  Complex sums[kMostFactor], differences[kMostFactor];
  out[0] = part[0];
  for (int64_t q = 1; q <= half; ++q) {
    sums[q] = part[q] + part[p - q];
    differences[q] = part[q] - part[p - q];
    out[0] = out[0] + sums[q];
  }
  for (int64_t r = 1; r <= half; ++r) {
    Complex even = part[0], odd{};
    for (int64_t q = 1, at = r; q <= half; ++q, at = at + r < p ? at + r : at + r - p) {
      const Complex root = waves_[static_cast<size_t>(at * turn)];
      even = {even.real + sums[q].real * root.real, even.imag + sums[q].imag * root.real};
      odd = {odd.real + differences[q].imag * root.imag, odd.imag + differences[q].real * root.imag};
    }
    out[r * step] = {even.real - odd.real, even.imag + odd.imag};
    out[(p - r) * step] = {even.real + odd.real, even.imag - odd.imag};
  }
}

template <class Z> void FourierTransform::convolve(const Z* in, Z* out) const {
  const auto n = static_cast<size_t>(length_), power = filter_.size();
  std::vector<Z> rows(power), products(power);
  for (size_t t = 0; t < n; ++t) rows[t] = of_each(in[t], [&](Complex z) { return z * waves_[t]; });
  convolution_->run(rows.data(), products.data());
  // The inverse transform is the conjugate of the transform of the conjugate.
  for (size_t k = 0; k < power; ++k)
    products[k] = of_each(products[k], [&](Complex z) { return conjugate(z * filter_[k]); });
  convolution_->run(products.data(), rows.data());
  const double scale = 1 / static_cast<double>(power);
  for (size_t k = 0; k < n; ++k)
    out[k] = of_each(rows[k], [&](Complex z) {
      const Complex value = conjugate(z) * waves_[k];
      return Complex{value.real * scale, value.imag * scale};
    });
}

}  // namespace qdq
