// Opens the built documentation from a folder of a server, in Chromium, as a reader does: the first page, a page by its
// link, one by the search, one by its address; on a wide and on a narrow window. Whatever is missing, or an error in
// the console, fails.
// usage: node tests/docs/open.mjs FOLDER [SCREENSHOTS]
import { existsSync, mkdirSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import path from "node:path";
import { chromium } from "playwright-core";

const [folder, screenshots] = process.argv.slice(2);
const prefix = "/some/where/";
const types = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".png": "image/png" };
const missing = [];
const server = createServer(({ url }, response) => {
  const { pathname } = new URL(url, "http://x");
  let file = path.join(folder, decodeURI(pathname.slice(prefix.length)));
  if (existsSync(file) && statSync(file).isDirectory()) file = path.join(file, "index.html");
  if (!pathname.startsWith(prefix) || !existsSync(file)) {
    if (pathname !== "/favicon.ico") missing.push(pathname);
    return response.writeHead(404).end();
  }
  response
    .writeHead(200, { "content-type": types[path.extname(file)] ?? "application/octet-stream" })
    .end(readFileSync(file));
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const home = `http://127.0.0.1:${server.address().port}${prefix}`;
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu"],
});
const problems = [];
let tests = 0;
const expect = (what, found) => {
  tests += 1;
  if (!found) problems.push(what);
};

async function open(width, colorScheme = "light") {
  const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  return page;
}
const heading = (page, text) => page.waitForSelector(`h1:has-text("${text}")`, { timeout: 30000 });

async function shoot(page, name) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  expect(`${name} is ${wide} pixels wider than its window`, wide <= 0);
  if (!screenshots) return;
  mkdirSync(screenshots, { recursive: true });
  await page.screenshot({ path: path.join(screenshots, `${name}.png`) });
}

try {
  const page = await open(1440);
  await page.goto(home);
  await page.click('a:has-text("Your first int8 model")');
  await heading(page, "Your first int8 model");
  expect("a link of the first page keeps the folder", page.url() === `${home}tutorial.html`);
  await page.click('.VPSidebar a:has-text("Recover accuracy")');
  await heading(page, "Recover accuracy");
  await page.goBack();
  await heading(page, "Your first int8 model");
  await page.goto(`${home}how-to/recover-accuracy.html`);
  await heading(page, "Recover accuracy");
  await page.click('.vp-doc a:has-text("training")');
  await heading(page, "Quantization-aware training");
  expect("a link of a page in a folder leads out of it", page.url().startsWith(`${home}training.html`));

  await page.click(".VPNavBarSearch button");
  await page.fill("#localsearch-input", "reduce_range");
  await page.waitForSelector(".VPLocalSearchBox .result", { timeout: 30000 });
  const address = await page.getAttribute(".VPLocalSearchBox .result", "href");
  await page.click(".VPLocalSearchBox .result");
  await page.waitForURL((url) => url.href.startsWith(home) && !url.href.includes("training.html"), { timeout: 30000 });
  expect(`the search finds a page of this folder (${address})`, new URL(address, home).href.startsWith(home));

  const shown = [
    "",
    "tutorial.html",
    "how-to/recover-accuracy.html",
    "api/data.html",
    "reference/commands.html",
    "reference/recipe.html",
    "performance.html",
  ];
  for (const [width, theme] of [
    [1440, "light"],
    [360, "light"],
    [360, "dark"],
  ]) {
    const window = await open(width, theme);
    for (const file of shown) {
      await window.goto(home + file, { waitUntil: "networkidle" });
      await shoot(window, `${file.replace(".html", "").replaceAll("/", "-") || "index"}-${width}-${theme}`);
    }
    await window.close();
  }
} catch (error) {
  problems.push(String(error));
} finally {
  await browser.close();
  server.close();
}
for (const file of missing) problems.push(`the server has no ${file}`);
for (const problem of problems) console.error(problem);
console.log(`${tests - Math.min(tests, problems.length)} passed, ${problems.length} failed`);
process.exitCode = problems.length > 0 ? 1 : 0;
