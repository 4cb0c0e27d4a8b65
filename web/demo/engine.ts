// The page's side of the worker: calls with progress and cancel. Each model gets a worker of its own, since the memory of a WASM
// module never shrinks and a module that ran out of memory cannot be used any more.
import type { FromWorker, Method, Methods, Stage, ToWorker } from "./protocol.js";

export class EngineError extends Error {
  override readonly name = "EngineError";
  constructor(
    message: string,
    readonly code?: string,
    readonly node?: string,
  ) {
    super(message);
  }
}

interface Call {
  resolve(value: unknown): void;
  reject(error: Error): void;
  onProgress: ((stage: Stage) => void) | undefined;
}

export interface Work {
  onProgress?: (stage: Stage) => void;
  signal?: AbortSignal;
}

export class Engine {
  readonly #worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
  readonly #calls = new Map<number, Call>();
  #last = 0;

  constructor() {
    this.#worker.onmessage = ({ data }: MessageEvent<FromWorker>) => {
      const call = this.#calls.get(data.id);
      if (!call) return;
      if ("progress" in data) return call.onProgress?.(data.progress);
      this.#calls.delete(data.id);
      if ("error" in data) call.reject(new EngineError(data.error.message, data.error.code, data.error.node));
      else call.resolve(data.value);
    };
    this.#worker.onerror = (event) => {
      event.preventDefault();
      this.#fail(event.message ?? "it could not be started");
    };
  }

  // Calls a method of the worker. Rejects with EngineError; its code is "Cancelled" after the signal said so.
  call<M extends Method>(method: M, args: Parameters<Methods[M]>, work: Work = {}): Promise<ReturnType<Methods[M]>> {
    const id = ++this.#last;
    const post = (message: ToWorker): void => this.#worker.postMessage(message);
    return new Promise((resolve, reject) => {
      this.#calls.set(id, { resolve: resolve as (value: unknown) => void, reject, onProgress: work.onProgress });
      work.signal?.addEventListener("abort", () => post({ cancel: id }), { once: true });
      post({ id, method, args });
    });
  }

  // Ends the worker and frees all that it held; calls still under way never answer.
  dispose(): void {
    this.#worker.terminate();
    this.#calls.clear();
  }

  #fail(reason: string): void {
    for (const call of this.#calls.values()) call.reject(new EngineError(`the worker stopped: ${reason}; open the model again`, "Internal"));
    this.#calls.clear();
  }
}
