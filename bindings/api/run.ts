// The public API of `qdq/run`: it opens programs, quantized or float, and runs them.
import { unwrap } from "./loader.js";
import type { Capabilities, Configuration } from "./loader.js";
import { Program, bytesOf } from "./program.js";
import { runner } from "./run-module.js";

export { QdqError } from "./error.js";
export type { ErrorCode } from "./error.js";
export type { Argument, GraphSnapshot, NodeSnapshot, ProgramInfo, ValueInfo } from "./graph.js";
export type { Capabilities, Configuration } from "./loader.js";
export { Program } from "./program.js";
export { Session, lower } from "./session.js";
export type { LowerOptions } from "./session.js";
export { tensor } from "./tensor.js";
export type { DType, Tensor, TensorData } from "./tensor.js";

export const configure = (settings: Configuration): void => runner.configure(settings);
export const capabilities = (): Promise<Capabilities> => runner.capabilities();

// Reads a program that torch.export.save or savePt2() of `qdq` wrote. The first call brings the WASM module.
export async function loadPt2(bytes: Uint8Array | ArrayBuffer): Promise<Program> {
  const file = bytesOf(bytes, "loadPt2");
  return new Program(unwrap((await runner.load()).loadPt2(file)), runner);
}
