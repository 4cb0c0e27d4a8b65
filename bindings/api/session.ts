// Programs made ready to run.
import { QdqError } from "./error.js";
import { Handle } from "./handle.js";
import { unwrap } from "./loader.js";
import { Program } from "./program.js";
import type { Tensor } from "./tensor.js";
import { fromRaw, rawInputs } from "./tensor.js";

// A program made ready to run.
export class Session extends Handle {
  run(inputs: readonly Tensor[]): Tensor[] {
    return unwrap(this.loader.loaded().runSession(this.handle, rawInputs(inputs))).map(fromRaw);
  }
}

export interface LowerOptions {
  backend?: "simd" | "reference";
  // What is not quantized in bfloat16, which native builds have. Here it throws QdqError{Unsupported}.
  bf16?: boolean;
}

// A program, float or quantized, made ready to run.
export function lower(program: Program, options: LowerOptions = {}): Session {
  if (!(program instanceof Program))
    throw new QdqError("InvalidArgument", "this is not a program, or it has been disposed of");
  const { handle, loader } = program;
  return new Session(unwrap(loader.loaded().lower(handle, options.backend ?? "simd", options.bf16 ?? false)), loader);
}
