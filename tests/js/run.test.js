// qdq/run, which opens programs and runs them: the numbers of qdq from a module of its own, and one clear error for
// what belongs to the other.
const { execFileSync } = require("node:child_process");
const { readFileSync } = require("node:fs");
const path = require("node:path");
const run = require("../../dist/cjs/node/run.js");
const { images, model, qdq, thrown } = require("./shapes.js");

let quantized;
let bytes;
let image;
beforeAll(async () => {
  const program = await qdq.loadPt2(model());
  image = images(program, 2);
  const prepared = qdq.preparePt2e(program, new qdq.XNNPACKQuantizer().setGlobal(qdq.getSymmetricQuantizationConfig()));
  prepared.run([image]);
  quantized = qdq.convertPt2e(prepared);
  bytes = qdq.savePt2(quantized);
});

test("computes and says what qdq does, of quantized programs and of float ones", async () => {
  for (const file of [bytes, model()]) {
    const [mine, theirs] = [await run.loadPt2(file), await qdq.loadPt2(file)];
    expect(mine.info()).toEqual(theirs.info());
    expect(run.lower(mine).run([image])).toEqual(qdq.lower(theirs).run([image]));
    expect(thrown(() => run.lower(mine).run([])).message).toBe(thrown(() => qdq.lower(theirs).run([])).message);
  }
  expect(await run.capabilities()).toMatchObject({ module: expect.stringMatching(/^qdq-run(-relaxed)?\.wasm$/) });
  await expect(run.loadPt2(bytes.subarray(0, 5000))).rejects.toMatchObject({ name: "QdqError", code: "BadFile" });
});

test("has nothing that quantizes", () => {
  expect(Object.keys(run).sort()).toEqual(
    [
      "Decoder",
      "Program",
      "QdqError",
      "Session",
      "capabilities",
      "configure",
      "loadPt2",
      "lower",
      "lowerDecoder",
      "registerOperator",
      "tensor",
    ].sort(),
  );
});

test("a program of one is refused by the other, which has a memory of its own", async () => {
  const program = await run.loadPt2(model());
  const error = thrown(() => qdq.preparePt2e(program, new qdq.XNNPACKQuantizer()));
  expect(error).toMatchObject({ name: "QdqError", code: "InvalidArgument" });
  expect(error.message).toBe(
    "this Program is of qdq/run, whose module has a memory of its own; load the file once more with loadPt2 of qdq",
  );
});

test("the module of the one is refused by the other", () => {
  const script = `
    const run = require("./dist/cjs/node/run.js");
    run.configure({ wasm: require("node:fs").readFileSync("dist/qdq.wasm") });
    run.loadPt2(new Uint8Array(9)).catch(({ code, message }) => console.log(code + ": " + message));`;
  const { version } = JSON.parse(readFileSync(path.join(__dirname, "../../package.json"), "utf8"));
  const { execFileSync } = require("node:child_process");
  expect(execFileSync(process.execPath, ["-e", script], { cwd: path.join(__dirname, "../..") }).toString()).toBe(
    `InvalidArgument: configure({ wasm }) of qdq/run gave qdq ${version}, wanted a module of qdq-run ${version}: ` +
      "take the .wasm file from the package that is imported\n",
  );
});

test("brings no threads of Node before they are wanted", () => {
  const script = `require("qdq/run"); console.log(process.moduleLoadList.includes("NativeModule worker_threads"))`;
  expect(execFileSync(process.execPath, ["-e", script], { encoding: "utf8" })).toBe("false\n");
});
