#include "op/infer.h"

#include "op/size_symbols.h"

namespace qdq {

TensorMeta tensor_meta(DType dtype, SymShape sizes) {
  TensorMeta meta;
  meta.dtype = dtype;
  meta.sizes = std::move(sizes);
  return meta;
}

TensorMeta meta_of(const Tensor& tensor) {
  return tensor_meta(tensor.dtype(), SymShape(tensor.sizes().begin(), tensor.sizes().end()));
}

Shape constant_shape(const SymShape& sizes) {
  Shape out;
  for (const SymInt& size : sizes) {
    const std::optional<int64_t> value = size.constant();
    QDQ_CHECK(value.has_value(), kInternal, "the shape ", to_string(sizes), " is not known");
    out.push_back(*value);
  }
  return out;
}

namespace {

MetaValue meta_value_of(const Value& value) {
  return std::visit(
      [](const auto& held) -> MetaValue {
        using U = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<U, std::monostate>) {
          return {};
        } else if constexpr (std::is_same_v<U, Tensor>) {
          return meta_of(held);
        } else if constexpr (std::is_same_v<U, Value::List>) {
          MetaValue::List list;
          for (const Value& element : held) list.push_back(meta_value_of(element));
          return list;
        } else {
          return held;
        }
      },
      value.variant());
}

}  // namespace

template <class T> BasicValue<T> run_op(const OpDef& op, std::vector<BasicValue<T>> args) {
  std::vector<std::pair<std::string, BasicValue<T>>> kwargs;
  QDQ_CHECK(args.size() <= op.schema->arguments.size(), kInternal, op.target, " got ", args.size(), " arguments");
  const size_t positional = std::min(args.size(), op.schema->num_positional());
  for (size_t i = positional; i < args.size(); ++i)
    kwargs.emplace_back(op.schema->arguments[i].name, std::move(args[i]));
  args.resize(positional);
  const Call<T> call(op, std::move(args), std::move(kwargs));
  if constexpr (std::is_same_v<T, Tensor>) return op.eval(call);
  else return op.infer(call);
}
template <class T> BasicValue<T> run_op(std::string_view local_name, std::vector<BasicValue<T>> args) {
  const bool named = local_name.find('.') != std::string_view::npos;
  const OpDef* op = find_op(concat("torch.ops.aten.", local_name, named ? "" : ".default"));
  QDQ_CHECK(op != nullptr, kInternal, "there is no operator ", local_name);
  return run_op<T>(*op, std::move(args));
}
template Value run_op(const OpDef&, std::vector<Value>);
template MetaValue run_op(const OpDef&, std::vector<MetaValue>);
template Value run_op(std::string_view, std::vector<Value>);
template MetaValue run_op(std::string_view, std::vector<MetaValue>);

MetaValue infer_call(const Call<Tensor>& call) {
  std::vector<MetaValue> args;
  for (size_t i = 0; i < call.size(); ++i) args.push_back(meta_value_of(call[i]));
  return run_op<TensorMeta>(call.op(), std::move(args));
}

SymInt size_from_values() { return size_from_values(0); }

TensorMeta result_meta(const Call<Tensor>& call) {
  const MetaValue value = infer_call(call);
  const TensorMeta* meta = value.get_if<TensorMeta>();
  QDQ_CHECK(meta != nullptr, kInternal, call.op().target, " has more than one result");
  return *meta;
}

Tensor empty_result(const Call<Tensor>& call) {
  const TensorMeta meta = result_meta(call);
  return Tensor::empty(constant_shape(meta.sizes), meta.dtype);
}

MetaValue infer_like_self(const Call<TensorMeta>& call) {
  return tensor_meta(call.tensor(0).dtype, call.tensor(0).sizes);
}

MetaValue infer_none(const Call<TensorMeta>&) { return {}; }

bool may_be_equal(const SymInt& a, const SymInt& b) { return !a.is_constant() || !b.is_constant() || a == b; }

namespace {
bool is_told_by_run(const SymInt& size) { return is_size_from_values(size) || !is_known_outside(size); }
}  // namespace

SymShape broadcast_shapes(const SymShape& a, const SymShape& b) {
  const size_t rank = std::max(a.size(), b.size());
  SymShape out(rank, SymInt(1));
  for (size_t i = 0; i < rank; ++i) {
    const SymInt x = i + a.size() < rank ? SymInt(1) : a[i + a.size() - rank];
    const SymInt y = i + b.size() < rank ? SymInt(1) : b[i + b.size() - rank];
    QDQ_CHECK(x == SymInt(1) || y == SymInt(1) || may_be_equal(x, y), kInvalidArgument, "the shapes ", to_string(a),
              " and ", to_string(b), " do not broadcast: ", x.to_string(), " against ", y.to_string(), " in dimension ",
              i);
    // A symbol against a number other than 1 has that value, or torch.export would have refused the program.
    const bool gives_way = x == SymInt(1) || is_at_most(1, x) || (!(y == SymInt(1)) && is_at_most(y, x));
    out[i] = gives_way || (y.is_constant() && !(y == SymInt(1))) ? y : x;
    const bool meet = !x.is_constant() && !y.is_constant() && !(x == y);
    if (meet && (is_told_by_run(x) || is_told_by_run(y))) out[i] = size_from_values(i);
    // torch.export would have made one symbol of two that meet; in an ONNX model either may be 1.
    else if (meet && is_symbol(x) && is_symbol(y)) out[i] = larger_size(x, y);
  }
  return out;
}

