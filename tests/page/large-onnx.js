// A deep network as an ONNX file, written by hand: 1 x 1 convolutions of 4 channels, each with a ReLU behind it.
const { bytes, message, model, node, number, value } = require("./onnx.js");

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
  const [x, y] = [value(11, "x", [4, 8, 8]), value(12, "y", [4, 8, 8])];
  return { model: model("deep", ...parts, x, y), weights };
}

module.exports = { largeOnnx };
