// The members of a .pt2 archive, whatever its layout: the program as JSON and the tensors by name.
#pragma once

#include <string>
#include <unordered_map>

#include "format/torch_file.h"
#include "io/place.h"

namespace qdq {

struct Pt2Archive {
  std::string program_name;  // "serialized_exported_program.json", for errors
  Place::Json program;
  std::unordered_map<std::string, format::TorchTensor> state, constants;  // persistent tensors; the others
};

// Throws Error{kBadFile} or Error{kUnsupported} naming the member that is missing or damaged.
Pt2Archive read_pt2_archive(std::shared_ptr<const format::ByteSource> source);

// The names of the single-program layout.
inline constexpr std::string_view kProgramMember = "serialized_exported_program.json",
                                  kStateMember = "serialized_state_dict.pt",
                                  kConstantsMember = "serialized_constants.pt",
                                  kExampleInputsMember = "serialized_example_inputs.pt", kVersionMember = "version";
// The schema (torch/_export/serde/schema.py) that is read, and its minor version that is written: that of PyTorch 2.6.
inline constexpr int64_t kSchemaMajor = 8, kSchemaMinor = 2;

}  // namespace qdq
