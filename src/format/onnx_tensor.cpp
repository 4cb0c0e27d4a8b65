#include "format/onnx_tensor.h"

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

void read_place(OnnxMessage message, ExternalBytes& out) {
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
            " needs ", wanted, " bytes at ", place.offset, " of ", path, ", which has ", size,
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
              to_string(sizes), " needs ", wanted);
  }
};

TensorFields read_tensor_fields(OnnxMessage& message) {
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
    // What the file says is held against its size before memory is asked for.
    const PartSource bytes = external_bytes(in.name, in.place, wanted, external);
    packed.resize(static_cast<size_t>(wanted));
    read_into(bytes, packed);
  } else if (in.raw) {
    const ByteSpan bytes = bytes_of({in.raw->data(), in.raw->size()});
    packed.assign(bytes.begin(), bytes.end());
  } else {
    for (const int64_t number : in.integers) packed.push_back(static_cast<std::byte>(number & 0xFF));
  }
  QDQ_CHECK(packed.size() == wanted, kBadFile, "the tensor ", in.name, " of the ONNX file has ", packed.size(),
            " bytes of data, its shape ", to_string(in.sizes), " of 4-bit numbers needs ", wanted);
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

bool has_four_bits(int64_t type) { return type == kOnnxU4 || type == kOnnxS4; }

std::optional<DType> unpacked_dtype(int64_t type) {
  return type == kOnnxU4 ? DType::kU8 : type == kOnnxS4 ? DType::kS8 : onnx_dtype(type);
}

std::pair<std::string, std::string> read_entry(OnnxMessage message) {
  std::pair<std::string, std::string> out;
  while (message.next()) {
    if (message.field() == 1) out.first = message.text();
    else if (message.field() == 2) out.second = message.text();
    else message.skip();
  }
  return out;
}

OnnxNamedTensor read_tensor(OnnxMessage message) {
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

OnnxSparseTensor read_sparse_tensor(OnnxMessage message) {
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

}  // namespace qdq::format
