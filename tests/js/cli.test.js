// The command line in Node: what it prints, how it ends, and that it writes what the native program writes.
const { spawn, spawnSync } = require("node:child_process");
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
  const { status, stdout, stderr } = spawnSync(program, args, {
    cwd: temporary,
    encoding: "utf8",
    env: { ...process.env, NO_COLOR: "1" },
  });
  return { status, stdout, stderr };
};
const builds = {
  npx: (...args) => start(process.execPath, [path.join(root, "dist/cjs/node/cli.js"), ...args]),
  native: (...args) => start(path.join(root, "dev"), ["qdq", ...args]),
};
const calibration = [
  "--calibrate",
  path.join(folder, "calibration"),
  "--preprocess",
  path.join(folder, "preprocess.json"),
  "--limit",
  "24",
  "--batch-size",
  "8",
];

test("both builds write the same bytes", () => {
  for (const quantizer of ["xnnpack", "x86-inductor"]) {
    for (const [name, qdq] of Object.entries(builds)) {
      const args = [
        "quantize",
        modelPath,
        ...calibration,
        "--quantizer",
        quantizer,
        "-o",
        `${name}.${quantizer}.pt2`,
        "--observers",
        `${name}.${quantizer}.json`,
      ];
      const { status, stdout, stderr } = qdq(...args);
      expect({ status, stderr }).toEqual({ status: 0, stderr: "calibrating: 3 batches\n" });
      expect(stdout).toMatch(/calibrated on 24 samples in 3 batches/);
      expect(stdout).toMatch(/layers quantized +[1-9]\d* of \d+/);
    }
    for (const end of ["pt2", "json"]) {
      expect(
        fs.readFileSync(at(`npx.${quantizer}.${end}`)).equals(fs.readFileSync(at(`native.${quantizer}.${end}`))),
      ).toBe(true);
    }
  }
  const observers = JSON.parse(fs.readFileSync(at("npx.xnnpack.json"), "utf8"));
  for (const observer of observers) {
    expect(observer).toMatchObject({
      class: expect.stringMatching(/Observer$/),
      settings: { dtype: expect.any(String) },
      covers: expect.any(Array),
    });
  }
});

test("threads do not change the bytes", () => {
  const bytes = [
    ["native", "1"],
    ["native", "3"],
    ["npx", "2"],
    ["npx", "3"],
  ].map(([name, threads]) => {
    expect(
      builds[name]("quantize", modelPath, ...calibration, "--threads", threads, "-o", "threads.pt2"),
    ).toMatchObject({ status: 0 });
    return fs.readFileSync(at("threads.pt2"));
  });
  for (const other of bytes) expect(other.equals(bytes[0])).toBe(true);
});

// A zip archive of one member that claims to be 5 GB when it is inflated; it is as long as such a member is at least.
function fiveGigabytes() {
  const name = Buffer.from("serialized_state_dict.pt");
  const packed = Buffer.alloc(Math.ceil(5e9 / 1032));
  const local = Buffer.alloc(30);
  const central = Buffer.alloc(46);
  const wide = Buffer.alloc(12);
  const end = Buffer.alloc(22);
  local.writeUInt32LE(0x04034b50);
  local.writeUInt16LE(8, 8);
  local.writeUInt32LE(packed.length, 18);
  local.writeUInt32LE(0xffffffff, 22);
  local.writeUInt16LE(name.length, 26);
  central.writeUInt32LE(0x02014b50);
  central.writeUInt16LE(8, 10);
  central.writeUInt32LE(packed.length, 20);
  central.writeUInt32LE(0xffffffff, 24);
  central.writeUInt16LE(name.length, 28);
  central.writeUInt16LE(wide.length, 30);
  wide.writeUInt16LE(1);
  wide.writeUInt16LE(8, 2);
  wide.writeBigUInt64LE(5_000_000_000n, 4);
  end.writeUInt32LE(0x06054b50);
  end.writeUInt16LE(1, 8);
  end.writeUInt16LE(1, 10);
  end.writeUInt32LE(central.length + name.length + wide.length, 12);
  end.writeUInt32LE(local.length + name.length + packed.length, 16);
  return Buffer.concat([local, name, packed, central, name, wide, end]);
}

