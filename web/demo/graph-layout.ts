// A program as boxes: modules that are closed stand for the operators in them. Pure functions over plain data.
import type { Argument, NodeSnapshot } from "qdq";

// A module with several operators in it. Its parent is the next module around it that has more.
export interface Group {
  path: string;
  type: string | undefined;
  depth: number;
  parent: string | undefined;
  nodes: readonly string[];
}

export interface Model {
  nodes: ReadonlyMap<string, NodeSnapshot>; // inputs and operators, in graph order
  groups: ReadonlyMap<string, Group>;
  groupOf: ReadonlyMap<string, string | undefined>; // the innermost group of a node
  inputs: ReadonlyMap<string, readonly string[]>; // the nodes that a node reads, without weights
}

export interface Box {
  id: string; // a node's name, or "group:" and a path
  group?: Group;
  node?: NodeSnapshot;
  x: number; // of the middle
  y: number; // of the top
  members: readonly string[];
}

export interface Frame {
  group: Group;
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Layout {
  boxes: readonly Box[];
  edges: readonly (readonly [from: Box, to: Box])[];
  frames: readonly Frame[]; // around what an open group holds, outermost first
  boxOf: ReadonlyMap<string, Box>;
  width: number;
  height: number;
}

export const boxWidth = 176,
  boxHeight = 46;
const gapX = 28,
  gapY = 34;

function readNodes(argument: Argument, found: string[]): void {
  if (Array.isArray(argument)) argument.forEach((element) => readNodes(element as Argument, found));
  else if (argument !== null && typeof argument === "object" && "node" in argument) found.push(argument.node);
}

export function modelOf(nodes: readonly NodeSnapshot[]): Model {
  const shown = new Map(nodes.filter(({ op }) => op === "placeholder" || op === "call_function").map((node) => [node.name, node]));
  const members = new Map<string, string[]>(),
    types = new Map<string, string>();
  for (const node of shown.values()) {
    const parts = (node.module ?? "").split(".").filter(Boolean);
    const type = node.type;
    if (node.module && type) types.set(node.module, type);
    parts.forEach((_, depth) => {
      const path = parts.slice(0, depth + 1).join(".");
      members.set(path, [...(members.get(path) ?? []), node.name]);
    });
  }
  const groups = new Map<string, Group>();
  for (const [path, inside] of [...members].sort(([a], [b]) => a.split(".").length - b.split(".").length)) {
    const around = path
      .split(".")
      .slice(0, -1)
      .map((_, depth, parts) => parts.slice(0, depth + 1).join("."))
      .filter((outer) => groups.has(outer));
    const parent = around.at(-1);
    // A module around a single operator, or around exactly one other module, would be a box in a box.
    // So would one that is called again and again, as many a ReLU.
    const leaf = inside.every((name) => shown.get(name)!.module === path),
      targets = new Set(inside.map((name) => shown.get(name)!.target));
    if (inside.length < 2 || (leaf && targets.size === 1) || (parent !== undefined && groups.get(parent)!.nodes.length === inside.length)) continue;
    groups.set(path, { path, type: types.get(path), depth: around.length, parent, nodes: inside });
  }
  const groupOf = new Map(
    [...shown.values()].map(({ name, module = "" }) => {
      const parts = module.split(".");
      return [
        name,
        parts
          .map((_, depth) => parts.slice(0, depth + 1).join("."))
          .filter((path) => groups.has(path))
          .at(-1),
      ] as const;
    }),
  );
  const inputs = new Map(
    [...shown.values()].map(({ name, args, kwargs }) => {
      const found: string[] = [];
      readNodes([...args, ...Object.values(kwargs)] as Argument, found);
      return [name, [...new Set(found)].filter((input) => shown.has(input))] as const;
    }),
  );
  return { nodes: shown, groups, groupOf, inputs };
}

export function ancestors(model: Model, group: string | undefined): Group[] {
  const out: Group[] = [];
  for (let path = group; path !== undefined; path = model.groups.get(path)!.parent) out.unshift(model.groups.get(path)!);
  return out;
}

// The groups to open at first: level by level, as long as no more than `most` boxes are to be seen.
export function openAtFirst(model: Model, most = 36): Set<string> {
  const open = new Set<string>();
  const depths = [...new Set([...model.groups.values()].map(({ depth }) => depth))].sort((a, b) => a - b);
  for (const depth of depths) {
    const next = new Set([...open, ...[...model.groups.values()].filter((group) => group.depth === depth).map(({ path }) => path)]);
    if (boxesOf(model, next).boxes.length > most) break;
    next.forEach((path) => open.add(path));
  }
  return open;
}

function boxesOf(model: Model, open: ReadonlySet<string>): { boxes: Box[]; boxOf: Map<string, Box> } {
  const boxes = new Map<string, Box & { members: string[] }>(),
    boxOf = new Map<string, Box>();
  for (const node of model.nodes.values()) {
    const closed = ancestors(model, model.groupOf.get(node.name)).find(({ path }) => !open.has(path));
    const id = closed ? `group:${closed.path}` : node.name;
    const box = boxes.get(id) ?? { id, ...(closed ? { group: closed } : { node }), x: 0, y: 0, members: [] };
    box.members.push(node.name);
    boxes.set(id, box);
    boxOf.set(node.name, box);
  }
  return { boxes: [...boxes.values()], boxOf };
}

// Rows by the longest way from an input; within a row, boxes stand below what they read.
export function layoutOf(model: Model, open: ReadonlySet<string>): Layout {
  const { boxes, boxOf } = boxesOf(model, open);
  const order = new Map(boxes.map((box, i) => [box, i]));
  const before = new Map<Box, Set<Box>>(boxes.map((box) => [box, new Set()]));
  for (const [name, inputs] of model.inputs) {
    for (const input of inputs) {
      const from = boxOf.get(input)!,
        to = boxOf.get(name)!;
      // A closed module that runs twice reads what it made: only ways forward make rows.
      if (order.get(from)! < order.get(to)!) before.get(to)!.add(from);
    }
  }
  const rowOf = new Map<Box, number>(),
    rows: Box[][] = [];
  for (const box of boxes) {
    const row = 1 + Math.max(-1, ...[...before.get(box)!].map((from) => rowOf.get(from)!));
    rowOf.set(box, row);
    (rows[row] ??= []).push(box);
  }
  for (const row of rows) {
    const wish = new Map(
      row.map((box) => {
        const above = [...before.get(box)!];
        return [box, above.length > 0 ? above.reduce((sum, { x }) => sum + x, 0) / above.length : 0];
      }),
    );
    row.sort((a, b) => wish.get(a)! - wish.get(b)!);
    const middle = [...wish.values()].reduce((a, b) => a + b, 0) / row.length;
    row.forEach((box, i) => {
      box.x = middle + (i - (row.length - 1) / 2) * (boxWidth + gapX);
      box.y = rowOf.get(box)! * (boxHeight + gapY);
    });
  }
  const left = Math.min(...boxes.map(({ x }) => x)) - boxWidth / 2 - 40;
  for (const box of boxes) box.x -= left;
  const frames = [...open]
    .map((path) => model.groups.get(path)!)
    .sort((a, b) => a.depth - b.depth)
    .map((group): Frame => {
      const inside = [...new Set(group.nodes.map((name) => boxOf.get(name)!))],
        margin = 14 - Math.min(10, 3 * group.depth);
      const x = Math.min(...inside.map((box) => box.x)) - boxWidth / 2 - margin,
        y = Math.min(...inside.map((box) => box.y)) - margin;
      return {
        group,
        x,
        y,
        width: Math.max(...inside.map((box) => box.x)) + boxWidth / 2 + margin - x,
        height: Math.max(...inside.map((box) => box.y)) + boxHeight + margin - y,
      };
    });
  const edges = [...before].flatMap(([to, froms]) => [...froms].map((from) => [from, to] as const));
  return {
    boxes,
    edges,
    frames,
    boxOf,
    width: Math.max(...boxes.map(({ x }) => x)) + boxWidth / 2 + 40,
    height: rows.length * (boxHeight + gapY),
  };
}
