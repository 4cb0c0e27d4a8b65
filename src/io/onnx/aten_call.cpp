// One ATen call that is written as ONNX: its arguments, and the nodes that it becomes.
#include <algorithm>

#include "io/onnx/export.h"
#include "io/onnx/import.h"
#include "op/facts.h"
#include "op/infer.h"
#include "op/targets.h"

namespace qdq {

std::string AtenCall::name() const { return std::string(local_name(plain_form(op_).target)); }

std::string AtenCall::base() const {
  std::string out = name().substr(0, name().find('.'));
  for (const std::string_view front : {"unsafe_", "special_"})
    if (out.starts_with(front)) out = out.substr(front.size());
  return out.ends_with("_copy") ? out.substr(0, out.size() - 5) : out;
}

const Argument& AtenCall::arg(size_t i) const { return argument_of(node_, i); }

int64_t AtenCall::integer(size_t i) const {
  const auto value = arg(i).integer();
  if (!value) refuse("has an argument '", op_.schema->arguments[i].name, "' that is known only when it runs");
  return *value;
}

double AtenCall::number(size_t i) const {
  const auto value = arg(i).number();
  if (!value) refuse("has an argument '", op_.schema->arguments[i].name, "' that is known only when it runs");
  return *value;
}

std::vector<int64_t> AtenCall::integers(size_t i, size_t count) const {
  std::vector<int64_t> out;
  if (arg(i).is_list()) {
    for (const Argument& element : arg(i).list()) {
      if (!element.integer())
        refuse("has an argument '", op_.schema->arguments[i].name, "' that is known only when it runs");
      out.push_back(*element.integer());
    }
  } else {
    out.push_back(integer(i));
  }
  if (out.size() == 1 && count > 1) out.assign(count, int64_t{out[0]});
  return out;
}

const TensorMeta& AtenCall::meta_of(const Node* node) const {
  const TensorMeta* meta = node ? node->meta.val.tensor() : nullptr;
  if (meta == nullptr) refuse("has an argument or a result that is not a tensor");
  return *meta;
}
const TensorMeta& AtenCall::meta(size_t i) const { return meta_of(arg(i).node()); }

int64_t AtenCall::axis(size_t i, size_t rank) const {
  return wrap_axis(integer(i), std::max<int64_t>(1, static_cast<int64_t>(rank)));
}

std::vector<int64_t> AtenCall::axes(size_t i, size_t rank) const {
  std::vector<int64_t> out;
  if (rank == 0) return out;
  if (!is_none(i)) out = integers(i);
  for (int64_t& a : out) a = wrap_axis(a, static_cast<int64_t>(rank));
  if (out.empty())
    for (size_t a = 0; a < rank; ++a) out.push_back(static_cast<int64_t>(a));
  return out;
}

std::string AtenCall::tensor(size_t i) {
  const Node* node = arg(i).node();
  if (node == nullptr) refuse("lacks the tensor '", op_.schema->arguments[i].name, "'");
  return file_.value(node);
}

std::string AtenCall::operand(const Argument& argument, DType dtype) {
  if (!argument.is_node()) {
    if (!argument.number()) refuse("has an operand that is neither a tensor nor a number");
    return file_.scalar(argument, dtype);
  }
  const ValueMeta& given = argument.node()->meta.val;
  const bool is_fraction = std::holds_alternative<double>(given.value);  // of sizes
  const DType own = given.tensor() ? given.tensor()->dtype : is_fraction ? DType::kF64 : DType::kS64;
  const std::string value = file_.value(argument.node());
  return own == dtype ? value : emit("Cast", {value}, {"to", format::onnx_number(dtype)});
}

std::string AtenCall::scalar_of(size_t i, DType dtype) {
  number(i);  // refuses what is none
  return file_.scalar(arg(i), dtype);
}

std::string AtenCall::integers_as_tensor(const std::vector<int64_t>& values) {
  return file_.constant(Tensor::of<int64_t>({static_cast<int64_t>(values.size())}, std::span<const int64_t>(values)),
                        node_.name() + "_constant");
}

std::string AtenCall::sizes(const Argument::List& list, bool infers) {
  const auto open = std::count_if(list.begin(), list.end(), [](const Argument& size) { return size.is_node(); });
  const bool has_minus =
      std::any_of(list.begin(), list.end(), [](const Argument& size) { return size.integer() == -1; });
  if (open == 0 || (infers && open == 1 && !has_minus)) {
    std::vector<int64_t> known;
    for (const Argument& size : list) known.push_back(size.is_node() ? -1 : *size.integer());
    return integers_as_tensor(known);
  }
  std::vector<std::string> parts;
  for (const Argument& size : list)
    parts.push_back(size.is_node() ? emit("Reshape", {file_.value(size.node()), integers_as_tensor({1})})
                                   : integers_as_tensor({*size.integer()}));
  return emit("Concat", parts, {"axis", 0});
}

std::string AtenCall::pads(size_t i, size_t rank) {
  const Argument::List& reversed = arg(i).list();
  Argument::List out(2 * rank, Argument(int64_t{0}));
  for (size_t k = 0; k + 1 < reversed.size(); k += 2) {
    out[rank - 1 - k / 2] = reversed[k];
    out[2 * rank - 1 - k / 2] = reversed[k + 1];
  }
  return sizes(out, false);
}

DType AtenCall::common_dtype(size_t i, size_t j) const {
  const auto kind = [&](size_t k) -> OperandKind {
    const Argument& argument = arg(k);
    if (const Node* node = argument.node()) {
      const TensorMeta* meta = node->meta.val.tensor();
      return meta ? OperandKind{meta->dtype, meta->sizes.empty() ? 1 : 2} : OperandKind{DType::kS64, 0};
    }
    return {argument.is<double>() ? DType::kF32 : argument.is<bool>() ? DType::kBool : DType::kS64, 0};
  };
  return result_dtype({kind(i), kind(j)});
}

std::string AtenCall::emit(const std::string& op, const OnnxNames& inputs, const OnnxAttributes& attributes) {
  return file_.emit(op, inputs, attributes, file_.fresh(node_.name() + "_part"));
}
std::string AtenCall::cast(const std::string& value, DType from, DType to) {
  return from == to ? value : emit("Cast", {value}, {"to", format::onnx_number(to)});
}
std::string AtenCall::reduce(const std::string& op, const std::string& input, const std::vector<int64_t>& axes,
                             bool keeps_dims) {
  std::vector<std::string> inputs = {input};
  OnnxAttributes attributes = {"keepdims", keeps_dims};
  const bool is_input = file_.opset() >= 18 || op == "ReduceSum";
  if (!axes.empty() && is_input) inputs.push_back(integers_as_tensor(axes));
  else if (!axes.empty()) attributes.add("axes", axes);
  return emit(op, inputs, attributes);
}
void AtenCall::finish(const std::string& op, const OnnxNames& inputs, const OnnxAttributes& attributes) {
  const std::string name = file_.name_of(&node_);
  file_.emit_many(op, inputs, attributes, {name}, node_.meta.extra_of(kOnnxNode));
  file_.set(&node_, name);
}
std::vector<std::string> AtenCall::name_results(size_t count) {
  std::vector<std::string> out = file_.name_items(node_, count);
  file_.set_items(&node_, out);
  return out;
}
Tensor AtenCall::known(size_t i) const {
  const Node* node = arg(i).node();
  const Node* cast = node && node->is(op::kToDtype) ? node : nullptr;
  if (cast) node = cast->arg(0).node();
  if (node == nullptr || node->op() != Node::Op::kGetAttr)
    refuse("has computed values as its ", op_.schema->arguments[i].name);
  const Tensor& tensor = file_.program().attribute_of(*node);
  return (cast ? tensor.to(cast->arg(1).as<DType>()) : tensor).contiguous();
}
std::vector<int64_t> AtenCall::known_integers(size_t i) const {
  const Tensor wide = known(i).to(DType::kS64);
  return {wide.data<int64_t>(), wide.data<int64_t>() + wide.numel()};
}
std::string AtenCall::only_result() {
  for (const Node* user : node_.users())
    if (!user->is(op::kGetItem) || user->arg(1).integer() != 0) refuse("gives more than its first result");
  return name_results(1)[0];
}
void AtenCall::refuse_because(const PartKind* kinds, const MessagePart* parts) const {
  throw Error(ErrorCode::kUnsupported, concat(node_.name(), " ", concat_parts(kinds, parts)), node_.name(),
              node_.target());
}

}  // namespace qdq
