// What breaks while the native program writes: it is killed, the disk is full or read-only, a pipe loses its reader,
// memory ends. The old outputs stay whole, nothing else is left, and there is one sentence.
//   ./dev build native qdq_program && ./dev node tests/faults/faults.mjs [KILLS]
// Needs the right to mount for the disks (else they are left out, and it says so). Prints a table; fails if one was
// lost.
import { spawn, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

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

mkdirSync(path.join(folder, "in"));
fresh();
start(["quantize", model, ...calibration, "-o", "in/q.pt2"]);
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
  let parts = 0;
  for (let i = 0; i < kills; i += 1) {
    const child = spawn(program, args, { cwd: folder, stdio: "ignore" });
    const ended = new Promise((resolve) => child.on("exit", (_, signal) => resolve(signal)));
    await sleep(took * 1.1 * Math.random());
    child.kill("SIGKILL");
    if ((await ended) === "SIGKILL") killed += 1;
    for (const [file, bytes] of Object.entries(outputs())) {
      if (file.endsWith(".part")) parts += 1;
      else if (!(file in whole) || !isWhole(file, bytes, whole[file])) check(`${name} killed, ${file}`, "whole", "not");
    }
  }
  rows.push([`${name}: kill -9`, kills, `${killed} were still at work, ${parts} parts left`]);
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
  shell('ulimit -f 100; trap "" XFSZ; exec "$@"', [program, "convert", model, "out/c.pt2"]),
  /file too large/,
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
const large = [...calibration, "--limit", "64", "--batch-size", "64"].toSpliced(4, 2);
refuses(
  "no memory",
  shell('ulimit -v 74000; exec "$@"', [program, "quantize", model, ...large, "-o", "out/c.pt2"]),
  /memory|does not fit/,
);
check("what is left behind", "p.pt2", readdirSync(path.join(folder, "out")).join());
rmSync(folder, { recursive: true });

for (const [name, tried, found] of rows) console.log(`${name.padEnd(28)} ${String(tried).padStart(5)} tried  ${found}`);
console.log(`${lost} lost`);
process.exitCode = lost > 0 ? 1 : 0;
