// Programs: what a .pt2 or an ONNX file holds.
import { QdqError } from "./error.js";
import type { ProgramInfo } from "./graph.js";
import { Handle } from "./handle.js";
import { unwrap } from "./loader.js";
import { fromJson } from "./names.js";

/** A graph of ATen calls with its tensors (torch.export.ExportedProgram). */
export class Program extends Handle {
  /** Nodes, inputs, outputs and attributes as plain data. */
  info(): ProgramInfo {
    return fromJson(unwrap(this.loader.loaded().describeProgram(this.handle)));
  }
}

/**
 * Buffers of another window or realm are buffers too.
 * @internal
 */
export function bytesOf(bytes: Uint8Array | ArrayBuffer, name: string): Uint8Array {
  const kind = Object.prototype.toString.call(bytes).slice("[object ".length, -1);
  try {
    if (ArrayBuffer.isView(bytes)) return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    if (/^(Shared)?ArrayBuffer$/.test(kind)) return new Uint8Array(bytes);
  } catch {
    throw new QdqError("InvalidArgument", `the bytes that ${name} was given have gone to a worker, with their buffer`);
  }
  const file = name === "loadOnnx" ? "an ONNX" : "a .pt2";
  throw new QdqError(
    "InvalidArgument",
    `${name} was given a ${kind}, wanted the bytes of ${file} file as a Uint8Array or an ArrayBuffer`,
  );
}
