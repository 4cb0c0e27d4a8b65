// All heavy work of the page: one model, its data, and what became of them.
import { QdqError, capabilities, compareLayers, convertPt2e, explain, loadPt2, lower, openData, preparePt2e, savePt2 } from "qdq";
import { quantizationReport, reportHtml } from "qdq";
import type { Data, Files, LayerError, Prepared, Program, Recipe, Session, Tensor } from "qdq";
import { isImage } from "./page.js";
import type { DataChoice, DataInfo, Evaluation, FromWorker, Methods, ModelInfo, NamedFile, Picture, Quantized } from "./protocol.js";
import type { SampleScores, Stage, ToWorker } from "./protocol.js";

type Progress = (stage: Stage) => void;

let model: { program: Program; bytes: number } | undefined;
const opened: { calibration?: Opened; test?: Opened } = {};
let result: { prepared: Prepared; quantized: Program } | undefined;

interface Opened {
  data: Data;
  labels: number[] | undefined;
}

function need<T>(value: T | undefined, what: string): T {
  if (value === undefined) throw new QdqError("InvalidArgument", what);
  return value;
}
const program = (): Program => need(model, "no model is open; drop a .pt2 file first").program;

// Only workers have it, so TypeScript's library of the page does not.
declare class FileReaderSync {
  readAsArrayBuffer(blob: Blob): ArrayBuffer;
}
const reader = new FileReaderSync();
const filesOf = (files: readonly NamedFile[]): Files =>
  new Map(files.map(({ name, file }) => [name, () => new Uint8Array(reader.readAsArrayBuffer(file))]));

function openChoice({ files, ...settings }: DataChoice): Opened {
  const data = openData(program(), filesOf(files), settings);
  return { data, labels: settings.labels === undefined ? undefined : data.labels() };
}

// The first image of a batch [N, C, H, W] or [N, H, W, C] as it looks when the normalization is taken back.
function pictureOf(input: Tensor, preprocess: Record<string, unknown>): Picture {
  const last = preprocess.layout === "NHWC";
  const [, a = 1, b = 1, c = 1] = input.shape;
  const [channels, height, width] = last ? [c, a, b] : [a, b, c];
  const list = (name: string, otherwise: number): number[] => {
    const value = preprocess[name] ?? otherwise;
    return Array.isArray(value) ? value : [value as number];
  };
  const mean = list("mean", 0),
    std = list("std", 1),
    scale = (preprocess.scale as number | undefined) ?? 1 / 255;
  const pixels = new Uint8ClampedArray(4 * width * height).fill(255);
  for (let i = 0; i < width * height; ++i) {
    for (let k = 0; k < 3; ++k) {
      const bgr = preprocess.channel_order === "BGR" && channels === 3;
      const from = Math.min(bgr ? 2 - k : k, channels - 1);
      const value = Number(input.data[last ? i * channels + from : from * width * height + i]);
      pixels[4 * i + k] = (value * (std[from] ?? std[0]!) + (mean[from] ?? mean[0]!)) / scale;
    }
  }
  return { width, height, pixels };
}

// The rows of output 0 [samples, classes]; undefined for outputs of another kind.
function rowsOf(output: Tensor | undefined): Float32Array[] | undefined {
  if (!output || output.shape.length !== 2 || !(output.data instanceof Float32Array)) return undefined;
  const [samples = 0, classes = 0] = output.shape,
    data = output.data;
  return Array.from({ length: samples }, (_, i) => data.subarray(i * classes, (i + 1) * classes));
}

// Of equal scores the lower class comes first, as on the command line.
function best(scores: Float32Array, count: number): SampleScores["float"] {
  const most = scores.reduce((a, b) => Math.max(a, b), -Infinity);
  const shares = Array.from(scores, (score) => Math.exp(score - most));
  const sum = shares.reduce((a, b) => a + b, 0);
  return Array.from(scores.keys())
    .sort((a, b) => scores[b]! - scores[a]! || a - b)
    .slice(0, count)
    .map((index) => ({ class: index, share: shares[index]! / sum }));
}

