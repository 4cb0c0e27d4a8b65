// The CommonJS build of the package: the flow from a float file to a quantized one, and everything that can go wrong on
// the way.
const { execFileSync } = require("node:child_process");
const path = require("node:path");
const { images, model, qdq, thrown } = require("./shapes.js");

const { ComposableQuantizer, QdqError, X86InductorQuantizer, XNNPACKQuantizer } = qdq;
const perChannel = () => new XNNPACKQuantizer().setGlobal(qdq.getSymmetricQuantizationConfig({ isPerChannel: true }));
const largest = (a, b) => a.reduce((most, value, i) => Math.max(most, Math.abs(value - b[i])), 0);

let program;
beforeAll(async () => {
  program = await qdq.loadPt2(model());
});

// The bytes are never touched, so that the system gives them without having them.
test("what lives in WASM is not made with new", () => {
  for (const type of [qdq.Program, qdq.Prepared, qdq.Session, qdq.Evaluation])
    expect(() => new type()).toThrow(`a ${type.name} is not made with new; a function of qdq gives it`);
});

test("a file that cannot fit is refused before it is copied", async () => {
  await expect(qdq.loadPt2(new Uint8Array(4_294_950_000))).rejects.toMatchObject({
    code: "OutOfMemory",
    message: expect.stringMatching(
      /^a copy of these bytes needs at least 4295 MB of memory, and \d+ MB are left of the 4 GB .*native program$/,
    ),
  });
});

test("an argument of the wrong kind is refused with a sentence", async () => {
  const prepared = qdq.preparePt2e(program, perChannel());
  const refusal = (words) => ({ code: "InvalidArgument", message: expect.stringMatching(words) });
  const fails = (work, words) => expect(thrown(work)).toMatchObject({ name: "QdqError", ...refusal(words) });
  for (const none of ["model.pt2", 5, undefined, null, {}, [80, 75]]) {
    const words = /^loadPt2 was given a \w+, wanted the bytes of a .pt2 file as a Uint8Array or an ArrayBuffer$/;
    await expect(qdq.loadPt2(none)).rejects.toMatchObject(refusal(words));
  }
  const notProgram = /^this is not a program, or it has been disposed of$/;
  for (const none of [undefined, null, {}, 7, prepared]) {
    fails(() => qdq.savePt2(none), notProgram);
    fails(() => qdq.lower(none), notProgram);
    fails(() => qdq.preparePt2e(none, perChannel()), notProgram);
    fails(() => qdq.getSourcePartitions(none, []), notProgram);
  }
  fails(() => qdq.convertPt2e(program), /^this is not a prepared program, or it has been disposed of$/);
  for (const none of [undefined, null, {}, "xnnpack", 3])
    fails(() => qdq.preparePt2e(program, none), /^the quantizer is neither one of/);
  fails(() => new ComposableQuantizer("both"), /made of a list of quantizers$/);
  for (const none of [undefined, "int8"]) {
    fails(
      () => new XNNPACKQuantizer().setGlobal(none),
      /^a setting of XNNPACKQuantizer is \w+, wanted a quantization config, or null for float$/,
    );
  }
  for (const none of [undefined, 3, "data"]) {
    await expect(prepared.calibrate(none)).rejects.toMatchObject(refusal(/^the calibration data is not a list/));
  }
  for (const none of [undefined, null])
    fails(() => prepared.loadObservers(none), /^the report of observers is not the statistics of/);
  for (const none of [undefined, null, "x"]) fails(() => qdq.matchPattern(program, none), /pattern/);
  fails(() => qdq.openData(program, { "a.npy": new Uint8Array(3) }), /^the files are no Map; wanted new Map/);
  fails(() => qdq.openData(program, new Map(), { batchSize: 1.5 }), /^batchSize is 1.5, it must be a whole number$/);
  fails(() => qdq.reportHtml(undefined), /report/);
  fails(() => qdq.evaluate(program, program, null), /labels/);
});

