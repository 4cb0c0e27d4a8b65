// Programs: what a .pt2 or an ONNX file holds.
import { QdqError } from "./error.js";
import type { ProgramInfo } from "./graph.js";
import { Handle, handleOf } from "./handle.js";
import { loadModule, loadRunner, module, runner, unwrap } from "./module.js";

// A graph of ATen calls with its tensors (torch.export.ExportedProgram).
export class Program extends Handle {
  // Nodes, inputs, outputs and attributes as plain data.
  info(): ProgramInfo {
    return JSON.parse(unwrap(runner().describeProgram(this.handle)));
  }
}

// Buffers of another window or realm are buffers too.
function bytesOf(bytes: Uint8Array | ArrayBuffer, name: string): Uint8Array {
  if (ArrayBuffer.isView(bytes)) return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const kind = Object.prototype.toString.call(bytes).slice("[object ".length, -1);
  if (/^(Shared)?ArrayBuffer$/.test(kind)) return new Uint8Array(bytes);
  throw new QdqError("InvalidArgument", `${name} was given a ${kind}, wanted the bytes of ${name === "loadOnnx" ? "an ONNX" : "a .pt2"} file as a Uint8Array or an ArrayBuffer`);
}

// Reads a program that torch.export.save wrote, or an ONNX model: the bytes tell which. The first call brings the WASM module: what runs
// programs and, with an ONNX model or a program that is not quantized yet, what quantizes.
export async function loadPt2(bytes: Uint8Array | ArrayBuffer): Promise<Program> {
  return load(bytesOf(bytes, "loadPt2"));
}

// The same under the name that fits an ONNX file (opset 13 or later). `files` holds what the model keeps beside itself, by the names that it
// gives: { "model.onnx.data": bytes }.
export async function loadOnnx(bytes: Uint8Array | ArrayBuffer, files?: Record<string, Uint8Array | ArrayBuffer>): Promise<Program> {
  return load(bytesOf(bytes, "loadOnnx"), files && Object.fromEntries(Object.entries(files).map(([name, data]) => [name, bytesOf(data, "loadOnnx")])));
}

async function load(bytes: Uint8Array, files?: Record<string, Uint8Array>): Promise<Program> {
  const isZip = bytes[0] === 0x50 && bytes[1] === 0x4b; // "PK", as every .pt2 file begins
  if (!isZip) return new Program(unwrap((await loadModule()).loadProgram(bytes, files)));
  const wasm = await loadRunner();
  const program = new Program(unwrap(wasm.loadPt2(bytes)));
  try {
    if (!unwrap(wasm.isQuantized(program.handle))) await loadModule();
  } catch (error) {
    program.dispose();
    throw error;
  }
  return program;
}

// The bytes of a file that torch.export.load reads.
export function savePt2(program: Program): Uint8Array {
  return unwrap(module().savePt2(handleOf(program)));
}

// The bytes of an ONNX model of opset 17: of a quantized program a QDQ model that ONNX Runtime runs. Throws QdqError{Unsupported} that lists
// what ONNX cannot say.
export function saveOnnx(program: Program): Uint8Array {
  return unwrap(module().saveOnnx(handleOf(program)));
}
