#include "format/file_kind.h"

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "format/bytes.h"

namespace qdq::format {

std::string kind_of_file(const ByteSource& source) { return kind_of_file(source, 0, source.size()); }

std::string kind_of_file(const ByteSource& source, uint64_t offset, uint64_t size) {
  constexpr uint64_t kHead = 264;
  constexpr size_t kShown = 16, kShownBytes = 4;
  if (size == 0) return "it is empty";
  const ByteData data = source.read(offset, std::min(size, kHead));
  const std::string_view head = text_of(data.bytes());
  struct Kind {
    std::string_view signature, name;
    size_t at = 0;
  };
  static constexpr Kind kKinds[] = {{"\x93NUMPY", "a .npy file"},
                                    {"PK\3\4", "a zip archive, as .npz and .pt2 files are"},
                                    {"PK\5\6", "a zip archive without files"},
                                    // Behind the length of its header, in eight bytes.
                                    {{"\0\0{\"", 4}, "a file of safetensors, which holds weights without a graph", 6},
                                    {"GGUF", "a file of GGUF, which holds weights without a graph"},
                                    {"TFL3", "a file of TensorFlow Lite, which tf2onnx --tflite converts to ONNX", 4},
                                    {"ORTM", "a model in ONNX Runtime's own format (.ort)", 4},
                                    {"\x80", "a pickle"},
                                    {"\x89PNG", "a PNG image"},
                                    {"\xFF\xD8\xFF", "a JPEG image"},
                                    {"BM", "a BMP image"},
                                    {"\x89HDF", "an HDF5 file"},
                                    {"\x1F\x8B", "compressed by gzip"},
                                    {"version https://git-lfs", "a pointer of Git LFS, whose file was not fetched"},
                                    {"<", "a text of HTML or XML"},
                                    {"ustar", "a tar archive", 257}};
  for (const Kind& kind : kKinds)
    if (head.size() > kind.at && head.substr(kind.at).starts_with(kind.signature)) return concat("it is ", kind.name);
  const std::string_view line = head.substr(0, std::min(head.find_first_of("\r\n"), kShown));
  if (!line.empty() && std::all_of(line.begin(), line.end(), [](char c) { return c >= ' ' && c <= '~'; }))
    return concat("it is a text that begins with \"", line, "\"");
  std::string out = "it begins with the bytes";
  for (const std::byte byte : data.bytes().first(std::min(head.size(), kShownBytes))) {
    char text[8];
    std::snprintf(text, sizeof text, " %02x", std::to_integer<unsigned>(byte));
    out += text;
  }
  return out;
}

}  // namespace qdq::format
