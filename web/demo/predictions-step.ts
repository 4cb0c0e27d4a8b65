// The view of what both models answer, sample by sample.
import { h } from "../../src/report/html/dom.js";
import { predictionCards } from "../../src/report/html/result-view.js";
import { byId } from "./page.js";
import { imageOf } from "./pictures.js";
import type { State, Store } from "./state.js";
import { shownRun } from "./state.js";

export function predictionsStep(store: Store): void {
  const body = h("div", {});
  byId("predictions-view").append(h("h2", {}, "Predictions side by side"), body);
  let urls: string[] = [];

  function show(state: State): void {
    urls.forEach((url) => URL.revokeObjectURL(url));
    urls = [];
    const run = shownRun(state);
    const evaluation = run?.evaluation;
    if (!run || !evaluation?.predictions?.length) {
      const why = evaluation
        ? "This model does not classify: there are no answers to set side by side."
        : "Quantize first, with data to measure on: the answers of both models appear here.";
      body.replaceChildren(h("p", {}, why));
      return;
    }
    const samples = evaluation.predictions.map((sample) => {
      const image = imageOf(run, sample.file ?? "");
      if (image) urls.push(URL.createObjectURL(image));
      return { ...sample, ...(image && { image: urls.at(-1)! }) };
    });
    body.replaceChildren(
      h(
        "p",
        {},
        "The worst first: samples that int8 answers otherwise than float (framed), then those whose scores moved most.",
      ),
      predictionCards(samples, evaluation.classes.length > 0 ? evaluation.classes : state.classes),
    );
  }
  store.listen((state, changed) => {
    if (changed.has("runs") || changed.has("shown") || changed.has("model")) show(state);
  });
}
