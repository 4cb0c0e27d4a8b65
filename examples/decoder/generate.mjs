// Streams the ids of the tokens that follow a prompt: node generate.mjs decoder.pt2 5,9,33,2 16
import { readFileSync } from "node:fs";
import { loadPt2, lowerDecoder } from "qdq/run";

const [model, prompt, count] = process.argv.slice(2);
const decoder = lowerDecoder(await loadPt2(readFileSync(model)));
const began = performance.now();
let made = 0;
for await (const token of decoder.generate(prompt.split(",").map(Number), { maxTokens: Number(count) })) {
  process.stdout.write(made === 0 ? `${token}` : ` ${token}`);
  made += 1;
}
process.stdout.write("\n");
console.error(`${((1000 * made) / (performance.now() - began)).toFixed(0)} tokens a second`);
