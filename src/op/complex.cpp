// Complex numbers as far as Fourier transforms need them: their parts, their arithmetic and what moves them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "op/elements.h"
#include "op/facts.h"
#include "op/families.h"
#include "op/math.h"
#include "tensor/complex.h"

namespace qdq {
namespace {

// Real operators on parts.

// What the operator infers of real numbers, with complex ones in their place.
MetaValue as_real_meta(const MetaValue& value) {
  if (const TensorMeta* meta = value.get_if<TensorMeta>())
    return tensor_meta(is_complex(meta->dtype) ? DType::kF32 : meta->dtype, meta->sizes);
  if (const DType* dtype = value.get_if<DType>()) return is_complex(*dtype) ? DType::kF32 : *dtype;
  const auto* list = value.get_if<MetaValue::List>();
  if (list == nullptr) return value;
  MetaValue::List out;
  for (const MetaValue& element : *list) out.push_back(as_real_meta(element));
  return out;
}
void check_promotion(const MetaValue& value) {
  if (const TensorMeta* meta = value.get_if<TensorMeta>()) promote(meta->dtype, DType::kC64);
  if (const auto* list = value.get_if<MetaValue::List>()) std::for_each(list->begin(), list->end(), check_promotion);
}
MetaValue infer_with_parts(const Call<TensorMeta>& call, DType out) {
  std::vector<MetaValue> args;
  for (size_t i = 0; i < call.size(); ++i) {
    check_promotion(call[i]);
    args.push_back(as_real_meta(call[i]));
  }
  MetaValue result = run_op<TensorMeta>(call.op(), std::move(args));
  const TensorMeta* meta = result.get_if<TensorMeta>();
  QDQ_CHECK(meta != nullptr, kInternal, call.op().target, " has more than one result");
  return tensor_meta(out, meta->sizes);
}
MetaValue infer_complex(const Call<TensorMeta>& call) { return infer_with_parts(call, DType::kC64); }
MetaValue infer_real(const Call<TensorMeta>& call) { return infer_with_parts(call, DType::kF32); }

enum class Part { kReal, kImag };

// A part of an operand; of a real one the imaginary part is 0.
Value part_of(const Value& value, Part part) {
  if (const Tensor* tensor = value.get_if<Tensor>()) {
    if (is_complex(tensor->dtype())) return part == Part::kReal ? real_part(*tensor) : imag_part(*tensor);
    return part == Part::kReal ? tensor->to(DType::kF32) : Tensor::scalar(0.0f).expand(tensor->sizes());
  }
  if (const auto* list = value.get_if<Value::List>()) {
    Value::List out;
    for (const Value& element : *list) out.push_back(part_of(element, part));
    return out;
  }
  return part == Part::kReal ? value : Value(0.0);
}
Tensor joined(const Value& real, const Value& imag) {
  const Tensor &re = *real.get_if<Tensor>(), &im = *imag.get_if<Tensor>();
  const Tensor out = Tensor::empty(re.sizes(), DType::kC64);
  real_part(out).copy_from(re);
  imag_part(out).copy_from(im);
  return out;
}

Value run_real(const OpDef& op, std::vector<Value> args) {
  for (const Value& value : args)
    QDQ_CHECK(!has_complex(value), kInvalidArgument, op.target, " got a complex tensor where it takes real ones only");
  return run_op<Tensor>(op, std::move(args));
}

// The real operator on the parts of the first `count` arguments.
Value of_parts(const Call<Tensor>& call, size_t count, Part a, Part b) {
  std::vector<Value> args;
  for (size_t i = 0; i < call.size(); ++i) {
    if (i < count) args.push_back(part_of(call[i], i == 0 ? a : b));
    else if (call[i].is<DType>()) args.emplace_back(DType::kF32);
    else args.push_back(call[i]);
  }
  return run_real(call.op(), std::move(args));
}
// f(x) = f(real x) + i f(imag x), and the same of sums of two.
template <size_t kOperands> Value eval_linear(const Call<Tensor>& call) {
  return joined(of_parts(call, kOperands, Part::kReal, Part::kReal),
                of_parts(call, kOperands, Part::kImag, Part::kImag));
}

Tensor difference(const Value& a, const Value& b) { return *run_op<Tensor>("sub.Tensor", {a, b}).get_if<Tensor>(); }
Tensor sum(const Value& a, const Value& b) { return *run_op<Tensor>("add.Tensor", {a, b}).get_if<Tensor>(); }
// Products of two: f(a, b) is linear in each.
Value eval_bilinear(const Call<Tensor>& call) {
  const auto f = [&](Part a, Part b) { return of_parts(call, 2, a, b); };
  return joined(difference(f(Part::kReal, Part::kReal), f(Part::kImag, Part::kImag)),
                sum(f(Part::kReal, Part::kImag), f(Part::kImag, Part::kReal)));
}
// einsum's operands are a list.
Value eval_einsum_of_two(const Call<Tensor>& call) {
  const std::vector<Tensor> operands = call.tensors(1);
  QDQ_CHECK(operands.size() <= 2, kUnsupported, call.op().target, " multiplies at most 2 complex tensors, found ",
            operands.size());
  const auto f = [&](Part a, Part b) {
    Value::List parts{part_of(operands[0], a)};
    if (operands.size() == 2) parts.push_back(part_of(operands[1], b));
    return run_real(call.op(), {call[0], parts});
  };
  if (operands.size() < 2) return joined(f(Part::kReal, Part::kReal), f(Part::kImag, Part::kReal));
  return joined(difference(f(Part::kReal, Part::kReal), f(Part::kImag, Part::kImag)),
                sum(f(Part::kReal, Part::kImag), f(Part::kImag, Part::kReal)));
}

// Elements one by one, in double.

struct Parts {
  double real, imag;
};
Parts at(const Tensor& z, int64_t i) {
  const Complex64 value = z.data<Complex64>()[i];
  return {value.real, value.imag};
}
Complex64 rounded(double real, double imag) { return {static_cast<float>(real), static_cast<float>(imag)}; }

Value eval_quotient(const Call<Tensor>& call) {
  const Tensor out = empty_result(call);
  const auto operand_of = [&](size_t i) { return operand(call, i).to(DType::kC64).expand(out.sizes()).contiguous(); };
  const Tensor x = operand_of(0), y = operand_of(1);
  for (int64_t i = 0; i < out.numel(); ++i) {
    const Parts a = at(x, i), b = at(y, i);
    const double square = b.real * b.real + b.imag * b.imag;
    out.data<Complex64>()[i] =
        rounded((a.real * b.real + a.imag * b.imag) / square, (a.imag * b.real - a.real * b.imag) / square);
  }
  return out;
}
template <Complex64 (*F)(Parts)> Value eval_each(const Call<Tensor>& call) {
  const Tensor x = call.tensor(0).contiguous(), out = Tensor::empty(x.sizes(), DType::kC64);
  for (int64_t i = 0; i < x.numel(); ++i) out.data<Complex64>()[i] = F(at(x, i));
  return out;
}
template <double (*F)(Parts)> Value eval_real_of_each(const Call<Tensor>& call) {
  const Tensor x = call.tensor(0).contiguous(), out = Tensor::empty(x.sizes(), DType::kF32);
  for (int64_t i = 0; i < x.numel(); ++i) out.data<float>()[i] = static_cast<float>(F(at(x, i)));
  return out;
}
double magnitude_of(Parts z) {
  if (std::isinf(z.real) || std::isinf(z.imag)) return std::numeric_limits<double>::infinity();
  return std::sqrt(z.real * z.real + z.imag * z.imag);
}
double phase_of(Parts z) { return math::atan2(z.imag, z.real); }
Complex64 exponential_of(Parts z) {
  const double size = math::exp(z.real);
  if (z.imag == 0) return rounded(size, z.imag);
  return rounded(size * math::cos(z.imag), size * math::sin(z.imag));
}
Complex64 conjugate_of(Parts z) { return rounded(z.real, -z.imag); }

// Numbers from parts, parts from numbers.

TensorMeta complex_meta(const Call<TensorMeta>& call, size_t i) {
  const TensorMeta& meta = call.tensor(i);
  QDQ_CHECK(is_complex(meta.dtype), kInvalidArgument, call.op().target, " needs a complex tensor, found ",
            to_string(meta.dtype));
  return meta;
}
MetaValue infer_pair(const Call<TensorMeta>& call) {
  for (size_t i : {size_t{0}, size_t{1}})
    QDQ_CHECK(call.tensor(i).dtype == DType::kF32, kUnsupported, call.op().target,
              " makes complex64 of float32, found ", to_string(call.tensor(i).dtype));
  return tensor_meta(DType::kC64, broadcast_shapes(call.tensor(0).sizes, call.tensor(1).sizes));
}
Value eval_pair(const Call<Tensor>& call) {
  const Tensor out = empty_result(call);
  real_part(out).copy_from(call.tensor(0));
  imag_part(out).copy_from(call.tensor(1));
  return out;
}
Value eval_polar(const Call<Tensor>& call) {
  const Tensor out = empty_result(call);
  const Tensor size = call.tensor(0).expand(out.sizes()).contiguous();
  const Tensor angle = call.tensor(1).expand(out.sizes()).contiguous();
  for (int64_t i = 0; i < out.numel(); ++i) {
    const double r = size.data<float>()[i], turn = angle.data<float>()[i];
    out.data<Complex64>()[i] = rounded(r * math::cos(turn), r * math::sin(turn));
  }
  return out;
}
MetaValue infer_as_real(const Call<TensorMeta>& call) {
  SymShape sizes = complex_meta(call, 0).sizes;
  sizes.emplace_back(2);
  return tensor_meta(DType::kF32, std::move(sizes));
}
Value eval_as_real(const Call<Tensor>& call) {
  infer_call(call);
  return view_as_real(call.tensor(0));
}
MetaValue infer_as_complex(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(0);
  QDQ_CHECK(x.dtype == DType::kF32, kUnsupported, call.op().target, " makes complex64 of float32, found ",
            to_string(x.dtype));
  QDQ_CHECK(!x.sizes.empty() && may_be_equal(x.sizes.back(), 2), kInvalidArgument, call.op().target,
            " needs a last axis of 2 elements, found the shape ", to_string(x.sizes));
  return tensor_meta(DType::kC64, SymShape(x.sizes.begin(), x.sizes.end() - 1));
}
Value eval_as_complex(const Call<Tensor>& call) { return view_as_complex(call.tensor(0)); }
MetaValue infer_real_component(const Call<TensorMeta>& call) { return tensor_meta(DType::kF32, call.tensor(0).sizes); }
Value eval_real_part(const Call<Tensor>& call) { return real_part(call.tensor(0)); }
MetaValue infer_imag_part(const Call<TensorMeta>& call) {
  return tensor_meta(DType::kF32, complex_meta(call, 0).sizes);
}
Value eval_imag_part(const Call<Tensor>& call) {
  infer_call(call);
  return imag_part(call.tensor(0));
}
// The conjugate of real numbers is the numbers.
Value eval_conjugate(const Call<Tensor>& call) {
  return is_complex(call.tensor(0).dtype()) ? eval_each<conjugate_of>(call) : Value(call.tensor(0));
}

template <class T> bool has_complex_argument(const Call<T>& call) {
  for (size_t i = 0; i < call.size(); ++i)
    if (has_complex(call[i])) return true;
  return false;
}
MetaValue infer_either(const Call<TensorMeta>& call) {
  return (has_complex_argument(call) ? call.op().for_complex : call.op().for_real).infer(call);
}
Value eval_either(const Call<Tensor>& call) {
  if (!has_complex_argument(call)) return call.op().for_real.eval(call);
  infer_call(call);  // refuses what has no complex64 result
  return call.op().for_complex.eval(call);
}

struct ComplexForm {
  std::string_view name;
  OpForm form;
};
constexpr ComplexForm kComplexForms[] = {
    {"abs.default", {infer_real, eval_real_of_each<magnitude_of>}},
    {"add.Scalar", {infer_complex, eval_linear<2>}},
    {"add.Tensor", {infer_complex, eval_linear<2>}},
    {"add_.Tensor", {infer_like_self, eval_in_place}},
    {"angle.default", {infer_real, eval_real_of_each<phase_of>}},
    {"bmm.default", {infer_complex, eval_bilinear}},
    {"conj.default", {infer_like_self, eval_conjugate}},
    {"div.Scalar", {infer_complex, eval_quotient}},
    {"div.Tensor", {infer_complex, eval_quotient}},
    {"div_.Tensor", {infer_like_self, eval_in_place}},
    {"einsum.default", {infer_complex, eval_einsum_of_two}},
    {"exp.default", {infer_complex, eval_each<exponential_of>}},
    {"matmul.default", {infer_complex, eval_bilinear}},
    {"mean.default", {infer_complex, eval_linear<1>}},
    {"mean.dim", {infer_complex, eval_linear<1>}},
    {"mm.default", {infer_complex, eval_bilinear}},
    {"mul.Scalar", {infer_complex, eval_bilinear}},
    {"mul.Tensor", {infer_complex, eval_bilinear}},
    {"mul_.Tensor", {infer_like_self, eval_in_place}},
    {"neg.default", {infer_complex, eval_linear<1>}},
    {"real.default", {infer_real_component, eval_real_part}},
    {"sub.Scalar", {infer_complex, eval_linear<2>}},
    {"sub.Tensor", {infer_complex, eval_linear<2>}},
    {"sub_.Tensor", {infer_like_self, eval_in_place}},
    {"sum.default", {infer_complex, eval_linear<1>}},
    {"sum.dim_IntList", {infer_complex, eval_linear<1>}},
};

}  // namespace

void add_complex_ops(std::vector<OpDef>& ops) {
  const auto add = [&](const char* line, Infer infer, Eval eval, Family family = Family::kOther) {
    ops.push_back(define(line, infer, eval, {}, family));
    ops.back().takes_complex = true;
  };
  add("aten::view_as_real(Tensor(a) self) -> Tensor(a)", infer_as_real, eval_as_real);
  add("aten::view_as_complex(Tensor(a) self) -> Tensor(a)", infer_as_complex, eval_as_complex);
  add("aten::imag(Tensor(a) self) -> Tensor(a)", infer_imag_part, eval_imag_part);
  add("aten::complex(Tensor real, Tensor imag) -> Tensor", infer_pair, eval_pair);
  add("aten::polar(Tensor abs, Tensor angle) -> Tensor", infer_pair, eval_polar);
  add("aten::_conj(Tensor(a) self) -> Tensor(a)", infer_like_self, eval_conjugate);
  add("aten::_conj_physical(Tensor self) -> Tensor", infer_like_self, eval_conjugate);
  add("aten::conj_physical(Tensor self) -> Tensor", infer_like_self, eval_conjugate);
}

void add_complex_forms(std::vector<OpDef>& ops) {
  static constexpr Family kFamilies[] = {Family::kView,  Family::kSplit, Family::kConcat,      Family::kCopy,
                                         Family::kIndex, Family::kSize,  Family::kControlFlow, Family::kCast};
  static constexpr std::string_view kMovers[] = {"repeat.default",
                                                 "flip.default",
                                                 "stack.default",
                                                 "roll.default",
                                                 "resolve_conj.default",
                                                 "resolve_neg.default",
                                                 "mT.default",
                                                 "mH.default",
                                                 "adjoint.default",
                                                 "unfold.default",
                                                 "unfold_backward.default",
                                                 "zeros.default",
                                                 "full.default",
                                                 "zeros_like.default",
                                                 "ones.default",
                                                 "full_like.default",
                                                 "ones_like.default",
                                                 "copy.default",
                                                 "copy_.default",
                                                 "fill.Scalar",
                                                 "fill_.Scalar",
                                                 "zero_.default",
                                                 "slice_scatter.default",
                                                 "select_scatter.default",
                                                 "where.self",
                                                 "masked_fill.Scalar",
                                                 "constant_pad_nd.default",
                                                 "pad.default"};
  for (OpDef& op : ops) {
    const bool is_aten = op.target.starts_with("torch.ops.aten.");
    const std::string_view name = is_aten ? local_name(op.target) : std::string_view();
    op.takes_complex |= op.target == "operator.getitem" ||
                        std::find(std::begin(kFamilies), std::end(kFamilies), op.family) != std::end(kFamilies) ||
                        std::find(std::begin(kMovers), std::end(kMovers), name) != std::end(kMovers);
    const auto* form = std::find_if(std::begin(kComplexForms), std::end(kComplexForms),
                                    [&](const ComplexForm& entry) { return entry.name == name; });
    if (form == std::end(kComplexForms)) continue;
    op.takes_complex = true;
    op.for_real = {op.infer, op.eval};
    op.for_complex = form->form;
    op.infer = infer_either;
    op.eval = eval_either;
  }
}

}  // namespace qdq
