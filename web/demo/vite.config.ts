// Builds the page into build/page, a folder of static files that name each other relatively.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";
import type { Plugin } from "vite";

const at = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

// The example in two files instead of four hundred: all bytes in one row, and where each file begins.
function example(): Plugin {
  return {
    name: "example",
    generateBundle() {
      const root = at("../../examples/clothing/");
      const names = [
        "model.pt2",
        "preprocess.json",
        "recipe.json",
        "classes.txt",
        ...["calibration", "test"].flatMap((folder) =>
          readdirSync(root + folder)
            .sort()
            .map((name) => `${folder}/${name}`),
        ),
      ];
      const files = names.map((name) => ({ name, bytes: readFileSync(root + name) }));
      const index = files.map(({ name, bytes }) => ({ name, size: bytes.length }));
      this.emitFile({ type: "asset", fileName: "example/index.json", source: JSON.stringify(index) });
      this.emitFile({
        type: "asset",
        fileName: "example/files.bin",
        source: Buffer.concat(files.map(({ bytes }) => bytes)),
      });
    },
  };
}

// What lets the page be installed and work without a network: a manifest, and a service worker that knows all files of
// this build. It keeps what every visit needs; a module of WebAssembly when the page says that it has loaded it.
function offline(): Plugin {
  return {
    name: "offline",
    transformIndexHtml: () => [{ tag: "link", attrs: { rel: "manifest", href: "./manifest.webmanifest" } }],
    generateBundle: {
      order: "post",
      handler(_options, bundle) {
        const emit = (fileName: string, source: string | Uint8Array): void =>
          void this.emitFile({ type: "asset", fileName, source });
        emit("app-icon.svg", readFileSync(at("icon.svg")));
        emit("manifest.webmanifest", readFileSync(at("manifest.webmanifest")));
        const files = Object.keys(bundle).filter((name) => !/^(index\.html|example\/)/.test(name));
        const version = createHash("sha256").update(files.sort().join()).digest("hex").slice(0, 12);
        const source = readFileSync(at("service-worker.js"), "utf8");
        emit("service-worker.js", `const files = ${JSON.stringify(files)};\nconst version = "${version}";\n${source}`);
      },
    },
  };
}

export default defineConfig({
  root: at("."),
  base: "./",
  publicDir: false,
  clearScreen: false,
  resolve: { alias: { qdq: at("../../dist/esm/web/index.js") } },
  plugins: [example(), offline()],
  worker: { format: "es" },
  build: {
    outDir: at("../../build/page"),
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    assetsInlineLimit: 0,
  },
});
