// Tokens per second of one thread on WebAssembly: qdq on a .pt2 decoder beside ONNX Runtime Web on one of the same
// shape. Engines take turns, each round in a process of its own; seconds are those of the processor. A figure is the
// median of the rounds, with the least and the most.
//
//   node decoder_latency.mjs --npm NODE_MODULES --onnx FOLDER --layers N --shared HEADS --size WIDTH
//                            [--node PATH] [--rounds 5] [--tokens 64] [--prompt 16] [--package FOLDER] MODEL.pt2
//
// --node: the Node to run, 24 or newer for relaxed SIMD (default: this one). NODE_MODULES has onnxruntime-web. FOLDER
// has level0.onnx and level4.onnx, which `decoder_latency.py --keep FOLDER` makes: MatMulNBits with float and with int8
// activations. Their caches grow by a token a run, as transformers.js has them: --layers of --shared heads with --size
// numbers each. `--package` is the built package (default: dist).
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const here = fileURLToPath(import.meta.url);
const root = join(dirname(here), "../..");
const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];

async function stepsOfQdq(model, { pkg }) {
  const { loadPt2, lowerDecoder } = await import(pathToFileURL(join(pkg, "esm/node/run.js")));
  const decoder = lowerDecoder(await loadPt2(readFileSync(model)));
  return async (prompt, count) => {
    for await (const _ of decoder.generate(prompt, { maxTokens: count }));
  };
}

async function stepsOfOrt(model, { npm, layers, shared, size }) {
  const { InferenceSession, Tensor, env } = createRequire(join(npm, "x.js"))("onnxruntime-web");
  env.wasm.numThreads = 1;
  const externalData = [{ path: `${model.split("/").pop()}.data`, data: readFileSync(`${model}.data`) }];
  const session = await InferenceSession.create(readFileSync(model), { executionProviders: ["wasm"], externalData });
  const names = Array.from({ length: layers }, (_, i) => ["key", "value"].map((kind) => `${i}.${kind}`)).flat();
  return async (prompt, count) => {
    let ids = prompt;
    let total = 0;
    let caches = Object.fromEntries(
      names.map((name) => [`past_key_values.${name}`, new Tensor("float32", [], [1, shared, 0, size])]),
    );
    for (let i = 0; i < count; ++i) {
      total += ids.length;
      const out = await session.run({
        ...caches,
        input_ids: new Tensor("int64", BigInt64Array.from(ids, BigInt), [1, ids.length]),
        seqlens: new Tensor("int32", [total - 1], [1]),
        total: new Tensor("int32", [total], []),
      });
      caches = Object.fromEntries(names.map((name) => [`past_key_values.${name}`, out[`present.${name}`]]));
      const logits = out.logits.data.subarray(-out.logits.dims[2]);
      ids = [logits.reduce((best, value, at) => (value > logits[best] ? at : best), 0)];
    }
  };
}

// Tokens per second behind the first one.
async function rate(engine, model, options) {
  const run = await (engine === "qdq" ? stepsOfQdq : stepsOfOrt)(model, options);
  const prompt = Array.from({ length: options.prompt }, (_, i) => i + 1);
  const seconds = async (count) => {
    const began = process.cpuUsage();
    await run(prompt, count);
    const { user, system } = process.cpuUsage(began);
    return (user + system) / 1e6;
  };
  await seconds(options.tokens); // the engine compiles what is hot
  const first = await seconds(1);
  return (options.tokens - 1) / ((await seconds(options.tokens)) - first);
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
  console.log(await rate(options.engine, options.model, options));
} else {
  const engines = { qdq: options.model };
  for (const level of [0, 4]) {
    const file = join(options.onnx, `level${level}.onnx`);
    if (existsSync(file)) engines[`ONNX Runtime Web, accuracy_level ${level}`] = file;
  }
  const rates = Object.fromEntries(Object.keys(engines).map((name) => [name, []]));
  for (let round = 0; round < options.rounds; ++round)
    for (const [name, model] of Object.entries(engines)) {
      const words = Object.entries({ ...options, model: undefined, engine: name === "qdq" ? "qdq" : "ort" })
        .filter(([, value]) => value !== undefined)
        .flatMap(([key, value]) => [key === "pkg" ? "--package" : `--${key}`, String(value)]);
      const { stdout, stderr } = spawnSync(options.node, [here, ...words, model], { encoding: "utf8" });
      if (!(Number(stdout) > 0)) throw new Error(`${name}: ${stderr || stdout}`);
      rates[name].push(Number(stdout));
    }
  for (const [name, found] of Object.entries(rates)) {
    const ratios = rates.qdq.map((own, i) => own / found[i]);
    const span = (values, digits) => `${Math.min(...values).toFixed(digits)} to ${Math.max(...values).toFixed(digits)}`;
    console.log(
      `${name.padEnd(36)} ${median(found).toFixed(1)} tokens/s (${span(found, 1)}); ` +
        `qdq is ${median(ratios).toFixed(2)} times as fast (${span(ratios, 2)})`,
    );
  }
}
