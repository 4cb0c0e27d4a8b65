// From dropping a model and images to its int8 .pt2, in Chromium and on the command line: seconds of the clock and of
// the processor.
//   ./dev node tests/bench/page.cjs MODEL.pt2 IMAGES PREPROCESS.json [ROUNDS]
// after `./dev test page` built both. The page runs from a server that isolates it (threads) and from one that does
// not.
const { execFileSync } = require("node:child_process");
const { readFileSync, readdirSync } = require("node:fs");
const path = require("node:path");
const { launch, openPage, plainServer, root, scratch, serve } = require("../page/page.js");

const [model, images, preprocess, rounds = "3"] = process.argv.slice(2);
const files = readdirSync(images)
  .sort()
  .map((name) => path.join(images, name)); // prettier-ignore
const ticks = 100; // a second, in /proc

// The processor's seconds of this process's descendants that run, by the names of their threads.
function threads() {
  const read = (file) => {
    try {
      const text = readFileSync(file, "latin1");
      const end = text.lastIndexOf(")");
      const fields = text.slice(end + 2).split(" ");
      return {
        name: text.slice(text.indexOf("(") + 1, end),
        parent: fields[1],
        seconds: (Number(fields[11]) + Number(fields[12])) / ticks,
      };
    } catch {
      return undefined; // it has ended
    }
  };
  const processes = new Map();
  for (const id of readdirSync("/proc")) {
    const found = /^\d+$/.test(id) && read(`/proc/${id}/stat`);
    if (found) processes.set(id, found);
  }
  const descends = (id) => id !== undefined && (id === String(process.pid) || descends(processes.get(id)?.parent));
  const out = new Map();
  for (const [id, { parent }] of processes) {
    if (!descends(parent)) continue;
    try {
      for (const thread of readdirSync(`/proc/${id}/task`)) {
        const found = read(`/proc/${id}/task/${thread}/stat`);
        if (found) out.set(`${id}/${thread}`, found);
      }
    } catch {
      // it has ended
    }
  }
  return out;
}

async function inPage(url) {
  const browser = await launch();
  const { page } = await openPage(browser, url);
  // The page brings its module and draws itself before anybody has found a file.
  await page.waitForTimeout(2000);
  const before = threads();
  const began = performance.now();
  await page.setInputFiles("#model-file", model);
  await page.waitForSelector("#recipe tbody tr");
  const open = performance.now();
  await page.setInputFiles("#calibration-files", [...files, preprocess]);
  await page.waitForSelector("#calibration-summary:not(:empty)");
  const read = performance.now();
  await page.click("#start");
  await page.waitForSelector("#save-model");
  const done = performance.now();
  const clock = (done - began) / 1000;
  const names = {};
  let processor = 0;
  for (const [id, { name, seconds }] of threads()) {
    const used = seconds - (before.get(id)?.seconds ?? 0);
    processor += used;
    names[name] = (names[name] ?? 0) + used;
  }
  const worst = Object.entries(names)
    .sort(([, a], [, b]) => b - a)
    .slice(0, 4); // prettier-ignore
  const parts = [open - began, read - open, done - read].map((part) => (part / 1000).toFixed(2)).join(" + ");
  await browser.close();
  return {
    clock,
    processor,
    note: `${parts}; ${worst.map(([name, seconds]) => `${name} ${seconds.toFixed(2)}`).join(", ")}`,
  };
}

function natively(count) {
  const job = [
    "quantize",
    model,
    "--calibrate",
    images,
    "--preprocess",
    preprocess,
    "--threads",
    count,
    "-o",
    path.join(scratch, "bench.pt2"),
  ];
  const before = children();
  const began = performance.now();
  execFileSync(path.join(root, "build/native/qdq"), job, { stdio: "ignore" });
  return { clock: (performance.now() - began) / 1000, processor: children() - before, note: "" };
}
// The processor's seconds of all children that ended.
const children = () => {
  const fields = readFileSync("/proc/self/stat", "latin1").split(") ")[1].split(" ");
  return (Number(fields[13]) + Number(fields[14])) / ticks;
};

const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];

(async () => {
  const isolated = await serve();
  const plain = await plainServer("/");
  const jobs = {
    "page, with threads": () => inPage(isolated.url),
    "page, one thread": () => inPage(plain.url),
    "qdq quantize --threads 2": () => natively("2"),
    "qdq quantize --threads 1": () => natively("1"),
  };
  const all = Object.fromEntries(Object.keys(jobs).map((name) => [name, []]));
  for (let round = 0; round < Number(rounds); ++round)
    for (const [name, job] of Object.entries(jobs)) all[name].push(await job());
  for (const [name, results] of Object.entries(all)) {
    const of = (field) => median(results.map((result) => result[field])).toFixed(2);
    console.log(`${name}: ${of("clock")} s of the clock, ${of("processor")} s of the processor  ${results[0].note}`);
  }
  isolated.close();
  plain.close();
})();
