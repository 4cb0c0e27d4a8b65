// Recovery of accuracy in the package.
const { images, model, qdq } = require("./shapes.js");

const quantizer = () =>
  new qdq.XNNPACKQuantizer().setGlobal(qdq.getSymmetricQuantizationConfig({ isPerChannel: true }));

let program;
let batches;
let many; // samples: of fewer than 64 a remedy has to show first that it serves others
beforeAll(async () => {
  program = await qdq.loadPt2(model());
  batches = [1, 2, 3].map((seed) => [images(program, 4, seed)]);
  many = [1, 2, 3, 4].map((seed) => [images(program, 16, seed)]);
});

// The error that a promise is rejected with.
const rejected = (promise) =>
  promise.then(
    () => {
      throw new Error("nothing was thrown");
    },
    (error) => error,
  );

async function calibrated(data = batches) {
  const prepared = qdq.preparePt2e(program, quantizer());
  await prepared.calibrate(data);
  return prepared;
}

test("recovery brings the outputs nearer and says by how much", async () => {
  const prepared = await calibrated(many);
  const stages = new Set();
  const told = [];
  const results = await qdq.recover(prepared, many, {
    onProgress: ({ stage, done }) => {
      stages.add(stage);
      expect(done).toBeGreaterThanOrEqual(0);
      expect(done).toBeLessThanOrEqual(1);
    },
    onRemedy: (result) => told.push(result),
  });
  expect(told).toEqual(results);
  expect(results.map(({ remedy }) => remedy)).toEqual([
    "weight scales",
    "inputs",
    "equalization",
    "shifts",
    "ranges",
    "sums",
    "outputs",
    "rounding",
    "bias correction",
  ]);
  expect(results.at(-1).after).toBeGreaterThan(results[0].before + 1);
  expect(stages).toContain("ranges");
  expect(qdq.savePt2(qdq.convertPt2e(prepared)).length).toBeGreaterThan(0);
});

test("batches may share an array that is filled again", async () => {
  const files = [];
  function* refilled() {
    const shared = qdq.tensor(new Float32Array(batches[0][0].data.length), batches[0][0].shape);
    for (const [image] of batches) {
      shared.data.set(image.data);
      yield [shared];
    }
  }
  for (const made of [batches, refilled()]) {
    const prepared = await calibrated();
    const results = await qdq.recover(prepared, made);
    files.push([results, Buffer.from(qdq.savePt2(qdq.convertPt2e(prepared))).toString("base64")]);
  }
  expect(files[1]).toEqual(files[0]);
});

test("an abort ends work that waits for its samples", async () => {
  const samples = { [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => {}) }) };
  const prepared = await calibrated();
  for (const work of ["calibrate", "recover", "gptq", "awq", "sensitivities"]) {
    const options = { signal: AbortSignal.timeout(20) };
    const promise = work === "calibrate" ? prepared.calibrate(samples, options) : qdq[work](prepared, samples, options);
    expect(await rejected(promise)).toMatchObject({ name: "QdqError", code: "Cancelled" });
  }
  const options = { wanted: 20, precisions: [1n] };
  expect(await rejected(qdq.choosePrecision(prepared, batches, options))).toMatchObject({
    name: "QdqError",
    message: expect.stringMatching(/^what choosePrecision\(\) was given is not plain data/),
  });
});

test("a cancelled recovery keeps the remedies before", async () => {
  const prepared = await calibrated(many);
  const abort = new AbortController();
  let results = [];
  const error = await rejected(
    qdq.recover(prepared, many, {
      signal: abort.signal,
      onRemedy: (result) => results.push(result),
      onProgress: ({ stage, done }) => {
        if (stage === "bias correction" && done > 0.3) abort.abort();
      },
    }),
  );
  expect(error.code).toBe("Cancelled");
  expect(results.map(({ remedy }) => remedy)).toEqual([
    "weight scales",
    "inputs",
    "equalization",
    "shifts",
    "ranges",
    "sums",
    "outputs",
    "rounding",
  ]);
  // What stayed is what those give.
  const other = await calibrated(many);
  const again = await qdq.recover(other, many, {});
  expect(again.slice(0, results.length)).toEqual(results);
  // It can be taken up again.
  results = await qdq.recover(prepared, many);
  expect(results[0].before).toBe(again[6].after);
  expect(results.at(-1).after).toBeGreaterThan(again[6].after);
});

