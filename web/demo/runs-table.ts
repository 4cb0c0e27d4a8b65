// All results of the session, to be shown, named, saved and deleted.
import { formatBytes, h, row, scrollTable } from "../../src/report/html/dom.js";
import type { Quantized } from "./protocol.js";
import type { Run, Store } from "./state.js";
import { shownRun, sizeOf } from "./state.js";
import { recipeWords, verdictOf } from "./verdict.js";

const percent = (value: number | undefined): string => (value === undefined ? "–" : `${value.toFixed(1)} %`);

// A name of the person's, or the number.
export const nameOf = ({ id, name }: Run): string => name || `Result ${id}`;

export function decibelsText({ evaluation }: Run): string {
  if (!evaluation) return "–";
  if (evaluation.sqnr === undefined) return "–";
  return evaluation.sqnr === null
    ? "no error"
    : typeof evaluation.sqnr === "number"
      ? `${evaluation.sqnr.toFixed(1)} dB`
      : "no number";
}

// What was done besides calibrating; "": nothing.
export function wayOf({ remedies, losses }: Quantized): string {
  if (losses) return `trained, ${losses.length} ${losses.length === 1 ? "epoch" : "epochs"}`;
  return remedies ? "recovered" : "";
}

export function runsTable(store: Store, save: (run: Run) => void): HTMLElement | "" {
  const { state } = store;
  if (state.runs.length === 0) return "";
  const shown = shownRun(state);

  function remove(run: Run): void {
    const runs = store.state.runs.filter(({ id }) => id !== run.id);
    store.update({ runs, ...(run.id === store.state.shown && { shown: runs.at(-1)?.id }) });
  }
  const button = (label: string, run: Run, act: () => void): HTMLElement =>
    h("button", { type: "button", class: "small", "aria-label": `${label}: ${nameOf(run)}`, onclick: act }, label);

  const line = (run: Run): HTMLTableRowElement => {
    const { quantized, evaluation, recipe, id } = run;
    const name = h("input", {
      type: "text",
      value: run.name,
      placeholder: `Result ${id}`,
      "aria-label": `name of result ${id}`,
      onchange: () => store.updateRun(id, { name: name.value.trim() }),
    });
    const { level, title } = verdictOf(evaluation, run.errors, quantized.report.dataWarnings);
    const tr = row(
      name,
      h(
        "span",
        { class: `mark ${level}`, title },
        { good: "good", look: "look", broken: "broken", unknown: "–" }[level],
      ),
      h("span", {}, recipeWords(recipe), wayOf(quantized) && h("small", {}, wayOf(quantized))),
      { class: "n", content: formatBytes(sizeOf(run)) },
      { class: "n", content: `${quantized.report.layers.quantized} of ${quantized.report.layers.total}` },
      { class: "n", content: percent(evaluation?.accuracy?.top1?.[1]) },
      { class: "n", content: percent(evaluation?.accuracy?.agreement) },
      { class: "n", content: decibelsText(run) },
      { class: "n", content: evaluation ? `${evaluation.speed.int8.toFixed(2)} ms` : "–" },
      h(
        "span",
        { class: "controls" },
        run.id === shown?.id ? h("b", {}, "Shown") : button("Show", run, () => store.update({ shown: id })),
        button("Use recipe", run, () => store.update({ recipe, target: run.target })),
        button("Save", run, () => save(run)),
        button("Delete", run, () => remove(run)),
      ),
    );
    if (run.id === shown?.id) tr.className = "chosen";
    return tr;
  };
  const heads = ["Name", "Verdict", "Recipe", "Size", "Layers", "Top-1", "Agreement", "SQNR", "Per sample", "Actions"];
  return h("div", {}, h("h3", {}, "All results of this session"), scrollTable("results", heads, state.runs.map(line)));
}
