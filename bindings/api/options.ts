// Objects of settings, which hold nothing that would be swallowed.
import { QdqError } from "./error.js";

const flags = [
  ...["bf16", "fuse", "foldQuantize", "useReferenceRepresentation", "mergeable", "observeLayers", "partial"],
  ...["isDynamic", "isQat", "useGradScaling", "ignoreLiterals", "removeOverlappingMatches"],
];
const callbacks = ["onProgress", "onWarning", "onRemedy", "onSearch"];

// What an option of that name must be, in words, if the value is something else: "no" would be taken for true.
function wantedOf(name: string, value: unknown): string | undefined {
  if (flags.includes(name)) return typeof value === "boolean" ? undefined : "true or false";
  if (value === null) return undefined;
  if (callbacks.includes(name)) return isFunction(value) ? undefined : "a function";
  if (name === "signal") return isSignal(value) ? undefined : "an AbortSignal";
  return undefined;
}

// Whether a value can be called; a class can not.
export const isFunction = (value: unknown): boolean =>
  typeof value === "function" && !/^class\b/.test(Function.prototype.toString.call(value));

const isSignal = (value: unknown): boolean =>
  typeof value === "object" && "aborted" in value! && typeof (value as AbortSignal).addEventListener === "function";

// The options, of which others check the fields. Throws QdqError{InvalidArgument} for what is no object.
export function checkObject<T extends object>(of: string, options: T): T {
  if (isRevoked(options)) throw new QdqError("InvalidArgument", `${of} was given a revoked proxy, wanted an object`);
  if (typeof options !== "object" || options === null || Array.isArray(options))
    throw new QdqError("InvalidArgument", `${of} was given ${nameOf(options)} as its options, wanted an object`);
  return options;
}

// Throws QdqError{InvalidArgument} for what is no object, for a field that is not known, with the nearest that is, and
// for a flag, a callback or a signal that is none.
export function checkOptions(of: string, options: object, known: readonly string[]): void {
  checkObject(of, options);
  for (const [name, value] of Object.entries(options)) {
    const wanted = known.includes(name) && value !== undefined ? wantedOf(name, value) : undefined;
    if (wanted) throw new QdqError("InvalidArgument", `${name} of ${of} is ${shown(value)}, wanted ${wanted}`);
    if (known.includes(name)) continue;
    const near = known
      .map((word) => ({ word, distance: distance(name, word) }))
      .sort((a, b) => a.distance - b.distance);
    const meant = near[0] && near[0].distance <= Math.max(2, name.length / 3) ? near[0].word : "";
    const remedy = meant ? `did you mean ${meant}?` : `it has ${known.join(", ")}`;
    throw new QdqError("InvalidArgument", `${of} has no option ${name}; ${remedy}`);
  }
}

// Throws QdqError{InvalidArgument} for a method that is known but is no function, and for a function of the object or
// of its class that is called nearly as one of those: it would never be called. Helpers with names of their own are the
// user's matter.
export function checkNearNames(of: string, object: object, known: readonly string[]): void {
  for (let at: object | null = object; at !== null && at !== Object.prototype; at = Object.getPrototypeOf(at)) {
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(at))) {
      if (known.includes(name) && !isFunction(value ?? shown))
        throw new QdqError("InvalidArgument", `${name} of ${of} is ${shown(value)}, wanted a function`);
      if (typeof value !== "function" || known.includes(name)) continue;
      const meant = known.find((word) => distance(name, word) <= 2);
      if (meant) throw new QdqError("InvalidArgument", `${of} has no method ${name}; did you mean ${meant}?`);
    }
  }
}

// Throws QdqError{InvalidArgument} for a field that is called nearly as one of those that are known: nobody would read
// it. Fields with names of their own are the user's matter.
export function checkNearFields(of: string, object: object, known: readonly string[]): void {
  for (const name of Object.keys(object)) {
    const meant = known.includes(name) ? undefined : known.find((word) => distance(name, word) <= 2);
    if (meant) throw new QdqError("InvalidArgument", `${of} has no field ${name}; did you mean ${meant}?`);
  }
}

