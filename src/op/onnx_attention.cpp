// Attention over a growing cache, as ONNX Runtime's GroupQueryAttention has it: samples of a batch have pasts of their
// own length, and new keys go behind each.
#include "op/elements.h"
#include "op/families.h"
#include "op/math.h"

namespace qdq {
namespace {

// query [B, N, S, E], key and value [B, M, S, E], not rotated yet; pasts [B, M, P, E]; how many keys there are with the
// new ones, less one, [B]; the length of the caches that are given back; tables of cosines and sines.
struct CacheShapes {
  int64_t B, N, M, S, E, P, T;
};

MetaValue infer_cached_attention(const Call<TensorMeta>& call) {
  const SymShape &query = call.tensor(0).sizes, &key = call.tensor(1).sizes, &value = call.tensor(2).sizes;
  QDQ_CHECK(query.size() == 4 && key.size() == 4 && value.size() == 4, kInvalidArgument, call.op().target,
            " needs four dimensions, found ", to_string(query), ", ", to_string(key), " and ", to_string(value));
  const auto check = [&](size_t i, const SymShape& wanted) {
    if (call.is_none(i)) return;
    const SymShape& found = call.tensor(i).sizes;
    bool fits = found.size() == wanted.size();
    for (size_t a = 0; fits && a < wanted.size(); ++a) fits = may_be_equal(found[a], wanted[a]);
    QDQ_CHECK(fits, kInvalidArgument, call.op().target, " needs its argument ", i, " of shape ", to_string(wanted),
              ", found ", to_string(found));
  };
  check(1, {query[0], key[1], query[2], query[3]});
  check(2, {query[0], key[1], query[2], query[3]});
  const auto heads = query[1].constant(), shared = key[1].constant();
  QDQ_CHECK(heads && shared && *shared >= 1 && *heads % *shared == 0, kInvalidArgument, call.op().target,
            " needs heads that can be shared, found ", to_string(query), " and ", to_string(key));
  QDQ_CHECK(call.is_none(3) == call.is_none(4), kInvalidArgument, call.op().target, " needs both pasts or none");
  if (!call.is_none(3)) {
    QDQ_CHECK(call.tensor(3).sizes.size() == 4, kInvalidArgument, call.op().target, " got a past of shape ",
              to_string(call.tensor(3).sizes));
    check(3, {query[0], key[1], call.tensor(3).sizes[2], query[3]});
    check(4, call.tensor(3).sizes);
  }
  QDQ_CHECK(may_be_equal(numel_of(call.tensor(5).sizes), query[0]), kInvalidArgument, call.op().target,
            " needs one length for each sample, found ", to_string(call.tensor(5).sizes));
  QDQ_CHECK(call.is_none(7) == call.is_none(8), kInvalidArgument, call.op().target, " needs both tables or none");
  if (!call.is_none(7)) {
    QDQ_CHECK(call.tensor(7).sizes.size() == 2, kInvalidArgument, call.op().target, " got a table of shape ",
              to_string(call.tensor(7).sizes));
    check(8, call.tensor(7).sizes);
    const auto half = call.tensor(7).sizes[1].constant(), width = query[3].constant();
    QDQ_CHECK(!half || !width || 2 * *half <= *width, kInvalidArgument, call.op().target, " turns ", *half,
              " pairs of ", *width, " features");
  }
  SymShape cache = key;
  cache[2] = call.sym(6);
  const DType dtype = call.tensor(0).dtype;
  return MetaValue::List{tensor_meta(dtype, query), tensor_meta(dtype, cache), tensor_meta(dtype, cache)};
}

// Turns pairs of features of one head by the angles of a place.
void turn(double* x, const double* cos, const double* sin, int64_t half, bool interleaved) {
  for (int64_t i = 0; i < half; ++i) {
    double &a = x[interleaved ? 2 * i : i], &b = x[interleaved ? 2 * i + 1 : i + half];
    const double first = a * cos[i] - b * sin[i];
    b = b * cos[i] + a * sin[i];
    a = first;
  }
}

struct ScoreScale {
  double scale, softcap;
  bool is_smooth;  // the softmax has one score of 0 more, which has no value
};

// One query by the keys from `begin` to `end`, rows of `width` elements; `scores` has room for all keys.
void attend_to_cache(const double* query, const double* keys, const double* values, int64_t begin, int64_t end,
                     int64_t width, const ScoreScale& how, std::vector<double>& scores, double* to) {
  double largest = how.is_smooth ? 0 : -std::numeric_limits<double>::infinity();
  for (int64_t k = begin; k < end; ++k) {
    double score = 0;
    for (int64_t e = 0; e < width; ++e) score += query[e] * keys[k * width + e];
    score *= how.scale;
    if (how.softcap > 0) score = how.softcap * math::tanh(score / how.softcap);
    scores[static_cast<size_t>(k)] = score;
    largest = std::max(largest, score);
  }
  double sum = how.is_smooth ? math::exp(-largest) : 0;
  for (int64_t k = begin; k < end; ++k)
    sum += scores[static_cast<size_t>(k)] = math::exp(scores[static_cast<size_t>(k)] - largest);
  for (int64_t k = begin; k < end; ++k)
    for (int64_t e = 0; e < width; ++e) to[e] += scores[static_cast<size_t>(k)] / sum * values[k * width + e];
}

// How many keys of the cache a sample of `length` keys has had before; refuses what does not fit into cache and tables.
int64_t past_length(const Call<Tensor>& call, const CacheShapes& s, int64_t length, const Tensor& cos) {
  // The first run of a prompt may be longer than some of its samples.
  const int64_t past = s.S == s.T ? 0 : length - s.S;
  QDQ_CHECK(past >= 0 && past <= s.P && past + s.S <= s.T && length <= s.T, kInvalidArgument, call.op().target,
            " got a sample of ", length, " keys, ", s.S, " of them new, for a past of ", s.P, " and a cache of ", s.T);
  QDQ_CHECK(!cos.defined() || past + s.S <= cos.size(0), kInvalidArgument, call.op().target, " got ", past + s.S,
            " places for tables of ", cos.size(0));
  return past;
}

Value eval_cached_attention(const Call<Tensor>& call) {
  const MetaValue meta = infer_call(call);
  const Shape sizes = constant_shape(meta.get_if<MetaValue::List>()->at(0).get_if<TensorMeta>()->sizes),
              cache = constant_shape(meta.get_if<MetaValue::List>()->at(1).get_if<TensorMeta>()->sizes);
  const DType dtype = call.tensor(0).dtype();
  check_float(dtype, call.op().target);
  const auto wide = [&](size_t i) {
    const Tensor* tensor = call.optional_tensor(i);
    return tensor ? tensor->to(DType::kF64).clone() : Tensor();
  };
  const Tensor query = wide(0), key = wide(1), value = wide(2), past_key = wide(3), past_value = wide(4), cos = wide(7),
               sin = wide(8), out = Tensor::empty(sizes, DType::kF64), keys = Tensor::empty(cache, DType::kF64),
               values = Tensor::empty(cache, DType::kF64);
  const CacheShapes s{sizes[0], sizes[1], cache[1], sizes[2], sizes[3], past_key.defined() ? past_key.size(2) : 0,
                      cache[2]};
  const Tensor lengths = call.tensor(5).to(DType::kS64).contiguous();
  const bool interleaved = call.boolean(9);
  const ScoreScale how{call.number(10), call.number(11), call.boolean(13)};
  const int64_t window = call.integer(12);
  std::vector<double> scores(static_cast<size_t>(s.T));
  for (int64_t b = 0; b < s.B; ++b) {
    QDQ_CHECK(lengths.data<int64_t>()[b] >= 0 && lengths.data<int64_t>()[b] < s.T, kInvalidArgument, call.op().target,
              " got the length ", lengths.data<int64_t>()[b], " less one, for a cache of ", s.T);
    const int64_t length = lengths.data<int64_t>()[b] + 1;
    const int64_t past = past_length(call, s, length, cos);
    const auto turned = [&](const Tensor& x, int64_t head, int64_t heads, int64_t i) {
      double* row = x.data<double>() + ((b * heads + head) * s.S + i) * s.E;
      const int64_t half = cos.defined() ? cos.size(1) : 0;
      if (half > 0)
        turn(row, cos.data<double>() + (past + i) * half, sin.data<double>() + (past + i) * half, half, interleaved);
      return row;
    };
    for (int64_t head = 0; head < s.M; ++head) {
      double *to_keys = keys.data<double>() + (b * s.M + head) * s.T * s.E,
             *to_values = values.data<double>() + (b * s.M + head) * s.T * s.E;
      if (past > 0) {
        std::copy_n(past_key.data<double>() + (b * s.M + head) * s.P * s.E, past * s.E, to_keys);
        std::copy_n(past_value.data<double>() + (b * s.M + head) * s.P * s.E, past * s.E, to_values);
      }
      for (int64_t i = 0; i < s.S; ++i) {
        std::copy_n(turned(key, head, s.M, i), s.E, to_keys + (past + i) * s.E);
        std::copy_n(value.data<double>() + ((b * s.M + head) * s.S + i) * s.E, s.E, to_values + (past + i) * s.E);
      }
    }
    for (int64_t head = 0; head < s.N; ++head) {
      const int64_t own = head / (s.N / s.M);
      const double *from_keys = keys.data<double>() + (b * s.M + own) * s.T * s.E,
                   *from_values = values.data<double>() + (b * s.M + own) * s.T * s.E;
      for (int64_t i = 0; i < s.S; ++i) {
        const double* row = turned(query, head, s.N, i);
        double* to = out.data<double>() + ((b * s.N + head) * s.S + i) * s.E;
        // A window counts the keys before a query's own.
        const int64_t end = past + i + 1, begin = window >= 0 ? std::max<int64_t>(end - 1 - window, 0) : 0;
        attend_to_cache(row, from_keys, from_values, begin, end, s.E, how, scores, to);
      }
    }
  }
  return Value::List{out.to(dtype), keys.to(dtype), values.to(dtype)};
}

}  // namespace

void add_onnx_attention_ops(std::vector<OpDef>& ops) {
  ops.push_back(
      define("onnx::group_query_attention(Tensor query, Tensor key, Tensor value, Tensor? past_key, Tensor? "
             "past_value, Tensor seqlens_k, SymInt total_sequence_length, Tensor? cos_cache, Tensor? "
             "sin_cache, bool rotary_interleaved, float scale, float softcap, int local_window_size, bool "
             "smooth_softmax=False) -> (Tensor, Tensor, Tensor)",
             infer_cached_attention, eval_cached_attention, {.activation = 0}));
}

}  // namespace qdq
