// Runs examples/pipeline, examples/decoder and examples/service as their READMEs say, and reads examples/github_action:
// the current folder has the packed tarball, Fastify and yaml installed. node examples_npm.mjs CHECKOUT
import { deepStrictEqual, match, ok, strictEqual } from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { copyFileSync, cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [checkout] = process.argv.slice(2);
const shapes = path.join(checkout, "examples/shapes");
const model = path.join(shapes, "model.pt2");

// The pipeline quantizes what is a model, says why it leaves the rest, and does nothing twice.
rmSync("models", { recursive: true, force: true });
rmSync("out", { recursive: true, force: true });
mkdirSync("models");
copyFileSync(model, "models/shapes.pt2");
writeFileSync("models/broken.onnx", "no model");
cpSync(path.join(shapes, "calibration"), "data", { recursive: true });
copyFileSync(path.join(shapes, "preprocess.json"), "data/preprocess.json");
for (const name of ["pipeline.mjs", "job.mjs"]) copyFileSync(path.join(checkout, "examples/pipeline", name), name);
const pipeline = () => execFileSync(process.execPath, ["pipeline.mjs", "models", "data", "out", "--once"]).toString();
const said = pipeline();
match(said, /^shapes\.pt2: 1104702 -> 2\d{5} bytes, top-1 \d+\.\d -> \d+\.\d %$/m);
match(said, /^broken\.onnx: .*neither a \.pt2 file/m);
match(readFileSync("out/shapes.report.html", "utf8"), /Quantization of/);
ok(!pipeline().includes("shapes.pt2"));

// The decoder streams what PyTorch generates.
copyFileSync(path.join(checkout, "examples/decoder/generate.mjs"), "generate.mjs");
const decoder = path.join(checkout, "examples/decoder/decoder.pt2");
const streamed = execFileSync(process.execPath, ["generate.mjs", decoder, "5,9,33,2", "16"], {
  stdio: ["ignore", "pipe", "ignore"],
}).toString();
strictEqual(streamed, "8 41 63 36 58 16 31 46 20 25 63 36 58 16 31 46\n");

// The service runs and quantizes, goes on answering meanwhile, and refuses what is more than it can do.
copyFileSync(path.join(checkout, "examples/service/service.mjs"), "service.mjs");
const server = spawn(process.execPath, ["service.mjs", "out/shapes.int8.pt2", "0"], {
  stdio: ["ignore", "pipe", "inherit"],
});
try {
  const url = await new Promise((resolve, reject) => {
    server.stdout.on("data", (text) => resolve(/http\S+/.exec(String(text))[0]));
    server.on("exit", () => reject(new Error("the service ended")));
  });
  const post = async (where, type, body) => {
    const answer = await fetch(`${url}${where}`, { method: "POST", headers: { "content-type": type }, body });
    return { status: answer.status, bytes: Buffer.from(await answer.arrayBuffer()) };
  };
  const classify = (body) => post("/classify", "application/json", JSON.stringify(body));
  const quantize = (body) => post("/quantize", "application/octet-stream", body);
  const bytes = readFileSync(model);
  const [first, second, answer] = await Promise.all([
    quantize(bytes),
    quantize(bytes),
    classify({ shape: [1, 3, 40, 40], data: Array(4800).fill(0.5) }),
  ]);
  deepStrictEqual([first.status, second.status].sort(), [200, 503]);
  const int8 = first.status === 200 ? first.bytes : second.bytes;
  ok(int8.length > 1000 && int8.length < bytes.length);
  strictEqual(answer.status, 200);
  strictEqual(JSON.parse(answer.bytes).scores.length, 16);
  strictEqual((await classify({ shape: [1, 3, 4, 4], data: Array(48).fill(0) })).status, 400);
  const broken = await quantize("no model");
  strictEqual(broken.status, 400);
  match(String(broken.bytes), /neither a \.pt2 file/);
  strictEqual((await quantize(Buffer.alloc((64 << 20) + 1))).status, 413);
} finally {
  server.kill();
}

// The workflow is YAML whose commands have only options that there are.
const { parse } = await import(pathToFileURL(createRequire(path.resolve("package.json")).resolve("yaml")).href);
const { jobs } = parse(readFileSync(path.join(checkout, "examples/github_action/quantize.yml"), "utf8"));
const commands = jobs.quantize.steps.flatMap(({ run = "" }) => run.match(/npx --yes qdq [^>]*/g) ?? []);
strictEqual(commands.length, 2);
for (const command of commands) {
  const [verb, ...words] = command.replaceAll("\\", " ").trim().split(/\s+/).slice(3);
  const help = execFileSync("npx", ["--no", "qdq", verb, "--help"]).toString();
  for (const word of words.filter((each) => each.startsWith("-"))) ok(help.includes(word), `${verb} has no ${word}`);
}
console.log("the examples work: pipeline, service and workflow");
