// A headless Chromium on the built page, as `./dev page` serves it, for the tests beside this file.
const { execFileSync, spawn } = require("node:child_process");
const { existsSync, mkdtempSync, readFileSync, readdirSync } = require("node:fs");
const { createServer } = require("node:http");
const { tmpdir } = require("node:os");
const path = require("node:path");
const { chromium } = require("playwright-core");

const root = path.join(__dirname, "../..");
const shapes = path.join(root, "examples/shapes");
const clothing = path.join(root, "examples/clothing"); // the example of the page
const scratch = mkdtempSync(path.join(tmpdir(), "qdq-page-"));

const preprocess = ["--preprocess", "preprocess.json"];
const images = (folder, count) =>
  readdirSync(path.join(clothing, folder))
    .filter((name) => name.endsWith(".png"))
    .slice(0, count)
    .map((name) => path.join(clothing, folder, name));
const text = (page, selector) => page.textContent(selector);
// A file that is chosen or dropped without being on a disk.
const buffer = (name, content) => ({ name, mimeType: "application/octet-stream", buffer: Buffer.from(content) });

// The native command line, with an example's folder as working folder.
const qdqIn = (cwd, ...args) =>
  execFileSync(path.join(root, "build/native/qdq"), args, {
    cwd,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
  });
const qdq = (...args) => qdqIn(clothing, ...args);

// The same on WebAssembly, as npx runs it.
const npxQdq = (...args) =>
  execFileSync(process.execPath, [path.join(root, "dist/cjs/node/cli.js"), ...args], {
    cwd: clothing,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
  });

// The address of the page and what ends its server.
async function serve() {
  const server = spawn(process.execPath, [path.join(root, "web/demo/serve.mjs"), path.join(root, "build/page"), "0"]);
  const url = await new Promise((resolve, reject) => {
    server.stdout.on("data", (text) => resolve(/http\S+/.exec(String(text))[0]));
    server.stderr.on("data", (text) => reject(new Error(String(text))));
  });
  return { url, close: () => server.kill() };
}

// A server on a free port of this machine that answers as `answer` says.
async function listen(answer) {
  const server = createServer(answer);
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${server.address().port}/`, close: () => server.close() };
}

// The page under a path of a server that sends types of content and nothing else.
async function plainServer(prefix) {
  const types = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };
  const server = await listen(({ url }, response) => {
    const file = path.join(root, "build/page", url.slice(prefix.length) || "index.html");
    if (!url.startsWith(prefix) || !existsSync(file)) return response.writeHead(404).end();
    response
      .writeHead(200, { "content-type": types[path.extname(file)] ?? "application/octet-stream" })
      .end(readFileSync(file));
  });
  return { ...server, url: server.url + prefix.slice(1) };
}

const launch = () =>
  chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });

// A server of the page and a browser, from before the first test of a file until behind its last.
function inBrowser() {
  const tested = {};
  beforeAll(async () => {
    tested.server = await serve();
    tested.browser = await launch();
  });
  afterAll(async () => {
    await tested.browser?.close();
    tested.server?.close();
  });
  return tested;
}

// A tab with the page. `problems` collects what must not happen: errors on the console, and requests to another host.
async function openPage(browser, url, options = {}) {
  const context = await browser.newContext({
    acceptDownloads: true,
    viewport: { width: 1280, height: 900 },
    ...options,
  });
  const page = await context.newPage();
  page.setDefaultTimeout(60000);
  const problems = [];
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(String(error)));
  context.on("request", (request) => {
    const { protocol, host } = new URL(request.url());
    if (host !== new URL(url).host && !["blob:", "data:", "file:"].includes(protocol))
      problems.push(`a request to ${request.url()}`);
  });
  await page.goto(url);
  return { page, problems };
}

// Takes the example, and waits until its data and layers are there.
async function takeExample(page) {
  await page.click("#example");
  await page.waitForSelector("#test-summary:not(:empty)");
  await page.waitForSelector("#layers-view tbody tr");
  // The focus moves to Quantize when all is there.
  await page.waitForSelector("#start:focus:not([disabled])");
}

// Takes the drawn shapes, which int8 costs two points.
async function takeShapes(page) {
  await page.setInputFiles("#model-file", path.join(shapes, "model.pt2"));
  await page.waitForSelector("#layers-view tbody tr");
  for (const use of ["calibration", "test"]) {
    await page.setInputFiles(`#${use}-files-folder`, path.join(shapes, use));
    await page.waitForSelector(`#${use}-summary:not(:empty)`);
    await page.setInputFiles(`#${use}-files`, path.join(shapes, "preprocess.json"));
  }
  await page.waitForFunction(() => document.querySelector("#preprocess").value.includes("0.215"));
  await page.waitForSelector("#start:not([disabled])");
}

// Shows a view.
const openTab = (page, name) => page.click(`[role=tab][data-tab=${name}]`);

// Clicks Quantize and waits for the result after `before` earlier ones.
async function quantize(page) {
  await page.click("#start");
  await page.waitForFunction(() => document.querySelector("#progress-text").textContent.startsWith("Done"));
}

// The bytes of the file that a click gives.
async function downloaded(page, button) {
  const [download] = await Promise.all([page.waitForEvent("download"), page.click(button)]);
  return { name: download.suggestedFilename(), bytes: readFileSync(await download.path()) };
}

// A .npy file of float32.
function npy(shape, values) {
  const header = `${`{'descr': '<f4', 'fortran_order': False, 'shape': (${shape.join(", ")},), }`.padEnd(117)}\n`;
  const front = Buffer.from([0x93, ...Buffer.from("NUMPY"), 1, 0, header.length & 255, header.length >> 8]);
  return Buffer.concat([front, Buffer.from(header, "latin1"), Buffer.from(Float32Array.from(values).buffer)]);
}

module.exports = {
  buffer,
  clothing,
  downloaded,
  images,
  inBrowser,
  launch,
  listen,
  npxQdq,
  npy,
  openPage,
  openTab,
  plainServer,
  preprocess,
  qdq,
  qdqIn,
  quantize,
  root,
  scratch,
  serve,
  shapes,
  takeExample,
  takeShapes,
  text,
};
