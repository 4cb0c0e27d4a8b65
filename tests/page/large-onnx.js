// A deep network as an ONNX file, written by hand: 1 x 1 convolutions of 4 channels, each with a ReLU behind it.

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

const value = (field, name) => {
  const dims = [bytes(2, "batch"), ...[4, 8, 8].map((size) => number(1, size))];
  const shape = message(2, ...dims.map((dim) => message(1, dim)));
  return message(field, bytes(1, name), message(2, message(1, number(1, 1), shape)));
};
const node = (op, inputs, output) =>
  message(1, ...inputs.map((name) => bytes(1, name)), bytes(2, output), bytes(3, `n_${output}`), bytes(4, op));

// `beside`: the name of the file that holds the weights, or "" for weights in the model. Answers both files.
function largeOnnx(layers, beside = "") {
  const size = 64;
  const weights = Buffer.alloc(layers * size);
  for (let i = 0; i < layers * 16; ++i) weights.writeFloatLE((i % 16) % 5 === 0 ? 1 : ((i * 37) % 11) / 100, 4 * i);
  const entry = (key, text) => message(13, bytes(1, key), bytes(2, String(text)));
  const parts = [];
  for (let i = 0; i < layers; ++i) {
    parts.push(node("Conv", [i === 0 ? "x" : `relu${i - 1}`, `w${i}`], `conv${i}`));
    parts.push(node("Relu", [`conv${i}`], i + 1 === layers ? "y" : `relu${i}`));
    const where = beside
      ? [entry("location", beside), entry("offset", i * size), entry("length", size), number(14, 1)]
      : [bytes(9, weights.subarray(i * size, (i + 1) * size))];
    parts.push(message(5, ...[4, 4, 1, 1].map((dim) => number(1, dim)), number(2, 1), bytes(8, `w${i}`), ...where));
  }
  const graph = message(7, bytes(2, "deep"), ...parts, value(11, "x"), value(12, "y"));
  const model = Buffer.concat([number(1, 8), message(8, bytes(1, ""), number(2, 17)), graph]);
  return { model, weights };
}

module.exports = { largeOnnx };
