// Quantizers: those of PyTorch as classes that write a recipe, and the interfaces for ones written in JavaScript.
import type { DType, Tensor } from "./tensor.js";
import type { NodeSnapshot } from "./graph.js";
import type { AnnotatedGraph, PatternCapability } from "./backend.js";
import { QdqError } from "./error.js";
import { snakeCase } from "./names.js";

// The JSON that the command line and C++ read too: {"quantizer": "XNNPACKQuantizer", "global": {...}}.
export interface Recipe {
  readonly quantizer: string;
  readonly [field: string]: unknown;
}

export type QScheme =
  | "per_tensor_affine"
  | "per_tensor_symmetric"
  | "per_channel_affine"
  | "per_channel_symmetric"
  | "per_channel_affine_float_qparams";

// A use of a tensor (producer, consumer) or a node's output, by the names of nodes.
export type EdgeOrNode = { edge: readonly [string, string] } | { node: string };

// The settings an observer is made with.
export interface ObserverSettings {
  dtype: DType;
  qscheme: QScheme;
  quantMin: number;
  quantMax: number;
  chAxis: number;
  eps: number;
}

// An observer written in JavaScript. It sees every batch, then tells the qparams: one scale and zero point per tensor,
// or one per channel of axis chAxis where the qscheme is per channel.
export interface Observer {
  forward(tensor: Tensor): void;
  calculateQparams(): { scale: number | readonly number[]; zeroPoint: number | readonly number[] };
}

// One of PyTorch's observers by its name, or a function that makes one written in JavaScript.
export type ObserverCtr =
  | { class: string; args?: Record<string, unknown> }
  | ((settings: ObserverSettings) => Observer);

export interface QuantizationSpec {
  spec: "quantization";
  dtype: DType;
  observer: ObserverCtr;
  quantMin?: number | null;
  quantMax?: number | null;
  qscheme?: QScheme | null;
  chAxis?: number | null;
  isDynamic?: boolean;
}
export interface SharedQuantizationSpec {
  spec: "shared";
  with: EdgeOrNode;
}
export interface FixedQParamsQuantizationSpec {
  spec: "fixed_qparams";
  dtype: DType;
  scale: number;
  zeroPoint: number;
  quantMin?: number | null;
  quantMax?: number | null;
  qscheme?: QScheme | null;
}
export interface DerivedQuantizationSpec {
  spec: "derived";
  from: readonly EdgeOrNode[];
  rule: "product_of_scales" | "copy_first" | "largest_scale";
  dtype: DType;
  quantMin?: number | null;
  quantMax?: number | null;
  qscheme?: QScheme | null;
  chAxis?: number | null;
}
export type QSpec = QuantizationSpec | SharedQuantizationSpec | FixedQParamsQuantizationSpec | DerivedQuantizationSpec;

// What is to be done with a node's inputs and output; null: it stays float.
export interface QuantizationAnnotation {
  node: string;
  inputs?: readonly (readonly [producer: string, qspec: QSpec | null])[];
  output?: QSpec | null;
  allowImplicitSharing?: boolean;
  annotated?: boolean;
  reason?: string; // why, for explain()
}

// A quantizer written in JavaScript: it gets a picture of the graph, which can be asked for patterns and source
// partitions, and answers with annotations, which C++ checks.
export interface Quantizer {
  readonly name?: string;
  annotate(graph: AnnotatedGraph): readonly QuantizationAnnotation[];
  // Called when all quantizers have annotated; what it throws comes through.
  validate?(graph: AnnotatedGraph): void;
  // The patterns that it can quantize under some setting.
  quantizationCapabilities?(): readonly (Pick<PatternCapability, "pattern" | "operators"> &
    Partial<PatternCapability>)[];
}

// Whether a node may be quantized.
export type FilterFunction = (node: NodeSnapshot) => boolean;

// The attributes of one observer, and so of all that share it, set before it sees data: { quantMax: 127 }.
export type ObserverOverride = EdgeOrNode & { attributes: Readonly<Record<string, boolean | number | string>> };

