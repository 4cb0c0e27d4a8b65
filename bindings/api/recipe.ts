// Recipes: JSON that says what to quantize and how, the same for the command line, C++ and JavaScript.
import type { BackendConfigName, BackendPatternConfig, QConfig, QuantizationBackend } from "./qconfig.js";
import type {
  FixedQParamsQuantizationSpec,
  ObserverOverride,
  QuantizationAnnotation,
  QuantizationConfig,
  SymmetricQuantizationOptions,
  X86InductorQuantizationOptions,
} from "./qspec.js";

/** "torch-2.6": the graph that PyTorch 2.6 makes, to the node; "qdq" (default): what the user meant. */
export type Compat = "torch-2.6" | "qdq";

type Specs = Omit<QuantizationConfig, "kind">;
/** The config of layers: options of PyTorch's function, or specs; null: they stay float. */
type Symmetric = SymmetricQuantizationOptions | Specs | null;
type X86 =
  | (Omit<X86InductorQuantizationOptions, "reduceRange"> & { reduceRange?: boolean | "auto" })
  | { config: "linear_dynamic_fp16" }
  | Specs
  | null;
type Setting<Config> = readonly [name: string, config: Config];

/** A class of observers that may take the place of HistogramObserver. */
export type HistogramObserver =
  | "MinMaxObserver"
  | "MergeableHistogramObserver"
  | "PercentileObserver"
  | "EntropyObserver"
  | "MSEObserver";

/** The fields that every recipe may have. */
export interface RecipeFields {
  /** Where an editor finds the schema of recipes, `qdq/recipe.schema.json`; qdq does not read it. */
  $schema?: string;
  /** Whatever its author needs to say. Every object of a recipe may have it; qdq does not read it. */
  $comment?: unknown;
  /** Attributes of single observers. */
  observerOverrides?: readonly ObserverOverride[];
  /** Whether PyTorch's graph is wanted to the node. */
  compat?: Compat;
  /** The class that takes the place of HistogramObserver. */
  histogramObserver?: HistogramObserver;
  /** Whether MergeableHistogramObserver takes the place of HistogramObserver, so that calibrations of parts merge. */
  mergeable?: boolean;
}

/** A recipe whose settings are configs of layers. */
export interface ConfigRecipe<Config> extends RecipeFields {
  /** The config of all that nothing else names. */
  global?: Config;
  /** Modules by their paths: [["head", null]]. */
  moduleName?: readonly Setting<Config>[];
  /** Modules by their classes: [["torch.nn.Linear", { isDynamic: true }]]. */
  moduleType?: readonly Setting<Config>[];
  /** Operators: [["torch.ops.aten.add", null]]. */
  operatorType?: readonly Setting<Config>[];
  /** Functions: [["torch.nn.functional.linear", null]]. */
  functionType?: readonly Setting<Config>[];
  /** Operators, functions or classes of modules. */
  objectType?: readonly Setting<Config>[];
  /** The sections in the order in which they are set, where PyTorch's order is not meant. */
  order?: readonly ("global" | "module_name" | "module_type" | "operator_type" | "function_type" | "object_type")[];
}

/** A recipe of PyTorch's XNNPACKQuantizer. */
export interface XNNPACKRecipe extends ConfigRecipe<Symmetric> {
  /** The quantizer's name. */
  quantizer: "XNNPACKQuantizer";
}

/** A recipe of PyTorch's X86InductorQuantizer. */
export interface X86InductorRecipe extends ConfigRecipe<X86> {
  /** The quantizer's name. */
  quantizer: "X86InductorQuantizer";
}

/** A recipe that stores the weights of embeddings as uint8. */
export interface EmbeddingRecipe extends RecipeFields {
  /** The quantizer's name. */
  quantizer: "EmbeddingQuantizer";
}

/** The settings of FX graph mode, which count in increasing priority. */
export interface QConfigMappingRecipe {
  /** Begins with PyTorch's mapping for that backend. */
  default?: QuantizationBackend;
  /** The version of that mapping, as PyTorch counts them. */
  version?: number;
  /** The QConfig of all that nothing else names. */
  global?: QConfig | null;
  /** Classes of modules, functions or methods. */
  objectType?: readonly Setting<QConfig | null>[];
  /** Regular expressions of modules' paths. */
  moduleNameRegex?: readonly Setting<QConfig | null>[];
  /** Modules by their paths. */
  moduleName?: readonly Setting<QConfig | null>[];
  /** Single calls: the module's path, the type, the number of the call from 0, and its QConfig. */
  moduleNameObjectTypeOrder?: readonly (readonly [
    path: string,
    type: string,
    index: number,
    qconfig: QConfig | null,
  ])[];
}

/** A backend's own patterns, or the name of one that PyTorch has. */
export type BackendConfigRecipe =
  | BackendConfigName
  | { name: string; base?: BackendConfigName; configs: readonly BackendPatternConfig[] };

/** A module that is quantized on its own. */
export interface StandaloneModuleRecipe {
  /** Its path, or its class. */
  module: string;
  /** Its own settings; without them the QConfig that the whole has for it. */
  qconfigMapping?: QConfigMappingRecipe | null;
  /** Settings of the modules inside of it. */
  prepareCustomConfig?: PrepareCustomConfigRecipe | null;
  /** The backend that it runs on. */
  backendConfig?: BackendConfigRecipe | null;
}

