// Builds the page of main.js by one bundler into a folder of files: node build.mjs TOOL FROM OUT. The packages are
// resolved from the current folder, where the packed tarball of qdq is installed.
import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [tool, model, out] = process.argv.slice(2);
const require = createRequire(path.resolve("package.json"));
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
mkdirSync(out, { recursive: true });
copyFileSync(model, path.join(out, "model.pt2"));
const page = (script) =>
  writeFileSync(
    path.join(out, "index.html"),
    `<!doctype html><meta charset="utf-8"><title>waiting</title><script type="module" src="${script}"></script>\n`,
  );
const root = process.cwd();

const tools = {
  async vite() {
    const script = '<script type="module" src="/main.js"></script>';
    writeFileSync("index.html", `<!doctype html><meta charset="utf-8"><title>waiting</title>${script}\n`);
    const { build } = await load("vite");
    await build({ root, logLevel: "warn", build: { outDir: out, emptyOutDir: false, target: "es2022" } });
  },
  async webpack() {
    const { default: webpack } = await load("webpack");
    const stats = await new Promise((resolve, reject) =>
      webpack(
        {
          mode: "production",
          entry: "./main.js",
          output: { path: out, filename: "main.js", module: true },
          experiments: { outputModule: true },
          performance: { hints: false },
        },
        (error, result) => (error ? reject(error) : resolve(result)),
      ),
    );
    if (stats.hasErrors()) throw new Error(stats.toString("errors-only"));
    page("main.js");
  },
  async esbuild() {
    const { build } = await load("esbuild");
    const loader = { ".wasm": "file" };
    const common = { bundle: true, format: "esm", target: "es2022", splitting: true, logLevel: "error" };
    await build({ ...common, entryPoints: ["main.js"], outdir: out, loader });
    page("main.js");
  },
  async rollup() {
    const { rollup } = await load("rollup");
    const { default: resolve } = await load("@rollup/plugin-node-resolve");
    const { default: url } = await load("@rollup/plugin-url");
    const bundle = await rollup({
      input: "main.js",
      plugins: [resolve({ browser: true }), url({ include: ["**/*.wasm"], limit: 0 })],
    });
    await bundle.write({ dir: out, format: "es" });
    page("main.js");
  },
};
await tools[tool]();
