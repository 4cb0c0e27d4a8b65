// Accuracy that comes back after calibration, on data that stays where it is.
import { eachUnlessAborted, pause } from "./abort.js";
import { QdqError } from "./error.js";
import { Handle } from "./handle.js";
import { handleOf, module, unwrap, whole } from "./module.js";
import { checkOptions, isFunction, isIterable, jsonOf, shown } from "./options.js";
import type { RuntimeName } from "./profile.js";
import type { LongWork, Prepared } from "./pt2e.js";
import type { RawTensor } from "../wasm/qdq.js";
import type { Tensor } from "./tensor.js";
import { fromRaw, rawInputs } from "./tensor.js";

/**
 * What a remedy brought: `changes` places of the program, 0 if it did not help and was not kept; the ratio of signal to
 * noise of the outputs on the samples before and after, in dB.
 */
export interface RemedyResult {
  /** What was done. */
  remedy:
    | "weight scales"
    | "inputs"
    | "equalization"
    | "shifts"
    | "ranges"
    | "sums"
    | "outputs"
    | "rounding"
    | "bias correction";
  /** How many places of the program changed; 0 if it did not help and was not kept. */
  changes: number;
  /** The outputs' ratio of signal to noise before, in dB. */
  before: number;
  /** The ratio after, in dB. */
  after: number;
}

/** The options of recover(). */
export interface RecoverOptions extends LongWork {
  /** The runtime whose recipe the program has; what it needs to compute layers in integers stays rounded. */
  runtime?: RuntimeName;
  /** Called behind each. */
  onRemedy?: (result: RemedyResult) => void;
}

class Recovery extends Handle {}

const cancelled = () => new QdqError("Cancelled", "the recovery of accuracy was cancelled");

function check(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw cancelled();
}

const copied = ({ bytes, texts, ...rest }: RawTensor): RawTensor => ({
  ...rest,
  ...(bytes && { bytes: bytes.slice() }),
  ...(texts && { texts: [...texts] }),
});

async function rawBatches(
  batches: Iterable<readonly Tensor[]> | AsyncIterable<readonly Tensor[]>,
  signal: AbortSignal | undefined,
): Promise<RawTensor[][]> {
  if (!isIterable(batches))
    throw new QdqError(
      "InvalidArgument",
      "the samples are not a list or iterable of batches; wanted [[tensor, ...], ...]",
    );
  const raw: RawTensor[][] = [];
  // Whoever makes batches one by one may fill the same arrays again.
  const isMade = !Array.isArray(batches);
  const step = (batch: readonly Tensor[]) => void raw.push(isMade ? rawInputs(batch).map(copied) : rawInputs(batch));
  await eachUnlessAborted(batches, signal, { step, reason: cancelled });
  if (raw.length === 0) throw new QdqError("InvalidArgument", "there are no samples; wanted [[tensor, ...], ...]");
  return raw;
}

async function begin(
  prepared: Prepared,
  batches: Iterable<readonly Tensor[]> | AsyncIterable<readonly Tensor[]>,
  { onProgress, signal }: LongWork,
  forRemedies = false,
  runtime: RuntimeName | "" = "",
): Promise<Recovery> {
  const raw = await rawBatches(batches, signal);
  check(signal);
  const tell = (stage: string, done: number) => {
    onProgress?.({ stage, done, total: 1 });
    check(signal);
  };
  return new Recovery(unwrap(module().makeRecovery(handleOf(prepared), raw, tell, forRemedies, runtime)), whole);
}

/**
 * Rounds the weights of linear layers that have scales by groups (PerGroupMinMaxObserver, PerGroupMSEObserver) for what
 * the layers make of the samples, not each to the nearest (GPTQ). Returns how many layers were rounded. The batches are
 * kept in memory. The same samples give the same bytes as `qdq quantize --gptq`. When the signal is aborted,
 * QdqError{Cancelled} is thrown and the program stays as it was.
 */
export async function gptq(
  prepared: Prepared,
  batches: Iterable<readonly Tensor[]> | AsyncIterable<readonly Tensor[]>,
  options: LongWork = {},
): Promise<number> {
  checkOptions("gptq", options, ["onProgress", "signal"]);
  const { onProgress, signal } = options;
  const raw = await rawBatches(batches, signal);
  check(signal);
  return unwrap(
    module().gptq(handleOf(prepared), raw, (done, total) => {
      onProgress?.({ stage: "rounding weights", done, total });
      check(signal);
    }),
  );
}

