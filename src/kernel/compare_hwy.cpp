#include "kernel/compare.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/compare_hwy.cpp"
#include "kernel/targets_hwy.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace qdq::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// f(vector of x, vector of y) for n elements, stored as Out; an operand of step 0 is a vector that stays.
template <class T, class DOut, class Out, class F>
HWY_INLINE void pair_up(const T* x, int64_t x_step, const T* y, int64_t y_step, int64_t n, DOut d_out, Out* out,
                        F&& f) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto one_x = hn::Set(d, *x), one_y = hn::Set(d, *y);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto a = x_step == 0 ? one_x : hn::LoadU(d, x + i), b = y_step == 0 ? one_y : hn::LoadU(d, y + i);
    hn::StoreU(f(a, b), d_out, out + i);
  }
  const auto rest = static_cast<size_t>(n - i);
  if (rest == 0) return;
  const auto a = x_step == 0 ? one_x : hn::LoadN(d, x + i, rest), b = y_step == 0 ? one_y : hn::LoadN(d, y + i, rest);
  hn::StoreN(f(a, b), d_out, out + i, rest);
}

template <Comparison how, class T>
void compare_all(const T* x, int64_t x_step, const T* y, int64_t y_step, int64_t n, uint8_t* out) {
  using D = hn::ScalableTag<T>;
  const hn::RebindToUnsigned<D> words;
  const hn::Rebind<uint8_t, D> bytes;
  pair_up(x, x_step, y, y_step, n, bytes, out, [&](auto a, auto b) HWY_ATTR {
    const auto is = how == Comparison::kEqual ? hn::Eq(a, b) : how == Comparison::kLess ? hn::Lt(a, b) : hn::Le(a, b);
    return hn::TruncateTo(bytes, hn::IfThenElseZero(hn::RebindMask(words, is), hn::Set(words, 1)));
  });
}

template <class T>
HWY_INLINE void compare_how(Comparison how, const T* x, int64_t x_step, const T* y, int64_t y_step, int64_t n,
                            uint8_t* out) {
  switch (how) {
    case Comparison::kEqual: return compare_all<Comparison::kEqual>(x, x_step, y, y_step, n, out);
    case Comparison::kLess: return compare_all<Comparison::kLess>(x, x_step, y, y_step, n, out);
    case Comparison::kLessEqual: return compare_all<Comparison::kLessEqual>(x, x_step, y, y_step, n, out);
  }
}
void compare_f32(Comparison how, const float* x, int64_t x_step, const float* y, int64_t y_step, int64_t n,
                 uint8_t* out) {
  compare_how(how, x, x_step, y, y_step, n, out);
}
void compare_i32(Comparison how, const int32_t* x, int64_t x_step, const int32_t* y, int64_t y_step, int64_t n,
                 uint8_t* out) {
  compare_how(how, x, x_step, y, y_step, n, out);
}
void compare_i64(Comparison how, const int64_t* x, int64_t x_step, const int64_t* y, int64_t y_step, int64_t n,
                 uint8_t* out) {
  compare_how(how, x, x_step, y, y_step, n, out);
}

void combine_bytes(Logic how, const uint8_t* x, int64_t x_step, const uint8_t* y, int64_t y_step, int64_t n,
                   uint8_t* out) {
  const hn::ScalableTag<uint8_t> d;
  const auto run = [&](auto f) HWY_ATTR { pair_up(x, x_step, y, y_step, n, d, out, f); };
  switch (how) {
    case Logic::kAnd: return run([](auto a, auto b) HWY_ATTR { return hn::And(a, b); });
    case Logic::kOr: return run([](auto a, auto b) HWY_ATTR { return hn::Or(a, b); });
    case Logic::kXor: return run([](auto a, auto b) HWY_ATTR { return hn::Xor(a, b); });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace qdq::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qdq::kernel {

HWY_EXPORT(compare_f32);
HWY_EXPORT(compare_i32);
HWY_EXPORT(compare_i64);
HWY_EXPORT(combine_bytes);

static_assert(sizeof(bool) == 1);

template <>
void compare(Comparison how, const float* x, int64_t x_step, const float* y, int64_t y_step, int64_t n, bool* out) {
  if (n > 0) HWY_DYNAMIC_DISPATCH(compare_f32)(how, x, x_step, y, y_step, n, reinterpret_cast<uint8_t*>(out));
}
template <>
void compare(Comparison how, const int32_t* x, int64_t x_step, const int32_t* y, int64_t y_step, int64_t n, bool* out) {
  if (n > 0) HWY_DYNAMIC_DISPATCH(compare_i32)(how, x, x_step, y, y_step, n, reinterpret_cast<uint8_t*>(out));
}
template <>
void compare(Comparison how, const int64_t* x, int64_t x_step, const int64_t* y, int64_t y_step, int64_t n, bool* out) {
  if (n > 0) HWY_DYNAMIC_DISPATCH(compare_i64)(how, x, x_step, y, y_step, n, reinterpret_cast<uint8_t*>(out));
}

void combine(Logic how, const bool* x, int64_t x_step, const bool* y, int64_t y_step, int64_t n, bool* out) {
  if (n > 0) HWY_DYNAMIC_DISPATCH(combine_bytes)
  (how, reinterpret_cast<const uint8_t*>(x), x_step, reinterpret_cast<const uint8_t*>(y), y_step, n,
   reinterpret_cast<uint8_t*>(out));
}

}  // namespace qdq::kernel
#endif
