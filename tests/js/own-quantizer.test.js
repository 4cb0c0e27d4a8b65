// Quantizers and observers written in JavaScript: what they decide, and what becomes of their mistakes.
const { images, model, qdq, thrown } = require("./shapes.js");

const { ComposableQuantizer, XNNPACKQuantizer } = qdq;

let program;
beforeAll(async () => {
  program = await qdq.loadPt2(model());
});
describe("quantizers and observers written in JavaScript", () => {
  // What a convolution needs: input, weight and output in int8.
  const activation = (observer) => ({
    spec: "quantization",
    dtype: "int8",
    quantMin: -128,
    quantMax: 127,
    qscheme: "per_tensor_affine",
    observer,
  });
  const weight = {
    spec: "quantization",
    dtype: "int8",
    quantMin: -127,
    quantMax: 127,
    qscheme: "per_channel_symmetric",
    chAxis: 0,
    observer: { class: "PerChannelMinMaxObserver" },
  };
  const convolutions = (observer) => ({
    name: "convolutions only",
    annotate: (graph) =>
      graph.nodes
        .filter((node) => node.target === "torch.ops.aten.conv2d.default")
        .map((node) => ({
          node: node.name,
          inputs: [
            [node.args[0].node, activation(observer)],
            [node.args[1].node, weight],
          ],
          output: activation(observer),
          annotated: true,
        })),
  });

  test("a quantizer decides what is quantized", () => {
    const prepared = qdq.preparePt2e(program, convolutions({ class: "MinMaxObserver" }));
    prepared.run([images(program, 2)]);
    const nodes = qdq.convertPt2e(prepared).info().nodes;
    const isDequantized = (name) => nodes.find((node) => node.name === name).target.includes("dequantize");
    const all = nodes.filter((node) => node.target === "torch.ops.aten.conv2d.default");
    expect(all.length).toBeGreaterThan(2);
    expect(all.every((node) => isDequantized(node.args[0].node) && isDequantized(node.args[1].node))).toBe(true);
    const linear = nodes.find((node) => node.target === "torch.ops.aten.linear.default");
    expect(isDequantized(linear.args[1].node)).toBe(false);
  });

  test("an observer sees every batch and decides the qparams", () => {
    class HalfRange {
      most = 0;
      batches = 0;
      constructor(settings) {
        expect(settings).toMatchObject({ dtype: "int8", quantMin: -128, quantMax: 127, qscheme: "per_tensor_affine" });
      }
      forward(tensor) {
        ++this.batches;
        expect(tensor.dtype).toBe("float32");
        for (const value of tensor.data) this.most = Math.max(this.most, Math.abs(value));
      }
      calculateQparams() {
        expect(this.batches).toBe(2);
        return { scale: this.most / 254, zeroPoint: -3 };
      }
    }
    const prepared = qdq.preparePt2e(
      program,
      convolutions((settings) => new HalfRange(settings)),
    );
    for (const seed of [1, 2]) prepared.run([images(program, 2, seed)]);
    const reports = prepared.observers().filter((observer) => observer.class === "HalfRange");
    expect(reports.length).toBeGreaterThan(2);
    const { qparams } = qdq.convertPt2e(prepared).info();
    const given = qparams.filter((value) => value.zeroPoint.length === 1 && value.zeroPoint[0] === -3);
    expect(given.length).toBeGreaterThan(2);
    const input = program.info().inputs[0].name;
    const most = Math.max(...[1, 2].flatMap((seed) => Array.from(images(program, 2, seed).data, Math.abs)));
    expect(given.find((value) => value.of === input).scale[0]).toBe(Math.fround(most / 254));
  });

  test("their errors come through", () => {
    const own = new RangeError("not today");
    const throwing = {
      annotate() {
        throw own;
      },
    };
    expect(thrown(() => qdq.preparePt2e(program, throwing))).toBe(own);
    const observer = () => ({
      forward() {
        throw own;
      },
      calculateQparams: () => ({ scale: 1, zeroPoint: 0 }),
    });
    const prepared = qdq.preparePt2e(program, convolutions(observer));
    expect(thrown(() => prepared.run([images(program, 1)]))).toBe(own);
    const wrong = () => ({ forward() {}, calculateQparams: () => ({ scale: -1, zeroPoint: 0 }) });
    const calibrated = qdq.preparePt2e(program, convolutions(wrong));
    calibrated.run([images(program, 1)]);
    expect(thrown(() => qdq.convertPt2e(calibrated))).toMatchObject({
      code: "InvalidArgument",
      message: expect.stringContaining("scale -1"),
    });
  });

  test("annotations are checked", () => {
    const answer = (annotations) => thrown(() => qdq.preparePt2e(program, { annotate: () => annotations }));
    expect(answer([{ node: "nowhere" }])).toMatchObject({
      name: "QdqError",
      code: "InvalidArgument",
      message: expect.stringContaining("nowhere"),
    });
    expect(answer("none")).toMatchObject({
      code: "InvalidArgument",
      message: expect.stringContaining("did not return a list"),
    });
    const first = program.info().nodes.find((node) => node.target === "torch.ops.aten.conv2d.default");
    expect(answer([{ node: first.name, output: { spec: "quantisation", dtype: "int8" } }]).code).toBe(
      "InvalidArgument",
    );
  });

  test("they may stand beside the built-in ones", () => {
    const linearOnly = new XNNPACKQuantizer().setOperatorType(
      "torch.ops.aten.linear",
      qdq.getSymmetricQuantizationConfig(),
    );
    const both = qdq.preparePt2e(
      program,
      new ComposableQuantizer([linearOnly, convolutions({ class: "MinMaxObserver" })]),
    );
    expect(both.observers().map((observer) => observer.class)).toEqual(
      expect.arrayContaining(["MinMaxObserver", "HistogramObserver"]),
    );
  });
});
