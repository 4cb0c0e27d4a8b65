// Calibration and test data: the same files, in the same order and with the same preprocessing as the command line
// reads them.
import { QdqError, readable } from "./error.js";
import { Handle } from "./handle.js";
import { handleOf, module, unwrap, whole } from "./module.js";
import { checkNames, checkOptions, jsonOf, shown } from "./options.js";
import type { Program } from "./program.js";
import { byteSourceOf, bytesOf } from "./source.js";
import type { ByteSource } from "./source.js";
import type { PartOfData } from "./state.js";
import type { Tensor } from "./tensor.js";
import { fromRaw } from "./tensor.js";
import type { RawHost } from "../wasm/qdq.js";

/**
 * Files by name ("cats/001.png"): their bytes; a function that reads all of them when their turn comes; what reads
 * parts of them, for large arrays and archives; or, in a worker of a page, a Blob, which is read part by part.
 */
export type Files = ReadonlyMap<string, Uint8Array | ByteSource | Blob | (() => Uint8Array)>;

/** How openData reads files. */
export interface DataSettings {
  /**
   * How images become inputs, the JSON of --preprocess: resize, filter, antialias, letterbox, pad, pad_position, crop,
   * grayscale, channel_order, scale, mean, std, layout.
   */
  preprocess?: Record<string, unknown>;
  /** Samples per batch if the program leaves it open; default 16. Must equal the program's own if it fixes one. */
  batchSize?: number;
  /** The largest number of samples: the first ones of an array, or equally many images of each folder. */
  limit?: number;
  /**
   * The file that holds the classes: .csv with lines file,label, or .npy or .npz of integers; or "folders": the class
   * of an image is the folder that it lies in (qdq evaluate --labels folders).
   */
  labels?: string;
  /** The names of all classes in their order, as the folders are named. */
  classes?: readonly string[];
}

/** Batches of a program's inputs, decoded when they are asked for. */
export class Data extends Handle {
  /** The number of batches. */
  readonly numBatches: number;
  /** The number of samples in all batches. */
  readonly numSamples: number;
  /**
   * A SHA-256 that tells the samples from others, wherever they lie: by the names of images, the ends of arrays' files
   * and the preprocessing.
   */
  readonly id: string;
  /** The files behind the samples in their order; empty for arrays. */
  readonly files: readonly string[];
  /** The folders with images, in the order of their names, including those that the limit left empty. */
  readonly folders: readonly string[];
  /** What the files hold and the program does not read, such as an array that is named as no input: a sentence each. */
  readonly warnings: readonly string[];
  readonly #settings: DataSettings;

  /**
   * openData makes it.
   * @internal
   */
  constructor(handle: number, loader: typeof whole, settings: DataSettings = {}) {
    super(handle, loader);
    this.#settings = settings;
    const { batches, samples, id, files, folders, warnings } = JSON.parse(unwrap(module().describeData(handle)));
    this.id = id;
    this.numBatches = batches;
    this.numSamples = samples;
    this.files = files;
    this.folders = folders;
    this.warnings = warnings.map(readable);
  }

  /**
   * The K-th of N parts of the batches, for calibrating in parts: "3/16", counted from 1. Throws
   * QdqError{InvalidArgument} for a shard that is none.
   */
  shard(shard: string): DataShard {
    return new DataShard(this, shard);
  }

  /** The inputs of one batch. Throws QdqError for a file that cannot be read or decoded. */
  batch(index: number): Tensor[] {
    if (!Number.isSafeInteger(index) || index < 0)
      throw new QdqError("InvalidArgument", `the index of a batch is ${shown(index)}, wanted a whole number from 0`);
    return unwrap(module().dataBatch(this.handle, index)).map(fromRaw);
  }

  /**
   * The class of each sample. Throws QdqError naming the first sample without a label or with one that is no class of
   * the model, or if the data was opened without the setting `labels`.
   */
  labels(): number[] {
    return this.#told().labels;
  }

