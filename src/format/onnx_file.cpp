#include "format/onnx_file.h"

#include <protozero/buffer_vector.hpp>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include <charconv>
#include <cstring>

#include "base/disk_blocks.h"
#include "tensor/strings.h"

namespace qdq::format {
namespace {

// TensorProto.DataType by number.
constexpr std::pair<int64_t, DType> kDataTypes[] = {
    {1, DType::kF32},         {2, DType::kU8},      {3, DType::kS8},         {4, DType::kU16},   {5, DType::kS16},
    {6, DType::kS32},         {7, DType::kS64},     {8, DType::kString},     {9, DType::kBool},  {10, DType::kF16},
    {11, DType::kF64},        {12, DType::kU32},    {13, DType::kU64},       {16, DType::kBF16}, {17, DType::kF8E4M3FN},
    {18, DType::kF8E4M3FNUZ}, {19, DType::kF8E5M2}, {20, DType::kF8E5M2FNUZ}};

bool has_four_bits(int64_t type) { return type == kOnnxU4 || type == kOnnxS4; }  // two numbers a byte

// That of the numbers when they are unpacked.
std::optional<DType> unpacked_dtype(int64_t type) {
  return type == kOnnxU4 ? DType::kU8 : type == kOnnxS4 ? DType::kS8 : onnx_dtype(type);
}

// How deep the messages of graphs lie at most: a graph in a graph is four messages further down.
constexpr int kMaxDepth = 64;

// A message whose fields are read one after the other, each checked to be of the wanted kind.
class Message {
 public:
  Message(protozero::data_view bytes, const char* what, const OnnxExternalData* external)
      : reader_(bytes), what_(what), external_(external) {}

  const OnnxExternalData& external() const { return *external_; }

  bool next() { return reader_.next(); }
  uint32_t field() const { return reader_.tag(); }
  void skip() { reader_.skip(); }

  int64_t integer() {
    want(protozero::pbf_wire_type::varint);
    return reader_.get_int64();
  }
  float real() {
    want(protozero::pbf_wire_type::fixed32);
    return reader_.get_float();
  }
  protozero::data_view view() {
    want(protozero::pbf_wire_type::length_delimited);
    return reader_.get_view();
  }
  std::string text() {
    const protozero::data_view bytes = view();
    QDQ_CHECK(is_utf8({bytes.data(), bytes.size()}), kBadFile, "the ONNX file has a name in a ", what_,
              " that is not UTF-8");
    return {bytes.data(), bytes.size()};
  }
  Message message(const char* what) {
    Message out{view(), what, external_};
    out.depth_ = depth_ + 1;
    return out;
  }
  int depth() const { return depth_; }  // how many messages this one lies in

  // Appends a repeated number, packed or not.
  void append_integers(std::vector<int64_t>& out) {
    if (reader_.wire_type() == protozero::pbf_wire_type::varint) return out.push_back(integer());
    const protozero::data_view packed = view();
    const char* at = packed.data();
    while (at != packed.data() + packed.size())
      out.push_back(static_cast<int64_t>(protozero::decode_varint(&at, packed.data() + packed.size())));
  }
  // The bytes of repeated numbers of fixed size.
  void append_fixed(Bytes& out, protozero::pbf_wire_type alone, size_t size) {
    protozero::data_view bytes;
    if (reader_.wire_type() == alone) {
      if (size == sizeof(float)) append_number(out, reader_.get_float());
      else append_number(out, reader_.get_double());
      return;
    }
    bytes = view();
    QDQ_CHECK(bytes.size() % size == 0, kBadFile, "the ONNX file has packed numbers in a ", what_, " of ", bytes.size(),
              " bytes, no multiple of ", size);
    append(out, bytes_of({bytes.data(), bytes.size()}));
  }

 private:
  void want(protozero::pbf_wire_type type) const {
    QDQ_CHECK(reader_.wire_type() == type, kBadFile, "the ONNX file has field ", reader_.tag(), " of a ", what_,
              " in the wire type ", static_cast<uint32_t>(reader_.wire_type()), ", wanted ",
              static_cast<uint32_t>(type));
  }

