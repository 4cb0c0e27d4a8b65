// The view of what the observers see: it grows while a calibration runs, and stays with its result.
import type { ObserverSummary } from "qdq";
import { observerGallery } from "../../src/report/html/charts.js";
import { h } from "../../src/report/html/dom.js";
import { byId } from "./page.js";
import type { Store } from "./state.js";
import { shownRun } from "./state.js";

// Answers what shows the observers of a calibration that is under way.
export function observersStep(store: Store): (observers: readonly ObserverSummary[]) => void {
  const gallery = observerGallery();
  const nothing = h("p", {}, "Quantize first: histograms of all values appear here while the calibration runs.");
  const histograms = h("div", { id: "histograms", hidden: true }, gallery.element);
  byId("observers").append(h("h2", {}, "Observers"), nothing, histograms);
  const show = (observers: readonly ObserverSummary[]): void => {
    histograms.hidden = observers.length === 0;
    nothing.hidden = observers.length > 0;
    gallery.show(observers);
  };
  let last = 0;
  store.listen((state, changed) => {
    const run = shownRun(state);
    if (changed.has("model")) show([]);
    if (run && run.id !== last) show(run.quantized.report.observers);
    last = run?.id ?? 0;
  });
  return show;
}
