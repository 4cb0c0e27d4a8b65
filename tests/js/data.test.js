// Data, explanations, comparison by layer and the report, as the page uses them.
const { execFileSync } = require("node:child_process");
const { readFileSync, readdirSync } = require("node:fs");
const path = require("node:path");
const { folder, images, model, qdq, thrown } = require("./shapes.js");

const calibration = path.join(folder, "calibration");
const preprocess = JSON.parse(readFileSync(path.join(folder, "preprocess.json"), "utf8"));
const recipe = { quantizer: "XNNPACKQuantizer", global: { is_per_channel: true } };
const files = (count) =>
  new Map(
    readdirSync(calibration)
      .filter((name) => name.endsWith(".png"))
      .slice(0, count)
      .map((name) => [name, () => readFileSync(path.join(calibration, name))]),
  );

// The CRC-32 of zip archives.
function crc32(bytes) {
  let crc = ~0;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; ++bit) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
}

// An .npz of arrays by name: a zip archive whose members are stored.
function npz(arrays) {
  const [parts, central] = [[], []];
  let at = 0;
  for (const [name, bytes] of Object.entries(arrays)) {
    const file = Buffer.from(`${name}.npy`);
    const head = Buffer.alloc(26); // from the version on, which both headers have
    head.writeUInt16LE(20, 0);
    head.writeUInt32LE(crc32(bytes), 10);
    head.writeUInt32LE(bytes.length, 14);
    head.writeUInt32LE(bytes.length, 18);
    head.writeUInt16LE(file.length, 22);
    const tail = Buffer.alloc(14);
    tail.writeUInt32LE(at, 10);
    parts.push(Buffer.from("PK\x03\x04"), head, file, bytes);
    central.push(Buffer.from("PK\x01\x02\x14\x00", "latin1"), head, tail, file);
    at += 30 + file.length + bytes.length;
  }
  const end = Buffer.alloc(18);
  end.writeUInt16LE(Object.keys(arrays).length, 4);
  end.writeUInt16LE(Object.keys(arrays).length, 6);
  end.writeUInt32LE(Buffer.concat(central).length, 8);
  end.writeUInt32LE(at, 12);
  return Buffer.concat([...parts, ...central, Buffer.from("PK\x05\x06"), end]);
}

let program;
beforeAll(async () => {
  program = await qdq.loadPt2(model());
});

