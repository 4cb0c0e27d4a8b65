// What JavaScript may do wrong: every misuse is a QdqError with a sentence, and leaves what it was given as it was.
const { qdq, images, model, thrown } = require("./shapes.js");

const quantizer = () => new qdq.XNNPACKQuantizer().setGlobal(qdq.getSymmetricQuantizationConfig());

const qat = () => new qdq.XNNPACKQuantizer().setGlobal(qdq.getSymmetricQuantizationConfig({ isQat: true }));

let program;
let x;
beforeAll(async () => {
  program = await qdq.loadPt2(model());
  x = images(program, 1);
});

function refused(work, words) {
  const error = thrown(work);
  expect(error).toBeInstanceOf(qdq.QdqError);
  expect(error.message).toMatch(words);
  expect(error.code).toBe("InvalidArgument");
}

// A buffer that went to a worker.
function detached(array) {
  structuredClone(array.buffer, { transfer: [array.buffer] });
  return array;
}

test("a recipe of plain data has no functions", () => {
  const custom = { custom: 0 };
  const xnnpack = { quantizer: "XNNPACKQuantizer", global: {} };
  refused(
    () => qdq.preparePt2e(program, { ...xnnpack, filter_function: custom }),
    /field custom, which is not a function/,
  );
});

test("what hears of nodes is a function", () => {
  for (const onNode of [undefined, null, {}, "x"])
    refused(() => qdq.runNodes(program, [x], onNode), /onNode is .*, wanted a function/);
});

test("a method that nobody calls is refused", () => {
  refused(
    () => qdq.preparePt2e(program, { annotate: () => [], validat() {} }),
    /no method validat; did you mean validate/,
  );
  const mine = { annotate: () => [{ node: "conv2d", output: { spec: "quantization", dtype: "int8", observer } }] };
  const observer = { class: "MinMaxObserver" };
  expect(qdq.preparePt2e(program, { ...mine, isMine: () => true }).warnings()).toEqual([]);
});

test("names that are none, and objects that only look like programs", () => {
  for (const [node, shown] of [
    [Symbol("n"), /Symbol\(n\)/],
    [Object.create(null), /\{\}/],
  ])
    refused(() => qdq.explain(qdq.preparePt2e(program, quantizer()), node), shown);
  const fake = Object.create(qdq.Program.prototype);
  refused(() => qdq.lower(fake), /^this object is not one that a function of qdq gave$/);
  fake.dispose();
});

test("a method that is no function is refused", () => {
  const mine = { annotate: () => [] };
  const none = Symbol("none");
  for (const name of ["validate", "transformForAnnotation", "adjustObservers"])
    refused(
      () => qdq.preparePt2e(program, { ...mine, [name]: 1 }),
      new RegExp(`^${name} of .* is 1, wanted a function$`),
    );
  refused(
    () => qdq.preparePt2e(program, { ...mine, name: none }),
    /name of a quantizer is Symbol\(none\), wanted a str/,
  );
  expect(qdq.preparePt2e(program, { ...mine, validate: undefined, adjustObservers: null })).toBeInstanceOf(
    qdq.Prepared,
  );
});

test("methods of classes are methods, too", () => {
  class Misspelt {
    annotate() {
      return [];
    }
    validat() {}
  }
  refused(() => qdq.preparePt2e(program, new Misspelt()), /no method validat; did you mean validate/);
  class Extremes {
    forward() {}
    calculateQparams() {
      return { scale: 1, zeroPoint: 0 };
    }
    fakeQuantise() {}
  }
  const output = { spec: "quantization", dtype: "int8", observer: () => new Extremes() };
  const custom = { annotate: () => [{ node: "conv2d", output }] };
  refused(() => qdq.preparePt2e(program, custom), /Extremes has no method fakeQuantise; did you mean fakeQuantize/);
});