SymInt numel_of(const SymShape& sizes) {
  SymInt count(1);
  for (const SymInt& size : sizes) count = count * size;
  return count;
}

template <class T> std::vector<size_t> axes_of(const Call<T>& call, size_t i, size_t rank) {
  std::vector<bool> chosen(rank, false);
  const std::vector<int64_t> axes = call.is_none(i) ? std::vector<int64_t>() : call.integers(i);
  for (int64_t axis : axes) {
    const size_t a = static_cast<size_t>(wrap_axis(axis, std::max<int64_t>(static_cast<int64_t>(rank), 1)));
    if (a < rank) chosen[a] = true;
  }
  std::vector<size_t> out;
  for (size_t a = 0; a < rank; ++a)
    if (axes.empty() || chosen[a]) out.push_back(a);
  return out;
}
template std::vector<size_t> axes_of(const Call<Tensor>&, size_t, size_t);
template std::vector<size_t> axes_of(const Call<TensorMeta>&, size_t, size_t);

DType promote(DType a, DType b) {
  if (a == b) return a;
  for (DType dtype : {a, b})
    if (is_float8(dtype)) refuse_arithmetic(dtype);
  QDQ_CHECK(a != DType::kString && b != DType::kString, kInvalidArgument, to_string(a), " and ", to_string(b),
            " have no common dtype");
  if (is_complex(a) || is_complex(b)) {
    QDQ_CHECK(a != DType::kF64 && b != DType::kF64, kUnsupported, to_string(a), " and ", to_string(b),
              " make complex128, which qdq does not have; cast to float32 first");
    return DType::kC64;
  }
  if (is_floating(a) || is_floating(b)) {
    if (!is_floating(a)) return b;
    if (!is_floating(b)) return a;
    if (a == DType::kF64 || b == DType::kF64) return DType::kF64;
    return DType::kF32;  // f16 and bf16 together as well
  }
  if (a == DType::kBool) return b;
  if (b == DType::kBool) return a;
  const DType wide = size_of(a) >= size_of(b) ? a : b, narrow = wide == a ? b : a;
  if (size_of(wide) == 1) return DType::kS16;  // u8 and s8
  const auto is_unsigned = [](DType t) { return min_of(t) == 0; };
  if (size_of(wide) > size_of(narrow) && (is_unsigned(narrow) || !is_unsigned(wide))) return wide;
  fail(ErrorCode::kInvalidArgument, to_string(a), " and ", to_string(b), " have no common dtype");
}

DType result_dtype(std::initializer_list<OperandKind> operands) {
  // The smallest kind of each rank, then ranks from the highest: a lower one counts only if its kind is greater.
  const auto kind = [](DType t) { return is_complex(t) ? 3 : is_floating(t) ? 2 : t == DType::kBool ? 0 : 1; };
  std::optional<DType> out;
  for (int rank = 2; rank >= 0; --rank) {
    std::optional<DType> here;
    for (const OperandKind& operand : operands)
      if (operand.rank == rank) here = here ? promote(*here, operand.dtype) : operand.dtype;
    if (!here) continue;
    if (!out) out = here;
    else if (is_complex(*here) && !is_complex(*out)) out = promote(*out, *here);
    else if (*out == DType::kString || *here == DType::kString) out = promote(*out, *here);
    else if (kind(*here) > kind(*out)) out = *here;
  }
  QDQ_CHECK(out.has_value(), kInternal, "there are no operands to promote");
  return *out;
}

template <class T> OperandKind operand_kind(const Call<T>& call, size_t i) {
  if constexpr (std::is_same_v<T, Tensor>) {
    if (const Tensor* tensor = call[i].template get_if<Tensor>()) return {tensor->dtype(), tensor->dim() == 0 ? 1 : 2};
  } else {
    if (const TensorMeta* meta = call[i].template get_if<TensorMeta>())
      return {meta->dtype, meta->sizes.empty() ? 1 : 2};
  }
  if (call[i].template is<bool>()) return {DType::kBool, 0};
  if (call.is_integer(i)) return {DType::kS64, 0};
  if (!call[i].template is<double>()) call.number(i);  // throws
  return {DType::kF32, 0};
}
template OperandKind operand_kind(const Call<Tensor>&, size_t);
template OperandKind operand_kind(const Call<TensorMeta>&, size_t);

}  // namespace qdq
