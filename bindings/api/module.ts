// The WASM module: brought on the first load, shared by everything after it.
import { hasRelaxedSimd } from "./engine.js";
import createQdq, { relaxedWasmUrl, wasmUrl } from "../wasm/qdq.js";
import type { Answer, RawModule } from "../wasm/qdq.js";
import { QdqError } from "./error.js";
import type { ErrorCode } from "./error.js";

export interface Configuration {
  // The module's bytes, or where they are; by default the file beside this package that suits the engine best: qdq-relaxed.wasm where
  // there is relaxed SIMD, else qdq.wasm.
  wasm?: Uint8Array | ArrayBuffer | URL | string;
  // Threads to use where the build has them; results never depend on it.
  threads?: number;
}

// What the loaded module works with.
export interface Capabilities {
  // Whether the engine has relaxed SIMD.
  relaxedSimd: boolean;
  // The instruction that multiplies integers: "16-bit dot product", or an 8-bit one that is exact on this engine.
  integerProducts: string;
  threads: number;
}

type ReadWasm = (url: URL | string) => Promise<Uint8Array | ArrayBuffer>;

let readWasm: ReadWasm | undefined;
let configuration: Configuration = {};
let loading: Promise<RawModule> | undefined;
let loaded: RawModule | undefined;

// Called by a door with its way to get the module's bytes.
export function openDoor(read: ReadWasm): void {
  readWasm = read;
}

// Settings for those who need them, before the first load. Throws QdqError{InvalidArgument} after it.
export function configure(settings: Configuration): void {
  if (loading) throw new QdqError("InvalidArgument", "configure() came after the first load; call it before");
  if (settings.threads !== undefined && !(Number.isSafeInteger(settings.threads) && settings.threads >= 1)) {
    throw new QdqError("InvalidArgument", `threads is ${settings.threads}, it must be a whole number of at least 1`);
  }
  configuration = { ...settings };
}

// The module, loaded if it is not yet. A failed load is tried again by the next call.
export function loadModule(): Promise<RawModule> {
  loading ??= (async () => {
    const source = configuration.wasm ?? (hasRelaxedSimd() ? relaxedWasmUrl : wasmUrl);
    const wasmBinary = source instanceof URL || typeof source === "string" ? await readWasm!(source) : source;
    loaded = await createQdq({ wasmBinary });
    unwrap(loaded.setThreads(configuration.threads ?? 1));
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
  return { relaxedSimd: hasRelaxedSimd(), integerProducts, threads };
}

// The result of a call, or its error thrown.
export function unwrap<T>(answer: Answer<T>): T {
  if (answer.error === undefined) return answer.value;
  const { code, message, node, op } = answer.error;
  throw new QdqError(code as ErrorCode, message, { node, op });
}
