// Completes dist/ after tsc: puts the WASM modules and their glue where the ES module build and the CommonJS build find them.
// Emscripten's glue is one classic script, which workers run and CommonJS requires; only ES modules need a copy of their own, with exports.
import { chmodSync, copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";

const built = process.env.QDQ_WASM_DIR ?? "build/wasm";
const flavours = {
  esm: {
    type: "module",
    url: (file) => `new URL("../../../${file}", import.meta.url)`,
    module: ({ glue, factory }, urls) =>
      `${glue}\nexport default ${factory};\n${urls.map(([name, url]) => `export const ${name} = ${url};`).join("\n")}`,
  },
  cjs: {
    type: "commonjs",
    url: (file) => `require("node:url").pathToFileURL(require("node:path").join(__dirname, "../../..", "${file}"))`,
    module: ({ name }, urls) =>
      `module.exports = { __esModule: true, default: require("../../../${name}.js"), ${urls.map(([name, url]) => `${name}: ${url}`).join(", ")} };`,
  },
};
for (const [folder, { type }] of Object.entries(flavours)) {
  mkdirSync(`dist/${folder}/bindings/wasm`, { recursive: true });
  writeFileSync(`dist/${folder}/package.json`, JSON.stringify({ type }) + "\n");
  chmodSync(`dist/${folder}/node/cli.js`, 0o755);
}
const modules = [
  { name: "qdq", factory: "createQdq", parts: true },
  { name: "qdq-threads", factory: "createQdq", threads: true },
  { name: "qdq-cli", factory: "createQdqCli", threads: true },
];
for (const { name, factory, threads, parts } of modules) {
  const files = { wasmUrl: `${name}.wasm`, relaxedWasmUrl: `${name}-relaxed.wasm` };
  if (parts) Object.assign(files, { quantizeWasmUrl: `${name}-quantize.wasm`, relaxedQuantizeWasmUrl: `${name}-relaxed-quantize.wasm` });
  for (const file of Object.values(files)) copyFileSync(`${built}/${file}`, `dist/${file}`);
  const glue = readFileSync(`${built}/${name}.js`, "utf8");
  // A module and its relaxed form differ in the kernels' code alone, so one glue serves both.
  if (readFileSync(`${built}/${name}-relaxed.js`, "utf8").replaceAll(`${name}-relaxed.`, `${name}.`) !== glue) {
    throw new Error(`${built}/${name}.js and ${name}-relaxed.js differ; build both from the same sources`);
  }
  writeFileSync(`dist/${name}.js`, glue);
  if (threads) files.workerUrl = `${name}.js`;
  for (const [folder, { url, module }] of Object.entries(flavours)) {
    const urls = Object.entries(files).map(([constant, file]) => [constant, url(file)]);
    writeFileSync(`dist/${folder}/bindings/wasm/${name}.js`, `${module({ name, factory, glue }, urls)}\n`);
    copyFileSync(`bindings/wasm/${name}.d.ts`, `dist/${folder}/bindings/wasm/${name}.d.ts`);
  }
}
