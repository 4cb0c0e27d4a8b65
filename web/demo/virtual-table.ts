// A table of thousands of rows, of which only those exist that can be seen.
import { h, scrollTable } from "../../src/report/html/dom.js";

const most = 120; // rows that are simply all there
const spare = 6; // rows beyond either edge

export interface VirtualTable<T> {
  element: HTMLElement;
  show(items: readonly T[]): void;
}

// `draw` makes the row of an item. All rows of a long table are 3.5rem high (style.css).
export function virtualTable<T>(
  label: string,
  heads: readonly string[],
  draw: (item: T) => HTMLTableRowElement,
): VirtualTable<T> {
  const box = scrollTable(label, heads, []);
  const table = box.querySelector("table")!;
  const body = table.tBodies[0]!;
  const gap = (): HTMLTableRowElement => h("tr", { class: "gap", "aria-hidden": "true" }, h("td"));
  const [above, below] = [gap(), gap()];
  let items: readonly T[] = [];
  const rows = new Map<number, HTMLTableRowElement>();

  const rowHeight = (): number => 3.5 * parseFloat(getComputedStyle(document.documentElement).fontSize);

  function rowOf(index: number): HTMLTableRowElement {
    const row = draw(items[index]!);
    row.setAttribute("aria-rowindex", String(index + 2));
    rows.set(index, row);
    return row;
  }

  // Rows that stay are not touched, so that what has the focus keeps it.
  function place(): void {
    const height = rowHeight();
    const first = Math.max(0, Math.floor(box.scrollTop / height) - spare);
    const last = Math.min(items.length, Math.ceil((box.scrollTop + (box.clientHeight || 600)) / height) + spare);
    for (const [index, row] of rows) {
      if (index >= first && index < last) continue;
      row.remove();
      rows.delete(index);
    }
    let before: ChildNode = below;
    for (let index = last - 1; index >= first; --index) {
      const row = rows.get(index) ?? rowOf(index);
      if (row.nextSibling !== before) body.insertBefore(row, before);
      before = row;
    }
    above.firstElementChild!.setAttribute("height", String(first * height));
    below.firstElementChild!.setAttribute("height", String((items.length - last) * height));
  }

  let isAsked = false;
  box.addEventListener("scroll", () => {
    if (items.length <= most || isAsked) return;
    isAsked = true;
    requestAnimationFrame(() => {
      isAsked = false;
      place();
    });
  });
  return {
    element: box,
    show(fresh) {
      items = fresh;
      const { scrollTop } = box;
      const focused = document.activeElement?.getAttribute("aria-label");
      const isInside = box.contains(document.activeElement);
      const isLong = items.length > most;
      table.classList.toggle("long", isLong);
      table.setAttribute("aria-rowcount", String(items.length + 1));
      rows.clear();
      if (isLong) {
        body.replaceChildren(above, below);
        box.scrollTop = scrollTop;
        place();
      } else body.replaceChildren(...items.map((_, index) => rowOf(index)));
      box.scrollTop = scrollTop;
      if (isInside && focused)
        [...body.querySelectorAll("select")].find((pick) => pick.getAttribute("aria-label") === focused)?.focus();
    },
  };
}
