// The page's side of the worker: calls with progress and cancel. Each model gets a worker of its own, since the memory
// of a WASM module never shrinks and a module that ran out of memory cannot be used any more.
import type { FromWorker, Method, Methods, Stage, ToWorker } from "./protocol.js";
import workerUrl from "./worker.ts?worker&url";

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
  request: ToWorker;
  resolve(value: unknown): void;
  reject(error: Error): void;
  onProgress: ((stage: Stage) => void) | undefined;
}

export interface Work {
  onProgress?: (stage: Stage) => void;
  signal?: AbortSignal;
}

// A worker from a blob has the policy of the page that made it; one from a file would have that of the server's answer,
// and most servers of files send none.
const start = (): Worker => {
  const source = `import ${JSON.stringify(new URL(workerUrl, import.meta.url).href)};`;
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const worker = new Worker(url, { type: "module" });
  worker.addEventListener("message", () => URL.revokeObjectURL(url), { once: true });
  return worker;
};

export class Engine {
  #worker = start();
  readonly #calls = new Map<number, Call>();
  // What a worker must be told to stand where this one stands: the last model, the last data for each use, and the last
  // result.
  readonly #told = new Map<string, ToWorker>();
  #last = 0;

  // maxMemory: bytes, for models that want more than WebAssembly has everywhere.
  constructor(readonly maxMemory?: number) {
    this.#listen();
    this.#warm();
  }

  // Calls a method of the worker. Rejects with EngineError; its code is "Cancelled" after the signal said so.
  call<M extends Method>(method: M, args: Parameters<Methods[M]>, work: Work = {}): Promise<ReturnType<Methods[M]>> {
    const id = ++this.#last;
    const request: ToWorker = { id, method, args };
    return new Promise((resolve, reject) => {
      const done = (value: unknown): void => {
        if (method === "open") this.#told.clear();
        if (method === "open" || method === "openData")
          this.#told.set(method === "open" ? "model" : String(args[0]), { ...request, id: 0 });
        if (method === "quantize") {
          const { file } = value as ReturnType<Methods["quantize"]>;
          this.#told.set("result", { id: 0, method: "restore", args: [args[0], file] });
        }
        if (method === "restore") this.#told.set("result", { ...request, id: 0 });
        resolve(value as ReturnType<Methods[M]>);
      };
      this.#calls.set(id, { request, resolve: done, reject, onProgress: work.onProgress });
      work.signal?.addEventListener("abort", () => this.#cancel(id), { once: true });
      this.#post(request);
    });
  }

  // Ends the worker and frees all that it held. Calls still under way are rejected as cancelled.
  dispose(): void {
    this.#worker.terminate();
    this.#reject(new EngineError("it was cancelled", "Cancelled"));
  }

  // A worker cannot be asked to stop in the middle of WASM, so it is ended, and a fresh one brought to where it stood.
  // Results are with the page, so nothing is lost.
  #cancel(id: number): void {
    const call = this.#calls.get(id);
    if (!call) return;
    this.#calls.delete(id);
    this.#restart();
    call.reject(new EngineError("it was cancelled", "Cancelled"));
  }

  #restart(): void {
    this.#worker.terminate();
    this.#worker = start();
    this.#listen();
    this.#warm();
    for (const request of this.#told.values()) this.#post(request);
    for (const { request } of this.#calls.values()) this.#post(request);
  }

  #warm(): void {
    this.#post({ id: 0, method: "warm", args: [this.maxMemory] });
  }

  #post(request: ToWorker): void {
    this.#worker.postMessage(request);
  }

  #listen(): void {
    this.#worker.onmessage = ({ data }: MessageEvent<FromWorker>) => {
      const call = this.#calls.get(data.id);
      if (!call) return;
      if ("progress" in data) return call.onProgress?.(data.progress);
      this.#calls.delete(data.id);
      if ("error" in data) {
        call.reject(new EngineError(data.error.message, data.error.code, data.error.node));
        if (data.error.code === "OutOfMemory") this.#restart();
      } else call.resolve(data.value);
    };
    this.#worker.onerror = (event) => {
      event.preventDefault();
      this.#reject(
        new EngineError(
          `the worker stopped: ${event.message ?? "it could not be started"}; open the model again`,
          "Internal",
        ),
      );
    };
  }

  #reject(error: EngineError): void {
    for (const call of this.#calls.values()) call.reject(error);
    this.#calls.clear();
  }
}
