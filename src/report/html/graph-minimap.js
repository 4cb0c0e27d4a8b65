// The whole graph in a corner of its drawing, with a frame around the part that is to be seen.
import { svg } from "./dom.js";
import { bareBoxes } from "./graph-boxes.js";

/** @typedef {import("./graph-layout.js").Box} Box */

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
    /** @param {import("./graph-camera.js").Area} area */
    frame(area) {
      for (const [name, value] of Object.entries(area)) part.setAttribute(name, String(Math.max(value, -1e6)));
    },
  };
}
