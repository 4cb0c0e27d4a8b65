// Tensors as plain data: a dtype, a shape and a typed array in C order, or an array of strings. They are copied into
// and out of WASM.
import { QdqError } from "./error.js";
import { areAll, shown } from "./options.js";
import type { RawTensor } from "../wasm/qdq.js";

/**
 * The array that holds the elements of each dtype; floats of 8 and 16 bits come as their bits, complex numbers as their
 * real and imaginary parts in turn.
 */
export interface TensorArrays {
  /** 32-bit floats. */
  float32: Float32Array;
  /** 64-bit floats. */
  float64: Float64Array;
  /** 8-bit integers from -128 to 127. */
  int8: Int8Array;
  /** 8-bit integers from 0 to 255. */
  uint8: Uint8Array;
  /** 16-bit integers. */
  int16: Int16Array;
  /** 16-bit integers from 0. */
  uint16: Uint16Array;
  /** 32-bit integers. */
  int32: Int32Array;
  /** 32-bit integers from 0. */
  uint32: Uint32Array;
  /** 64-bit integers. */
  int64: BigInt64Array;
  /** 64-bit integers from 0. */
  uint64: BigUint64Array;
  /** 0 or 1 in a byte. */
  bool: Uint8Array;
  /** The bits of half-precision floats. */
  float16: Uint16Array;
  /** The upper halves of 32-bit floats. */
  bfloat16: Uint16Array;
  // biome-ignore-start lint/style/useNamingConvention: PyTorch's names
  /** The bits of 8-bit floats with 4 bits of exponent. */
  float8_e4m3fn: Uint8Array;
  /** The bits of 8-bit floats with 5 bits of exponent. */
  float8_e5m2: Uint8Array;
  /** The bits of 8-bit floats with 4 bits of exponent, without infinities and -0. */
  float8_e4m3fnuz: Uint8Array;
  /** The bits of 8-bit floats with 5 bits of exponent, without infinities and -0. */
  float8_e5m2fnuz: Uint8Array;
  // biome-ignore-end lint/style/useNamingConvention: PyTorch's names
  /** Real and imaginary parts in turn. */
  complex64: Float32Array;
  /** Strings. */
  string: readonly string[];
}

/** The type of a tensor's elements, in PyTorch's words. */
export type DType = keyof TensorArrays;
/** The elements of a tensor in C order. */
export type TensorData = TensorArrays[DType];

/**
 * A tensor as plain data. The data of a `Tensor<"float32">` is a Float32Array; the check `tensor.dtype === "float32"`
 * narrows a tensor of any dtype to it.
 */
export type Tensor<D extends DType = DType> = {
  [K in D]: {
    /** The type of the elements. */
    dtype: K;
    /** The sizes, outermost first; empty for a single number. */
    shape: readonly number[];
    /** The elements in C order. */
    data: TensorArrays[K];
  };
}[D];

/** The dtype that tensor() chooses for an array. */
export type DTypeOf<Data extends TensorData> = Data extends readonly string[]
  ? "string"
  : Data extends Float32Array
    ? "float32"
    : Data extends Float64Array
      ? "float64"
      : Data extends Int8Array
        ? "int8"
        : Data extends Uint8Array
          ? "uint8"
          : Data extends Int16Array
            ? "int16"
            : Data extends Uint16Array
              ? "uint16"
              : Data extends Int32Array
                ? "int32"
                : Data extends Uint32Array
                  ? "uint32"
                  : Data extends BigInt64Array
                    ? "int64"
                    : "uint64";

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

const nameOfTypedArray = Object.getOwnPropertyDescriptor(
  Object.getPrototypeOf(Uint8Array.prototype),
  Symbol.toStringTag,
)!.get!;

// The name of a typed array's type, whichever window or realm it was made in: "Float32Array"; of all else what it is.
const typeName = (data: unknown): string =>
  (nameOfTypedArray.call(data) as string | undefined) ??
  (typeof data === "object" && data !== null ? "no typed array" : shown(data));

const isTexts = (data: unknown): data is readonly string[] =>
  Array.isArray(data) && areAll(data, (text) => typeof text === "string");

const isShape = (shape: unknown): shape is readonly number[] =>
  Array.isArray(shape) && areAll(shape, (size) => Number.isSafeInteger(size) && (size as number) >= 0);

