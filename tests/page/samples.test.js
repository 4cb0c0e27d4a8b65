// What the page makes of models that do not name classes, of sounds and of texts; training; and models that it keeps.
const { readFileSync } = require("node:fs");
const path = require("node:path");
const { constant, model, node, value } = require("./onnx.js");
const {
  buffer,
  downloaded,
  inBrowser,
  npy,
  openPage,
  openTab,
  qdq,
  quantize,
  scratch,
  shapes,
  takeExample,
  text,
} = require("./page.js");

const tested = inBrowser();

const floats = (count, of) => Float32Array.from({ length: count }, (_, i) => of(i));

// Boxes of YOLOv8's form, [4 + 2, 25]: each cell has a box of 16 pixels in the middle. The first class's score is the
// brightness of the cell, the second's is 0.1.
function detector() {
  const weight = floats(6 * 192, (i) => (Math.floor(i / 192) === 4 ? 1 / 192 : 0));
  return model(
    "detector",
    node("Conv", ["x", "w", "b"], "cells", { strides: [8, 8], kernel_shape: [8, 8] }),
    node("Reshape", ["cells", "shape"], "y"),
    constant("w", [6, 3, 8, 8], weight),
    constant("b", [6], Float32Array.of(20, 20, 16, 16, 0, 0.1)),
    constant("shape", [3], BigInt64Array.of(-1n, 6n, 25n)),
    value(11, "x", [3, 40, 40]),
    value(12, "y", [6, 25]),
  );
}

// The class of a pixel is its strongest channel, or the ground if all are weak.
function segmenter() {
  const weight = floats(12, (i) => (i >= 3 && (i - 3) % 4 === 0 ? 1 : 0));
  return model(
    "segmenter",
    node("Conv", ["x", "w", "b"], "y", { kernel_shape: [1, 1] }),
    constant("w", [4, 3, 1, 1], weight),
    constant("b", [4], Float32Array.of(0.3, 0, 0, 0)),
    value(11, "x", [3, 40, 40]),
    value(12, "y", [4, 40, 40]),
  );
}

// What a detector gives for scales of its cells: 85 numbers for each cell of so many pixels.
const scales = (...strides) =>
  model(
    "scales",
    ...strides.flatMap((stride) => [
      node("Conv", ["x", `w${stride}`], `y${stride}`, { strides: [stride, stride], kernel_shape: [1, 1] }),
      constant(
        `w${stride}`,
        [85, 3, 1, 1],
        floats(255, (i) => Math.sin(i)),
      ),
    ]),
    value(11, "x", [3, 160, 160]),
    ...strides.map((stride) => value(12, `y${stride}`, [85, 160 / stride, 160 / stride])),
  );

const denoiser = () =>
  model(
    "denoiser",
    node("Conv", ["x", "w"], "y", { kernel_shape: [5], pads: [2, 2] }),
    constant(
      "w",
      [1, 1, 5],
      floats(5, () => 0.2),
    ),
    value(11, "x", [1, 400]),
    value(12, "y", [1, 400]),
  );

function reader() {
  return model(
    "reader",
    node("Gather", ["words", "ids"], "embedded"),
    node("ReduceMean", ["embedded"], "mean", { axes: [1], keepdims: 0 }),
    node("Gemm", ["mean", "w"], "y"),
    constant(
      "words",
      [6, 4],
      floats(24, (i) => Math.sin(i * i)),
    ),
    constant(
      "w",
      [4, 3],
      floats(12, (i) => Math.cos(7 * i)),
    ),
    value(11, "ids", [4], "int64"),
    value(12, "y", [3]),
  );
}

