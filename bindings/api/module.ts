// The WASM module: brought on the first load, shared by everything after it.
import { hasRelaxedSimd } from "./engine.js";
import { FirstPart, instantiate, instantiateWithThreads } from "./instantiate.js";
import type { StartWorker } from "./instantiate.js";
import createQdq, { quantizeWasmUrl, relaxedQuantizeWasmUrl, relaxedWasmUrl, wasmUrl } from "../wasm/qdq.js";
import type { Answer, RawModule, RawRunner } from "../wasm/qdq.js";
import { QdqError } from "./error.js";
import type { ErrorCode } from "./error.js";

export interface Configuration {
  // The module's bytes, or where they are; by default the file beside this package that suits the engine and the threads best.
  wasm?: Uint8Array | ArrayBuffer | URL | string;
  // The same for the part of it that quantizes; by default NAME-quantize.wasm beside NAME.wasm. Modules with threads are whole.
  quantizeWasm?: Uint8Array | ArrayBuffer | URL | string;
  // Threads to use, the caller's included; results never depend on it. By default one in Node, and in a page that is cross-origin isolated
  // up to four, as many as the machine has processors; without isolation a page has one.
  threads?: number;
  // The bytes that the module's memory may grow to, at most the 4 GB of WebAssembly, which are the default. Work that is known to need more is
  // refused before it begins, with QdqError{OutOfMemory}.
  maxMemory?: number;
}

// What the loaded module works with.
export interface Capabilities {
  // The file of the module, or of its first part: qdq.wasm, qdq-relaxed.wasm, qdq-threads.wasm or qdq-threads-relaxed.wasm, unless configure() named another.
  module: string;
  // Whether the engine has relaxed SIMD.
  relaxedSimd: boolean;
  // The instruction that multiplies integers: "16-bit dot product", or an 8-bit one that is exact on this engine.
  integerProducts: string;
  threads: number;
  // Whether the part that quantizes is there. It comes with the first program that is not quantized yet, or by loadQuantization().
  quantizes: boolean;
}

// What differs between Node and browsers.
export interface Door {
  read(url: URL | string): Promise<Uint8Array | ArrayBuffer>;
  // The same at once, where that can be.
  readNow?(url: URL | string): Uint8Array;
  // How many threads there are to be, of those that are wanted.
  threads(wanted: number | undefined): number;
  startWorker: StartWorker;
}

type Source = NonNullable<Configuration["wasm"]>;

let door: Door;
let configuration: Configuration = {};
let loading: Promise<RawRunner> | undefined;
let loaded: RawRunner | undefined;
let moduleName = "";
// The first part of the loaded module while it misses the second, and where that is.
let incomplete: FirstPart | undefined;
let quantizeSource: Source | undefined;

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

const isPlace = (source: Source): source is URL | string => source instanceof URL || typeof source === "string";

async function compile(source: Source): Promise<WebAssembly.Module> {
  return WebAssembly.compile((isPlace(source) ? await door.read(source) : source) as BufferSource);
}

