// What observers saw, drawn; and the size of an error.
import { formatNumber, h, svg } from "./dom.js";

/** @typedef {import("qdq").ObserverSummary} ObserverSummary */

/**
 * What an observer saw: heights are logarithmic, bins beyond the reach of the integers have the colour of loss.
 * @param {ObserverSummary} observer
 */
function histogram({ min, max, low, high, counts }) {
  if (min === undefined || max === undefined || low === undefined || high === undefined || !counts) return undefined;
  const from = Math.min(min, low);
  const width = Math.max(max, high) - from || 1;
  const most = Math.log1p(Math.max(...counts)) || 1;
  const step = (max - min) / counts.length;
  /** @param {number} value */
  const at = (value) => (100 * (value - from)) / width;
  // One path for all bins of a kind: a model has hundreds of histograms, which are drawn again and again while it
  // calibrates.
  /** @param {boolean} clipped */
  const bars = (clipped) =>
    counts
      .map((count, i) => {
        const middle = min + (i + 0.5) * step;
        if ((middle < low || middle > high) !== clipped || count === 0) return "";
        const top = (30 - (30 * Math.log1p(count)) / most).toFixed(2);
        return `M${at(min + i * step).toFixed(2)} 30V${top}h${((100 * step) / width).toFixed(2)}V30z`;
      })
      .join("");
  return svg(
    "svg",
    {
      viewBox: "0 0 100 30",
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `histogram from ${formatNumber(min)} to ${formatNumber(max)}`,
    },
    svg("path", { class: "bin", d: bars(false) }),
    svg("path", { class: "clipped", d: bars(true) }),
    ...[low, high].map((edge) => svg("line", { x1: at(edge), x2: at(edge), y1: 0, y2: 30, class: "edge" })),
  );
}

/** @param {ObserverSummary} observer */
const placesOf = (observer) => observer.covers.map((place) => place.join(" → "));

/** @param {ObserverSummary} observer */
function rangeOf({ min, max, scale, zeroPoint, clipped, channels }) {
  if (min === undefined) return "no data yet";
  const qparams =
    scale !== undefined
      ? `, scale ${formatNumber(scale)}, zero point ${zeroPoint}`
      : channels > 1
        ? `, ${channels} channels`
        : "";
  const cut = clipped ? `, ${(100 * clipped).toFixed(3)} % clipped` : "";
  return `${formatNumber(min)} to ${formatNumber(max)}${qparams}${cut}`;
}

/** @param {ObserverSummary} observer */
export function observerFigure(observer) {
  const places = placesOf(observer);
  return h(
    "figure",
    { title: places.join("\n") },
    histogram(observer),
    h(
      "figcaption",
      {},
      `${places[0] ?? ""}${places.length > 1 ? ` and ${places.length - 1} more` : ""}`,
      h("small", {}, `${observer.class}, ${observer.dtype} [${observer.quantMin}, ${observer.quantMax}]`),
      h("small", {}, rangeOf(observer)),
    ),
  );
}

/**
 * How the figures of these observers are read.
 * @param {readonly ObserverSummary[]} observers
 */
const legendOf = (observers) =>
  observers.some(({ counts }) => counts)
    ? "Heights are logarithmic. Values beyond the dashed lines are clipped."
    : "These observers have no histograms: MinMaxObserver keeps only a range, and recovery replaces histograms by " +
      "the ranges that it chose.";

const perPage = 24;

/**
 * All observers of a model, some of them at a time: found by the names they cover, in graph order or most clipped
 * first. Redrawing keeps the place and what was searched for.
 */
export function observerGallery() {
  /** @type {readonly ObserverSummary[]} */
  let observers = [];
  let first = 0;
  const search = h("input", {
    type: "search",
    class: "observer-search",
    placeholder: "find an observer",
    "aria-label": "find an observer by what it covers",
    oninput: () => turn(0),
  });
  const order = h(
    "select",
    { "aria-label": "order of the observers", onchange: () => turn(0) },
    ...["in the order of the graph", "most clipped first", "widest range first"].map((name) => h("option", {}, name)),
  );
  const before = h("button", { type: "button", onclick: () => turn(first - perPage) }, "Previous");
  const next = h("button", { type: "button", onclick: () => turn(first + perPage) }, "Next");
  const where = h("span", { class: "where", role: "status" });
  const legend = h("p", {});
  const figures = h("div", { class: "observers" });

  /** @param {number} to */
  function turn(to) {
    first = Math.max(0, to);
    draw();
  }
  function draw() {
    const wanted = search.value.toLowerCase();
    const found = observers.filter(
      (observer) => wanted === "" || placesOf(observer).join(" ").toLowerCase().includes(wanted),
    );
    // Those with something to see come first.
    const rank = [
      /** @param {ObserverSummary} o */ (o) => (o.counts ? 1 : 0),
      /** @param {ObserverSummary} o */ (o) => o.clipped ?? -1,
      /** @param {ObserverSummary} o */ (o) => (o.max ?? 0) - (o.min ?? 0),
    ][order.selectedIndex];
    if (rank) found.sort((a, b) => rank(b) - rank(a));
    if (first >= found.length) first = Math.max(0, found.length - (found.length % perPage || perPage));
    const last = Math.min(first + perPage, found.length);
    before.disabled = first === 0;
    next.disabled = last === found.length;
    where.textContent = found.length === 0 ? "none" : `${first + 1} to ${last} of ${found.length}`;
    figures.replaceChildren(...found.slice(first, last).map(observerFigure));
  }
  return {
    element: h(
      "div",
      { class: "gallery" },
      legend,
      h("div", { class: "controls" }, search, order, before, next, where),
      figures,
    ),
    /** @param {readonly ObserverSummary[]} fresh */
    show(fresh) {
      observers = fresh;
      legend.textContent = legendOf(fresh);
      draw();
    },
  };
}

/**
 * A bar from 0 to 60 dB, from the colour of loss to that of none.
 * @param {number | undefined} sqnr
 */
export const sqnrMeter = (sqnr) =>
  h("meter", {
    min: 0,
    max: 60,
    low: 15,
    high: 30,
    optimum: 60,
    value: sqnr ?? 60,
    "aria-label": sqnr === undefined ? "no error" : `${sqnr.toFixed(1)} dB`,
  });
