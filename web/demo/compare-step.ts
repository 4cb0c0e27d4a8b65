// The view of two results side by side: their figures, what differs in their recipes, and the layers that moved.
import { formatBytes, h, row, scrollTable } from "../../src/report/html/dom.js";
import { decibelsOf } from "../../src/report/html/graph-facts.js";
import { operatorCell } from "../../src/report/html/result-view.js";
import { byId } from "./page.js";
import { diffView } from "./recipe-diff.js";
import { decibelsText, nameOf, wayOf } from "./runs-table.js";
import type { Run, State, Store } from "./state.js";
import { sizeOf } from "./state.js";

const most = 50; // layers that are listed

const figures: readonly (readonly [string, (run: Run) => string])[] = [
  ["Size", (run) => formatBytes(sizeOf(run))],
  ["Layers in int8", ({ quantized: { report } }) => `${report.layers.quantized} of ${report.layers.total}`],
  ["Top-1", ({ evaluation }) => evaluation?.accuracy?.top1?.[1].toFixed(2).concat(" %") ?? "–"],
  ["Same answer as float", ({ evaluation }) => evaluation?.accuracy?.agreement.toFixed(2).concat(" %") ?? "–"],
  ["SQNR of the output", decibelsText],
  ["Time per sample", ({ evaluation }) => (evaluation ? `${evaluation.speed.int8.toFixed(2)} ms` : "–")],
  ["Calibrated on", ({ quantized }) => (quantized.samples > 0 ? `${quantized.samples} samples` : "no samples")],
  ["After the calibration", ({ quantized }) => wayOf(quantized) || "nothing"],
];

// The layers of both, those whose error changed most first.
function movedLayers(a: Run, b: Run, choose: (node: string) => void): HTMLElement | "" {
  const before = new Map(a.errors?.map((error) => [error.node, decibelsOf(error)]));
  const moved = (b.errors ?? []).flatMap((error) => {
    const [from, to] = [before.get(error.node), decibelsOf(error)];
    return from === undefined || to === undefined || Math.abs(to - from) < 0.05 ? [] : [{ error, from, to }];
  });
  if (moved.length === 0) return "";
  moved.sort((x, y) => Math.abs(y.to - y.from) - Math.abs(x.to - x.from));
  return h(
    "div",
    {},
    h("h3", {}, "Layers whose error changed most"),
    scrollTable(
      "layers whose error changed",
      ["Operator", "SQNR before", "SQNR now", "Change"],
      moved.slice(0, most).map(({ error, from, to }) =>
        row(
          operatorCell(error, choose),
          { class: "n", content: `${from.toFixed(1)} dB` },
          { class: "n", content: `${to.toFixed(1)} dB` },
          {
            class: `n ${to > from ? "gain" : "loss"}`,
            content: `${to > from ? "+" : ""}${(to - from).toFixed(1)} dB`,
          },
        ),
      ),
    ),
  );
}

// `choose` shows an operator in the graph.
export function compareStep(store: Store, choose: (node: string) => void): void {
  const [first, second] = ["compare-a", "compare-b"].map((id) =>
    h("select", { id, onchange: () => show(store.state) }),
  ) as [HTMLSelectElement, HTMLSelectElement];
  const body = h("div", {});
  const pick = h("div", { class: "controls" }, h("label", {}, "Compare ", first), h("label", {}, "with ", second));
  byId("compare").append(h("h2", {}, "Two results side by side"), pick, body);

  let newest = 0;
  function list({ runs }: State): void {
    for (const select of [first, second]) {
      const { value } = select;
      select.replaceChildren(...runs.map((run) => h("option", { value: String(run.id) }, nameOf(run))));
      if (runs.some(({ id }) => String(id) === value)) select.value = value;
    }
    // A new result stands beside the one before it.
    const last = runs.at(-1)?.id ?? 0;
    if (runs.length > 1 && (last > newest || first.value === second.value)) {
      first.selectedIndex = runs.length - 2;
      second.selectedIndex = runs.length - 1;
    }
    newest = last;
  }

  function show({ runs }: State): void {
    const [a, b] = [first, second].map((select) => runs.find(({ id }) => String(id) === select.value));
    pick.hidden = runs.length < 2;
    if (!a || !b || runs.length < 2) {
      body.replaceChildren(h("p", {}, "Quantize again with another recipe to see both results side by side."));
      return;
    }
    body.replaceChildren(
      scrollTable(
        "figures",
        ["Figure", nameOf(a), nameOf(b)],
        figures.map(([name, of]) => row(name, { class: "n", content: of(a) }, { class: "n", content: of(b) })),
      ),
      h("h3", {}, "Differences between the recipes"),
      JSON.stringify(a.recipe) === JSON.stringify(b.recipe)
        ? h("p", {}, "Both have the same recipe.")
        : h("pre", { class: "diff", tabindex: "0" }, ...diffView(a.recipe, b.recipe)),
      movedLayers(a, b, choose),
    );
  }
  store.listen((state, changed) => {
    if (!changed.has("runs") && !changed.has("model")) return;
    list(state);
    show(state);
  });
}
