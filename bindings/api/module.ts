// The module of `qdq`, which does everything.
import createQdq, { mark, relaxedWasmUrl, wasmUrl } from "../wasm/qdq.js";
import type { RawModule } from "../wasm/qdq.js";
import { handleIn } from "./handle.js";
import type { Handle } from "./handle.js";
import { Loader } from "./loader.js";
import type { Capabilities, Configuration } from "./loader.js";

export { unwrap } from "./loader.js";

export const whole = new Loader<RawModule>(
  "qdq",
  { default: createQdq, wasmUrl, relaxedWasmUrl, mark },
  () => import("../wasm/qdq-threads.js"),
);

export const configure = (settings: Configuration): void => whole.configure(settings);
export const capabilities = (): Promise<Capabilities> => whole.capabilities();
export const loadModule = (): Promise<RawModule> => whole.load();
// A declaration, since CommonJS modules have a variable of this name already.
export function module(): RawModule {
  return whole.loaded();
}
export const handleOf = (object: Handle): number => handleIn(whole, object);
