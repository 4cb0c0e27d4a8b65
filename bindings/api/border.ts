// The functions of a module as the API calls them.
import { QdqError } from "./error.js";
import { shown } from "./options.js";
import type { RawRunner } from "../wasm/qdq.js";

type Call = (...args: unknown[]) => unknown;

// A copy whose functions throw QdqError{InvalidArgument} where the glue would throw errors of its own, and give the
// stack back that C++ leaves when a callback throws through it.
export function guarded<M extends RawRunner>(module: M): M {
  const copy: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(module)) {
    // Classes, which are the glue's, have capitals.
    copy[name] = typeof value === "function" && /^[a-z]/.test(name) ? guard(module, name, value as Call) : value;
  }
  return copy as unknown as M;
}

// The glue says only what it wanted.
function why(name: string, error: unknown, args: readonly unknown[]): string {
  const { message } = error as Error;
  if (!message.includes("std::string")) return `${name} was given something of another kind: ${message}`;
  const found = args.slice(args.length > 1 ? 1 : 0).filter((arg) => typeof arg !== "string");
  return `${name} was given ${found.map(shown).join(", ")} where it wants a string`;
}

function guard(module: RawRunner, name: string, call: Call): Call {
  return (...args) => {
    for (const arg of args) {
      if (typeof arg === "symbol" || typeof arg === "bigint")
        throw new QdqError("InvalidArgument", `${name} was given a ${typeof arg}, which it does not take`);
    }
    const stack = module.stackSave();
    try {
      return call(...args);
    } catch (error) {
      module.stackRestore(stack);
      if ((error as Error | null)?.name === "BindingError")
        throw new QdqError("InvalidArgument", why(name, error, args));
      throw error;
    }
  };
}
