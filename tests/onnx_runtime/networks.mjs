// Small networks with random weights: the model's bytes, and samples of its input x.
import { onnxModel } from "./protobuf.mjs";

let state = 1;
function random() {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return state / 2 ** 31 - 1;
}
function floats(...dims) {
  const fan = dims.slice(1).reduce((a, b) => a * b, 1);
  const size = dims.reduce((a, b) => a * b, 1);
  return { dims, data: Float32Array.from({ length: size }, () => random() * Math.sqrt(3 / fan)) };
}
const integers = (...values) => ({ dims: [values.length], data: BigInt64Array.from(values, BigInt) });

/** Samples [count, ...dims] of some size as the bytes of an .npy. */
export function npy(count, dims, size = 1) {
  const shape = [count, ...dims];
  const head = `{'descr': '<f4', 'fortran_order': False, 'shape': (${shape.join(", ")}), }`;
  const padded = `${head.padEnd(117)}\n`;
  const data = Float32Array.from(
    { length: shape.reduce((a, b) => a * b, 1) },
    () => size * (random() + random() + random()),
  );
  const magic = Buffer.from([0x93, ...Buffer.from("NUMPY"), 1, 0, padded.length % 256, padded.length >> 8]);
  return { bytes: Buffer.concat([magic, Buffer.from(padded), Buffer.from(data.buffer)]), data, shape };
}

class Network {
  nodes = [];
  constants = {};
  op(op, inputs, attributes = {}) {
    const name = `${op.toLowerCase()}${this.nodes.length}`;
    const names = inputs.map((input) => {
      if (typeof input === "string") return input;
      const constant = `constant${Object.keys(this.constants).length}`;
      this.constants[constant] = input;
      return constant;
    });
    this.nodes.push({ op, inputs: names, outputs: [name], attributes });
    return name;
  }
  model(input, y, output) {
    this.nodes.push({ op: "Identity", inputs: [y], outputs: ["y"] });
    const model = onnxModel({ ...this, inputs: { x: input }, outputs: { y: output } });
    return { model, input };
  }
}

// Residual blocks with a depthwise convolution, gates of squeeze and excitation, a concatenation, and pools.
export function convolutional() {
  const net = new Network();
  const conv = (x, rows, columns, size, group = 1) =>
    net.op("Conv", [x, floats(rows, columns / group, size, size), floats(rows)], {
      pads: Array(4).fill((size - 1) / 2),
      group,
    });
  const first = net.op("MaxPool", [net.op("Relu", [conv("x", 16, 3, 3)])], { kernel_shape: [2, 2], strides: [2, 2] });
  const depthwise = net.op("Relu", [conv(first, 16, 16, 3, 16)]);
  const sum = net.op("Relu", [net.op("Add", [conv(depthwise, 16, 16, 1), first])]);
  const squeezed = net.op("Sigmoid", [conv(net.op("GlobalAveragePool", [sum]), 16, 16, 1)]);
  const gated = net.op("Mul", [sum, squeezed]);
  const joined = net.op("Concat", [conv(gated, 8, 16, 3), conv(gated, 8, 16, 1)], { axis: 1 });
  const pooled = net.op("Flatten", [net.op("GlobalAveragePool", [net.op("Relu", [joined])])], { axis: 1 });
  return net.model([1, 3, 16, 16], net.op("Gemm", [pooled, floats(10, 16), floats(10)], { transB: 1 }), [1, 10]);
}

// Linear layers of two axes with ReLU and sigmoid.
export function perceptron() {
  const net = new Network();
  const layer = (x, rows, columns) => net.op("Gemm", [x, floats(rows, columns), floats(rows)], { transB: 1 });
  const hidden = net.op("Sigmoid", [layer(net.op("Relu", [layer("x", 96, 64)]), 64, 96)]);
  return net.model([4, 64], layer(hidden, 8, 64), [4, 8]);
}

// One block of an encoder: attention with four heads, and a perceptron, behind layer norms.
export function transformer() {
  const [tokens, width, heads] = [12, 64, 4];
  const net = new Network();
  const linear = (x, columns, rows) => net.op("Add", [net.op("MatMul", [x, floats(columns, rows)]), floats(rows)]);
  const norm = (x) =>
    net.op("LayerNormalization", [x, { dims: [width], data: new Float32Array(width).fill(1) }, floats(width)]);
  const split = (x, perm) =>
    net.op("Transpose", [net.op("Reshape", [x, integers(1, tokens, heads, width / heads)])], { perm });
  const h = norm("x");
  const q = split(linear(h, width, width), [0, 2, 1, 3]);
  const k = split(linear(h, width, width), [0, 2, 3, 1]);
  const v = split(linear(h, width, width), [0, 2, 1, 3]);
  const scaled = net.op("Mul", [net.op("MatMul", [q, k]), { dims: [], data: Float32Array.of(0.25) }]);
  const read = net.op("MatMul", [net.op("Softmax", [scaled], { axis: 3 }), v]);
  const joined = net.op("Reshape", [net.op("Transpose", [read], { perm: [0, 2, 1, 3] }), integers(1, tokens, width)]);
  const sum = net.op("Add", ["x", linear(joined, width, width)]);
  const inner = net.op("Relu", [linear(norm(sum), width, 2 * width)]);
  return net.model([1, tokens, width], net.op("Add", [sum, linear(inner, 2 * width, width)]), [1, tokens, width]);
}

// Sums of 16 places, weighted by softmax between two multiplications. A histogram cuts off its largest weights.
export function attentionPool() {
  const net = new Network();
  const places = () =>
    net.op("Reshape", [
      net.op("Conv", ["x", floats(8, 3, 3, 3), floats(8)], { pads: [1, 1, 1, 1] }),
      integers(1, 8, 16),
    ]);
  const scores = net.op("Mul", [places(), { dims: [], data: Float32Array.of(0.3) }]);
  const weighted = net.op("Mul", [net.op("Softmax", [scores], { axis: 2 }), places()]);
  return net.model([1, 3, 4, 4], net.op("ReduceSum", [weighted, integers(2)], { keepdims: 0 }), [1, 8]);
}
