// The first screen: what is done here, in three steps, and what comes out, drawn from the result of the example.
import { sqnrMeter } from "../../src/report/html/charts.js";
import { cards, h } from "../../src/report/html/dom.js";
import { summaryOf } from "../../src/report/html/result-view.js";
import { byId } from "./page.js";
import type { Evaluation } from "./protocol.js";
import { verdictOf, verdictView } from "./verdict.js";

// What the example gives, without its speed, which each machine has for itself. A test holds it against what comes out.
const evaluation: Evaluation = {
  sqnr: 29.8,
  speed: { float: 0, int8: 0 },
  accuracy: { top1: [93.3333, 92.3333], agreement: 99, samples: 300 },
  classes: [],
};
const { speed: _, ...figures } = evaluation;
// The layers with the largest errors.
const worst = [
  ["inverted1.body.5", 24.8],
  ["inverted2.body.5", 25.0],
  ["inverted2.body.6", 25.0],
  ["head.0", 25.3],
  ["inverted1.body.6", 25.3],
] as const;

const steps = [
  ["Drop a model", "An ONNX file, or a .pt2 that torch.export.save wrote."],
  ["Drop some data", "About a hundred images or an .npz, so that qdq sees the range of every value."],
  ["Quantize", "See the accuracy of int8, look at each layer, and save the smaller model."],
] as const;

export function welcome(): void {
  byId("welcome").append(
    h("h2", {}, "Make a model up to four times smaller, and see what it costs"),
    h("ol", {}, ...steps.map(([name, text]) => h("li", {}, h("b", {}, name), h("span", {}, text)))),
  );
  const shown = summaryOf({
    bytes: [279_600, 109_700],
    layers: { total: 21, quantized: 21 },
    samples: 100,
    ...figures,
  });
  byId("preview").append(
    h(
      "figure",
      { class: "preview-result" },
      verdictView(verdictOf(evaluation, [])),
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
