// Step 4: calibrate and convert, with progress, time left, cancel, and histograms that grow.
import { observerGallery } from "../../src/report/html/charts.js";
import { h } from "../../src/report/html/dom.js";
import type { Engine, Work } from "./engine.js";
import { byId, formatSeconds, problemLine } from "./page.js";
import type { Equipment, Quantized } from "./protocol.js";
import { canQuantize, lastRun, measuringData } from "./state.js";
import type { Run, State, Store } from "./state.js";
import { workLine } from "./work.js";

// With what the page computes, and why it has one thread where it has one.
function equipmentText({ threads, isolated }: Equipment): string {
  if (threads > 1) return `Computes with ${threads} threads.`;
  const why = !isolated
    ? "a browser gives more to pages that are cross-origin isolated, whose server sends the headers " +
      "Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp"
    : navigator.hardwareConcurrency > 1
      ? "the browser could not start workers for more"
      : "this machine has one processor";
  return `Computes with one thread: ${why}.`;
}

// What the remedies brought together, and which of them helped.
function recoveredText(remedies: Quantized["remedies"]): string {
  if (!remedies || remedies.length === 0) return "";
  const decibels = (value: number): string => `${value.toFixed(1)} dB`;
  const kept = remedies.filter(({ changes }) => changes > 0).map(({ remedy }) => remedy);
  const from = remedies[0]!.before;
  const to = remedies.at(-1)!.after;
  return kept.length === 0
    ? ` Nothing brought the outputs nearer to float than ${decibels(from)}.`
    : ` Signal to noise of the outputs: ${decibels(from)}, recovered ${decibels(to)} (${kept.join(", ")}).`;
}

export function quantizeStep(store: Store): void {
  const start = h(
    "button",
    { id: "start", type: "button", class: "primary", onclick: () => void quantize() },
    "Quantize",
  );
  const again = h(
    "button",
    { id: "measure", type: "button", hidden: true, onclick: () => void measure() },
    "Measure the last result",
  );
  const recovers = h("input", { id: "recover", type: "checkbox" });
  const recoversLabel = h(
    "label",
    {
      title:
        "Equalized channels, better ranges, corrected biases: whatever brings the outputs nearer to the float model's",
    },
    recovers,
    " Recover accuracy",
  );
  const gallery = observerGallery();
  const histograms = h(
    "details",
    { id: "histograms", open: true, hidden: true },
    h("summary", {}, "What the observers see"),
    h(
      "p",
      {},
      "Dashed lines are the ends of what the integers reach; values beyond them are clipped. Heights are logarithmic.",
    ),
    gallery.element,
  );
  const { element: problem, fail } = problemLine();
  const line = workLine("progress", ({ observers }) => {
    if (!observers) return;
    histograms.hidden = false;
    gallery.show(observers);
  });
  const equipment = h("p", { id: "equipment", class: "told" });
  byId("quantize").append(
    h("div", { class: "controls" }, start, recoversLabel, again),
    equipment,
    line.element,
    problem,
    histograms,
  );

  let told = ""; // of what is missing

  // What is not measured yet on the data that is there.
  const missing = (state: State): boolean => {
    const run = lastRun(state);
    const data = measuringData(state);
    return run !== undefined && data !== undefined && (!run.errors || run.evaluatedOn !== data);
  };

  // Measures the last result: the errors of its layers, and both models on the test data.
  async function measureLast(engine: Engine, how: Work): Promise<void> {
    const know = (more: Partial<Run>): void => {
      const { runs } = store.state;
      if (engine === store.state.engine) store.update({ runs: [...runs.slice(0, -1), { ...runs.at(-1)!, ...more }] });
    };
    const data = measuringData(store.state);
    if (!data) return;
    if (!lastRun(store.state)?.errors) know({ errors: await engine.call("compare", [], how) });
    if (lastRun(store.state)?.evaluatedOn === data) return;
    const evaluation = await engine.call("evaluate", [store.state.test ? "test" : "calibration"], how);
    know({ evaluation, evaluatedOn: data });
  }

  // Long work on the engine of now; `tell` is its last word where nobody cancelled it.
  async function work(begin: string, job: (engine: Engine, how: Work) => Promise<string>): Promise<void> {
    const { engine } = store.state;
    if (!engine) return;
    fail("");
    store.update({ busy: true });
    const before = store.state.runs.length;
    try {
      const last = await line.run(begin, (how) => job(engine, how));
      if (engine !== store.state.engine) return;
      if (last !== undefined) {
        line.tell(last);
        byId("status").textContent = last;
      } else if (missing(store.state)) {
        const there =
          store.state.runs.length > before ? "The int8 model is there" : "The earlier result is there still";
        line.tell(`Cancelled. ${there}; Measure finds out the rest, without quantizing again.`);
      } else if (store.state.runs.length > 0) line.tell("Cancelled. The earlier result is there still.");
    } catch (error) {
      if (engine === store.state.engine) fail((error as Error).message);
    } finally {
      if (engine === store.state.engine) store.update({ busy: false });
    }
  }

  const quantize = (): Promise<void> =>
    work("Preparing", async (engine, how) => {
      const { recipe } = store.state;
      const quantized = await engine.call("quantize", [recipe, recovers.checked], how);
      // The model can be saved as soon as it is there; what is measured on it comes after.
      if (engine === store.state.engine) store.update({ runs: [...store.state.runs, { recipe, quantized }] });
      gallery.show(quantized.report.observers);
      await measureLast(engine, how);
      const { calibrate, convert } = quantized.seconds;
      if (quantized.samples > 0)
        return (
          `Done: calibrated in ${formatSeconds(calibrate)}, converted in ${formatSeconds(convert)}.` +
          recoveredText(quantized.remedies)
        );
      const measured = measuringData(store.state) ? "" : " Drop data to measure the result on.";
      return `Done: converted in ${formatSeconds(calibrate + convert)}; this recipe needs no calibration.${measured}`;
    });

  const measure = (): Promise<void> =>
    work("Measuring", async (engine, how) => {
      await measureLast(engine, how);
      return "Done: the last result is measured.";
    });

  store.listen((state, changed) => {
    const { engine, model, explanation, busy } = state;
    byId("quantize").hidden = !model;
    start.disabled = busy || !canQuantize(state);
    again.hidden = busy || !missing(state);
    again.textContent = lastRun(state)?.evaluation ? "Measure the last result on this data" : "Measure the last result";
    if (changed.has("model")) {
      histograms.hidden = true;
      fail("");
    }
    if (changed.has("engine") && engine)
      void engine.call("warm", []).then(
        (found) => (equipment.textContent = equipmentText(found)),
        () => {}, // whoever opened the model is told
      );
    if (busy) return;
    const ready = !canQuantize(state)
      ? "Drop calibration data first."
      : explanation?.needsData === false
        ? "This recipe finds the ranges of activations as the model runs; it needs no calibration data."
        : "";
    if (ready !== told || changed.has("calibration")) line.tell((told = ready));
  });
}