test("what nobody reads is refused, and met with the nearest word", async () => {
  refused(() => new qdq.QConfigMapping({ backnd: "x86" }), /QConfigMapping has no option backnd; did you mean backend/);
  refused(() => new qdq.QConfigMapping("x86"), /QConfigMapping was given a string as its options/);
  refused(
    () => new qdq.BackendConfig("mine", { bas: "qnnpack" }),
    /BackendConfig has no option bas; did you mean base/,
  );
  const standaloneModuleName = [{ module: "conv", qconfigMaping: new qdq.QConfigMapping() }];
  refused(
    () => qdq.getDefaultQConfigMapping().setPrepareCustomConfig({ standaloneModuleName }).toRecipe(),
    /a standalone module has no option qconfigMaping; did you mean qconfigMapping/,
  );
  refused(
    () => qdq.prepareQatPt2e(program, qat(), { onWarnin() {} }),
    /has no option onWarnin; did you mean onWarning/,
  );
  refused(() => qdq.reportHtml({ modl: "a" }), /a report has no field modl; did you mean model/);
  refused(() => qdq.lower(program, { backend: "" }), /there is no backend ''/);
  const capable = { annotate: () => [], quantizationCapabilities: () => [{ pattern: "a", operators: [], statik: 1 }] };
  await expect(qdq.quantizationCapabilities(capable)).rejects.toThrow(/has no option statik; did you mean static/);
  const trainer = new qdq.Trainer(qdq.prepareQatPt2e(program, qat()));
  await expect(trainer.train([], { onProgres() {} })).rejects.toThrow(
    /has no option onProgres; did you mean onProgress/,
  );
  refused(() => trainer.step({ inputs: [x], targt: [1] }), /a training batch has no option targt; did you mean target/);
});

test("flags, callbacks and signals that are none", async () => {
  refused(() => qdq.lower(program, { fuse: "no" }), /^fuse of lower is no, wanted true or false$/);
  refused(() => qdq.preparePt2e(program, quantizer(), { mergeable: 1 }), /^mergeable of preparePt2e is 1, wanted true/);
  refused(() => qdq.preparePt2e(program, quantizer(), { onWarning: "x" }), /^onWarning of .* is x, wanted a function$/);
  const prepared = qdq.preparePt2e(program, quantizer(), { onWarning: undefined });
  refused(() => qdq.convertPt2e(prepared, { foldQuantize: null }), /^foldQuantize of convertPt2e is null, wanted true/);
  for (const [option, words] of [
    [{ signal: "later" }, /^signal of calibrate is later, wanted an AbortSignal$/],
    [{ onProgress: {} }, /^onProgress of calibrate is \{\}, wanted a function$/],
  ])
    await expect(prepared.calibrate([[x]], option)).rejects.toThrow(words);
});

