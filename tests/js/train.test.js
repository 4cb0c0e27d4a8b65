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

test("the mean squared error needs a tensor, and a step can have another learning rate", () => {
  const prepared = qdq.prepareQatPt2e(program, quantizer());
  const trainer = new qdq.Trainer(prepared, { loss: "mse", momentum: 0.9, weightDecay: 1e-4 });
  trainer.setLr(1e-3);
  const target = qdq.tensor(new Float32Array(4 * 16), [4, 16]);
  expect(trainer.step({ inputs: batches[0].inputs, target })).toBeGreaterThan(0);
  expect(thrown(() => trainer.step({ inputs: batches[0].inputs, target: [1, 2, 3, 4] })).message).toMatch(
    /needs float32 \[4, 16\]/,
  );
});

// The mean squared error as the caller's own.
test("a fake quantizer of one's own rounds, and its gradient passes", () => {
  let rounds = 0;
  class Halves {
    forward() {}
    calculateQparams() {
      return { scale: 0.5, zeroPoint: 0 };
    }
    fakeQuantize(tensor) {
      rounds += 1;
      return qdq.tensor(
        tensor.data.map((x) => Math.round(x * 2) / 2),
        tensor.shape,
      );
    }
  }
  const linear = program.info().nodes.find((node) => node.target === "torch.ops.aten.linear.default");
  const observer = () => new Halves();
  const output = { spec: "quantization", dtype: "int8", qscheme: "per_tensor_symmetric", observer };
  const prepared = qdq.prepareQatPt2e(program, { annotate: () => [{ node: linear.name, output }] });
  const [logits] = prepared.run(batches[0].inputs);
  expect(rounds).toBe(1);
  expect(logits.data.every((x) => x * 2 === Math.round(x * 2))).toBe(true);
  const trainer = new qdq.Trainer(prepared, { optimizer: "adam", lr: 1e-3 });
  const losses = Array.from({ length: 20 }, () => trainer.step(batches[0]));
  expect(losses.at(-1)).toBeLessThan(losses[0] / 2);
  prepared.enableFakeQuant(false);
  const before = rounds;
  prepared.run(batches[0].inputs);
  expect(rounds).toBe(before);
  prepared.eval();
  qdq.convertPt2e(prepared);
});

test("any loss trains by the gradients that the caller gives", () => {
  const target = qdq.tensor(
    Float32Array.from({ length: 4 * 16 }, (_, i) => Math.sin(i)),
    [4, 16],
  );
  const mse = ([output], batch) => {
    const distances = output.data.map((value, i) => value - batch.target.data[i]);
    return {
      loss: distances.reduce((sum, one) => sum + one * one, 0) / distances.length,
      grads: [
        qdq.tensor(
          distances.map((one) => (2 / distances.length) * one),
          output.shape,
        ),
      ],
    };
  };
  const options = { optimizer: "adamw", lr: 1e-3, weightDecay: 0.1, betas: [0.8, 0.99] };
  const named = new qdq.Trainer(qdq.prepareQatPt2e(program, quantizer()), { ...options, loss: "mse" });
  const own = new qdq.Trainer(qdq.prepareQatPt2e(program, quantizer()), { ...options, loss: mse });
  for (let step = 0; step < 3; ++step) {
    const batch = { inputs: batches[step].inputs, target };
    expect(own.step(batch)).toBeCloseTo(named.step(batch), 5);
  }
  const [name] = named.parameters();
  expect(own.gradients()[name].data.length).toBe(named.gradients()[name].data.length);
  const [output] = own.forward(batches[0].inputs);
  expect(thrown(() => own.backward([qdq.tensor(new Float32Array(3))])).message).toMatch(/wanted float32 \[4, 16\]/);
  own.backward([qdq.tensor(new Float32Array(64).fill(1), output.shape)]);
  own.update();
  expect(thrown(() => own.update()).message).toMatch(/no new gradients/);
});

