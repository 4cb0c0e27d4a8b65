// The asynchronous door: models run and are quantized in a worker, so that whoever asks goes on with other work.
import { unlessAborted } from "./abort.js";
import type { Configuration } from "./configuration.js";
import type { GenerateOptions } from "./decoder.js";
import { QdqError } from "./error.js";
import type { ErrorCode } from "./error.js";
import { checkOptions, idsOf, isIterable, shown } from "./options.js";
import type { RuntimeName } from "./profile.js";
import type { AnyQuantizer } from "./quantizer.js";
import { RecipeWriter } from "./quantizer.js";
import type { Recipe } from "./recipe.js";
import type { RemedyResult } from "./recover.js";
import type { LowerOptions } from "./session.js";
import type { Tensor } from "./tensor.js";

/** What goes to the worker and comes back. */
export type ToAsyncWorker = { id: number; method: string; args: unknown[] };
/** An answer of the worker. */
export type FromAsyncWorker =
  | { id: number; value: unknown }
  | { id: number; error: { code?: ErrorCode; message: string; node?: string; op?: string } };

/** A worker as this entry point uses it; Node's and a browser's differ. */
export interface AsyncWorker {
  /** Sends a message and copies its contents. */
  post(message: ToAsyncWorker): void;
  /** Ends the worker at once, whatever it is doing. */
  terminate(): void;
}
/** Starts the worker's script. */
export type StartAsyncWorker = (
  onMessage: (message: FromAsyncWorker) => void,
  onError: (reason: unknown) => void,
) => AsyncWorker;

/** Ends work in the middle; the promise rejects with the signal's reason. */
export interface Abortable {
  /** The signal; an abort ends the worker. */
  signal?: AbortSignal;
}

/** A model for a worker: bytes are copied, a Blob is not. */
export type AsyncModel = Uint8Array | ArrayBuffer | Blob;

/** The options of openSession and openDecoder. */
export interface AsyncSessionOptions extends LowerOptions, Abortable {
  /** Threads of the session, in Node; default one. */
  threads?: number;
  /** The memory that the worker's module may take, as configure() has it; above 4 GB in Node alone. */
  maxMemory?: number;
}

/** The options of quantizeModel. */
export interface AsyncQuantizeOptions extends Abortable {
  /** A recipe or a class of this package. Your own JavaScript quantizers cannot go to a worker. */
  quantizer?: AnyQuantizer;
  /** In its place the runtime that the model is for: its profile's recipe, and its kind of file. */
  runtime?: RuntimeName;
  /**
   * The samples, a list of inputs for each batch. A quantizer that needs none (dynamic, or of weights alone) works
   * without, and asks for no batch where there are some.
   */
  calibration?: Iterable<readonly Tensor[]> | AsyncIterable<readonly Tensor[]>;
  /**
   * Brings accuracy back behind the calibration, as recover() does on the same samples, which the worker then keeps;
   * without samples, or if the quantizer needs none, as recoverWithoutData() does. Default false.
   */
  recover?: boolean;
  /** The kind of file to write; default: that of the runtime, else of the model. */
  format?: "pt2" | "onnx";
  /** Threads to use, in Node; default one. */
  threads?: number;
  /** The memory that the worker's module may take, as configure() has it; above 4 GB in Node alone. */
  maxMemory?: number;
  /** Called after each batch of the calibration. */
  onProgress?: (progress: { done: number }) => void;
  /** Called behind each remedy of the recovery. */
  onRemedy?: (result: RemedyResult) => void;
  /** Called before the promise resolves with each warning: of the quantizer, of the calibration, of the ONNX file. */
  onWarning?: (warning: string) => void;
}

// Questions to a worker, answered in their order.
class Remote {
  readonly #worker: AsyncWorker;
  readonly #waiting = new Map<number, { resolve: (value: unknown) => void; reject: (reason: unknown) => void }>();
  #last = 0;
  #ended: { reason: unknown } | undefined;

