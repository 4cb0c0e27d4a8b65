// The view of all operators: what each becomes and why, its setting, and its error once there is a result.
import type { Explanation, LayerError } from "qdq";
import { sqnrMeter } from "../../src/report/html/charts.js";
import { formatBytes, formatShape, h, row } from "../../src/report/html/dom.js";
import { decibelsOf } from "../../src/report/html/graph-facts.js";
import { operatorCell, outcomeCell } from "../../src/report/html/result-view.js";
import { layerSetting } from "./layer-setting.js";
import { byId } from "./page.js";
import type { State, Store } from "./state.js";
import { shownRun } from "./state.js";
import { virtualTable } from "./virtual-table.js";

interface Line {
  operator: Explanation;
  error: LayerError | undefined;
}

const orders: Record<string, (a: Line, b: Line) => number> = {
  "in the order of the graph": () => 0,
  "largest error first": (a, b) => (decibelsOf(a.error) ?? Infinity) - (decibelsOf(b.error) ?? Infinity),
  "most noise of its own first": (a, b) =>
    (decibelsOf(a.error?.own) ?? Infinity) - (decibelsOf(b.error?.own) ?? Infinity),
};
const decibels = (value: number | undefined): { class: string; content: string } => ({
  class: "n",
  content: value === undefined ? "–" : `${value.toFixed(1)} dB`,
});

// `choose` shows an operator in the graph.
export function layersStep(store: Store, choose: (node: string) => void): void {
  const filter = h("input", {
    type: "search",
    id: "layer-filter",
    placeholder: "find a layer",
    "aria-label": "find a layer",
    oninput: () => store.update({ find: filter.value }),
  });
  const order = h(
    "select",
    { id: "layer-order", "aria-label": "order of the layers", onchange: () => show(store.state) },
    ...Object.keys(orders).map((name) => h("option", {}, name)),
  );
  const found = h("span", { class: "where", role: "status" });
  const counts = h("p", { id: "explained" });
  const weights = new Map<string, { bytes: number; shape: string }>();
  const heads = ["Operator", "Becomes", "Setting", "SQNR", "Bar", "Own noise", "Weights", "Because"];
  const table = virtualTable<Line>("layers", heads, ({ operator, error }) => {
    const weight = weights.get(operator.node);
    const line = row(
      operatorCell(operator, choose),
      outcomeCell(operator.outcome),
      operator.module && layerSetting(store, "module_name", operator.module),
      decibels(decibelsOf(error)),
      error && decibelsOf(error) !== undefined ? sqnrMeter(decibelsOf(error)) : "",
      decibels(decibelsOf(error?.own)),
      {
        class: "n",
        content: weight ? h("span", {}, formatBytes(weight.bytes), h("small", {}, weight.shape)) : "",
      },
      { class: "reason", content: h("span", { class: "clip", title: operator.reason }, operator.reason) },
    );
    line.dataset.node = operator.node;
    return line;
  });
  const list = h(
    "div",
    {},
    h("div", { class: "controls" }, filter, order, found),
    table.element,
    h(
      "p",
      {},
      "SQNR is the ratio of signal to quantization noise of an operator's value: 20 dB is an error of 10 %, 40 dB " +
        "of 1 %. Own noise is what the operator itself adds to the float model's values.",
    ),
  );
  byId("layers-view").append(h("h2", {}, "Layers"), counts, list);

  function show(state: State): void {
    const operators = state.explanation?.operators ?? [];
    const wanted = state.find.toLowerCase();
    const errors = new Map(shownRun(state)?.errors?.map((error) => [error.node, error]));
    const lines = operators
      .filter(({ node, module, op }) => `${node} ${module} ${op}`.toLowerCase().includes(wanted))
      .map((operator) => ({ operator, error: errors.get(operator.node) }))
      .sort(orders[order.value]);
    const none = "No operator, module or kind has this in its name.";
    found.textContent = !wanted ? "" : lines.length > 0 ? `${lines.length} of ${operators.length}` : none;
    table.element.firstElementChild!.classList.toggle("unmeasured", errors.size === 0);
    table.show(lines);
  }

  store.listen((state, changed) => {
    const isVisible = state.tab === "layers";
    if (filter.value !== state.find) filter.value = state.find;
    if (changed.has("model")) {
      weights.clear();
      const { attributes = [], nodes = [] } = state.model?.program ?? {};
      const known = new Map(attributes.map((attribute) => [attribute.name, attribute]));
      // The largest tensor that an operator reads, whatever the file calls it.
      for (const { op, target, users } of nodes) {
        const read = op === "get_attr" ? known.get(target) : undefined;
        if (!read) continue;
        const weight = { bytes: read.bytes, shape: formatShape(read.shape) };
        for (const user of users) if (read.bytes > (weights.get(user)?.bytes ?? 0)) weights.set(user, weight);
      }
    }
    // Without an explanation there is nothing to list.
    if (changed.has("explanationError")) {
      const { explanationError = "" } = state;
      list.hidden = explanationError !== "";
      if (explanationError) counts.textContent = `${explanationError[0]!.toUpperCase()}${explanationError.slice(1)}.`;
    }
    if (changed.has("explanation") && state.explanation) {
      const operators = state.explanation.operators;
      const count = (outcome: string): number => operators.filter((operator) => operator.outcome === outcome).length;
      counts.textContent =
        `${count("quantized")} ${count("quantized") === 1 ? "operator" : "operators"} in int8` +
        `${count("fused") > 0 ? `, ${count("fused")} fused into them` : ""}, ` +
        `${count("float")} in float.` +
        (operators.some(({ module }) => module)
          ? ""
          : " The file names no modules. Settings for all operators of a type are under Recipe, Types of layers.") +
        state.explanation.conflicts.map(({ message }) => ` Conflict: ${message}.`).join("");
    }
    const isNews = ["explanation", "runs", "shown", "find", "tab"] as const;
    if (isVisible && isNews.some((field) => changed.has(field))) show(state);
  });
}