  protozero::pbf_reader reader_;
  const char* what_;
  const OnnxExternalData* external_;
  int depth_ = 0;
};

struct OnnxNamedTensor {
  std::string name;
  Tensor tensor;
  bool has_four_bits = false;
};

// Where a tensor's bytes lie in another file: a list of keys and values.
struct ExternalBytes {
  std::string location;
  uint64_t offset = 0;
  std::optional<uint64_t> length;
};

uint64_t whole_number(const std::string& text) {
  uint64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  QDQ_CHECK(error == std::errc() && end == text.data() + text.size(), kBadFile,
            "the ONNX file places a tensor's data at '", text, "', wanted a number");
  return out;
}

std::pair<std::string, std::string> read_entry(Message message) {
  std::pair<std::string, std::string> out;
  while (message.next()) {
    if (message.field() == 1) out.first = message.text();
    else if (message.field() == 2) out.second = message.text();
    else message.skip();
  }
  return out;
}

void read_place(Message message, ExternalBytes& out) {
  const auto [key, value] = read_entry(message);
  if (key == "location") out.location = value;
  else if (key == "offset") out.offset = whole_number(value);
  else if (key == "length") out.length = whole_number(value);
}

PartSource external_bytes(const std::string& tensor, const ExternalBytes& place, uint64_t wanted,
                          const OnnxExternalData& external) {
  QDQ_CHECK(external, kUnsupported, "the tensor ", tensor, " of the ONNX file has its data in another file, ",
            place.location,
            ", which is not at hand; give it too, or save the model as one file (onnx.save without external data)");
  const std::string& path = place.location;
  const bool leaves = path.empty() || path[0] == '/' || path.find_first_of(":\\") != std::string::npos ||
                      concat("/", path, "/").find("/../") != std::string::npos;
  QDQ_CHECK(!leaves, kBadFile, "the tensor ", tensor, " of the ONNX file has its data in '", path,
            "', which is not in the model's folder");
  std::shared_ptr<const ByteSource> file = external(path);
  const uint64_t length = place.length.value_or(wanted), size = file->size();
  QDQ_CHECK(length == wanted && place.offset <= size && wanted <= size - place.offset, kBadFile, "the tensor ", tensor,
            " wants ", wanted, " bytes at ", place.offset, " of ", path, ", which has ", size,
            length == wanted ? "" : concat("; the model says ", length));
  return {std::move(file), place.offset, wanted};
}

// Reads all of it, piece by piece; nothing of a place in a scratch file stays in memory.
void read_into(const ByteSource& source, std::span<std::byte> out) {
  constexpr size_t kPiece = size_t{1} << 24;
  for (size_t done = 0; done < out.size(); done += kPiece) {
    const std::span<std::byte> piece = out.subspan(done, std::min(kPiece, out.size() - done));
    const ByteData data = source.read(done, piece.size());
    std::memcpy(piece.data(), data.bytes().data(), piece.size());
    release_pages(piece);
  }
  source.let_go(0, out.size());
}

// What a TensorProto's fields say, before its numbers are made of them.
struct TensorFields {
  std::string name;
  Shape sizes;
  int64_t type = 0, location = 0, numel = 0;
  std::optional<protozero::data_view> raw;
  Bytes floats, doubles;
  std::vector<int64_t> integers;
  std::vector<std::string> strings;
  ExternalBytes place;

