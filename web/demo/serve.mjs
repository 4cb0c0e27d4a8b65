// Serves a folder of static files on this machine alone: node serve.mjs FOLDER [PORT]. Prints the address; port 0 takes
// a free one. What is larger than a packet goes compressed, as servers of files do.
import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { gzip } from "node:zlib";

const types = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".css": "text/css",
  ".wasm": "application/wasm",
  ".json": "application/json",
  ".svg": "image/svg+xml",
  ".webmanifest": "application/manifest+json",
};
// The page has a policy of its own, and its worker inherits that; this one adds that nobody may frame the page.
// Isolation makes clocks finer and allows threads; the page works without.
const headers = {
  "content-security-policy":
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' blob: data:; " +
    "connect-src 'self'; worker-src 'self' blob:; manifest-src 'self'; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-embedder-policy": "require-corp",
  "cache-control": "no-cache",
  "x-content-type-options": "nosniff",
};

const compress = promisify(gzip);
const packet = 1400; // bytes

export async function serve(folder, port = 0) {
  // Compressed files of assets/, which have a hash in their names.
  const kept = new Map();
  const server = createServer(async ({ url = "/", headers: asked }, response) => {
    try {
      const path = normalize(decodeURIComponent(new URL(url, "http://localhost").pathname));
      const file = join(folder, path.endsWith("/") ? `${path}index.html` : path);
      const bytes = await readFile(file);
      const isKept = /[\\/]assets[\\/]/.test(file);
      const type = types[extname(file)];
      const isPacked = type && bytes.length > packet && /\bgzip\b/.test(asked["accept-encoding"] ?? "");
      const body = isPacked ? (kept.get(file) ?? (await compress(bytes))) : bytes;
      if (isPacked && isKept) kept.set(file, body);
      response
        .writeHead(200, {
          ...headers,
          ...(isKept && { "cache-control": "public, max-age=31536000, immutable" }),
          ...(isPacked && { "content-encoding": "gzip", vary: "accept-encoding" }),
          "content-type": type ?? "application/octet-stream",
          "content-length": body.length,
        })
        .end(body);
    } catch {
      response.writeHead(404, { "content-type": "text/plain" }).end("there is no such file\n");
    }
  });
  await new Promise((resolve, reject) => server.once("error", reject).listen(port, "127.0.0.1", resolve));
  return { server, url: `http://localhost:${server.address().port}/` };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { url } = await serve(process.argv[2] ?? "build/page", Number(process.argv[3] ?? 8080));
  console.log(`the page is at ${url} (Ctrl+C ends it)`);
}
