// Completes dist/ after tsc, with all modules or with those that are named as arguments ("qdq-cli-relaxed"): puts the
// WASM modules and their glue where the ES module build and the CommonJS build find them. Emscripten's glue is one
// classic script, which workers run and CommonJS requires; only ES modules need a copy of their own, with exports.
import { execFileSync } from "node:child_process";
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
      `module.exports = { __esModule: true, default: require("../../../${name}.js"), ` +
      `${urls.map(([name, url]) => `${name}: ${url}`).join(", ")} };`,
  },
};
for (const [folder, { type }] of Object.entries(flavours)) {
  mkdirSync(`dist/${folder}/bindings/wasm`, { recursive: true });
  writeFileSync(`dist/${folder}/package.json`, `${JSON.stringify({ type })}\n`);
  chmodSync(`dist/${folder}/node/cli.js`, 0o755);
}
// What a page downloads carries its name and version in a custom section "qdq", so that the glue of another module
// refuses it. https://webassembly.github.io/spec/core/binary/modules.html#custom-section
const { version } = JSON.parse(readFileSync("package.json", "utf8"));
const sized = (text) => Buffer.from([text.length, ...Buffer.from(text)]);
const marked = (bytes, mark) => {
  const body = Buffer.concat([sized("qdq"), Buffer.from(mark)]);
  return Buffer.concat([bytes, Buffer.from([0, body.length]), body]);
};
const all = [
  { name: "qdq", factory: "createQdq", program: "qdq" },
  { name: "qdq-threads", factory: "createQdq", program: "qdq", threads: true },
  { name: "qdq-run", factory: "createQdqRun", program: "qdq-run" },
  { name: "qdq-run-threads", factory: "createQdqRun", program: "qdq-run", threads: true },
  { name: "qdq-cli", factory: "createQdqCli", program: "qdq-cli", threads: true },
];
const wanted = process.argv.slice(2);
for (const { name, factory, program, threads } of all) {
  const files = { wasmUrl: `${name}.wasm`, relaxedWasmUrl: `${name}-relaxed.wasm` };
  const mark = `${program} ${version}`;
  const links = [name, `${name}-relaxed`].filter((link) => wanted.length === 0 || wanted.includes(link));
  if (links.length === 0) continue;
  for (const link of links) writeFileSync(`dist/${link}.wasm`, marked(readFileSync(`${built}/${link}.wasm`), mark));
  // A module and its relaxed form differ in the kernels' code alone, so one glue serves both.
  const glues = links.map((link) => readFileSync(`${built}/${link}.js`, "utf8").replaceAll(`${link}.`, `${name}.`));
  const [glue] = glues;
  if (glues.some((other) => other !== glue)) {
    throw new Error(`${built}/${links.join(".js and ")}.js differ; build both from the same sources`);
  }
  writeFileSync(`dist/${name}.js`, glue);
  if (threads) files.workerUrl = `${name}.js`;
  for (const [folder, { url, module }] of Object.entries(flavours)) {
    const constants = Object.entries(files).map(([constant, file]) => [constant, url(file)]);
    constants.push(["mark", JSON.stringify(mark)]);
    writeFileSync(`dist/${folder}/bindings/wasm/${name}.js`, `${module({ name, factory, glue }, constants)}\n`);
    copyFileSync(`bindings/wasm/${name}.d.ts`, `dist/${folder}/bindings/wasm/${name}.d.ts`);
  }
}
// The schema of recipes, as the command line prints it.
writeFileSync(
  "dist/recipe.schema.json",
  execFileSync(process.execPath, ["dist/cjs/node/cli.js", "recipe", "--schema"]),
);
