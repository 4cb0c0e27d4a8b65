// The report of a quantization: what each layer became, calibration, and its HTML file.
#include "report/quantization_report.h"

#include <algorithm>
#include <cmath>

#include "base/listed.h"
#include "format/json.h"
#include "op/facts.h"
#include "quant/explain.h"
#include "quant/observers/observer_statistics.h"
#include "report/explanation_report.h"
#include "report/graph_report.h"
#include "report/html/template.h"

namespace qdq {

using format::Json;
using format::json_object;

namespace {

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

// The counts as `bins` from min to max, and the share of them outside of [low, high].
void add_counts(Json& out, const Observer& observer, double min, double max, double low, double high, int64_t bins) {
  const Tensor flat = observer.histogram().to(DType::kF64).contiguous();
  const FloatRange edges = observer.histogram_range();
  const std::span<const double> counts = flat.span<double>();
  if (counts.empty()) return;
  std::vector<double> sums(static_cast<size_t>(std::min<int64_t>(bins, static_cast<int64_t>(counts.size()))));
  double total = 0, outside = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    const double share = (static_cast<double>(i) + 0.5) / static_cast<double>(counts.size());
    const double middle = edges.min + (static_cast<double>(edges.max) - static_cast<double>(edges.min)) * share;
    const double place = (max > min ? (middle - min) / (max - min) : share) * static_cast<double>(sums.size());
    sums[static_cast<size_t>(std::clamp<double>(place, 0, static_cast<double>(sums.size() - 1)))] += counts[i];
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
                          {"quantMin", observer.quant_min()},
                          {"quantMax", observer.quant_max()},
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
    out["zeroPoint"] = qparams.zero_point[0];
  }
  if (out.contains("min") && observer.histogram().defined()) add_counts(out, observer, min, max, low, high, bins);
  return out;
}

}  // namespace

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
                              {"quantMin", value.quant_min},
                              {"quantMax", value.quant_max},
                              {"channels", value.scale.size()},
                              {"scale", Json::array()},
                              {"zeroPoint", Json::array()}});
    // The dequantize of a folded weight stands alone; else its users are pairs of quantize and dequantize.
    if (is_a(*value.quantize, Family::kDequantize))
      for (const Node* user : value.quantize->users()) entry["by"].push_back(user->name());
    if (!value.scale.empty()) {
      const auto [least, most] = std::minmax_element(value.scale.begin(), value.scale.end());
      entry["scale"].push_back(format::json_of_number(*least));
      if (value.scale.size() > 1) entry["scale"].push_back(format::json_of_number(*most));
    }
    if (!value.zero_point.empty()) entry["zeroPoint"].push_back(value.zero_point[0]);
    out.push_back(std::move(entry));
  }
  return out;
}

std::vector<std::string> doubts_about_calibration(const Prepared& prepared) {
  std::vector<std::string> out;
  if (const std::vector<std::string> unseen = prepared.values_without_data(); !unseen.empty() && !prepared.needs_data())
    out.push_back(concat("no sample of the calibration has reached ", listed(unseen, 5),
                         unseen.size() == 1 ? ", which stays float" : ", which stay float",
                         "; calibrate on samples that reach every part of the model"));
  std::vector<const Node*> told;
  for (const ObserverGroup& group : prepared.observers()) {
    const Observer& observer = *group.observer;
    const auto is_zero = [](const Tensor& value) {
      if (!value.defined() || value.numel() == 0 || !is_floating(value.dtype())) return false;
      const Tensor flat = value.to(DType::kF32).contiguous();
      const std::span<const float> values = flat.span<float>();
      return std::all_of(values.begin(), values.end(), [](float x) { return x == 0; });
    };
    if (!observer.calibrated() || !is_zero(observer.min_val()) || !is_zero(observer.max_val())) continue;
    for (const EdgeOrNode& place : group.covers) {
      const Edge* edge = std::get_if<Edge>(&place);
      const Node* node = edge ? edge->first : std::get<Node*>(place);
      if (node->op() != Node::Op::kPlaceholder || std::find(told.begin(), told.end(), node) != told.end()) continue;
      told.push_back(node);
      out.push_back(
          concat("the input ", node->name(),
                 " is zero in all samples of the calibration, so the ranges say nothing of the model at work; "
                 "calibrate on samples like those that it will meet"));
    }
  }
  return out;
}

Json quantization_report(const Prepared& prepared, const Program& converted) {
  Json out = explanation_report(prepared);
  const std::vector<LeftInFloat> left = left_in_float(prepared, converted);
  const int64_t layers = count_layers(prepared, converted);
  out["layers"] = json_object({{"total", layers}, {"quantized", layers - static_cast<int64_t>(left.size())}});
  out["left"] = Json::array();
  for (const LeftInFloat& node : left)
    out["left"].push_back(
        json_object({{"node", node.node}, {"module", node.module}, {"op", node.op}, {"reason", node.reason}}));
  out["observers"] = calibration_report(prepared);
  out["qparams"] = converted_qparams_report(converted);
  if (const auto doubts = doubts_about_calibration(prepared); !doubts.empty()) out["dataWarnings"] = doubts;
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
