// A program as boxes: modules that are closed stand for the operators in them. Pure functions over plain data.
import { shortOperator } from "./dom.js";

/** @typedef {import("qdq").Argument} Argument */
/** @typedef {import("qdq").NodeSnapshot} NodeSnapshot */

/**
 * A module with several operators in it. Its parent is the next module around it that has more.
 * @typedef {{ path: string, type: string | undefined, depth: number, parent: string | undefined,
 *   nodes: readonly string[] }} Group
 */
/**
 * nodes: inputs and operators, in graph order; groupOf: the innermost group of a node;
 * inputs: the nodes that a node reads, without weights.
 * @typedef {{ nodes: ReadonlyMap<string, NodeSnapshot>, groups: ReadonlyMap<string, Group>,
 *   groupOf: ReadonlyMap<string, string | undefined>, inputs: ReadonlyMap<string, readonly string[]> }} Model
 */
/**
 * An operator or a closed group. id: a node's name, or "group:" and a path; x: of the middle; y: of the top; column:
 * long graphs go on at the top of the next, which begins at `left`.
 * @typedef {{ id: string, group?: Group, node?: NodeSnapshot, x: number, y: number, column: number, left: number,
 *   members: string[] }} Box
 */
/** @typedef {{ group: Group, x: number, y: number, width: number, height: number }} Frame */
/**
 * frames: around what an open group holds, outermost first.
 * @typedef {{ boxes: readonly Box[], edges: readonly (readonly [from: Box, to: Box])[], frames: readonly Frame[],
 *   boxOf: ReadonlyMap<string, Box>, width: number, height: number }} Layout
 */

export const boxWidth = 176,
  boxHeight = 46;
const gapX = 28;
const gapY = 34;

/**
 * @param {Argument} argument
 * @param {string[]} found
 */
function readNodes(argument, found) {
  if (Array.isArray(argument)) argument.forEach((element) => readNodes(element, found));
  else if (argument !== null && typeof argument === "object" && "node" in argument) found.push(argument.node);
}

/** @param {string} path "a.b.c" as ["a", "a.b", "a.b.c"] */
const pathsTo = (path) =>
  path
    .split(".")
    .filter(Boolean)
    .map((_, depth, parts) => parts.slice(0, depth + 1).join("."));

/**
 * What a node is called in its box.
 * @param {NodeSnapshot} node
 */
export const titleOf = (node) => (node.op === "placeholder" ? node.name : shortOperator(node.target));

/** @param {string} path of a group that is closed: the id of its box */
export const idOfGroup = (path) => `group:${path}`;

/** @param {string} id of a box: the name of its operator or the path of its group */
export const nameOfBox = (id) => id.replace(/^group:/, "");

/**
 * @param {readonly NodeSnapshot[]} nodes
 * @returns {Model}
 */
export function modelOf(nodes) {
  const shown = new Map(
    nodes.filter(({ op }) => op === "placeholder" || op === "call_function").map((node) => [node.name, node]),
  );
  /** @type {Map<string, string[]>} */
  const members = new Map();
  /** @type {Map<string, string>} */
  const types = new Map();
  for (const node of shown.values()) {
    if (node.module && node.type) types.set(node.module, node.type);
    for (const path of pathsTo(node.module ?? "")) {
      const inside = members.get(path);
      if (inside) inside.push(node.name);
      else members.set(path, [node.name]);
    }
  }
  /** @type {Map<string, Group>} */
  const groups = new Map();
  for (const [path, inside] of [...members].sort(([a], [b]) => a.split(".").length - b.split(".").length)) {
    const around = pathsTo(path).filter((outer) => groups.has(outer));
    const parent = around.at(-1);
    // A module around a single operator, or around exactly one other module, would be a box in a box.
    // So would one that is called again and again, as many a ReLU.
    const leaf = inside.every((name) => shown.get(name)?.module === path);
    const targets = new Set(inside.map((name) => shown.get(name)?.target));
    if (inside.length < 2 || (leaf && targets.size === 1)) continue;
    if (parent !== undefined && groups.get(parent)?.nodes.length === inside.length) continue;
    groups.set(path, { path, type: types.get(path), depth: around.length, parent, nodes: inside });
  }
  const groupOf = new Map(
    [...shown.values()].map(({ name, module = "" }) => [name, pathsTo(module).findLast((path) => groups.has(path))]),
  );
  const inputs = new Map(
    [...shown.values()].map(({ name, args, kwargs }) => {
      /** @type {string[]} */
      const found = [];
      readNodes([...args, ...Object.values(kwargs)], found);
      return [name, [...new Set(found)].filter((input) => shown.has(input))];
    }),
  );
  return { nodes: shown, groups, groupOf, inputs };
}

