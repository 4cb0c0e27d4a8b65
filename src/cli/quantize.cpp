// `qdq quantize`: calibrates a float model and writes its int8 form.
#include <cstdio>

#include "cli/progress.h"
#include "cli/recipe.h"
#include "cli/report.h"
#include "cli/verbs.h"
#include "format/bytes.h"
#include "format/json.h"
#include "io/pt2.h"
#include "op/op.h"
#include "quant/pt2e.h"

namespace qdq {

namespace {

format::Json recipe_of(const QuantizeOptions& options, Host& host) {
  if (!options.recipe.empty()) {
    const auto text = host.read_file(options.recipe);
    return format::parse_json(format::text_of(text), options.recipe);
  }
  if (options.quantizer == "xnnpack" || options.quantizer == "XNNPACKQuantizer")
    return {{"quantizer", "XNNPACKQuantizer"}, {"global", {{"is_per_channel", true}}}};
  if (options.quantizer == "x86-inductor" || options.quantizer == "X86InductorQuantizer")
    return {{"quantizer", "X86InductorQuantizer"}, {"global", format::Json::object()}};
  fail(ErrorCode::kInvalidArgument, "there is no quantizer ", options.quantizer, "; wanted xnnpack or x86-inductor, or a --recipe");
}

bool is_dequantized(const Argument& argument) {
  return argument.is_node() && argument.node()->target().starts_with("torch.ops.quantized_decomposed.dequantize_");
}

struct Layers {
  int64_t total = 0;
  int64_t quantized = 0;
};

// Operators with a weight, and those of them that compute on dequantized activations and weights.
Layers count_layers(const Program& program) {
  Layers layers;
  for (const Node* node : program.graph->nodes()) {
    const OpDef* op = node->op() == Node::Op::kCallFunction ? find_op(node->target()) : nullptr;
    if (!op || op->roles.weight < 0 || op->roles.activation < 0) continue;
    ++layers.total;
    layers.quantized += is_dequantized(node->arg(static_cast<size_t>(op->roles.activation))) &&
                        is_dequantized(node->arg(static_cast<size_t>(op->roles.weight)));
  }
  return layers;
}

}  // namespace

void quantize(const QuantizeOptions& options, Host& host) {
  const double began = host.now_seconds();
  Model model = load_model(options.model, host);
  const std::string where = options.recipe.empty() ? "the quantizer" : options.recipe;
  const std::unique_ptr<Quantizer> quantizer = parse_recipe(recipe_of(options, host), where);
  const std::unique_ptr<Data> data = open_data(options.data, model.program, options.data_options, host);

  Prepared prepared = prepare_pt2e(std::move(model.program), *quantizer);
  {
    Progress progress(host, "calibrating", data->num_batches(), "batches");
    for (int64_t i = 0; i < data->num_batches(); ++i) {
      prepared.run(data->batch(i));
      progress.advance();
    }
  }
  const double calibrated = host.now_seconds();
  const Program converted = convert_pt2e(prepared, {options.use_reference_representation, !options.no_fold_quantize});
  const auto bytes = save_pt2(converted);
  const std::string observers = options.observers.empty() ? "" : format::print_json(observers_report(prepared), 1) + "\n";

  if (!options.observers.empty()) host.write_file_whole(options.observers, format::bytes_of(observers));
  host.write_file_whole(options.output, bytes);

  std::string out = concat("wrote ", options.output, "\n");
  out += concat("  calibrated on ", data->num_samples(), " samples in ", data->num_batches(), " batches, ", human_seconds(calibrated - began), "\n");
  const Layers layers = count_layers(converted);
  out += concat("  layers quantized  ", layers.quantized, " of ", layers.total, "\n");
  char ratio[32];
  std::snprintf(ratio, sizeof ratio, "%.2f", static_cast<double>(model.file_bytes) / static_cast<double>(bytes.size()));
  out += concat("  size              ", human_bytes(model.file_bytes), " -> ", human_bytes(bytes.size()), " (", ratio, " times smaller)\n");
  out += concat("  time              ", human_seconds(host.now_seconds() - began), "\n");
  host.print(out);
}

}  // namespace qdq
