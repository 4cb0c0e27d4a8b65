// What is known of the operators of a graph: the colour of a box, and names and values about an operator or a module.
import { observerFigure } from "./charts.js";
import { formatNumber, formatShape, h } from "./dom.js";

/** @typedef {import("./dom.js").Child} Child */
/** @typedef {import("./graph-layout.js").Box} Box */
/** @typedef {import("./graph-layout.js").Model} Model */
/** @typedef {import("qdq").Report} Report */
/** @typedef {Pick<Report, "operators" | "errors" | "observers" | "qparams">} Facts */
/** @typedef {readonly [name: string, value: Child]} Fact */
/** @typedef {(name: string) => Child} Link a node's name, as a way to its box */
/**
 * Explanations and errors by the name of the node.
 * @typedef {{ explanations: ReadonlyMap<string, import("qdq").Explanation>,
 *   errors: ReadonlyMap<string, import("qdq").LayerError>, observers: NonNullable<Report["observers"]>,
 *   qparams: NonNullable<Report["qparams"]> }} Knowledge
 */

/**
 * @param {Facts} facts
 * @returns {Knowledge}
 */
export const knowledgeOf = ({ operators, errors, observers = [], qparams = [] }) => ({
  explanations: new Map(operators?.map((operator) => [operator.node, operator])),
  errors: new Map(errors?.map((error) => [error.node, error])),
  observers,
  qparams,
});

/** @param {import("qdq").ValueError | undefined} error */
export const decibelsOf = (error) => (typeof error?.sqnrDb === "number" ? error.sqnrDb : undefined);

/**
 * The SQNR of the worst of these operators; infinite if none of them was measured.
 * @param {Knowledge} known
 * @param {readonly string[]} members
 */
export const worstDecibels = ({ errors }, members) =>
  Math.min(...members.map((name) => decibelsOf(errors.get(name)) ?? Infinity));

/**
 * The worst of the operators in a box decides its colour.
 * @param {Knowledge} known
 * @param {Box} box
 */
export function kindOf(known, { members, node }) {
  if (node?.op === "placeholder") return "input";
  const outcomes = members.map((name) => known.explanations.get(name)?.outcome);
  // Preparing leaves no trace of a batch norm that it folds.
  if (outcomes.every((outcome) => outcome === undefined)) return known.explanations.size > 0 ? "folded" : "float";
  if (!outcomes.some((outcome) => outcome === "quantized" || outcome === "fused")) return "float";
  if (known.errors.size === 0) return "int8";
  const worst = worstDecibels(known, members);
  return worst < 15 ? "bad" : worst < 30 ? "middling" : "good";
}

/** What the colours say. */
export const graphLegend = () =>
  h(
    "div",
    { class: "legend" },
    ...[
      ["int8", "int8, not measured"],
      ["good", "int8, 30 dB or more"],
      ["middling", "15 to 30 dB"],
      ["bad", "below 15 dB"],
      ["float", "float"],
      ["folded", "folded"],
    ].map(([kind, label]) => h("span", { class: kind }, label)),
  );

/**
 * @param {readonly string[]} names
 * @param {Link} link
 */
const links = (names, link) =>
  names.length > 0 ? h("span", {}, ...names.flatMap((name, i) => [i > 0 && ", ", link(name)])) : "–";

/**
 * What is known of a module that is closed.
 * @param {Knowledge} known
 * @param {import("./graph-layout.js").Group} group
 * @param {readonly string[]} members
 * @param {Link} link
 * @returns {Fact[]}
 */
export function groupFacts({ explanations, errors }, group, members, link) {
  /** @param {string} outcome */
  const count = (outcome) => members.filter((name) => explanations.get(name)?.outcome === outcome).length;
  const worst = members
    .flatMap((name) => errors.get(name) ?? [])
    .filter((error) => decibelsOf(error) !== undefined)
    .sort((a, b) => (decibelsOf(a) ?? 0) - (decibelsOf(b) ?? 0))[0];
  /** @type {Fact[]} */
  const out = [
    ["Module", group.path],
    ["Type", group.type ?? "–"],
    ["Operators", `${members.length}: ${count("quantized")} int8, ${count("fused")} fused, ${count("float")} float`],
  ];
  if (worst) out.push(["Worst SQNR", h("span", {}, `${decibelsOf(worst)?.toFixed(1)} dB at `, link(worst.node))]);
  return out;
}