describe("openData", () => {
  test("makes batches of images in the order of their names, and finds their labels", () => {
    const some = new Map([...files(5)].reverse()).set("labels.csv", readFileSync(path.join(calibration, "labels.csv")));
    const data = qdq.openData(program, some, { preprocess, batchSize: 2, labels: "labels.csv" });
    expect([data.numSamples, data.numBatches, data.files]).toEqual([
      5,
      3,
      ["000.png", "001.png", "002.png", "003.png", "004.png"],
    ]);
    expect([...data].map(([batch]) => batch.shape)).toEqual([
      [2, 3, 40, 40],
      [2, 3, 40, 40],
      [1, 3, 40, 40],
    ]);
    expect(data.labels()).toEqual([0, 1, 2, 3, 4]);
    const one = qdq.openData(program, files(1), { preprocess }).batch(0)[0];
    expect(data.batch(0)[0].data.slice(0, one.data.length)).toEqual(one.data);
    expect(qdq.openData(program, files(5), { preprocess, limit: 3 }).numSamples).toBe(3);
    const uneven = new Map([...files(6)].map(([name, read], i) => [`${"abaaaa"[i]}/${name}`, read]));
    expect(qdq.openData(program, uneven, { preprocess, limit: 3 }).files).toEqual([
      "a/000.png",
      "a/002.png",
      "b/001.png",
    ]);
    const inFolders = new Map([...files(2)].map(([name, read], i) => [`class${i}/${name}`, read]));
    expect(qdq.openData(program, inFolders, { preprocess }).files).toEqual(["class0/000.png", "class1/001.png"]);
  });

  test("reads parts of arrays and of archives when their batch comes", () => {
    const batch = images(program, 6);
    const header = `${"{'descr': '<f4', 'fortran_order': False, 'shape': (6, 3, 40, 40), }".padEnd(117)}\n`;
    const start = Buffer.from([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, header.length % 256, 0]);
    const array = Buffer.concat([start, Buffer.from(header), Buffer.from(batch.data.buffer)]);
    let read = 0;
    const source = (bytes) => ({
      size: bytes.length,
      readInto(offset, out) {
        read += out.length;
        return bytes.copy(out, 0, offset);
      },
    });
    const data = qdq.openData(program, new Map([["a.npy", source(array)]]), { batchSize: 2 });
    expect(data.numSamples).toBe(6);
    read = 0;
    expect(data.batch(1)[0].data).toEqual(batch.data.slice(2 * 4800, 4 * 4800));
    expect(read).toBeLessThan(array.length);

    const short = new Map([["a.npy", { ...source(array), readInto: () => 0 }]]);
    expect(thrown(() => qdq.openData(program, short))).toMatchObject({
      code: "Io",
      message: "cannot read data/a.npy: it has become shorter while it was read",
    });
    expect(thrown(() => qdq.openData(program, new Map([["a.npy", 7]]))).message).toBe(
      "openData was given a Number, wanted the bytes of a file as a Uint8Array or an ArrayBuffer",
    );
  });

  test("warns of an array that no input reads, but of labels", () => {
    const array = (shape, values) => {
      const header = `${`{'descr': '<f4', 'fortran_order': False, 'shape': (${shape}), }`.padEnd(117)}\n`;
      const start = Buffer.from([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, header.length % 256, 0]);
      return Buffer.concat([start, Buffer.from(header), Buffer.from(values.buffer)]);
    };
    const x = array("2, 3, 40, 40", images(program, 2).data);
    const warningsOf = (arrays) => qdq.openData(program, new Map([["a.npz", npz(arrays)]])).warnings;
    expect(warningsOf({ x, labels: array("2,", new Float32Array(2)) })).toEqual([]);
    expect(warningsOf({ x, y: array("2,", new Float32Array(2)) })).toEqual([
      "data/a.npz holds an array y that no input of the program reads; its inputs are x",
    ]);
    expect(qdq.openData(program, files(1), { preprocess }).warnings).toEqual([]);
  });

  test("takes images of a .tar", () => {
    const tar = execFileSync("tar", ["-c", "-C", calibration, "000.png", "001.png", "002.png"]);
    const inTar = qdq.openData(program, new Map([["a.tar", tar]]), { preprocess });
    expect(inTar.files).toEqual(["000.png", "001.png", "002.png"]);
    expect(inTar.batch(0)[0]).toEqual(qdq.openData(program, files(3), { preprocess }).batch(0)[0]);
  });

  test("takes folders for classes", () => {
    const classes = readFileSync(path.join(folder, "classes.txt"), "utf8").trim().split("\n");
    const inFolders = new Map([...files(3)].map(([name, read], i) => [`${classes[15 - i]}/${name}`, read]));
    const data = qdq.openData(program, inFolders, { preprocess, labels: "folders", classes });
    expect(data.folders).toEqual(["checks", "spiral", "stripes"]);
    expect([data.files, data.labels(), data.classes()]).toEqual([
      ["checks/001.png", "spiral/000.png", "stripes/002.png"],
      [14, 15, 13],
      classes,
    ]);
    expect(thrown(() => qdq.openData(program, inFolders, { preprocess, labels: "folders" }).labels()).message).toMatch(
      /3 folders.*16 classes/,
    );
    const numbered = new Map([...files(2)].map(([name, read], i) => [`${9 + i}/${name}`, read]));
    expect(qdq.openData(program, numbered, { preprocess, labels: "folders" }).labels()).toEqual([10, 9]);
  });

  test("says what is wrong", () => {
    expect(thrown(() => qdq.openData(program, new Map([["a.txt", new Uint8Array(1)]]))).message).toMatch(
      /^\S+ is not data; wanted an \.npz/,
    );
    expect(thrown(() => qdq.openData(program, files(1))).message).toMatch(/preprocess/);
    expect(thrown(() => qdq.openData(program, files(1), { preprocess: { resiez: 1 } })).message).toMatch(/resiez/);
    expect(thrown(() => qdq.openData(program, new Map([["a.npy", new Uint8Array(9)]]))).code).toBe("BadFile");
    const data = qdq.openData(program, files(1), { preprocess });
    expect(thrown(() => data.batch(1)).message).toMatch(/no batch 1; the data has 1/);
    expect(thrown(() => data.labels()).message).toMatch(/labels/);
    const unreadable = qdq.openData(
      program,
      new Map([
        [
          "a.png",
          () => {
            throw new Error("it is gone");
          },
        ],
      ]),
      { preprocess },
    );
    expect(thrown(() => unreadable.batch(0))).toMatchObject({
      code: "Io",
      message: expect.stringContaining("it is gone"),
    });
  });
});

