// Operators that qdq does not have: models with them open and are quantized around them, and run once JavaScript brings
// the operator.
const { readFileSync } = require("node:fs");
const path = require("node:path");
const run = require("../../dist/cjs/node/run.js");
const { qdq, thrown } = require("./shapes.js");

// x -> conv -> com.example.Blur -> conv; the file tells the shape between them.
const file = readFileSync(path.join(__dirname, "../golden/onnx/custom.onnx"));
const x = qdq.tensor(
  Float32Array.from({ length: 32 }, (_, i) => i / 8),
  [1, 2, 4, 4],
);
const schema = "com_example::Blur(Tensor x, float sigma=1.0) -> Tensor";

function quantize(program) {
  const recipe = new qdq.XNNPACKQuantizer().setGlobal(qdq.getSymmetricQuantizationConfig());
  const prepared = qdq.preparePt2e(program, recipe);
  prepared.run([x]);
  return qdq.convertPt2e(prepared);
}

const dequantized = (program) =>
  program.info().nodes.filter(({ target }) => target === "torch.ops.quantized_decomposed.dequantize_per_tensor.default")
    .length;

test("is no wall: the model opens, what lies before it is quantized, running it is refused by name", async () => {
  const program = await qdq.loadOnnx(file);
  expect(thrown(() => qdq.lower(program).run([x]))).toMatchObject({
    code: "Unsupported",
    message: expect.stringMatching(
      /qdq does not have 1 operator .* torch\.ops\.com_example\.Blur\.default \(node blur\)/,
    ),
  });
  const quantized = quantize(program);
  expect(dequantized(quantized)).toBeGreaterThan(0);
});

test("runs when JavaScript brings it, in every flow", async () => {
  const seen = [];
  await qdq.registerOperator(schema, {
    infer: ([input, sigma]) => {
      seen.push(input.shape, sigma);
      return input;
    },
    evaluate: ([{ data, shape }, sigma]) =>
      qdq.tensor(
        data.map((value) => value * sigma),
        shape,
      ),
  });
  const program = await qdq.loadOnnx(file);
  expect(seen[0].slice(1)).toEqual([2, 4, 4]); // the batch is open
  expect(seen[1]).toBe(3);
  const [y] = qdq.lower(program).run([x]);
  // w = [[1, 2], [3, 4]]; twice, and 3 in between: 3 * [[7, 10], [15, 22]].
  expect(y.data[5]).toBeCloseTo(3 * (7 * x.data[5] + 10 * x.data[16 + 5]), 4);
  expect(y.data[16 + 5]).toBeCloseTo(3 * (15 * x.data[5] + 22 * x.data[16 + 5]), 4);
  const before = dequantized(quantize(await qdq.loadOnnx(file)));
  expect(before).toBeGreaterThan(2); // the second convolution too
});

test("is refused in words where it is wrong", async () => {
  const good = { infer: ([input]) => input, evaluate: ([input]) => input };
  const bad = async (name, operator) => qdq.registerOperator(name, operator).catch((error) => error);
  expect(await bad("nothing", good)).toMatchObject({ code: "InvalidArgument" });
  expect(await bad(schema, good)).toMatchObject({ message: expect.stringContaining("already") });
  expect(await bad("a::b(Tensor x) -> Tensor", { infer: good.infer })).toMatchObject({
    message: "the operator a::b(Tensor x) -> Tensor lacks a function infer or evaluate",
  });
});

test("is known to qdq/run too, which has a memory of its own", async () => {
  const program = await qdq.loadOnnx(file);
  const bytes = qdq.savePt2(program);
  await run.registerOperator(schema, {
    infer: ([input]) => input,
    evaluate: ([{ data, shape }, sigma]) =>
      run.tensor(
        data.map((value) => value * sigma),
        shape,
      ),
  });
  expect(run.lower(await run.loadPt2(bytes)).run([x])).toEqual(qdq.lower(program).run([x]));
});
