// The view of the graph, with what the recipe and the shown result say of it, and the settings of its layers.
import { h } from "../../src/report/html/dom.js";
import { graphView } from "../../src/report/html/graph-view.js";
import { layerSetting } from "./layer-setting.js";
import { byId } from "./page.js";
import type { Store } from "./state.js";
import { shownRun } from "./state.js";

// Answers what shows an operator in the graph.
export function graphStep(store: Store): (node: string) => void {
  let shownNode = "";
  const graph = graphView(
    (module) => layerSetting(store, "module_name", module),
    (node) => {
      shownNode = node;
      if (node !== store.state.node) store.update({ node });
    },
  );
  byId("graph").append(
    h("h2", {}, "Graph"),
    h(
      "p",
      {},
      "Each box is an operator or a closed module. Double-click a module, press Enter or use its button to open it. " +
        "Colours show what an operator becomes and, after quantizing, how large its error is.",
    ),
    graph.element,
  );
  // A graph that nobody looks at is drawn when somebody does.
  let isStale = false;
  store.listen((state, changed) => {
    if (changed.has("model")) {
      shownNode = "";
      graph.show(state.model?.program.nodes ?? []);
    }
    if (["model", "explanation", "runs", "shown"].some((field) => changed.has(field as keyof typeof state)))
      isStale = true;
    if (state.tab !== "graph" || !state.model) return;
    if (isStale) {
      isStale = false;
      const run = shownRun(state);
      graph.know({
        ...(state.explanation && { operators: state.explanation.operators }),
        ...(run && { observers: run.quantized.report.observers, qparams: run.quantized.report.qparams }),
        ...(run?.errors && { errors: run.errors }),
      });
    }
    if (state.node !== shownNode) {
      shownNode = state.node;
      if (state.node !== "") queueMicrotask(() => graph.select(state.node));
    }
  });
  return (node) => {
    shownNode = node;
    store.update({ tab: "graph", node });
    graph.select(node);
  };
}
