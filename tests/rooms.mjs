// Reads every #include of src/ and bindings/ and fails on one that the table of rooms in CONTRIBUTING.md does not allow. And every import of
// the package's TypeScript, of types too, and fails where modules import each other in a circle.
// usage: node tests/rooms.mjs [FOLDER of the checkout]
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";

const root = process.argv[2] ?? ".";

// The rows "| `room` | purpose | sees |" as room -> rooms it may include, itself and what those see among them.
function readTable() {
  const direct = new Map();
  for (const line of readFileSync(join(root, "CONTRIBUTING.md"), "utf8").split("\n")) {
    const row = /^\| `(\w+)` \|.*\| ([^|]*) \|$/.exec(line);
    if (row) direct.set(row[1], row[2].trim());
  }
  const closure = (room) => {
    const sees = direct.get(room);
    if (sees === undefined) throw new Error(`the table has no room ${room}`);
    const next = sees === "–" ? [] : sees === "all" ? [...direct.keys()].filter((other) => other !== room) : sees.split(", ");
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

const rooms = readTable();
const files = ["src", "bindings"].flatMap((top) =>
  readdirSync(join(root, top), { recursive: true }).map((name) => `${top}/${name}`).filter((name) => /\.(h|cpp)$/.test(name)));
const failures = [];
for (const file of files) {
  const [top, room] = file.split("/");
  const inRoom = top === "src" && file.split("/").length > 2;
  if (inRoom && !rooms.has(room)) failures.push(`${file}: there is no room ${room} in the table of CONTRIBUTING.md`);
  readFileSync(join(root, file), "utf8").split("\n").forEach((line, i) => {
    const include = /^\s*#\s*include\s*[<"]([^>"]+)[>"]/.exec(line)?.[1];
    if (!include) return;
    const where = `${file}:${i + 1}: includes ${include}`;
    const other = include.split("/")[0];
    if (inRoom && include.includes("/") && rooms.has(other) && rooms.has(room) && !rooms.get(room).has(other)) {
      failures.push(`${where}; ${room} may see only ${[...rooms.get(room)].join(", ")}`);
    }
    for (const [header, allowed, why] of walls) if (header.test(include) && !allowed.test(file)) failures.push(`${where}; ${why}`);
  });
}

// The modules of the package below the doors, with those that each imports.
const folder = "bindings/api";
const modules = new Map(readdirSync(join(root, folder)).filter((name) => name.endsWith(".ts")).map((name) => {
  const imports = readFileSync(join(root, folder, name), "utf8").matchAll(/\bfrom "\.\/([\w-]+)\.js"/g);
  return [name, [...imports].map(([, other]) => `${other}.ts`)];
}));
const done = new Set();
function walk(name, path) {
  if (path.includes(name)) return failures.push(`${folder}: ${[...path.slice(path.indexOf(name)), name].join(" imports ")}, a circle`);
  if (!done.has(name)) for (const other of modules.get(name) ?? []) walk(other, [...path, name]);
  done.add(name);
}
for (const name of modules.keys()) walk(name, []);

for (const failure of failures) console.error(failure);
console.log(failures.length ? `${failures.length} includes or imports are not allowed` : `${files.length + modules.size} files keep to their rooms`);
process.exitCode = failures.length || files.length === 0 || modules.size === 0 || rooms.size === 0 ? 1 : 0;