test("an archive that declares 5 GB is refused in one sentence, by what WebAssembly has or by what is allowed", () => {
  fs.writeFileSync(at("five.pt2"), fiveGigabytes());
  const needs = "qdq: five.pt2: loading the .pt2 file needs at least 5000 MB of memory, and ";
  const refused = (name, ...args) => {
    const { status, stdout, stderr } = builds[name]("inspect", "five.pt2", ...args);
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    expect(stderr.startsWith(needs)).toBe(true);
    return stderr.slice(needs.length);
  };
  expect(refused("npx")).toMatch(
    new RegExp(
      "^4\\d{3} MB are left of the 4 GB that WebAssembly has; allow more than 4 GB in " +
        "Node 24 or a current Chromium, or use the native program\n$",
    ),
  );
  const allowed = /^\d+ MB are left of the 3000 MB that --max-memory allows; allow more\n$/;
  for (const name of ["npx", "native"]) expect(refused(name, "--max-memory", "3GB")).toMatch(allowed);
});

test("work fits into the memory that is allowed, or is refused", () => {
  const job = ["quantize", modelPath, ...calibration, "-o", "small.pt2", "--max-memory"];
  for (const qdq of Object.values(builds)) {
    expect(qdq(...job, "200MB")).toMatchObject({ status: 0 });
    const { status, stderr } = qdq(...job, "2MB");
    expect(status).toBe(1);
    expect(stderr).toMatch(/^(calibrating.*\n)?qdq: .* needs at least \d+ kB of memory, and \d+ kB are left of /);
    expect(stderr).toMatch(/ are left of the 2000 kB that --max-memory allows; .*\n$/);
    expect(qdq(...job, "many")).toEqual({
      status: 2,
      stdout: "",
      stderr: "qdq: --max-memory: found many, wanted a size such as 500MB, 1.5GB or 2GiB; see qdq quantize --help\n",
    });
  }
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
    expect(
      qdq("run", modelPath, "--inputs", path.join(folder, "test"), "-o", output, "--backend", "simd", ...data),
    ).toMatchObject({ status: 0 });
    expect(fs.readFileSync(at(output)).subarray(0, 2).toString()).toBe("PK");
    const { status, stdout } = qdq(
      "evaluate",
      modelPath,
      modelPath,
      "--data",
      path.join(folder, "test"),
      "--labels",
      path.join(folder, "test/labels.csv"),
      "--json",
      ...data,
    );
    expect(status).toBe(0);
    const [first, second] = JSON.parse(stdout);
    expect(first).toMatchObject({ samples: 20, agreement: 100 });
    expect(second.top1).toBe(first.top1);
    expect(first.top5).toBeGreaterThanOrEqual(first.top1);
    expect(first.top1).toBeGreaterThan(50);
    expect(qdq("inspect", modelPath).stdout).toMatch(/inputs\n.*float32\[/);
    expect(qdq("inspect", modelPath, "--graph").stdout).toMatch(
      /call_function\[target=torch.ops.aten.conv2d.default\]/,
    );
    expect(JSON.parse(qdq("inspect", modelPath, "--json").stdout).nodes.at(-1).op).toBe("output");
  });

  test("measures by a command", () => {
    fs.writeFileSync(
      at("measure.mjs"),
      `import { readFileSync } from "node:fs";
       const archive = readFileSync(process.argv[2]), labels = readFileSync(process.argv[3], "utf8");
       console.log(process.argv[2]);
       console.log(archive.length / 1e6 + labels.split("\\n").length);`,
    );
    const evaluate = (command) =>
      qdq(
        ...["evaluate", modelPath, "--data", path.join(folder, "test"), "--limit", "20", "--json"],
        ...["--preprocess", path.join(folder, "preprocess.json")],
        ...["--labels", path.join(folder, "test/labels.csv"), "--metric", command],
      );
    const { status, stdout, stderr } = evaluate(`"${process.execPath}" measure.mjs {outputs} {labels}`);
    expect({ status, stderr }).toMatchObject({ status: 0 });
    expect(JSON.parse(stdout)[0].metric).toBeGreaterThan(100);
    const failed = evaluate("exit 3 # {outputs}");
    expect(failed.status).toBe(1);
    expect(failed.stderr).toMatch(/the command of --metric, exit 3 # \{outputs\}, ended with status 3; wanted 0\n$/);
    expect(fs.readdirSync(os.tmpdir()).filter((name) => /^qdq-\w{6}\.npz$/.test(name))).toEqual([]);
  });

  test.each([
    ["a missing model", ["inspect", "none.pt2"], /^qdq: cannot read none.pt2: no such file or directory\n$/],
    ["a folder as a model", ["inspect", "."], /^qdq: cannot read \.: it is a folder, a file was wanted\n$/],
    [
      "a text as a model",
      ["inspect", "bad.json"],
      /^qdq: bad.json: this is neither a .pt2 file, .* wanted a file of torch.export.save or torch.onnx.export\n$/,
    ],
    [
      "an output that is a folder",
      ["quantize", modelPath, ...calibration, "-o", "."],
      /^qdq: cannot write \.: it is a folder, wanted the name of a file\n$/,
    ],
    [
      "an empty recipe",
      ["quantize", modelPath, ...calibration, "--recipe", "empty.json", "-o", "no.pt2"],
      /^qdq: empty.json is empty, wanted JSON\n$/,
    ],
    ["a broken model", ["inspect", "cut.pt2"], /^qdq: cut.pt2: .+\n$/],
    [
      "images without preprocessing",
      ["quantize", modelPath, "--calibrate", path.join(folder, "calibration"), "-o", "no.pt2"],
      /--preprocess/,
    ],
    [
      "a misspelt recipe",
      ["quantize", modelPath, ...calibration, "--recipe", "bad.json", "-o", "no.pt2"],
      /^qdq: .*quantizer.*\n$/,
    ],
    [
      "a recipe that is not JSON",
      ["quantize", modelPath, ...calibration, "--recipe", "cut.pt2", "-o", "no.pt2"],
      /^qdq: .*cut.pt2.*\n$/,
    ],
    [
      "an output that cannot be written",
      ["quantize", modelPath, ...calibration, "-o", "none/out.pt2"],
      /^qdq: cannot write none\/out.pt2: there is no folder none\n$/,
    ],
    [
      "an output in a folder that takes no files",
      ["quantize", modelPath, ...calibration, "-o", "/proc/no.pt2"],
      /^qdq: cannot write \/proc\/no.pt2: no such file or directory\n$/,
    ],
  ])("%s ends with 1 and one line", (_, args, pattern) => {
    fs.writeFileSync(at("cut.pt2"), fs.readFileSync(modelPath).subarray(0, 3000));
    fs.writeFileSync(at("empty.json"), "\n");
    fs.writeFileSync(at("bad.json"), '{"quantiser": "XNNPACKQuantizer"}');
    const { status, stdout, stderr } = qdq(...args);
    expect(status).toBe(1);
    expect(stdout).toBe("");
    expect(stderr).toMatch(pattern);
    expect(stderr.split("\n").filter((line) => line.startsWith("qdq:"))).toHaveLength(1);
    expect(fs.readdirSync(temporary).filter((file) => /^no\.|part$/.test(file))).toEqual([]);
  });

  test.each([
    [[]],
    [["quantise"]],
    [["quantize", modelPath]],
    [["run", modelPath, "--input", "x"]],
    [["inspect", modelPath, "--limit", "3"]],
    [["quantize", modelPath, "--calibrate", "x", "-o", "y", "--batch-size", "many"]],
    [["quantize", modelPath, "--calibrate", "x", "-o", "y", "--limit=-3"]],
    [["quantize", modelPath, "--calibrate", "x", "-o", "y.pt2", "--quantizer", "tensorrt"]],
    [["run", modelPath, "--inputs", "x", "-o", "y.npz", "--backend", "cuda"]],
    [["convert", modelPath, "y.tflite"]],
  ])("wrong usage ends with 2: %j", (args) => {
    const { status, stdout, stderr } = qdq(...args);
    expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
    expect(stderr).toMatch(/^qdq: .+(; see|; did you mean [\w-]+\? See) qdq (\w+ )?--help\n$/);
  });

  test("helps", () => {
    expect(qdq("--help")).toMatchObject({
      status: 0,
      stderr: "",
      stdout: expect.stringMatching(/quantize[\s\S]*inspect[\s\S]*qdq VERB --help/),
    });
    expect(qdq("quantize", "--help").stdout).toMatch(/--calibrate/);
  });
});

