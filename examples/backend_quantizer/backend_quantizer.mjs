// A quantizer for an imaginary accelerator, written with patterns and source partitions, and what it does to a
// ResNet-18: the same as backend_quantizer.py does in PyTorch, which wrote the model, the calibration data and the
// expected numbers. After ./dev package:
//   node examples/backend_quantizer/backend_quantizer.mjs
import { readFileSync } from "node:fs";
import { convertPt2e, explain, loadPt2, preparePt2e, tensor } from "../../dist/esm/node/index.js";

const file = (name) => readFileSync(new URL(name, import.meta.url));

const activation = {
  spec: "quantization",
  dtype: "int8",
  quantMin: -128,
  quantMax: 127,
  qscheme: "per_tensor_affine",
  observer: { class: "MinMaxObserver" },
};
const weight = {
  spec: "quantization",
  dtype: "int8",
  quantMin: -127,
  quantMax: 127,
  qscheme: "per_channel_symmetric",
  chAxis: 0,
  observer: { class: "PerChannelMinMaxObserver" },
};

// conv2d(x, weight, bias) (-> add(conv, other)) (-> relu); with ignoreLiterals the settings of the convolution are
// wildcards too.
const node = (name) => ({ node: name });
const conv = {
  name: "conv",
  target: "torch.ops.aten.conv2d.default",
  args: [node("x"), node("weight"), node("bias"), [1, 1], [1, 1]],
};
const add = { name: "add", target: "torch.ops.aten.add.Tensor", args: [node("conv"), node("other")] };
const relu = (input) => ({ name: "relu", target: "torch.ops.aten.relu.default", args: [node(input)] });
const patterns = {
  conv_add_relu: { inputs: ["x", "weight", "bias", "other"], nodes: [conv, add, relu("add")], outputs: ["relu"] },
  conv_relu: { inputs: ["x", "weight", "bias"], nodes: [conv, relu("conv")], outputs: ["relu"] },
  conv: { inputs: ["x", "weight", "bias"], nodes: [conv], outputs: ["conv"] },
};

// Convolutions with what the accelerator computes along with them, then linears, then what only moves numbers.
const acceleratorQuantizer = {
  name: "AcceleratorQuantizer",
  annotate(graph) {
    const annotations = new Map();
    const inputOf = (name, i) => graph.nodes.find((candidate) => candidate.name === name).args[i].node;
    const annotate = (name, reason, parts = {}) =>
      annotations.set(name, { node: name, inputs: [], output: null, reason, ...parts });

    for (const [pattern, wanted] of Object.entries(patterns)) {
      for (const {
        nameNodeMap: named,
        returningNodes: [last],
      } of graph.matchPattern(wanted, { ignoreLiterals: true })) {
        const nodes = wanted.nodes.map(({ name }) => named[name]);
        if (nodes.some((name) => annotations.has(name))) continue;
        for (const name of nodes) annotate(name, `the accelerator computes ${pattern} at once`);
        annotations.get(named.conv).inputs = [
          [inputOf(named.conv, 0), activation],
          [inputOf(named.conv, 1), weight],
        ];
        if (named.add) annotations.get(named.add).inputs = [[named.other, activation]];
        annotations.get(last).output = activation;
      }
    }
    for (const {
      outputNodes: [linear],
    } of graph.getSourcePartitions(["torch.nn.Linear"])) {
      annotate(linear, "it is an nn.Linear", {
        inputs: [
          [inputOf(linear, 0), activation],
          [inputOf(linear, 1), weight],
        ],
        output: activation,
      });
    }
    const movers = [
      ...graph.findSequentialPartitions(["torch.nn.ReLU", "torch.nn.MaxPool2d"]).map(([, pool]) => pool),
      ...graph.getSourcePartitions(["torch.nn.AdaptiveAvgPool2d"]),
      ...graph.getSourcePartitions(["torch.flatten"]),
    ];
    for (const {
      outputNodes: [mover],
    } of movers) {
      const shared = { spec: "shared", with: { node: inputOf(mover, 0) } };
      annotate(mover, "its output is made of its input's numbers", {
        inputs: [[inputOf(mover, 0), shared]],
        output: shared,
      });
    }
    this.annotations = [...annotations.values()];
    return this.annotations;
  },
};

const text = (spec) =>
  spec === null
    ? "float"
    : spec.spec === "shared"
      ? `shared with ${spec.with.node}`
      : `${spec.dtype} [${spec.quantMin}, ${spec.quantMax}] ${spec.qscheme}`;
const sorted = (object) =>
  JSON.stringify(
    Object.fromEntries(
      Object.entries(object)
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([key, value]) => [key, typeof value === "object" ? JSON.parse(sorted(value)) : value]),
    ),
  );

const expected = JSON.parse(file("expected.json"));
const program = await loadPt2(file("model.pt2"));
const prepared = preparePt2e(program, acceleratorQuantizer);
const data = new Float32Array(new Uint8Array(file("calibration.f32")).buffer);
const shape = [2, 3, 32, 32];
const size = shape.reduce((a, b) => a * b);
for (let at = 0; at < data.length; at += size) prepared.run([tensor(data.slice(at, at + size), shape)]);
const quantized = convertPt2e(prepared);

const annotations = Object.fromEntries(
  acceleratorQuantizer.annotations.map(({ node: name, inputs, output }) => [
    name,
    { inputs: Object.fromEntries(inputs.map(([producer, spec]) => [producer, text(spec)])), output: text(output) },
  ]),
);
const sameAnnotations = sorted(annotations) === sorted(expected.annotations);

// A dequantize has the qparams of the quantize that it reads, or its own where the quantize is folded into a weight.
const { nodes, qparams } = quantized.info();
const sameQparams = Object.entries(expected.qparams).filter(([name, wanted]) => {
  const read = nodes.find((candidate) => candidate.name === name)?.args[0].node;
  const found = qparams.find((value) => value.node === name || value.node === read);
  return (
    found &&
    found.scale.length === wanted.scale.length &&
    wanted.scale.every(
      (scale, i) => Math.abs(found.scale[i] - scale) <= 1e-5 * scale && found.zeroPoint[i] === wanted.zero_point[i],
    )
  );
});

for (const { node: name, outcome, reason } of explain(prepared).operators)
  if (outcome === "float") console.log(`${name} stays in float: ${reason}`);
const counts = [Object.keys(expected.annotations).length, sameQparams.length, Object.keys(expected.qparams).length];
console.log(
  `annotations of ${counts[0]} nodes ${sameAnnotations ? "equal" : "differ from"} PyTorch's, ` +
    `${counts[1]} of ${counts[2]} qparams agree`,
);
if (!sameAnnotations || counts[1] !== counts[2]) process.exitCode = 1;
for (const thing of [program, prepared, quantized]) thing.dispose();