/**
 * Scales the channels that linear layers with weights in groups read, so that those with large activations lose least
 * by rounding (AWQ): columns of weights are multiplied, and the norm, layer or product in front is divided. What the
 * float model computes stays the same. Call it before gptq(), which then rounds the scaled weights. Returns how many
 * places were scaled. The batches are kept in memory. The same samples give the same bytes as `qdq quantize --awq`.
 * When the signal is aborted, QdqError{Cancelled} is thrown and the program stays as it was.
 */
export async function awq(
  prepared: Prepared,
  batches: Iterable<readonly Tensor[]> | AsyncIterable<readonly Tensor[]>,
  options: LongWork = {},
): Promise<number> {
  checkOptions("awq", options, ["onProgress", "signal"]);
  const { onProgress, signal } = options;
  const raw = await rawBatches(batches, signal);
  check(signal);
  return unwrap(
    module().awq(handleOf(prepared), raw, (done, total) => {
      onProgress?.({ stage: "scaling channels", done, total });
      check(signal);
    }),
  );
}

/** What a remedy of recoverByStatistics() did. */
export interface AppliedRemedy {
  /** What was done. */
  remedy: "equalization" | "rounding" | "bias correction";
  /** How many places of the program changed; 0 if there was nothing to do. */
  changes: number;
}

/**
 * Brings accuracy back by what layers read of the calibration data, which states hold whose parts were calibrated with
 * `observeLayers`, and without samples: channels of very different sizes are equalized, weights of 5 bits or fewer get
 * the integers that serve their layer, and biases take back what the rounding of weights moves. The same merged state
 * gives the same bytes as `qdq quantize --calibrate STATISTICS.json --recover`. Nothing is judged by the outputs;
 * recover() does that, with samples. Throws QdqError{NotCalibrated} if there are no such statistics.
 */
export async function recoverByStatistics(prepared: Prepared): Promise<AppliedRemedy[]> {
  return JSON.parse(unwrap(module().recoverByStatistics(handleOf(prepared))));
}

/**
 * Corrects biases without any data, by what batch norms that were folded tell of what layers read: a layer's bias takes
 * back what the rounding of its weight moves each channel by. Values behind such a norm count as normally distributed;
 * ReLU, ReLU6 and other clamps, pools, means, paddings and sums are reckoned with, and layers behind anything else stay
 * as they are. Serves weights-only and dynamic quantization, which see no samples; with samples recover() does more.
 * The same bytes as `qdq quantize --weights-only --recover`. Returns how many layers were corrected.
 */
export async function recoverWithoutData(prepared: Prepared): Promise<number> {
  return unwrap(module().recoverWithoutData(handleOf(prepared)));
}

/**
 * gptq() by such statistics in place of samples. Returns how many layers were rounded. Throws QdqError{NotCalibrated}
 * if there are none.
 */
export async function gptqByStatistics(prepared: Prepared): Promise<number> {
  return unwrap(module().gptqByStatistics(handleOf(prepared)));
}

/**
 * Brings the outputs of a calibrated program nearer to the float model's, without labels and without training: scales
 * of weights go below the recipe's eps, channels of very different sizes are equalized, ranges of activations are
 * chosen by what they do to the results, what stands behind the last layers is no longer rounded, weights of 5 bits or
 * fewer, and others of models whose outputs have three or more axes, become the integers that serve their layer, not
 * each the nearest, and every layer's bias takes back the mean error of its channels. Each remedy is kept if it helps;
 * of fewer than 64 samples of a classifier, what a remedy learns from two thirds must serve the last third, too.
 * The batches, those of the calibration or others, are kept in memory. The same samples give the same bytes as `qdq
 * quantize --recover`, and with a runtime as `--for` and `--recover`.
 * `onProgress` is called many times a second with {stage: the remedy, done: 0 to 1}; when the signal is aborted, from
 * there or between two remedies, QdqError{Cancelled} is thrown, and the remedies before stay. Throws
 * QdqError{NotCalibrated} if the program needs data first.
 */
export async function recover(
  prepared: Prepared,
  batches: Iterable<readonly Tensor[]> | AsyncIterable<readonly Tensor[]>,
  options: RecoverOptions = {},
): Promise<RemedyResult[]> {
  checkOptions("recover", options, ["runtime", "onRemedy", "onProgress", "signal"]);
  const { onRemedy, ...work } = options;
  const results: RemedyResult[] = [];
  for await (const result of remedies(prepared, batches, work)) {
    results.push(result);
    onRemedy?.(result);
    await pause();
  }
  return results;
}

