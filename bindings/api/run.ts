// The public API of `qdq/run`: it opens programs, quantized or float, and runs them.
import { unwrap } from "./loader.js";
import type { Capabilities, Configuration } from "./configuration.js";
import { registerIn } from "./operator.js";
import type { CustomOperator } from "./operator.js";
import { Program } from "./program.js";
import { runner } from "./run-module.js";
import type { ModelSource } from "./source.js";
import { withSources } from "./source.js";

export { QdqError } from "./error.js";
export type { ErrorCode } from "./error.js";
export type {
  Argument,
  AttributeInfo,
  GraphSnapshot,
  NodeSnapshot,
  ProgramInfo,
  QParamsInfo,
  ValueInfo,
} from "./graph.js";
export type { Capabilities, Configuration } from "./configuration.js";
export type { CustomOperator, OperatorArgument, TensorSignature } from "./operator.js";
export { Program } from "./program.js";
export type { ByteSource, ModelSource } from "./source.js";
export { Decoder, lowerDecoder } from "./decoder.js";
export type { GenerateOptions } from "./decoder.js";
export { Session, lower } from "./session.js";
export type { LowerOptions } from "./session.js";
export { tensor } from "./tensor.js";
export type { DType, DTypeOf, Tensor, TensorArrays, TensorData } from "./tensor.js";

/**
 * Chooses the module, its threads and its memory. Call it before the first load. Throws QdqError{InvalidArgument} after
 * it, and for a setting that makes no sense.
 */
export const configure = (settings: Configuration): void => runner.configure(settings);
/** Loads the module if it is not loaded yet, and returns its properties. */
export const capabilities = (): Promise<Capabilities> => runner.capabilities();

/**
 * Adds an operator that qdq does not have, for all programs loaded from now on. `schema` is as
 * torch.library.define has it: "my_domain::blur(Tensor x, float sigma=1.0) -> Tensor". Throws QdqError{InvalidArgument}
 * if it cannot be read, or the name is taken.
 */
export const registerOperator = (schema: string, operator: CustomOperator): Promise<void> =>
  registerIn(runner, schema, operator);

/** Reads a program that torch.export.save or savePt2() of `qdq` wrote. The first call loads the WASM module. */
export const loadPt2 = (file: ModelSource): Promise<Program> =>
  withSources(runner, [file], "loadPt2", ([source]) => new Program(unwrap(runner.loaded().loadPt2(source!)), runner));
