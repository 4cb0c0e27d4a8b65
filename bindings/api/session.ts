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
 * A program ready to run. It owns the buffers that the program writes to, such as the cache of a decoder: each run
 * starts with the state of the previous one. Other sessions and the program itself never change.
 */
export class Session extends Handle {
  /**
   * Runs the program on one batch: its inputs in their order, of the dtypes and shapes of info().inputs. Returns the
   * outputs in their order. Throws QdqError{InvalidArgument} for inputs that do not fit.
   */
  run(inputs: readonly Tensor[]): Tensor[] {
    return unwrap(this.loader.loaded().runSession(this.handle, rawInputs(inputs))).map(fromRaw);
  }

  /** Restores the program's values in the buffers that runs write to. */
  reset(): void {
    unwrap(this.loader.loaded().resetSession(this.handle));
  }

  /**
   * What this build or machine cannot do as requested, and what costs speed on it, one sentence each. Only `qdq` has
   * this and placements(): `qdq/run` throws QdqError{Unsupported}.
   */
  warnings(): string[] {
    return this.#description().warnings.map(readable);
  }
  /** The backend of each node. Compiles the fused steps if nothing has run yet. */
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

/** The backend that runs a node of the program, and why others do not. */
export interface Placement {
  /** The name of the node. */
  node: string;
  /** Its operator. */
  target: string;
  /** Its fused step, by the name of the step's last node; "": it runs on its own. */
  step: string;
  /** The backend that runs it. */
  backend: string;
  /** The kernel, in words. */
  description: string;
  /** The backends before it that refused, and why. */
  refusals: readonly { backend: string; reason: string }[];
  /** The number of runs on the reference loops. */
  fallbacks: number;
  /** The reason of the last such run. */
  fallbackReason: string;
}

/** The options of lower(). */
export interface LowerOptions {
  /** The backend of the steps: the fast kernels (default), or the plain loops that define the results. */
  backend?: "simd" | "reference";
  /** Compute in bfloat16 what is not quantized, as autocast does; here with plain loops, slower than float32. */
  bf16?: boolean;
  /** False: run node by node, without fused steps; default true. */
  fuse?: boolean;
}

/** Prepares a program, float or quantized, to run. */
export function lower(program: Program, options: LowerOptions = {}): Session {
  if (!(program instanceof Program))
    throw new QdqError("InvalidArgument", "this is not a program, or it has been disposed of");
  checkOptions("lower", options, ["backend", "bf16", "fuse"]);
  const { backend = "simd", bf16 = false, fuse = true } = options;
  const { handle, loader } = program;
  return new Session(unwrap(loader.loaded().lower(handle, backend, bf16, fuse)), loader);
}
