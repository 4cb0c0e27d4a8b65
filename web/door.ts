// How modules come into browsers and workers: their bytes are fetched, and threads are workers where the page is
// cross-origin isolated.
import { QdqError } from "../bindings/api/error.js";
import type { Door } from "../bindings/api/loader.js";
import type { ThreadWorker } from "../bindings/wasm/qdq-threads.js";

export const door: Door = {
  async read(url) {
    const response = await fetch(url);
    if (!response.ok) throw new QdqError("Io", `cannot fetch ${url}: the server answered ${response.status}`);
    return response.arrayBuffer();
  },

  // Shared memory is only for pages that are isolated from others.
  threads: (wanted = 4) => (globalThis.crossOriginIsolated ? Math.min(wanted, navigator.hardwareConcurrency || 1) : 1),

  // A worker from a blob has the policies of the page; one from a file those of the server's answer, which may lack the
  // page's isolation, and the file may be on another host.
  startWorker(script, failed) {
    const source = URL.createObjectURL(
      new Blob([`importScripts(${JSON.stringify(script.href)});`], { type: "text/javascript" }),
    );
    const worker = new Worker(source, { name: "em-pthread" });
    const thread: ThreadWorker = {
      onmessage: null,
      onerror: null,
      postMessage: (message) => worker.postMessage(message),
      terminate: () => worker.terminate(),
    };
    worker.addEventListener("message", () => URL.revokeObjectURL(source), { once: true });
    worker.onmessage = (event) => thread.onmessage?.(event);
    worker.onerror = (event) => {
      event.preventDefault();
      failed(
        new QdqError(
          "Internal",
          `a worker for threads could not run ${script}: ${event.message ?? "it could not be started"}`,
        ),
      );
    };
    return thread;
  },
};
