// The documentation site, for VitePress. site/build.mjs gathers the pages and calls it.
import { readFileSync } from "node:fs";

/** The address that pages are built for; site/build.mjs makes it relative, so that any folder of a server will do. */
export const placeholderBase = "/qdq-docs-base/";

const item = (text, link) => ({ text, link });

/** The groups of the sidebar. A page that stands in none of them fails the build. */
export const groups = [
  { text: "Start", items: [item("Your first int8 model", "/tutorial")] },
  {
    text: "How to",
    items: [
      item("Bring samples of sound, text or your own", "/how-to/own-samples"),
      item("Quantize a detector", "/how-to/detectors"),
      item("Quantize in a Node pipeline", "/how-to/node-pipeline"),
      item("Run in ONNX Runtime Web", "/how-to/onnx-runtime-web"),
      item("Use it with transformers.js", "/how-to/transformers-js"),
      item("Hand a model to ExecuTorch", "/how-to/executorch"),
      item("Generate tokens with a decoder", "/how-to/generate"),
      item("Recover accuracy", "/how-to/recover-accuracy"),
      item("When int8 is not faster", "/how-to/when-int8-is-not-faster"),
      item("Write your own quantizer", "/quantizers"),
      item("Calibrate on many machines", "/scale"),
    ],
  },
  {
    text: "Reference",
    items: [
      item("Commands and options", "/reference/commands"),
      item("The command line in use", "/command-line"),
      item("Recipes", "/recipes"),
      item("Fields of recipes", "/reference/recipe"),
      item("Data, images and labels", "/data"),
      item("Profiles of runtimes", "/profiles"),
      item("Training", "/training"),
      item("JavaScript: guide", "/web"),
      item("JavaScript: all exports", "/api/"),
      item("C++: the public header", "/reference/cpp"),
      item("PyTorch operators", "/operators"),
      item("ONNX operators", "/onnx"),
      item("PyTorch's names", "/names"),
    ],
  },
  {
    text: "Explanation",
    items: [
      item("How a model becomes int8", "/explanation/flow"),
      item("Arithmetic and determinism", "/explanation/determinism"),
    ],
  },
  {
    text: "Examples",
    items: [
      item("A C++ program", "/examples/cpp"),
      item("A folder that quantizes new models", "/examples/pipeline"),
      item("A web service", "/examples/service"),
      item("A decoder that generates tokens", "/examples/decoder"),
      item("Your own page", "/examples/vite_page"),
      item("Quantize on every push", "/examples/github_action"),
      item("A backend's quantizer", "/examples/backend_quantizer"),
      item("A backend's kernels", "/examples/step_backend"),
      item("Calibrate with job engines", "/examples/scale"),
      item("The network of the examples", "/examples/shapes"),
      item("The network of the page", "/examples/clothing"),
    ],
  },
  {
    text: "Facts",
    items: [
      item("Speed", "/performance"),
      item("Speed: all tables", "/performance-tables"),
      item("Accuracy", "/accuracy"),
      item("Accuracy: all tables", "/accuracy-tables"),
      item("Compatibility with PyTorch", "/compatibility"),
      item("Networks of torchvision", "/zoo"),
      item("Reliability", "/reliability"),
      item("Reliability: all runs", "/reliability-runs"),
      item("Security", "/security"),
      item("Changes", "/changelog"),
      item("Contribute", "/contributing"),
    ],
  },
];

const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));

/** VitePress's settings for pages in `source`, written to `out`. */
export const settings = ([source, out, apiPages]) => ({
  srcDir: source,
  outDir: out,
  cacheDir: `${out}.cache`,
  base: placeholderBase,
  title: "qdq",
  description: "Int8 quantization of ONNX and PyTorch models, without Python",
  lang: "en",
  appearance: true,
  head: [["link", { rel: "icon", href: "data:," }]],
  cleanUrls: false,
  metaChunk: false,
  markdown: { theme: { light: "github-light", dark: "github-dark" }, languageAlias: { console: "shellsession" } },
  vite: { logLevel: "warn", build: { chunkSizeWarningLimit: 4000 } },
  themeConfig: {
    siteTitle: `qdq ${version}`,
    nav: [
      item("Tutorial", "/tutorial"),
      item("Commands", "/reference/commands"),
      item("JavaScript", "/api/"),
      item("Changes", "/changelog"),
    ],
    sidebar: [
      ...groups.map((group) => ({ ...group, collapsed: false })),
      { text: "JavaScript exports", collapsed: true, items: apiPages.map(({ title, link }) => item(title, link)) },
    ],
    outline: [2, 3],
    search: { provider: "local" },
    docFooter: { prev: false, next: false },
  },
});