  constructor(start: StartAsyncWorker) {
    this.#worker = start(
      (message) => {
        const asked = this.#waiting.get(message.id);
        this.#waiting.delete(message.id);
        if ("value" in message) return asked?.resolve(message.value);
        const { code, message: text, node, op } = message.error;
        asked?.reject(
          new QdqError(code ?? "Internal", text, {
            ...(node !== undefined && { node }),
            ...(op !== undefined && { op }),
          }),
        );
      },
      (reason) => this.end(new QdqError("Internal", `the worker broke: ${(reason as Error)?.message ?? reason}`)),
    );
  }

  call<T>(method: string, ...args: unknown[]): Promise<T> {
    if (this.#ended) return Promise.reject(this.#ended.reason);
    return new Promise<unknown>((resolve, reject) => {
      const id = ++this.#last;
      this.#waiting.set(id, { resolve, reject });
      try {
        this.#worker.post({ id, method, args });
      } catch (error) {
        this.#waiting.delete(id);
        reject(new QdqError("InvalidArgument", `this cannot go to a worker: ${(error as Error).message}`));
      }
    }) as Promise<T>;
  }

  // Ends the worker; whoever waits, or asks later, gets the reason.
  end(reason: unknown): void {
    if (this.#ended) return;
    this.#ended = { reason };
    this.#worker.terminate();
    for (const { reject } of this.#waiting.values()) reject(reason);
    this.#waiting.clear();
  }

  // Runs `work`, which the signal ends together with the worker.
  async until<T>(signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    try {
      return await unlessAborted(signal, work);
    } catch (error) {
      if (signal?.aborted) this.end(signal.reason);
      throw error;
    }
  }
}

/** A model that runs in its own worker. */
export class AsyncSession {
  /** The names of the inputs in their order. */
  readonly inputNames: readonly string[];
  /** The names of the outputs in their order: of an ONNX model those in the file. */
  readonly outputNames: readonly string[];
  readonly #remote: Remote;

  /** @internal */
  constructor(remote: Remote, names: { inputs: readonly string[]; outputs: readonly string[] }) {
    this.#remote = remote;
    this.inputNames = names.inputs;
    this.outputNames = names.outputs;
  }

  /**
   * Runs the model on one batch: its inputs in their order, or by their names. Returns the outputs by their names.
   * Calls are answered in their order. An abort ends the session, and rejects with the signal's reason. Throws
   * QdqError{InvalidArgument} for inputs that do not fit.
   */
  async run(
    inputs: readonly Tensor[] | Readonly<Record<string, Tensor>>,
    options: Abortable = {},
  ): Promise<Record<string, Tensor>> {
    checkOptions("run", options, ["signal"]);
    const feeds = Array.isArray(inputs) ? inputs : this.#inOrder(inputs as Readonly<Record<string, Tensor>>);
    const outputs = await this.#remote.until(options.signal, () => this.#remote.call<Tensor[]>("run", feeds));
    return Object.fromEntries(outputs.map((output, i) => [this.outputNames[i] ?? `output_${i}`, output]));
  }

  /** Ends the worker; calls that wait are rejected with QdqError{Cancelled}. */
  dispose(): void {
    this.#remote.end(new QdqError("Cancelled", "the session has been disposed of"));
  }

  #inOrder(feeds: Readonly<Record<string, Tensor>>): Tensor[] {
    if (typeof feeds !== "object" || feeds === null)
      throw new QdqError("InvalidArgument", "the inputs are neither a list of tensors nor an object of them by name");
    for (const name of Object.keys(feeds))
      if (!this.inputNames.includes(name))
        throw new QdqError("InvalidArgument", `the model has no input ${name}; it has ${this.inputNames.join(", ")}`);
    return this.inputNames.map((name) => {
      const tensor = feeds[name];
      if (tensor === undefined) throw new QdqError("InvalidArgument", `the input ${name} is missing`);
      return tensor;
    });
  }
}

/** A decoder that generates in its own worker. */
export class AsyncDecoder {
  /** The number of tokens, including the prompt's, that the cache holds; undefined if it grows or is unknown. */
  readonly capacity: number | undefined;
  readonly #remote: Remote;
  #latest = 0;

  /** @internal */
  constructor(remote: Remote, capacity: number | undefined) {
    this.#remote = remote;
    this.capacity = capacity;
  }

  /**
   * Yields the ids of the tokens that follow the prompt, each when the worker has it, as Decoder.generate() does, with
   * its options and errors. Every call starts anew and ends the previous ones. An abort ends the loop at once, even
   * while the worker computes a token; the decoder stays usable.
   */
  async *generate(prompt: readonly number[], options: GenerateOptions): AsyncGenerator<number, void, undefined> {
    checkOptions("generate", options, ["maxTokens", "temperature", "topK", "seed", "stop", "signal"]);
    const { signal, ...rest } = options;
    this.#latest += 1;
    const mine = this.#latest;
    type Step = IteratorResult<number, void>;
    const ids = idsOf(prompt);
    let step = await unlessAborted(signal, () => this.#remote.call<Step>("firstToken", ids, rest));
    while (!step.done) {
      yield step.value;
      if (mine !== this.#latest)
        throw new QdqError("InvalidArgument", "generate() of this decoder was called again, which ends this loop");
      step = await unlessAborted(signal, () => this.#remote.call<Step>("nextToken"));
    }
  }

  /** Ends the worker; loops that wait are rejected with QdqError{Cancelled}. */
  dispose(): void {
    this.#remote.end(new QdqError("Cancelled", "the decoder has been disposed of"));
  }
}

// What is left out keeps its default.
const settingsOf = (threads: number | undefined, maxMemory: number | undefined): Configuration => ({
  ...(threads !== undefined && { threads }),
  ...(maxMemory !== undefined && { maxMemory }),
});

// Opens a model in a worker by one of its methods, and makes of the answer what stands for it here.
async function openIn<Answer, Opened>(
  start: StartAsyncWorker,
  door: { name: string; method: string },
  model: AsyncModel,
  options: AsyncSessionOptions,
  made: (remote: Remote, answer: Answer) => Opened,
): Promise<Opened> {
  checkOptions(door.name, options, ["signal", "threads", "maxMemory", "backend", "bf16", "fuse"]);
  const { signal, threads, maxMemory, ...lowering } = options;
  const remote = new Remote(start);
  try {
    const settings = settingsOf(threads, maxMemory);
    return made(remote, await remote.until(signal, () => remote.call<Answer>(door.method, model, lowering, settings)));
  } catch (error) {
    remote.end(error);
    throw error;
  }
}

/** @internal */
export const openSessionIn = (
  start: StartAsyncWorker,
  model: AsyncModel,
  options: AsyncSessionOptions,
): Promise<AsyncSession> =>
  openIn<{ inputs: string[]; outputs: string[] }, AsyncSession>(
    start,
    { name: "openSession", method: "open" },
    model,
    options,
    (remote, names) => new AsyncSession(remote, names),
  );

/** @internal */
export const openDecoderIn = (
  start: StartAsyncWorker,
  model: AsyncModel,
  options: AsyncSessionOptions,
): Promise<AsyncDecoder> =>
  openIn<number | undefined, AsyncDecoder>(
    start,
    { name: "openDecoder", method: "openDecoder" },
    model,
    options,
    (remote, capacity) => new AsyncDecoder(remote, capacity),
  );

function recipeOrRuntime(quantizer?: AnyQuantizer, runtime?: RuntimeName): Recipe | RuntimeName {
  if ((quantizer === undefined) === (runtime === undefined))
    throw new QdqError(
      "InvalidArgument",
      `quantizeModel got ${quantizer === undefined ? "neither quantizer nor" : "both quantizer and"} runtime, ` +
        "wanted one of them",
    );
  if (runtime !== undefined) {
    if (typeof runtime === "string") return runtime;
    throw new QdqError("InvalidArgument", `runtime is ${shown(runtime)}, wanted the name of one`);
  }
  const writer = new RecipeWriter();
  const recipe = writer.quantizer(quantizer!) as Recipe;
  if (writer.quantizers.length + writer.functions.length + writer.filters.length > 0)
    throw new QdqError(
      "InvalidArgument",
      "a quantizer, observer or filter written in JavaScript cannot go to a worker; " +
        "call preparePt2e in a worker of your own",
    );
  return recipe;
}

/** @internal */
export async function quantizeModelIn(
  start: StartAsyncWorker,
  model: AsyncModel,
  options: AsyncQuantizeOptions,
): Promise<Uint8Array> {
  const known = [
    "quantizer",
    "runtime",
    "calibration",
    "recover",
    "format",
    "threads",
    "maxMemory",
    "onProgress",
    "onRemedy",
    "onWarning",
    "signal",
  ] as const;
  checkOptions("quantizeModel", options, known);
  const { quantizer, runtime, calibration = [], recover = false, format, threads, maxMemory, signal } = options;
  const { onProgress, onRemedy, onWarning } = options;
  const how = recipeOrRuntime(quantizer, runtime);
  if (format !== undefined && format !== "pt2" && format !== "onnx")
    throw new QdqError("InvalidArgument", `format is ${shown(format)}, wanted "pt2" or "onnx"`);
  if (!isIterable(calibration))
    throw new QdqError(
      "InvalidArgument",
      `calibration is ${shown(calibration)}, wanted a list or an iterable of batches, each a list of tensors`,
    );
  if (typeof recover !== "boolean")
    throw new QdqError("InvalidArgument", `recover is ${shown(recover)}, wanted true or false`);
  if (onRemedy && !recover)
    throw new QdqError("InvalidArgument", "onRemedy is told of what recover does; set recover, or leave onRemedy out");
  const remote = new Remote(start);
  try {
    return await remote.until(signal, async () => {
      const needsData = await remote.call<boolean>("prepare", model, how, settingsOf(threads, maxMemory));
      let done = 0;
      for await (const batch of needsData ? calibration : []) {
        await remote.call("calibrate", batch, recover);
        done += 1;
        onProgress?.({ done });
      }
      if (recover && done === 0) await remote.call("recoverWithoutData");
      while (recover && done > 0) {
        const { value } = await remote.call<IteratorResult<RemedyResult, void>>("nextRemedy");
        if (!value) break;
        onRemedy?.(value);
      }
      const { bytes, warnings } = await remote.call<{ bytes: Uint8Array; warnings: string[] }>("convert", format);
      if (onWarning) for (const warning of warnings) onWarning(warning);
      return bytes;
    });
  } finally {
    remote.end(new QdqError("Cancelled", "the model is written"));
  }
}
