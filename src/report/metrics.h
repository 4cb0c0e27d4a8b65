// What outputs are worth, by measures of the field: for models that are no classifiers of whole samples.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "tensor/tensor.h"

namespace qdq {

// A model's outputs, of all batches.
using Outputs = std::vector<std::vector<Tensor>>;

// What there is to judge outputs by. Pointers may be null where the metric does not read them.
struct MetricSamples {
  const Outputs* reference = nullptr;  // the float model's outputs
  const Outputs* inputs = nullptr;
  Tensor labels;  // integers, of all samples; undefined: none
};

// The F1 of boxes beside the float model's, 0 to 1: those with a score of 0.5 or more (report/boxes.h), each met by one
// of its class that it overlaps by a half or more. Throws Error{kInvalidArgument} if the outputs of the float model
// hold no boxes, or it finds none.
double box_f1(const Outputs& outputs, const MetricSamples& samples);

// The mean average precision of boxes, 0 to 1, as COCO has it (overlaps of 0.5, 0.55, ..., 0.95, precision at 101 steps
// of recall, mean over classes), where the truth is the float model's boxes with a score of 0.5 or more; boxes from a
// score of 0.05 count. Throws as box_f1() does.
double box_map(const Outputs& outputs, const MetricSamples& samples);

// The F1 of tokens, 0 to 1. Of one output [N, T, C], the class of each token: of tokens that are of another class than
// 0 by the labels [N, T] or by the outputs, over all samples; labels below 0 do not count. Of two outputs [N, T], the
// scores of an answer's first and last token (SQuAD): of the tokens in the answer, at most 30, mean over samples;
// labels [N, 2]. Without labels the float model's answers are the truth. Throws Error{kInvalidArgument} for other
// outputs or labels, or if nothing is to be found in any sample.
double token_f1(const Outputs& outputs, const MetricSamples& samples);

// exp of the mean negative log-likelihood of tokens; less is better. The first output holds logits [N, T, V]; the
// labels [N, T] are the token that each place is to tell, those below 0 do not count. Without labels the first input of
// integers [N, T] is the text, of which each place tells the next token; where another input of that shape holds only 0
// and 1 (an attention mask), tokens at 0 do not count. Throws Error{kInvalidArgument} for other outputs, inputs or
// labels, and for tokens that the logits do not have.
double perplexity(const Outputs& outputs, const MetricSamples& samples);

// The metrics by name.
struct Metric {
  std::string_view name;  // "box-f1", "box-map", "token-f1", "perplexity"
  double (*measure)(const Outputs& outputs, const MetricSamples& samples);
  bool is_more_better;
  bool reads_reference, reads_labels, reads_inputs;
  bool (*may_judge)(const std::vector<const TensorMeta*>& outputs);  // by their shapes; null: a shape is unknown
  std::string_view wants;                                            // of the outputs, in words
};

// Null if there is none of this name.
const Metric* find_metric(std::string_view name);
// "box-f1, box-map, token-f1, perplexity"
std::string metric_names();

}  // namespace qdq