test("outputs go through links and pipes, keep permissions, and replace no folder or device", () => {
  for (const [name, qdq] of Object.entries(builds)) {
    const out = `${name}.outputs`;
    fs.mkdirSync(at(out));
    fs.writeFileSync(at(`${out}/old.pt2`), "old", { mode: 0o600 });
    fs.symlinkSync("old.pt2", at(`${out}/link.pt2`));
    expect(qdq("convert", modelPath, `${out}/link.pt2`)).toMatchObject({ status: 0, stderr: "" });
    // All names of a file mean that file.
    expect(qdq("convert", `${out}/old.pt2`, `${out}/link.pt2`)).toMatchObject({
      status: 2,
      stderr: `qdq: OUT ${out}/link.pt2: this is an input file, which would be overwritten; choose another name\n`,
    });
    expect(fs.lstatSync(at(`${out}/link.pt2`)).isSymbolicLink()).toBe(true);
    const written = fs.statSync(at(`${out}/old.pt2`));
    expect(written.mode & 0o777).toBe(0o600);
    expect(written.size).toBeGreaterThan(1_000_000);

    // Two minutes old and of a process that has ended; the process 1 has not.
    for (const pid of [1, 4_000_000]) {
      fs.writeFileSync(at(`${out}/old.pt2.${pid}.part`), "half");
      fs.utimesSync(at(`${out}/old.pt2.${pid}.part`), 1, Date.now() / 1000 - 120);
    }
    expect(qdq("convert", modelPath, `${out}/old.pt2`)).toMatchObject({ status: 0, stderr: "" });
    expect(fs.readdirSync(at(out)).sort()).toEqual(["link.pt2", "old.pt2", "old.pt2.1.part"]);

    spawnSync("mkfifo", [at(`${out}/pipe.pt2`)]);
    const read = spawn("cat", [at(`${out}/pipe.pt2`)], {
      stdio: ["ignore", fs.openSync(at(`${out}/read`), "w"), "ignore"],
    });
    expect(qdq("convert", modelPath, `${out}/pipe.pt2`)).toMatchObject({ status: 0, stderr: "" });
    expect(fs.statSync(at(`${out}/pipe.pt2`)).isFIFO()).toBe(true);
    read.kill();

    fs.symlinkSync("/dev/null", at(`${out}/device.pt2`));
    expect(qdq("convert", modelPath, `${out}/device.pt2`)).toMatchObject({
      status: 1,
      stderr: `qdq: cannot write ${out}/device.pt2: it is a device, a file was wanted\n`,
    });
    expect(fs.statSync("/dev/null").isCharacterDevice()).toBe(true);
  }
});

