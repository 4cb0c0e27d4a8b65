#include "cli/quantize_summary.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <string_view>

#include "base/listed.h"
#include "cli/progress.h"
#include "cli/quantize_precision.h"
#include "lower/integer_layers.h"
#include "profile/runtime_verdicts.h"
#include "quant/explain.h"
#include "recipe/recipe.h"

namespace qdq {
namespace {

// "mul, add, add_1 and 3 more (aten.mul.Tensor, aten.add.Tensor)"
std::string nodes_text(const std::vector<const LeftInFloat*>& nodes) {
  constexpr size_t kNamed = 8;
  std::vector<std::string_view> names, ops;
  for (const LeftInFloat* node : nodes) {
    names.push_back(node->node);
    if (std::find(ops.begin(), ops.end(), node->op) == ops.end()) ops.push_back(node->op);
  }
  return concat(listed(names, kNamed), " (", listed(ops, kNamed), ")");
}

// How many layers became integers, and why the others did not: a line each, or one for many of the same reason.
std::string layers_text(int64_t layers, const std::vector<LeftInFloat>& left) {
  constexpr size_t kMostLines = 5;
  std::string out = concat("  layers quantized  ", layers - static_cast<int64_t>(left.size()), " of ", layers, "\n");
  if (!left.empty()) out += concat("  left in float     ", left.size(), left.size() == 1 ? " layer\n" : " layers\n");
  std::map<std::string_view, std::vector<const LeftInFloat*>> by_reason;
  for (const LeftInFloat& node : left) by_reason[node.reason].push_back(&node);
  for (const LeftInFloat& node : left) {
    const std::vector<const LeftInFloat*>& nodes = by_reason[node.reason];
    if (nodes.size() <= kMostLines)
      out += concat("    ", node.node, node.module.empty() ? "" : " in " + node.module, " (", node.op,
                    "): ", node.reason, "\n");
    else if (nodes.front() == &node) out += concat("    ", nodes_text(nodes), ": ", node.reason, "\n");
  }
  return out;
}

// How many products the runtime runs in integers, and what else its user has to know.
std::string verdicts_line(const Program& converted, const RuntimeProfile& profile) {
  const ProductCount count = count_products(runtime_verdicts(converted, profile));
  std::string out = concat("  in integers       ", count.in_integers, " of ", count.total,
                           count.total == 1 ? " product" : " products", " by ", profile.runtime, "\n");
  return out + note_line(std::string(profile.note));
}

std::string calibration_text(const Calibration& calibration) {
  std::string out;
  const auto& data = calibration.data;
  if (calibration.scaled != 0)
    out += concat("  channels scaled   by ", data->num_samples(), " samples in ", calibration.scaled,
                  calibration.scaled == 1 ? " place\n" : " places\n");
  if (calibration.rounded != 0)
    out += concat("  weights rounded   by ", data->num_samples(), " samples in ", calibration.rounded,
                  calibration.rounded == 1 ? " layer\n" : " layers\n");
  else if (data && !calibration.needs_data && calibration.scaled == 0)
    out += "  not calibrated: the recipe needs no samples\n";
  if (calibration.uses_data())
    out += concat("  calibrated on ", counted(data->num_samples(), "samples"), " in ",
                  counted(data->num_batches(), "batches"), ", ", human_seconds(calibration.ended - calibration.began),
                  "\n");
  return out;
}

// Which layers gain nothing by their integers here. Adds the times of all to `fields`.
std::string gains_text(const std::vector<LayerTimes>& times, format::Json& fields) {
  std::string slower;
  size_t count = 0;
  fields["times"] = format::Json::array();
  for (const LayerTimes& layer : times) {
    fields["times"].push_back(
        {{"node", layer.node}, {"float_seconds", layer.float_seconds}, {"seconds", layer.quantized_seconds}});
    if (layer.quantized_seconds < layer.float_seconds) continue;
    ++count;
    char line[64];
    std::snprintf(line, sizeof line, ": %.4f ms, in float %.4f\n", 1e3 * layer.quantized_seconds,
                  1e3 * layer.float_seconds);
    slower += concat("    ", layer.node, line);
  }
  return concat("  no faster here    ", count, " of ", times.size(), " layers that were timed", count > 0 ? ":" : "",
                "\n", slower);
}

std::string size_text(uint64_t before, uint64_t after) {
  const double ratio = static_cast<double>(before) / static_cast<double>(after);
  char change[48];
  std::snprintf(change, sizeof change, "%.2f times %s", std::max(ratio, 1 / ratio), ratio < 1 ? "larger" : "smaller");
  return concat("  size              ", human_bytes(before), " -> ", human_bytes(after), " (", change, ")\n");
}

// The products of the program as ONNX Runtime would compute them if it were quantized for that. What depends on the
// ranges of samples is taken to stay float.
std::vector<RuntimeVerdict> verdicts_for_ort(const Program& floats, const RuntimeProfile& ort) {
  const std::unique_ptr<Quantizer> quantizer = parse_recipe(recipe_of(ort), std::string(ort.name), {});
  return runtime_verdicts(form_of_converted(prepare_pt2e(floats.clone(), *quantizer)), ort);
}

// A word about --for where it makes more of the model int8; "" if it does not.
std::string advice_of(const Program& floats, const Program& converted, const std::vector<LeftInFloat>& left,
                      const QuantizeOptions& options) {
  const RuntimeProfile& ort = runtime_profile("ort");
  if (options.output.ends_with(".onnx")) {
    const ProductCount now = count_products(runtime_verdicts(converted, ort));
    if (now.in_integers == now.total) return "";
    const int64_t then = count_products(verdicts_for_ort(floats, ort)).in_integers;
    if (then <= now.in_integers) return "";
    return concat("ONNX Runtime computes ", now.in_integers, " of ", now.total,
                  " products of this file in integers; made with --for ort, at least ", then);
  }
  if (left.empty()) return "";
  int64_t gained = 0;
  for (const RuntimeVerdict& verdict : verdicts_for_ort(floats, ort))
    gained += verdict.in_integers && verdict.products > 0 &&
              std::any_of(left.begin(), left.end(), [&](const LeftInFloat& node) { return node.node == verdict.node; });
  if (gained == 0) return "";
  return concat("of the layers left in float, at least ", gained, gained == 1 ? " becomes" : " become",
                " int8 with --for ort, which writes .onnx");
}

}  // namespace

void print_quantized(const QuantizeOptions& options, const Quantized& made, Host& host) {
  const Calibration& calibration = made.calibration;
  std::string out = concat("wrote ", options.output, "\n", calibration_text(calibration));
  // Integers spelled out no longer tell which layers they belong to.
  std::optional<Program> plain;
  if (options.use_reference_representation) plain = convert_pt2e(made.prepared);
  const auto left = left_in_float(made.prepared, plain ? *plain : made.converted);
  const int64_t layers = count_layers(made.prepared, plain ? *plain : made.converted);
  out += layers_text(layers, left);
  const IntegerLayers integers = integer_layers(
      plain ? *plain : made.converted, calibration.uses_data() ? calibration.data->batch(0) : std::vector<Tensor>{});
  out += float_layers_text(integers);
  if (made.profile) out += verdicts_line(made.converted, *made.profile);
  const double seconds = host.now_seconds() - made.began;
  out += note_line(made.note);
  const std::string advice = made.floats == nullptr ? "" : advice_of(*made.floats, made.converted, left, options);
  out += note_line(advice);
  out += concat(size_text(made.bytes.first, made.bytes.second), "  time              ", human_seconds(seconds), "\n");
  format::Json fields = {{"output", options.output},
                         {"bytes", {{"before", made.bytes.first}, {"after", made.bytes.second}}},
                         {"layers", {{"total", layers}, {"quantized", layers - static_cast<int64_t>(left.size())}}},
                         {"left", format::Json::array()},
                         {"note", made.note},
                         {"advice", advice},
                         {"seconds", seconds}};
  for (const LeftInFloat& node : left)
    fields["left"].push_back({{"node", node.node}, {"module", node.module}, {"op", node.op}, {"reason", node.reason}});
  fields["float_layers"] = format::Json::array();
  for (const IntegerLayers::Float& layer : integers.in_float)
    fields["float_layers"].push_back({{"node", layer.node}, {"target", layer.target}, {"reason", layer.reason}});
  const auto& data = calibration.data;
  if (calibration.uses_data())
    fields["calibration"] = {{"samples", data->num_samples()},
                             {"batches", data->num_batches()},
                             {"seconds", calibration.ended - calibration.began}};
  if (options.awq && data) fields["awq"] = {{"samples", data->num_samples()}, {"places", calibration.scaled}};
  if (options.gptq && data) fields["gptq"] = {{"samples", data->num_samples()}, {"layers", calibration.rounded}};
  if (!calibration.recovery.is_null()) fields["recovery"] = calibration.recovery;
  if (calibration.times) out += gains_text(*calibration.times, fields);
  print_summary(out, fields, options.json, host);
}

bool can_advise(const QuantizeOptions& options) {
  const QuantizerOptions& given = options.quantizer;
  return given.fx.empty() && given.recipe.empty() && given.runtime.empty() && given.exclude.empty() && !given.dynamic &&
         !given.weights_only && !given.qat && given.weight_bits == 8 && given.group_size == 0 &&
         !options.use_reference_representation && !options.no_fold_quantize && !wishes_precision(options);
}

}  // namespace qdq
