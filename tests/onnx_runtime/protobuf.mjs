// As much of ONNX's files as small networks need: a model is written, and the nodes of one are read.

function varint(value) {
  const out = [];
  let rest = BigInt.asUintN(64, BigInt(value));
  for (; rest > 127n; rest >>= 7n) out.push(Number(rest & 127n) | 128);
  return [...out, Number(rest)];
}
const field = (number, type, bytes) => [...varint(number * 8 + type), ...bytes];
const integer = (number, value) => field(number, 0, varint(value));
const bytes = (number, content) => field(number, 2, [...varint(content.length), ...content]);
const text = (number, value) => bytes(number, [...Buffer.from(value)]);

const FLOAT = 1;
const INT64 = 7;

function tensor(name, { dims, data }) {
  const floats = data instanceof Float32Array;
  const raw = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  const sizes = dims.flatMap((size) => integer(1, size));
  return [...sizes, ...integer(2, floats ? FLOAT : INT64), ...text(8, name), ...bytes(9, raw)];
}

// A number is an integer, and a list is one of integers.
function attribute(name, value) {
  const [kind, content] = Array.isArray(value) ? [7, value.flatMap((v) => integer(8, v))] : [2, integer(3, value)];
  return [...text(1, name), ...content, ...integer(20, kind)];
}

function node({ op, inputs, outputs, attributes = {} }) {
  const settings = Object.entries(attributes).flatMap(([name, value]) => bytes(5, attribute(name, value)));
  const names = [...inputs.flatMap((name) => text(1, name)), ...outputs.flatMap((name) => text(2, name))];
  return [...names, ...text(3, outputs[0]), ...text(4, op), ...settings];
}

function valueInfo(name, dims) {
  const shape = dims.flatMap((size) => bytes(1, integer(1, size)));
  return [...text(1, name), ...bytes(2, bytes(1, [...integer(1, FLOAT), ...bytes(2, shape)]))];
}

/** The bytes of a model of opset 17 whose inputs and outputs are float32; `inputs` and `outputs`: name -> sizes. */
export function onnxModel({ nodes, constants, inputs, outputs }) {
  const graph = [
    ...nodes.flatMap((each) => bytes(1, node(each))),
    ...text(2, "network"),
    ...Object.entries(constants).flatMap(([name, value]) => bytes(5, tensor(name, value))),
    ...Object.entries(inputs).flatMap(([name, dims]) => bytes(11, valueInfo(name, dims))),
    ...Object.entries(outputs).flatMap(([name, dims]) => bytes(12, valueInfo(name, dims))),
  ];
  return Uint8Array.from([...integer(1, 8), ...bytes(7, graph), ...bytes(8, integer(2, 17))]);
}

// Calls `each` with the number and the content of the fields of a message that have lengths.
function fields(message, each) {
  let at = 0;
  const number = () => {
    let out = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = message[at++];
      out |= BigInt(byte & 127) << shift;
      if (byte < 128) return Number(out);
    }
  };
  while (at < message.length) {
    const tag = number();
    if (tag % 8 === 0) number();
    else if (tag % 8 !== 2) at += tag % 8 === 1 ? 8 : 4;
    else {
      const size = number();
      each(Math.floor(tag / 8), message.subarray(at, at + size));
      at += size;
    }
  }
}

/** [{op, inputs, outputs}] of a model's graph. */
export function onnxNodes(model) {
  const out = [];
  fields(model, (ofModel, graph) => {
    if (ofModel !== 7) return;
    fields(graph, (ofGraph, content) => {
      if (ofGraph !== 1) return;
      const found = { op: "", inputs: [], outputs: [] };
      fields(content, (number, value) => {
        const word = number === 1 || number === 2 || number === 4 ? Buffer.from(value).toString() : "";
        if (number === 1) found.inputs.push(word);
        if (number === 2) found.outputs.push(word);
        if (number === 4) found.op = word;
      });
      out.push(found);
    });
  });
  return out;
}
