// The module for every engine and the one for relaxed SIMD: which is loaded, and that both give the same numbers.
const { execFileSync, spawnSync } = require("node:child_process");
const path = require("node:path");

const root = path.join(__dirname, "../..");
// Node 20 has relaxed SIMD behind a flag, which later ones refuse because they have it anyway.
const flag = "--experimental-wasm-relaxed-simd";
const flags = spawnSync(process.execPath, [flag, "-e", "1"]).status === 0 ? [flag] : [];

function evaluate(nodeFlags, wasm) {
  const script = `
    import { readFile } from "node:fs/promises";
    import { pathToFileURL } from "node:url";
    import { capabilities, configure, convertPt2e, getDefaultX86InductorQuantizationConfig, loadPt2, lower, preparePt2e, savePt2, tensor,
             X86InductorQuantizer } from "./dist/esm/node/index.js";
    ${wasm ? `configure({ wasm: pathToFileURL("dist/${wasm}") });` : ""}
    const program = await loadPt2(await readFile("examples/shapes/model.pt2"));
    const pixels = Float32Array.from({ length: 2 * 3 * 40 * 40 }, (_, i) => Math.sin(i * 0.7) * 2);
    const image = tensor(pixels, [2, 3, 40, 40]);
    const prepared = preparePt2e(program, new X86InductorQuantizer().setGlobal(getDefaultX86InductorQuantizationConfig()));
    prepared.run([image]);
    const quantized = convertPt2e(prepared);
    const [logits] = lower(quantized).run([image]);
    console.log(JSON.stringify({ ...(await capabilities()), logits: Array.from(logits.data), file: Array.from(savePt2(quantized)).length }));`;
  return JSON.parse(execFileSync(process.execPath, [...nodeFlags, "--input-type=module", "-e", script], { cwd: root }));
}

test("an engine with relaxed SIMD gets the module that uses it", () => {
  const chosen = evaluate(flags);
  expect(chosen.relaxedSimd).toBe(true);
  expect(chosen.threads).toBe(1);
  expect(chosen.integerProducts).toMatch(/dot product/);
  expect(chosen.logits).toEqual(evaluate(flags, "qdq-relaxed.wasm").logits);
});

test("every engine can take the plain module, and the integers are the same", () => {
  const plain = evaluate([], "qdq.wasm");
  expect(plain.integerProducts).toBe("16-bit dot product");
  const relaxed = evaluate(flags, "qdq-relaxed.wasm");
  expect(relaxed.logits).toEqual(plain.logits);
  expect(relaxed.file).toBe(plain.file);
});
