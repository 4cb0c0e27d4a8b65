// Drag to move, wheel to zoom, two fingers to do both.

/**
 * @param {SVGSVGElement} canvas
 * @param {(factor: number, x: number, y: number) => void} zoom at a place of the canvas
 * @param {(dx: number, dy: number) => void} move
 */
export function listenForGestures(canvas, zoom, move) {
  /** @type {Map<number, { x: number, y: number }>} */
  const fingers = new Map();
  canvas.addEventListener(
    "wheel",
    (event) => {
      // A wheel over a graph that nobody touched scrolls the page.
      if (
        !event.ctrlKey &&
        document.activeElement !== canvas &&
        !canvas.contains(document.activeElement) &&
        !event.shiftKey
      )
        return;
      event.preventDefault();
      const { left, top } = canvas.getBoundingClientRect();
      zoom(Math.exp(-event.deltaY / 400), event.clientX - left, event.clientY - top);
    },
    { passive: false },
  );
  canvas.addEventListener("pointerdown", (event) =>
    fingers.set(event.pointerId, { x: event.clientX, y: event.clientY }),
  );
  canvas.addEventListener("pointermove", (event) => {
    const from = fingers.get(event.pointerId);
    if (!from) return;
    const other = [...fingers].find(([id]) => id !== event.pointerId)?.[1];
    if (other) {
      /** @param {{ x: number, y: number }} at */
      const length = (at) => Math.hypot(at.x - other.x, at.y - other.y) || 1;
      const { left, top } = canvas.getBoundingClientRect();
      zoom(length({ x: event.clientX, y: event.clientY }) / length(from), other.x - left, other.y - top);
    } else move(event.clientX - from.x, event.clientY - from.y);
    fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  });
  for (const end of ["pointerup", "pointercancel", "pointerleave"])
    canvas.addEventListener(end, (event) => fingers.delete(/** @type {PointerEvent} */ (event).pointerId));
}