test("settings that make no sense are refused", () => {
  for (const settings of [{ threads: 0 }, { maxMemory: -1 }, { maxMemory: 1.5 }]) {
    const [[name, value]] = Object.entries(settings);
    // Elsewhere, since here a load has come before.
    const script = `const { configure } = require("./dist/cjs/node/index.js");
      try { configure(${JSON.stringify(settings)}) } catch (e) { console.log(e.message) }`;
    const message = execFileSync(process.execPath, ["-e", script], {
      cwd: path.join(__dirname, "../.."),
      encoding: "utf8",
    });
    expect(message).toBe(`${name} is ${value}, it must be a whole number of at least 1\n`);
  }
});

test("a recipe says whether it needs data", () => {
  const fixed = qdq.preparePt2e(program, perChannel());
  expect(fixed.needsData()).toBe(true);
  fixed.run([images(program, 2)]);
  expect(fixed.needsData()).toBe(false);
  const dynamic = qdq.preparePt2e(
    program,
    new XNNPACKQuantizer().setGlobal(qdq.getSymmetricQuantizationConfig({ isDynamic: true })),
  );
  expect(dynamic.needsData()).toBe(false);
  qdq.convertPt2e(dynamic).dispose();
});

describe("the flow", () => {
  test("quantizes, saves, loads and runs", async () => {
    const before = program.info();
    const prepared = qdq.preparePt2e(program, perChannel());
    const batch = images(program, 4);
    const [floatLogits] = prepared.run([batch]);
    prepared.run([images(program, 3, 2)]);
    const quantized = qdq.convertPt2e(prepared);
    const bytes = qdq.savePt2(quantized);
    expect(bytes.length).toBeLessThan(model().length / 2);

    const session = qdq.lower(quantized);
    const [logits] = session.run([batch]);
    expect(logits.shape).toEqual(floatLogits.shape);
    expect(logits.data).toBeInstanceOf(Float32Array);
    const range = Math.max(...floatLogits.data) - Math.min(...floatLogits.data);
    expect(largest(logits.data, floatLogits.data)).toBeGreaterThan(0);
    expect(largest(logits.data, floatLogits.data)).toBeLessThan(range / 5);

    const again = await qdq.loadPt2(bytes);
    expect(qdq.lower(again).run([batch])[0].data).toEqual(logits.data);
    expect(program.info()).toEqual(before);
  });

  test("takes and gives complex numbers as pairs", async () => {
    const program = await qdq.loadPt2(require("node:fs").readFileSync("tests/golden/programs/complex.pt2"));
    expect(program.info().inputs.map((input) => input.dtype)).toEqual(["complex64", "complex64"]);
    const complex = (data) => ({ dtype: "complex64", shape: [2, 4], data: Float32Array.from(data) });
    const z = complex([1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 0, -1, 2, 0, -2, 0]);
    const w = complex(new Array(8).fill([1, -2]).flat());
    const [product, difference, size, mixed] = qdq.lower(program).run([z, w]);
    // z conj(w) + 2, where conj(w) is 1 + 2i.
    expect(product).toMatchObject({ dtype: "complex64", shape: [2, 4] });
    expect([...product.data].slice(0, 4)).toEqual([-1, 4, -3, 10]);
    expect(difference).toMatchObject({ dtype: "float32", shape: [2, 4, 2] });
    expect([...difference.data].slice(0, 4)).toEqual([0, 4, 2, 6]);
    expect(size).toMatchObject({ dtype: "float32", shape: [2, 2] });
    expect([...mixed.data].slice(0, 4)).toEqual([1, -2, 3, -2]);
    expect(thrown(() => qdq.lower(program).run([{ ...z, shape: [4, 4] }, w]))).toMatchObject({
      message: "input 0 is not a tensor: shape [4, 4] needs 32 elements, its data has 16; wanted {dtype, shape, data}",
    });
  });

  test("tells of outputs that integers lose", async () => {
    const program = await qdq.loadPt2(model());
    const lossy = (actQmax) =>
      qdq.preparePt2e(
        program,
        new qdq.XNNPACKQuantizer().setGlobal(qdq.getSymmetricQuantizationConfig({ actQmin: 0, actQmax })),
      );
    const batches = [[images(program, 32)], [images(program, 32, 2)]];
    const warnings = [];
    const prepared = lossy(1);
    await prepared.calibrate(batches, { onWarning: (warning) => warnings.push(warning) });
    expect(warnings.at(-1)).toMatch(/^the output \w+ is lost in integers/);
    expect(prepared.calibrationWarnings(...batches)).toEqual(warnings);
    const sound = lossy(127);
    await sound.calibrate(batches);
    expect(sound.calibrationWarnings(batches[0]).join()).not.toMatch(/is lost/);
    await expect(sound.calibrate(batches, { onWarnings() {} })).rejects.toThrow("did you mean onWarning?");
  });

  test("reads ONNX models, quantizes them and writes them", async () => {
    const onnx = await qdq.loadOnnx(require("node:fs").readFileSync("tests/golden/onnx/vision.onnx"));
    expect(onnx.info().inputs[0].shape).toEqual(["s0", 3, 8, 8]);
    const batch = images(onnx, 4);
    const prepared = qdq.preparePt2e(onnx, perChannel());
    const [floats] = prepared.run([batch]);
    const warnings = [];
    const bytes = qdq.saveOnnx(qdq.convertPt2e(prepared), { onWarning: (warning) => warnings.push(warning) });
    expect(warnings).toEqual([expect.stringMatching(/^ONNX Runtime can lose accuracy in 3 layers on .*--reduce/)]);
    const again = await qdq.loadPt2(bytes); // by its bytes
    const quantizedTo = (model) =>
      new Set(
        model
          .info()
          .nodes.filter((node) => /\.quantize_per_tensor/.test(node.target))
          .map((node) => node.dtype),
      );
    expect(quantizedTo(again)).toEqual(new Set(["uint8"]));
    const asSigned = qdq.saveOnnx(qdq.convertPt2e(prepared), { signedActivations: true });
    expect(quantizedTo(await qdq.loadOnnx(asSigned))).toEqual(new Set(["int8"]));
    const targets = again.info().nodes.map((node) => node.target);
    expect(targets.filter((target) => /dequantize_per_channel/.test(target)).length).toBe(3);
    const [logits] = qdq.lower(again).run([batch]);
    const range = Math.max(...floats.data) - Math.min(...floats.data);
    expect(largest(logits.data, floats.data)).toBeLessThan(range / 5);
    const beside = (name) => require("node:fs").readFileSync(`tests/golden/onnx/external/${name}`);
    const external = await qdq.loadOnnx(beside("vision.onnx"), { "vision.onnx.data": beside("vision.onnx.data") });
    expect(qdq.lower(external).run([batch])[0].data).toEqual(qdq.lower(onnx).run([batch])[0].data);
    await expect(qdq.loadOnnx(beside("vision.onnx"), {})).rejects.toMatchObject({
      code: "Unsupported",
      message: expect.stringMatching(/keeps tensors in the file vision.onnx.data; give its bytes too/),
    });
    const one = await qdq.loadOnnx(
      beside("vision.onnx"),
      { "vision.onnx.data": beside("vision.onnx.data") },
      { fix: { batch: 1 } },
    );
    expect(one.info().inputs[0].shape).toEqual([1, 3, 8, 8]);
    for (const [options, message] of [
      [{ fix: { bach: 1 } }, /no input and no open size bach that could be 1; .* its open sizes are batch/],
      [{ fix: { batch: "1" } }, /fix.batch is neither a number nor an array of sizes/],
      [{ fixed: { batch: 1 } }, /loadOnnx has no option fixed; did you mean fix\?/],
    ])
      await expect(
        qdq.loadOnnx(beside("vision.onnx"), { "vision.onnx.data": beside("vision.onnx.data") }, options),
      ).rejects.toMatchObject({
        code: "InvalidArgument",
        message: expect.stringMatching(message),
      });
    expect(() => qdq.lower(one, { backnd: "simd" })).toThrow(/lower has no option backnd; did you mean backend\?/);
    expect(() => qdq.convertPt2e(prepared, { fold: true })).toThrow(/convertPt2e has no option fold/);
    expect(qdq.lower(onnx, { fuse: false }).run([batch])[0].data.length).toBe(floats.data.length);
    const warned = [];
    const recipe = new qdq.XNNPACKQuantizer().setModuleName("haed", null);
    const nothing = qdq.preparePt2e(onnx, recipe, { onWarning: (warning) => warned.push(warning) });
    expect(warned).toEqual(nothing.warnings());
    expect(warned[0]).toMatch(/the setting for module haed reaches nothing/);
    expect(() => qdq.preparePt2e(again, perChannel())).toThrow(/the program is quantized already/);
    expect(
      qdq
        .fuseFx(onnx, "x86")
        .info()
        .nodes.some((node) => /batch_norm/.test(node.target)),
    ).toBe(false);
    expect(() => qdq.fuseFx(onnx, "x68")).toThrow(/x86/);
    const factors = new qdq.QConfigMapping().setGlobal({ named: "default_equalization_qconfig" });
    const equalized = qdq.preparePt2e(onnx, qdq.getDefaultQConfigMapping("x86").setEqualizationConfig(factors));
    equalized.run([batch]);
    expect(
      qdq
        .convertPt2e(equalized)
        .info()
        .attributes.some(({ name }) => /_equalization_scale/.test(name)),
    ).toBe(true);
    expect(qdq.moveExportedModelToEval(onnx).info().nodes.length).toBe(onnx.info().nodes.length);
    await expect(qdq.loadOnnx(new Uint8Array([8, 8]))).rejects.toMatchObject({
      code: "BadFile",
      message: expect.stringMatching("not an ONNX model"),
    });
    await expect(qdq.loadOnnx("x")).rejects.toMatchObject({
      message: expect.stringMatching("^loadOnnx was given a String, wanted the bytes of an ONNX file"),
    });
  });

  test("gives what the float program gives, on both backends", () => {
    const batch = images(program, 2);
    const inBf16 = qdq.lower(program, { bf16: true });
    expect(inBf16.warnings()[0]).toMatch(/plain loops give the same numbers, and are slower than float32/);
    const [rounded] = inBf16.run([batch]);
    const [simd] = qdq.lower(program).run([batch]);
    const [reference] = qdq.lower(program, { backend: "reference" }).run([batch]);
    expect(largest(simd.data, reference.data)).toBeLessThan(1e-4);
    const most = Math.max(...simd.data.map(Math.abs));
    expect(largest(simd.data, rounded.data)).toBeGreaterThan(1e-4 * most);
    expect(largest(simd.data, rounded.data)).toBeLessThan(0.05 * most);
    // Preparing folds the batch norms into the convolutions, which rounds a little differently.
    const [prepared] = qdq.preparePt2e(program, perChannel()).run([batch]);
    expect(largest(prepared.data, simd.data)).toBeLessThan(1e-4);
  });

  test("does not fold weights when asked", () => {
    const prepared = qdq.preparePt2e(program, perChannel());
    prepared.run([images(program, 2)]);
    const count = (converted) =>
      converted
        .info()
        .nodes.filter(
          (node) => node.target.includes("quantize_per_channel.default") && !node.target.includes("dequantize"),
        ).length;
    expect(count(qdq.convertPt2e(prepared))).toBe(0);
    expect(count(qdq.convertPt2e(prepared, { foldQuantize: false }))).toBeGreaterThan(0);
  });

  test("describes programs and observers", () => {
    const info = program.info();
    expect(info.inputs).toHaveLength(1);
    expect(info.inputs[0].dtype).toBe("float32");
    expect(info.nodes.at(-1).op).toBe("output");
    expect(info.attributes.length).toBeGreaterThan(0);
    const prepared = qdq.preparePt2e(program, perChannel());
    expect(prepared.observers().every((observer) => observer.noQparams || observer.class.includes("PerChannel"))).toBe(
      true,
    );
    prepared.run([images(program, 2)]);
    const observers = prepared.observers();
    expect(observers.length).toBeGreaterThan(5);
    for (const observer of observers) {
      expect(observer.covers.length).toBeGreaterThan(0);
      expect(observer.scale.every((scale) => scale > 0)).toBe(true);
    }
  });

  test("gives objects with JavaScript's names, and observers as a file with those of the command line", () => {
    const prepared = qdq.preparePt2e(program, perChannel());
    prepared.run([images(program, 2)]);
    const quantized = qdq.convertPt2e(prepared);
    const names = (value) =>
      value === null || typeof value !== "object"
        ? []
        : Object.entries(value).flatMap(([key, field]) => [
            ...(Array.isArray(value) ? [] : [key]),
            ...(["args", "kwargs"].includes(key) ? [] : names(field)),
          ]);
    const report = qdq.quantizationReport(prepared, quantized);
    const objects = [prepared.observers(), prepared.calibration(), qdq.explain(prepared), quantized.info(), report];
    expect(names(objects).filter((name) => name.includes("_"))).toEqual([]);
    expect(report.qparams[0]).toMatchObject({ quantMin: expect.any(Number), zeroPoint: expect.any(Array) });
    const file = prepared.saveObservers();
    expect(JSON.parse(file)[0].settings).toMatchObject({ quant_min: expect.any(Number), is_dynamic: false });
    for (const seen of [file, prepared.observers()]) {
      const fresh = qdq.preparePt2e(program, perChannel());
      fresh.loadObservers(seen);
      expect(fresh.saveObservers()).toBe(file);
      expect(() => fresh.loadObservers(seen)).toThrow(/it has seen data already, .*prepare the model again/);
    }
  });

  test("reports progress and can be cancelled", async () => {
    const batches = [1, 2, 3].map((seed) => [images(program, 1, seed)]);
    const seen = [];
    const prepared = qdq.preparePt2e(program, perChannel());
    await prepared.calibrate(batches, { onProgress: (progress) => seen.push(progress) });
    const counts = [];
    const anyNumber = (function* () {
      yield* batches;
    })();
    await qdq
      .preparePt2e(program, perChannel())
      .calibrate(anyNumber, { onProgress: ({ done, total }) => counts.push([done, total]) });
    expect(counts).toEqual(batches.map((_, i) => [i + 1, undefined]));
    expect(seen).toEqual([1, 2, 3].map((done) => ({ stage: "calibrate", done, total: 3 })));
    const controller = new AbortController();
    const work = qdq
      .preparePt2e(program, perChannel())
      .calibrate(batches, { signal: controller.signal, onProgress: () => controller.abort() });
    await expect(work).rejects.toMatchObject({ name: "QdqError", code: "Cancelled" });
  });

  test("takes a recipe as plain data", () => {
    const classes = (quantizer) =>
      qdq
        .preparePt2e(program, quantizer)
        .observers()
        .map((observer) => observer.class);
    expect(classes({ quantizer: "XNNPACKQuantizer", global: { is_per_channel: true } })).toEqual(classes(perChannel()));
    expect(
      classes(new X86InductorQuantizer().setGlobal(qdq.getDefaultX86InductorQuantizationConfig())).length,
    ).toBeGreaterThan(5);
    expect(classes(new ComposableQuantizer([perChannel()]))).toEqual(classes(perChannel()));
  });

  test("takes a QConfigMapping of FX graph mode", () => {
    const classes = (quantizer) =>
      qdq
        .preparePt2e(program, quantizer)
        .observers()
        .map((observer) => observer.class);
    const byDefault = classes(qdq.getDefaultQConfigMapping("qnnpack"));
    expect(new Set(byDefault)).toEqual(new Set(["HistogramObserver", "MinMaxObserver"]));
    expect(classes({ quantizer: "QConfigMapping", qconfig_mapping: { default: "qnnpack" } })).toEqual(byDefault);
    expect(classes(new qdq.QConfigMapping())).toEqual([]);
    expect(classes(qdq.getDefaultQConfigMapping().setGlobal(null).setModuleNameRegex(".*", null))).toEqual([]);
    const activation = { class: "MinMaxObserver", args: { quantMin: 0, quantMax: 127 } };
    const qconfig = { activation, weight: { class: "MinMaxObserver", args: { dtype: "qint8" } } };
    const linears = new qdq.QConfigMapping()
      .setObjectType("torch.nn.Linear", qconfig)
      .setModuleNameObjectTypeOrder("", "torch.add", 3, null);
    expect(new Set(classes(linears))).toEqual(new Set(["MinMaxObserver"]));
    expect(classes(linears.setBackendConfig("tensorrt"))).toEqual([]);
    const dtypeConfigs = [{ inputDtype: { dtype: "quint8", quantMinLowerBound: 0, quantMaxUpperBound: 100 } }];
    const narrow = new qdq.BackendConfig("narrow").setBackendPatternConfig({
      pattern: "torch.nn.Linear",
      dtypeConfigs,
    });
    const warnings = [];
    qdq.preparePt2e(program, linears.setBackendConfig(narrow), { onWarning: (warning) => warnings.push(warning) });
    expect(warnings).toContainEqual(expect.stringMatching(/is ignored: its activation has integers from 0 to 127/));
    const io = new qdq.QConfigMapping()
      .setGlobal(qconfig)
      .setPrepareCustomConfig({ inputQuantizedIdxs: [0], standaloneModuleName: [{ module: "none" }] });
    expect(qdq.preparePt2e(program, io).observers().length).toBeGreaterThan(0);
    const fails = (work, words) =>
      expect(thrown(work)).toMatchObject({ code: "InvalidArgument", message: expect.stringMatching(words) });
    fails(() => classes(io.setPrepareCustomConfig({ inputQuantizedIdxs: [7] })), /there is no input 7/);
    const wide = new qdq.BackendConfig("wide", { base: "native" });
    expect(new Set(classes(linears.setBackendConfig(wide)))).toEqual(new Set(["MinMaxObserver"]));
    fails(() => classes(new qdq.QConfigMapping().setGlobal({ named: "best_qconfig" })), /is 'best_qconfig'; /);
    fails(() => classes(new qdq.QConfigMapping().setModuleNameRegex("(", null)), /has a \( without a \)/);
  });
});

