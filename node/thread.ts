// A worker of Node for a thread of a module.
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import type { StartWorker } from "../bindings/api/instantiate.js";
import type { ThreadWorker } from "../bindings/wasm/qdq-threads.js";

// The glue expects a browser's worker, of which it needs little.
const prelude = `const { parentPort } = require("node:worker_threads");
Object.assign(globalThis, { self: globalThis, name: "em-pthread", location: { href: "" }, importScripts() {},
  postMessage: (message) => parentPort.postMessage(message) });
parentPort.on("message", (data) => self.onmessage({ data }));
`;

// The worker does not keep the process alive once it has loaded the script.
export const startWorker: StartWorker = (script, failed) => {
  // Options of the process, such as those of what --eval runs, are not meant for the worker.
  const worker = new Worker(`${prelude}require(${JSON.stringify(fileURLToPath(script))});`, {
    eval: true,
    execArgv: [],
  });
  const thread: ThreadWorker = {
    onmessage: null,
    onerror: null,
    postMessage: (message) => worker.postMessage(message),
    terminate: () => worker.terminate(),
  };
  worker.on("message", (data) => {
    worker.unref();
    thread.onmessage?.({ data });
  });
  worker.on("error", failed);
  return thread;
};
