// Completes dist/ after tsc: puts the WASM module and its glue where the ES module build and the CommonJS build find them.
// Emscripten's glue is one classic script; each build gets it with the exports that its module system wants.
import { copyFileSync, mkdirSync, readFileSync, writeFileSync, chmodSync } from "node:fs";

const built = process.env.QDQ_WASM_DIR ?? "build/wasm";
const glue = readFileSync(`${built}/qdq.js`, "utf8");
// Both modules differ in the kernels' code alone, so one glue serves them.
if (readFileSync(`${built}/qdq-relaxed.js`, "utf8").replaceAll("qdq-relaxed.wasm", "qdq.wasm") !== glue) {
  throw new Error(`${built}/qdq.js and qdq-relaxed.js differ; build qdq_wasm and qdq_wasm_relaxed from the same sources`);
}

const flavours = {
  esm: {
    type: "module",
    exports: `export default createQdq;
export const wasmUrl = new URL("../../../qdq.wasm", import.meta.url);
export const relaxedWasmUrl = new URL("../../../qdq-relaxed.wasm", import.meta.url);`,
  },
  cjs: {
    type: "commonjs",
    exports: `const urlOf = (name) => require("node:url").pathToFileURL(require("node:path").join(__dirname, "../../..", name));
module.exports = { __esModule: true, default: createQdq, wasmUrl: urlOf("qdq.wasm"), relaxedWasmUrl: urlOf("qdq-relaxed.wasm") };`,
  },
};
for (const [folder, { type, exports }] of Object.entries(flavours)) {
  mkdirSync(`dist/${folder}/bindings/wasm`, { recursive: true });
  writeFileSync(`dist/${folder}/bindings/wasm/qdq.js`, `${glue}\n${exports}\n`);
  copyFileSync("bindings/wasm/qdq.d.ts", `dist/${folder}/bindings/wasm/qdq.d.ts`);
  writeFileSync(`dist/${folder}/package.json`, JSON.stringify({ type }) + "\n");
}
for (const name of ["qdq.wasm", "qdq-relaxed.wasm"]) copyFileSync(`${built}/${name}`, `dist/${name}`);
for (const folder of Object.keys(flavours)) chmodSync(`dist/${folder}/node/cli.js`, 0o755);
