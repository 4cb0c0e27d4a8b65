// Charts as SVG: what is drawn, and that names from files are no markup.
#include "report/svg_chart.h"

#include <gtest/gtest.h>

#include <numeric>

namespace qdq::svg_chart_test {
namespace {

size_t count_of(const std::string& text, const std::string& part) {
  size_t out = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++out;
  return out;
}

TEST(SvgChart, ErrorsAreBarsInTheColourOfTheirSize) {
  const std::string chart = error_chart("Errors", {{"conv", 10.0, 5.0}, {"fc", 45.0, std::nullopt}});
  EXPECT_EQ(count_of(chart, "own error: "), 2u);
  EXPECT_NE(chart.find("own error: 10.0 dB"), std::string::npos);
  EXPECT_NE(chart.find("with all layers before: equal"), std::string::npos);
  EXPECT_NE(chart.find("width=\"70.00\""), std::string::npos) << "10 of 60 dB of 420 pixels";
  EXPECT_EQ(count_of(chart, "#c0392b"), 2u);  // 10 and 5 dB
  EXPECT_EQ(count_of(chart, "#1f8f68"), 2u);
}

TEST(SvgChart, NamesOfFilesAreText) {
  const std::string chart = error_chart("a<script>", {{"\"><script>alert(1)</script>\x01", 20.0, 20.0}});
  EXPECT_EQ(chart.find("<script"), std::string::npos) << chart;
  EXPECT_EQ(chart.find('\x01'), std::string::npos);
  EXPECT_NE(chart.find("a&lt;script&gt;"), std::string::npos);
  // Cut between characters, not in one.
  const std::string cut = error_chart("t", {{std::string(41, 'x') + "ää", 1.0, 1.0}});
  EXPECT_NE(cut.find(std::string(41, 'x') + "ä…"), std::string::npos) << cut;
}

TEST(SvgChart, HistogramsCountEveryFiniteValue) {
  const auto sum = [](const Histogram& h) { return std::accumulate(h.counts.begin(), h.counts.end(), int64_t{0}); };
  const Histogram floats =
      histogram_of("w", Tensor::of<float>({2, 3}, {-1.0f, 0.0f, 1.0f, 1.0f, std::numeric_limits<float>::infinity(),
                                                   std::numeric_limits<float>::quiet_NaN()}));
  EXPECT_EQ(floats.min, -1);
  EXPECT_EQ(floats.max, 1);
  EXPECT_EQ(sum(floats), 4);
  EXPECT_EQ(floats.counts.front(), 1);
  EXPECT_EQ(floats.counts.back(), 2);
  const Histogram bytes = histogram_of("w", Tensor::of<int8_t>({1, 3}, {-128, 0, 127}));
  EXPECT_EQ(bytes.min, -128);
  EXPECT_EQ(bytes.max, 127);
  EXPECT_EQ(bytes.counts.front() + bytes.counts[32] + bytes.counts.back(), 3);
  EXPECT_EQ(sum(histogram_of("w", Tensor::of<float>({2}, {3.0f, 3.0f}))), 2);
  EXPECT_TRUE(histogram_of("w", Tensor::of<int64_t>({1}, {3})).counts.empty());
  const std::string chart = histogram_chart("Weights", {floats, bytes});
  EXPECT_EQ(count_of(chart, "<path "), 2u);
  EXPECT_NE(chart.find("float32, 6 elements, -1 to 1"), std::string::npos) << chart;
}

}  // namespace
}  // namespace qdq::svg_chart_test
