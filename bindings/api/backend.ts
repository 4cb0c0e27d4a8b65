// For authors of backends: what quantizers can do, source partitions, and subgraph patterns.
import type { Argument, GraphSnapshot } from "./graph.js";
import { handleOf, module, unwrap } from "./module.js";
import { fromJson } from "./names.js";
import type { Program } from "./program.js";

export interface PatternCapability {
  pattern: string;
  operators: readonly (readonly string[])[]; // in order, with the alternatives at each place
  static: boolean;
  dynamic: boolean;
  qat: boolean;
  note: string;
}
export interface QuantizationCapabilities {
  quantizer: string;
  patterns: readonly PatternCapability[];
  parts: readonly QuantizationCapabilities[]; // of a composed quantizer
}

// The nodes that came from one call of a module or function, by their names.
export interface SourcePartition {
  source: string;
  nodes: readonly string[];
  inputNodes: readonly string[];
  outputNodes: readonly string[];
  params: readonly string[];
}

// A pattern as data: inputs stand for anything, nodes for calls of the same operator with the same constants.
//   { inputs: ["x"], outputs: ["relu"],
//     nodes: [{ name: "relu", target: "torch.ops.aten.relu.default", args: [{ node: "x" }] }] }
export interface PatternSpec {
  inputs: readonly string[];
  nodes: readonly {
    name: string;
    target: string; // without its overload ("torch.ops.aten.clamp") it stands for all of them
    // JavaScript has one kind of number: 1 is an integer, { float: 1 } is not
    args: readonly (Argument | { float: number })[];
    kwargs?: Readonly<Record<string, Argument | { float: number }>>;
  }[];
  outputs: readonly string[];
}
// An exported function, whose last result may be a dictionary of names, or a pattern as data.
export type Pattern = Program | PatternSpec;

export interface MatchOptions {
  ignoreLiterals?: boolean; // constants of the pattern match anything; default false
  removeOverlappingMatches?: boolean; // default true
}
export interface Match {
  nameNodeMap: Readonly<Record<string, string | null>>; // null where a constant stands
  placeholderNodes: readonly Argument[]; // what stands for the pattern's inputs, in order
  returningNodes: readonly string[];
}

// What a program or, while a quantizer annotates, its graph can be asked.
export interface Matching {
  getSourcePartitions(sources: readonly string[]): SourcePartition[];
  findSequentialPartitions(sources: readonly string[]): SourcePartition[][];
  matchPattern(pattern: Pattern, options?: MatchOptions): Match[];
}
export interface AnnotatedGraph extends GraphSnapshot, Matching {}

function matchingOf(handle: number): Matching {
  return {
    getSourcePartitions: (sources) => fromJson(unwrap(module().getSourcePartitions(handle, [...sources]))),
    findSequentialPartitions: (sources) => fromJson(unwrap(module().findSequentialPartitions(handle, [...sources]))),
    matchPattern(pattern, { ignoreLiterals = false, removeOverlappingMatches = true } = {}) {
      const wanted =
        typeof pattern === "object" && pattern !== null && "handle" in pattern
          ? pattern.handle
          : JSON.stringify(pattern ?? null);
      return fromJson(unwrap(module().matchPattern(handle, wanted, ignoreLiterals, removeOverlappingMatches)));
    },
  };
}

// The graph that is being annotated, as a quantizer gets it.
export const annotatedGraph = (snapshot: GraphSnapshot): AnnotatedGraph => ({ ...snapshot, ...matchingOf(-1) });

// The partitions of the wanted sources ("torch.nn.Conv2d", "torch.nn.functional.linear", "operator.add")
// (torch/fx/passes/utils/source_matcher_utils.py).
export const getSourcePartitions = (program: Program, sources: readonly string[]): SourcePartition[] =>
  matchingOf(handleOf(program)).getSourcePartitions(sources);

// Chains of partitions, one for each source or an equivalent of it, in which every next one uses the one before
// (torch/ao/quantization/pt2e/graph_utils.py). Throws QdqError{InvalidArgument} if two of the sources are equivalent.
export const findSequentialPartitions = (program: Program, sources: readonly string[]): SourcePartition[][] =>
  matchingOf(handleOf(program)).findSequentialPartitions(sources);

// The places where a pattern is found, with names for their nodes
// (torch/fx/passes/utils/matcher_with_name_node_map_utils.py, SubgraphMatcherWithNameNodeMap).
export const matchPattern = (program: Program, pattern: Pattern, options: MatchOptions = {}): Match[] =>
  matchingOf(handleOf(program)).matchPattern(pattern, options);
