// What one engine makes of the example model: `answers({qdq, run, async, read, threads})` with the package's three
// parts for pages or for Node, and a function that reads a file of the checkout. Equal engines give equal JSON.
const hex = (buffer) => Array.from(new Uint8Array(buffer), (byte) => byte.toString(16).padStart(2, "0")).join("");
const hash = async (bytes) => hex(await crypto.subtle.digest("SHA-256", bytes));

export async function answers({ qdq, run, async, read, threads }) {
  if (threads) qdq.configure({ threads });
  const model = await read("examples/shapes/model.pt2");
  const names = Array.from({ length: 32 }, (_, i) => `${String(i).padStart(3, "0")}.png`);
  const images = new Map();
  for (const name of names) images.set(name, await read(`examples/shapes/calibration/${name}`));
  const preprocess = JSON.parse(new TextDecoder().decode(await read("examples/shapes/preprocess.json")));

  const found = {};
  for (const quantizer of ["XNNPACKQuantizer", "X86InductorQuantizer"]) {
    const program = await qdq.loadPt2(model);
    const data = qdq.openData(program, images, { preprocess });
    const recipe = quantizer === "XNNPACKQuantizer" ? { quantizer, global: { isPerChannel: true } } : { quantizer };
    const prepared = qdq.preparePt2e(program, recipe);
    await prepared.calibrate(data);
    const quantized = qdq.convertPt2e(prepared);
    const file = qdq.savePt2(quantized);
    const batch = data.batch(0);
    const [here] = qdq.lower(quantized).run(batch);
    const [inRun] = run.lower(await run.loadPt2(file)).run(batch);
    const session = await async.openSession(file);
    const [inWorker] = Object.values(await session.run(batch));
    session.dispose();
    found[quantizer] = {
      pt2: await hash(file),
      onnx: await hash(qdq.saveOnnx(quantized)),
      scores: await hash(here.data),
      scoresInRun: await hash(inRun.data),
      scoresInWorker: await hash(inWorker.data),
    };
  }
  return found;
}
