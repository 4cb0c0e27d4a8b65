#include "cli/metric.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/error.h"
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

// A path as one word of the shell.
std::string shell_word(const std::string& path) {
  const auto is_plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           std::string_view("/._-+:\\").find(c) != std::string_view::npos;
  };
  return std::all_of(path.begin(), path.end(), is_plain) ? path : "'" + replaced(path, "'", "'\\''") + "'";
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

}  // namespace

Host::CommandResult Host::run_on_outputs(const std::string& command, std::span<const std::byte> /*npz*/) {
  fail(ErrorCode::kUnsupported, "there is no shell here that could run ", command);
}

void check_metric(const std::string& command, const std::string& labels) {
  QDQ_CHECK(command.find(kOutputs) != std::string::npos, kInvalidArgument, "the command of --metric, ", command,
            ", does not say where the file with the outputs comes; write {outputs} there");
  QDQ_CHECK(command.find(kLabels) == std::string::npos || !labels.empty(), kInvalidArgument,
            "the command of --metric, ", command, ", wants labels; give their file by --labels");
}

double measure(const std::string& command, const std::string& labels, const std::vector<std::vector<Tensor>>& batches,
               Host& host) {
  check_metric(command, labels);
  std::vector<format::NamedTensor> arrays;
  for (size_t output = 0; !batches.empty() && output < batches[0].size(); ++output) {
    std::vector<Tensor> parts;
    for (const std::vector<Tensor>& batch : batches) parts.push_back(batch.at(output));
    arrays.push_back({"output_" + std::to_string(output), join_batches(parts)});
  }
  const Host::CommandResult result =
      host.run_on_outputs(replaced(command, kLabels, shell_word(labels)), format::write_npz(arrays));
  QDQ_CHECK(result.status == 0, kInvalidArgument, "the command of --metric, ", command, ", ended with status ",
            result.status, "; wanted 0");
  const std::string line(last_line(result.printed));
  char* end = nullptr;
  const double value = std::strtod(line.c_str(), &end);
  QDQ_CHECK(!line.empty() && *end == 0 && std::isfinite(value), kInvalidArgument,
            "the last line that the command of --metric, ", command, ", printed is '", line, "'; wanted a number");
  return value;
}

}  // namespace qdq
