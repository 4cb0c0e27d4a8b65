// Tensors as plain data: a dtype, a shape and a typed array in C order, or an array of strings. They are copied into
// and out of WASM.
import { QdqError } from "./error.js";
import type { RawTensor } from "../wasm/qdq.js";

// The array that holds the elements of each dtype; floats of 8 and 16 bits come as their bits, complex numbers as their
// real and imaginary parts in turn.
const arrayOf = {
  float32: Float32Array,
  float64: Float64Array,
  int8: Int8Array,
  uint8: Uint8Array,
  int16: Int16Array,
  uint16: Uint16Array,
  int32: Int32Array,
  uint32: Uint32Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  bool: Uint8Array,
  float16: Uint16Array,
  bfloat16: Uint16Array,
  float8_e4m3fn: Uint8Array,
  float8_e5m2: Uint8Array,
  float8_e4m3fnuz: Uint8Array,
  float8_e5m2fnuz: Uint8Array,
  complex64: Float32Array,
};

export type DType = keyof typeof arrayOf | "string";
export type TensorData =
  | Float32Array
  | Float64Array
  | Int8Array
  | Uint8Array
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array
  | readonly string[];

export interface Tensor {
  dtype: DType;
  shape: readonly number[];
  data: TensorData;
}

// The name of an array's type, whichever window or realm it was made in: "Float32Array".
const typeName = (data: unknown): string => Object.prototype.toString.call(data).slice("[object ".length, -1);

const isTexts = (data: unknown): data is readonly string[] =>
  Array.isArray(data) && data.every((text) => typeof text === "string");

// A tensor of the typed array's own dtype: tensor(new Float32Array([1, 2]), [2]); of strings for an array of them.
// Shape: one axis unless given.
export function tensor(data: TensorData, shape: readonly number[] = [data.length]): Tensor {
  const dtype = isTexts(data)
    ? "string"
    : (Object.keys(arrayOf) as (keyof typeof arrayOf)[]).find((name) => typeName(data) === arrayOf[name].name);
  if (!dtype)
    throw new QdqError(
      "InvalidArgument",
      "a tensor was made of something that is neither a typed array nor an array of strings",
    );
  return { dtype, shape: [...shape], data };
}

// Throws QdqError{InvalidArgument} if dtype, shape and data do not agree.
export function toRaw(value: Tensor, what: string): RawTensor {
  const fail = (why: string): never => {
    throw new QdqError("InvalidArgument", `${what} is not a tensor: ${why}; wanted {dtype, shape, data}`);
  };
  const { dtype, shape, data } = value ?? fail(`it is ${value}`);
  const type = dtype === "string" ? undefined : arrayOf[dtype];
  if (!type && dtype !== "string") {
    fail(`its dtype is ${JSON.stringify(dtype)}, which is none of ${Object.keys(arrayOf).join(", ")}, string`);
  }
  if (!Array.isArray(shape) || !shape.every((size) => Number.isSafeInteger(size) && size >= 0)) {
    fail(`its shape is ${JSON.stringify(shape)}`);
  }
  if (type && typeName(data) !== type.name) fail(`its data is ${typeName(data)}, ${dtype} needs ${type.name}`);
  if (!type && !isTexts(data)) fail("its data is no array of strings");
  const count = shape.reduce((product, size) => product * size, 1);
  const length = dtype === "complex64" ? 2 * count : count;
  if (data.length !== length) fail(`shape [${shape.join(", ")}] needs ${length} elements, its data has ${data.length}`);
  if (isTexts(data)) return { dtype, shape: [...shape], texts: data };
  return { dtype, shape: [...shape], bytes: new Uint8Array(data.buffer, data.byteOffset, data.byteLength) };
}

// The bytes must start on an element's boundary of a buffer of their own, as those do that WASM hands out.
export function fromRaw(raw: RawTensor): Tensor {
  if (raw.texts) return { dtype: "string", shape: raw.shape, data: raw.texts };
  const dtype = raw.dtype as keyof typeof arrayOf;
  const type = arrayOf[dtype];
  const { buffer, byteOffset, byteLength } = raw.bytes as Uint8Array<ArrayBuffer>;
  return { dtype, shape: raw.shape, data: new type(buffer, byteOffset, byteLength / type.BYTES_PER_ELEMENT) };
}

// The inputs of one run as they cross the border. Throws QdqError{InvalidArgument}.
export function rawInputs(inputs: readonly Tensor[]): RawTensor[] {
  if (!Array.isArray(inputs))
    throw new QdqError("InvalidArgument", "the inputs are not a list of tensors; wanted run([tensor, ...])");
  return inputs.map((input: Tensor, i) => toRaw(input, `input ${i}`));
}
