// Decoders that generate, in both entries: the tokens of PyTorch (tests/golden/make_decoder.py), as natively.
const { readFileSync } = require("node:fs");
const path = require("node:path");
const run = require("../../dist/cjs/node/run.js");
const { qdq, thrown } = require("./shapes.js");

const model = () => readFileSync(path.join(__dirname, "../../examples/decoder/decoder.pt2"));
const prompt = [5, 9, 33, 2];
const following = [8, 41, 63, 36, 58, 16, 31, 46, 20, 25, 63, 36, 58, 16, 31, 46];

async function all(tokens) {
  const out = [];
  for await (const token of tokens) out.push(token);
  return out;
}

test("tokens are those of PyTorch, each time anew", async () => {
  for (const entry of [qdq, run]) {
    const decoder = entry.lowerDecoder(await entry.loadPt2(model()));
    expect(decoder.capacity).toBe(24);
    expect(await all(decoder.generate(prompt, { maxTokens: 16 }))).toEqual(following);
    expect(await all(decoder.generate(prompt, { maxTokens: 16, stop: [63] }))).toEqual([8, 41, 63]);
    const plain = entry.lowerDecoder(await entry.loadPt2(model()), { backend: "reference", fuse: false });
    expect(await all(plain.generate(prompt, { maxTokens: 6 }))).toEqual(following.slice(0, 6));
  }
});

test("equal seeds draw equal tokens, those of the native build", async () => {
  const decoder = run.lowerDecoder(await run.loadPt2(model()));
  const drawn = (seed) => all(decoder.generate(prompt, { maxTokens: 8, temperature: 2, topK: 20, seed }));
  expect(await drawn(5)).toEqual([36, 23, 28, 4, 20, 55, 37, 16]);
  expect(await drawn(6)).not.toEqual([36, 23, 28, 4, 20, 55, 37, 16]);
});

test("other work goes on between tokens, and a signal ends the loop", async () => {
  const decoder = run.lowerDecoder(await run.loadPt2(model()));
  const controller = new AbortController();
  const seen = [];
  await expect(
    (async () => {
      for await (const token of decoder.generate(prompt, { maxTokens: 16, signal: controller.signal })) {
        seen.push(token);
        if (seen.length === 1) setImmediate(() => seen.push("other work"));
        if (seen.length === 4) controller.abort(new Error("enough"));
      }
    })(),
  ).rejects.toThrow("enough");
  expect(seen).toEqual([8, "other work", 41, 63]);
});

test("what does not fit is said in one sentence", async () => {
  const decoder = run.lowerDecoder(await run.loadPt2(model()));
  const error = (ids, options) =>
    all(decoder.generate(ids, options)).then(
      () => "",
      ({ message }) => message,
    );
  expect(await error(prompt, { maxTokens: 30 })).toBe(
    "a prompt of 4 tokens and 30 new ones do not fit into the decoder's cache of 24 places; ask for at most 21",
  );
  expect(await error([64], { maxTokens: 1 })).toMatch("is not a token of the decoder; it has those from 0 to 63");
  expect(await error([0.5], { maxTokens: 1 })).toBe("the prompt has 0.5, wanted the ids of tokens");
  for (const none of [new DataView(new ArrayBuffer(8)), { [Symbol.asyncIterator]: () => ({}) }])
    expect(await error(none, { maxTokens: 1 })).toMatch(/^the prompt is .*, wanted the ids of tokens$/);
  expect(await error([5, undefined], { maxTokens: 1 })).toBe("the prompt has undefined, wanted the ids of tokens");
  expect(await error(prompt, { maxTokens: 1.5 })).toBe("maxTokens is 1.5, wanted a whole number from 1 on");
  expect(await error(prompt, { maxTokens: 1, topk: 3 })).toBe("generate has no option topk; did you mean topK?");
  const first = decoder.generate(prompt, { maxTokens: 4 });
  expect((await first.next()).value).toBe(8);
  expect(await all(decoder.generate(prompt, { maxTokens: 2 }))).toEqual([8, 41]);
  await expect(first.next()).rejects.toThrow("generate() of this decoder was called again");
  const shapes = await qdq.loadPt2(readFileSync(path.join(__dirname, "../../examples/shapes/model.pt2")));
  expect(thrown(() => qdq.lowerDecoder(shapes)).message).toMatch("the model takes no token ids");
});

test("sessions keep the state of a program's buffers until reset()", async () => {
  const program = await run.loadPt2(model());
  const [session, other] = [run.lower(program), run.lower(program)];
  const step = (of, ids, place) =>
    of.run([
      run.tensor(BigInt64Array.from(ids, BigInt), [1, ids.length]),
      run.tensor(
        BigInt64Array.from(ids, (_, i) => BigInt(place + i)),
        [ids.length],
      ),
    ])[0].data;
  step(session, prompt, 0);
  const second = step(session, [8], 4);
  expect(step(other, [8], 4)).not.toEqual(second);
  session.reset();
  step(session, prompt, 0);
  expect(step(session, [8], 4)).toEqual(second);
});
