// The golden calls of operators, tests/golden/op (made by tests/golden/make_op.py), read for the contract tests.
#pragma once

#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "format/json.h"
#include "format/npz.h"
#include "op/infer.h"
#include "op/op.h"
#include "source_dir.h"

namespace qdq {

using format::Json;

inline format::Bytes read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  QDQ_CHECK(file.good(), kIo, path, " could not be read");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const format::ByteSpan bytes = format::bytes_of(text);
  return {bytes.begin(), bytes.end()};
}

class Golden {
 public:
  Golden() {
    const std::string folder = std::string(kSourceDir) + "/tests/golden/op/";
    json_ = format::parse_json(format::text_of(read_file(folder + "cases.json")), "cases.json");
    for (format::NamedTensor& array : format::read_npz(read_file(folder + "data.npz")))
      arrays_[array.name] = array.tensor;
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

inline const Golden& golden() {
  static const Golden data;
  return data;
}

// Metadata of a value; where `json` marks a batch, its size is s0 and `batch` receives the number.
inline MetaValue meta_of(const Value& value, const Json& json, std::optional<int64_t>* batch) {
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
          for (size_t i = 0; i < held.size(); ++i)
            list.push_back(meta_of(held[i], batch && json.is_array() ? json[i] : Json(), batch));
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
    for (size_t i = 0; i < args.size(); ++i)
      metas.push_back(meta_of(args[i], batch ? entry["args"][i] : Json(), batch));
    std::vector<std::pair<std::string, MetaValue>> named;
    for (const auto& [name, value] : kwargs) named.emplace_back(name, meta_of(value, Json(), nullptr));
    return op.infer(Call<TensorMeta>(op, std::move(metas), std::move(named)));
  }
};

// What inference says against what evaluation gave, with s0 = batch.
inline std::string difference(const MetaValue& inferred, const Value& found, int64_t batch) {
  const std::map<std::string, int64_t> symbols{{"s0", batch}};
  if (const Tensor* tensor = found.get_if<Tensor>()) {
    const TensorMeta* meta = inferred.get_if<TensorMeta>();
    if (meta == nullptr) return "no tensor";
    if (meta->dtype != tensor->dtype())
      return concat("dtype ", to_string(meta->dtype), ", evaluated ", to_string(tensor->dtype()));
    Shape sizes;
    for (size_t a = 0; a < meta->sizes.size(); ++a) {
      const bool from_values = meta->sizes[a] == size_from_values() && a < tensor->sizes().size();
      sizes.push_back(from_values ? tensor->sizes()[a] : meta->sizes[a].evaluate(symbols).value_or(-1));
    }
    return sizes == tensor->sizes()
               ? ""
               : concat("shape ", to_string(meta->sizes), ", evaluated ", to_string(tensor->sizes()));
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
    return sym != nullptr && (*sym == size_from_values() || sym->evaluate(symbols) == *integer) ? ""
                                                                                                : "another integer";
  }
  if (found.is<double>()) return inferred.is<double>() ? "" : "no float";
  if (found.is<bool>()) return inferred.is<bool>() ? "" : "no bool";
  return inferred.is_none() ? "" : "something for nothing";
}

}  // namespace qdq
