// Calibrations in parts: which part of the data each saw, and their states together.
import { QdqError } from "./error.js";
import { loadModule, unwrap } from "./module.js";
import { checkOptions } from "./options.js";

/** The data that is divided, and which shards of it. */
export interface PartOfData {
  /** Tells the data from other data; the same for all its parts. */
  readonly id: string;
  /** The number of samples of the whole. */
  readonly numSamples: number;
  /** The number of batches of the whole. */
  readonly numBatches: number;
  /** "3/16" is the third of 16, "1-4,7/16" are several. */
  readonly shard: string;
}

/** The options of mergeStates. */
export interface MergeOptions {
  /** Merges although shards are missing, into a part again; default false. */
  partial?: boolean;
}

/**
 * Merges what prepared.state() or `qdq calibrate` gave of all shards, in any order and grouping: the bytes of one
 * process that saw all of the data. Throws QdqError{InvalidArgument} for parts that are missing, there twice (they are
 * named by their place in the list), or of another model, recipe, data or version; QdqError{BadFile} for what is none.
 */
export async function mergeStates(states: readonly string[], options: MergeOptions = {}): Promise<string> {
  checkOptions("mergeStates", options, ["partial"]);
  if (!Array.isArray(states) || !states.every((state) => typeof state === "string"))
    throw new QdqError(
      "InvalidArgument",
      "the states are no list of texts; wanted mergeStates([prepared.state(), ...])",
    );
  return unwrap((await loadModule()).mergeStates(states, options.partial ?? false));
}
