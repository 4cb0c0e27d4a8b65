// The JSON and the code in the documents do what the documents say.
const { execFileSync, spawnSync } = require("node:child_process");
const {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} = require("node:fs");
const { tmpdir } = require("node:os");
const path = require("node:path");
const ts = require("typescript");
const { folder, images, model, qdq } = require("./shapes.js");

const root = path.join(__dirname, "../..");
const blocks = (file) =>
  [...readFileSync(path.join(root, file), "utf8").matchAll(/^```json\n([\s\S]*?)^```/gm)].map(([, text]) =>
    JSON.parse(text),
  );

let program;
beforeAll(async () => {
  program = await qdq.loadPt2(model());
});

test.each(["docs/command-line.md", "docs/recipes.md"])("the recipes of %s quantize a model", (file) => {
  const recipes = blocks(file);
  expect(recipes.length).toBeGreaterThan(0);
  for (const recipe of recipes) {
    const prepared = qdq.preparePt2e(program, recipe);
    prepared.run([images(program, 2)]);
    const { layers } = qdq.quantizationReport(prepared, qdq.convertPt2e(prepared));
    expect(layers.quantized).toBeGreaterThan(0);
    expect(layers.quantized).toBeLessThan(layers.total); // each of them leaves something in float
  }
});

test("the quantizer of docs/quantizers.md quantizes a model", () => {
  const [, code] = /^```js\n([\s\S]*?)^```/m.exec(readFileSync(path.join(root, "docs/quantizers.md"), "utf8"));
  const quantizer = new Function(`${code} return quantizer;`)();
  const prepared = qdq.preparePt2e(program, quantizer);
  const { operators } = qdq.explain(prepared);
  const taken = operators.filter(({ outcome }) => outcome !== "float").map(({ pattern }) => pattern);
  expect(taken).toContain("conv_relu");
  expect(taken).toContain("linear");
});

// Runs a block of TypeScript with these names in scope, and returns its `quantizer` if it declares one.
function runBlock(code, scope) {
  const script = code
    .replace(/import \{([^}]*)\} from "qdq";/, "const {$1} = qdq;")
    .replaceAll("224", "40") // the size of the example's images
    .concat("return typeof quantizer === 'undefined' ? undefined : quantizer;");
  const names = { qdq, ...qdq, ...scope };
  const AsyncFunction = (async () => {}).constructor;
  const body = ts.transpile(`{${script}}`, { target: ts.ScriptTarget.ES2022 });
  return new AsyncFunction(...Object.keys(names), body)(...Object.values(names));
}

test("the code of docs/web.md runs", async () => {
  const text = readFileSync(path.join(root, "docs/web.md"), "utf8");
  const code = [...text.matchAll(/^```ts\n([\s\S]*?)^```/gm)].map(([, block]) => block);
  expect(code.length).toBeGreaterThan(0);
  const written = new Map();
  const observed = [];
  const scope = {
    program,
    readFile: async () => model(),
    writeFile: async (name, bytes) => written.set(name, bytes),
    calibration: [1, 2].map((seed) => images(program, 16, seed).data),
    image: images(program, 1),
    batches: [1, 2].map((seed) => ({ inputs: [images(program, 3, seed)], target: [3, 0, 7] })),
    files: new Map(
      readdirSync(path.join(folder, "calibration"))
        .filter((name) => /^(00\d\.png|labels\.csv)$/.test(name))
        .map((name) => [name, readFileSync(path.join(folder, "calibration", name))]),
    ),
    signal: new AbortController().signal,
    onProgress: () => {},
    console: { log: () => {} },
    MyObserver: class {
      forward(tensor) {
        observed.push(tensor.shape);
      }
      calculateQparams() {
        return { scale: 0.5, zeroPoint: 0 };
      }
    },
  };
  for (const block of code) {
    const quantizer = await runBlock(block, scope);
    if (quantizer === undefined) continue;
    qdq.preparePt2e(program, quantizer).run([images(program, 2)]);
    expect(observed).toEqual([[2, 16]]);
  }
  for (const bytes of written.values()) expect(bytes.length).toBeLessThan(model().length / 2);
});

