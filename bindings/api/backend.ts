// For authors of backends: what quantizers can do, source partitions, and subgraph patterns.
import type { Argument, GraphSnapshot } from "./graph.js";
import { handleOf, module, unwrap } from "./module.js";
import { fromJson } from "./names.js";
import { checkNames, checkOptions, jsonOf } from "./options.js";
import { Program } from "./program.js";

/** A pattern that a quantizer knows. */
export interface PatternCapability {
  /** Its name, as explain() gives it. */
  pattern: string;
  /** In order, with the alternatives at each place. */
  operators: readonly (readonly string[])[];
  /** Whether it applies if activations are quantized with data. */
  static: boolean;
  /** Whether it applies if activations are quantized at run time. */
  dynamic: boolean;
  /** Whether it applies in quantization-aware training. */
  qat: boolean;
  /** A condition in words; empty if there is none. */
  note: string;
}
/** What a quantizer can do, whatever its settings are. */
export interface QuantizationCapabilities {
  /** Its name. */
  quantizer: string;
  /** The patterns that it takes, in the order in which it tries them. */
  patterns: readonly PatternCapability[];
  /** Of a composed quantizer. */
  parts: readonly QuantizationCapabilities[];
}

/** The nodes that came from one call of a module or function, by their names. */
export interface SourcePartition {
  /** The requested class of modules, or function. */
  source: string;
  /** The nodes of the partition, in the order of the graph. */
  nodes: readonly string[];
  /** Nodes outside of it that it reads. */
  inputNodes: readonly string[];
  /** Its nodes that others read. */
  outputNodes: readonly string[];
  /** Its parameters: the names of the nodes that read them. */
  params: readonly string[];
}

/**
 * A pattern as data: inputs stand for anything, nodes for calls of the same operator with the same constants.
 *   { inputs: ["x"], outputs: ["relu"],
 *     nodes: [{ name: "relu", target: "torch.ops.aten.relu.default", args: [{ node: "x" }] }] }
 */
export interface PatternSpec {
  /** Names that stand for any value. */
  inputs: readonly string[];
  /** The calls of the pattern, each behind those that it reads. */
  nodes: readonly {
    name: string;
    /** Without its overload ("torch.ops.aten.clamp") it stands for all of them. */
    target: string;
    /** JavaScript has one kind of number: 1 is an integer, { float: 1 } is not. */
    args: readonly (Argument | { float: number })[];
    kwargs?: Readonly<Record<string, Argument | { float: number }>>;
  }[];
  /** The nodes whose values leave the pattern. */
  outputs: readonly string[];
}
/** An exported function, whose last result may be a dictionary of names, or a pattern as data. */
export type Pattern = Program | PatternSpec;

/** How matchPattern compares. */
export interface MatchOptions {
  /** Constants of the pattern match anything; default false. */
  ignoreLiterals?: boolean;
  /** Default true. */
  removeOverlappingMatches?: boolean;
}
/** A place where a pattern was found. */
export interface Match {
  /** Null where a constant stands. */
  nameNodeMap: Readonly<Record<string, string | null>>;
  /** What stands for the pattern's inputs, in order. */
  placeholderNodes: readonly Argument[];
  /** The nodes that give the pattern's outputs, in order. */
  returningNodes: readonly string[];
}

/** The queries of a program and, while a quantizer annotates, of its graph. */
export interface Matching {
  /** As the function {@link getSourcePartitions}, of this graph. */
  getSourcePartitions(sources: readonly string[]): SourcePartition[];
  /** As the function {@link findSequentialPartitions}, of this graph. */
  findSequentialPartitions(sources: readonly string[]): SourcePartition[][];
  /** As the function {@link matchPattern}, of this graph. */
  matchPattern(pattern: Pattern, options?: MatchOptions): Match[];
}
/** The graph that a quantizer annotates: its nodes as data, and queries. */
export interface AnnotatedGraph extends GraphSnapshot, Matching {}