// Opens a model, gives it data, quantizes, and shows the predictions.
async function predictions(name, content, ...data) {
  const { page, problems } = await openPage(tested.browser, tested.server.url);
  await page.setInputFiles("#model-file", buffer(name, content));
  await page.waitForSelector("#layers-view tbody tr");
  await page.setInputFiles("#calibration-files", data);
  await page.waitForSelector("#calibration-summary:not(:empty)");
  await quantize(page);
  await openTab(page, "predictions");
  expect(problems).toEqual([]);
  return page;
}
// The color of a pixel of a drawing, by shares of its sides.
const pixelAt = (page, selector, x, y) =>
  page
    .locator(selector)
    .evaluate(
      (canvas, [u, v]) => [
        ...canvas.getContext("2d").getImageData(Math.floor(u * canvas.width), Math.floor(v * canvas.height), 1, 1).data,
      ],
      [x, y],
    );

test("draws the boxes of detectors on the pictures, from the score on that is wanted", async () => {
  const images = floats(2 * 4800, (i) => (i < 4800 ? 0.8 : 0.05));
  const page = await predictions("detector.onnx", detector(), buffer("x.npy", npy([2, 3, 40, 40], images)));
  const figures = page.locator("#samples figure");
  expect(await figures.count()).toBe(2);
  // All cells of the bright picture have the same box, which is drawn once; the dark one has none.
  expect(
    await figures
      .nth(0)
      .locator("small", { hasText: /^1 box$/ })
      .count(),
  ).toBe(2);
  expect(
    await figures
      .nth(1)
      .locator("small", { hasText: /^0 boxes$/ })
      .count(),
  ).toBe(2);
  const drawing = "#samples figure:nth-child(1) .answers div:nth-child(3) canvas";
  const [ground, edge] = [await pixelAt(page, drawing, 0.5, 0.5), await pixelAt(page, drawing, 0.7, 0.5)];
  expect(edge).not.toEqual(ground); // the box ends at 28 of 40 pixels
  await page.fill("#threshold", "90");
  await page.press("#threshold", "Enter");
  expect(
    await figures
      .nth(0)
      .locator("small", { hasText: /^0 boxes$/ })
      .count(),
  ).toBe(2);
  await page.selectOption("#drawing", "numbers");
  expect(await figures.nth(0).locator("canvas").count()).toBe(1);
  await page.close();
});

test("draws masks, and counts the pixels that both models see alike", async () => {
  // The left half is of the first channel, the right half of none.
  const images = floats(4800, (i) => (i < 1600 && i % 40 < 20 ? 0.9 : 0.1));
  const page = await predictions("segmenter.onnx", segmenter(), buffer("x.npy", npy([1, 3, 40, 40], images)));
  expect(await text(page, "#samples figcaption")).toContain("the same class at 100.0 % of the pixels");
  const drawing = "#samples .answers div:nth-child(2) canvas";
  const [left, right] = [await pixelAt(page, drawing, 0.25, 0.5), await pixelAt(page, drawing, 0.75, 0.5)];
  expect(Math.max(...left.slice(0, 3)) - Math.min(...left.slice(0, 3))).toBeGreaterThan(60);
  expect(Math.max(...right.slice(0, 3)) - Math.min(...right.slice(0, 3))).toBeLessThan(5);
  await page.close();
});

test.each([
  ["cells of 16 pixels", [16], "numbers"],
  ["two scales", [4, 8], "numbers"],
  ["cells of 8 pixels", [8], "a mask"],
])("takes the numbers of %s for what they are", async (_name, strides, drawn) => {
  const images = floats(3 * 160 * 160, (i) => Math.cos(i / 99));
  const page = await predictions("scales.onnx", scales(...strides), buffer("x.npy", npy([1, 3, 160, 160], images)));
  // The picture alone, or both answers beside it.
  expect(await page.locator("#samples figure").first().locator("canvas").count()).toBe(drawn === "a mask" ? 3 : 1);
  await page.close();
});

test("draws sounds as waveforms", async () => {
  const page = await predictions(
    "denoiser.onnx",
    denoiser(),
    buffer(
      "x.npy",
      npy(
        [2, 1, 400],
        floats(800, (i) => Math.sin(i / 9)),
      ),
    ),
  );
  expect(await page.locator("#samples figure").first().locator("canvas").count()).toBe(3);
  expect(await text(page, "#samples figcaption")).toMatch(/400 values, \d+\.\d % off/);
  await page.close();
});

