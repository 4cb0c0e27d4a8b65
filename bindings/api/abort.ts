// Work that an AbortSignal ends, also while it waits for the next batch of data.

type Signal = AbortSignal | null | undefined;

/**
 * What `work` gives, or an error as soon as the signal is aborted: its reason unless `reason` gives another. The work
 * itself goes on until it next asks the signal.
 * @internal
 */
export async function unlessAborted<T>(
  signal: Signal,
  work: () => Promise<T>,
  reason: () => unknown = () => signal?.reason,
): Promise<T> {
  if (!signal) return work();
  if (signal.aborted) throw reason();
  let stop = (): void => {};
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(reason());
    signal.addEventListener("abort", stop, { once: true });
  });
  try {
    return await Promise.race([work(), aborted]);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

/**
 * Lets other work run.
 * @internal
 */
export const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve));

/**
 * Calls `step` with each batch. Throws what `reason` gives as soon as the signal is aborted.
 * @internal
 */
export function eachUnlessAborted<T>(
  batches: Iterable<T> | AsyncIterable<T>,
  signal: Signal,
  { step, reason }: { step: (batch: T) => void | Promise<void>; reason: () => unknown },
): Promise<void> {
  const work = async () => {
    for await (const batch of batches) {
      if (signal?.aborted) throw reason();
      await step(batch);
    }
  };
  return unlessAborted(signal, work, reason);
}
