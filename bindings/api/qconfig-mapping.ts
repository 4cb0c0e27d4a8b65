// FX graph mode's QConfigMapping.
import { handleOf, module, unwrap, whole } from "./module.js";
import { toJson } from "./names.js";
import { QdqError } from "./error.js";
import { checkOptions, shown } from "./options.js";
import { Program } from "./program.js";
import { BackendConfig } from "./qconfig.js";
import type { BackendConfigName, QConfig, QuantizationBackend } from "./qconfig.js";
import { RecipeQuantizer } from "./recipe-quantizer.js";
import type { FxRecipe } from "./recipe.js";

/** A module that is quantized on its own, as one unit, with the names inside of it. */
export interface StandaloneModule {
  /** Its path, or its class: "net.Block", or "Block" wherever it lies. */
  module: string;
  /** Without: the QConfig that the whole has for it. */
  qconfigMapping?: QConfigMapping | null;
  /** The same settings for what is in it. */
  prepareCustomConfig?: PrepareCustomConfig | null;
  /** The backend that it runs on. */
  backendConfig?: BackendConfigName | BackendConfig | null;
}
/** Of torch/ao/quantization/fx/custom_config.py. */
export interface PrepareCustomConfig {
  /** Modules that are quantized on their own, by their paths. */
  standaloneModuleName?: readonly StandaloneModule[];
  /** Modules that are quantized on their own, by their classes. */
  standaloneModuleClass?: readonly StandaloneModule[];
  /** Left alone: nothing in them is quantized. */
  nonTraceableModuleName?: readonly string[];
  /** The same by their classes. */
  nonTraceableModuleClass?: readonly string[];
  /** Inputs that come, and outputs that go, as uint8. */
  inputQuantizedIdxs?: readonly number[];
  /** Outputs that go as uint8, by their numbers. */
  outputQuantizedIdxs?: readonly number[];
}

const backendRecipe = (backend: BackendConfigName | BackendConfig | null | undefined): unknown =>
  backend instanceof BackendConfig ? backend.toRecipe() : backend;

/**
 * A program whose batch norms are folded into the convolutions and linear layers in front of them where the backend
 * fuses these modules (fuse_fx); the program itself is left as it was. Relus stay operators. Throws
 * QdqError{InvalidArgument} for a program exported in training mode.
 */
export function fuseFx(program: Program, backend: BackendConfigName | BackendConfig = "native"): Program {
  return new Program(unwrap(module().fuseFx(handleOf(program), toJson(backendRecipe(backend)))), whole);
}

function customRecipe(custom: PrepareCustomConfig): Record<string, unknown> {
  const standalone = (entries: readonly StandaloneModule[] = []) =>
    entries.map((entry) => {
      checkOptions("a standalone module", entry, ["module", "qconfigMapping", "prepareCustomConfig", "backendConfig"]);
      const { module, qconfigMapping, prepareCustomConfig, backendConfig } = entry;
      return {
        module,
        qconfigMapping: (qconfigMapping?.toRecipe() as FxRecipe | undefined)?.qconfigMapping,
        prepareCustomConfig: prepareCustomConfig && customRecipe(prepareCustomConfig),
        backendConfig: backendRecipe(backendConfig),
      };
    });
  return {
    ...custom,
    standaloneModuleName: standalone(custom.standaloneModuleName),
    standaloneModuleClass: standalone(custom.standaloneModuleClass),
  };
}

/**
 * FX graph mode's QConfigMapping (torch/ao/quantization/qconfig_mapping.py) with its policy: observers where prepare_fx
 * puts them, for the native backend or the one of setBackendConfig. In increasing priority: global, object type,
 * regular expression, module name, order. QConfig null: such layers stay float.
 */
export class QConfigMapping extends RecipeQuantizer {
  /** The name that recipes call it by. */
  override readonly name = "QConfigMapping";
  readonly #sections: Record<string, unknown>;
  readonly #isQat: boolean;
  #backend: BackendConfigName | BackendConfig | undefined;
  #custom: PrepareCustomConfig | undefined;
  #equalization: QConfigMapping | undefined;

  /** `backend`: begins with PyTorch's default mapping for it. */
  constructor(options: { backend?: QuantizationBackend; isQat?: boolean } = {}) {
    super();
    checkOptions("QConfigMapping", options, ["backend", "isQat"]);
    const { backend, isQat = false } = options;
    this.#sections = backend === undefined ? {} : { default: backend };
    this.#isQat = isQat;
  }

  /**
   * What the backend can run: one of PyTorch's by its name, or one of your own. Without, "native"; "executorch" for the
   * default mapping of that name.
   */
  setBackendConfig(backend: BackendConfigName | BackendConfig): this {
    this.#backend = backend;
    return this;
  }
  /** Settings of single modules and of the border. */
  setPrepareCustomConfig(custom: PrepareCustomConfig): this {
    this.#custom = custom;
    return this;
  }
  /**
   * Which convolutions and linear layers have their inputs equalized with their weights when the program is converted
   * (prepare_fx's _equalization_config): those to which the mapping gives `{ named: "default_equalization_qconfig" }`.
   */
  setEqualizationConfig(mapping: QConfigMapping): this {
    if (!(mapping instanceof QConfigMapping))
      throw new QdqError("InvalidArgument", `the equalization config is ${shown(mapping)}, wanted a QConfigMapping`);
    this.#equalization = mapping;
    return this;
  }
  /** The QConfig of all that nothing else names. */
  setGlobal(qconfig: QConfig | null): this {
    this.#sections.global = qconfig;
    return this;
  }
  /** The QConfig of a type: "torch.nn.Linear", "torch.nn.functional.linear", "operator.add", or a method: "reshape". */
  setObjectType(type: string, qconfig: QConfig | null): this {
    return this.#add("object_type", type, qconfig);
  }
  /** Matched at the start of the module's name; the first that matches counts. */
  setModuleNameRegex(regex: string, qconfig: QConfig | null): this {
    return this.#add("module_name_regex", regex, qconfig);
  }
  /** The QConfig of the module with that path, and of all in it. */
  setModuleName(path: string, qconfig: QConfig | null): this {
    return this.#add("module_name", path, qconfig);
  }
  /** The call number `index` (from 0) of that type inside of the module ("": the model itself). */
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
      ...(this.#equalization && { equalizationConfig: this.#equalization.#sections }),
    };
  }
  #add(section: string, ...entry: readonly unknown[]): this {
    ((this.#sections[section] ??= []) as unknown[]).push(entry);
    return this;
  }
}

/** PyTorch's default mapping for a backend (get_default_qconfig_mapping). */
export const getDefaultQConfigMapping = (backend: QuantizationBackend = "x86"): QConfigMapping =>
  new QConfigMapping({ backend });
/** PyTorch's default mapping for training (get_default_qat_qconfig_mapping). */
export const getDefaultQatQConfigMapping = (backend: QuantizationBackend = "x86"): QConfigMapping =>
  new QConfigMapping({ backend, isQat: true });
