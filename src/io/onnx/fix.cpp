// Inputs and open sizes of an ONNX model that become constants before it is read.
#include "io/onnx/fix.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"

namespace qdq {

using format::OnnxDimension;
using format::OnnxFile;
using format::OnnxValueInfo;

namespace {

// A constant of the input's data type and sizes, every element of which is `value`.
Tensor constant_for(const OnnxValueInfo& input, double value) {
  QDQ_CHECK(input.type == OnnxValueInfo::Type::kTensor && input.dtype && input.dims && *input.dtype != DType::kString,
            kInvalidArgument, "the input ", input.name,
            " of the ONNX model is not a tensor of numbers and cannot be fixed");
  Shape sizes;
  for (const OnnxDimension& size : *input.dims) {
    QDQ_CHECK(size.value.value_or(-1) >= 0, kInvalidArgument, "the input ", input.name,
              " of the ONNX model has an open size and cannot be fixed; fix its size first",
              size.param.empty() ? std::string() : concat(": ", size.param, "=1"));
    sizes.push_back(*size.value);
  }
  const bool is_kept = is_floating(*input.dtype) || Tensor::full({}, *input.dtype, value).item() == value;
  QDQ_CHECK(is_kept, kInvalidArgument, "the input ", input.name, " of the ONNX model is ", to_string(*input.dtype),
            ", which cannot hold ", value);
  return Tensor::full(sizes, *input.dtype, value);
}

bool fix_size(format::OnnxGraph& graph, const std::string& name, int64_t size) {
  bool is_found = false;
  for (auto* infos : {&graph.inputs, &graph.outputs, &graph.values})
    for (OnnxValueInfo& info : *infos) {
      if (!info.dims) continue;
      for (OnnxDimension& dimension : *info.dims) {
        if (dimension.value.value_or(-1) >= 0 || dimension.param != name) continue;
        dimension = {size, ""};
        is_found = true;
      }
    }
  return is_found;
}

std::string names_of(const OnnxFile& file) {
  std::set<std::string> sizes;
  std::string out = "its inputs are ";
  for (size_t i = 0; i < file.inputs.size(); ++i) {
    out += (i ? ", " : "") + file.inputs[i].name;
    if (!file.inputs[i].dims) continue;
    for (const OnnxDimension& size : *file.inputs[i].dims)
      if (size.value.value_or(-1) < 0 && !size.param.empty()) sizes.insert(size.param);
  }
  if (sizes.empty()) return out + "; no open size has a name";
  out += "; its open sizes are ";
  for (const std::string& name : sizes) out += (name == *sizes.begin() ? "" : ", ") + name;
  return out;
}

OnnxValueInfo* find_input(OnnxFile& file, const std::string& name) {
  const auto input = std::find_if(file.inputs.begin(), file.inputs.end(),
                                  [&](const OnnxValueInfo& info) { return info.name == name; });
  return input == file.inputs.end() ? nullptr : &*input;
}

// Gives the open sizes of an input the ones that are wanted, and those of their names the same wherever they stand.
void fix_shape(OnnxFile& file, const std::string& name, const std::vector<int64_t>& sizes) {
  OnnxValueInfo* input = find_input(file, name);
  QDQ_CHECK(input, kInvalidArgument, "the ONNX model has no input ", name, "; ", names_of(file));
  QDQ_CHECK(input->dims && input->dims->size() == sizes.size(), kInvalidArgument, "the input ", name,
            " of the ONNX model has ", input->dims ? input->dims->size() : 0, " axes and cannot have the ",
            sizes.size(), " sizes that are wanted for it");
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    const OnnxDimension now = (*input->dims)[axis];
    const bool is_open = now.value.value_or(-1) < 0;
    QDQ_CHECK(sizes[axis] >= 0 && (is_open || *now.value == sizes[axis]), kInvalidArgument, "the size of axis ", axis,
              " of the ONNX model's input ", name, " is ", is_open ? std::string("open") : concat(*now.value),
              " and cannot be ", sizes[axis]);
    if (is_open && !now.param.empty()) fix_size(file, now.param, sizes[axis]);
    (*input->dims)[axis] = {sizes[axis], ""};
  }
}

}  // namespace

void fix_values(OnnxFile& file, const OnnxFixed& fixed) {
  // Sizes first: an input whose sizes are open can be fixed when those are.
  for (const auto& [name, sizes] : fixed.shapes) fix_shape(file, name, sizes);
  std::set<std::string> found;
  for (const auto& [name, value] : fixed.values) {
    const bool is_size = value >= 0 && value < 0x1p53 && std::floor(value) == value;
    if (is_size && fix_size(file, name, static_cast<int64_t>(value))) found.insert(name);
  }
  for (const auto& [name, value] : fixed.values) {
    const OnnxValueInfo* input = find_input(file, name);
    QDQ_CHECK(input || found.count(name), kInvalidArgument, "the ONNX model has no input and no open size ", name,
              " that could be ", value, "; ", names_of(file));
    QDQ_CHECK(!input || !found.count(name), kInvalidArgument,
              "an input and an open size of the ONNX model are both called ", name,
              ", so it is not clear which of them should be ", value);
    if (!input) continue;
    Tensor constant = constant_for(*input, value);
    std::erase_if(file.initializers, [&](const auto& initializer) { return initializer.first == name; });
    file.initializers.emplace_back(name, std::move(constant));
    file.inputs.erase(file.inputs.begin() + (input - file.inputs.data()));
  }
}

}  // namespace qdq
