// The worker of `qdq/async` in Node.
import { parentPort } from "node:worker_threads";
import { answerAsync } from "../bindings/api/async-work.js";
import { whole } from "../bindings/api/module.js";
import { door } from "./door.js";

whole.open(
  door,
  () => import("../bindings/wasm/qdq-threads.js"),
  () => import("../bindings/wasm/qdq-memory64.js"),
);

// One after the other: a load is not done when its call returns.
let last: Promise<unknown> = Promise.resolve();
parentPort!.on("message", (message) => {
  last = last.then(async () => parentPort!.postMessage(await answerAsync(message)));
});
