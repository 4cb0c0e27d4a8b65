// The module with threads. bindings/pack.mjs puts it here.
import type { Instantiation, RawModule } from "./qdq.js";

// A worker as the module uses it; a browser's is one.
export interface ThreadWorker {
  onmessage: ((event: { data: unknown }) => void) | null;
  onerror: ((event: unknown) => void) | null;
  postMessage(message: unknown): void;
  terminate(): unknown;
}

// `workers` are started before the promise is kept, each by `new Worker()`.
declare const createQdq: (
  options: Instantiation & { workers: number; Worker: new () => ThreadWorker },
) => Promise<RawModule>;
export default createQdq;
export declare const wasmUrl: URL;
export declare const relaxedWasmUrl: URL;
// The script that a worker runs.
export declare const workerUrl: URL;
