// What decoder_latency.mjs runs in a page of Chromium: one engine with one decoder. See chromium.mjs for the addresses.
import { stepsOfOrt, stepsOfQdq } from "./decoder_steps.mjs";

const bytesOf = async (path) => new Uint8Array(await (await fetch(new URL(path, import.meta.url))).arrayBuffer());

let run;

// Brings an engine with its decoder.
export async function prepare(engine, options) {
  const model = await bytesOf("/model");
  if (engine === "qdq") {
    run = await stepsOfQdq(await import("/package/esm/web/run.js"), model);
  } else {
    const ort = await import("/npm/onnxruntime-web/dist/ort.wasm.min.mjs");
    ort.env.wasm.wasmPaths = "/npm/onnxruntime-web/dist/";
    run = await stepsOfOrt(ort, model, await bytesOf("/data"), options);
  }
}

export const generate = (prompt, count) => run(prompt, count);
