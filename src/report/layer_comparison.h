// Models beside a reference, operator by operator: where quantization moves values, and whose fault it is.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "format/json_fwd.h"
#include "kernel/difference.h"
#include "quant/pt2e.h"

namespace qdq {

// Whether a program has operators with float values, which alone are compared.
bool has_layers_to_compare(const Program& program);

// Compares one or more candidates (int8 programs, or others of the same model) with a reference on the same inputs, as
// PyTorch's Numeric Suite does. Nothing else is known of the programs: each may come from any file. An operator of the
// reference and one of a candidate belong together if they carry the same debug handle
// (generate_numeric_debug_handles), else if they give a value that both ONNX files call alike, else if their nodes have
// the same name and operator; and their values must be float tensors of sizes that fit. Batch norms behind convolutions
// are folded first, in the reference as in the candidates.
class LayerComparison {
 public:
  // `reference` may be a Prepared's program: observers hand their values on. Throws Error{kInvalidArgument} if there is
  // no candidate, if one takes other inputs than the reference, or if nothing in it belongs to the reference.
  LayerComparison(const Program& reference, const std::vector<const Program*>& candidates);
  LayerComparison(LayerComparison&&) noexcept;
  ~LayerComparison();

  // Runs the reference once and each candidate twice on one batch, without fused kernels: on the inputs, and with each
  // of its layers on the float values of the reference. The values of one batch are in memory. Throws what
  // Interpreter::run throws.
  void add(const std::vector<Tensor>& inputs);

  size_t num_candidates() const { return candidates_.size(); }

  // [{node, module, op, candidateNode?, quantized, ...error, worst?, own: {...error}, weight?: {...error}}], the
  // largest error first. An error is {sqnrDb, mse, cosine, maxError}: sqnrDb = 10 log10(sum x^2 / sum (x - y)^2) of the
  // reference's values x and the candidate's y (null if all are equal), mse the mean of (x - y)^2, cosine the sum of
  // x * y over the lengths of both (null where one is zero), maxError the largest |x - y|.
  //   The error of the entry itself is that at the end of all layers so far, `worst` {sample, sqnrDb} the sample where
  // it is largest. `own` is what the layer adds when it reads the reference's values (its "shadow"): quantized at its
  // inputs, if they are, computed and quantized again; an activation behind a layer is one with it. `weight` compares
  // the weights, if there are two of one size. `quantized` tells whether the value went through integers.
  format::Json json(size_t candidate = 0) const;

  // The operators with float values that have no counterpart: of the reference, and of the candidate.
  std::vector<std::string> unmatched_in_reference(size_t candidate = 0) const;
  std::vector<std::string> unmatched_in_candidate(size_t candidate = 0) const;

 private:
  struct Sums;
  struct Layer;
  struct Candidate;
  void measure(Candidate& candidate, const std::vector<Tensor>& inputs, std::vector<Tensor>& values, int64_t samples);

  Program reference_;
  std::unique_ptr<OpBackend> backend_;
  std::vector<std::unique_ptr<Candidate>> candidates_;
  std::map<const Node*, size_t> places_;  // of the reference's nodes that some candidate has, among the kept values
  int64_t samples_ = 0;
};

}  // namespace qdq