/** @internal The results of recover(), each when it is there. */
export async function* remedies(
  prepared: Prepared,
  batches: Iterable<readonly Tensor[]> | AsyncIterable<readonly Tensor[]>,
  { runtime, ...work }: Omit<RecoverOptions, "onRemedy">,
): AsyncGenerator<RemedyResult, void, undefined> {
  const recovery = await begin(prepared, batches, work, true, runtime);
  try {
    for (;;) {
      check(work.signal);
      const result = JSON.parse(unwrap(module().nextRemedy(recovery.handle))) as RemedyResult | null;
      if (result === null) return;
      yield result;
    }
  } finally {
    recovery.dispose();
  }
}

/**
 * What an operator that reads rounded values costs, as ratios of signal to noise in dB (200: nothing differs): `own` of
 * its result from float values, `alone` of the program's outputs if no other rounds, `without` if all others do.
 */
export interface Sensitivity {
  /** The name of the node. */
  node: string;
  /** The path of the module that it came from, "" for the root. */
  module: string;
  /** The operator: "aten.conv2d.default". */
  op: string;
  /** dB of its own result, when it reads float values. */
  own: number;
  /** dB of the program's outputs if no other operator rounds. */
  alone: number;
  /** dB of the program's outputs if all others round. */
  without: number;
}

/**
 * The sensitivity of every operator of a calibrated program, in the order of the graph, and the ratio of the outputs
 * with all rounding. Takes about as long as 20 runs on all batches.
 */
export async function sensitivities(
  prepared: Prepared,
  batches: Iterable<readonly Tensor[]> | AsyncIterable<readonly Tensor[]>,
  options: LongWork = {},
): Promise<{ all: number; operators: Sensitivity[] }> {
  checkOptions("sensitivities", options, ["onProgress", "signal"]);
  const recovery = await begin(prepared, batches, options);
  try {
    return JSON.parse(unwrap(module().sensitivities(recovery.handle)));
  } finally {
    recovery.dispose();
  }
}

/** How an operator may compute, other than by the recipe's integers: see choosePrecision(). */
export type PrecisionName = "int8-weights" | "int16" | "bf16" | "float";

/** A tried program: its most harmful operators have another precision, the others the recipe's. */
export interface PrecisionTrial {
  /** The precision of those operators; "int8" if there are none, whatever the recipe's integers are. */
  precision: PrecisionName | "int8";
  /** The number of those operators. */
  operators: number;
  /** The precision of the other operators that take it; undefined: as the recipe has them. */
  others?: "int8-weights";
  /** The score of the outputs. */
  score: number;
  /** The bytes of the file, if there is a limit or "int8-weights" is among the precisions. */
  bytes?: number;
  /** The seconds of a run of the first batch, if there is a limit. */
  seconds?: number;
  /** Whether no other trial is as good in every measure and better in one. */
  front?: boolean;
}

/** The result of reachScore() and choosePrecision(). */
export interface PrecisionResult {
  /** Whether the program reaches the goal; if not, nothing changed. */
  reached: boolean;
  /** The new precision of the operators. */
  precision: PrecisionName | "int8";
  /** The score before. */
  before: number;
  /** The score after. */
  after: number;
  /** The trial nearest to the goal; if the goal is reached, the program is this trial. */
  best: PrecisionTrial;
  /** The operators with the new precision, the most harmful first. */
  operators: {
    /** The name of the node. */
    node: string;
    /** The path of its module, "" for the root. */
    module: string;
  }[];
  /** All tried programs, by precision and number of operators. */
  trials: PrecisionTrial[];
}

/** The goals of choosePrecision(), and how to judge programs. */
export interface PrecisionOptions extends LongWork {
  /**
   * The score of the quantized program's outputs for all batches, in order; more is better. Default: their
   * signal-to-noise ratio in dB. If it throws, the work ends and the program does not change.
   */
  score?: (outputs: Tensor[][]) => number;
  /** The minimum score, for the smallest program that reaches it; without it, the best score within the limits. */
  wanted?: number;
  /** The largest size of the file in bytes. */
  maxBytes?: number;
  /** The file whose size counts; default "pt2", which stores weights of 4 bits as bytes. An .onnx file does not. */
  format?: "pt2" | "onnx";
  /** The longest time of a run of the first batch in seconds, by the steps' times on this machine. */
  maxSeconds?: number;
  /**
   * The precisions that operators may get. Default: "float", and "int8-weights" where weights have 5 bits or fewer;
   * with a limit "int16" and "bf16", too.
   */
  precisions?: readonly PrecisionName[];
  /** Called after each tried program with the state of the search, a text to keep. */
  onSearch?: (text: string) => void;
  /** Such a text: the search for the same program on the same samples resumes from it. */
  search?: string;
}

