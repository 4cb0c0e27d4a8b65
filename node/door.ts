// How modules come into Node: their bytes from the package's folder, and threads as many as configure() says.
import { readFile } from "node:fs/promises";
import type { Door } from "../bindings/api/loader.js";

// More would only wait for each other.
export const mostThreads = 64;

export const door: Door = {
  read: (url) => readFile(url),
  threads: (wanted = 1) => Math.min(wanted, mostThreads),
  // Without node:worker_threads, which brings Node's streams, the package loads in two thirds of the time.
  workers: async () => (await import("./thread.js")).startWorker,
};
