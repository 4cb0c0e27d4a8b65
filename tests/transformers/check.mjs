// Classifies sentences with each file of a folder that transformers.js reads: `node check.mjs FOLDER NAME`, the model
// NAME in FOLDER. Fails where a file's answers are not those of the float one, as far as its numbers reach.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { env, pipeline } from "@huggingface/transformers";
import { judge, logitsOf } from "./sentences.mjs";

// On x86 without VNNI the sums of ONNX Runtime saturate where weights are signed (docs/profiles.md), by 1.06 here.
const saturates = process.arch === "x64" && !/avx(512)?_vnni/.test(readFileSync("/proc/cpuinfo", "utf8"));
const signed = saturates ? 1.5 : 0.1;
// How far the logit of GOOD may be from the float model's, by dtype; those are about 8 from zero.
const most = { fp32: 0, fp16: 0.01, q8: signed, int8: signed, uint8: 0.1, q4: 0.5, q4f16: 0.5, bnb4: 0.5 };
// The operator that each file has, and that no file has which is not named for it.
const marks = { MatMulInteger: ["q8", "int8", "uint8"], MatMulNBits: ["q4", "q4f16"], MatMulBnb4: ["bnb4"] };
const endings = { fp32: "", q8: "_quantized" };

const [folder, name] = process.argv.slice(2);
env.allowRemoteModels = false;
env.localModelPath = folder;
const failures = [];
let exact;
for (const [dtype, bound] of Object.entries(most)) {
  const logits = await logitsOf(pipeline, name, { dtype, device: "cpu" });
  exact ??= logits;
  failures.push(...judge(dtype, logits, exact, bound));
  const file = join(folder, name, "onnx", `model${endings[dtype] ?? `_${dtype}`}.onnx`);
  const text = readFileSync(file, "latin1");
  for (const [mark, dtypes] of Object.entries(marks))
    if (text.includes(mark) !== dtypes.includes(dtype)) failures.push(`${file} and ${mark}`);
}
for (const failure of failures) console.error(`transformers: ${failure}`);
process.exit(failures.length === 0 ? 0 : 1);
