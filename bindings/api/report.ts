// What quantization does to a model: reasons before it is done, errors by layer afterwards, and the file that shows
// both.
import { QdqError } from "./error.js";
import type { NodeSnapshot } from "./graph.js";
import { Handle } from "./handle.js";
import { handleOf, module, unwrap, whole } from "./module.js";
import { fromJson } from "./names.js";
import type { ObserverSummary } from "./observer.js";
import { checkNearFields, jsonOf, shown } from "./options.js";
import type { Program } from "./program.js";
import type { Prepared } from "./pt2e.js";
import type { EdgeOrNode } from "./qspec.js";
import type { Recipe } from "./recipe.js";
import type { PrecisionResult, RemedyResult } from "./recover.js";
import type { DType, Tensor } from "./tensor.js";
import { rawInputs } from "./tensor.js";

/** A quantizer's decision about an operator. */
export interface Decision {
  /** The quantizer's name. */
  quantizer: string;
  /** The name of the pattern, or "". */
  pattern: string;
  /** Whether it took the operator. */
  taken: boolean;
  /** Why, in words. */
  reason: string;
}

/** What becomes of one operator, and why. */
export interface Explanation extends Omit<Decision, "taken"> {
  /** The name of the node. */
  node: string;
  /** The path of the module that it came from, "" for the root. */
  module: string;
  /** The operator: "aten.conv2d.default". */
  op: string;
  /** Whether it computes on integers, is part of an operator that does, or stays float. */
  outcome: "quantized" | "fused" | "float";
  /** The result for the tensors around it, in words. */
  tensors: readonly (EdgeOrNode & { becomes: string })[];
  /** The decision of each quantizer. */
  decisions: readonly Decision[];
}

/** What becomes of every operator, and why. */
export interface ExplanationReport {
  /** All operators in the order of the graph. */
  operators: readonly Explanation[];
  /** Edges whose two ends were annotated differently. */
  conflicts: readonly {
    edge: readonly [string, string];
    producerAnnotator: string;
    consumerAnnotator: string;
    message: string;
  }[];
}

/** The error of values y against the reference's values x. null: no error, or one that is not a number. */
export interface ValueError {
  /** The ratio of signal to noise in dB: 10 log10(sum x^2 / sum (x - y)^2). */
  sqnrDb: number | null | { float: string };
  /** The mean of (x - y)^2. */
  mse: number | { float: string };
  /** The cosine of the angle between x and y. */
  cosine: number | null;
  /** The largest |x - y|. */
  maxError: number | { float: string };
}
/** The error of an operator's value, accumulated over all layers so far. */
export interface LayerError extends ValueError {
  /** The name of the node. */
  node: string;
  /** The path of the module that it came from, "" for the root. */
  module: string;
  /** The operator: "aten.conv2d.default". */
  op: string;
  /** The name of the candidate's node, if it differs. */
  candidateNode?: string;
  /** Whether the value went through integers. */
  quantized: boolean;
  /** The sample with the largest error. */
  worst?: { sample: number; sqnrDb: number | { float: string } };
  /** The error that the layer adds to the reference's values. */
  own?: ValueError;
  /** The error of the weight, for layers that have one. */
  weight?: ValueError;
}

/** A quantized value after conversion. */
export interface ConvertedQParams {
  /** The value's name, or that of a folded weight. */
  of: string;
  /** The node that reads it, if it is a folded weight. */
  by: readonly string[];
  /** The dtype of the integers. */
  dtype: DType;
  /** The least integer. */
  quantMin: number;
  /** The largest integer. */
  quantMax: number;
  /** The number of scales; 0 where they are chosen at run time. */
  channels: number;
  /** The scale, or the smallest and the largest of the channels. */
  scale: readonly number[];
  /** The zero point of the first channel. */
  zeroPoint: readonly number[];
}

/** The layers that became integers, those that did not and why, and the observers' statistics. */
export interface QuantizationReport extends ExplanationReport {
  /** The number of layers with a weight, and of those that are quantized. */
  layers: { total: number; quantized: number };
  /** The layers that stay float, with the reason. */
  left: readonly { node: string; module: string; op: string; reason: string }[];
  /** The observers' statistics. */
  observers: readonly ObserverSummary[];
  /** Problems of the calibration samples, one sentence each; missing if there are none. */
  dataWarnings?: readonly string[];
  /** The scales and zero points of the converted program. */
  qparams: readonly ConvertedQParams[];
}

/** A class, and its share of all: as softmax gives it, or the score itself where the scores are shares already. */
export interface Choice {
  /** The number of the class. */
  class: number;
  /** Its share of all, from 0 to 1. */
  share: number | { float: string };
}

/** The first choices of both models for one sample. */
export interface SamplePrediction {
  /** The number of the sample from 0, in the order of the data. */
  sample: number;
  /** The right class, if it is known. */
  label?: number;
  /** The float model's first choices, best first. */
  float: readonly Choice[];
  /** The quantized model's first choices, best first. */
  int8: readonly Choice[];
  /** The change of the scores: sum (x - y)^2 / sum x^2. */
  moved: number | { float: string };
  /** The file of the sample. */
  file?: string;
  /** A picture of the sample, as a data: URL. */
  image?: string;
}

/** A float program compared with its quantized form, on the added samples. */
export interface EvaluationReport {
  /**
   * The signal-to-noise ratio of the first output in dB; null: no error; { float: "-inf" } or "nan": a value that JSON
   * does not have. An output with a size that only a run tells, such as a number of boxes, does not count; missing if
   * no other is there.
   */
  sqnr?: number | null | { float: string };
  /** Milliseconds per sample, in batches of `batch`. */
  speed: { float: number; int8: number; batch?: number };
  /** Shares of the samples in percent; only for classifiers. */
  accuracy?: {
    top1?: readonly [float: number, int8: number];
    top5?: readonly [float: number, int8: number];
    agreement: number;
    samples: number;
  };
  /** Signs that the float model's answers do not depend on the samples; missing if there are none. */
  warnings?: readonly string[];
  /** The worst samples: those with other answers than float's, then those whose scores changed most. */
  predictions?: readonly SamplePrediction[];
}

