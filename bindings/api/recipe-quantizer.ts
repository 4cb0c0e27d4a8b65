// PyTorch's quantizers of the export flow, as classes that write a recipe.
import { QdqError } from "./error.js";
import type {
  FilterFunction,
  ObserverOverride,
  QuantizationConfig,
  SymmetricQuantizationConfig,
  X86InductorQuantizationConfig,
} from "./qspec.js";
import { isFunction, shown } from "./options.js";
import type { Compat, Recipe } from "./recipe.js";

/** A quantizer whose policy stands in C++; its methods only collect a recipe. */
export abstract class RecipeQuantizer {
  #compat: Compat | undefined;
  #overrides: readonly ObserverOverride[] = [];
  #filter: FilterFunction | undefined;

  /** The name that recipes call it by. */
  abstract readonly name: string;
  /** The recipe's fields that are this quantizer's own. */
  protected abstract fields(): Record<string, unknown>;

  /**
   * Nothing that the function refuses is quantized, whatever the settings say; a pattern is taken if all its operators
   * pass.
   */
  setFilterFunction(filter: FilterFunction): this {
    if (!isFunction(filter))
      throw new QdqError("InvalidArgument", `the filter of ${this.name} is ${shown(filter)}, wanted a function`);
    this.#filter = filter;
    return this;
  }
  /** The function of setFilterFunction(). */
  get filterFunction(): FilterFunction | undefined {
    return this.#filter;
  }
  /** Sets attributes of single observers. */
  setObserverOverrides(overrides: readonly ObserverOverride[]): this {
    if (!Array.isArray(overrides))
      throw new QdqError("InvalidArgument", `the overrides of ${this.name} are ${shown(overrides)}, wanted an array`);
    this.#overrides = [...overrides];
    return this;
  }
  /** "torch-2.6": exactly the graph that PyTorch makes, with the layers that its matching misses. */
  setCompat(compat: Compat): this {
    this.#compat = compat;
    return this;
  }

  /** The same as a recipe, which --recipe reads and any function takes in the place of a quantizer. */
  toRecipe(): Recipe {
    const recipe = {
      quantizer: this.name,
      ...this.fields(),
      ...(this.#overrides.length > 0 && { observerOverrides: this.#overrides }),
      ...(this.#compat && { compat: this.#compat }),
    };
    return recipe as Recipe;
  }
}

/** One whose settings are configs of layers. Config null: such layers stay float. */
export abstract class ConfigQuantizer<Config extends { kind: string }> extends RecipeQuantizer {
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

  /** The config of all that nothing else names. */
  setGlobal(config: Config | QuantizationConfig | null): this {
    return this.set("global", config);
  }
  /** The config of the module with that path, and of all in it: "features.0". */
  setModuleName(path: string, config: Config | QuantizationConfig | null): this {
    return this.add("module_name", path, config);
  }
  /** The config of all modules of that class: "torch.nn.Linear". */
  setModuleType(type: string, config: Config | QuantizationConfig | null): this {
    return this.add("module_type", type, config);
  }
  protected override fields(): Record<string, unknown> {
    return { ...this.#sections, ...(this.#order.length > 1 && { order: this.#order }) };
  }

  #settings(config: Config | QuantizationConfig | null): unknown {
    if (config === null) return null;
    if (typeof config !== "object" || Array.isArray(config)) {
      throw new QdqError(
        "InvalidArgument",
        `a setting of ${this.name} is ${shown(config)}, wanted a quantization config, or null for float`,
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

/** PyTorch's XNNPACKQuantizer (torch/ao/quantization/quantizer/xnnpack_quantizer.py). */
export class XNNPACKQuantizer extends ConfigQuantizer<SymmetricQuantizationConfig> {
  /** The name that recipes call it by. */
  override readonly name = "XNNPACKQuantizer";
  /** The config of all calls of an operator: "torch.ops.aten.linear". */
  setOperatorType(type: string, config: SymmetricQuantizationConfig | QuantizationConfig | null): this {
    return this.add("operator_type", type, config);
  }
}

/** PyTorch's X86InductorQuantizer (torch/ao/quantization/quantizer/x86_inductor_quantizer.py). */
export class X86InductorQuantizer extends ConfigQuantizer<X86InductorQuantizationConfig> {
  /** The name that recipes call it by. */
  override readonly name = "X86InductorQuantizer";
  /** The config of all calls of a function: "torch.nn.functional.linear". */
  setFunctionType(type: string, config: X86InductorQuantizationConfig | QuantizationConfig | null): this {
    return this.add("function_type", type, config);
  }
  /** PyTorch's names of this quantizer's setters. */
  setFunctionTypeQconfig(type: string, config: X86InductorQuantizationConfig | QuantizationConfig | null): this {
    return this.setFunctionType(type, config);
  }
  /** PyTorch's name of setModuleType. */
  setModuleTypeQconfig(type: string, config: X86InductorQuantizationConfig | QuantizationConfig | null): this {
    return this.setModuleType(type, config);
  }
  /** PyTorch's name of setModuleName. */
  setModuleNameQconfig(path: string, config: X86InductorQuantizationConfig | QuantizationConfig | null): this {
    return this.setModuleName(path, config);
  }
}

/**
 * Stores the weights of embeddings as uint8, each row with its own float scale and zero point; needs no data
 * (torch/ao/quantization/quantizer/embedding_quantizer.py).
 */
export class EmbeddingQuantizer extends RecipeQuantizer {
  /** The name that recipes call it by. */
  override readonly name = "EmbeddingQuantizer";
  protected override fields(): Record<string, unknown> {
    return {};
  }
}
