// What quantization did to a model: its summary, the errors of its operators, and predictions side by side.
import { sqnrMeter } from "./charts.js";
import { formatBytes, formatNumber, h, row, scrollTable, shortOperator } from "./dom.js";
import { decibelsOf } from "./graph-facts.js";

/** @typedef {import("qdq").Report} Report */

/**
 * What a module's name does not tell: the operator's name, and its kind unless the name says it.
 * @param {string} module
 * @param {string} node
 * @param {string} kind
 */
const detailOf = (module, node, kind) =>
  !module ? kind : node.replace(/_\d+$/, "") === kind ? node : `${node}: ${kind}`;

/**
 * An operator as the first cell of a row: its module, its name, its kind. `choose`, if it is there, is called when it
 * is clicked.
 * @param {{ module: string, node: string, op: string }} operator
 * @param {(node: string) => void} [choose]
 */
export const operatorCell = ({ module, node, op }, choose) => ({
  class: "name",
  content: h(
    "span",
    {},
    choose
      ? h(
          "button",
          { type: "button", class: "link", title: `show ${node} in the graph`, onclick: () => choose(node) },
          module || node,
        )
      : module || node,
    h("small", {}, detailOf(module, node, shortOperator(op))),
  ),
});

/** @param {string} outcome */
export const outcomeCell = (outcome) => ({
  class: `outcome ${outcome}`,
  content: outcome === "quantized" ? "int8" : outcome,
});

/**
 * What speaks against the samples and the float model's answers to them, or "" if nothing does.
 * @param {Report} report
 */
export function warningsOf({ warnings = [], dataWarnings = [] }) {
  const all = [...dataWarnings, ...warnings].map((text) => `${text[0]?.toUpperCase()}${text.slice(1)}.`);
  return all.length === 0
    ? ""
    : h(
        "div",
        { class: "warnings", role: "alert" },
        h("ul", {}, ...all.map((text) => h("li", {}, text.replace("?.", "?")))),
      );
}

/**
 * When, by what and from what a report was made, or "" if it does not tell.
 * @param {Report} report
 */
export function madeOf({ made }) {
  if (!made) return "";
  const { date, by, command, machine } = made;
  return h(
    "p",
    { class: "made" },
    [date, by, machine].filter(Boolean).join(" · "),
    command ? h("code", {}, command) : "",
  );
}

/** @param {number} count */
const samplesOf = (count) => (count === 1 ? "1 sample" : `${count} samples`);

/**
 * The cards of a report's summary, for cards() of dom.js.
 * @param {Report} report
 */
export function summaryOf({ bytes, layers, samples, accuracy, sqnr, speed }) {
  /** @type {[string, string, string?, string?][]} */
  const out = [];
  if (bytes)
    out.push([
      "Size",
      `${formatBytes(bytes[0])} → ${formatBytes(bytes[1])}`,
      bytes[1] <= bytes[0]
        ? `${(bytes[0] / bytes[1]).toFixed(2)} times smaller`
        : `${(bytes[1] / bytes[0]).toFixed(2)} times larger`,
      "size",
    ]);
  if (layers)
    out.push([
      "Layers in int8",
      `${layers.quantized} of ${layers.total}`,
      samples ? `calibrated on ${samplesOf(samples)}` : "",
      "layers",
    ]);
  if (accuracy?.top1) {
    const [float, int8] = accuracy.top1.map((share) => `${share.toFixed(2)} %`);
    out.push(["Top-1, float → int8", `${float} → ${int8}`, `on ${accuracy.samples} labelled samples`, "top1"]);
  }
  if (accuracy)
    out.push([
      "Same answer as float",
      `${accuracy.agreement.toFixed(2)} %`,
      `on ${samplesOf(accuracy.samples)}`,
      "agreement",
    ]);
  if (sqnr !== undefined)
    out.push([
      "SQNR of the output",
      typeof sqnr === "number" ? `${sqnr.toFixed(1)} dB` : sqnr === null ? "no error" : "no number",
      accuracy ? `measured on ${samplesOf(accuracy.samples)}` : "measured on the samples",
      "sqnr",
    ]);
  if (speed) {
    const times = speed.float / speed.int8;
    const how =
      times >= 1 ? `int8 is ${times.toFixed(2)} times as fast` : `int8 takes ${(1 / times).toFixed(2)} times as long`;
    const note = speed.batch && speed.batch > 1 ? `${how}, in batches of ${speed.batch}` : how;
    const [float, int8] = [speed.float, speed.int8].map((milliseconds) =>
      milliseconds.toFixed(milliseconds < 10 ? 2 : milliseconds < 100 ? 1 : 0),
    );
    out.push(["Time per sample", `${float} → ${int8} ms`, note, "speed"]);
  }
  return out;
}

const clamps = /^(relu6?|hardtanh|clamp(_min|_max)?|clip)_?(\.|$)/;

