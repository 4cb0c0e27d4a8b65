// The first screen: what is done here, in three steps, and what comes out, drawn from the result of the example.
import { sqnrMeter } from "../../src/report/html/charts.js";
import { cards, h } from "../../src/report/html/dom.js";
import { summaryOf } from "../../src/report/html/result-view.js";
import { byId } from "./page.js";
import type { Evaluation } from "./protocol.js";
import { verdictOf, verdictView } from "./verdict.js";

// What the example gives, without its speed, which each machine has for itself. A test holds it against what comes out.
const evaluation: Evaluation = {
  sqnr: 16.2,
  speed: { float: 0, int8: 0 },
  accuracy: { top1: [91.1458, 89.0625], agreement: 95.5729, samples: 384 },
  classes: [],
};
const { speed: _, ...figures } = evaluation;
const layer = (name: string, sqnrDb: number, own = sqnrDb) => {
  const error = { mse: 0, cosine: null, maxError: 0 };
  return { node: name, module: name, op: "", quantized: true, ...error, sqnrDb, own: { ...error, sqnrDb: own } };
};
// The layer that the verdict names, and those with the largest errors.
const blamed = layer("separable2.0", 22.8, 26.2);
const worst = [
  ["head.2", 15.2],
  ["head.0", 15.4],
  ["inverted2.body.6", 15.5],
  ["inverted2", 15.7],
  ["inverted2.body.5", 16.0],
] as const;

const steps = [
  ["Drop a model", "An ONNX file, or a .pt2 that torch.export.save wrote."],
  ["Drop some data", "About a hundred images or an .npz, so that qdq sees the range of every value."],
  ["Quantize", "See the accuracy of int8, look at each layer, and save the smaller model."],
] as const;

export function welcome(): void {
  byId("welcome").append(
    h("h2", {}, "Make a model four times smaller, and see what it costs"),
    h("ol", {}, ...steps.map(([name, text]) => h("li", {}, h("b", {}, name), h("span", {}, text)))),
  );
  const shown = summaryOf({
    bytes: [1_104_000, 290_900],
    layers: { total: 21, quantized: 21 },
    samples: 128,
    ...figures,
  });
  byId("preview").append(
    h(
      "figure",
      { class: "preview-result" },
      verdictView(verdictOf(evaluation, [blamed])),
      cards(shown.map(([name, value, note]) => [name, value, note ?? ""])),
      h(
        "dl",
        { class: "bars" },
        ...worst.map(([name, decibels]) =>
          h("div", {}, h("dt", {}, name), h("dd", {}, sqnrMeter(decibels)), h("dd", {}, `${decibels.toFixed(1)} dB`)),
        ),
      ),
      h("figcaption", {}, "The result of the example: a verdict, figures, and the layers with the largest errors."),
    ),
  );
}
