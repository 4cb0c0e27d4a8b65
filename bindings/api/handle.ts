// Things that live in WASM memory until they are disposed of: programs, prepared programs, sessions.
import { runner } from "./module.js";
import { QdqError } from "./error.js";

// Engines that do not have `using` yet.
if (!Symbol.dispose) Object.defineProperty(Symbol, "dispose", { value: Symbol.for("Symbol.dispose") });

// Frees what a forgotten object held once the engine collects it; dispose() and `using` do so at a known moment.
const forgotten = new FinalizationRegistry<number>((handle) => runner().dispose(handle));

export abstract class Handle {
  #handle: number | undefined;

  constructor(handle: number) {
    this.#handle = handle;
    forgotten.register(this, handle, this);
  }

  // The number by which C++ knows this object. Throws QdqError{InvalidArgument} after dispose().
  get handle(): number {
    if (this.#handle === undefined) {
      throw new QdqError("InvalidArgument", `this ${this.constructor.name} has been disposed of`);
    }
    return this.#handle;
  }

  // Frees the memory now; a second call does nothing.
  dispose(): void {
    if (this.#handle === undefined) return;
    forgotten.unregister(this);
    runner().dispose(this.#handle);
    this.#handle = undefined;
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

// The number of an object. What is none, as JavaScript may give, is 0, which C++ refuses in words.
export const handleOf = (object: Handle): number => (object as Handle | null | undefined)?.handle ?? 0;
