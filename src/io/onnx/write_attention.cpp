// Attention as ONNX has it: spelled out, or as the operator of com.microsoft.
#include <cmath>
#include <limits>

#include "io/onnx/export.h"

namespace qdq {
namespace {

// Keys or values of grouped heads: each head as often as queries share it.
std::string shared_heads(AtenCall& call, size_t i) {
  const SymShape &queries = call.meta(0).sizes, &own = call.meta(i).sizes;
  const auto wanted = queries[queries.size() - 3].constant(), heads = own[own.size() - 3].constant();
  if (!wanted || !heads || *heads == 0) call.refuse("has an open number of heads");
  if (*wanted == *heads) return call.tensor(i);
  std::vector<int64_t> places;
  for (int64_t head = 0; head < *wanted; ++head) places.push_back(head / (*wanted / *heads));
  return call.emit("Gather", {call.tensor(i), call.integers_as_tensor(places)},
                   {"axis", static_cast<int64_t>(own.size()) - 3});
}

// The factors of softmax(q * sqrt(scale) @ (k * sqrt(scale))^T + mask) @ v, as PyTorch's exporter writes it:
// (query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
OnnxNames attended(AtenCall& call, size_t mask_at, size_t dropout_at, bool has_groups) {
  const size_t scale_at = 6, causal_at = dropout_at + 1;
  if (call.number(dropout_at) != 0) call.refuse("has dropout, which qdq does not spell out");
  const DType dtype = call.meta(0).dtype;
  const std::string keys = has_groups ? shared_heads(call, 1) : call.tensor(1),
                    values = has_groups ? shared_heads(call, 2) : call.tensor(2);
  const auto rank = static_cast<int64_t>(call.rank(1));
  const auto width = call.meta(0).sizes.back().constant();
  if (call.is_none(scale_at) && !width) call.refuse("has heads of open width");
  const double scale =
      std::sqrt(call.is_none(scale_at) ? 1 / std::sqrt(static_cast<double>(*width)) : call.number(scale_at));
  std::vector<int64_t> turn;
  for (int64_t i = 0; i < rank; ++i) turn.push_back(i);
  std::swap(turn[turn.size() - 1], turn[turn.size() - 2]);
  const std::string query = call.emit("Mul", {call.tensor(0), call.scalar(scale, dtype)});
  const std::string key = call.emit("Mul", {call.emit("Transpose", {keys}, {"perm", turn}), call.scalar(scale, dtype)});
  std::string scores = call.emit("MatMul", {query, key});
  if (!call.is_none(mask_at)) {
    std::string mask = call.tensor(mask_at);
    if (call.meta(mask_at).dtype == DType::kBool)
      mask = call.emit("Where",
                       {mask, call.scalar(0, dtype), call.scalar(-std::numeric_limits<double>::infinity(), dtype)});
    scores = call.emit("Add", {scores, mask});
  }
  if (call.flag(causal_at)) {
    // No position sees those behind it: ones below the diagonal of [queries, keys].
    std::vector<std::string> sizes;
    for (const size_t i : {size_t{0}, size_t{1}})
      sizes.push_back(call.emit("Slice", {call.emit("Shape", {call.tensor(i)}), call.integers_as_tensor({-2}),
                                          call.integers_as_tensor({-1})}));
    std::string seen = call.emit("ConstantOfShape", {call.emit("Concat", sizes, {"axis", 0})},
                                 {"value", Tensor::full({1}, DType::kF32, 1)});
    seen = call.cast(call.emit("Trilu", {seen}, {"upper", 0}), DType::kF32, DType::kBool);
    scores = call.emit("Where", {seen, scores, call.scalar(-std::numeric_limits<double>::infinity(), dtype)});
  }
  return {call.emit("Softmax", {scores}, {"axis", -1}), values};
}
void attention(AtenCall& call) { call.finish("MatMul", attended(call, 3, 4, !call.is_none(7) && call.flag(7))); }
// The operator that run_decompositions makes of it on CPUs: (query, key, value, dropout_p, is_causal, attn_mask, scale)
void flash_attention(AtenCall& call) {
  call.file().emit("MatMul", attended(call, 5, 3, false), {}, call.only_result());
}

// [batch, heads, length, width] as [batch, length, heads * width].
std::string joined_heads(AtenCall& call, size_t i) {
  const std::string turned = call.emit("Transpose", {call.tensor(i)}, {"perm", std::vector<int64_t>{0, 2, 1, 3}});
  const SymShape& sizes = call.meta(i).sizes;
  const auto heads = sizes[1].constant(), width = sizes[3].constant();
  if (!heads || !width) call.refuse("has an open number of heads");
  return call.emit("Reshape", {turned, call.integers_as_tensor({0, 0, *heads * *width})});
}

// (query, key, value, past_key, past_value, seqlens_k, total_sequence_length, cos_cache, sin_cache, rotary_interleaved,
// scale, softcap, local_window_size, smooth_softmax): the values, and both caches.
void group_query_attention(AtenCall& call) {
  const auto heads = [&](size_t i) { return call.meta(i).sizes[1].constant().value_or(0); };
  const bool turns = !call.is_none(7);
  std::vector<std::string> results = call.name_results(3);
  const std::string total =
      call.cast(call.emit("Reshape", {call.sizes(Argument::List{call.arg(6)}, false), call.integers_as_tensor({})}),
                DType::kS64, DType::kS32);
  const std::vector<std::string> caches = {call.optional_tensor(3), call.optional_tensor(4)};
  const std::string flat = call.file().fresh(call.node().name() + "_flat");
  call.file().emit_many("com.microsoft.GroupQueryAttention",
                        {joined_heads(call, 0), joined_heads(call, 1), joined_heads(call, 2), caches[0], caches[1],
                         call.tensor(5), total, turns ? call.tensor(7) : "", turns ? call.tensor(8) : ""},
                        {"num_heads", heads(0), "kv_num_heads", heads(1), "do_rotary", turns, "rotary_interleaved",
                         call.flag(9), "scale", call.number(10), "softcap", call.number(11), "local_window_size",
                         call.integer(12), "smooth_softmax", call.flag(13)},
                        {flat, results[1], results[2]}, call.node().meta.extra_of(kOnnxNode));
  const auto width = call.meta(0).sizes[3].constant();
  const std::string apart = call.emit("Reshape", {flat, call.integers_as_tensor({0, 0, heads(0), width.value_or(-1)})});
  call.file().emit("Transpose", {apart}, {"perm", std::vector<int64_t>{0, 2, 1, 3}}, results[0]);
}

constexpr AtenExporter kAttentionExporters[] = {
    {"_scaled_dot_product_flash_attention_for_cpu.default", flash_attention},
    {"group_query_attention.default", group_query_attention},
    {"scaled_dot_product_attention.default", attention}};

}  // namespace

std::span<const AtenExporter> attention_exporters() { return kAttentionExporters; }

}  // namespace qdq
