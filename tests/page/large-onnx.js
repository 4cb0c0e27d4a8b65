// A deep network as an ONNX file, written by hand: 1 x 1 convolutions of 4 channels, each with a ReLU behind it.
const { bytes, message, model, node, number, value } = require("./onnx.js");

// `beside`: the name of the file that holds the weights, or "" for weights in the model. `hasModules`: the names of
// nodes tell modules, ten layers to a block and ten blocks to a stage. Answers both files.
function largeOnnx(layers, { beside = "", hasModules = false } = {}) {
  const size = 64;
  const weights = Buffer.alloc(layers * size);
  // Each output is a weighted mean of the inputs, so that values neither grow nor vanish.
  for (let row = 0; row < layers * 4; ++row) {
    const shares = [0, 1, 2, 3].map((i) => (i === row % 4 ? 0 : ((row * 37 + i * 5) % 11) / 200));
    shares[row % 4] = 1 - shares.reduce((sum, share) => sum + share, 0);
    for (const [i, share] of shares.entries()) weights.writeFloatLE(share, 16 * row + 4 * i);
  }
  const entry = (key, text) => message(13, bytes(1, key), bytes(2, String(text)));
  const parts = [];
  for (let i = 0; i < layers; ++i) {
    const [stage, block] = [`stage${Math.floor(i / 100)}`, Math.floor(i / 10) % 10];
    const named = (op, layer) => (hasModules ? `/${stage}/${stage}.${block}/${layer}${i % 10}/${op}` : undefined);
    parts.push(node("Conv", [i === 0 ? "x" : `relu${i - 1}`, `w${i}`], `conv${i}`, {}, named("Conv", "conv")));
    parts.push(node("Relu", [`conv${i}`], i + 1 === layers ? "y" : `relu${i}`, {}, named("Relu", "act")));
    const where = beside
      ? [entry("location", beside), entry("offset", i * size), entry("length", size), number(14, 1)]
      : [bytes(9, weights.subarray(i * size, (i + 1) * size))];
    parts.push(message(5, ...[4, 4, 1, 1].map((dim) => number(1, dim)), number(2, 1), bytes(8, `w${i}`), ...where));
  }
  const [x, y] = [value(11, "x", [4, 8, 8]), value(12, "y", [4, 8, 8])];
  return { model: model("deep", ...parts, x, y), weights };
}

module.exports = { largeOnnx };
