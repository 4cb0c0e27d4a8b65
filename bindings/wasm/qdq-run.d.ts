// The module that opens programs and runs them. bindings/pack.mjs puts it here.
import type { Instantiation, RawRunner } from "./qdq.js";

declare const createQdqRun: (options: Instantiation) => Promise<RawRunner>;
export default createQdqRun;
export declare const wasmUrl: URL;
export declare const relaxedWasmUrl: URL;
export declare const mark: string;