test("options of a trainer that do nothing", () => {
  const trainer = (options) => () => new qdq.Trainer(qdq.prepareQatPt2e(program, qat()), options);
  const grads = ([output]) => ({ loss: 0, grads: [output] });
  for (const [options, words] of [
    [{ optimizer: "adam", momentum: 0.9 }, /the momentum 0.9 does nothing/],
    [{ betas: [0.8, 0.9] }, /betas and eps do nothing with sgd/],
    [{ temperature: 2 }, /the temperature 2 does nothing without distillation/],
    [{ loss: "mse", distillation: 1, temperature: 2 }, /the temperature 2 does nothing with the loss mse/],
    [{ qparamsLr: 0.1 }, /no scale is learnt/],
    [{ schedule: { stepSize: 3 } }, /are for the schedule step only/],
    [{ schedule: { schedule: "cosine", totalSteps: 9, gamma: 0.5 } }, /are for the schedule step only/],
    [{ schedule: { totalSteps: 9 } }, /are for the schedule cosine only/],
    [{ schedule: { warmupStartFactor: 0.5 } }, /does nothing without warm-up steps/],
    [{ loss: grads, distillation: 1 }, /distillation does nothing where the loss is a function/],
  ])
    refused(trainer(options), words);
  const target = [0];
  const [teacher] = qdq.lower(program).run([x]);
  refused(() => trainer({})().step({ inputs: [x], target, teacher }), /the teacher's output does nothing without/);
});

test("work on no samples, and labels that are no classes", async () => {
  const prepared = qdq.preparePt2e(program, quantizer());
  await expect(prepared.calibrate([])).rejects.toThrow(/the calibration data has no batches/);
  const trainer = new qdq.Trainer(qdq.prepareQatPt2e(program, qat()));
  await expect(trainer.train([])).rejects.toThrow(/the training data has no batches/);
  prepared.run([x]);
  await expect(qdq.recover(prepared, [])).rejects.toThrow(/there are no samples/);
  for (const label of [-1, 99]) {
    const evaluation = qdq.evaluate(program, program, [label]);
    refused(() => evaluation.add([x]), new RegExp(`the label of sample 0 is ${label}; the model has classes 0 to`));
  }
});

test("settings that reach nothing are warned of, in training too", () => {
  const warnings = [];
  qdq.prepareQatPt2e(program, qat().setModuleName("nowhere", null), { onWarning: (text) => warnings.push(text) });
  expect(warnings).toEqual([expect.stringMatching(/^the setting for module nowhere reaches nothing/)]);
  const custom = { nonTraceableModuleName: ["nowhere"], standaloneModuleClass: [{ module: "Nothing" }] };
  const mapping = qdq.getDefaultQConfigMapping().setPrepareCustomConfig(custom);
  expect(qdq.preparePt2e(program, mapping).warnings()).toEqual([
    expect.stringMatching(/^the setting for standalone module class Nothing reaches nothing/),
    expect.stringMatching(/^the setting for non-traceable module nowhere reaches nothing/),
  ]);
  for (const nothing of [{ quantizer: "EmbeddingQuantizer" }, { quantizer: "PatternQuantizer", patterns: [] }])
    expect(qdq.preparePt2e(program, nothing).warnings()).toEqual([
      expect.stringMatching(/^the quantizer asks for no tensor of this program, so that everything stays float/),
    ]);
});

// A name of a million characters, of which a terminal would obey some.
test("messages and warnings are readable and short", async () => {
  const name = `\u001b[2J\u202e${"o".repeat(1e6)}`;
  const messages = [
    thrown(() => qdq.lower(program, { [name]: 1 })).message,
    thrown(() => qdq.lower(program, { backend: name })).message,
    thrown(() => qdq.explain(qdq.preparePt2e(program, quantizer()), name)).message,
    thrown(() => quantizer().setGlobal(name)).message,
    thrown(() => qdq.preparePt2e(program, { quantizer: name })).message,
    (await qdq.loadOnnx(new Uint8Array(9), undefined, { fix: { [name]: "" } }).catch((error) => error)).message,
    ...qdq.preparePt2e(program, quantizer().setModuleName(name, null)).warnings(),
  ];
  expect(messages.length).toBe(7);
  for (const message of messages) {
    expect(message).toContain("\\u001b[2J\\u202eooo");
    expect(message).toMatch(/ (bytes|characters) are left out\] /);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
    expect(message).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u202e]/);
    expect(message.length).toBeLessThan(3000);
  }
});

test("arrays are as long as they say only if somebody reads them", () => {
  const sparse = [];
  sparse.length = 2 ** 32 - 1;
  const data = new Float32Array(2 ** 24);
  refused(() => qdq.tensor(sparse), /neither a typed array nor an array of strings$/);
  refused(() => qdq.tensor(data, sparse), /^the shape of a tensor is an array of 4294967295, wanted/);
  refused(
    () => qdq.lower(program).run([{ dtype: "float32", shape: sparse, data }]),
    /its shape is an array of 4294967295/,
  );
  refused(() => qdq.lower(program).run(sparse), /^input 0 is not a tensor: it is undefined/);
  for (const fuse of [sparse, data])
    refused(() => qdq.lower(program, { fuse }), /^fuse of lower is an array of \d+, wanted true or false$/);
  refused(
    () => qdq.lower(program, { fuse: { sparse } }),
    /^fuse of lower is \{"sparse":"an array of 4294967295"\}, wanted/,
  );
  const trainer = new qdq.Trainer(qdq.prepareQatPt2e(program, qat()));
  refused(() => trainer.step({ inputs: [x], target: sparse }), /^the target holds undefined; wanted/);
});

