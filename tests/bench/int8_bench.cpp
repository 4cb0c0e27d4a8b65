// Speed of the integer convolutions: one line a problem of tests/unit/kernel/int8_problems.h, the best of several runs, and
// its share of what the machine's dot product gives from registers. Runs natively and, built to WASM, in Node.
// usage: int8_bench [--threads N] [--pairs] [FILTER]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "kernel/conv_int8.h"
#include "unit/kernel/int8_problems.h"

namespace {

using namespace qdq;
using namespace qdq::kernel;

// Seconds of the fastest call: on a busy machine the one that was not interrupted.
template <class Run>
double best_seconds(Run&& run) {
  using Clock = std::chrono::steady_clock;
  const auto seconds_of = [&](int64_t calls) {
    const auto begin = Clock::now();
    for (int64_t i = 0; i < calls; ++i) run();
    return std::chrono::duration<double>(Clock::now() - begin).count() / static_cast<double>(calls);
  };
  double best = std::max(seconds_of(1), 1e-7), spent = 0;
  const int64_t calls = std::max<int64_t>(1, static_cast<int64_t>(0.001 / best));
  for (int i = 0; i < 300 && spent < 0.4; ++i) {
    const double seconds = seconds_of(calls);
    best = std::min(best, seconds);
    spent += seconds * static_cast<double>(calls);
  }
  return best;
}

double time_of(const Int8Problem& p, DotRoad road) {
  const Conv2d& c = p.conv;
  const auto inputs = static_cast<size_t>(p.batch * p.in_h * p.in_w * c.in_channels);
  const auto weights = static_cast<size_t>(c.out_channels * c.in_channels / c.groups * c.kernel_h * c.kernel_w);
  const auto outputs = static_cast<size_t>(p.batch * p.out_h() * p.out_w() * c.out_channels);
  std::vector<uint8_t> x(inputs), out(outputs);
  std::vector<int8_t> w(weights);
  for (size_t i = 0; i < inputs; ++i) x[i] = static_cast<uint8_t>(i * 37);
  for (size_t i = 0; i < weights; ++i) w[i] = static_cast<int8_t>(static_cast<int>(i * 29 % 255) - 127);
  Requantize q;
  q.multiplier.assign(static_cast<size_t>(c.out_channels), 1e-4f);
  const PackedConvInt8 packed = pack_conv2d_int8(c, w.data(), 120, q, road);
  const ConvInt8Images images{p.batch, p.in_h, p.in_w, p.out_h(), p.out_w(), x.data(), c.in_channels,
                              nullptr, 0, out.data(), c.out_channels};
  return best_seconds([&] { conv2d_int8(packed, images); });
}

}  // namespace

int main(int argc, char** argv) {
  std::string filter;
  DotRoad road = dot_road();
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--threads") == 0 && i + 1 < argc) {
      set_num_threads(std::atoi(argv[++i]));
    } else if (std::strcmp(argv[i], "--pairs") == 0) {
      road = DotRoad::kPairs;
    } else {
      filter = argv[i];
    }
  }
  int64_t peak_work = 0;
  const double peak_seconds = best_seconds([&] { peak_work = dot_peak(road, 20000); });
  const double peak = 2.0 * static_cast<double>(peak_work) / peak_seconds;
  std::printf("%s: %.1f GOP/s from registers\n", std::string(dot_road_name(road)).c_str(), peak * 1e-9);
  for (const Int8Problem& p : kInt8Layers) {
    if (std::string(p.name).find(filter) == std::string::npos) continue;
    const double seconds = time_of(p, road), rate = 2.0 * p.work() / seconds;
    std::printf("%-26s %4dx%-3d %4d to %-4d k%d s%d g%-3d %9.3f ms %8.1f GOP/s %5.1f %%\n", p.name, int(p.in_h), int(p.in_w),
                int(p.conv.in_channels), int(p.conv.out_channels), int(p.conv.kernel_h), int(p.conv.stride_h),
                int(p.conv.groups), seconds * 1e3, rate * 1e-9, 100.0 * rate / peak);
    std::fflush(stdout);
  }
}
