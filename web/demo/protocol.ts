// What the page and its worker say to each other. Files go over by reference, everything else as plain data.
import type {
  Capabilities,
  ErrorCode,
  EvaluationReport,
  ExplanationReport,
  LayerError,
  ObserverSummary,
  PrecisionResult,
  ProgramInfo,
  QuantizationReport,
  RemedyResult,
  RuntimeName,
  RuntimeProfile,
  RuntimeReport,
} from "qdq";
import type { Recipe, Report, TensorData } from "qdq";

export interface NamedFile {
  name: string; // with the folders it was found in: "cats/001.png"
  file: Blob;
}

export interface DataChoice {
  files: readonly NamedFile[];
  labels?: string; // the file among them that holds the classes; without one folders may tell
  classes?: readonly string[]; // their names
  preprocess: Record<string, unknown>;
  batchSize: number;
  limit: number;
}

export interface DataInfo {
  samples: number;
  batches: number;
  files: readonly string[];
  labels?: readonly number[];
  classes?: readonly string[]; // that folders are named after
  folders?: string; // why the folders of the images are no labels
  warnings: readonly string[];
}

export interface Picture {
  width: number;
  height: number;
  pixels: Uint8ClampedArray<ArrayBuffer>; // RGBA
}

export interface ModelInfo {
  program: ProgramInfo;
  bytes: number; // with what the model keeps beside itself
  kind: ModelKind;
}
export type ModelKind = ".pt2" | ".onnx";

// The runtime that a file is for, and what else is asked of its profile.
export interface Target {
  name: RuntimeName;
  activationBits?: 16;
  dedicatedPairs?: true; // in the .onnx: each reader of a value has QuantizeLinear and DequantizeLinear of its own
}

export interface QuantizeOptions {
  recovers: boolean; // whether accuracy is recovered after the calibration
  epochs?: number; // train so often on each sample, in place of the calibration alone
  wanted?: number; // leave so many operators in float that the score is at least this
  target?: Target;
  kind: ModelKind; // of the file that is wanted
}

// What leaving operators in float brought.
export interface Reached extends PrecisionResult {
  wanted: number;
  unit: "%" | "dB"; // of the scores: the share of equal answers, or the ratio of signal to noise
}

export interface Quantized {
  file: Blob; // the .pt2; the .onnx where there is none
  pt2Problem?: string; // why there is none
  onnx?: Blob; // the .onnx, where that is wanted
  onnxProblem?: string; // why there is none
  runtime?: RuntimeReport; // what the target runs in integers
  reached?: Reached; // where operators were left in float for the score
  seconds: { calibrate: number; convert: number };
  samples: number;
  report: QuantizationReport;
  observers: string; // what they saw, as JSON
  remedies?: readonly RemedyResult[]; // where accuracy was recovered
  losses?: readonly number[]; // of each epoch, where it was trained
}

// What a recipe would do, and whether it can do it without calibration data.
export interface Explained extends ExplanationReport {
  needsData: boolean;
  warnings: readonly string[]; // settings that have no effect
}

export interface Equipment extends Capabilities {
  isolated: boolean; // whether the page may have threads
}

// The worst samples come with their files.
export interface Evaluation extends EvaluationReport {
  classes: readonly string[]; // their names, if they are known
}

// A tensor's part of one sample, without the axis of the batch.
export interface Value {
  name: string;
  dtype: string;
  shape: readonly number[];
  data: TensorData;
}

// One sample: what its first input looks like, and what both models answer.
export interface Sample {
  sample: number;
  file: string;
  picture?: Picture;
  wave?: Float32Array;
  ids?: readonly number[]; // of a tokenizer's words
  float?: readonly Value[];
  int8?: readonly Value[];
}

export interface Stage {
  stage: string;
  done: number;
  total: number; // 0 where it is not known
  unit?: "bytes" | "percent"; // else batches
  note?: string; // said behind how far it is
  expected?: number; // seconds that the whole stage may take, known before it has run for long
  observers?: readonly ObserverSummary[];
}

// The worker's methods: arguments and answers.
export interface Methods {
  // Brings the WASM module while the person still looks for a file; with so much memory where the engine has it.
  warm(maxMemory?: number): Equipment;
  open(file: NamedFile, beside: readonly NamedFile[]): ModelInfo; // beside: what an ONNX model keeps in other files
  openData(use: "calibration" | "test", choice: DataChoice): DataInfo;
  preview(choice: DataChoice, index: number): Picture;
  explain(recipe: Recipe): Explained;
  profile(target: Target): RuntimeProfile;
  quantize(recipe: Recipe, options: QuantizeOptions): Quantized;
  onnxOf(file: Blob, target: Target | undefined): Blob; // a result's file as .onnx
  restore(recipe: Recipe, file: Blob): void; // takes an earlier result back
  compare(): LayerError[];
  evaluate(use: "calibration" | "test"): Evaluation;
  samples(use: "calibration" | "test", places: readonly number[], runs: boolean): Sample[]; // runs: with both answers
  report(report: Report): string;
}
export type Method = keyof Methods;

export interface ToWorker {
  id: number; // 0 where nobody waits for the answer
  method: Method;
  args: readonly unknown[];
}
export type FromWorker =
  | { id: number; progress: Stage }
  | { id: number; value: unknown }
  | { id: number; error: { message: string; code?: ErrorCode; node?: string } };
