// Engines in tabs of Chromium: a server of the files that their pages import, and the time that a tab's thread takes.
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));

// Answers with the package as /package/, the node_modules of the peers as /npm/, this folder as /bench/, and the model
// of `state` as /model, with its second file as /data.
async function serve(state, { npm, package: dist }) {
  const page = `<!doctype html><title>latency</title><link rel="icon" href="data:,"><body>
    <script type="importmap">{ "imports": {
      "@litertjs/wasm-utils": "/npm/@litertjs/wasm-utils/dist/index.js" } }</script></body>`;
  const types = { ".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm" };
  const folders = { npm, package: dist, bench: here };
  const server = createServer(({ url }, response) => {
    const [, folder, rest] = /^\/([^/]*)\/?([^?]*)/.exec(url);
    const ofModel = { model: state.model, data: `${state.model}.data` }[folder];
    const file = ofModel ?? (folders[folder] && join(folders[folder], rest));
    if (folder !== "" && !(file && existsSync(file))) return response.writeHead(404).end();
    const type = folder === "" ? "text/html" : (types[extname(file)] ?? "application/octet-stream");
    response.writeHead(200, {
      "cross-origin-opener-policy": "same-origin",
      "cross-origin-embedder-policy": "require-corp",
      "content-type": type,
    });
    response.end(folder === "" ? page : readFileSync(file));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
}

// Starts the browser at the path options.chromium. openTab(module, model) gives a tab, isolated across origins, that
// imported a module of this folder: call() runs one of its functions, seconds() tells the time of the processor that
// the tab's own thread took.
export async function openChromium(options) {
  const { chromium } = await import("playwright-core");
  const state = {};
  const server = await serve(state, options);
  const browser = await chromium.launch({ executablePath: options.chromium, args: ["--no-sandbox", "--disable-gpu"] });
  const openTab = async (module, model) => {
    state.model = model;
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    await page.evaluate(async (path) => {
      globalThis.bench = await import(path);
    }, `/bench/${module}`);
    const devtools = await context.newCDPSession(page);
    await devtools.send("Performance.enable");
    return {
      call: (name, ...values) => page.evaluate(([own, given]) => bench[own](...given), [name, values]),
      seconds: async () =>
        (await devtools.send("Performance.getMetrics")).metrics.find(({ name }) => name === "ThreadTime").value,
      close: () => context.close(),
    };
  };
  const close = async () => {
    await browser.close();
    server.close();
  };
  return { openTab, close };
}
