// The size of what a page downloads. The limits stand just above what the modules have now: a change that makes them larger should say why.
const { readFileSync } = require("node:fs");
const { brotliCompressSync, constants } = require("node:zlib");

const limits = {
  "qdq.wasm": { raw: 1_000_000, brotli: 309_000 },
  "qdq-quantize.wasm": { raw: 875_000, brotli: 289_000 },
  "qdq-relaxed.wasm": { raw: 1_015_000, brotli: 311_000 },
  "qdq-relaxed-quantize.wasm": { raw: 875_000, brotli: 289_000 },
  "qdq-threads.wasm": { raw: 1_800_000, brotli: 557_000 },
  "qdq-threads-relaxed.wasm": { raw: 1_815_000, brotli: 559_000 },
};

test.each(Object.entries(limits))("%s stays small", (name, { raw, brotli }) => {
  const bytes = readFileSync(`dist/${name}`);
  const packed = brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_LGWIN]: 24, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length } });
  expect(bytes.length).toBeLessThan(raw);
  expect(packed.length).toBeLessThan(brotli);
});
