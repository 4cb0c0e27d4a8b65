// Calibrate and convert, with progress, time left and cancel; the button and the last verdict are always in sight.
import type { ObserverSummary } from "qdq";
import { h } from "../../src/report/html/dom.js";
import { errorsBehindClamps } from "../../src/report/html/result-view.js";
import { afterCalibration } from "./after-calibration.js";
import type { Engine, Work } from "./engine.js";
import { byId, isImage, problemLine } from "./page.js";
import type { Evaluation, QuantizeOptions, Sample } from "./protocol.js";
import { doneText, equipmentText, reachedText, recoveredText } from "./quantize-texts.js";
import { canQuantize, isUnmeasured, measuringData, shownRun } from "./state.js";
import type { Chosen, Run, State, Store } from "./state.js";
import { verdictOf } from "./verdict.js";
import { workLine } from "./work.js";

const shownSamples = 8; // of models that do not classify

// What the view of the predictions draws: nothing where the samples' own files are pictures.
function samplesFor(
  engine: Engine,
  use: "calibration" | "test",
  { predictions }: Evaluation,
  { info }: Chosen,
  how: Work,
): Promise<Sample[]> {
  const first = Array.from({ length: Math.min(shownSamples, info.samples) }, (_, i) => i);
  const places = predictions?.filter(({ file = "" }) => !isImage(file)).map(({ sample }) => sample) ?? first;
  return places.length === 0 ? Promise.resolve([]) : engine.call("samples", [use, places, !predictions], how);
}

// The runtimes that read .pt2 files; all others read .onnx.
const pt2Targets = ["executorch"];

