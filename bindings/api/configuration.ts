// What configure() takes and capabilities() gives.

/** The settings of configure(). */
export interface Configuration {
  /**
   * The module's bytes, or where they are; by default the file beside this package that suits the engine and the
   * threads best.
   */
  wasm?: Uint8Array | ArrayBuffer | URL | string;
  /**
   * Threads to use, the caller's included; results never depend on it. By default one in Node, and in a page that is
   * cross-origin isolated up to four, as many as the machine has processors; without isolation a page has one.
   */
  threads?: number;
  /**
   * The bytes that the module's memory may grow to, at most the 4 GB of WebAssembly, which are the default. Work that
   * is known to need more is refused before it begins, with QdqError{OutOfMemory}.
   */
  maxMemory?: number;
}

/** What the loaded module works with. */
export interface Capabilities {
  /**
   * The file of the module: qdq.wasm, qdq-relaxed.wasm, qdq-threads.wasm or qdq-threads-relaxed.wasm (of qdq/run
   * qdq-run.wasm and so on), unless configure() named another.
   */
  module: string;
  /** Whether the engine has relaxed SIMD. */
  relaxedSimd: boolean;
  /** The instruction that multiplies integers: "16-bit dot product", or an 8-bit one that is exact on this engine. */
  integerProducts: string;
  /** The threads that it computes with, the caller's included. */
  threads: number;
}