/**
 * Gives operators of a calibrated program another precision, those whose rounding alone harms the outputs most first:
 * "int8-weights" (8 bits for weights of 5 or fewer, the most harmful for their size first), "int16" activations
 * (weights stay as they are), "bf16" (weights take two bytes) or "float". As few operators as reach
 * the wanted score, found by doubling and halving; without it the best score within the limits. About 2 log2 n programs
 * are tried for each precision. Call it after recover(), which costs no speed. Throws QdqError{InvalidArgument} for
 * a score that is no number, and for a search of another program.
 */
export async function choosePrecision(
  prepared: Prepared,
  batches: Iterable<readonly Tensor[]> | AsyncIterable<readonly Tensor[]>,
  options: PrecisionOptions,
): Promise<PrecisionResult> {
  checkOptions("choosePrecision", options, [
    "score",
    "wanted",
    "maxBytes",
    "maxSeconds",
    "format",
    "precisions",
    "onSearch",
    "search",
    "onProgress",
    "signal",
  ]);
  const { score, wanted, maxBytes, maxSeconds, format = "pt2", precisions, onSearch, search } = options;
  if (score !== undefined && !isFunction(score))
    throw new QdqError("InvalidArgument", `the score is ${shown(score)}; wanted a function of the outputs`);
  for (const [name, value] of Object.entries({ wanted, maxBytes, maxSeconds }))
    if (value !== undefined && !(typeof value === "number" && (name === "wanted" ? !Number.isNaN(value) : value > 0)))
      throw new QdqError("InvalidArgument", `${name} of the wish is ${String(value)}; wanted a number`);
  if (wanted === undefined && maxBytes === undefined && maxSeconds === undefined)
    throw new QdqError("InvalidArgument", "nothing is wished; give wanted, maxBytes or maxSeconds");
  if (format !== "pt2" && format !== "onnx")
    throw new QdqError("InvalidArgument", `format is ${String(format)}; wanted "pt2" or "onnx"`);
  const wish = {
    format,
    ...(precisions && { precisions }),
    // JSON has no infinities.
    ...(wanted !== undefined && { wanted: Math.min(Math.max(wanted, -Number.MAX_VALUE), Number.MAX_VALUE) }),
    ...(maxBytes !== undefined && { maxBytes: Math.floor(maxBytes) }),
    ...(maxSeconds !== undefined && { maxSeconds }),
    ...(search !== undefined && { search }),
  };
  const scoreOf = (outputs: RawTensor[][]) => {
    const found: unknown = score!(outputs.map((batch) => batch.map(fromRaw)));
    if (typeof found !== "number" || Number.isNaN(found))
      throw new QdqError("InvalidArgument", `the score function gave ${String(found)}; wanted a number`);
    return found;
  };
  const recovery = await begin(prepared, batches, options);
  try {
    const isKept = onSearch !== undefined || search !== undefined;
    const tell = isKept ? (text: string) => onSearch?.(text) : null;
    return JSON.parse(
      unwrap(
        module().choosePrecision(
          recovery.handle,
          score ? scoreOf : null,
          jsonOf(() => wish, "what choosePrecision() was given"),
          tell,
        ),
      ),
    );
  } finally {
    recovery.dispose();
  }
}

/**
 * choosePrecision() by a score alone, with operators in float: a top-1, an F1, a negated perplexity. `score` is called
 * once for each of the about 2 log2 n programs that are tried.
 */
export async function reachScore(
  prepared: Prepared,
  batches: Iterable<readonly Tensor[]> | AsyncIterable<readonly Tensor[]>,
  score: (outputs: Tensor[][]) => number,
  wanted: number,
  options: LongWork = {},
): Promise<PrecisionResult> {
  checkOptions("reachScore", options, ["onProgress", "signal"]);
  if (!isFunction(score))
    throw new QdqError("InvalidArgument", `the score is ${shown(score)}; wanted a function of the outputs`);
  if (typeof wanted !== "number" || Number.isNaN(wanted))
    throw new QdqError("InvalidArgument", `the score to reach is ${String(wanted)}; wanted a number`);
  return choosePrecision(prepared, batches, { ...options, score, wanted });
}
