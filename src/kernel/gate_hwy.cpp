// Gates by tables of cubics, which lie in registers where these are long enough.
#include "kernel/gate.h"

#include <array>
#include <cmath>
#include <cstring>

#include "base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernel/gate_hwy.cpp"
#include "kernel/targets_hwy.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernel/requantize_hwy.h"

HWY_BEFORE_NAMESPACE();
namespace qdq::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D32 = hn::CappedTag<int32_t, 16>;
using DF = hn::Rebind<float, D32>;
using VF = hn::Vec<DF>;
using VI = hn::Vec<D32>;
constexpr int64_t kLanes = static_cast<int64_t>(HWY_MAX_LANES_D(D32));
constexpr int kVectors = 4;
constexpr int64_t kColumns = kVectors * kLanes;

// One row of the table, looked up at 16 places or fewer.
struct TableRow {
#if HWY_MAX_BYTES >= 64
  VF low, high;
  HWY_INLINE explicit TableRow(const float* from) : low(hn::LoadU(DF(), from)), high(hn::LoadU(DF(), from + kLanes)) {}
#else
  const float* values;
  HWY_INLINE explicit TableRow(const float* from) : values(from) {}
#endif
  HWY_INLINE VF at(VI piece) const {
#if HWY_MAX_BYTES >= 64
    return hn::TwoTablesLookupLanes(DF(), low, high, hn::IndicesFromVec(DF(), piece));
#else
    return hn::GatherIndex(DF(), values, piece);
#endif
  }
};

struct Gate {
  TableRow c0, c1, c2, c3;
  VF scale, last, rounder;

  HWY_INLINE explicit Gate(const GateTable& table)
      : c0(table.c[0]), c1(table.c[1]), c2(table.c[2]), c3(table.c[3]), scale(hn::Set(DF(), table.pieces_per_unit)),
        last(hn::Set(DF(), (GateTable::kPieces - 0.75f) / table.pieces_per_unit)), rounder(hn::Set(DF(), kRounder)) {}

  HWY_INLINE VF operator()(VF x) const {
    const VF u = hn::Min(hn::Abs(x), last);
    // The low bits of a number behind the rounder are its integer; of NaN any, so they are cut.
    const VI piece = hn::And(hn::BitCast(D32(), hn::MulAdd(u, scale, rounder)), hn::Set(D32(), GateTable::kPieces - 1));
    VF fall = hn::MulAdd(c3.at(piece), u, c2.at(piece));
    fall = hn::MulAdd(fall, u, c1.at(piece));
    fall = hn::MulAdd(fall, u, c0.at(piece));
    return hn::Add(hn::Max(hn::Zero(DF()), x), fall);
  }
};

// kColumns results in f32.
HWY_INLINE void gate_floats(const Gate& gate, const float* x, float* out) {
#pragma GCC unroll 4
  for (int64_t v = 0; v < kVectors; ++v) hn::StoreU(gate(hn::LoadU(DF(), x + v * kLanes)), DF(), out + v * kLanes);
}

// kColumns results as bytes. Bounds are those of the reals, so that product and rounding are one operation.
struct Bytes {
  using D8 = hn::Repartition<uint8_t, D32>;
  VF inverse, low, high, rounder;
  VI shift;
  decltype(hn::SetTableIndices(D32(), static_cast<const int32_t*>(nullptr))) in_order;

  HWY_INLINE Bytes(const Requantize& to, const int32_t* order)
      : inverse(hn::Set(DF(), to.inverse_scale)),
        low(hn::Set(DF(), static_cast<float>(to.low - to.zero_point) / to.inverse_scale)),
        high(hn::Set(DF(), static_cast<float>(to.high - to.zero_point) / to.inverse_scale)),
        rounder(hn::Set(DF(), kRounder)), shift(hn::Set(D32(), kRounderBits - to.zero_point)),
        in_order(hn::SetTableIndices(D32(), order)) {}

  HWY_INLINE void operator()(const Gate& gate, const float* x, uint8_t* out) const {
    const hn::Repartition<int16_t, D32> d16;
    VI q[kVectors];
#pragma GCC unroll 4
    for (int64_t v = 0; v < kVectors; ++v) {
      const VF y = hn::Min(hn::Max(gate(hn::LoadU(DF(), x + v * kLanes)), low), high);
      q[v] = hn::Sub(hn::BitCast(D32(), hn::MulAdd(y, inverse, rounder)), shift);
    }
    const auto packed =
        hn::ReorderDemote2To(D8(), hn::ReorderDemote2To(d16, q[0], q[1]), hn::ReorderDemote2To(d16, q[2], q[3]));
    hn::StoreU(hn::BitCast(D8(), hn::TableLookupLanes(hn::BitCast(D32(), packed), in_order)), D8(), out);
  }
};

