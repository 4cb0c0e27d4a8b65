#include "onnx_backend/backend_case.h"

#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include <algorithm>

#include "format/onnx_file.h"

namespace qdq {
namespace {

using protozero::pbf_reader;

format::ByteSpan span_of(protozero::data_view view) { return format::bytes_of({view.data(), view.size()}); }

pbf_reader reader_of(format::ByteSpan bytes) {
  const std::string_view text = format::text_of(bytes);
  return pbf_reader(text.data(), text.size());
}

// A TensorProto is read as the only initializer of a model.
Tensor read_tensor(format::ByteSpan bytes) {
  std::string model;
  protozero::pbf_writer out(model);
  out.add_int64(1, 8);
  protozero::pbf_writer graph(out, 7);
  graph.add_bytes(5, format::text_of(bytes).data(), bytes.size());
  graph.commit();
  return format::read_onnx_file(format::bytes_of(model)).initializers.at(0).second;
}

// SequenceProto: its tensors are field 3.
BackendValue read_sequence(format::ByteSpan bytes) {
  BackendValue out{BackendValue::Kind::kSequence, {}};
  for (pbf_reader message = reader_of(bytes); message.next();) {
    QDQ_CHECK(message.tag() <= 3, kUnsupported, "a sequence of other things than tensors");
    if (message.tag() == 3) out.tensors.push_back(read_tensor(span_of(message.get_view())));
    else message.skip();
  }
  return out;
}

// OptionalProto: its tensor is field 3, its sequence field 5.
BackendValue read_optional(format::ByteSpan bytes) {
  for (pbf_reader message = reader_of(bytes); message.next();) {
    if (message.tag() == 3) return {BackendValue::Kind::kTensor, {read_tensor(span_of(message.get_view()))}};
    if (message.tag() == 5) return read_sequence(span_of(message.get_view()));
    message.skip();
  }
  return {BackendValue::Kind::kNothing, {}};
}

std::string name_of(format::ByteSpan message, uint32_t field) {
  pbf_reader reader = reader_of(message);
  return reader.next(field) ? reader.get_string() : std::string();
}

// The field that the reader stands at, as it is.
void copy_field(pbf_reader& from, protozero::pbf_writer& to) {
  switch (from.wire_type()) {
    case protozero::pbf_wire_type::varint: to.add_int64(from.tag(), from.get_int64()); break;
    case protozero::pbf_wire_type::length_delimited: {
      const protozero::data_view bytes = from.get_view();
      to.add_bytes(from.tag(), bytes.data(), bytes.size());
      break;
    }
    default: from.skip();  // neither models nor graphs have others
  }
}

// The input of a light model: n elements i / n.
Tensor ramp(const Shape& sizes) {
  const Tensor out = Tensor::empty(sizes, DType::kF32);
  const auto values = out.span<float>();
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(static_cast<double>(i) / static_cast<double>(values.size()));
  return out;
}

bool is_light_model(const std::string& path) { return path.ends_with(".onnx"); }
std::string light_output(const std::string& path) { return path.substr(0, path.size() - 5) + "_output_0.pb"; }

}  // namespace

BackendCase::BackendCase(const std::string& path, Files& files)
    : path_(path), files_(&files), light_(is_light_model(path)) {
  model_ = files.read(light_ ? path : path + "/model.onnx");
  for (pbf_reader model = reader_of(model_); model.next();) {
    if (model.tag() == 7) read_graph(span_of(model.get_view()));
    else model.skip();
  }
}

void BackendCase::read_graph(format::ByteSpan graph) {
  std::vector<std::string> initializers;
  std::vector<std::pair<std::string, ValueType>> inputs;
  for (pbf_reader message = reader_of(graph); message.next();) switch (message.tag()) {
      case 1: {
        const format::ByteSpan node = span_of(message.get_view());
        const std::string domain = name_of(node, 7), type = name_of(node, 4);
        const std::string name = domain.empty() ? type : domain + ":" + type;
        if (std::find(operators_.begin(), operators_.end(), name) == operators_.end()) operators_.push_back(name);
        break;
      }
      case 5: initializers.push_back(name_of(span_of(message.get_view()), 8)); break;
      case 11: {
        const format::ByteSpan info = span_of(message.get_view());
        inputs.emplace_back(name_of(info, 1), read_type(info));
        break;
      }
      case 12: outputs_.push_back(read_type(span_of(message.get_view()))); break;
      default: message.skip();
    }
  // Light models list their initializers among the inputs too, and the caller does not bring those.
  for (auto& [name, type] : inputs)
    if (!light_ || std::find(initializers.begin(), initializers.end(), name) == initializers.end())
      inputs_.push_back(std::move(type));
}

format::Bytes BackendCase::model_with_constants() const {
  std::string out;
  protozero::pbf_writer to(out);
  for (pbf_reader model = reader_of(model_); model.next();) {
    if (model.tag() != 7) {
      copy_field(model, to);
      continue;
    }
    protozero::pbf_writer graph(to, 7);
    size_t input = 0;
    for (pbf_reader message = model.get_message(); message.next();) {
      if (message.tag() != 11 || input++ == 0) {
        copy_field(message, graph);
        continue;
      }
      const std::string name = name_of(span_of(message.get_view()), 1);
      const format::Bytes value = files_->read(concat(path_, "/test_data_set_0/input_", input - 1, ".pb"));
      std::string tensor(format::text_of(value));
      protozero::pbf_writer(tensor).add_string(8, name);
      graph.add_bytes(5, tensor);
    }
  }
  return format::Bytes(format::bytes_of(out).begin(), format::bytes_of(out).end());
}

BackendCase::ValueType BackendCase::read_type(format::ByteSpan value_info) const {
  ValueType out;
  pbf_reader info = reader_of(value_info);
  if (!info.next(2)) return out;
  pbf_reader type = info.get_message();
  if (!type.next()) return out;
  out.type = type.tag();
  if (out.type != 1) return out;
  for (pbf_reader tensor = type.get_message(); tensor.next();) {
    if (tensor.tag() == 1) {
      out.element = tensor.get_int64();
    } else if (tensor.tag() == 2) {
      for (pbf_reader shape = tensor.get_message(); shape.next(1);) {
        pbf_reader size = shape.get_message();
        out.sizes.push_back(size.next(1) ? size.get_int64() : 1);
      }
    } else {
      tensor.skip();
    }
  }
  return out;
}

std::vector<BackendValue> BackendCase::read_values(const std::string& folder, const std::string& letter,
                                                   const std::vector<ValueType>& types) const {
  std::vector<BackendValue> out;
  for (size_t i = 0; i < types.size(); ++i) {
    const std::string path = concat(folder, "/", letter, "_", i, ".pb");
    if (!files_->is_file(path)) break;
    const format::Bytes bytes = files_->read(path);
    switch (types[i].type) {
      case 1: {
        Tensor tensor = read_tensor(bytes);
        // NumPy, which wrote the arrays, has no bfloat16: they are its bits.
        if (format::onnx_dtype(types[i].element) == DType::kBF16 && tensor.dtype() == DType::kU16)
          tensor = Tensor(tensor.storage(), DType::kBF16, tensor.sizes(), tensor.strides(), tensor.storage_offset());
        out.push_back({BackendValue::Kind::kTensor, {tensor}});
        break;
      }
      case 4: out.push_back(read_sequence(bytes)); break;
      case 9: out.push_back(read_optional(bytes)); break;
      default: fail(ErrorCode::kUnsupported, letter, " ", i, " is of TypeProto's field ", types[i].type);
    }
  }
  return out;
}

std::vector<BackendDataSet> BackendCase::data_sets() const {
  std::vector<BackendDataSet> out;
  if (light_) {
    BackendDataSet& data = out.emplace_back();
    for (const ValueType& input : inputs_) data.inputs.push_back({BackendValue::Kind::kTensor, {ramp(input.sizes)}});
    data.outputs.push_back({BackendValue::Kind::kTensor, {read_tensor(files_->read(light_output(path_)))}});
    return out;
  }
  for (size_t n = 0;; ++n) {
    const std::string folder = concat(path_, "/test_data_set_", n);
    if (!files_->is_folder(folder)) return out;
    out.push_back({read_values(folder, "input", inputs_), read_values(folder, "output", outputs_)});
  }
}

std::vector<std::string> find_backend_cases(const std::string& folder, Files& files) {
  if (files.is_file(folder + "/model.onnx")) return {folder};
  std::vector<std::string> names = files.list(folder), out;
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    const std::string path = folder + "/" + name;
    if (files.is_folder(path)) {
      for (std::string& found : find_backend_cases(path, files)) out.push_back(std::move(found));
    } else if (is_light_model(path) && files.is_file(light_output(path))) {
      out.push_back(path);
    }
  }
  return out;
}

}  // namespace qdq
