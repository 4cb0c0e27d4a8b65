// Pictures of programs as plain data: what inspect shows and what a quantizer written in JavaScript reads.
import type { DType } from "./tensor.js";

/** An argument of a node: a constant, another node, or a list of arguments. */
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
  | { graph: string }
  | readonly Argument[];

/** A node of a graph as plain data. */
export interface NodeSnapshot {
  /** The quantizer that has annotated the node, while a composed quantizer asks the next one. */
  annotatedBy?: string;
  /** Its name, unique in the graph. */
  name: string;
  /** What kind of node it is, in the words of torch.fx. */
  op: "placeholder" | "get_attr" | "call_function" | "call_module" | "output";
  /** The operator ("torch.ops.aten.conv2d.default"), or the name of the attribute that it reads. */
  target: string;
  /** Its positional arguments. */
  args: readonly Argument[];
  /** Its arguments by name. */
  kwargs: Readonly<Record<string, Argument>>;
  /** The names of the nodes that read its value. */
  users: readonly string[];
  /** The path of the module it came from, "" for the root. */
  module?: string;
  /** That module's type: "torch.nn.modules.conv.Conv2d". */
  type?: string;
  /** Its number for compareLayers, where it has one (generateNumericDebugHandles). */
  debugHandle?: number;
  /** The module or function that it came from, where the export recorded it. */
  source?: string;
  /** Of its value, if that is a tensor. */
  dtype?: DType;
  /** Sizes; a symbolic one as text: "s0". */
  shape?: readonly (number | string)[];
}

/** A graph as plain data. */
export interface GraphSnapshot {
  /** All nodes, each after those that it reads. */
  nodes: readonly NodeSnapshot[];
}

/** An input or output of a program. */
export interface ValueInfo {
  /** The name of its node. */
  name: string;
  /** Of an output of an ONNX model: its name in the file. */
  called?: string;
  /** Its dtype; missing if it is not a tensor. */
  dtype?: DType;
  /** Its sizes, a symbolic one as text ("s0"); missing if it is not a tensor. */
  shape?: readonly (number | string)[];
}

/** A parameter, buffer or constant of a program. */
export interface AttributeInfo {
  /** Its name: "features.0.weight". */
  name: string;
  /** Its kind. */
  kind: "parameter" | "buffer" | "constant";
  /** The dtype of its elements. */
  dtype: DType;
  /** Its sizes. */
  shape: readonly number[];
  /** Its size in memory. */
  bytes: number;
}

/** A node that quantizes a value, or returns a weight that is stored in integers. */
export interface QParamsInfo {
  /** The node's name. */
  node: string;
  /** The value, or the weight. */
  of: string;
  /** The dtype of the integers. */
  dtype: DType;
  /** The least integer. */
  quantMin: number;
  /** The largest integer. */
  quantMax: number;
  /** Its scale, or one per channel; empty if chosen at run time. */
  scale: readonly (number | { float: string })[];
  /** The integer that stands for 0, or one per channel. */
  zeroPoint: readonly number[];
}

/** The contents of a program as plain data. */
export interface ProgramInfo extends GraphSnapshot {
  /** The version of PyTorch that exported it; empty if it is from elsewhere. */
  torchVersion: string;
  /** The dialect of its operators, in PyTorch's words: "TRAINING", "ATEN". */
  dialect: string;
  /** Its inputs in order. */
  inputs: readonly ValueInfo[];
  /** Its outputs in order. */
  outputs: readonly ValueInfo[];
  /** Its parameters, buffers and constants. */
  attributes: readonly AttributeInfo[];
  /** The scales and zero points in it. */
  qparams: readonly QParamsInfo[];
}
