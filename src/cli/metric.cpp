#include "cli/metric.h"

#include <cmath>
#include <cstdlib>
#include <utility>

#include "base/error.h"
#include "base/shell_word.h"
#include "cli/wrong_usage.h"
#include "data/data.h"
#include "format/npz.h"

namespace qdq {

namespace {

constexpr std::string_view kOutputs = "{outputs}", kLabels = "{labels}";

std::string replaced(std::string text, std::string_view word, const std::string& by) {
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + by.size()))
    text.replace(at, word.size(), by);
  return text;
}

// The last line that says something.
std::string_view last_line(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t end = text.find_last_not_of(kBlank);
  if (end == std::string_view::npos) return {};
  text = text.substr(0, end + 1);
  text.remove_prefix(text.find_last_of("\r\n") + 1);
  text.remove_prefix(text.find_first_not_of(kBlank));
  return text;
}

// The only array of an .npy or .npz.
Tensor read_array(const std::string& path, Files& files) {
  const std::vector<std::byte> bytes = files.read(path);
  if (path.ends_with(".npy")) return format::read_npy(bytes, path);
  const auto arrays = format::read_npz(bytes, path);
  QDQ_CHECK(arrays.size() == 1, kInvalidArgument, path, " holds ", arrays.size(), " arrays; wanted one, the labels");
  return arrays[0].tensor;
}

}  // namespace

Host::CommandResult Host::run_on_outputs(const std::string& command, std::span<const std::byte> /*npz*/) {
  fail(ErrorCode::kUnsupported, "this build has no shell to run ", command);
}

Measure::Measure(std::string metric, std::string labels, Host& host)
    : metric_(std::move(metric)), labels_(std::move(labels)), known_(find_metric(metric_)) {
  if (known_) {
    QDQ_CHECK_USAGE(known_->reads_labels || !has_labels(), metric_,
                    " compares with the float model and reads no labels; leave out --labels");
    if (has_labels()) read_labels_ = read_array(labels_, host.files);
    return;
  }
  QDQ_CHECK_USAGE(metric_.find(kLabels) == std::string::npos || has_labels(), "the command of --metric, ", metric_,
                  ", needs labels; give their file with --labels");
}

void Measure::check(const Program& program) const {
  if (!known_) return;
  std::vector<const TensorMeta*> outputs;
  program.graph->output_node()->arg(0).for_each_node(
      [&](const Node* node) { outputs.push_back(node->meta.val.tensor()); });
  if (known_->may_judge(outputs)) return;
  std::string found;
  for (const TensorMeta* output : outputs)
    found +=
        concat(found.empty() ? "" : ", ", output ? concat(to_string(output->dtype), to_string(output->sizes)) : "?");
  fail_usage(metric_, " does not fit the model's outputs, ", found, ": wanted ", known_->wants,
             "; give another --metric (", metric_names(), ", or a command of your own)");
}

double Measure::operator()(const Outputs& outputs, MetricSamples samples, Host& host) const {
  if (!known_) return by_command(outputs, host);
  samples.labels = read_labels_;
  return known_->measure(outputs, samples);
}

double Measure::by_command(const Outputs& outputs, Host& host) const {
  std::vector<format::NamedTensor> arrays;
  for (size_t output = 0; !outputs.empty() && output < outputs[0].size(); ++output) {
    std::vector<Tensor> parts;
    for (const std::vector<Tensor>& batch : outputs) parts.push_back(batch.at(output));
    arrays.push_back({"output_" + std::to_string(output), join_batches(parts)});
  }
  const Host::CommandResult result =
      host.run_on_outputs(replaced(metric_, kLabels, shell_word(labels_)), format::write_npz(arrays));
  QDQ_CHECK(result.status == 0, kInvalidArgument, "the command of --metric, ", metric_, ", ended with status ",
            result.status, "; wanted 0");
  const std::string line(last_line(result.printed));
  char* end = nullptr;
  const double value = std::strtod(line.c_str(), &end);
  QDQ_CHECK(!line.empty() && *end == 0 && std::isfinite(value), kInvalidArgument,
            "the last line that the command of --metric, ", metric_, ", printed is '", line, "'; wanted a number");
  return value;
}

}  // namespace qdq
