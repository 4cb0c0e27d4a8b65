// Brings a WASM module on the first load and shares it from then on. There are two: the one of `qdq`, which does
// everything, and the one of `qdq/run`.
import { guarded } from "./border.js";
import { hasExactByteProducts, hasMemory64, hasRelaxedSimd, mostOf32Bits } from "./engine.js";
import { instantiate, instantiateWithThreads } from "./instantiate.js";
import type { CreateWithThreads, StartWorker } from "./instantiate.js";
import type { Answer, Instantiation, RawRunner } from "../wasm/qdq.js";
import { QdqError } from "./error.js";
import type { ErrorCode } from "./error.js";
import type { Capabilities, Configuration } from "./configuration.js";
import { checkOptions, shown } from "./options.js";

/** What differs between Node and browsers. */
export interface Door {
  read(url: URL | string): Promise<Uint8Array | ArrayBuffer>;
  /** How many threads there are to be, of those that are wanted. */
  threads(wanted: number | undefined): number;
  /** What starts workers, brought when there are threads to start. */
  workers(): Promise<StartWorker>;
}

// What bindings/pack.mjs wrote for a module: its glue and where its files are.
interface Glue<M> {
  default: (options: Instantiation) => Promise<M>;
  wasmUrl: URL;
  relaxedWasmUrl: URL;
  // The name and the version that the module's files carry.
  mark: string;
}
interface GlueWithThreads<M> {
  default: CreateWithThreads<M>;
  wasmUrl: URL;
  relaxedWasmUrl: URL;
  workerUrl: URL;
}

// Of a module that only engines with 64-bit memory take; nothing in a package that was built without it.
export interface WideGlue<M> {
  default: Glue<M>["default"] | undefined;
  wasmUrl: URL | undefined;
  mark: string;
}

type Source = NonNullable<Configuration["wasm"]>;

const isPlace = (source: Source): source is URL | string => source instanceof URL || typeof source === "string";

// Bytes of whichever window or realm.
const isBytes = (source: unknown): boolean =>
  ArrayBuffer.isView(source) || /^\[object (Shared)?ArrayBuffer\]$/.test(Object.prototype.toString.call(source));

const isWide = (maxMemory: number | undefined): maxMemory is number =>
  maxMemory !== undefined && maxMemory > mostOf32Bits;

export class Loader<M extends RawRunner = RawRunner> {
  #door: Door | undefined;
  #withThreads: (() => Promise<GlueWithThreads<M>>) | undefined;
  #withMemory64: (() => Promise<WideGlue<M>>) | undefined;
  #configuration: Configuration = {};
  #loading: Promise<M> | undefined;
  #loaded: M | undefined;
  #moduleName = "";

  /** `entry`: what programs import, "qdq" or "qdq/run". */
  constructor(
    readonly entry: string,
    readonly single: Glue<M>,
  ) {}

  /**
   * Called by a door before anything else. `withThreads` brings the glue of the module with threads, `withMemory64`
   * that of the module with 64-bit memory; without them there is one thread, and 4 GB.
   */
  open(door: Door, withThreads?: () => Promise<GlueWithThreads<M>>, withMemory64?: () => Promise<WideGlue<M>>): void {
    this.#door = door;
    this.#withThreads = withThreads;
    this.#withMemory64 = withMemory64;
  }

  /**
   * Sets what the first load uses; settings that are left out stay as they are. Throws QdqError{InvalidArgument} after
   * it, QdqError{Unsupported} for more memory than the engine has.
   */
  configure(settings: Configuration): void {
    if (this.#loading) throw new QdqError("InvalidArgument", "configure() came after the first load; call it before");
    checkOptions("configure", settings, ["threads", "maxMemory", "wasm"]);
    for (const name of ["threads", "maxMemory"] as const) {
      const value = settings[name];
      if (value !== undefined && !(Number.isSafeInteger(value) && value >= 1)) {
        throw new QdqError("InvalidArgument", `${name} is ${shown(value)}, it must be a whole number of at least 1`);
      }
    }
    const { wasm } = settings;
    if (wasm !== undefined && !isPlace(wasm) && !isBytes(wasm))
      throw new QdqError(
        "InvalidArgument",
        `wasm is ${shown(wasm)}, wanted the bytes of a module or their address, a URL or a string`,
      );
    const given = Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined));
    const all: Configuration = { ...this.#configuration, ...given };
    if (isWide(all.maxMemory)) this.#checkWide(all.maxMemory, all.threads);
    this.#configuration = all;
  }

