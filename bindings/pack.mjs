// Completes dist/ after tsc, with all modules or with those that are named as arguments ("qdq-cli-relaxed"): puts the
// WASM modules and their glue where the ES module build and the CommonJS build find them. Emscripten's glue is one
// classic script, which workers run and CommonJS requires; only ES modules need a copy of their own, with exports. The
// modules with 64-bit memory are built apart; QDQ_MEMORY64_DIR says where, and without it the package says that it has
// none.
import { execFileSync } from "node:child_process";
import { chmodSync, copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";

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
// Emscripten leaves the names of functions in the command line with 64-bit memory: two thirds of its file.
function withoutNames(bytes) {
  const number = (at) => {
    for (let value = 0, shift = 0, i = at; ; shift += 7, i += 1) {
      value += (bytes[i] & 0x7f) * 2 ** shift;
      if (bytes[i] < 0x80) return { value, end: i + 1 };
    }
  };
  const kept = [bytes.subarray(0, 8)];
  for (let at = 8; at < bytes.length; ) {
    const { value, end } = number(at + 1);
    const isName = bytes[at] === 0 && bytes.toString("latin1", end, end + 5) === "\x04name";
    if (!isName) kept.push(bytes.subarray(at, end + value));
    at = end + value;
  }
  return Buffer.concat(kept);
}
const all = [
  { name: "qdq", factory: "createQdq", program: "qdq" },
  { name: "qdq-threads", factory: "createQdq", program: "qdq", threads: true },
  { name: "qdq-run", factory: "createQdqRun", program: "qdq-run" },
  { name: "qdq-run-threads", factory: "createQdqRun", program: "qdq-run", threads: true },
  { name: "qdq-cli", factory: "createQdqCli", program: "qdq-cli", threads: true },
  { name: "qdq-memory64", factory: "createQdq", program: "qdq-memory64", wide: true },
  { name: "qdq-cli-memory64", factory: "createQdqCli", program: "qdq-cli-memory64", threads: true, wide: true },
];
const wideFolder = process.env.QDQ_MEMORY64_DIR;
// Emscripten 3.1.69 asks for a memory of 64-bit addresses in the words of a draft, and by -Oz for functions by numbers.
function withAddresses(glue) {
  const draft = /\bindex("?): ?"i64"/g;
  if (!draft.test(glue))
    throw new Error("the glue for 64-bit memory has changed; see withAddresses in bindings/pack.mjs");
  return glue.replace(draft, 'address$1:"i64"').replace("wasmTable.get(funcPtr)", "wasmTable.get(BigInt(funcPtr))");
}
const wanted = process.argv.slice(2);
for (const { name, factory, program, threads, wide } of all) {
  const files = { wasmUrl: `${name}.wasm`, ...(!wide && { relaxedWasmUrl: `${name}-relaxed.wasm` }) };
  const mark = `${program} ${version}`;
  const from = wide ? wideFolder : built;
  const every = wide ? [name] : [name, `${name}-relaxed`];
  const links = every.filter((link) => from && (wanted.length === 0 || wanted.includes(link)));
  for (const [folder, { type }] of Object.entries(flavours)) {
    copyFileSync(`bindings/wasm/${name}.d.ts`, `dist/${folder}/bindings/wasm/${name}.d.ts`);
    if (!wide || links.length > 0) continue;
    const nothing = type === "module" ? "export default undefined;\n" : "module.exports = { __esModule: true };\n";
    writeFileSync(`dist/${folder}/bindings/wasm/${name}.js`, nothing);
    for (const kind of ["js", "wasm"]) rmSync(`dist/${name}.${kind}`, { force: true });
  }
  if (links.length === 0) continue;
  for (const link of links)
    writeFileSync(`dist/${link}.wasm`, marked(withoutNames(readFileSync(`${from}/${link}.wasm`)), mark));
  // A module and its relaxed form differ in the kernels' code alone, so one glue serves both.
  const glues = links
    .map((link) => readFileSync(`${from}/${link}.js`, "utf8").replaceAll(`${link}.`, `${name}.`))
    .map((text) => (wide ? withAddresses(text) : text));
  const [glue] = glues;
  if (glues.some((other) => other !== glue)) {
    throw new Error(`${from}/${links.join(".js and ")}.js differ; build both from the same sources`);
  }
  writeFileSync(`dist/${name}.js`, glue);
  if (threads) files.workerUrl = `${name}.js`;
  for (const [folder, { url, module }] of Object.entries(flavours)) {
    const constants = Object.entries(files).map(([constant, file]) => [constant, url(file)]);
    constants.push(["mark", JSON.stringify(mark)]);
    writeFileSync(`dist/${folder}/bindings/wasm/${name}.js`, `${module({ name, factory, glue }, constants)}\n`);
  }
}
// The schema of recipes, as the command line prints it.
writeFileSync(
  "dist/recipe.schema.json",
  execFileSync(process.execPath, ["dist/cjs/node/cli.js", "recipe", "--schema"]),
);
