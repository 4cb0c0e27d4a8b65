// Latency of lowered models on WebAssembly, beside ONNX Runtime Web and LiteRT.js where their models are given; engines take turns in
// every round, each in a process of its own, one thread, CPU time.
//
//   node wasm_latency.mjs [--rounds 5] [--runs 20] [--warm 2000] [--shape 1,3,224,224] [--node PATH] [--package FOLDER]
//                         [--npm NODE_MODULES [--onnx FOLDER] [--tflite FOLDER]] MODEL.pt2...
//
// --warm: CPU milliseconds that are left out. --node: the Node to run, 24 or newer for relaxed SIMD (default: this one). --package: the
// built package (default: dist). --npm: a node_modules with onnxruntime-web and @litertjs/core. --onnx: a folder with
// NAME.qdq_u8s8.onnx for NAME.int8.pt2, NAME.dyn.onnx for NAME.dyn.pt2 and NAME.onnx for NAME.pt2; --tflite: the same with
// NAME.int8.tflite, NAME.dyn.tflite and NAME.f32.tflite, whose images are channels last. Prints the median of the rounds' medians in
// ms. Build the package first (./dev package).
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { createRequire } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";
import { runInThisContext } from "node:vm";

const here = fileURLToPath(import.meta.url), root = join(dirname(here), "../..");
const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];
const cpu = () => { const { user, system } = process.cpuUsage(); return (user + system) / 1000; };
// The kind of a model: the word between its name and .pt2.
const kindOf = (model) => ({ "": "f32", dyn: "dyn" })[basename(model).split(".").slice(1, -1).join(".")] ?? "int8";
const peerFile = (folder, endings) => (model) => folder === undefined ? "" : join(folder, basename(model).split(".")[0] + endings[kindOf(model)]);
const onnxEndings = { f32: ".onnx", dyn: ".dyn.onnx", int8: ".qdq_u8s8.onnx" };
const tfliteEndings = { f32: ".f32.tflite", dyn: ".dyn.tflite", int8: ".int8.tflite" };

async function runOfOrt(model, npm, data, shape) {
  const { InferenceSession, Tensor, env } = createRequire(join(npm, "x.js"))("onnxruntime-web");
  env.wasm.numThreads = 1;
  const session = await InferenceSession.create(readFileSync(model), { executionProviders: ["wasm"] });
  const feeds = { [session.inputNames[0]]: new Tensor("float32", data, shape) };
  return () => session.run(feeds);
}

// LiteRT.js expects a browser's worker, of which it needs little more than a way to load a script.
async function runOfLiteRt(build, model, npm, data, shape) {
  const scripts = join(npm, "@litertjs/core/wasm/");
  globalThis.self = globalThis;
  globalThis.require = createRequire(join(npm, "x.js"));
  globalThis.__dirname = scripts;
  globalThis.importScripts = (url) => runInThisContext(readFileSync(url, "utf8"), { filename: url });
  const { loadLiteRt, loadAndCompile, Tensor } = await import(pathToFileURL(join(npm, "@litertjs/core/dist/index.js")));
  await loadLiteRt(scripts + build);
  const compiled = await loadAndCompile(new Uint8Array(readFileSync(model)), { accelerator: "wasm", cpuOptions: { numThreads: 1 } });
  const input = new Tensor(data, shape.length === 4 ? [shape[0], shape[2], shape[3], shape[1]] : shape);
  return async () => {
    const outputs = Object.values(await compiled.run(input));
    for (const output of outputs) output.toTypedArray().slice(), output.delete();
  };
}

async function runOfQdq(engine, model, dist, data, shape) {
  const { configure, loadPt2, lower, tensor } = await import(pathToFileURL(join(dist, "esm/node/index.js")));
  configure({ wasm: pathToFileURL(join(dist, engine)) });
  const session = lower(await loadPt2(readFileSync(model))), input = tensor(data, shape);
  return () => session.run([input]);
}

// Runs one model in this process and prints its median.
async function work(engine, model, { runs, warm, npm, package: dist, shape: sizes }) {
  const shape = sizes.split(",").map(Number);
  const data = Float32Array.from({ length: shape.reduce((a, b) => a * b) }, (_, i) => Math.sin(i * 0.37));
  const run = engine === "ort" ? await runOfOrt(model, npm, data, shape)
    : engine.startsWith("litert") ? await runOfLiteRt(engine + "_internal.js", model, npm, data, shape)
    : await runOfQdq(engine, model, dist, data, shape);
  // Engines compile hot functions in threads of their own, whose time counts: the beginning is left out.
  for (const end = cpu() + Number(warm); cpu() < end;) await run();
  const times = [];
  for (let i = 0; i < Number(runs); ++i) {
    const begin = cpu();
    await run();
    times.push(cpu() - begin);
  }
  console.log(median(times));
  if (engine.startsWith("litert")) process.exit(0);  // its environment would keep the process alive
}

const args = process.argv.slice(2), models = [];
const options = { rounds: 5, runs: 20, warm: 2000, shape: "1,3,224,224", node: process.execPath, package: join(root, "dist") };
if (args[0] === "--work") {
  await work(args[1], args[2], JSON.parse(args[3]));
} else {
  while (args.length > 0) {
    const arg = args.shift();
    if (arg.startsWith("--")) options[arg.slice(2)] = args.shift();
    else models.push(arg);
  }
  const onnx = peerFile(options.onnx, onnxEndings), tflite = peerFile(options.tflite, tfliteEndings);
  // The last two are LiteRT.js's names for its builds with relaxed SIMD and without.
  const engines = { "qdq-relaxed.wasm": (model) => model, "qdq.wasm": (model) => model, ort: onnx, litert_wasm: tflite, litert_wasm_compat: tflite };
  console.log(["model", ...Object.keys(engines)].join("\t"));
  for (const model of models) {
    const found = Object.fromEntries(Object.keys(engines).map((engine) => [engine, []]));
    for (let round = 0; round < options.rounds; ++round) {
      for (const [engine, fileOf] of Object.entries(engines)) {
        if (!existsSync(fileOf(model))) continue;
        const done = spawnSync(options.node, [here, "--work", engine, fileOf(model), JSON.stringify(options)], { encoding: "utf8" });
        if (done.status !== 0) throw new Error(`${engine} could not run ${fileOf(model)}:\n${done.stderr}`);
        found[engine].push(Number(done.stdout.trim().split("\n").at(-1)));
      }
    }
    console.log([basename(model), ...Object.values(found).map((times) => (times.length ? median(times).toFixed(2) : "-"))].join("\t"));
  }
}