// Whether the array's buffer went to a worker.
function isDetached(data: TensorData): boolean {
  if (!ArrayBuffer.isView(data)) return false;
  try {
    return new Uint8Array(data.buffer).length < 0;
  } catch {
    return true;
  }
}
const whyDetached = "its buffer is detached, as those are that were sent to a worker";

/**
 * A tensor of the typed array's own dtype: tensor(new Float32Array([1, 2]), [2]); of strings for an array of them.
 * `shape`: the sizes, one axis unless given; run() checks that they fit. Throws QdqError{InvalidArgument} for what is
 * neither a typed array nor an array of strings, and for sizes that are none.
 */
export function tensor<Data extends TensorData>(data: Data, shape?: readonly number[]): Tensor<DTypeOf<Data>> {
  const dtype = isTexts(data)
    ? "string"
    : (Object.keys(arrayOf) as (keyof typeof arrayOf)[]).find((name) => typeName(data) === arrayOf[name].name);
  if (!dtype)
    throw new QdqError(
      "InvalidArgument",
      "a tensor was made of something that is neither a typed array nor an array of strings",
    );
  if (isDetached(data)) throw new QdqError("InvalidArgument", `a tensor was made of an array, but ${whyDetached}`);
  if (shape !== undefined && !isShape(shape))
    throw new QdqError("InvalidArgument", `the shape of a tensor is ${shown(shape)}, wanted whole numbers from 0`);
  return { dtype, shape: shape === undefined ? [data.length] : [...shape], data } as unknown as Tensor<DTypeOf<Data>>;
}

/**
 * Throws QdqError{InvalidArgument} if dtype, shape and data do not agree.
 * @internal
 */
export function toRaw(value: Tensor, what: string): RawTensor {
  const fail = (why: string): never => {
    throw new QdqError("InvalidArgument", `${what} is not a tensor: ${why}; wanted {dtype, shape, data}`);
  };
  const { dtype, shape, data } = value ?? fail(`it is ${shown(value)}`);
  const isKnown = typeof dtype === "string" && Object.hasOwn(arrayOf, dtype);
  const type = isKnown && dtype !== "string" ? arrayOf[dtype] : undefined;
  if (!type && dtype !== "string") {
    fail(`its dtype is ${shown(dtype)}, which is none of ${Object.keys(arrayOf).join(", ")}, string`);
  }
  if (!isShape(shape)) fail(`its shape is ${shown(shape)}`);
  if (type && typeName(data) !== type.name) fail(`its data is ${typeName(data)}, ${dtype} needs ${type.name}`);
  if (!type && !isTexts(data)) fail("its data is not an array of strings");
  if (isDetached(data)) fail(whyDetached);
  const count = shape.reduce((product, size) => product * size, 1);
  const length = dtype === "complex64" ? 2 * count : count;
  if (data.length !== length) fail(`shape [${shape.join(", ")}] needs ${length} elements, its data has ${data.length}`);
  if (isTexts(data)) return { dtype, shape: [...shape], texts: data };
  return { dtype, shape: [...shape], bytes: new Uint8Array(data.buffer, data.byteOffset, data.byteLength) };
}

/**
 * The bytes must start on an element's boundary of a buffer of their own, as those do that WASM hands out.
 * @internal
 */
export function fromRaw(raw: RawTensor): Tensor {
  if (raw.texts) return { dtype: "string", shape: raw.shape, data: raw.texts };
  const dtype = raw.dtype as keyof typeof arrayOf;
  const type = arrayOf[dtype];
  const { buffer, byteOffset, byteLength } = raw.bytes as Uint8Array<ArrayBuffer>;
  return { dtype, shape: raw.shape, data: new type(buffer, byteOffset, byteLength / type.BYTES_PER_ELEMENT) } as Tensor;
}

/**
 * The inputs of one run as they cross the border. Throws QdqError{InvalidArgument}.
 * @internal
 */
export function rawInputs(inputs: readonly Tensor[]): RawTensor[] {
  if (!Array.isArray(inputs))
    throw new QdqError("InvalidArgument", "the inputs are not a list of tensors; wanted run([tensor, ...])");
  return Array.from(inputs, (input: Tensor, i) => toRaw(input, `input ${i}`));
}
