// The report of a quantization: errors by layer, calibration, and its HTML file.
#include "cli/quantization_report.h"

#include <algorithm>
#include <cmath>

#include "cli/report.h"
#include "cli/report/template.h"
#include "kernel/difference.h"
#include "quant/explain.h"

namespace qdq {

using format::Json;
using format::json_object;

namespace {

const Node* user_with(const Node& node, std::string_view front) {
  for (const Node* user : node.users())
    if (user->target().starts_with(front)) return user;
  return nullptr;
}

// Where the quantized program has the value that it goes on with in place of the node's: behind the quantize/dequantize pair.
const Node* continued_at(const Node& node) {
  const Node* quantize = user_with(node, "torch.ops.quantized_decomposed.quantize_per_");
  return quantize ? user_with(*quantize, "torch.ops.quantized_decomposed.dequantize_per_") : nullptr;
}

Json covers_json(const ObserverGroup& group) {
  Json out = Json::array();
  for (const EdgeOrNode& place : group.covers) {
    if (const Edge* edge = std::get_if<Edge>(&place)) out.push_back({edge->first->name(), edge->second->name()});
    else out.push_back({std::get<Node*>(place)->name()});
  }
  return out;
}

// The limits of what the integers of a scale and zero point can hold, with the half step that still rounds to them.
std::pair<double, double> reach(const Observer& observer, double scale, double zero_point) {
  const auto low = static_cast<double>(observer.quant_min()), high = static_cast<double>(observer.quant_max());
  return {(low - zero_point - 0.5) * scale, (high - zero_point + 0.5) * scale};
}

void add_counts(Json& out, const Tensor& histogram, double min, double max, double low, double high, int64_t bins) {
  const Tensor flat = histogram.to(DType::kF64).contiguous();
  const std::span<const double> counts = flat.span<double>();
  if (counts.empty()) return;
  std::vector<double> sums(static_cast<size_t>(std::min<int64_t>(bins, static_cast<int64_t>(counts.size()))));
  double total = 0, outside = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double middle = min + (max - min) * (static_cast<double>(i) + 0.5) / static_cast<double>(counts.size());
    sums[i * sums.size() / counts.size()] += counts[i];
    total += counts[i];
    if (middle < low || middle > high) outside += counts[i];
  }
  out["counts"] = sums;
  if (total > 0) out["clipped"] = outside / total;
}

Json observer_json(const ObserverGroup& group, int64_t bins) {
  const Observer& observer = *group.observer;
  Json out = json_object({{"class", observer.class_name()},
                          {"dtype", to_string(observer.args().dtype)},
                          {"qscheme", to_string(observer.args().qscheme)},
                          {"quant_min", observer.quant_min()},
                          {"quant_max", observer.quant_max()},
                          {"covers", covers_json(group)}});
  const auto all = [](const Tensor& tensor) {
    if (!tensor.defined()) return std::vector<double>{};
    const Tensor flat = tensor.to(DType::kF64).contiguous();
    return std::vector<double>(flat.span<double>().begin(), flat.span<double>().end());
  };
  const std::vector<double> mins = all(observer.min_val()), maxs = all(observer.max_val());
  const double min = mins.empty() ? INFINITY : *std::min_element(mins.begin(), mins.end());
  const double max = maxs.empty() ? -INFINITY : *std::max_element(maxs.begin(), maxs.end());
  if (std::isfinite(min) && std::isfinite(max)) {
    out["min"] = min;
    out["max"] = max;
  }
  out["channels"] = std::max<size_t>(1, mins.size());
  if (!observer.calibrated()) return out;
  QParams qparams;
  try {
    qparams = observer.calculate_qparams();
  } catch (const Error&) {
    return out;  // a class without qparams, or a range that holds NaN, which convert refuses with the reason
  }
  double low = INFINITY, high = -INFINITY;
  for (size_t i = 0; i < qparams.scale.size() && i < qparams.zero_point.size(); ++i) {
    const auto [a, b] = reach(observer, qparams.scale[i], static_cast<double>(qparams.zero_point[i]));
    low = std::min(low, a);
    high = std::max(high, b);
  }
  if (!std::isfinite(low) || !std::isfinite(high)) return out;
  out["low"] = low;
  out["high"] = high;
  if (qparams.scale.size() == 1) {
    out["scale"] = qparams.scale[0];
    out["zero_point"] = qparams.zero_point[0];
  }
  if (out.contains("min") && observer.histogram().defined()) add_counts(out, observer.histogram(), min, max, low, high, bins);
  return out;
}

}  // namespace

LayerErrors::LayerErrors(const Prepared& prepared, const Program& converted)
    : float_(prepared.program().clone()), quantized_(converted.clone()), backend_(make_simd_backend()) {
  std::map<std::string_view, const Node*> by_name;
  for (const Node* node : quantized_.graph->nodes())
    if (node->op() == Node::Op::kCallFunction) by_name[node->name()] = node;
  for (const Node* node : float_.graph->nodes()) {
    const TensorMeta* value = node->meta.val.tensor();
    const auto other = by_name.find(node->name());
    if (node->op() != Node::Op::kCallFunction || !value || !is_floating(value->dtype) || other == by_name.end()) continue;
    const Node* behind = continued_at(*other->second);
    in_float_[node] = layers_.size();
    in_quantized_[behind ? behind : other->second] = layers_.size();
    layers_.push_back({node->name(), node->meta.module_path().value_or(""), std::string(short_target(node->target())), behind != nullptr});
  }
}

