// Small networks that the native program quantizes, in ONNX Runtime: `node tests/onnx_runtime/run.mjs`.
//
// What a file calls quantized is a convolution or product whose inputs DequantizeLinear gives, moved perhaps, or an
// operator of integers. What runs in integers is told by the graph that ONNX Runtime writes once it is optimized: all
// that is called quantized must. Each form of a file (QDQ, operators of integers, weights in groups as MatMulNBits or
// as blocks) must give what `qdq run` gives of it, as far as one step of rounding goes.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { attentionPool, convolutional, npy, perceptron, transformer } from "./networks.mjs";
import { onnxNodes } from "./protobuf.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const [qdq, ...before] = (process.env.QDQ ?? join(root, "build/native/qdq")).split(" ");
const ort = createRequire(join(root, "build/onnxruntime/"))("onnxruntime-node");
const folder = mkdtempSync(join(tmpdir(), "qdq-onnx-runtime-"));
const file = (name) => join(folder, name);
const run = (...words) => execFileSync(qdq, [...before, ...words], { stdio: ["ignore", "pipe", "pipe"] }).toString();

// Without VNNI ONNX Runtime's sums of u8 times s8 saturate unless weights have 7 bits. Those of ONNX Runtime Web do
// not, so that its files have no such setting, and are not run here.
const hasVnni = /vnni/i.test(run("--version"));
const exactly = hasVnni ? [] : ["--weight-bits", "7"];
if (!hasVnni) console.log("skipped: --for ort-web, whose weights of 8 bits saturate on this processor without VNNI");

const PRODUCTS = ["Conv", "ConvTranspose", "MatMul", "Gemm"];
const MOVES = ["Flatten", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"];
const IN_INTEGERS = [
  ...["QLinearConv", "ConvInteger", "QLinearMatMul", "QGemm", "MatMulInteger", "MatMulIntegerToFloat"],
  "DynamicQuantizeMatMul",
];
const count = (nodes, ops) => nodes.filter((node) => ops.includes(node.op)).length;

function calledQuantized(nodes) {
  const dequantized = new Set();
  let out = count(nodes, IN_INTEGERS);
  for (const { op, inputs, outputs } of nodes) {
    if (op === "DequantizeLinear" || (MOVES.includes(op) && dequantized.has(inputs[0]))) dequantized.add(outputs[0]);
    if (PRODUCTS.includes(op) && inputs.slice(0, 2).every((name) => dequantized.has(name))) out += 1;
  }
  return out;
}

async function session(path) {
  const optimizedModelFilePath = `${path}.optimized`;
  const options = { graphOptimizationLevel: "extended", optimizedModelFilePath, logSeverityLevel: 4 };
  const made = await ort.InferenceSession.create(path, { ...options, intraOpNumThreads: 1, interOpNumThreads: 1 });
  return { session: made, optimized: onnxNodes(readFileSync(optimizedModelFilePath)) };
}

function floatsOf(npz) {
  // The only array of an uncompressed .npz, behind the header of the .npy in it.
  const bytes = readFileSync(npz);
  const at = bytes.indexOf(Buffer.from([0x93, ...Buffer.from("NUMPY")]));
  const begin = at + 10 + bytes.readUInt16LE(at + 8);
  const sizes = /'shape': \(([^)]*)\)/.exec(bytes.subarray(at, begin).toString("latin1"))[1];
  const length = sizes.split(",").reduce((product, size) => product * (size.trim() ? Number(size) : 1), 1);
  return new Float32Array(bytes.buffer.slice(bytes.byteOffset + begin, bytes.byteOffset + begin + 4 * length));
}

const decibels = (a, b) => {
  const squares = (of) => of.reduce((sum, value) => sum + value * value, 0);
  return 10 * Math.log10(squares(a) / Math.max(squares(a.map((value, i) => value - b[i])), 1e-30));
};

const failures = [];
const expect = (holds, sentence) => holds || failures.push(sentence);

// ONNX Runtime's answer to the test sample of a network, and its optimized graph.
async function answer(path, test) {
  const { session: made, optimized } = await session(path);
  const { y } = await made.run({ x: new ort.Tensor("float32", test.data, test.shape) });
  return { y: y.data, optimized };
}

async function check(name, path, test, least) {
  const nodes = onnxNodes(readFileSync(path));
  const { y, optimized } = await answer(path, test);
  const [called, found] = [calledQuantized(nodes), count(optimized, IN_INTEGERS)];
  run("run", path, "--inputs", file(test.name), "-o", file("y.npz"));
  const agreement = decibels(floatsOf(file("y.npz")), y);
  console.log(
    `${name.padEnd(44)} ${String(found).padStart(3)} of ${called} in integers, ${statSync(path).size} bytes, ` +
      `${agreement.toFixed(1)} dB from qdq`,
  );
  expect(found === called, `${name}: ${called} products are quantized, and ${found} run in integers`);
  expect(agreement > least, `${name}: ONNX Runtime is ${agreement.toFixed(1)} dB from qdq, wanted ${least}`);
  return { nodes, y, called };
}

