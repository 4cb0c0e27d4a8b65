// The module of `qdq`, which does everything.
import createQdq, { mark, relaxedWasmUrl, wasmUrl } from "../wasm/qdq.js";
import type { RawModule } from "../wasm/qdq.js";
import { handleIn } from "./handle.js";
import type { Handle } from "./handle.js";
import { Loader } from "./loader.js";
import type { Capabilities, Configuration } from "./configuration.js";
import { registerIn } from "./operator.js";
import type { CustomOperator } from "./operator.js";

/** @internal */
export { unwrap } from "./loader.js";

/** @internal */
export const whole = new Loader<RawModule>("qdq", { default: createQdq, wasmUrl, relaxedWasmUrl, mark });

/**
 * Chooses the module, its threads and its memory. Call it before the first load; settings that a later call leaves out
 * stay as they are. Throws QdqError{InvalidArgument} after the load, and for a setting that makes no sense.
 */
export const configure = (settings: Configuration): void => whole.configure(settings);
/** Loads the module if it is not loaded yet, and returns its properties. */
export const capabilities = (): Promise<Capabilities> => whole.capabilities();
/** @internal */
export const loadModule = (): Promise<RawModule> => whole.load();
/**
 * A declaration, since CommonJS modules have a variable of this name already.
 * @internal
 */
export function module(): RawModule {
  return whole.loaded();
}
/**
 * Adds an operator that qdq does not have, for all models loaded from now on and in every flow: calibration,
 * evaluation, sessions. `schema` is as torch.library.define has it: "my_domain::blur(Tensor x, float sigma=1.0) ->
 * Tensor". The operator Blur of ONNX's domain com.example is "com_example::Blur": its inputs are the positional
 * arguments, its attributes those of the same names. Throws QdqError{InvalidArgument} if the schema cannot be read, or
 * the name is taken.
 */
export const registerOperator = (schema: string, operator: CustomOperator): Promise<void> =>
  registerIn(whole, schema, operator);
/** @internal */
export const handleOf = (object: Handle): number => handleIn(whole, object);
