// Data of a small program in memory, and what is said of it where it is refused.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "data/data.h"
#include "format/npz.h"
#include "unit/memory_files.h"

namespace qdq {

// A program of inputs x: f32 [s0, 2] and, if wanted, ids: s64 [s0, 3].
inline Program program_with(SymInt batch, bool second = false) {
  Program program;
  Node* x = program.graph->create(Node::Op::kPlaceholder, "x");
  x->meta.val = {TensorMeta{DType::kF32, {batch, 2}, {}, false}};
  if (second)
    program.graph->create(Node::Op::kPlaceholder, "ids")->meta.val = {TensorMeta{DType::kS64, {batch, 3}, {}, false}};
  program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{Argument(x)})});
  return program;
}

inline Tensor counting(const Shape& shape, DType dtype = DType::kF32) {
  const Tensor out = Tensor::empty(shape, DType::kF32);
  float value = 0;
  for (float& element : out.span<float>()) element = value++;
  return out.to(dtype);
}

// A 2x1 BMP: a red and a blue pixel.
inline std::string bmp() {
  std::string out("BM\x3e\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x02\0\0\0\x01\0\0\0\x01\0\x18\0\0\0\0\0\x08\0\0\0", 38);
  out += std::string(16, '\0') + std::string("\0\0\xff\xff\0\0\0\0", 8);
  return out;
}

inline std::vector<std::string> files_of(const Data& data) {
  std::vector<std::string> files;
  for (int64_t i = 0; i < data.num_samples(); ++i) files.push_back(data.file_of(i));
  return files;
}

inline Program image_program() {
  Program program;
  Node* x = program.graph->create(Node::Op::kPlaceholder, "x");
  x->meta.val = {TensorMeta{DType::kF32, {SymInt::symbol("s0"), 3, 1, 2}, {}, false}};
  program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{Argument(x)})});
  return program;
}

struct DataTest : testing::Test {
  void save(const std::string& path, const std::vector<format::NamedTensor>& arrays) {
    files.contents[path] = format::write_npz(arrays);
  }
  std::unique_ptr<Data> open(const std::string& path, const Program& program, DataOptions options = {}) {
    return open_data(path, program, options, files);
  }
  std::string refusal(const std::string& path, const Program& program, DataOptions options = {}) {
    try {
      open(path, program, options)->batch(0);
    } catch (const Error& error) {
      return error.message;
    }
    return "";
  }
  std::string refusal_of_labels(const std::string& path, const Data& data, Classes& classes) {
    try {
      read_labels(path, data, classes, files);
    } catch (const Error& error) {
      return error.message;
    }
    return "";
  }
  MemoryFiles files;
};

}  // namespace qdq
