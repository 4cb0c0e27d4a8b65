// Accuracy that comes back after calibration, on data that stays where it is.
import { QdqError } from "./error.js";
import { Handle } from "./handle.js";
import { handleOf, module, unwrap, whole } from "./module.js";
import { checkOptions } from "./options.js";
import type { LongWork, Prepared } from "./pt2e.js";
import { isIterable } from "./pt2e.js";
import type { Tensor } from "./tensor.js";
import { rawInputs } from "./tensor.js";

// What a remedy brought: `changes` places of the program, 0 if it did not help and was not kept; the ratio of signal to
// noise of the outputs on the samples before and after, in dB.
export interface RemedyResult {
  remedy: "outputs" | "ranges" | "bias correction";
  changes: number;
  before: number;
  after: number;
}

export interface RecoverOptions extends LongWork {
  onRemedy?: (result: RemedyResult) => void; // called behind each
}

class Recovery extends Handle {}

// Brings the outputs of a calibrated program nearer to the float model's, without labels and without training: what
// stands behind the last layers is no longer rounded, ranges of activations are chosen by what they do to the results,
// and every layer's bias takes back the mean error of its channels. Each remedy is kept if it helps. The batches, those
// of the calibration or others, are kept in memory. The same samples give the same bytes as `qdq quantize --recover`.
// `onProgress` is called many times a second with {stage: the remedy, done: 0 to 1}; when the signal is aborted, from
// there or between two remedies, QdqError{Cancelled} is thrown, and the remedies before stay.
// Throws QdqError{NotCalibrated} if the program needs data first.
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
  const { onRemedy, onProgress, signal } = options;
  const check = () => {
    if (signal?.aborted) throw new QdqError("Cancelled", "the recovery of accuracy was cancelled");
  };
  const raw = [];
  for await (const batch of batches) raw.push(rawInputs(batch));
  check();
  const tell = (stage: string, done: number) => {
    onProgress?.({ stage, done, total: 1 });
    check();
  };
  const recovery = new Recovery(unwrap(module().makeRecovery(handleOf(prepared), raw, tell)), whole);
  const results: RemedyResult[] = [];
  try {
    for (;;) {
      check();
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
