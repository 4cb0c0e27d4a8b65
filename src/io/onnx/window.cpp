#include "io/onnx/chains.h"
#include "io/onnx/window.h"

#include <algorithm>

namespace qdq {

int64_t OnnxWindow::taps() const {
  int64_t out = 1;
  for (const int64_t size : kernel) out *= size;
  return out;
}

bool OnnxWindow::is_symmetric() const {
  for (size_t i = 0; i < axes(); ++i)
    if (!begin[i].is_constant() || !(begin[i] == end[i]) || *begin[i].constant() < 0) return false;
  return true;
}

bool OnnxWindow::is_padded() const {
  const auto any = [](const std::vector<SymInt>& pads) {
    return std::any_of(pads.begin(), pads.end(), [](const SymInt& pad) { return !(pad == SymInt(0)); });
  };
  return any(begin) || any(end);
}

std::vector<int64_t> OnnxWindow::padding() const {
  std::vector<int64_t> out;
  for (const SymInt& pad : begin) out.push_back(*pad.constant());
  return out;
}

std::vector<SymInt> sizes_of(OnnxCall& call, Node* node) {
  std::vector<SymInt> out;
  for (size_t i = 0; i < call.meta_of(node).sizes.size(); ++i) out.push_back(size_along(call, node, i));
  return out;
}

Node* item(OnnxCall& call, Node* list, int64_t i) { return call.call("operator.getitem", {list, i}); }

Node* float_constant(OnnxCall& call, const std::string& name, const Shape& sizes, const std::vector<float>& values) {
  return call.import().constant(Tensor::of<float>(sizes, std::span<const float>(values)), name);
}

namespace {

// auto_pad SAME: as many outputs as strides begin within the input.
void pad_to_same(OnnxCall& call, Node* input, OnnxWindow& out, bool upper) {
  for (size_t i = 0; i < out.axes(); ++i) {
    const int64_t reach = out.reach(i), stride = out.strides[i];
    const SymInt size = size_along(call, input, i + 2);
    SymInt total = reach - stride;
    if (reach == 1) {
      total = 0;
    } else if (const auto known = size.constant()) {
      const int64_t rest = *known % stride == 0 ? stride : *known % stride;
      total = std::max<int64_t>(0, reach - rest);
    } else if (stride > 1) {
      if (reach < stride) call.refuse("pads automatically along an axis whose size is open");
      // What the last stride lacks of a whole one, beside what the window reaches further.
      const SymInt strides = divide_sizes(call, add_sizes(call, size, SymInt(stride - 1)), stride);
      const SymInt lack = subtract_sizes(call, multiply_sizes(call, strides, SymInt(stride)), size);
      total = add_sizes(call, lack, SymInt(reach - stride));
    }
    const SymInt half = divide_sizes(call, total, 2), other = subtract_sizes(call, total, half);
    out.begin[i] = upper ? half : other;
    out.end[i] = upper ? other : half;
  }
}

}  // namespace

OnnxWindow window_of(OnnxCall& call, Node* input, const std::vector<int64_t>& kernel) {
  const size_t axes = kernel.size();
  if (axes < 1 || axes > 3) call.refuse("has a window of ", axes, " axes, wanted 1 to 3");
  const std::vector<int64_t> told = call.integers("kernel_shape", kernel);
  if (told != kernel) call.refuse("has the kernel_shape ", to_string(told), " and a weight for ", to_string(kernel));
  OnnxWindow out;
  out.kernel = kernel;
  out.strides = call.integers("strides", std::vector<int64_t>(axes, 1));
  out.dilations = call.integers("dilations", std::vector<int64_t>(axes, 1));
  const std::vector<int64_t> pads = call.integers("pads", std::vector<int64_t>(2 * axes, 0));
  const std::string automatic = call.text("auto_pad", "NOTSET");
  if (call.meta_of(input).sizes.size() != axes + 2 || out.strides.size() != axes || out.dilations.size() != axes ||
      pads.size() != 2 * axes)
    call.refuse("has a window of ", axes, " axes, but strides, dilations, pads or an input of another number");
  for (size_t i = 0; i < axes; ++i)
    for (const int64_t each : {out.strides[i], out.dilations[i], kernel[i]})
      if (each < 1 || each > INT32_MAX)
        call.refuse("has the stride, dilation or window ", each, ", wanted 1 to ", INT32_MAX);
  for (const int64_t pad : pads)
    if (pad < -INT32_MAX || pad > INT32_MAX) call.refuse("has the padding ", pad);
  out.begin.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(axes));
  out.end.assign(pads.begin() + static_cast<std::ptrdiff_t>(axes), pads.end());
  if (automatic == "NOTSET" || automatic.empty()) return out;
  if (automatic != "VALID" && automatic != "SAME_UPPER" && automatic != "SAME_LOWER")
    call.refuse("has auto_pad ", automatic, ", wanted NOTSET, VALID, SAME_UPPER or SAME_LOWER");
  out.begin.assign(axes, 0);
  out.end = out.begin;
  if (automatic != "VALID") pad_to_same(call, input, out, automatic == "SAME_UPPER");
  return out;
}

Node* padded(OnnxCall& call, Node* input, OnnxWindow& window, double value) {
  if (!window.is_padded()) return input;
  std::vector<SymInt> pads;
  for (size_t i = window.axes(); i-- > 0;) {
    pads.push_back(window.begin[i]);
    pads.push_back(window.end[i]);
  }
  window.begin.assign(window.axes(), 0);
  window.end = window.begin;
  std::vector<Argument> args = {input, call.list(pads)};
  if (value != 0) return call.call("pad.default", {args, "constant", value});
  return call.call("pad.default", args);
}

Node* padded_where_uneven(OnnxCall& call, Node* input, OnnxWindow& window, double value) {
  return window.is_symmetric() ? input : padded(call, input, window, value);
}

std::string with_axes(const char* name, size_t axes, const char* overload) {
  return concat(name, axes, "d.", overload);
}

std::vector<int64_t> spatial_sizes(OnnxCall& call, Node* weight) {
  std::vector<int64_t> out;
  const SymShape& sizes = call.meta_of(weight).sizes;
  for (size_t i = 2; i < sizes.size(); ++i) out.push_back(sizes[i].constant().value_or(0));
  return out;
}

}  // namespace qdq
