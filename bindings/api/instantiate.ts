// Makes an instance of a compiled module, with the workers of its threads if it has any.
import { QdqError } from "./error.js";
import type { Instantiation } from "../wasm/qdq.js";
import type { ThreadWorker } from "../wasm/qdq-threads.js";

// Starts a worker that runs a classic script; `failed` is called if it cannot, or when it breaks.
export type StartWorker = (script: URL, failed: (reason: unknown) => void) => ThreadWorker;

// A module comes whole or in two parts (bindings/split.mjs). The second is instantiated into the memory and the table of the first, which
// has functions of ours in the table where those of the second will be: `called` has to bring it, or to throw.
export class FirstPart {
  readonly isWhole: boolean;
  readonly #compiled: WebAssembly.Module;
  readonly #called: () => void;
  #instance: WebAssembly.Instance | undefined;

  constructor(compiled: WebAssembly.Module, called: () => void) {
    this.#compiled = compiled;
    this.#called = called;
    this.isWhole = !WebAssembly.Module.imports(compiled).some(({ module }) => module === "second");
  }

  async instantiate(imports: WebAssembly.Imports): Promise<WebAssembly.Instance> {
    let table: WebAssembly.Table | undefined;
    const second = new Proxy({}, {
      get: (_, slot) => (...args: unknown[]) => {
        this.#called();
        table ??= Object.values(this.#instance!.exports).find((each) => each instanceof WebAssembly.Table);
        return table!.get(Number(slot))(...args);
      },
    });
    return (this.#instance = await WebAssembly.instantiate(this.#compiled, { ...imports, second }));
  }

  // What the second part imports. Throws QdqError{InvalidArgument} if it was not cut from the same module.
  importsOf(second: WebAssembly.Module): WebAssembly.Imports {
    const [mine, its] = [this.#compiled, second].map((part) => String(new Uint8Array(WebAssembly.Module.customSections(part, "qdq")[0] ?? [])));
    if (mine !== its || WebAssembly.Module.imports(second).some(({ module }) => module !== "first")) {
      throw new QdqError("InvalidArgument", "the files of the module are not parts of one; take both from the same build, qdq-quantize.wasm " +
        "with qdq.wasm and qdq-relaxed-quantize.wasm with qdq-relaxed.wasm");
    }
    return { first: this.#instance!.exports as WebAssembly.ModuleImports };
  }
}

// Rejects if the engine refuses the module, for example because it has no more memory to give.
export function instantiate<M>(create: (options: Instantiation) => Promise<M>, compiled: WebAssembly.Module, part?: FirstPart): Promise<M> {
  return new Promise((resolve, reject) => {
    const options: Instantiation = {
      instantiateWasm(imports, done) {
        const instance = part ? part.instantiate(imports) : WebAssembly.instantiate(compiled, imports);
        instance.then((it) => done(it, compiled), reject);
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
    const made = instantiate<M>((options) => create({ ...options, workers: threads - 1, Worker }), compiled);
    return await Promise.race([made, failure]);
  } catch (error) {
    for (const worker of started) worker.terminate();
    throw error;
  }
}
