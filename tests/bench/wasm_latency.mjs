// Latency of lowered models on WebAssembly, beside ONNX Runtime Web and LiteRT.js where their models are given; engines
// take turns in every round, each in a process of its own: CPU time of one thread (in Chromium averages of five runs),
// or with more threads time of the clock, which means something only on a machine that has nothing else to do.
//
//   node wasm_latency.mjs [--rounds 5] [--runs 20] [--warm 2000] [--threads 1] [--shape 1,3,224,224] [--node PATH |
// --chromium PATH]
//                         [--package FOLDER] [--npm NODE_MODULES [--onnx FOLDER] [--tflite FOLDER]]
//                         [--engines NAME,...] MODEL...
//
// --warm: milliseconds that are left out. --node: the Node to run, 24 or newer for relaxed SIMD (default: this one).
// --chromium: run in a tab of this browser instead, cross-origin isolated. --package: the built package (default:
// dist). --npm: a node_modules with onnxruntime-web and @litertjs/core. --engines: only these, by their names in the
// table. --onnx: a folder with NAME.qdq_u8s8.onnx for NAME.int8.pt2, NAME.dyn.onnx for NAME.dyn.pt2 and NAME.onnx for
// NAME.pt2; --tflite: the same with NAME.int8.tflite, NAME.dyn.tflite and NAME.f32.tflite, whose images are channels
// last. LiteRT.js has threads only in Chromium and with relaxed SIMD. A model that is an .onnx file is what ONNX
// Runtime Web runs, too. Inputs are those of inputs.npz beside the model (in Node), else a wave of --shape.
//
// Prints the median of the rounds' medians in ms. In Node also how long the first engine takes beside ONNX Runtime Web,
// with the shortest and the longest of a round, and for each engine the milliseconds from loading it to the first
// output, and the most memory of its process until then in MB. Build the package first (./dev package).
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, dirname, extname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { deserialize, serialize } from "node:v8";
import { runInThisContext } from "node:vm";
import { openChromium } from "./chromium.mjs";

const here = fileURLToPath(import.meta.url);
const root = join(dirname(here), "../..");
const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];
const cpu = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
};
// The kind of a model: the word between its name and .pt2.
const kindOf = (model) => ({ "": "f32", dyn: "dyn" })[basename(model).split(".").slice(1, -1).join(".")] ?? "int8";
const peerFile = (folder, endings) => (model) =>
  folder === undefined ? "" : join(folder, basename(model).split(".")[0] + endings[kindOf(model)]);
const isOnnx = (model) => extname(model) === ".onnx";
const onnxEndings = { f32: ".onnx", dyn: ".dyn.onnx", int8: ".qdq_u8s8.onnx" };
const tfliteEndings = { f32: ".f32.tflite", dyn: ".dyn.tflite", int8: ".int8.tflite" };

const openQdq = ({ package: dist }) => import(pathToFileURL(join(dist, "esm/node/index.js")));

// Writes the inputs of a run to a file, for processes of their own.
async function writeInputs(model, options, file) {
  const arrays = join(dirname(model), "inputs.npz");
  const wave = () => Float32Array.from({ length: options.shape.reduce((a, b) => a * b) }, (_, i) => Math.sin(i * 0.37));
  if (!existsSync(arrays)) {
    writeFileSync(file, serialize([{ dtype: "float32", shape: options.shape, data: wave() }]));
    return;
  }
  const { loadPt2, openData } = await openQdq(options);
  const program = await loadPt2(readFileSync(model));
  const data = openData(program, new Map([["inputs.npz", readFileSync(arrays)]]));
  writeFileSync(file, serialize(data.batch(0)));
  data.dispose();
  program.dispose();
}

async function runOfOrt(model, { npm, threads }, inputs) {
  const { InferenceSession, Tensor, env } = createRequire(join(npm, "x.js"))("onnxruntime-web");
  env.wasm.numThreads = threads;
  const session = await InferenceSession.create(readFileSync(model), { executionProviders: ["wasm"] });
  const feeds = session.inputNames.map((name, i) => [
    name,
    new Tensor(inputs[i].dtype, inputs[i].data, inputs[i].shape),
  ]);
  return () => session.run(Object.fromEntries(feeds));
}

// LiteRT.js expects a browser's worker, of which it needs little more than a way to load a script.
async function runOfLiteRt(build, model, { npm }, [{ data, shape }]) {
  const scripts = join(npm, "@litertjs/core/wasm/");
  globalThis.self = globalThis;
  globalThis.require = createRequire(join(npm, "x.js"));
  globalThis.__dirname = scripts;
  globalThis.importScripts = (url) => runInThisContext(readFileSync(url, "utf8"), { filename: url });
  const { loadLiteRt, loadAndCompile, Tensor } = await import(pathToFileURL(join(npm, "@litertjs/core/dist/index.js")));
  await loadLiteRt(scripts + build);
  const compiled = await loadAndCompile(new Uint8Array(readFileSync(model)), {
    accelerator: "wasm",
    cpuOptions: { numThreads: 1 },
  });
  const input = new Tensor(data, shape.length === 4 ? [shape[0], shape[2], shape[3], shape[1]] : shape);
  return async () => {
    const outputs = Object.values(await compiled.run(input));
    for (const output of outputs) {
      output.toTypedArray().slice();
      output.delete();
    }
  };
}

