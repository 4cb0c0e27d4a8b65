// The exponential and what is made of it, of arrays, in vectors of any width: the bits of kernel/math.h's four lanes.
#include <algorithm>

#include "base/parallel.h"
#include "kernel/math.h"
#include "kernel/math_xsimd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/curve_hwy.cpp"
#include "kernel/targets_hwy.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernel/curve_hwy.h"

HWY_BEFORE_NAMESPACE();
namespace qdq::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

bool in_range(const float* x, int64_t n, float range) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V most = hn::Set(d, range);
  auto inside = hn::Le(most, most);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) inside = hn::And(inside, hn::Le(hn::Abs(hn::LoadU(d, x + i)), most));
  if (i < n) inside = hn::And(inside, hn::Le(hn::Abs(hn::LoadN(d, x + i, static_cast<size_t>(n - i))), most));
  return hn::AllTrue(d, inside);
}

// A run that holds an argument beyond the range, or NaN, is left to `rare`.
template <class F>
HWY_INLINE void map(const float* x, int64_t n, float* out, void (*rare)(const float*, int64_t, float*), F&& f) {
  const D d;
  constexpr int64_t kRun = 1024;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; n > 0; n -= kRun, x += kRun, out += kRun) {
    const int64_t run = std::min(n, kRun);
    if (!in_range(x, run, kExpRange)) {
      rare(x, run, out);
      continue;
    }
    int64_t i = 0;
    for (; i + lanes <= run; i += lanes) hn::StoreU(f(hn::LoadU(d, x + i)), d, out + i);
    if (i < run)
      hn::StoreN(f(hn::LoadN(d, x + i, static_cast<size_t>(run - i))), d, out + i, static_cast<size_t>(run - i));
  }
}

void exp(const float* x, int64_t n, float* out) {
  const float* c = hidden(kExpConstants);
  map(x, n, out, four_lanes::exp_f32, [&](V v) HWY_ATTR { return exp_of_minus(D(), c, hn::Neg(v)); });
}
void sigmoid(const float* x, int64_t n, float* out) {
  const float* c = hidden(kExpConstants);
  map(x, n, out, four_lanes::sigmoid_f32, [&](V v) HWY_ATTR { return sigmoid_real(D(), c, v); });
}
void silu(const float* x, int64_t n, float* out) {
  const float* c = hidden(kExpConstants);
  map(x, n, out, four_lanes::silu_f32, [&](V v) HWY_ATTR { return silu_real(D(), c, v); });
}
void gelu(const float* x, int64_t n, float* out) {
  const float *c = hidden(kExpConstants), *e = hidden(kErfConstants);
  map(x, n, out, four_lanes::gelu_f32, [&](V v) HWY_ATTR { return gelu_real(D(), c, e, v); });
}

}  // namespace HWY_NAMESPACE
}  // namespace qdq::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qdq::kernel {
namespace {
HWY_EXPORT(exp);
HWY_EXPORT(sigmoid);
HWY_EXPORT(silu);
HWY_EXPORT(gelu);

template <class Run> void in_threads(const float* x, int64_t n, float* out, Run run) {
  parallel_for(n, int64_t{1} << 14, [&](int64_t begin, int64_t end) { run(x + begin, end - begin, out + begin); });
}

}  // namespace

void exp_run(const float* x, int64_t n, float* out) { HWY_DYNAMIC_DISPATCH(exp)(x, n, out); }

void exp_f32(const float* x, int64_t n, float* out) { in_threads(x, n, out, HWY_DYNAMIC_POINTER(exp)); }
void sigmoid_f32(const float* x, int64_t n, float* out) { in_threads(x, n, out, HWY_DYNAMIC_POINTER(sigmoid)); }
void silu_f32(const float* x, int64_t n, float* out) { in_threads(x, n, out, HWY_DYNAMIC_POINTER(silu)); }
void gelu_f32(const float* x, int64_t n, float* out) { in_threads(x, n, out, HWY_DYNAMIC_POINTER(gelu)); }

}  // namespace qdq::kernel
#endif
