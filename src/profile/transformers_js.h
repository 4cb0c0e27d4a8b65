// The files that transformers.js finds by its `dtype`, all made from one float model.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/json.h"
#include "graph/program.h"
#include "io/onnx.h"

namespace qdq {

struct TransformersJsFile {
  std::string_view dtype;   // "q8"
  std::string_view suffix;  // of its name: "_quantized"
  format::Json recipe;      // that makes it, as parse_recipe reads it; null: none, nothing is quantized
  OnnxOptions onnx;         // how it is written
};

// fp32, fp16, q8, int8, uint8, q4, q4f16, bnb4: DEFAULT_DTYPE_SUFFIX_MAPPING of src/utils/dtypes.js in
// github.com/huggingface/transformers.js, but for the dtypes of 1 and 2 bits.
std::vector<std::string> transformers_js_dtypes();

// The file of a dtype, with the recipe of that project's former scripts/quantize.py, bettered: weights of 8 bits have a
// scale for each channel, those of 4 bits (blocks of 32, symmetric) that with the least error. q8 is uint8 where the
// model has convolutions, attention of com.microsoft or both, else int8. Throws Error{kInvalidArgument} that lists the
// names.
TransformersJsFile transformers_js_file(const Program& program, std::string_view dtype);

// "onnx/model_q4f16.onnx" in the model's folder. Throws Error{kInvalidArgument} for a name that is no file's or has the
// ending.
std::string transformers_js_path(const TransformersJsFile& file, const std::string& model_file_name);

// {dtype, path, recipe, onnx: {...}} as data.
format::Json transformers_js_report(const TransformersJsFile& file, const std::string& model_file_name);

}  // namespace qdq
