// Latency of lowered models on WebAssembly, beside ONNX Runtime Web where its folder and models are given; engines take turns in
// every round, each in a process of its own, one thread, CPU time.
//
//   node wasm_latency.mjs [--rounds 5] [--runs 20] [--node PATH] [--ort NODE_MODULES --onnx FOLDER] MODEL.int8.pt2...
//
// --node: the Node to run, 24 or newer for relaxed SIMD (default: this one). --ort: a node_modules with onnxruntime-web; --onnx: a
// folder with NAME.qdq_u8s8.onnx for each NAME.*.pt2. Prints the median of the rounds' medians in ms. Build the package first (./dev package).
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { createRequire } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";

const here = fileURLToPath(import.meta.url), root = join(dirname(here), "../..");
const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];
const cpu = () => { const { user, system } = process.cpuUsage(); return (user + system) / 1000; };
const pixels = Float32Array.from({ length: 3 * 224 * 224 }, (_, i) => Math.sin(i * 0.37));
const shape = [1, 3, 224, 224];

// Runs one model in this process and prints its median.
async function work(engine, model, runs, ort) {
  let run;
  if (engine === "ort") {
    const { InferenceSession, Tensor, env } = createRequire(join(ort, "x.js"))("onnxruntime-web");
    env.wasm.numThreads = 1;
    const session = await InferenceSession.create(readFileSync(model), { executionProviders: ["wasm"] });
    const feeds = { [session.inputNames[0]]: new Tensor("float32", pixels, shape) };
    run = () => session.run(feeds);
  } else {
    const { configure, loadPt2, lower, tensor } = await import(pathToFileURL(join(root, "dist/esm/node/index.js")));
    configure({ wasm: pathToFileURL(join(root, "dist", engine)) });
    const session = lower(await loadPt2(readFileSync(model))), image = tensor(pixels, shape);
    run = () => session.run([image]);
  }
  // Engines compile hot functions in threads of their own, whose time counts: the first two seconds are left out.
  for (const end = cpu() + 2000; cpu() < end;) await run();
  const times = [];
  for (let i = 0; i < runs; ++i) {
    const begin = cpu();
    await run();
    times.push(cpu() - begin);
  }
  console.log(median(times));
}

const args = process.argv.slice(2), options = { rounds: 5, runs: 20, node: process.execPath }, models = [];
if (args[0] === "--work") {
  await work(args[1], args[2], Number(args[3]), args[4]);
} else {
  while (args.length > 0) {
    const arg = args.shift();
    if (arg.startsWith("--")) options[arg.slice(2)] = args.shift();
    else models.push(arg);
  }
  const engines = { "qdq.wasm": (model) => model, "qdq-relaxed.wasm": (model) => model };
  if (options.ort) engines.ort = (model) => join(options.onnx, basename(model).split(".")[0] + ".qdq_u8s8.onnx");
  console.log(["model", ...Object.keys(engines)].join("\t"));
  for (const model of models) {
    const found = Object.fromEntries(Object.keys(engines).map((engine) => [engine, []]));
    for (let round = 0; round < options.rounds; ++round) {
      for (const [engine, fileOf] of Object.entries(engines)) {
        if (!existsSync(fileOf(model))) continue;
        const done = spawnSync(options.node, [here, "--work", engine, fileOf(model), String(options.runs), options.ort ?? ""], { encoding: "utf8" });
        if (done.status !== 0) throw new Error(`${engine} could not run ${fileOf(model)}:\n${done.stderr}`);
        found[engine].push(Number(done.stdout));
      }
    }
    console.log([basename(model), ...Object.values(found).map((times) => (times.length ? median(times).toFixed(2) : "-"))].join("\t"));
  }
}
