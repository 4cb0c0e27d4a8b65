// Every block of the documentation's pages runs: a block with a name is that file, a line behind "$" is a command, and
// the lines below a command are its warnings and what it prints, times left out.
const { execFileSync, spawnSync } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { detector } = require("./detector.js");
const { folder, modelPath, qdq } = require("./shapes.js");

const root = path.join(__dirname, "../..");
const pages = [
  "docs/tutorial.md",
  "docs/performance.md",
  ...fs.readdirSync(path.join(root, "docs/how-to")).map((name) => `docs/how-to/${name}`),
  ...fs.readdirSync(path.join(root, "docs/explanation")).map((name) => `docs/explanation/${name}`),
];

// What npx and npm find beside the reader's files: this package, and for one page ONNX Runtime Web.
function workFolder() {
  const work = fs.mkdtempSync(path.join(os.tmpdir(), "qdq-pages-"));
  const modules = path.join(work, "node_modules");
  fs.mkdirSync(path.join(modules, ".bin"), { recursive: true });
  fs.symlinkSync(root, path.join(modules, "qdq"));
  fs.symlinkSync(path.join(root, "build/packages/node_modules/onnxruntime-web"), path.join(modules, "onnxruntime-web"));
  fs.symlinkSync(path.join(root, "dist/cjs/node/cli.js"), path.join(modules, ".bin/qdq"));
  fs.writeFileSync(path.join(work, "package.json"), '{"private": true}\n');
  fs.cpSync(path.join(folder, "calibration"), path.join(work, "images"), { recursive: true });
  fs.rmSync(path.join(work, "images/labels.csv"), { force: true });
  fs.cpSync(path.join(folder, "preprocess.json"), path.join(work, "preprocess.json"));
  fs.cpSync(modelPath, path.join(work, "model.pt2"));
  fs.cpSync(path.join(root, "examples/decoder/decoder.pt2"), path.join(work, "decoder.pt2"));
  fs.writeFileSync(path.join(work, "detector.onnx"), detector());
  return work;
}

const times = (text) => text.replace(/[\d.]+ m?s$/gm, "TIME").trimEnd();

function runCommands(block, work) {
  for (const part of block.split(/^\$ /m).slice(1)) {
    const [command, ...lines] = part.split("\n");
    if (/^npm install /.test(command)) continue; // of a release; what it would bring is there
    const { status, stdout, stderr } = spawnSync("sh", ["-euc", command], { cwd: work, encoding: "utf8" });
    expect({ command, status, stderr: status === 0 ? "" : stderr }).toEqual({ command, status: 0, stderr: "" });
    const warnings = stderr.match(/^qdq: warning: .*\n/gm) ?? [];
    if (lines.some((line) => line !== "")) expect(times(warnings.join("") + stdout)).toEqual(times(lines.join("\n")));
  }
}

let onnx;
beforeAll(async () => {
  onnx = qdq.saveOnnx(await qdq.loadPt2(fs.readFileSync(modelPath)));
});

test.each(pages)("the blocks of %s run", (page) => {
  const text = fs.readFileSync(path.join(root, page), "utf8");
  const blocks = [...text.matchAll(/^```(\w*)(?: \[(.+)\])?\n([\s\S]*?)^```/gm)];
  const work = workFolder();
  fs.writeFileSync(path.join(work, "model.onnx"), onnx);
  try {
    // A page may go on with the int8 file that another page made.
    if (/model\.int8\.onnx/.test(text) && !/-o model\.int8\.onnx/.test(text)) {
      const words = "quantize model.onnx --calibrate images --preprocess preprocess.json -o model.int8.onnx".split(" ");
      execFileSync(process.execPath, [path.join(root, "dist/cjs/node/cli.js"), ...words], {
        cwd: work,
        stdio: "ignore",
      });
    }
    for (const [, language, name, block] of blocks) {
      if (name) fs.writeFileSync(path.join(work, name), block);
      else if (language === "console") runCommands(block, work);
      else expect(language).toBe("cpp"); // the lane examples compiles it
    }
  } finally {
    fs.rmSync(work, { recursive: true });
  }
});

test("the command at the top of README.md prints what stands below it", () => {
  const work = workFolder();
  fs.writeFileSync(path.join(work, "model.onnx"), onnx);
  try {
    const [, block] = /^```\n([\s\S]*?)^```/m.exec(fs.readFileSync(path.join(root, "README.md"), "utf8"));
    runCommands(block, work);
  } finally {
    fs.rmSync(work, { recursive: true });
  }
});
