// Walks the operator table and holds every entry against PyTorch: its schema, what it computes, what it infers, what it
// aliases. The data is tests/golden/op, made by tests/golden/make_op.py.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "contract/op_golden.h"
#include "tensor/complex.h"

namespace qdq {
namespace {

// "" or what is wrong.
std::string difference(const Tensor& found, const Tensor& wanted, const Json& tolerance) {
  if (found.dtype() != wanted.dtype())
    return concat("dtype ", to_string(found.dtype()), ", wanted ", to_string(wanted.dtype()));
  if (found.sizes() != wanted.sizes())
    return concat("shape ", to_string(found.sizes()), ", wanted ", to_string(wanted.sizes()));
  if (is_complex(found.dtype())) return difference(view_as_real(found), view_as_real(wanted), tolerance);
  const bool exact = tolerance.is_null() || !is_floating(found.dtype());
  if (exact && !is_floating(found.dtype()))
    return bitwise_equal(found, wanted)
               ? ""
               : concat("other integers, first ", found.contiguous().to(DType::kF64).data<double>()[0]);
  const Tensor a = found.to(DType::kF64).contiguous(), b = wanted.to(DType::kF64).contiguous();
  for (int64_t i = 0; i < a.numel(); ++i) {
    const double x = a.data<double>()[i], y = b.data<double>()[i];
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    if (!exact && std::fabs(x - y) <= tolerance[0].get<double>() + tolerance[1].get<double>() * std::fabs(y)) continue;
    return concat("element ", i, " is ", x, ", wanted ", y);
  }
  return "";
}

std::string difference(const Value& found, const Value& wanted, const Json& tolerance) {
  if (found.variant().index() != wanted.variant().index())
    return concat("kind ", found.variant().index(), ", wanted ", wanted.variant().index());
  if (const Tensor* tensor = found.get_if<Tensor>()) return difference(*tensor, *wanted.get_if<Tensor>(), tolerance);
  if (const int64_t* integer = found.get_if<int64_t>())
    return *integer == *wanted.get_if<int64_t>() ? "" : concat("the number ", *integer);
  if (const double* number = found.get_if<double>())
    return *number == *wanted.get_if<double>() ? "" : concat("the number ", *number);
  if (const bool* boolean = found.get_if<bool>()) return *boolean == *wanted.get_if<bool>() ? "" : "the other bool";
  if (const auto* list = found.get_if<Value::List>()) {
    const auto& others = *wanted.get_if<Value::List>();
    if (list->size() != others.size()) return concat(list->size(), " results, wanted ", others.size());
    for (size_t i = 0; i < list->size(); ++i) {
      const std::string part = difference((*list)[i], others[i], tolerance);
      if (!part.empty()) return concat("result ", i, ": ", part);
    }
  }
  return "";
}

void check_case(const Json& entry) {
  const auto target = entry["op"].get<std::string>();
  const OpDef* op = find_op(target);
  ASSERT_NE(op, nullptr) << target;
  Arguments given(entry);
  std::optional<int64_t> batch;
  const MetaValue inferred = given.infer(*op, entry, nullptr), symbolic = given.infer(*op, entry, &batch);
  if (entry.contains("refused")) {
    EXPECT_EQ(difference(inferred, golden().value(entry["out"]), 0), "") << "inferred";
    try {
      op->eval(Call<Tensor>(*op, given.args, given.kwargs));
      ADD_FAILURE() << "nothing was refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.code, ErrorCode::kUnsupported);
    }
    return;
  }
  const Tensor* self = given.args.empty() ? nullptr : given.args[0].get_if<Tensor>();
  const auto versions = given.args;

  const Value found = op->eval(Call<Tensor>(*op, given.args, given.kwargs));
  const Json tolerance = entry.contains("tol") ? entry["tol"] : Json();
  EXPECT_EQ(difference(found, golden().value(entry["out"]), tolerance), "");
  EXPECT_EQ(difference(inferred, found, 0), "") << "inferred";
  EXPECT_EQ(difference(symbolic, found, batch.value_or(0)), "") << "inferred with a symbolic batch";

  // Exactly the arguments that PyTorch writes are written.
  for (size_t i = 0; i < versions.size(); ++i) {
    const Tensor* tensor = versions[i].get_if<Tensor>();
    if (tensor == nullptr) continue;
    const std::string key = std::to_string(i);
    const bool written = entry.contains("after") && entry["after"].contains(key);
    const size_t wanted = written ? entry["after"][key].get<size_t>() : entry["args"][i]["t"].get<size_t>();
    EXPECT_EQ(difference(*tensor, golden().tensor(wanted), written ? tolerance : Json()), "")
        << "argument " << i << " after the call";
  }
  const Tensor* result = found.get_if<Tensor>();
  if (entry.contains("alias") && result && self && result->numel() > 0) {
    EXPECT_EQ(result->storage() == self->storage(), entry["alias"].get<bool>()) << "sharing bytes with argument 0";
  }
}

TEST(OpContract, EveryOperatorComputesWhatPyTorchComputes) {
  for (const Json& entry : golden().json()["cases"]) {
    SCOPED_TRACE(entry.dump().substr(0, 400));
    try {
      check_case(entry);
    } catch (const Error& error) {
      ADD_FAILURE() << error.message;
    }
  }
}

// PyTorch alone does not have the operators of ONNX and torchvision; tests/golden/onnx has the cases of most.
bool is_of_onnx(const OpDef& op) {
  return op.target.starts_with("torch.ops.onnx.") || op.target.starts_with("torch.ops.torchvision.");
}

// Operators that run programs have theirs there too: tests/golden/onnx/control.npz.
bool runs_programs(const OpDef& op) { return op.family == Family::kControlFlow; }

TEST(OpContract, EveryOperatorHasAGoldenCase) {
  std::set<std::string> tested;
  for (const Json& entry : golden().json()["cases"]) tested.insert(entry["op"].get<std::string>());
  for (const OpDef& op : all_ops()) {
    EXPECT_TRUE(tested.count(op.target) || is_of_onnx(op) || runs_programs(op)) << op.target;
  }
}

TEST(OpContract, SchemasArePyTorchs) {
  const Json& schemas = golden().json()["schemas"];
  for (const OpDef& op : all_ops()) {
    // Python's operators have no schema, and higher-order operators take any arguments.
    if (is_of_onnx(op)) continue;
    if (!op.target.starts_with("torch.ops.") || op.target.starts_with("torch.ops.higher_order.")) continue;
    ASSERT_TRUE(schemas.contains(op.target)) << op.target;
    const auto line = schemas[op.target].get<std::string>();
    const Schema wanted = Schema::parse(line.substr(line.find("::") + 2));
    SCOPED_TRACE(line);
    EXPECT_EQ(op.schema->name, wanted.name);
    EXPECT_EQ(op.schema->num_returns, wanted.num_returns);
    EXPECT_EQ(op.schema->returns_list, wanted.returns_list);
    ASSERT_EQ(op.schema->arguments.size(), wanted.arguments.size());
    for (size_t i = 0; i < wanted.arguments.size(); ++i) {
      const SchemaArgument &a = op.schema->arguments[i], &b = wanted.arguments[i];
      EXPECT_EQ(a.name, b.name);
      EXPECT_EQ(a.type, b.type);
      EXPECT_EQ(a.is_list, b.is_list);
      EXPECT_EQ(a.list_size, b.list_size);
      EXPECT_EQ(a.is_optional, b.is_optional);
      EXPECT_EQ(a.elements_optional, b.elements_optional);
      EXPECT_EQ(a.is_mutated, b.is_mutated);
      EXPECT_EQ(a.kwarg_only, b.kwarg_only);
      // PyTorch prints the memory format of contiguous() as a bare number.
      if (a.type != "MemoryFormat") {
        EXPECT_EQ(a.default_value, b.default_value) << a.name;
      }
    }
  }
}

}  // namespace
}  // namespace qdq