/** The contents of reportHtml's file; each field may be missing. */
export interface Report extends Partial<QuantizationReport>, Partial<EvaluationReport> {
  /** The model's name. */
  model?: string;
  /** The date, tool, command and machine of the report. */
  made?: { date?: string; by?: string; command?: string; machine?: string };
  /** The nodes of the float program, which the graph shows. */
  nodes?: readonly NodeSnapshot[];
  /** The sizes of the two files. */
  bytes?: readonly [before: number, after: number];
  /** The recipe of the quantization. */
  recipe?: Recipe;
  /** The result of recover(). */
  remedies?: readonly RemedyResult[];
  /** The result of choosePrecision(), and the meaning of its scores: "agreement %". */
  precision?: PrecisionResult & { score?: string };
  /** The number of calibration samples. */
  samples?: number;
  /** The error of each operator, from a LayerComparison. */
  errors?: readonly LayerError[];
  /** The names of the classes. */
  classes?: readonly string[];
}

/**
 * For every operator, or for one, whether the quantizer takes it, by which pattern and why (or why not), and what its
 * tensors become. Needs no data. Throws QdqError{InvalidArgument} if there is no operator of that name.
 */
export function explain(prepared: Prepared): ExplanationReport;
/** The same for the operator of that name. */
export function explain(prepared: Prepared, node: string): Explanation;
export function explain(prepared: Prepared, node?: string): ExplanationReport | Explanation {
  const report = fromJson<ExplanationReport>(unwrap(module().explain(handleOf(prepared))));
  if (node === undefined) return report;
  const found = report.operators.find((explanation) => explanation.node === node);
  if (!found)
    throw new QdqError(
      "InvalidArgument",
      `there is no operator ${shown(node)} in the prepared program; explain(prepared) lists all`,
    );
  return found;
}

/** The error of each operator's value against the reference's, summed over the added batches. */
export class LayerComparison extends Handle {
  /** Runs the reference once and each candidate twice on one batch, without fused kernels. */
  add(inputs: readonly Tensor[]): void {
    unwrap(module().addToComparison(this.handle, rawInputs(inputs)));
  }
  /** The errors of the candidate with this number; largest error first. */
  layers(candidate = 0): LayerError[] {
    if (!Number.isSafeInteger(candidate) || candidate < 0)
      throw new QdqError("InvalidArgument", `the candidate is ${shown(candidate)}, wanted its number, from 0`);
    return fromJson(unwrap(module().describeComparison(this.handle, candidate)));
  }
}

/**
 * Numbers the operators of a program that have no debug handle yet, upwards from the largest one there. preparePt2e and
 * convertPt2e pass them on, and .pt2 files keep them, so that compareLayers finds the operators again
 * (torch/ao/quantization/pt2e/_numeric_debugger.py).
 */
export function generateNumericDebugHandles(program: Program): void {
  unwrap(module().generateNumericDebugHandles(handleOf(program)));
}

/**
 * Compares one program or several with a reference, a float program or a prepared one, operator by operator: programs
 * from files of any kind, whose operators are found by debug handle, by the names that ONNX files give their values, or
 * by the names of nodes. Throws QdqError{InvalidArgument} if nothing in a candidate belongs to the reference.
 */
export function compareLayers(
  reference: Program | Prepared,
  candidates: Program | readonly Program[],
): LayerComparison {
  const programs = Array.isArray(candidates) ? candidates : [candidates];
  return new LayerComparison(unwrap(module().compareLayers(handleOf(reference), programs.map(handleOf))), whole);
}

/** Runs both programs batch by batch, each lowered as by lower(). */
export class Evaluation extends Handle {
  /** One batch; the first axis counts samples. */
  add(inputs: readonly Tensor[]): void {
    unwrap(module().addToEvaluation(this.handle, rawInputs(inputs)));
  }
  /**
   * Speed is measured on batches of a size that came before; if there are none, this runs the first batch once more.
   */
  report(): EvaluationReport {
    return fromJson(unwrap(module().describeEvaluation(this.handle)));
  }
}

/** `labels`: the class of each sample in order, if they are known. */
export function evaluate(program: Program, quantized: Program, labels: readonly number[] = []): Evaluation {
  return new Evaluation(
    unwrap(
      module().evaluate(
        handleOf(program),
        handleOf(quantized),
        jsonOf(() => labels, "the labels"),
      ),
    ),
    whole,
  );
}

/** The layers that became integers, those that did not and why, and the observers' statistics. */
export function quantizationReport(prepared: Prepared, quantized: Program): QuantizationReport {
  return fromJson(unwrap(module().describeQuantization(handleOf(prepared), handleOf(quantized))));
}

const reportFields = [
  ...["operators", "conflicts", "layers", "left", "observers", "dataWarnings", "qparams"],
  ...["sqnr", "speed", "accuracy", "warnings", "predictions", "model", "made", "nodes", "bytes", "recipe", "remedies"],
  ...["precision", "samples", "errors", "classes"],
];

/** A self-contained HTML file that shows the report, as `qdq quantize --report` writes it. */
export function reportHtml(report: Report): string {
  if (typeof report !== "object" || report === null)
    throw new QdqError("InvalidArgument", `the report is ${shown(report)}, wanted an object`);
  checkNearFields("a report", report, reportFields);
  return unwrap(module().writeReport(jsonOf(() => report, "the report")));
}