  /**
   * The names of the classes: those of the setting `classes`, or of the folders if their order is that of the classes;
   * else none.
   */
  classes(): string[] {
    return this.#settings.labels === undefined ? [...(this.#settings.classes ?? [])] : this.#told().classes;
  }

  #told(): { labels: number[]; classes: string[] } {
    const { labels, classes = [] } = this.#settings;
    if (labels === undefined)
      throw new QdqError("InvalidArgument", 'the data was opened without the setting labels: "labels.csv"');
    const path = labels === "folders" ? labels : `${root}${labels}`;
    return JSON.parse(unwrap(module().dataLabels(this.handle, path, classes.length > 0 ? classesPath : "")));
  }

  /**
   * All batches in order, each a list of the program's inputs. With threads the images of the next batches are decoded
   * while one is used.
   */
  *[Symbol.iterator](): Generator<Tensor[]> {
    unwrap(module().expectBatches(this.handle, 0, this.numBatches));
    for (let i = 0; i < this.numBatches; ++i) yield this.batch(i);
  }
}

/** The batches of a shard, for prepared.calibrate() and prepared.state(). */
export class DataShard implements PartOfData {
  /** The same as of all the data, as the numbers below. */
  readonly id: string;
  /** The number of samples of all the data. */
  readonly numSamples: number;
  /** The number of batches of all the data. */
  readonly numBatches: number;
  readonly #data: Data;
  readonly #begin: number;
  readonly #end: number;

  /** data.shard() makes it. */
  constructor(
    data: Data,
    /** The shard: "3/16". */
    readonly shard: string,
  ) {
    if (!(data instanceof Data) || typeof shard !== "string")
      throw new QdqError("InvalidArgument", `a shard was made of ${shown(shard)}, wanted data.shard("3/16")`);
    ({ id: this.id, numSamples: this.numSamples, numBatches: this.numBatches } = data);
    this.#data = data;
    const { begin, end } = JSON.parse(unwrap(module().batchesOfShard(data.numBatches, shard)));
    this.#begin = begin;
    this.#end = end;
  }

