// Programs from files and into files.
import { QdqError } from "./error.js";
import { handleOf, module, unwrap, whole } from "./module.js";
import { toJson } from "./names.js";
import { checkOptions } from "./options.js";
import { Program } from "./program.js";
import type { ModelSource } from "./source.js";
import { withSources } from "./source.js";

/**
 * Reads a program that torch.export.save wrote, or an ONNX model: the bytes tell which. The first call loads the WASM
 * module. Throws QdqError{BadFile} for a file that is broken, QdqError{Unsupported} for one with operators that qdq
 * does not have, and QdqError{InvalidArgument} for an argument that is no source of bytes.
 */
export async function loadPt2(file: ModelSource): Promise<Program> {
  return load(file, "loadPt2");
}

/**
 * The same under the name that fits an ONNX file, of any opset. `files` holds what the model keeps beside itself, by
 * the names that it gives: { "model.onnx.data": bytes }. `fix` makes inputs and open sizes constants, by the names that
 * the file gives them, and an array is the shape of an input: { sr: 16000, batch: 1, x: [1, 512] }. The program does
 * not have an input whose value is fixed, and what hangs on it is computed at once. Throws QdqError{InvalidArgument}
 * for a name that the model does not have, and a value or a shape that it cannot have.
 */
export async function loadOnnx(
  file: ModelSource,
  files?: Record<string, ModelSource>,
  options: { fix?: Record<string, number | boolean | number[]> } = {},
): Promise<Program> {
  checkOptions("loadOnnx", options, ["fix"]);
  const { fix = {} } = options;
  for (const [name, value] of Object.entries(fix))
    if (!["number", "boolean"].includes(typeof value) && !(Array.isArray(value) && value.every(Number.isSafeInteger)))
      throw new QdqError("InvalidArgument", `fix.${name} is neither a number nor an array of sizes`);
  return load(
    file,
    "loadOnnx",
    files,
    Object.fromEntries(
      Object.entries(fix).map(([name, value]) => [name, Array.isArray(value) ? value : Number(value)]),
    ),
  );
}

async function load(
  file: ModelSource,
  name: string,
  files?: Record<string, ModelSource>,
  fixed: Record<string, number | number[]> = {},
): Promise<Program> {
  const names = Object.keys(files ?? {});
  return withSources(whole, [file, ...names.map((each) => files![each])], name, ([model, ...others]) => {
    const beside = files && Object.fromEntries(names.map((each, i) => [each, others[i]!]));
    return new Program(unwrap(module().loadProgram(model!, beside, fixed)), whole);
  });
}

/** The bytes of a file that torch.export.load reads. */
export function savePt2(program: Program): Uint8Array {
  return unwrap(module().savePt2(handleOf(program)));
}

/** How an ONNX model is written. */
export interface OnnxOptions {
  /** 17 to 21; default: the first one from 17 on that has all operators of the program. */
  opset?: number;
  /** Write int8 activations as int8; default: as uint8 with the same values. */
  signedActivations?: boolean;
  /** Write int8 weights of integer products as uint8 with the same values. */
  unsignedWeights?: boolean;
  /**
   * Give each operator that reads a quantized activation its own QuantizeLinear and DequantizeLinear, as the
   * DedicatedQDQPair of ONNX Runtime's tools. A program without such pairs is refused.
   */
  dedicatedPairs?: boolean;
  /**
   * How ONNX Runtime multiplies weights of 4 bits in groups (MatMulNBits): 4 in int8, which is faster on CPUs, 1 in
   * float, 0 as it likes. A program without such weights is refused. Default: the file does not say.
   */
  accuracyLevel?: number;
  /**
   * How quantized operators are written: `qdq`, float operators between DequantizeLinear and QuantizeLinear, or
   * `qoperator`, operators of integers (QLinearConv, QLinearMatMul, QGemm, QLinearAdd, ...) where there are such. A
   * program without any is refused. Default: `qdq`.
   */
  format?: "qdq" | "qoperator";
  /**
   * How weights of linear layers in groups are written: `matmul-nbits`, of 4 or 8 bits (ONNX Runtime 1.22 and later
   * have 8), or `blocks` of DequantizeLinear, which is opset 21. A program without groups is refused. Default: of 4
   * bits as MatMulNBits, of more as DequantizeLinear of an earlier opset.
   */
  groups?: "matmul-nbits" | "blocks";
  /** Write float32 within the model as float16; inputs and outputs do not change. */
  float16?: boolean;
  /** Write float weights of linear layers as NF4 in blocks of 64, com.microsoft.MatMulBnb4. */
  bnb4?: boolean;
}

/**
 * The bytes of an ONNX model: of a quantized program a QDQ model that ONNX Runtime runs. `onWarning` is called if ONNX
 * Runtime's sums can saturate on processors without VNNI. Throws QdqError{Unsupported} that lists what ONNX cannot say.
 */
export function saveOnnx(
  program: Program,
  options: OnnxOptions & { onWarning?: (warning: string) => void } = {},
): Uint8Array {
  const ofIntegers = ["signedActivations", "unsignedWeights", "dedicatedPairs", "accuracyLevel", "format", "groups"];
  checkOptions("saveOnnx", options, ["opset", ...ofIntegers, "float16", "bnb4", "onWarning"]);
  const { onWarning, ...onnx } = options;
  const warning = onWarning ? unwrap(module().onnxWarning(handleOf(program))) : "";
  if (warning) onWarning?.(warning);
  return unwrap(module().saveOnnx(handleOf(program), toJson(onnx, "what saveOnnx was given")));
}
