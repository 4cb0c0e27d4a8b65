// Python's operators on sizes and lists, and assertions about them.
#include <cmath>
#include <functional>

#include "op/elements.h"
#include "op/families.h"
#include "op/math.h"
#include "tensor/sym_arithmetic.h"

namespace qdq {
namespace {

// operator.getitem: the i-th of several results.
template <class T> const BasicValue<T>& item_of(const Call<T>& call) {
  const auto* list = call[0].template get_if<typename BasicValue<T>::List>();
  QDQ_CHECK(list != nullptr, kInvalidArgument, call.op().target, " needs a list");
  int64_t i = call.integer(1);
  if (i < 0) i += static_cast<int64_t>(list->size());
  QDQ_CHECK(i >= 0 && i < static_cast<int64_t>(list->size()), kInvalidArgument, call.op().target, " got index ",
            call.integer(1), " for a list of ", list->size());
  return (*list)[static_cast<size_t>(i)];
}
MetaValue infer_getitem(const Call<TensorMeta>& call) { return item_of(call); }
Value eval_getitem(const Call<Tensor>& call) { return item_of(call); }

MetaValue infer_sym_size(const Call<TensorMeta>& call) {
  const SymShape& sizes = call.tensor(0).sizes;
  return sizes[axis_of(call, 1, sizes.size())];
}
Value eval_sym_size(const Call<Tensor>& call) { return call.tensor(0).size(call.integer(1)); }
MetaValue infer_sym_numel(const Call<TensorMeta>& call) { return numel_of(call.tensor(0).sizes); }
Value eval_sym_numel(const Call<Tensor>& call) { return call.tensor(0).numel(); }

// The only element as a number.
MetaValue infer_item(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(0);
  QDQ_CHECK(may_be_equal(numel_of(x.sizes), SymInt(1)), kInvalidArgument, call.op().target,
            " needs one element, found shape ", to_string(x.sizes));
  if (is_floating(x.dtype)) return 0.0;
  return x.dtype == DType::kBool ? MetaValue(true) : MetaValue(size_from_values());
}
Value eval_item(const Call<Tensor>& call) {
  const Tensor& x = call.tensor(0);
  if (is_floating(x.dtype())) return x.item();
  return x.dtype() == DType::kBool ? Value(x.item() != 0) : Value(x.item_int());
}

enum class Arithmetic { kAdd, kSub, kMul, kFloorDiv, kMod, kPow };

// Python's: // rounds down, the sign of % is the divisor's.
template <Arithmetic kind> SymInt computed(const SymInt& a, const SymInt& b) {
  switch (kind) {
    case Arithmetic::kAdd: return a + b;
    case Arithmetic::kSub: return a - b;
    case Arithmetic::kMul: return a * b;
    case Arithmetic::kFloorDiv: return a.floor_div(b);
    case Arithmetic::kMod: return size_modulo(a, b);
    case Arithmetic::kPow: return size_power(a, b);
  }
  return {};
}
template <Arithmetic kind> double computed(double a, double b) {
  switch (kind) {
    case Arithmetic::kAdd: return a + b;
    case Arithmetic::kSub: return a - b;
    case Arithmetic::kMul: return a * b;
    case Arithmetic::kFloorDiv: return std::floor(a / b);
    case Arithmetic::kMod: return a - std::floor(a / b) * b;
    case Arithmetic::kPow: return math::pow(a, b);
  }
  return {};
}
// An integer to a negative power is a float.
template <Arithmetic kind, class T> bool is_whole_result(const Call<T>& call, const std::optional<int64_t>& second) {
  return call.is_integer(0) && call.is_integer(1) && (kind != Arithmetic::kPow || second.value_or(0) >= 0);
}
template <Arithmetic kind> MetaValue infer_arithmetic(const Call<TensorMeta>& call) {
  const SymInt b = call.is_integer(1) ? call.sym(1) : SymInt();
  return is_whole_result<kind>(call, b.constant()) ? MetaValue(computed<kind>(call.sym(0), b)) : MetaValue(0.0);
}
template <Arithmetic kind> Value eval_arithmetic(const Call<Tensor>& call) {
  if (is_whole_result<kind>(call, call.is_integer(1) ? call.integer(1) : 0))
    return *computed<kind>(SymInt(call.integer(0)), SymInt(call.integer(1))).constant();
  return computed<kind>(call.number(0), call.number(1));
}
MetaValue infer_float_number(const Call<TensorMeta>&) { return 0.0; }
Value eval_truediv(const Call<Tensor>& call) {
  QDQ_CHECK(call.number(1) != 0, kInvalidArgument, call.op().target, " divides by zero");
  return call.number(0) / call.number(1);
}
Value eval_sym_float(const Call<Tensor>& call) { return call.number(0); }
Value eval_sym_sqrt(const Call<Tensor>& call) {
  QDQ_CHECK(call.number(0) >= 0, kInvalidArgument, call.op().target, " needs a number that is not below zero");
  return std::sqrt(call.number(0));
}
MetaValue infer_neg(const Call<TensorMeta>& call) {
  return call.is_integer(0) ? MetaValue(SymInt(0) - call.sym(0)) : MetaValue(0.0);
}
Value eval_neg(const Call<Tensor>& call) {
  return call.is_integer(0) ? Value(*(SymInt(0) - SymInt(call.integer(0))).constant()) : Value(-call.number(0));
}

// The metadata of a bool does not tell its value.
MetaValue infer_comparison(const Call<TensorMeta>&) { return true; }
template <class F> Value eval_compare(const Call<Tensor>& call) {
  if (call.is_integer(0) && call.is_integer(1)) return F{}(call.integer(0), call.integer(1));
  return F{}(call.number(0), call.number(1));
}

Value eval_not(const Call<Tensor>& call) { return call.number(0) == 0; }

Value eval_none(const Call<Tensor>&) { return {}; }
Value eval_assert(const Call<Tensor>& call) {
  QDQ_CHECK(call.number(0) != 0, kInvalidArgument, "an assertion of the program does not hold: ",
            call.size() > 1 && call[1].is<std::string>() ? call.string(1) : std::string("(no message)"));
  return {};
}
Value eval_constrain_range(const Call<Tensor>& call) {
  const double value = call.number(0);
  QDQ_CHECK((call.is_none(1) || value >= call.number(1)) && (call.is_none(2) || value <= call.number(2)),
            kInvalidArgument, "the size ", value, " is outside of the range that the program was exported for");
  return {};
}

}  // namespace

void add_sym_ops(std::vector<OpDef>& ops) {
  const auto add = [&](const char* line, Infer infer, Eval eval, Family family = Family::kOther) {
    ops.push_back(define(line, infer, eval, {}, family));
  };
  add("operator::getitem(Any self, int index) -> Any", infer_getitem, eval_getitem);
  add("operator::add(Scalar a, Scalar b) -> Scalar", infer_arithmetic<Arithmetic::kAdd>,
      eval_arithmetic<Arithmetic::kAdd>);
  add("operator::sub(Scalar a, Scalar b) -> Scalar", infer_arithmetic<Arithmetic::kSub>,
      eval_arithmetic<Arithmetic::kSub>);
  add("operator::mul(Scalar a, Scalar b) -> Scalar", infer_arithmetic<Arithmetic::kMul>,
      eval_arithmetic<Arithmetic::kMul>);
  add("operator::floordiv(Scalar a, Scalar b) -> Scalar", infer_arithmetic<Arithmetic::kFloorDiv>,
      eval_arithmetic<Arithmetic::kFloorDiv>);
  add("operator::mod(Scalar a, Scalar b) -> Scalar", infer_arithmetic<Arithmetic::kMod>,
      eval_arithmetic<Arithmetic::kMod>);
  add("operator::pow(Scalar a, Scalar b) -> Scalar", infer_arithmetic<Arithmetic::kPow>,
      eval_arithmetic<Arithmetic::kPow>);
  add("operator::truediv(Scalar a, Scalar b) -> float", infer_float_number, eval_truediv);
  add("torch::sym_float(Scalar a) -> float", infer_float_number, eval_sym_float);
  add("torch::_sym_sqrt(Scalar a) -> float", infer_float_number, eval_sym_sqrt);
  add("operator::neg(Scalar a) -> Scalar", infer_neg, eval_neg);
  add("operator::eq(Scalar a, Scalar b) -> bool", infer_comparison, eval_compare<std::equal_to<>>);
  add("operator::ne(Scalar a, Scalar b) -> bool", infer_comparison, eval_compare<std::not_equal_to<>>);
  add("operator::lt(Scalar a, Scalar b) -> bool", infer_comparison, eval_compare<std::less<>>);
  add("operator::le(Scalar a, Scalar b) -> bool", infer_comparison, eval_compare<std::less_equal<>>);
  add("operator::gt(Scalar a, Scalar b) -> bool", infer_comparison, eval_compare<std::greater<>>);
  add("operator::ge(Scalar a, Scalar b) -> bool", infer_comparison, eval_compare<std::greater_equal<>>);
  add("torch::sym_not(Scalar a) -> bool", infer_comparison, eval_not);
  add("aten::sym_size.int(Tensor self, int dim) -> SymInt", infer_sym_size, eval_sym_size, Family::kSize);
  add("aten::size.int(Tensor self, int dim) -> int", infer_sym_size, eval_sym_size, Family::kSize);
  add("aten::item(Tensor self) -> Scalar", infer_item, eval_item);
  add("aten::_local_scalar_dense(Tensor self) -> Scalar", infer_item, eval_item);
  add("aten::sym_numel(Tensor self) -> SymInt", infer_sym_numel, eval_sym_numel, Family::kSize);
  add("aten::_assert_scalar(Scalar self, str assert_msg) -> ()", infer_none, eval_assert);
  add("aten::_assert_async.msg(Tensor self, str assert_msg) -> ()", infer_none, eval_assert);
  add("aten::_assert_tensor_metadata(Tensor a, SymInt[]? size=None, SymInt[]? stride=None, ScalarType? dtype=None, *, "
      "Device? device=None, Layout? "
      "layout=None) -> ()",
      infer_none, eval_none);
  add("aten::sym_constrain_range(Scalar size, *, int? min=None, int? max=None) -> ()", infer_none,
      eval_constrain_range);
  add("aten::sym_constrain_range_for_size(Scalar size, *, int? min=None, int? max=None) -> ()", infer_none,
      eval_constrain_range);
}

}  // namespace qdq
