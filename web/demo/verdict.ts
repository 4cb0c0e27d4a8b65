// What the figures of a result mean, in words: the answer that somebody wants before any figure.
import type { LayerError, Recipe } from "qdq";
import { h, unbroken } from "../../src/report/html/dom.js";
import { decibelsOf } from "../../src/report/html/graph-facts.js";
import type { Evaluation } from "./protocol.js";

export interface Verdict {
  level: "good" | "look" | "broken" | "unknown";
  title: string;
  reason: string;
  layer?: LayerError; // that does the most harm
  isOneOfMany?: boolean; // whether that is little beside what all others do
  canRecover?: boolean; // whether recovered accuracy may help
}

// From these on a result is no longer good, or is broken.
const limits = {
  lost: { look: 2, broken: 20 }, // points of top-1
  agreement: { look: 90, broken: 50 }, // percent of the samples
  decibels: { look: 20, broken: 5 }, // of models that do not classify
};
const small = 30; // decibels: an error of 3 %, which changes only the answers of close calls
const aside = 10; // decibels: a layer whose noise is a tenth of the outputs' does not stand out

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
function worstLayer(errors: readonly LayerError[] = []): LayerError | undefined {
  const hasOwn = errors.some(({ own }) => own !== undefined);
  const noise = (error: LayerError): number => decibelsOf(hasOwn ? error.own : error) ?? Infinity;
  const known = errors.filter((error) => error.quantized && Number.isFinite(noise(error)));
  return known.sort((a, b) => noise(a) - noise(b))[0];
}

// Whether answers change although the outputs hardly do.
const isCloseCall = ({ accuracy, sqnr }: Evaluation): boolean =>
  accuracy !== undefined && !accuracy.top1 && accuracy.agreement < limits.agreement.look && decibelsIn(sqnr) >= small;

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

const differenceOf = (decibels: number): string =>
  `${(100 * 10 ** (-decibels / 20)).toFixed(1)} % (${decibels.toFixed(1)} dB)`;

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
        `${accuracy.samples === 1 ? "1 sample" : `${accuracy.samples} samples`}.`,
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
        : `Its outputs differ from the float model's by ${differenceOf(decibels)}.`,
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
  const isClose = isCloseCall(evaluation);
  const level = isClose ? "look" : levelOf(evaluation);
  const layer = level === "good" ? undefined : worstLayer(errors);
  const own = layer && (decibelsOf(layer.own) ?? decibelsOf(layer));
  const isOneOfMany = own !== undefined && own > decibelsIn(evaluation.sqnr) + aside;
  const found = { ...(layer && { layer }), isOneOfMany, canRecover: true };
  const reason = reasonOf(evaluation);
  if (level === "broken")
    return {
      level,
      title: "Broken: the int8 model does not answer as the float model does",
      reason,
      ...found,
    };
  // Figures on data that says nothing say nothing.
  if (dataWarnings.length > 0 || (evaluation.warnings?.length ?? 0) > 0)
    return {
      level: "look",
      title: "Check the data first: these figures say little",
      reason: "The warning below says what is wrong with the data or its preprocessing.",
    };
  if (isClose)
    return {
      level,
      title: "Close calls: the float model hardly prefers one answer",
      reason:
        `${reasonOf(evaluation)} Yet its outputs differ by only ${differenceOf(decibelsIn(evaluation.sqnr))}. ` +
        "If they are no scores of classes, only this difference counts.",
    };
  if (level === "look")
    return {
      level,
      title:
        layer && !isOneOfMany ? `Look at layer ${layer.module || layer.node}` : "Look closer: int8 loses some accuracy",
      reason,
      ...found,
    };
  return { level, title: "Good: the int8 model answers as the float model does", reason };
}

// `choose` shows an operator in the graph, `leave` leaves its module in float, `recover` quantizes again and recovers
// accuracy.
export function verdictView(
  verdict: Verdict,
  choose?: (node: string) => void,
  leave?: (module: string) => void,
  recover?: () => void,
): HTMLElement {
  const { level, title, reason, layer, isOneOfMany, canRecover } = verdict;
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
    h("p", {}, ...unbroken(reason)),
    canRecover &&
      recover &&
      h(
        "p",
        {},
        link("Recover accuracy", recover, "recover-now"),
        " by better ranges and corrected biases, without labels or training.",
      ),
    layer &&
      h(
        "p",
        {},
        `${name} adds the most noise${decibels === undefined ? "" : ` (${decibels.toFixed(1)} dB)`}` +
          `${isOneOfMany ? ", but the noise of many layers adds up" : ""}. `,
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
