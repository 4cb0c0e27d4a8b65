// What quantization does to a model: reasons before it is done, errors by layer afterwards, and the file that shows
// both.
import { QdqError } from "./error.js";
import type { NodeSnapshot } from "./graph.js";
import { Handle } from "./handle.js";
import { handleOf, module, unwrap, whole } from "./module.js";
import { fromJson } from "./names.js";
import type { ObserverSummary } from "./observer.js";
import type { Program } from "./program.js";
import type { Prepared } from "./pt2e.js";
import type { EdgeOrNode, Recipe } from "./quantizer.js";
import type { DType, Tensor } from "./tensor.js";
import { rawInputs } from "./tensor.js";

// What one quantizer decided about an operator.
export interface Decision {
  quantizer: string;
  pattern: string;
  taken: boolean;
  reason: string;
}

export interface Explanation extends Omit<Decision, "taken"> {
  node: string;
  module: string; // "" for the root
  op: string; // "aten.conv2d.default"
  outcome: "quantized" | "fused" | "float";
  tensors: readonly (EdgeOrNode & { becomes: string })[];
  decisions: readonly Decision[];
}

export interface ExplanationReport {
  operators: readonly Explanation[];
  conflicts: readonly {
    edge: readonly [string, string];
    producerAnnotator: string;
    consumerAnnotator: string;
    message: string;
  }[];
}

// How far values y are from those of the reference, x. null: no error at all, or none that a number could say.
export interface ValueError {
  sqnrDb: number | null | { float: string }; // 10 log10(sum x^2 / sum (x - y)^2)
  mse: number | { float: string };
  cosine: number | null;
  maxError: number | { float: string };
}
// The error of an operator's value behind all layers so far.
export interface LayerError extends ValueError {
  node: string;
  module: string;
  op: string;
  candidateNode?: string; // where the candidate calls it otherwise
  quantized: boolean; // whether the value went through integers
  worst?: { sample: number; sqnrDb: number | { float: string } }; // the sample with the largest error
  own?: ValueError; // what the layer adds when it reads the reference's values
  weight?: ValueError; // of layers with a weight
}

// A quantized value after conversion.
export interface ConvertedQParams {
  of: string; // the value's name, or that of a folded weight
  by: readonly string[]; // who reads it, if it is a folded weight
  dtype: DType;
  quantMin: number;
  quantMax: number;
  channels: number; // 0: chosen at run time
  scale: readonly number[]; // one, or the least and the largest of the channels
  zeroPoint: readonly number[]; // that of the first channel
}

export interface QuantizationReport extends ExplanationReport {
  layers: { total: number; quantized: number };
  left: readonly { node: string; module: string; op: string; reason: string }[];
  observers: readonly ObserverSummary[];
  qparams: readonly ConvertedQParams[];
}

// A class, and its share of all: as softmax gives it, or the score itself where the scores are shares already.
export interface Choice {
  class: number;
  share: number | { float: string };
}

// What both models say of one sample: their first choices.
export interface SamplePrediction {
  sample: number; // counted from 0, in the order of the data
  label?: number;
  float: readonly Choice[];
  int8: readonly Choice[];
  moved: number | { float: string }; // sum (x - y)^2 / sum x^2 of the scores
  file?: string;
  image?: string; // a data: URL
}

// A float program beside its quantized form, on the samples that were added.
export interface EvaluationReport {
  sqnr: number | null | { float: string }; // dB, of the first output; null: no error
  speed: { float: number; int8: number; batch?: number }; // milliseconds for a sample, in batches of so many
  // In percent; of classifiers
  accuracy?: {
    top1?: readonly [float: number, int8: number];
    top5?: readonly [float: number, int8: number];
    agreement: number;
    samples: number;
  };
  // The worst: other answers than float's, then those whose scores moved most
  predictions?: readonly SamplePrediction[];
}

