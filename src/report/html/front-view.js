// What accuracy costs: programs as points, those that nothing beats joined by a line.
import { formatBytes, h, row, scrollTable, svg } from "./dom.js";

/** @typedef {{ name: string, x: number, y: number, id?: number }} Point */
/** @typedef {{ x: string, y: string, ofX: (x: number) => string, ofY: (y: number) => string }} Axes */

/**
 * The points that no other beats in both: smaller and better.
 * @param {readonly Point[]} points
 */
const frontOf = (points) =>
  points
    .filter(({ x, y }) => !points.some((other) => other.x <= x && other.y >= y && (other.x < x || other.y > y)))
    .sort((a, b) => a.x - b.x);

const [width, height, edge] = [640, 320, 52];
const margin = 96; // on the left, for scores in the letters of a narrow screen
const [letter, line] = [10, 20]; // of the names beside points, at most

/**
 * Where the name of each point begins or ends, so that none covers another: beside its point, or else lines above.
 * @param {readonly { x: number, y: number, name: string }[]} places
 */
function labelsOf(places) {
  /** @type {{ left: number, right: number, y: number }[]} */
  const taken = [];
  return places.map(({ x, y, name }) => {
    const isLeft = x > 0.7 * width;
    const edgeX = isLeft ? x + 8 : x + 11;
    const [left, right] = isLeft ? [edgeX - letter * name.length, edgeX] : [edgeX, edgeX + letter * name.length];
    let at = isLeft ? y - 14 : y + 4;
    while (taken.some((each) => each.left < right && left < each.right && Math.abs(each.y - at) < line)) at -= line;
    taken.push({ left, right, y: at });
    return { x: edgeX, y: at, ...(isLeft && { "text-anchor": "end" }) };
  });
}

/**
 * A chart of points, with a line along the front. Those that have an id can be chosen.
 * @param {readonly Point[]} points
 * @param {Axes} names
 * @param {(point: Point) => void} [choose]
 */
export function frontChart(points, names, choose = () => {}) {
  /** @param {readonly number[]} values @returns {[number, number]} */
  const span = (values) => {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const room = (high - low || Math.abs(high) || 1) * 0.12;
    return [low - room, high + room];
  };
  const [left, right] = span(points.map(({ x }) => x));
  const scores = points.map(({ y }) => y);
  const [low, high] = span(scores);
  /** @param {{ x: number, y: number }} point @returns {[number, number]} */
  const at = ({ x, y }) => [
    margin + ((x - left) / (right - left)) * (width - edge - margin),
    height - edge - ((y - low) / (high - low)) * (height - 1.5 * edge),
  ];
  const front = frontOf(points);
  const places = points.map((point) => {
    const [x, y] = at(point);
    return { x, y, name: point.name };
  });
  const labels = labelsOf(places);
  const dots = points.map((point, i) => {
    const { x, y } = places[i] ?? { x: 0, y: 0 };
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
      svg("text", { ...labels[i] }, point.name),
    );
    dot.addEventListener("click", () => choose(point));
    dot.addEventListener("keydown", ({ key }) => key === "Enter" && choose(point));
    return dot;
  });
  return svg(
    "svg",
    { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": `${names.y} over ${names.x}` },
    svg("path", { class: "axis", d: `M${margin} ${edge / 2}V${height - edge}H${width - edge / 2}` }),
    svg("text", { x: width - edge / 2, y: height - edge + 38, "text-anchor": "end" }, `${names.x} →`),
    svg("text", { x: 8, y: edge / 2 - 8 }, `↑ ${names.y}`),
    ...[left, right].map((x, i) => {
      const [place] = at({ x, y: low });
      return svg("text", { x: place, y: height - edge + 16, "text-anchor": i === 0 ? "start" : "end" }, names.ofX(x));
    }),
    ...[...new Set([Math.min(...scores), Math.max(...scores)])].map((y) =>
      svg("text", { x: margin - 6, y: at({ x: left, y })[1] + 4, "text-anchor": "end" }, names.ofY(y)),
    ),
    svg("path", {
      class: "front-line",
      d: front.map((point, i) => `${i === 0 ? "M" : "L"}${at(point).join(" ")}`).join(""),
    }),
    ...dots,
  );
}

/** @param {import("qdq").PrecisionTrial} trial */
const nameOf = ({ precision, operators, others }) =>
  operators === 0 ? "recipe" : `${operators} ${precision}${others ? `, others ${others}` : ""}`;

/** @param {number} seconds */
const milliseconds = (seconds) => `${(1000 * seconds).toPrecision(3)} ms`;

/**
 * The programs that a search for precision tried: a chart, if they have a size, and a table.
 * @param {readonly import("qdq").PrecisionTrial[]} trials
 * @param {string} unit of the scores
 */
export function trialsView(trials, unit) {
  /** @param {number} score */
  const scoreOf = (score) => `${score.toFixed(2)} ${unit}`.trimEnd();
  const hasBytes = trials.every(({ bytes }) => bytes !== undefined);
  const hasSeconds = trials.every(({ seconds }) => seconds !== undefined);
  const points = trials.map((trial) => ({ name: nameOf(trial), x: trial.bytes ?? 0, y: trial.score }));
  return h(
    "div",
    {},
    hasBytes && frontChart(points, { x: "Size", y: "Score", ofX: formatBytes, ofY: scoreOf }),
    scrollTable(
      "trials",
      ["Precision", "Operators", "Score", ...(hasBytes ? ["Size"] : []), ...(hasSeconds ? ["A run"] : []), "Front"],
      trials.map(({ precision, operators, others, score, bytes = 0, seconds = 0, front = false }) =>
        row(
          operators === 0 ? "the recipe's" : others ? `${precision}, others ${others}` : precision,
          { class: "n", content: String(operators) },
          { class: "n", content: scoreOf(score) },
          ...(hasBytes ? [{ class: "n", content: formatBytes(bytes) }] : []),
          ...(hasSeconds ? [{ class: "n", content: milliseconds(seconds) }] : []),
          front ? "●" : "",
        ),
      ),
    ),
  );
}
