// Single samples out of batches, for the worker: what they look like, and what models answer to them.
import type { Tensor } from "qdq";
import type { Picture, Sample, Value } from "./protocol.js";

const leastSide = 8; // of what is looked at as a picture
const leastWave = 256; // values of what is looked at as a sound

// The part of a tensor that belongs to one sample of a batch; all of it where its first axis is no batch.
export function rowOf({ dtype, shape, data }: Tensor, row: number, batch: number, name = ""): Value {
  if (shape[0] !== batch) return { name, dtype, shape, data: data.slice() };
  const inner = shape.slice(1);
  const size = inner.reduce((product, extent) => product * extent, 1);
  return { name, dtype, shape: inner, data: data.slice(row * size, (row + 1) * size) };
}

// An image [C, H, W] or [H, W, C] as it looks when the normalization is taken back.
export function pictureOf({ shape, data }: Value, preprocess: Record<string, unknown>): Picture {
  const last = preprocess.layout === "NHWC";
  const [a = 1, b = 1, c = 1] = shape;
  const [channels, height, width] = last ? [c, a, b] : [a, b, c];
  const list = (name: string, otherwise: number): number[] => {
    const value = preprocess[name] ?? otherwise;
    return Array.isArray(value) ? value : [value as number];
  };
  const mean = list("mean", 0);
  const std = list("std", 1);
  const scale = (preprocess.scale as number | undefined) ?? 1 / 255;
  const pixels = new Uint8ClampedArray(4 * width * height).fill(255);
  for (let i = 0; i < width * height; ++i) {
    for (let k = 0; k < 3; ++k) {
      const bgr = preprocess.channel_order === "BGR" && channels === 3;
      const from = Math.min(bgr ? 2 - k : k, channels - 1);
      const value = Number(data[last ? i * channels + from : from * width * height + i]);
      pixels[4 * i + k] = (value * (std[from] ?? std[0]!) + (mean[from] ?? mean[0]!)) / scale;
    }
  }
  return { width, height, pixels };
}

// Numbers whose preprocessing nobody knows, from the least (black) to the largest (white).
function stretched(value: Value): Picture {
  let [low, high] = [Infinity, -Infinity];
  for (const each of value.data) [low, high] = [Math.min(low, Number(each)), Math.max(high, Number(each))];
  const isLast = value.shape.length === 3 && value.shape[2]! <= 4 && value.shape[0]! > 4;
  const std = Math.max(high - low, 1e-12);
  const shape = value.shape.length === 2 ? [1, ...value.shape] : value.shape;
  return pictureOf(
    { ...value, shape },
    { scale: 1, mean: (-low * 255) / std, std: 255 / std, ...(isLast && { layout: "NHWC" }) },
  );
}

function looksLikeImage(shape: readonly number[]): boolean {
  const [a = 0, b = 0, c = 0] = shape;
  if (shape.length === 2) return a >= leastSide && b >= leastSide;
  return (
    shape.length === 3 && ((a <= 4 && b >= leastSide && c >= leastSide) || (c <= 4 && Math.min(a, b) >= leastSide))
  );
}

// What a sample looks like, by the shape of its first input. `preprocess`: of data that is images.
export function viewOf(value: Value, preprocess?: Record<string, unknown>): Partial<Sample> {
  const { dtype, shape, data } = value;
  if (preprocess && shape.length === 3) return { picture: pictureOf(value, preprocess) };
  if (/int(32|64)/.test(dtype) && shape.length <= 1)
    return { ids: Array.from(data as ArrayLike<number | bigint>, Number) };
  if (looksLikeImage(shape)) return { picture: stretched(value) };
  const isWave = dtype === "float32" && data.length >= leastWave && shape.filter((extent) => extent > 1).length === 1;
  return isWave ? { wave: data as Float32Array } : {};
}