const networks = { convolutional, perceptron, transformer };
for (const [network, make] of Object.entries(networks)) {
  const { model, input } = make();
  const [model0, samples] = [file(`${network}.onnx`), file(`${network}-samples.npy`)];
  writeFileSync(model0, model);
  writeFileSync(samples, npy(8 * input[0], input.slice(1)).bytes);
  const test = { ...npy(input[0], input.slice(1)), name: `${network}-test.npy` };
  writeFileSync(file(test.name), test.bytes);
  const batch = ["--batch-size", String(input[0])];
  const quantize = (name, ...words) => {
    run("quantize", model0, ...words, "-o", file(`${network}-${name}.onnx`));
    return file(`${network}-${name}.onnx`);
  };
  const exact = (await answer(model0, test)).y;
  for (const runtime of hasVnni ? ["ort", "x86", "ort-web"] : ["ort", "x86"]) {
    const bits = runtime === "x86" ? [] : exactly;
    const path = quantize(runtime, "--for", runtime, "--calibrate", samples, ...batch, ...bits);
    const { y, called } = await check(`${network}, --for ${runtime}`, path, test, 40);
    expect(called > 0, `${network}, --for ${runtime}: nothing is quantized`);
    expect(decibels(exact, y) > 20, `${network}, --for ${runtime}: ${decibels(exact, y)} dB from the float model`);
  }
  await check(`${network}, --dynamic`, quantize("dynamic", "--for", "ort", "--dynamic", ...exactly), test, 40);
  const words = ["--calibrate", samples, ...batch, "--for", "ort", ...exactly];
  const { nodes, y } = await check(
    `${network}, --onnx-format qoperator`,
    quantize("qoperator", ...words, "--onnx-format", "qoperator"),
    test,
    40,
  );
  const ofIntegers = count(nodes, ["QLinearConv", "QGemm", "QLinearMatMul", "QLinearAdd", "MatMulIntegerToFloat"]);
  expect(ofIntegers > 0, `${network}: no operator of integers`);
  const qdqFile = (await answer(quantize("qdq", ...words), test)).y;
  expect(decibels(qdqFile, y) > 40, `${network}: operators of integers are ${decibels(qdqFile, y)} dB from QDQ`);
}

// Softmax of integers as PyTorch's quantizers make it, for no runtime: ONNX Runtime's kernel for it wraps around what
// lies beyond the range.
{
  const { model, input } = attentionPool();
  writeFileSync(file("pool.onnx"), model);
  writeFileSync(file("pool-samples.npy"), npy(16, input.slice(1), 0.3).bytes);
  const test = { ...npy(1, input.slice(1)), name: "pool-test.npy" };
  writeFileSync(file(test.name), test.bytes);
  run("quantize", file("pool.onnx"), "--calibrate", file("pool-samples.npy"), "-o", file("pool.int8.onnx"), ...exactly);
  await check("softmax of integers", file("pool.int8.onnx"), test, 40);
}

// Weights in groups: bits, the form that is asked for, whether ONNX Runtime multiplies them as MatMulNBits, and the
// least agreement. What it joins of blocks it multiplies in int8 (accuracy level 4) unless its session asks for floats.
for (const [bits, form, isJoined, least] of [
  ["4", "", true, 80],
  ["8", "", false, 80],
  ["4", "matmul-nbits", true, 80],
  ["8", "matmul-nbits", true, 80],
  ["4", "blocks", true, 40],
  ["8", "blocks", true, 40],
]) {
  const name = `transformer, ${bits} bits in groups, ${form || "default"}`;
  const path = file(`groups-${bits}-${form}.onnx`);
  const groups = ["--weights-only", "--weight-bits", bits, "--group-size", "32"];
  run("quantize", file("transformer.onnx"), ...groups, ...(form ? ["--onnx-groups", form] : []), "-o", path);
  const test = { ...npy(1, [12, 64]), name: "groups-test.npy" };
  writeFileSync(file(test.name), test.bytes);
  const { y, optimized } = await answer(path, test);
  run("run", path, "--inputs", file(test.name), "-o", file("y.npz"));
  const agreement = decibels(floatsOf(file("y.npz")), y);
  const joined = count(optimized, ["MatMulNBits"]);
  console.log(
    `${name.padEnd(44)} ${joined} MatMulNBits, ${statSync(path).size} bytes, ${agreement.toFixed(1)} dB from qdq`,
  );
  expect(agreement > least, `${name}: ONNX Runtime is ${agreement} dB from qdq`);
  expect(joined === (isJoined ? 6 : 0), `${name}: ${joined} MatMulNBits of 6 layers`);
}

for (const failure of failures) console.error(`onnx_runtime: ${failure}`);
rmSync(folder, { recursive: true });
process.exit(failures.length === 0 ? 0 : 1);
