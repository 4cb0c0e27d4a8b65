// The worker of pipeline.mjs: one model, from its file to its int8 file and a report.
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { parentPort, workerData } from "node:worker_threads";
import {
  compareLayers,
  convertPt2e,
  evaluate,
  loadPt2,
  openData,
  preparePt2e,
  quantizationReport,
  reportHtml,
  saveOnnx,
  savePt2,
} from "qdq";

const { model, data: folder, place, report } = workerData;
const bytes = readFileSync(model);
const program = await loadPt2(bytes); // reads .onnx, too
const files = new Map(readdirSync(folder).map((name) => [name, () => readFileSync(path.join(folder, name))]));
const preprocess = JSON.parse(readFileSync(path.join(folder, "preprocess.json"), "utf8"));
const hasLabels = existsSync(path.join(folder, "labels.csv"));
const data = openData(program, files, { preprocess, ...(hasLabels && { labels: "labels.csv" }) });

const prepared = preparePt2e(program, { quantizer: "XNNPACKQuantizer", global: { isPerChannel: true } });
await prepared.calibrate(data);
const quantized = convertPt2e(prepared);
const int8 = model.endsWith(".onnx") ? saveOnnx(quantized) : savePt2(quantized);

const comparison = compareLayers(prepared, quantized);
comparison.add(data.batch(0));
const evaluation = evaluate(program, quantized, hasLabels ? data.labels() : []);
for (const batch of data) evaluation.add(batch);
const found = evaluation.report();

writeFileSync(
  report,
  reportHtml({
    ...quantizationReport(prepared, quantized),
    ...found,
    model: path.basename(model),
    made: { date: new Date().toISOString().slice(0, 10), by: "pipeline.mjs" },
    nodes: program.info().nodes,
    bytes: [bytes.length, int8.length],
    samples: data.numSamples,
    errors: comparison.layers(),
  }),
);
writeFileSync(place, int8);
const { top1, agreement } = found.accuracy ?? {};
const score = top1
  ? `top-1 ${top1.map((share) => share.toFixed(1)).join(" -> ")} %`
  : agreement !== undefined
    ? `the float model's answer for ${agreement.toFixed(1)} % of the samples`
    : `${Number(found.sqnr).toFixed(1)} dB`;
parentPort.postMessage(`${bytes.length} -> ${int8.length} bytes, ${score}`);
