// Writes ONNX files.
#include <protozero/buffer_vector.hpp>
#include <protozero/pbf_writer.hpp>
#include <string_view>
#include <unordered_set>

#include "base/disk_blocks.h"
#include "format/onnx_file.h"
#include "tensor/strings.h"

namespace qdq::format {
namespace {

using Writer = protozero::basic_pbf_writer<std::vector<char>>;

// Where large tensors go: into the model, or behind each other into a file beside it.
struct DataFile {
  std::string name;
  Parts* bytes = nullptr;
};

void write_entry(Writer out, const std::string& key, const std::string& value) {
  out.add_string(1, key);
  out.add_string(2, value);
}

void write_head(Writer& out, const std::string& name, const Shape& sizes, int64_t number) {
  out.add_packed_int64(1, sizes.begin(), sizes.end());
  out.add_int64(2, number);
  if (!name.empty()) out.add_string(8, name);
}

// The bytes of a dense tensor.
void write_numbers(Writer& out, const Tensor& dense, const DataFile& data) {
  constexpr size_t kLeast = 1024, kAlignment = 64;
  if (data.bytes == nullptr || dense.nbytes() < kLeast) {
    out.add_bytes(9, reinterpret_cast<const char*>(dense.raw()), dense.nbytes());
    release_pages({dense.raw(), dense.nbytes()});
    return;
  }
  data.bytes->add(Bytes(static_cast<size_t>((kAlignment - data.bytes->size() % kAlignment) % kAlignment)));
  write_entry(Writer(out, 13), "location", data.name);
  write_entry(Writer(out, 13), "offset", std::to_string(data.bytes->size()));
  write_entry(Writer(out, 13), "length", std::to_string(dense.nbytes()));
  out.add_int32(14, 1);
  data.bytes->add(dense.storage(), {dense.raw(), dense.nbytes()});
}

void write_tensor(Writer out, const std::string& name, const Tensor& tensor, const DataFile& data) {
  const Tensor dense = tensor.contiguous();
  write_head(out, name, dense.sizes(), onnx_number(dense.dtype()));
  if (dense.dtype() != DType::kString) return write_numbers(out, dense, data);
  for (const std::string_view text : texts_of(dense)) out.add_bytes(6, text.data(), text.size());
}

// Integers of four bits, which are int8 or uint8 here: two in a byte, the first in its lower half.
void write_four_bit_tensor(Writer out, const std::string& name, const Tensor& tensor, const DataFile& data) {
  const Tensor dense = tensor.contiguous(), packed = Tensor::full({(dense.numel() + 1) / 2}, DType::kU8, 0);
  const auto* integers = static_cast<const uint8_t*>(static_cast<const void*>(dense.raw()));
  for (int64_t i = 0; i < dense.numel(); ++i)
    packed.data<uint8_t>()[i / 2] |= static_cast<uint8_t>((integers[i] & 15) << (i % 2 * 4));
  write_head(out, name, dense.sizes(), dense.dtype() == DType::kS8 ? kOnnxS4 : kOnnxU4);
  write_numbers(out, packed, data);
}

void write_graph(Writer out, const OnnxGraph& graph, const DataFile& data);

void write_attribute(Writer out, const OnnxAttribute& attribute, const DataFile& data) {
  out.add_string(1, attribute.name);
  switch (attribute.kind) {
    case OnnxKind::kFloat: out.add_float(2, attribute.f); break;
    case OnnxKind::kInt: out.add_int64(3, attribute.i); break;
    case OnnxKind::kString: out.add_bytes(4, attribute.s); break;
    case OnnxKind::kTensor:
      (attribute.has_four_bits ? write_four_bit_tensor : write_tensor)(Writer(out, 5), "", attribute.t, {});
      break;
    case OnnxKind::kGraph: write_graph(Writer(out, 6), *attribute.graphs.at(0), data); break;
    case OnnxKind::kFloats: out.add_packed_float(7, attribute.floats.begin(), attribute.floats.end()); break;
    case OnnxKind::kInts: out.add_packed_int64(8, attribute.ints.begin(), attribute.ints.end()); break;
    case OnnxKind::kStrings:
      for (const std::string& text : attribute.strings) out.add_bytes(9, text);
      break;
    default: fail(ErrorCode::kInternal, "the attribute ", attribute.name, " cannot be written to an ONNX file");
  }
  out.add_int64(20, static_cast<int64_t>(attribute.kind));
}

void write_value_info(Writer out, const OnnxValueInfo& value) {
  out.add_string(1, value.name);
  if (!value.doc_string.empty()) out.add_string(3, value.doc_string);
  Writer type(out, 2);
  Writer tensor(type, 1);
  if (value.dtype) tensor.add_int64(1, onnx_number(*value.dtype));
  if (!value.dims) return;
  // The writer drops a message that stays empty, but no axes are not an unknown number of them, nor is an unknown size
  // none.
  if (value.dims->empty()) return tensor.add_message(2, "", 0);
  Writer shape(tensor, 2);
  for (const OnnxDimension& size : *value.dims) {
    if (!size.value && size.param.empty()) {
      shape.add_message(1, "", 0);
      continue;
    }
    Writer dimension(shape, 1);
    if (size.value) dimension.add_int64(1, *size.value);
    else dimension.add_string(2, size.param);
  }
}

void write_graph(Writer out, const OnnxGraph& graph, const DataFile& data) {
  for (const OnnxNode& node : graph.nodes) {
    Writer message(out, 1);
    for (const std::string& input : node.inputs) message.add_string(1, input);
    for (const std::string& output : node.outputs) message.add_string(2, output);
    message.add_string(3, node.name);
    message.add_string(4, node.op_type);
    for (const OnnxAttribute& attribute : node.attributes) write_attribute(Writer(message, 5), attribute, data);
    if (!node.domain.empty()) message.add_string(7, node.domain);
    for (const auto& [key, value] : node.metadata) write_entry(Writer(message, 9), key, value);
  }
  out.add_string(2, graph.name);
  if (!graph.doc_string.empty()) out.add_string(10, graph.doc_string);
  const std::unordered_set<std::string_view> four_bits(graph.four_bit_tensors.begin(), graph.four_bit_tensors.end());
  for (const auto& [name, tensor] : graph.initializers)
    (four_bits.contains(name) ? write_four_bit_tensor : write_tensor)(Writer(out, 5), name, tensor, data);
  for (const OnnxValueInfo& input : graph.inputs) write_value_info(Writer(out, 11), input);
  for (const OnnxValueInfo& output : graph.outputs) write_value_info(Writer(out, 12), output);
  for (const OnnxValueInfo& value : graph.values) write_value_info(Writer(out, 13), value);
}

uint64_t bytes_of_tensors(const OnnxGraph& graph) {
  uint64_t bytes = 0;
  for (const auto& [name, tensor] : graph.initializers) bytes += tensor.nbytes();
  for (const OnnxNode& node : graph.nodes)
    for (const OnnxAttribute& attribute : node.attributes)
      for (const auto& inner : attribute.graphs) bytes += bytes_of_tensors(*inner);
  return bytes;
}

}  // namespace

bool fits_in_one_file(const OnnxGraph& graph) {
  // A message of protobuf has less than two gigabytes; the rest of the model is small.
  constexpr uint64_t kMostBytes = (uint64_t{1} << 31) - (uint64_t{1} << 26);
  return bytes_of_tensors(graph) < kMostBytes;
}

Bytes write_onnx_file(const OnnxFile& file) { return onnx_file_parts(file).joined(); }

Parts onnx_file_parts(const OnnxFile& file, const std::string& data_name, Parts* data) {
  QDQ_CHECK(data != nullptr || fits_in_one_file(file), kUnsupported,
            "the model's tensors are more than the two gigabytes that an ONNX file can have; keep them in a separate "
            "file next to "
            "it");
  const auto written = std::make_shared<std::vector<char>>();
  std::vector<char>& buffer = *written;
  constexpr uint64_t kAround = uint64_t{1} << 16;
  const uint64_t bytes = bytes_of_tensors(file);
  // So that nothing is copied as it grows: nodes are few beside tensors.
  if (data == nullptr) buffer.reserve(static_cast<size_t>(bytes + bytes / 16 + kAround));
  {
    Writer model(buffer);
    model.add_int64(1, file.ir_version);
    model.add_string(2, file.producer_name);
    model.add_string(3, file.producer_version);
    if (!file.domain.empty()) model.add_string(4, file.domain);
    if (file.model_version != 0) model.add_int64(5, file.model_version);
    if (!file.model_doc_string.empty()) model.add_string(6, file.model_doc_string);
    write_graph(Writer(model, 7), file, {data_name, data});
    for (const auto& [domain, version] : file.opsets) {
      Writer opset(model, 8);
      opset.add_string(1, domain);
      opset.add_int64(2, version);
    }
    for (const auto& [key, value] : file.metadata) write_entry(Writer(model, 14), key, value);
  }
  Parts out;
  out.add(written, bytes_of({buffer.data(), buffer.size()}));
  return out;
}

}  // namespace qdq::format
