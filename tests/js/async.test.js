// The asynchronous door: a worker works while this thread goes on, and ends when it is told to.
const { execFile } = require("node:child_process");
const { readFileSync } = require("node:fs");
const path = require("node:path");
const { promisify } = require("node:util");
const door = require("../../dist/cjs/node/async.js");
const { images, model, qdq } = require("./shapes.js");

const recipe = { quantizer: "XNNPACKQuantizer", global: { isPerChannel: true } };
let program;
let batches;
beforeAll(async () => {
  program = await qdq.loadPt2(model());
  batches = [1, 2].map((seed) => [images(program, 16, seed)]);
});

test("a session gives the outputs of lower(), by name and in order", async () => {
  const session = await door.openSession(model());
  expect(session.inputNames).toEqual(["x"]);
  expect(session.outputNames).toHaveLength(1);
  const [image] = batches[0];
  const [expected] = qdq.lower(program).run([image]);
  const [name] = session.outputNames;
  // Jest has arrays of its own.
  const plain = ({ dtype, shape, data }) => ({ dtype, shape, data: [...data] });
  for (const inputs of [[image], { x: image }])
    expect(plain((await session.run(inputs))[name])).toEqual(plain(expected));
  await expect(session.run({ y: image })).rejects.toThrow("the model has no input y; it has x");
  await expect(session.run({})).rejects.toThrow("the input x is missing");
  await expect(session.run([])).rejects.toMatchObject({ name: "QdqError", code: "InvalidArgument" });
  session.dispose();
  await expect(session.run([image])).rejects.toMatchObject({ code: "Cancelled" });
});

test("an ONNX model's outputs have the names that the file gives them", async () => {
  const session = await door.openSession(qdq.saveOnnx(program));
  expect(session.outputNames).toEqual(["output_0"]);
  const { output_0: scores } = await session.run([batches[0][0]]);
  expect(scores.shape).toEqual([16, 16]);
  session.dispose();
});

test("a Blob goes to the worker as it is, and the worker takes no more memory than it may", async () => {
  const session = await door.openSession(new Blob([model()]), { maxMemory: 1e9 });
  expect(session.inputNames).toEqual(["x"]);
  session.dispose();
  await expect(door.openSession(model(), { maxMemory: 100_000 })).rejects.toMatchObject({ code: "OutOfMemory" });
  await expect(door.openSession(model(), { maxMemory: 0.5 })).rejects.toMatchObject({ code: "InvalidArgument" });
  const options = { quantizer: recipe, calibration: batches, maxMemory: 100_000 };
  await expect(door.quantizeModel(model(), options)).rejects.toMatchObject({ code: "OutOfMemory" });
});

test("quantizes to the bytes of the synchronous door while timers of this thread go on", async () => {
  const prepared = qdq.preparePt2e(program, recipe);
  for (const batch of batches) prepared.run(batch);
  const quantized = qdq.convertPt2e(prepared);
  let ticks = 0;
  const timer = setInterval(() => (ticks += 1), 5);
  const told = [];
  const options = { quantizer: recipe, calibration: batches, onProgress: ({ done }) => told.push(done) };
  const pt2 = await door.quantizeModel(model(), options);
  clearInterval(timer);
  expect(ticks).toBeGreaterThan(5);
  expect(told).toEqual([1, 2]);
  expect(Buffer.from(pt2).equals(Buffer.from(qdq.savePt2(quantized)))).toBe(true);
  const onnx = await door.quantizeModel(model(), {
    quantizer: new qdq.XNNPACKQuantizer().setGlobal(qdq.getSymmetricQuantizationConfig({ isPerChannel: true })),
    calibration: batches,
    format: "onnx",
  });
  expect(Buffer.from(onnx).equals(Buffer.from(qdq.saveOnnx(quantized)))).toBe(true);
});

test("writes the kind of file that it was given, unless it is told another", async () => {
  const onnx = qdq.saveOnnx(program);
  const kindOf = (bytes) => (Buffer.from(bytes.subarray(0, 2)).toString() === "PK" ? "pt2" : "onnx");
  const options = { quantizer: recipe, calibration: batches };
  const { buffer, byteOffset, byteLength } = onnx;
  for (const file of [onnx, buffer.slice(byteOffset, byteOffset + byteLength), new Blob([onnx])]) {
    const int8 = await door.quantizeModel(file, options);
    expect(kindOf(int8)).toBe("onnx");
    expect(int8.length).toBeLessThan(onnx.length);
  }
  expect(kindOf(await door.quantizeModel(onnx, { ...options, format: "pt2" }))).toBe("pt2");
  expect(kindOf(await door.quantizeModel(new Blob([model()]), options))).toBe("pt2");
});