  *[Symbol.iterator](): Generator<Tensor[]> {
    unwrap(module().expectBatches(this.#data.handle, this.#begin, this.#end));
    for (let i = this.#begin; i < this.#end; ++i) yield this.#data.batch(i);
  }
}

// Where the files seem to lie; errors name them so.
const root = "data/";
const preprocessPath = "preprocess.json";
const classesPath = "classes.txt";

/**
 * Opens the one .npz or .npy among the files, or all images (.jpg, .png, .bmp; where there are none, those in .tar
 * files; `preprocess` says how they become inputs), as the command line's --calibrate does. Throws
 * QdqError{InvalidArgument} if they do not fit the program's inputs.
 */
export function openData(program: Program, files: Files, settings: DataSettings = {}): Data {
  if (typeof files?.keys !== "function" || typeof files.get !== "function") {
    throw new QdqError("InvalidArgument", 'the files are no Map; wanted new Map([["cats/001.png", bytes], ...])');
  }
  checkOptions("openData", settings, ["preprocess", "batchSize", "limit", "labels", "classes"]);
  checkNames([...files.keys()], "the names of the files");
  if (settings.labels !== undefined && typeof settings.labels !== "string")
    throw new QdqError("InvalidArgument", `labels is ${shown(settings.labels)}, wanted the name of a file`);
  if (settings.classes !== undefined) checkNames(settings.classes, "the classes");
  jsonOf(() => settings.preprocess, "preprocess");
  const { batchSize, limit = 0 } = settings;
  for (const [name, value] of Object.entries({ batchSize, limit })) {
    if (value !== undefined && !Number.isSafeInteger(value))
      throw new QdqError("InvalidArgument", `${name} is ${shown(value)}, it must be a whole number`);
  }
  if (batchSize !== undefined && batchSize < 1)
    throw new QdqError("InvalidArgument", `batchSize is ${batchSize}; it must be at least 1`);
  for (const file of files.values()) if (typeof file !== "function" && !byteSourceOf(file)) bytesOf(file, "openData");
  const names = [...files.keys()].filter((name) => name !== settings.labels);
  const images = names.filter((name) => /\.(jpe?g|png|bmp|tar)$/i.test(name));
  const arrays = names.filter((name) => /\.np[yz]$/i.test(name));
  if (images.length === 0 && arrays.length === 0) {
    throw new QdqError(
      "InvalidArgument",
      `${names.length === 1 ? `${names[0]} is not data` : `none of the ${names.length} files is data`}; ` +
        "wanted an .npz, an .npy, or .jpg, .png or .bmp images, or a .tar of them",
    );
  }
  const [first] = images.length > 0 ? images : arrays;
  const isFolder = images.length > 1 || (images.length === 1 && !/\.tar$/i.test(first!));
  const path = isFolder ? root.slice(0, -1) : `${root}${first}`;
  const preprocess = settings.preprocess ? preprocessPath : "";
  return new Data(
    unwrap(module().openData(handleOf(program), path, preprocess, batchSize ?? 0, limit, hostOf(files, settings))),
    whole,
    settings,
  );
}

// What lies in each folder, by its path.
function foldersOf(names: Iterable<string>): Map<string, Set<string>> {
  const folders = new Map<string, Set<string>>();
  for (const name of names) {
    const parts = name.split("/");
    parts.forEach((part, depth) => {
      const folder = [root.slice(0, -1), ...parts.slice(0, depth)].join("/");
      folders.set(folder, (folders.get(folder) ?? new Set()).add(part));
    });
  }
  return folders;
}

// The files as the folder data.
function hostOf(files: Files, settings: DataSettings): RawHost {
  const folders = foldersOf(files.keys());
  const find = (path: string) => (path.startsWith(root) ? files.get(path.slice(root.length)) : undefined);
  const given = (path: string): Uint8Array | ByteSource | string => {
    if (path === preprocessPath) return new TextEncoder().encode(JSON.stringify(settings.preprocess));
    if (path === classesPath) return new TextEncoder().encode((settings.classes ?? []).join("\n"));
    const file = find(path);
    if (!file) return "there is no such file";
    try {
      return byteSourceOf(file) ?? bytesOf(typeof file === "function" ? file() : file, "openData");
    } catch (error) {
      return (error as Error).message;
    }
  };
  // A file that a function gives is asked for once, not for each of its parts.
  let last: { path: string; file: Uint8Array | ByteSource | string } | undefined;
  const kept = (path: string) => {
    if (last?.path !== path) last = { path, file: given(path) };
    return last.file;
  };
  const sizeOf = (path: string): number | string => {
    const file = kept(path);
    if (typeof file === "string") return file;
    return file instanceof Uint8Array ? file.length : file.size;
  };
  const readInto = (path: string, offset: number, out: Uint8Array): number | string => {
    const file = kept(path);
    if (typeof file === "string") return file;
    try {
      if (!(file instanceof Uint8Array)) return file.readInto(offset, out);
    } catch (error) {
      return (error as Error).message;
    }
    const part = file.subarray(offset, offset + out.length);
    out.set(part);
    return part.length;
  };
  const readFile = (path: string): Uint8Array | string => {
    const file = given(path);
    if (typeof file === "string" || file instanceof Uint8Array) return file;
    const bytes = new Uint8Array(file.size);
    const got = readInto(path, 0, bytes);
    if (typeof got === "string") return got;
    return got === bytes.length ? bytes : `it has ${bytes.length} bytes, and ${got} could be read`;
  };
  return {
    readFile,
    readBeside: () => "data is read alone",
    sizeOf,
    readInto,
    pathBeside: () => "data is read alone",
    openOutput: () => "data is only read",
    whyNotWritten: () => "data is only read",
    makeFolder: () => "data is only read",
    listFolder: (path) => [...(folders.get(path) ?? [])],
    fileBehind: (path) => path,
    kind: (path) => (folders.has(path) ? "folder" : find(path) ? "file" : ""),
    print() {},
    printError() {},
    errorIsTerminal: false,
    errorHasColors: false,
    date: "",
  };
}
