// Calibrations in parts in the package.
const fs = require("node:fs");
const path = require("node:path");
const { folder, model, qdq, thrown } = require("./shapes.js");

const quantizer = () =>
  new qdq.XNNPACKQuantizer().setGlobal(qdq.getSymmetricQuantizationConfig({ isPerChannel: true }));

let program;
let data;
beforeAll(async () => {
  program = await qdq.loadPt2(model());
  const images = path.join(folder, "calibration");
  const files = new Map(fs.readdirSync(images).map((name) => [name, () => fs.readFileSync(path.join(images, name))]));
  const preprocess = JSON.parse(fs.readFileSync(path.join(folder, "preprocess.json"), "utf8"));
  data = qdq.openData(program, files, { preprocess, limit: 24, batchSize: 4 });
});

const prepare = () => qdq.preparePt2e(program, quantizer(), { mergeable: true });
async function stateOf(shard) {
  const prepared = prepare();
  const part = data.shard(shard);
  await prepared.calibrate(part);
  return prepared.state(part);
}

test("states of shards merge into that of one process, in any order and grouping", async () => {
  const whole = await stateOf("1/1");
  const parts = await Promise.all(["3/5", "1/5", "5/5", "2/5", "4/5"].map(stateOf));
  expect(await qdq.mergeStates(parts)).toBe(whole);
  const some = await qdq.mergeStates(parts.slice(0, 2), { partial: true });
  expect(JSON.parse(some).shards).toBe("1,3/5");
  expect(await qdq.mergeStates([...parts.slice(2), some])).toBe(whole);

  const calibrated = prepare();
  for (const batch of data) calibrated.run(batch);
  const loaded = prepare();
  expect(loaded.needsData()).toBe(true);
  loaded.loadState(whole);
  expect(loaded.needsData()).toBe(false);
  expect(qdq.savePt2(qdq.convertPt2e(loaded))).toEqual(qdq.savePt2(qdq.convertPt2e(calibrated)));
  // What the page draws lies in the range that was seen.
  for (const { class: name, counts } of loaded.calibration()) {
    if (name !== "MergeableHistogramObserver") continue;
    expect(counts).toHaveLength(64);
    expect(counts.reduce((a, b) => a + b)).toBeGreaterThan(0);
    expect(counts[0] + counts[63]).toBeGreaterThan(0);
  }
});

test("accuracy is recovered by what layers read in the shards, as by one process", async () => {
  const observed = () => qdq.preparePt2e(program, quantizer(), { mergeable: true, observeLayers: true });
  const stateOfShard = async (shard) => {
    const prepared = observed();
    await prepared.calibrate(data.shard(shard));
    return prepared.state(data.shard(shard));
  };
  const whole = await stateOfShard("1/1");
  const parts = await Promise.all(["2/3", "3/3", "1/3"].map(stateOfShard));
  expect(await qdq.mergeStates(parts)).toBe(whole);
  await expect(qdq.mergeStates([parts[0], await stateOf("3/3")])).rejects.toThrow(/holds what layers read/);

  const prepared = prepare();
  prepared.loadState(whole);
  const plain = qdq.savePt2(qdq.convertPt2e(prepared));
  const applied = await qdq.recoverByStatistics(prepared);
  expect(applied.map(({ remedy }) => remedy)).toEqual(["equalization", "rounding", "bias correction"]);
  expect(applied[2].changes).toBeGreaterThan(2);
  expect(qdq.savePt2(qdq.convertPt2e(prepared))).not.toEqual(plain);
  expect(await qdq.gptqByStatistics(prepared)).toBe(0);
  const without = prepare();
  without.loadState(await stateOf("1/1"));
  await expect(qdq.recoverByStatistics(without)).rejects.toMatchObject({ code: "NotCalibrated" });
});

test("data of one's own has a name", async () => {
  const batches = [data.batch(0), data.batch(1)];
  const texts = [];
  for (const [i, batch] of batches.entries()) {
    const prepared = prepare();
    prepared.run(batch);
    texts.push(prepared.state({ id: "mine", numSamples: 8, numBatches: 2, shard: `${i + 1}/2` }));
  }
  const together = prepare();
  for (const batch of batches) together.run(batch);
  expect(await qdq.mergeStates(texts)).toBe(together.state({ id: "mine", numSamples: 8, numBatches: 2, shard: "1/1" }));
});

test("parts that do not belong together are refused by name", async () => {
  const one = await stateOf("1/3");
  const two = await stateOf("2/3");
  await expect(qdq.mergeStates([one, two])).rejects.toThrow(/missing: 3\/3/);
  await expect(qdq.mergeStates([one, two, one])).rejects.toThrow(
    /shard 1 of 3 is there twice: in state 0 and in state 2/,
  );
  await expect(qdq.mergeStates([one, await stateOf("2/4")])).rejects.toThrow(/state 1 does not belong to state 0/);
  await expect(qdq.mergeStates([])).rejects.toThrow(/no parts/);
  await expect(qdq.mergeStates(one)).rejects.toThrow(/not a list of texts/);
  await expect(qdq.mergeStates([one.slice(0, 500)])).rejects.toMatchObject({ code: "BadFile" });
  expect(thrown(() => prepare().loadState(one)).message).toMatch(/1\/3 only/);
  expect(thrown(() => data.shard("4/3")).message).toMatch(/the shard is '4\/3'/);
  const ordered = qdq.preparePt2e(program, quantizer());
  expect(thrown(() => ordered.state()).message).toMatch(/HistogramObserver.*name MergeableHistogramObserver/);
});
