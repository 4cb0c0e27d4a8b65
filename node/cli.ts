#!/usr/bin/env node
// `npx qdq`: the command line as a WASM module, with files and console from Node.
import { spawnSync } from "node:child_process";
import {
  closeSync,
  fstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { constants as osConstants, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { hasExactByteProducts, hasMemory64, mostOf32Bits } from "../bindings/api/engine.js";
import { instantiateWithThreads } from "../bindings/api/instantiate.js";
import type { RawHost } from "../bindings/wasm/qdq.js";
import createQdqCli, { relaxedWasmUrl, wasmUrl, workerUrl } from "../bindings/wasm/qdq-cli.js";
import { bytesNamed, largeModel, memoryAllowed } from "./job.js";
import { Output, behindLinks, pathBeside, readBeside, readInto, readWhole, reasonOf, standardInput } from "./files.js";
import { mostThreads } from "./door.js";
import { startWorker } from "./thread.js";

// The result of the work, or why it could not be done.
const attempt = <T>(work: () => T): T | string => {
  try {
    return work();
  } catch (error) {
    return reasonOf(error);
  }
};

// Writes all of the text; a pipe whose reader is slow answers EAGAIN, one whose reader has gone EPIPE.
function write(descriptor: number, text: string): void {
  let rest = Buffer.from(text);
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(descriptor, rest));
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === "EPIPE") process.exit(1);
      if (code !== "EAGAIN") throw error;
    }
  }
}

const host: RawHost = {
  readFile: (path, most) => attempt(() => readWhole(path === "-" ? 0 : path, most)),
  readBeside: (beside, name, most) => attempt(() => readBeside(beside, name, most)),
  pathBeside: (beside, name) => attempt(() => ({ path: pathBeside(beside, name) })),
  sizeOf: (path) => attempt(() => (path === "-" ? fstatSync(standardInput()) : statSync(path)).size),
  readInto: (path, offset, out) => attempt(() => readInto(path === "-" ? standardInput() : path, offset, out)),
  openOutput: (path) => attempt(() => new Output(path)),
  whyNotWritten: (folder) =>
    attempt(() => {
      const name = `${folder || "."}/qdq.${process.pid}.part`;
      closeSync(openSync(name, "w"));
      unlinkSync(name);
      return "";
    }),
  makeFolder: (folder) =>
    attempt(() => {
      mkdirSync(folder, { recursive: true });
      return "";
    }),
  listFolder: (path) => attempt(() => readdirSync(path)),
  kind(path) {
    const stat = attempt(() => statSync(path));
    return typeof stat === "string" ? "" : stat.isDirectory() ? "folder" : "file";
  },
  fileBehind(path) {
    const file = attempt(() => behindLinks(resolve(path)));
    const stat = attempt(() => statSync(file));
    return typeof stat === "string" ? file : `${stat.dev}:${stat.ino}`;
  },
  print: (text) => write(1, text),
  printError: (text) => write(2, text),
  runOnOutputs: (command, npz) =>
    attempt(() => {
      const folder = mkdtempSync(join(tmpdir(), "qdq-"));
      try {
        const path = join(folder, "outputs.npz");
        writeFileSync(path, npz);
        const { status, signal, stdout, error } = spawnSync(command.replaceAll("{outputs}", path), {
          shell: true,
          stdio: ["ignore", "pipe", "inherit"],
          encoding: "utf8",
        });
        if (error) throw error;
        return { status: status ?? 128 + osConstants.signals[signal ?? "SIGTERM"], printed: stdout };
      } finally {
        rmSync(folder, { recursive: true });
      }
    }),
  errorIsTerminal: process.stderr.isTTY === true,
  errorHasColors: process.stderr.isTTY === true && process.stderr.hasColors(),
  // SOURCE_DATE_EPOCH makes files the same at any time.
  date: new Date(process.env.SOURCE_DATE_EPOCH ? Number(process.env.SOURCE_DATE_EPOCH) * 1000 : Date.now())
    .toISOString()
    .slice(0, 10),
};

// The workers of threads are there before the module reads its command line, so their number is looked up here; what is
// wrong with it the module says.
const wanted = Number(/(?:^|\0)--threads[=\0](\d+)(?:\0|$)/.exec(process.argv.slice(2).join("\0"))?.[1] ?? 1);
const threads = Math.min(Math.max(wanted, 1), mostThreads);

// The module that the job needs: with 64-bit memory, where there is such, for files or a limit beyond what the other
// has room for.
async function moduleFor(words: readonly string[]) {
  const isAllowed = memoryAllowed(words) > mostOf32Bits;
  if (isAllowed || bytesNamed(words) >= largeModel) {
    const has = hasMemory64();
    const { default: create, wasmUrl: file, workerUrl: worker } = await import("../bindings/wasm/qdq-cli-memory64.js");
    if (has && create && file && worker) return { create, file, worker };
    const reason = has ? "this package was built without the module for it" : "Node 24 has it, this Node has not";
    if (isAllowed)
      write(2, `qdq: warning: --max-memory is above 4 GB, which needs 64-bit memory; ${reason}, so 4 GB are all\n`);
  }
  return { create: createQdqCli, file: hasExactByteProducts() ? relaxedWasmUrl : wasmUrl, worker: workerUrl };
}

async function run(): Promise<number> {
  const words = process.argv.slice(2);
  const { create, file, worker } = await moduleFor(words);
  const compiled = await WebAssembly.compile(readFileSync(fileURLToPath(file)));
  const module = await instantiateWithThreads(create, compiled, threads, worker, startWorker);
  return module.runCli(words, host);
}

run().then(
  (status) => {
    process.exitCode = status;
  },
  (error: unknown) => {
    write(2, `qdq: ${reasonOf(error)}\n`);
    process.exitCode = 1;
  },
);
