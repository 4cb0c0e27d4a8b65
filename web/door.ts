// How modules come into browsers and workers: their bytes are fetched, and threads are workers where the page is
// cross-origin isolated.
import { QdqError } from "../bindings/api/error.js";
import type { StartWorker } from "../bindings/api/instantiate.js";
import type { Door } from "../bindings/api/loader.js";
import type { ThreadWorker } from "../bindings/wasm/qdq-threads.js";

// Vite's development server joins the scripts of a package in a folder of its own and leaves its other files where they
// are, so that a script looks for them at the top of the page.
const unmoved = (url: URL): URL => new URL(`node_modules/qdq/dist/${url.pathname.replace(/.*\//, "")}`, url);
const moved = new Set<string>();

const isFile = ({ status, headers }: Response): boolean =>
  status !== 404 && !headers.get("content-type")?.startsWith("text/html");

// A worker from a blob has the policies of the page; one from a file those of the server's answer, which may lack the
// page's isolation, and the file may be on another host.
const startWorker: StartWorker = (script, failed) => {
  const place = moved.has(new URL(".", script).href) ? unmoved(script) : script;
  const source = URL.createObjectURL(
    new Blob([`importScripts(${JSON.stringify(place.href)});`], { type: "text/javascript" }),
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
};

export const door: Door = {
  async read(url) {
    const response = await fetch(url);
    if (!isFile(response) && url instanceof URL) {
      const other = await fetch(unmoved(url)).catch(() => undefined);
      if (other && isFile(other)) {
        moved.add(new URL(".", url).href);
        return other.arrayBuffer();
      }
    }
    if (!response.ok) throw new QdqError("Io", `cannot fetch ${url}: the server answered ${response.status}`);
    return response.arrayBuffer();
  },

  // Shared memory is only for pages that are isolated from others; some builds of WebKit have none even there.
  threads: (wanted = 4) =>
    globalThis.crossOriginIsolated && typeof SharedArrayBuffer === "function"
      ? Math.min(wanted, navigator.hardwareConcurrency || 1)
      : 1,

  workers: async () => startWorker,
};
