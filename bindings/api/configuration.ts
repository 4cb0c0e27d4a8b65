// What configure() takes and capabilities() gives.

/** The settings of configure(); those that a later call leaves out stay. */
export interface Configuration {
  /**
   * The module's bytes or their address; by default the file of this package that suits the engine and the threads
   * best.
   */
  wasm?: Uint8Array | ArrayBuffer | URL | string;
  /**
   * Threads to use, the caller's included; results never depend on it. By default one in Node, and in a page that is
   * cross-origin isolated up to four, as many as the machine has processors; without isolation a page has one.
   */
  threads?: number;
  /**
   * The bytes that the module's memory may grow to; by default 4 GB (2 ** 32). Work that is known to need more is
   * refused before it begins, with QdqError{OutOfMemory}. More than 4 GB, up to 16, brings the module with 64-bit
   * memory, which has one thread; the engine must have such memory and relaxed SIMD, as Node 24 and current Chromium
   * do.
   */
  maxMemory?: number;
}

/** The properties of the loaded module. */
export interface Capabilities {
  /**
   * The file of the module: qdq.wasm, qdq-relaxed.wasm, qdq-threads.wasm, qdq-threads-relaxed.wasm or
   * qdq-memory64.wasm (of qdq/run qdq-run.wasm and so on), unless configure() named another.
   */
  module: string;
  /** Whether the engine has relaxed SIMD. */
  relaxedSimd: boolean;
  /** Whether the engine supports a maxMemory above 4 GB. */
  memory64: boolean;
  /** The instruction that multiplies integers: "16-bit dot product", or an 8-bit one that is exact on this engine. */
  integerProducts: string;
  /** The number of threads, including the caller's. */
  threads: number;
}
