// The modules for every engine and for relaxed SIMD, with threads and without: which is loaded, and that all give the
// same numbers.
const { execFileSync, spawnSync } = require("node:child_process");
const { readFileSync } = require("node:fs");
const path = require("node:path");
const qdq = require("../../dist/cjs/node/index.js");

const root = path.join(__dirname, "../..");
// Node 20 has relaxed SIMD behind a flag, which later ones refuse because they have it anyway.
const flag = "--experimental-wasm-relaxed-simd";
const flags = spawnSync(process.execPath, [flag, "-e", "1"]).status === 0 ? [flag] : [];

// Quantizes the example in a process of its own, which must end by itself.
function evaluate(nodeFlags, { wasm, threads }) {
  const script = `
    import { createHash } from "node:crypto";
    import { readFile } from "node:fs/promises";
    import { pathToFileURL } from "node:url";
    import {
      capabilities, configure, convertPt2e, getDefaultX86InductorQuantizationConfig, loadPt2, lower, preparePt2e,
      savePt2, tensor, X86InductorQuantizer,
    } from "./dist/esm/node/index.js";
    configure({ ${wasm ? `wasm: pathToFileURL("dist/${wasm}"), ` : ""} ${threads ? `threads: ${threads}` : ""} });
    const program = await loadPt2(await readFile("examples/shapes/model.pt2"));
    const pixels = Float32Array.from({ length: 2 * 3 * 40 * 40 }, (_, i) => Math.sin(i * 0.7) * 2);
    const image = tensor(pixels, [2, 3, 40, 40]);
    const quantizer = new X86InductorQuantizer().setGlobal(getDefaultX86InductorQuantizationConfig());
    const prepared = preparePt2e(program, quantizer);
    prepared.run([image]);
    const quantized = convertPt2e(prepared);
    const [float] = lower(program).run([image]);
    const [logits] = lower(quantized).run([image]);
    const file = createHash("sha256").update(savePt2(quantized)).digest("hex");
    const result = { float: Array.from(float.data), logits: Array.from(logits.data), file };
    console.log(JSON.stringify({ ...(await capabilities()), result }));`;
  return JSON.parse(
    execFileSync(process.execPath, [...nodeFlags, "--input-type=module", "-e", script], { cwd: root, timeout: 60000 }),
  );
}

// What the module itself finds of the engine's 8-bit products says which file the loader is to choose.
const suffix = /^8-bit/.test(evaluate(flags, { wasm: "qdq-relaxed.wasm" }).integerProducts) ? "-relaxed" : "";

test("an engine with exact 8-bit products gets the module that uses them, any other the plain one", () => {
  const { module, relaxedSimd, threads, integerProducts } = evaluate(flags, {});
  expect({ module, relaxedSimd, threads }).toEqual({ module: `qdq${suffix}.wasm`, relaxedSimd: true, threads: 1 });
  expect(integerProducts).toMatch(suffix === "" ? "16-bit dot product" : /^8-bit dot product/);
});

// Node 24 on x86 knows the flag; it takes the instruction away, as on a processor that lacks it.
const withoutVnni = "--no-enable-avx-vnni";
const canLoseVnni = suffix !== "" && spawnSync(process.execPath, [withoutVnni, "-e", "1"]).status === 0;
(canLoseVnni ? test : test.skip)("without VNNI the loader takes the plain module, which gives the same", () => {
  const plain = evaluate([...flags, withoutVnni], {});
  expect(plain).toMatchObject({ module: "qdq.wasm", relaxedSimd: true, integerProducts: "16-bit dot product" });
  expect(evaluate(flags, {}).result).toEqual(plain.result);
});

test("asking for threads loads the module that has them", () => {
  expect(evaluate(flags, { threads: 2 })).toMatchObject({ module: `qdq-threads${suffix}.wasm`, threads: 2 });
  expect(evaluate(flags, { wasm: "qdq.wasm", threads: 2 })).toMatchObject({ module: "qdq.wasm", threads: 1 });
});