// Whether a proxy was taken back, of which nothing can be asked any more.
function isRevoked(value: unknown): boolean {
  try {
    Array.isArray(value);
    return false;
  } catch {
    return true;
  }
}

// Whether `for await` gets objects of the value, neither texts nor numbers.
export const isIterable = (value: unknown): boolean =>
  value !== null &&
  typeof value === "object" &&
  !isRevoked(value) &&
  !ArrayBuffer.isView(value) &&
  (Symbol.iterator in value || Symbol.asyncIterator in value);

// Whether all items are such, holes as undefined. Ends at the first that is not: the length of a sparse array says
// nothing about its memory, and a copy of it takes all there is.
export function areAll(list: readonly unknown[], holds: (item: unknown) => boolean): boolean {
  for (const item of list) if (!holds(item)) return false;
  return true;
}

// The ids of a prompt. Throws QdqError{InvalidArgument} if the value is no list of whole numbers.
export function idsOf(prompt: unknown): number[] {
  const isDetached = ArrayBuffer.isView(prompt) && prompt.byteLength === 0;
  if (typeof prompt !== "object" || prompt === null || !(Symbol.iterator in prompt) || isDetached)
    throw new QdqError("InvalidArgument", `the prompt is ${shown(prompt)}, wanted the ids of tokens`);
  const ids: number[] = [];
  for (const id of prompt as Iterable<unknown>) {
    if (!Number.isSafeInteger(id))
      throw new QdqError("InvalidArgument", `the prompt has ${shown(id)}, wanted the ids of tokens`);
    ids.push(id as number);
  }
  return ids;
}

// What JSON would write for minutes in short.
const kMostShown = 1000;
const inShort = (_: string, value: unknown): unknown =>
  (Array.isArray(value) || (ArrayBuffer.isView(value) && "length" in value)) && Number(value.length) > kMostShown
    ? `an array of ${value.length}`
    : value;

// Any value in a message.
export function shown(value: unknown): string {
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "function" && !isFunction(value)) return "a class";
  if (typeof value !== "object" || value === null) return String(value);
  try {
    const short = inShort("", value);
    return typeof short === "string" ? short : (JSON.stringify(value, inShort) ?? "an object");
  } catch {
    return "an object that is not plain data";
  }
}

// Holes would become null, and the length of a sparse array says nothing about its memory.
const whole = (name: string, value: unknown): unknown => {
  if (Array.isArray(value))
    for (let i = 0; i < value.length; i += 1)
      if (!(i in value)) throw new TypeError(`${name === "" ? "an array" : name} has a hole at ${i}`);
  return value;
};

// Plain data as JSON. Throws QdqError{InvalidArgument} for what has none: BigInts, objects that hold themselves, arrays
// with holes. What getters throw comes through.
export function jsonOf(make: () => unknown, what: string): string {
  try {
    return JSON.stringify(make(), whole) ?? "null";
  } catch (error) {
    if (!(error instanceof TypeError || error instanceof RangeError)) throw error;
    throw new QdqError("InvalidArgument", `${what} is not plain data: ${error.message}`);
  }
}

// Throws QdqError{InvalidArgument} if the value is no array of strings.
export function checkNames(value: unknown, what: string): void {
  if (!Array.isArray(value) || !areAll(value, (each) => typeof each === "string"))
    throw new QdqError("InvalidArgument", `${what} are ${shown(value)}, wanted an array of strings`);
}

const nameOf = (value: unknown): string =>
  value === null ? "null" : Array.isArray(value) ? "an array" : `a ${typeof value}`;

// Insertions, deletions and replacements that turn one word into the other; no number where lengths tell that nobody
// meant it.
function distance(a: string, b: string): number {
  if (Math.abs(a.length - b.length) > Math.max(2, a.length / 3)) return Number.POSITIVE_INFINITY;
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1)
      next.push(Math.min(next[j - 1]! + 1, row[j]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)));
    row = next;
  }
  return row[b.length]!;
}