test("recovery refuses what it cannot judge", async () => {
  const fresh = qdq.preparePt2e(program, quantizer());
  expect((await rejected(qdq.recover(fresh, batches))).code).toBe("NotCalibrated");
  const prepared = await calibrated();
  expect((await rejected(qdq.recover(prepared, []))).message).toContain("no samples");
  expect((await rejected(qdq.recover(prepared, 3))).message).toContain("wanted [[tensor, ...], ...]");
  expect((await rejected(qdq.recover(prepared, batches, { onRemdy: 1 }))).message).toContain("onRemedy");
});

test("biases are corrected without data, by what batch norms tell", async () => {
  const few = new qdq.XNNPACKQuantizer().setGlobal(
    qdq.getSymmetricQuantizationConfig({ isPerChannel: true, weightQmin: -8, weightQmax: 7 }),
  );
  const outputs = (of) => {
    const session = qdq.lower(of);
    return batches.flatMap((batch) => [...session.run(batch)[0].data]);
  };
  const wanted = outputs(program);
  const noise = (prepared) =>
    outputs(qdq.convertPt2e(prepared)).reduce((sum, value, i) => sum + (value - wanted[i]) ** 2, 0);
  const quantized = async () => {
    const prepared = qdq.preparePt2e(program, few);
    await prepared.calibrate(batches);
    return prepared;
  };
  const prepared = await quantized();
  expect(await qdq.recoverWithoutData(prepared)).toBeGreaterThan(1);
  expect(noise(prepared)).toBeLessThan(0.8 * noise(await quantized()));
});

test("sensitivities tell what every operator costs", async () => {
  const prepared = await calibrated();
  const { all, operators } = await qdq.sensitivities(prepared, batches, {});
  const convolutions = operators.filter(({ op }) => op.startsWith("aten.conv2d"));
  expect(convolutions.length).toBeGreaterThan(3);
  for (const { own, alone, without } of convolutions) {
    expect(own).toBeGreaterThan(10);
    expect(alone).toBeGreaterThan(all);
    expect(without).toBeGreaterThan(0);
  }
});

test("weights of 4 bits are rounded for the outputs, and a score of one's own chooses what stays float", async () => {
  const few = new qdq.XNNPACKQuantizer().setGlobal(
    qdq.getSymmetricQuantizationConfig({ isPerChannel: true, weightQmin: -8, weightQmax: 7 }),
  );
  const prepared = qdq.preparePt2e(program, few);
  await prepared.calibrate(batches);
  const results = await qdq.recover(prepared, batches);
  const rounding = results.find(({ remedy }) => remedy === "rounding");
  expect(rounding.changes).toBeGreaterThan(3);
  expect(rounding.after).toBeGreaterThan(rounding.before + 3);
  // Its float program is still the one from before.
  const session = qdq.lower(program);
  const wanted = batches.map((batch) => session.run(batch)[0].data);
  let calls = 0;
  const score = (outputs) => {
    calls += 1;
    let signal = 0;
    let noise = 0;
    outputs.forEach(([{ data }], i) => {
      data.forEach((value, j) => {
        signal += wanted[i][j] ** 2;
        noise += (wanted[i][j] - value) ** 2;
      });
    });
    return 10 * Math.log10(signal / noise);
  };
  const { before } = await qdq.reachScore(prepared, batches, score, -100);
  expect(calls).toBe(1);
  const found = await qdq.reachScore(prepared, batches, score, before + 1);
  expect(found.reached).toBe(true);
  expect(found.before).toBe(before);
  expect(found.after).toBeGreaterThanOrEqual(before + 1);
  expect(found.operators.length).toBeGreaterThan(0);
  expect(found.trials[0]).toMatchObject({ precision: "int8", operators: 0, score: before });
  const out = await qdq.reachScore(prepared, batches, score, 1000);
  expect(out.reached).toBe(false);
  expect(out.operators).toEqual([]);
  const thrown = await rejected(
    qdq.reachScore(
      prepared,
      batches,
      () => {
        throw new Error("mine");
      },
      1000,
    ),
  );
  expect(thrown.message).toBe("mine");
  expect((await rejected(qdq.reachScore(prepared, batches, () => "no", 1))).message).toContain("wanted a number");
  expect((await rejected(qdq.reachScore(prepared, batches, score, "99"))).message).toContain("wanted a number");
});

