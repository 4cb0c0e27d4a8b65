// One sample beside what both models answer to it, drawn.
import { h } from "../../src/report/html/dom.js";
import { boxesOf, drawingOf, maskOf } from "./detections.js";
import type { Box, Drawing } from "./detections.js";
import type { Picture, Sample, Value } from "./protocol.js";
import { textOf } from "./vocabulary.js";

const side = 320; // of what is drawn, at least
const shownNumbers = 6; // of an output that is drawn as numbers
const hueOf = (index: number): number => (index * 137.5) % 360; // far apart for neighbours

export interface Drawn {
  drawing: Drawing | ""; // "": what the outputs look like
  threshold: number; // of boxes
  classes: readonly string[];
  vocabulary: readonly string[];
}

const canvasOf = (width: number, height: number): [HTMLCanvasElement, CanvasRenderingContext2D] => {
  const canvas = h("canvas", { width, height });
  return [canvas, canvas.getContext("2d")!];
};

function drawPicture({ width, height, pixels }: Picture): HTMLCanvasElement {
  const [canvas, context] = canvasOf(width, height);
  context.putImageData(new ImageData(pixels, width, height), 0, 0);
  return canvas;
}

// A sound as its largest and least values, column by column. It stands on the page's own ground in both themes.
function drawWave(wave: ArrayLike<number>): HTMLCanvasElement {
  const [canvas, context] = canvasOf(side, side / 4);
  const each = wave.length / side;
  let largest = 1e-12;
  for (let i = 0; i < wave.length; ++i) largest = Math.max(largest, Math.abs(wave[i]!));
  context.fillStyle = "#5b8def";
  for (let x = 0; x < side; ++x) {
    let [low, high] = [0, 0];
    for (let i = Math.floor(x * each); i < (x + 1) * each; ++i)
      [low, high] = [Math.min(low, wave[i]!), Math.max(high, wave[i]!)];
    const top = (1 - high / largest) * (canvas.height / 2);
    context.fillRect(x, top, 1, Math.max(1, (1 - low / largest) * (canvas.height / 2) - top));
  }
  return canvas;
}

// The picture large enough that lines upon it can be read.
function enlarged(picture: Picture | undefined, width: number, height: number): [HTMLCanvasElement, number] {
  const scale = Math.max(1, Math.ceil(side / Math.max(width, height)));
  const [canvas, context] = canvasOf(width * scale, height * scale);
  context.imageSmoothingEnabled = false;
  if (picture) context.drawImage(drawPicture(picture), 0, 0, canvas.width, canvas.height);
  return [canvas, scale];
}

function drawBoxes(picture: Picture, boxes: readonly Box[], classes: readonly string[]): HTMLCanvasElement {
  const [canvas, scale] = enlarged(picture, picture.width, picture.height);
  const context = canvas.getContext("2d")!;
  context.lineWidth = 3;
  context.font = "bold 14px sans-serif";
  for (const { box, score, class: index } of boxes) {
    const [x0, y0, x1, y1] = box.map((edge) => edge * scale) as [number, number, number, number];
    const label = `${classes[index] ?? `class ${index}`} ${(100 * score).toFixed(0)} %`;
    context.strokeStyle = context.fillStyle = `hsl(${hueOf(index)} 90% 60%)`;
    context.strokeRect(x0, y0, x1 - x0, y1 - y0);
    const top = Math.max(0, y0 - 18);
    context.fillRect(x0, top, context.measureText(label).width + 8, 18);
    context.fillStyle = "#000";
    context.fillText(label, x0 + 4, top + 14);
  }
  return canvas;
}

function drawMask(picture: Picture | undefined, value: Value): HTMLCanvasElement | undefined {
  const mask = maskOf(value);
  if (!mask) return undefined;
  const { width, height, classes } = mask;
  const [canvas] = enlarged(picture, width, height);
  const context = canvas.getContext("2d")!;
  const [layer, on] = canvasOf(width, height);
  for (let i = 0; i < classes.length; ++i) {
    if (classes[i] === 0) continue; // the ground
    on.fillStyle = `hsl(${hueOf(classes[i]!)} 90% 55% / .6)`;
    on.fillRect(i % width, Math.floor(i / width), 1, 1);
  }
  context.drawImage(layer, 0, 0, canvas.width, canvas.height);
  return canvas;
}

