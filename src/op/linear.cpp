// Matrix products: linear layers, mm, bmm, matmul, einsum. Sums run over k ascending in double (integers: 64 bits) and
// are rounded once.
#include "base/stable_sort.h"
#include "op/einsum.h"
#include "op/elements.h"
#include "op/families.h"

namespace qdq {
namespace {

// a[B, M, K] b[B, K, N], both of the same dtype; a or b may have a batch of 1 that counts for all.
Tensor batched_product(const Tensor& a, const Tensor& b) {
  const int64_t batch = a.size(0) == 1 ? b.size(0) : a.size(0), M = a.size(1), K = a.size(2), N = b.size(2);
  const DType dtype = a.dtype();
  return visit_wide(dtype, [&](auto type) {
    using C = typename decltype(type)::type;
    const Tensor x = a.to(DTypeOf<C>::value).contiguous(), y = b.to(DTypeOf<C>::value).contiguous();
    const Tensor out = Tensor::empty({batch, M, N}, DTypeOf<C>::value);
    std::vector<C> row(static_cast<size_t>(N));
    C* to = out.data<C>();
    for (int64_t n = 0; n < batch; ++n) {
      const C* left = x.data<C>() + (a.size(0) == 1 ? 0 : n * M * K);
      const C* right = y.data<C>() + (b.size(0) == 1 ? 0 : n * K * N);
      for (int64_t m = 0; m < M; ++m) {
        std::fill(row.begin(), row.end(), C(0));
        for (int64_t k = 0; k < K; ++k) {
          const C factor = left[m * K + k];
          const C* line = right + k * N;
          for (size_t i = 0; i < row.size(); ++i) row[i] = add_wrapping(row[i], mul_wrapping(factor, line[i]));
        }
        to = std::copy(row.begin(), row.end(), to);
      }
    }
    return out.to(dtype);
  });
}

template <class... Metas> void check_same_dtype(const OpDef& op, const TensorMeta& first, const Metas&... others) {
  for (const TensorMeta* other : {&others...})
    QDQ_CHECK(other->dtype == first.dtype, kInvalidArgument, op.target, " needs operands of one dtype, found ",
              to_string(first.dtype), " and ", to_string(other->dtype));
}

void check_inner(const OpDef& op, const TensorMeta& a, const SymInt& inner_a, const TensorMeta& b,
                 const SymInt& inner_b) {
  QDQ_CHECK(may_be_equal(inner_a, inner_b), kInvalidArgument, op.target, " cannot multiply shapes ", to_string(a.sizes),
            " and ", to_string(b.sizes), ": ", inner_a.to_string(), " against ", inner_b.to_string());
}

// x[..., K] weight[N, K]^T + bias[N].
MetaValue infer_linear(const Call<TensorMeta>& call) {
  const TensorMeta &x = call.tensor(0), &weight = call.tensor(1);
  QDQ_CHECK(!x.sizes.empty() && (weight.sizes.size() == 2 || weight.sizes.size() == 1), kInvalidArgument,
            "linear got an input of shape ", to_string(x.sizes), " and a weight of shape ", to_string(weight.sizes));
  check_same_dtype(call.op(), x, weight);
  check_inner(call.op(), x, x.sizes.back(), weight, weight.sizes.back());
  SymShape sizes = x.sizes;
  sizes.pop_back();
  if (weight.sizes.size() == 2) sizes.push_back(weight.sizes[0]);
  if (const TensorMeta* bias = call.optional_tensor(2)) {
    QDQ_CHECK(bias->sizes.empty() || (bias->sizes.size() == 1 && weight.sizes.size() == 2 &&
                                      may_be_equal(bias->sizes[0], weight.sizes[0])),
              kInvalidArgument, "linear with a weight of shape ", to_string(weight.sizes), " got a bias of shape ",
              to_string(bias->sizes));
  }
  return tensor_meta(x.dtype, sizes);
}
Tensor add_tensors(const Tensor& a, const Tensor& b) {
  const auto sum = [](auto x, auto y) { return add_wrapping(x, y); };
  return run_loops(a, b.expand(a.sizes()), a.dtype(), a.dtype(), &sum, kWideLoops<decltype(sum)>);
}
Value eval_linear(const Call<Tensor>& call) {
  const Tensor &x = call.tensor(0), &weight = call.tensor(1);
  const Shape sizes = constant_shape(result_meta(call).sizes);
  const int64_t K = weight.size(-1), N = weight.dim() == 2 ? weight.size(0) : 1;
  const int64_t rows = numel_of(Shape(x.sizes().begin(), x.sizes().end() - 1));
  Tensor out = batched_product(x.reshape({1, rows, K}), weight.reshape({1, N, K}).transpose(1, 2)).reshape(sizes);
  if (const Tensor* bias = call.optional_tensor(2)) out = add_tensors(out, *bias);
  return out;
}

MetaValue infer_mm(const Call<TensorMeta>& call) {
  const TensorMeta &a = call.tensor(0), &b = call.tensor(1);
  QDQ_CHECK(a.sizes.size() == 2 && b.sizes.size() == 2, kInvalidArgument, "mm needs two matrices, found shapes ",
            to_string(a.sizes), " and ", to_string(b.sizes));
  check_same_dtype(call.op(), a, b);
  check_inner(call.op(), a, a.sizes[1], b, b.sizes[0]);
  return tensor_meta(a.dtype, {a.sizes[0], b.sizes[1]});
}
MetaValue infer_bmm(const Call<TensorMeta>& call) {
  const TensorMeta &a = call.tensor(0), &b = call.tensor(1);
  QDQ_CHECK(a.sizes.size() == 3 && b.sizes.size() == 3 && may_be_equal(a.sizes[0], b.sizes[0]), kInvalidArgument,
            "bmm needs two batches of equally many matrices, found shapes ", to_string(a.sizes), " and ",
            to_string(b.sizes));
  check_same_dtype(call.op(), a, b);
  check_inner(call.op(), a, a.sizes[2], b, b.sizes[1]);
  return tensor_meta(a.dtype, {a.sizes[0], a.sizes[1], b.sizes[2]});
}

// numpy's rules: a vector on the left is a row, on the right a column, and that axis is dropped; batches broadcast.
MetaValue infer_matmul(const Call<TensorMeta>& call) {
  const TensorMeta &a = call.tensor(0), &b = call.tensor(1);
  QDQ_CHECK(!a.sizes.empty() && !b.sizes.empty(), kInvalidArgument, call.op().target,
            " needs tensors with axes, found shapes ", to_string(a.sizes), " and ", to_string(b.sizes));
  check_same_dtype(call.op(), a, b);
  check_inner(call.op(), a, a.sizes.back(), b, b.sizes.size() == 1 ? b.sizes[0] : b.sizes[b.sizes.size() - 2]);
  const auto batch = [](const SymShape& s) { return s.size() > 2 ? SymShape(s.begin(), s.end() - 2) : SymShape(); };
  SymShape sizes = broadcast_shapes(batch(a.sizes), batch(b.sizes));
  if (a.sizes.size() > 1) sizes.push_back(a.sizes[a.sizes.size() - 2]);
  if (b.sizes.size() > 1) sizes.push_back(b.sizes.back());
  return tensor_meta(a.dtype, sizes);
}
Tensor matrix_product(const Tensor& left, const Tensor& right, const Shape& sizes) {
  const Tensor a = left.dim() == 1 ? left.unsqueeze(0) : left, b = right.dim() == 1 ? right.unsqueeze(1) : right;
  const int64_t M = a.size(-2), K = a.size(-1), N = b.size(-1);
  const auto batch = [](const Tensor& t) { return Shape(t.sizes().begin(), t.sizes().end() - 2); };
  const Shape both = broadcast_shapes(batch(a), batch(b));
  const auto spread = [&](const Tensor& t, int64_t rows, int64_t columns) {
    if (t.dim() == 2) return t.unsqueeze(0);
    Shape full = both;
    full.push_back(rows);
    full.push_back(columns);
    return t.expand(full).reshape({numel_of(both), rows, columns});
  };
  return batched_product(spread(a, M, K), spread(b, K, N)).reshape(sizes);
}
Value eval_matmul(const Call<Tensor>& call) {
  return matrix_product(call.tensor(0), call.tensor(1), constant_shape(result_meta(call).sizes));
}

// beta self + alpha (a b).
MetaValue infer_addmm(const Call<TensorMeta>& call) {
  const TensorMeta &self = call.tensor(0), &a = call.tensor(1), &b = call.tensor(2);
  const size_t rank = a.sizes.size();
  QDQ_CHECK((rank == 2 || rank == 3) && b.sizes.size() == rank, kInvalidArgument, call.op().target,
            " cannot multiply shapes ", to_string(a.sizes), " and ", to_string(b.sizes));
  check_same_dtype(call.op(), self, a, b);
  check_inner(call.op(), a, a.sizes[rank - 1], b, b.sizes[rank - 2]);
  SymShape sizes = a.sizes;
  sizes.back() = b.sizes.back();
  broadcast_shapes(self.sizes, sizes);  // throws unless self fits
  return tensor_meta(self.dtype, sizes);
}
Value eval_addmm(const Call<Tensor>& call) {
  const TensorMeta meta = result_meta(call);
  const Shape sizes = constant_shape(meta.sizes);
  const Tensor product = matrix_product(call.tensor(1), call.tensor(2), sizes), self = call.tensor(0);
  return visit_compute(meta.dtype, [&](auto type) -> Value {
    using C = typename decltype(type)::type;
    const DType c = DTypeOf<C>::value;
    const C beta = saturate<C>(call.number(3)), alpha = saturate<C>(call.number(4));
    // beta = 0 ignores self, NaN included.
    const auto formula = [=](C x, C y) {
      return beta == 0 ? mul_wrapping(alpha, y) : add_wrapping(mul_wrapping(beta, x), mul_wrapping(alpha, y));
    };
    return map<C>(self.to(c), product.to(c), sizes, formula).to(meta.dtype);
  });
}

constexpr std::string_view kEllipsisAxes = "0123456789";

// The subscripts with "..." replaced by `axes` digits; nothing if dots stand otherwise.
std::optional<std::string> without_ellipsis(const std::string& subscripts, size_t axes) {
  const size_t dots = subscripts.find("...");
  if (dots == std::string::npos) return subscripts;
  if (axes > kEllipsisAxes.size()) return std::nullopt;
  return subscripts.substr(0, dots) + std::string(kEllipsisAxes.substr(kEllipsisAxes.size() - axes)) +
         subscripts.substr(dots + 3);
}

}  // namespace

EinsumEquation parse_einsum(const std::string& text, const std::vector<size_t>& ranks) {
  EinsumEquation out;
  std::string plain;
  for (char c : text)
    if (c != ' ') plain += c;
  const size_t arrow = plain.find("->");
  const std::string left = plain.substr(0, arrow);
  size_t begin = 0;
  for (;;) {
    const size_t comma = left.find(',', begin);
    out.inputs.push_back(left.substr(begin, comma == std::string::npos ? comma : comma - begin));
    if (comma == std::string::npos) break;
    begin = comma + 1;
  }
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  bool known = out.inputs.size() == ranks.size();
  size_t most_axes = 0;
  std::string letters, all;
  for (size_t n = 0; known && n < out.inputs.size(); ++n) {
    const auto named = static_cast<size_t>(std::count_if(out.inputs[n].begin(), out.inputs[n].end(), is_letter));
    for (char c : out.inputs[n]) known = known && (is_letter(c) || c == '.');
    const size_t axes = ranks[n] > named ? ranks[n] - named : 0;
    if (out.inputs[n].find("...") != std::string::npos) most_axes = std::max(most_axes, axes);
    const std::optional<std::string> spelt = without_ellipsis(out.inputs[n], axes);
    known = known && spelt && spelt->find('.') == std::string::npos;
    if (known) out.inputs[n] = *spelt;
    for (char c : out.inputs[n])
      if (is_letter(c)) letters += c;
    all += out.inputs[n];
  }
  if (arrow != std::string::npos) {
    out.output = without_ellipsis(plain.substr(arrow + 2), most_axes).value_or(".");
  } else {
    // Without an arrow: what "..." stands for, then the letters that occur once, in alphabetical order.
    for (char c : letters)
      if (std::count(letters.begin(), letters.end(), c) == 1) out.output += c;
    sort_stably(out.output);
    out.output = without_ellipsis("...", most_axes).value_or(".") + out.output;
  }
  for (char c : out.output)
    known = known && all.find(c) != std::string::npos && std::count(out.output.begin(), out.output.end(), c) == 1;
  QDQ_CHECK(known, kInvalidArgument, "the einsum equation '", text, "' does not fit its ", ranks.size(), " operands");
  return out;
}

namespace {

MetaValue infer_einsum(const Call<TensorMeta>& call) {
  const std::vector<TensorMeta> operands = call.tensors(1);
  std::vector<size_t> ranks;
  for (const TensorMeta& operand : operands) ranks.push_back(operand.sizes.size());
  const EinsumEquation equation = parse_einsum(call.string(0), ranks);
  std::vector<std::optional<SymInt>> extents(128);
  for (size_t n = 0; n < operands.size(); ++n) {
    QDQ_CHECK(operands[n].sizes.size() == equation.inputs[n].size(), kInvalidArgument, "einsum operand ", n,
              " has shape ", to_string(operands[n].sizes), ", its subscripts are '", equation.inputs[n], "'");
    check_same_dtype(call.op(), operands[0], operands[n]);
    for (size_t a = 0; a < operands[n].sizes.size(); ++a) {
      std::optional<SymInt>& extent = extents[static_cast<size_t>(equation.inputs[n][a])];
      // A size of 1 is spread over the others' size.
      if (!extent || extent->constant() == 1) extent = operands[n].sizes[a];
      if (operands[n].sizes[a].constant() == 1) continue;
      QDQ_CHECK(may_be_equal(*extent, operands[n].sizes[a]), kInvalidArgument, "einsum '", call.string(0),
                "' finds the sizes ", extent->to_string(), " and ", operands[n].sizes[a].to_string(), " for '",
                equation.inputs[n][a], "'");
    }
  }
  SymShape sizes;
  for (char c : equation.output) sizes.push_back(*extents[static_cast<size_t>(c)]);
  return tensor_meta(operands.at(0).dtype, sizes);
}
// An operand with one axis per letter of `letters`; axes that it lacks have stride 0, repeated ones are read along the
// diagonal.
Tensor spread_over(const Tensor& x, const std::string& subscripts, const std::string& letters, const Shape& extents) {
  Shape strides(letters.size(), 0);
  for (size_t a = 0; a < subscripts.size(); ++a)
    if (x.sizes()[a] != 1) strides[letters.find(subscripts[a])] += x.strides()[a];
  return x.as_strided(extents, strides, x.storage_offset());
}
Value eval_einsum(const Call<Tensor>& call) {
  const std::vector<Tensor> operands = call.tensors(1);
  std::vector<size_t> ranks;
  for (const Tensor& operand : operands) ranks.push_back(static_cast<size_t>(operand.dim()));
  const EinsumEquation equation = parse_einsum(call.string(0), ranks);
  const Tensor out = empty_result(call);
  std::string letters = equation.output;
  for (const std::string& input : equation.inputs)
    for (char c : input)
      if (letters.find(c) == std::string::npos) letters += c;
  Shape extents(letters.size(), 1);
  for (size_t n = 0; n < operands.size(); ++n)
    for (size_t a = 0; a < equation.inputs[n].size(); ++a) {
      int64_t& extent = extents[letters.find(equation.inputs[n][a])];
      if (extent == 1) extent = operands[n].sizes()[a];
    }
  return visit_wide(out.dtype(), [&](auto type) -> Value {
    using C = typename decltype(type)::type;
    std::vector<Tensor> factors;
    for (size_t n = 0; n < operands.size(); ++n)
      factors.push_back(spread_over(operands[n].to(DTypeOf<C>::value), equation.inputs[n], letters, extents));
    const Tensor result = Tensor::empty(out.sizes(), DTypeOf<C>::value);
    C* sums = result.data<C>();
    const int64_t total = numel_of(extents), inner = out.numel() == 0 ? 0 : total / out.numel();
    const Shape strides = contiguous_strides(extents);
    for (int64_t i = 0; i < total; ++i) {
      C product = 1;
      for (const Tensor& factor : factors) {
        int64_t offset = 0;
        for (size_t a = 0; a < extents.size(); ++a) offset += i / strides[a] % extents[a] * factor.strides()[a];
        product = mul_wrapping(product, factor.data<C>()[offset]);
      }
      C& sum = sums[i / inner];
      sum = add_wrapping(sum, product);
    }
    return result.to(out.dtype());
  });
}

// outer: out[i][j] = a[i] * b[j].
MetaValue infer_outer(const Call<TensorMeta>& call) {
  const TensorMeta &a = call.tensor(0), &b = call.tensor(1);
  QDQ_CHECK(a.sizes.size() == 1 && b.sizes.size() == 1, kInvalidArgument, call.op().target,
            " needs two vectors, found shapes ", to_string(a.sizes), " and ", to_string(b.sizes));
  return tensor_meta(result_dtype({operand_kind(call, 0), operand_kind(call, 1)}), {a.sizes[0], b.sizes[0]});
}
Value eval_outer(const Call<Tensor>& call) {
  const TensorMeta meta = result_meta(call);
  const Shape sizes = constant_shape(meta.sizes);
  const auto product = [](auto x, auto y) { return mul_wrapping(x, y); };
  return run_loops(call.tensor(0).reshape({sizes[0], 1}), call.tensor(1), meta.dtype, meta.dtype, &product,
                   kWideLoops<decltype(product)>);
}

}  // namespace

void add_linear_ops(std::vector<OpDef>& ops) {
  const Roles two{.activation = 0, .other = 1};
  ops.push_back(define("aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", infer_linear,
                       eval_linear, Roles{.activation = 0, .weight = 1, .bias = 2, .weight_axis = 0}, Family::kLinear));
  // addmm(bias, x, w): the weight is [K, N].
  ops.push_back(define("aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
                       infer_addmm, eval_addmm, Roles{.activation = 1, .weight = 2, .bias = 0, .weight_axis = 1},
                       Family::kLinear));
  ops.push_back(
      define("aten::baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
             infer_addmm, eval_addmm, Roles{.activation = 1, .other = 2, .bias = 0}, Family::kMatmul));
  ops.push_back(define("aten::mm(Tensor self, Tensor mat2) -> Tensor", infer_mm, eval_matmul, two, Family::kMatmul));
  ops.push_back(define("aten::bmm(Tensor self, Tensor mat2) -> Tensor", infer_bmm, eval_matmul, two, Family::kMatmul));
  ops.push_back(
      define("aten::matmul(Tensor self, Tensor other) -> Tensor", infer_matmul, eval_matmul, two, Family::kMatmul));
  ops.push_back(define("aten::mv(Tensor self, Tensor vec) -> Tensor", infer_matmul, eval_matmul, two, Family::kMatmul));
  ops.push_back(
      define("aten::dot(Tensor self, Tensor tensor) -> Tensor", infer_matmul, eval_matmul, two, Family::kMatmul));
  ops.push_back(define("aten::outer(Tensor self, Tensor vec2) -> Tensor", infer_outer, eval_outer));
  ops.push_back(
      define("aten::einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor", infer_einsum, eval_einsum));
}

}  // namespace qdq
