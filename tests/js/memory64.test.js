// 64-bit memory: when the loader and the command line take the module that has it, what is said where it is missing,
// and that it writes the same bytes. The module is in packages of `./dev package --release`, and of the lane memory64.
const { execFileSync, spawnSync } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { folder, modelPath } = require("./shapes.js");

const root = path.join(__dirname, "../..");
const job = require("../../dist/cjs/node/job.js");
const { hasMemory64 } = require("../../dist/cjs/bindings/api/engine.js");
const isPacked = fs.existsSync(path.join(root, "dist/qdq-memory64.wasm"));
const missing = !hasMemory64() ? "this Node has no 64-bit memory" : isPacked ? "" : "the package has no such module";

// Gigabytes are written, which takes a busy machine a while.
jest.setTimeout(300000);

let scratch;
beforeAll(() => {
  scratch = fs.mkdtempSync(path.join(os.tmpdir(), "qdq-"));
});
afterAll(() => fs.rmSync(scratch, { recursive: true }));

// What a script prints as JSON, in a process of its own.
const answer = (script) =>
  JSON.parse(execFileSync(process.execPath, ["-e", script], { cwd: root, encoding: "utf8", timeout: 240000 }));

// What configure() says, where the engine says of every module that it is valid, or not.
const said = (entry, settings, valid) =>
  answer(`
    WebAssembly.validate = () => ${valid};
    const qdq = require("./dist/cjs/node/${entry}.js");
    const report = ({ code, message }) => console.log(JSON.stringify({ code, message }));
    try {
      qdq.configure(${JSON.stringify(settings)});
      qdq.loadPt2(new Uint8Array(1)).catch(report);
    } catch (error) { report(error); }`);

test("more than 4 GB are refused where there is no 64-bit memory, naming what has it", () => {
  expect(said("index", { maxMemory: 5e9 }, false)).toEqual({
    code: "Unsupported",
    message: "maxMemory is 5 GB, and more than 4 GB need an engine with 64-bit memory: Node 24 or a current Chromium",
  });
  expect(said("index", { maxMemory: 2 ** 32 }, false)).toMatchObject({ code: "BadFile" });
});

test("what the module for 64-bit memory lacks is refused", () => {
  expect(said("index", { maxMemory: 5e9, threads: 2 }, true)).toEqual({
    code: "Unsupported",
    message: "maxMemory is 5 GB, and more than 4 GB are for one thread; threads is 2, leave it out",
  });
  expect(said("run", { maxMemory: 5e9 }, true)).toEqual({
    code: "Unsupported",
    message: "maxMemory is 5 GB, and more than 4 GB are for the programs that import qdq",
  });
});

(isPacked ? test.skip : test)("a package without the module says so", () => {
  expect(said("index", { maxMemory: 5e9 }, true)).toEqual({
    code: "Unsupported",
    message: "this package was built without the module for 64-bit memory; maxMemory can be 4 GB at most",
  });
});

test("the command line knows large models by their files, and limits by their sizes", () => {
  const sized = (name, bytes) => {
    const file = path.join(scratch, name);
    fs.closeSync(fs.openSync(file, "w"));
    fs.truncateSync(file, bytes);
    return file;
  };
  const large = sized("large.pt2", 5e9);
  const onnx = sized("model.onnx", 1000);
  expect(job.bytesNamed(["quantize", modelPath, "-o", "none.pt2"])).toBe(fs.statSync(modelPath).size);
  expect(job.bytesNamed(["inspect", large])).toBe(5e9);
  expect(job.bytesNamed([`--reference=${large}`, onnx])).toBe(5e9);
  expect(job.bytesNamed(["inspect", onnx])).toBe(1000);
  sized("model.onnx.data", 3e9);
  sized("models.onnx.data", 9e9);
  expect(job.bytesNamed(["inspect", onnx])).toBe(3e9 + 1000);
  expect(job.bytesNamed(["run", scratch, "nowhere.onnx", ""])).toBe(0);
  const allowed = { "8GB": 8e9, "6GiB": 6 * 2 ** 30, "4000MB": 4e9, 5000000000: 5e9, "1.5GB": 1.5e9, "2 GB": 2e9 };
  for (const [text, bytes] of Object.entries(allowed)) {
    expect(job.memoryAllowed(["run", "--max-memory", text, "x"])).toBe(bytes);
    expect(job.memoryAllowed([`--max-memory=${text}`])).toBe(bytes);
  }
  for (const words of [["run"], ["--max-memory", "many"], ["--max-memory"]]) expect(job.memoryAllowed(words)).toBe(0);
});

