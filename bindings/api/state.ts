// Calibrations in parts: which part of the data each saw, and their states together.
import { QdqError } from "./error.js";
import { loadModule, unwrap } from "./module.js";
import { checkOptions } from "./options.js";

/** Data divided into shards, and some of its shards. */
export interface PartOfData {
  /** Identifies the data; the same for all its parts. */
  readonly id: string;
  /** The number of samples of all the data. */
  readonly numSamples: number;
  /** The number of batches of all the data. */
  readonly numBatches: number;
  /** "3/16" is the third of 16, "1-4,7/16" are several. */
  readonly shard: string;
}

/** The options of mergeStates. */
export interface MergeOptions {
  /** Merge although shards are missing, into a larger part; default false. */
  partial?: boolean;
}

/**
 * Merges the states of all shards from prepared.state() or `qdq calibrate`, in any order and grouping, into the bytes
 * that one process with all of the data would give. Throws QdqError{InvalidArgument} for parts that are missing, that
 * occur twice (named by their place in the list), or that belong to another model, recipe, data or version;
 * QdqError{BadFile} for what is no part.
 */
export async function mergeStates(states: readonly string[], options: MergeOptions = {}): Promise<string> {
  checkOptions("mergeStates", options, ["partial"]);
  if (!Array.isArray(states) || !states.every((state) => typeof state === "string"))
    throw new QdqError(
      "InvalidArgument",
      "the states are not a list of texts; wanted mergeStates([prepared.state(), ...])",
    );
  return unwrap((await loadModule()).mergeStates(states, options.partial ?? false));
}
