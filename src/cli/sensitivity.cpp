// `qdq sensitivity`: what each operator would cost as integers.
#include "recover/sensitivity.h"

#include <algorithm>
#include <cstdio>

#include "cli/command_line.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "format/json.h"
#include "io/model.h"
#include "report/sensitivity_report.h"

namespace qdq {

void sensitivity(const SensitivityOptions& options, Host& host) {
  check_preprocess(options.data_options, {options.data});
  Model model = load_model(options.model, host.files);
  const std::unique_ptr<Quantizer> quantizer = open_quantizer(options.quantizer, host);
  const std::unique_ptr<Data> data = open_samples(options.data, model.program, options.data_options, host);
  Prepared prepared = prepare_pt2e(std::move(model.program), *quantizer);
  for (const std::string& warning : prepared.warnings()) host.print_error(concat("qdq: warning: ", warning, "\n"));
  check_recoverable(prepared);
  std::vector<Batch> batches;
  {
    Progress progress(host, "calibrating", data->num_batches(), "batches");
    data->expect(0, data->num_batches());
    for (int64_t i = 0; i < data->num_batches(); ++i) {
      batches.push_back(data->batch(i));
      prepared.run(batches.back());
      progress.advance();
    }
  }
  constexpr int64_t kParts = 100;
  Progress progress(host, "trying each operator alone, and all but it", kParts, "%");
  int64_t shown = 0;
  Recovery recovery(prepared, std::move(batches), [&](const std::string&, double done) {
    for (; static_cast<double>(shown) < done * static_cast<double>(kParts); ++shown) progress.advance();
  });
  double all = 0;
  std::vector<Sensitivity> found = sensitivities(recovery, &all);
  std::stable_sort(found.begin(), found.end(),
                   [](const Sensitivity& a, const Sensitivity& b) { return a.alone < b.alone; });
  if (options.json) {
    host.print(format::print_json(sensitivity_report(found, all), 1) + "\n");
    return;
  }
  char line[120];
  std::snprintf(line, sizeof line, "%zu operators in integers: %.1f dB of signal over noise of the outputs\n",
                found.size(), all);
  std::string out = line;
  out += "  own dB  alone dB  without dB  node\n";
  const size_t rows = options.most > 0 ? std::min(found.size(), static_cast<size_t>(options.most)) : found.size();
  for (size_t i = 0; i < rows; ++i) {
    const Sensitivity& each = found[i];
    std::snprintf(line, sizeof line, "  %6.1f  %8.1f  %10.1f  ", each.own, each.alone, each.without);
    out += concat(line, each.node, each.module.empty() ? "" : " in " + each.module, " (", each.op, ")\n");
  }
  if (rows < found.size()) out += concat("  and ", found.size() - rows, " more; --most 0 shows all\n");
  host.print(out);
}

void add_sensitivity(CommandLine& line) {
  const auto options = std::make_shared<SensitivityOptions>();
  CLI::App* verb = line.verb("sensitivity", "find the operators of a float model that lose most as integers",
                             "qdq sensitivity model.onnx --calibrate samples.npz",
                             [options](Host& host) { sensitivity(*options, host); });
  verb->add_option("MODEL", options->model, "the float model (.pt2 or .onnx)")->required();
  verb->add_option("--calibrate", options->data,
                   "samples to calibrate and to judge on: .npz, .npy, or images in a folder or a .tar")
      ->required()
      ->type_name("DATA");
  add_quantizer_options(*verb, options->quantizer);
  add_data_options(*verb, options->data_options);
  auto* most =
      verb->add_option("--most", options->most, "rows to show (20); 0: all")->type_name("N")->check(whole_number(0));
  verb->add_flag("--json", options->json, "print JSON, with all rows")->excludes(most);
}

}  // namespace qdq
