// NumPy's files: .npy holds one array, .npz is a zip archive of them.
#pragma once

#include <string>
#include <vector>

#include "format/source.h"
#include "tensor/tensor.h"

namespace qdq::format {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// An array in a .npy file, read part by part; a whole one if its file is in Fortran order or holds texts.
class NpyReader {
 public:
  // `size` bytes of the source from `offset` on are the file. `what` names it in errors: "calib.npz: b0_i0.npy".
  // Throws as read_npy does.
  NpyReader(std::shared_ptr<const ByteSource> source, uint64_t offset, uint64_t size, std::string what);

  DType dtype() const { return dtype_; }
  const Shape& sizes() const { return sizes_; }
  int64_t size(int64_t axis) const { return sizes_[static_cast<size_t>(axis)]; }
  int64_t dim() const { return static_cast<int64_t>(sizes_.size()); }
  // The whole array, or the part of it from `begin` to `end` along the first axis, in C order with bytes of its own.
  Tensor read() const;
  Tensor rows(int64_t begin, int64_t end) const;

 private:
  Tensor whole() const;
  std::shared_ptr<const ByteSource> source_;
  uint64_t data_offset_ = 0, data_size_ = 0;
  std::string what_, descr_;
  DType dtype_ = DType::kF32;
  Shape sizes_;
  size_t element_ = 0;
  bool is_fortran_ = false;
  mutable Tensor whole_;  // once it was read
};

struct NamedArray {
  std::string name;
  NpyReader array;
};
// The arrays of a .npz file, to be read part by part where they are stored without compression. Throws as read_npz.
std::vector<NamedArray> open_npz(std::shared_ptr<const ByteSource> source, const std::string& what = "the .npz file");

// The array of a .npy file (format versions 1.0, 2.0, 3.0) as a tensor in C order with bytes of its own; Fortran order
// is turned into C order. `what` names the bytes in errors: "calib.npz: b0_i0.npy".
// Throws Error{kBadFile} if the bytes are not such a file or their length does not fit the shape, Error{kUnsupported}
// for element types that Tensor does not have (big endian, uint32, uint64, complex, objects, structures). Texts, '<U'
// and '|S' in UTF-8, become strings.
Tensor read_npy(ByteSpan bytes, const std::string& what = "the .npy file");

// A .npy file of version 1.0 in C order. bfloat16, which NumPy does not have, is written as float32 (exact), strings as
// '<U' of the longest.
Bytes write_npy(const Tensor& tensor);

// The arrays of a .npz file in its order; names without ".npy". Members of other kinds are refused with
// Error{kBadFile}.
std::vector<NamedTensor> read_npz(ByteSpan bytes, const std::string& what = "the .npz file");

// A .npz file of stored members. Equal input gives equal bytes.
Bytes write_npz(std::span<const NamedTensor> arrays);

}  // namespace qdq::format
