// Fourier transforms by the factors of the length (Cooley and Tukey); vectors run along rows.
#include "kernel/fourier.h"

#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/fourier_hwy.cpp"
#include "kernel/targets_hwy.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace qdq::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<double, kFourierRows>;
using V = hn::Vec<D>;
struct Z {
  V real, imag;
};

constexpr int64_t kStep = 2 * kFourierRows;  // from one number to the next
HWY_INLINE Z load(const double* from) { return {hn::LoadU(D(), from), hn::LoadU(D(), from + kFourierRows)}; }
HWY_INLINE void store(Z z, double* to) {
  hn::StoreU(z.real, D(), to);
  hn::StoreU(z.imag, D(), to + kFourierRows);
}
HWY_INLINE Z add(Z a, Z b) { return {hn::Add(a.real, b.real), hn::Add(a.imag, b.imag)}; }
HWY_INLINE Z subtract(Z a, Z b) { return {hn::Sub(a.real, b.real), hn::Sub(a.imag, b.imag)}; }
HWY_INLINE Z multiply(Z a, const double* wave) {
  const V real = hn::Set(D(), wave[0]), imag = hn::Set(D(), wave[1]);
  return {hn::Sub(hn::Mul(a.real, real), hn::Mul(a.imag, imag)), hn::Add(hn::Mul(a.real, imag), hn::Mul(a.imag, real))};
}

// out[r * step] = sum over q of part[q] exp(-2 pi i q r / p) for an odd p, whose roots of q and p - q are conjugates.
void sum_odd(const FourierPlan& plan, const Z* part, int64_t p, double* out, int64_t step) {
  const int64_t half = p / 2, turn = plan.length / p;
  Z sums[kMostFourierFactor / 2 + 1], differences[kMostFourierFactor / 2 + 1];
  Z all = part[0];
  for (int64_t q = 1; q <= half; ++q) {
    sums[q] = add(part[q], part[p - q]);
    differences[q] = subtract(part[q], part[p - q]);
    all = add(all, sums[q]);
  }
  store(all, out);
  for (int64_t r = 1; r <= half; ++r) {
    Z even = part[0], odd{hn::Zero(D()), hn::Zero(D())};
    for (int64_t q = 1, at = r; q <= half; ++q, at = at + r < p ? at + r : at + r - p) {
      const double* root = plan.waves + 2 * at * turn;
      const V real = hn::Set(D(), root[0]), imag = hn::Set(D(), root[1]);
      even = {hn::Add(even.real, hn::Mul(sums[q].real, real)), hn::Add(even.imag, hn::Mul(sums[q].imag, real))};
      odd = {hn::Add(odd.real, hn::Mul(differences[q].imag, imag)),
             hn::Add(odd.imag, hn::Mul(differences[q].real, imag))};
    }
    store({hn::Sub(even.real, odd.real), hn::Add(even.imag, odd.imag)}, out + r * step);
    store({hn::Add(even.real, odd.real), hn::Sub(even.imag, odd.imag)}, out + (p - r) * step);
  }
}

// The transforms of every p-th number, then sums of p of their results.
void split(const FourierPlan& plan, const double* in, int64_t stride, double* out, int64_t length, size_t level) {
  if (length == 1) return store(load(in), out);
  const int64_t p = plan.factors[level], m = length / p, turn = plan.length / length, step = m * kStep;
  for (int64_t q = 0; q < p; ++q) {
    if (m == 1) store(load(in + q * stride * kStep), out + q * kStep);
    else split(plan, in + q * stride * kStep, stride * p, out + q * step, m, level + 1);
  }
  const V quarter = hn::Set(D(), plan.waves[2 * (plan.length / 4) + 1]);  // of the quarter, which is -i or i
  Z part[kMostFourierFactor];
  for (int64_t k = 0; k < m; ++k, out += kStep) {
    part[0] = load(out);
    for (int64_t q = 1; q < p; ++q) part[q] = multiply(load(out + q * step), plan.waves + 2 * q * k * turn);
    if (p == 2) {
      store(add(part[0], part[1]), out);
      store(subtract(part[0], part[1]), out + step);
    } else if (p == 4) {
      const Z a = add(part[0], part[2]), b = subtract(part[0], part[2]), c = add(part[1], part[3]),
              d = subtract(part[1], part[3]);
      const Z turned = {hn::Mul(hn::Neg(quarter), d.imag), hn::Mul(quarter, d.real)};
      store(add(a, c), out);
      store(add(b, turned), out + step);
      store(subtract(a, c), out + 2 * step);
      store(subtract(b, turned), out + 3 * step);
    } else {
      sum_odd(plan, part, p, out, step);
    }
  }
}

void transform_rows(const FourierPlan& plan, const double* in, double* out) {
  for (size_t lane = 0; lane < kFourierRows; lane += hn::Lanes(D()))
    split(plan, in + lane, 1, out + lane, plan.length, 0);
}

}  // namespace HWY_NAMESPACE
}  // namespace qdq::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qdq::kernel {
namespace {
HWY_EXPORT(transform_rows);
}  // namespace

void transform_rows_f64(const FourierPlan& plan, const double* in, double* out) {
  HWY_DYNAMIC_DISPATCH(transform_rows)(plan, in, out);
}

}  // namespace qdq::kernel
#endif
