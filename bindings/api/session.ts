// Programs made ready to run.
import { QdqError } from "./error.js";
import { Handle } from "./handle.js";
import { unwrap } from "./loader.js";
import { checkOptions } from "./options.js";
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
  fuse?: boolean; // false: node by node, with no fused steps; default true
}

// A program, float or quantized, made ready to run.
export function lower(program: Program, options: LowerOptions = {}): Session {
  if (!(program instanceof Program))
    throw new QdqError("InvalidArgument", "this is not a program, or it has been disposed of");
  checkOptions("lower", options, ["backend", "bf16", "fuse"]);
  const { backend = "simd", bf16 = false, fuse = true } = options;
  const { handle, loader } = program;
  return new Session(unwrap(loader.loaded().lower(handle, backend, bf16, fuse)), loader);
}
