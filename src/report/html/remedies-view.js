// What each remedy brought, as steps from the first error of the outputs to the last.
import { h, row, scrollTable } from "./dom.js";

// The summary has another figure, which is measured on the samples of the evaluation.
export const remediesText =
  "SQNR of all outputs on the calibration samples, before and after each remedy. qdq keeps only the remedies that " +
  "helped. The SQNR above is measured on the result.";

/**
 * A row for each remedy that was tried: its part of the way is a bar that begins where the one before it ended.
 * @param {readonly import("qdq").RemedyResult[]} remedies
 */
export function remedyTable(remedies) {
  const ends = remedies.flatMap(({ before, after }) => [before, after]);
  const low = Math.min(...ends);
  const whole = Math.max(...ends) - low || 1;
  /** @param {number} decibels */
  const share = (decibels) => (100 * (decibels - low)) / whole;
  /** @param {import("qdq").RemedyResult} result */
  const bar = ({ before, after }) => {
    const [from, to] = [share(Math.min(before, after)), share(Math.max(before, after))];
    const step = h("span", {});
    step.style.marginLeft = `${from}%`;
    step.style.width = `${to - from}%`;
    return h("div", { class: "step" }, step);
  };
  return scrollTable(
    "remedies",
    ["Remedy", "SQNR before", "SQNR after", "Step", "Places"],
    remedies.map((result) =>
      row(
        result.remedy,
        { class: "n", content: `${result.before.toFixed(1)} dB` },
        { class: "n", content: result.changes > 0 ? `${result.after.toFixed(1)} dB` : "no gain" },
        bar(result),
        { class: "n", content: result.changes > 0 ? String(result.changes) : "–" },
      ),
    ),
  );
}