/** The graph that a quantizer may still change before it annotates; its nodes are those before the changes. */
export interface TransformedGraph extends GraphSnapshot, Matching {
  /** As the function {@link replacePattern}, of this graph. */
  replacePattern(pattern: Pattern, replacement: Pattern): number;
  /**
   * Makes numbers that are added and multiplied tensors, which can be quantized
   * (torch/ao/quantization/quantizer/xnnpack_quantizer_utils.py, _convert_scalars_to_attrs).
   */
  convertScalarsToAttrs(): void;
}

const rawPattern = (pattern: Pattern): number | string =>
  pattern instanceof Program ? handleOf(pattern) : jsonOf(() => pattern, "the pattern");

function matchingOf(handle: number): Matching {
  return {
    getSourcePartitions(sources) {
      checkNames(sources, "the sources");
      return fromJson(unwrap(module().getSourcePartitions(handle, [...sources])));
    },
    findSequentialPartitions(sources) {
      checkNames(sources, "the sources");
      return fromJson(unwrap(module().findSequentialPartitions(handle, [...sources])));
    },
    matchPattern(pattern, options = {}) {
      checkOptions("matchPattern", options, ["ignoreLiterals", "removeOverlappingMatches"]);
      const { ignoreLiterals = false, removeOverlappingMatches = true } = options;
      return fromJson(
        unwrap(module().matchPattern(handle, rawPattern(pattern), ignoreLiterals, removeOverlappingMatches)),
      );
    },
  };
}

/**
 * The graph that is being annotated, as a quantizer gets it.
 * @internal
 */
export const annotatedGraph = (snapshot: GraphSnapshot): AnnotatedGraph => ({ ...snapshot, ...matchingOf(-1) });

/**
 * The graph that a quantizer may change, as transformForAnnotation() gets it.
 * @internal
 */
export const transformedGraph = (snapshot: GraphSnapshot): TransformedGraph => ({
  ...annotatedGraph(snapshot),
  replacePattern: (pattern, replacement) => replaceIn(-1, pattern, replacement),
  convertScalarsToAttrs() {
    unwrap(module().convertScalarsToAttrs(-1));
  },
});

const replaceIn = (handle: number, pattern: Pattern, replacement: Pattern): number =>
  unwrap(module().replacePattern(handle, rawPattern(pattern), rawPattern(replacement)));

/**
 * Replaces every match of the pattern, and returns the number of places. Pattern and replacement return the
 * result of one call and have equally many inputs, which correspond in order; the replacement has no tensors of its
 * own, and its calls belong to no module (torch/fx/subgraph_rewriter.py, replace_pattern). Throws
 * QdqError{InvalidArgument} for what is not of this form.
 */
export const replacePattern = (program: Program, pattern: Pattern, replacement: Pattern): number =>
  replaceIn(handleOf(program), pattern, replacement);

/**
 * The partitions of the wanted sources ("torch.nn.Conv2d", "torch.nn.functional.linear", "operator.add")
 * (torch/fx/passes/utils/source_matcher_utils.py).
 */
export const getSourcePartitions = (program: Program, sources: readonly string[]): SourcePartition[] =>
  matchingOf(handleOf(program)).getSourcePartitions(sources);

/**
 * Chains of partitions, one for each source or an equivalent of it, in which every next one uses the one before
 * (torch/ao/quantization/pt2e/graph_utils.py). Throws QdqError{InvalidArgument} if two of the sources are equivalent.
 */
export const findSequentialPartitions = (program: Program, sources: readonly string[]): SourcePartition[][] =>
  matchingOf(handleOf(program)).findSequentialPartitions(sources);

/**
 * The places where a pattern is found, with names for their nodes
 * (torch/fx/passes/utils/matcher_with_name_node_map_utils.py, SubgraphMatcherWithNameNodeMap).
 */
export const matchPattern = (program: Program, pattern: Pattern, options: MatchOptions = {}): Match[] =>
  matchingOf(handleOf(program)).matchPattern(pattern, options);
