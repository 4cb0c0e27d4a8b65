// `qdq/async` in browsers: models run and are quantized in a worker.
import { openDecoderIn, openSessionIn, quantizeModelIn } from "../bindings/api/async.js";
import type {
  AsyncDecoder,
  AsyncModel,
  AsyncQuantizeOptions,
  AsyncSession,
  AsyncSessionOptions,
  StartAsyncWorker,
  ToAsyncWorker,
} from "../bindings/api/async.js";
import { QdqError } from "../bindings/api/error.js";
import { wasmUrl } from "../bindings/wasm/qdq.js";

export { AsyncDecoder, AsyncSession } from "../bindings/api/async.js";
export type { Abortable, AsyncModel, AsyncQuantizeOptions, AsyncSessionOptions } from "../bindings/api/async.js";
export type { GenerateOptions } from "../bindings/api/decoder.js";
export { QdqError } from "../bindings/api/error.js";
export type { ErrorCode } from "../bindings/api/error.js";
export type { RemedyResult } from "../bindings/api/recover.js";
export { tensor } from "../bindings/api/tensor.js";
export type { DType, Tensor, TensorData } from "../bindings/api/tensor.js";

const start: StartAsyncWorker = (onMessage, onError) => {
  const sent: ToAsyncWorker[] = []; // until the worker has answered
  let hasAnswered = false;
  let worker = new Worker(new URL("./async-worker.js", import.meta.url), { type: "module" });
  const listen = (onFailure: (event: ErrorEvent) => void): void => {
    worker.onmessage = ({ data }) => {
      hasAnswered = true;
      sent.length = 0;
      onMessage(data);
    };
    worker.onerror = onFailure;
  };
  // Vite's development server leaves the script in the package (door.ts).
  listen((event) => {
    if (hasAnswered) return onError(event);
    worker = new Worker(new URL("node_modules/qdq/dist/esm/web/async-worker.js", wasmUrl), { type: "module" });
    listen(() => onError(event.message ? event : new Error("its script could not be loaded")));
    for (const message of sent) worker.postMessage(message);
  });
  return {
    post(message) {
      worker.postMessage(message);
      if (!hasAnswered) sent.push(message);
    },
    terminate: () => worker.terminate(),
  };
};

function withOneThread<T extends { threads?: number }>(options: T): T {
  if (options?.threads === undefined || options.threads === 1) return options;
  throw new QdqError(
    "InvalidArgument",
    `threads is ${options.threads}, and a worker of a page has one; open several sessions`,
  );
}

/**
 * Opens a model, .pt2 or .onnx, in a worker. Running it there lets this thread go on, and an abort ends it in the
 * middle. dispose() ends the worker. Throws what loadPt2 and lower throw.
 */
export const openSession = async (model: AsyncModel, options: AsyncSessionOptions = {}): Promise<AsyncSession> =>
  openSessionIn(start, model, withOneThread(options));

/**
 * Opens a decoder, .pt2 or .onnx, in a worker that generates tokens while this thread goes on. An abort ends the
 * opening. dispose() ends the worker. Throws what loadPt2 and lowerDecoder throw.
 */
export const openDecoder = async (model: AsyncModel, options: AsyncSessionOptions = {}): Promise<AsyncDecoder> =>
  openDecoderIn(start, model, withOneThread(options));

/**
 * Quantizes a model in a worker that ends with it, and returns the bytes of the file. Throws what loadPt2, preparePt2e,
 * recover, convertPt2e and saveOnnx throw; after an abort the signal's reason.
 */
export const quantizeModel = async (model: AsyncModel, options: AsyncQuantizeOptions): Promise<Uint8Array> =>
  quantizeModelIn(start, model, withOneThread(options));
