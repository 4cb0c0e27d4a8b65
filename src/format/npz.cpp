#include "format/npz.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "format/file_kind.h"
#include "format/zip.h"
#include "tensor/strings.h"

namespace qdq::format {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxRank = 64;

struct Header {
  std::string descr;
  std::optional<bool> fortran_order;
  std::optional<Shape> shape;
};

// The header is the text of a Python dictionary with three known keys, which is read here as exactly that and no more.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& what) : text_(text), what_(what) {}

  Header parse() {
    Header header;
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr") header.descr = descr();
      else if (key == "fortran_order") header.fortran_order = boolean();
      else if (key == "shape") header.shape = shape();
      else bad("has the unknown key '" + key + "'");
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (at_ != text_.size()) bad("goes on after its end");
    if (header.descr.empty() || !header.fortran_order || !header.shape)
      bad("lacks 'descr', 'fortran_order' or 'shape'");
    return header;
  }

 private:
  [[noreturn]] void bad(const std::string& why) const {
    fail(ErrorCode::kBadFile, what_, ": the .npy header ", why, " (at character ", at_, ")");
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }
  bool accept(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) bad(std::string("should have a '") + c + "'");
  }
  std::string quoted() {
    const char quote = accept('"') ? '"' : '\'';
    if (quote == '\'') expect('\'');
    const size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos) bad("has a string without an end");
    std::string out(text_.substr(at_, end - at_));
    at_ = end + 1;
    return out;
  }
  std::string descr() {
    skip_space();
    if (at_ < text_.size() && (text_[at_] == '[' || text_[at_] == '('))
      fail(ErrorCode::kUnsupported, what_, ": arrays of structures are not read; save each field as a separate array");
    return quoted();
  }
  bool boolean() {
    skip_space();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_, word.size()) != word) continue;
      at_ += word.size();
      return value;
    }
    bad("should have True or False");
  }
  Shape shape() {
    Shape out;
    expect('(');
    while (!accept(')')) {
      out.push_back(size());
      if (out.size() > kMaxRank) bad("has more than 64 dimensions");
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return out;
  }
  int64_t size() {
    skip_space();
    const size_t start = at_;
    int64_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      if (value > (std::numeric_limits<int64_t>::max() - 9) / 10) bad("has a size beyond 64 bits");
      value = value * 10 + (text_[at_] - '0');
    }
    if (at_ == start) bad("should have a size");
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 wrote its long integers so
    return value;
  }

  std::string_view text_;
  const std::string& what_;
  size_t at_ = 0;
};

struct Descr {
  std::string_view text;
  DType dtype;
};
constexpr Descr kDescrs[] = {
    {"|b1", DType::kBool}, {"|u1", DType::kU8},  {"|i1", DType::kS8},  {"<u2", DType::kU16}, {"<i2", DType::kS16},
    {"<u4", DType::kU32},  {"<i4", DType::kS32}, {"<u8", DType::kU64}, {"<i8", DType::kS64}, {"<f2", DType::kF16},
    {"<f4", DType::kF32},  {"<f8", DType::kF64}, {"<c8", DType::kC64},
};

// The characters that an element of texts has room for ('<U7', '|S7'); nothing if the elements are no texts.
std::optional<size_t> length_of_texts(const std::string& descr, const std::string& what) {
  const bool is_text = descr.size() > 2 && (descr.starts_with("<U") || descr.starts_with("=U") || descr[1] == 'S');
  if (!is_text) return std::nullopt;
  size_t length = 0;
  constexpr size_t kMostDigits = 9;
  QDQ_CHECK(descr.size() <= kMostDigits && descr.find_first_not_of("0123456789", 2) == std::string::npos, kBadFile,
            what, ": the array has elements of NumPy type '", descr, "', which is none");
  for (const char c : descr.substr(2)) length = length * 10 + static_cast<size_t>(c - '0');
  QDQ_CHECK(length > 0, kUnsupported, what, ": the array has texts without room for a character ('", descr, "')");
  return length;
}

// Texts end where only zeros follow.
std::string text_at(ByteSpan element, bool is_wide) {
  std::string out;
  if (is_wide) {
    std::u32string characters(element.size() / sizeof(char32_t), U'\0');
    std::memcpy(characters.data(), element.data(), element.size());
    out = utf8_of(characters);
  } else {
    out = text_of(element);
  }
  out.resize(out.find_last_not_of('\0') + 1);
  return out;
}