test("what an ONNX model keeps in other files stays in its folder", () => {
  fs.mkdirSync(at("beside"));
  const converted = builds.npx("convert", modelPath, "beside/model.onnx", "--onnx-data");
  expect(converted).toMatchObject({ status: 0, stderr: "" });
  for (const qdq of Object.values(builds)) {
    expect(qdq("inspect", "beside/model.onnx")).toMatchObject({ status: 0, stderr: "" });
    fs.renameSync(at("beside/model.onnx.data"), at("outside.data"));
    fs.symlinkSync("../outside.data", at("beside/model.onnx.data"));
    const { status, stderr } = qdq("inspect", "beside/model.onnx");
    expect(status).toBe(1);
    expect(stderr).toMatch(
      /cannot read .*model\.onnx\.data: links lead to .*outside\.data, which is not in the folder of/,
    );
    fs.rmSync(at("beside/model.onnx.data"));
    spawnSync("mkfifo", [at("beside/model.onnx.data")]);
    expect(qdq("inspect", "beside/model.onnx").stderr).toMatch(/model\.onnx\.data: it is not an ordinary file/);
    fs.rmSync(at("beside/model.onnx.data"));
    fs.renameSync(at("outside.data"), at("beside/model.onnx.data"));
  }
});

test("a file without an end is read no further than memory reaches", () => {
  for (const qdq of Object.values(builds)) {
    const { status, stderr } = qdq("inspect", "/dev/zero", "--max-memory", "50MB");
    expect(status).toBe(1);
    expect(stderr).toMatch(/^qdq: .*\/dev\/zero.* (49|50) MB/);
  }
});

