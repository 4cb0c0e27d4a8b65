// ONNX files written by hand, field by field.

const varint = (value) => {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  return Buffer.from([...bytes, value]);
};
// Fields of a protobuf message: numbers, and texts or messages with their length.
const number = (field, value) => Buffer.concat([varint(field * 8), varint(value)]);
const bytes = (field, content) => {
  const body = Buffer.from(content);
  return Buffer.concat([varint(field * 8 + 2), varint(body.length), body]);
};
const message = (field, ...parts) => bytes(field, Buffer.concat(parts));

const types = { float32: 1, int64: 7 };
// An input (field 11) or output (12) of the graph, whose first axis is the batch; dims behind it.
function value(field, name, dims, dtype = "float32") {
  const all = [bytes(2, "batch"), ...dims.map((size) => number(1, size))];
  const shape = message(2, ...all.map((dim) => message(1, dim)));
  return message(field, bytes(1, name), message(2, message(1, number(1, types[dtype]), shape)));
}
// `attributes`: integers and lists of them by name.
function node(op, inputs, output, attributes = {}, name = `n_${output}`) {
  const written = Object.entries(attributes).map(([name, content]) =>
    message(
      5,
      bytes(1, name),
      ...[content].flat().map((each) => number(Array.isArray(content) ? 8 : 3, each)),
      number(20, Array.isArray(content) ? 7 : 2),
    ),
  );
  const names = [...inputs.map((name) => bytes(1, name)), bytes(2, output)];
  return message(1, ...names, bytes(3, name), bytes(4, op), ...written);
}
// A constant: a Float32Array or a BigInt64Array.
const constant = (name, dims, data) =>
  message(
    5,
    ...dims.map((dim) => number(1, dim)),
    number(2, data instanceof BigInt64Array ? types.int64 : types.float32),
    bytes(8, name),
    bytes(9, Buffer.from(data.buffer)),
  );
const model = (name, ...parts) =>
  Buffer.concat([number(1, 8), message(8, bytes(1, ""), number(2, 17)), message(7, bytes(2, name), ...parts)]);

module.exports = { bytes, constant, message, model, node, number, value };