/**
 * A group and those around it, outermost first.
 * @param {Model} model
 * @param {string | undefined} path
 */
export function ancestors(model, path) {
  /** @type {Group[]} */
  const out = [];
  for (
    let group = path === undefined ? undefined : model.groups.get(path);
    group;
    group = model.groups.get(group.parent ?? "")
  )
    out.unshift(group);
  return out;
}

/**
 * The box of the operator or module that a name means, or a part of one, and the groups that have to be open to see it.
 * A module by its name is shown closed unless it is open, where its first operator is meant.
 * @param {Model} model
 * @param {ReadonlySet<string>} open
 * @param {string} text
 */
export function boxMeantBy(model, open, text) {
  const group = model.groups.get(text);
  if (group && !open.has(text)) return { id: idOfGroup(text), around: ancestors(model, group.parent) };
  const wanted = text.toLowerCase();
  const nodes = [...model.nodes.values()];
  const node = group
    ? model.nodes.get(group.nodes[0] ?? "")
    : (nodes.find(({ name, module }) => name === text || module === text) ??
      nodes.find((each) =>
        [each.name, each.module ?? "", titleOf(each)].some((name) => name.toLowerCase().includes(wanted)),
      ));
  return node && { id: node.name, around: ancestors(model, model.groupOf.get(node.name)) };
}

/**
 * The groups to open at first: level by level, as long as no more than `most` boxes are to be seen.
 * @param {Model} model
 * @param {number} [most]
 */
export function openAtFirst(model, most = 36) {
  /** @type {Set<string>} */
  const open = new Set();
  const depths = [...new Set([...model.groups.values()].map(({ depth }) => depth))].sort((a, b) => a - b);
  for (const depth of depths) {
    const next = new Set([
      ...open,
      ...[...model.groups.values()].filter((group) => group.depth === depth).map(({ path }) => path),
    ]);
    if (boxesOf(model, next).boxes.length > most) break;
    next.forEach((path) => open.add(path));
  }
  return open;
}

/**
 * @param {Model} model
 * @param {ReadonlySet<string>} open
 */
function boxesOf(model, open) {
  /** @type {Map<string, Box>} */
  const boxes = new Map();
  /** @type {Map<string, Box>} */
  const boxOf = new Map();
  for (const node of model.nodes.values()) {
    const closed = ancestors(model, model.groupOf.get(node.name)).find(({ path }) => !open.has(path));
    const id = closed ? idOfGroup(closed.path) : node.name;
    const box = boxes.get(id) ?? {
      id,
      ...(closed ? { group: closed } : { node }),
      x: 0,
      y: 0,
      column: 0,
      left: 0,
      members: [],
    };
    box.members.push(node.name);
    boxes.set(id, box);
    boxOf.set(node.name, box);
  }
  return { boxes: [...boxes.values()], boxOf };
}

/**
 * Breaks rows into columns beside each other, together about as wide as a screen: a deep network is no thread.
 * @param {readonly (readonly Box[])[]} rows
 */
