// Elements and numbers as people read them.

type Child = Node | string | number | null | undefined | false;
type Props<E> = { [K in keyof E]?: unknown } & Record<string, unknown>;

function fill<E extends Element>(element: E, props: Props<E>, children: readonly Child[]): E {
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value as EventListener);
    else if (key in element && typeof value !== "string" && !(element instanceof SVGElement)) (element as Record<string, unknown>)[key] = value;
    else element.setAttribute(key, String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false).map((child) => child as Node | string));
  return element;
}

// An element: h("button", { class: "main", onclick: () => ... }, "Start"). Booleans become properties, text becomes attributes.
export const h = <K extends keyof HTMLElementTagNameMap>(
  tag: K,
  props: Props<HTMLElementTagNameMap[K]> = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[K] =>
  fill(
    document.createElement(tag),
    props,
    children.map((child) => (typeof child === "number" ? String(child) : child)),
  );

export const svg = <K extends keyof SVGElementTagNameMap>(
  tag: K,
  props: Props<SVGElementTagNameMap[K]> = {},
  ...children: readonly Child[]
): SVGElementTagNameMap[K] => fill(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);

export function byId(id: string): HTMLElement {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no element #${id}`);
  return element;
}

export const formatBytes = (count: number): string =>
  count >= 1e6 ? `${(count / 1e6).toFixed(2)} MB` : count >= 1e3 ? `${(count / 1e3).toFixed(1)} kB` : `${count} B`;
export const formatSeconds = (seconds: number): string =>
  seconds >= 90
    ? `${Math.round(seconds / 60)} min`
    : seconds >= 10
      ? `${Math.round(seconds)} s`
      : seconds >= 1
        ? `${seconds.toFixed(1)} s`
        : `${Math.round(seconds * 1000)} ms`;
// Four significant digits: 0.01823, -2.326.
export const formatNumber = (value: number | undefined): string => (value === undefined ? "–" : String(Number(value.toPrecision(4))));
export const formatShape = (shape: readonly (number | string)[] | undefined): string => (shape ? `[${shape.join(", ")}]` : "");

// A table with a heading row, in a box that scrolls.
export const scrollTable = (label: string, heads: readonly string[], rows: readonly HTMLTableRowElement[]): HTMLElement =>
  h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    h("table", {}, h("thead", {}, h("tr", {}, ...heads.map((head) => h("th", { scope: "col" }, head)))), h("tbody", {}, ...rows)),
  );

export const row = (...cells: readonly (Child | { class: string; content: Child })[]): HTMLTableRowElement =>
  h(
    "tr",
    {},
    ...cells.map((cell) =>
      cell !== null && typeof cell === "object" && "content" in cell && !(cell instanceof Node)
        ? h("td", { class: cell.class }, cell.content)
        : h("td", {}, cell as Child),
    ),
  );

// Gives bytes to the person as a file.
export function download(name: string, bytes: BlobPart, type: string): void {
  const url = URL.createObjectURL(new Blob([bytes], { type }));
  const link = h("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
