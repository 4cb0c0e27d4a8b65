// The command line in Node: what it prints, how it ends, and that it writes what the native program writes.
const { spawnSync } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { folder, modelPath } = require("./shapes.js");

const root = path.join(__dirname, "../..");
let temporary;
beforeAll(() => {
  temporary = fs.mkdtempSync(path.join(os.tmpdir(), "qdq-"));
});
afterAll(() => fs.rmSync(temporary, { recursive: true }));

const at = (name) => path.join(temporary, name);
const start = (program, args) => {
  const { status, stdout, stderr } = spawnSync(program, args, { cwd: temporary, encoding: "utf8", env: { ...process.env, NO_COLOR: "1" } });
  return { status, stdout, stderr };
};
const builds = {
  npx: (...args) => start(process.execPath, [path.join(root, "dist/cjs/node/cli.js"), ...args]),
  native: (...args) => start(path.join(root, "dev"), ["qdq", ...args]),
};
const calibration = ["--calibrate", path.join(folder, "calibration"), "--preprocess", path.join(folder, "preprocess.json"), "--limit", "24", "--batch-size", "8"];

test("both builds write the same bytes", () => {
  for (const quantizer of ["xnnpack", "x86-inductor"]) {
    for (const [name, qdq] of Object.entries(builds)) {
      const args = ["quantize", modelPath, ...calibration, "--quantizer", quantizer, "-o", `${name}.${quantizer}.pt2`, "--observers", `${name}.${quantizer}.json`];
      const { status, stdout, stderr } = qdq(...args);
      expect({ status, stderr }).toEqual({ status: 0, stderr: "calibrating: 3 batches\n" });
      expect(stdout).toMatch(/calibrated on 24 samples in 3 batches/);
      expect(stdout).toMatch(/layers quantized +[1-9]\d* of \d+/);
    }
    for (const end of ["pt2", "json"]) {
      expect(fs.readFileSync(at(`npx.${quantizer}.${end}`)).equals(fs.readFileSync(at(`native.${quantizer}.${end}`)))).toBe(true);
    }
  }
  const observers = JSON.parse(fs.readFileSync(at("npx.xnnpack.json"), "utf8"));
  for (const observer of observers) {
    expect(observer).toMatchObject({ class: expect.stringMatching(/Observer$/), settings: { dtype: expect.any(String) }, covers: expect.any(Array) });
  }
});

test("threads do not change the bytes", () => {
  const bytes = [["native", "1"], ["native", "3"], ["npx", "2"], ["npx", "3"]].map(([name, threads]) => {
    expect(builds[name]("quantize", modelPath, ...calibration, "--threads", threads, "-o", "threads.pt2")).toMatchObject({ status: 0 });
    return fs.readFileSync(at("threads.pt2"));
  });
  for (const other of bytes) expect(other.equals(bytes[0])).toBe(true);
});

test.each(["0", "many", "-1"])("%s threads are wrong usage", (threads) => {
  const [npx, native] = [builds.npx, builds.native].map((qdq) => qdq("inspect", modelPath, `--threads=${threads}`));
  expect(npx).toEqual(native);
  expect(npx.status).not.toBe(0);
});

describe.each(Object.entries(builds))("%s", (name, qdq) => {
  test("runs, evaluates and inspects", () => {
    const data = ["--preprocess", path.join(folder, "preprocess.json"), "--limit", "20"];
    const output = `${name}.npz`;
    expect(qdq("run", modelPath, "--inputs", path.join(folder, "test"), "-o", output, "--backend", "simd", ...data)).toMatchObject({ status: 0 });
    expect(fs.readFileSync(at(output)).subarray(0, 2).toString()).toBe("PK");
    const { status, stdout } = qdq("evaluate", modelPath, modelPath, "--data", path.join(folder, "test"), "--labels",
      path.join(folder, "test/labels.csv"), "--json", ...data);
    expect(status).toBe(0);
    const [first, second] = JSON.parse(stdout);
    expect(first).toMatchObject({ samples: 20, agreement: 100 });
    expect(second.top1).toBe(first.top1);
    expect(first.top5).toBeGreaterThanOrEqual(first.top1);
    expect(first.top1).toBeGreaterThan(50);
    expect(qdq("inspect", modelPath).stdout).toMatch(/inputs\n.*float32\[/);
    expect(qdq("inspect", modelPath, "--graph").stdout).toMatch(/call_function\[target=torch.ops.aten.conv2d.default\]/);
    expect(JSON.parse(qdq("inspect", modelPath, "--json").stdout).nodes.at(-1).op).toBe("output");
  });

  test.each([
    ["a missing model", ["inspect", "none.pt2"], /^qdq: cannot read none.pt2: .+\n$/],
    ["a folder as a model", ["inspect", "."], /^qdq: cannot read \.: .+\n$/],
    ["a broken model", ["inspect", "cut.pt2"], /^qdq: cut.pt2: .+\n$/],
    ["images without preprocessing", ["quantize", modelPath, "--calibrate", path.join(folder, "calibration"), "-o", "no.pt2"], /--preprocess/],
    ["a misspelt recipe", ["quantize", modelPath, ...calibration, "--recipe", "bad.json", "-o", "no.pt2"], /^qdq: .*quantizer.*\n$/],
    ["a recipe that is not JSON", ["quantize", modelPath, ...calibration, "--recipe", "cut.pt2", "-o", "no.pt2"], /^qdq: .*cut.pt2.*\n$/],
    ["an unknown quantizer", ["quantize", modelPath, ...calibration, "--quantizer", "tensorrt", "-o", "no.pt2"], /tensorrt/],
    ["an output that cannot be written", ["quantize", modelPath, ...calibration, "-o", "none/out.pt2"], /^calibrating.*\nqdq: cannot write none\/out.pt2: .+\n$/],
    ["an unknown backend", ["run", modelPath, "--inputs", path.join(folder, "test"), "-o", "no.npz", "--backend", "cuda"], /cuda/],
  ])("%s ends with 1 and one line", (_, args, pattern) => {
    fs.writeFileSync(at("cut.pt2"), fs.readFileSync(modelPath).subarray(0, 3000));
    fs.writeFileSync(at("bad.json"), '{"quantiser": "XNNPACKQuantizer"}');
    const { status, stdout, stderr } = qdq(...args);
    expect(status).toBe(1);
    expect(stdout).toBe("");
    expect(stderr).toMatch(pattern);
    expect(stderr.split("\n").filter((line) => line.startsWith("qdq:"))).toHaveLength(1);
    expect(fs.readdirSync(temporary).filter((file) => /^no\.|part$/.test(file))).toEqual([]);
  });

  test.each([[[]], [["quantise"]], [["quantize", modelPath]], [["run", modelPath, "--input", "x"]], [["inspect", modelPath, "--limit", "3"]],
    [["quantize", modelPath, "--calibrate", "x", "-o", "y", "--batch-size", "many"]]])("wrong usage ends with 2: %j", (args) => {
    const { status, stdout, stderr } = qdq(...args);
    expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
    expect(stderr).toMatch(/^qdq: .+; see qdq (\w+ )?--help\n$/);
  });

  test("helps", () => {
    expect(qdq("--help")).toMatchObject({ status: 0, stderr: "", stdout: expect.stringMatching(/quantize[^]*inspect/) });
    expect(qdq("quantize", "--help").stdout).toMatch(/--calibrate/);
  });
});
