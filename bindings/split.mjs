// Cuts a linked module in two: what opens programs and runs them stays, what quantizes goes into a part of its own, NAME-quantize.wasm, which is
// instantiated later into the same memory and the same table.
//   node split.mjs BINARYEN RUN.wasm UNOPTIMIZED.wasm MODULE.wasm
// BINARYEN is the folder of wasm-split and wasm-dis. RUN.wasm is a program of what is to stay and nothing else, UNOPTIMIZED.wasm the module
// without optimization: in these two every function and every constant still has its own name. All three need names, and data that the linker
// has not merged.
//
// Of functions stays what is exported, what stands in the table where a function of RUN.wasm stood before equal functions were merged, and
// everything that is called from there by name. Of data goes what is constant, not in RUN.wasm, and not pointed to by anything that stays.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";

const [binaryen, run, unoptimized, module] = process.argv.slice(2);
const features = ["threads", "simd", "relaxed-simd", "exception-handling", "bulk-memory", "nontrapping-float-to-int", "sign-ext", "mutable-globals"];
const tool = (name, ...args) =>
  execFileSync(path.join(binaryen, name), [...features.map((feature) => `--enable-${feature}`), ...args], { stdio: ["ignore", "ignore", "inherit"] });

// Functions, by the text format: each with those that it calls by name and the numbers in it, which may be addresses; those that are exported;
// those in the table.
function look(file) {
  const text = `${module}.wat`;
  tool("wasm-dis", file, "-o", text);
  const functions = new Map();
  const exported = [];
  let table = [];
  let body;
  for (const line of readFileSync(text, "utf8").split("\n")) {
    const [, head, name] = /^ \((func|export "[^"]*" \(func|elem) \$([^ )]+)/.exec(line) ?? [];
    if (head === "func") functions.set(name, (body = { calls: [], numbers: [] }));
    else if (head === "elem") table = [...line.matchAll(/ \$([^ )]+)/g)].slice(1).map(([, each]) => each);
    else if (head) exported.push(name);
    else {
      for (const [, callee] of line.matchAll(/\((?:return_)?call \$([^ )]+)/g)) body?.calls.push(callee);
      for (const [, number] of line.matchAll(/(?:i32\.const |offset=)(\d+)/g)) body?.numbers.push(Number(number));
    }
  }
  rmSync(text);
  return { functions, exported, table };
}

const wanted = new Set(look(run).functions.keys());
// Of functions with the same name all but the first have got a number.
const isWanted = (name) => wanted.has(name) || wanted.has(name.replace(/_\d+$/, ""));
const before = look(unoptimized).table;
const { functions, exported, table } = look(module);
if (before.length !== table.length) throw new Error(`the tables of ${unoptimized} and ${module} have ${before.length} and ${table.length} functions`);
const kept = new Set();
const waiting = [...exported, ...table.filter((_, slot) => isWanted(before[slot]))];
for (let name; (name = waiting.pop()) !== undefined; ) {
  if (!kept.has(name) && functions.has(name)) waiting.push(...functions.get(name).calls);
  kept.add(name);
}

// Data, by the binary format (https://webassembly.github.io/spec/core/binary/modules.html).
class Reader {
  at = 0;
  constructor(bytes) {
    this.bytes = bytes;
  }
  get done() {
    return this.at >= this.bytes.length;
  }
  byte() {
    return this.bytes[this.at++];
  }
  number() {
    for (let value = 0, shift = 0; ; shift += 7) {
      const byte = this.byte();
      value += (byte & 127) * 2 ** shift;
      if (byte < 128) return value;
    }
  }
  take(length) {
    return this.bytes.subarray(this.at, (this.at += length));
  }
  text() {
    return this.take(this.number()).toString();
  }
}
const encoded = (number) => {
  const bytes = [];
  for (; number > 127; number = Math.floor(number / 128)) bytes.push((number % 128) + 128);
  return Buffer.from([...bytes, number]);
};
const sized = (bytes) => Buffer.concat([encoded(bytes.length), bytes]);
const [CUSTOM, DATA_COUNT, CODE, DATA] = [0, 12, 10, 11];

function sectionsOf(file) {
  const reader = new Reader(readFileSync(file));
  reader.take(8);
  const sections = [];
  while (!reader.done) sections.push({ kind: reader.byte(), body: reader.take(reader.number()) });
  return sections;
}
function write(file, sections) {
  const header = readFileSync(file).subarray(0, 8);
  writeFileSync(file, Buffer.concat([header, ...sections.flatMap(({ kind, body }) => [Buffer.from([kind]), sized(body)])]));
}

