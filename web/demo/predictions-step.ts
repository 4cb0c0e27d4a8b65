// The view of what both models answer, sample by sample.
import type { SamplePrediction } from "qdq";
import { h } from "../../src/report/html/dom.js";
import { predictionCards } from "../../src/report/html/result-view.js";
import type { Drawing } from "./detections.js";
import { byId } from "./page.js";
import { imageOf } from "./pictures.js";
import type { Evaluation } from "./protocol.js";
import { inputView, sampleView } from "./sample-view.js";
import type { Run, State, Store } from "./state.js";
import { shownRun } from "./state.js";

const drawings: Record<Drawing | "", string> = {
  "": "what fits their shapes",
  boxes: "boxes",
  mask: "a mask",
  picture: "a picture",
  wave: "a waveform",
  numbers: "numbers",
};

export function predictionsStep(store: Store): void {
  const body = h("div", {});
  byId("predictions-view").append(h("h2", {}, "Predictions side by side"), body);
  let urls: string[] = [];

  // How the outputs of a model that does not classify are drawn.
  const drawing = h(
    "select",
    { id: "drawing", onchange: () => show(store.state) },
    ...Object.entries(drawings).map(([value, title]) => h("option", { value }, title)),
  );
  const threshold = h("input", {
    id: "threshold",
    type: "number",
    min: "0",
    max: "100",
    step: "5",
    value: "30",
    onchange: () => show(store.state),
  });
  const controls = h(
    "div",
    { class: "controls" },
    h("label", {}, "Draw the outputs as ", drawing),
    h("label", {}, "Minimum box score (%) ", threshold),
  );

  // A picture of the sample: its file, or what its numbers look like.
  function pictured(run: Run, sample: SamplePrediction): SamplePrediction {
    const image = imageOf(run, sample.file ?? "");
    if (image) urls.push(URL.createObjectURL(image));
    if (image) return { ...sample, image: urls.at(-1)! };
    const seen = run.samples?.find((each) => each.sample === sample.sample);
    const view = seen ? inputView(seen, store.state.vocabulary) : "";
    if (typeof view !== "string") return { ...sample, image: view.toDataURL() };
    return view ? { ...sample, file: view } : sample;
  }

  function classified(run: Run, { predictions = [], classes }: Evaluation): void {
    body.replaceChildren(
      h("p", {}, "Worst first: samples with different answers (framed), then those whose scores changed most."),
      predictionCards(
        predictions.map((sample) => pictured(run, sample)),
        classes.length > 0 ? classes : store.state.classes,
      ),
    );
  }

  function drawn({ samples = [] }: Run, { classes, vocabulary }: State): void {
    const how = {
      drawing: drawing.value as Drawing | "",
      threshold: (threshold.valueAsNumber || 0) / 100,
      classes,
      vocabulary,
    };
    body.replaceChildren(
      controls,
      h("div", { class: "samples", id: "samples" }, ...samples.map((sample) => sampleView(sample, how))),
    );
  }

  function show(state: State): void {
    urls.forEach((url) => URL.revokeObjectURL(url));
    urls = [];
    const run = shownRun(state);
    const evaluation = run?.evaluation;
    if (run && evaluation?.predictions?.length) classified(run, evaluation);
    else if (run?.samples?.length) drawn(run, state);
    else
      body.replaceChildren(
        h("p", {}, "Quantize first, with data to measure on: the answers of both models appear here."),
      );
  }
  const fields = ["runs", "shown", "model", "vocabulary", "classes"] as const;
  store.listen((state, changed) => {
    if (fields.some((field) => changed.has(field))) show(state);
  });
}
