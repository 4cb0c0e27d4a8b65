// The loop that generates.
import { QdqError } from "./error.js";
import { Handle } from "./handle.js";
import { unwrap } from "./loader.js";
import { checkOptions, idsOf, shown } from "./options.js";
import { Program } from "./program.js";
import type { LowerOptions } from "./session.js";

/** The options of Decoder.generate(). */
export interface GenerateOptions {
  /** The largest number of tokens after the prompt. */
  maxTokens: number;
  /** 0 (default): the most likely token each time. Otherwise a random one, from softmax(logits / temperature). */
  temperature?: number;
  /** With `temperature`: draw only among this many most likely tokens; default all. */
  topK?: number;
  /** With `temperature`: equal seeds give equal tokens, natively too; default 0. */
  seed?: number;
  /** Tokens that end the output; they are included. */
  stop?: readonly number[];
  /** Ends the loop between two tokens, which then throws the signal's reason. */
  signal?: AbortSignal;
}

// Lets what waits go on: input of the user, drawing, other callbacks.
function pause(): Promise<void> {
  return new Promise((resolve) => {
    const soon = (globalThis as { setImmediate?: (work: () => void) => void }).setImmediate;
    if (soon) return soon(resolve);
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}

const isWhole = (value: unknown): value is number => Number.isSafeInteger(value);

/**
 * A program that takes token ids and returns logits, ready to generate. Its cache is in buffers that the program
 * writes to, or in inputs and outputs named "past" and "present".
 */
export class Decoder extends Handle {
  #latest = 0;

  /** The number of tokens, including the prompt's, that the cache holds; undefined if it grows or is unknown. */
  get capacity(): number | undefined {
    return unwrap(this.loader.loaded().capacityOfDecoder(this.handle)) || undefined;
  }

  /**
   * Yields the ids of the tokens that follow the prompt, each when it is ready; other work can run in between. Every
   * call starts anew and ends the previous ones. Throws QdqError{InvalidArgument} for an empty prompt, ids
   * that are no tokens, and more tokens than the cache holds.
   */
  async *generate(prompt: readonly number[], options: GenerateOptions): AsyncGenerator<number, void, undefined> {
    checkOptions("generate", options, ["maxTokens", "temperature", "topK", "seed", "stop", "signal"]);
    const { maxTokens, temperature = 0, topK = 0, seed = 0, stop = [], signal } = options;
    const ids = idsOf(prompt);
    if (!isWhole(maxTokens))
      throw new QdqError("InvalidArgument", `maxTokens is ${shown(maxTokens)}, wanted a whole number from 1 on`);
    if (!isWhole(topK)) throw new QdqError("InvalidArgument", `topK is ${shown(topK)}, wanted a whole number`);
    if (!isWhole(seed) || seed < 0)
      throw new QdqError("InvalidArgument", `seed is ${shown(seed)}, wanted a whole number from 0 on`);
    if (typeof temperature !== "number")
      throw new QdqError("InvalidArgument", `temperature is ${shown(temperature)}, wanted a number`);
    signal?.throwIfAborted();
    const loaded = this.loader.loaded();
    this.#latest += 1;
    const mine = this.#latest;
    unwrap(loaded.startDecoder(this.handle, ids, maxTokens, temperature, topK, seed));
    for (let made = 0; made < maxTokens; made += 1) {
      if (made > 0) await pause();
      signal?.throwIfAborted();
      if (mine !== this.#latest)
        throw new QdqError("InvalidArgument", "generate() of this decoder was called again, which ends this loop");
      const token = unwrap(loaded.nextToken(this.handle));
      yield token;
      if (stop.includes(token)) return;
    }
  }
}

/**
 * Prepares a decoder. Throws QdqError{Unsupported} naming the input or output that the loop cannot
 * serve.
 */
export function lowerDecoder(program: Program, options: LowerOptions = {}): Decoder {
  if (!(program instanceof Program))
    throw new QdqError("InvalidArgument", "this is not a program, or it has been disposed of");
  checkOptions("lowerDecoder", options, ["backend", "bf16", "fuse"]);
  const { backend = "simd", bf16 = false, fuse = true } = options;
  const { handle, loader } = program;
  return new Decoder(unwrap(loader.loaded().lowerDecoder(handle, backend, bf16, fuse)), loader);
}
