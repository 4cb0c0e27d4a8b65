// The same with threads. bindings/pack.mjs puts it here.
import type { Instantiation, RawRunner } from "./qdq.js";
import type { ThreadWorker } from "./qdq-threads.js";

declare const createQdqRun: (
  options: Instantiation & { workers: number; Worker: new () => ThreadWorker },
) => Promise<RawRunner>;
export default createQdqRun;
export declare const wasmUrl: URL;
export declare const relaxedWasmUrl: URL;
export declare const workerUrl: URL;
