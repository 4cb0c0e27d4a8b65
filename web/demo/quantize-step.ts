// Step 4: calibrate and convert, with progress, time left, cancel, and histograms that grow.
import { observerGallery } from "../../src/cli/report/charts.js";
import { h } from "../../src/cli/report/dom.js";
import { byId, formatSeconds, problemLine } from "./page.js";
import type { Run, Store } from "./state.js";
import { workLine } from "./work.js";

export function quantizeStep(store: Store): void {
  const start = h("button", { id: "start", type: "button", class: "primary", onclick: () => void quantize() }, "Quantize");
  const gallery = observerGallery();
  const histograms = h(
    "details",
    { id: "histograms", open: true, hidden: true },
    h("summary", {}, "What the observers see"),
    h("p", {}, "Dashed lines are the ends of what the integers reach; values beyond them are clipped. Heights are logarithmic."),
    gallery.element,
  );
  const { element: problem, fail } = problemLine();
  const work = workLine("progress", ({ observers }) => {
    if (!observers) return;
    histograms.hidden = false;
    gallery.show(observers);
  });
  byId("quantize").append(h("div", { class: "controls" }, start), work.element, problem, histograms);

  async function quantize(): Promise<void> {
    const { engine, recipe } = store.state;
    if (!engine) return;
    fail("");
    store.update({ busy: true });
    const earlier = store.state.runs;
    let run: Run | undefined;
    // The model can be saved as soon as it is there; what is measured on it comes after.
    const know = (more: Partial<Run>): void => {
      run = { ...run!, ...more };
      if (engine === store.state.engine) store.update({ runs: [...earlier, run] });
    };
    try {
      const finished = await work.run("Preparing", async (how) => {
        const quantized = await engine.call("quantize", [recipe], how);
        know({ recipe, quantized });
        gallery.show(quantized.report.observers);
        know({ observers: await engine.call("observers", [], how) });
        know({ errors: await engine.call("compare", [], how) });
        know({ evaluation: await engine.call("evaluate", [store.state.test ? "test" : "calibration"], how) });
        return quantized;
      });
      if (engine !== store.state.engine) return;
      if (finished) {
        const { calibrate, convert } = finished.seconds;
        work.tell(`Done: calibrated in ${formatSeconds(calibrate)}, converted in ${formatSeconds(convert)}.`);
        byId("status").textContent = "Done";
      } else if (run) work.tell("Cancelled. The int8 model is there, but not all of its measurements.");
    } catch (error) {
      if (engine === store.state.engine) fail((error as Error).message);
    } finally {
      if (engine === store.state.engine) store.update({ busy: false });
    }
  }

  store.listen(({ model, calibration, busy }, changed) => {
    byId("quantize").hidden = !model;
    start.disabled = busy || !calibration;
    if (changed.has("model")) {
      histograms.hidden = true;
      fail("");
    }
    if (!calibration && !busy) work.tell("Drop calibration data first.");
    else if (changed.has("calibration") && !busy) work.tell("");
  });
}
