// A service with a pool of workers: POST /classify runs an int8 model, POST /quantize makes one. It goes on answering
// while models are quantized, and refuses what is more than it can do.
//   node service.mjs MODEL.int8.pt2 [PORT]
import { readFileSync } from "node:fs";
import { finished } from "node:stream/promises";
import Fastify from "fastify";
import { QdqError, openSession, quantizeModel, tensor } from "qdq/async";

const limits = {
  bytes: 64 << 20, // of what somebody sends
  sessions: 2, // workers that run the model
  waiting: 8, // requests for each of them
  seconds: 60, // for sending a request, and for quantizing a model
};

const [file, port = "8000"] = process.argv.slice(2);
const model = readFileSync(file);
const pool = await Promise.all(
  Array.from({ length: limits.sessions }, async () => ({ session: await openSession(model), waiting: 0 })),
);
let isQuantizing = false;

const app = Fastify({ bodyLimit: limits.bytes, requestTimeout: limits.seconds * 1000 });
app.addContentTypeParser("application/octet-stream", { parseAs: "buffer" }, (_request, body, done) => done(null, body));

// Whoever asks gets the sentence of a QdqError, and 400: the model or the input is not what it should be.
app.setErrorHandler(async (error, request, reply) => {
  const status = error instanceof QdqError ? 400 : error.name === "TimeoutError" ? 504 : (error.statusCode ?? 500);
  // Who still sends what is too long would not read the answer.
  if (status === 413) await finished(request.raw.resume()).catch(() => {});
  return reply.code(status).send({ error: error.message });
});

// {"shape": [1, 3, 40, 40], "data": [...]} -> {"class": 7, "scores": [...]}
app.post("/classify", async (request, reply) => {
  const place = pool.reduce((a, b) => (b.waiting < a.waiting ? b : a));
  if (place.waiting >= limits.waiting) return reply.code(503).send({ error: "too many requests; try again later" });
  place.waiting += 1;
  try {
    const { shape, data } = request.body ?? {};
    const outputs = await place.session.run([tensor(Float32Array.from(data ?? []), shape ?? [])]);
    const scores = Array.from(Object.values(outputs)[0].data);
    return { class: scores.indexOf(Math.max(...scores)), scores };
  } finally {
    place.waiting -= 1;
  }
});

// The bytes of a float model -> those of its int8 form, of the same kind. Activations get their ranges while the model
// runs, so that it needs no data; calibrate it where there is some (examples/pipeline).
app.post("/quantize", async (request, reply) => {
  if (isQuantizing) return reply.code(503).send({ error: "another model is being quantized; try again later" });
  isQuantizing = true;
  try {
    const int8 = await quantizeModel(request.body ?? Buffer.alloc(0), {
      quantizer: { quantizer: "XNNPACKQuantizer", global: { isPerChannel: true, isDynamic: true } },
      signal: AbortSignal.timeout(limits.seconds * 1000),
    });
    return reply.type("application/octet-stream").send(Buffer.from(int8));
  } finally {
    isQuantizing = false;
  }
});

app.addHook("onClose", () => pool.forEach(({ session }) => session.dispose()));
console.log(`listening at ${await app.listen({ port: Number(port), host: "127.0.0.1" })}`);
