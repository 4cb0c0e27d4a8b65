// What wasm_latency.mjs runs in a page of Chromium: one engine with one model. The server gives the package as
// /package/, the node_modules of the peers as /npm/ and the model as /model.
const bytesOf = async (url) => new Uint8Array(await (await fetch(new URL(url, import.meta.url))).arrayBuffer());

async function runOfOrt(data, { shape, threads }) {
  const { InferenceSession, Tensor, env } = await import("/npm/onnxruntime-web/dist/ort.wasm.min.mjs");
  env.wasm.numThreads = threads;
  env.wasm.wasmPaths = "/npm/onnxruntime-web/dist/";
  const session = await InferenceSession.create(await bytesOf("/model"), { executionProviders: ["wasm"] });
  const feeds = { [session.inputNames[0]]: new Tensor("float32", data, shape) };
  return () => session.run(feeds);
}

async function runOfLiteRt(build, data, { shape, threads }) {
  const { loadLiteRt, loadAndCompile, Tensor } = await import("/npm/@litertjs/core/dist/index.js");
  const script = threads > 1 ? build.replace("litert_wasm", "litert_wasm_threaded") : build;
  await loadLiteRt(`/npm/@litertjs/core/wasm/${script}_internal.js`);
  const compiled = await loadAndCompile(await bytesOf("/model"), {
    accelerator: "wasm",
    cpuOptions: { numThreads: threads },
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

async function runOfQdq(file, data, { shape, threads }) {
  const { capabilities, configure, loadPt2, lower, tensor } = await import("/package/esm/web/index.js");
  configure({ wasm: new URL(`/package/${file}`, import.meta.url), threads });
  const found = await capabilities();
  if (found.threads !== threads) throw new Error(`${file} has ${found.threads} threads`);
  const session = lower(await loadPt2(await bytesOf("/model")));
  const input = tensor(data, shape);
  return () => session.run([input]);
}

let run;

// Brings an engine with its model, and runs it for `warm` milliseconds.
export async function prepare(engine, options) {
  const data = Float32Array.from({ length: options.shape.reduce((a, b) => a * b) }, (_, i) => Math.sin(i * 0.37));
  run = await (engine === "ort"
    ? runOfOrt(data, options)
    : engine.startsWith("litert")
      ? runOfLiteRt(engine, data, options)
      : runOfQdq(engine, data, options));
  for (const end = performance.now() + options.warm; performance.now() < end; ) await run();
}

// Runs `count` times and gives the milliseconds of the clock of one.
export async function average(count) {
  const begin = performance.now();
  for (let i = 0; i < count; ++i) await run();
  return (performance.now() - begin) / count;
}
