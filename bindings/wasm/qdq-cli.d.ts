// What the module of the command line exports (bindings/cli.cpp). It has threads. bindings/pack.mjs puts the module
// here.
import type { ThreadWorker } from "./qdq-threads.js";
import type { Instantiation, RawHost } from "./qdq.js";

export interface RawCli {
  runCli(args: string[], host: RawHost): number;
}

declare const createQdqCli: (
  options: Instantiation & { workers: number; Worker: new () => ThreadWorker },
) => Promise<RawCli>;
export default createQdqCli;
// The module for every engine, and the one for engines with relaxed SIMD.
export declare const wasmUrl: URL;
export declare const relaxedWasmUrl: URL;
// The script that a worker runs.
export declare const workerUrl: URL;
