// The example model, made-up images for it, and what the tests of errors share.
const { readFileSync } = require("node:fs");
const path = require("node:path");
const qdq = require("../../dist/cjs/node/index.js");

const folder = path.join(__dirname, "../../examples/shapes");
const modelPath = path.join(folder, "model.pt2");
const model = () => readFileSync(modelPath);

// A batch of noise that is the same at every call with the same seed.
function images(program, count, seed = 1) {
  const shape = [count, ...program.info().inputs[0].shape.slice(1)];
  let state = seed >>> 0;
  const data = Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 31 - 1;
  });
  return qdq.tensor(data, shape);
}

// The error that the work throws.
function thrown(work) {
  try {
    work();
  } catch (error) {
    return error;
  }
  throw new Error("nothing was thrown");
}

module.exports = { folder, images, model, modelPath, qdq, thrown };
