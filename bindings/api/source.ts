// Files of models, whole or part by part.
import { QdqError } from "./error.js";
import type { Loader } from "./loader.js";
import { unwrap } from "./loader.js";
import type { RawSource } from "../wasm/qdq.js";

/**
 * A file that qdq reads weight by weight, so that memory never holds all of it. In Node:
 * `{ size: fstatSync(fd).size, readInto: (offset, out) => readSync(fd, out, 0, out.length, offset) }`.
 */
export interface ByteSource {
  /** The size of the file in bytes. */
  readonly size: number;
  /**
   * Fills `out` with the bytes from `offset` on, which all lie in the file, and returns how many it filled; fewer than
   * `out` has are an error. `out` is only valid until it returns. What it throws passes through.
   */
  readInto(offset: number, out: Uint8Array): number;
}

/**
 * A model's file: its bytes, a source that reads parts of them, a Blob (in a page the File of an input), or a stream of
 * its bytes. In a worker of a page a Blob is read in parts. Elsewhere Blobs and streams pass through the module's
 * memory, which frees each part once its weights are read.
 */
export type ModelSource =
  | Uint8Array
  | ArrayBuffer
  | ByteSource
  | Blob
  | ReadableStream<Uint8Array>
  | AsyncIterable<Uint8Array>;

const kindOf = (value: unknown): string => Object.prototype.toString.call(value).slice("[object ".length, -1);

/**
 * Buffers of another window or realm are buffers too.
 * @internal
 */
export function bytesOf(bytes: unknown, name: string): Uint8Array {
  const found = viewOf(bytes, name);
  if (found) return found;
  const file = { loadOnnx: "an ONNX", openData: "a" }[name] ?? "a .pt2";
  throw new QdqError(
    "InvalidArgument",
    `${name} was given a ${kindOf(bytes)}, wanted the bytes of ${file} file as a Uint8Array or an ArrayBuffer`,
  );
}

function viewOf(bytes: unknown, name: string): Uint8Array | undefined {
  try {
    if (ArrayBuffer.isView(bytes)) return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    if (/^(Shared)?ArrayBuffer$/.test(kindOf(bytes))) return new Uint8Array(bytes as ArrayBuffer);
    return undefined;
  } catch {
    throw new QdqError("InvalidArgument", `the bytes that ${name} was given have gone to a worker, with their buffer`);
  }
}

// Only workers of pages have it.
declare const FileReaderSync: (new () => { readAsArrayBuffer(blob: Blob): ArrayBuffer }) | undefined;

const isBlob = (value: unknown): value is Blob => /^(Blob|File)$/.test(kindOf(value));

function isSource(value: unknown): value is ByteSource {
  const { size, readInto } = value as ByteSource;
  return typeof readInto === "function" && Number.isSafeInteger(size) && size >= 0;
}

/**
 * What reads parts of a file at once, or undefined where nothing does: a Blob can be read so in workers of pages alone.
 * @internal
 */
export function byteSourceOf(file: unknown): ByteSource | undefined {
  if (typeof file !== "object" || file === null) return undefined;
  if (isSource(file)) return { size: file.size, readInto: (offset, out) => file.readInto(offset, out) };
  if (!isBlob(file) || typeof FileReaderSync !== "function") return undefined;
  const reader = new FileReaderSync();
  const readInto = (offset: number, out: Uint8Array): number => {
    const part = new Uint8Array(reader.readAsArrayBuffer(file.slice(offset, offset + out.length)));
    out.set(part);
    return part.length;
  };
  return { size: file.size, readInto };
}

const partOfBlob = 4 << 20;

async function* partsOf(source: Blob | ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>) {
  if (isBlob(source)) {
    for (let done = 0; done < source.size; done += partOfBlob)
      yield new Uint8Array(await source.slice(done, done + partOfBlob).arrayBuffer());
  } else if (Symbol.asyncIterator in source) {
    yield* source;
  } else {
    const reader = source.getReader();
    try {
      for (let part = await reader.read(); !part.done; part = await reader.read()) yield part.value;
    } finally {
      reader.releaseLock();
    }
  }
}

/**
 * Works with files as a module takes them. What the module holds of them is freed afterwards. Throws
 * QdqError{InvalidArgument} for what is no file.
 * @internal
 */
export async function withSources<T>(
  loader: Loader,
  files: readonly unknown[],
  name: string,
  work: (sources: RawSource[]) => T,
): Promise<T> {
  for (const file of files) if (!isReadable(file)) bytesOf(file, name);
  const module = await loader.load();
  const held: number[] = [];
  try {
    const sources: RawSource[] = [];
    for (const file of files) sources.push(await sourceOf(file));
    return work(sources);
  } finally {
    for (const number of held) module.dispose(number);
  }

  async function sourceOf(file: unknown): Promise<RawSource> {
    const readable = viewOf(file, name) ?? byteSourceOf(file);
    if (readable) return readable;
    const number = unwrap(module.holdFile());
    held.push(number);
    for await (const part of partsOf(file as Blob)) unwrap(module.appendToFile(number, bytesOf(part, name)));
    return number;
  }
}

// What is read over time; bytes are not.
const isReadable = (file: unknown): boolean =>
  typeof file === "object" &&
  file !== null &&
  (isBlob(file) || isSource(file) || Symbol.asyncIterator in file || kindOf(file) === "ReadableStream");
