// The files of torch.save: a zip archive with a pickle of named tensors and the bytes of their storages.
#pragma once

#include <string>
#include <vector>

#include "format/parts.h"
#include "format/source.h"
#include "format/zip.h"
#include "tensor/tensor.h"

namespace qdq::format {

struct TorchTensor {
  std::string name;
  Tensor tensor;
  bool is_parameter = false;
  bool requires_grad = false;
};

// The tensors of a torch.save file, in order. The pickle may hold a tensor (name ""), or dictionaries, OrderedDicts,
// lists and tuples of them, nested; names are joined by dots ("encoder.0.weight"). Tensors that share a storage in the
// file share it here. Nothing that the pickle names is executed.
// Storages are read one after the other, straight into their places.
// Throws Error{kBadFile} if the archive, the pickle or a tensor's place in its storage is wrong, Error{kUnsupported} if
// the pickle names anything that a dictionary of dense tensors does not need ("os.system"), holds other values, or if
// the file is big endian, a TorchScript archive or of the format before PyTorch 1.6.
// `is_verified` as ZipReader has it.
std::vector<TorchTensor> read_torch_file(ByteSpan bytes, const std::string& what = "the torch.save file",
                                         bool is_verified = false);
std::vector<TorchTensor> read_torch_file(std::shared_ptr<const ByteSource> source, const std::string& what,
                                         bool is_verified);

// A torch.save file with a dictionary of the tensors that torch.load(..., weights_only=True) reads. Storages are
// written once, whole, at multiples of 64 bytes; equal input gives equal bytes. Throws Error{kInvalidArgument} if a
// name stands twice.
Bytes write_torch_file(std::span<const TorchTensor> tensors);
// The same; storages stay where they are, and must not change before it is written.
Parts torch_file_parts(std::span<const TorchTensor> tensors);

// The bytes of a member as a storage, as the archive layout of newer PyTorch keeps its weights; those of bools become 0
// or 1.
std::shared_ptr<Storage> read_storage(const ZipReader& archive, const ZipEntry& entry, bool are_bools);

}  // namespace qdq::format