  /** The module, loaded if it is not yet. A failed load is tried again by the next call. */
  load(): Promise<M> {
    this.#loading ??= this.#bring().catch((error: unknown) => {
      this.#loading = undefined;
      throw error;
    });
    return this.#loading;
  }

  /** The module, which a load has brought; a handle exists only after one. */
  loaded(): M {
    if (!this.#loaded)
      throw new QdqError("InvalidArgument", "nothing is loaded yet; every path begins with await loadPt2(bytes)");
    return this.#loaded;
  }

  /** Loads the module if it is not loaded yet, and says what it works with. */
  async capabilities(): Promise<Capabilities> {
    const { integerProducts, threads } = unwrap((await this.load()).capabilities());
    const engine = { relaxedSimd: hasRelaxedSimd(), memory64: hasMemory64() };
    return { module: this.#moduleName, ...engine, integerProducts, threads };
  }

  async #bring(): Promise<M> {
    const { threads: wanted, maxMemory } = this.#configuration;
    const threads = isWide(maxMemory) ? 1 : this.#door!.threads(wanted);
    const made = guarded(await this.#instantiate(threads));
    unwrap(made.setThreads(threads));
    if (maxMemory !== undefined) unwrap(made.setMaxMemory(maxMemory));
    return (this.#loaded = made);
  }

  async #instantiate(threads: number): Promise<M> {
    const { wasm, maxMemory } = this.#configuration;
    if (isWide(maxMemory)) return this.#instantiateWide(wasm);
    if (wasm !== undefined) {
      const compiled = await this.#compile(wasm);
      this.#check(compiled, this.single.mark);
      // Only modules with threads get their memory from outside.
      const shared = WebAssembly.Module.imports(compiled).some(({ kind }) => kind === "memory");
      return shared ? this.#instantiateWithThreads(threads, compiled) : instantiate(this.single.default, compiled);
    }
    if (threads > 1 && this.#withThreads) {
      try {
        return await this.#instantiateWithThreads(threads);
      } catch {
        // A policy without workers from blobs, or an engine without so much shared memory: one thread is what is left.
      }
    }
    const { wasmUrl, relaxedWasmUrl } = this.single;
    return instantiate(this.single.default, await this.#compile(hasExactByteProducts() ? relaxedWasmUrl : wasmUrl));
  }

  async #instantiateWithThreads(threads: number, compiled?: WebAssembly.Module): Promise<M> {
    const glue = await this.#withThreads?.();
    if (!glue) throw new QdqError("InvalidArgument", "the module of configure({ wasm }) has threads, and here is one");
    compiled ??= await this.#compile(hasExactByteProducts() ? glue.relaxedWasmUrl : glue.wasmUrl);
    return instantiateWithThreads(glue.default, compiled, threads, glue.workerUrl, await this.#door!.workers());
  }

  async #instantiateWide(wasm: Source | undefined): Promise<M> {
    const { default: create, wasmUrl, mark } = await this.#withMemory64!();
    if (!create || !wasmUrl)
      throw new QdqError(
        "Unsupported",
        "this package was built without the module for 64-bit memory; maxMemory can be 4 GB at most",
      );
    const compiled = await this.#compile(wasm ?? wasmUrl);
    if (wasm !== undefined) this.#check(compiled, mark);
    return instantiate(create, compiled);
  }

  #checkWide(maxMemory: number, threads = 1): void {
    const gigabytes = `maxMemory is ${maxMemory / 1e9} GB, and more than 4 GB`;
    if (!this.#withMemory64) throw new QdqError("Unsupported", `${gigabytes} are for the programs that import qdq`);
    if (!hasMemory64())
      throw new QdqError(
        "Unsupported",
        `${gigabytes} need an engine with 64-bit memory: Node 24 or a current Chromium`,
      );
    if (threads > 1)
      throw new QdqError("Unsupported", `${gigabytes} are for one thread; threads is ${threads}, leave it out`);
  }

  async #compile(source: Source): Promise<WebAssembly.Module> {
    const bytes = isPlace(source) ? await this.#door!.read(source) : source;
    const compiled = await WebAssembly.compile(bytes as BufferSource).catch((error: unknown) => {
      throw new QdqError("BadFile", `the module of ${this.entry} is no WebAssembly: ${(error as Error).message}`);
    });
    this.#moduleName = isPlace(source)
      ? String(source)
          .replace(/[?#].*/, "")
          .replace(/.*\//, "")
      : "bytes";
    return compiled;
  }

  // The glue of one module does not fit another, whose imports have the same short names.
  #check(compiled: WebAssembly.Module, mark: string): void {
    const [section] = WebAssembly.Module.customSections(compiled, "qdq");
    const found = section ? new TextDecoder().decode(section) : "a file of something else";
    if (found === mark) return;
    throw new QdqError(
      "InvalidArgument",
      `configure({ wasm }) of ${this.entry} gave ${found}, wanted a module of ${mark}: ` +
        "take the .wasm file from the package that is imported",
    );
  }
}

/** The result of a call, or its error thrown. */
export function unwrap<T>(answer: Answer<T>): T {
  if (answer.error === undefined) return answer.value;
  const { code, message, node, op } = answer.error;
  throw new QdqError(code as ErrorCode, message, { node, op });
}
