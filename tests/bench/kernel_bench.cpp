// Speed of the float and observer kernels: one line a problem, the best of several runs, in the terms that bound it.
// usage: kernel_bench [--threads N] [FILTER]; weights in groups run only with "group"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "kernel/conv.h"
#include "kernel/gemm_groups.h"
#include "kernel/gemm_int8.h"
#include "kernel/math.h"
#include "kernel/observe.h"
#include "kernel/pointwise.h"
#include "kernel/pool.h"
#include "kernel/quantize.h"

namespace {

using namespace qdq;
using namespace qdq::kernel;

std::string g_filter;

// Prints the work done per second, where one call of `run` does `work` of the unit.
void measure(const std::string& name, double work, const char* unit, const std::function<void()>& run) {
  if (name.find(g_filter) == std::string::npos && g_filter != "group") return;
  // One thread counts its own time, which that of other programs does not change.
  const auto now = [] {
    if (num_threads() == 1) return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  const auto seconds_of = [&](int64_t calls) {
    const double begin = now();
    for (int64_t i = 0; i < calls; ++i) run();
    return (now() - begin) / static_cast<double>(calls);
  };
  const double first = std::max(seconds_of(1), 1e-7);
  // Many short samples: on a busy machine the best one is the one that was not interrupted.
  const int64_t calls = std::max<int64_t>(1, static_cast<int64_t>(0.001 / first));
  double best = first, spent = 0;
  for (int i = 0; i < 200 && spent < 0.5; ++i) {
    const double seconds = seconds_of(calls);
    best = std::min(best, seconds);
    spent += seconds * static_cast<double>(calls);
  }
  std::printf("%-44s %10.3f ms  %8.2f %s\n", name.c_str(), best * 1e3, work / best * 1e-9, unit);
  std::fflush(stdout);
}

std::vector<float> floats(int64_t n, float scale = 1.0f) {
  std::vector<float> x(static_cast<size_t>(n));
  uint32_t state = 1;
  for (float& v : x)
    state = state * 1664525u + 1013904223u, v = (static_cast<float>(state >> 8) * 0x1p-23f - 1.0f) * scale;
  return x;
}

void conv(const char* name, int64_t batch, int64_t ic, int64_t oc, int64_t extent, int64_t k, int64_t stride,
          int64_t groups) {
  Conv2d c{ic, oc, groups, k, k, stride, stride, k / 2, k / 2, 1, 1};
  const int64_t out = (extent + 2 * (k / 2) - k) / stride + 1;
  const auto x = floats(batch * ic * extent * extent), w = floats(oc * ic / groups * k * k), bias = floats(oc);
  std::vector<float> y(static_cast<size_t>(batch * oc * out * out));
  const PackedConv2d packed = pack_conv2d_f32(c, w.data());
  const double flops = 2.0 * static_cast<double>(batch * oc * out * out * (ic / groups) * k * k);
  char title[128];
  std::snprintf(title, sizeof title, "conv %s %dx%d k%d s%d g%d %d b%d", name, int(ic), int(oc), int(k), int(stride),
                int(groups), int(extent), int(batch));
  measure(title, flops, "GFLOP/s",
          [&] { conv2d_f32(x.data(), batch, extent, extent, packed, bias.data(), out, out, y.data()); });
  if (!takes_winograd(c, out, out)) return;
  std::snprintf(title, sizeof title, "winograd %s %dx%d %d b%d", name, int(ic), int(oc), int(extent), int(batch));
  measure(title, flops, "GFLOP/s",
          [&] { winograd_conv2d_f32(c, x.data(), batch, extent, extent, w.data(), bias.data(), out, out, y.data()); });
}

void gemms() {
  for (auto [m, n, k] : {std::array<int64_t, 3>{512, 512, 512},
                         {197, 768, 768},
                         {197, 3072, 768},
                         {1, 1000, 512},
                         {8, 1000, 2048},
                         {197, 197, 64}}) {
    const auto a = floats(m * k), b = floats(k * n), bias = floats(n);
    std::vector<float> c(static_cast<size_t>(m * n));
    char title[128];
    std::snprintf(title, sizeof title, "gemm %dx%dx%d", int(m), int(n), int(k));
    measure(title, 2.0 * static_cast<double>(m * n * k), "GFLOP/s", [&] {
      gemm_f32(m, n, k, {a.data(), k, 1}, {b.data(), n, 1}, bias.data(), BiasAxis::kColumn, c.data(), n);
    });
    const PackedRows w = pack_rows({b.data(), k, 1}, n, k);
    std::snprintf(title, sizeof title, "linear %dx%dx%d", int(m), int(n), int(k));
    measure(title, 2.0 * static_cast<double>(m * n * k), "GFLOP/s",
            [&] { linear_f32(a.data(), m, w, bias.data(), c.data()); });
  }
}

void arrays(int64_t n, const char* where) {
  auto x = floats(n);
  std::vector<float> relu(x), out(x.size());
  for (float& v : relu) v = std::max(v, 0.0f);
  std::vector<uint64_t> counts(2048);
  std::vector<uint8_t> q(x.size());
  const double work = static_cast<double>(n);
  volatile float sink = 0;
  const auto run = [&](const char* name, const std::function<void()>& f) {
    measure(std::string(name) + " " + where, work, "Gelem/s", f);
  };
  run("min_max", [&] { sink = min_max_f32(x.data(), n).max; });
  run("histogram", [&] { histogram_f32(x.data(), n, -1, 1, 2048, true, counts.data()); });
  run("histogram of relu", [&] { histogram_f32(relu.data(), n, 0, 1, 2048, true, counts.data()); });
  run("quantize u8", [&] { quantize_f32(x.data(), n, {0.01, 128, 0, 255}, q.data()); });
  run("dequantize u8", [&] { dequantize_f32(q.data(), n, {0.01, 128, 0, 255}, out.data()); });
  run("fake_quantize", [&] { fake_quantize_f32(x.data(), n, {0.01, 128, 0, 255}, out.data(), nullptr); });
  run("relu", [&] { relu_f32(x.data(), n, out.data()); });
  run("add", [&] { add_f32(x.data(), relu.data(), n, out.data()); });
  run("exp", [&] { exp_f32(x.data(), n, out.data()); });
  run("tanh", [&] { tanh_f32(x.data(), n, out.data()); });
  run("gelu", [&] { gelu_f32(x.data(), n, out.data()); });
  run("silu", [&] { silu_f32(x.data(), n, out.data()); });
  run("hardswish", [&] { hardswish_f32(x.data(), n, out.data()); });
  run("sum", [&] { sink = sum_f32(x.data(), n); });
  run("softmax rows of 1024", [&] { softmax_f32(x.data(), n / 1024, 1024, out.data()); });
  run("layer_norm rows of 768",
      [&] { layer_norm_f32(x.data(), n / 768, 768, nullptr, nullptr, 1e-5f, out.data(), nullptr, nullptr); });
}

void pools() {
  const auto x = floats(64 * 112 * 112);
  std::vector<float> out(x.size());
  Pool2d p{64, 112, 112, 56, 56, 3, 3, 2, 2, 1, 1};
  const double work = 64.0 * 56 * 56;
  measure("max_pool 3x3 s2 64x112", work, "Gout/s", [&] { max_pool2d_f32(x.data(), p, out.data()); });
  measure("avg_pool 3x3 s2 64x112", work, "Gout/s", [&] { avg_pool2d_f32(x.data(), p, out.data()); });
  Pool2d all{512, 7, 7, 1, 1};
  measure("adaptive_avg_pool 512x7 to 1", 512 * 49, "Gelem/s",
          [&] { adaptive_avg_pool2d_f32(x.data(), all, out.data()); });
}

// Weights in groups: one token in bytes of packed weights that pass, beside a plain read of as many; many tokens in
// multiply-adds, those in integers beside the machine's peak from registers.
void groups(int64_t channels, int64_t depth, int64_t group, int bits) {
  std::vector<int8_t> q(static_cast<size_t>(channels * depth));
  uint32_t state = 1;
  for (int8_t& value : q) {
    state = state * 1664525 + 1013904223;
    value = static_cast<int8_t>(static_cast<int32_t>(state) >> (32 - bits));
  }
  const auto scales = floats(channels * depth / group);
  const GroupWeights weights = pack_group_weights(q.data(), scales.data(), nullptr, channels, depth, group);
  const double bytes = static_cast<double>(weights.blocks.numel());
  const std::string name = std::to_string(channels) + "x" + std::to_string(depth) + " " + weights.description();
  uint64_t sink = 0;
  measure("read " + name, bytes, "GB/s", [&] {
    const auto* at = reinterpret_cast<const uint64_t*>(weights.blocks.raw());
    uint64_t sums[8] = {};
    for (int64_t i = 0; i < weights.blocks.numel() / 8; i += 8) {
      __builtin_prefetch(at + i + 512);
      for (int j = 0; j < 8; ++j) sums[j] ^= at[i + j];
    }
    for (const uint64_t sum : sums) sink ^= sum;
  });
  if (sink == 42) std::puts("");
  const double peak_work = static_cast<double>(dot_peak(dot_road(), 100000));
  measure("peak " + std::string(dot_road_name(dot_road())), peak_work, "Gmac/s",
          [&] { sink += static_cast<uint64_t>(dot_peak(dot_road(), 100000)); });
  for (const int64_t rows : {1, 128}) {
    if (rows > 1 && channels > 10000) continue;
    const auto x = floats(rows * depth);
    std::vector<int8_t> a(x.size());
    std::vector<TokenQParams> tokens(static_cast<size_t>(rows));
    std::vector<float> out(static_cast<size_t>(rows * channels));
    const double work = rows == 1 ? bytes : static_cast<double>(rows * channels * depth);
    const char* unit = rows == 1 ? "GB/s" : "Gmac/s";
    const std::string rest = name + (rows == 1 ? " one token" : " 128 tokens");
    measure("f32 " + rest, work, unit, [&] { linear_groups_f32(x.data(), rows, weights, nullptr, out.data()); });
    measure("s8 " + rest, work, unit, [&] {
      quantize_tokens_s8(x.data(), rows, depth, a.data(), tokens.data());
      linear_groups_s8(a.data(), tokens.data(), rows, weights, nullptr, out.data());
    });
  }
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (!std::strcmp(argv[i], "--threads") && i + 1 < argc) {
      set_num_threads(std::atoi(argv[++i]));
    } else {
      g_filter = argv[i];
    }
  }
  if (g_filter == "group") {
    groups(151936, 896, 32, 4);
    groups(151936, 896, 32, 8);
    groups(896, 4864, 32, 4);
    groups(4864, 896, 32, 4);
    groups(4864, 896, 128, 4);
    groups(4864, 896, 32, 8);
    return 0;
  }
  for (int64_t batch : {1, 16}) {
    conv("resnet", batch, 3, 64, 224, 7, 2, 1);
    conv("resnet", batch, 64, 64, 56, 3, 1, 1);
    conv("resnet", batch, 128, 128, 28, 3, 1, 1);
    conv("resnet", batch, 256, 256, 14, 3, 1, 1);
    conv("resnet", batch, 512, 512, 7, 3, 1, 1);
    conv("resnet", batch, 64, 128, 56, 3, 2, 1);
    conv("resnet", batch, 64, 128, 56, 1, 2, 1);
    conv("cifar", batch, 16, 16, 32, 3, 1, 1);
    conv("cifar", batch, 32, 32, 16, 3, 1, 1);
    conv("cifar", batch, 64, 64, 8, 3, 1, 1);
    conv("cifar", batch, 48, 48, 16, 3, 1, 1);
  }
  conv("mobilenet", 1, 3, 32, 224, 3, 2, 1);
  conv("mobilenet", 1, 32, 32, 112, 3, 1, 32);
  conv("mobilenet", 1, 96, 96, 112, 3, 2, 96);
  conv("mobilenet", 1, 144, 144, 56, 3, 1, 144);
  conv("mobilenet", 1, 384, 384, 14, 3, 1, 384);
  conv("mobilenet", 1, 960, 960, 7, 3, 1, 960);
  conv("mobilenet", 1, 120, 120, 28, 5, 1, 120);
  conv("mobilenet", 1, 32, 16, 112, 1, 1, 1);
  conv("mobilenet", 1, 16, 96, 112, 1, 1, 1);
  conv("mobilenet", 1, 24, 144, 56, 1, 1, 1);
  conv("mobilenet", 1, 64, 384, 14, 1, 1, 1);
  conv("mobilenet", 1, 384, 64, 14, 1, 1, 1);
  conv("mobilenet", 1, 160, 960, 7, 1, 1, 1);
  conv("mobilenet", 1, 960, 160, 7, 1, 1, 1);
  conv("resnext", 1, 128, 128, 56, 3, 1, 32);
  gemms();
  pools();
  arrays(16384, "of 64 KiB");
  arrays(1 << 18, "of 1 MiB");
  arrays(1 << 24, "of 64 MiB");
}
