// Profiles of runtimes: how to quantize for each, and what it would run in integers.
import { saveOnnx } from "./file.js";
import type { OnnxOptions } from "./file.js";
import { handleOf, loadModule, module, unwrap } from "./module.js";
import { fromJson } from "./names.js";
import { checkNames, checkOptions } from "./options.js";
import type { Program } from "./program.js";
import { convertPt2e, preparePt2e } from "./pt2e.js";
import type { Recipe } from "./recipe.js";
import type { Tensor } from "./tensor.js";
import { rawInputs } from "./tensor.js";

/** The runtimes that have a profile. "x86": ONNX Runtime on processors without VNNI, too. */
export type RuntimeName = "ort" | "ort-web" | "transformers.js" | "webnn" | "openvino" | "qnn" | "executorch" | "x86";

/** How to quantize for a runtime: its recipe, and how its file is written. */
export interface RuntimeProfile {
  /** The name of the profile. */
  name: RuntimeName;
  /** The runtime in words. */
  runtime: string;
  /** The kind of file that it reads. */
  file: ".onnx" | ".pt2";
  /** For preparePt2e(), or a file of --recipe. */
  recipe: Recipe;
  /** For saveOnnx(). */
  onnx: OnnxOptions;
  /** A note for its user, or "". */
  note: string;
}

/** How a runtime computes an operator. */
export interface RuntimeVerdict {
  /** The name of the node. */
  node: string;
  /** The number of convolutions and matrix products in it; attention has two. */
  products: number;
  /** The path of the module that it came from, "" for the root. */
  module: string;
  /** The operator: "aten.conv2d.default". */
  op: string;
  /** How it computes. */
  runs: "integers" | "float";
  /** The runtime's name for it in integers: "QLinearConv". */
  kernel?: string;
  /** Why it stays float. */
  reason?: string;
}

/** The operators of a program that a runtime would compute in integers. */
export interface RuntimeReport {
  /** The name of the profile. */
  profile: RuntimeName;
  /** The runtime in words. */
  runtime: string;
  /** The number of convolutions and matrix products in integers, and in all. */
  products: { inIntegers: number; total: number };
  /** All of them, and the other operators beside quantized values, in the order of the graph. */
  operators: readonly RuntimeVerdict[];
}

/** What else is asked of a profile. */
export interface RuntimeSettings {
  /** Whether ranges of activations are found while the model runs; default false. */
  isDynamic?: boolean;
  /** Bits of the integers of activations; 16 where the runtime computes with them: "qnn". Default 8. */
  activationBits?: 8 | 16;
  /** Bits of the integers of weights; 7 where products of 8 bits can saturate: "ort" and "openvino". Default 8. */
  weightBits?: 7 | 8;
}

/**
 * The profile of a runtime. Throws QdqError{InvalidArgument} for a name that there is not, and where the runtime does
 * not compute as the settings ask.
 */
export async function runtimeProfile(name: RuntimeName, settings: RuntimeSettings = {}): Promise<RuntimeProfile> {
  checkOptions("runtimeProfile", settings, ["isDynamic", "activationBits", "weightBits"]);
  const { isDynamic = false, activationBits = 8, weightBits = 8 } = settings;
  return fromJson(unwrap((await loadModule()).runtimeProfile(name, isDynamic, activationBits, weightBits)));
}

/**
 * What the runtime would run in integers of a quantized program, what it would not, and why. What qdq quantized is
 * judged as it is saved for the profile, what was read from an ONNX file as it stands there.
 */
export function runtimeReport(program: Program, name: RuntimeName): RuntimeReport {
  return fromJson(unwrap(module().runtimeReport(handleOf(program), name)));
}

/** The dtypes of transformers.js that have a file of their own. */
export type TransformersJsDtype = "fp32" | "fp16" | "q8" | "int8" | "uint8" | "q4" | "q4f16" | "bnb4";

/** The files of transformers.js to make, and their names. */
export interface TransformersJsOptions {
  /** Default: all. */
  dtypes?: readonly TransformersJsDtype[];
  /** What their names begin with: "model" by default, or what `model_file_name` of transformers.js says. */
  modelFileName?: string;
  /** Samples for the rounding of 4-bit weights: see gptq(). */
  batches?: readonly (readonly Tensor[])[];
}

/** A file in the folder of a model for transformers.js. */
export interface TransformersJsFile {
  /** The value of transformers.js' `dtype` for this file. */
  dtype: TransformersJsDtype;
  /** Its place in the folder: "onnx/model_q4f16.onnx". */
  path: string;
  /** The file. */
  bytes: Uint8Array;
}

/**
 * The files that transformers.js finds by its `dtype`, one after the other, made from a float program. Throws
 * QdqError{InvalidArgument} for a dtype that there is not, QdqError{Unsupported} for what ONNX cannot say.
 */
export function* transformersJsFiles(
  program: Program,
  options: TransformersJsOptions = {},
): Generator<TransformersJsFile, void> {
  checkOptions("transformersJsFiles", options, ["dtypes", "modelFileName", "batches"]);
  const { dtypes = [], modelFileName = "model", batches } = options;
  checkNames(dtypes, "dtypes");
  const files = fromJson<{ dtype: TransformersJsDtype; path: string; recipe: Recipe | null; onnx: OnnxOptions }[]>(
    unwrap(module().transformersJsFiles(handleOf(program), [...dtypes], modelFileName)),
  );
  for (const { dtype, path, recipe, onnx } of files) {
    if (recipe === null) {
      yield { dtype, path, bytes: saveOnnx(program, onnx) };
      continue;
    }
    using prepared = preparePt2e(program, recipe);
    if (batches) unwrap(module().gptq(handleOf(prepared), batches.map(rawInputs), () => {}));
    using quantized = convertPt2e(prepared);
    yield { dtype, path, bytes: saveOnnx(quantized, onnx) };
  }
}
