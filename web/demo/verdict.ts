// What the figures of a result mean, in words: the answer that somebody wants before any figure.
import type { LayerError, Recipe } from "qdq";
import { h } from "../../src/report/html/dom.js";
import { decibelsOf } from "../../src/report/html/graph-view.js";
import type { Evaluation } from "./protocol.js";

export interface Verdict {
  level: "good" | "look" | "broken" | "unknown";
  title: string;
  reason: string;
  layer?: LayerError; // that does the most harm
}

// From these on a result is no longer good, or is broken.
const limits = {
  lost: { look: 2, broken: 20 }, // points of top-1
  agreement: { look: 90, broken: 50 }, // percent of the samples
  decibels: { look: 20, broken: 5 }, // of models that do not classify
};

// SQNR as a number: no error at all is infinite, what is no number is the worst, and NaN where no output compares.
const decibelsIn = (sqnr: Evaluation["sqnr"]): number =>
  sqnr === undefined
    ? NaN
    : sqnr === null
      ? Infinity
      : typeof sqnr === "number"
        ? sqnr
        : sqnr.float === "inf"
          ? Infinity
          : -Infinity;

// The operator that adds the most noise of its own.
export function worstLayer(errors: readonly LayerError[] = []): LayerError | undefined {
  const hasOwn = errors.some(({ own }) => own !== undefined);
  const noise = (error: LayerError): number => decibelsOf(hasOwn ? error.own : error) ?? Infinity;
  const known = errors.filter((error) => error.quantized && Number.isFinite(noise(error)));
  return known.sort((a, b) => noise(a) - noise(b))[0];
}

function levelOf({ accuracy, sqnr }: Evaluation): "good" | "look" | "broken" {
  const decibels = decibelsIn(sqnr);
  if (decibels < 0) return "broken";
  if (accuracy?.top1) {
    const lost = accuracy.top1[0] - accuracy.top1[1];
    return lost > limits.lost.broken ? "broken" : lost > limits.lost.look ? "look" : "good";
  }
  if (accuracy)
    return accuracy.agreement < limits.agreement.broken
      ? "broken"
      : accuracy.agreement < limits.agreement.look
        ? "look"
        : "good";
  return decibels < limits.decibels.broken ? "broken" : decibels < limits.decibels.look ? "look" : "good";
}

function reasonOf({ accuracy, sqnr }: Evaluation): string {
  const decibels = decibelsIn(sqnr);
  const words: string[] = [];
  if (accuracy?.top1) {
    const [float, int8] = accuracy.top1;
    words.push(
      `The float model is right on ${float.toFixed(1)} % of ${accuracy.samples} samples, ` +
        `the int8 model on ${int8.toFixed(1)} %.`,
    );
  } else if (accuracy)
    words.push(
      `The int8 model gives the float model's answer for ${accuracy.agreement.toFixed(1)} % of ` +
        `${accuracy.samples} samples.`,
    );
  if (decibels < 0)
    words.push(
      decibels === -Infinity
        ? "Its outputs hold values that are not numbers."
        : `The error of its outputs is larger than the outputs themselves (${decibels.toFixed(1)} dB).`,
    );
  else if (Number.isNaN(decibels))
    words.push("The number of its results changes from run to run, so that its outputs do not compare.");
  else if (!accuracy)
    words.push(
      decibels === Infinity
        ? "Its outputs are those of the float model, to the bit."
        : `Its outputs differ from the float model's by ${(100 * 10 ** (-decibels / 20)).toFixed(1)} % ` +
            `(${decibels.toFixed(1)} dB).`,
    );
  return words.join(" ");
}

// `dataWarnings`: what speaks against the samples of the calibration.
export function verdictOf(
  evaluation: Evaluation | undefined,
  errors: readonly LayerError[] | undefined,
  dataWarnings: readonly string[] = [],
): Verdict {
  if (!evaluation)
    return {
      level: "unknown",
      title: "Not measured yet",
      reason: "The int8 model is ready. Its accuracy is not measured yet.",
    };
  const level = levelOf(evaluation);
  const layer = level === "good" ? undefined : worstLayer(errors);
  const reason = reasonOf(evaluation);
  if (level === "broken")
    return {
      level,
      title: "Broken: the int8 model does not answer as the float model does",
      reason,
      ...(layer && { layer }),
    };
  // Figures on data that says nothing say nothing.
  if (dataWarnings.length > 0 || (evaluation.warnings?.length ?? 0) > 0)
    return {
      level: "look",
      title: "Check the data first: these figures say little",
      reason: "The warning below says what is wrong with the data or its preprocessing.",
    };
  if (level === "look")
    return {
      level,
      title: layer ? `Look at layer ${layer.module || layer.node}` : "Look closer: int8 loses some accuracy",
      reason,
      ...(layer && { layer }),
    };
  return { level, title: "Good: the int8 model answers as the float model does", reason };
}

// `choose` shows an operator in the graph, `leave` leaves its module in float.
export function verdictView(
  verdict: Verdict,
  choose?: (node: string) => void,
  leave?: (module: string) => void,
): HTMLElement {
  const { level, title, reason, layer } = verdict;
  const decibels = layer && (decibelsOf(layer.own) ?? decibelsOf(layer));
  const name = layer && (layer.module || layer.node);
  const link = (label: string, act: () => void, id?: string): HTMLElement =>
    h("button", { type: "button", class: "link", id, onclick: act }, label);
  const remedy = (): (Node | string)[] =>
    !layer || !choose
      ? []
      : leave && layer.module
        ? [
            link("Show it in the graph", () => choose(layer.node)),
            " or ",
            link("leave it in float", () => leave(layer.module), "leave-float"),
            " and quantize again.",
          ]
        : [link("Show it in the graph", () => choose(layer.node))];
  return h(
    "div",
    { class: `verdict ${level}`, "data-level": level },
    h("h2", choose ? { id: "verdict", tabindex: "-1" } : {}, title),
    h("p", {}, reason),
    layer &&
      h(
        "p",
        {},
        `${name} adds the most noise${decibels === undefined ? "" : ` (${decibels.toFixed(1)} dB)`}. `,
        ...remedy(),
      ),
  );
}

// A recipe in a few words, for tables.
export function recipeWords(recipe: Recipe): string {
  const fields = recipe as unknown as Record<string, unknown>;
  const global = (fields.global ?? {}) as Record<string, unknown>;
  const settings = ["module_name", "module_type", "operator_type"].flatMap(
    (section) => (fields[section] as [string, unknown][] | undefined) ?? [],
  );
  const inFloat = settings.filter(([, setting]) => setting === null).length;
  return [
    recipe.quantizer.replace(/Quantizer$/, ""),
    global.is_per_channel === true && "per channel",
    global.is_dynamic === true && "dynamic",
    global.reduce_range === true && "7 bits",
    inFloat > 0 && `${inFloat} in float`,
    settings.length > inFloat && `${settings.length - inFloat} with settings`,
  ]
    .filter(Boolean)
    .join(", ");
}
