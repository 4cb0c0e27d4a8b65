// What a command line is about, as far as the choice of the module depends on it: nothing has read its words yet.
import { readdirSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";

// Weights of so many bytes, what is made of them, and the values of a run may not fit into 4 GB.
export const largeModel = 2 ** 30;

const bytesOf = (path: string): number => {
  try {
    const stat = statSync(path);
    return stat.isFile() ? stat.size : 0;
  } catch {
    return 0;
  }
};

// The bytes of the largest model that the words name. Of an ONNX model the files count that lie beside it and whose
// names begin with its own: model.onnx.data, model.onnx_data, model.data.
export function bytesNamed(words: readonly string[]): number {
  return words.reduce((most, word) => {
    const path = word.replace(/^--[\w-]+=/, "");
    const size = bytesOf(path);
    if (size === 0 || !path.endsWith(".onnx")) return Math.max(most, size);
    const model = basename(path, ".onnx");
    const all = readdirSync(dirname(path)).filter((name) => name.startsWith(`${model}.`));
    return Math.max(
      most,
      all.reduce((sum, name) => sum + bytesOf(join(dirname(path), name)), 0),
    );
  }, 0);
}

// What --max-memory allows; 0 if it is not there, or is no size, which the program refuses in words.
export function memoryAllowed(words: readonly string[]): number {
  const text = /(?:^|\0)--max-memory[=\0]([\d.]+) ?([kMGT]?)(i?)B?(?:\0|$)/.exec(words.join("\0"));
  if (!text) return 0;
  const [, number, prefix, binary] = text;
  return Number(number) * (binary ? 1024 : 1000) ** " kMGT".indexOf(prefix || " ");
}
