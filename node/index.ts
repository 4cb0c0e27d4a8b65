// The door for Node: the module's bytes come from the package's folder, and threads are as many as configure() says.
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { openDoor } from "../bindings/api/module.js";
import { mostThreads, startWorker } from "./thread.js";

openDoor({
  read: (url) => readFile(url),
  readNow: (url) => readFileSync(url),
  threads: (wanted = 1) => Math.min(wanted, mostThreads),
  startWorker,
});

export * from "../bindings/api/index.js";
