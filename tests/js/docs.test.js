// The JSON in the documents is what it says.
const { readFileSync } = require("node:fs");
const path = require("node:path");
const { images, model, qdq } = require("./shapes.js");

const root = path.join(__dirname, "../..");
const blocks = (file) =>
  [...readFileSync(path.join(root, file), "utf8").matchAll(/^```json\n([\s\S]*?)^```/gm)].map(([, text]) =>
    JSON.parse(text),
  );

let program;
beforeAll(async () => {
  program = await qdq.loadPt2(model());
});

test.each(["README.md", "docs/recipes.md"])("the recipes of %s quantize a model", (file) => {
  const recipes = blocks(file);
  expect(recipes.length).toBeGreaterThan(0);
  for (const recipe of recipes) {
    const prepared = qdq.preparePt2e(program, recipe);
    prepared.run([images(program, 2)]);
    const { layers } = qdq.quantizationReport(prepared, qdq.convertPt2e(prepared));
    expect(layers.quantized).toBeGreaterThan(0);
    expect(layers.quantized).toBeLessThan(layers.total); // each of them leaves something in float
  }
});

test("the quantizer of docs/quantizers.md quantizes a model", () => {
  const [, code] = /^```js\n([\s\S]*?)^```/m.exec(readFileSync(path.join(root, "docs/quantizers.md"), "utf8"));
  const quantizer = new Function(`${code} return quantizer;`)();
  const prepared = qdq.preparePt2e(program, quantizer);
  const { operators } = qdq.explain(prepared);
  const taken = operators.filter(({ outcome }) => outcome !== "float").map(({ pattern }) => pattern);
  expect(taken).toContain("conv_relu");
  expect(taken).toContain("linear");
});

test("the preprocessing of docs/data.md makes inputs of an image", () => {
  const [preprocess, ...more] = blocks("docs/data.md");
  expect(more).toEqual([]);
  const image = readFileSync(path.join(root, "examples/shapes/test/000.png"));
  // The example's model takes a smaller crop.
  const data = qdq.openData(program, new Map([["000.png", image]]), { preprocess: { ...preprocess, crop: 40 } });
  expect(data.batch(0)[0].shape).toEqual([1, 3, 40, 40]);
});
