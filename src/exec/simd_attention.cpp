// Scaled dot-product attention on the portable loops: two products and a softmax for some queries at a time.
#include <algorithm>
#include <limits>
#include <vector>

#include "base/parallel.h"
#include "exec/simd.h"
#include "exec/simd_obstacles.h"
#include "kernel/gemm.h"
#include "kernel/math.h"
#include "kernel/pointwise.h"
#include "op/attention.h"

namespace qdq {
namespace {

// Queries whose scores, as many as there are keys for each, lie in the second cache.
int64_t queries_at_once(int64_t keys) { return std::max<int64_t>(1, (int64_t{1} << 16) / std::max<int64_t>(keys, 1)); }

class AttentionOp : public CompiledOp {
 public:
  Value run(const Call<Tensor>& call) override {
    const auto dense = [&](size_t i) { return is_f32(call.tensor(i)) && call.tensor(i).numel() > 0; };
    if (!dense(0) || !dense(1) || !dense(2)) return run_reference(call, "an operand is empty or not float32");
    AttentionOperands given = attention_operands(call);
    const int64_t images = given.query.size(0), queries = given.query.size(1), keys = given.key.size(1);
    const bool has_mask = given.mask.numel() > 1 || given.mask.data<double>()[0] != 0;
    // One mask for all images, or one for each.
    const bool is_shared = given.mask.dim() <= 2;
    Shape all{queries, keys};
    if (!is_shared) all.insert(all.begin(), given.sizes.begin(), given.sizes.end() - 2);
    given.mask = has_mask ? given.mask.to(DType::kF32).expand(all).contiguous() : Tensor();
    const Tensor out = uninitialized(given.sizes, DType::kF32);
    const int64_t step = queries_at_once(keys), blocks = (queries + step - 1) / step;
    parallel_for(images * blocks, 1, [&](int64_t begin, int64_t end) {
      std::vector<float> scores(static_cast<size_t>(std::min(step, queries) * keys));
      for (int64_t i = begin; i < end; ++i) {
        const int64_t image = i / blocks, first = i % blocks * step;
        const float* mask = has_mask ? given.mask.data<float>() : nullptr;
        if (mask) mask += ((is_shared ? 0 : image * queries) + first) * keys;
        attend(given, image, first, std::min(step, queries - first), mask, scores.data(), out.data<float>());
      }
    });
    return out;
  }

 private:
  // Queries `first` to `first` + `count` - 1 of an image; `scores` has room for a row of keys for each.
  static void attend(const AttentionOperands& given, int64_t image, int64_t first, int64_t count, const float* mask,
                     float* scores, float* out) {
    const int64_t queries = given.query.size(1), depth = given.query.size(2), keys = given.key.size(1),
                  width = given.value.size(2), row = image * queries + first;
    kernel::gemm_f32(count, keys, depth, {given.query.data<float>() + row * depth, depth, 1},
                     {given.key.data<float>() + image * keys * depth, 1, depth}, nullptr, kernel::BiasAxis::kNone,
                     scores, keys);
    kernel::mul_scalar_f32(scores, static_cast<float>(given.scale), count * keys, scores);
    if (mask) kernel::add_f32(scores, mask, count * keys, scores);
    kernel::softmax_f32(scores, count, keys, scores);
    if (mask) forget_hidden(mask, count, keys, scores);
    kernel::gemm_f32(count, width, keys, {scores, keys, 1},
                     {given.value.data<float>() + image * keys * width, width, 1}, nullptr, kernel::BiasAxis::kNone,
                     out + row * width, width);
  }

  // A query whose keys are all hidden gives 0, as in the reference.
  static void forget_hidden(const float* mask, int64_t rows, int64_t keys, float* weights) {
    for (int64_t i = 0; i < rows; ++i) {
      const auto is_hidden = [](float value) { return value == -std::numeric_limits<float>::infinity(); };
      if (std::all_of(mask + i * keys, mask + (i + 1) * keys, is_hidden)) std::fill_n(weights + i * keys, keys, 0.0F);
    }
  }
};

std::unique_ptr<CompiledOp> make_attention(const Node&, bool) { return std::make_unique<AttentionOp>(); }

constexpr SimdOp kAttention[] = {{"aten.scaled_dot_product_attention.default", make_attention, elementwise_obstacle}};

}  // namespace

std::span<const SimdOp> attention_simd_ops() { return kAttention; }

}  // namespace qdq
