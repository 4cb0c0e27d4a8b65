// Conformance of the quantized_decomposed operators alone: each entry is one call.
#include "conformance/conformance.h"
#include "op/op.h"

namespace qdq {
namespace {

using Json = nlohmann::json;

Value value_of(const ConformanceCase& c, const Json& json) {
  if (json.is_null()) return {};
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_array()) {
    Value::List list;
    for (const Json& element : json) list.push_back(value_of(c, element));
    return list;
  }
  if (json.contains("tensor")) return c.array("data.npz", json["tensor"].get<std::string>()).clone();
  if (json.contains("float")) return number_of(json);
  if (json.contains("dtype")) {
    const auto name = json["dtype"].get<std::string>();
    if (const auto dtype = dtype_from_name(name)) return *dtype;
  }
  differ("the argument ", json.dump(), " is not known");
}

Value call(const ConformanceCase& c, const Json& entry) {
  const auto target = entry.at("op").get<std::string>();
  const OpDef* op = find_op(target);
  if (!op) differ("there is no operator ", target);
  std::vector<Value> args;
  for (const Json& arg : entry.at("args")) args.push_back(value_of(c, arg));
  std::vector<std::pair<std::string, Value>> kwargs;
  if (entry.contains("kwargs"))
    for (const auto& [name, value] : entry["kwargs"].items()) kwargs.emplace_back(name, value_of(c, value));
  return op->eval(Call<Tensor>(*op, std::move(args), std::move(kwargs)));
}

std::vector<Tensor> tensors_of(const Value& value) {
  std::vector<Tensor> out;
  if (const Tensor* tensor = value.get_if<Tensor>()) return {*tensor};
  if (const Value::List* list = value.get_if<Value::List>())
    for (const Value& element : *list)
      if (const Tensor* tensor = element.get_if<Tensor>()) out.push_back(*tensor);
  return out;
}

// Whether PyTorch's own limit of one unit in the last place holds, which it sets for choose_qparams alone.
double relative_tolerance(const std::string& op) { return op.find("choose_qparams") != std::string::npos ? 1.2e-7 : 0; }

void expect_output(const std::string& what, const Tensor& found, const Tensor& expected, const Json& json,
                   double relative) {
  const auto dtype = json.at("dtype").get<std::string>();
  if (to_string(found.dtype()) != dtype)
    differ(what, " has dtype ", to_string(found.dtype()), ", PyTorch's has ", dtype);
  // NumPy has no bfloat16; the expected values are stored as float32.
  const Tensor comparable = found.dtype() == DType::kBF16 ? found.to(DType::kF32) : found;
  expect_close(what, comparable, expected, is_floating(found.dtype()) ? relative : 0, 0);
}

void run_entry(const ConformanceCase& c, const Json& entry) {
  const Json& expected = entry.at("expected");
  if (expected.contains("error")) {
    try {
      call(c, entry);
    } catch (const Error& error) {
      if (error.code != ErrorCode::kInternal) return;
      throw;
    }
    differ("the call was not refused, PyTorch says: ", expected["error"].at("message").get<std::string>());
  }
  const std::vector<Tensor> found = tensors_of(call(c, entry));
  const Json& outputs = expected.at("outputs");
  if (found.size() != outputs.size())
    differ("the call gives ", found.size(), " tensors, PyTorch's gives ", outputs.size());
  const double relative = relative_tolerance(entry.at("op").get<std::string>());
  for (size_t i = 0; i < outputs.size(); ++i)
    expect_output(concat("output ", i), found[i], c.array("data.npz", outputs[i].at("tensor").get<std::string>()),
                  outputs[i], relative);
}

}  // namespace

void run_quantize_ops_case(const ConformanceCase& c) {
  for_each_entry(c.json().at("entries"), [&](const Json& entry) { run_entry(c, entry); });
}

}  // namespace qdq
