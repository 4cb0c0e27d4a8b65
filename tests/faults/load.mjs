// Mixed load for examples/service: classifications, models to quantize, and broken uploads among them. Prints
// requests, answers and what memory the service has; fails if an answer is wrong, of another kind, or missing, or if
// memory grows.
//   node tests/faults/load.mjs URL PID [SECONDS]
import { readFileSync } from "node:fs";
import http from "node:http";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const root = path.join(path.dirname(fileURLToPath(import.meta.url)), "../..");
const [url, pid, seconds = 60] = process.argv.slice(2);
const model = readFileSync(path.join(root, "tests/golden/models/functional.pt2"));
const shape = [1, 3, 40, 40];
const image = (seed) => Array.from({ length: 4800 }, (_, i) => Math.sin(seed + 7 * i));

async function post(where, type, body) {
  const answer = await fetch(`${url}/${where}`, { method: "POST", headers: { "content-type": type }, body });
  return { status: answer.status, bytes: Buffer.from(await answer.arrayBuffer()) };
}
const classify = (body) => post("classify", "application/json", JSON.stringify(body));
const quantize = (body) => post("quantize", "application/octet-stream", body);

// Sends a part of what it says it sends, and goes.
const abandon = () =>
  new Promise((resolve) => {
    const headers = { "content-type": "application/octet-stream", "content-length": model.length };
    const request = http.request(`${url}/quantize`, { method: "POST", headers });
    request.on("error", () => {});
    request.on("close", () => resolve({ status: "none", bytes: Buffer.alloc(0) }));
    request.write(model.subarray(0, 1000), () => request.destroy());
  });

const damaged = () => {
  const bytes = Buffer.from(model);
  for (let i = 0; i < 40; i += 1)
    bytes[Math.floor(Math.random() * bytes.length)] ^= 1 + Math.floor(Math.random() * 255);
  return bytes;
};

const wanted = {};
const kinds = {
  classify: { send: (i) => classify({ shape, data: image(i % 4) }), statuses: [200], same: (i) => i % 4 },
  quantize: { send: () => quantize(model), statuses: [200], same: () => 0 },
  "classify, wrong shape": { send: () => classify({ shape: [1, 3, 39, 40], data: [1, 2] }), statuses: [400] },
  "classify, no JSON": { send: () => post("classify", "application/json", "{"), statuses: [400] },
  "quantize, cut off": { send: (i) => quantize(model.subarray(0, 10 + (i % 5000))), statuses: [400] },
  "quantize, damaged": { send: () => quantize(damaged()), statuses: [200, 400] },
  "quantize, noise": { send: () => quantize(Buffer.from(`PK noise ${Math.random()}`)), statuses: [400] },
  "quantize, abandoned": { send: abandon, statuses: ["none"] },
};

const counts = {};
let wrong = 0;
async function one(i) {
  const names = Object.keys(kinds);
  const name = names[Math.random() < 0.5 ? 0 : Math.floor(Math.random() * names.length)];
  const { send, statuses, same } = kinds[name];
  let { status, bytes } = await send(i);
  // The service quantizes one model at a time, and says so.
  while (status === 503 && !isOver()) {
    counts["asked again after 503"] = (counts["asked again after 503"] ?? 0) + 1;
    await sleep(20 + 80 * Math.random());
    ({ status, bytes } = await send(i));
  }
  const key = `${name}: ${status}`;
  counts[key] = (counts[key] ?? 0) + 1;
  if (status === 503) return;
  if (status === 200 && same) {
    const place = `${name} ${same(i)}`;
    wanted[place] ??= bytes;
    if (!wanted[place].equals(bytes)) {
      wrong += 1;
      console.log(`WRONG ${place}: another answer than at first`);
    }
  }
  if (!statuses.includes(status)) {
    wrong += 1;
    console.log(`WRONG ${name}: ${status} ${bytes.toString().slice(0, 200)}`);
  }
}

const memory = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))[1]) / 1000;
const began = performance.now();
const isOver = () => performance.now() - began > 1000 * seconds;
const seen = [];
const watch = setInterval(() => {
  seen.push(memory());
  console.log(`${((performance.now() - began) / 1000).toFixed(0).padStart(5)} s  ${seen.at(-1).toFixed(0)} MB`);
}, 100 * seconds);
let sent = 0;
const client = async () => {
  while (!isOver()) await one((sent += 1));
};
await Promise.all(Array.from({ length: 12 }, client));
clearInterval(watch);
for (const [key, count] of Object.entries(counts).sort()) console.log(`${String(count).padStart(7)}  ${key}`);
const half = seen.slice(Math.floor(seen.length / 2));
const growth = half.at(-1) - half[0];
console.log(`${sent} requests, ${wrong} wrong; growth in the second half ${growth.toFixed(0)} MB`);
process.exitCode = wrong > 0 || growth > 64 ? 1 : 0;