void LayerErrors::add(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> values(layers_.size());
  Interpreter floats(float_, {backend_.get()});
  floats.set_module_handler([](const Node&, std::span<const Value> args) { return args[0]; });
  floats.set_node_hook([&](const Node& node, const Value& value) {
    const auto layer = in_float_.find(&node);
    const Tensor* tensor = value.get_if<Tensor>();
    // Operators behind may write into the value.
    if (layer != in_float_.end() && tensor) values[layer->second] = tensor->to(DType::kF32).clone();
  });
  floats.run(inputs);
  Interpreter integers(quantized_, {backend_.get()});
  integers.set_node_hook([&](const Node& node, const Value& value) {
    const auto found = in_quantized_.find(&node);
    const Tensor* tensor = value.get_if<Tensor>();
    if (found == in_quantized_.end() || !tensor) return;
    const Tensor x = values[found->second], y = tensor->to(DType::kF32).contiguous();
    values[found->second] = {};
    if (!x.defined() || x.sizes() != y.sizes()) return;
    const Tensor flat = x.contiguous();
    const std::span<const float> a = flat.span<float>(), b = y.span<float>();
    Layer& layer = layers_[found->second];
    const auto [signal, noise] = kernel::difference_f32(a.data(), b.data(), static_cast<int64_t>(a.size()));
    layer.signal += signal;
    layer.noise += noise;
    layer.elements += static_cast<double>(a.size());
  });
  integers.run(inputs);
}

Json LayerErrors::json() const {
  std::vector<const Layer*> sorted;
  for (const Layer& layer : layers_)
    if (layer.elements > 0) sorted.push_back(&layer);
  // Without multiplying out, since a value may be all zeros: noise / signal, where nothing over nothing is no error.
  const auto share = [](const Layer* layer) { return layer->noise == 0 ? 0 : layer->signal == 0 ? INFINITY : layer->noise / layer->signal; };
  std::stable_sort(sorted.begin(), sorted.end(), [&](const Layer* a, const Layer* b) { return share(a) > share(b); });
  Json out = Json::array();
  for (const Layer* layer : sorted) {
    Json entry = json_object({{"node", layer->node},
                              {"module", layer->module},
                              {"op", layer->op},
                              {"mse", format::json_of_number(layer->noise / layer->elements)},
                              {"quantized", layer->quantized}});
    entry["sqnr_db"] = layer->noise == 0 || layer->signal == 0 ? Json() : format::json_of_number(10 * std::log10(layer->signal / layer->noise));
    out.push_back(std::move(entry));
  }
  return out;
}

Json calibration_report(const Prepared& prepared, int64_t bins) {
  Json out = Json::array();
  for (const ObserverGroup& group : prepared.observers()) {
    Json entry = observer_json(group, bins);
    entry["id"] = out.size();
    out.push_back(std::move(entry));
  }
  return out;
}

Json converted_qparams_report(const Program& converted) {
  Json out = Json::array();
  for (const QuantizedValue& value : quantized_values(converted)) {
    Json entry = json_object({{"of", value.of},
                              {"by", Json::array()},
                              {"dtype", to_string(value.dtype)},
                              {"quant_min", value.quant_min},
                              {"quant_max", value.quant_max},
                              {"channels", value.scale.size()},
                              {"scale", Json::array()},
                              {"zero_point", Json::array()}});
    // The dequantize of a folded weight stands alone; else its users are pairs of quantize and dequantize.
    if (value.quantize->target().find(".dequantize_per_") != std::string::npos)
      for (const Node* user : value.quantize->users()) entry["by"].push_back(user->name());
    if (!value.scale.empty()) {
      const auto [least, most] = std::minmax_element(value.scale.begin(), value.scale.end());
      entry["scale"].push_back(format::json_of_number(*least));
      if (value.scale.size() > 1) entry["scale"].push_back(format::json_of_number(*most));
    }
    if (!value.zero_point.empty()) entry["zero_point"].push_back(value.zero_point[0]);
    out.push_back(std::move(entry));
  }
  return out;
}

int64_t count_layers(const Program& program) {
  int64_t count = 0;
  for (const Node* node : program.graph->nodes()) count += !operands_to_quantize(*node).empty();
  return count;
}

Json quantization_report(const Prepared& prepared, const Program& converted) {
  Json out = explanation_report(prepared);
  const std::vector<LeftInFloat> left = left_in_float(prepared, converted);
  const int64_t layers = count_layers(prepared.program());
  out["layers"] = json_object({{"total", layers}, {"quantized", layers - static_cast<int64_t>(left.size())}});
  out["left"] = Json::array();
  for (const LeftInFloat& node : left)
    out["left"].push_back(json_object({{"node", node.node}, {"module", node.module}, {"op", node.op}, {"reason", node.reason}}));
  out["observers"] = calibration_report(prepared);
  out["qparams"] = converted_qparams_report(converted);
  return out;
}

std::string report_html(const Json& report) {
  constexpr std::string_view kPlace = "{\"here\": \"the report\"}";
  std::string data;
  // "</script>" inside of a string would end the element that holds the data.
  for (const char c : format::print_json(report)) data += c == '<' ? std::string("\\u003c") : std::string(1, c);
  std::string out(report_template());
  const size_t at = out.find(kPlace);
  QDQ_CHECK(at != std::string::npos, kInternal, "the template of the report has no place for its data");
  return out.replace(at, kPlace.size(), data);
}

}  // namespace qdq
