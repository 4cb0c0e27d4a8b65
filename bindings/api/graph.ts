// Pictures of programs as plain data: what inspect shows and what a quantizer written in JavaScript reads.
import type { DType } from "./tensor.js";

// An argument of a node: a constant, another node, or a list of arguments.
export type Argument =
  | null
  | boolean
  | number
  | string
  | { node: string }
  | { dtype: DType }
  // biome-ignore lint/style/useNamingConvention: arguments are written as in recipes, patterns and inspect --json
  | { memory_format: string }
  | { layout: string }
  | { device: string }
  | { float: "inf" | "-inf" | "nan" }
  | readonly Argument[];

export interface NodeSnapshot {
  annotatedBy?: string; // the quantizer that annotated the node before, while a composed one asks the next
  name: string;
  op: "placeholder" | "get_attr" | "call_function" | "call_module" | "output";
  target: string;
  args: readonly Argument[];
  kwargs: Readonly<Record<string, Argument>>;
  users: readonly string[];
  module?: string; // the path of the module it came from, "" for the root
  type?: string; // that module's type: "torch.nn.modules.conv.Conv2d"
  source?: string; // the module or function that it came from, where the export recorded it
  dtype?: DType; // of its value, if that is a tensor
  shape?: readonly (number | string)[]; // sizes; a symbolic one as text: "s0"
}

export interface GraphSnapshot {
  nodes: readonly NodeSnapshot[];
}

export interface ValueInfo {
  name: string;
  dtype?: DType;
  shape?: readonly (number | string)[];
}

export interface ProgramInfo extends GraphSnapshot {
  inputs: readonly ValueInfo[];
  outputs: readonly ValueInfo[];
  attributes: readonly {
    name: string;
    dtype: DType;
    shape: readonly number[];
    bytes: number;
    kind: "parameter" | "buffer" | "constant";
  }[];
}
