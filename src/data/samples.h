// What the kinds of data have in common.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/data.h"
#include "format/image.h"
#include "format/source.h"

namespace qdq {

struct Input {
  std::string name;
  const TensorMeta* meta;
  std::string onnx_name;  // what the ONNX file calls it: "past_key_values.0.key" of past_key_values_0_key

  // The name that a person knows it by.
  const std::string& shown() const { return onnx_name.empty() ? name : onnx_name; }
  // Whether it is an image without an axis in front for batches, as detectors of torchvision take it: three axes, of
  // which the first has as many elements as an image has channels.
  bool is_one_image() const;
  // How many samples each batch has, if the program fixes it.
  std::optional<int64_t> fixed_batch() const;
};

std::string names_of(const std::vector<Input>& inputs);

// How images become inputs, and the JSON that says so.
struct ReadPreprocess {
  format::Preprocess how;
  std::string text;
};
ReadPreprocess read_preprocess(const std::string& path, Files& files);

// Arrays in the bytes of an .npz or an .npy. `path` names them in errors.
std::unique_ptr<Data> open_arrays(std::shared_ptr<const format::ByteSource> source, bool is_npz,
                                  const std::vector<Input>& inputs, const DataOptions& options, const std::string& path,
                                  Files& files);

// Images in a folder or a .tar.
std::unique_ptr<Data> open_images(const std::string& path, const std::vector<Input>& inputs, const DataOptions& options,
                                  Files& files);

}  // namespace qdq