DType dtype_of_descr(const std::string& descr, const std::string& what) {
  const bool one_byte = descr.size() == 3 && descr[2] == '1';
  const std::string_view native = one_byte ? "=|<>" : "=<";
  for (const Descr& entry : kDescrs)
    if (descr.size() == 3 && descr.substr(1) == entry.text.substr(1) && native.find(descr[0]) != std::string_view::npos)
      return entry.dtype;
  std::string_view remedy = "convert it with .astype(numpy.float32) or another type that qdq has";
  if (descr.starts_with('>')) remedy = "it is big endian; convert it with .astype(array.dtype.newbyteorder('<'))";
  else if (descr.ends_with('O')) remedy = "arrays of Python objects are pickles, which are not executed";
  fail(ErrorCode::kUnsupported, what, ": the array has elements of NumPy type '", descr, "': ", remedy);
}

std::string_view descr_of(DType dtype) {
  for (const Descr& entry : kDescrs)
    if (entry.dtype == dtype) return entry.text;
  fail(ErrorCode::kInternal, "no NumPy type for ", to_string(dtype));
}

// The bytes that a shape needs, if they are exactly those that are there.
void check_length(const Shape& shape, DType dtype, size_t element, size_t found, const std::string& what) {
  uint64_t wanted = element;
  for (const int64_t size : shape) wanted *= size == 0 ? 0 : 1;
  for (const int64_t size : shape) {
    if (wanted == 0) break;
    QDQ_CHECK(static_cast<uint64_t>(size) <= found / wanted, kBadFile, what, ": an array of shape ", to_string(shape),
              " and type ", to_string(dtype), " needs more bytes than the ", found,
              " that are there; the file was cut off or changed, so copy it again or save the array anew");
    wanted *= static_cast<uint64_t>(size);
  }
  QDQ_CHECK(wanted == found, kBadFile, what, ": an array of shape ", to_string(shape), " and type ", to_string(dtype),
            " has ", wanted, " bytes, found ", found,
            "; the file was cut off or changed, so copy it again or save the array anew");
  try {
    numel_of(shape);  // of an empty array the other sizes may be any
  } catch (const Error& error) {
    fail(ErrorCode::kBadFile, what, ": ", error.message);
  }
}

bool is_wide(const std::string& descr) { return descr[1] == 'U'; }

// Bytes in C order as a tensor with bytes of its own.
Tensor tensor_of(ByteSpan data, DType dtype, const Shape& sizes, size_t element, bool is_wide) {
  if (dtype == DType::kString) {
    const Tensor out = Tensor::empty(sizes, dtype);
    StringId* to = out.data<StringId>();
    for (size_t at = 0; at < data.size(); at += element) *to++ = intern(text_at(data.subspan(at, element), is_wide));
    return out;
  }
  const Tensor out(std::make_shared<Storage>(data.size()), dtype, sizes, contiguous_strides(sizes), 0);
  if (!data.empty()) std::memcpy(out.raw(), data.data(), data.size());
  // Any other value than 0 and 1 in a bool is undefined behaviour.
  if (dtype == DType::kBool)
    for (size_t i = 0; i < data.size(); ++i) out.raw()[i] = data[i] == std::byte{0} ? std::byte{0} : std::byte{1};
  return out;
}

}  // namespace

NpyReader::NpyReader(std::shared_ptr<const ByteSource> source, uint64_t offset, uint64_t size, std::string what)
    : source_(std::move(source)), what_(std::move(what)) {
  // The magic, the version and the length of what follows.
  constexpr uint64_t kFront = 12;
  const ByteData front = source_->read(offset, std::min(size, kFront));
  ByteReader in(front.bytes(), what_);
  QDQ_CHECK(size >= 10 && text_of(in.take(6)) == kMagic, kBadFile, what_,
            ": this is not a .npy file, as numpy.save writes it; ", kind_of_file(*source_, offset, size));
  const auto major = in.number<uint8_t>();
  in.number<uint8_t>();
  QDQ_CHECK(major >= 1 && major <= 3, kUnsupported, what_, ": a .npy file of version ", int{major},
            "; 1 to 3 are read");
  const uint64_t length = major == 1 ? in.number<uint16_t>() : in.number<uint32_t>();
  const uint64_t begin = in.position();
  QDQ_CHECK(length <= size - begin, kBadFile, what_, " ends too early: ", length, " bytes were expected at offset ",
            begin, ", found ", size - begin);
  const ByteData text = source_->read(offset + begin, length);
  const Header header = HeaderParser(text.text(), what_).parse();
  const std::optional<size_t> length_of_text = length_of_texts(header.descr, what_);
  descr_ = header.descr;
  dtype_ = length_of_text ? DType::kString : dtype_of_descr(header.descr, what_);
  element_ = length_of_text ? *length_of_text * (is_wide(descr_) ? sizeof(char32_t) : 1) : size_of(dtype_);
  data_offset_ = offset + begin + length;
  data_size_ = size - begin - length;
  sizes_ = *header.shape;
  is_fortran_ = *header.fortran_order;
  check_length(sizes_, dtype_, element_, data_size_, what_);
}

