// Programs made ready to run.
import { QdqError, readable } from "./error.js";
import { Handle } from "./handle.js";
import { unwrap } from "./loader.js";
import { checkOptions } from "./options.js";
import { Program } from "./program.js";
import type { Tensor } from "./tensor.js";
import { fromRaw, rawInputs } from "./tensor.js";
import type { RawModule } from "../wasm/qdq.js";

/**
 * A program made ready to run. It owns the state of a program that writes to its buffers, as the cache of a decoder: a
 * run begins with what the last one left. Other sessions, and the program itself, never change.
 */
export class Session extends Handle {
  /**
   * Runs the program on one batch: its inputs in their order, of the dtypes and shapes of info().inputs. Returns the
   * outputs in their order. Throws QdqError{InvalidArgument} for inputs that do not fit.
   */
  run(inputs: readonly Tensor[]): Tensor[] {
    return unwrap(this.loader.loaded().runSession(this.handle, rawInputs(inputs))).map(fromRaw);
  }

  /** Gives the buffers that runs write to the values that they have in the program. */
  reset(): void {
    unwrap(this.loader.loaded().resetSession(this.handle));
  }

  /**
   * What this build or machine cannot do as asked, and what costs speed on it, one sentence each. Like placements() it
   * is for `qdq` alone: `qdq/run` throws QdqError{Unsupported}.
   */
  warnings(): string[] {
    return this.#description().warnings.map(readable);
  }
  /** Who runs each node. Compiles the fused steps if nothing ran yet. */
  placements(): Placement[] {
    return this.#description().placements;
  }
  #description(): { warnings: string[]; placements: Placement[] } {
    const loaded: Partial<RawModule> = this.loader.loaded();
    if (!loaded.describeSession)
      throw new QdqError("Unsupported", "qdq/run does not tell how a session runs; open the program with qdq");
    return JSON.parse(unwrap(loaded.describeSession(this.handle)));
  }
}

/** Who runs a node of the program, and why others do not. */
export interface Placement {
  /** The name of the node. */
  node: string;
  /** Its operator. */
  target: string;
  /** The fused step that it is part of, by the name of its last node; "": it runs on its own. */
  step: string;
  /** The backend that runs it. */
  backend: string;
  /** The kernel, in words. */
  description: string;
  /** The backends in front of it that refused, and why. */
  refusals: readonly { backend: string; reason: string }[];
  /** Runs that were left to the reference loops, and why the last one was. */
  fallbacks: number;
  /** Why the last such run was left to them. */
  fallbackReason: string;
}

/** The options of lower(). */
export interface LowerOptions {
  /** Who runs the steps: the fast kernels (default), or the plain loops that define the results. */
  backend?: "simd" | "reference";
  /** What is not quantized in bfloat16, as autocast does; here by plain loops, slower than float32. */
  bf16?: boolean;
  /** False: node by node, with no fused steps; default true. */
  fuse?: boolean;
}

/** A program, float or quantized, made ready to run. */
export function lower(program: Program, options: LowerOptions = {}): Session {
  if (!(program instanceof Program))
    throw new QdqError("InvalidArgument", "this is not a program, or it has been disposed of");
  checkOptions("lower", options, ["backend", "bf16", "fuse"]);
  const { backend = "simd", bf16 = false, fuse = true } = options;
  const { handle, loader } = program;
  return new Session(unwrap(loader.loaded().lower(handle, backend, bf16, fuse)), loader);
}
