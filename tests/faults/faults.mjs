// What breaks while the native program works: it is killed or told to end, the disk is full or read-only, a pipe loses
// its reader, memory or descriptors end, others change what it reads and writes. The old outputs stay whole, nothing
// else is left, and there is one sentence.
//   ./dev build native qdq_program && ./dev node tests/faults/faults.mjs [KILLS]
// Needs the right to mount for the disks (else they are left out, and it says so). Prints a table; fails if one was
// lost.
import { spawn, spawnSync } from "node:child_process";
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { crc32 } from "node:zlib";

const root = path.join(path.dirname(fileURLToPath(import.meta.url)), "../..");
const program = path.join(root, "build/native/qdq");
const kills = Number(process.argv[2] ?? 20);
const shapes = path.join(root, "examples/shapes");
const model = path.join(shapes, "model.pt2");
const data = ["--preprocess", path.join(shapes, "preprocess.json"), "--limit", "16"];
const calibration = ["--calibrate", path.join(shapes, "calibration"), ...data];
const test = path.join(shapes, "test");

const folder = mkdtempSync(path.join(tmpdir(), "qdq-faults-"));
const start = (args, options = {}) => spawnSync(program, args, { cwd: folder, encoding: "utf8", ...options });
const shell = (text, args) => spawnSync("bash", ["-c", text, "bash", ...args], { cwd: folder, encoding: "utf8" });

// Verbs that write, and what they write.
const verbs = {
  quantize: [
    "quantize",
    model,
    ...calibration,
    "-o",
    "out/q.pt2",
    "--observers",
    "out/q.json",
    "--report",
    "out/q.html",
  ],
  "quantize to ONNX": ["quantize", model, ...calibration, "-o", "out/q.onnx", "--onnx-data"],
  convert: ["convert", model, "out/c.onnx"],
  compare: ["compare", model, "in/q.pt2", "--data", test, ...data, "--report", "out/layers.html"],
  train: [
    "train",
    model,
    "--data",
    test,
    ...data,
    "--labels",
    "out/../in/labels.csv",
    "--epochs",
    "1",
    "-o",
    "out/t.pt2",
  ],
  calibrate: ["calibrate", model, "--data", path.join(shapes, "calibration"), ...data, "-o", "out/part.json"],
  merge: ["merge", "in/a.json", "in/b.json", "-o", "out/merged.json"],
  run: ["run", "in/q.pt2", "--inputs", test, ...data, "-o", "out/r.npz"],
  fuse: ["fuse", model, "out/f.pt2"],
};

let lost = 0;
const rows = [];
const check = (name, wanted, found) => {
  if (wanted === found) return true;
  lost += 1;
  console.log(`LOST ${name}: wanted ${wanted}, found ${found}`);
  return false;
};
const outputs = () =>
  Object.fromEntries(
    readdirSync(path.join(folder, "out")).map((name) => [name, readFileSync(path.join(folder, "out", name))]),
  );
const fresh = () => {
  rmSync(path.join(folder, "out"), { recursive: true, force: true });
  mkdirSync(path.join(folder, "out"));
};

// An archive of one member that is stored: a header of NumPy and zeros.
function writeNpz(file, header, size) {
  const magic = Buffer.from([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, header.length, 0]);
  const member = Buffer.concat([magic, Buffer.from(header), Buffer.alloc(size)]);
  const name = Buffer.from("x.npy");
  const common = Buffer.alloc(26); // from the version needed to the length of the extra field
  common.writeUInt16LE(20, 0);
  common.writeUInt32LE(crc32(member), 10);
  common.writeUInt32LE(member.length, 14);
  common.writeUInt32LE(member.length, 18);
  common.writeUInt16LE(name.length, 22);
  const local = Buffer.concat([Buffer.from("PK\x03\x04"), common, name]);
  const central = Buffer.concat([Buffer.from("PK\x01\x02\x14\x00"), common, Buffer.alloc(14), name]);
  const end = Buffer.alloc(22);
  end.write("PK\x05\x06");
  end.writeUInt16LE(1, 8);
  end.writeUInt16LE(1, 10);
  end.writeUInt32LE(central.length, 12);
  end.writeUInt32LE(local.length + member.length, 16);
  writeFileSync(file, Buffer.concat([local, member, central, end]));
}

