// Accuracy that comes back after calibration, on data that stays where it is.
import { QdqError } from "./error.js";
import { Handle } from "./handle.js";
import { handleOf, module, unwrap, whole } from "./module.js";
import { checkOptions } from "./options.js";
import type { LongWork, Prepared } from "./pt2e.js";
import { isIterable } from "./pt2e.js";
import type { Tensor } from "./tensor.js";
import { rawInputs } from "./tensor.js";

/**
 * What a remedy brought: `changes` places of the program, 0 if it did not help and was not kept; the ratio of signal to
 * noise of the outputs on the samples before and after, in dB.
 */
export interface RemedyResult {
  /** What was done. */
  remedy: "weight scales" | "equalization" | "ranges" | "outputs" | "bias correction";
  /** How many places of the program changed; 0 if it did not help and was not kept. */
  changes: number;
  /** The outputs' ratio of signal to noise before, in dB. */
  before: number;
  /** The ratio after, in dB. */
  after: number;
}

/** The options of recover(). */
export interface RecoverOptions extends LongWork {
  /** Called behind each. */
  onRemedy?: (result: RemedyResult) => void;
}

class Recovery extends Handle {}

function check(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw new QdqError("Cancelled", "the recovery of accuracy was cancelled");
}

async function begin(
  prepared: Prepared,
  batches: Iterable<readonly Tensor[]> | AsyncIterable<readonly Tensor[]>,
  { onProgress, signal }: LongWork,
): Promise<Recovery> {
  if (!isIterable(batches))
    throw new QdqError(
      "InvalidArgument",
      "the samples are no list or iterable of batches; wanted [[tensor, ...], ...]",
    );
  const raw = [];
  for await (const batch of batches) raw.push(rawInputs(batch));
  check(signal);
  const tell = (stage: string, done: number) => {
    onProgress?.({ stage, done, total: 1 });
    check(signal);
  };
  return new Recovery(unwrap(module().makeRecovery(handleOf(prepared), raw, tell)), whole);
}

/**
 * Brings the outputs of a calibrated program nearer to the float model's, without labels and without training: scales
 * of weights go below the recipe's eps, channels of very different sizes are equalized, ranges of activations are
 * chosen by what they do to the results, what stands behind the last layers is no longer rounded, and every layer's
 * bias takes back the mean error of its channels. Each remedy is kept if it helps. The batches, those of the
 * calibration or others, are kept in memory. The same samples give the same bytes as `qdq quantize --recover`.
 * `onProgress` is called many times a second with {stage: the remedy, done: 0 to 1}; when the signal is aborted, from
 * there or between two remedies, QdqError{Cancelled} is thrown, and the remedies before stay. Throws
 * QdqError{NotCalibrated} if the program needs data first.
 */
export async function recover(
  prepared: Prepared,
  batches: Iterable<readonly Tensor[]> | AsyncIterable<readonly Tensor[]>,
  options: RecoverOptions = {},
): Promise<RemedyResult[]> {
  checkOptions("recover", options, ["onRemedy", "onProgress", "signal"]);
  if (!isIterable(batches))
    throw new QdqError(
      "InvalidArgument",
      "the samples are no list or iterable of batches; wanted [[tensor, ...], ...]",
    );
  const recovery = await begin(prepared, batches, options);
  const { onRemedy, signal } = options;
  const results: RemedyResult[] = [];
  try {
    for (;;) {
      check(signal);
      const result = JSON.parse(unwrap(module().nextRemedy(recovery.handle))) as RemedyResult | null;
      if (result === null) return results;
      results.push(result);
      onRemedy?.(result);
      await new Promise((resolve) => setTimeout(resolve));
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
