// Opens the pages that build.mjs made, and one of Vite's development server, in Chromium: node open.mjs FOLDER...
import { createServer } from "node:http";
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const types = { ".html": "text/html", ".js": "text/javascript", ".wasm": "application/wasm" };
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu"],
});
let failed = false;

async function check(name, url) {
  const page = await browser.newPage();
  await page.goto(url);
  await page.waitForFunction(() => document.title !== "waiting", undefined, { timeout: 60000 });
  const title = await page.title();
  console.log(`${name}: ${title}`);
  failed ||= title !== "float32 1,16 true";
  await page.close();
}

// Gives a folder of files to a browser for as long as `work` wants its address.
async function serving(folder, work) {
  const server = createServer(({ url }, response) => {
    const file = path.join(folder, url === "/" ? "index.html" : decodeURI(new URL(url, "http://x").pathname));
    if (!existsSync(file)) return response.writeHead(404).end();
    response.writeHead(200, { "content-type": types[path.extname(file)] ?? "application/octet-stream" });
    response.end(readFileSync(file));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  await work(`http://127.0.0.1:${server.address().port}/`);
  server.close();
}

// A picture of the example, and what the int8 model of examples/vite_page names it in Node.
async function answerInNode() {
  const require = createRequire(path.resolve("package.json"));
  const { loadPt2, lower, openData } = require("qdq");
  const shapes = path.resolve("../../examples/shapes");
  const program = await loadPt2(readFileSync("vite_page/public/model.int8.pt2"));
  const files = new Map([["000.png", readFileSync(path.join(shapes, "test/000.png"))]]);
  const data = openData(program, files, { preprocess: JSON.parse(readFileSync(path.join(shapes, "preprocess.json"))) });
  const scores = lower(program).run(data.batch(0))[0].data;
  const classes = readFileSync(path.join(shapes, "classes.txt"), "utf8").split("\n");
  return [path.join(shapes, "test/000.png"), classes[scores.indexOf(Math.max(...scores))]];
}

// The page of examples/vite_page says of a picture what Node says.
async function classify(url, picture, wanted) {
  const page = await browser.newPage();
  await page.goto(url);
  await page.waitForSelector("input:not([disabled])", { timeout: 60000 });
  await page.setInputFiles("input", picture);
  await page.waitForSelector("output:not(:empty)", { timeout: 60000 });
  const answer = await page.textContent("output");
  console.log(`examples/vite_page: ${answer}`);
  failed ||= answer !== wanted;
  await page.close();
}

try {
  for (const folder of process.argv.slice(2)) await serving(folder, (url) => check(path.basename(folder), url));
  await serving("vite_page/dist", async (url) => classify(url, ...(await answerInNode())));
  // The development server bundles dependencies on its own, out of the folders that they lie in.
  const require = createRequire(path.resolve("package.json"));
  const { createServer: createVite } = await import(pathToFileURL(require.resolve("vite")).href);
  const vite = await createVite({ root: process.cwd(), logLevel: "error", server: { host: "127.0.0.1", port: 0 } });
  await vite.listen();
  await check("vite's development server", vite.resolvedUrls.local[0]);
  await vite.close();
} finally {
  await browser.close();
}
process.exitCode = failed ? 1 : 0;