test("a wish chooses precisions, goes on from a search, and keeps to its limits", async () => {
  const least = qdq.savePt2(qdq.convertPt2e(await calibrated())).length;
  const texts = [];
  const prepared = await calibrated();
  const wish = { maxBytes: least * 1.5, precisions: ["int16", "float"], onSearch: (text) => texts.push(text) };
  const found = await qdq.choosePrecision(prepared, batches, wish);
  expect(found.reached).toBe(true);
  expect(found.after).toBeGreaterThan(found.before);
  expect(found.best.bytes).toBeLessThanOrEqual(least * 1.5);
  const file = qdq.savePt2(qdq.convertPt2e(prepared));
  expect(file.length).toBe(found.best.bytes);
  expect(new Set(found.trials.map(({ precision }) => precision))).toEqual(new Set(["int8", "int16", "float"]));
  expect(found.trials.some(({ front }) => front)).toBe(true);
  // From half of what was known the same comes out, and nothing is tried again.
  let told = 0;
  const again = await calibrated();
  const search = texts[Math.floor(texts.length / 2)];
  const same = await qdq.choosePrecision(again, batches, { ...wish, search, onSearch: () => (told += 1) });
  expect(same).toEqual(found);
  expect(told).toBe(texts.length - Math.floor(texts.length / 2) - 1);
  expect(Buffer.compare(qdq.savePt2(qdq.convertPt2e(again)), file)).toBe(0);

  const out = await qdq.choosePrecision(await calibrated(), batches, { maxBytes: 10 });
  expect([out.reached, out.operators, out.best.operators]).toEqual([false, [], 0]);
  const timed = await qdq.choosePrecision(await calibrated(), batches, { maxSeconds: 100, precisions: ["float"] });
  expect(timed.trials.every(({ seconds }) => seconds > 0)).toBe(true);
  for (const [options, wanted] of [
    [{}, "nothing is wished"],
    [{ maxBytes: "1MB" }, "maxBytes of the wish is 1MB; wanted a number"],
    [{ maxBytes: 1e6, precisions: ["int3"] }, "there is no precision 'int3'"],
    [{ maxBytes: 1e6, format: "npz" }, 'format is npz; wanted "pt2" or "onnx"'],
    [{ maxBytes: 1e6, search: "{}" }, "is not a file that --search wrote"],
    [{ maxSize: 1 }, "maxSize"],
  ])
    expect((await rejected(qdq.choosePrecision(prepared, batches, options))).message).toContain(wanted);
});

test("outputs are measured by metrics of the field", () => {
  const f32 = (shape, data) => ({ dtype: "float32", shape, data: new Float32Array(data) });
  const boxes = [[f32([1, 2, 6], [0, 0, 10, 10, 0.9, 1, 20, 20, 30, 40, 0.8, 2])]];
  const moved = [[f32([1, 2, 6], [0, 0, 9, 10, 0.9, 1, 50, 20, 60, 40, 0.8, 2])]];
  expect(qdq.measure("box-f1", boxes, { reference: boxes })).toBe(1);
  expect(qdq.measure("box-f1", moved, { reference: boxes })).toBe(0.5);
  expect(qdq.measure("box-map", moved, { reference: boxes })).toBeCloseTo(0.45, 9);
  const text = { dtype: "int64", shape: [1, 3], data: new BigInt64Array([1n, 0n, 1n]) };
  const logits = [[f32([1, 3, 2], [Math.log(3), 0, 0, Math.log(3), 0, 0])]];
  expect(qdq.measure("perplexity", logits, { inputs: [[text]] })).toBeCloseTo(4 / 3, 6);
  expect(qdq.measure("token-f1", logits, { labels: text })).toBe(0);
  for (const [wanted, metric, outputs, samples] of [
    ["there is no metric f1; wanted one of box-f1", "f1", boxes, {}],
    ["with those of the float model", "box-f1", boxes, {}],
    ["hold no boxes that are known", "box-f1", logits, { reference: logits }],
    ["outputs is not a list of batches", "box-f1", 1, {}],
    ["refrence", "box-f1", boxes, { refrence: boxes }],
  ])
    expect(() => qdq.measure(metric, outputs, samples)).toThrow(wanted);
});

