// What authors of backends use: explanations, capabilities, filters, overrides, source partitions and patterns.
const { readFileSync } = require("node:fs");
const path = require("node:path");
const { images, model, qdq, thrown } = require("./shapes.js");

const golden = (name) => readFileSync(path.join(__dirname, "../golden/patterns", name));
const facts = JSON.parse(golden("facts.json"));
const { XNNPACKQuantizer, X86InductorQuantizer } = qdq;
const symmetric = () => qdq.getSymmetricQuantizationConfig({ isPerChannel: true });

let program;
beforeAll(async () => {
  program = await qdq.loadPt2(model());
});

describe("explain", () => {
  test("gives the reason why each operator is quantized, or is not", () => {
    const linear = program.info().nodes.find((node) => node.target === "torch.ops.aten.linear.default");
    const prepared = qdq.preparePt2e(
      program,
      new XNNPACKQuantizer().setGlobal(symmetric()).setModuleName(linear.module, null),
    );
    const { operators: all, conflicts } = qdq.explain(prepared);
    expect(all.every((explanation) => explanation.reason !== "")).toBe(true);
    expect(all.find(({ op }) => op === "aten.conv2d.default")).toMatchObject({
      outcome: "quantized",
      quantizer: "XNNPACKQuantizer",
    });
    const left = qdq.explain(prepared, linear.name);
    expect(left).toMatchObject({
      outcome: "float",
      reason: `the settings leave ${linear.module} in float`,
      tensors: [],
    });
    expect(left.decisions).toEqual([{ quantizer: "XNNPACKQuantizer", pattern: "", taken: false, reason: left.reason }]);
    expect(thrown(() => qdq.explain(prepared, "nothing"))).toMatchObject({ code: "InvalidArgument" });
    expect(conflicts).toEqual([]);
  });

  test("names the quantizers whose specs meet", () => {
    const spec = (dtype) => ({
      spec: "quantization",
      dtype,
      qscheme: "per_tensor_affine",
      observer: { class: "MinMaxObserver" },
    });
    const quantizer = {
      name: "two minds",
      annotate(graph) {
        const relu = graph.nodes.find((node) => node.target.startsWith("torch.ops.aten.relu"));
        return [
          { node: relu.name, output: spec("uint8"), reason: "its output is positive" },
          { node: relu.users[0], inputs: [[relu.name, spec("int8")]] },
        ];
      },
    };
    const prepared = qdq.preparePt2e(program, quantizer);
    const [conflict] = qdq.explain(prepared).conflicts;
    expect(conflict.message).toMatch(/^two minds gives .* but two minds takes it in .* so it is quantized twice$/);
    expect(qdq.explain(prepared, conflict.edge[0]).reason).toBe("its output is positive");
  });
});