// What the file of reportHtml shows; each field may be missing.
export interface Report extends Partial<QuantizationReport>, Partial<EvaluationReport> {
  model?: string;
  nodes?: readonly NodeSnapshot[]; // of the float program, for the graph
  bytes?: readonly [before: number, after: number];
  recipe?: Recipe;
  samples?: number; // that it was calibrated on
  errors?: readonly LayerError[];
  classes?: readonly string[]; // their names
}

// For every operator, or for one, whether the quantizer takes it, by which pattern and why (or why not), and what its
// tensors become. Needs no data. Throws QdqError{InvalidArgument} if there is no operator of that name.
export function explain(prepared: Prepared): ExplanationReport;
export function explain(prepared: Prepared, node: string): Explanation;
export function explain(prepared: Prepared, node?: string): ExplanationReport | Explanation {
  const report = fromJson<ExplanationReport>(unwrap(module().explain(handleOf(prepared))));
  if (node === undefined) return report;
  const found = report.operators.find((explanation) => explanation.node === node);
  if (!found)
    throw new QdqError(
      "InvalidArgument",
      `there is no operator ${node} in the prepared program; explain(prepared) lists all`,
    );
  return found;
}

// How far the value of each operator is from the reference's, summed over the batches that were added.
export class LayerComparison extends Handle {
  // Runs the reference once and each candidate twice on one batch, without fused kernels.
  add(inputs: readonly Tensor[]): void {
    unwrap(module().addToComparison(this.handle, rawInputs(inputs)));
  }
  // Of the candidate of that number; largest error first.
  layers(candidate = 0): LayerError[] {
    return fromJson(unwrap(module().describeComparison(this.handle, candidate)));
  }
}

// Numbers the operators of a program that have no debug handle yet, upwards from the largest one there. preparePt2e and
// convertPt2e hand them on, and .pt2 files keep them, so that compareLayers finds the operators again
// (torch/ao/quantization/pt2e/_numeric_debugger.py).
export function generateNumericDebugHandles(program: Program): void {
  unwrap(module().generateNumericDebugHandles(handleOf(program)));
}

// Compares one program or several with a reference, a float program or a prepared one, operator by operator: programs
// from files of any kind, whose operators are found by debug handle, by the names that ONNX files give their values, or
// by the names of nodes. Throws QdqError{InvalidArgument} if nothing in a candidate belongs to the reference.
export function compareLayers(
  reference: Program | Prepared,
  candidates: Program | readonly Program[],
): LayerComparison {
  const programs = Array.isArray(candidates) ? candidates : [candidates];
  return new LayerComparison(unwrap(module().compareLayers(handleOf(reference), programs.map(handleOf))), whole);
}

// Runs both programs batch by batch, each made ready as lower() does.
export class Evaluation extends Handle {
  // One batch; the first axis counts samples.
  add(inputs: readonly Tensor[]): void {
    unwrap(module().addToEvaluation(this.handle, rawInputs(inputs)));
  }
  // Speed is measured on batches of a size that came before; if there are none, this runs the first batch once more.
  report(): EvaluationReport {
    return fromJson(unwrap(module().describeEvaluation(this.handle)));
  }
}

// `labels`: the class of each sample in order, if they are known.
export function evaluate(program: Program, quantized: Program, labels: readonly number[] = []): Evaluation {
  return new Evaluation(
    unwrap(module().evaluate(handleOf(program), handleOf(quantized), JSON.stringify(labels ?? null))),
    whole,
  );
}

// How many layers became integers, which did not and why, and what the observers saw.
export function quantizationReport(prepared: Prepared, quantized: Program): QuantizationReport {
  return fromJson(unwrap(module().describeQuantization(handleOf(prepared), handleOf(quantized))));
}

// A self-contained HTML file that shows the report, as `qdq quantize --report` writes it.
export function reportHtml(report: Report): string {
  if (typeof report !== "object" || report === null)
    throw new QdqError("InvalidArgument", `the report is ${report}, wanted an object`);
  return unwrap(module().writeReport(JSON.stringify(report)));
}
