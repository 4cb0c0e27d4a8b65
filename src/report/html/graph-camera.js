// Which part of a drawing its canvas shows.

/** @typedef {{ x: number, y: number, width: number, height: number }} Area of the drawing */

export class GraphCamera {
  /** Of the drawing's origin on the canvas. */
  x = 0;
  y = 0;
  scale = 1;
  #canvas;
  #moved;

  /**
   * @param {SVGSVGElement} canvas
   * @param {() => void} moved
   */
  constructor(canvas, moved) {
    this.#canvas = canvas;
    this.#moved = moved;
  }

  /**
   * What the canvas shows, and as much again on each side if `margin` is 1.
   * @returns {Area}
   */
  seen(margin = 0) {
    const width = this.#canvas.clientWidth / this.scale;
    const height = this.#canvas.clientHeight / this.scale;
    return {
      x: -this.x / this.scale - margin * width,
      y: -this.y / this.scale - margin * height,
      width: (1 + 2 * margin) * width,
      height: (1 + 2 * margin) * height,
    };
  }

  /**
   * The place of the drawing under a pointer.
   * @param {MouseEvent} event
   */
  placeOf({ clientX, clientY }) {
    const { left, top } = this.#canvas.getBoundingClientRect();
    return { x: (clientX - left - this.x) / this.scale, y: (clientY - top - this.y) / this.scale };
  }

  /** @param {number} factor */
  zoom(factor, x = this.#canvas.clientWidth / 2, y = this.#canvas.clientHeight / 2) {
    const scale = Math.min(3, Math.max(0.03, this.scale * factor));
    const ratio = scale / this.scale;
    this.#set(x - (x - this.x) * ratio, y - (y - this.y) * ratio, scale);
  }

  /**
   * @param {number} dx
   * @param {number} dy
   */
  move(dx, dy) {
    this.#set(this.x + dx, this.y + dy, this.scale);
  }

  /**
   * Brings a place of the drawing into the middle.
   * @param {number} x
   * @param {number} y
   */
  center(x, y, scale = this.scale) {
    this.#set(this.#canvas.clientWidth / 2 - x * scale, this.#canvas.clientHeight / 2 - y * scale, scale);
  }

  /**
   * All of the drawing.
   * @param {import("./graph-layout.js").Layout} layout
   */
  fit(layout) {
    const { clientWidth, clientHeight } = this.#canvas;
    this.#fromTop(layout, Math.min(1.1, clientWidth / layout.width, (clientHeight - 40) / layout.height) || 1);
  }

  /**
   * As large as can be read: the whole width, from the top.
   * @param {import("./graph-layout.js").Layout} layout
   */
  begin(layout) {
    this.#fromTop(layout, Math.max(0.7, Math.min(1, this.#canvas.clientWidth / layout.width)));
  }

  /**
   * The whole width in the middle if it is not too much, else its beginning.
   * @param {import("./graph-layout.js").Layout} layout
   * @param {number} scale
   */
  #fromTop(layout, scale) {
    const room = this.#canvas.clientWidth - layout.width * scale;
    const first = this.#canvas.clientWidth / 2 - (layout.boxes[0]?.x ?? 0) * scale;
    this.#set(room >= 0 ? room / 2 : Math.max(room, Math.min(0, first)), 20, scale);
  }

  /**
   * @param {number} x
   * @param {number} y
   * @param {number} scale
   */
  #set(x, y, scale) {
    this.x = x;
    this.y = y;
    this.scale = scale;
    this.#moved();
  }
}
