/// <reference lib="esnext.disposable" preserve="true" />
// Things that live in WASM memory until they are disposed of: programs, prepared programs, sessions.
import { QdqError } from "./error.js";
import type { Loader } from "./loader.js";

// Engines that do not have `using` yet.
if (!Symbol.dispose) Object.defineProperty(Symbol, "dispose", { value: Symbol.for("Symbol.dispose") });

// Frees what a forgotten object held once the engine collects it; dispose() and `using` do so at a known moment.
const forgotten = new FinalizationRegistry<{ handle: number; loader: Loader }>(({ handle, loader }) =>
  loader.loaded().dispose(handle),
);

/**
 * Something that lives in the memory of the WASM module: a program, a prepared program, a session, data. It is freed by
 * dispose(), at the end of the block that declares it with `using`, or when the engine collects it.
 */
export abstract class Handle {
  #handle: number | undefined;

  /** @internal */
  readonly loader: Loader;

  /**
   * `loader` brought the module that the thing lives in.
   * @internal
   */
  constructor(handle: number, loader: Loader) {
    if (typeof handle !== "number" || typeof loader?.loaded !== "function")
      throw new QdqError("InvalidArgument", `a ${new.target.name} is not made with new; a function of qdq gives it`);
    this.loader = loader;
    this.#handle = handle;
    forgotten.register(this, { handle, loader }, this);
  }

  /**
   * The number by which C++ knows this object. Throws QdqError{InvalidArgument} after dispose(), and for an object that
   * no function of qdq gave.
   * @internal
   */
  get handle(): number {
    if (!(#handle in this)) throw new QdqError("InvalidArgument", "this object is not one that a function of qdq gave");
    if (this.#handle === undefined) {
      throw new QdqError("InvalidArgument", `this ${this.constructor.name} has been disposed of`);
    }
    return this.#handle;
  }

  /** The same of anything that JavaScript may give, 0 for what is no such object, which C++ refuses in words. */
  static numberOf(object: unknown): number {
    return typeof object === "object" && object !== null && #handle in object ? (object as Handle).handle : 0;
  }

  /** Frees the memory now; a second call does nothing. */
  dispose(): void {
    if (!(#handle in this) || this.#handle === undefined) return;
    forgotten.unregister(this);
    this.loader.loaded().dispose(this.#handle);
    this.#handle = undefined;
  }

  /** The same as dispose(), for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }
}

/**
 * The number of an object in a module, 0 for what is none. Throws QdqError{InvalidArgument} if the object lives in
 * another module, or was disposed of.
 * @internal
 */
export function handleIn(loader: Loader, object: Handle): number {
  const number = Handle.numberOf(object);
  if (number !== 0 && object.loader !== loader) {
    throw new QdqError(
      "InvalidArgument",
      `this ${object.constructor.name} is of ${object.loader.entry}, whose module has a memory of its own; ` +
        `load the file once more with loadPt2 of ${loader.entry}`,
    );
  }
  return number;
}