test("explains before data, watches calibration, compares layers and writes the report", async () => {
  const prepared = qdq.preparePt2e(program, { ...recipe, module_name: [["stem.conv.0", null]] });
  const { operators } = qdq.explain(prepared);
  expect(operators.find(({ module }) => module === "stem.conv.0")).toMatchObject({
    outcome: "float",
    op: "aten.conv2d.default",
  });
  expect(operators.filter(({ outcome }) => outcome === "quantized").length).toBeGreaterThan(20);
  expect(prepared.calibration().some(({ counts }) => counts)).toBe(false);

  const batch = images(program, 4);
  prepared.run([batch]);
  const seen = prepared.calibration().filter(({ counts }) => counts);
  expect(seen.length).toBeGreaterThan(10);
  for (const { counts, min, max, low, high, clipped } of seen) {
    expect(counts.length).toBe(64);
    expect(min).toBeLessThanOrEqual(max);
    expect(low).toBeLessThan(high);
    expect(clipped).toBeLessThan(0.05);
  }

  const quantized = qdq.convertPt2e(prepared);

  // What was seen is enough for the same program, and each look was told.
  const fresh = qdq.preparePt2e(program, { ...recipe, module_name: [["stem.conv.0", null]] });
  expect(thrown(() => fresh.loadObservers([])).message).toMatch(/is not the statistics of this model's \d+ observers/);
  fresh.loadObservers(prepared.observers());
  expect(Buffer.compare(qdq.savePt2(qdq.convertPt2e(fresh)), qdq.savePt2(quantized))).toBe(0);
  const looks = [];
  fresh.run([batch], (done, total) => looks.push([done, total]));
  expect(looks.map(([done]) => done)).toEqual(looks.map((_, i) => i + 1));
  expect(new Set(looks.map(([, total]) => total))).toEqual(new Set([looks.length]));

  const comparison = qdq.compareLayers(prepared, quantized);
  expect(comparison.layers()).toEqual([]);
  comparison.add([batch]);
  const errors = comparison.layers();
  const decibels = errors.map(({ sqnrDb }) => sqnrDb ?? Infinity);
  expect(decibels).toEqual([...decibels].sort((a, b) => a - b));
  // The last layer's error is that of the output; values near the middle of two integers round as the order of a sum
  // has it.
  const [x] = qdq.lower(program).run([batch]);
  const [y] = qdq.lower(quantized, { backend: "reference" }).run([batch]);
  let signal = 0;
  let noise = 0;
  x.data.forEach((value, i) => {
    signal += value * value;
    noise += (value - y.data[i]) ** 2;
  });
  expect(errors.find(({ node }) => node === "linear").sqnrDb).toBeCloseTo(10 * Math.log10(signal / noise), 0);

  // Each layer's own error, and its weight's; the same from files alone, without what was prepared.
  const last = errors.find(({ node }) => node === "linear");
  expect(last.own.sqnrDb).toBeGreaterThan(last.sqnrDb + 3);
  expect(last.weight.sqnrDb).toBeGreaterThan(20);
  expect(last.worst.sample).toBeLessThan(4);
  expect(last.cosine).toBeGreaterThan(0.9);
  const files = qdq.compareLayers(await qdq.loadPt2(qdq.savePt2(program)), [
    await qdq.loadPt2(qdq.savePt2(quantized)),
    await qdq.loadOnnx(qdq.saveOnnx(quantized)),
  ]);
  files.add([batch]);
  const bits = (layers) => layers.map(({ node, sqnrDb, own }) => [node, sqnrDb, own?.sqnrDb]);
  expect(bits(files.layers())).toEqual(bits(errors));
  expect(files.layers(1).find(({ node }) => node === "linear").sqnrDb).toBeGreaterThan(10);
  expect(() => files.layers(2)).toThrow(/there is no candidate 2 in the comparison, which has 2/);

  const evaluation = qdq.evaluate(program, quantized, [0, 1, 2, 3]);
  evaluation.add([batch]);
  const { accuracy, predictions, speed, sqnr } = evaluation.report();
  expect(sqnr).toBeGreaterThan(10);
  expect(speed.batch).toBe(4);
  const first = (output) =>
    [0, 1, 2, 3]
      .map((i) => output.data.slice(16 * i, 16 * i + 16))
      .map((scores) => scores.indexOf(Math.max(...scores)));
  const right = first(x).filter((answer, i) => answer === i).length;
  expect(accuracy.top1[0]).toBe(25 * right);
  for (const { sample, float, label } of predictions)
    expect([label, float[0].class]).toEqual([sample, first(x)[sample]]);

  const report = qdq.quantizationReport(prepared, quantized);
  expect(report.layers).toEqual({ total: 21, quantized: 20 });
  expect(report.left.map(({ module }) => module)).toEqual(["stem.conv.0"]);
  const html = qdq.reportHtml({ ...report, errors, model: "</script><script>alert(1)</script>" });
  expect(html).toMatch(/^<!doctype html>/);
  expect(html.match(/<script/g).length).toBe(2);
});
