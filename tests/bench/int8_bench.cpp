// Speed of the integer kernels. Convolutions: one line a problem of tests/unit/kernel/int8_problems.h, the best of
// several runs, and its share of what the machine's dot product gives from registers, beyond which Winograd's transform
// goes. Then what surrounds convolutions, in nanoseconds an element of the output. Runs natively and, built to WASM, in
// Node.
// usage: int8_bench [--threads N] [--pairs] [FILTER]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "kernel/conv_int8.h"
#include "kernel/math.h"
#include "kernel/pointwise.h"
#include "kernel/pointwise_int8.h"
#include "unit/kernel/int8_problems.h"

namespace {

using namespace qdq;
using namespace qdq::kernel;

// Seconds of the fastest call: on a busy machine the one that was not interrupted.
template <class Run> double best_seconds(Run&& run) {
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

double time_of(const Int8Problem& p, std::optional<DotRoad> road, bool with_residual) {
  const Conv2d& c = p.conv;
  const auto inputs = static_cast<size_t>(p.batch * p.in_h * p.in_w * c.in_channels);
  const auto weights = static_cast<size_t>(c.out_channels * c.in_channels / c.groups * c.kernel_h * c.kernel_w);
  const auto outputs = static_cast<size_t>(p.batch * p.out_h() * p.out_w() * c.out_channels);
  std::vector<uint8_t> x(inputs), out(outputs);
  std::vector<int8_t> w(weights);
  for (size_t i = 0; i < inputs; ++i) x[i] = static_cast<uint8_t>(i * 37);
  // Bell-shaped, as weights are, and scaled in each output channel, so that those of few inputs are the wider.
  std::minstd_rand random;
  const size_t depth = weights / static_cast<size_t>(c.out_channels);
  std::vector<int> sums(depth);
  for (size_t first = 0; first < weights; first += depth) {
    int most = 1;
    for (int& sum : sums) {
      sum = 0;
      for (int k = 0; k < 8; ++k) sum += static_cast<int>(random() >> 8 & 255) - 128;
      most = std::max(most, std::abs(sum));
    }
    for (size_t i = 0; i < depth; ++i) w[first + i] = static_cast<int8_t>(sums[i] * 127 / most);
  }
  Requantize q;
  q.multiplier.assign(static_cast<size_t>(c.out_channels), 1e-4f);
  q.has_residual = with_residual;
  q.residual_multiplier = 0.5f;
  const std::vector<uint8_t> residual(with_residual ? outputs : 0, 100);
  const ConvInt8Images images{p.batch,        p.in_h,     p.in_w,        p.out_h(),
                              p.out_w(),      x.data(),   c.in_channels, with_residual ? residual.data() : nullptr,
                              c.out_channels, out.data(), c.out_channels};
  const PackedConvInt8 packed =
      road ? pack_conv2d_int8(c, w.data(), 120, q, *road) : pack_conv2d_int8(c, w.data(), 120, q, images);
  return best_seconds([&] { conv2d_int8(packed, images); });
}

// The elementwise steps and pools of MobileNetV3, EfficientNet-B0, ResNet and SqueezeNet, on images of 56x56x144.
void time_steps(const std::string& filter) {
  constexpr int64_t kSide = 56, kPixels = kSide * kSide, kChannels = 144, kCount = kPixels * kChannels;
  std::vector<uint8_t> a(kCount), b(kCount), out(kCount);
  std::vector<float> f(kCount), gates(kChannels), reals(kCount);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<uint8_t>(i * 37);
    b[i] = static_cast<uint8_t>(i * 29);
    f[i] = static_cast<float>(a[i]) * 0.05f - 4.0f;
  }
  for (size_t i = 0; i < gates.size(); ++i) gates[i] = static_cast<float>(i) / static_cast<float>(kChannels);
  const auto u8_rows = [](const std::vector<uint8_t>& x) {
    return RealRows{reinterpret_cast<const std::byte*>(x.data()), false, 120, kChannels};
  };
  const auto f32_rows = [](const std::vector<float>& x, int64_t stride) {
    return RealRows{reinterpret_cast<const std::byte*>(x.data()), true, 0, stride};
  };
  Requantize q;
  q.zero_point = 10;
  Requantize silu = q, hardswish = q, silu_f = q, gelu = q;
  silu.activation = silu_f32;
  silu.curve.kind = Activation::Kind::kSilu;
  hardswish.activation = hardswish_f32;
  hardswish.curve.kind = Activation::Kind::kHardSwish;
  gelu.activation = gelu_f32;
  gelu.curve.kind = Activation::Kind::kGelu;
  gelu.out_is_float = true;
  silu_f = silu;
  silu_f.out_is_float = true;
  const Pool2d pool{1, kSide, kSide, 27, 27, 3, 3, 2, 2, 0, 0, 1, 1};
  std::vector<int32_t> sums(kChannels);
  uint8_t table[256];
  for (int i = 0; i < 256; ++i) table[i] = static_cast<uint8_t>(i / 2);
  const ByteTable full(table);
  std::fill(table, table + 128, table[128]);
  const ByteTable half(table);
  struct Step {
    const char* name;
    int64_t count;
    std::function<void()> run;
  };
  const Step steps[] = {
      {"add u8 + u8", kCount,
       [&] { add_rows(u8_rows(a), 0.5f, u8_rows(b), 0.25f, kPixels, kChannels, q, out.data()); }},
      {"gate f32 * f32", kCount,
       [&] { mul_rows(f32_rows(f, kChannels), f32_rows(gates, 0), 9.0f, kPixels, kChannels, q, out.data()); }},
      {"quantize", kCount, [&] { convert_row(f32_rows(f, 0), 9.0f, kCount, q, out.data()); }},
      {"hard swish to u8", kCount, [&] { convert_row(f32_rows(f, 0), 1.0f, kCount, hardswish, out.data()); }},
      {"SiLU to u8", kCount, [&] { convert_row(f32_rows(f, 0), 1.0f, kCount, silu, out.data()); }},
      {"SiLU to f32", kCount, [&] { convert_row(f32_rows(f, 0), 1.0f, kCount, silu_f, reals.data()); }},
      {"GELU to f32", kCount, [&] { convert_row(f32_rows(f, 0), 1.0f, kCount, gelu, reals.data()); }},
      {"table of 256 values", kCount, [&] { map_u8(a.data(), kCount, full, out.data()); }},
      {"table of 128 values", kCount, [&] { map_u8(a.data(), kCount, half, out.data()); }},
      {"max pool 3x3 s2", 27 * 27 * kChannels, [&] { max_pool2d_u8(a.data(), 1, kChannels, pool, out.data()); }},
      {"mean", kCount,
       [&] { sum_pixels_u8(a.data(), kSide, kSide * kChannels, kSide, kChannels, kChannels, 3, sums.data()); }},
      {"interleave planes", kCount, [&] { interleave_planes_u8(a.data(), 3, kCount / 3, out.data()); }},
  };
  for (const Step& step : steps) {
    if (std::string(step.name).find(filter) == std::string::npos) continue;
    std::printf("%-26s %9.3f ns an element\n", step.name,
                best_seconds(step.run) * 1e9 / static_cast<double>(step.count));
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string filter;
  std::optional<DotRoad> road;  // none: the fastest for each problem
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
  const double peak_seconds = best_seconds([&] { peak_work = dot_peak(road.value_or(dot_road()), 20000); });
  const double peak = 2.0 * static_cast<double>(peak_work) / peak_seconds;
  std::printf("%s: %.1f GOP/s from registers\n", std::string(dot_road_name(road.value_or(dot_road()))).c_str(),
              peak * 1e-9);
  for (const Int8Problem& p : kInt8Layers) {
    for (const bool with_residual : {false, true}) {
      // The blocks of a ResNet and of a MobileNet end in a sum.
      const std::string name = std::string(p.name) + (with_residual ? " + residual" : "");
      if (name.find(filter) == std::string::npos) continue;
      if (with_residual && std::strcmp(p.name, "resnet50 expand") != 0 && std::strcmp(p.name, "mobilenet project") != 0)
        continue;
      const double seconds = time_of(p, road, with_residual), rate = 2.0 * p.work() / seconds;
      std::printf("%-28s %4dx%-3d %4d to %-4d k%d s%d g%-3d %9.3f ms %8.1f GOP/s %5.1f %%\n", name.c_str(), int(p.in_h),
                  int(p.in_w), int(p.conv.in_channels), int(p.conv.out_channels), int(p.conv.kernel_h),
                  int(p.conv.stride_h), int(p.conv.groups), seconds * 1e3, rate * 1e-9, 100.0 * rate / peak);
      std::fflush(stdout);
    }
  }
  time_steps(filter);
}
