// Completes dist/ after tsc: puts the WASM modules and their glue where the ES module build and the CommonJS build find them.
// Emscripten's glue is one classic script; each build gets it with the exports that its module system wants.
import { chmodSync, copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";

const built = process.env.QDQ_WASM_DIR ?? "build/wasm";
const flavours = {
  esm: {
    type: "module",
    exports: (factory, name) => `export default ${factory};
export const wasmUrl = new URL("../../../${name}.wasm", import.meta.url);
export const relaxedWasmUrl = new URL("../../../${name}-relaxed.wasm", import.meta.url);`,
  },
  cjs: {
    type: "commonjs",
    exports: (factory, name) => `const urlOf = (file) => require("node:url").pathToFileURL(require("node:path").join(__dirname, "../../..", file));
module.exports = { __esModule: true, default: ${factory}, wasmUrl: urlOf("${name}.wasm"), relaxedWasmUrl: urlOf("${name}-relaxed.wasm") };`,
  },
};
for (const [folder, { type }] of Object.entries(flavours)) {
  mkdirSync(`dist/${folder}/bindings/wasm`, { recursive: true });
  writeFileSync(`dist/${folder}/package.json`, JSON.stringify({ type }) + "\n");
  chmodSync(`dist/${folder}/node/cli.js`, 0o755);
}
for (const [name, factory] of [["qdq", "createQdq"], ["qdq-cli", "createQdqCli"]]) {
  const glue = readFileSync(`${built}/${name}.js`, "utf8");
  // A module and its relaxed form differ in the kernels' code alone, so one glue serves both.
  if (readFileSync(`${built}/${name}-relaxed.js`, "utf8").replaceAll(`${name}-relaxed.wasm`, `${name}.wasm`) !== glue) {
    throw new Error(`${built}/${name}.js and ${name}-relaxed.js differ; build both from the same sources`);
  }
  for (const [folder, { exports }] of Object.entries(flavours)) {
    writeFileSync(`dist/${folder}/bindings/wasm/${name}.js`, `${glue}\n${exports(factory, name)}\n`);
    copyFileSync(`bindings/wasm/${name}.d.ts`, `dist/${folder}/bindings/wasm/${name}.d.ts`);
  }
  for (const file of [`${name}.wasm`, `${name}-relaxed.wasm`]) copyFileSync(`${built}/${file}`, `dist/${file}`);
}
