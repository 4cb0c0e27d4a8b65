// Tokens per second of one thread on WebAssembly: qdq on a .pt2 decoder beside ONNX Runtime Web on one of the same
// shape. Engines take turns, each round in a process or a tab of its own; seconds are those of the processor, in
// Chromium those of the tab's thread. A figure is the median of the rounds, with the least and the most.
//
//   node decoder_latency.mjs --npm NODE_MODULES --onnx FOLDER --layers N --shared HEADS --size WIDTH
//                            [--node PATH | --chromium PATH] [--rounds 5] [--tokens 64] [--prompt 16]
//                            [--package FOLDER] MODEL.pt2
//
// --node: the Node to run, 24 or newer for relaxed SIMD (default: this one). --chromium: run in tabs of this browser
// instead. NODE_MODULES has onnxruntime-web. FOLDER has level0.onnx and level4.onnx, which `decoder_latency.py --keep
// FOLDER` makes: MatMulNBits with float and with int8 activations. Their caches grow by a token a run, as
// transformers.js has them: --layers of --shared heads with --size numbers each. `--package` is the built package
// (default: dist).
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { openChromium } from "./chromium.mjs";
import { stepsOfOrt, stepsOfQdq } from "./decoder_steps.mjs";

const here = fileURLToPath(import.meta.url);
const root = join(dirname(here), "../..");
const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];

async function runInNode(engine, model, options) {
  const { npm, pkg } = options;
  if (engine === "qdq")
    return stepsOfQdq(await import(pathToFileURL(join(pkg, "esm/node/run.js"))), readFileSync(model));
  const ort = createRequire(join(npm, "x.js"))("onnxruntime-web");
  return stepsOfOrt(ort, readFileSync(model), readFileSync(`${model}.data`), { ...options, file: basename(model) });
}

// Tokens per second behind the first one. now(): seconds of the processor.
async function rate(run, now, options) {
  const prompt = Array.from({ length: options.prompt }, (_, i) => i + 1);
  const seconds = async (count) => {
    const began = await now();
    await run(prompt, count);
    return (await now()) - began;
  };
  await seconds(options.tokens); // the engine compiles what is hot
  const first = await seconds(1);
  return (options.tokens - 1) / ((await seconds(options.tokens)) - first);
}

function rateInProcess(engine, model, options) {
  const words = Object.entries({ ...options, model: undefined, engine })
    .filter(([, value]) => value !== undefined)
    .flatMap(([key, value]) => [key === "pkg" ? "--package" : `--${key}`, String(value)]);
  const { stdout, stderr } = spawnSync(options.node, [here, ...words, model], { encoding: "utf8" });
  if (!(Number(stdout) > 0)) throw new Error(`${model}: ${stderr || stdout}`);
  return Number(stdout);
}

async function rateInTab(browser, engine, model, options) {
  const tab = await browser.openTab("decoder_latency_page.mjs", model);
  await tab.call("prepare", engine, { ...options, file: basename(model) });
  const found = await rate((prompt, count) => tab.call("generate", prompt, count), tab.seconds, options);
  await tab.close();
  return found;
}

function read(args) {
  const options = { rounds: 5, tokens: 64, prompt: 16, pkg: join(root, "dist"), node: process.execPath };
  const names = { "--package": "pkg" };
  for (let i = 0; i < args.length; ++i) {
    if (!args[i].startsWith("--")) options.model = args[i];
    else {
      const name = names[args[i]] ?? args[i].slice(2);
      options[name] = typeof options[name] === "number" || /^\d+$/.test(args[i + 1]) ? Number(args[++i]) : args[++i];
    }
  }
  return options;
}

const options = read(process.argv.slice(2));
if (options.engine) {
  const now = () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  };
  console.log(await rate(await runInNode(options.engine, options.model, options), now, options));
} else {
  const engines = { qdq: options.model };
  for (const level of [0, 4]) {
    const file = join(options.onnx, `level${level}.onnx`);
    if (existsSync(file)) engines[`ONNX Runtime Web, accuracy_level ${level}`] = file;
  }
  const browser = options.chromium && (await openChromium({ ...options, package: options.pkg }));
  const rates = Object.fromEntries(Object.keys(engines).map((name) => [name, []]));
  for (let round = 0; round < options.rounds; ++round)
    for (const [name, model] of Object.entries(engines)) {
      const engine = name === "qdq" ? "qdq" : "ort";
      rates[name].push(
        browser ? await rateInTab(browser, engine, model, options) : rateInProcess(engine, model, options),
      );
    }
  await browser?.close();
  for (const [name, found] of Object.entries(rates)) {
    const ratios = rates.qdq.map((own, i) => own / found[i]);
    const span = (values, digits) => `${Math.min(...values).toFixed(digits)} to ${Math.max(...values).toFixed(digits)}`;
    console.log(
      `${name.padEnd(36)} ${median(found).toFixed(1)} tokens/s (${span(found, 1)}); ` +
        `qdq is ${median(ratios).toFixed(2)} times as fast (${span(ratios, 2)})`,
    );
  }
}
