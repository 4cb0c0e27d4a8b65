// `qdq/async` in Node: models run and are quantized in worker threads.
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { openDecoderIn, openSessionIn, quantizeModelIn } from "../bindings/api/async.js";
import type {
  AsyncDecoder,
  AsyncModel,
  AsyncQuantizeOptions,
  AsyncSession,
  AsyncSessionOptions,
  StartAsyncWorker,
} from "../bindings/api/async.js";
import { wasmUrl } from "../bindings/wasm/qdq.js";

export { AsyncDecoder, AsyncSession } from "../bindings/api/async.js";
export type { Abortable, AsyncModel, AsyncQuantizeOptions, AsyncSessionOptions } from "../bindings/api/async.js";
export type { GenerateOptions } from "../bindings/api/decoder.js";
export { QdqError } from "../bindings/api/error.js";
export type { ErrorCode } from "../bindings/api/error.js";
export type { RemedyResult } from "../bindings/api/recover.js";
export { tensor } from "../bindings/api/tensor.js";
export type { DType, Tensor, TensorData } from "../bindings/api/tensor.js";

// The worker's script is an ES module, whoever starts it. It ends with the last that waits for it.
const start: StartAsyncWorker = (onMessage, onError) => {
  const worker = new Worker(fileURLToPath(new URL("esm/node/async-worker.js", wasmUrl)), { execArgv: [] });
  let waiting = 0;
  worker.on("message", (message) => {
    waiting -= 1;
    if (waiting === 0) worker.unref();
    onMessage(message);
  });
  worker.on("error", onError);
  worker.on("messageerror", onError);
  worker.on("exit", (code) => onError(`it ended with code ${code}`));
  return {
    post(message) {
      worker.postMessage(message);
      waiting += 1;
      worker.ref();
    },
    terminate: () => void worker.terminate(),
  };
};

/**
 * Opens a model, .pt2 or .onnx, in a worker. Running it there lets this thread go on, and an abort ends it in the
 * middle.
 * A program ends though sessions are open; dispose() ends a worker before. Throws what loadPt2 and lower throw.
 */
export const openSession = (model: AsyncModel, options: AsyncSessionOptions = {}): Promise<AsyncSession> =>
  openSessionIn(start, model, options);

/**
 * Opens a decoder, .pt2 or .onnx, in a worker that generates tokens while this thread goes on. An abort ends the
 * opening. dispose() ends the worker. Throws what loadPt2 and lowerDecoder throw.
 */
export const openDecoder = (model: AsyncModel, options: AsyncSessionOptions = {}): Promise<AsyncDecoder> =>
  openDecoderIn(start, model, options);

/**
 * Quantizes a model in a worker that ends with it, and returns the bytes of the file. Throws what loadPt2, preparePt2e,
 * recover, convertPt2e and saveOnnx throw; after an abort the signal's reason.
 */
export const quantizeModel = (model: AsyncModel, options: AsyncQuantizeOptions): Promise<Uint8Array> =>
  quantizeModelIn(start, model, options);
