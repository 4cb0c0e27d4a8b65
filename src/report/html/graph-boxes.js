// Boxes and the lines between them as drawings.
import { svg } from "./dom.js";
import { boxHeight, boxWidth, titleOf } from "./graph-layout.js";

/** @typedef {import("./graph-layout.js").Box} Box */

/** The head of a line, which the drawing defines once. */
export const arrowHead = () =>
  svg(
    "defs",
    {},
    svg(
      "marker",
      { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
      svg("path", { d: "M0 0L8 4L0 8z" }),
    ),
  );

/** @param {import("./graph-layout.js").Frame} frame */
export const frameShape = ({ group, x, y, width, height }) =>
  svg("rect", { class: "frame", x, y, width, height, rx: 10 }, svg("title", {}, group.path));

/** @param {readonly [from: Box, to: Box]} edge */
export function edgePath([from, to]) {
  const x1 = from.x;
  const y1 = from.y + boxHeight;
  const x2 = to.x;
  const y2 = to.y - 2;
  // Into another column by the gap before it.
  if (from.column !== to.column) {
    const gap = to.left - 30;
    return (
      `M${x1} ${y1}C${x1} ${y1 + 24} ${gap} ${y1 + 24} ${gap} ${y1 - 12}V${y2 + 4}` +
      `C${gap} ${y2 - 24} ${x2} ${y2 - 24} ${x2} ${y2}`
    );
  }
  const bend = Math.max(14, (y2 - y1) / 2);
  // A way past other boxes of the column bows out of it.
  const passes = y2 - y1 > boxHeight && Math.abs(x1 - x2) < boxWidth;
  const side = Math.max(x1, x2) + boxWidth / 2 + 10;
  return passes
    ? `M${x1 + 40} ${y1}C${x1 + 40} ${y1 + 16} ${side} ${y1 + 4} ${side} ${y1 + 30}V${y2 - 30}` +
        `C${side} ${y2 - 4} ${x2 + 40} ${y2 - 16} ${x2 + 40} ${y2}`
    : `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`;
}

/** @param {string} text */
const short = (text, length = 22) => (text.length > length ? `…${text.slice(1 - length)}` : text);

/** @param {Box} box */
function secondLineOf({ group, node, members }) {
  if (group) return `${group.type?.split(".").at(-1) ?? "module"}, ${members.length} operators`;
  return node?.op === "placeholder" ? "input" : node?.module || node?.name || "";
}

/**
 * A box with its names and the SQNR of its worst operator. The Tab key comes to it if it is the stop.
 * @param {Box} box
 * @param {{ kind: string, worst: number, isStop: boolean, isSelected: boolean }} look
 */
export function boxShape(box, { kind, worst, isStop, isSelected }) {
  const { id, x, y, group, node } = box;
  const title = group ? group.path : node ? titleOf(node) : "";
  const second = secondLineOf(box);
  const error = Number.isFinite(worst) ? `${worst.toFixed(0)} dB` : "";
  // The title is the name of the box, uncut.
  return svg(
    "g",
    {
      class: `box ${kind}${group ? " closed" : ""}`,
      transform: `translate(${x - boxWidth / 2} ${y})`,
      tabindex: isStop ? 0 : -1,
      role: "button",
      "data-box": id,
      "aria-expanded": group && "false",
      "aria-pressed": String(isSelected),
    },
    svg("title", {}, `${title}\n${second}\n${kind}${error && `, ${error}`}`),
    svg("rect", { width: boxWidth, height: boxHeight, rx: 7 }),
    svg("text", { x: 10, y: 19, class: "title" }, short(title, group ? 19 : 22)),
    svg("text", { x: 10, y: 36, class: "second" }, short(second, error ? 20 : 26)),
    error && svg("text", { x: boxWidth - 8, y: 36, class: "second", "text-anchor": "end" }, error),
    group && svg("text", { x: boxWidth - 18, y: 20, class: "title" }, "+"),
  );
}

/**
 * Bare boxes as drawings, one for each kind, so that thousands cost as little as five.
 * @param {readonly Box[]} boxes
 * @param {(box: Box) => string} kindOf
 */
export function bareBoxes(boxes, kindOf) {
  /** @type {Map<string, string[]>} */
  const paths = new Map();
  for (const box of boxes) {
    const kind = kindOf(box);
    const path = paths.get(kind) ?? [];
    path.push(`M${box.x - boxWidth / 2} ${box.y}h${boxWidth}v${boxHeight}h${-boxWidth}z`);
    paths.set(kind, path);
  }
  return [...paths].map(([kind, path]) => svg("path", { class: `bare ${kind}`, d: path.join("") }));
}