test("the learning rate follows a schedule, as torch.optim.lr_scheduler has it", () => {
  const schedule = { schedule: "cosine", totalSteps: 4, warmupSteps: 2, warmupStartFactor: 0.5 };
  const trainer = new qdq.Trainer(qdq.prepareQatPt2e(program, quantizer()), { lr: 1e-4, schedule });
  const rates = [];
  for (let step = 0; step < 5; ++step) {
    rates.push(trainer.lr());
    trainer.step(batches[0]);
  }
  [0.5, 0.75, 1, (2 + Math.SQRT2) / 4, 0.5].forEach((share, i) => expect(rates[i]).toBeCloseTo(share * 1e-4, 12));
});

test("distillation needs the float model's output and no classes", async () => {
  const { inputs } = batches[0];
  const [teacher] = qdq.lower(program).run(inputs);
  const options = { optimizer: "adam", lr: 1e-3, distillation: 1, temperature: 2 };
  const trainer = new qdq.Trainer(qdq.prepareQatPt2e(program, quantizer()), options);
  const first = trainer.step({ inputs, teacher });
  for (let step = 0; step < 10; ++step) trainer.step({ inputs, teacher });
  expect(trainer.step({ inputs, teacher })).toBeLessThan(first);
  expect(thrown(() => trainer.step({ inputs })).message).toMatch(/the float model's output must be float32 \[4, 16\]/);
});

// The second goes on where the first was, with learnt scales too.
test("a training goes on from its state to the byte", () => {
  const made = () => {
    const prepared = qdq.prepareQatPt2e(program, quantizer());
    prepared.learnQparams();
    return { prepared, trainer: new qdq.Trainer(prepared, { optimizer: "adamw", lr: 1e-3, qparamsLr: 0.01 }) };
  };
  const [whole, second] = [made(), made()];
  whole.prepared.run(batches[0].inputs);
  whole.prepared.enableParamLearning();
  for (const batch of batches) whole.trainer.step(batch);
  const state = structuredClone(whole.trainer.stateDict());
  second.trainer.loadStateDict(state);
  for (const { trainer } of [whole, second]) for (const batch of batches) trainer.step(batch);
  const bytes = ({ prepared }) => {
    prepared.eval();
    return qdq.savePt2(qdq.convertPt2e(prepared));
  };
  expect(Buffer.compare(bytes(whole), bytes(second))).toBe(0);
  expect(whole.trainer.parameters().some((name) => name.endsWith(".scale"))).toBe(true);
  const { updates, ...rest } = state;
  expect(updates.data[0]).toBe(3n);
  expect(thrown(() => second.trainer.loadStateDict(rest)).message).toMatch(/the state has no updates/);
});

test("images are changed by seed, epoch and sample alone", () => {
  const [image] = batches[0].inputs;
  const how = { crop: 2, flip: true, brightness: 0.2, saturation: 0.1 };
  const options = { seed: 3, epoch: 1, preprocess: { mean: 0.5, std: 0.215 } };
  const changed = qdq.augment(image, how, options);
  expect(changed.shape).toEqual(image.shape);
  expect(changed.data).not.toEqual(image.data);
  expect(qdq.augment(image, how, options).data).toEqual(changed.data);
  expect(qdq.augment(image, how, { ...options, epoch: 2 }).data).not.toEqual(changed.data);
  expect(qdq.augment(image, { flip: 0, brightness: 0 }, options).data).toEqual(image.data);
  expect(thrown(() => qdq.augment(image, {})).message).toMatch(/changes nothing; give crop/);
  expect(thrown(() => qdq.augment(image, { flop: 1 })).message).toMatch(/unknown field 'flop'/);
  expect(thrown(() => qdq.augment(image, how, { seed: -1 })).message).toMatch(/is -1/);
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
    "there is no optimizer lamb; wanted sgd, adam or adamw",
  );
  expect(words(() => new qdq.Trainer(prepared, { rate: 1 }))).toMatch(/rate/);
  expect(words(() => new qdq.Trainer(prepared, { loss: 1 }))).toMatch(/^loss is 1; wanted "cross_entropy"/);
  expect(words(() => new qdq.Trainer(prepared, { schedule: { step: 1 } }))).toMatch(/has no option step/);
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
