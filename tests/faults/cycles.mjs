// Load, quantize, run, save and dispose, thousands of times in one process of Node and in eight workers at once. Prints
// what memory the process has over time; fails if that grows, and if two results differ.
//   ./dev package && ./dev node tests/faults/cycles.mjs [CYCLES] [WORKERS] [DIST]
import { readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { Worker, isMainThread, parentPort, workerData } from "node:worker_threads";

const self = fileURLToPath(import.meta.url);
const root = path.join(path.dirname(self), "../..");
const [cycles = 400, workers = 8, dist = path.join(root, "dist")] = process.argv.slice(2);
const qdq = await import(pathToFileURL(path.resolve(dist, "esm/node/index.js")));
const model = readFileSync(path.join(root, "tests/golden/models/functional.pt2"));

function input(shape, seed) {
  const count = shape.reduce((a, b) => a * b, 1);
  const data = Float32Array.from({ length: count }, (_, i) => Math.sin(seed + 7 * i));
  return qdq.tensor(data, shape);
}

async function cycle() {
  const program = await qdq.loadPt2(model);
  const shape = program.info().inputs[0].shape;
  const prepared = qdq.preparePt2e(program, { quantizer: "XNNPACKQuantizer", global: {} });
  for (const seed of [1, 2]) prepared.run([input(shape, seed)]);
  const quantized = qdq.convertPt2e(prepared);
  const session = qdq.lower(quantized);
  const [output] = session.run([input(shape, 3)]);
  const bytes = qdq.savePt2(quantized);
  for (const object of [session, quantized, prepared, program]) object.dispose();
  return Buffer.concat([bytes, new Uint8Array(output.data.buffer)]).toString("base64");
}

// The results of so many cycles, which are all the same.
async function work(count, tell) {
  const first = await cycle();
  for (let i = 1; i < count; i += 1) {
    if ((await cycle()) !== first) throw new Error(`cycle ${i} gives other bytes`);
    tell(i);
  }
  return first;
}

if (!isMainThread) {
  parentPort.postMessage(await work(workerData, () => {}));
} else {
  const memory = () => process.memoryUsage().rss / 1e6;
  const seen = [];
  const step = Math.max(1, Math.floor(cycles / 10));
  const began = performance.now();
  const first = await work(Number(cycles), (i) => {
    if (i % step !== 0) return;
    seen.push(memory());
    const seconds = (performance.now() - began) / 1000;
    console.log(`${String(i).padStart(6)} cycles  ${seconds.toFixed(0).padStart(4)} s  ${memory().toFixed(1)} MB`);
  });
  // The first half fills what the engine compiles and keeps.
  const half = seen.slice(Math.floor(seen.length / 2));
  const growth = half.at(-1) - half[0];
  console.log(`growth in the second half: ${growth.toFixed(1)} MB`);
  const each = Math.ceil(cycles / workers);
  const results = await Promise.all(
    Array.from(
      { length: Number(workers) },
      () =>
        new Promise((resolve, reject) => {
          const worker = new Worker(self, { workerData: each, argv: process.argv.slice(2) });
          worker.on("message", resolve);
          worker.on("error", reject);
        }),
    ),
  );
  const differing = results.filter((result) => result !== first).length;
  console.log(`${workers} workers at once, ${each} cycles each: ${differing} of them gave other bytes`);
  process.exitCode = growth > 16 || differing > 0 ? 1 : 0;
}