test("the code of docs/web.md on workers runs", async () => {
  const text = readFileSync(path.join(root, "docs/web.md"), "utf8");
  const [, code] = /^```js\n(import \{ openSession[\s\S]*?)^```/m.exec(text);
  const door = require("../../dist/cjs/node/async.js");
  const shapes = [];
  const scope = {
    ...door,
    bytes: model(),
    recipe: { quantizer: "XNNPACKQuantizer", global: { isPerChannel: true } },
    batches: [[images(program, 4)]],
    image: images(program, 1),
    AbortSignal,
    console: { log: (shape) => shapes.push([...shape]) },
  };
  const AsyncFunction = (async () => {}).constructor;
  await new AsyncFunction(...Object.keys(scope), code.replace(/^import .*\n/, ""))(...Object.values(scope));
  expect(shapes).toEqual([[1, 16]]);
});

test("the preprocessing of docs/data.md makes inputs of an image", () => {
  const image = readFileSync(path.join(root, "examples/shapes/test/000.png"));
  for (const preprocess of blocks("docs/data.md")) {
    // The example's model takes a smaller crop.
    const data = qdq.openData(program, new Map([["000.png", image]]), { preprocess: { ...preprocess, crop: 40 } });
    expect(data.batch(0)[0].shape).toEqual([1, 3, 40, 40]);
  }
});

describe.each(["README.md", "node/README.md"])("%s", (file) => {
  const text = readFileSync(path.join(root, file), "utf8");
  const block = (language, which = 0) =>
    [...text.matchAll(/^```(\w*)\n([\s\S]*?)^```/gm)].filter(([, name]) => name === language)[which]?.[2];
  let work;
  beforeAll(() => {
    work = mkdtempSync(path.join(tmpdir(), "qdq-readme-"));
    writeFileSync(path.join(work, "model.onnx"), qdq.saveOnnx(program));
    cpSync(path.join(folder, "calibration"), path.join(work, "images"), { recursive: true });
    rmSync(path.join(work, "images/labels.csv"), { force: true });
    cpSync(path.join(folder, "preprocess.json"), path.join(work, "preprocess.json"));
    mkdirSync(path.join(work, "node_modules"));
    symlinkSync(root, path.join(work, "node_modules/qdq"));
  });
  afterAll(() => rmSync(work, { recursive: true }));
  const run = (...args) =>
    execFileSync(process.execPath, args, { cwd: work, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });

  test("its command prints what it shows, but for the time", () => {
    const [command, ...output] = /^```\n(\$ npx[\s\S]*?)^```/m.exec(text)[1].trimEnd().split("\n");
    const words = command.replace("$ npx qdq ", "").split(" ");
    const shown = (lines) => lines.map((line) => line.replace(/[\d.]+ m?s$/, "TIME"));
    const cli = path.join(root, "dist/cjs/node/cli.js");
    const { stdout, stderr } = spawnSync(process.execPath, [cli, ...words], { cwd: work, encoding: "utf8" });
    const warnings = stderr.split("\n").filter((line) => line.startsWith("qdq: "));
    expect(shown([...warnings, ...stdout.trimEnd().split("\n")])).toEqual(shown(output));
  });

  test("its script runs in this Node and writes the same model as its command", () => {
    const command = readFileSync(path.join(work, "model.int8.onnx"));
    rmSync(path.join(work, "model.int8.onnx"));
    writeFileSync(path.join(work, "quantize.mjs"), block("js"));
    expect(run("quantize.mjs")).toBe("float32 [ 16, 16 ]\n");
    expect(readFileSync(path.join(work, "model.int8.onnx")).equals(command)).toBe(true);
  });

  test("its script that runs the model does so", () => {
    if (file === "README.md") return expect(block("js", 1)).toBeUndefined();
    writeFileSync(path.join(work, "run.mjs"), block("js", 1));
    expect(run("run.mjs")).toBe("float32 [ 1, 16 ]\n");
  });
});

test("the picture of README.md is small", () => {
  expect(statSync(path.join(root, "docs/page.png")).size).toBeLessThan(150_000);
});