// Specs in the place of options: what is left out stays float.
export interface QuantizationConfig {
  readonly kind: "specs";
  inputActivation?: QuantizationSpec | null;
  outputActivation?: QuantizationSpec | null;
  weight?: QuantizationSpec | null;
  bias?: QuantizationSpec | null;
  isQat?: boolean;
}

// Arguments of PyTorch's get_symmetric_quantization_config, with its defaults.
export interface SymmetricQuantizationOptions {
  isPerChannel?: boolean;
  isQat?: boolean;
  isDynamic?: boolean;
  actQmin?: number;
  actQmax?: number;
  weightQmin?: number;
  weightQmax?: number;
  // Weights in -64..63, for runtimes whose int8 products saturate without VNNI; PyTorch's function does not have it.
  reduceRange?: boolean;
}
// Arguments of PyTorch's get_default_x86_inductor_quantization_config, with its defaults.
export interface X86InductorQuantizationOptions {
  isQat?: boolean;
  isDynamic?: boolean;
  reduceRange?: boolean;
}
export type SymmetricQuantizationConfig = SymmetricQuantizationOptions & { readonly kind: "symmetric" };
export type X86InductorQuantizationConfig = X86InductorQuantizationOptions & { readonly kind: "x86_inductor" };

export const getSymmetricQuantizationConfig = (
  options: SymmetricQuantizationOptions = {},
): SymmetricQuantizationConfig => ({ kind: "symmetric", ...options });
export const getDefaultX86InductorQuantizationConfig = (
  options: X86InductorQuantizationOptions = {},
): X86InductorQuantizationConfig => ({ kind: "x86_inductor", ...options });

type Compat = "torch-2.6" | "qdq";

// A quantizer whose policy stands in C++; its methods only collect a recipe.
abstract class RecipeQuantizer {
  #compat: Compat | undefined;
  #overrides: readonly ObserverOverride[] = [];
  #filter: FilterFunction | undefined;

  abstract readonly name: string;
  // The recipe's fields that are this quantizer's own.
  protected abstract fields(): Record<string, unknown>;

  // Nothing that the function refuses is quantized, whatever the settings say; a pattern is taken if all its operators
  // pass.
  setFilterFunction(filter: FilterFunction): this {
    this.#filter = filter;
    return this;
  }
  get filterFunction(): FilterFunction | undefined {
    return this.#filter;
  }
  setObserverOverrides(overrides: readonly ObserverOverride[]): this {
    this.#overrides = [...overrides];
    return this;
  }
  // "torch-2.6": exactly the graph that PyTorch makes, with the layers that its matching misses.
  setCompat(compat: Compat): this {
    this.#compat = compat;
    return this;
  }

