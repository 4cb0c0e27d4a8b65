// The page and a model above a gigabyte, which takes the module with 64-bit memory. For the lane memory64, which builds
// a page that has it.
const { closeSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync, writeSync } = require("node:fs");
const path = require("node:path");
const { bytes, message, model, node, number, value } = require("../page/onnx.js");
const { downloaded, inBrowser, npy, openPage, qdq, quantize, root, scratch, shapes } = require("../page/page.js");

const width = 4096;
const layers = 17; // of 64 MB: 1.14 GB

const tested = inBrowser();
afterAll(() => rmSync(scratch, { recursive: true }));

// Linear layers with pseudorandom weights, each with a ReLU behind it, as ONNX with its weights in a file beside it.
function writeLarge(file) {
  const size = 4 * width * width;
  // The same numbers come again and again, in another place of each row and layer.
  const period = 1000003;
  const weights = new Float32Array(width * width + layers * 1000);
  for (let k = 0, state = 1; k < period; ++k) {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    weights[k] = (state / 2 ** 31) * Math.sqrt(6 / width);
  }
  for (let k = period; k < weights.length; k *= 2) weights.copyWithin(k, 0, Math.min(k, weights.length - k));
  const data = openSync(`${file}.data`, "w");
  const parts = [];
  for (let i = 0; i < layers; ++i) {
    writeSync(data, weights.subarray(i * 1000, i * 1000 + width * width));
    const entry = (key, text) => message(13, bytes(1, key), bytes(2, String(text)));
    const where = [entry("location", path.basename(`${file}.data`)), entry("offset", i * size), entry("length", size)];
    const dims = [number(1, width), number(1, width)];
    parts.push(message(5, ...dims, number(2, 1), bytes(8, `w${i}`), ...where, number(14, 1)));
    parts.push(node("Gemm", [i === 0 ? "x" : `relu${i - 1}`, `w${i}`], `sum${i}`, { transB: 1 }));
    parts.push(node("Relu", [`sum${i}`], i + 1 === layers ? "y" : `relu${i}`));
  }
  closeSync(data);
  writeFileSync(file, model("large", ...parts, value(11, "x", [width]), value(12, "y", [width])));
}

// A tab with the page that opened the model, and the modules that its worker fetched.
async function opened(file) {
  const tab = await openPage(tested.browser, tested.server.url);
  const modules = [];
  tab.page.context().on("request", (request) => {
    const name = /(qdq[a-z0-9-]*?)-[\w-]{8}\.wasm$/.exec(request.url());
    if (name) modules.push(name[1]);
  });
  await tab.page.setInputFiles("#model-file", [file, `${file}.data`]);
  await tab.page.waitForFunction(() => document.querySelector("#model-name")?.textContent === "large.onnx", null, {
    timeout: 300000,
  });
  return { ...tab, modules };
}

test("a model above a gigabyte takes 64-bit memory, and the files are those of the native program", async () => {
  expect(readdirSync(path.join(root, "build/page/assets")).join(" ")).toContain("qdq-memory64");
  const file = path.join(scratch, "large.onnx");
  writeLarge(file);
  const { page, problems, modules } = await opened(file);
  page.setDefaultTimeout(600000);
  expect(modules).toContain("qdq-memory64");

  await page.check("#is_dynamic");
  await page.waitForSelector("#start:not([disabled])");
  await quantize(page);
  const recipe = path.join(scratch, "recipe.json");
  const out = path.join(scratch, "native.pt2");
  writeFileSync(recipe, (await downloaded(page, "#save-recipe")).bytes);
  qdq("quantize", file, "--recipe", recipe, "-o", out);
  expect((await downloaded(page, "#save-model")).bytes.equals(readFileSync(out))).toBe(true);

  // Two samples calibrate it.
  await page.uncheck("#is_dynamic");
  const samples = path.join(scratch, "samples.npy");
  const values = Float32Array.from({ length: 2 * width }, (_, i) => Math.sin(i * 0.7));
  writeFileSync(samples, npy([2, width], values));
  await page.setInputFiles("#calibration-files", samples);
  await page.waitForSelector("#start:not([disabled])");
  await quantize(page);
  writeFileSync(recipe, (await downloaded(page, "#save-recipe")).bytes);
  qdq("quantize", file, "--recipe", recipe, "--calibrate", samples, "-o", out);
  expect((await downloaded(page, "#save-model")).bytes.equals(readFileSync(out))).toBe(true);
  expect(problems).toEqual([]);
  await page.close();
});

test("a small model beside it takes the module that everybody has", async () => {
  const { page, problems } = await openPage(tested.browser, tested.server.url);
  const modules = [];
  page.context().on("request", (request) => request.url().includes(".wasm") && modules.push(request.url()));
  await page.setInputFiles("#model-file", path.join(shapes, "model.pt2"));
  await page.waitForSelector("#layers-view tbody tr");
  expect(modules.some((url) => url.includes("memory64"))).toBe(false);
  expect(problems).toEqual([]);
});