test("reads the words of texts where a tokenizer is given", async () => {
  const vocab = { "[PAD]": 0, quant: 1, "##ize": 2, the: 3, model: 4, now: 5 };
  const header = `${"{'descr': '<i8', 'fortran_order': False, 'shape': (3, 4), }".padEnd(117)}\n`;
  const front = Buffer.from([0x93, ...Buffer.from("NUMPY"), 1, 0, header.length, 0]);
  const ids = BigInt64Array.of(1n, 2n, 3n, 4n, 5n, 1n, 2n, 0n, 3n, 4n, 0n, 0n);
  const page = await predictions(
    "reader.onnx",
    reader(),
    buffer("ids.npy", Buffer.concat([front, Buffer.from(header), Buffer.from(ids.buffer)])),
    buffer("tokenizer.json", JSON.stringify({ model: { type: "WordPiece", vocab } })),
  );
  const all = await text(page, "#predictions");
  for (const words of ["quantize the model", "now quantize", "the model"]) expect(all).toContain(words);
  await page.close();
});

test("trains to the bytes of the command line, and says how the loss fell", async () => {
  const { page, problems } = await openPage(tested.browser, tested.server.url);
  await takeExample(page);
  await page.fill("#epochs", "2");
  expect(await page.isDisabled("#recover")).toBe(true);
  await quantize(page);
  expect(await text(page, "#progress-text")).toMatch(/^Done: trained in .*; the loss went from \d\.\d+ to \d\.\d+\.$/);
  const wanted = path.join(scratch, "trained.pt2");
  const labels = ["--labels", "calibration/labels.csv", "--preprocess", "preprocess.json"];
  const words = [...labels, "--recipe", "recipe.json", "--epochs", "2", "-o", wanted];
  qdq("train", "model.pt2", "--data", "calibration", ...words);
  expect((await downloaded(page, "#save-model")).bytes.equals(readFileSync(wanted))).toBe(true);
  expect(await text(page, "#result")).toContain("trained, 2 epochs");
  expect(await page.getByLabel("errors by layer").locator("tbody tr").count()).toBe(8);

  // A training can be ended in the middle.
  await page.fill("#epochs", "900");
  await page.click("#start");
  await page.waitForFunction(() =>
    /^Training: .*, epoch 1 of 900/.test(document.querySelector("#progress-text").textContent),
  );
  await page.click("#progress-cancel");
  await page.waitForFunction(() => /^Cancelled/.test(document.querySelector("#progress-text").textContent));
  await page.fill("#epochs", "");
  await quantize(page);
  await page.fill("#epochs", "1");
  await page.click("#start");
  await page.waitForFunction(() =>
    /^Done: trained in .*; the loss is \d\.\d+\.$/.test(document.querySelector("#progress-text").textContent),
  );
  expect(problems).toEqual([]);
  await page.close();
});

test("keeps models for the next visit if the person wants it, and forgets them", async () => {
  const { page, problems } = await openPage(tested.browser, tested.server.url);
  const open = async () => {
    await page.setInputFiles("#model-file", path.join(shapes, "model.pt2"));
    await page.waitForSelector("#layers-view tbody tr");
  };
  await open();
  await page.goto(tested.server.url);
  expect(await page.locator(".recent li").count()).toBe(0); // nobody asked for it
  await page.check("#keep-models");
  await open();
  await page.waitForFunction(() => document.querySelectorAll(".recent li").length === 1);
  await page.goto(tested.server.url);
  await page.locator(".recent").getByRole("button", { name: "model.pt2", exact: true }).click();
  await page.waitForSelector("#layers-view tbody tr");
  expect(await text(page, "#model-name")).toBe("model.pt2");
  await page.goto(tested.server.url);
  await page.click("[aria-label='Forget model.pt2']");
  await page.waitForFunction(() => document.querySelectorAll(".recent li").length === 0);
  expect(problems).toEqual([]);
  await page.close();
});
