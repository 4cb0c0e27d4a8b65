// Quantization-aware training in the package.
const { images, model, qdq, thrown } = require("./shapes.js");

const quantizer = () =>
  new qdq.XNNPACKQuantizer().setGlobal(qdq.getSymmetricQuantizationConfig({ isPerChannel: true, isQat: true }));
const targets = new Set(["torch.ops.aten.batch_norm.default"]);

let program;
let batches;
beforeAll(async () => {
  program = await qdq.loadPt2(model());
  batches = [1, 2, 3].map((seed) => ({ inputs: [images(program, 4, seed)], target: [seed, 3, 0, 15] }));
});

test("training makes the loss smaller and converts to int8", async () => {
  const prepared = qdq.prepareQatPt2e(program, quantizer());
  const trainer = new qdq.Trainer(prepared, { optimizer: "adam", lr: 1e-3 });
  expect(trainer.parameters().length).toBeGreaterThan(20);
  const seen = [];
  const first = await trainer.train(batches, { onProgress: (progress) => seen.push(progress) });
  expect(seen.map(({ stage, done, total }) => ({ stage, done, total }))).toEqual(
    [1, 2, 3].map((done) => ({ stage: "train", done, total: 3 })),
  );
  expect(seen.reduce((sum, { loss }) => sum + loss, 0) / 3).toBeCloseTo(first);
  let last;
  for (let epoch = 0; epoch < 5; ++epoch) last = await trainer.train(batches);
  expect(last).toBeLessThan(first / 2);
  prepared.eval();
  prepared.enableObserver(false);
  const [rounded] = prepared.run(batches[0].inputs);
  const quantized = qdq.convertPt2e(prepared);
  expect(quantized.info().nodes.filter((node) => targets.has(node.target))).toEqual([]);
  const [logits] = qdq.lower(quantized).run(batches[0].inputs);
  const best = (data, row) =>
    data.slice(row * 16, row * 16 + 16).reduce((at, value, i, all) => (value > all[at] ? i : at), 0);
  for (let row = 0; row < 4; ++row) expect(best(logits.data, row)).toBe(best(rounded.data, row));
  // The program that it was prepared from is as it was.
  expect(Buffer.compare(qdq.savePt2(program), qdq.savePt2(await qdq.loadPt2(model())))).toBe(0);
});

test("the mean squared error wants a tensor, and a step can have another learning rate", () => {
  const prepared = qdq.prepareQatPt2e(program, quantizer());
  const trainer = new qdq.Trainer(prepared, { loss: "mse", momentum: 0.9, weightDecay: 1e-4 });
  trainer.setLr(1e-3);
  const target = qdq.tensor(new Float32Array(4 * 16), [4, 16]);
  expect(trainer.step({ inputs: batches[0].inputs, target })).toBeGreaterThan(0);
  expect(thrown(() => trainer.step({ inputs: batches[0].inputs, target: [1, 2, 3, 4] })).message).toMatch(
    /wants float32 \[4, 16\]/,
  );
});

test("training is cancelled between batches", async () => {
  const trainer = new qdq.Trainer(qdq.prepareQatPt2e(program, quantizer()), { lr: 1e-4 });
  const controller = new AbortController();
  await expect(
    trainer.train(batches, { signal: controller.signal, onProgress: () => controller.abort() }),
  ).rejects.toMatchObject({
    name: "QdqError",
    code: "Cancelled",
    message: "training was cancelled after 1 batches",
  });
});

test("settings that make no sense are refused with a sentence", async () => {
  const prepared = qdq.prepareQatPt2e(program, quantizer());
  const words = (work) => thrown(work).message;
  expect(words(() => new qdq.Trainer(program))).toMatch(/^this is not a prepared program/);
  expect(words(() => new qdq.Trainer(prepared, { loss: "l1" }))).toBe(
    "there is no loss l1; wanted cross_entropy or mse",
  );
  expect(words(() => new qdq.Trainer(prepared, { optimizer: "lamb" }))).toBe(
    "there is no optimizer lamb; wanted sgd or adam",
  );
  expect(words(() => new qdq.Trainer(prepared, { rate: 1 }))).toMatch(/rate/);
  expect(words(() => new qdq.Trainer(prepared, { lr: -1 }))).toMatch(/learning rate is -1/);
  const observers = new qdq.XNNPACKQuantizer().setGlobal(qdq.getSymmetricQuantizationConfig());
  expect(words(() => qdq.prepareQatPt2e(program, observers))).toMatch(/is_qat/);
  const trainer = new qdq.Trainer(prepared);
  expect(words(() => trainer.step({ inputs: batches[0].inputs, target: [0, 1, 2, 16] }))).toMatch(
    /the class 16, but the model's output has 16/,
  );
  await expect(trainer.train(5)).rejects.toMatchObject({ code: "InvalidArgument" });
  prepared.dispose();
  expect(words(() => trainer.step(batches[0]))).toMatch(
    /^this is not the prepared program of this trainer, or it has been disposed of$/,
  );
});
