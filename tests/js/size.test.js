// The size of what a page downloads. The limits stand just above what the modules have now: a change that makes them
// larger should say why.
const { readFileSync } = require("node:fs");
const { promisify } = require("node:util");
const { brotliCompress, constants } = require("node:zlib");

// Calibration has the same bits everywhere, so every module that runs models has all kernels of floats; the whole one
// also opens, quantizes, recovers, trains and saves.
const whole = { raw: 4_175_500, brotli: 1_238_500 };
const run = { raw: 1_576_500, brotli: 469_500 };
const runWithThreads = { raw: 1_598_500, brotli: 477_000 };
const limits = {
  "qdq.wasm": whole,
  "qdq-relaxed.wasm": whole,
  "qdq-threads.wasm": whole,
  "qdq-threads-relaxed.wasm": whole,
  "qdq-run.wasm": run,
  "qdq-run-relaxed.wasm": run,
  "qdq-run-threads.wasm": runWithThreads,
  "qdq-run-threads-relaxed.wasm": runWithThreads,
};

async function sizesOf(name) {
  const bytes = readFileSync(`dist/${name}`);
  const params = { [constants.BROTLI_PARAM_LGWIN]: 24, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length };
  // Other threads pack, several modules at once.
  return { raw: bytes.length, brotli: (await promisify(brotliCompress)(bytes, { params })).length };
}
const sizes = Object.fromEntries(Object.keys(limits).map((name) => [name, sizesOf(name)]));

jest.setTimeout(600_000);

test.each(Object.entries(limits))("%s stays small", async (name, { raw, brotli }) => {
  const found = await sizes[name];
  expect(found.raw).toBeLessThan(raw);
  expect(found.brotli).toBeLessThan(brotli);
});

test.each(["qdq.wasm", "qdq-run.wasm"])("the documentation tells the size of %s", async (name) => {
  const { raw, brotli } = await sizes[name];
  const row = readFileSync("docs/web.md", "utf8")
    .split("\n")
    .find((line) => line.startsWith("| `qdq") && line.includes(`\`${name}\``));
  const [, told, toldPacked] = /\| ([\d.]+) MB \| ([\d.]+) MB \|$/.exec(row);
  expect(Math.abs(told - raw / 1e6)).toBeLessThan(0.02);
  expect(Math.abs(toldPacked - brotli / 1e6)).toBeLessThan(0.01);
  if (name !== "qdq-run.wasm") return;
  for (const file of ["README.md", "node/README.md", "docs/index.md"])
    expect(readFileSync(file, "utf8")).toContain(`downloads ${toldPacked} MB of WebAssembly`);
});
