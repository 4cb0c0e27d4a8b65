// Walks the operator table and holds every entry against PyTorch: its schema, what it computes, what it infers, what it aliases.
// The data is tests/golden/op, made by tests/golden/make_op.py.
#include "op/op.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "format/json.h"
#include "format/npz.h"

namespace qdq {
namespace {

using format::Json;

format::Bytes read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  QDQ_CHECK(file.good(), kIo, path, " could not be read");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const format::ByteSpan bytes = format::bytes_of(text);
  return {bytes.begin(), bytes.end()};
}

class Golden {
 public:
  Golden() {
    const std::string folder = QDQ_SOURCE_DIR "/tests/golden/op/";
    json_ = format::parse_json(format::text_of(read_file(folder + "cases.json")), "cases.json");
    for (format::NamedTensor& array : format::read_npz(read_file(folder + "data.npz"))) arrays_[array.name] = array.tensor;
  }
  const Json& json() const { return json_; }

  // A copy of a tensor, with bytes of its own.
  Tensor tensor(size_t i) const {
    const Json& entry = json_["tensors"][i];
    const DType dtype = *dtype_from_name(entry[0].get<std::string>());
    const bool half = dtype == DType::kF16 || dtype == DType::kBF16;
    const Tensor& flat = arrays_.at(half ? "float32" : entry[0].get<std::string>());
    const Shape sizes = entry[1].get<Shape>();
    return flat.as_strided(sizes, contiguous_strides(sizes), entry[2].get<int64_t>()).clone().to(dtype);
  }

  Value value(const Json& json) const {
    if (json.is_null()) return {};
    if (json.is_boolean()) return json.get<bool>();
    if (json.is_number_integer()) return json.get<int64_t>();
    if (json.is_number()) return json.get<double>();
    if (json.is_string()) return json.get<std::string>();
    if (json.is_array()) {
      Value::List list;
      for (const Json& element : json) list.push_back(value(element));
      return list;
    }
    if (json.contains("t")) return tensor(json["t"].get<size_t>());
    if (json.contains("batch")) return json["batch"].get<int64_t>();
    if (json.contains("float")) return format::number_of_json(json, "an argument");
    if (json.contains("dtype")) return *dtype_from_name(json["dtype"].get<std::string>());
    if (json.contains("device")) return Device{json["device"].get<std::string>()};
    if (json.contains("layout")) return Layout::kStrided;
    if (json.contains("memory_format"))
      return json["memory_format"] == "preserve_format" ? MemoryFormat::kPreserve : MemoryFormat::kContiguous;
    fail(ErrorCode::kInternal, "an argument of the golden data is not known: ", json.dump());
  }

 private:
  Json json_;
  std::map<std::string, Tensor> arrays_;
};

const Golden& golden() {
  static const Golden data;
  return data;
}

// Metadata of a value; where `json` marks a batch, its size is s0 and `batch` receives the number.
MetaValue meta_of(const Value& value, const Json& json, std::optional<int64_t>* batch) {
  return std::visit(
      [&](const auto& held) -> MetaValue {
        using U = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<U, std::monostate>) {
          return {};
        } else if constexpr (std::is_same_v<U, Tensor>) {
          TensorMeta meta;
          meta.dtype = held.dtype();
          meta.sizes.assign(held.sizes().begin(), held.sizes().end());
          if (batch && json.contains("batch")) {
            *batch = held.size(0);
            meta.sizes[0] = SymInt::symbol("s0");
          }
          return meta;
        } else if constexpr (std::is_same_v<U, Value::List>) {
          MetaValue::List list;
          for (size_t i = 0; i < held.size(); ++i) list.push_back(meta_of(held[i], json.is_array() ? json[i] : Json(), batch));
          return list;
        } else if constexpr (std::is_same_v<U, int64_t>) {
          if (batch && json.is_object() && json.contains("batch")) {
            *batch = held;
            return SymInt::symbol("s0");
          }
          return held;
        } else {
          return held;
        }
      },
      value.variant());
}

struct Arguments {
  std::vector<Value> args;
  std::vector<std::pair<std::string, Value>> kwargs;

  explicit Arguments(const Json& entry) {
    for (const Json& arg : entry["args"]) args.push_back(golden().value(arg));
    if (entry.contains("kwargs"))
      for (const auto& [name, arg] : entry["kwargs"].items()) kwargs.emplace_back(name, golden().value(arg));
  }
  MetaValue infer(const OpDef& op, const Json& entry, std::optional<int64_t>* batch) const {
    std::vector<MetaValue> metas;
    for (size_t i = 0; i < args.size(); ++i) metas.push_back(meta_of(args[i], entry["args"][i], batch));
    std::vector<std::pair<std::string, MetaValue>> named;
    for (const auto& [name, value] : kwargs) named.emplace_back(name, meta_of(value, Json(), nullptr));
    return op.infer(Call<TensorMeta>(op, std::move(metas), std::move(named)));
  }
};

