// Calibration and test data: the same files, in the same order and with the same preprocessing as the command line reads them.
import { QdqError } from "./error.js";
import { Handle } from "./handle.js";
import { module, unwrap } from "./module.js";
import type { Program } from "./pt2e.js";
import type { Tensor } from "./tensor.js";
import { fromRaw } from "./tensor.js";
import type { RawHost } from "../wasm/qdq.js";

// Files by name ("cats/001.png"): their bytes, or a function that reads them when their turn comes.
export type Files = ReadonlyMap<string, Uint8Array | (() => Uint8Array)>;

export interface DataSettings {
  // How images become inputs, the JSON of --preprocess: resize, crop, scale, mean, std, channel_order, layout, grayscale, filter.
  preprocess?: Record<string, unknown>;
  batchSize?: number; // samples a batch, where the program leaves it open; default 16
  limit?: number; // use only the first samples
  // The file among them that tells the classes and is no data itself: .csv with lines file,label, or .npy or .npz of integers.
  labels?: string;
}

// Batches of a program's inputs, decoded when they are asked for.
export class Data extends Handle {
  readonly numBatches: number;
  readonly numSamples: number;
  // The files behind the samples in their order; empty for arrays.
  readonly files: readonly string[];
  readonly #labels: string | undefined;

  // openData makes it.
  constructor(handle: number, labels?: string) {
    super(handle);
    this.#labels = labels;
    const { batches, samples, files } = JSON.parse(unwrap(module().describeData(handle)));
    this.numBatches = batches;
    this.numSamples = samples;
    this.files = files;
  }

  // The inputs of one batch. Throws QdqError for a file that cannot be read or decoded.
  batch(index: number): Tensor[] {
    return unwrap(module().dataBatch(this.handle, index)).map(fromRaw);
  }

  // The class of each sample. Throws QdqError naming the first sample without a label, or if no file of labels was given.
  labels(): number[] {
    if (this.#labels === undefined) throw new QdqError("InvalidArgument", 'the data was opened without the setting labels: "labels.csv"');
    return JSON.parse(unwrap(module().dataLabels(this.handle, `${root}${this.#labels}`)));
  }

  *[Symbol.iterator](): Generator<Tensor[]> {
    for (let i = 0; i < this.numBatches; ++i) yield this.batch(i);
  }
}

// Where the files seem to lie; errors name them so.
const root = "data/";
const preprocessPath = "preprocess.json";

// Opens the one .npz or .npy among the files, or all images (.jpg, .png, .bmp; `preprocess` says how they become inputs), as the
// command line's --calibrate does. Throws QdqError{InvalidArgument} if they do not fit the program's inputs.
export function openData(program: Program, files: Files, settings: DataSettings = {}): Data {
  const names = [...files.keys()].filter((name) => name !== settings.labels);
  const isImage = (name: string): boolean => /\.(jpe?g|png|bmp)$/i.test(name);
  const arrays = names.filter((name) => /\.np[yz]$/i.test(name));
  if (!names.some(isImage) && arrays.length === 0) {
    throw new QdqError("InvalidArgument", `none of the ${names.length} files is data; wanted an .npz, an .npy, or .jpg, .png or .bmp images`);
  }
  const path = names.some(isImage) ? root.slice(0, -1) : `${root}${arrays[0]}`;
  const preprocess = settings.preprocess ? preprocessPath : "";
  const { batchSize = 16, limit = 0 } = settings;
  return new Data(unwrap(module().openData(program.handle, path, preprocess, batchSize, limit, hostOf(files, settings))), settings.labels);
}

// The files as the folder data.
function hostOf(files: Files, settings: DataSettings): RawHost {
  const folders = new Map<string, Set<string>>();
  for (const name of files.keys()) {
    const parts = name.split("/");
    parts.forEach((part, depth) => {
      const folder = [root.slice(0, -1), ...parts.slice(0, depth)].join("/");
      folders.set(folder, (folders.get(folder) ?? new Set()).add(part));
    });
  }
  const find = (path: string) => (path.startsWith(root) ? files.get(path.slice(root.length)) : undefined);
  return {
    readFile(path) {
      if (path === preprocessPath) return new TextEncoder().encode(JSON.stringify(settings.preprocess));
      const file = find(path);
      if (!file) return "there is no such file";
      try {
        return typeof file === "function" ? file() : file;
      } catch (error) {
        return (error as Error).message;
      }
    },
    writeFile: () => "data is only read",
    listFolder: (path) => [...(folders.get(path) ?? [])],
    kind: (path) => (folders.has(path) ? "folder" : find(path) ? "file" : ""),
    print() {},
    printError() {},
    errorIsTerminal: false,
  };
}
