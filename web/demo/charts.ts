// Small drawings.
import type { ObserverSummary } from "qdq";
import { formatNumber, h, svg } from "./dom.js";

// What an observer saw: heights are logarithmic, bins beyond the reach of the integers have the colour of loss.
function histogram({ min, max, low, high, counts }: ObserverSummary): SVGElement | undefined {
  if (min === undefined || max === undefined || low === undefined || high === undefined || !counts) return undefined;
  const from = Math.min(min, low),
    width = Math.max(max, high) - from || 1,
    most = Math.log1p(Math.max(...counts)) || 1,
    step = (max - min) / counts.length;
  const at = (value: number): number => (100 * (value - from)) / width;
  return svg(
    "svg",
    { viewBox: "0 0 100 30", preserveAspectRatio: "none", role: "img", "aria-label": `histogram from ${formatNumber(min)} to ${formatNumber(max)}` },
    ...counts.map((count, i) => {
      const middle = min + (i + 0.5) * step,
        height = (30 * Math.log1p(count)) / most;
      return svg("rect", {
        x: at(min + i * step),
        y: 30 - height,
        width: (100 * step) / width,
        height,
        class: middle < low || middle > high ? "clipped" : "bin",
      });
    }),
    ...[low, high].map((edge) => svg("line", { x1: at(edge), x2: at(edge), y1: 0, y2: 30, class: "edge" })),
  );
}

export const placeOf = (observer: ObserverSummary): string => {
  const [first, ...more] = observer.covers.map((place) => place.join(" → "));
  return `${first ?? ""}${more.length > 0 ? ` and ${more.length} more` : ""}`;
};

export function observerFigure(observer: ObserverSummary): HTMLElement {
  const { min, max, scale, zero_point: zeroPoint, clipped, channels } = observer;
  const qparams = scale !== undefined ? `, scale ${formatNumber(scale)}, zero point ${zeroPoint}` : channels > 1 ? `, ${channels} channels` : "";
  return h(
    "figure",
    { title: observer.covers.map((place) => place.join(" → ")).join("\n") },
    histogram(observer),
    h(
      "figcaption",
      {},
      placeOf(observer),
      h("small", {}, `${observer.class}, ${observer.dtype} [${observer.quant_min}, ${observer.quant_max}]`),
      h(
        "small",
        {},
        min === undefined
          ? "no data yet"
          : `${formatNumber(min)} to ${formatNumber(max)}${qparams}${clipped ? `, ${(100 * clipped).toFixed(3)} % clipped` : ""}`,
      ),
    ),
  );
}

// A bar from 0 to 60 dB, from the colour of loss to that of none.
export const sqnrMeter = (sqnr: number | undefined): HTMLElement =>
  h("meter", {
    min: 0,
    max: 60,
    low: 15,
    high: 30,
    optimum: 60,
    value: sqnr ?? 60,
    "aria-label": sqnr === undefined ? "no error" : `${sqnr.toFixed(1)} dB`,
  });