// "" or what is wrong.
std::string difference(const Tensor& found, const Tensor& wanted, const Json& tolerance) {
  if (found.dtype() != wanted.dtype()) return concat("dtype ", to_string(found.dtype()), ", wanted ", to_string(wanted.dtype()));
  if (found.sizes() != wanted.sizes()) return concat("shape ", to_string(found.sizes()), ", wanted ", to_string(wanted.sizes()));
  const bool exact = tolerance.is_null() || !is_floating(found.dtype());
  if (exact && !is_floating(found.dtype()))
    return bitwise_equal(found, wanted) ? "" : concat("other integers, first ", found.contiguous().to(DType::kF64).data<double>()[0]);
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
  if (found.variant().index() != wanted.variant().index()) return concat("kind ", found.variant().index(), ", wanted ", wanted.variant().index());
  if (const Tensor* tensor = found.get_if<Tensor>()) return difference(*tensor, *wanted.get_if<Tensor>(), tolerance);
  if (const int64_t* integer = found.get_if<int64_t>()) return *integer == *wanted.get_if<int64_t>() ? "" : concat("the number ", *integer);
  if (const double* number = found.get_if<double>()) return *number == *wanted.get_if<double>() ? "" : concat("the number ", *number);
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

// What inference says against what evaluation gave, with s0 = batch.
std::string difference(const MetaValue& inferred, const Value& found, int64_t batch) {
  const std::map<std::string, int64_t> symbols{{"s0", batch}};
  if (const Tensor* tensor = found.get_if<Tensor>()) {
    const TensorMeta* meta = inferred.get_if<TensorMeta>();
    if (meta == nullptr) return "no tensor";
    if (meta->dtype != tensor->dtype()) return concat("dtype ", to_string(meta->dtype), ", evaluated ", to_string(tensor->dtype()));
    Shape sizes;
    for (const SymInt& size : meta->sizes) sizes.push_back(size.evaluate(symbols).value_or(-1));
    return sizes == tensor->sizes() ? "" : concat("shape ", to_string(meta->sizes), ", evaluated ", to_string(tensor->sizes()));
  }
  if (const auto* list = found.get_if<Value::List>()) {
    const auto* metas = inferred.get_if<MetaValue::List>();
    if (metas == nullptr || metas->size() != list->size()) return "another number of results";
    for (size_t i = 0; i < list->size(); ++i) {
      const std::string part = difference((*metas)[i], (*list)[i], batch);
      if (!part.empty()) return concat("result ", i, ": ", part);
    }
    return "";
  }
  if (const int64_t* integer = found.get_if<int64_t>()) {
    const SymInt* sym = inferred.get_if<SymInt>();
    return sym != nullptr && sym->evaluate(symbols) == *integer ? "" : "another integer";
  }
  if (found.is<double>()) return inferred.is<double>() ? "" : "no float";
  if (found.is<bool>()) return inferred.is<bool>() ? "" : "no bool";
  return inferred.is_none() ? "" : "something for nothing";
}

void check_case(const Json& entry) {
  const auto target = entry["op"].get<std::string>();
  const OpDef* op = find_op(target);
  ASSERT_NE(op, nullptr) << target;
  Arguments given(entry);
  std::optional<int64_t> batch;
  const MetaValue inferred = given.infer(*op, entry, nullptr), symbolic = given.infer(*op, entry, &batch);
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
    EXPECT_EQ(difference(*tensor, golden().tensor(wanted), written ? tolerance : Json()), "") << "argument " << i << " after the call";
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

TEST(OpContract, EveryOperatorHasAGoldenCase) {
  std::set<std::string> tested;
  for (const Json& entry : golden().json()["cases"]) tested.insert(entry["op"].get<std::string>());
  for (const OpDef& op : all_ops()) EXPECT_TRUE(tested.count(op.target)) << op.target;
}

TEST(OpContract, SchemasArePyTorchs) {
  const Json& schemas = golden().json()["schemas"];
  for (const OpDef& op : all_ops()) {
    // Python's operators have no schema, and higher-order operators take any arguments.
    if (op.target.rfind("operator.", 0) == 0 || op.target.rfind("torch.ops.higher_order.", 0) == 0) continue;
    ASSERT_TRUE(schemas.contains(op.target)) << op.target;
    const auto line = schemas[op.target].get<std::string>();
    const Schema wanted = Schema::parse(line.substr(line.find("::") + 2));
    SCOPED_TRACE(line);
    EXPECT_EQ(op.schema.name, wanted.name);
    EXPECT_EQ(op.schema.num_returns, wanted.num_returns);
    EXPECT_EQ(op.schema.returns_list, wanted.returns_list);
    ASSERT_EQ(op.schema.arguments.size(), wanted.arguments.size());
    for (size_t i = 0; i < wanted.arguments.size(); ++i) {
      const SchemaArgument &a = op.schema.arguments[i], &b = wanted.arguments[i];
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
