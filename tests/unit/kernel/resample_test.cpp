// Planes that are resized against a plain loop, bit for bit.
#include "kernel/resample.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "unit/kernel/plain.h"

namespace qdq::kernel::resample_test {
namespace {

struct Axis {
  std::vector<int64_t> first{0}, index;
  std::vector<float> weight;

  // Output i has i % 4 + `least` taps anywhere, so that some have none.
  Axis(Random& random, int64_t in, int64_t size, int64_t least) {
    for (int64_t i = 0; i < size; ++i) {
      for (int64_t t = 0; t < i % 4 + least; ++t) {
        index.push_back(static_cast<int64_t>(random.next() % static_cast<uint64_t>(in)));
        weight.push_back(random.uniform() - 0.3f);
      }
      first.push_back(static_cast<int64_t>(index.size()));
    }
  }
  Taps taps() const { return {static_cast<int64_t>(first.size()) - 1, first.data(), index.data(), weight.data()}; }
  template <class Element> float sum(int64_t i, Element&& element) const {
    float out = 0;
    for (int64_t t = at(first, i); t < at(first, i + 1); ++t) {
      const float product = element(at(index, t)) * at(weight, t);
      out = t == at(first, i) ? product : out + product;
    }
    return out;
  }
};

TEST(Resample, RowsAreSummedAndThenColumns) {
  struct Case {
    int64_t planes, in_h, in_w, out_h, out_w, least;
  };
  Random random(1);
  for (const auto& [planes, in_h, in_w, out_h, out_w, least] :
       {Case{3, 5, 7, 9, 13, 1}, Case{1, 1, 1, 1, 1, 1}, Case{2, 33, 70, 8, 31, 2}, Case{2, 6, 19, 7, 16, 0}}) {
    std::vector<float> x = random.floats(planes * in_h * in_w);
    x[0] = NAN, x.back() = -0.0f;
    const Axis rows(random, in_h, out_h, least), columns(random, in_w, out_w, least);
    std::vector<float> want, got(static_cast<size_t>(planes * out_h * out_w));
    for (int64_t p = 0; p < planes; ++p)
      for (int64_t i = 0; i < out_h; ++i)
        for (int64_t j = 0; j < out_w; ++j)
          want.push_back(columns.sum(j, [&, p = p, i = i](int64_t column) {
            return rows.sum(i, [&](int64_t row) { return at(x, (p * in_h + row) * in_w + column); });
          }));
    for (const int threads : {1, 3}) {
      std::fill(got.begin(), got.end(), 9.0f);
      set_num_threads(threads);
      resample_f32(x.data(), planes, in_h, in_w, rows.taps(), columns.taps(), got.data());
      set_num_threads(1);
      for (size_t i = 0; i < want.size(); ++i) {
        if (std::isnan(want[i])) EXPECT_TRUE(std::isnan(got[i])) << i;
        else EXPECT_TRUE(want[i] == got[i] && std::signbit(want[i]) == std::signbit(got[i])) << i;
      }
    }
  }
}

}  // namespace
}  // namespace qdq::kernel::resample_test