const inGroups = (size) => ({
  quantizer: "PatternQuantizer",
  patterns: [{ name: "linear", operators: ["aten.linear"], output: "float" }],
  global: {
    weight: {
      spec: "quantization",
      dtype: "int8",
      quant_min: -8,
      quant_max: 7,
      qscheme: "per_channel_symmetric",
      ch_axis: 0,
      observer: { class: "PerGroupMSEObserver", args: { group_size: size } },
    },
  },
});

test("weights in groups are rounded by the samples", async () => {
  const recipe = inGroups(4);
  const errors = [];
  const [exact] = qdq.lower(program).run(batches[0]);
  for (const rounds of [false, true]) {
    const prepared = qdq.preparePt2e(program, recipe);
    const told = [];
    if (rounds) expect(await qdq.gptq(prepared, batches, { onProgress: (at) => told.push(at) })).toBeGreaterThan(0);
    if (rounds)
      expect(told.at(-1)).toEqual({ stage: "rounding weights", done: told.length - 1, total: told.length - 1 });
    const [found] = qdq.lower(qdq.convertPt2e(prepared)).run(batches[0]);
    errors.push(found.data.reduce((sum, value, i) => sum + (value - exact.data[i]) ** 2, 0));
  }
  expect(errors[1]).toBeGreaterThan(0);
  expect(errors[1]).toBeLessThan(errors[0] / 2);
  const prepared = qdq.preparePt2e(program, recipe);
  const signal = AbortSignal.abort();
  expect(await rejected(qdq.gptq(prepared, batches, { signal }))).toMatchObject({ code: "Cancelled" });
  expect(await rejected(qdq.gptq(prepared, []))).toMatchObject({ message: expect.stringMatching(/no samples/) });
});

test("layers get weights of 8 bits in place of 4 within a size", async () => {
  const prepared = qdq.preparePt2e(program, inGroups(16)); // which ONNX stores in 4 bits
  const size = () => qdq.saveOnnx(qdq.convertPt2e(prepared)).length;
  const narrow = size();
  const wish = { maxBytes: 1e9, format: "onnx", precisions: ["int8-weights"] };
  const mixed = await qdq.choosePrecision(prepared, batches, wish);
  expect(mixed).toMatchObject({ reached: true, precision: "int8-weights" });
  expect(mixed.after).toBeGreaterThan(mixed.before + 6);
  expect(size()).toBe(mixed.best.bytes);
  expect(size()).toBeGreaterThan(narrow);
});

test("scales by activations want samples, and count the places that have any", async () => {
  const prepared = await calibrated();
  expect(await qdq.awq(prepared, batches)).toBe(0); // no weights in groups
  const signal = AbortSignal.abort();
  expect(await rejected(qdq.awq(prepared, batches, { signal }))).toMatchObject({ code: "Cancelled" });
  expect(await rejected(qdq.awq(prepared, []))).toMatchObject({ message: expect.stringMatching(/no samples/) });
  expect(await rejected(qdq.awq(prepared, batches, { rounds: 1 }))).toMatchObject({ code: "InvalidArgument" });
});

test("ONNX files have operators of integers on request", async () => {
  const quantized = qdq.convertPt2e(await calibrated());
  const text = (bytes) => Buffer.from(bytes).toString("latin1");
  expect(text(qdq.saveOnnx(quantized))).not.toContain("QLinearConv");
  expect(text(qdq.saveOnnx(quantized, { format: "qoperator" }))).toContain("QLinearConv");
  for (const wrong of [{ format: "qlinear" }, { groups: "block" }, { groups: "blocks" }])
    expect(() => qdq.saveOnnx(quantized, wrong)).toThrow(/wanted|groups/);
  expect(() => qdq.saveOnnx(program, { format: "qoperator" })).toThrow(/should have operators of integers/);
});
