// Step 6: the graph of the model, with what the recipe and the last result say of it, and the settings of its layers.
import { h } from "../../src/report/html/dom.js";
import { graphView } from "../../src/report/html/graph-view.js";
import { layerSetting } from "./layer-setting.js";
import { byId } from "./page.js";
import type { Store } from "./state.js";
import { lastRun } from "./state.js";

// Answers what shows an operator in the graph.
export function graphStep(store: Store): (node: string) => void {
  const graph = graphView((module) => layerSetting(store, "module_name", module));
  byId("graph").append(
    h(
      "p",
      {},
      "Boxes are operators, and modules that are closed; a module opens with a double click, Enter or its button. " +
        "Colours tell what an operator becomes, and after quantizing how much its value moves.",
    ),
    graph.element,
  );
  store.listen((state, changed) => {
    byId("graph").hidden = !state.model;
    if (!state.model) return;
    if (changed.has("model")) graph.show(state.model.program.nodes);
    if (!changed.has("model") && !changed.has("explanation") && !changed.has("runs")) return;
    const run = lastRun(state);
    graph.know({
      ...(state.explanation && { operators: state.explanation.operators }),
      ...(run && { observers: run.quantized.report.observers, qparams: run.quantized.report.qparams }),
      ...(run?.errors && { errors: run.errors }),
    });
  });
  return graph.select;
}
