// AnnotationQuantizer: annotations given as data, with nodes by name; what a recipe or a backend outside of C++ hands
// over.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "quant/quantizer.h"

namespace qdq {

struct NamedSharedSpec {
  NamedEdgeOrNode with;
};
struct NamedDerivedSpec {
  std::vector<NamedEdgeOrNode> from;
  DerivedQuantizationSpec spec;  // derived_from is filled in from `from`; derive_qparams from `rule` unless it is set
};
using NamedQSpec =
    std::variant<std::monostate, QuantizationSpec, NamedSharedSpec, FixedQParamsQuantizationSpec, NamedDerivedSpec>;

struct NamedAnnotation {
  std::string node;
  std::vector<std::pair<std::string, NamedQSpec>> inputs;  // by producer
  NamedQSpec output;
  bool allow_implicit_sharing = true;
  bool annotated = false;
  std::string reason = {};  // for explain(), in words that follow "because"
};

class AnnotationQuantizer : public Quantizer {
 public:
  // `name` is what explain() calls whoever made the annotations.
  explicit AnnotationQuantizer(std::vector<NamedAnnotation> annotations, bool convert_scalars = false,
                               Compat compat = Compat::kNone, std::string name = "AnnotationQuantizer")
      : named_(std::move(annotations)), convert_scalars_(convert_scalars), compat_(compat), name_(std::move(name)) {}

  std::string_view name() const override { return name_; }
  Compat compat() const override { return compat_; }
  void transform_for_annotation(Program& program) override;
  // In list order; a second entry for a node replaces the first. Throws Error{kInvalidArgument} for a name that the
  // graph does not have, with the nearest ones.
  void annotate(Program& program, Annotations& annotations) override;

 private:
  std::vector<NamedAnnotation> named_;
  bool convert_scalars_;
  Compat compat_;
  std::string name_;
};

// The functions behind names of rules: "product_of_scales" (scales multiplied in float32, zero point 0), "copy_first"
// (qparams of the first observer), "largest_scale" (the largest scale, zero point 0). Throws Error{kInvalidArgument}
// for another name.
std::function<QParams(const std::vector<std::shared_ptr<Observer>>&)> derive_rule(const std::string& rule);
std::vector<std::string_view> derive_rule_names();

}  // namespace qdq
