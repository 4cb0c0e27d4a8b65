// Whatever can stand where a quantizer is wanted: classes, recipes, and objects written in JavaScript.
import type { AnnotatedGraph, PatternCapability, TransformedGraph } from "./backend.js";
import { QdqError } from "./error.js";
import { snakeCase } from "./names.js";
import type { QConfigMapping } from "./qconfig-mapping.js";
import { checkNearNames, shown } from "./options.js";
import type { EdgeOrNode, FilterFunction, Observer, ObserverSettings, QuantizationAnnotation } from "./qspec.js";
import type { EmbeddingQuantizer, X86InductorQuantizer, XNNPACKQuantizer } from "./recipe-quantizer.js";
import type { Recipe } from "./recipe.js";

/**
 * A quantizer written in JavaScript: it gets a picture of the graph, which can be asked for patterns and source
 * partitions, and answers with annotations, which C++ checks.
 */
export interface Quantizer {
  /** What reports call it. */
  readonly name?: string;
  /** Called before annotate(): changes the program that is prepared, a copy of the one that was given. */
  transformForAnnotation?(graph: TransformedGraph): void;
  /** The annotations of the graph. Nodes without one stay float. */
  annotate(graph: AnnotatedGraph): readonly QuantizationAnnotation[];
  /** Called when all quantizers have annotated; what it throws comes through. */
  validate?(graph: AnnotatedGraph): void;
  /**
   * Called when all observers exist and none is in the graph yet (prepare_obs_or_fq_callback). Returns for each place,
   * in order, the number of the observer that it is to have, null for none, or a function that makes one; nothing
   * leaves all as they are.
   */
  adjustObservers?(
    places: readonly ObservedPlace[],
  ): readonly (number | null | ((settings: ObserverSettings) => Observer))[] | undefined;
  /** The patterns that it can quantize under some setting. */
  quantizationCapabilities?(): readonly (Pick<PatternCapability, "pattern" | "operators"> &
    Partial<PatternCapability>)[];
}

/** A place that has an observer: a use of a tensor, or a node's output. */
export type ObservedPlace = EdgeOrNode & {
  /** The number of its observer; places that share one have the same. */
  observer: number;
  /** The class of the observer. */
  class: string;
};

/** Whatever can stand where a quantizer is wanted: a class of this package, a recipe, or an object of your own. */
export type AnyQuantizer =
  | Quantizer
  | XNNPACKQuantizer
  | X86InductorQuantizer
  | QConfigMapping
  | EmbeddingQuantizer
  | ComposableQuantizer
  | Recipe;

/** Asks several quantizers in order (torch/ao/quantization/quantizer/composable_quantizer.py). */
export class ComposableQuantizer {
  /** The name that recipes call it by. */
  readonly name = "ComposableQuantizer";
  /** The quantizers in the order in which they are asked. */
  readonly quantizers: readonly AnyQuantizer[];
  /** Throws QdqError{InvalidArgument} for what is no list. */
  constructor(quantizers: readonly AnyQuantizer[]) {
    if (!Array.isArray(quantizers))
      throw new QdqError("InvalidArgument", "a ComposableQuantizer is made of a list of quantizers");
    this.quantizers = [...quantizers];
  }
}

const methods = ["annotate", "validate", "transformForAnnotation", "adjustObservers", "quantizationCapabilities"];

const isObject = (value: unknown): boolean => typeof value === "object" && value !== null;

/**
 * Whether a quantizer is written in JavaScript.
 * @internal
 */
export const isCustom = (quantizer: AnyQuantizer): quantizer is Quantizer =>
  isObject(quantizer) && "annotate" in quantizer && typeof quantizer.annotate === "function";

/**
 * What it is called in reports.
 * @internal
 */
export function nameOf(quantizer: Quantizer): string {
  const name = quantizer.name ?? "a JavaScript quantizer";
  if (typeof name === "string") return name;
  throw new QdqError("InvalidArgument", `the name of a quantizer is ${shown(name)}, wanted a string`);
}

/**
 * A recipe as JSON text for C++. Quantizers and observers written in JavaScript leave their number in the text and
 * stand in the lists.
 * @internal
 */
export class RecipeWriter {
  /** The quantizers written in JavaScript. */
  readonly quantizers: Quantizer[] = [];
  /** The functions that make observers, and the rules of derived specs. */
  readonly functions: unknown[] = [];
  /** The filter functions. */
  readonly filters: FilterFunction[] = [];

  /** The recipe of a quantizer. */
  quantizer(quantizer: AnyQuantizer): unknown {
    if (quantizer instanceof ComposableQuantizer) {
      return { quantizer: quantizer.name, quantizers: quantizer.quantizers.map((inner) => this.quantizer(inner)) };
    }
    if (isObject(quantizer) && "toRecipe" in quantizer && typeof quantizer.toRecipe === "function") {
      const recipe = this.plain(quantizer.toRecipe()) as Record<string, unknown>;
      const filter =
        "filterFunction" in quantizer ? (quantizer.filterFunction as FilterFunction | undefined) : undefined;
      return filter ? { ...recipe, filter_function: { custom: this.filters.push(filter) - 1 } } : recipe;
    }
    if (isCustom(quantizer)) {
      checkNearNames(nameOf(quantizer), quantizer, methods);
      return { quantizer: "JavaScript", name: nameOf(quantizer), number: this.quantizers.push(quantizer) - 1 };
    }
    if (isObject(quantizer) && "quantizer" in quantizer) return this.plain(quantizer);
    throw new QdqError(
      "InvalidArgument",
      "the quantizer is neither one of this package's classes, nor an object with annotate(graph), " +
        "nor a recipe {quantizer: ...}",
    );
  }

  /** The same data with its keys in snake_case, as recipes write them. */
  plain(value: unknown): unknown {
    if (typeof value === "function") return { custom: this.functions.push(value) - 1 };
    if (Array.isArray(value)) return value.map((element) => this.plain(element));
    if (value !== null && typeof value === "object") {
      if ("class" in value && typeof value.class === "function") {
        const { class: make, ...rest } = value;
        return { ...(this.plain(make) as object), ...(this.plain(rest) as object) };
      }
      return Object.fromEntries(
        Object.entries(value)
          .filter(([, field]) => field !== undefined)
          .map(([key, field]) => [snakeCase(key), this.plain(field)]),
      );
    }
    return value;
  }
}