test("a mapping without a setting is warned of", () => {
  expect(qdq.preparePt2e(program, new qdq.QConfigMapping()).warnings()).toEqual([
    "the QConfigMapping has no setting, so that everything stays float; set_global is missing",
  ]);
});

test("a callback cannot use what the work that called it uses", () => {
  const prepared = qdq.preparePt2e(program, quantizer());
  const misuses = [() => prepared.run([x]), () => qdq.convertPt2e(prepared)];
  let looks = 0;
  prepared.run([x], () => {
    looks += 1;
    if (looks > 1) return;
    for (const misuse of misuses) refused(misuse, /^a callback cannot use a prepared program that the work uses/);
    expect(program.info().nodes.length).toBeGreaterThan(0);
  });
  expect(looks).toBeGreaterThan(1);
  expect(qdq.convertPt2e(prepared).info().nodes.length).toBeGreaterThan(0);
});

test("a prepared program that is trained, too", () => {
  const prepared = qdq.prepareQatPt2e(program, qat());
  prepared.run([x], () => {
    refused(() => prepared.eval(), /^a callback cannot use a prepared program/);
    refused(() => prepared.learnQparams(), /^a callback cannot use a prepared program/);
  });
});

test("an operator cannot run the session that runs it", async () => {
  const session = {};
  let calls = 0;
  await qdq.registerOperator("misuse::again(Tensor x) -> Tensor", {
    infer: ([input]) => input,
    evaluate([input]) {
      calls += 1;
      if (session.made && calls === 1) refused(() => session.made.run([input]), /a session that the work uses/);
      return input;
    },
  });
  session.made = qdq.lower(await qdq.loadOnnx(modelOf("again")));
  const input = qdq.tensor(new Float32Array([-1, 2]), [2]);
  calls = 0;
  expect([...session.made.run([input])[0].data]).toEqual([-1, 2]);
  expect(calls).toBe(1);
});

// Each left 32 bytes of the stack behind, of which there are a million.
test("100,000 exceptions of callbacks leave the module as it was", async () => {
  const boom = new Error("boom");
  let throws = false;
  await qdq.registerOperator("misuse::boom(Tensor x) -> Tensor", {
    infer: ([input]) => input,
    evaluate([input]) {
      if (throws) throw boom;
      return input;
    },
  });
  const session = qdq.lower(await qdq.loadOnnx(modelOf("boom")));
  const input = qdq.tensor(new Float32Array([-1, 2]), [2]);
  throws = true;
  for (let i = 0; i < 100_000; i += 1) {
    const error = thrown(() => session.run([input]));
    if (error !== boom) throw error;
  }
  throws = false;
  expect([...session.run([input])[0].data]).toEqual([-1, 2]);
  expect(qdq.lower(program).run([x]).length).toBe(1);
});

test("tensors that are none", () => {
  const session = qdq.lower(program);
  const { data, shape } = x;
  for (const [input, words] of [
    [
      { ...x, data: detached(new Float32Array(data)) },
      /its buffer is detached, as those are that were sent to a worker/,
    ],
    [{ dtype: "float32", shape: [0], data: detached(new Float32Array(1)) }, /its buffer is detached/],
    [
      { dtype: "float32", shape, data: { [Symbol.toStringTag]: "Float32Array", length: data.length } },
      /no typed array/,
    ],
    [{ dtype: "float32", shape: [1n], data }, /its shape is/],
    [{ dtype: "float32", shape: Array(4), data }, /its shape is \[null,null,null,null\]/],
    [{ dtype: 1n, shape, data }, /its dtype is 1n/],
    [{ dtype: Symbol("f"), shape, data }, /its dtype is Symbol\(f\)/],
    [{ dtype: "constructor", shape, data }, /its dtype is constructor/],
    [Symbol("x"), /input 0 is not a tensor/],
    [1n, /input 0 is not a tensor/],
    [undefined, /input 0 is not a tensor: it is undefined/],
  ])
    refused(() => session.run([input]), words);
  refused(() => session.run(Array(1)), /input 0 is not a tensor: it is undefined/);
  refused(() => session.run(new Set([x])), /not a list of tensors/);
  refused(() => qdq.tensor(Symbol("x")), /neither a typed array/);
  expect(session.run([x]).length).toBe(1);
});

