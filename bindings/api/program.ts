// Programs: what a .pt2 or an ONNX file holds.
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
