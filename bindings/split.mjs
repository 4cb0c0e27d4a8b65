// Cuts a linked module in two: what opens programs and runs them stays, what quantizes goes into a part of its own, NAME-quantize.wasm, which is
// instantiated later into the same memory and the same table.
//   node split.mjs BINARYEN RUN.wasm UNOPTIMIZED.wasm MODULE.wasm
// BINARYEN is the folder of wasm-split and wasm-dis. RUN.wasm is a program of what is to stay and nothing else, UNOPTIMIZED.wasm the module
// without optimization: in these two every function still has its own name. All three need the functions' names.
//
// What stays is what is exported, what stands in the table where a function of RUN.wasm stood before equal functions were merged, and
// everything that is called from there by name.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { appendFileSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";

const [binaryen, run, unoptimized, module] = process.argv.slice(2);
const features = ["threads", "simd", "relaxed-simd", "exception-handling", "bulk-memory", "nontrapping-float-to-int", "sign-ext", "mutable-globals"];
const tool = (name, ...args) =>
  execFileSync(path.join(binaryen, name), [...features.map((feature) => `--enable-${feature}`), ...args], { stdio: ["ignore", "ignore", "inherit"] });

// The functions of a module, each with those that it calls by name; those that are exported; those in the table.
function look(file) {
  const text = `${module}.wat`;
  tool("wasm-dis", file, "-o", text);
  const functions = new Map();
  const exported = [];
  let table = [];
  let calls;
  for (const line of readFileSync(text, "utf8").split("\n")) {
    const [, head, name] = /^ \((func|export "[^"]*" \(func|elem) \$([^ )]+)/.exec(line) ?? [];
    if (head === "func") functions.set(name, (calls = []));
    else if (head === "elem") table = [...line.matchAll(/ \$([^ )]+)/g)].slice(1).map(([, each]) => each);
    else if (head) exported.push(name);
    else for (const [, callee] of line.matchAll(/\((?:return_)?call \$([^ )]+)/g)) calls?.push(callee);
  }
  rmSync(text);
  return { functions, exported, table };
}

const wanted = new Set(look(run).functions.keys());
// Of functions with the same name all but the first have got a number. What tells embind of the functions of both parts runs at the start.
const isWanted = (name) => wanted.has(name) || wanted.has(name.replace(/_\d+$/, "")) || /\bembind_init_/.test(name);
const before = look(unoptimized).table;
const { functions, exported, table } = look(module);
if (before.length !== table.length) throw new Error(`the tables of ${unoptimized} and ${module} have ${before.length} and ${table.length} functions`);
const kept = new Set();
const waiting = [...exported, ...table.filter((_, slot) => isWanted(before[slot]))];
for (let name; (name = waiting.pop()) !== undefined; ) {
  if (!kept.has(name) && functions.has(name)) waiting.push(...functions.get(name));
  kept.add(name);
}

const gone = `${module}.gone`;
writeFileSync(gone, [...functions.keys()].filter((name) => !kept.has(name)).join("\n"));
const parts = [module, module.replace(/\.wasm$/, "-quantize.wasm")];
const mark = createHash("sha256").update(readFileSync(module)).digest().subarray(0, 8);
tool("wasm-split", module, `--split-funcs=@${gone}`, "--import-namespace=first", "--placeholder-namespace=second", "-o1", `${module}.first`, "-o2", parts[1]);
renameSync(`${module}.first`, module);
// A custom section tells which parts belong together.
const name = Buffer.from("qdq");
for (const part of parts) appendFileSync(part, Buffer.concat([Buffer.from([0, 1 + name.length + mark.length, name.length]), name, mark]));
