// Files of npx as src/base/disk.cpp reads and writes them natively.
import {
  accessSync,
  chmodSync,
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  mkdtempSync,
  openSync,
  readSync,
  readdirSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from "node:path";
import { getSystemErrorMap } from "node:util";
import type { RawOutput } from "../bindings/wasm/qdq.js";

// What the system says comes without its number and the call that it answered.
export function reasonOf(error: unknown): string {
  const { code, errno, message } = error as NodeJS.ErrnoException;
  if (code === "EISDIR") return "it is a folder, a file was wanted";
  return getSystemErrorMap().get(errno ?? 0)?.[1] ?? message;
}

const piece = 1 << 20;
// The system reads and writes less than two gigabytes with one call.
const mostAtOnce = 2 ** 30;

// All bytes of a file, or of a descriptor, which may be a pipe or a device. Throws if there are more than `most`.
export function readWhole(path: string | number, most: number): Uint8Array {
  const descriptor = typeof path === "number" ? path : openSync(path, "r");
  try {
    const size = fstatSync(descriptor).size;
    const check = (bytes: number) => {
      if (bytes > most) throw new Error(`it has more than the ${Math.floor(most / 1e6)} MB of memory that are left`);
    };
    check(size);
    let bytes = Buffer.alloc(size + 1);
    let done = 0;
    for (;;) {
      if (done === bytes.length) {
        check(done);
        bytes = Buffer.concat([bytes], Math.max(2 * done, piece));
      }
      const count = readAgain(descriptor, bytes.subarray(done, done + mostAtOnce));
      if (count === 0) return bytes.subarray(0, done);
      done += count;
    }
  } finally {
    if (typeof path !== "number") closeSync(descriptor);
  }
}

// A terminal or a pipe that has nothing yet may answer EAGAIN, and Windows says of a pipe's end that it is an error.
function readAgain(descriptor: number, bytes: Uint8Array): number {
  for (;;) {
    try {
      return readSync(descriptor, bytes);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === "EOF") return 0;
      if (code !== "EAGAIN") throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    }
  }
}

// Fills `out` from the byte `offset` of a file or a descriptor on, and returns how many bytes there were.
export function readInto(path: string | number, offset: number, out: Uint8Array): number {
  const descriptor = typeof path === "number" ? path : openSync(path, "r");
  try {
    let done = 0;
    while (done < out.length) {
      const count = readSync(descriptor, out, done, Math.min(out.length - done, mostAtOnce), offset + done);
      if (count === 0) break;
      done += count;
    }
    return done;
  } finally {
    if (typeof path !== "number") closeSync(descriptor);
  }
}

let copy: number | undefined;

// A file without a name that holds all of the standard input, so that it is read by parts in any order. It is copied
// when it is asked for first.
export function standardInput(): number {
  if (copy !== undefined) return copy;
  const folder = mkdtempSync(join(tmpdir(), "qdq-"));
  try {
    copy = openSync(join(folder, "input"), "wx+");
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  const bytes = Buffer.alloc(piece);
  for (let count = readAgain(0, bytes); count > 0; count = readAgain(0, bytes)) {
    for (let done = 0; done < count; ) done += writeSync(copy, bytes, done, count - done);
  }
  return copy;
}

// Where the file called `name` in the folder of the file `beside` lies. Throws for one that links keep elsewhere, and
// for what is not an ordinary file.
export function pathBeside(beside: string, name: string): string {
  const real = realpathSync(join(dirname(beside), name));
  const inside = relative(realpathSync(dirname(beside)), real);
  if (inside === ".." || inside.startsWith(`..${sep}`) || isAbsolute(inside))
    throw new Error(`links lead to ${real}, which is not in the folder of ${beside}; put a copy of the file there`);
  if (!statSync(real).isFile()) throw new Error("it is not an ordinary file");
  return real;
}

export const readBeside = (beside: string, name: string, most: number): Uint8Array =>
  readWhole(pathBeside(beside, name), most);

// The name behind all symbolic links, which may be of a file that is not there yet.
export function behindLinks(path: string): string {
  let name = path;
  for (let links = 0; lstatSync(name, { throwIfNoEntry: false })?.isSymbolicLink(); links += 1) {
    if (links === 40) throw new Error("too many symbolic links encountered");
    name = resolve(dirname(name), readlinkSync(name));
  }
  return name;
}

// Node has no files without names, so a process that is killed leaves NAME.PID.part, which the next write of NAME
// removes. One that another machine or container may still write, which has processes of its own, is younger than a
// minute.
function removeStaleParts(file: string): void {
  const parts = /^\.([1-9]\d*)\.part$/;
  const name = basename(file);
  for (const entry of readdirSync(dirname(file))) {
    const part = entry.startsWith(name) ? parts.exec(entry.slice(name.length)) : null;
    if (!part) continue;
    const path = join(dirname(file), entry);
    const stat = lstatSync(path, { throwIfNoEntry: false });
    if (stat?.isFile() && Date.now() - stat.mtimeMs > 60_000 && hasEnded(Number(part[1])))
      rmSync(path, { force: true });
  }
}

function hasEnded(process_: number): boolean {
  if (process_ === process.pid) return true;
  try {
    process.kill(process_, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ESRCH";
  }
}

// A file that is written part by part, where a reader sees either the old file or the whole new one. A symbolic link
// stays, and the file that it names is written; an existing file keeps its permissions. A FIFO gets the bytes as a
// stream. Throws for folders, devices and sockets. Its methods answer "", or why they could not do their work.
export class Output implements RawOutput {
  readonly #file: string;
  // Where the bytes go until all are there; nothing for a FIFO.
  readonly #part: string | undefined;
  readonly #mode: number | undefined;
  #descriptor: number;

  constructor(path: string) {
    const old = statSync(path, { throwIfNoEntry: false });
    if (old?.isDirectory()) throw new Error("it is a folder, a file was wanted");
    if (old && !old.isFile() && !old.isFIFO())
      throw new Error(`it is a ${old.isSocket() ? "socket" : "device"}, a file was wanted`);
    if (old?.isFIFO()) {
      this.#file = path;
      this.#descriptor = openSync(path, "w");
      return;
    }
    if (old) accessSync(path, constants.W_OK);
    this.#mode = old?.mode;
    this.#file = behindLinks(path);
    removeStaleParts(this.#file);
    this.#part = `${this.#file}.${process.pid}.part`;
    rmSync(this.#part, { force: true });
    this.#descriptor = openSync(this.#part, "wx");
  }

  append(bytes: Uint8Array): string {
    return this.#attempt(() => {
      for (let done = 0; done < bytes.length; )
        done += writeSync(this.#descriptor, bytes, done, Math.min(bytes.length - done, mostAtOnce));
    });
  }

  finish(): string {
    return this.#attempt(() => {
      closeSync(this.#descriptor);
      this.#descriptor = -1;
      if (this.#part === undefined) return;
      if (this.#mode !== undefined) chmodSync(this.#part, this.#mode & 0o777);
      renameSync(this.#part, this.#file);
    });
  }

  abandon(): void {
    if (this.#descriptor >= 0) closeSync(this.#descriptor);
    this.#descriptor = -1;
    if (this.#part !== undefined) rmSync(this.#part, { force: true });
  }

  #attempt(work: () => void): string {
    try {
      work();
      return "";
    } catch (error) {
      return reasonOf(error);
    }
  }
}