// The pieces of memory that a module sets, with the names of what they are.
function dataOf(file) {
  const pieces = [];
  for (const { kind, body } of sectionsOf(file)) {
    const reader = new Reader(body);
    if (kind === DATA) {
      for (let left = reader.number(); left > 0; --left) {
        // Active, in memory 0, at an i32.const.
        if (reader.byte() !== 0 || reader.byte() !== 0x41) throw new Error(`${file} has data of a kind that is not known here`);
        const address = reader.number();
        reader.byte();
        pieces.push({ address, bytes: reader.take(reader.number()), name: "" });
      }
    } else if (kind === CUSTOM && reader.text() === "name") {
      while (!reader.done) {
        const isData = reader.byte() === 9;
        const names = new Reader(reader.take(reader.number()));
        if (isData) for (let left = names.number(); left > 0; --left) pieces[names.number()].name = names.text();
      }
    }
  }
  return pieces;
}
// i32.const takes a signed number: one bit more than an unsigned one.
const signed = (number) => {
  const bytes = encoded(number);
  if (bytes.at(-1) < 64) return bytes;
  bytes[bytes.length - 1] += 128;
  return Buffer.concat([bytes, Buffer.from([0])]);
};
const dataSection = (pieces) => ({
  kind: DATA,
  body: Buffer.concat([
    encoded(pieces.length),
    ...pieces.flatMap(({ address, bytes }) => [Buffer.from([0, 0x41]), signed(address), Buffer.from([0x0b]), sized(bytes)]),
  ]),
});

// Texts have only a number within their file for a name, and the linker puts those of the same number together.
const isText = (name) => name.includes(".L.str");
const partsOf = (pieces) => pieces.flatMap((piece) => {
  if (!isText(piece.name)) return [piece];
  const texts = [];
  for (let { address, bytes, name } = piece; bytes.length > 0; ) {
    const length = (bytes.indexOf(0) + 1) || bytes.length;
    texts.push({ address, name, bytes: bytes.subarray(0, length) });
    address += length;
    bytes = bytes.subarray(length);
  }
  return texts;
});
// So a text is known by what it says, and what may hold addresses by its name and its length.
const keyOf = ({ name, bytes }) => (isText(name) ? `"${bytes}"` : `${name} ${bytes.length}`);
const known = new Set(partsOf(dataOf(run)).map(keyOf));
const all = partsOf(dataOf(unoptimized));
const going = new Set(all.filter((piece) => piece.name.startsWith(".rodata.") && !known.has(keyOf(piece))));
if (going.size === 0) throw new Error(`${unoptimized} has no names of data, or ${run} has all of them`);
const pieceAt = (address) => {
  let [low, high] = [0, all.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (all[middle].address + all[middle].bytes.length <= address) low = middle + 1;
    else high = middle;
  }
  return all[low]?.address <= address ? all[low] : undefined;
};
const staying = all.filter((piece) => !going.has(piece));
const stay = (address) => {
  const piece = pieceAt(address);
  // Nothing points into a text, but many numbers seem to point into the long ones.
  if (!(piece && isText(piece.name) && piece.address !== address) && going.delete(piece)) staying.push(piece);
};
for (const name of kept) functions.get(name)?.numbers.forEach(stay);
for (const { address, bytes } of staying) {
  for (let at = (4 - (address % 4)) % 4; at + 4 <= bytes.length; at += 4) stay(bytes.readUInt32LE(at));
}

const image = Buffer.alloc(Math.max(...all.map(({ address, bytes }) => address + bytes.length)));
for (const { address, bytes } of all) bytes.copy(image, address);
for (const { address, bytes } of dataOf(module)) {
  if (!image.subarray(address, address + bytes.length).equals(bytes)) throw new Error(`the data of ${unoptimized} and ${module} differ at ${address}`);
}
// Pieces side by side become one; what lies between them is zero anyway.
const joined = (pieces) => {
  const runs = [];
  for (const { address, bytes } of [...pieces].sort((a, b) => a.address - b.address)) {
    const last = runs.at(-1);
    if (last && address - last.end < 8) last.end = address + bytes.length;
    else runs.push({ start: address, end: address + bytes.length });
  }
  return runs.map(({ start, end }) => ({ address: start, bytes: image.subarray(start, end) }));
};

const gone = `${module}.gone`;
writeFileSync(gone, [...functions.keys()].filter((name) => !kept.has(name)).join("\n"));
const second = module.replace(/\.wasm$/, "-quantize.wasm");
const mark = Buffer.concat([sized(Buffer.from("qdq")), createHash("sha256").update(readFileSync(module)).digest().subarray(0, 8)]);
tool("wasm-split", module, `--split-funcs=@${gone}`, "--import-namespace=first", "--no-placeholders", "-o1", `${module}.first`, "-o2", second);
renameSync(`${module}.first`, module);
for (const [part, pieces] of [[module, joined(staying)], [second, joined(going)]]) {
  const sections = sectionsOf(part).filter(({ kind }) => kind !== DATA);
  sections.splice(1 + sections.findIndex(({ kind }) => kind === CODE), 0, dataSection(pieces));
  for (const section of sections) if (section.kind === DATA_COUNT) section.body = encoded(pieces.length);
  // A custom section tells which parts belong together.
  write(part, [...sections, { kind: CUSTOM, body: mark }]);
}
