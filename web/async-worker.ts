// The worker of `qdq/async` in browsers.
import { answerAsync } from "../bindings/api/async-work.js";
import type { ToAsyncWorker } from "../bindings/api/async.js";
import { whole } from "../bindings/api/module.js";
import { door } from "./door.js";

// Bundlers want a worker's script in one piece, which the module with threads is not.
whole.open(door);

// One after the other: a load is not done when its call returns.
let last: Promise<unknown> = Promise.resolve();
globalThis.onmessage = ({ data }: MessageEvent<ToAsyncWorker>) => {
  last = last.then(async () => globalThis.postMessage(await answerAsync(data)));
};
