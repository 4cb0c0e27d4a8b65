// The typings as a user meets them; this file is only compiled. Lines marked as errors must be errors.
import { readFile, writeFile } from "node:fs/promises";
import {
  ComposableQuantizer,
  BackendConfig,
  QConfigMapping,
  QdqError,
  Trainer,
  X86InductorQuantizer,
  XNNPACKQuantizer,
  capabilities,
  configure,
  convertPt2e,
  explain,
  findSequentialPartitions,
  getDefaultX86InductorQuantizationConfig,
  getSourcePartitions,
  getSymmetricQuantizationConfig,
  loadOnnx,
  loadPt2,
  lower,
  matchPattern,
  preparePt2e,
  prepareQatPt2e,
  quantizationCapabilities,
  savePt2,
  tensor,
} from "qdq";
import type { ByteSource, Observer, QuantizationAnnotation, Quantizer, Tensor } from "qdq";

export async function flow(calibration: Tensor[], image: Tensor): Promise<Tensor> {
  using program = await loadPt2(await readFile("model.pt2"));
  using prepared = preparePt2e(
    program,
    new XNNPACKQuantizer().setGlobal(getSymmetricQuantizationConfig({ isPerChannel: true })),
  );
  for (const batch of calibration) prepared.run([batch]);
  await prepared.calibrate(
    calibration.map((batch) => [batch]),
    { signal: AbortSignal.timeout(1000), onProgress: ({ done, total = 1 }) => void (done / total) },
  );
  using quantized = convertPt2e(prepared, { foldQuantize: true });
  await writeFile("model.int8.pt2", savePt2(quantized));
  using session = lower(quantized);
  const [logits] = session.run([image]);
  if (!logits) throw new QdqError("Internal", "no logits");
  return logits;
}

export async function byParts(file: Blob, stream: ReadableStream<Uint8Array>, source: ByteSource): Promise<boolean> {
  configure({ maxMemory: 12e9 });
  for (const given of [file, stream, source]) (await loadPt2(given)).dispose();
  (await loadOnnx(file, { "model.onnx.data": stream, "more.data": source })).dispose();
  // @ts-expect-error: a path is no file
  await loadPt2("model.pt2");
  // @ts-expect-error: a source says how many bytes it has
  await loadPt2({ readInto: () => 0 });
  return (await capabilities()).memory64;
}

export async function train(images: Tensor[], labels: number[][]): Promise<number> {
  using program = await loadPt2(await readFile("model.pt2"));
  using prepared = prepareQatPt2e(
    program,
    new XNNPACKQuantizer().setGlobal(getSymmetricQuantizationConfig({ isQat: true })),
  );
  using trainer = new Trainer(prepared, { loss: "cross_entropy", optimizer: "adam", lr: 3e-5 });
  prepared.enableObserver(false);
  // @ts-expect-error: there is no such loss
  new Trainer(prepared, { loss: "l1" });
  new Trainer(prepared, { loss: ([output]) => ({ loss: 0, grads: [output!, null] }), schedule: { stepSize: 3 } });
  return trainer.train(
    images.map((image, i) => ({ inputs: [image], target: labels[i]! })),
    { onProgress: ({ loss }) => void loss },
  );
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
  quantizationCapabilities: () => [{ pattern: "linear", operators: [["aten.linear.default"]] }],
  annotate: (graph) =>
    graph.nodes
      .filter(({ target }) => target === "torch.ops.aten.linear.default")
      .map(
        (node): QuantizationAnnotation => ({
          node: node.name,
          output: {
            spec: "quantization",
            dtype: "int8",
            qscheme: "per_tensor_symmetric",
            observer: () => new Extremes(),
          },
        }),
      ),
};

export const both = new ComposableQuantizer([
  linears,
  new X86InductorQuantizer().setGlobal(getDefaultX86InductorQuantizationConfig()).setModuleName("head", null),
  { quantizer: "XNNPACKQuantizer", global: {} },
]);

export const accelerator = new BackendConfig("accelerator", { base: "qnnpack" }).setBackendPatternConfig({
  pattern: ["torch.nn.Linear", "torch.nn.ReLU"],
  dtypeConfigs: [{ inputDtype: { dtype: "qint8", scaleMinLowerBound: 2 ** -12 }, outputDtype: "qint8" }],
});
export const fx = new QConfigMapping({ backend: "x86" })
  .setBackendConfig(accelerator)
  .setPrepareCustomConfig({ standaloneModuleName: [{ module: "body", qconfigMapping: new QConfigMapping() }] })
  .setObjectType("torch.nn.Linear", { named: "default_dynamic_qconfig" })
  .setModuleName("head", { activation: { class: "MinMaxObserver" }, weight: null })
  .setFilterFunction((node) => node.name !== "add");

export async function backend(): Promise<string> {
  using program = await loadPt2(await readFile("model.pt2"));
  const quantizer = new XNNPACKQuantizer()
    .setGlobal({
      kind: "specs",
      weight: { spec: "quantization", dtype: "int8", chAxis: -1, observer: { class: "PerChannelMinMaxObserver" } },
    })
    .setFilterFunction((node) => node.type !== "torch.nn.modules.linear.Linear")
    .setObserverOverrides([
      { node: "relu", attributes: { quantMax: 127 } },
      { edge: ["x", "conv2d"], attributes: { eps: 1e-4 } },
    ]);
  const { patterns } = await quantizationCapabilities(quantizer);
  using prepared = preparePt2e(program, quantizer);
  const [chain] = findSequentialPartitions(program, ["torch.nn.Conv2d", "torch.nn.ReLU"]);
  const [linear] = getSourcePartitions(program, ["torch.nn.Linear"]);
  const nodes = [{ name: "relu", target: "torch.ops.aten.relu", args: [{ node: "x" }] }];
  const [match] = matchPattern(program, { inputs: ["x"], nodes, outputs: ["relu"] });
  const conflict = explain(prepared).conflicts[0]?.message ?? "";
  const { reason } = explain(prepared, "relu");
  return [
    patterns[0]?.pattern,
    chain?.[0]?.nodes[0],
    linear?.outputNodes[0],
    match?.nameNodeMap.relu,
    reason,
    conflict,
  ].join();
}

// @ts-expect-error a configuration of the other quantizer
new XNNPACKQuantizer().setGlobal(getDefaultX86InductorQuantizationConfig());
// @ts-expect-error a misspelt option
getSymmetricQuantizationConfig({ perChannel: true });
// @ts-expect-error a list is not a typed array
tensor([1, 2, 3]);
