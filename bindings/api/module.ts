// The WASM module: brought on the first load, shared by everything after it.
import { hasRelaxedSimd } from "./engine.js";
import { instantiate, instantiateWithThreads } from "./instantiate.js";
import type { StartWorker } from "./instantiate.js";
import createQdq, { relaxedWasmUrl, wasmUrl } from "../wasm/qdq.js";
import type { Answer, RawModule } from "../wasm/qdq.js";
import { QdqError } from "./error.js";
import type { ErrorCode } from "./error.js";

export interface Configuration {
  // The module's bytes, or where they are; by default the file beside this package that suits the engine and the threads best.
  wasm?: Uint8Array | ArrayBuffer | URL | string;
  // Threads to use, the caller's included; results never depend on it. By default one in Node, and in a page that is cross-origin isolated
  // up to four, as many as the machine has processors; without isolation a page has one.
  threads?: number;
  // The bytes that the module's memory may grow to, at most the 4 GB of WebAssembly, which are the default. Work that is known to need more is
  // refused before it begins, with QdqError{OutOfMemory}.
  maxMemory?: number;
}

// What the loaded module works with.
export interface Capabilities {
  // The file of the module: qdq.wasm, qdq-relaxed.wasm, qdq-threads.wasm or qdq-threads-relaxed.wasm, unless configure() named another.
  module: string;
  // Whether the engine has relaxed SIMD.
  relaxedSimd: boolean;
  // The instruction that multiplies integers: "16-bit dot product", or an 8-bit one that is exact on this engine.
  integerProducts: string;
  threads: number;
}

// What differs between Node and browsers.
export interface Door {
  read(url: URL | string): Promise<Uint8Array | ArrayBuffer>;
  // How many threads there are to be, of those that are wanted.
  threads(wanted: number | undefined): number;
  startWorker: StartWorker;
}

let door: Door;
let configuration: Configuration = {};
let loading: Promise<RawModule> | undefined;
let loaded: RawModule | undefined;
let moduleName = "";

// Called by a door before anything else.
export function openDoor(opened: Door): void {
  door = opened;
}

// Settings for those who need them, before the first load. Throws QdqError{InvalidArgument} after it.
export function configure(settings: Configuration): void {
  if (loading) throw new QdqError("InvalidArgument", "configure() came after the first load; call it before");
  for (const name of ["threads", "maxMemory"] as const) {
    const value = settings[name];
    if (value !== undefined && !(Number.isSafeInteger(value) && value >= 1)) {
      throw new QdqError("InvalidArgument", `${name} is ${value}, it must be a whole number of at least 1`);
    }
  }
  configuration = { ...settings };
}

async function compile(source: NonNullable<Configuration["wasm"]>): Promise<WebAssembly.Module> {
  const named = source instanceof URL || typeof source === "string";
  moduleName = named ? String(source).replace(/[?#].*/, "").replace(/.*\//, "") : "bytes";
  return WebAssembly.compile((named ? await door.read(source) : source) as BufferSource);
}

async function loadWithThreads(threads: number, compiled?: WebAssembly.Module): Promise<RawModule> {
  const glue = await import("../wasm/qdq-threads.js");
  compiled ??= await compile(hasRelaxedSimd() ? glue.relaxedWasmUrl : glue.wasmUrl);
  return instantiateWithThreads(glue.default, compiled, threads, glue.workerUrl, door.startWorker);
}

async function load(): Promise<RawModule> {
  const threads = door.threads(configuration.threads);
  if (configuration.wasm !== undefined) {
    const compiled = await compile(configuration.wasm);
    // Only modules with threads get their memory from outside.
    const shared = WebAssembly.Module.imports(compiled).some(({ kind }) => kind === "memory");
    return shared ? loadWithThreads(threads, compiled) : instantiate(createQdq, compiled);
  }
  if (threads > 1) {
    try {
      return await loadWithThreads(threads);
    } catch {
      // A policy without workers from blobs, or an engine without so much shared memory: one thread is what is left.
    }
  }
  return instantiate(createQdq, await compile(hasRelaxedSimd() ? relaxedWasmUrl : wasmUrl));
}

// The module, loaded if it is not yet. A failed load is tried again by the next call.
export function loadModule(): Promise<RawModule> {
  loading ??= (async () => {
    loaded = await load();
    unwrap(loaded.setThreads(door.threads(configuration.threads)));
    if (configuration.maxMemory !== undefined) unwrap(loaded.setMaxMemory(configuration.maxMemory));
    return loaded;
  })().catch((error: unknown) => {
    loading = undefined;
    throw error;
  });
  return loading;
}

// The module that a load has brought; a handle exists only after one.
export function module(): RawModule {
  if (!loaded) throw new QdqError("InvalidArgument", "nothing is loaded yet; every path begins with await loadPt2(bytes)");
  return loaded;
}

// Loads the module if it is not loaded yet, and says what it works with.
export async function capabilities(): Promise<Capabilities> {
  const { integerProducts, threads } = unwrap((await loadModule()).capabilities());
  return { module: moduleName, relaxedSimd: hasRelaxedSimd(), integerProducts, threads };
}

// The result of a call, or its error thrown.
export function unwrap<T>(answer: Answer<T>): T {
  if (answer.error === undefined) return answer.value;
  const { code, message, node, op } = answer.error;
  throw new QdqError(code as ErrorCode, message, { node, op });
}
