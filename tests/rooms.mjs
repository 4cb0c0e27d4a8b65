// Reads every #include of C++ and every import of TypeScript and JavaScript, of types too, and fails on one that the
// table of rooms in CONTRIBUTING.md does not allow. Fails too where modules import each other in a circle, and on lines
// of more than 120 columns; in documents, of prose.
// usage: node tests/rooms.mjs [FOLDER of the checkout]
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";

const root = process.argv[2] ?? ".";

// The rows "| `room` | purpose | sees |" as room -> rooms it may include, itself and what those see among them.
function readTable() {
  const direct = new Map();
  for (const line of readFileSync(join(root, "CONTRIBUTING.md"), "utf8").split("\n")) {
    const row = /^\| `([\w/]+)` \|.*\| ([^|]*) \|$/.exec(line);
    if (row) direct.set(row[1], row[2].trim());
  }
  const closure = (room) => {
    const sees = direct.get(room);
    if (sees === undefined) throw new Error(`the table has no room ${room}`);
    const core = [...direct.keys()].filter((other) => other !== room && existsSync(join(root, "src", other)));
    const next = sees === "–" ? [] : sees === "all of src" ? core : sees.split(", ");
    return new Set([room, ...next.flatMap((other) => [...closure(other)])]);
  };
  return new Map([...direct.keys()].map((room) => [room, closure(room)]));
}

// Libraries that only some files may see: the header, which files, and how to say so.
const walls = [
  [/oneapi\/|dnnl/, /^src\/lower\/backend\/onednn[a-z_]*\.(h|cpp)$/, "oneDNN belongs into src/lower/backend/onednn*"],
  [/^emscripten\b/, /^bindings\//, "Emscripten belongs into bindings/"],
  [/^hwy\//, /^src\/kernel\/\w+_hwy(-inl)?\.(h|cpp)$/, "Highway belongs into files *_hwy of src/kernel/"],
  [/^xsimd\//, /^src\/kernel\/\w+_xsimd\.(h|cpp)$/, "xsimd belongs into files *_xsimd of src/kernel/"],
  [/^stb\//, /^src\/format\//, "stb belongs into src/format/"],
  [/^CLI\//, /^src\/cli\//, "CLI11 belongs into src/cli/"],
];

// wasm-ld misplaces thread-local variables of modules without threads, so CMakeLists.txt compiles these files twice.
// Files of oneDNN are not part of those modules.
const threadLocal = ["src/base/parallel.cpp", "src/kernel/conv_int8.cpp", "src/lower/backend/onednn_openmp.cpp"];

const rooms = readTable();
// The room of a file: of C++ the folder in src/, of anything else the longest row of the table that it lies in.
function roomOf(file) {
  const path = file.replace(/^src\//, "");
  const found = [...rooms.keys()].filter((room) => path.startsWith(`${room}/`));
  if (/\.(h|cpp)$/.test(file)) return found.find((room) => !room.includes("/"));
  return found.sort((a, b) => b.length - a.length)[0];
}

const skipped = new Set([".git", "node_modules", "build", "dist"]);
function filesOf(folder) {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = folder ? `${folder}/${entry.name}` : entry.name;
    if (entry.isDirectory()) return skipped.has(entry.name) ? [] : filesOf(path);
    return [path];
  });
}

const failures = [];
function see(file, other, where) {
  const room = roomOf(file);
  if (room && other && room !== other && !rooms.get(room).has(other))
    failures.push(`${where}; ${room} may see only ${[...rooms.get(room)].join(", ")}`);
}

function checkIncludes(file, lines) {
  if (/^src\/.*\//.test(file) && !roomOf(file)) failures.push(`${file}: it is in no room of CONTRIBUTING.md's table`);
  lines.forEach((line, i) => {
    const include = /^\s*#\s*include\s*[<"]([^>"]+)[>"]/.exec(line)?.[1];
    if (!include) return;
    const where = `${file}:${i + 1}: includes ${include}`;
    see(file, include.includes("/") ? roomOf(`src/${include}`) : undefined, where);
    for (const [header, allowed, why] of walls)
      if (header.test(include) && !allowed.test(file)) failures.push(`${where}; ${why}`);
  });
}

// What modules import, of types too; "qdq" in the page is the package's door.
const modules = new Map();
function checkImports(file, text) {
  const imports = [];
  for (const [, name] of text.matchAll(/(?:\bfrom |\bimport\(|^import |(?:href|src)=)"(qdq|\.[^"?]*)/gm)) {
    const other = name === "qdq" ? "web/index.ts" : normalize(join(dirname(file), name));
    see(file, roomOf(other), `${file}: imports ${name}`);
    imports.push(other.replace(/\.js$/, ""));
  }
  modules.set(file.replace(/\.[a-z]+$/, ""), imports);
}

// Tables, code and the settings at the top of a page may be wider.
function checkProse(file, lines) {
  let fence = lines[0] === "---" ? "---" : "";
  lines.forEach((line, i) => {
    const mark = /^\s*(```|---$)/.exec(line)?.[1];
    if (fence ? i > 0 && mark === fence : mark === "```") fence = fence ? "" : mark;
    else if (!fence && !/^\s*\|/.test(line)) checkColumns(file, line, i);
  });
}

function checkColumns(file, line, i) {
  const columns = [...line].length;
  if (columns > 120) failures.push(`${file}:${i + 1}: ${columns} columns, at most 120 are wanted`);
}

const hasColumns = /\.(cpp|h|in|ts|js|mjs|cjs|py|sh|css|html|cmake)$|(^|\/)(dev|run|CMakeLists\.txt)$/;
const files = filesOf("");
for (const file of files) {
  if (file.endsWith(".md")) checkProse(file, readFileSync(join(root, file), "utf8").split("\n"));
  if (!hasColumns.test(file)) continue;
  const text = readFileSync(join(root, file), "utf8");
  const lines = text.split("\n");
  lines.forEach((line, i) => checkColumns(file, line, i));
  if (/^(src|bindings)\/.*\.(h|cpp)$/.test(file)) {
    checkIncludes(file, lines);
    if (/\bthread_local\b/.test(text) && !threadLocal.includes(file))
      failures.push(`${file}: thread_local is for ${threadLocal.join(", ")} (qdq_threads in CMakeLists.txt)`);
  }
  if (roomOf(file) && /\.(ts|js|html)$/.test(file)) checkImports(file, text);
}

const done = new Set();
function walk(name, path) {
  if (path.includes(name)) {
    failures.push(`${[...path.slice(path.indexOf(name)), name].join(" imports ")}, a circle`);
    return;
  }
  if (!done.has(name)) for (const other of modules.get(name) ?? []) walk(other, [...path, name]);
  done.add(name);
}
for (const name of modules.keys()) walk(name, []);

for (const failure of failures) console.error(failure);
console.log(
  failures.length ? `${failures.length} failures` : `${files.length} files keep to their rooms and to 120 columns`,
);
process.exitCode = failures.length || modules.size === 0 || rooms.size === 0 ? 1 : 0;
