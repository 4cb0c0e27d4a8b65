// Programs: what a .pt2 file holds.
import type { ProgramInfo } from "./graph.js";
import { Handle } from "./handle.js";
import { loadModule, module, unwrap } from "./module.js";

// A graph of ATen calls with its tensors (torch.export.ExportedProgram).
export class Program extends Handle {
  // Nodes, inputs, outputs and attributes as plain data.
  info(): ProgramInfo {
    return JSON.parse(unwrap(module().describeProgram(this.handle)));
  }
}

// Reads a program that torch.export.save wrote. The first call brings the WASM module.
export async function loadPt2(bytes: Uint8Array | ArrayBuffer): Promise<Program> {
  const wasm = await loadModule();
  return new Program(unwrap(wasm.loadPt2(bytes instanceof Uint8Array ? bytes : new Uint8Array(bytes))));
}

// The bytes of a file that torch.export.load reads.
export function savePt2(program: Program): Uint8Array {
  return unwrap(module().savePt2(program.handle));
}
