// All heavy work of the page: one model, its data, and what became of them.
import {
  QdqError,
  capabilities,
  compareLayers,
  configure,
  convertPt2e,
  evaluate,
  explain,
  loadOnnx,
  loadPt2,
  lower,
  openData,
  preparePt2e,
  reachScore,
  recover,
  runtimeProfile,
  runtimeReport,
  saveOnnx,
  savePt2,
} from "qdq";
import { quantizationReport, reportHtml } from "qdq";
import type { ByteSource, Capabilities, Data, Files, LayerError, Prepared, Program } from "qdq";
import type { Recipe, RemedyResult, RuntimeProfile, Tensor } from "qdq";
import { formatBytes } from "../../src/report/html/dom.js";
import { isImage } from "./page.js";
import type {
  DataChoice,
  DataInfo,
  Equipment,
  Evaluation,
  Explained,
  FromWorker,
  Methods,
  ModelInfo,
  NamedFile,
  Picture,
  Sample,
} from "./protocol.js";
import type { Quantized, QuantizeOptions, Reached, Stage, Target, ToWorker } from "./protocol.js";
import { pictureOf, rowOf, viewOf } from "./samples.js";
import { scoreBeside } from "./score.js";
import { train } from "./training.js";

type Progress = (stage: Stage) => void;

let model: { program: Program; bytes: number } | undefined;
let whyNotWide = ""; // why there are only 4 GB, where the page wanted more
const mostOf32Bits = 2 ** 32;
const opened: { calibration?: Opened; test?: Opened } = {};
let result: { prepared: Prepared; quantized: Program } | undefined;
let secondsPerSample = 0; // that calibration took, which the time of other runs of the model is guessed from

function become(prepared: Prepared, quantized: Program): void {
  result?.prepared.dispose();
  result?.quantized.dispose();
  result = { prepared, quantized };
}

function* batchesOf(data: Data): Generator<Tensor[]> {
  for (let i = 0; i < data.numBatches; ++i) yield data.batch(i);
}

// Stages of 100 percent, told a few times a second.
function inPercent(progress: Progress, title: string): (work: { stage: string; done: number }) => void {
  let told = 0;
  return ({ stage, done }) => {
    if (performance.now() < told + 250) return;
    told = performance.now();
    progress({ stage: `${title}: ${stage}`, done: 100 * done, total: 100, unit: "percent" });
  };
}
const recoverAccuracy = (
  prepared: Prepared,
  data: Data,
  target: Target | undefined,
  progress: Progress,
): Promise<RemedyResult[]> =>
  recover(prepared, batchesOf(data), {
    ...(target && { runtime: target.name }),
    onProgress: inPercent(progress, "Recovering accuracy"),
  });

// Leaves operators in float until the outputs are near enough to the float model's.
async function reach(prepared: Prepared, data: Data, wanted: number, progress: Progress): Promise<Reached> {
  progress({ stage: "Running the float model", done: 0, total: 0 });
  using session = lower(program());
  const { score, unit } = scoreBeside([...batchesOf(data)].map((batch) => session.run(batch)));
  const onProgress = inPercent(progress, "Choosing what stays float");
  return { ...(await reachScore(prepared, batchesOf(data), score, wanted, { onProgress })), wanted, unit };
}

const blobOf = (bytes: Uint8Array): Blob =>
  new Blob([bytes as Uint8Array<ArrayBuffer>], { type: "application/octet-stream" });

// The file that a result is kept as: the .pt2, or the .onnx and why there is no .pt2.
function kept(quantized: Program): Pick<Quantized, "file" | "pt2Problem"> {
  try {
    return { file: blobOf(savePt2(quantized)) };
  } catch (error) {
    if (!(error instanceof QdqError && error.code === "Unsupported")) throw error;
    return { file: blobOf(saveOnnx(quantized)), pt2Problem: error.message };
  }
}

// The .onnx of a quantized program, as its runtime wants it.
async function onnxFor(quantized: Program, target: Target | undefined): Promise<Blob> {
  if (!target) return blobOf(saveOnnx(quantized));
  return blobOf(
    saveOnnx(quantized, {
      ...(await profileOf(target)).onnx,
      ...(target.dedicatedPairs && { dedicatedPairs: true }),
    }),
  );
}

const profileOf = ({ name, activationBits }: Target): Promise<RuntimeProfile> =>
  runtimeProfile(name, { ...(activationBits && { activationBits }) });

