// Files of models that are read part by part: sources, Blobs and streams give the same program as the bytes do.
const fs = require("node:fs");
const path = require("node:path");
const run = require("../../dist/cjs/node/run.js");
const { model, modelPath, qdq } = require("./shapes.js");

const bytes = model();

// A file on the disk, as docs/web.md reads it, which notes what it was asked for.
function fileSource(path, asked = []) {
  const descriptor = fs.openSync(path, "r");
  const size = fs.fstatSync(descriptor).size;
  const readInto = (offset, out) => {
    asked.push({ offset, count: out.length });
    return fs.readSync(descriptor, out, 0, out.length, offset);
  };
  return { size, readInto };
}

async function* inParts(count) {
  for (let done = 0; done < bytes.length; done += count) yield new Uint8Array(bytes.subarray(done, done + count));
}

const streamOf = (parts) => ReadableStream.from(parts);
const withoutIterator = (stream) => ({ getReader: () => stream.getReader(), [Symbol.toStringTag]: "ReadableStream" });

test.each([
  ["a source", () => fileSource(modelPath)],
  ["a Blob", () => new Blob([bytes])],
  ["a Blob of a file", () => fs.openAsBlob(modelPath)],
  ["an async iterator", () => inParts(1000)],
  ["a stream", () => streamOf(inParts(70_001))],
  ["a stream of an engine whose streams have no iterator", () => withoutIterator(streamOf(inParts(65_536)))],
])("%s gives the program of the bytes", async (_, make) => {
  const [wanted, found] = [await qdq.loadPt2(bytes), await qdq.loadPt2(await make())];
  expect(found.info()).toEqual(wanted.info());
  expect(Buffer.compare(qdq.savePt2(found), qdq.savePt2(wanted))).toBe(0);
  expect((await run.loadPt2(await make())).info()).toEqual(wanted.info());
});

test("a source is asked for parts, of which none is the file", async () => {
  const asked = [];
  await qdq.loadPt2(fileSource(modelPath, asked));
  expect(asked.length).toBeGreaterThan(10);
  for (const { offset, count } of asked) {
    expect(count).toBeLessThanOrEqual(Math.max(1 << 20, bytes.length / 2));
    expect(offset + count).toBeLessThanOrEqual(bytes.length);
  }
});

test("a source that gives too little is refused, and what it throws comes through", async () => {
  const short = { size: bytes.length, readInto: () => 3 };
  await expect(qdq.loadPt2(short)).rejects.toMatchObject({
    code: "Io",
    message: expect.stringMatching(/^the source of the model was asked for \d+ bytes from the byte 0 on and gave 3$/),
  });
  const broken = {
    size: bytes.length,
    readInto() {
      throw new Error("the disk is gone");
    },
  };
  await expect(qdq.loadPt2(broken)).rejects.toThrow("the disk is gone");
  const torn = (async function* () {
    yield bytes.subarray(0, 1000);
    throw new Error("the connection is gone");
  })();
  await expect(qdq.loadPt2(torn)).rejects.toThrow("the connection is gone");
  await expect(qdq.loadPt2(streamOf(["text"]))).rejects.toMatchObject({ code: "InvalidArgument" });
  await expect(qdq.loadPt2(inParts(5000))).resolves.toBeInstanceOf(qdq.Program);
});

test("the code of docs/web.md on files that are read part by part runs", async () => {
  const text = fs.readFileSync(path.join(__dirname, "../../docs/web.md"), "utf8");
  const [, code] = /^```js\n(import \{ closeSync[\s\S]*?)^```/m.exec(text);
  const settings = [];
  const scope = { ...fs, loadPt2: qdq.loadPt2, configure: (given) => settings.push(given) };
  const body = code.replaceAll(/^import .*\n/gm, "").replace('"model.pt2"', JSON.stringify(modelPath));
  const AsyncFunction = (async () => {}).constructor;
  const run = new AsyncFunction(...Object.keys(scope), `${body} return program;`);
  expect((await run(...Object.values(scope))).info()).toEqual((await qdq.loadPt2(bytes)).info());
  expect(settings).toEqual([{ maxMemory: 12e9 }]);
});

test("what is no model is refused by the same sentence, however it comes", async () => {
  const nothing = new Uint8Array(3000).fill(65);
  const words = await qdq.loadPt2(nothing).catch(({ message }) => message);
  expect(words).toMatch(/neither a .pt2 file, .* nor an ONNX model/);
  for (const file of [new Blob([nothing]), { size: 3000, readInto: (_, out) => out.fill(65).length }])
    await expect(qdq.loadPt2(file)).rejects.toMatchObject({ code: "BadFile", message: words });
  const empty = await qdq.loadPt2(new Uint8Array(0)).catch(({ message }) => message);
  await expect(qdq.loadPt2(new Blob([]))).rejects.toMatchObject({ message: empty });
});