// The allocator waited for itself when memory grew for the stacks of so many threads.
test("as many threads as there can be", () => {
  for (const threads of ["16", "64"])
    expect(builds.npx("inspect", modelPath, "--threads", threads)).toMatchObject({ status: 0, stderr: "" });
});

test.each([
  ["", []],
  [", and what layers read too", ["--recover"]],
  [", and recover weights of 4 bits", ["--recover", "--weight-bits", "4"]],
])("parts that both builds calibrated merge into the bytes of one process%s", (_, words) => {
  const data = ["--data", ...calibration.slice(1), ...words];
  const run = (build, ...args) => {
    const { status, stderr } = builds[build](...args);
    expect({ status, stderr: stderr.replace(/^.*takes the place of HistogramObserver.*\n/m, "") }).toEqual({
      status: 0,
      stderr: expect.not.stringMatching(/warning/),
    });
  };
  for (const [k, build] of ["npx", "native", "npx"].entries())
    run(build, "calibrate", modelPath, ...data, "--shard", `${k + 1}/3`, "-o", `part${k + 1}.json`);
  run("native", "calibrate", modelPath, ...data, "-o", "whole.json");
  const whole = fs.readFileSync(at("whole.json"), "utf8");
  for (const build of ["npx", "native"]) {
    run(build, "merge", "part3.json", "part1.json", "part2.json", "-o", `${build}.merged.json`);
    expect(fs.readFileSync(at(`${build}.merged.json`), "utf8")).toBe(whole);
    run(build, "quantize", modelPath, "--calibrate", `${build}.merged.json`, ...words, "-o", `${build}.merged.pt2`);
  }
  expect(fs.readFileSync(at("npx.merged.pt2")).equals(fs.readFileSync(at("native.merged.pt2")))).toBe(true);
});

test.each(["npx", "native"])("%s: statistics recover what they can, and refuse what takes samples", (build) => {
  const data = ["--data", ...calibration.slice(1)];
  builds[build]("calibrate", modelPath, ...data, "-o", "plain.json");
  builds[build]("calibrate", modelPath, ...data, "--recover", "-o", "layers.json");
  const quantize = (...words) => builds[build]("quantize", modelPath, ...words, "-o", "out.pt2");
  expect(quantize("--calibrate", "plain.json", "--recover").stderr).toContain("observe the layers");
  const refused = quantize("--calibrate", "layers.json", "--recover", "--target-agreement", "99");
  expect(refused.stderr).toContain("--target-agreement judges programs by samples");
  const json = JSON.parse(quantize("--calibrate", "layers.json", "--recover", "--json").stdout);
  expect(json.recovery.applied.map(({ remedy }) => remedy)).toEqual(["equalization", "rounding", "bias correction"]);
  const groups = ["--weights-only", "--weight-bits", "4", "--group-size", "8"];
  builds[build]("calibrate", modelPath, ...data, ...groups, "--recover", "-o", "groups.json");
  const rounded = JSON.parse(quantize("--calibrate", "groups.json", ...groups, "--gptq", "--json").stdout);
  expect(rounded.recovery.applied[0]).toMatchObject({ remedy: "weights in groups" });
});