// `showObservers` is given what the observers see while a calibration runs. Gives what quantizes again and recovers
// accuracy.
export function quantizeStep(store: Store, showObservers: (observers: readonly ObserverSummary[]) => void): () => void {
  const start = h(
    "button",
    { id: "start", type: "button", class: "primary", onclick: () => void quantize() },
    "Quantize",
  );
  const again = h(
    "button",
    { id: "measure", type: "button", hidden: true, onclick: () => void measure() },
    "Measure this result",
  );
  const after = afterCalibration();
  const verdict = h("a", { id: "dock-verdict", href: "#tab=result", hidden: true });
  verdict.addEventListener("click", (event) => {
    event.preventDefault();
    showResult();
  });
  const { element: problem, fail } = problemLine();
  const line = workLine("progress", ({ observers }) => {
    if (observers) showObservers(observers);
  });
  const equipment = h("p", { id: "equipment", class: "told" });
  byId("recipe").append(after.element);
  byId("quantize").append(h("div", { class: "controls" }, start, again, verdict), line.element, problem, equipment);

  // Brings the result into view, and the focus to its verdict.
  function showResult(): void {
    store.update({ tab: "result" });
    const title = document.getElementById("verdict");
    title?.focus({ preventScroll: true });
    byId("views").scrollIntoView({ block: "start" });
  }

  let told = ""; // of what is missing

  // The run whose model the worker holds.
  let held = 0;

  // Measures the shown result: the errors of its layers, and both models on the test data.
  async function measureShown(engine: Engine, how: Work): Promise<void> {
    const data = measuringData(store.state);
    const run = shownRun(store.state);
    if (!data || !run) return;
    const know = (more: Partial<Run>): void => {
      if (engine === store.state.engine) store.updateRun(run.id, more);
    };
    if (held !== run.id) await engine.call("restore", [run.recipe, run.quantized.file], how);
    held = run.id;
    if (!run.errors) {
      const { nodes } = store.state.model!.program;
      know({ errors: errorsBehindClamps(await engine.call("compare", [], how), nodes) });
    }
    if (run.evaluatedOn === data) return;
    const use = store.state.test ? "test" : "calibration";
    const evaluation = await engine.call("evaluate", [use], how);
    know({ evaluation, evaluatedOn: data, samples: await samplesFor(engine, use, evaluation, data, how) });
  }

  // Long work on the engine of now; `tell` is its last word where nobody cancelled it.
  async function work(begin: string, job: (engine: Engine, how: Work) => Promise<string>): Promise<void> {
    const { engine } = store.state;
    if (!engine) return;
    fail("");
    // A button that is disabled loses the focus; Tab goes on to Cancel from here.
    const hasFocus = document.activeElement === start || document.activeElement === again;
    store.update({ busy: true });
    if (hasFocus) line.element.focus({ preventScroll: true });
    const before = store.state.runs.length;
    try {
      const last = await line.run(begin, (how) => job(engine, how));
      if (engine !== store.state.engine) return;
      if (last !== undefined) {
        line.tell(last);
        byId("status").textContent = `${last} ${shownRun(store.state)?.gained ?? ""}`.trim();
      } else if (isUnmeasured(store.state)) {
        const there = store.state.runs.length > before ? "The int8 model is ready" : "The earlier result is kept";
        line.tell(`Cancelled. ${there}; Measure completes it without quantizing again.`);
      } else if (store.state.runs.length > 0) line.tell("Cancelled. The earlier result is kept.");
    } catch (error) {
      if (engine === store.state.engine) fail((error as Error).message);
    } finally {
      if (engine === store.state.engine) store.update({ busy: false });
    }
  }

  function options(): QuantizeOptions {
    const { target, model } = store.state;
    return {
      ...after.options(),
      ...(target && { target }),
      kind: target ? (pt2Targets.includes(target.name) ? ".pt2" : ".onnx") : model!.kind,
    };
  }

  const quantize = (): Promise<void> =>
    work("Preparing", async (engine, how) => {
      const { recipe, target } = store.state;
      const quantized = await engine.call("quantize", [recipe, options()], how);
      // The model can be saved as soon as it is there; what is measured on it comes after.
      if (engine === store.state.engine) {
        held = (store.state.runs.at(-1)?.id ?? 0) + 1;
        const gained = [recoveredText(quantized.remedies), reachedText(quantized.reached)].filter(Boolean).join(" ");
        const run = { id: held, name: "", recipe, quantized, gained, ...(target && { target }) };
        store.update({ runs: [...store.state.runs, run], shown: held, tab: "result" });
      }
      await measureShown(engine, how);
      if (engine === store.state.engine && store.state.tab === "result") showResult();
      const isMeasured = quantized.losses || quantized.samples > 0 || measuringData(store.state);
      return doneText(quantized) + (isMeasured ? "" : " Drop data to measure the result on.");
    });

  const measure = (): Promise<void> =>
    work("Measuring", async (engine, how) => {
      await measureShown(engine, how);
      return "Done: the result is measured.";
    });

  function showVerdict(state: State): void {
    const run = shownRun(state);
    verdict.hidden = !run;
    if (!run) return;
    const { level, title } = verdictOf(run.evaluation, run.errors, run.quantized.report.dataWarnings);
    verdict.className = `button ${level}`;
    verdict.textContent = title.replace(/:.*/, "");
    verdict.setAttribute("aria-label", `Show the result: ${title}`);
  }

  store.listen((state, changed) => {
    const { engine, model, explanation, busy } = state;
    byId("quantize").hidden = !model;
    start.disabled = busy || !canQuantize(state);
    again.hidden = busy || !isUnmeasured(state);
    again.textContent = shownRun(state)?.evaluation ? "Measure this result on this data" : "Measure this result";
    if (changed.has("runs") || changed.has("shown") || changed.has("model")) showVerdict(state);
    if (changed.has("model")) {
      held = 0;
      fail("");
    }
    if (changed.has("engine") && engine)
      void engine.call("warm", []).then(
        (found) => (equipment.textContent = equipmentText(found)),
        () => {}, // whoever opened the model is told
      );
    if (busy) return;
    const ready = state.explanationError
      ? "This model cannot be quantized by this recipe; the message under Recipe says why."
      : !canQuantize(state)
        ? "Drop calibration data first."
        : explanation && !explanation.operators.some(({ outcome }) => outcome === "quantized")
          ? "This recipe makes no operator of this model int8; the view Layers says why."
          : explanation?.needsData === false
            ? "This recipe finds the ranges of activations while the model runs and needs no calibration data."
            : "";
    if (ready !== told || changed.has("calibration")) line.tell((told = ready));
  });

  return () => {
    if (start.disabled) return;
    after.recover();
    void quantize();
  };
}