  toRecipe(): Recipe {
    return {
      quantizer: this.name,
      ...this.fields(),
      ...(this.#overrides.length > 0 && { observerOverrides: this.#overrides }),
      ...(this.#compat && { compat: this.#compat }),
    };
  }
}

// One whose settings are configs of layers. Config null: such layers stay float.
abstract class ConfigQuantizer<Config extends { kind: string }> extends RecipeQuantizer {
  readonly #sections: Record<string, unknown> = {};
  readonly #order: string[] = [];

  protected set(section: string, value: Config | QuantizationConfig | null): this {
    this.#sections[section] = this.#settings(value);
    return this.#note(section);
  }
  protected add(section: string, key: string, value: Config | QuantizationConfig | null): this {
    const entries = (this.#sections[section] ??= []) as [string, unknown][];
    entries.push([key, this.#settings(value)]);
    return this.#note(section);
  }

  setGlobal(config: Config | QuantizationConfig | null): this {
    return this.set("global", config);
  }
  setModuleName(path: string, config: Config | QuantizationConfig | null): this {
    return this.add("module_name", path, config);
  }
  setModuleType(type: string, config: Config | QuantizationConfig | null): this {
    return this.add("module_type", type, config);
  }
  protected override fields(): Record<string, unknown> {
    return { ...this.#sections, ...(this.#order.length > 1 && { order: this.#order }) };
  }

  #settings(config: Config | QuantizationConfig | null): unknown {
    if (config === null) return null;
    if (typeof config !== "object") {
      throw new QdqError(
        "InvalidArgument",
        `a setting of ${this.name} is ${config}, wanted a quantization config, or null for float`,
      );
    }
    const { kind: _, ...settings } = config;
    return settings;
  }
  #note(section: string): this {
    if (!this.#order.includes(section)) this.#order.push(section);
    return this;
  }
}

// PyTorch's XNNPACKQuantizer (torch/ao/quantization/quantizer/xnnpack_quantizer.py).
export class XNNPACKQuantizer extends ConfigQuantizer<SymmetricQuantizationConfig> {
  override readonly name = "XNNPACKQuantizer";
  // "torch.ops.aten.linear"
  setOperatorType(type: string, config: SymmetricQuantizationConfig | QuantizationConfig | null): this {
    return this.add("operator_type", type, config);
  }
}

// PyTorch's X86InductorQuantizer (torch/ao/quantization/quantizer/x86_inductor_quantizer.py).
export class X86InductorQuantizer extends ConfigQuantizer<X86InductorQuantizationConfig> {
  override readonly name = "X86InductorQuantizer";
  // "torch.nn.functional.linear"
  setFunctionType(type: string, config: X86InductorQuantizationConfig | QuantizationConfig | null): this {
    return this.add("function_type", type, config);
  }
  // PyTorch's names of this quantizer's setters.
  setFunctionTypeQconfig(type: string, config: X86InductorQuantizationConfig | QuantizationConfig | null): this {
    return this.setFunctionType(type, config);
  }
  setModuleTypeQconfig(type: string, config: X86InductorQuantizationConfig | QuantizationConfig | null): this {
    return this.setModuleType(type, config);
  }
  setModuleNameQconfig(path: string, config: X86InductorQuantizationConfig | QuantizationConfig | null): this {
    return this.setModuleName(path, config);
  }
}

// An observer class with arguments, or null for none.
export type ObserverWithArgs = { class: string; args?: Record<string, unknown> } | null;
// PyTorch's QConfig: one of those that have a name, or the observers of activations and weight.
export type QConfig = { named: string } | { activation: ObserverWithArgs; weight: ObserverWithArgs };
export type QuantizationBackend = "x86" | "fbgemm" | "qnnpack" | "onednn" | "executorch";

// Of torch/ao/quantization/backend_config/backend_config.py: a dtype ("quint8", "qint8", "float16", "float", ...), and
// what an observer must promise of the numbers. A QConfig that does not is ignored, with a warning.
export interface DTypeWithConstraints {
  dtype: string;
  quantMinLowerBound?: number;
  quantMaxUpperBound?: number;
  scaleMinLowerBound?: number;
  scaleMaxUpperBound?: number;
  scaleExactMatch?: number;
  zeroPointExactMatch?: number;
}
export interface DTypeConfig {
  inputDtype?: string | DTypeWithConstraints;
  outputDtype?: string | DTypeWithConstraints;
  weightDtype?: string | DTypeWithConstraints;
  biasDtype?: string;
  isDynamic?: boolean;
}
export type ObservationType =
  | "OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT"
  | "OUTPUT_SHARE_OBSERVER_WITH_INPUT"
  | "INPUT_OUTPUT_NOT_OBSERVED";
// The last operator, and what its inputs come from:
// ["torch.nn.ReLU", ["operator.add", "torch.nn.Conv2d", "MatchAllNode"]].
export type ComplexPattern = string | readonly ComplexPattern[];
export type BackendPatternConfig = {
  observationType?: ObservationType;
  dtypeConfigs: readonly DTypeConfig[];
  // The class whose weight becomes integers.
  rootModule?: string;
  // The class that the modules of the pattern become before all else.
  fusedModule?: string;
  // The observation type by how many tensors the operator reads: { 1: "OUTPUT_SHARE_OBSERVER_WITH_INPUT" }.
  numTensorArgsToObservationType?: Readonly<Record<number, ObservationType>>;
} & (
  | { pattern: string | readonly [string] | readonly [string, string] | readonly [string, string, string] }
  | { patternComplexFormat: ComplexPattern }
);
export type BackendConfigName = "native" | "fbgemm" | "x86" | "qnnpack" | "onednn" | "executorch" | "tensorrt";

// What a backend can quantize.
export class BackendConfig {
  readonly name: string;
  readonly #base: BackendConfigName | undefined;
  readonly #configs: BackendPatternConfig[] = [];

  // `base`: begins with the patterns of one of PyTorch's.
  constructor(name: string, { base }: { base?: BackendConfigName } = {}) {
    this.name = name;
    this.#base = base;
  }
  // Takes the place of a config with the same pattern.
  setBackendPatternConfig(config: BackendPatternConfig): this {
    this.#configs.push(config);
    return this;
  }
  setBackendPatternConfigs(configs: readonly BackendPatternConfig[]): this {
    this.#configs.push(...configs);
    return this;
  }
  toRecipe(): Record<string, unknown> {
    return { name: this.name, ...(this.#base && { base: this.#base }), configs: this.#configs };
  }
}

// A module that is quantized on its own, as one unit, with the names inside of it.
export interface StandaloneModule {
  module: string; // its path, or its class: "net.Block", or "Block" wherever it lies
  qconfigMapping?: QConfigMapping | null; // without: the QConfig that the whole has for it
  prepareCustomConfig?: PrepareCustomConfig | null;
  backendConfig?: BackendConfigName | BackendConfig | null;
}
// Of torch/ao/quantization/fx/custom_config.py.
export interface PrepareCustomConfig {
  standaloneModuleName?: readonly StandaloneModule[];
  standaloneModuleClass?: readonly StandaloneModule[];
  // Left alone: nothing in them is quantized.
  nonTraceableModuleName?: readonly string[];
  nonTraceableModuleClass?: readonly string[];
  // Inputs that come, and outputs that go, as uint8.
  inputQuantizedIdxs?: readonly number[];
  outputQuantizedIdxs?: readonly number[];
}

const backendRecipe = (backend: BackendConfigName | BackendConfig | null | undefined): unknown =>
  backend instanceof BackendConfig ? backend.toRecipe() : backend;

function customRecipe(custom: PrepareCustomConfig): Record<string, unknown> {
  const standalone = (entries: readonly StandaloneModule[] = []) =>
    entries.map(({ module, qconfigMapping, prepareCustomConfig, backendConfig }) => ({
      module,
      qconfigMapping: qconfigMapping?.toRecipe().qconfigMapping,
      prepareCustomConfig: prepareCustomConfig && customRecipe(prepareCustomConfig),
      backendConfig: backendRecipe(backendConfig),
    }));
  return {
    ...custom,
    standaloneModuleName: standalone(custom.standaloneModuleName),
    standaloneModuleClass: standalone(custom.standaloneModuleClass),
  };
}

// FX graph mode's QConfigMapping (torch/ao/quantization/qconfig_mapping.py) with its policy: observers where prepare_fx
// puts them, for the native backend or the one of setBackendConfig. In increasing priority: global, object type,
// regular expression, module name, order. QConfig null: such layers stay float.
export class QConfigMapping extends RecipeQuantizer {
  override readonly name = "QConfigMapping";
  readonly #sections: Record<string, unknown>;
  readonly #isQat: boolean;
  #backend: BackendConfigName | BackendConfig | undefined;
  #custom: PrepareCustomConfig | undefined;

  // `backend`: begins with PyTorch's default mapping for it.
  constructor({ backend, isQat = false }: { backend?: QuantizationBackend; isQat?: boolean } = {}) {
    super();
    this.#sections = backend === undefined ? {} : { default: backend };
    this.#isQat = isQat;
  }

  // What the backend can run: one of PyTorch's by its name, or one of your own. Without, "native"; "executorch" for the
  // default mapping of that name.
  setBackendConfig(backend: BackendConfigName | BackendConfig): this {
    this.#backend = backend;
    return this;
  }
  setPrepareCustomConfig(custom: PrepareCustomConfig): this {
    this.#custom = custom;
    return this;
  }
  setGlobal(qconfig: QConfig | null): this {
    this.#sections.global = qconfig;
    return this;
  }
  // "torch.nn.Linear", "torch.nn.functional.linear", "operator.add", or a method's name: "reshape"
  setObjectType(type: string, qconfig: QConfig | null): this {
    return this.#add("object_type", type, qconfig);
  }
  // Matched at the start of the module's name; the first that matches counts.
  setModuleNameRegex(regex: string, qconfig: QConfig | null): this {
    return this.#add("module_name_regex", regex, qconfig);
  }
  setModuleName(path: string, qconfig: QConfig | null): this {
    return this.#add("module_name", path, qconfig);
  }
  // The call number `index` (from 0) of that type inside of the module ("": the model itself).
  setModuleNameObjectTypeOrder(path: string, type: string, index: number, qconfig: QConfig | null): this {
    return this.#add("module_name_object_type_order", path, type, index, qconfig);
  }

  protected override fields(): Record<string, unknown> {
    const backend = backendRecipe(this.#backend);
    return {
      qconfigMapping: this.#sections,
      ...(this.#isQat && { isQat: true }),
      ...(backend !== undefined && { backendConfig: backend }),
      ...(this.#custom && { prepareCustomConfig: customRecipe(this.#custom) }),
    };
  }
  #add(section: string, ...entry: readonly unknown[]): this {
    ((this.#sections[section] ??= []) as unknown[]).push(entry);
    return this;
  }
}

export const getDefaultQConfigMapping = (backend: QuantizationBackend = "x86"): QConfigMapping =>
  new QConfigMapping({ backend });
export const getDefaultQatQConfigMapping = (backend: QuantizationBackend = "x86"): QConfigMapping =>
  new QConfigMapping({ backend, isQat: true });

export type AnyQuantizer =
  | Quantizer
  | XNNPACKQuantizer
  | X86InductorQuantizer
  | QConfigMapping
  | EmbeddingQuantizer
  | ComposableQuantizer
  | Recipe;

// Stores the weights of embeddings as uint8, each row with its own float scale and zero point; needs no data
// (torch/ao/quantization/quantizer/embedding_quantizer.py).
export class EmbeddingQuantizer extends RecipeQuantizer {
  override readonly name = "EmbeddingQuantizer";
  protected override fields(): Record<string, unknown> {
    return {};
  }
}

// Asks several quantizers in order (torch/ao/quantization/quantizer/composable_quantizer.py).
export class ComposableQuantizer {
  readonly name = "ComposableQuantizer";
  readonly quantizers: readonly AnyQuantizer[];
  constructor(quantizers: readonly AnyQuantizer[]) {
    if (!Array.isArray(quantizers))
      throw new QdqError("InvalidArgument", "a ComposableQuantizer is made of a list of quantizers");
    this.quantizers = [...quantizers];
  }
}

const isObject = (value: unknown): boolean => typeof value === "object" && value !== null;

// Whether a quantizer is written in JavaScript.
export const isCustom = (quantizer: AnyQuantizer): quantizer is Quantizer =>
  isObject(quantizer) && "annotate" in quantizer && typeof quantizer.annotate === "function";

// What it is called in reports.
export const nameOf = ({ name }: Quantizer): string => name ?? "a JavaScript quantizer";

// A recipe as JSON text for C++. Quantizers and observers written in JavaScript leave their number in the text and
// stand in the lists.
export class RecipeWriter {
  readonly quantizers: Quantizer[] = [];
  readonly observers: ((settings: ObserverSettings) => Observer)[] = [];
  readonly filters: FilterFunction[] = [];

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
    if (isCustom(quantizer))
      return { quantizer: "JavaScript", name: nameOf(quantizer), number: this.quantizers.push(quantizer) - 1 };
    if (isObject(quantizer) && "quantizer" in quantizer) return this.plain(quantizer);
    throw new QdqError(
      "InvalidArgument",
      "the quantizer is neither one of this package's classes, nor an object with annotate(graph), " +
        "nor a recipe {quantizer: ...}",
    );
  }

  // The same data with its keys in snake_case, as recipes write them.
  plain(value: unknown): unknown {
    if (typeof value === "function") return { custom: this.observers.push(value as () => Observer) - 1 };
    if (Array.isArray(value)) return value.map((element) => this.plain(element));
    if (value !== null && typeof value === "object") {
      return Object.fromEntries(
        Object.entries(value)
          .filter(([, field]) => field !== undefined)
          .map(([key, field]) => [snakeCase(key), this.plain(field)]),
      );
    }
    return value;
  }
}
