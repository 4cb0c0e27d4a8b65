// The command line with 64-bit memory; nothing in a package that was built without it. bindings/pack.mjs puts it here.
import type createQdqCli from "./qdq-cli.js";

declare const create: typeof createQdqCli | undefined;
export default create;
export declare const wasmUrl: URL | undefined;
export declare const workerUrl: URL | undefined;