// Runs a session; adds the seconds that it took.
function timed(session: Session, inputs: readonly Tensor[], clock: { seconds: number }): Tensor {
  const began = performance.now();
  const [output] = session.run(inputs);
  clock.seconds += (performance.now() - began) / 1000;
  return need(output, "the model has no outputs");
}

// Methods never wait for anything but the module: to stop them the page ends the worker.
type Handlers = { [M in keyof Methods]: (progress: Progress, ...args: Parameters<Methods[M]>) => Promise<ReturnType<Methods[M]>> };
const methods: Handlers = {
  async warm(): Promise<void> {
    await capabilities();
  },

  async open(_progress, file): Promise<ModelInfo> {
    const bytes = new Uint8Array(await file.arrayBuffer());
    const loaded = await loadPt2(bytes);
    model = { program: loaded, bytes: bytes.length };
    return { program: loaded.info(), bytes: bytes.length };
  },

  async openData(_progress, use, choice): Promise<DataInfo> {
    const fresh = openChoice(choice);
    opened[use]?.data.dispose();
    opened[use] = fresh;
    const { data, labels } = fresh;
    return { samples: data.numSamples, batches: data.numBatches, files: data.files, ...(labels && { labels }) };
  },

  async preview(_progress, choice, index): Promise<Picture> {
    const images = choice.files.filter(({ name }) => isImage(name));
    const image = need(images[index], "there is no such image");
    const fixed = program().info().inputs[0]?.shape?.[0];
    // A program with a fixed batch gets as many copies of the image.
    const copies = typeof fixed === "number" ? fixed : 1;
    const files = Array.from({ length: copies }, (_, i) => ({ name: copies === 1 ? image.name : `${i}/${image.name}`, file: image.file }));
    using data = openData(program(), filesOf(files), { preprocess: choice.preprocess, batchSize: 1 });
    return pictureOf(data.batch(0)[0]!, choice.preprocess);
  },

  async explain(_progress, recipe: Recipe) {
    using prepared = preparePt2e(program(), recipe);
    return explain(prepared);
  },

  async quantize(progress, recipe): Promise<Quantized> {
    const { data } = need(opened.calibration, "there is no calibration data; drop images or an .npz first");
    const began = performance.now();
    const prepared = preparePt2e(program(), recipe);
    try {
      let shown = 0;
      progress({ stage: "Calibrating", done: 0, total: data.numBatches });
      for (let i = 0; i < data.numBatches; ++i) {
        prepared.run(data.batch(i));
        const stage: Stage = { stage: "Calibrating", done: i + 1, total: data.numBatches };
        const now = performance.now();
        // Histograms may cost a tenth of the time.
        if (now >= shown || i + 1 === data.numBatches) {
          stage.observers = prepared.calibration();
          shown = performance.now() + Math.max(400, 10 * (performance.now() - now));
        }
        progress(stage);
      }
      const calibrated = performance.now();
      progress({ stage: "Converting", done: 0, total: 0 });
      const quantized = convertPt2e(prepared);
      const bytes = savePt2(quantized) as Uint8Array<ArrayBuffer>;
      result?.prepared.dispose();
      result?.quantized.dispose();
      result = { prepared, quantized };
      return {
        file: new Blob([bytes], { type: "application/octet-stream" }),
        samples: data.numSamples,
        seconds: { calibrate: (calibrated - began) / 1000, convert: (performance.now() - calibrated) / 1000 },
        report: quantizationReport(prepared, quantized),
      };
    } finally {
      if (result?.prepared !== prepared) prepared.dispose();
    }
  },

  async compare(progress): Promise<LayerError[]> {
    const { prepared, quantized } = need(result, "nothing is quantized yet");
    const { data } = need(opened.calibration, "there is no calibration data");
    using comparison = compareLayers(prepared, quantized);
    const batches = Math.min(data.numBatches, Math.max(1, Math.floor((32 * data.numBatches) / data.numSamples)));
    progress({ stage: "Comparing layers", done: 0, total: batches });
    for (let i = 0; i < batches; ++i) {
      comparison.add(data.batch(i));
      progress({ stage: "Comparing layers", done: i + 1, total: batches });
    }
    return comparison.layers();
  },

  async evaluate(progress, use): Promise<Evaluation> {
    const { quantized } = need(result, "nothing is quantized yet");
    const { data, labels } = need(opened[use] ?? opened.calibration, "there is no data");
    using floatSession = lower(program());
    using int8Session = lower(quantized);
    const clocks = { float: { seconds: 0 }, int8: { seconds: 0 } };
    const predictions: SampleScores[] = [];
    let samples = 0,
      timedSamples = 0,
      same = 0,
      signal = 0,
      noise = 0,
      classifier = true;
    const right: [number, number] = [0, 0];
    progress({ stage: "Running both models", done: 0, total: data.numBatches });
    for (let i = 0; i < data.numBatches; ++i) {
      const inputs = data.batch(i),
        count = inputs[0]?.shape[0] ?? 1;
      // The first batch warms both up and is not timed.
      const warm = i > 0 || data.numBatches === 1;
      if (data.numBatches === 1) [floatSession, int8Session].forEach((session) => session.run(inputs));
      const a = timed(floatSession, inputs, warm ? clocks.float : { seconds: 0 });
      const b = timed(int8Session, inputs, warm ? clocks.int8 : { seconds: 0 });
      if (warm) timedSamples += count;
      for (let k = 0; k < a.data.length; ++k) {
        const x = Number(a.data[k]),
          y = Number(b.data[k]);
        signal += x * x;
        noise += (x - y) ** 2;
      }
      const before = rowsOf(a),
        after = rowsOf(b);
      classifier &&= before !== undefined && after !== undefined;
      before?.forEach((scores, k) => {
        const sample = samples + k,
          quantizedScores = after![k]!;
        const float = best(scores, 3),
          int8 = best(quantizedScores, 3),
          label = labels?.[sample];
        same += Number(float[0]?.class === int8[0]?.class);
        if (label !== undefined) {
          right[0] += Number(float[0]?.class === label);
          right[1] += Number(int8[0]?.class === label);
        }
        const power = scores.reduce((sum, x) => sum + x * x, 0);
        const moved = scores.reduce((sum, x, n) => sum + (x - quantizedScores[n]!) ** 2, 0) / (power || 1);
        predictions.push({ file: data.files[sample] ?? `sample ${sample}`, ...(label !== undefined && { label }), float, int8, moved });
      });
      samples += count;
      progress({ stage: "Running both models", done: i + 1, total: data.numBatches });
    }
    // Other answers than float's first, then those whose scores moved most.
    const other = (sample: SampleScores): number => Number(sample.float[0]?.class !== sample.int8[0]?.class);
    predictions.sort((a, b) => other(b) - other(a) || b.moved - a.moved);
    const percent = 100 / Math.max(1, samples),
      milliseconds = 1000 / Math.max(1, timedSamples);
    return {
      samples,
      classifier,
      sqnr: noise === 0 ? null : 10 * Math.log10(signal / noise),
      ...(classifier && { agreement: same * percent }),
      ...(classifier && labels && { top1: [right[0] * percent, right[1] * percent] as const }),
      speed: { float: clocks.float.seconds * milliseconds, int8: clocks.int8.seconds * milliseconds },
      predictions: predictions.slice(0, 24),
    };
  },

  async observers(): Promise<string> {
    return JSON.stringify(need(result, "nothing is quantized yet").prepared.observers(), null, 1);
  },

  async report(_progress, report): Promise<string> {
    program();
    return reportHtml(report);
  },
};

const post = (message: FromWorker): void => postMessage(message);

async function answer({ id, method, args }: ToWorker): Promise<void> {
  try {
    const handler = methods[method] as (progress: Progress, ...args: readonly unknown[]) => Promise<unknown>;
    post({ id, value: await handler((progress) => post({ id, progress }), ...args) });
  } catch (error) {
    const { message, code, node } = error as QdqError;
    post({ id, error: { message, ...(code && { code }), ...(node && { node }) } });
  }
}

// One call after the other: data belongs to the model that was opened before it.
let turn = Promise.resolve();
onmessage = ({ data }: MessageEvent<ToWorker>) => {
  turn = turn.then(() => answer(data));
};
