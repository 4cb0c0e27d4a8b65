// Runs the graphs of tests/beside/differential_onnx.py by the npm package, in one process:
//   node tests/beside/differential_onnx.mjs FOLDER
// Outputs go to NAME.node.json, errors to NAME.node.err.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { loadOnnx, lower, openData } from "../dist/esm/node/index.js";

const folder = process.argv[2];
const { made } = JSON.parse(readFileSync(join(folder, "made.json"), "utf8"));
for (const { name } of made) {
  const path = (ending) => join(folder, `${name}.${ending}`);
  let error = "";
  try {
    const program = await loadOnnx(readFileSync(path("onnx")));
    const data = openData(program, new Map([["inputs.npz", readFileSync(path("npz"))]]));
    const session = lower(program);
    const outputs = session.run(data.batch(0)).map(({ dtype, shape, data: numbers }) => ({
      dtype,
      shape,
      bytes: Buffer.from(numbers.buffer, numbers.byteOffset, numbers.byteLength).toString("base64"),
    }));
    writeFileSync(path("node.json"), JSON.stringify(outputs));
    for (const each of [session, data, program]) each.dispose();
  } catch (caught) {
    error = String(caught?.message ?? caught);
  }
  writeFileSync(path("node.err"), error);
}
