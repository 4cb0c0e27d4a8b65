// Watches a folder: each model that appears there is quantized, held against its float model, and reported on.
//   node pipeline.mjs MODELS DATA OUT [--once]
// DATA is a folder of images with preprocess.json, and labels.csv if there is one. --once ends when all is done.
import { existsSync, mkdirSync, readdirSync, watch } from "node:fs";
import path from "node:path";
import { Worker } from "node:worker_threads";

const [models, data, out, once] = process.argv.slice(2);
if (!out) {
  console.error("usage: node pipeline.mjs MODELS DATA OUT [--once]");
  process.exit(2);
}
mkdirSync(out, { recursive: true });

const mostAtOnce = 2; // workers; each holds a model and its values
const mostMinutes = 10; // for one model
const stem = (name) => name.replace(/\.(onnx|pt2)$/i, "");
const isOpen = (name) => /\.(onnx|pt2)$/i.test(name) && !existsSync(path.join(out, `${stem(name)}.report.html`));

// One model in a worker of its own, whose memory is given back when it ends.
function quantize(name) {
  return new Promise((resolve) => {
    const model = path.join(models, name);
    const place = path.join(out, name.replace(/(\.\w+)$/, ".int8$1"));
    const report = path.join(out, `${stem(name)}.report.html`);
    const worker = new Worker(new URL("job.mjs", import.meta.url), { workerData: { model, data, place, report } });
    const clock = setTimeout(() => {
      void worker.terminate();
      resolve(`${name}: gave up after ${mostMinutes} minutes`);
    }, mostMinutes * 60_000);
    let said = "the worker ended without a result";
    worker.on("message", (text) => (said = text));
    worker.on("error", (error) => (said = error.message));
    worker.on("exit", () => {
      clearTimeout(clock);
      resolve(`${name}: ${said}`);
    });
  });
}

const waiting = [];
const known = new Set();
let busy = 0;
function next() {
  while (busy < mostAtOnce && waiting.length > 0) {
    busy += 1;
    void quantize(waiting.shift()).then((line) => {
      console.log(line);
      busy -= 1;
      next();
    });
  }
}
function look() {
  for (const name of readdirSync(models).filter((each) => isOpen(each) && !known.has(each))) {
    known.add(name);
    waiting.push(name);
  }
  next();
}
look();
if (!once) {
  // A file that is still being copied would be read half: wait until the folder has been quiet for a second.
  let quiet;
  watch(models, () => {
    clearTimeout(quiet);
    quiet = setTimeout(look, 1000);
  });
  console.log(`watching ${models}`);
}
