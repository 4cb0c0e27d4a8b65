// Calibrate and convert, with progress, time left and cancel; the button and the last verdict are always in sight.
import type { ObserverSummary } from "qdq";
import { h } from "../../src/report/html/dom.js";
import { errorsBehindClamps } from "../../src/report/html/result-view.js";
import type { Engine, Work } from "./engine.js";
import { byId, formatSeconds, isImage, problemLine } from "./page.js";
import type { Equipment, Evaluation, Quantized, QuantizeOptions, Sample } from "./protocol.js";
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

// With what the page computes, and why it has one thread where it has one.
function equipmentText({ threads, isolated }: Equipment): string {
  if (threads > 1) return `Uses ${threads} threads.`;
  const why = !isolated
    ? "a browser gives more to pages that are cross-origin isolated, whose server sends the headers " +
      "Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp"
    : navigator.hardwareConcurrency > 1
      ? "the browser could not start workers for more"
      : "this machine has one processor";
  return `Uses one thread: ${why}.`;
}

// What the remedies brought together, and which of them helped.
function recoveredText(remedies: Quantized["remedies"]): string {
  if (!remedies || remedies.length === 0) return "";
  const decibels = (value: number): string => `${value.toFixed(1)} dB`;
  const kept = [...new Set(remedies.filter(({ changes }) => changes > 0).map(({ remedy }) => remedy))];
  const from = remedies[0]!.before;
  const to = remedies.at(-1)!.after;
  return kept.length === 0
    ? `No remedy raised the SQNR on the calibration samples above ${decibels(from)}.`
    : `Recovery raised the SQNR on the calibration samples from ${decibels(from)} to ${decibels(to)} ` +
        `(${kept.join(", ")}).`;
}

// What leaving operators in float brought.
function reachedText(reached: Quantized["reached"]): string {
  if (!reached) return "";
  const { unit, wanted, operators } = reached;
  const after = `${reached.after.toFixed(1)} ${unit}`;
  if (!reached.reached) return `No choice of operators in float reaches ${wanted} ${unit}; int8 has ${after}.`;
  const count = operators.length === 1 ? "one operator" : `${operators.length} operators`;
  return `${operators.length === 0 ? "Without any operator" : `With ${count}`} in float the outputs reach ${after}.`;
}

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
  const epochs = h("input", {
    id: "epochs",
    type: "number",
    min: "1",
    max: "1000",
    step: "1",
    placeholder: "off",
    title:
      "Quantization-aware training: the weights adapt to the rounding, from labels or, without them, from " +
      "the float model's answers",
    oninput: () => {
      // What training ends with is not recovered any more.
      recovers.disabled = wanted.disabled = epochs.value !== "";
    },
  });
  const wanted = h("input", {
    id: "wanted",
    type: "number",
    min: "0",
    max: "200",
    step: "0.1",
    placeholder: "off",
    title:
      "Leaves as few operators in float as this score needs: percent of equal answers, or dB for models that do not " +
      "classify",
  });
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
  byId("recipe").append(
    h(
      "details",
      { id: "after-calibration", open: true },
      h("summary", {}, "After the calibration"),
      h("div", { class: "controls" }, recoversLabel),
      h("label", { class: "choice" }, "Minimum score (%, dB) ", wanted),
      h("label", { class: "choice" }, "Training epochs ", epochs),
    ),
  );
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
    const score = wanted.valueAsNumber;
    const rounds = epochs.valueAsNumber;
    const isTrained = Number.isFinite(rounds);
    return {
      recovers: recovers.checked && !isTrained,
      ...(Number.isFinite(score) && !isTrained && { wanted: score }),
      ...(isTrained && { epochs: Math.max(1, Math.floor(rounds)) }),
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
      const { calibrate, convert } = quantized.seconds;
      if (quantized.losses) {
        const [from, to] = [quantized.losses[0]!, quantized.losses.at(-1)!].map((loss) => loss.toFixed(3));
        const loss = quantized.losses.length > 1 ? `the loss went from ${from} to ${to}` : `the loss is ${to}`;
        return `Done: trained in ${formatSeconds(calibrate)}; ${loss}.`;
      }
      if (quantized.samples > 0)
        return `Done: calibrated in ${formatSeconds(calibrate)}, converted in ${formatSeconds(convert)}.`;
      const measured = measuringData(store.state) ? "" : " Drop data to measure the result on.";
      return `Done: converted in ${formatSeconds(calibrate + convert)}; this recipe needs no calibration.${measured}`;
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
    epochs.value = "";
    recovers.disabled = wanted.disabled = false;
    recovers.checked = true;
    void quantize();
  };
}
