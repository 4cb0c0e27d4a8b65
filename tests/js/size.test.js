// The size of what a page downloads. The limits stand just above what the modules have now: a change that makes them
// larger should say why.
const { readFileSync } = require("node:fs");
const { promisify } = require("node:util");
const { brotliCompress, constants } = require("node:zlib");

// With the schema by which recipes are checked, 32 kB with what each field says; with GPTQ, weights in groups, float16
// and the files of transformers.js; and with kernels of operators that ran in plain loops: calibration has the same
// bits everywhere, so that every module that runs models has them. So it is with what rewrites programs before runs,
// and with the products of weights in groups: 4 and 8 bits, with zero points and without, one token and many.
// Metrics of boxes, tokens and texts, Fourier transforms of ONNX and models that are read in pieces are 37 kB, what
// JavaScript's quantizers can do besides annotating 7 kB, Winograd's transform of floats 19 kB,
// packed names of images and decoding ahead 21 kB, files that are read by parts and ranges by other rules 3 kB;
// precisions chosen by size, time and accuracy, with the file of the search and the chart of the report, are 25 kB;
// steps for PReLU, layer norms with roundings and short rows 20 kB; decoders that generate (caches, rotary embedding,
// RMS norm, attention with masks and grouped queries) and inverses of matrices 44 kB; sums of what layers read, which
// merge exactly, and the recovery by them 27 kB; biases corrected without data, ONNX operators that are written back,
// and checks of what JavaScript gets 24 kB; ATen operators that are spelled out as ONNX 100 kB; trees that are written
// and attention in the loops of calibration 10 kB; attention that is spelled out, comparisons, rounding and softmax in
// vectors 13 kB; equalization through sums and products, remedies that few samples rehearse, and a pair of operators
// for each reader 17 kB; equalization through concatenations, splits and shuffles 19 kB; settings that are refused, new
// operators and their ONNX forms, shifts of channels and written values 45 kB; float16, einsum, volumes, sine, cosine
// and logsumexp in vectors 24 kB; orders, extremes, gathers, recurrent layers of ONNX, deformable convolutions,
// bfloat16 and trigonometric functions in vectors 60 kB; scales by activations, groups of 8 bits and in blocks in ONNX
// files, and ONNX's operators of integers 28 kB; files that ONNX Runtime quantized in integers, casts, flips and sums
// at indices in vectors, mixed weights and scatters in ONNX 38 kB; distances, softmax of columns, extremes and rests in
// vectors, strided copies and constants that are written to 37 kB.
const whole = { raw: 4_003_000, brotli: 1_171_000 };
const run = { raw: 1_486_500, brotli: 441_500 };
const runWithThreads = { raw: 1_508_500, brotli: 449_500 };
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
