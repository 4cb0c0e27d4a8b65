// What outputs are worth, by measures of the field.
import type { RawTensor } from "../wasm/qdq.js";
import { QdqError } from "./error.js";
import { module, unwrap } from "./module.js";
import { checkOptions, shown } from "./options.js";
import type { Tensor } from "./tensor.js";
import { rawInputs } from "./tensor.js";

/** A metric of measure(). */
export type Metric = "box-f1" | "box-map" | "token-f1" | "perplexity";

/** The references of measure(). */
export interface MetricSamples {
  /** The float model's outputs, of all batches: for boxes, and for tokens without labels. */
  reference?: readonly (readonly Tensor[])[];
  /** The model's inputs, of all batches: for perplexity without labels. */
  inputs?: readonly (readonly Tensor[])[];
  /** Integers of all samples: [N, T], or [N, 2] for first and last tokens of answers; those below 0 do not count. */
  labels?: Tensor;
}

const rawBatches = (batches: readonly (readonly Tensor[])[], what: string): RawTensor[][] => {
  if (!Array.isArray(batches))
    throw new QdqError("InvalidArgument", `${what} is not a list of batches; wanted [[tensor, ...], ...]`);
  return batches.map((batch: readonly Tensor[]) => rawInputs(batch));
};

/**
 * The value of a metric for the outputs of all batches. `box-f1` and `box-map` (COCO's mean average precision) compare
 * a detector's boxes with the float model's, `token-f1` the classes of tokens [N, T, classes] or SQuAD's answers (two
 * outputs [N, T]); all are 0 to 1, and more is better. `perplexity` reads logits [N, T, vocabulary]; less is better.
 * Throws QdqError{InvalidArgument} for outputs of other shapes, for missing references, and if the float model finds
 * nothing. With reachScore() a metric chooses the operators that stay in float.
 */
export function measure(metric: Metric, outputs: readonly (readonly Tensor[])[], samples: MetricSamples = {}): number {
  checkOptions("measure", samples, ["reference", "inputs", "labels"]);
  const { reference, inputs, labels } = samples;
  if (typeof metric !== "string")
    throw new QdqError("InvalidArgument", `the metric is ${shown(metric)}, wanted a name such as "box-f1"`);
  return unwrap(
    module().measure(
      metric,
      rawBatches(outputs, "outputs"),
      reference && rawBatches(reference, "reference"),
      inputs && rawBatches(inputs, "inputs"),
      labels && rawInputs([labels])[0],
    ),
  );
}