test("a limit above 4 GB is warned of where 4 GB are all", () => {
  // A file, since Node takes the word inspect behind a script of --eval for its own.
  const script = path.join(scratch, "plain.cjs");
  const cli = JSON.stringify(path.join(root, "dist/cjs/node/cli.js"));
  fs.writeFileSync(script, `WebAssembly.validate = () => false; require(${cli});`);
  const inspected = (limit) =>
    spawnSync(process.execPath, [script, "inspect", modelPath, "--max-memory", limit], { encoding: "utf8" });
  expect(inspected("8GB").stderr).toBe(
    "qdq: warning: --max-memory is above 4 GB, which needs 64-bit memory; Node 24 has it, this Node has not, so 4 GB " +
      "are all\n",
  );
  expect(inspected("4GB")).toMatchObject({ status: 0, stderr: "" });
});

const testThere = missing ? test.skip : test;
const where = missing ? ` (skipped: ${missing})` : "";

testThere(`the module with 64-bit memory writes the same file and computes the same outputs${where}`, () => {
  const evaluated = (settings) =>
    answer(`
      const { readFileSync } = require("node:fs");
      const { createHash } = require("node:crypto");
      const qdq = require("./dist/cjs/node/index.js");
      qdq.configure(${JSON.stringify(settings)});
      (async () => {
        const program = await qdq.loadPt2(readFileSync("examples/shapes/model.pt2"));
        const image = qdq.tensor(Float32Array.from({ length: 9600 }, (_, i) => Math.sin(i * 0.7) * 2), [2, 3, 40, 40]);
        const prepared = qdq.preparePt2e(program, new qdq.X86InductorQuantizer()
          .setGlobal(qdq.getDefaultX86InductorQuantizationConfig()));
        prepared.run([image]);
        const quantized = qdq.convertPt2e(prepared);
        const file = createHash("sha256").update(qdq.savePt2(quantized)).digest("hex");
        const onnx = createHash("sha256").update(qdq.saveOnnx(quantized)).digest("hex");
        const [logits] = qdq.lower(quantized).run([image]);
        const { module, memory64 } = await qdq.capabilities();
        console.log(JSON.stringify({ module, memory64, result: { file, onnx, logits: [...logits.data] } }));
      })();`);
  const wide = evaluated({ maxMemory: 8e9 });
  expect(wide).toMatchObject({ module: "qdq-memory64.wasm", memory64: true });
  expect(evaluated({ maxMemory: 4e9 })).toEqual({
    module: expect.stringMatching(/^qdq(-relaxed)?\.wasm$/),
    memory64: true,
    result: wide.result,
  });
});

testThere(`the command line writes the same with 64-bit memory, with any number of threads${where}`, () => {
  const quantized = (...more) => {
    const out = path.join(scratch, "out.int8.pt2");
    const calibration = ["--calibrate", path.join(folder, "calibration"), "--recipe", path.join(folder, "recipe.json")];
    const preprocess = ["--preprocess", path.join(folder, "preprocess.json")];
    const args = ["dist/cjs/node/cli.js", "quantize", modelPath, ...calibration, ...preprocess, "-o", out, ...more];
    execFileSync(process.execPath, args, { cwd: root });
    return fs.readFileSync(out);
  };
  const wanted = quantized();
  expect(quantized("--max-memory", "8GB").equals(wanted)).toBe(true);
  expect(quantized("--max-memory", "8GB", "--threads", "3").equals(wanted)).toBe(true);
});

testThere(`memory grows beyond 4 GB, as far as is allowed${where}`, () => {
  const { code, message, taken } = answer(`
    const qdq = require("./dist/cjs/node/index.js");
    qdq.configure({ maxMemory: 4.5e9 });
    let taken = 0;
    async function* endless() {
      const part = new Uint8Array(4 << 20);
      for (;;) {
        yield part;
        taken += part.length;
      }
    }
    qdq.loadPt2(endless()).catch(({ code, message }) => console.log(JSON.stringify({ code, message, taken })));`);
  expect(code).toBe("OutOfMemory");
  expect(message).toMatch(/ 4500 MB that configure\(\{ maxMemory \}\) allows; (use smaller batches, or )?allow more/);
  expect(taken).toBeGreaterThan(2 ** 32);
  expect(taken).toBeLessThan(4.5e9);
});