function drawPlane({ shape, data }: Value): HTMLCanvasElement {
  const [height, width] = shape.slice(-2) as [number, number];
  const channels = shape.length === 3 ? shape[0]! : 1;
  const numbers = data as ArrayLike<number>;
  let [low, high] = [Infinity, -Infinity];
  for (let i = 0; i < numbers.length; ++i) [low, high] = [Math.min(low, numbers[i]!), Math.max(high, numbers[i]!)];
  const pixels = new Uint8ClampedArray(4 * width * height).fill(255);
  for (let i = 0; i < width * height; ++i)
    for (let k = 0; k < 3; ++k)
      pixels[4 * i + k] =
        (255 * (numbers[Math.min(k, channels - 1) * width * height + i]! - low)) / Math.max(high - low, 1e-12);
  return drawPicture({ width, height, pixels });
}

// How far the numbers of the int8 model are from the float model's.
function distance(float: Value, int8: Value): string {
  let [signal, noise] = [0, 0];
  for (let i = 0; i < float.data.length; ++i) {
    const x = Number(float.data[i]);
    signal += x * x;
    noise += (x - Number(int8.data[i])) ** 2;
  }
  const share = signal > 0 ? 100 * Math.sqrt(noise / signal) : 0;
  const count = `${float.data.length} ${float.data.length === 1 ? "value" : "values"}`;
  return `${float.name}: ${count}, ${share.toFixed(1)} % off`;
}

// What one model answers: a drawing and a line about it.
function answerOf(
  sample: Sample,
  values: readonly Value[],
  drawn: Drawn,
): { canvas?: HTMLCanvasElement; text: string } {
  const [first] = values;
  const { picture } = sample;
  const drawing = drawn.drawing || drawingOf(values, picture);
  if (drawing === "boxes" && picture) {
    const boxes = boxesOf(values, picture, drawn.threshold);
    if (boxes) {
      const count = boxes.length === 1 ? "1 box" : `${boxes.length} boxes`;
      return { canvas: drawBoxes(picture, boxes, drawn.classes), text: count };
    }
  }
  const mask = drawing === "mask" && first ? drawMask(picture, first) : undefined;
  if (mask) return { canvas: mask, text: "" };
  if (drawing === "picture" && first && first.shape.length >= 2) return { canvas: drawPlane(first), text: "" };
  if (drawing === "wave" && first) return { canvas: drawWave(first.data as ArrayLike<number>), text: "" };
  const numbers = Array.from<unknown>(first?.data.slice(0, shownNumbers) ?? []);
  const more = first && first.data.length > shownNumbers ? ", …" : "";
  return { text: `${numbers.map((each) => Number(Number(each).toPrecision(3))).join(", ")}${more}` };
}

// The share of pixels that both masks give the same class.
function samePixels(a: Value, b: Value): string {
  const [x, y] = [maskOf(a), maskOf(b)];
  if (!x || !y) return "";
  let same = 0;
  for (let i = 0; i < x.classes.length; ++i) if (x.classes[i] === y.classes[i]) ++same;
  return `the same class at ${((100 * same) / x.classes.length).toFixed(1)} % of the pixels`;
}

// What the sample itself looks like.
export function inputView({ picture, wave, ids }: Sample, vocabulary: readonly string[]): HTMLCanvasElement | string {
  if (picture) return drawPicture(picture);
  if (wave) return drawWave(wave);
  return ids && vocabulary.length > 0 ? textOf(ids, vocabulary) : "";
}

// A sample as a figure: what came in and what came out of both models.
export function sampleView(sample: Sample, drawn: Drawn): HTMLElement {
  const { float = [], int8 = [], file } = sample;
  const isMask = (drawn.drawing || drawingOf(float, sample.picture)) === "mask";
  const part = (name: string, canvas: HTMLCanvasElement | undefined, text: string): HTMLElement => {
    canvas?.setAttribute("role", "img");
    canvas?.setAttribute("aria-label", `${name}, ${file}`);
    return h("div", {}, h("b", {}, name), canvas, text && h("small", {}, text));
  };
  const input = inputView(sample, drawn.vocabulary);
  const shown = typeof input === "string" ? part("Input", undefined, input) : part("Input", input, "");
  const answers = (
    [
      ["Float", float],
      ["Int8", int8],
    ] as const
  ).map(([name, values]) => {
    const { canvas, text } = answerOf(sample, values, drawn);
    return part(name, canvas, text);
  });
  const lines = float.map((value, i) => distance(value, int8[i]!));
  const same = isMask && float[0] && int8[0] ? samePixels(float[0], int8[0]) : "";
  return h(
    "figure",
    { class: "sample" },
    h("div", { class: "answers" }, shown, ...answers),
    h("figcaption", {}, file, ...[same, ...lines.slice(0, 4)].filter(Boolean).map((line) => h("small", {}, line))),
  );
}
