// Classifies the sentences in Chromium with each file of the folder that tests/transformers.sh made:
// `node open.mjs WORK`, where WORK has models/command, node_modules and sentences.mjs. The page may ask this one only.
import { existsSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join } from "node:path";
import { chromium } from "playwright-core";
import { judge } from "./sentences.mjs";

// As in check.mjs; WebAssembly's sums do not saturate.
const most = { fp32: 0, fp16: 0.01, q8: 0.1, int8: 0.1, uint8: 0.1, q4: 0.5, q4f16: 0.5, bnb4: 0.5 };
const types = { ".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm" };
const page = `<!doctype html><title>transformers</title><link rel="icon" href="data:,">
<script type="importmap">{ "imports": {
  "onnxruntime-common": "/node_modules/onnxruntime-common/dist/esm/index.js",
  "onnxruntime-web/webgpu": "/node_modules/onnxruntime-web/dist/ort.webgpu.bundle.min.mjs" } }</script>`;

const [work] = process.argv.slice(2);
const server = createServer(({ url }, response) => {
  const { pathname } = new URL(url, "http://x");
  if (pathname === "/") return response.writeHead(200, { "content-type": "text/html" }).end(page);
  const file = join(work, pathname);
  if (!existsSync(file) || !statSync(file).isFile()) return response.writeHead(404).end();
  response.writeHead(200, { "content-type": types[extname(file)] ?? "application/octet-stream" });
  response.end(readFileSync(file));
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const origin = `http://127.0.0.1:${server.address().port}`;
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu"],
});
const failures = [];
try {
  const tab = await browser.newPage();
  tab.on("request", (request) => {
    if (!/^(blob|data):/.test(request.url()) && !request.url().startsWith(origin))
      failures.push(`the page asked for ${request.url()}`);
  });
  await tab.goto(`${origin}/`);
  await tab.evaluate(async () => {
    const { env, pipeline } = await import("/node_modules/@huggingface/transformers/dist/transformers.web.js");
    const { logitsOf } = await import("/sentences.mjs");
    env.allowRemoteModels = false;
    env.allowLocalModels = true;
    env.localModelPath = "/models/";
    env.backends.onnx.wasm.wasmPaths = new URL("/node_modules/onnxruntime-web/dist/", location.href).href;
    globalThis.logitsOf = (dtype) => logitsOf(pipeline, "command", { dtype, device: "wasm" });
  });
  let exact;
  for (const [dtype, bound] of Object.entries(most)) {
    const logits = await tab.evaluate((wanted) => globalThis.logitsOf(wanted), dtype);
    exact ??= logits;
    failures.push(...judge(dtype, logits, exact, bound));
  }
} finally {
  await browser.close();
  server.close();
}
for (const failure of failures) console.error(`transformers in Chromium: ${failure}`);
process.exit(failures.length === 0 ? 0 : 1);
