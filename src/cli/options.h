// Options that several verbs take, and what checks their values.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/verbs.h"

namespace qdq {

// "500MB" is 500,000,000 bytes, "2GiB" 2 * 2^30, in letters of either case; without a unit a number is one of bytes.
std::optional<uint64_t> bytes_in(const std::string& text);
// The text with spaces for its line breaks.
std::string one_line(std::string text);
// Accepts whole numbers from `lowest` to `highest`, and says in one sentence what else it found.
std::function<std::string(const std::string&)> whole_number(int64_t lowest, int64_t highest = INT64_MAX);
// Accepts these words, and names the nearest for another.
std::function<std::string(const std::string&)> one_of(std::vector<std::string> words);

// While it lives, help lists the options that a verb gets under this heading.
class OptionsUnder {
 public:
  OptionsUnder(CLI::App& verb, const std::string& heading);
  ~OptionsUnder();
  OptionsUnder(const OptionsUnder&) = delete;
  OptionsUnder& operator=(const OptionsUnder&) = delete;

 private:
  CLI::OptionDefaults& defaults_;
  const std::string before_;
};

void add_data_options(CLI::App& verb, DataOptions& options);
// Throws CLI::RequiresError for an option that was given and does nothing, since what it belongs to is not there.
void require(const CLI::App& verb, const char* option, bool is_there, const char* wanted);
CLI::Option* add_label_options(CLI::App& verb, std::string& labels, std::string& classes);
CLI::Option* add_metric_option(CLI::App& verb, std::string& metric);
// Gives the option that names a runtime, which does not go with all that others add.
CLI::Option* add_quantizer_options(CLI::App& verb, QuantizerOptions& options);
CLI::Option* add_qat_option(CLI::App& verb, QuantizerOptions& options);
// Gives those that a profile fixes.
std::vector<CLI::Option*> add_onnx_options(CLI::App& verb, OnnxOptions& options);
void add_fix_option(CLI::App& verb, OnnxFixed& fixed);
void add_session_options(CLI::App& verb, SessionOptions& options);
void add_json_flag(CLI::App& verb, bool& json);
// Those of a decoder that generates, which the options of a run over samples do not go with.
void add_generate_options(CLI::App& verb, RunOptions& options, const std::vector<CLI::Option*>& of_samples);

}  // namespace qdq
