// What the outputs of a model draw: boxes of detectors, masks of segmentation, pictures and sounds. Only shapes and
// values tell which it is, so the person may say otherwise.
import type { Value } from "./protocol.js";

export interface Box {
  box: readonly [x0: number, y0: number, x1: number, y1: number]; // in pixels of the input
  score: number;
  class: number;
}
export type Drawing = "boxes" | "mask" | "picture" | "wave" | "numbers";
interface Size {
  width: number;
  height: number;
}

const most = 50; // boxes that are drawn
const largestOverlap = 0.5; // of two boxes of a class

const numbers = (value: Value): ArrayLike<number> =>
  value.data instanceof BigInt64Array ? Array.from(value.data, Number) : (value.data as ArrayLike<number>);
// Scores beyond 0..1 are logits.
const asShares = (scores: readonly number[]): number[] =>
  scores.some((score) => score < 0 || score > 1) ? scores.map((score) => 1 / (1 + Math.exp(-score))) : [...scores];

// Rows of boxes (four numbers each), scores and classes, before their coordinates are understood.
interface Rows {
  boxes: number[][];
  scores: number[][]; // of each class
  classes?: readonly number[]; // where there is one score only
  areCorners?: boolean;
}

// One output: [K, 6] with corners, score and class; [4 + C, K] with centres and the scores of C classes (YOLOv8);
// [K, 5 + C] with the score of any object in between (YOLOv5).
function rowsOfOne(value: Value): Rows | undefined {
  const { shape } = value;
  if (shape.length !== 2) return undefined;
  const [a, b] = shape as [number, number];
  const data = numbers(value);
  const count = Math.max(a, b);
  const width = Math.min(a, b);
  if (width < 5 || count <= width) return undefined;
  const row = (k: number): number[] =>
    Array.from({ length: width }, (_, i) => data[a < b ? i * count + k : k * width + i]!);
  const rows = Array.from({ length: count }, (_, k) => row(k));
  if (a < b) return { boxes: rows.map((r) => r.slice(0, 4)), scores: rows.map((r) => r.slice(4)) };
  if (width === 6 && rows.every((r) => Number.isInteger(r[5])))
    return { boxes: rows, scores: rows.map((r) => [r[4]!]), classes: rows.map((r) => r[5]!), areCorners: true };
  if (width === 5) return { boxes: rows, scores: rows.map((r) => [r[4]!]) };
  return { boxes: rows, scores: rows.map((r) => asShares(r.slice(5)).map((score) => score * asShares([r[4]!])[0]!)) };
}

// Several outputs: boxes [K, 4], scores [K], [K, C] or [C, K], and perhaps classes [K] of integers.
function rowsOfSeveral(values: readonly Value[]): Rows | undefined {
  const boxes = values.find(({ shape }) => shape.length === 2 && shape[1] === 4);
  const count = boxes?.shape[0] ?? 0;
  const others = values.filter((value) => value !== boxes && value.shape.includes(count));
  const scores = others.find(({ dtype }) => dtype === "float32");
  if (!boxes || !scores) return undefined;
  const data = numbers(scores);
  const classes = scores.shape.length === 1 ? 1 : data.length / count;
  const isFirst = scores.shape.length === 2 && scores.shape[0] !== count;
  const at = numbers(boxes);
  const labels = others.find(({ dtype, shape }) => dtype !== "float32" && shape.length === 1);
  return {
    boxes: Array.from({ length: count }, (_, k) => [0, 1, 2, 3].map((i) => at[4 * k + i]!)),
    scores: Array.from({ length: count }, (_, k) =>
      Array.from({ length: classes }, (_, c) => data[isFirst ? c * count + k : k * classes + c]!),
    ),
    ...(labels && { classes: Array.from(numbers(labels)) }),
  };
}

const rowsOf = (values: readonly Value[]): Rows | undefined =>
  values.length === 1 ? rowsOfOne(values[0]!) : (rowsOfSeveral(values) ?? values.map(rowsOfOne).find(Boolean));

