// Lets browsers quantize the example, by the built package, and holds what each writes and answers against Node's:
// node tests/browsers/run.mjs [BROWSER...]; Chromium, Firefox and WPE (WebKit) unless some are named. Without a
// BROWSER's program its test is skipped.
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import * as run from "../../dist/esm/node/run.js";
import * as async from "../../dist/esm/node/async.js";
import * as qdq from "../../dist/esm/node/index.js";
import { answers } from "./answers.mjs";

const root = path.join(path.dirname(fileURLToPath(import.meta.url)), "../..");
const scratch = mkdtempSync(path.join(tmpdir(), "qdq-browsers-"));
const browsers = {
  Chromium: {
    program: "/usr/bin/chromium",
    args: ["--headless", "--no-sandbox", "--disable-gpu", `--user-data-dir=${scratch}/chromium`],
  },
  Firefox: {
    program: "/usr/bin/firefox-esr",
    args: ["--headless", "--no-remote", "--new-instance", "--profile", `${scratch}/firefox`],
    env: { MOZ_DISABLE_CONTENT_SANDBOX: "1" },
  },
  WebKit: {
    program: "/usr/bin/cog",
    args: ["--platform=headless", "--enable-write-console-messages-to-stdout=true"],
    env: { WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS: "1" },
  },
};
mkdirSync(`${scratch}/firefox`);
const types = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".mjs": "text/javascript",
  ".wasm": "application/wasm",
};

// Serves the checkout to pages that may have threads; `onAnswer` takes what a page sends.
function serve(onAnswer) {
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url, "http://localhost");
    if (request.method === "POST") {
      let body = "";
      request
        .on("data", (part) => (body += part))
        .on("end", () => {
          response.writeHead(204).end();
          onAnswer(JSON.parse(body));
        });
      return;
    }
    const file = path.join(root, path.normalize(decodeURI(pathname)));
    if (!existsSync(file)) return response.writeHead(404).end();
    response
      .writeHead(200, {
        "content-type": types[path.extname(file)] ?? "application/octet-stream",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-embedder-policy": "require-corp",
      })
      .end(readFileSync(file));
  });
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server)));
}

// What a browser answers, or {error}.
async function ask({ program, args, env }, threads) {
  let child;
  let timer;
  let output = "";
  const answer = await new Promise((resolve) => {
    serve(resolve).then((server) => {
      const url = `http://127.0.0.1:${server.address().port}/tests/browsers/index.html?threads=${threads}`;
      child = spawn(program, [...args, url], { env: { ...process.env, HOME: scratch, ...env }, detached: true });
      for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => (output += text));
      child.on("error", (error) => resolve({ error: String(error) }));
      child.on("exit", (code) => resolve({ error: `it ended with ${code}: ${output.slice(-2000)}` }));
      timer = setTimeout(() => resolve({ error: `no answer after 120 s: ${output.slice(-2000)}` }), 120_000);
      timer.unref();
      child.on("close", () => server.close());
    });
  });
  clearTimeout(timer);
  try {
    process.kill(-child.pid, "SIGKILL");
  } catch {
    // It has ended.
  }
  return answer;
}

const read = async (file) => readFileSync(path.join(root, file));
const wanted = JSON.stringify(await answers({ qdq, run, async, read, threads: 0 }));
const count = { PASSED: 0, FAILED: 0, SKIPPED: 0 };
for (const [name, browser] of Object.entries(browsers)) {
  if (process.argv.length > 2 && !process.argv.includes(name)) continue;
  for (const threads of [0, 2]) {
    let verdict = "SKIPPED";
    let said = `there is no ${browser.program}`;
    if (existsSync(browser.program)) {
      const { found, error, module, seconds, engine } = await ask(browser, threads);
      const same = JSON.stringify(found) === wanted;
      verdict = same ? "PASSED" : "FAILED";
      said = error ?? `${module} in ${seconds.toFixed(1)} s, ${engine}`;
      if (!same && found) said += `; found ${JSON.stringify(found)}, wanted ${wanted}`;
    }
    ++count[verdict];
    console.log(`${name}, threads ${threads}: ${verdict.toLowerCase()}: ${said}`);
  }
}
for (const [verdict, number] of Object.entries(count)) console.log(`[  ${verdict.padEnd(7)} ] ${number} tests`);
rmSync(scratch, { recursive: true, force: true });
process.exit(count.FAILED ? 1 : 0);
