// The typings as a user meets them; this file is only compiled. Lines marked as errors must be errors.
import { readFile, writeFile } from "node:fs/promises";
import {
  ComposableQuantizer, QdqError, X86InductorQuantizer, XNNPACKQuantizer, convertPt2e, getDefaultX86InductorQuantizationConfig,
  getSymmetricQuantizationConfig, loadPt2, lower, preparePt2e, savePt2, tensor,
} from "qdq";
import type { Observer, QuantizationAnnotation, Quantizer, Tensor } from "qdq";

export async function flow(calibration: Tensor[], image: Tensor): Promise<Tensor> {
  using program = await loadPt2(await readFile("model.pt2"));
  using prepared = preparePt2e(program, new XNNPACKQuantizer().setGlobal(getSymmetricQuantizationConfig({ isPerChannel: true })));
  for (const batch of calibration) prepared.run([batch]);
  await prepared.calibrate(calibration.map((batch) => [batch]), { signal: AbortSignal.timeout(1000), onProgress: ({ done, total }) => void (done / total) });
  using quantized = convertPt2e(prepared, { foldQuantize: true });
  await writeFile("model.int8.pt2", savePt2(quantized));
  using session = lower(quantized);
  const [logits] = session.run([image]);
  if (!logits) throw new QdqError("Internal", "no logits");
  return logits;
}

class Extremes implements Observer {
  #low = Infinity;
  #high = -Infinity;
  forward({ data }: Tensor): void {
    for (const value of data as Float32Array) {
      this.#low = Math.min(this.#low, value);
      this.#high = Math.max(this.#high, value);
    }
  }
  calculateQparams() {
    return { scale: Math.max(this.#high, -this.#low) / 127, zeroPoint: 0 };
  }
}

export const linears: Quantizer = {
  name: "linears",
  annotate: (graph) => graph.nodes.filter(({ target }) => target === "torch.ops.aten.linear.default").map((node): QuantizationAnnotation => ({
    node: node.name,
    output: { spec: "quantization", dtype: "int8", qscheme: "per_tensor_symmetric", observer: () => new Extremes() },
  })),
};

export const both = new ComposableQuantizer([
  linears,
  new X86InductorQuantizer().setGlobal(getDefaultX86InductorQuantizationConfig()).setModuleName("head", null),
  { quantizer: "XNNPACKQuantizer", global: {} },
]);

// @ts-expect-error a configuration of the other quantizer
new XNNPACKQuantizer().setGlobal(getDefaultX86InductorQuantizationConfig());
// @ts-expect-error a misspelt option
getSymmetricQuantizationConfig({ perChannel: true });
// @ts-expect-error a list is not a typed array
tensor([1, 2, 3]);
