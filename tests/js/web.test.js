// The browser's door, with a server of its own and without a browser: the module comes by fetch.
const { execFile } = require("node:child_process");
const path = require("node:path");
const { promisify } = require("node:util");

const root = path.join(__dirname, "../..");

test("fetches the module, says why if it cannot, and then tries again", async () => {
  const script = `
    import { createServer } from "node:http";
    import { readFile } from "node:fs/promises";
    import { configure, loadPt2, lower, tensor } from "./dist/esm/web/index.js";
    const requests = [];
    const server = createServer(async ({ url }, response) => {
      if (requests.push(url) === 1) return void response.writeHead(503).end();
      response.writeHead(200, { "content-type": "application/wasm" }).end(await readFile("dist" + url));
    });
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    configure({ wasm: new URL("http://127.0.0.1:" + server.address().port + "/qdq.wasm") });
    const model = await readFile("examples/shapes/model.pt2");
    const error = await loadPt2(model).catch((reason) => reason);
    const program = await loadPt2(model);
    await loadPt2(model);
    server.close();
    const [logits] = lower(program).run([tensor(new Float32Array(3 * 40 * 40), [1, 3, 40, 40])]);
    console.log(JSON.stringify([error.code, error.message.includes("503"), requests, logits.shape]));`;
  const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", script], { cwd: root });
  expect(JSON.parse(stdout)).toEqual(["Io", true, ["/qdq.wasm", "/qdq.wasm", "/qdq-quantize.wasm"], [1, 16]]);
});

test("what only runs quantized programs never fetches the part that quantizes, and is told how to", async () => {
  const script = `
    import { createServer } from "node:http";
    import { readFile } from "node:fs/promises";
    import { capabilities, configure, loadPt2, loadQuantization, lower, savePt2, tensor } from "./dist/esm/web/index.js";
    const [first, second] = process.argv.slice(1);
    const requests = [];
    const server = createServer(async ({ url }, response) => {
      requests.push(url);
      response.writeHead(200, { "content-type": "application/wasm" }).end(await readFile("dist" + url));
    });
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    const at = (file) => new URL("http://127.0.0.1:" + server.address().port + "/" + file);
    configure({ wasm: at(first), ...(second && { quantizeWasm: at(second) }) });
    const bytes = await readFile(process.env.QDQ_INT8);
    const program = await loadPt2(bytes);
    // What is computed and what is said, which takes constants from both parts if they were cut wrongly.
    const image = tensor(Float32Array.from({ length: 3 * 40 * 40 }, (_, i) => Math.sin(i)), [1, 3, 40, 40]);
    const look = async () => {
      const messages = [];
      for (const work of [() => lower(program).run([]), () => loadPt2(bytes.subarray(0, 5000)), () => loadPt2(bytes.subarray(0, bytes.length - 9))])
        await Promise.resolve().then(work).catch(({ message }) => messages.push(message));
      return JSON.stringify([Array.from(lower(program).run([image])[0].data), program.info(), messages]);
    };
    const [{ shape }] = lower(program).run([image]);
    const alone = await look();
    const quantizes = (await capabilities()).quantizes, error = (() => { try { savePt2(program); } catch (reason) { return reason; } })();
    const fetched = [...requests];
    const refused = await loadQuantization().then(() => "", (reason) => reason.message);
    server.close();
    const same = (await look()) === alone, refusals = JSON.parse(alone)[2].length;
    console.log(JSON.stringify({ same, refusals, shape, quantizes, code: error.code, message: error.message, fetched, refused, saved: refused ? 0 : savePt2(program).length }));`;
  const { mkdtempSync, rmSync, writeFileSync, readFileSync } = require("node:fs");
  const qdq = require("../../dist/cjs/node/index.js");
  const folder = mkdtempSync(path.join(require("node:os").tmpdir(), "qdq-"));
  try {
    const program = await qdq.loadPt2(readFileSync(path.join(root, "examples/shapes/model.pt2")));
    const prepared = qdq.preparePt2e(program, new qdq.XNNPACKQuantizer().setGlobal(qdq.getSymmetricQuantizationConfig()));
    prepared.run([qdq.tensor(new Float32Array(2 * 3 * 40 * 40).map((_, i) => Math.sin(i)), [2, 3, 40, 40])]);
    const bytes = qdq.savePt2(qdq.convertPt2e(prepared));
    const file = path.join(folder, "int8.pt2");
    writeFileSync(file, bytes);
    const answer = async (...parts) => {
      const environment = { ...process.env, QDQ_INT8: file };
      const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", script, "--", ...parts], { cwd: root, env: environment });
      return JSON.parse(stdout);
    };
    const said = await answer("qdq.wasm");
    expect(said).toMatchObject({ same: true, refusals: 3, shape: [1, 16], quantizes: false, code: "InvalidArgument", fetched: ["/qdq.wasm"], refused: "", saved: bytes.length });
    expect(said.message).toMatch(/loadQuantization\(\)/);
    // Parts of two modules would call each other's functions by wrong numbers.
    expect((await answer("qdq.wasm", "qdq-relaxed-quantize.wasm")).refused).toMatch(/not parts of one/);
    expect((await answer("qdq.wasm", "qdq.wasm")).refused).toMatch(/not parts of one/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
