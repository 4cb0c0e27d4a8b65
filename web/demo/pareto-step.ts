// The view of what accuracy costs: each result as a point, and how the score grows with every operator left in float.
import { formatBytes, h } from "../../src/report/html/dom.js";
import type { Point } from "../../src/report/html/front-view.js";
import { frontChart, trialsView } from "../../src/report/html/front-view.js";
import { byId } from "./page.js";
import { nameOf } from "./runs-table.js";
import type { Run, State, Store } from "./state.js";
import { shownRun, sizeOf } from "./state.js";

interface Quality {
  value: number;
  float?: number; // of the float model
  unit: string;
  name: string;
}

// The number of a result of which more is better: top-1, else equal answers, else dB.
function qualityOf({ evaluation }: Run): Quality | undefined {
  if (evaluation?.accuracy?.top1) {
    const [float, value] = evaluation.accuracy.top1;
    return { value, float, unit: "%", name: "Top-1" };
  }
  if (evaluation?.accuracy)
    return { value: evaluation.accuracy.agreement, float: 100, unit: "%", name: "Same answer as float" };
  return typeof evaluation?.sqnr === "number" ? { value: evaluation.sqnr, unit: "dB", name: "SQNR" } : undefined;
}

function resultsChart(state: State, choose: (id: number) => void): HTMLElement {
  const qualities = state.runs.map((run) => qualityOf(run));
  const name = qualities.find((quality) => quality)?.name;
  const points: Point[] = state.runs.flatMap((run, i) => {
    const quality = qualities[i];
    return quality && quality.name === name
      ? [{ name: nameOf(run), x: sizeOf(run), y: quality.value, id: run.id }]
      : [];
  });
  if (!name || points.length === 0)
    return h("p", {}, "Quantize and measure with several recipes: each result becomes a point, size against accuracy.");
  const { unit, float } = qualities.find((quality) => quality)!;
  // What all results are measured by, where it has a score of its own.
  if (float !== undefined) points.push({ name: "the float model", x: state.model!.bytes, y: float });
  const names = { x: "Size", y: `${name} (${unit})`, ofX: formatBytes, ofY: (y: number) => `${y.toFixed(1)} ${unit}` };
  return h(
    "div",
    {},
    h("p", {}, "Up and to the left is better. The line joins the results that no other beats in both."),
    frontChart(points, names, ({ id }) => id !== undefined && choose(id)),
  );
}

function reachedView(run: Run | undefined): HTMLElement | "" {
  const reached = run?.quantized.reached;
  if (!run || !reached) return "";
  const { unit, wanted } = reached;
  return h(
    "div",
    { id: "trials" },
    h("h3", {}, `Gain from operators in float (${nameOf(run)}, wanted ${wanted} ${unit})`),
    trialsView(reached.trials, unit),
    reached.operators.length > 0
      ? h("p", {}, `In float now: ${reached.operators.map(({ module, node }) => module || node).join(", ")}.`)
      : "",
  );
}

export function paretoStep(store: Store): void {
  const body = h("div", {});
  byId("pareto").append(h("h2", {}, "Size against accuracy"), body);
  store.listen((state, changed) => {
    if (!changed.has("runs") && !changed.has("shown") && !changed.has("model")) return;
    body.replaceChildren(
      resultsChart(state, (shown) => store.update({ shown, tab: "result" })),
      reachedView(shownRun(state)),
    );
  });
}