test("handles that are none", () => {
  for (const wrong of [
    Symbol("p"),
    1n,
    { handle: 1n },
    { handle: Symbol("p") },
    { handle: 1 },
    [],
    null,
    undefined,
    "p",
  ]) {
    refused(() => qdq.preparePt2e(wrong, quantizer()), /this is not a program/);
    refused(() => qdq.convertPt2e(wrong), /this is not a prepared program/);
    refused(() => qdq.lower(wrong), /this is not a program/);
    refused(() => qdq.savePt2(wrong), /this is not a program/);
  }
  refused(() => qdq.preparePt2e(Object.create(qdq.Program.prototype), quantizer()), /this is not a program/);
});

test("bytes whose buffer has gone", async () => {
  const bytes = detached(new Uint8Array(model()));
  for (const work of [() => qdq.loadPt2(bytes), () => qdq.loadOnnx(bytes), () => qdq.loadPt2(Symbol("b"))])
    await expect(work()).rejects.toThrow(qdq.QdqError);
});

test("callbacks that are classes, and proxies that were taken back", async () => {
  const prepared = qdq.preparePt2e(program, quantizer());
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  refused(() => prepared.run([x], class {}), /^onObserved is a class, wanted a function$/);
  refused(() => quantizer().setFilterFunction(class {}), /is a class, wanted a function$/);
  refused(() => qdq.lower(program, proxy), /^lower was given a revoked proxy, wanted an object$/);
  await expect(prepared.calibrate([[x]], { onProgress: class {} })).rejects.toThrow(
    /^onProgress of calibrate is a class/,
  );
  await expect(prepared.calibrate(proxy)).rejects.toThrow(qdq.QdqError);
});

test("a recipe's lists have no holes", () => {
  const sparse = [];
  sparse.length = 2 ** 32 - 1;
  const recipe = { quantizer: "XNNPACKQuantizer", module_names: sparse };
  refused(() => qdq.preparePt2e(program, recipe), /^the quantizer is not plain data: module_names has a hole at 0$/);
});

test("settings that are none", () => {
  for (const wrong of [[], class {}, Symbol("s"), 1n, "all"])
    refused(() => quantizer().setGlobal(wrong), /a setting of XNNPACKQuantizer is/);
  refused(() => quantizer().setFilterFunction("all"), /the filter of XNNPACKQuantizer is all, wanted a function/);
  refused(() => quantizer().setObserverOverrides({}), /the overrides of XNNPACKQuantizer are/);
  refused(() => qdq.preparePt2e(program, quantizer(), []), /an array as its options/);
  refused(() => qdq.lower(program, class {}), /a function as its options/);
  refused(
    () => qdq.preparePt2e(program, { quantizer: "XNNPACKQuantizer", global: 1n }),
    /the quantizer is not plain data/,
  );
  const circle = { quantizer: "XNNPACKQuantizer" };
  circle.global = circle;
  refused(() => qdq.preparePt2e(program, circle), /the quantizer is not plain data/);
  const prepared = qdq.preparePt2e(program, quantizer());
  refused(() => prepared.run([x], "done"), /onObserved is done, wanted a function/);
  refused(() => prepared.loadObservers([1n]), /is not plain data/);
});

