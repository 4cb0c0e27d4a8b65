#include "io/onnx/window.h"

#include <algorithm>

namespace qdq {

bool is_symmetric(const OnnxWindow& window) { return window.begin == window.end; }

bool is_padded(const OnnxWindow& window) {
  const auto any = [](const std::vector<int64_t>& pads) {
    return std::any_of(pads.begin(), pads.end(), [](int64_t pad) { return pad != 0; });
  };
  return any(window.begin) || any(window.end);
}

OnnxWindow window_of(OnnxCall& call, const std::vector<int64_t>& kernel) {
  const size_t axes = kernel.size();
  if (axes < 1 || axes > 3) call.refuse("has a window of ", axes, " axes, wanted 1 to 3");
  OnnxWindow out;
  out.kernel = kernel;
  out.strides = call.integers("strides", std::vector<int64_t>(axes, 1));
  out.dilations = call.integers("dilations", std::vector<int64_t>(axes, 1));
  const std::vector<int64_t> pads = call.integers("pads", std::vector<int64_t>(2 * axes, 0));
  const std::string automatic = call.text("auto_pad", "NOTSET");
  if (call.rank(0) != axes + 2 || out.strides.size() != axes || out.dilations.size() != axes || pads.size() != 2 * axes)
    call.refuse("has a window of ", axes, " axes, but strides, dilations, pads or an input of another number");
  for (size_t i = 0; i < axes; ++i)
    for (const int64_t each : {out.strides[i], out.dilations[i], kernel[i]})
      if (each < 1 || each > INT32_MAX)
        call.refuse("has the stride, dilation or window ", each, ", wanted 1 to ", INT32_MAX);
  out.begin.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(axes));
  out.end.assign(pads.begin() + static_cast<std::ptrdiff_t>(axes), pads.end());
  if (automatic == "VALID") {
    out.begin.assign(axes, 0);
    out.end = out.begin;
  } else if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    for (size_t i = 0; i < axes; ++i) {
      const int64_t reach = (kernel[i] - 1) * out.dilations[i];
      int64_t rest = out.strides[i];
      if (rest > 1) {
        const auto size = call.meta(0).sizes[i + 2].constant();
        if (!size) call.refuse("pads automatically along an axis whose size is open; export it with a fixed size");
        rest = *size % out.strides[i] == 0 ? out.strides[i] : *size % out.strides[i];
      }
      const int64_t total = std::max<int64_t>(0, reach + 1 - rest);
      out.begin[i] = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      out.end[i] = total - out.begin[i];
    }
  } else if (automatic != "NOTSET") {
    call.refuse("has auto_pad ", automatic, ", wanted NOTSET, VALID, SAME_UPPER or SAME_LOWER");
  }
  return out;
}

Node* padded_input(OnnxCall& call, OnnxWindow& window, double value) {
  Node* input = call.tensor(0);
  if (is_symmetric(window)) return input;
  Argument::List pads;
  for (size_t i = window.begin.size(); i-- > 0;) {
    pads.emplace_back(window.begin[i]);
    pads.emplace_back(window.end[i]);
  }
  window.begin.assign(window.begin.size(), 0);
  window.end = window.begin;
  std::vector<Argument> args = {input, Argument(std::move(pads))};
  if (value != 0) return call.call("pad.default", {args, "constant", value});
  return call.call("pad.default", args);
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
