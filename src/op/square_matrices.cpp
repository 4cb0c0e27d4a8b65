// Powers, determinants and inverses of square matrices, and systems of linear equations.
#include <algorithm>
#include <cmath>

#include "op/composed.h"
#include "op/elements.h"
#include "op/families.h"
#include "op/math.h"

namespace qdq {
namespace {

template <class T> BasicValue<T> matrix_power(const Call<T>& call) {
  int64_t n = call.integer(1);
  const SymShape sizes = shape_of(call[0]);
  QDQ_CHECK(sizes.size() >= 2 && may_be_equal(sizes[sizes.size() - 1], sizes[sizes.size() - 2]), kInvalidArgument,
            call.op().target, " needs square matrices, found shape ", to_string(sizes));
  QDQ_CHECK(n >= 0, kUnsupported, call.op().target, " with a negative power needs inverse matrices");
  BasicValue<T> base = call[0], out;
  for (; n > 0; n /= 2) {
    if (n % 2 == 1) out = out.is_none() ? base : run_op<T>("matmul", {out, base});
    if (n > 1) base = run_op<T>("matmul", {base, base});
  }
  if (!out.is_none()) return run_op<T>("clone", {out});
  const auto eye = run_op<T>("eye", {sizes.back(), operand_kind(call, 0).dtype});
  return run_op<T>("clone", {run_op<T>("expand", {eye, list_of<T>(sizes)})});
}

// det of matrices [*, N, N], their factors and the rows that were exchanged, counted from 1 (LAPACK's getrf).
MetaValue infer_det_and_factors(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(0);
  const size_t rank = x.sizes.size();
  QDQ_CHECK(x.dtype == DType::kF32 || x.dtype == DType::kF64, kInvalidArgument, call.op().target,
            " needs float32 or float64, found ", to_string(x.dtype));
  QDQ_CHECK(rank >= 2 && may_be_equal(x.sizes[rank - 1], x.sizes[rank - 2]), kInvalidArgument, call.op().target,
            " needs square matrices, found shape ", to_string(x.sizes));
  const SymShape batch(x.sizes.begin(), x.sizes.end() - 2), rows(x.sizes.begin(), x.sizes.end() - 1);
  return MetaValue::List{tensor_meta(x.dtype, batch), tensor_meta(x.dtype, x.sizes), tensor_meta(DType::kS32, rows)};
}
// The row from k on with the largest magnitude in column k.
int64_t pivot_row(const double* a, int64_t k, int64_t n) {
  int64_t pivot = k;
  for (int64_t i = k + 1; i < n; ++i)
    if (std::fabs(a[i * n + k]) > std::fabs(a[pivot * n + k])) pivot = i;
  return pivot;
}
// Factors a matrix in place: l below the diagonal, u above it. Returns the product of the diagonal.
double factor_matrix(double* a, int32_t* exchanged, int64_t n) {
  double det = 1;
  for (int64_t k = 0; k < n; ++k) {
    const int64_t pivot = pivot_row(a, k, n);
    exchanged[k] = static_cast<int32_t>(pivot + 1);
    if (pivot != k) {
      std::swap_ranges(a + k * n, a + (k + 1) * n, a + pivot * n);
      det = -det;
    }
    const double diagonal = a[k * n + k];
    det *= diagonal;
    for (int64_t i = k + 1; i < n && diagonal != 0; ++i) {
      const double factor = a[i * n + k] /= diagonal;
      for (int64_t j = k + 1; j < n; ++j) a[i * n + j] -= factor * a[k * n + j];
    }
  }
  return det;
}
Value eval_det_and_factors(const Call<Tensor>& call) {
  infer_call(call);
  const Tensor& x = call.tensor(0);
  // PyTorch factors what lies in columns: of a tensor in C order that is the transposed one.
  const Tensor factors = (x.is_contiguous() ? x.transpose(-2, -1) : x).to(DType::kF64).clone();
  const int64_t n = x.size(-1);
  const Shape batch(x.sizes().begin(), x.sizes().end() - 2), rows(x.sizes().begin(), x.sizes().end() - 1);
  const Tensor det = Tensor::empty(batch, DType::kF64), exchanged = Tensor::empty(rows, DType::kS32);
  for (int64_t i = 0; i < det.numel(); ++i)
    det.data<double>()[i] = factor_matrix(factors.data<double>() + i * n * n, exchanged.data<int32_t>() + i * n, n);
  return Value::List{det.to(x.dtype()), factors.to(x.dtype()), exchanged};
}
template <class T> BasicValue<T> det(const Call<T>& call) { return item(run_op<T>("_linalg_det", {call[0]}), 0); }

// The sign of det and log |det|, which does not overflow where det does; and the factors.
MetaValue infer_slogdet_and_factors(const Call<TensorMeta>& call) {
  const MetaValue found = infer_det_and_factors(call);
  const auto& parts = *found.get_if<MetaValue::List>();
  return MetaValue::List{parts[0], parts[0], parts[1], parts[2]};
}
Value eval_slogdet_and_factors(const Call<Tensor>& call) {
  const Value found = eval_det_and_factors(call);
  const auto tensor = [&](size_t i) { return *found.get_if<Value::List>()->at(i).get_if<Tensor>(); };
  const Tensor factors = tensor(1).to(DType::kF64), exchanged = tensor(2);
  const Tensor signs = Tensor::empty(tensor(0).sizes(), DType::kF64), logs = Tensor::empty(signs.sizes(), DType::kF64);
  const int64_t n = factors.size(-1);
  for (int64_t i = 0; i < signs.numel(); ++i) {
    double sign = 1, sum = 0;
    for (int64_t k = 0; k < n; ++k) {
      const double diagonal = factors.data<double>()[(i * n + k) * n + k];
      if ((diagonal < 0) != (exchanged.data<int32_t>()[i * n + k] != k + 1)) sign = -sign;
      if (diagonal == 0) sign = 0;
      sum += math::log(std::fabs(diagonal));
    }
    signs.data<double>()[i] = sign;
    logs.data<double>()[i] = sum;
  }
  const DType dtype = call.tensor(0).dtype();
  return Value::List{signs.to(dtype), logs.to(dtype), tensor(1), exchanged};
}
template <class T> BasicValue<T> slogdet(const Call<T>& call) {
  const BasicValue<T> all = run_op<T>("_linalg_slogdet", {call[0]});
  return typename BasicValue<T>::List{item(all, 0), item(all, 1)};
}

// The inverse of matrices [*, N, N], by elimination in float64, and 0, or the place, counted from 1, of the first pivot
// that is 0.
MetaValue infer_inverse_and_info(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(0);
  infer_det_and_factors(call);
  return MetaValue::List{tensor_meta(x.dtype, x.sizes),
                         tensor_meta(DType::kS32, SymShape(x.sizes.begin(), x.sizes.end() - 2))};
}
// Turns a into the identity and b, the identity, into the inverse of a.
int32_t invert_matrix(double* a, double* b, int64_t n) {
  for (int64_t k = 0; k < n; ++k) {
    const int64_t pivot = pivot_row(a, k, n);
    if (a[pivot * n + k] == 0) return static_cast<int32_t>(k + 1);
    for (double* m : {a, b}) {
      if (pivot != k) std::swap_ranges(m + k * n, m + (k + 1) * n, m + pivot * n);
    }
    const double diagonal = a[k * n + k];
    for (int64_t j = 0; j < n; ++j) {
      a[k * n + j] /= diagonal;
      b[k * n + j] /= diagonal;
    }
    for (int64_t i = 0; i < n; ++i) {
      const double factor = a[i * n + k];
      if (i == k || factor == 0) continue;
      for (int64_t j = 0; j < n; ++j) {
        a[i * n + j] -= factor * a[k * n + j];
        b[i * n + j] -= factor * b[k * n + j];
      }
    }
  }
  return 0;
}
Value eval_inverse_and_info(const Call<Tensor>& call) {
  infer_call(call);
  const Tensor& x = call.tensor(0);
  const int64_t n = x.size(-1);
  const Tensor rest = x.contiguous().to(DType::kF64).clone(), out = Tensor::full(x.sizes(), DType::kF64, 0);
  const Tensor info = Tensor::empty(Shape(x.sizes().begin(), x.sizes().end() - 2), DType::kS32);
  for (int64_t i = 0; i < info.numel(); ++i) {
    double* inverse = out.data<double>() + i * n * n;
    for (int64_t k = 0; k < n; ++k) inverse[k * n + k] = 1;
    info.data<int32_t>()[i] = invert_matrix(rest.data<double>() + i * n * n, inverse, n);
  }
  QDQ_CHECK(
      !call.boolean(1) || info.numel() == 0 ||
          std::all_of(info.data<int32_t>(), info.data<int32_t>() + info.numel(), [](int32_t v) { return v == 0; }),
      kInvalidArgument, call.op().target, " got a matrix that has no inverse");
  return Value::List{out.to(x.dtype()), info};
}
template <class T> BasicValue<T> inverse(const Call<T>& call) {
  return item(run_op<T>("linalg_inv_ex", {call[0], true}), 0);
}

// (A [*, N, N], B [*, N, K] or vectors [*, N], left): X with A X = B, or with X A = B.
template <class T> BasicValue<T> solve(const Call<T>& call) {
  const SymShape a = shape_of(call[0]), b = shape_of(call[1]);
  const bool are_vectors = b.size() == 1 || (a.size() == b.size() + 1 && std::equal(b.begin(), b.end(), a.begin()));
  QDQ_CHECK(call.boolean(2) || !are_vectors, kInvalidArgument, call.op().target,
            " with left=False needs matrices, found shape ", to_string(b));
  const BasicValue<T> inverted = run_op<T>("linalg_inv", {call[0]});
  if (!call.boolean(2)) return run_op<T>("matmul", {call[1], inverted});
  if (!are_vectors) return run_op<T>("matmul", {inverted, call[1]});
  const BasicValue<T> columns = run_op<T>("unsqueeze", {call[1], int64_t{-1}});
  return run_op<T>("squeeze.dim", {run_op<T>("matmul", {inverted, columns}), int64_t{-1}});
}

}  // namespace

void add_square_matrix_ops(std::vector<OpDef>& ops) {
  const auto add = [&](const char* line, Infer infer, Eval eval) {
    ops.push_back(define(line, infer, eval, {.activation = 0}));
  };
  add("aten::matrix_power(Tensor self, int n) -> Tensor", matrix_power, matrix_power);
  add("aten::_linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)", infer_det_and_factors,
      eval_det_and_factors);
  add("aten::linalg_det(Tensor A) -> Tensor", det, det);
  add("aten::det(Tensor self) -> Tensor", det, det);
  add("aten::linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)",
      infer_inverse_and_info, eval_inverse_and_info);
  add("aten::linalg_inv(Tensor A) -> Tensor", inverse, inverse);
  add("aten::inverse(Tensor self) -> Tensor", inverse, inverse);
  add("aten::linalg_matrix_power(Tensor self, int n) -> Tensor", matrix_power, matrix_power);
  add("aten::_linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)",
      infer_slogdet_and_factors, eval_slogdet_and_factors);
  add("aten::linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)", slogdet, slogdet);
  add("aten::slogdet(Tensor self) -> (Tensor sign, Tensor logabsdet)", slogdet, slogdet);
  add("aten::linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor", solve, solve);
}

}  // namespace qdq