test("settings of observers that nothing reads", () => {
  const config = (observer) => ({
    inputActivation: { spec: "quantization", dtype: "int8", qscheme: "per_tensor_affine", observer },
  });
  const quantizing = (observer) => new qdq.XNNPACKQuantizer().setGlobal(config(observer));
  for (const [observer, name] of [
    [{ class: "MinMaxObserver", args: { groupSize: 32 } }, "group_size"],
    [{ class: "HistogramObserver", args: { averagingConstant: 0.5 } }, "averaging_constant"],
    [{ class: "MovingAverageMinMaxObserver", args: { bins: 99 } }, "bins"],
  ])
    refused(
      () => qdq.preparePt2e(program, quantizing(observer)),
      new RegExp(`${name}' .*is given, and .* does not read it`),
    );
  expect(qdq.preparePt2e(program, quantizing({ class: "HistogramObserver", args: { bins: 99 } })).warnings()).toEqual(
    [],
  );
  const activation = { class: "MinMaxObserver", args: { bins: 99 } };
  const weight = { class: "MinMaxObserver", args: { dtype: "qint8" } };
  refused(
    () => qdq.preparePt2e(program, new qdq.QConfigMapping().setGlobal({ activation, weight })),
    /MinMaxObserver does not read the argument 'bins'/,
  );
});

// ONNX's protobuf: a number or bytes as a field of a message.
function field(number, value) {
  if (typeof value === "number") return Buffer.from([number * 8, value]);
  const bytes = Buffer.from(value);
  return Buffer.concat([Buffer.from([number * 8 + 2, bytes.length]), bytes]);
}
const message = (...fields) => Buffer.concat(fields);

test("an ONNX model in training mode", async () => {
  const shape = message(...[2, 4].map((extent) => field(1, field(1, extent))));
  const type = field(1, message(field(1, 1), field(2, shape)));
  const value = (name) => message(field(1, name), field(2, type));
  const node = (op, inputs, output) =>
    message(...inputs.map((input) => field(1, input)), field(2, output), field(3, op), field(4, op));
  const weight = message(
    ...[4, 4].map((extent) => field(1, extent)),
    field(2, 1),
    field(8, "w"),
    field(9, new Uint8Array(new Float32Array(16).fill(0.5).buffer)),
  );
  const training = message(field(2, 9), field(8, "t"), field(9, [1]));
  const graph = message(
    field(1, node("MatMul", ["x", "w"], "m")),
    field(1, node("Dropout", ["m", "", "t"], "y")),
    field(2, "g"),
    field(5, weight),
    field(5, training),
    field(11, value("x")),
    field(12, value("y")),
  );
  const length = Buffer.from([7 * 8 + 2, (graph.length & 127) | 128, graph.length >> 7]);
  const file = message(field(1, 8), length, graph, field(8, message(field(1, ""), field(2, 17))));
  const trained = await qdq.loadOnnx(new Uint8Array(file));
  for (const one of [quantizer(), qdq.getDefaultQConfigMapping("x86")])
    refused(() => qdq.preparePt2e(trained, one), /exported in training mode: dropout drops values at random/);
  const prepared = qdq.preparePt2e(qdq.moveExportedModelToEval(trained), quantizer());
  prepared.run([qdq.tensor(new Float32Array(8).fill(1), [2, 4])]);
  expect(qdq.convertPt2e(prepared).info().nodes.length).toBeGreaterThan(3);
});

test("names that are none", () => {
  for (const wrong of [Symbol("s"), 5, "torch.nn.Conv2d", [5], Array(1), [Symbol("s")]]) {
    refused(() => qdq.getSourcePartitions(program, wrong), /the sources are .*, wanted an array of strings/);
    refused(() => qdq.findSequentialPartitions(program, wrong), /the sources are .*, wanted an array of strings/);
  }
  refused(() => qdq.matchPattern(program, { inputs: [1n] }), /the pattern is not plain data/);
  refused(() => qdq.programTensor(program, Symbol("t")), /programTensor was given a symbol/);
  refused(() => qdq.programTensor(program, 5), /programTensor was given 5 where it wants a string/);
  refused(() => qdq.saveOnnx(program, { opset: 17n }), /what saveOnnx was given is not plain data/);
});