test("quantizers list what they can do", async () => {
  const { quantizer, patterns } = await qdq.quantizationCapabilities(new X86InductorQuantizer());
  expect(quantizer).toBe("X86InductorQuantizer");
  expect(patterns.find(({ pattern }) => pattern === "conv2d")).toEqual({
    pattern: "conv2d",
    operators: [["aten.conv2d.default"]],
    static: true,
    dynamic: true,
    qat: true,
    note: "",
  });
  const { parts } = await qdq.quantizationCapabilities(
    new qdq.ComposableQuantizer([{ annotate: () => [] }, new XNNPACKQuantizer()]),
  );
  expect(parts.map((part) => part.patterns.length > 0)).toEqual([false, true]);
  const own = {
    name: "my backend",
    annotate: () => [],
    quantizationCapabilities: () => [
      {
        pattern: "linear_relu",
        operators: [["aten.linear.default"], ["aten.relu.default", "aten.relu_.default"]],
        dynamic: true,
        note: "no bias",
      },
      { pattern: "add", operators: [["aten.add.Tensor"]], qat: false },
    ],
  };
  const mine = {
    quantizer: "my backend",
    patterns: [
      {
        pattern: "linear_relu",
        operators: [["aten.linear.default"], ["aten.relu.default", "aten.relu_.default"]],
        static: true,
        dynamic: true,
        qat: true,
        note: "no bias",
      },
      { pattern: "add", operators: [["aten.add.Tensor"]], static: true, dynamic: false, qat: false, note: "" },
    ],
    parts: [],
  };
  expect(await qdq.quantizationCapabilities(own)).toEqual(mine);
  expect((await qdq.quantizationCapabilities(new qdq.ComposableQuantizer([own]))).parts).toEqual([mine]);
  for (const wrong of [
    { pattern: "linear" },
    { operators: [["aten.linear.default"]] },
    { pattern: "linear", operators: ["aten.linear.default"] },
  ]) {
    await expect(
      qdq.quantizationCapabilities({ annotate: () => [], quantizationCapabilities: () => [wrong] }),
    ).rejects.toMatchObject({
      code: "InvalidArgument",
      message: expect.stringMatching(
        /^quantizationCapabilities\(\) of a JavaScript quantizer, pattern 0: found \{.*\}, wanted \{pattern: "linear"/,
      ),
    });
  }
});

describe("settings", () => {
  const count = (quantizer) =>
    qdq
      .explain(qdq.preparePt2e(program, quantizer))
      .operators.filter(({ op, outcome }) => op === "aten.conv2d.default" && outcome === "quantized").length;

  test("a filter function keeps operators out", () => {
    const asked = [];
    const quantizer = new XNNPACKQuantizer().setGlobal(symmetric()).setFilterFunction((node) => {
      asked.push(node.name);
      return node.target !== "torch.ops.aten.conv2d.default";
    });
    expect(count(new XNNPACKQuantizer().setGlobal(symmetric()))).toBeGreaterThan(1);
    expect(count(quantizer)).toBe(0);
    expect(new Set(asked).size).toBe(asked.length); // each node is asked for once
    const own = new RangeError("not today");
    const throwing = new X86InductorQuantizer()
      .setGlobal(qdq.getDefaultX86InductorQuantizationConfig())
      .setFilterFunction(() => {
        throw own;
      });
    expect(thrown(() => count(throwing))).toBe(own);
  });

  test("a config may spell out specs, and observers be overridden", () => {
    const activation = {
      spec: "quantization",
      dtype: "uint8",
      quantMin: 0,
      quantMax: 255,
      qscheme: "per_tensor_affine",
      observer: { class: "MinMaxObserver" },
    };
    const weight = {
      spec: "quantization",
      dtype: "int8",
      quantMin: -8,
      quantMax: 7,
      qscheme: "per_channel_symmetric",
      chAxis: -4,
      observer: { class: "PerChannelMinMaxObserver" },
    };
    const conv = program.info().nodes.find((node) => node.target === "torch.ops.aten.conv2d.default");
    const edge = [conv.args[0].node, conv.name];
    const quantizer = new X86InductorQuantizer()
      .setFunctionTypeQconfig("torch.nn.functional.conv2d", { kind: "specs", inputActivation: activation, weight })
      .setObserverOverrides([{ edge, attributes: { quantMax: 127 } }]);
    const prepared = qdq.preparePt2e(program, quantizer);
    prepared.run([images(program, 2)]);
    const { qparams } = qdq.convertPt2e(prepared).info();
    expect(qparams.find((value) => value.of === edge[0])).toMatchObject({ dtype: "uint8", quantMax: 127 });
    expect(qparams.some((value) => value.quantMin === -8 && value.scale.length > 1)).toBe(true);
  });
});

describe("a program looked into", () => {
  test("tells who runs each node, and its values", () => {
    const session = qdq.lower(program);
    const batch = images(program, 2);
    const [logits] = session.run([batch]);
    const placements = session.placements();
    expect(placements.find(({ target }) => target === "torch.ops.aten.conv2d.default")).toMatchObject({
      backend: "simd",
      refusals: [{ backend: "fusion", reason: "its input is not quantized" }],
      fallbacks: 0,
    });
    expect(session.warnings()).toEqual([]);
    const values = new Map();
    const [again] = qdq.runNodes(program, [batch], (name, target, value) => values.set(name, [target, value]));
    expect(values.get("linear")[0]).toBe("torch.ops.aten.linear.default");
    expect(values.get("linear")[1].data).toEqual(again.data);
    expect(again.shape).toEqual(logits.shape);
  });

  test("gives its tensors and takes others", async () => {
    const own = await qdq.loadPt2(model());
    const { name, shape } = own.info().attributes.find(({ kind }) => kind === "parameter");
    const weight = qdq.programTensor(own, name);
    expect(weight.shape).toEqual(shape);
    qdq.setProgramTensor(own, name, { ...weight, data: weight.data.map((value) => 2 * value) });
    expect(qdq.programTensor(own, name).data[0]).toBe(2 * weight.data[0]);
    expect(thrown(() => qdq.programTensor(own, "none")).message).toMatch(/the program has no tensor 'none'/);
    expect(thrown(() => qdq.setProgramTensor(own, name, qdq.tensor(Float32Array.of(1, 2), [2]))).message).toMatch(
      /is float32\[.*\], found float32\[2\]/,
    );
  });

  test("quantizers see what others annotated, and validate the whole", () => {
    const linear = new X86InductorQuantizer().setModuleType(
      "torch.nn.Linear",
      qdq.getDefaultX86InductorQuantizationConfig(),
    );
    let seen;
    const watcher = {
      annotate(graph) {
        seen = graph.nodes.filter(({ annotatedBy }) => annotatedBy).map(({ target }) => target);
        return [];
      },
      validate(graph) {
        const partitions = graph.getSourcePartitions(["torch.nn.Linear"]);
        if (partitions.length > 0) throw new Error("no linear layers, please");
      },
    };
    const both = new qdq.ComposableQuantizer([linear, watcher]);
    expect(thrown(() => qdq.preparePt2e(program, both)).message).toBe("no linear layers, please");
    expect(seen).toContain("torch.ops.aten.linear.default");
    expect(qdq.preparePt2e(program, new qdq.EmbeddingQuantizer()).needsData()).toBe(false);
  });
});

describe("the rest of PyTorch's flows", () => {
  const outcomes = (prepared, op) =>
    qdq
      .explain(prepared)
      .operators.filter((each) => each.op === op)
      .map(({ outcome }) => outcome);

  test("debug handles are numbered, and reach the quantized program", async () => {
    const own = await qdq.loadPt2(model());
    const handlesOf = ({ nodes }) => nodes.map(({ debugHandle }) => debugHandle).filter((each) => each !== undefined);
    expect(handlesOf(own.info())).toEqual([]);
    qdq.generateNumericDebugHandles(own);
    const handles = handlesOf(own.info());
    expect(handles.length).toBeGreaterThan(20);
    expect(new Set(handles).size).toBe(handles.length);
    const prepared = qdq.preparePt2e(own, new XNNPACKQuantizer().setGlobal(symmetric()));
    prepared.run([images(own, 1)]);
    const reached = handlesOf(qdq.convertPt2e(prepared).info());
    expect(reached.length).toBeGreaterThan(20);
    expect(reached.every((handle) => handles.includes(handle))).toBe(true);
  });

  test("default mappings, backends and QConfigs go by PyTorch's names", () => {
    for (const backend of ["x86", "fbgemm", "qnnpack", "onednn", "executorch"]) {
      const prepared = qdq.preparePt2e(program, qdq.getDefaultQConfigMapping(backend));
      expect(outcomes(prepared, "aten.linear.default")).toEqual(["quantized"]);
      expect(prepared.warnings()).toEqual([]);
    }
    for (const backend of ["native", "fbgemm", "x86", "qnnpack", "onednn", "executorch"]) {
      const mapping = qdq.getDefaultQConfigMapping("qnnpack").setBackendConfig(backend);
      expect(outcomes(qdq.preparePt2e(program, mapping), "aten.linear.default")).toEqual(["quantized"]);
    }
    // TensorRT takes qint8 activations alone, and that mapping has quint8.
    const none = qdq.preparePt2e(program, qdq.getDefaultQConfigMapping("qnnpack").setBackendConfig("tensorrt"));
    expect(none.warnings()).toEqual([expect.stringMatching(/so that everything stays float/)]);
    for (const named of ["default_dynamic_qconfig", "per_channel_dynamic_qconfig", "float16_dynamic_qconfig"]) {
      const prepared = qdq.preparePt2e(program, new qdq.QConfigMapping().setGlobal({ named }));
      expect(prepared.needsData()).toBe(false);
      expect(outcomes(prepared, "aten.linear.default")).toEqual(["quantized"]);
    }
    const { module } = program.info().nodes.find(({ target }) => target === "torch.ops.aten.linear.default");
    const alone = qdq.getDefaultQConfigMapping().setPrepareCustomConfig({
      standaloneModuleName: [{ module, qconfigMapping: new qdq.QConfigMapping().setGlobal(null) }],
    });
    expect(outcomes(qdq.preparePt2e(program, alone), "aten.linear.default")).toEqual(["float"]);
  });

  test("weights keep to half of their range where products saturate", () => {
    const reduced = qdq.getSymmetricQuantizationConfig({ isPerChannel: true, reduceRange: true });
    const weights = qdq
      .preparePt2e(program, new XNNPACKQuantizer().setGlobal(reduced))
      .calibration()
      .filter((each) => each.class === "PerChannelMinMaxObserver");
    expect(weights.length).toBeGreaterThan(5);
    for (const { quantMin, quantMax } of weights) expect([quantMin, quantMax]).toEqual([-64, 63]);
  });

  test("batches may come from asynchronous iterators", async () => {
    async function* batches() {
      yield [images(program, 1)];
      yield [images(program, 1, 2)];
    }
    const prepared = qdq.preparePt2e(program, new XNNPACKQuantizer().setGlobal(symmetric()));
    await prepared.calibrate(batches());
    expect(prepared.needsData()).toBe(false);
    const qat = new XNNPACKQuantizer().setGlobal(qdq.getSymmetricQuantizationConfig({ isQat: true }));
    async function* labelled() {
      for await (const inputs of batches()) yield { inputs, target: [0] };
    }
    const trainer = new qdq.Trainer(qdq.prepareQatPt2e(program, qat));
    expect(await trainer.train(labelled())).toBeGreaterThan(0);
  });
});

describe("patterns and partitions", () => {
  let resnet;
  beforeAll(async () => {
    resnet = await qdq.loadPt2(golden("resnet18.pt2"));
  });

  test("finds what PyTorch finds, by an exported pattern or one as data", async () => {
    const wanted = facts.matches.resnet18.add_relu;
    expect(wanted.length).toBe(8);
    const exported = await qdq.loadPt2(golden("add_relu.pt2"));
    expect(qdq.matchPattern(resnet, exported).map(({ nameNodeMap }) => nameNodeMap)).toEqual(wanted);
    const asData = {
      inputs: ["left", "right"],
      nodes: [
        { name: "add", target: "torch.ops.aten.add.Tensor", args: [{ node: "left" }, { node: "right" }] },
        { name: "relu", target: "torch.ops.aten.relu.default", args: [{ node: "add" }] },
      ],
      outputs: ["relu"],
    };
    const matches = qdq.matchPattern(resnet, asData);
    expect(matches.map(({ nameNodeMap: { add, relu, right } }) => ({ add, relu, right }))).toEqual(wanted);
    expect(matches[0].returningNodes).toEqual([wanted[0].relu]);
    expect(thrown(() => qdq.matchPattern(resnet, { ...asData, outputs: ["out"] }))).toMatchObject({
      code: "InvalidArgument",
    });
    const padded = await qdq.loadPt2(golden("conv_padded.pt2"));
    expect(qdq.matchPattern(resnet, padded)).toHaveLength(13);
    expect(qdq.matchPattern(resnet, padded, { ignoreLiterals: true })).toHaveLength(20);
  });

  test("groups nodes as PyTorch does", () => {
    const [[sources, wanted]] = facts.partitions.resnet18;
    const found = qdq.getSourcePartitions(resnet, ["torch.nn.Conv2d"]);
    expect(found.map(({ nodes, outputNodes }) => [nodes, outputNodes])).toEqual(
      wanted.map(([nodes, , outputs]) => [nodes, outputs]),
    );
    expect(found[0].source).toBe(sources[0]);
    const [, [names, chains]] = facts.sequences.resnet18;
    expect(qdq.findSequentialPartitions(resnet, names).map((chain) => chain.map(({ nodes }) => nodes))).toEqual(chains);
  });

  test("a quantizer asks the graph that it annotates", () => {
    let kept;
    const quantizer = {
      name: "sums",
      annotate(graph) {
        kept = graph;
        // Batch norms have been folded by now, so sums come right behind convolutions.
        const sums = graph.matchPattern({
          inputs: ["a", "b", "w", "c"],
          nodes: [
            {
              name: "conv",
              target: "torch.ops.aten.conv2d",
              args: [{ node: "a" }, { node: "w" }, { node: "b" }, [1, 1], [1, 1]],
            },
            { name: "sum", target: "torch.ops.aten.add.Tensor", args: [{ node: "conv" }, { node: "c" }] },
          ],
          outputs: ["sum"],
        });
        expect(graph.getSourcePartitions(["torch.nn.Linear"])).toHaveLength(1);
        expect(graph.findSequentialPartitions(["torch.nn.AdaptiveAvgPool2d", "torch.flatten"])).toHaveLength(1);
        const output = { spec: "quantization", dtype: "int8", observer: { class: "MinMaxObserver" } };
        return sums.map(({ nameNodeMap }) => ({ node: nameNodeMap.sum, output }));
      },
    };
    const prepared = qdq.preparePt2e(resnet, quantizer);
    expect(qdq.explain(prepared).operators.filter(({ outcome }) => outcome === "quantized")).toHaveLength(8);
    expect(thrown(() => kept.getSourcePartitions(["torch.nn.Linear"])).message).toContain(
      "only while annotate() was running",
    );
  });
});

describe("a quantizer's other methods", () => {
  const relu = { inputs: ["x"], outputs: ["y"] };
  const pattern = { ...relu, nodes: [{ name: "y", target: "torch.ops.aten.relu_.default", args: [{ node: "x" }] }] };
  const replacement = {
    ...relu,
    nodes: [{ name: "y", target: "torch.ops.aten.clamp_min.default", args: [{ node: "x" }, 0] }],
  };
  const count = (info, wanted) => info.nodes.filter((node) => node.target === wanted).length;
  const per = (observer) => ({ spec: "quantization", dtype: "int8", qscheme: "per_tensor_affine", observer });

  test("transformForAnnotation changes what is prepared, and nothing else", async () => {
    const found = program.info().nodes.find((node) => /aten\.relu/.test(node.target)).target;
    pattern.nodes[0].target = found;
    const before = count(program.info(), found);
    let places;
    let seen;
    const prepared = qdq.preparePt2e(program, {
      transformForAnnotation(graph) {
        places = graph.replacePattern(pattern, replacement);
        graph.convertScalarsToAttrs();
      },
      annotate(graph) {
        seen = graph.nodes.filter((node) => node.target === "torch.ops.aten.clamp_min.default").length;
        return [];
      },
    });
    expect([places, seen]).toEqual([before, before]);
    expect(count(program.info(), found)).toBe(before);
    const own = await qdq.loadPt2(model());
    expect(qdq.replacePattern(own, pattern, replacement)).toBe(before);
    const x = images(program, 2);
    expect(qdq.lower(own).run([x])[0].data).toEqual(qdq.lower(program).run([x])[0].data);
    expect(prepared.run([x])[0].shape).toEqual([2, 16]);
    expect(thrown(() => qdq.replacePattern(own, pattern, own)).message).toMatch(/tensor .* of its own/);
  });

  test("adjustObservers shares, drops and replaces observers", () => {
    const [conv] = program.info().nodes.filter((node) => node.target === "torch.ops.aten.conv2d.default");
    class Unit {
      forward() {}
      calculateQparams() {
        return { scale: 0.5, zeroPoint: 3 };
      }
    }
    let seen;
    const prepare = (adjustObservers) =>
      qdq.preparePt2e(program, {
        annotate: () => [
          {
            node: conv.name,
            inputs: [[conv.args[0].node, per({ class: "MinMaxObserver" })]],
            output: per({ class: "MinMaxObserver" }),
          },
        ],
        adjustObservers(places) {
          seen = places;
          return adjustObservers(places);
        },
      });
    const x = images(program, 2);
    expect(prepare(() => undefined).observers().length).toBe(2);
    expect(seen.map(({ edge, node, class: name }) => [edge ? "edge" : node, name])).toEqual([
      ["edge", "MinMaxObserver"],
      [conv.name, "MinMaxObserver"],
    ]);
    expect(prepare((places) => places.map(() => 0)).observers().length).toBe(1);
    expect(prepare(() => [null, 1]).observers().length).toBe(1);
    const replaced = prepare(() => [0, () => new Unit()]);
    replaced.run([x]);
    expect(replaced.observers().map((observer) => observer.class)).toEqual(["MinMaxObserver", "Unit"]);
    const { nodes } = qdq.convertPt2e(replaced).info();
    const rounds = nodes.filter((node) => /quantize_per_tensor/.test(node.target) && node.args.includes(0.5));
    expect(rounds.every((node) => node.args.includes(3)) && rounds.length).toBe(2);
    expect(thrown(() => prepare(() => [0])).message).toMatch(/needs to return an observer for each of the 2 places/);
    expect(thrown(() => prepare(() => [0, 9])).message).toMatch(/returned 9 for place 1/);
  });

  test("a derived spec follows a function, and a QConfig takes an observer of one's own", () => {
    const [linear] = program.info().nodes.filter((node) => node.target === "torch.ops.aten.linear.default");
    const [input, weight, bias] = linear.args.map((argument) => argument.node);
    const minMax = per({ class: "MinMaxObserver" });
    let sources;
    const rule = (given) => {
      sources = given;
      return { scale: given[0].scale[0] * given[1].scale[0] * 2, zeroPoint: 0 };
    };
    const from = [{ edge: [input, linear.name] }, { edge: [weight, linear.name] }];
    const inputs = [
      [input, minMax],
      [weight, minMax],
      [bias, { spec: "derived", dtype: "int32", from, rule }],
    ];
    const prepared = qdq.preparePt2e(program, { annotate: () => [{ node: linear.name, inputs }] });
    prepared.run([images(program, 2)]);
    qdq.convertPt2e(prepared);
    expect(sources.map(({ scale, zeroPoint }) => [scale.length, zeroPoint.length])).toEqual([
      [1, 1],
      [1, 1],
    ]);

    let settings;
    class Fixed {
      forward() {}
      calculateQparams() {
        return { scale: 0.125, zeroPoint: 7 };
      }
    }
    const make = (given) => {
      settings = given;
      return new Fixed();
    };
    const weights = { class: "MinMaxObserver", args: { dtype: "qint8", qscheme: "per_tensor_symmetric" } };
    for (const activation of [make, { class: make, args: { quantMax: 100 } }]) {
      const mapping = new qdq.QConfigMapping().setObjectType("torch.nn.Linear", { activation, weight: weights });
      const own = qdq.preparePt2e(program, mapping);
      own.run([images(program, 2)]);
      expect(own.observers().map((observer) => observer.class)).toContain("Fixed");
      expect(settings).toMatchObject({ dtype: "uint8", quantMax: activation === make ? 255 : 100 });
      expect(JSON.stringify(qdq.convertPt2e(own).info())).toContain("0.125");
    }
  });
});
