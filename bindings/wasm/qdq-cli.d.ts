// What the module of the command line exports (bindings/cli.cpp). bindings/pack.mjs puts the module here.
import type { RawHost } from "./qdq.js";

export interface RawCli {
  runCli(args: string[], host: RawHost): number;
}

declare const createQdqCli: (options: { wasmBinary: Uint8Array | ArrayBuffer }) => Promise<RawCli>;
export default createQdqCli;
// The module for every engine, and the one for engines with relaxed SIMD.
export declare const wasmUrl: URL;
export declare const relaxedWasmUrl: URL;