async function runOfQdq(engine, model, options, inputs) {
  const { configure, loadPt2, lower } = await openQdq(options);
  configure({ wasm: pathToFileURL(join(options.package, engine)), threads: options.threads });
  const program = await loadPt2(readFileSync(model));
  const session = lower(program);
  program.dispose();
  return () => session.run(inputs);
}

// Runs one model in this process and prints what it took.
async function work(engine, model, options) {
  const { runs, warm, threads } = options;
  const clock = threads > 1 ? () => performance.now() : cpu;
  const inputs = deserialize(readFileSync(options.inputs));
  const loaded = clock();
  const run =
    engine === "ort"
      ? await runOfOrt(model, options, inputs)
      : engine.startsWith("litert")
        ? await runOfLiteRt(`${engine}_internal.js`, model, options, inputs)
        : await runOfQdq(engine, model, options, inputs);
  await run();
  const start = clock() - loaded;
  const memory = process.resourceUsage().maxRSS / 1024;
  // Engines compile hot functions in threads of their own, whose time counts: the beginning is left out.
  for (const end = clock() + warm; clock() < end; ) await run();
  const times = [];
  for (let i = 0; i < runs; ++i) {
    const begin = clock();
    await run();
    times.push(clock() - begin);
  }
  console.log(JSON.stringify({ ms: median(times), start, memory }));
  process.exit(0); // LiteRT.js's environment would keep the process alive, and ONNX Runtime's threads
}

// Runs one model in a Node of its own.
function measureInNode(engine, model, options) {
  const done = spawnSync(options.node, [here, "--work", engine, model, JSON.stringify(options)], { encoding: "utf8" });
  if (done.status !== 0) throw new Error(`${engine} could not run ${model}:\n${done.stderr.slice(-2000)}`);
  return JSON.parse(done.stdout.trim().split("\n").at(-1));
}

// Gives a function that runs one model in a tab of its own.
async function measureInChromium(options) {
  const browser = await openChromium(options);
  const measure = async (engine, model) => {
    const tab = await browser.openTab("wasm_latency_page.mjs", model);
    await tab.call("prepare", engine, options);
    const times = [];
    // Five runs a call, which itself takes a while.
    for (let i = 0; i < options.runs; i += 5) {
      const begin = await tab.seconds();
      const clock = await tab.call("average", 5);
      times.push(options.threads > 1 ? clock : (1000 * ((await tab.seconds()) - begin)) / 5);
    }
    await tab.close();
    return { ms: median(times) };
  };
  return { measure, close: browser.close };
}

// The cells of a table's row, from what each engine took in each round.
function cellsOf(engines, { ort = [] }) {
  const middle = (all, field, digits) =>
    all[0]?.[field] === undefined ? "-" : median(all.map((took) => took[field])).toFixed(digits);
  const ratios = ort.map((took, i) => engines[0][i].ms / took.ms).sort((a, b) => a - b);
  const [ratio, least, most] = [median(ratios), ratios[0], ratios.at(-1)].map((value) => value?.toFixed(2));
  return [
    ...engines.map((all) => middle(all, "ms", 2)),
    ratios.length ? `${ratio} (${least} to ${most})` : "-",
    ...["start", "memory"].map((field) => engines.map((all) => middle(all, field, 0)).join(" ")),
  ];
}

const args = process.argv.slice(2);
const models = [];
const options = {
  rounds: 5,
  runs: 20,
  warm: 2000,
  threads: 1,
  shape: "1,3,224,224",
  node: process.execPath,
  package: join(root, "dist"),
};
if (args[0] === "--work") {
  await work(args[1], args[2], JSON.parse(args[3]));
} else {
  while (args.length > 0) {
    const arg = args.shift();
    if (arg.startsWith("--")) options[arg.slice(2)] = args.shift();
    else models.push(arg);
  }
  for (const name of ["rounds", "runs", "warm", "threads"]) options[name] = Number(options[name]);
  options.shape = options.shape.split(",").map(Number);
  const onnx = peerFile(options.onnx, onnxEndings);
  const tflite = peerFile(options.tflite, tfliteEndings);
  const own = options.threads > 1 ? "qdq-threads" : "qdq";
  const itself = (model) => model;
  const never = () => "";
  // The last two are LiteRT.js's names for its builds with relaxed SIMD and without.
  const engines = {
    [`${own}-relaxed.wasm`]: itself,
    [`${own}.wasm`]: itself,
    ort: (model) => (options.npm && isOnnx(model) ? model : onnx(model)),
    litert_wasm: options.threads > 1 && !options.chromium ? never : tflite,
    litert_wasm_compat: options.threads > 1 ? never : tflite,
  };
  const only = options.engines?.split(",") ?? Object.keys(engines);
  const folder = mkdtempSync(join(tmpdir(), "wasm_latency-"));
  options.inputs = join(folder, "inputs");
  const { measure, close } = options.chromium
    ? await measureInChromium(options)
    : { measure: (engine, model) => measureInNode(engine, model, options), close() {} };
  console.log(["model", ...only, "first/ort", "start", "MB"].join("\t"));
  for (const model of models) {
    if (!existsSync(model)) throw new Error(`there is no model ${model}`);
    const found = Object.fromEntries(only.map((engine) => [engine, []]));
    if (!options.chromium) await writeInputs(model, options, options.inputs);
    for (let round = 0; round < options.rounds; ++round) {
      for (const engine of only) {
        const file = engines[engine](model);
        if (existsSync(file)) found[engine].push(await measure(engine, file));
      }
    }
    console.log([model, ...cellsOf(Object.values(found), found)].join("\t"));
  }
  await close();
  rmSync(folder, { recursive: true });
}
