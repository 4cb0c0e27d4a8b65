// The size of what a page downloads. The limits stand just above what the modules have now: a change that makes them larger should say why.
const { readFileSync } = require("node:fs");
const { brotliCompressSync, constants } = require("node:zlib");

const limits = {
  "qdq.wasm": { raw: 1_445_000, brotli: 446_000 },
  "qdq-relaxed.wasm": { raw: 1_460_000, brotli: 448_000 },
  "qdq-threads.wasm": { raw: 1_464_000, brotli: 453_000 },
  "qdq-threads-relaxed.wasm": { raw: 1_479_000, brotli: 456_000 },
};

test.each(Object.entries(limits))("%s stays small", (name, { raw, brotli }) => {
  const bytes = readFileSync(`dist/${name}`);
  const packed = brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_LGWIN]: 24, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length } });
  expect(bytes.length).toBeLessThan(raw);
  expect(packed.length).toBeLessThan(brotli);
});