/**
 * A line for each value that an operator reads.
 * @param {Model} model
 * @param {string} node
 * @param {Link} link
 */
const readValues = (model, node, link) =>
  h(
    "span",
    {},
    ...(model.inputs.get(node) ?? ["–"]).map((name) => {
      const input = model.nodes.get(name);
      return h("span", { class: "line" }, link(name), input ? ` ${input.dtype ?? ""}${formatShape(input.shape)}` : "");
    }),
  );

/**
 * What an operator becomes, and why.
 * @param {import("qdq").Explanation} why
 * @returns {Fact[]}
 */
function decisionFacts(why) {
  /** @type {Fact[]} */
  const out = [["Becomes", why.outcome === "quantized" ? "int8" : why.outcome]];
  if (why.pattern) out.push(["Pattern", `${why.pattern} of ${why.quantizer}`]);
  out.push(["Because", why.reason]);
  for (const tensor of why.tensors) out.push(["edge" in tensor ? `${tensor.edge[0]} →` : "Its output", tensor.becomes]);
  const refused = why.decisions.filter(({ taken, reason }) => !taken && reason !== why.reason);
  for (const { quantizer, pattern, reason } of refused) out.push([`Not ${pattern || "taken"} (${quantizer})`, reason]);
  return out;
}

/**
 * The scales and zero points of an operator's value and of what it reads. A folded weight has a name of its own, its
 * reader is the operator.
 * @param {Knowledge} known
 * @param {string} node
 * @returns {Fact[]}
 */
const qparamsFacts = ({ qparams }, node) =>
  qparams
    .filter((value) => value.of === node || value.by.includes(node))
    .map((value) => {
      const [low, high] = value.scale;
      const scale =
        value.channels > 1
          ? `${value.channels} scales, ${formatNumber(low)} to ${formatNumber(high)}`
          : `scale ${formatNumber(low)}`;
      return [
        value.of === node ? "Its value after conversion" : `${value.of} as its input`,
        `${value.dtype} [${value.quantMin}, ${value.quantMax}], ${scale}, zero point ${value.zeroPoint[0]}`,
      ];
    });

/**
 * What is known of an operator.
 * @param {Model} model
 * @param {Knowledge} known
 * @param {import("qdq").NodeSnapshot} node
 * @param {Link} link
 * @returns {Fact[]}
 */
export function nodeFacts(model, known, node, link) {
  const why = known.explanations.get(node.name);
  const error = decibelsOf(known.errors.get(node.name));
  const readers = node.users.filter((name) => model.nodes.has(name));
  /** @type {Fact[]} */
  const out = [
    ["Name", node.name],
    ["Operator", node.op === "placeholder" ? "input" : node.target],
    ["Module", node.module ? `${node.module}${node.type ? ` (${node.type.split(".").at(-1)})` : ""}` : "–"],
    ["Output", `${node.dtype ?? ""}${formatShape(node.shape)}`],
    ["Reads", readValues(model, node.name, link)],
    ["Read by", links(readers, link)],
  ];
  if (why) out.push(...decisionFacts(why));
  else if (node.op !== "placeholder" && known.explanations.size > 0)
    out.push(["Becomes", "nothing: prepare folds it into the operator before it"]);
  out.push(...qparamsFacts(known, node.name));
  if (error !== undefined) out.push(["SQNR", `${error.toFixed(1)} dB`]);
  return out;
}

/**
 * The observers on an operator's edges, each with what shares it.
 * @param {Knowledge} known
 * @param {string} node
 * @param {Link} link
 */
export const observerFigures = ({ observers }, node, link) =>
  observers
    .filter(({ covers }) => covers.some((place) => place.at(-1) === node))
    .map((observer) => {
      const others = observer.covers.filter((place) => place.at(-1) !== node).map((place) => place.at(-1) ?? "");
      const figure = observerFigure(observer);
      if (others.length > 0) figure.append(h("small", {}, "shared with ", links([...new Set(others)], link)));
      return figure;
    });
