// The whole graph in a corner of its drawing, with a frame around the part that is to be seen.
import { svg } from "./dom.js";
import { boxHeight, boxWidth } from "./graph-layout.js";

/** @typedef {import("./graph-layout.js").Box} Box */
/** @typedef {{ x: number, y: number, width: number, height: number }} Area */

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

/**
 * show() takes a layout, frame() the part that is to be seen. `go` is called with the place that is clicked or dragged
 * to.
 * @param {(x: number, y: number) => void} go
 */
export function graphMinimap(go) {
  const boxes = svg("g");
  const part = svg("rect", { class: "seen" });
  const element = svg("svg", { class: "minimap", "aria-hidden": "true" }, boxes, part);
  /** @param {PointerEvent} event */
  function point(event) {
    const matrix = element.getScreenCTM();
    if (!matrix) return;
    const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
    go(x, y);
  }
  element.addEventListener("pointerdown", (event) => {
    element.setPointerCapture(event.pointerId);
    point(event);
  });
  element.addEventListener("pointermove", (event) => event.buttons === 1 && point(event));
  return {
    element,
    /**
     * @param {import("./graph-layout.js").Layout} layout
     * @param {(box: Box) => string} kindOf
     */
    show({ boxes: all, width, height }, kindOf) {
      element.setAttribute("viewBox", `0 -20 ${Math.max(1, width)} ${Math.max(1, height + 20)}`);
      boxes.replaceChildren(...bareBoxes(all, kindOf));
    },
    /** @param {Area} area */
    frame(area) {
      for (const [name, value] of Object.entries(area)) part.setAttribute(name, String(Math.max(value, -1e6)));
    },
  };
}
