// Step 4: calibrate and convert, with progress, time left, cancel, and histograms that grow.
import type { ObserverSummary } from "qdq";
import { observerFigure } from "./charts.js";
import { byId, formatSeconds, h } from "./dom.js";
import { EngineError } from "./engine.js";
import type { Stage } from "./protocol.js";
import type { Run, Store } from "./state.js";

const shownObservers = 60;

export function quantizeStep(store: Store): void {
  const start = h("button", { id: "start", type: "button", class: "primary", onclick: () => void quantize() }, "Quantize");
  const cancel = h("button", { id: "cancel", type: "button", hidden: true, onclick: () => abort?.abort() }, "Cancel");
  const bar = h("progress", { hidden: true, "aria-label": "progress" });
  const told = h("p", { id: "progress-text", "aria-live": "off" });
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const figures = h("div", { class: "observers", id: "observers" });
  const histograms = h(
    "details",
    { id: "histograms", open: true, hidden: true },
    h("summary", {}, "What the observers see"),
    h("p", {}, "Dashed lines are the ends of what the integers reach; values beyond them are clipped. Heights are logarithmic."),
    figures,
  );
  byId("quantize").append(h("div", { class: "controls" }, start, cancel, bar), told, problem, histograms);

  let abort: AbortController | undefined;

  // Time left by the steps done so far.
  function follower(): (stage: Stage) => void {
    let name = "",
      began = 0;
    return ({ stage, done, total, observers }) => {
      if (stage !== name) {
        name = stage;
        began = performance.now();
        byId("status").textContent = stage;
      }
      if (total > 0) {
        bar.max = total;
        bar.value = done;
      } else bar.removeAttribute("value");
      const seconds = (performance.now() - began) / 1000;
      const left = done > 0 && done < total ? `, about ${formatSeconds((seconds / done) * (total - done))} left` : "";
      told.textContent = total > 0 ? `${stage}: batch ${done} of ${total}${left}` : stage;
      if (observers) show(observers);
    };
  }

  function show(observers: readonly ObserverSummary[]): void {
    histograms.hidden = false;
    const seen = observers.filter(({ counts }) => counts),
      rest = observers.filter(({ counts }) => !counts);
    figures.replaceChildren(
      ...[...seen, ...rest].slice(0, shownObservers).map(observerFigure),
      ...(observers.length > shownObservers ? [h("p", {}, `and ${observers.length - shownObservers} more, which the report shows`)] : []),
    );
  }

  async function quantize(): Promise<void> {
    const { engine, recipe } = store.state;
    if (!engine) return;
    abort = new AbortController();
    const work = { onProgress: follower(), signal: abort.signal };
    problem.hidden = true;
    told.textContent = "Preparing";
    store.update({ busy: true });
    const earlier = store.state.runs;
    let run: Run | undefined;
    // The model can be saved as soon as it is there; what is measured on it comes after.
    const know = (more: Partial<Run>): void => {
      run = { ...run!, ...more };
      if (engine === store.state.engine) store.update({ runs: [...earlier, run] });
    };
    try {
      const quantized = await engine.call("quantize", [recipe], work);
      know({ recipe, quantized });
      show(quantized.report.observers);
      know({ errors: await engine.call("compare", [], work) });
      know({ evaluation: await engine.call("evaluate", [store.state.test ? "test" : "calibration"], work) });
      const { calibrate, convert } = quantized.seconds;
      told.textContent = `Done: calibrated in ${formatSeconds(calibrate)}, converted in ${formatSeconds(convert)}.`;
      byId("status").textContent = "Done";
    } catch (error) {
      if (engine !== store.state.engine) return;
      const cancelled = (error as EngineError).code === "Cancelled";
      told.textContent = cancelled ? "Cancelled." : "";
      byId("status").textContent = cancelled ? "Cancelled" : "";
      if (!cancelled) {
        problem.textContent = (error as Error).message;
        problem.hidden = false;
      }
    } finally {
      if (engine === store.state.engine) store.update({ busy: false });
    }
  }

  store.listen(({ model, calibration, busy }, changed) => {
    byId("quantize").hidden = !model;
    start.disabled = busy || !calibration;
    cancel.hidden = bar.hidden = !busy;
    if (changed.has("model")) {
      histograms.hidden = true;
      told.textContent = "";
      problem.hidden = true;
    }
    if (!calibration && !busy) told.textContent = "Drop calibration data first.";
    else if (changed.has("calibration")) told.textContent = "";
  });
}
