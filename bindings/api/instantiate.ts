// Makes an instance of a compiled module, with the workers of its threads if it has any.
import type { Instantiation } from "../wasm/qdq.js";
import type { ThreadWorker } from "../wasm/qdq-threads.js";

// Starts a worker that runs a classic script; `failed` is called if it cannot, or when it breaks.
export type StartWorker = (script: URL, failed: (reason: unknown) => void) => ThreadWorker;

// Rejects if the engine refuses the module, for example because it has no more memory to give.
export function instantiate<M>(
  create: (options: Instantiation) => Promise<M>,
  compiled: WebAssembly.Module,
): Promise<M> {
  return new Promise((resolve, reject) => {
    const options: Instantiation = {
      instantiateWasm(imports, done) {
        WebAssembly.instantiate(compiled, imports).then((instance) => done(instance, compiled), reject);
        return {};
      },
    };
    create(options).then(resolve, reject);
  });
}

export type CreateWithThreads<M> = (
  options: Instantiation & { workers: number; Worker: new () => ThreadWorker },
) => Promise<M>;

// The same for a module whose memory is shared: `threads` counts the caller too. Rejects also if a worker cannot be
// started.
export async function instantiateWithThreads<M>(
  create: CreateWithThreads<M>,
  compiled: WebAssembly.Module,
  threads: number,
  script: URL,
  startWorker: StartWorker,
): Promise<M> {
  const started: ThreadWorker[] = [];
  let failed: (reason: unknown) => void;
  const failure = new Promise<never>((_, reject) => (failed = reject));
  // What a constructor returns is what `new` gives; an arrow function cannot be one.
  // biome-ignore lint/complexity/useArrowFunction: it is called with `new`
  const Worker = function () {
    const worker = startWorker(script, failed);
    started.push(worker);
    return worker;
  } as unknown as new () => ThreadWorker;
  try {
    const made = instantiate<M>((options) => create({ ...options, workers: threads - 1, Worker }), compiled);
    return await Promise.race([made, failure]);
  } catch (error) {
    for (const worker of started) worker.terminate();
    throw error;
  }
}
