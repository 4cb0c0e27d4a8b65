#include "kernel/matched_int8.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "kernel/panel.h"

namespace qdq::kernel {
namespace {

constexpr int kBlock = 16;  // bytes that a step chooses from
constexpr int kNone = -1;
constexpr size_t kStepBytes = kDotPanel * 4;
constexpr int kMost = 128;  // what the weights of one sign may add up to
// Sums that the search for fours looks at in a block; what needs more is not worth the time.
constexpr int kMostTries = 100;

using Pair = std::pair<int, int>;  // the second may be kNone
using Four = std::array<int, 4>;
using RowSet = uint32_t;

using Partners = std::array<RowSet, kBlock>;

// Pairs of partners among those that are open, and what is left alone. Who has the fewest possible partners chooses
// first, and takes the partner with the fewest.
std::vector<Pair> match(const Partners& all_partners, RowSet open) {
  const auto partners_of = [&](int row) { return all_partners[static_cast<size_t>(row)]; };
  std::array<int, kBlock> choices{};  // open partners
  for (RowSet rows = open; rows != 0; rows &= rows - 1) {
    const int row = std::countr_zero(rows);
    choices[static_cast<size_t>(row)] = std::popcount(partners_of(row) & open);
  }
  const auto take_scarcest = [&](RowSet among) {
    int best = kNone;
    for (; among != 0; among &= among - 1) {
      const int row = std::countr_zero(among);
      if (best == kNone || choices[static_cast<size_t>(row)] < choices[static_cast<size_t>(best)]) best = row;
    }
    if (best == kNone) return best;
    open &= ~(RowSet{1} << best);
    for (RowSet rows = partners_of(best); rows != 0; rows &= rows - 1)
      --choices[static_cast<size_t>(std::countr_zero(rows))];
    return best;
  };
  std::vector<Pair> pairs;
  std::vector<int> alone;
  while (open != 0) {
    const int row = take_scarcest(open), partner = take_scarcest(partners_of(row) & open);
    if (partner == kNone) {
      alone.push_back(row);
    } else {
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

// What weights add up to in a channel without their signs, halved and rounded up: a byte a channel.
using Total = std::array<uint64_t, kDotPanel / 8>;

// Whether the weights of both add up to 254 at most in every channel, so that 255 times that fits 16 bits.
bool fit_shifted(const Total& a, const Total& b) {
  uint64_t all = 0;
  for (size_t i = 0; i < a.size(); ++i) all |= a[i] | b[i] | (a[i] + b[i]);
  return (all & 0x8080808080808080) == 0;
}

// The rows of a block, [count][kDotPanel].
class Block {
 public:
  Block(const int8_t* weights, int count) : count_(count) {
    for (int row = 0; row < count; ++row) {
      for (int64_t o = 0; o < kDotPanel; ++o) {
        const int w = weights[row * kDotPanel + o];
        const auto half = static_cast<uint64_t>((std::abs(w) + 1) / 2) << o % 8 * 8;
        parts_[static_cast<size_t>(row)][static_cast<size_t>(o / 8 + (w < 0 ? kDotPanel / 8 : 0))] |= half;
      }
    }
    for (int a = 0; a < count; ++a) {
      for (int b = a + 1; b < count; ++b) {
        if (!fit(parts_of(a), parts_of(b))) continue;
        partners_[static_cast<size_t>(a)] |= RowSet{1} << b;
        partners_[static_cast<size_t>(b)] |= RowSet{1} << a;
      }
    }
  }

  RowSet all() const { return (RowSet{1} << count_) - 1; }

  // Pairs of the open rows that fit each other, and the rows that are left alone.
  std::vector<Pair> pairs(RowSet open) const { return match(partners_, open); }

  // Finds `wanted` fours of the open rows that fit, and pairs for those rows that no four has, so that at most one of
  // them is alone. `rows` are open and those that are in no four.
  bool fours_and_pairs(RowSet open, RowSet rows, int wanted, std::vector<Four>& fours, std::vector<Pair>& rest) {
    if (wanted == 0) {
      rest = pairs(rows);
      return rest.size() == static_cast<size_t>(std::popcount(rows) + 1) / 2;
    }
    for (; std::popcount(open) >= 4 * wanted; open &= open - 1) {
      const int a = std::countr_zero(open);
      const RowSet near_a = after(a, open);
      for (RowSet bs = near_a; bs != 0; bs &= bs - 1) {
        const int b = std::countr_zero(bs);
        const Parts ab = sum(parts_of(a), parts_of(b));
        const RowSet near_b = after(b, near_a);
        for (RowSet cs = near_b; cs != 0; cs &= cs - 1) {
          const int c = std::countr_zero(cs);
          const RowSet near_c = after(c, near_b);
          if (near_c == 0) continue;
          if (++tries_ > kMostTries) return false;
          if (!fit(ab, parts_of(c))) continue;
          const Parts abc = sum(ab, parts_of(c));
          for (RowSet ds = near_c; ds != 0; ds &= ds - 1) {
            const int d = std::countr_zero(ds);
            if (++tries_ > kMostTries) return false;
            if (!fit(abc, parts_of(d))) continue;
            fours.push_back({a, b, c, d});
            const RowSet taken = RowSet{1} << a | RowSet{1} << b | RowSet{1} << c | RowSet{1} << d;
            if (fours_and_pairs(open & ~taken, rows & ~taken, wanted - 1, fours, rest)) return true;
            fours.pop_back();
          }
        }
      }
    }
    return false;
  }
  void forget_tries() { tries_ = 0; }

  Total total(const Pair& pair) const {
    Total out{};
    for (const int row : {pair.first, pair.second})
      for (size_t i = 0; row != kNone && i < out.size(); ++i)
        out[i] += parts_of(row)[i] + parts_of(row)[i + out.size()];
    return out;
  }

 private:
  // Half of what a row adds to the sums of each sign, rounded up: a byte a channel.
  using Parts = std::array<uint64_t, kDotPanel / 4>;

  RowSet partners_of(int row) const { return partners_[static_cast<size_t>(row)]; }
  const Parts& parts_of(int row) const { return parts_[static_cast<size_t>(row)]; }
  static Parts sum(const Parts& a, const Parts& b) {
    Parts out;
    for (size_t i = 0; i < out.size(); ++i) out[i] = a[i] + b[i];
    return out;
  }
  static bool fit(const Parts& a, const Parts& b) {
    constexpr uint64_t kOnes = 0x0101010101010101;
    uint64_t beyond = 0;
    for (size_t i = 0; i < a.size(); ++i) beyond |= (a[i] + b[i] + kOnes * (0x7f - kMost / 2)) & kOnes * 0x80;
    return beyond == 0;
  }
  // The partners of `row` behind it.
  RowSet after(int row, RowSet among) const { return among & partners_of(row) & ~((RowSet{2} << row) - 1); }

  int count_, tries_ = 0;
  std::array<Parts, kBlock> parts_{};
  Partners partners_{};
};

// A step of the block that begins at row `begin` of a run.
struct Step {
  int64_t begin = 0;
  Four rows{};
  std::array<Total, 2> totals{};  // of its pairs
  int most = 0;                   // the largest of these

  bool fits(const Step& other) const {
    return fit_shifted(totals[0], other.totals[0]) && fit_shifted(totals[1], other.totals[1]);
  }
  void exchange_pairs() {
    rows = {rows[2], rows[3], rows[0], rows[1]};
    std::swap(totals[0], totals[1]);
  }
};

// The largest of both pairs' totals.
int most_of(const std::array<Total, 2>& totals) {
  int most = 0;
  for (const Total& total : totals)
    for (const uint64_t channels : total)
      for (int c = 0; c < 8; ++c) most = std::max(most, static_cast<int>(channels >> c * 8 & 255));
  return most;
}

struct Run {
  const int8_t* weights;
  int64_t length;

  void append(const Step& from, MatchedWeights& to) const {
    const int64_t at = std::max<int64_t>(0, std::min(from.begin, length - kBlock));
    DotStep& step = to.steps.emplace_back();
    step.at = static_cast<int32_t>(at);
    for (size_t k = 0; k < 4; ++k) step.from[k] = static_cast<uint8_t>(from.begin - at + std::max(from.rows[k], 0));
    to.weights.resize(to.weights.size() + kStepBytes);
    int8_t* const last = to.weights.data() + to.weights.size() - kStepBytes;
    for (size_t k = 0; k < 4; ++k)
      for (int64_t o = 0; from.rows[k] != kNone && o < kDotPanel; ++o)
        last[o * 4 + static_cast<int64_t>(k)] = weights[(from.begin + from.rows[k]) * kDotPanel + o];
  }
};

// Appends what the last two steps are shifted by, in the room of a step, and adds it to the sums that they go to.
void append_shifts(MatchedWeights& to, int32_t* start) {
  to.steps.emplace_back();
  to.weights.resize(to.weights.size() + kStepBytes);
  const int8_t* const first = to.weights.data() + to.weights.size() - 3 * kStepBytes;
  int8_t* const shifts = to.weights.data() + to.weights.size() - kStepBytes;
  for (size_t four = 0; four < 2 * kDotPanel; ++four) {
    int sum = 0;  // of the weights: what is lost is 255 times that if all inputs are 255, and 0 if all are 0
    for (const size_t i : {2 * four, 2 * four + 1}) sum += first[i] + first[i + kStepBytes];
    const auto shift = static_cast<int16_t>(-255 * sum / 2);
    std::memcpy(shifts + four * sizeof shift, &shift, sizeof shift);
    start[four / 2] -= shift;
  }
}

// Joins steps of all blocks to shifted ones. The largest choose first, and take the largest that fits.
void append_shifted(const Run& run, std::vector<Step> open, MatchedWeights& out, MatchedWeights& singles,
                    int32_t* start) {
  std::stable_sort(open.begin(), open.end(), [](const Step& a, const Step& b) { return a.most > b.most; });
  std::vector<bool> taken(open.size());
  for (size_t i = 0; i < open.size(); ++i) {
    if (taken[i]) continue;
    size_t k = i + 1;
    for (; k < open.size(); ++k) {
      if (taken[k]) continue;
      if (open[i].fits(open[k])) break;
      open[k].exchange_pairs();
      if (open[i].fits(open[k])) break;
    }
    if (k == open.size()) {
      run.append(open[i], singles);
      continue;
    }
    taken[k] = true;
    run.append(open[i], out);
    run.append(open[k], out);
    append_shifts(out, start);
  }
}

}  // namespace

void append_matched_run(const int8_t* weights, int64_t length, MatchedWeights& out, int32_t* start) {
  // Blocks of whole steps, as equal as can be: few rows find fewer partners.
  const int64_t steps = divide_up(length, 4), blocks = divide_up(length, kBlock);
  const Run run{weights, length};
  std::vector<Step> open;
  out.first.push_back(static_cast<int32_t>(out.steps.size()));
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t begin = i * steps / blocks * 4, end = std::min((i + 1) * steps / blocks * 4, length);
    const int count = static_cast<int>(end - begin);
    Block block(weights + begin * kDotPanel, count);
    std::vector<Four> fours;
    std::vector<Pair> pairs;
    int wanted = count / 8 * 2;
    for (; wanted > 0; wanted -= 2) {
      block.forget_tries();
      if (block.fours_and_pairs(block.all(), block.all(), wanted, fours, pairs)) break;
      fours.clear();
    }
    if (wanted == 0) pairs = block.pairs(block.all());
    for (size_t k = 0; k < fours.size(); k += 2) {
      const Four &a = fours[k], &b = fours[k + 1];
      run.append({begin, {a[0], a[1], b[0], b[1]}}, out);
      run.append({begin, {a[2], a[3], b[2], b[3]}}, out);
    }
    for (size_t k = 0; k < pairs.size(); k += 2) {
      const Pair &a = pairs[k], b = k + 1 < pairs.size() ? pairs[k + 1] : Pair{kNone, kNone};
      const std::array<Total, 2> totals = {block.total(a), block.total(b)};
      open.push_back({begin, {a.first, a.second, b.first, b.second}, totals, most_of(totals)});
    }
  }
  out.first.push_back(static_cast<int32_t>(out.steps.size()));
  MatchedWeights singles;
  append_shifted(run, std::move(open), out, singles, start);
  out.first.push_back(static_cast<int32_t>(out.steps.size()));
  out.steps.insert(out.steps.end(), singles.steps.begin(), singles.steps.end());
  out.weights.insert(out.weights.end(), singles.weights.begin(), singles.weights.end());
}

}  // namespace qdq::kernel
