// Makes an instance of a compiled module, with the workers of its threads if it has any.
import { QdqError } from "./error.js";
import type { Instantiation } from "../wasm/qdq.js";
import type { ThreadWorker } from "../wasm/qdq-threads.js";

// Starts a worker that runs a classic script; `failed` is called if it cannot, or when it breaks.
export type StartWorker = (script: URL, failed: (reason: unknown) => void) => ThreadWorker;

// A module comes whole or in two parts (bindings/split.mjs); the second is instantiated into the memory and the table of the first.
export class FirstPart {
  readonly isWhole: boolean;
  readonly #mark: string;
  #instance: WebAssembly.Instance | undefined;

  constructor(readonly compiled: WebAssembly.Module) {
    this.#mark = markOf(compiled);
    this.isWhole = this.#mark === "";
  }

  async instantiate(imports: WebAssembly.Imports): Promise<WebAssembly.Instance> {
    return (this.#instance = await WebAssembly.instantiate(this.compiled, imports));
  }

  // What the second part imports. Throws QdqError{InvalidArgument} if it was not cut from the same module.
  importsOf(second: WebAssembly.Module): WebAssembly.Imports {
    if (markOf(second) !== this.#mark || WebAssembly.Module.imports(second).some(({ module }) => module !== "first")) {
      throw new QdqError("InvalidArgument", "the files of the module are not parts of one; take both from the same build, qdq-quantize.wasm " +
        "with qdq.wasm and qdq-relaxed-quantize.wasm with qdq-relaxed.wasm");
    }
    return { first: this.#instance!.exports as WebAssembly.ModuleImports };
  }
}

// What both parts of a module have, and no other.
const markOf = (part: WebAssembly.Module): string => new Uint8Array(WebAssembly.Module.customSections(part, "qdq")[0] ?? []).join();

// Rejects if the engine refuses the module, for example because it has no more memory to give.
export function instantiate<M>(create: (options: Instantiation) => Promise<M>, part: FirstPart): Promise<M> {
  return new Promise((resolve, reject) => {
    const options: Instantiation = {
      instantiateWasm(imports, done) {
        part.instantiate(imports).then((instance) => done(instance, part.compiled), reject);
        return {};
      },
    };
    create(options).then(resolve, reject);
  });
}

type CreateWithThreads<M> = (options: Instantiation & { workers: number; Worker: new () => ThreadWorker }) => Promise<M>;

// The same for a module whose memory is shared: `threads` counts the caller too. Rejects also if a worker cannot be started.
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
  // What a constructor returns is what `new` gives.
  const Worker = function () {
    const worker = startWorker(script, failed);
    started.push(worker);
    return worker;
  } as unknown as new () => ThreadWorker;
  try {
    const made = instantiate<M>((options) => create({ ...options, workers: threads - 1, Worker }), new FirstPart(compiled));
    return await Promise.race([made, failure]);
  } catch (error) {
    for (const worker of started) worker.terminate();
    throw error;
  }
}
