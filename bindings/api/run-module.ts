// The module of `qdq/run`, which opens programs and runs them.
import createQdqRun, { mark, relaxedWasmUrl, wasmUrl } from "../wasm/qdq-run.js";
import { Loader } from "./loader.js";

export const runner = new Loader("qdq/run", { default: createQdqRun, wasmUrl, relaxedWasmUrl, mark });
