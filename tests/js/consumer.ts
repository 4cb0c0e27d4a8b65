// A strict program that uses the packed package; tests/tarball.sh compiles it there. Lines marked as errors must be
// errors.
import {
  QdqError,
  XNNPACKQuantizer,
  convertPt2e,
  getSymmetricQuantizationConfig,
  loadOnnx,
  lower,
  preparePt2e,
  quantizationReport,
  saveOnnx,
  tensor,
} from "qdq";
import type { ProgramInfo, Recipe, Tensor } from "qdq";
import { loadPt2 } from "qdq/run";

const recipe: Recipe = { quantizer: "XNNPACKQuantizer", global: { isPerChannel: true }, moduleName: [["head", null]] };
export const fromFile: Recipe = { quantizer: "XNNPACKQuantizer", global: { is_per_channel: true } };
// @ts-expect-error: there is no such quantizer
export const misspelt: Recipe = { quantizer: "XNNPACK" };
// @ts-expect-error: there is no such field
export const unknownField: Recipe = { quantizer: "XNNPACKQuantizer", gobal: {} };
// @ts-expect-error: this field is a flag
export const wrongType: Recipe = { quantizer: "XNNPACKQuantizer", global: { isPerChannel: "yes" } };

export async function quantize(bytes: Uint8Array, pixels: Float32Array, signal: AbortSignal): Promise<Uint8Array> {
  const program = await loadOnnx(bytes);
  const info: ProgramInfo = program.info();
  const scales: number = info.qparams.length + info.torchVersion.length + info.attributes.length;
  const image: Tensor<"float32"> = tensor(pixels, [1, 3, 224, 224]);
  // @ts-expect-error: these are other elements
  const wrong: Tensor<"int8"> = tensor(pixels);
  const config = getSymmetricQuantizationConfig({ isPerChannel: true });
  const prepared = preparePt2e(program, scales > 0 ? recipe : new XNNPACKQuantizer().setGlobal(config));
  await prepared.calibrate([[image, wrong].slice(0, 1)], { signal });
  const quantized = convertPt2e(prepared);
  const { layers } = quantizationReport(prepared, quantized);
  if (layers.quantized === 0) throw new QdqError("Unsupported", "nothing was quantized");
  return saveOnnx(quantized);
}

export async function best(bytes: Uint8Array, image: Tensor<"float32">): Promise<number> {
  const session = lower(await loadPt2(bytes));
  try {
    const [logits] = session.run([image]);
    if (logits?.dtype !== "float32") throw new TypeError("wanted a classifier");
    return logits.data.indexOf(Math.max(...logits.data)); // a Float32Array, known by its dtype
  } finally {
    session.dispose();
  }
}
