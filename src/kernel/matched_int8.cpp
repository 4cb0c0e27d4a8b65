#include "kernel/matched_int8.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <utility>

#include "kernel/panel.h"

namespace qdq::kernel {
namespace {

constexpr int kBlock = 16;  // bytes that a step chooses from
constexpr int kNone = -1;

using Pair = std::pair<int, int>;  // the second may be kNone

bool fit(const int8_t* a, const int8_t* b) {
  int most = 0;
  for (int64_t o = 0; o < kDotPanel; ++o) most = std::max(most, std::abs(a[o] + b[o]));
  return most <= 128;
}

// Pairs of `count` rows of weights that fit each other, and the rows that are left alone. The row with the fewest
// possible partners chooses first, and takes the partner with the fewest.
std::vector<Pair> match(const int8_t* weights, int count) {
  std::array<uint32_t, kBlock> partners{};
  for (int a = 0; a < count; ++a) {
    for (int b = a + 1; b < count; ++b) {
      if (!fit(weights + a * kDotPanel, weights + b * kDotPanel)) continue;
      partners[static_cast<size_t>(a)] |= 1u << b;
      partners[static_cast<size_t>(b)] |= 1u << a;
    }
  }
  const auto partners_of = [&](int row) { return partners[static_cast<size_t>(row)]; };
  uint32_t open = (1u << count) - 1;
  const auto scarcest = [&](uint32_t among) {
    int best = kNone;
    for (int row = 0; row < count; ++row)
      if ((among >> row & 1) != 0 &&
          (best == kNone || std::popcount(partners_of(row) & open) < std::popcount(partners_of(best) & open)))
        best = row;
    return best;
  };
  std::vector<Pair> pairs;
  std::vector<int> alone;
  while (open != 0) {
    const int row = scarcest(open), partner = scarcest(partners_of(row) & open);
    open &= ~(1u << row);
    if (partner == kNone) {
      alone.push_back(row);
    } else {
      open &= ~(1u << partner);
      pairs.emplace_back(row, partner);
    }
  }
  // Two that are alone may each find a partner in a pair that they part.
  const auto parts = [&](Pair& pair, int a, int b) {
    if ((partners_of(a) >> pair.first & 1) == 0 || (partners_of(b) >> pair.second & 1) == 0) return false;
    pairs.emplace_back(b, std::exchange(pair.second, a));
    return true;
  };
  while (alone.size() >= 2) {
    const int a = alone[alone.size() - 1], b = alone[alone.size() - 2];
    bool found = false;
    for (size_t i = 0; !found && i < pairs.size(); ++i) {
      Pair pair = pairs[i];
      found = parts(pair, a, b) || parts(pair, b, a);
      if (found) pairs[i] = pair;
    }
    if (!found) break;
    alone.resize(alone.size() - 2);
  }
  for (const int row : alone) pairs.emplace_back(row, kNone);
  return pairs;
}

}  // namespace

void append_matched_run(const int8_t* weights, int64_t length, MatchedWeights& out) {
  out.first.push_back(static_cast<int32_t>(out.steps.size()));
  // Blocks of whole steps, as equal as can be: few rows find fewer partners.
  const int64_t steps = divide_up(length, 4), blocks = divide_up(length, kBlock);
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t begin = block * steps / blocks * 4, end = std::min((block + 1) * steps / blocks * 4, length);
    const int64_t at = std::max<int64_t>(0, std::min(begin, length - kBlock));
    const int8_t* rows = weights + begin * kDotPanel;
    const std::vector<Pair> pairs = match(rows, static_cast<int>(end - begin));
    for (size_t i = 0; i < pairs.size(); i += 2) {
      const Pair second = i + 1 < pairs.size() ? pairs[i + 1] : Pair{kNone, kNone};
      const int row[] = {pairs[i].first, pairs[i].second, second.first, second.second};
      DotStep& step = out.steps.emplace_back();
      step.at = static_cast<int32_t>(at);
      for (size_t k = 0; k < 4; ++k) step.from[k] = static_cast<uint8_t>(begin - at + std::max(row[k], 0));
      for (int64_t o = 0; o < kDotPanel; ++o)
        for (const int r : row) out.weights.push_back(r == kNone ? int8_t{0} : rows[r * kDotPanel + o]);
    }
  }
}

}  // namespace qdq::kernel