const cutOff = 6; // decibels by which a clamp tells that the error before it is what it cuts off anyway

/**
 * The errors, worst first, where what a clamp cuts off counts as none: a value that only a clamp reads has the clamp's
 * error if that is far smaller. Recovered ranges end where the clamp behind a layer does.
 * @param {readonly import("qdq").LayerError[]} errors
 * @param {readonly import("qdq").NodeSnapshot[]} nodes of the float model
 * @returns {import("qdq").LayerError[]}
 */
export function errorsBehindClamps(errors, nodes) {
  const nodeOf = new Map(nodes.map((node) => [node.name, node]));
  const errorOf = new Map(errors.map((error) => [error.node, error]));
  /** @param {string} name @returns {string | undefined} */
  const readerOf = (name) => {
    const [reader, ...others] = nodeOf.get(name)?.users ?? [];
    if (reader === undefined || others.length > 0) return undefined;
    return errorOf.has(reader) ? reader : readerOf(reader); // batch norms are folded
  };
  /** @param {import("qdq").LayerError} error */
  const rank = (error) => decibelsOf(error) ?? Infinity;
  return errors
    .map((error) => {
      const reader = readerOf(error.node) ?? "";
      const behind = clamps.test(shortOperator(nodeOf.get(reader)?.target ?? "")) ? errorOf.get(reader) : undefined;
      if (!behind || rank(behind) < rank(error) + cutOff) return error;
      const { own, ...rest } = error;
      return { ...rest, sqnrDb: behind.sqnrDb, mse: behind.mse };
    })
    .sort((a, b) => rank(a) - rank(b));
}

/** @param {number | undefined} decibels */
const shownDecibels = (decibels) => (decibels === undefined ? "–" : `${decibels.toFixed(1)} dB`);

/**
 * The errors of the operators, in the order given.
 * @param {readonly import("qdq").LayerError[]} errors
 * @param {(node: string) => void} choose is called with the operator that is clicked
 */
export const errorTable = (errors, choose) =>
  h(
    "div",
    {},
    h(
      "p",
      {},
      "Signal to quantization noise of each operator's value, worst first: " +
        "20 dB is an error of 10 %, 40 dB of 1 %. " +
        "Own is the noise that the operator itself adds.",
    ),
    scrollTable(
      "errors by layer",
      ["Operator", "SQNR", "Bar", "Own", "Mean squared error", "Output"],
      errors.map((error) => {
        const decibels = decibelsOf(error);
        return row(
          operatorCell(error, choose),
          { class: "n", content: shownDecibels(decibels) },
          sqnrMeter(decibels),
          { class: "n", content: shownDecibels(decibelsOf(error.own)) },
          { class: "n", content: typeof error.mse === "number" ? formatNumber(error.mse) : "–" },
          error.quantized ? "int8" : "float",
        );
      }),
    ),
  );

/**
 * What both models say of samples, with the samples' pictures where there are any.
 * @param {readonly import("qdq").SamplePrediction[]} samples
 * @param {readonly string[]} [classes] their names
 */
export const predictionCards = (samples, classes = []) =>
  h(
    "div",
    { class: "images", id: "predictions" },
    ...samples.map(({ sample, file = `sample ${sample}`, float, int8, label, image }) => {
      /** @param {number} index */
      const nameOf = (index) => classes[index] ?? `class ${index}`;
      const known = label !== undefined;
      /**
       * @param {string} name
       * @param {readonly import("qdq").Choice[]} choices
       */
      const line = (name, [first]) => {
        if (!first) return "";
        const share = typeof first.share === "number" ? ` ${(100 * first.share).toFixed(0)}\u00a0%` : "";
        return h(
          "small",
          { class: known && first.class !== label ? "answer wrong" : "answer" },
          h("span", {}, name),
          h("b", {}, `${known ? (first.class === label ? "✓ " : "✗ ") : ""}${nameOf(first.class)}`),
          share,
        );
      };
      const other = float[0]?.class !== int8[0]?.class;
      return h(
        "figure",
        { class: other ? "other" : "" },
        image && h("img", { src: image, alt: file }),
        h(
          "figcaption",
          {},
          file,
          line("float", float),
          line("int8", int8),
          known && h("small", {}, `label: ${nameOf(label)}`),
        ),
      );
    }),
  );

/**
 * The layers that stay float, with the reasons; nothing if there are none.
 * @param {NonNullable<Report["left"]>} left
 */
export const leftInFloat = (left) =>
  left.length > 0 &&
  h(
    "details",
    { open: left.length < 8 },
    h("summary", {}, `${left.length} ${left.length === 1 ? "layer stays" : "layers stay"} float`),
    h("ul", {}, ...left.map(({ node, module, reason }) => h("li", {}, h("b", {}, module || node), ` ${reason}`))),
  );