  void check_count(uint64_t found, uint64_t size, std::string_view unit) const {
    const uint64_t wanted = static_cast<uint64_t>(numel) * size;
    QDQ_CHECK(found == wanted, kBadFile, "the tensor ", name, " of the ONNX file has ", found, unit, ", its shape ",
              to_string(sizes), " wants ", wanted);
  }
};

TensorFields read_tensor_fields(Message& message) {
  TensorFields out;
  while (message.next()) switch (message.field()) {
      case 1: message.append_integers(out.sizes); break;
      case 2: out.type = message.integer(); break;
      case 4: message.append_fixed(out.floats, protozero::pbf_wire_type::fixed32, sizeof(float)); break;
      case 5:
      case 7:
      case 11: message.append_integers(out.integers); break;
      case 6: {
        const protozero::data_view bytes = message.view();
        out.strings.emplace_back(bytes.data(), bytes.size());
        break;
      }
      case 8: out.name = message.text(); break;
      case 9: out.raw = message.view(); break;
      case 10: message.append_fixed(out.doubles, protozero::pbf_wire_type::fixed64, sizeof(double)); break;
      case 13: read_place(message.message("place of data"), out.place); break;
      case 14: out.location = message.integer(); break;
      default: message.skip();
    }
  return out;
}

// Numbers of 4 bits, one a byte.
Tensor four_bit_tensor(const TensorFields& in, DType dtype, const OnnxExternalData& external) {
  const uint64_t wanted = static_cast<uint64_t>(in.numel) / 2 + static_cast<uint64_t>(in.numel) % 2;
  Bytes packed;
  if (in.location != 0) {
    packed.resize(static_cast<size_t>(wanted));
    read_into(external_bytes(in.name, in.place, wanted, external), packed);
  } else if (in.raw) {
    const ByteSpan bytes = bytes_of({in.raw->data(), in.raw->size()});
    packed.assign(bytes.begin(), bytes.end());
  } else {
    for (const int64_t number : in.integers) packed.push_back(static_cast<std::byte>(number & 0xFF));
  }
  QDQ_CHECK(packed.size() == wanted, kBadFile, "the tensor ", in.name, " of the ONNX file has ", packed.size(),
            " bytes of data, its shape ", to_string(in.sizes), " of 4-bit numbers wants ", wanted);
  Tensor out = Tensor::empty(in.sizes, dtype);
  for (int64_t i = 0; i < in.numel; ++i) {
    const auto both = static_cast<uint8_t>(packed[static_cast<size_t>(i / 2)]);
    const int four = i % 2 == 0 ? both & 0xF : both >> 4;  // the first number is in the low half
    out.raw()[i] = static_cast<std::byte>(in.type == kOnnxS4 && four > 7 ? four - 16 : four);
  }
  return out;
}

Tensor number_tensor(const TensorFields& in, DType dtype, const OnnxExternalData& external) {
  const size_t size = size_of(dtype);
  const Bytes* fixed = dtype == DType::kF32 ? &in.floats : dtype == DType::kF64 ? &in.doubles : nullptr;
  Tensor out;
  if (in.location != 0) {
    const PartSource bytes = external_bytes(in.name, in.place, static_cast<uint64_t>(in.numel) * size, external);
    out = Tensor(std::make_shared<Storage>(static_cast<size_t>(bytes.size())), dtype, in.sizes,
                 contiguous_strides(in.sizes), 0);
    read_into(bytes, {out.raw(), out.nbytes()});
  } else if (in.raw || fixed) {
    const ByteSpan bytes = in.raw ? bytes_of({in.raw->data(), in.raw->size()}) : ByteSpan(*fixed);
    in.check_count(bytes.size(), size, " bytes of data");
    out = Tensor::empty(in.sizes, dtype);
    if (!bytes.empty()) std::memcpy(out.raw(), bytes.data(), bytes.size());
    release_pages({out.raw(), out.nbytes()});
  } else {
    in.check_count(in.integers.size(), 1, " numbers");
    out = Tensor::empty(in.sizes, dtype);
    // The low bytes: halves stand as the integers that their bits are.
    for (size_t i = 0; i < in.integers.size(); ++i) std::memcpy(out.raw() + i * size, &in.integers[i], size);
  }
  if (dtype == DType::kBool)
    for (int64_t i = 0; i < in.numel; ++i) out.raw()[i] = std::byte{out.raw()[i] != std::byte{0}};
  return out;
}

OnnxNamedTensor read_tensor(Message message) {
  TensorFields in = read_tensor_fields(message);
  OnnxNamedTensor out;
  out.name = in.name;
  out.has_four_bits = has_four_bits(in.type);
  const std::optional<DType> dtype = unpacked_dtype(in.type);
  QDQ_CHECK(dtype, kUnsupported, "the tensor ", in.name, " of the ONNX file has data type ", in.type,
            ", which qdq does not have");
  try {
    in.numel = numel_of(in.sizes);
  } catch (const Error& error) {
    fail(ErrorCode::kBadFile, "the tensor ", in.name, " of the ONNX file has absurd sizes: ", error.message);
  }
  if (*dtype == DType::kString) {
    QDQ_CHECK(!in.raw && in.location == 0, kBadFile, "the tensor ", in.name,
              " of the ONNX file has its strings as raw bytes or in another file, wanted string_data");
    in.check_count(in.strings.size(), 1, " strings");
    out.tensor = string_tensor(in.sizes, in.strings);
  } else if (out.has_four_bits) {
    out.tensor = four_bit_tensor(in, *dtype, message.external());
  } else {
    out.tensor = number_tensor(in, *dtype, message.external());
  }
  return out;
}

void read_graph(Message message, OnnxGraph& out);

// A tensor's numbers at the places that are given, zeros elsewhere.
Tensor dense(const OnnxSparseTensor& sparse) {
  const Tensor indices = sparse.indices.to(DType::kS64).contiguous(), values = sparse.values.contiguous();
  const auto rank = static_cast<int64_t>(sparse.sizes.size());
  const int64_t count = values.numel();
  const bool by_axes = indices.dim() == 2;
  QDQ_CHECK(values.dim() == 1 && indices.dim() >= 1 && indices.dim() <= 2 && indices.size(0) == count &&
                (!by_axes || indices.size(1) == rank),
            kBadFile, "the sparse tensor ", sparse.name, " of the ONNX file has values ", to_string(values.sizes()),
            " at indices ", to_string(indices.sizes()), " for the shape ", to_string(sparse.sizes));
  Tensor out = Tensor::full(sparse.sizes, values.dtype(), 0);
  const size_t size = size_of(values.dtype());
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = by_axes ? 0 : indices.data<int64_t>()[i];
    bool is_inside = by_axes || (at >= 0 && at < out.numel());
    for (int64_t axis = 0; by_axes && axis < rank; ++axis) {
      const int64_t extent = sparse.sizes[static_cast<size_t>(axis)], x = indices.data<int64_t>()[i * rank + axis];
      is_inside = is_inside && x >= 0 && x < extent;
      at = is_inside ? at * extent + x : 0;
    }
    QDQ_CHECK(is_inside, kBadFile, "the sparse tensor ", sparse.name, " of the ONNX file has an index outside of ",
              to_string(sparse.sizes));
    std::memcpy(out.raw() + static_cast<size_t>(at) * size, values.raw() + static_cast<size_t>(i) * size, size);
  }
  return out;
}

OnnxSparseTensor read_sparse_tensor(Message message) {
  OnnxSparseTensor out;
  while (message.next()) switch (message.field()) {
      case 1: {
        OnnxNamedTensor values = read_tensor(message.message("tensor"));
        out.name = std::move(values.name);
        out.values = std::move(values.tensor);
        break;
      }
      case 2: out.indices = read_tensor(message.message("tensor")).tensor; break;
      case 3: message.append_integers(out.sizes); break;
      default: message.skip();
    }
  QDQ_CHECK(out.values.defined() && out.indices.defined(), kBadFile, "the ONNX file has a sparse tensor without ",
            out.values.defined() ? "indices" : "values");
  // Zeros take memory that the file does not hold: no more than weights may.
  constexpr int64_t kMost = int64_t{1} << 28;
  int64_t numel = 1;
  for (const int64_t size : out.sizes) {
    QDQ_CHECK(size >= 0 && size <= kMost && (size == 0 || numel <= kMost / size), kUnsupported, "the sparse tensor ",
              out.name, " of the ONNX file has the shape ", to_string(out.sizes), ", qdq reads up to ", kMost,
              " elements");
    numel *= size;
  }
  return out;
}

OnnxAttribute read_attribute(Message message) {
  OnnxAttribute out;
  Bytes floats;
  int64_t type = 0;
  while (message.next()) switch (message.field()) {
      case 1: out.name = message.text(); break;
      case 2: out.f = message.real(); break;
      case 3: out.i = message.integer(); break;
      case 4: {
        const protozero::data_view bytes = message.view();
        out.s.assign(bytes.data(), bytes.size());
        break;
      }
      case 5: out.t = read_tensor(message.message("tensor")).tensor; break;
      case 6:
      case 11: {
        auto graph = std::make_shared<OnnxGraph>();
        read_graph(message.message("graph"), *graph);
        out.graphs.push_back(std::move(graph));
        break;
      }
      case 7: message.append_fixed(floats, protozero::pbf_wire_type::fixed32, sizeof(float)); break;
      case 8: message.append_integers(out.ints); break;
      case 9: {
        const protozero::data_view bytes = message.view();
        out.strings.emplace_back(bytes.data(), bytes.size());
        break;
      }
      case 10: out.tensors.push_back(read_tensor(message.message("tensor")).tensor); break;
      case 20: type = message.integer(); break;
      case 21: out.reference = message.text(); break;
      case 22: {
        out.sparse = std::make_shared<OnnxSparseTensor>(read_sparse_tensor(message.message("sparse tensor")));
        out.t = dense(*out.sparse);
        break;
      }
      default: message.skip();
    }
  out.floats.resize(floats.size() / sizeof(float));
  if (!floats.empty()) std::memcpy(out.floats.data(), floats.data(), floats.size());
  // Writers before IR version 2 left the type out.
  if (type == 0 && out.reference.empty())
    type = out.t.defined()        ? 4
           : !out.graphs.empty()  ? 5
           : !out.floats.empty()  ? 6
           : !out.ints.empty()    ? 7
           : !out.strings.empty() ? 8
           : !out.s.empty()       ? 3
           : out.f != 0           ? 1
                                  : 2;
  out.kind = type > 11 || type < 0 ? OnnxKind::kOther : static_cast<OnnxKind>(type);
  if (!out.reference.empty()) return out;
  const bool is_there = out.kind == OnnxKind::kTensor || out.kind == OnnxKind::kSparseTensor ? out.t.defined()
                        : out.kind == OnnxKind::kGraph                                       ? out.graphs.size() == 1
                                                                                             : true;
  QDQ_CHECK(is_there, kBadFile, "the attribute ", out.name, " of the ONNX file says that it is a ",
            out.kind == OnnxKind::kGraph ? "graph" : "tensor", ", but has none");
  return out;
}

OnnxNode read_node(Message message) {
  OnnxNode out;
  while (message.next()) switch (message.field()) {
      case 1: out.inputs.push_back(message.text()); break;
      case 2: out.outputs.push_back(message.text()); break;
      case 3: out.name = message.text(); break;
      case 4: out.op_type = message.text(); break;
      case 5: out.attributes.push_back(read_attribute(message.message("attribute"))); break;
      case 7: out.domain = message.text(); break;
      case 9: out.metadata.push_back(read_entry(message.message("metadata entry"))); break;
      default: message.skip();
    }
  if (out.domain == "ai.onnx") out.domain.clear();
  return out;
}

OnnxDimension read_dimension(Message message) {
  OnnxDimension out;
  while (message.next()) switch (message.field()) {
      case 1: out.value = message.integer(); break;
      case 2: out.param = message.text(); break;
      default: message.skip();
    }
  return out;
}

void read_tensor_type(Message message, OnnxValueInfo& out) {
  while (message.next()) {
    if (message.field() == 1) {
      const int64_t type = message.integer();
      out.dtype = unpacked_dtype(type);
      out.has_four_bits = has_four_bits(type);
    } else if (message.field() == 2) {
      out.dims.emplace();
      for (Message shape = message.message("shape"); shape.next();) {
        if (shape.field() == 1) out.dims->push_back(read_dimension(shape.message("dimension")));
        else shape.skip();
      }
    } else {
      message.skip();
    }
  }
}

// A TypeProto; what a tensor's says goes to `out`.
OnnxValueInfo::Type read_type(Message message, OnnxValueInfo& out) {
  using Type = OnnxValueInfo::Type;
  QDQ_CHECK(message.depth() <= kMaxDepth, kUnsupported, "the ONNX file has types in types beyond ", kMaxDepth,
            " levels");
  Type type = Type::kUnknown;
  while (message.next()) switch (message.field()) {
      case 1:
        type = Type::kTensor;
        read_tensor_type(message.message("tensor type"), out);
        break;
      case 4:
      case 9: {
        const bool is_optional = message.field() == 9;
        OnnxValueInfo of_element;
        Type element = Type::kUnknown;
        for (Message wrapped = message.message("type of a list or an optional"); wrapped.next();) {
          if (wrapped.field() == 1) element = read_type(wrapped.message("element type"), of_element);
          else wrapped.skip();
        }
        if (element == Type::kTensor) type = is_optional ? Type::kOptional : Type::kSequence;
        else type = is_optional && element == Type::kSequence ? Type::kOptionalSequence : Type::kOther;
        break;
      }
      case 5:
      case 7:
      case 8:
        type = Type::kOther;
        message.skip();
        break;
      default: message.skip();
    }
  return type;
}

OnnxValueInfo read_value_info(Message message) {
  OnnxValueInfo out;
  out.type = OnnxValueInfo::Type::kUnknown;
  while (message.next()) {
    if (message.field() == 1) out.name = message.text();
    else if (message.field() == 2) out.type = read_type(message.message("type"), out);
    else if (message.field() == 3) out.doc_string = message.text();
    else message.skip();
  }
  return out;
}

void read_graph(Message message, OnnxGraph& out) {
  QDQ_CHECK(message.depth() <= kMaxDepth, kUnsupported, "the ONNX file has graphs in graphs beyond ", kMaxDepth,
            " levels");
  while (message.next()) switch (message.field()) {
      case 1: out.nodes.push_back(read_node(message.message("node"))); break;
      case 2: out.name = message.text(); break;
      case 5: {
        OnnxNamedTensor tensor = read_tensor(message.message("tensor"));
        if (tensor.has_four_bits) out.four_bit_tensors.push_back(tensor.name);
        out.initializers.emplace_back(std::move(tensor.name), std::move(tensor.tensor));
        break;
      }
      case 10: out.doc_string = message.text(); break;
      case 11: out.inputs.push_back(read_value_info(message.message("input"))); break;
      case 12: out.outputs.push_back(read_value_info(message.message("output"))); break;
      case 13: out.values.push_back(read_value_info(message.message("value"))); break;
      case 15: {
        const OnnxSparseTensor sparse = read_sparse_tensor(message.message("sparse tensor"));
        out.initializers.emplace_back(sparse.name, dense(sparse));
        break;
      }
      default: message.skip();
    }
}

std::pair<std::string, int64_t> read_opset(Message message) {
  std::pair<std::string, int64_t> out{"", 1};
  while (message.next()) {
    if (message.field() == 1) out.first = message.text();
    else if (message.field() == 2) out.second = message.integer();
    else message.skip();
  }
  if (out.first == "ai.onnx") out.first.clear();
  return out;
}

OnnxFunction read_function(Message message) {
  OnnxFunction out;
  while (message.next()) switch (message.field()) {
      case 1: out.name = message.text(); break;
      case 4: out.inputs.push_back(message.text()); break;
      case 5: out.outputs.push_back(message.text()); break;
      case 6: out.attributes.push_back(message.text()); break;
      case 7: out.nodes.push_back(read_node(message.message("node"))); break;
      case 9: out.opsets.push_back(read_opset(message.message("operator set"))); break;
      case 10: out.domain = message.text(); break;
      case 11: out.default_attributes.push_back(read_attribute(message.message("attribute"))); break;
      default: message.skip();
    }
  if (out.domain == "ai.onnx") out.domain.clear();
  return out;
}

void read_model(Message message, OnnxFile& out) {
  bool has_graph = false;
  while (message.next()) switch (message.field()) {
      case 1: out.ir_version = message.integer(); break;
      case 2: out.producer_name = message.text(); break;
      case 3: out.producer_version = message.text(); break;
      case 4: out.domain = message.text(); break;
      case 5: out.model_version = message.integer(); break;
      case 6: out.model_doc_string = message.text(); break;
      case 7:
        QDQ_CHECK(!has_graph, kBadFile, "the ONNX file has two graphs");
        has_graph = true;
        read_graph(message.message("graph"), out);
        break;
      case 8: out.opsets.push_back(read_opset(message.message("operator set"))); break;
      case 14: out.metadata.push_back(read_entry(message.message("metadata entry"))); break;
      case 25: out.functions.push_back(read_function(message.message("function"))); break;
      default: message.skip();
    }
  QDQ_CHECK(has_graph && out.ir_version > 0, kBadFile, "the file is not an ONNX model: it has ",
            has_graph ? "no version" : "no graph");
}

using Writer = protozero::basic_pbf_writer<std::vector<char>>;

// Where large tensors go: into the model, or behind each other into a file beside it.
struct DataFile {
  std::string name;
  Parts* bytes = nullptr;
};

void write_tensor(Writer out, const std::string& name, const Tensor& tensor, const DataFile& data) {
  constexpr size_t kLeast = 1024, kAlignment = 64;
  const Tensor dense = tensor.contiguous();
  out.add_packed_int64(1, dense.sizes().begin(), dense.sizes().end());
  out.add_int64(2, onnx_number(dense.dtype()));
  if (!name.empty()) out.add_string(8, name);
  if (dense.dtype() == DType::kString) {
    for (const std::string_view text : texts_of(dense)) out.add_bytes(6, text.data(), text.size());
    return;
  }
  if (data.bytes == nullptr || dense.nbytes() < kLeast) {
    out.add_bytes(9, reinterpret_cast<const char*>(dense.raw()), dense.nbytes());
    release_pages({dense.raw(), dense.nbytes()});
    return;
  }
  data.bytes->add(Bytes(static_cast<size_t>((kAlignment - data.bytes->size() % kAlignment) % kAlignment)));
  const auto entry = [&](const char* key, const std::string& value) {
    Writer message(out, 13);
    message.add_string(1, key);
    message.add_string(2, value);
  };
  entry("location", data.name);
  entry("offset", std::to_string(data.bytes->size()));
  entry("length", std::to_string(dense.nbytes()));
  out.add_int32(14, 1);
  data.bytes->add(dense.storage(), {dense.raw(), dense.nbytes()});
}

void write_graph(Writer out, const OnnxGraph& graph, const DataFile& data);

void write_attribute(Writer out, const OnnxAttribute& attribute, const DataFile& data) {
  out.add_string(1, attribute.name);
  switch (attribute.kind) {
    case OnnxKind::kFloat: out.add_float(2, attribute.f); break;
    case OnnxKind::kInt: out.add_int64(3, attribute.i); break;
    case OnnxKind::kString: out.add_bytes(4, attribute.s); break;
    case OnnxKind::kTensor: write_tensor(Writer(out, 5), "", attribute.t, {}); break;
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
    for (const auto& [key, value] : node.metadata) {
      Writer entry(message, 9);
      entry.add_string(1, key);
      entry.add_string(2, value);
    }
  }
  out.add_string(2, graph.name);
  if (!graph.doc_string.empty()) out.add_string(10, graph.doc_string);
  for (const auto& [name, tensor] : graph.initializers) write_tensor(Writer(out, 5), name, tensor, data);
  for (const OnnxValueInfo& input : graph.inputs) write_value_info(Writer(out, 11), input);
  for (const OnnxValueInfo& output : graph.outputs) write_value_info(Writer(out, 12), output);
  for (const OnnxValueInfo& value : graph.values) write_value_info(Writer(out, 13), value);
}

}  // namespace