test("asks for no batch where the quantizer needs none", async () => {
  let asked = 0;
  const calibration = (function* () {
    for (;;) {
      asked += 1;
      yield batches[0];
    }
  })();
  const config = qdq.getSymmetricQuantizationConfig({ isPerChannel: true, isDynamic: true });
  const quantizer = new qdq.XNNPACKQuantizer().setGlobal(config);
  const without = await door.quantizeModel(model(), { quantizer });
  for (const recover of [false, true]) {
    const onProgress = () => (asked += 1);
    const int8 = await door.quantizeModel(model(), { quantizer, calibration, onProgress, recover });
    if (!recover) expect(Buffer.from(int8).equals(Buffer.from(without))).toBe(true);
  }
  expect(asked).toBe(0);
});

test("quantizes for a runtime to the bytes of its profile", async () => {
  const { recipe, onnx } = await qdq.runtimeProfile("ort");
  const prepared = qdq.preparePt2e(program, recipe);
  for (const batch of batches) prepared.run(batch);
  await expect(qdq.recover(prepared, batches, { runtime: "tflite" })).rejects.toThrow("tflite");
  await qdq.recover(prepared, batches, { runtime: "ort" });
  const made = await door.quantizeModel(model(), { runtime: "ort", calibration: batches, recover: true });
  expect(Buffer.from(made).equals(Buffer.from(qdq.saveOnnx(qdq.convertPt2e(prepared), onnx)))).toBe(true);
  const executorch = await door.quantizeModel(model(), { runtime: "executorch", calibration: batches });
  expect(Buffer.from(executorch).subarray(0, 2).toString()).toBe("PK");
});

test("recovers accuracy to the bytes of the synchronous door, with samples and without", async () => {
  const prepared = qdq.preparePt2e(program, recipe);
  for (const batch of batches) prepared.run(batch);
  const expected = await qdq.recover(prepared, batches);
  const results = [];
  const options = {
    quantizer: recipe,
    calibration: batches,
    recover: true,
    onRemedy: (result) => results.push(result),
  };
  const pt2 = await door.quantizeModel(model(), options);
  expect(results).toEqual(expected);
  expect(results.some(({ changes }) => changes > 0)).toBe(true);
  expect(Buffer.from(pt2).equals(Buffer.from(qdq.savePt2(qdq.convertPt2e(prepared))))).toBe(true);

  const config = qdq.getSymmetricQuantizationConfig({ isPerChannel: true, isDynamic: true });
  const quantizer = new qdq.XNNPACKQuantizer().setGlobal(config);
  const without = qdq.preparePt2e(program, quantizer);
  await qdq.recoverWithoutData(without);
  const dynamic = await door.quantizeModel(model(), { quantizer, recover: true });
  expect(Buffer.from(dynamic).equals(Buffer.from(qdq.savePt2(qdq.convertPt2e(without))))).toBe(true);

  const controller = new AbortController();
  const work = { ...options, signal: controller.signal, onRemedy: () => controller.abort(new Error("enough")) };
  await expect(door.quantizeModel(model(), work)).rejects.toThrow("enough");
});

