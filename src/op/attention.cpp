// Scaled dot-product attention.
#include "op/attention.h"
#include "op/elements.h"
#include "op/families.h"
#include "op/math.h"

namespace qdq {
namespace {

// Where the schema keeps things; gqa -1: it has none.
struct AttentionArguments {
  size_t mask, dropout, causal, scale;
  int gqa;
};
constexpr AttentionArguments kPlain{3, 4, 5, 6, 7};
constexpr AttentionArguments kFlash{5, 3, 4, 6, -1};

template <class T> bool is_grouped(const Call<T>& call, const AttentionArguments& at) {
  return at.gqa >= 0 && call.boolean(static_cast<size_t>(at.gqa));
}

// query [..., H, L, E], key [..., H, S, E], value [..., H, S, V] -> [..., H, L, V]. With grouped queries key and value
// have fewer heads, each of which serves a run of query heads.
SymShape result_sizes(const Call<TensorMeta>& call, const AttentionArguments& at) {
  const SymShape &q = call.tensor(0).sizes, &k = call.tensor(1).sizes, &v = call.tensor(2).sizes;
  QDQ_CHECK(q.size() >= 2 && k.size() >= 2 && v.size() >= 2, kInvalidArgument, call.op().target,
            " needs at least 2 dimensions, found shapes ", to_string(q), ", ", to_string(k), ", ", to_string(v));
  QDQ_CHECK(may_be_equal(q.back(), k.back()) && may_be_equal(k[k.size() - 2], v[v.size() - 2]), kInvalidArgument,
            call.op().target, " cannot combine shapes ", to_string(q), ", ", to_string(k), " and ", to_string(v));
  const auto batch = [](const SymShape& sizes) { return SymShape(sizes.begin(), sizes.end() - 2); };
  SymShape sizes = is_grouped(call, at) ? batch(q) : broadcast_shapes(batch(q), broadcast_shapes(batch(k), batch(v)));
  sizes.push_back(q[q.size() - 2]);
  sizes.push_back(v.back());
  return sizes;
}
MetaValue infer_attention(const Call<TensorMeta>& call) {
  return tensor_meta(call.tensor(0).dtype, result_sizes(call, kPlain));
}
MetaValue infer_flash(const Call<TensorMeta>& call) {
  const SymShape sizes = result_sizes(call, kFlash);
  const TensorMeta sums = tensor_meta(call.tensor(0).dtype == DType::kF64 ? DType::kF64 : DType::kF32,
                                      SymShape(sizes.begin(), sizes.end() - 1));
  return MetaValue::List{tensor_meta(call.tensor(0).dtype, sizes), sums};
}

// [B, rows, columns] for the batch axes of the result; grouped heads are repeated.
Tensor spread(const Tensor& x, const Shape& batch, bool grouped) {
  Tensor from = x;
  if (grouped && x.dim() >= 3 && x.size(-3) != batch.back()) {
    const int64_t heads = x.size(-3);
    QDQ_CHECK(heads > 0 && batch.back() % heads == 0, kInvalidArgument, batch.back(), " query heads cannot share ",
              heads, " key heads");
    Shape sizes = x.sizes();
    sizes.insert(sizes.end() - 2, batch.back() / heads);
    from = x.unsqueeze(-3).expand(sizes);
    sizes = x.sizes();
    sizes[sizes.size() - 3] = batch.back();
    from = from.reshape(sizes);
  }
  Shape full = batch;
  full.insert(full.end(), {x.size(-2), x.size(-1)});
  return from.expand(full).reshape({numel_of(batch), x.size(-2), x.size(-1)}).contiguous();
}

// The mask as numbers to add, [..., L, S]: a bool mask is 0 where true and -inf where false; a causal one hides keys
// after the query.
Tensor additive_mask(const Call<Tensor>& call, const AttentionArguments& at, int64_t L, int64_t S) {
  constexpr double kHidden = -std::numeric_limits<double>::infinity();
  if (call.boolean(at.causal)) {
    QDQ_CHECK(call.is_none(at.mask), kInvalidArgument, call.op().target, " takes a mask or is_causal, not both");
    const Tensor out = Tensor::empty({L, S}, DType::kF64);
    for (int64_t l = 0; l < L; ++l)
      for (int64_t s = l + 1; s < S; ++s) out.data<double>()[l * S + s] = kHidden;
    return out;
  }
  if (call.is_none(at.mask)) return Tensor::empty({1, 1}, DType::kF64);
  const Tensor& mask = call.tensor(at.mask);
  if (mask.dtype() != DType::kBool) return mask.to(DType::kF64);
  return map<double>(mask.to(DType::kF64), [](double keep) { return keep != 0 ? 0 : kHidden; });
}

// One query against all keys, in double: weights = softmax(q k scale + mask), out = weights v. A query whose keys are
// all hidden gives 0. Returns log(sum exp) of the scores.
template <class C>
double attend(const C* q, const C* k, const C* v, const double* mask, double scale, int64_t S, int64_t E, int64_t V,
              C* out) {
  std::vector<double> scores(static_cast<size_t>(S)), sums(static_cast<size_t>(V));
  double largest = -std::numeric_limits<double>::infinity();
  for (int64_t s = 0; s < S; ++s) {
    double dot = 0;
    for (int64_t e = 0; e < E; ++e) dot += static_cast<double>(q[e]) * static_cast<double>(k[s * E + e]);
    scores[static_cast<size_t>(s)] = dot * scale + mask[s];
    largest = std::max(largest, scores[static_cast<size_t>(s)]);
  }
  if (std::isinf(largest) && largest < 0) {
    std::fill_n(out, V, C(0));
    return largest;
  }
  double total = 0;
  for (int64_t s = 0; s < S; ++s) {
    const double weight = math::exp(scores[static_cast<size_t>(s)] - largest);
    total += weight;
    for (int64_t i = 0; i < V; ++i) sums[static_cast<size_t>(i)] += weight * static_cast<double>(v[s * V + i]);
  }
  for (int64_t i = 0; i < V; ++i) out[i] = static_cast<C>(sums[static_cast<size_t>(i)] / total);
  return largest + math::log(total);
}

AttentionOperands operands_of(const Call<Tensor>& call, const AttentionArguments& at, Shape sizes) {
  QDQ_CHECK(call.number(at.dropout) == 0, kUnsupported, call.op().target,
            " with dropout draws random numbers: export the model in evaluation mode");
  const Tensor& query = call.tensor(0);
  const Shape batch(sizes.begin(), sizes.end() - 2);
  const bool grouped = is_grouped(call, at);
  AttentionOperands out;
  out.query = spread(query, batch, false);
  out.key = spread(call.tensor(1).to(query.dtype()), batch, grouped);
  out.value = spread(call.tensor(2).to(query.dtype()), batch, grouped);
  out.mask = additive_mask(call, at, query.size(-2), out.key.size(1));
  out.scale = call.is_none(at.scale) ? 1 / std::sqrt(static_cast<double>(query.size(-1))) : call.number(at.scale);
  out.sizes = std::move(sizes);
  return out;
}

Value attention(const AttentionOperands& given, const std::string& target, bool has_sums) {
  const int64_t B = given.query.size(0), L = given.query.size(1), E = given.query.size(2), S = given.key.size(1),
                V = given.value.size(2);
  Shape all(given.sizes.begin(), given.sizes.end() - 1);
  const Shape rows = all;
  all.push_back(S);
  const Tensor mask = given.mask.expand(all).contiguous();
  const DType dtype = given.query.dtype();
  return visit_float(dtype, target, [&](auto type) -> Value {
    using C = typename decltype(type)::type;
    const DType c = DTypeOf<C>::value;
    const Tensor q = given.query.to(c), k = given.key.to(c), v = given.value.to(c);
    const Tensor out = Tensor::empty(given.sizes, c), sums = Tensor::empty(rows, c);
    for (int64_t row = 0; row < B * L; ++row) {
      const int64_t b = row / L;
      const double sum = attend(q.data<C>() + row * E, k.data<C>() + b * S * E, v.data<C>() + b * S * V,
                                mask.data<double>() + row * S, given.scale, S, E, V, out.data<C>() + row * V);
      sums.data<C>()[row] = static_cast<C>(sum);
    }
    if (!has_sums) return out.to(dtype);
    return Value::List{out.to(dtype), sums};
  });
}
Value eval_attention(const Call<Tensor>& call) { return attention(attention_operands(call), call.op().target, false); }
Value eval_flash(const Call<Tensor>& call) {
  const MetaValue meta = infer_call(call);
  Shape sizes = constant_shape(meta.get_if<MetaValue::List>()->at(0).get_if<TensorMeta>()->sizes);
  return attention(operands_of(call, kFlash, std::move(sizes)), call.op().target, true);
}

// x [N, H, L, D], cosines and sines of as many rows or of one for several: halves of a row turned against each other.
MetaValue infer_rotary(const Call<TensorMeta>& call) {
  const SymShape &x = call.tensor(0).sizes, &cos = call.tensor(1).sizes, &sin = call.tensor(2).sizes;
  QDQ_CHECK(x.size() == 4 && cos.size() == 4 && sin.size() == 4, kInvalidArgument, call.op().target,
            " needs four dimensions, found ", to_string(x), ", ", to_string(cos), " and ", to_string(sin));
  return tensor_meta(call.tensor(0).dtype, x);
}
Value eval_rotary(const Call<Tensor>& call) {
  infer_call(call);
  const Tensor& x = call.tensor(0);
  const int64_t half = x.size(-1) / 2;
  const Value second = run_op<Tensor>("neg.default", {x.slice(-1, half, 2 * half)});
  const Value crossed =
      run_op<Tensor>("cat.default", {Value::List{second, x.slice(-1, 0, half)}, static_cast<int64_t>(-1)});
  return run_op<Tensor>("add.Tensor", {run_op<Tensor>("mul.Tensor", {x, call.tensor(1)}),
                                       run_op<Tensor>("mul.Tensor", {crossed, call.tensor(2)})});
}

}  // namespace

AttentionOperands attention_operands(const Call<Tensor>& call) {
  return operands_of(call, kPlain, constant_shape(result_meta(call).sizes));
}

void add_attention_ops(std::vector<OpDef>& ops) {
  const Roles roles{.activation = 0, .other = 1};
  ops.push_back(
      define("aten::scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float "
             "dropout_p=0., bool "
             "is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
             infer_attention, eval_attention, roles, Family::kAttention));
  ops.push_back(
      define("aten::_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float "
             "dropout_p=0., bool is_causal=False, *, "
             "Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)",
             infer_flash, eval_flash, roles, Family::kAttention));
  ops.push_back(define("onnx::rotary_embedding(Tensor x, Tensor cos, Tensor sin) -> Tensor", infer_rotary, eval_rotary,
                       {.activation = 0}));
}

}  // namespace qdq
