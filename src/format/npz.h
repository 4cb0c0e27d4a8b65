// NumPy's files: .npy holds one array, .npz is a zip archive of them.
#pragma once

#include <string>
#include <vector>

#include "format/bytes.h"
#include "tensor/tensor.h"

namespace qdq::format {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

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
