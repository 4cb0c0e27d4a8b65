// Threads in a real browser: where the page is cross-origin isolated, and where it is not.
const { existsSync, readFileSync } = require("node:fs");
const { availableParallelism } = require("node:os");
const path = require("node:path");
const {
  downloaded,
  launch,
  listen,
  openPage,
  plainServer,
  qdq,
  quantize,
  root,
  scratch,
  serve,
  shapes,
  takeExample,
} = require("./page.js");

const cores = availableParallelism();
let browser;
// "-relaxed" if the browser's 8-bit products are exact on this processor.
let suffix;
beforeAll(async () => {
  browser = await launch();
  const { page } = await openPage(browser, "about:blank");
  const source = readFileSync(path.join(root, "dist/esm/bindings/api/engine.js"), "utf8");
  suffix = await page.evaluate(async (text) => {
    const { hasExactByteProducts } = await import(`data:text/javascript,${encodeURIComponent(text)}`);
    return hasExactByteProducts() ? "-relaxed" : "";
  }, source);
  await page.context().close();
});
afterAll(() => browser?.close());

// The modules that a tab asked for, without the hashes in their names.
function modulesOf(context) {
  const modules = [];
  context.on("request", (request) => {
    // The service worker takes a copy of the same file for times without a network.
    if (request.serviceWorker()) return;
    const file = /([^/]*)-[\w-]{8}\.wasm$/.exec(request.url());
    if (file) modules.push(file[1]);
  });
  return modules;
}

test("the page has threads if its server isolates it, and writes the same bytes with and without", async () => {
  const file = path.join(scratch, "threads.int8.pt2");
  qdq(
    "quantize",
    "model.pt2",
    "--calibrate",
    "calibration",
    "--preprocess",
    "preprocess.json",
    "--recipe",
    "recipe.json",
    "-o",
    file,
  );
  for (const [server, wanted] of [
    [await serve(), cores > 1 ? [`qdq-threads${suffix}`] : [`qdq${suffix}`]],
    [await plainServer("/"), [`qdq${suffix}`]],
  ]) {
    const { page, problems } = await openPage(browser, "about:blank");
    // A failure must not leave a server that keeps the run from ending.
    try {
      const modules = modulesOf(page.context());
      await page.goto(server.url);
      await takeExample(page);
      await quantize(page);
      expect((await downloaded(page, "#save-model")).bytes.equals(readFileSync(file))).toBe(true);
      expect(modules).toEqual(wanted);
      const words = wanted[0].includes("threads")
        ? `Uses ${Math.min(4, cores)} threads.`
        : cores > 1
          ? /^Uses one thread: .* whose server sends the headers Cross-Origin-Opener-Policy: same-origin/
          : /^Uses one thread: /;
      expect(await page.textContent("#equipment")).toEqual(
        words instanceof RegExp ? expect.stringMatching(words) : words,
      );
      expect(problems.filter((problem) => !problem.startsWith("a request to"))).toEqual([]);
    } finally {
      await page.context().close();
      server.close();
    }
  }
});

// The built package as it is, under given headers.
const packageServer = (headers) =>
  listen(({ url }, response) => {
    const page = url === "/";
    const file = path.join(root, url);
    if (!page && !existsSync(file)) return response.writeHead(404).end();
    const type = page ? "text/html" : file.endsWith(".js") ? "text/javascript" : "application/octet-stream";
    response.writeHead(200, { ...headers, "content-type": type });
    response.end(page ? '<!doctype html><title>threads</title><link rel="icon" href="data:,">' : readFileSync(file));
  });
const isolation = { "cross-origin-opener-policy": "same-origin", "cross-origin-embedder-policy": "require-corp" };

// Loads the package in the page itself, whose thread may not sleep, and quantizes and runs the example there.
async function resultOf(headers, threads) {
  const server = await packageServer(headers);
  const { page, problems } = await openPage(browser, server.url);
  const result = await page.evaluate(
    async ([wanted, model]) => {
      const { capabilities, configure, convertPt2e, loadPt2, lower, preparePt2e, savePt2, tensor } = await import(
        "/dist/esm/web/index.js"
      );
      if (wanted !== null) configure({ threads: wanted });
      const { module, threads } = await capabilities();
      const bytes = Uint8Array.from(atob(model), (letter) => letter.charCodeAt(0));
      const program = await loadPt2(bytes);
      const image = tensor(
        Float32Array.from({ length: 4 * 3 * 40 * 40 }, (_, i) => ((i * 7919) % 1009) / 500 - 1),
        [4, 3, 40, 40],
      );
      const prepared = preparePt2e(program, { quantizer: "X86InductorQuantizer" });
      prepared.run([image]);
      const quantized = convertPt2e(prepared);
      const session = lower(quantized);
      const runs = Array.from({ length: 30 }, () => Array.from(session.run([image])[0].data).join());
      const digest = await crypto.subtle.digest("SHA-256", savePt2(quantized));
      return {
        module,
        threads,
        same: new Set(runs).size,
        logits: runs[0],
        file: Array.from(new Uint8Array(digest)).join(),
      };
    },
    [threads, readFileSync(path.join(shapes, "model.pt2")).toString("base64")],
  );
  expect(problems).toEqual([]);
  await page.context().close();
  server.close();
  return result;
}

test("a page gets the threads that it wants and may have, and the same numbers from all modules", async () => {
  const plain = await resultOf({}, null);
  expect(plain).toMatchObject({ module: `qdq${suffix}.wasm`, threads: 1, same: 1 });
  const { logits, file } = plain;
  const usual = Math.min(4, cores);
  expect(await resultOf(isolation, null)).toEqual({
    module: usual > 1 ? `qdq-threads${suffix}.wasm` : `qdq${suffix}.wasm`,
    threads: usual,
    same: 1,
    logits,
    file,
  });
  expect(await resultOf(isolation, 1)).toEqual(plain);
  expect(await resultOf({}, 3)).toEqual(plain);
});

test("a policy that forbids workers from blobs leaves one thread", async () => {
  const policy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self'; worker-src 'self'";
  const server = await packageServer({ ...isolation, "content-security-policy": policy });
  const { page } = await openPage(browser, server.url);
  const found = await page.evaluate(async () => (await import("/dist/esm/web/index.js")).capabilities());
  expect(found).toMatchObject({ module: `qdq${suffix}.wasm`, threads: 1 });
  await page.context().close();
  server.close();
});