function overlap({ box: a }: Box, { box: b }: Box): number {
  const area = (box: Box["box"]): number => Math.max(0, box[2] - box[0]) * Math.max(0, box[3] - box[1]);
  const both = area([Math.max(a[0], b[0]), Math.max(a[1], b[1]), Math.min(a[2], b[2]), Math.min(a[3], b[3])]);
  return both / Math.max(1e-9, area(a) + area(b) - both);
}

// The boxes with a score of at least `least`, best first, each object once; undefined for outputs that hold none.
export function boxesOf(values: readonly Value[], { width, height }: Size, least: number): Box[] | undefined {
  const rows = rowsOf(values);
  if (!rows) return undefined;
  const areCorners = rows.areCorners ?? rows.boxes.every(([x0, y0, x1, y1]) => x1! >= x0! && y1! >= y0!);
  const isShare = rows.boxes.every((row) => row.slice(0, 4).every((number) => Math.abs(number) <= 1.5));
  const [sx, sy] = isShare ? [width, height] : [1, 1];
  const found = rows.boxes.flatMap((row, k): Box[] => {
    const shares = asShares(rows.scores[k]!);
    const best = shares.indexOf(Math.max(...shares));
    if (!(shares[best]! >= least)) return [];
    const [a, b, c, d] = row as [number, number, number, number];
    const box = areCorners ? [a, b, c, d] : [a - c / 2, b - d / 2, a + c / 2, b + d / 2];
    const [x0, y0, x1, y1] = box as [number, number, number, number];
    return [{ box: [x0 * sx, y0 * sy, x1 * sx, y1 * sy], score: shares[best]!, class: rows.classes?.[k] ?? best }];
  });
  const kept: Box[] = [];
  for (const box of found.sort((a, b) => b.score - a.score)) {
    if (kept.length === most) break;
    if (!kept.some((other) => other.class === box.class && overlap(other, box) > largestOverlap)) kept.push(box);
  }
  return kept;
}

// Of [C, H, W] the class with the largest score at each pixel; of [H, W] the integers themselves.
export function maskOf(value: Value): (Size & { classes: Int32Array }) | undefined {
  const { shape, dtype } = value;
  const isIndexes = dtype !== "float32" && shape.length === 2;
  if (!isIndexes && shape.length !== 3) return undefined;
  const [height, width] = shape.slice(-2) as [number, number];
  const data = numbers(value);
  const classes = new Int32Array(width * height);
  for (let i = 0; i < classes.length; ++i) {
    if (isIndexes) classes[i] = data[i]!;
    else if (shape[0] === 1) classes[i] = asShares([data[i]!])[0]! > 0.5 ? 1 : 0;
    else
      for (let c = 1; c < shape[0]!; ++c)
        if (data[c * classes.length + i]! > data[classes[i]! * classes.length + i]!) classes[i] = c;
  }
  return { width, height, classes };
}

const isPlane = ({ shape }: Value): boolean => shape.length >= 2 && shape.slice(-2).every((extent) => extent >= 8);

// Whether planes of numbers are the classes of pixels. A detector's are not: they have a size for each scale, or tell
// of cells that are larger than a mask's.
function areMasks(values: readonly Value[], picture: Size | undefined): boolean {
  const coarsest = 8; // pixels of the input in one of a mask, by each side
  const planes = values.filter(isPlane).map(({ shape }) => shape);
  const [first] = planes;
  if (!first) return false;
  const [height, width] = first.slice(-2) as [number, number];
  return (
    planes.every((shape) => shape.join() === first.join()) &&
    (!picture || (picture.width <= coarsest * width && picture.height <= coarsest * height))
  );
}

// What the outputs look like, of a model whose input is a picture of that size.
export function drawingOf(values: readonly Value[], picture?: Size): Drawing {
  const [first] = values;
  if (!first) return "numbers";
  if (rowsOf(values)) return "boxes";
  const { shape, dtype } = first;
  if (shape.length === 2 && isPlane(first)) return dtype === "float32" ? "picture" : "mask";
  if (shape.length === 3 && isPlane(first)) {
    if (shape[0] === 1 || shape[0] === 3) return "picture";
    return areMasks(values, picture) ? "mask" : "numbers";
  }
  const long = shape.filter((extent) => extent > 1);
  return long.length === 1 && long[0]! >= 256 ? "wave" : "numbers";
}
