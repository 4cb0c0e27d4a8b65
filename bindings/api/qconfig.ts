// What FX graph mode asks for: QConfigs, and what backends can do.
import { checkOptions } from "./options.js";
import type { Observer, ObserverSettings } from "./qspec.js";

/**
 * An observer class with arguments, or null for none. A function makes an observer written in JavaScript; it is given
 * the settings that the arguments say, whose defaults are those of MinMaxObserver.
 */
export type ObserverWithArgs =
  | { class: string | ((settings: ObserverSettings) => Observer); args?: Record<string, unknown> }
  | ((settings: ObserverSettings) => Observer)
  | null;
/** PyTorch's QConfig: one of those that have a name, or the observers of activations and weight. */
export type QConfig = { named: string } | { activation: ObserverWithArgs; weight: ObserverWithArgs };
/** The backends that PyTorch has a default QConfigMapping for. */
export type QuantizationBackend = "x86" | "fbgemm" | "qnnpack" | "onednn" | "executorch";

/**
 * Of torch/ao/quantization/backend_config/backend_config.py: a dtype ("quint8", "qint8", "float16", "float", ...), and
 * what an observer must promise of the numbers. A QConfig that does not is ignored, with a warning.
 */
export interface DTypeWithConstraints {
  /** The dtype in PyTorch's words. */
  dtype: string;
  /** The least integer must not be less. */
  quantMinLowerBound?: number;
  /** The largest integer must not be larger. */
  quantMaxUpperBound?: number;
  /** The least scale must not be less. */
  scaleMinLowerBound?: number;
  /** The largest scale must not be larger. */
  scaleMaxUpperBound?: number;
  /** The scale must be this one. */
  scaleExactMatch?: number;
  /** The zero point must be this one. */
  zeroPointExactMatch?: number;
}
/** The dtypes that a pattern of a backend can have; what is left out is of no concern. */
export interface DTypeConfig {
  /** Of the activations that it reads. */
  inputDtype?: string | DTypeWithConstraints;
  /** Of what it gives. */
  outputDtype?: string | DTypeWithConstraints;
  /** Of its weight. */
  weightDtype?: string | DTypeWithConstraints;
  /** Of its bias. */
  biasDtype?: string;
  /** Whether activations are quantized while the model runs, without calibration; default false. */
  isDynamic?: boolean;
}
/** How the output of a pattern is observed, in PyTorch's words. */
export type ObservationType =
  | "OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT"
  | "OUTPUT_SHARE_OBSERVER_WITH_INPUT"
  | "INPUT_OUTPUT_NOT_OBSERVED";
/**
 * The last operator, and what its inputs come from: ["torch.nn.ReLU", ["operator.add", "torch.nn.Conv2d",
 * "MatchAllNode"]].
 */
export type ComplexPattern = string | readonly ComplexPattern[];
/** What a backend can do with one pattern (torch.ao's BackendPatternConfig). */
export type BackendPatternConfig = {
  /** How its output is observed. */
  observationType?: ObservationType;
  /** The dtypes that it can have; the first that fits is taken. */
  dtypeConfigs: readonly DTypeConfig[];
  /** The class whose weight becomes integers. */
  rootModule?: string;
  /** The class that the modules of the pattern become before all else. */
  fusedModule?: string;
  /** The observation type by how many tensors the operator reads: { 1: "OUTPUT_SHARE_OBSERVER_WITH_INPUT" }. */
  numTensorArgsToObservationType?: Readonly<Record<number, ObservationType>>;
} & (
  | { pattern: string | readonly [string] | readonly [string, string] | readonly [string, string, string] }
  | { patternComplexFormat: ComplexPattern }
);
/** The backend configs that PyTorch has. */
export type BackendConfigName = "native" | "fbgemm" | "x86" | "qnnpack" | "onednn" | "executorch" | "tensorrt";

/** What a backend can quantize. */
export class BackendConfig {
  /** The backend's name. */
  readonly name: string;
  readonly #base: BackendConfigName | undefined;
  readonly #configs: BackendPatternConfig[] = [];

  /** `base`: begins with the patterns of one of PyTorch's. */
  constructor(name: string, options: { base?: BackendConfigName } = {}) {
    checkOptions("BackendConfig", options, ["base"]);
    this.name = name;
    this.#base = options.base;
  }
  /** Takes the place of a config with the same pattern. */
  setBackendPatternConfig(config: BackendPatternConfig): this {
    this.#configs.push(config);
    return this;
  }
  /** The same with several. */
  setBackendPatternConfigs(configs: readonly BackendPatternConfig[]): this {
    this.#configs.push(...configs);
    return this;
  }
  /** The same as the field `backend_config` of a recipe. */
  toRecipe(): Record<string, unknown> {
    return { name: this.name, ...(this.#base && { base: this.#base }), configs: this.#configs };
  }
}
