// The view of what accuracy costs: each result as a point, and how the score grows with every operator left in float.
import { formatBytes, h, row, scrollTable, svg } from "../../src/report/html/dom.js";
import { byId } from "./page.js";
import { nameOf } from "./runs-table.js";
import type { Run, State, Store } from "./state.js";
import { shownRun } from "./state.js";

export interface Point {
  name: string;
  x: number;
  y: number;
  id?: number;
}

// The points that no other beats in both: smaller and better.
export const frontOf = (points: readonly Point[]): Point[] =>
  points
    .filter(({ x, y }) => !points.some((other) => other.x <= x && other.y >= y && (other.x < x || other.y > y)))
    .sort((a, b) => a.x - b.x);

const [width, height, edge] = [640, 320, 52];

// A chart of points, with a line along the front.
function chart(
  points: readonly Point[],
  names: { x: string; y: string; ofX: (x: number) => string; ofY: (y: number) => string },
  choose: (point: Point) => void,
): SVGSVGElement {
  const span = (values: readonly number[]): [number, number] => {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const room = (high - low || Math.abs(high) || 1) * 0.12;
    return [low - room, high + room];
  };
  const [left, right] = span(points.map(({ x }) => x));
  const [low, high] = span(points.map(({ y }) => y));
  const at = ({ x, y }: Point): [number, number] => [
    edge + ((x - left) / (right - left)) * (width - 2 * edge),
    height - edge - ((y - low) / (high - low)) * (height - 1.5 * edge),
  ];
  const front = frontOf(points);
  const dots = points.map((point) => {
    const [x, y] = at(point);
    const label = `${point.name}: ${names.ofX(point.x)}, ${names.ofY(point.y)}`;
    const isButton = point.id !== undefined;
    const dot = svg(
      "g",
      {
        class: `dot${front.includes(point) ? " front" : ""}`,
        ...(isButton && { tabindex: 0, role: "button" }),
        "aria-label": label,
      },
      svg("title", {}, label),
      svg("circle", { cx: x, cy: y, r: 7 }),
      svg("text", { x: x + 11, y: y + 4 }, point.name),
    );
    dot.addEventListener("click", () => choose(point));
    dot.addEventListener("keydown", ({ key }) => key === "Enter" && choose(point));
    return dot;
  });
  return svg(
    "svg",
    { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": `${names.y} over ${names.x}` },
    svg("path", { class: "axis", d: `M${edge} ${edge / 2}V${height - edge}H${width - edge / 2}` }),
    svg("text", { x: width - edge / 2, y: height - edge + 34, "text-anchor": "end" }, `${names.x} →`),
    svg("text", { x: 8, y: edge / 2 - 8 }, `↑ ${names.y}`),
    ...[left, right].map((x, i) => {
      const [place] = at({ name: "", x, y: low });
      return svg("text", { x: place, y: height - edge + 16, "text-anchor": i === 0 ? "start" : "end" }, names.ofX(x));
    }),
    svg("path", {
      class: "front-line",
      d: front.map((point, i) => `${i === 0 ? "M" : "L"}${at(point).join(" ")}`).join(""),
    }),
    ...dots,
  );
}

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
      ? [{ name: nameOf(run), x: run.quantized.file.size, y: quality.value, id: run.id }]
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
    chart(points, names, ({ id }) => id !== undefined && choose(id)) as unknown as HTMLElement,
  );
}

function trialsView(run: Run | undefined): HTMLElement | "" {
  const reached = run?.quantized.reached;
  if (!run || !reached) return "";
  const { unit, wanted } = reached;
  const trials = [...reached.trials].sort((a, b) => a.operatorsInFloat - b.operatorsInFloat);
  return h(
    "div",
    { id: "trials" },
    h("h3", {}, `What operators in float bring (${nameOf(run)}, wanted ${wanted} ${unit})`),
    scrollTable(
      "trials",
      ["Operators in float", "Score"],
      trials.map(({ operatorsInFloat, score }) =>
        row({ class: "n", content: String(operatorsInFloat) }, { class: "n", content: `${score.toFixed(2)} ${unit}` }),
      ),
    ),
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
      trialsView(shownRun(state)),
    );
  });
}