void gate_range(const GateTable& table, const float* x, int64_t n, const Requantize& to, std::byte* out) {
  const Gate gate(table);
  // Packing by blocks of 4 lanes leaves the four bytes of block b of vector v in lane 4 b + v.
  HWY_ALIGN int32_t order[kLanes];
  for (int64_t v = 0; v < kVectors; ++v)
    for (int64_t b = 0; b < kLanes / 4; ++b) order[v * (kLanes / 4) + b] = static_cast<int32_t>(4 * b + v);
  const Bytes bytes(to, order);
  int64_t i = 0;
  if (to.out_is_float) {
    for (; i + kColumns <= n; i += kColumns) gate_floats(gate, x + i, reinterpret_cast<float*>(out) + i);
  } else {
    for (; i + kColumns <= n; i += kColumns) bytes(gate, x + i, reinterpret_cast<uint8_t*>(out) + i);
  }
  if (i == n) return;
  // The rest in the same way, so that it does not matter where threads divide an array.
  const auto rest = static_cast<size_t>(n - i);
  HWY_ALIGN float copy[kColumns] = {}, results[kColumns];
  std::memcpy(copy, x + i, rest * sizeof(float));
  if (to.out_is_float) gate_floats(gate, copy, results);
  else bytes(gate, copy, reinterpret_cast<uint8_t*>(results));
  std::memcpy(out + i * (to.out_is_float ? 4 : 1), results, rest * (to.out_is_float ? 4 : 1));
}

int64_t float_lanes() { return kLanes; }

}  // namespace HWY_NAMESPACE
}  // namespace qdq::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qdq::kernel {
namespace {
HWY_EXPORT(gate_range);
HWY_EXPORT(float_lanes);

constexpr int64_t kSerialElements = int64_t{1} << 15;

// Every cubic meets `fall` at four points of its piece.
template <class Fall> GateTable table_of(float pieces_per_unit, Fall&& fall) {
  GateTable table;
  table.pieces_per_unit = pieces_per_unit;
  for (int piece = 0; piece < GateTable::kPieces; ++piece) {
    std::array<double, 4> u{}, divided{};
    for (size_t k = 0; k < 4; ++k) {
      const double angle = 3.14159265358979323846 * (static_cast<double>(k) + 0.5) / 4;
      // Only a half of the first is needed, and it must be 0 at 0.
      const double at = piece > 0 ? piece + 0.5 * std::cos(angle) : 0.5 * static_cast<double>(k) / 3;
      u[k] = at / static_cast<double>(pieces_per_unit);
      divided[k] = fall(u[k]);
    }
    for (size_t order = 1; order < 4; ++order)
      for (size_t k = 3; k >= order; --k) divided[k] = (divided[k] - divided[k - 1]) / (u[k] - u[k - order]);
    // Newton's form, multiplied out from the inside.
    std::array<double, 4> cubic{divided[3]};
    for (size_t k = 3; k-- > 0;) {
      for (size_t power = 3; power > 0; --power) cubic[power] = cubic[power - 1] - cubic[power] * u[k];
      cubic[0] = divided[k] - cubic[0] * u[k];
    }
    for (size_t power = 0; power < 4; ++power) table.c[power][piece] = static_cast<float>(cubic[power]);
  }
  return table;
}

}  // namespace

const GateTable& silu_table() {
  static const GateTable table = table_of(2.125f, [](double u) { return -u / (1 + std::exp(u)); });
  return table;
}
const GateTable& gelu_table() {
  static const GateTable table =
      table_of(5.0f, [](double u) { return -0.5 * u * std::erfc(u * 0.70710678118654752440); });
  return table;
}
const GateTable& gelu_tanh_table() {
  static const GateTable table = table_of(
      5.0f, [](double u) { return -u / (1 + std::exp(2 * 0.79788456080286535588 * (u + 0.044715 * u * u * u))); });
  return table;
}

void gate(const GateTable& table, const float* x, int64_t n, const Requantize& to, void* out) {
  const int64_t out_bytes = to.out_is_float ? 4 : 1;
  parallel_for(n, kSerialElements, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(gate_range)(table, x + begin, end - begin, to,
                                     static_cast<std::byte*>(out) + begin * out_bytes);
  });
}

bool gates_are_fast() { return HWY_DYNAMIC_DISPATCH(float_lanes)() >= 16; }

}  // namespace qdq::kernel
#endif