mkdirSync(path.join(folder, "in"));
fresh();
start(["quantize", model, ...calibration, "-o", "in/q.pt2"]);
for (const [part, shard] of [
  ["in/a.json", "1/2"],
  ["in/b.json", "2/2"],
])
  start([...verbs.calibrate.slice(0, -1), part, "--shard", shard]);
cpSync(path.join(test, "labels.csv"), path.join(folder, "in/labels.csv"));

// Reports tell how long the work took, so their bytes are only whole or not.
const isWhole = (name, bytes, old) =>
  name.endsWith(".html") ? bytes.subarray(-8).toString().trim() === "</html>" : bytes.equals(old);

for (const [name, args] of Object.entries(verbs)) {
  fresh();
  const began = performance.now();
  const { status, stderr } = start(args);
  const took = performance.now() - began;
  if (!check(`${name} without a fault`, 0, status)) {
    console.log(stderr);
    continue;
  }
  const whole = outputs();
  let killed = 0;
  const parts = new Set();
  for (let i = 0; i < kills; i += 1) {
    const end = i % 4 === 3 ? "SIGTERM" : "SIGKILL";
    const child = spawn(program, args, { cwd: folder, stdio: "ignore" });
    const ended = new Promise((resolve) => child.on("exit", (_, signal) => resolve(signal)));
    await sleep(took * 1.1 * Math.random());
    child.kill(end);
    if ((await ended) === end) killed += 1;
    for (const [file, bytes] of Object.entries(outputs())) {
      if (file.endsWith(".part")) parts.add(file);
      else if (!(file in whole) || !isWhole(file, bytes, whole[file])) check(`${name} killed, ${file}`, "whole", "not");
    }
  }
  rows.push([`${name}: kill -9, or -15`, kills, `${killed} were still at work, ${parts.size} parts left`]);
}