function nameModule(source: Source): void {
  moduleName = isPlace(source) ? String(source).replace(/[?#].*/, "").replace(/.*\//, "") : "bytes";
}

async function loadWithThreads(threads: number, compiled?: WebAssembly.Module): Promise<RawModule> {
  const glue = await import("../wasm/qdq-threads.js");
  if (!compiled) {
    const source = hasRelaxedSimd() ? glue.relaxedWasmUrl : glue.wasmUrl;
    compiled = await compile(source);
    nameModule(source);
  }
  const whole = await instantiateWithThreads(glue.default, compiled, threads, glue.workerUrl, door.startWorker);
  whole._registerQuantization();
  return whole;
}

async function loadWithoutThreads(compiled: WebAssembly.Module, second: Source | undefined): Promise<RawRunner> {
  const part = new FirstPart(compiled);
  const runner = await instantiate(createQdq, part);
  if (part.isWhole) runner._registerQuantization();
  incomplete = part.isWhole ? undefined : part;
  quantizeSource = second;
  return runner;
}

async function load(): Promise<RawRunner> {
  const threads = door.threads(configuration.threads);
  const { wasm, quantizeWasm } = configuration;
  if (wasm !== undefined) {
    const compiled = await compile(wasm);
    nameModule(wasm);
    // Only modules with threads get their memory from outside.
    if (WebAssembly.Module.imports(compiled).some(({ kind }) => kind === "memory")) return loadWithThreads(threads, compiled);
    const beside = isPlace(wasm) ? String(wasm).replace(/\.wasm(?=[?#]|$)/, "-quantize.wasm") : undefined;
    return loadWithoutThreads(compiled, quantizeWasm ?? (wasm instanceof URL ? new URL(beside!) : beside));
  }
  if (threads > 1) {
    try {
      return await loadWithThreads(threads);
    } catch {
      // A policy without workers from blobs, or an engine without so much shared memory: one thread is what is left.
    }
  }
  const [first, second] = hasRelaxedSimd() ? [relaxedWasmUrl, relaxedQuantizeWasmUrl] : [wasmUrl, quantizeWasmUrl];
  const compiled = await compile(first);
  nameModule(first);
  return loadWithoutThreads(compiled, quantizeWasm ?? second);
}

// What runs programs, loaded if it is not yet. A failed load is tried again by the next call.
export function loadRunner(): Promise<RawRunner> {
  loading ??= (async () => {
    const runner = await load();
    unwrap(runner.setThreads(door.threads(configuration.threads)));
    if (configuration.maxMemory !== undefined) unwrap(runner.setMaxMemory(configuration.maxMemory));
    return (loaded = runner);
  })().catch((error: unknown) => {
    loading = undefined;
    throw error;
  });
  return loading;
}

// What runs programs, which a load has brought; a handle exists only after one.
export function runner(): RawRunner {
  if (!loaded) throw new QdqError("InvalidArgument", "nothing is loaded yet; every path begins with await loadPt2(bytes)");
  return loaded;
}

function secondSource(): Source {
  if (quantizeSource !== undefined) return quantizeSource;
  throw new QdqError("InvalidArgument", "configure({ wasm }) gave the bytes of a module's first part alone; give those of NAME-quantize.wasm as quantizeWasm");
}

// The second part has been added to the first.
function complete(): void {
  incomplete = undefined;
  loaded!._registerQuantization();
}

// Everything, loaded if it is not yet.
export async function loadModule(): Promise<RawModule> {
  await loadRunner();
  if (incomplete) {
    const second = await compile(secondSource());
    const part = incomplete;
    // Another call may have been faster.
    if (part) await WebAssembly.instantiate(second, part.importsOf(second));
    if (part && part === incomplete) complete();
  }
  return loaded as RawModule;
}

// Everything, where a load has brought it or it can be brought at once.
export function module(): RawModule {
  runner();
  if (incomplete) {
    const source = secondSource();
    if (isPlace(source) && !door.readNow) {
      throw new QdqError("InvalidArgument", "the part of the module that quantizes is not there, since only quantized programs were loaded; " +
        "await loadQuantization() before this call");
    }
    const second = new WebAssembly.Module((isPlace(source) ? door.readNow!(source) : source) as BufferSource);
    new WebAssembly.Instance(second, incomplete.importsOf(second));
    complete();
  }
  return loaded as RawModule;
}

// Brings the part of the module that quantizes. The first program that is not quantized yet does so too; only a page that wants to save, compare
// or describe quantized programs without a float one needs this call.
export async function loadQuantization(): Promise<void> {
  await loadModule();
}

// Loads the module if it is not loaded yet, and says what it works with.
export async function capabilities(): Promise<Capabilities> {
  const { integerProducts, threads } = unwrap((await loadRunner()).capabilities());
  return { module: moduleName, relaxedSimd: hasRelaxedSimd(), integerProducts, threads, quantizes: !incomplete };
}

// The result of a call, or its error thrown.
export function unwrap<T>(answer: Answer<T>): T {
  if (answer.error === undefined) return answer.value;
  const { code, message, node, op } = answer.error;
  throw new QdqError(code as ErrorCode, message, { node, op });
}