describe("errors", () => {
  test.each([
    ["nothing", new Uint8Array(0)],
    ["noise", Uint8Array.from({ length: 999 }, (_, i) => (i * 89) & 255)],
    ["half a file", model().subarray(0, 50000)],
  ])("%s is not a program", async (_, bytes) => {
    const error = await qdq.loadPt2(bytes).then(
      () => null,
      (reason) => reason,
    );
    expect(error).toBeInstanceOf(QdqError);
    expect(error.code).toBe("BadFile");
    expect(error.message).not.toContain("\n");
  });

  test("inputs that do not fit are refused", () => {
    const session = qdq.lower(program);
    const good = images(program, 1);
    const refused = (inputs) => expect(thrown(() => session.run(inputs)));
    refused([]).toMatchObject({ name: "QdqError", code: "InvalidArgument" });
    refused([good, good]).toMatchObject({ code: "InvalidArgument" });
    refused([qdq.tensor(new Float32Array(4), [1, 4])]).toMatchObject({
      code: "InvalidArgument",
      message: expect.stringContaining("[1, 4]"),
    });
    refused([{ ...good, dtype: "float64" }]).toMatchObject({
      code: "InvalidArgument",
      message: expect.stringContaining("Float64Array"),
    });
    refused([{ ...good, shape: [7] }]).toMatchObject({
      code: "InvalidArgument",
      message: expect.stringContaining("7 elements"),
    });
    refused([{ ...good, dtype: "complex128" }]).toMatchObject({ message: expect.stringContaining("complex128") });
    refused(good).toMatchObject({ message: expect.stringContaining("list of tensors") });
    refused([undefined]).toMatchObject({ message: expect.stringContaining("input 0") });
  });

  test("NaN in calibration is refused", () => {
    const poisoned = images(program, 1);
    poisoned.data[5] = NaN;
    expect(thrown(() => qdq.preparePt2e(program, perChannel()).run([poisoned]))).toMatchObject({
      code: "InvalidArgument",
    });
  });

  test("converting without data names the observers", () => {
    const error = thrown(() => qdq.convertPt2e(qdq.preparePt2e(program, perChannel())));
    expect(error).toMatchObject({ name: "QdqError", code: "NotCalibrated" });
  });

  test("a misspelt recipe is refused", () => {
    const refused = (recipe) => thrown(() => qdq.preparePt2e(program, recipe));
    expect(refused({ quantizer: "XNNPACKQuantiser" })).toMatchObject({
      code: "InvalidArgument",
      message: expect.stringContaining("XNNPACKQuantizer"),
    });
    expect(refused({ quantizer: "XNNPACKQuantizer", globl: {} })).toMatchObject({
      code: "InvalidArgument",
      message: expect.stringContaining("global"),
    });
    expect(refused({})).toMatchObject({ code: "InvalidArgument" });
    expect(refused(null)).toMatchObject({ code: "InvalidArgument" });
  });

  test("a disposed object cannot be used", async () => {
    const other = await qdq.loadPt2(model());
    other.dispose();
    other.dispose();
    expect(thrown(() => other.info())).toMatchObject({
      code: "InvalidArgument",
      message: expect.stringContaining("disposed"),
    });
    const session = qdq.lower(program);
    session[Symbol.dispose]();
    expect(thrown(() => session.run([]))).toMatchObject({ code: "InvalidArgument" });
  });

  test("disposing inside of a callback waits for the work to end", async () => {
    const conv = program.info().nodes.find((node) => node.target === "torch.ops.aten.conv2d.default");
    let prepared;
    const observer = () => ({
      forward: () => prepared.dispose(),
      calculateQparams: () => ({ scale: 1, zeroPoint: 0 }),
    });
    prepared = qdq.preparePt2e(program, {
      annotate: () => [{ node: conv.name, output: { spec: "quantization", dtype: "int8", observer } }],
    });
    expect(prepared.run([images(program, 1)])).toHaveLength(1);
    expect(thrown(() => prepared.run([images(program, 1)]))).toMatchObject({ code: "InvalidArgument" });
  });

  test("configure comes before the first load", () => {
    expect(thrown(() => qdq.configure({ threads: 2 }))).toMatchObject({ code: "InvalidArgument" });
  });
});

test("the ES module build is the same package", () => {
  const script = `
    import { readFile } from "node:fs/promises";
    import * as qdq from "./dist/esm/node/index.js";
    const program = await qdq.loadPt2(await readFile("examples/shapes/model.pt2"));
    console.log(JSON.stringify([Object.keys(qdq).sort(), program.info().inputs]));`;
  const out = execFileSync(process.execPath, ["--input-type=module", "-e", script], {
    cwd: path.join(__dirname, "../.."),
    encoding: "utf8",
  });
  expect(JSON.parse(out)).toEqual([Object.keys(qdq).sort(), program.info().inputs]);
});
