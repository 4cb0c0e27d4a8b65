// Builds the page into build/page, a folder of static files that name each other relatively.
import { readFileSync, readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";
import type { Plugin } from "vite";

const at = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

// The example in two files instead of five hundred: all bytes in one row, and where each file begins.
function example(): Plugin {
  return {
    name: "example",
    generateBundle() {
      const root = at("../../examples/shapes/");
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

export default defineConfig({
  root: at("."),
  base: "./",
  publicDir: false,
  clearScreen: false,
  resolve: { alias: { qdq: at("../../dist/esm/web/index.js") } },
  plugins: [example()],
  worker: { format: "es" },
  build: {
    outDir: at("../../build/page"),
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    assetsInlineLimit: 0,
  },
});