/** Settings of single modules and of the model's border. */
export interface PrepareCustomConfigRecipe {
  /** Modules that are quantized on their own, by their paths. */
  standaloneModuleName?: readonly StandaloneModuleRecipe[];
  /** Modules that are quantized on their own, by their classes. */
  standaloneModuleClass?: readonly StandaloneModuleRecipe[];
  /** Modules that are left alone, by their paths. */
  nonTraceableModuleName?: readonly string[];
  /** Modules that are left alone, by their classes. */
  nonTraceableModuleClass?: readonly string[];
  /** Inputs that come as uint8, by their numbers. */
  inputQuantizedIdxs?: readonly number[];
  /** Outputs that go as uint8, by their numbers. */
  outputQuantizedIdxs?: readonly number[];
}

/** A recipe of FX graph mode. */
export interface FxRecipe extends RecipeFields {
  /** The quantizer's name. */
  quantizer: "QConfigMapping";
  /** What is quantized, and how. */
  qconfigMapping: QConfigMappingRecipe;
  /** Whether it is for quantization-aware training; default false. */
  isQat?: boolean;
  /** What the backend can run; default "native". */
  backendConfig?: BackendConfigRecipe;
  /** Settings of single modules and of the border. */
  prepareCustomConfig?: PrepareCustomConfigRecipe;
  /** The layers whose inputs are equalized with their weights, by `{ named: "default_equalization_qconfig" }`. */
  equalizationConfig?: QConfigMappingRecipe;
}

/** A row of a PatternQuantizer: operators that a backend computes at once. */
export interface PatternRow {
  /** What reasons and capabilities call the pattern. */
  name: string;
  /** One to four places, each read by the next: the operator, or those that fit there. */
  operators: readonly (string | readonly string[])[];
  /** How the first operator's inputs are quantized; default "quantized". */
  inputs?: "quantized" | "like_producer" | "handed_on" | "behind_quantized" | "all_behind_quantized";
  /** How the last operator's output is quantized; default "quantized". A spec of a range that is known: a sigmoid's. */
  output?: "quantized" | "like_input" | "float" | FixedQParamsQuantizationSpec;
  /** Whether operands must be float32, and single numbers not so large that histograms fail on them. */
  onlyFloat32?: boolean;
  /** Whether the last operator must average over the height and width of images, and keep them as 1 x 1. */
  onlyGlobalPools?: boolean;
  /** For which configs the row is; default static and qat. */
  modes?: readonly ("static" | "dynamic" | "qat")[];
  /** A condition in words. */
  note?: string;
}

/** A recipe with the rows of a backend's own quantizer. */
export interface PatternRecipe extends RecipeFields {
  /** The quantizer's name. */
  quantizer: "PatternQuantizer";
  /** What reports call it. */
  name?: string;
  /** The rows, each tried on the whole graph before the next. */
  patterns: readonly PatternRow[];
  /** What is done with the graph first: "split_silu" makes a sigmoid and a product of SiLU where the settings reach. */
  transform?: "split_silu";
  /** The config of all that nothing else names. */
  global?: Symmetric;
  /** The configs of modules by their paths. */
  moduleName?: readonly Setting<Symmetric>[];
  /** The sections in the order in which they are set. */
  order?: readonly ("global" | "module_name")[];
}

/** A recipe that says of every node what is done with it. */
export interface AnnotationRecipe extends RecipeFields {
  /** The quantizer's name. */
  quantizer: "AnnotationQuantizer";
  /** The annotations. */
  annotations?: readonly QuantizationAnnotation[];
  /** What is done with the graph first. */
  transform?: "convert_scalars_to_attrs";
}

/** A recipe of several, which are asked in order. */
export interface ComposableRecipe extends RecipeFields {
  /** The quantizer's name. */
  quantizer: "ComposableQuantizer";
  /** The recipes; the first that annotates a node has it. */
  quantizers: readonly Recipe[];
}

type SnakeCase<Key extends string> = Key extends `${infer First}${infer Rest}`
  ? First extends Lowercase<First>
    ? `${First}${SnakeCase<Rest>}`
    : `_${Lowercase<First>}${SnakeCase<Rest>}`
  : Key;

/** The same data with its names in snake_case, as files have them. */
export type InSnakeCase<T> = T extends (...args: never[]) => unknown
  ? T
  : T extends readonly unknown[]
    ? { [Index in keyof T]: InSnakeCase<T[Index]> }
    : T extends object
      ? { [Key in keyof T as SnakeCase<Key & string>]: InSnakeCase<T[Key]> }
      : T;

type AnyRecipe = XNNPACKRecipe | X86InductorRecipe | EmbeddingRecipe | FxRecipe | PatternRecipe | AnnotationRecipe;

/**
 * What to quantize and how, as the command line's --recipe and C++ read it too: {"quantizer": "XNNPACKQuantizer",
 * "global": {"is_per_channel": true}}. Names may be in camelCase or, as in files, in snake_case.
 */
export type Recipe = AnyRecipe | InSnakeCase<AnyRecipe> | ComposableRecipe | InSnakeCase<ComposableRecipe>;
