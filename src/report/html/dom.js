// Elements, and numbers as people read them.

/** @typedef {Node | string | number | null | undefined | false} Child */
/** @typedef {Record<string, unknown>} Props */

/**
 * @template {Element} E
 * @param {E} element
 * @param {Props} props
 * @param {readonly Child[]} children
 * @returns {E}
 */
function fill(element, props, children) {
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), /** @type {EventListener} */ (value));
    else if (key in element && typeof value !== "string" && !(element instanceof SVGElement))
      Reflect.set(element, key, value);
    else element.setAttribute(key, String(value));
  }
  for (const child of children)
    if (child !== null && child !== undefined && child !== false)
      element.append(typeof child === "number" ? String(child) : child);
  return element;
}

/**
 * An element: h("button", { class: "main", onclick: () => ... }, "Start").
 * Booleans become properties, text becomes attributes.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Props} [props]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export const h = (tag, props = {}, ...children) => fill(document.createElement(tag), props, children);

/**
 * The same of a drawing.
 * @template {keyof SVGElementTagNameMap} K
 * @param {K} tag
 * @param {Props} [props]
 * @param {...Child} children
 * @returns {SVGElementTagNameMap[K]}
 */
export const svg = (tag, props = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);

/** @param {number} count */
export const formatBytes = (count) =>
  count >= 1e6 ? `${(count / 1e6).toFixed(2)} MB` : count >= 1e3 ? `${(count / 1e3).toFixed(1)} kB` : `${count} B`;

/**
 * Four significant digits: 0.01823, -2.326.
 * @param {number | undefined} value
 */
export const formatNumber = (value) => (value === undefined ? "–" : String(Number(value.toPrecision(4))));

/**
 * "[s0, 3, 224]"; a size that is computed from others is "?", for its formula fills lines.
 * @param {readonly (number | string)[] | undefined} shape
 */
export const formatShape = (shape) =>
  shape ? `[${shape.map((size) => (/^\w+$/.test(String(size)) ? size : "?")).join(", ")}]` : "";

/** @param {string} op of the form aten.conv2d.default, or a target */
export const shortOperator = (op) => op.replace(/^(torch\.ops\.)?(aten\.)?/, "").replace(/\.default$/, "");

/**
 * A table with a heading row, in a box that scrolls.
 * @param {string} label
 * @param {readonly string[]} heads
 * @param {readonly HTMLTableRowElement[]} rows
 */
export const scrollTable = (label, heads, rows) =>
  h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, ...heads.map((head) => (head === "" ? h("td") : h("th", { scope: "col" }, head))))),
      h("tbody", {}, ...rows),
    ),
  );

/** @typedef {{ class: string, content: Child }} Cell */

/** @param {...(Child | Cell)} cells */
export const row = (...cells) =>
  h(
    "tr",
    {},
    ...cells.map((cell) =>
      cell !== null && typeof cell === "object" && "content" in cell && !(cell instanceof Node)
        ? h("td", { class: cell.class }, cell.content)
        : h("td", {}, /** @type {Child} */ (cell)),
    ),
  );

/**
 * A text in which no line breaks between a number and its unit.
 * @param {string} text
 * @returns {Child[]}
 */
export const unbroken = (text) =>
  text
    .split(/(\d[\d.]* (?:%|dB|ms|[kM]?B)(?!\w))/)
    .map((part, i) => (i % 2 === 1 ? h("span", { class: "unbroken" }, part) : part));

/**
 * The cards of a summary; an entry is [name, value, note?, id of the value?].
 * @param {readonly (readonly [name: string, value: string, note?: string, id?: string])[]} entries
 */
export const cards = (entries) =>
  h(
    "dl",
    { class: "cards" },
    ...entries.map(([name, value, note, id]) =>
      h("div", {}, h("dt", {}, name), h("dd", {}, h("b", { id }, ...unbroken(value)), note && h("small", {}, note))),
    ),
  );