std::optional<DType> onnx_dtype(int64_t number) {
  for (const auto& [known, dtype] : kDataTypes)
    if (known == number) return dtype;
  return std::nullopt;
}

int64_t onnx_number(DType dtype) {
  for (const auto& [number, known] : kDataTypes)
    if (known == dtype) return number;
  fail(ErrorCode::kInternal, "ONNX has no number for ", to_string(dtype));
}

OnnxFile read_onnx_file(ByteSpan bytes, const OnnxExternalData& external) {
  OnnxFile out;
  try {
    const std::string_view text = text_of(bytes);
    read_model(Message({text.data(), text.size()}, "model", &external), out);
  } catch (const protozero::exception& error) {
    fail(ErrorCode::kBadFile, "the file is not an ONNX model, or is cut off: ", error.what());
  }
  return out;
}

namespace {

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
  QDQ_CHECK(
      data != nullptr || fits_in_one_file(file), kUnsupported,
      "the model's tensors are more than the two gigabytes that an ONNX file can have; keep them in a file beside "
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
    for (const auto& [key, value] : file.metadata) {
      Writer entry(model, 14);
      entry.add_string(1, key);
      entry.add_string(2, value);
    }
  }
  Parts out;
  out.add(written, bytes_of({buffer.data(), buffer.size()}));
  return out;
}

}  // namespace qdq::format