// One sentence, the old file as it was, nothing beside it.
function refuses(name, result, words) {
  const line = result.stderr.split("\n").findLast((text) => text.startsWith("qdq: ")) ?? "";
  const isRight =
    check(`${name}: status`, 1, result.status) && check(`${name}: words in '${line}'`, true, words.test(line));
  rows.push([name, 1, isRight ? line : "LOST"]);
}
function onDisk(name, options, words) {
  const disk = path.join(folder, "disk");
  mkdirSync(disk, { recursive: true });
  const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", "size=256k", "tmpfs", disk]);
  if (mounted.status !== 0) {
    rows.push([name, 0, "left out: nothing can be mounted here"]);
    return;
  }
  writeFileSync(path.join(disk, "q.pt2"), "old");
  if (options) spawnSync("mount", ["-o", options, disk]);
  refuses(name, start(["convert", model, "disk/q.pt2"]), words);
  check(`${name}: the old file`, "old", readFileSync(path.join(disk, "q.pt2"), "utf8"));
  check(`${name}: files`, "q.pt2", readdirSync(disk).join());
  spawnSync("umount", [disk]);
}
fresh();
onDisk("a full disk", "", /cannot write disk\/q\.pt2: no space left on device/);
onDisk("a read-only disk", "remount,ro", /cannot write disk\/q\.pt2: read-only file system/);
refuses(
  "a folder that is gone",
  start(["convert", model, "none/c.pt2"]),
  /cannot write none\/c\.pt2: there is no folder none/,
);
refuses(
  "a limit of the file's size",
  shell('ulimit -f 100; exec "$@"', [program, "convert", model, "out/c.pt2"]),
  /file too large/,
);
refuses(
  "a closed standard output",
  shell('exec "$@" >&-', [program, "inspect", model]),
  /cannot write to the standard output: bad file descriptor/,
);
refuses(
  "a full disk behind the standard output",
  shell('exec "$@" >/dev/full', [program, "inspect", model]),
  /cannot write to the standard output: no space left on device/,
);
refuses(
  "a pipe without a reader",
  shell('mkfifo out/p.pt2; (exec 3<out/p.pt2; sleep 0.1) & "$@"; status=$?; wait; exit $status', [
    program,
    "convert",
    model,
    "out/p.pt2",
  ]),
  /cannot write out\/p\.pt2: broken pipe/,
);
{
  writeFileSync(path.join(folder, "out/t.pt2"), "old");
  const began = performance.now();
  const endless = [...verbs.train, "--epochs", "100000", "--threads", "2", "--timeout", "0.5"].toSpliced(-10, 2);
  refuses("a time limit", start(endless), /the 0\.5 seconds that --timeout allows have passed/);
  check("a time limit: within a second", true, performance.now() - began < 1500);
  check("a time limit: the old file", "old", readFileSync(path.join(folder, "out/t.pt2"), "utf8"));
  rmSync(path.join(folder, "out/t.pt2"));
}
// A command that looks at outputs ends with the program, and so does the file that it reads.
for (const [name, how, message] of [
  ["a time limit of a command", ["--timeout", "1"], /the 1 seconds that --timeout allows have passed/],
  ["a command of a program that is told to end", [], /^$/],
]) {
  fresh();
  mkdirSync(path.join(folder, "out/tmp"));
  const metric = ["--metric", "echo $$ > out/pid; sleep 60; cat {outputs}"];
  const words = ["evaluate", model, "in/q.pt2", "--data", test, ...data, "-q", ...metric, ...how];
  const options = { cwd: folder, env: { ...process.env, TMPDIR: path.join(folder, "out/tmp") } };
  const child = spawn(program, words, options);
  let stderr = "";
  child.stderr.on("data", (text) => {
    stderr += text;
  });
  while (!readdirSync(path.join(folder, "out")).includes("pid")) await sleep(20);
  await sleep(100);
  const command = Number(readFileSync(path.join(folder, "out/pid"), "utf8"));
  if (how.length === 0) child.kill("SIGTERM");
  await new Promise((resolve) => child.on("close", resolve));
  check(`${name}: ${stderr}`, true, message.test(stderr));
  check(`${name}: its files`, 0, readdirSync(path.join(folder, "out/tmp")).length);
  await sleep(100);
  let lives = false;
  try {
    lives = !/\) Z /.test(readFileSync(`/proc/${command}/stat`, "utf8"));
  } catch {} // there is no such process
  check(`${name}: whether it lives`, false, lives);
  rows.push([name, 1, stderr.trim()]);
}
// Neither the loader nor the program may open more than so many files at once.
for (let most = 3; most <= 8; most += 1) {
  fresh();
  const { status, stderr } = shell(`ulimit -n ${most}; exec "$@"`, [program, ...verbs.quantize]);
  const name = `${most} descriptors`;
  const isRefused = /^qdq: .*too many open files/m.test(stderr) || status === 127; // 127: libraries are not found
  check(`${name}: status ${status}, ${stderr}`, true, status === 0 || isRefused);
  check(`${name}: files`, status === 0 ? 3 : 0, readdirSync(path.join(folder, "out")).length);
  rows.push([name, 1, status === 0 ? "enough" : stderr.trim().split("\n").at(-1)]);
}
// Root may write everywhere, so that another user tries.
if (process.getuid?.() === 0) {
  fresh();
  writeFileSync(path.join(folder, "out/c.pt2"), "old");
  for (const part of ["", "in", "out", "in/q.pt2", "out/c.pt2"])
    chmodSync(path.join(folder, part), part.includes(".") ? 0o644 : 0o755);
  for (const out of ["out/c.pt2", "out/d.pt2"])
    refuses(
      `a folder of another user, ${out}`,
      shell('exec setpriv --reuid 65534 --clear-groups "$@"', [program, "convert", "in/q.pt2", out]),
      /cannot write out\/.\.pt2: permission denied/,
    );
  check("a folder of another user: the old file", "old", readFileSync(path.join(folder, "out/c.pt2"), "utf8"));
  check("a folder of another user: files", "c.pt2", readdirSync(path.join(folder, "out")).join());
}
{
  fresh();
  start(verbs.convert);
  const whole = readFileSync(path.join(folder, "out/c.onnx"));
  const seen = { mine: 0, other: 0 };
  for (let i = 0; i < kills; i += 1) {
    const child = spawn(program, verbs.convert, { cwd: folder, stdio: "ignore" });
    const ended = new Promise((resolve) => child.on("exit", resolve));
    for (let times = 1 + (i % 16); times > 0; times -= 1) {
      writeFileSync(path.join(folder, "in/other"), "other");
      renameSync(path.join(folder, "in/other"), path.join(folder, "out/c.onnx"));
      await sleep(2);
    }
    check("an output that others replace: status", 0, await ended);
    const found = readFileSync(path.join(folder, "out/c.onnx"));
    seen[found.equals(whole) ? "mine" : "other"] += 1;
    check("an output that others replace", true, found.equals(whole) || found.toString() === "other");
    check("an output that others replace: files", "c.onnx", readdirSync(path.join(folder, "out")).join());
  }
  rows.push(["an output that others replace", kills, `${seen.mine} the program's, ${seen.other} the other's`]);
}
// No file of others is mapped into memory, so that one that shrinks is no SIGBUS.
for (const [name, args, input] of [
  ["a model that shrinks", ["convert", "in/model.pt2", "out/c.onnx"], [model, "in/model.pt2"]],
  [
    "data that shrink",
    ["run", "in/q.pt2", "--inputs", "in/data.npz", "-o", "out/c.npz"],
    ["in/all.npz", "in/data.npz"],
  ],
]) {
  fresh();
  if (name.startsWith("data")) {
    const rows = 1000;
    const header = `{'descr': '<f4', 'fortran_order': False, 'shape': (${rows}, 3, 40, 40), }`;
    writeNpz(path.join(folder, "in/all.npz"), `${header.padEnd(117)}\n`, rows * 3 * 40 * 40 * 4);
  }
  const [from, to] = input.map((file) => path.resolve(folder, file));
  cpSync(from, to);
  const began = performance.now();
  check(`${name}: at rest`, 0, start(args).status);
  const took = performance.now() - began;
  const output = args.at(-1);
  const whole = readFileSync(path.join(folder, output));
  let refused = 0;
  for (let i = 0; i < kills; i += 1) {
    cpSync(from, to);
    writeFileSync(path.join(folder, output), "old");
    const child = spawn(program, args, { cwd: folder, stdio: ["ignore", "ignore", "pipe"] });
    let said = "";
    child.stderr.on("data", (text) => {
      said += text;
    });
    const ended = new Promise((resolve) => child.on("close", (status) => resolve(status)));
    await sleep(took * Math.random());
    truncateSync(to, 100 + Math.floor(Math.random() * 1000000));
    const status = await ended;
    if (status === 1) refused += 1;
    const found = readFileSync(path.join(folder, output));
    check(`${name}: status ${status}, ${said}`, true, status === 0 || (status === 1 && /^qdq: .*in\//m.test(said)));
    check(`${name}: output`, true, found.equals(status === 0 ? whole : Buffer.from("old")));
  }
  rows.push([name, kills, `${refused} refused, the others were read before`]);
}
fresh();
const large = [...calibration, "--limit", "64", "--batch-size", "64"].toSpliced(4, 2);
refuses(
  "no memory",
  shell('ulimit -v 74000; exec "$@"', [program, "quantize", model, ...large, "-o", "out/c.pt2"]),
  /memory|does not fit/,
);
check("what is left behind", "", readdirSync(path.join(folder, "out")).join());
rmSync(folder, { recursive: true });

for (const [name, tried, found] of rows) console.log(`${name.padEnd(36)} ${String(tried).padStart(5)} tried  ${found}`);
console.log(`${lost} lost`);
process.exitCode = lost > 0 ? 1 : 0;
