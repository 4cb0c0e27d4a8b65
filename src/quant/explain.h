// Why an operator is quantized as it is, or not at all: what the quantizers noted when they decided, and what became of
// its tensors.
#pragma once

#include <string>
#include <vector>

#include "quant/pt2e.h"

namespace qdq {

// A tensor that an annotation covers: a use by the operator, or its output.
struct ExplainedTensor {
  EdgeOrNode at;
  std::string becomes;  // "int8 [-128, 127] per_tensor_affine by HistogramObserver, shared with relu"; "float"
};

struct Explanation {
  // kQuantized: some of its tensors are observed. kFused: it is computed together with a quantized operator, and none
  // of its own tensors is. kFloat: neither.
  enum class Outcome { kQuantized, kFused, kFloat };

  std::string node;
  std::string module;  // "" for the root or if unknown
  std::string op;      // "aten.conv2d.default"
  Outcome outcome = Outcome::kFloat;
  // of the decision that holds; empty if several quantizers refused it, or there was no pattern
  std::string quantizer, pattern;
  std::string reason;                    // in words that follow "because"
  std::vector<ExplainedTensor> tensors;  // inputs in the order of the annotation, then the output
  std::vector<Decision> decisions;       // all, in the order in which they were made
};
std::string_view to_string(Explanation::Outcome outcome);  // "quantized", "fused", "float"

// The call_function nodes of the annotated graph, in order.
std::vector<Explanation> explain(const Prepared& prepared);
// One of them. Throws Error{kInvalidArgument} if the graph has no operator of that name.
Explanation explain(const Prepared& prepared, const std::string& node);

// A tensor whose producer's output spec and whose user's input spec made different observers, so that it is quantized
// twice.
struct SpecConflict {
  Edge edge;
  std::string producer_annotator, consumer_annotator;  // quantizer and pattern; "(not named)" if they do not tell
  std::string message;                                 // one sentence that names all of this and both specs
};
// In the order of the graph. PyTorch accepts such annotations and converts them as they are; mostly they are a mistake.
std::vector<SpecConflict> find_conflicts(const Prepared& prepared);

// How many operators could compute on integers, or keep their weights as integers: those with a weight, recurrent
// layers, embeddings, matmuls, additions and multiplications. Those in programs that the program runs (torch.cond,
// loops) count.
int64_t count_layers(const Program& program);
// Those of the program that was prepared: without the products that training scales weights by.
int64_t count_layers(const Prepared& prepared, const Program& converted);

// An operator that could compute on integers and does not, with the reason in words.
struct LeftInFloat {
  std::string node;
  std::string module;  // "" for the root or if unknown
  std::string op;      // "aten.conv2d.default"
  std::string reason;
};
// Those of them whose tensors stay float, in graph order.
std::vector<LeftInFloat> left_in_float(const Prepared& prepared, const Program& converted);

}  // namespace qdq
