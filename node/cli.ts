#!/usr/bin/env node
// `npx qdq`: the command line as a WASM module, with files and console from Node.
import { spawnSync } from "node:child_process";
import {
  accessSync,
  constants,
  fstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { constants as osConstants, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { hasExactByteProducts } from "../bindings/api/engine.js";
import { instantiateWithThreads } from "../bindings/api/instantiate.js";
import type { RawHost } from "../bindings/wasm/qdq.js";
import createQdqCli, { relaxedWasmUrl, wasmUrl, workerUrl } from "../bindings/wasm/qdq-cli.js";
import { behindLinks, readBeside, readPart, readWhole, reasonOf, standardInput, writeWhole } from "./files.js";
import { mostThreads, startWorker } from "./thread.js";

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
  sizeOf: (path) => attempt(() => (path === "-" ? fstatSync(standardInput()) : statSync(path)).size),
  readPart: (path, offset, count) => attempt(() => readPart(path === "-" ? standardInput() : path, offset, count)),
  writeFile: (path, bytes) =>
    attempt(() => {
      writeWhole(path, bytes);
      return "";
    }),
  whyNotWritten: (folder) =>
    attempt(() => {
      accessSync(folder || ".", constants.W_OK | constants.X_OK);
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

async function run(): Promise<number> {
  const file = hasExactByteProducts() ? relaxedWasmUrl : wasmUrl;
  const compiled = await WebAssembly.compile(readFileSync(fileURLToPath(file)));
  const module = await instantiateWithThreads(createQdqCli, compiled, threads, workerUrl, startWorker);
  return module.runCli(process.argv.slice(2), host);
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
