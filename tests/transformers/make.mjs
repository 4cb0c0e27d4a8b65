// What `qdq quantize MODEL --for transformers.js -o FOLDER` does, by the package: `node make.mjs MODEL FOLDER`.
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { loadOnnx, transformersJsFiles } from "qdq";

const [model, folder] = process.argv.slice(2);
const program = await loadOnnx(await readFile(model));
for (const { path, bytes } of transformersJsFiles(program)) await writeFile(join(folder, path), bytes);