test("operators and observers that answer with something else", async () => {
  await expect(qdq.registerOperator(Symbol("s"), {})).rejects.toThrow(/an operator's schema is Symbol\(s\)/);
  await qdq.registerOperator("misuse::nothing(Tensor x) -> Tensor", {
    infer: () => null,
    evaluate: ([input]) => input,
  });
  await expect(qdq.loadOnnx(modelOf("nothing"))).rejects.toThrow(/infer\(\) of misuse::nothing.* gave null, wanted/);
  const observer = () => ({ forward() {}, calculateQparams: () => null });
  const spec = { spec: "quantization", dtype: "int8", observer };
  const custom = { annotate: () => [{ node: "conv2d", inputs: [["x", spec]] }] };
  const prepared = qdq.preparePt2e(program, custom);
  prepared.run([x]);
  refused(() => qdq.convertPt2e(prepared), /gave the scale undefined and the zeroPoint undefined/);
});

// A model of one node of the domain `misuse`: y = name(x) for float32[2].
function modelOf(name) {
  const bytes = (text) => [...new TextEncoder().encode(text)];
  const field = (number, content) => [(number << 3) | 2, content.length, ...content];
  const int = (number, value) => [number << 3, value];
  const type = field(1, [...int(1, 1), ...field(2, field(1, int(1, 2)))]);
  const value = (called) => [...field(1, bytes(called)), ...field(2, type)];
  const node = [
    ...field(1, bytes("x")),
    ...field(2, bytes("y")),
    ...field(4, bytes(name)),
    ...field(7, bytes("misuse")),
  ];
  const graph = [...field(1, node), ...field(2, bytes("g")), ...field(11, value("x")), ...field(12, value("y"))];
  const opset = (domain) => field(8, [...field(1, bytes(domain)), ...int(2, 17)]);
  return Uint8Array.from([...int(1, 8), ...field(7, graph), ...opset(""), ...opset("misuse")]);
}

test("settings that a later configure() leaves out stay", async () => {
  const { Loader } = require("../../dist/cjs/bindings/api/loader.js");
  const made = { setThreads: () => ({ value: undefined }), setMaxMemory: () => ({ value: undefined }) };
  const wanted = [];
  const loader = new Loader("qdq", { default: async () => made, wasmUrl: "qdq.wasm", relaxedWasmUrl: "qdq.wasm" });
  loader.open({ read: () => Promise.reject(new Error("the bytes are asked for")), threads: (n) => wanted.push(n) });
  loader.configure({ threads: 3 });
  loader.configure({ maxMemory: 5e8 });
  loader.configure({ threads: undefined });
  await expect(loader.load()).rejects.toThrow("the bytes are asked for");
  expect(wanted).toEqual([3]);
  for (const wasm of [null, 5, [], {}, () => 5])
    refused(() => loader.configure({ wasm }), /wanted the bytes of a module or their address/);
});

test("a tensor's sizes and buffer", () => {
  for (const shape of [null, 4, "4", NaN, {}, [NaN], [-1], [1.5], ["4"], [4n], Array(1)])
    refused(() => qdq.tensor(new Float32Array(4), shape), /the shape of a tensor is .*, wanted whole numbers from 0/);
  for (const data of [undefined, null, 5, {}, [1, 2], new DataView(new ArrayBuffer(4))])
    refused(() => qdq.tensor(data), /neither a typed array nor an array of strings/);
  refused(() => qdq.tensor(detached(new Float32Array(4))), /its buffer is detached/);
});

test("augment() of what it does not take", () => {
  const pictures = qdq.tensor(new Float32Array(48), [1, 3, 4, 4]);
  for (const wrong of [undefined, null, 5, [], {}])
    refused(() => qdq.augment(wrong, {}), /what augment\(\) was given as images is not a tensor/);
  for (const how of [undefined, null, 5, "flip"])
    refused(() => qdq.augment(pictures, how), /how of augment is .*, wanted an object of settings/);
  for (const samples of [5, "x", {}, null])
    refused(() => qdq.augment(pictures, {}, { samples }), /samples of augment is .*, wanted an array of numbers/);
  for (const number of [NaN, -1, 1.5, 3n, "1", null])
    refused(() => qdq.augment(pictures, {}, { seed: number }), /a seed, epoch or sample is .*; wanted a whole number/);
});

test("functions that answer with something else", async () => {
  for (const told of [undefined, null, 1, "no", Promise.resolve(true)])
    refused(
      () =>
        qdq.preparePt2e(
          program,
          quantizer().setFilterFunction(() => told),
        ),
      /the filter function gave .*, wanted true or false/,
    );
  const own = new Error("mine");
  const fails = () => {
    throw own;
  };
  expect(thrown(() => qdq.preparePt2e(program, quantizer().setFilterFunction(fails)))).toBe(own);
  const trainer = (loss) => new qdq.Trainer(qdq.prepareQatPt2e(program, qat()), loss && { loss });
  for (const told of [undefined, null, 5, {}, { loss: "x", grads: [] }, { loss: 1, grads: null }])
    refused(() => trainer(() => told).step({ inputs: [x] }), /the loss function gave .*, wanted \{loss: number/);
  for (const target of [[0.5], ["1"], [null], [NaN], [2n], Array(1)])
    refused(() => trainer().step({ inputs: [x], target }), /the target holds .*; wanted the number of a class/);
  for (const told of [5, "x", {}, [null], [5]])
    await expect(
      qdq.quantizationCapabilities({ annotate: () => [], quantizationCapabilities: () => told }),
    ).rejects.toThrow(qdq.QdqError);
});

test("what is not made with new, and names of files and of shards that are none", () => {
  for (const handle of [0, 1, 5])
    for (const type of [qdq.Data, qdq.Program, qdq.Session])
      refused(() => new type(handle), /is not made with new; a function of qdq gives it/);
  refused(() => qdq.openData(program, new Map([[Symbol("a"), new Uint8Array(1)]])), /the names of the files/);
  refused(() => qdq.measure({}, [[x]]), /the metric is \{\}, wanted a name/);
  refused(() => qdq.preparePt2e(program, quantizer()).loadState(null), /the state is null, wanted the text/);
  refused(() => qdq.preparePt2e(program, quantizer()).state(null), /state\(\) was given null, wanted data.shard/);
  refused(() => qdq.getSymmetricQuantizationConfig(5), /was given a number as its options, wanted an object/);
  refused(() => new qdq.QConfigMapping().setEqualizationConfig({}), /wanted a QConfigMapping/);
});

test("labels that are not one for each sample, and specs with settings that do nothing", () => {
  const evaluation = qdq.evaluate(program, program, [0, 1, 2]);
  evaluation.add([x]);
  refused(() => evaluation.report(), /there are 3 labels for 1 samples; give one for each/);
  refused(() => qdq.evaluate(program, program, [[1, 0, 0]]), /labels/);
  const spec = { spec: "quantization", dtype: "int8", observer: { class: "MinMaxObserver" } };
  const annotated = (more) => ({ annotate: () => [{ node: "conv2d", output: { ...spec, ...more } }] });
  for (const [more, words] of [
    [{ quantMin: -100 }, /bounds only one of quant_min and quant_max/],
    [{ qscheme: "per_tensor_affine", chAxis: 0 }, /of the qscheme per_tensor_affine does not read it/],
    [{ observer: { class: "FixedQParamsObserver" } }, /wanted "spec": "fixed_qparams" with scale and zero_point/],
    [{ observer: { class: "MinMaxObserver", args: { eps: -1 } } }, /is -1; wanted at least 0/],
  ])
    refused(() => qdq.preparePt2e(program, annotated(more)), words);
});
