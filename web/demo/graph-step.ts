// Step 6: the graph, where modules open and close, and everything that is known of a selected operator.
import type { Explanation, LayerError, NodeSnapshot, ObserverSummary } from "qdq";
import { observerFigure } from "./charts.js";
import { byId, formatShape, h, svg } from "./dom.js";
import type { Box, Layout, Model } from "./graph-layout.js";
import { ancestors, boxHeight, boxWidth, layoutOf, modelOf, openAtFirst } from "./graph-layout.js";
import type { State, Store } from "./state.js";
import { lastRun } from "./state.js";

const short = (text: string, length = 22): string => (text.length > length ? `…${text.slice(1 - length)}` : text);
const operatorOf = ({ target }: NodeSnapshot): string => target.replace(/^torch\.ops\.(aten\.)?/, "").replace(/\.default$/, "");

export function graphStep(store: Store): void {
  let model: Model | undefined,
    open = new Set<string>(),
    layout: Layout,
    selected: string | undefined;
  let view = { x: 0, y: 0, scale: 1 };
  let explanations = new Map<string, Explanation>(),
    errors = new Map<string, LayerError>(),
    observers: readonly ObserverSummary[] = [];

  const scene = svg("g");
  const canvas = svg(
    "svg",
    { class: "graph", role: "group", "aria-label": "graph of the model" },
    svg(
      "defs",
      {},
      svg(
        "marker",
        { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
        svg("path", { d: "M0 0L8 4L0 8z" }),
      ),
    ),
    scene,
  );
  const details = h("div", { class: "details", id: "node-details", "aria-live": "polite" });
  const search = h("input", {
    type: "search",
    id: "graph-search",
    placeholder: "find an operator or module",
    "aria-label": "find an operator or module",
    list: "graph-names",
    oninput: () => find(search.value),
  });
  const names = h("datalist", { id: "graph-names" });
  const button = (label: string, title: string, act: () => void): HTMLElement =>
    h("button", { type: "button", title, "aria-label": title, onclick: act }, label);
  byId("graph").append(
    h(
      "p",
      {},
      "Boxes are operators, and modules that are closed; a module opens with a double click or Enter. " +
        "Colours tell what an operator becomes, and after quantizing how much its value moves.",
    ),
    h(
      "div",
      { class: "controls" },
      search,
      names,
      button("+", "zoom in", () => zoom(1.3)),
      button("−", "zoom out", () => zoom(1 / 1.3)),
      button("Fit", "see all of the graph", fit),
      button("Open all", "open all modules", () => reopen(new Set(model?.groups.keys()))),
      button("Close all", "close all modules", () => reopen(new Set())),
    ),
    h(
      "div",
      { class: "legend" },
      h("span", { class: "good" }, "int8, 30 dB or more"),
      h("span", { class: "middling" }, "15 to 30 dB"),
      h("span", { class: "bad" }, "below 15 dB"),
      h("span", { class: "float" }, "float"),
      h("span", { class: "folded" }, "folded away"),
    ),
    h("div", { class: "split" }, canvas, details),
  );

  // The worst of the operators in a box decides its colour.
  function kindOf({ members }: Box): string {
    const outcomes = members.map((name) => explanations.get(name)?.outcome);
    const decibels = members.map((name) => errors.get(name)?.sqnr_db).filter((value) => typeof value === "number");
    // Preparing leaves no trace of a batch norm that it folds.
    if (outcomes.every((outcome) => outcome === undefined)) return explanations.size > 0 ? "folded" : "float";
    if (!outcomes.some((outcome) => outcome === "quantized" || outcome === "fused")) return "float";
    const worst = Math.min(...decibels, Infinity);
    return worst < 15 ? "bad" : worst < 30 ? "middling" : "good";
  }

  function draw(): void {
    const focused = document.activeElement?.getAttribute("data-box");
    const framed = layout.frames.map(({ group, x, y, width, height }) =>
      svg("rect", { class: "frame", x, y, width, height, rx: 10 }, svg("title", {}, group.path)),
    );
    const edges = layout.edges.map(([from, to]) => {
      const x1 = from.x,
        y1 = from.y + boxHeight,
        x2 = to.x,
        y2 = to.y - 2,
        bend = Math.max(14, (y2 - y1) / 2);
      // A way past other boxes of the column bows out of it.
      const passes = y2 - y1 > boxHeight && Math.abs(x1 - x2) < boxWidth,
        side = Math.max(x1, x2) + boxWidth / 2 + 10;
      const d = passes
        ? `M${x1 + 40} ${y1}C${x1 + 40} ${y1 + 16} ${side} ${y1 + 4} ${side} ${y1 + 30}V${y2 - 30}` +
          `C${side} ${y2 - 4} ${x2 + 40} ${y2 - 16} ${x2 + 40} ${y2}`
        : `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`;
      return svg("path", { class: "edge-line", d, "marker-end": "url(#arrow)" });
    });
    const boxes = layout.boxes.map((box) => {
      const { id, x, y, group, node, members } = box,
        kind = node?.op === "placeholder" ? "input" : kindOf(box);
      const title = group ? group.path : node!.op === "placeholder" ? node!.name : operatorOf(node!);
      const second = group
        ? `${group.type?.split(".").at(-1) ?? "module"}, ${members.length} operators`
        : node!.op === "placeholder"
          ? "input"
          : node!.module || node!.name;
      const element = svg(
        "g",
        {
          class: `box ${kind}${group ? " closed" : ""}`,
          transform: `translate(${x - boxWidth / 2} ${y})`,
          tabindex: 0,
          role: "button",
          "data-box": id,
          "aria-label": `${title}, ${second}, ${kind}`,
          ...(group && { "aria-expanded": "false" }),
          "aria-pressed": String(id === selected),
        },
        svg("title", {}, `${title}\n${second}`),
        svg("rect", { width: boxWidth, height: boxHeight, rx: 7 }),
        svg("text", { x: 10, y: 19, class: "title" }, short(title)),
        svg("text", { x: 10, y: 36, class: "second" }, short(second, 26)),
        group && svg("text", { x: boxWidth - 18, y: 20, class: "title" }, "+"),
      );
      element.addEventListener("click", () => select(id));
      element.addEventListener("dblclick", () => group && toggle(group.path));
      element.addEventListener("keydown", (event) => key(event, box));
      return element;
    });
    scene.replaceChildren(...framed, ...edges, ...boxes);
    if (focused) elementOf(focused)?.focus();
    place();
  }

  const elementOf = (id: string): SVGElement | null => scene.querySelector(`[data-box="${CSS.escape(id)}"]`);
  const place = (): void => scene.setAttribute("transform", `translate(${view.x} ${view.y}) scale(${view.scale})`);

  function zoom(factor: number, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2): void {
    const scale = Math.min(3, Math.max(0.03, view.scale * factor)),
      ratio = scale / view.scale;
    view = { x: x - (x - view.x) * ratio, y: y - (y - view.y) * ratio, scale };
    place();
  }
  function fit(): void {
    const scale = Math.min(1.1, canvas.clientWidth / layout.width, (canvas.clientHeight - 40) / layout.height) || 1;
    view = { x: (canvas.clientWidth - layout.width * scale) / 2, y: 20, scale };
    place();
  }
  // As large as can be read: the whole width, from the top.
  function begin(): void {
    const scale = Math.max(0.7, Math.min(1, canvas.clientWidth / layout.width));
    view = { x: (canvas.clientWidth - layout.width * scale) / 2, y: 20, scale };
    place();
  }
  function center(id: string): void {
    const box = layout.boxes.find((each) => each.id === id);
    if (box) view = { ...view, x: canvas.clientWidth / 2 - box.x * view.scale, y: canvas.clientHeight / 2 - (box.y + boxHeight / 2) * view.scale };
    place();
  }

  function reopen(groups: Set<string>): void {
    if (!model) return;
    open = groups;
    layout = layoutOf(model, open);
    draw();
    begin();
    showDetails();
  }
  function toggle(path: string): void {
    if (!model) return;
    // Closing closes what is inside too; opening opens what is around.
    if (open.has(path)) open = new Set([...open].filter((group) => group !== path && !group.startsWith(`${path}.`)));
    else open = new Set([...open, ...ancestors(model, path).map((group) => group.path)]);
    layout = layoutOf(model, open);
    const there = open.has(path) ? layout.boxOf.get(model.groups.get(path)!.nodes[0]!)!.id : `group:${path}`;
    draw();
    select(there);
    center(there);
    elementOf(there)?.focus();
  }

  function key(event: KeyboardEvent, box: Box): void {
    const go = (to: Box | undefined): void => {
      event.preventDefault();
      if (!to) return;
      select(to.id);
      center(to.id);
      elementOf(to.id)?.focus();
    };
    if (event.key === "Enter" && box.group) toggle(box.group.path);
    else if (event.key === "Enter" || event.key === " ") go(box);
    else if (event.key === "ArrowDown") go(layout.edges.find(([from]) => from === box)?.[1]);
    else if (event.key === "ArrowUp") go(layout.edges.find(([, to]) => to === box)?.[0]);
    else if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
      const row = layout.boxes.filter(({ y }) => y === box.y).sort((a, b) => a.x - b.x);
      go(row[row.indexOf(box) + (event.key === "ArrowRight" ? 1 : -1)]);
    }
  }

  function find(text: string): void {
    if (!model || text === "") return;
    const wanted = text.toLowerCase();
    const fits = (node: NodeSnapshot): boolean =>
      [node.name, node.module ?? "", operatorOf(node)].some((name) => name.toLowerCase().includes(wanted));
    const group = model.groups.get(text),
      nodes = [...model.nodes.values()];
    const node =
      group && open.has(text)
        ? model.nodes.get(group.nodes[0]!)
        : (nodes.find(({ name, module }) => name === text || module === text) ?? nodes.find(fits));
    if (!node) return;
    // A module by its name is shown closed unless it is open; an operator opens all around it.
    const around = group && !open.has(text) ? ancestors(model, group.parent) : ancestors(model, model.groupOf.get(node.name));
    open = new Set([...open, ...around.map(({ path }) => path)]);
    layout = layoutOf(model, open);
    draw();
    const there = group && !open.has(text) ? `group:${text}` : node.name;
    select(there);
    view.scale = Math.max(view.scale, 0.7);
    center(there);
  }

  function select(id: string): void {
    if (selected !== undefined) elementOf(selected)?.setAttribute("aria-pressed", "false");
    selected = id;
    elementOf(id)?.setAttribute("aria-pressed", "true");
    showDetails();
  }

  function showDetails(): void {
    const box = layout.boxes.find(({ id }) => id === selected);
    if (!model || !box) return details.replaceChildren(h("p", {}, "Select a box to see what is known of it."));
    const around = ancestors(model, box.group?.path ?? model.groupOf.get(box.members[0]!));
    const path = h(
      "div",
      { class: "controls" },
      ...around.map((group) => {
        const isOpen = open.has(group.path);
        return h("button", { type: "button", onclick: () => toggle(group.path) }, `${isOpen ? "Close" : "Open"} ${group.path}`);
      }),
    );
    const facts: [string, string][] = [];
    const figures: HTMLElement[] = [];
    if (box.group) {
      const count = (outcome: string): number => box.members.filter((name) => explanations.get(name)?.outcome === outcome).length;
      const worst = box.members
        .map((name) => errors.get(name))
        .filter((error) => typeof error?.sqnr_db === "number")
        .sort((a, b) => (a!.sqnr_db as number) - (b!.sqnr_db as number))[0];
      facts.push(
        ["Module", box.group.path],
        ["Type", box.group.type ?? "–"],
        ["Operators", `${box.members.length}: ${count("quantized")} int8, ${count("fused")} fused, ${count("float")} float`],
      );
      if (worst) facts.push(["Worst SQNR", `${(worst.sqnr_db as number).toFixed(1)} dB at ${worst.node}`]);
    } else {
      const node = box.node!,
        why = explanations.get(node.name),
        error = errors.get(node.name)?.sqnr_db;
      const type = node.type;
      const values = (list: readonly string[]): string =>
        list.map((name) => `${name} ${model!.nodes.get(name)?.dtype ?? ""}${formatShape(model!.nodes.get(name)?.shape)}`).join(", ");
      facts.push(
        ["Name", node.name],
        ["Operator", node.op === "placeholder" ? "input" : node.target],
        ["Module", node.module ? `${node.module}${type ? ` (${type.split(".").at(-1)})` : ""}` : "–"],
        ["Output", `${node.dtype ?? ""}${formatShape(node.shape)}`],
        ["Reads", values(model.inputs.get(node.name) ?? []) || "–"],
        ["Read by", node.users.join(", ") || "–"],
      );
      if (why) {
        facts.push(
          ["Becomes", why.outcome === "quantized" ? "int8" : why.outcome],
          ["Pattern", why.pattern ? `${why.pattern} of ${why.quantizer}` : "–"],
          ["Because", why.reason],
        );
        for (const tensor of why.tensors) facts.push(["edge" in tensor ? `${tensor.edge[0]} →` : "Its output", tensor.becomes]);
      } else if (node.op !== "placeholder") facts.push(["Becomes", "nothing of its own: preparing folds it into the operator before it"]);
      if (typeof error === "number") facts.push(["SQNR", `${error.toFixed(1)} dB`]);
      figures.push(...observers.filter(({ covers }) => covers.some((place) => place.at(-1) === node.name)).map(observerFigure));
    }
    details.replaceChildren(
      path,
      h("dl", { class: "facts" }, ...facts.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
      ...figures,
    );
  }

  // Drag to move, wheel to zoom, two fingers to do both.
  const fingers = new Map<number, { x: number; y: number }>();
  canvas.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && document.activeElement !== canvas && !canvas.contains(document.activeElement) && !event.shiftKey) return;
      event.preventDefault();
      const { left, top } = canvas.getBoundingClientRect();
      zoom(Math.exp(-event.deltaY / 400), event.clientX - left, event.clientY - top);
    },
    { passive: false },
  );
  canvas.addEventListener("pointerdown", (event) => fingers.set(event.pointerId, { x: event.clientX, y: event.clientY }));
  canvas.addEventListener("pointermove", (event) => {
    const from = fingers.get(event.pointerId);
    if (!from) return;
    const other = [...fingers].find(([id]) => id !== event.pointerId)?.[1];
    if (other) {
      const length = (at: { x: number; y: number }): number => Math.hypot(at.x - other.x, at.y - other.y) || 1;
      const { left, top } = canvas.getBoundingClientRect();
      zoom(length({ x: event.clientX, y: event.clientY }) / length(from), other.x - left, other.y - top);
    } else {
      view = { ...view, x: view.x + event.clientX - from.x, y: view.y + event.clientY - from.y };
      place();
    }
    fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  });
  for (const end of ["pointerup", "pointercancel", "pointerleave"] as const) canvas.addEventListener(end, (event) => fingers.delete(event.pointerId));

  function take(state: State): void {
    const run = lastRun(state);
    explanations = new Map(state.explanation?.operators.map((operator) => [operator.node, operator]));
    errors = new Map(run?.errors?.map((error) => [error.node, error]));
    observers = run?.quantized.report.observers ?? [];
  }

  store.listen((state, changed) => {
    byId("graph").hidden = !state.model;
    if (!state.model) return;
    if (changed.has("model")) {
      model = modelOf(state.model.program.nodes);
      open = openAtFirst(model);
      layout = layoutOf(model, open);
      selected = undefined;
      names.replaceChildren(...[...new Set([...model.groups.keys(), ...model.nodes.keys()])].map((name) => h("option", { value: name })));
      take(state);
      draw();
      begin();
      showDetails();
    } else if (changed.has("explanation") || changed.has("runs")) {
      take(state);
      draw();
      showDetails();
    }
  });
}
