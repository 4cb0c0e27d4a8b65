// How modules come into Node: their bytes from the package's folder, and threads as many as configure() says.
import { readFile } from "node:fs/promises";
import type { Door } from "../bindings/api/loader.js";
import { mostThreads, startWorker } from "./thread.js";

export const door: Door = {
  read: (url) => readFile(url),
  threads: (wanted = 1) => Math.min(wanted, mostThreads),
  startWorker,
};