test("an abort ends the worker in the middle, with the signal's reason", async () => {
  const controller = new AbortController();
  const reason = new Error("the user left");
  const endless = (function* () {
    for (;;) yield batches[0];
  })();
  const options = { quantizer: recipe, calibration: endless, signal: controller.signal };
  const work = door.quantizeModel(model(), { ...options, onProgress: () => controller.abort(reason) });
  await expect(work).rejects.toBe(reason);
  await expect(door.openSession(model(), { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
});

test("an abort ends work that waits for data, and a signal that is none is refused", async () => {
  const calibration = { [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => {}) }) };
  const work = door.quantizeModel(model(), { quantizer: recipe, calibration, signal: AbortSignal.timeout(50) });
  await expect(work).rejects.toMatchObject({ name: "TimeoutError" });
  const session = await door.openSession(model());
  for (const signal of ["later", 5, {}, { aborted: false }])
    for (const refused of [
      door.openSession(model(), { signal }),
      door.quantizeModel(model(), { quantizer: recipe, calibration, signal }),
      session.run(batches[0], { signal }),
    ])
      await expect(refused).rejects.toMatchObject({
        name: "QdqError",
        message: expect.stringMatching(/signal of .*, wanted an AbortSignal/),
      });
  session.dispose();
});

test("warnings come back, of settings, of lost outputs and of the file", async () => {
  const warnings = [];
  const lossy = { quantizer: "XNNPACKQuantizer", global: { act_qmin: 0, act_qmax: 1 }, module_name: [["heda", null]] };
  const calibration = [
    [
      qdq.tensor(
        new Float32Array(4800).map((_, i) => Math.sin(i)),
        [1, 3, 40, 40],
      ),
    ],
  ];
  const onWarning = (warning) => warnings.push(warning);
  await door.quantizeModel(model(), { quantizer: lossy, calibration, format: "onnx", onWarning });
  expect(warnings).toEqual([
    expect.stringMatching(/module heda reaches nothing/),
    expect.stringMatching(/is lost in integers/),
  ]);
  warnings.length = 0;
  const sound = { quantizer: "XNNPACKQuantizer", global: {} };
  await door.quantizeModel(model(), { quantizer: sound, calibration, format: "onnx", onWarning });
  expect(warnings).toEqual([expect.stringMatching(/can lose accuracy in \d+ layers/)]);
});

test("errors come back as they are", async () => {
  await expect(door.openSession(new Uint8Array(100))).rejects.toMatchObject({ name: "QdqError", code: "BadFile" });
  await expect(door.openSession(model(), { thread: 2 })).rejects.toThrow("did you mean threads?");
  await expect(door.quantizeModel(model(), { quantizer: recipe })).rejects.toMatchObject({ code: "NotCalibrated" });
  await expect(door.quantizeModel(model(), { quantizer: { annotate: () => [] } })).rejects.toThrow(
    "written in JavaScript cannot go to a worker",
  );
});

test("quantizeModel() of what it does not take", async () => {
  for (const [options, words] of [
    [undefined, /quantizeModel was given a undefined as its options/],
    [null, /quantizeModel was given null as its options/],
    [{}, /got neither quantizer nor runtime, wanted one of them/],
    [{ quantizer: recipe, runtime: "ort" }, /got both quantizer and runtime, wanted one of them/],
    [{ runtime: "tflite" }, /tflite/],
    [{ runtime: 5 }, /runtime is 5, wanted the name of one/],
    [{ quantizer: null }, /the quantizer is neither/],
    [{ quantizer: recipe, calibration: 5 }, /calibration is 5, wanted a list or an iterable of batches/],
    [{ quantizer: recipe, calibration: new Float32Array(4) }, /wanted a list or an iterable of batches/],
    [{ quantizer: recipe, calibration: "x" }, /calibration is x, wanted a list/],
    [{ quantizer: recipe, format: Symbol("f") }, /format is Symbol\(f\), wanted "pt2" or "onnx"/],
    [{ quantizer: recipe, calibration: [[5]] }, /input 0 is not a tensor/],
    [{ quantizer: recipe, calibration: [null] }, /the inputs are not a list of tensors/],
    [{ quantizer: recipe, calibration: [[() => 5]] }, /this cannot go to a worker/],
    [{ quantizer: recipe, threads: NaN }, /threads is NaN/],
    [{ quantizer: recipe, recover: "yes" }, /recover is yes, wanted true or false/],
    [{ quantizer: recipe, onRemedy: () => {} }, /set recover, or leave onRemedy out/],
  ]) {
    const error = await door.quantizeModel(model(), options).catch((reason) => reason);
    expect(error.name).toBe("QdqError");
    expect(error.message).toMatch(words);
  }
});

test("an ES module uses it too, and its process ends with an open session", async () => {
  const script = `
    import { readFileSync } from "node:fs";
    import { openSession, tensor } from "./dist/esm/node/async.js";
    const session = await openSession(readFileSync("examples/shapes/model.pt2"));
    const outputs = await session.run({ x: tensor(new Float32Array(4800), [1, 3, 40, 40]) });
    console.log(Object.values(outputs)[0].shape.join());`;
  const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", script], {
    cwd: path.join(__dirname, "../.."),
    timeout: 30000,
  });
  expect(stdout).toBe("1,16\n");
});

test("a decoder gives the tokens of generate(), and an abort ends its loop alone", async () => {
  const file = () => readFileSync(path.join(__dirname, "../../examples/decoder/decoder.pt2"));
  const decoder = await door.openDecoder(file());
  expect(decoder.capacity).toBe(24);
  const all = async (options, ids = [5, 9, 33, 2]) => {
    const out = [];
    for await (const token of decoder.generate(ids, options)) out.push(token);
    return out;
  };
  expect(await all({ maxTokens: 6 })).toEqual([8, 41, 63, 36, 58, 16]);
  expect(await all({ maxTokens: 8, temperature: 2, topK: 20, seed: 5 })).toEqual([36, 23, 28, 4, 20, 55, 37, 16]);
  expect(await all({ maxTokens: 16, stop: [63] })).toEqual([8, 41, 63]);
  const reason = new Error("enough");
  await expect(all({ maxTokens: 4, signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
  const controller = new AbortController();
  const loop = decoder.generate([5], { maxTokens: 8, signal: controller.signal });
  await loop.next();
  const next = loop.next();
  controller.abort(reason);
  await expect(next).rejects.toBe(reason);
  const first = decoder.generate([5], { maxTokens: 8 });
  await first.next();
  expect(await all({ maxTokens: 2 })).toEqual([8, 41]);
  await expect(first.next()).rejects.toThrow("generate() of this decoder was called again");
  await expect(all({ maxTokens: 30 })).rejects.toThrow("do not fit into the decoder's cache of 24 places");
  await expect(all({ maxTokens: 2 }, [0.5])).rejects.toThrow("the prompt has 0.5");
  await expect(all({ maxTokens: 2, topk: 3 })).rejects.toThrow("did you mean topK?");
  await expect(door.openDecoder(model())).rejects.toThrow("the model takes no token ids");
  const waiting = decoder.generate([5], { maxTokens: 8 }).next();
  decoder.dispose();
  await expect(waiting).rejects.toMatchObject({ code: "Cancelled" });
});
