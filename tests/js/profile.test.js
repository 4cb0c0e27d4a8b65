// Profiles of runtimes.
const { readFileSync } = require("node:fs");
const { images, qdq, thrown } = require("./shapes.js");

const names = ["ort", "ort-web", "transformers.js", "webnn", "openvino", "qnn", "executorch", "x86"];
const vision = () => qdq.loadOnnx(readFileSync("tests/golden/onnx/vision.onnx"));

test("profiles are data: a recipe, and how the file is written", async () => {
  for (const name of names) {
    const profile = await qdq.runtimeProfile(name);
    expect(profile.name).toBe(name);
    expect(profile.file).toBe(name === "executorch" ? ".pt2" : ".onnx");
    expect(profile.onnx).toEqual({
      signedActivations: name === "webnn",
      unsignedWeights: false,
      dedicatedPairs: false,
      float16: false,
      bnb4: false,
    });
    expect(qdq.preparePt2e(await vision(), profile.recipe).needsData()).toBe(name !== "transformers.js");
  }
  await expect(qdq.runtimeProfile("tflite")).rejects.toMatchObject({ code: "InvalidArgument" });
  await expect(qdq.runtimeProfile("webnn", { isDynamic: true })).rejects.toMatchObject({
    message: expect.stringMatching(/does not find ranges while it runs/),
  });
});

test("a profile has 16 bits, 7 bits and pairs of their own where the runtime takes them", async () => {
  const { recipe, onnx } = await qdq.runtimeProfile("qnn", { activationBits: 16 });
  expect(onnx.opset).toBe(21);
  const prepared = qdq.preparePt2e(await vision(), recipe);
  prepared.run([images(await vision(), 4)]);
  const quantized = qdq.convertPt2e(prepared);
  const { products } = qdq.runtimeReport(await qdq.loadOnnx(qdq.saveOnnx(quantized, onnx)), "qnn");
  expect(products.inIntegers).toBe(products.total);
  expect(qdq.runtimeReport(quantized, "ort").products.inIntegers).toBe(0);
  const shared = qdq.saveOnnx(quantized, onnx);
  const own = qdq.saveOnnx(quantized, { ...onnx, dedicatedPairs: true });
  expect(own.length).toBeGreaterThan(shared.length);
  expect(JSON.stringify((await qdq.runtimeProfile("ort", { weightBits: 7 })).recipe)).toMatch(/"quant_max":63/);
  const refused = { code: "InvalidArgument" };
  await expect(qdq.runtimeProfile("ort", { activationBits: 16 })).rejects.toMatchObject(refused);
  await expect(qdq.runtimeProfile("webnn", { weightBits: 7 })).rejects.toMatchObject(refused);
  const floats = await vision();
  expect(thrown(() => qdq.saveOnnx(floats, { dedicatedPairs: true }))).toMatchObject(refused);
});

test("a quantized program runs in integers where its profile says so", async () => {
  const { recipe, onnx } = await qdq.runtimeProfile("ort");
  const program = await vision();
  const before = qdq.runtimeReport(program, "ort");
  expect(before.products.inIntegers).toBe(0);
  expect(before.operators.every(({ runs, reason }) => runs === "float" && reason)).toBe(true);
  const prepared = qdq.preparePt2e(program, recipe);
  prepared.run([images(program, 4)]);
  const quantized = qdq.convertPt2e(prepared);
  const after = qdq.runtimeReport(quantized, "ort");
  expect(after.products.inIntegers).toBe(after.products.total);
  expect(after.operators).toContainEqual(expect.objectContaining({ runs: "integers", kernel: "QLinearConv" }));
  const read = await qdq.loadOnnx(qdq.saveOnnx(quantized, onnx));
  expect(qdq.runtimeReport(read, "ort").products).toEqual(after.products);
  expect(thrown(() => qdq.runtimeReport(read, "ortweb"))).toMatchObject({
    message: expect.stringMatching(/did you mean ort-web/),
  });
});

test("one call makes the files of transformers.js", async () => {
  const program = await vision();
  const files = [...qdq.transformersJsFiles(program)];
  expect(files.map(({ path }) => path)).toEqual(
    ["", "_fp16", "_quantized", "_int8", "_uint8", "_q4", "_q4f16", "_bnb4"].map((end) => `onnx/model${end}.onnx`),
  );
  expect(files.map(({ dtype }) => dtype)).toEqual(["fp32", "fp16", "q8", "int8", "uint8", "q4", "q4f16", "bnb4"]);
  expect(Buffer.compare(files[0].bytes, qdq.saveOnnx(program))).toBe(0);
  for (const { dtype, bytes } of files) {
    const read = await qdq.loadOnnx(bytes);
    expect({ dtype, outputs: read.info().outputs.length }).toEqual({ dtype, outputs: program.info().outputs.length });
    read.dispose();
  }
  const [only] = qdq.transformersJsFiles(program, { dtypes: ["q8"], modelFileName: "vision_model" });
  expect(only.path).toBe("onnx/vision_model_quantized.onnx");
  expect(Buffer.compare(only.bytes, files[2].bytes)).toBe(0);
  expect(thrown(() => [...qdq.transformersJsFiles(program, { dtypes: ["q5"] })])).toMatchObject({
    code: "InvalidArgument",
    message: expect.stringMatching(/'q5'/),
  });
  expect(thrown(() => [...qdq.transformersJsFiles(program, { dtype: "q4" })])).toMatchObject({
    message: expect.stringMatching(/did you mean dtypes/),
  });
});
