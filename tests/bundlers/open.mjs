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

try {
  for (const folder of process.argv.slice(2)) {
    const server = createServer(({ url }, response) => {
      const file = path.join(folder, url === "/" ? "index.html" : decodeURI(new URL(url, "http://x").pathname));
      if (!existsSync(file)) return response.writeHead(404).end();
      response.writeHead(200, { "content-type": types[path.extname(file)] ?? "application/octet-stream" });
      response.end(readFileSync(file));
    });
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    await check(path.basename(folder), `http://127.0.0.1:${server.address().port}/`);
    server.close();
  }
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