// The same, or why there is none.
async function triedOnnx(quantized: Program, { kind, target }: QuantizeOptions): Promise<Partial<Quantized>> {
  if (kind !== ".onnx") return {};
  try {
    return { onnx: await onnxFor(quantized, target) };
  } catch (error) {
    return { onnxProblem: (error as Error).message };
  }
}

interface Opened {
  data: Data;
  preprocess?: Record<string, unknown>; // of images
  labels?: number[];
  folders?: string;
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
const filesOf = (files: readonly NamedFile[]): Files => new Map(files.map(({ name, file }) => [name, file]));

// A file of a model, which is read where its weights go, so that it can be told how far it is.
function sourceOf({ name, file }: NamedFile, progress: Progress): ByteSource {
  const piece = 8 << 20;
  const stage = `Reading ${name}`;
  let done = 0;
  const readInto = (offset: number, out: Uint8Array): number => {
    for (let at = 0; at < out.length; at += piece) {
      const part = out.subarray(at, at + piece);
      part.set(new Uint8Array(reader.readAsArrayBuffer(file.slice(offset + at, offset + at + part.length))));
      done += part.length;
      if (part.length === piece) progress({ stage, done: Math.min(done, file.size), total: file.size, unit: "bytes" });
    }
    return out.length;
  };
  return { size: file.size, readInto };
}

// Whether the (first) array is of uint8, by the header of the .npy file, which is the first in an .npz.
const holdsPixels = ({ name, file }: NamedFile): boolean =>
  /\.np[yz]$/i.test(name) &&
  new TextDecoder("latin1").decode(reader.readAsArrayBuffer(file.slice(0, 512))).includes("'|u1'");

// Files are read when their samples' turn comes, arrays by windows.
function openChoice({ files, ...settings }: DataChoice): Opened {
  const inFolders = files.some(({ name }) => isImage(name) && name.includes("/"));
  const labels = settings.labels ?? (inFolders ? "folders" : undefined);
  // The page has a preprocessing for images at all times; arrays take it if they hold pixels.
  const isPreprocessed = !files.some(({ name }) => /\.np[yz]$/i.test(name)) || files.some(holdsPixels);
  const { preprocess, batchSize, ...others } = settings;
  const isFixed = program()
    .info()
    .inputs.some(({ shape }) => typeof shape?.[0] === "number");
  const data = openData(program(), filesOf(files), {
    ...others,
    ...(!isFixed && { batchSize }),
    ...(isPreprocessed && { preprocess }),
    ...(labels && { labels }),
  });
  const images = data.files.length > 0 && preprocess ? { preprocess } : {};
  if (labels === undefined) return { data, ...images };
  try {
    return { data, labels: data.labels(), ...images };
  } catch (error) {
    // Nobody said that the folders are classes.
    if (settings.labels === undefined) return { data, folders: (error as Error).message, ...images };
    data.dispose();
    throw error;
  }
}

// Trains in place of calibrating. The result is compared with the float model as it was.
async function trained(
  progress: Progress,
  recipe: Recipe,
  options: QuantizeOptions,
  epochs: number,
): Promise<Quantized> {
  const began = performance.now();
  const opens = need(opened.calibration, "there is no data to train on; drop images or an .npz first");
  const { prepared, losses } = train(program(), recipe, opens, epochs, progress);
  try {
    const learnt = performance.now();
    progress({ stage: "Converting", done: 0, total: 0 });
    const quantized = convertPt2e(prepared);
    const answer = {
      ...kept(quantized),
      ...(await triedOnnx(quantized, options)),
      ...(options.target && { runtime: runtimeReport(quantized, options.target.name) }),
      samples: opens.data.numSamples,
      seconds: { calibrate: (learnt - began) / 1000, convert: (performance.now() - learnt) / 1000 },
      report: quantizationReport(prepared, quantized),
      observers: prepared.saveObservers(),
      losses,
    };
    become(preparePt2e(program(), recipe), quantized);
    return answer;
  } finally {
    prepared.dispose();
  }
}

// The samples at these places in the order of the data, with what both models answer where that is wanted.
function samplesAt({ data, preprocess }: Opened, places: readonly number[], quantized: Program | undefined): Sample[] {
  using float = quantized && lower(program());
  using int8 = quantized && lower(quantized);
  const { outputs } = program().info();
  const rowsOfBatch = data.batch(0)[0]!.shape[0]!;
  // Of an image [3, H, W] the first axis is no batch.
  const isOneImage = rowsOfBatch !== 1 && data.numSamples === data.numBatches;
  const size = isOneImage ? 1 : rowsOfBatch;
  let last: { index: number; inputs: Tensor[]; float: Tensor[]; int8: Tensor[] } | undefined;
  return places.map((sample) => {
    const index = Math.floor(sample / size);
    if (last?.index !== index) {
      const inputs = data.batch(index);
      last = { index, inputs, float: float?.run(inputs) ?? [], int8: int8?.run(inputs) ?? [] };
    }
    const { inputs } = last;
    const batch = isOneImage ? -1 : inputs[0]!.shape[0]!;
    const rows = (values: readonly Tensor[]) =>
      values.map((value, i) => rowOf(value, sample - index * size, batch, outputs[i]?.name));
    return {
      sample,
      file: data.files[sample] ?? `sample ${sample}`,
      ...viewOf(rows(inputs)[0]!, preprocess),
      ...(quantized && { float: rows(last.float), int8: rows(last.int8) }),
    };
  });
}

// Methods never wait for anything but the module: to stop them the page ends the worker.
type Handlers = {
  [M in keyof Methods]: (progress: Progress, ...args: Parameters<Methods[M]>) => Promise<ReturnType<Methods[M]>>;
};
const methods: Handlers = {
  async warm(_progress, maxMemory): Promise<Equipment> {
    let brought: Capabilities | undefined;
    if (maxMemory !== undefined) {
      try {
        configure({ maxMemory });
        brought = await capabilities();
      } catch (error) {
        whyNotWide = (error as Error).message;
        configure({});
      }
    }
    return { ...(brought ?? (await capabilities())), isolated: crossOriginIsolated };
  },

  async open(progress, file, beside): Promise<ModelInfo> {
    // A model names its files from where it stands.
    const folder = file.name.slice(0, file.name.lastIndexOf("/") + 1);
    const near = beside.filter(({ name }) => name.startsWith(folder));
    const others = Object.fromEntries(
      near.map((each) => [each.name.slice(folder.length), sourceOf(each, progress)] as const),
    );
    const size = [file, ...near].reduce((sum, each) => sum + each.file.size, 0);
    if (size >= mostOf32Bits && whyNotWide)
      throw new QdqError(
        "OutOfMemory",
        `${file.name} has ${formatBytes(size)}, more than the 4 GB that WebAssembly has here (${whyNotWide}); ` +
          "use the native program",
      );
    progress({ stage: `Opening ${file.name}`, done: 0, total: 0 });
    const source = sourceOf(file, progress);
    const loaded = beside.length > 0 ? await loadOnnx(source, others) : await loadPt2(source);
    model = { program: loaded, bytes: size };
    return { program: loaded.info(), bytes: size, kind: /\.onnx$/i.test(file.name) ? ".onnx" : ".pt2" };
  },

  async profile(_progress, target) {
    return profileOf(target);
  },

  async onnxOf(progress, file, target): Promise<Blob> {
    progress({ stage: "Writing the ONNX file", done: 0, total: 0 });
    using quantized = await loadPt2(new Uint8Array(await file.arrayBuffer()));
    return onnxFor(quantized, target);
  },

  async openData(_progress, use, choice): Promise<DataInfo> {
    const fresh = openChoice(choice);
    opened[use]?.data.dispose();
    opened[use] = fresh;
    const { data, labels, folders } = fresh;
    const known = { ...(labels && { labels, classes: data.classes() }), ...(folders && { folders }) };
    const { numSamples: samples, numBatches: batches, warnings } = data;
    return { samples, batches, files: data.files, warnings, ...known };
  },

  async preview(_progress, choice, index): Promise<Picture> {
    const images = choice.files.filter(({ name }) => isImage(name));
    const image = need(images[index], "there is no such image");
    const fixed = program().info().inputs[0]?.shape?.[0];
    // A program with a fixed batch gets as many copies of the image.
    const copies = typeof fixed === "number" ? fixed : 1;
    const files = Array.from({ length: copies }, (_, i) => ({
      name: copies === 1 ? image.name : `${i}/${image.name}`,
      file: image.file,
    }));
    using data = openData(program(), filesOf(files), {
      preprocess: choice.preprocess,
      ...(typeof fixed !== "number" && { batchSize: 1 }),
    });
    const [input] = data.batch(0);
    return pictureOf(rowOf(input!, 0, input!.shape[0]!), choice.preprocess);
  },

  async explain(_progress, recipe: Recipe): Promise<Explained> {
    using prepared = preparePt2e(program(), recipe);
    return { ...explain(prepared), needsData: prepared.needsData(), warnings: prepared.warnings() };
  },

  async quantize(progress, recipe, options): Promise<Quantized> {
    if (options.epochs !== undefined) return trained(progress, recipe, options, options.epochs);
    const began = performance.now();
    const prepared = preparePt2e(program(), recipe);
    try {
      const needsData = prepared.needsData();
      if (needsData) need(opened.calibration, "there is no calibration data; drop images or an .npz first");
      const data = needsData ? opened.calibration?.data : undefined;
      let shown = 0;
      let told = 0;
      const stage = "Calibrating";
      const total = data?.numBatches ?? 0;
      if (data) progress({ stage, done: 0, total });
      for (let i = 0; data && i < total; ++i) {
        prepared.run(data.batch(i), (looks, ofLooks) => {
          if (performance.now() < told + 250) return;
          told = performance.now();
          progress({ stage, done: i + looks / ofLooks, total });
        });
        const now = performance.now();
        // Histograms may cost a tenth of the time.
        const observers = now >= shown || i + 1 === total ? prepared.calibration() : undefined;
        if (observers) shown = performance.now() + Math.max(400, 10 * (performance.now() - now));
        progress({ stage, done: i + 1, total, ...(observers && { observers }) });
      }
      const calibrated = performance.now();
      if (data) secondsPerSample = (calibrated - began) / 1000 / data.numSamples;
      const { wanted, target } = options;
      const remedies = data && options.recovers ? await recoverAccuracy(prepared, data, target, progress) : undefined;
      const reached = data && wanted !== undefined ? await reach(prepared, data, wanted, progress) : undefined;
      const recovered = performance.now();
      progress({ stage: "Converting", done: 0, total: 0 });
      const quantized = convertPt2e(prepared);
      const file = kept(quantized);
      const converted = performance.now();
      const answer = {
        ...file,
        ...(await triedOnnx(quantized, options)),
        ...(target && { runtime: runtimeReport(quantized, target.name) }),
        ...(reached && { reached }),
        samples: data?.numSamples ?? 0,
        seconds: { calibrate: (calibrated - began) / 1000, convert: (converted - recovered) / 1000 },
        report: quantizationReport(prepared, quantized),
        observers: prepared.saveObservers(),
        ...(remedies && { remedies }),
      };
      become(prepared, quantized);
      return answer;
    } finally {
      if (result?.prepared !== prepared) prepared.dispose();
    }
  },

  async restore(_progress, recipe, file): Promise<void> {
    const quantized = await loadPt2(new Uint8Array(await file.arrayBuffer()));
    become(preparePt2e(program(), recipe), quantized);
  },

  async compare(progress): Promise<LayerError[]> {
    const { prepared, quantized } = need(result, "nothing is quantized yet");
    const { data } = need(opened.calibration ?? opened.test, "there is no data");
    using comparison = compareLayers(prepared, quantized);
    const batches = Math.min(data.numBatches, Math.max(1, Math.floor((16 * data.numBatches) / data.numSamples)));
    // Both programs run node by node.
    const expected = 1.5 * secondsPerSample * Math.ceil((data.numSamples * batches) / data.numBatches);
    progress({ stage: "Comparing layers", done: 0, total: batches, expected });
    for (let i = 0; i < batches; ++i) {
      comparison.add(data.batch(i));
      progress({ stage: "Comparing layers", done: i + 1, total: batches });
    }
    return comparison.layers();
  },

  async evaluate(progress, use): Promise<Evaluation> {
    const { quantized } = need(result, "nothing is quantized yet");
    const { data, labels, folders } = need(opened[use] ?? opened.calibration, "there is no data");
    using evaluation = evaluate(program(), quantized, labels);
    progress({
      stage: "Running both models",
      done: 0,
      total: data.numBatches,
      expected: secondsPerSample * data.numSamples,
    });
    for (let i = 0; i < data.numBatches; ++i) {
      evaluation.add(data.batch(i));
      progress({ stage: "Running both models", done: i + 1, total: data.numBatches });
    }
    const report = evaluation.report();
    const predictions = report.predictions?.map((sample) => ({
      ...sample,
      file: data.files[sample.sample] ?? `sample ${sample.sample}`,
    }));
    return { ...report, classes: folders === undefined ? data.classes() : [], ...(predictions && { predictions }) };
  },

  async samples(progress, use, places, runs): Promise<Sample[]> {
    const from = need(opened[use] ?? opened.calibration, "there is no data");
    progress({ stage: "Drawing samples", done: 0, total: 0 });
    return samplesAt(from, places, runs ? need(result, "nothing is quantized yet").quantized : undefined);
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
self.onmessage = ({ data }: MessageEvent<ToWorker>) => {
  turn = turn.then(() => answer(data));
};
