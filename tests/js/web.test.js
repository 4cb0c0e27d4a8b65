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
  expect(JSON.parse(stdout)).toEqual(["Io", true, ["/qdq.wasm", "/qdq.wasm"], [1, 16]]);
});
