// A detector of 16 boxes with an object's score and those of two classes, [batch, 16, 7], in an ONNX file: the means of
// 80 x 80 pixels move the boxes and choose the class.
const { constant, model, node, value } = require("../page/onnx.js");

function detector() {
  const cells = Array.from({ length: 16 }, (_, i) => [(i % 4) * 80 + 40, Math.floor(i / 4) * 80 + 40]);
  const weights = Float32Array.from([9, -5, 3, 4, 6, 5, -4, 2, 7, 5, -3, 5, -2, 3, -6, 4, -4, 6, 4, -3, 4]);
  const offsets = Float32Array.from(cells.flatMap(([x, y], i) => [x, y, 60, 55, (i % 3) * 2 - 3, 0.5, -0.5]));
  return model(
    "detector",
    node("AveragePool", ["x"], "means", { kernel_shape: [80, 80], strides: [80, 80] }),
    constant("rows", [3], BigInt64Array.of(0n, 3n, 16n)),
    node("Reshape", ["means", "rows"], "flat"),
    node("Transpose", ["flat"], "cells", { perm: [0, 2, 1] }),
    constant("weights", [3, 7], weights),
    node("MatMul", ["cells", "weights"], "moved"),
    constant("offsets", [16, 7], offsets),
    node("Add", ["moved", "offsets"], "raw"),
    ...["boxes", "logits"].flatMap((part, i) => [
      constant(`${part}_from`, [1], BigInt64Array.of(BigInt(4 * i))),
      constant(`${part}_to`, [1], BigInt64Array.of(BigInt(4 + 3 * i))),
      constant(`${part}_axis`, [1], BigInt64Array.of(2n)),
      node("Slice", ["raw", `${part}_from`, `${part}_to`, `${part}_axis`], part),
    ]),
    node("Sigmoid", ["logits"], "scores"),
    node("Concat", ["boxes", "scores"], "y", { axis: 2 }),
    value(11, "x", [3, 320, 320]),
    value(12, "y", [16, 7]),
  );
}

module.exports = { detector };
