// PatternQuantizer: the quantizer of a backend as a table of patterns. docs/quantizers.md shows one.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "quant/quantizers/patterns.h"

namespace qdq {

// Annotates by its rows, each tried on the whole graph before the next. Of the modules around an operator the innermost
// one with a setting holds, else the global one; no config: it stays float.
class PatternQuantizer : public Quantizer {
 public:
  // The texts of the rows are copied. Throws Error{kInvalidArgument} for a row without operators, and for the name of
  // an operator that qdq does not have.
  PatternQuantizer(std::string name, std::vector<PatternRow> rows);

  PatternQuantizer& set_global(std::optional<QuantizationConfig> config);
  PatternQuantizer& set_module_name(const std::string& module_name, std::optional<QuantizationConfig> config);
  // Nothing that the function refuses is annotated; a pattern is taken if all its operators pass.
  PatternQuantizer& set_filter_function(NodeFilter filter);
  // Whether SiLU becomes a sigmoid and a product, before the rows are tried: for runtimes that have integers of both
  // and none of SiLU.
  PatternQuantizer& set_split_silu(bool split_silu);

  std::string_view name() const override { return *name_; }
  QuantizationCapabilities quantization_capabilities() const override { return capabilities_of(*name_, rows_); }
  std::vector<std::string> warnings() const override { return unmatched_; }
  // Not if a row names an operator that only decompositions leave (is_decomposed).
  bool recomposes() const override;
  bool hides_masks() const override { return true; }
  // Where activations become integers, float16 and bfloat16 become float32, with which integer kernels meet.
  void transform_for_annotation(Program& program) override;
  void annotate(Program& program, Annotations& annotations) override;

 private:
  bool reaches(const Node& node) const;
  bool rounds_activations() const;
  const ConfigSetting* setting_of(const Node& node) const;
  std::string why_not_taken(const Node& node) const;

  std::shared_ptr<std::deque<std::string>> texts_;  // of the rows
  const std::string* name_;
  std::vector<PatternRow> rows_;
  NodeFilter filter_;
  bool split_silu_ = false;
  ConfigSetting global_;
  std::vector<ConfigSetting> module_names_;
  std::vector<std::string> unmatched_;  // warnings of the program annotated last
};

}  // namespace qdq
