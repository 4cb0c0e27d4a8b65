// Recovery of accuracy in the package.
const { images, model, qdq } = require("./shapes.js");

const quantizer = () =>
  new qdq.XNNPACKQuantizer().setGlobal(qdq.getSymmetricQuantizationConfig({ isPerChannel: true }));

let program;
let batches;
beforeAll(async () => {
  program = await qdq.loadPt2(model());
  batches = [1, 2, 3].map((seed) => [images(program, 4, seed)]);
});

// The error that a promise is rejected with.
const rejected = (promise) =>
  promise.then(
    () => {
      throw new Error("nothing was thrown");
    },
    (error) => error,
  );

async function calibrated() {
  const prepared = qdq.preparePt2e(program, quantizer());
  await prepared.calibrate(batches);
  return prepared;
}

test("recovery brings the outputs nearer and says by how much", async () => {
  const prepared = await calibrated();
  const stages = new Set();
  const told = [];
  const results = await qdq.recover(prepared, batches, {
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
    "equalization",
    "ranges",
    "outputs",
    "bias correction",
  ]);
  expect(results.at(-1).after).toBeGreaterThan(results[0].before + 1);
  expect(stages).toContain("ranges");
  expect(qdq.savePt2(qdq.convertPt2e(prepared)).length).toBeGreaterThan(0);
});

test("a cancelled recovery keeps the remedies before", async () => {
  const prepared = await calibrated();
  const abort = new AbortController();
  let results = [];
  const error = await rejected(
    qdq.recover(prepared, batches, {
      signal: abort.signal,
      onRemedy: (result) => results.push(result),
      onProgress: ({ stage, done }) => {
        if (stage === "bias correction" && done > 0.3) abort.abort();
      },
    }),
  );
  expect(error.code).toBe("Cancelled");
  expect(results.map(({ remedy }) => remedy)).toEqual(["weight scales", "equalization", "ranges", "outputs"]);
  // What stayed is what those four give.
  const other = await calibrated();
  const again = await qdq.recover(other, batches, {});
  expect(again.slice(0, 4)).toEqual(results);
  // It can be taken up again.
  results = await qdq.recover(prepared, batches);
  expect(results[0].before).toBe(again[3].after);
  expect(results.at(-1).after).toBeGreaterThan(again[3].after);
});

test("recovery refuses what it cannot judge", async () => {
  const fresh = qdq.preparePt2e(program, quantizer());
  expect((await rejected(qdq.recover(fresh, batches))).code).toBe("NotCalibrated");
  const prepared = await calibrated();
  expect((await rejected(qdq.recover(prepared, []))).message).toContain("no samples");
  expect((await rejected(qdq.recover(prepared, 3))).message).toContain("wanted [[tensor, ...], ...]");
  expect((await rejected(qdq.recover(prepared, batches, { onRemdy: 1 }))).message).toContain("onRemedy");
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