test("every module writes the same file and computes the same outputs with any number of threads", () => {
  const { result, integerProducts } = evaluate([], { wasm: "qdq.wasm" });
  expect(integerProducts).toBe("16-bit dot product");
  expect(evaluate(flags, { wasm: "qdq-relaxed.wasm" }).result).toEqual(result);
  for (const threads of [1, 2, 3]) {
    for (const [nodeFlags, wasm] of [
      [[], "qdq-threads.wasm"],
      [flags, "qdq-threads-relaxed.wasm"],
    ]) {
      expect(evaluate(nodeFlags, { wasm, threads })).toMatchObject({ module: wasm, threads, result });
    }
  }
});

// Blocks that the module's memory would have to grow for, one way or the other.
test("a module takes no more memory than it is allowed, with threads or without", () => {
  const script = `
    import { readFile } from "node:fs/promises";
    import { configure, loadPt2, lower, preparePt2e, tensor } from "./dist/esm/node/index.js";
    const memories = new Set();
    const { instantiate } = WebAssembly;
    WebAssembly.instantiate = async (module, imports) => {
      const instance = await instantiate(module, imports);
      for (const each of [...Object.values(instance.exports), ...Object.values(imports).flatMap(Object.values)])
        if (each instanceof WebAssembly.Memory) memories.add(each);
      return instance;
    };
    configure({ maxMemory: 100e6, threads: Number(process.argv[1]) });
    const program = await loadPt2(await readFile("examples/shapes/model.pt2"));
    const session = lower(program);
    const kept = [];
    const said = [];
    const image = (count) => tensor(new Float32Array(count * 3 * 40 * 40), [count, 3, 40, 40]);
    const fill = () => {
      for (;;) kept.push(preparePt2e(program, { quantizer: "XNNPACKQuantizer", global: {} }));
    };
    for (const work of [() => session.run([image(1000)]), fill])
      try { work(); } catch ({ code, message }) { said.push({ code, message }); }
    while (kept.length > 0) kept.pop().dispose();
    const [{ shape }] = session.run([image(1)]);
    const [{ buffer }] = memories;
    console.log(JSON.stringify({ said, shape, memories: memories.size, bytes: buffer.byteLength }));
    process.exit();`;
  for (const threads of ["1", "2"]) {
    const answer = JSON.parse(
      execFileSync(process.execPath, ["--input-type=module", "-e", script, threads], { cwd: root, timeout: 60000 }),
    );
    expect(answer).toMatchObject({
      shape: [1, 16],
      memories: 1,
      said: [{ code: "OutOfMemory" }, { code: "OutOfMemory" }],
    });
    for (const { message } of answer.said)
      expect(message).toMatch(
        / left of the 100 MB that configure\(\{ maxMemory \}\) allows; use smaller batches, or allow more/,
      );
    expect(answer.bytes).toBeLessThanOrEqual(100e6);
    expect(answer.bytes).toBeGreaterThan(50e6);
  }
});

// Jest would not end if a worker kept the process alive.
test("a CommonJS module has threads too, and an error in one of many calls leaves them in order", async () => {
  qdq.configure({ threads: 3 });
  expect(await qdq.capabilities()).toMatchObject({
    module: expect.stringMatching(/^qdq-threads(-relaxed)?\.wasm$/),
    threads: 3,
  });
  const bytes = readFileSync(path.join(root, "examples/shapes/model.pt2"));
  await expect(qdq.loadPt2(bytes.subarray(0, 3000))).rejects.toMatchObject({ code: "BadFile" });
  const session = qdq.lower(await qdq.loadPt2(bytes));
  const image = qdq.tensor(new Float32Array(3 * 40 * 40).fill(0.5), [1, 3, 40, 40]);
  const [first] = session.run([image]);
  expect(() => session.run([qdq.tensor(new Float32Array(4), [1, 4])])).toThrow(qdq.QdqError);
  for (let i = 0; i < 200; ++i) expect(session.run([image])[0].data).toEqual(first.data);
  expect(first.data.buffer).toBeInstanceOf(ArrayBuffer);
});
