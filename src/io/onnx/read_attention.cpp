// Attention of ONNX (opset 23) and of ONNX Runtime, and rotary embeddings: aten.scaled_dot_product_attention and what
// stands around it.
#include <algorithm>
#include <cmath>
#include <limits>

#include "io/onnx/import.h"
#include "io/onnx/chains.h"
#include "io/onnx/window.h"

namespace qdq {
namespace {

// Of a slice; the bare constant is of another type than int64_t where addresses have 64 bits.
constexpr int64_t kToTheEnd = INT64_MAX;

// The size of the last axis. Refuses a tensor without axes.
const SymInt& last_size(const OnnxCall& call, const Node* node) {
  const size_t rank = call.meta_of(node).sizes.size();
  return call.extent(node, rank == 0 ? 0 : rank - 1);
}

// [B, N, S, E], as aten.scaled_dot_product_attention takes them.
struct Heads {
  Node *query, *key, *value;
};

// [B, S, N E] -> [B, N, S, E]
Node* split_heads(OnnxCall& call, Node* x, int64_t heads) {
  const auto width = last_size(call, x).constant();
  if (heads < 1 || !width || *width % heads != 0) call.refuse("cannot divide its features into ", heads, " heads");
  Node* split = call.call("unflatten.int", {x, -1, OnnxCall::list(std::vector<int64_t>{heads, *width / heads})});
  return call.call("transpose.int", {split, 1, 2});
}
Node* join_heads(OnnxCall& call, Node* x) {
  return call.call("flatten.using_ints", {call.call("transpose.int", {x, 1, 2}), 2});
}

// Past keys or values in front.
Node* behind(OnnxCall& call, Node* past, Node* x) {
  return past ? call.call("cat.default", {Argument(Argument::List{past, x}), 2}) : x;
}

Node* number_of(OnnxCall& call, const SymInt& size) {
  return call.call("scalar_tensor.default", {call.import().size_argument(size)}, "dtype", DType::kS64);
}
Node* counting(OnnxCall& call, const SymInt& count, bool as_column) {
  Node* out = call.call("arange.default", {call.import().size_argument(count)});
  return as_column ? call.call("unsqueeze.default", {out, 1}) : out;
}

// [S, T]: where a query is not allowed to look: at keys behind its own place, which is `past` further on.
Node* future(OnnxCall& call, const SymInt& queries, const SymInt& keys, const SymInt& past) {
  Node* own = counting(call, queries, true);
  if (!(past == SymInt(0))) own = call.call("add.Tensor", {own, number_of(call, past)});
  return call.call("gt.Tensor", {counting(call, keys, false), own});
}

// Where a key [T] lies behind those that count, by their number [B]; [B, T].
Node* beyond(OnnxCall& call, Node* lengths, const SymInt& keys) {
  return call.call("ge.Tensor", {counting(call, keys, false), call.call("unsqueeze.default", {lengths, 1})});
}

// Numbers that are added to the scores: 0 where `allowed` holds, else `value`.
Node* penalties(OnnxCall& call, Node* forbidden, DType dtype, double value) {
  Node* zeros = call.call("zeros_like.default", {forbidden}, "dtype", dtype);
  return call.call("masked_fill.Scalar", {zeros, forbidden, value});
}

Node* added(OnnxCall& call, Node* a, Node* b) { return a && b ? call.call("add.Tensor", {a, b}) : a ? a : b; }

Node* repeated_heads(OnnxCall& call, Node* x, const SymInt& heads) {
  const auto own = call.extent(x, 1).constant(), wanted = heads.constant();
  if (!own || !wanted || *own < 1 || *wanted % *own != 0) call.refuse("has heads that cannot be shared");
  return *own == *wanted ? x : call.call("repeat_interleave.self_int", {x, *wanted / *own, 1});
}

struct Scores {
  Node* mask = nullptr;  // added to them
  bool is_causal = false;
  double scale = 0;  // 0: 1 / sqrt(E)
  double softcap = 0;
};

// The result and, spelled out, the scores in their stages.
Node* attention(OnnxCall& call, Heads heads, const Scores& scores) {
  const SymInt count = call.extent(heads.query, 1);
  heads.key = repeated_heads(call, heads.key, count);
  heads.value = repeated_heads(call, heads.value, count);
  if (scores.softcap == 0) {
    const Arguments args = {heads.query, heads.key,       heads.value, scores.mask ? Argument(scores.mask) : Argument(),
                            0.0,         scores.is_causal};
    return scores.scale == 0 ? call.call("scaled_dot_product_attention.default", args)
                             : call.call("scaled_dot_product_attention.default", args, "scale", scores.scale);
  }
  const auto width = call.extent(heads.query, 3).constant();
  if (scores.scale == 0 && !width) call.refuse("has heads of open size");
  const double scale = scores.scale != 0 ? scores.scale : 1 / std::sqrt(static_cast<double>(*width));
  Node* all = call.call("matmul.default", {heads.query, call.call("transpose.int", {heads.key, 2, 3})});
  all = call.call("div.Tensor", {call.call("mul.Tensor", {all, scale}), scores.softcap});
  all = call.call("mul.Tensor", {call.call("tanh.default", {all}), scores.softcap});
  Node* mask = scores.mask;
  if (scores.is_causal) {
    const std::vector<SymInt> sizes = sizes_of(call, all);
    mask = added(call, mask,
                 penalties(call, future(call, sizes[2], sizes[3], SymInt(0)), call.meta_of(all).dtype,
                           -std::numeric_limits<double>::infinity()));
  }
  if (mask) all = call.call("add.Tensor", {all, mask});
  return call.call("matmul.default", {call.call("softmax.int", {all, -1}), heads.value});
}

// Attention of ONNX: query, key, value, mask, past key, past value, since opset 24 the number of keys of each sample.
void onnx_attention(OnnxCall& call) {
  if (call.has_output(3) && call.num_uses(3) > 0) call.refuse("gives its scores too");
  const bool is_flat = call.rank(0) == 3;
  Heads heads{call.tensor(0), call.tensor(1), call.tensor(2)};
  if (is_flat) {
    const int64_t own = call.integer("q_num_heads", 0), shared = call.integer("kv_num_heads", 0);
    heads = {split_heads(call, heads.query, own), split_heads(call, heads.key, shared),
             split_heads(call, heads.value, shared)};
  }
  heads.key = behind(call, call.has(4) ? call.tensor(4) : nullptr, heads.key);
  heads.value = behind(call, call.has(5) ? call.tensor(5) : nullptr, heads.value);
  call.set(heads.key, 1);
  call.set(heads.value, 2);
  Scores scores;
  scores.scale = call.real("scale", 0);
  scores.softcap = call.real("softcap", 0);
  const double lowest = -std::numeric_limits<double>::infinity();
  const DType dtype = call.meta_of(heads.query).dtype;
  if (call.has(3)) {
    scores.mask = call.tensor(3);
    if (call.meta_of(scores.mask).dtype == DType::kBool)
      scores.mask = penalties(call, call.call("logical_not.default", {scores.mask}), dtype, lowest);
  }
  if (call.has(6)) {
    Node* forbidden = beyond(call, call.tensor(6), size_along(call, heads.key, 2));
    for (int axis = 0; axis < 2; ++axis) forbidden = call.call("unsqueeze.default", {forbidden, 1});
    scores.mask = added(call, scores.mask, penalties(call, forbidden, dtype, lowest));
  }
  if (call.integer("is_causal", 0) != 0) {
    const SymInt queries = size_along(call, heads.query, 2), keys = size_along(call, heads.key, 2);
    const SymInt past = call.has(4) ? size_along(call, call.tensor(4), 2) : SymInt(0);
    scores.is_causal = !scores.mask && past == SymInt(0);
    if (!scores.is_causal)
      scores.mask = added(call, scores.mask, penalties(call, future(call, queries, keys, past), dtype, lowest));
  }
  Node* out = attention(call, heads, scores);
  call.set(is_flat ? join_heads(call, out) : out);
}

// What ONNX Runtime's masks say, as numbers to add: lengths [B], the same with the first keys that count behind them
// [2 B], or 1 where a key counts, [B, T], [B, S, T] or [B, 1, S, T].
Node* mask_of(OnnxCall& call, size_t i, const SymInt& keys, DType dtype) {
  Node* mask = call.tensor(i);
  const size_t rank = call.rank(i);
  const double value = call.real("mask_filter_value", -10000);
  Node* forbidden = nullptr;
  if (rank == 1) {
    const SymInt batch = call.extent(call.tensor(0), 0);
    const auto half = batch.constant();
    if (call.extent(mask, 0) == batch) {
      forbidden = beyond(call, mask, keys);
    } else {
      if (!half || !(call.extent(mask, 0) == SymInt(*half * 2)))
        call.refuse("has a different number of lengths than of samples");
      Node* first = call.call("unsqueeze.default", {call.call("slice.Tensor", {mask, 0, *half, kToTheEnd}), 1});
      forbidden = call.call("logical_or.default", {beyond(call, call.call("slice.Tensor", {mask, 0, 0, *half}), keys),
                                                   call.call("lt.Tensor", {counting(call, keys, false), first})});
    }
  } else {
    forbidden = call.call("le.Scalar", {mask, 0});
  }
  for (size_t axes = std::max<size_t>(rank, 2); axes < 4; ++axes)
    forbidden = call.call("unsqueeze.default", {forbidden, 1});
  return penalties(call, forbidden, dtype, value);
}

Scores microsoft_scores(OnnxCall& call, const Heads& heads, std::optional<size_t> mask, size_t bias,
                        const SymInt& past) {
  Scores scores;
  scores.scale = call.real("scale", 0);
  const DType dtype = call.meta_of(heads.query).dtype;
  const SymInt queries = size_along(call, heads.query, 2), keys = size_along(call, heads.key, 2);
  if (mask && call.has(*mask)) scores.mask = mask_of(call, *mask, keys, dtype);
  if (call.has(bias)) scores.mask = added(call, scores.mask, call.tensor(bias));
  if (call.integer("unidirectional", 0) != 0) {
    scores.is_causal = !scores.mask && past == SymInt(0);
    if (!scores.is_causal)
      scores.mask =
          added(call, scores.mask, penalties(call, future(call, queries, keys, past), dtype, -3.4028234663852886e38));
  }
  return scores;
}

// input, weights [D, 3 H], bias, mask, past [2, B, N, P, E], what is added to the scores.
void microsoft_attention(OnnxCall& call) {
  if (call.integer("do_rotary", 0) != 0 || call.integer("past_present_share_buffer", 0) != 0)
    call.refuse("rotates its heads, or shares the memory of past and present");
  const int64_t count = call.integer("num_heads", 0);
  Node* all = matrix_product(call, call.tensor(0), call.tensor(1), call.optional_tensor(2));
  std::vector<int64_t> sizes = call.integers("qkv_hidden_sizes", {});
  if (sizes.empty()) {
    const auto width = last_size(call, all).constant();
    if (!width || *width % 3 != 0) call.refuse("has weights of the width ", last_size(call, all).to_string());
    sizes.assign(3, *width / 3);
  }
  if (sizes.size() != 3) call.refuse("has ", sizes.size(), " qkv_hidden_sizes");
  Node* parts = call.call("split_with_sizes.default", {all, OnnxCall::list(sizes), -1});
  Heads heads{split_heads(call, item(call, parts, 0), count), split_heads(call, item(call, parts, 1), count),
              split_heads(call, item(call, parts, 2), count)};
  SymInt past = 0;
  if (call.has(4)) {
    past = size_along(call, call.tensor(4), 3);
    heads.key = behind(call, call.call("select.int", {call.tensor(4), 0, 0}), heads.key);
    heads.value = behind(call, call.call("select.int", {call.tensor(4), 0, 1}), heads.value);
  }
  if (call.has_output(1)) call.set(call.call("stack.default", {Argument(Argument::List{heads.key, heads.value})}), 1);
  call.set(join_heads(call, attention(call, heads, microsoft_scores(call, heads, 3, 5, past))));
}

// query, key, value, bias, key_padding_mask, attention_bias, past_key, past_value.
void multi_head_attention(OnnxCall& call) {
  if (call.has(8) || call.has(9)) call.refuse("shares the memory of past and present");
  const int64_t count = call.integer("num_heads", 0);
  Heads heads{};
  // Part i of the features that query, key and value have one behind the other, added.
  const auto biased = [&](Node* x, int64_t first, int64_t width) {
    return call.has(3)
               ? call.call("add.Tensor", {x, call.call("slice.Tensor", {call.tensor(3), 0, first, first + width})})
               : x;
  };
  const auto width_of = [&](Node* x) {
    const auto width = last_size(call, x).constant();
    if (!width) call.refuse("has features of open size");
    return *width;
  };
  const auto packed = [&](Node* x, int64_t i) {
    return call.call("transpose.int", {call.call("select.int", {x, 3, i}), 1, 2});
  };
  if (call.rank(0) == 5) {
    if (call.has(3)) call.refuse("has a bias for what is packed");
    heads = {packed(call.tensor(0), 0), packed(call.tensor(0), 1), packed(call.tensor(0), 2)};
  } else {
    const int64_t width = width_of(call.tensor(0));
    heads.query = split_heads(call, biased(call.tensor(0), 0, width), count);
    if (call.rank(1) == 5) {
      if (call.has(3)) call.refuse("has a bias for what is packed");
      heads.key = packed(call.tensor(1), 0);
      heads.value = packed(call.tensor(1), 1);
    } else if (call.rank(1) == 4) {
      heads.key = call.tensor(1);
      heads.value = call.tensor(2);
    } else {
      heads.key = split_heads(call, biased(call.tensor(1), width, width), count);
      heads.value = split_heads(call, biased(call.tensor(2), 2 * width, width_of(call.tensor(2))), count);
    }
  }
  SymInt past = 0;
  if (call.has(6)) {
    past = size_along(call, call.tensor(6), 2);
    heads.key = behind(call, call.tensor(6), heads.key);
    heads.value = behind(call, call.tensor(7), heads.value);
  }
  call.set(heads.key, 1);
  call.set(heads.value, 2);
  call.set(join_heads(call, attention(call, heads, microsoft_scores(call, heads, 4, 5, past))));
}

// Pairs of features turned by angles. x is [B, S, N, E] with cos and sin [B or 1, S, 1, R / 2].
Node* rotated(OnnxCall& call, Node* x, Node* cos, Node* sin, bool interleaved) {
  const auto half = last_size(call, cos).constant(), width = last_size(call, x).constant();
  if (!half || !width || 2 * *half > *width) call.refuse("turns more features than there are, or an open number");
  Node* turned = 2 * *half == *width ? x : call.call("slice.Tensor", {x, 3, 0, 2 * *half});
  const auto part = [&](int64_t i) {
    return interleaved ? call.call("slice.Tensor", {turned, 3, i, kToTheEnd, 2})
                       : call.call("slice.Tensor", {turned, 3, i * *half, (i + 1) * *half});
  };
  Node *a = part(0), *b = part(1);
  Node* first = call.call("sub.Tensor", {call.call("mul.Tensor", {a, cos}), call.call("mul.Tensor", {b, sin})});
  Node* second = call.call("add.Tensor", {call.call("mul.Tensor", {b, cos}), call.call("mul.Tensor", {a, sin})});
  Node* out = interleaved ? call.call("flatten.using_ints",
                                      {call.call("stack.default", {Argument(Argument::List{first, second}), -1}), 3})
                          : call.call("cat.default", {Argument(Argument::List{first, second}), -1});
  if (2 * *half == *width) return out;
  Node* rest = call.call("slice.Tensor", {x, 3, 2 * *half, kToTheEnd});
  return call.call("cat.default", {Argument(Argument::List{out, rest}), -1});
}

// Rotates x, [B, S, N E] or [B, N, S, E]; `cos` and `sin` are tables of places or, without `places`, of [B, S].
void rotary_embedding(OnnxCall& call, Node* cos, Node* sin, Node* places) {
  Node* x = call.tensor(0);
  const bool is_flat = call.rank(0) == 3;
  if (!is_flat && call.rank(0) != 4) call.refuse("has an input of ", call.rank(0), " axes, wanted 3 or 4");
  const auto table = last_size(call, cos).constant();
  int64_t heads = call.integer("num_heads", 0);
  if (is_flat) {
    const auto width = call.extent(call.tensor(0), 2).constant();
    if (!width || !table || *table < 1) call.refuse("has features of open size");
    if (heads == 0) heads = *width / (2 * *table);
    if (heads < 1 || *width % heads != 0) call.refuse("cannot divide ", *width, " features into ", heads, " heads");
    x = call.call("unflatten.int", {x, 2, OnnxCall::list(std::vector<int64_t>{heads, *width / heads})});
  } else {
    x = call.call("transpose.int", {x, 1, 2});
  }
  if (places) {
    const auto looked_up = [&](Node* rows) { return call.call("embedding.default", {rows, places}); };
    cos = looked_up(cos);
    sin = looked_up(sin);
  }
  if (const int64_t turned = call.integer("rotary_embedding_dim", 0); turned > 0) {
    const auto cut = [&](Node* rows) {
      return last_size(call, rows) == SymInt(turned / 2) ? rows : call.call("slice.Tensor", {rows, -1, 0, turned / 2});
    };
    cos = cut(cos);
    sin = cut(sin);
  }
  // An axis for the heads.
  cos = call.call("unsqueeze.default", {cos, -2});
  sin = call.call("unsqueeze.default", {sin, -2});
  Node* out = rotated(call, x, cos, sin, call.integer("interleaved", 0) != 0);
  call.set(is_flat ? call.call("flatten.using_ints", {out, 2}) : call.call("transpose.int", {out, 1, 2}));
}

void onnx_rotary_embedding(OnnxCall& call) {
  rotary_embedding(call, call.tensor(1), call.tensor(2), call.has(3) ? call.tensor(3) : nullptr);
}

void microsoft_rotary_embedding(OnnxCall& call) {
  if (call.integer("is_packed_batching", 0) != 0 || call.real("scale", 1) != 1)
    call.refuse("packs its batch, or has a scale");
  Node* places = call.tensor(1);
  if (call.rank(1) == 1) {
    // The first place alone.
    const SymInt length = size_along(call, call.tensor(0), call.rank(0) == 3 ? 1 : 2);
    places = call.call("unsqueeze.default", {call.call("add.Tensor", {counting(call, length, false), places}), 0});
  }
  rotary_embedding(call, call.tensor(2), call.tensor(3), places);
}

// query, key, value, past_key, past_value, seqlens_k, total_sequence_length, cos_cache, sin_cache.
void group_query_attention(OnnxCall& call) {
  for (size_t i = 9; i < call.num_inputs(); ++i)
    if (call.has(i)) call.refuse("has its input ", i, ", which qdq does not read");
  if (call.rank(0) != 3) call.refuse("has no flat query");
  const int64_t own = call.integer("num_heads", 0), shared = call.integer("kv_num_heads", 0);
  Node *query = call.tensor(0), *key = nullptr, *value = nullptr;
  if (call.has(1)) {
    key = split_heads(call, call.tensor(1), shared);
    value = split_heads(call, call.tensor(2), shared);
    query = split_heads(call, query, own);
  } else {
    if (own < 1 || shared < 1 || own > (1 << 20) || shared > (1 << 20))
      call.refuse("has ", own, " and ", shared, " heads");
    Node* parts = call.call("split_with_sizes.default", {split_heads(call, query, own + 2 * shared),
                                                         OnnxCall::list(std::vector<int64_t>{own, shared, shared}), 1});
    query = item(call, parts, 0);
    key = item(call, parts, 1);
    value = item(call, parts, 2);
  }
  const auto width = call.extent(query, 3).constant();
  if (!width) call.refuse("has heads of open size");
  const double scale = call.real("scale", 0);
  // The caches keep their length where it is enough, as those that past and present share do.
  const SymInt total = call.size(6);
  SymInt length = total;
  if (call.has(3)) {
    const SymInt past = size_along(call, call.tensor(3), 2);
    if (past.is_constant() && total.is_constant()) length = std::max(*past.constant(), *total.constant());
  }
  const bool turns = call.integer("do_rotary", 0) != 0;
  Node* results =
      call.call_as_it_is("onnx.group_query_attention.default",
                         {query, key, value, call.optional_tensor(3), call.optional_tensor(4), call.tensor(5),
                          call.import().size_argument(length), turns ? Argument(call.tensor(7)) : Argument(),
                          turns ? Argument(call.tensor(8)) : Argument(), call.integer("rotary_interleaved", 0) != 0,
                          scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(*width)), call.real("softcap", 0),
                          call.integer("local_window_size", -1), call.integer("smooth_softmax", 0) > 0});
  call.set(join_heads(call, item(call, results, 0)));
  call.set(item(call, results, 1), 1);
  call.set(item(call, results, 2), 2);
}

constexpr OnnxOperator kAttentionOperators[] = {
    {"Attention", onnx_attention, nullptr},
    {"RotaryEmbedding", onnx_rotary_embedding, nullptr},
    {"com.microsoft.Attention", microsoft_attention, nullptr},
    {"com.microsoft.GroupQueryAttention", group_query_attention, nullptr},
    {"com.microsoft.MultiHeadAttention", multi_head_attention, nullptr},
    {"com.microsoft.RotaryEmbedding", microsoft_rotary_embedding, nullptr},
};

}  // namespace

std::span<const OnnxOperator> onnx_attention_operators() { return kAttentionOperators; }

}  // namespace qdq
