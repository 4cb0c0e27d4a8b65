// The module with 64-bit memory; nothing in a package that was built without it. bindings/pack.mjs puts it here.
import type { Instantiation, RawModule } from "./qdq.js";

declare const createQdq: ((options: Instantiation) => Promise<RawModule>) | undefined;
export default createQdq;
export declare const wasmUrl: URL | undefined;
export declare const mark: string;