Tensor NpyReader::read() const { return dim() == 0 || is_fortran_ ? whole() : rows(0, size(0)); }

Tensor NpyReader::whole() const {
  Shape sizes = sizes_;
  if (is_fortran_) std::reverse(sizes.begin(), sizes.end());
  const ByteData data = source_->read(data_offset_, data_size_);
  const Tensor out = tensor_of(data.bytes(), dtype_, sizes, element_, is_wide(descr_));
  if (!is_fortran_) return out;
  std::vector<int64_t> axes(sizes.size());
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(axes.size() - 1 - i);
  return out.permute(axes).clone();
}

Tensor NpyReader::rows(int64_t begin, int64_t end) const {
  if (is_fortran_) {
    if (!whole_.defined()) whole_ = whole();
    return whole_.slice(0, begin, end);
  }
  Shape sizes = sizes_;
  const uint64_t row = size(0) == 0 ? 0 : data_size_ / static_cast<uint64_t>(size(0));
  sizes[0] = end - begin;
  const ByteData data =
      source_->read(data_offset_ + static_cast<uint64_t>(begin) * row, static_cast<uint64_t>(end - begin) * row);
  return tensor_of(data.bytes(), dtype_, sizes, element_, is_wide(descr_));
}

Tensor read_npy(ByteSpan bytes, const std::string& what) {
  return NpyReader(std::make_shared<MemorySource>(bytes), 0, bytes.size(), what).read();
}

Bytes write_npy(const Tensor& tensor) {
  const bool is_in_numpy = tensor.dtype() != DType::kBF16 && !is_float8(tensor.dtype());
  const Tensor array = (is_in_numpy ? tensor : tensor.to(DType::kF32)).contiguous();
  std::vector<std::u32string> texts;
  size_t longest = 1;
  if (array.dtype() == DType::kString)
    for (const std::string_view text : texts_of(array))
      longest = std::max(longest, texts.emplace_back(characters_of(text)).size());
  const std::string descr =
      array.dtype() == DType::kString ? concat("<U", longest) : std::string(descr_of(array.dtype()));
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (";
  for (size_t i = 0; i < array.sizes().size(); ++i) header += (i ? ", " : "") + std::to_string(array.sizes()[i]);
  header += array.dim() == 1 ? ",), }" : "), }";
  // The data starts at a multiple of 64, as in NumPy's own files.
  header.append((64 - (10 + header.size() + 1) % 64) % 64, ' ');
  header += '\n';
  Bytes out;
  out.reserve(10 + header.size() + array.nbytes());
  append(out, bytes_of(kMagic));
  append_number(out, uint8_t{1});
  append_number(out, uint8_t{0});
  append_number(out, static_cast<uint16_t>(header.size()));
  append(out, bytes_of(header));
  if (array.dtype() != DType::kString) append(out, {array.raw(), array.nbytes()});
  for (std::u32string& text : texts) {
    text.resize(longest, U'\0');
    append(out, std::as_bytes(std::span(text)));
  }
  return out;
}

std::vector<NamedArray> open_npz(std::shared_ptr<const ByteSource> source, const std::string& what) {
  const ZipReader archive(source, what);
  std::vector<NamedArray> out;
  for (const ZipEntry& entry : archive.entries()) {
    QDQ_CHECK(entry.name.ends_with(".npy"), kBadFile, what, ": the member '", entry.name,
              "' is not a .npy file, as all of a .npz file are");
    std::string name = what + ": " + entry.name;
    const bool is_stored = entry.method == 0;
    const std::shared_ptr<const ByteSource> from =
        is_stored ? source : std::make_shared<MemorySource>(archive.read(entry));
    const uint64_t offset = is_stored ? archive.offset_of_stored(entry) : 0;
    out.push_back({entry.name.substr(0, entry.name.size() - 4), NpyReader(from, offset, entry.size, std::move(name))});
  }
  return out;
}

std::vector<NamedTensor> read_npz(ByteSpan bytes, const std::string& what) {
  std::vector<NamedTensor> out;
  for (const NamedArray& one : open_npz(std::make_shared<MemorySource>(bytes), what))
    out.push_back({one.name, one.array.read()});
  return out;
}

Bytes write_npz(std::span<const NamedTensor> arrays) {
  ZipWriter writer;
  for (const NamedTensor& array : arrays) writer.add(array.name + ".npy", write_npy(array.tensor));
  return writer.finish();
}

}  // namespace qdq::format
