// ONNX operators over images and other grids: pools, resizing.
#include <algorithm>
#include <cmath>
#include <limits>

#include "io/onnx/import.h"
#include "io/onnx/window.h"

namespace qdq {
namespace {

void max_pool(OnnxCall& call) {
  if (call.has_output(1)) call.refuse("gives indices too, which qdq does not read");
  OnnxWindow window = window_of(call, call.integers("kernel_shape", {}));
  Node* input = padded_input(call, window, -std::numeric_limits<double>::infinity());
  call.set(call.call(with_axes("max_pool", window.kernel.size()),
                     {input, call.list(window.kernel), call.list(window.strides), call.list(window.begin),
                      call.list(window.dilations), call.integer("ceil_mode", 0) != 0}));
}

void average_pool(OnnxCall& call) {
  OnnxWindow window = window_of(call, call.integers("kernel_shape", {}));
  const bool counts = call.integer("count_include_pad", 0) != 0, ceils = call.integer("ceil_mode", 0) != 0;
  if (std::any_of(window.dilations.begin(), window.dilations.end(), [](int64_t d) { return d != 1; }))
    call.refuse("has dilations");
  if (!is_symmetric(window) && !counts)
    call.refuse("pads both sides differently and does not count the padding, which aten.avg_pool cannot");
  // Without padding there is none to count, and PyTorch's default says that it counts.
  const bool include = counts || (!is_padded(window) && !ceils);
  Node* input = padded_input(call, window, 0);
  call.set(
      call.call(with_axes("avg_pool", window.kernel.size()),
                {input, call.list(window.kernel), call.list(window.strides), call.list(window.begin), ceils, include}));
}

void global_average_pool(OnnxCall& call) {
  const size_t axes = call.rank(0) - 2;
  if (axes < 1 || axes > 3) call.refuse("has an input of ", axes + 2, " axes, wanted 3 to 5");
  call.set(call.call(with_axes("adaptive_avg_pool", axes), {call.tensor(0), call.list(std::vector<int64_t>(axes, 1))}));
}

void global_max_pool(OnnxCall& call) {
  Argument::List axes;
  for (size_t i = 2; i < call.rank(0); ++i) axes.emplace_back(static_cast<int64_t>(i));
  call.set(call.call("amax.default", {call.tensor(0), Argument(std::move(axes)), true}));
}

// By scale factors or sizes along the last one or two axes.
void resize(OnnxCall& call) {
  const size_t rank = call.rank(0), axes = rank - 2;
  const std::string mode = call.text("mode", "nearest"),
                    place = call.text("coordinate_transformation_mode", "half_pixel");
  const bool aligned = place == "align_corners", half_pixel = place == "half_pixel" || place == "pytorch_half_pixel";
  std::string target;
  if (mode == "nearest" && place == "asymmetric" && call.text("nearest_mode", "round_prefer_floor") == "floor")
    target = "upsample_nearest";
  else if (mode == "linear" && (aligned || half_pixel)) target = axes == 1 ? "upsample_linear" : "upsample_bilinear";
  else if (mode == "cubic" && axes == 2 && (aligned || half_pixel) &&
           std::fabs(call.real("cubic_coeff_a", -0.75) + 0.75) < 1e-6)
    target = "upsample_bicubic";
  if (target.empty() || axes < 1 || axes > 2 || call.attribute("axes") || call.integer("antialias", 0) != 0 ||
      call.integer("exclude_outside", 0) != 0 || call.text("keep_aspect_ratio_policy", "stretch") != "stretch")
    call.refuse("has the mode ", mode, " with ", place, " for ", rank, " axes, which aten.upsample cannot");
  const bool by_size = call.has(3);
  Argument::List sizes, factors;
  if (by_size) {
    const std::vector<SymInt> wanted = call.sizes(3);
    for (size_t i = 2; i < wanted.size(); ++i) sizes.push_back(call.import().size_argument(wanted[i]));
  } else {
    const Tensor scales = call.wanted_constant(2).to(DType::kF32).contiguous();
    for (int64_t i = 2; i < scales.numel(); ++i) factors.emplace_back(static_cast<double>(scales.data<float>()[i]));
    if (scales.numel() > 1 && (scales.data<float>()[0] != 1 || scales.data<float>()[1] != 1))
      call.refuse("resizes the batch or the channels");
  }
  if ((by_size ? sizes : factors).size() != axes) call.refuse("has sizes or scales for another number of axes");
  std::vector<Argument> args = {call.tensor(0), by_size ? Argument(std::move(sizes)) : Argument()};
  if (mode != "nearest") args.emplace_back(aligned);
  args.push_back(by_size ? Argument() : Argument(std::move(factors)));
  call.set(call.call(with_axes(target.c_str(), axes, "vec"), args));
}

constexpr OnnxOperator kOperators[] = {
    {"AveragePool", average_pool, nullptr},
    {"GlobalAveragePool", global_average_pool, nullptr},
    {"GlobalMaxPool", global_max_pool, nullptr},
    {"MaxPool", max_pool, nullptr},
    {"Resize", resize, nullptr},
};

}  // namespace

std::span<const OnnxOperator> onnx_image_operators() { return kOperators; }

}  // namespace qdq