function wrapRows(rows) {
  const xs = rows.flat().map(({ x }) => x);
  const width =
    xs.reduce((most, x) => Math.max(most, x), 0) - xs.reduce((least, x) => Math.min(least, x), 0) + boxWidth;
  const pitch = boxHeight + gapY;
  const columns = rows.length < 14 ? 1 : Math.max(1, Math.round(Math.sqrt((1.6 * rows.length * pitch) / width)));
  const perColumn = Math.ceil(rows.length / columns);
  let left = 40;
  for (let column = 0; column < columns; ++column) {
    const inside = rows.slice(column * perColumn, (column + 1) * perColumn);
    const boxes = inside.flat();
    const least = boxes.reduce((most, { x }) => Math.min(most, x), Infinity) - boxWidth / 2;
    inside.forEach((row, y) => {
      for (const box of row) {
        box.x += left - least;
        box.y = y * pitch;
        box.column = column;
        box.left = left;
      }
    });
    left = boxes.reduce((most, { x }) => Math.max(most, x), left) + boxWidth / 2 + 70;
  }
}

/**
 * The frames around what the open groups hold, one for each column.
 * @param {Model} model
 * @param {ReadonlySet<string>} open
 * @param {ReadonlyMap<string, Box>} boxOf
 */
function framesOf(model, open, boxOf) {
  return [...open]
    .flatMap((path) => model.groups.get(path) ?? [])
    .sort((a, b) => a.depth - b.depth)
    .flatMap((group) => {
      const inside = [...new Set(group.nodes.flatMap((name) => boxOf.get(name) ?? []))];
      const margin = 14 - Math.min(10, 3 * group.depth);
      return [...new Set(inside.map(({ column }) => column))].map((column) => {
        const here = inside.filter((box) => box.column === column);
        const x = here.reduce((least, box) => Math.min(least, box.x), Infinity) - boxWidth / 2 - margin;
        const y = here.reduce((least, box) => Math.min(least, box.y), Infinity) - margin;
        const right = here.reduce((most, box) => Math.max(most, box.x), 0) + boxWidth / 2 + margin;
        const bottom = here.reduce((most, box) => Math.max(most, box.y), 0) + boxHeight + margin;
        return { group, x, y, width: right - x, height: bottom - y };
      });
    });
}

/**
 * Rows by the longest way from an input; within a row, boxes stand below what they read.
 * @param {Model} model
 * @param {ReadonlySet<string>} open
 * @returns {Layout}
 */
export function layoutOf(model, open) {
  const { boxes, boxOf } = boxesOf(model, open);
  const order = new Map(boxes.map((box, i) => [box, i]));
  /** @type {Map<Box, Set<Box>>} */
  const before = new Map(boxes.map((box) => [box, new Set()]));
  for (const [name, inputs] of model.inputs) {
    const to = boxOf.get(name);
    for (const input of inputs) {
      const from = boxOf.get(input);
      // A closed module that runs twice reads what it made: only ways forward make rows.
      if (from && to && (order.get(from) ?? 0) < (order.get(to) ?? 0)) before.get(to)?.add(from);
    }
  }
  /** @type {Map<Box, number>} */
  const rowOf = new Map();
  /** @type {Box[][]} */
  const rows = [];
  for (const box of boxes) {
    const row = 1 + Math.max(-1, ...[...(before.get(box) ?? [])].map((from) => rowOf.get(from) ?? 0));
    rowOf.set(box, row);
    (rows[row] ??= []).push(box);
  }
  rows.forEach((row) => {
    const wish = new Map(
      row.map((box) => {
        const above = [...(before.get(box) ?? [])];
        return [box, above.length > 0 ? above.reduce((sum, { x }) => sum + x, 0) / above.length : 0];
      }),
    );
    row.sort((a, b) => (wish.get(a) ?? 0) - (wish.get(b) ?? 0));
    const middle = [...wish.values()].reduce((a, b) => a + b, 0) / row.length;
    row.forEach((box, i) => {
      box.x = middle + (i - (row.length - 1) / 2) * (boxWidth + gapX);
    });
  });
  wrapRows(rows);
  return {
    boxes,
    edges: [...before].flatMap(([to, froms]) => [...froms].map((from) => /** @type {const} */ ([from, to]))),
    frames: framesOf(model, open, boxOf),
    boxOf,
    width: boxes.reduce((most, { x }) => Math.max(most, x), 0) + boxWidth / 2 + 40,
    height: boxes.reduce((most, { y }) => Math.max(most, y), 0) + boxHeight + gapY,
  };
}
