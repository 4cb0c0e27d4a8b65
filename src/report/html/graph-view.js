// The graph of a model as a drawing: modules open and close, colours tell what an operator becomes and how far its
// value moves, and a box that is selected tells all that is known of it.
import { observerFigure } from "./charts.js";
import { formatNumber, formatShape, h, svg } from "./dom.js";
import { listenForGestures } from "./graph-gestures.js";
import { ancestors, boxHeight, boxWidth, layoutOf, modelOf, openAtFirst, titleOf } from "./graph-layout.js";
import { bareBoxes, graphMinimap } from "./graph-minimap.js";

/** @typedef {import("./graph-layout.js").Box} Box */
/** @typedef {import("./graph-layout.js").Layout} Layout */
/** @typedef {import("./dom.js").Child} Child */
/** @typedef {import("qdq").Report} Report */
/** @typedef {Pick<Report, "operators" | "errors" | "observers" | "qparams">} Facts */

/** @param {string} text */
const short = (text, length = 22) => (text.length > length ? `…${text.slice(1 - length)}` : text);

/** @param {import("qdq").ValueError | undefined} error */
export const decibelsOf = (error) => (typeof error?.sqnrDb === "number" ? error.sqnrDb : undefined);

/**
 * show(nodes) takes another model, know(facts) what is known of its operators, select(name) selects an operator or a
 * module by its name and brings it into view. `settingFor` may add to the facts of an operator or module what can be
 * changed about it; `onSelect` is called with the name of the operator or module that is selected.
 * @param {(module: string) => Child} [settingFor]
 * @param {(name: string) => void} [onSelect]
 */
export function graphView(settingFor = () => undefined, onSelect = () => undefined) {
  let model = modelOf([]);
  /** @type {Set<string>} */
  let open = new Set();
  let layout = layoutOf(model, open);
  /** @type {string | undefined} */
  let selected;
  let view = { x: 0, y: 0, scale: 1 };
  /** @type {Facts} */
  let facts = {};
  /** @type {Map<string, import("qdq").Explanation>} */
  let explanations = new Map();
  /** @type {Map<string, import("qdq").LayerError>} */
  let errors = new Map();

  // Of a large graph only what is near the part to be seen is drawn, and bare boxes where nobody can read them.
  /** @type {{ x: number, y: number, width: number, height: number, isFar: boolean } | undefined} */
  let drawnPart;
  const isLarge = () => layout.boxes.length > 400;
  const isUnreadable = () => isLarge() && view.scale < 0.45;

  const scene = svg("g");
  const minimap = graphMinimap((x, y) => {
    view = { ...view, x: canvas.clientWidth / 2 - x * view.scale, y: canvas.clientHeight / 2 - y * view.scale };
    place();
  });
  const canvas = svg(
    "svg",
    {
      class: "graph",
      role: "group",
      "aria-label": "graph of the model; arrow keys walk along it, Enter opens a module",
    },
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
  const details = h("div", {
    class: "details",
    id: "node-details",
    role: "region",
    "aria-label": "the selected operator",
    "aria-live": "polite",
  });
  const search = h("input", {
    type: "search",
    id: "graph-search",
    placeholder: "find an operator or module",
    "aria-label": "find an operator or module",
    list: "graph-names",
    oninput: () => search.value !== "" && find(search.value),
  });
  const names = h("datalist", { id: "graph-names" });
  /**
   * @param {string} label
   * @param {string} title
   * @param {() => void} act
   */
  const button = (label, title, act) =>
    h("button", { type: "button", title, "aria-label": title, onclick: act }, label);
  const element = h(
    "div",
    {},
    h(
      "div",
      { class: "controls" },
      search,
      names,
      button("+", "zoom in", () => zoom(1.3)),
      button("−", "zoom out", () => zoom(1 / 1.3)),
      button("Fit", "Fit all of the graph into view", () => fitAll()),
      button("Open all", "Open all modules", () => reopen(new Set(model.groups.keys()))),
      button("Close all", "Close all modules", () => reopen(new Set())),
    ),
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
    ),
    h("div", { class: "split" }, h("div", { class: "drawing" }, canvas, minimap.element), details),
  );

  /**
   * The worst of the operators in a box decides its colour.
   * @param {Box} box
   */
  function kindOf({ members, node }) {
    if (node?.op === "placeholder") return "input";
    const outcomes = members.map((name) => explanations.get(name)?.outcome);
    // Preparing leaves no trace of a batch norm that it folds.
    if (outcomes.every((outcome) => outcome === undefined)) return explanations.size > 0 ? "folded" : "float";
    if (!outcomes.some((outcome) => outcome === "quantized" || outcome === "fused")) return "float";
    if (errors.size === 0) return "int8";
    const worst = Math.min(...members.map((name) => decibelsOf(errors.get(name)) ?? Infinity));
    return worst < 15 ? "bad" : worst < 30 ? "middling" : "good";
  }

  /** @param {readonly [from: Box, to: Box]} edge */
  function line([from, to]) {
    const x1 = from.x;
    const y1 = from.y + boxHeight;
    const x2 = to.x;
    const y2 = to.y - 2;
    // Into another column by the gap before it.
    if (from.column !== to.column) {
      const gap = to.left - 30;
      return (
        `M${x1} ${y1}C${x1} ${y1 + 24} ${gap} ${y1 + 24} ${gap} ${y1 - 12}V${y2 + 4}` +
        `C${gap} ${y2 - 24} ${x2} ${y2 - 24} ${x2} ${y2}`
      );
    }
    const bend = Math.max(14, (y2 - y1) / 2);
    // A way past other boxes of the column bows out of it.
    const passes = y2 - y1 > boxHeight && Math.abs(x1 - x2) < boxWidth;
    const side = Math.max(x1, x2) + boxWidth / 2 + 10;
    return passes
      ? `M${x1 + 40} ${y1}C${x1 + 40} ${y1 + 16} ${side} ${y1 + 4} ${side} ${y1 + 30}V${y2 - 30}` +
          `C${side} ${y2 - 4} ${x2 + 40} ${y2 - 16} ${x2 + 40} ${y2}`
      : `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`;
  }

  /** @param {Box} box */
  function drawn(box) {
    const { id, x, y, group, node, members } = box;
    const kind = kindOf(box);
    const title = group ? group.path : node ? titleOf(node) : "";
    const second = group
      ? `${group.type?.split(".").at(-1) ?? "module"}, ${members.length} operators`
      : node?.op === "placeholder"
        ? "input"
        : node?.module || node?.name || "";
    const worst = Math.min(...members.map((name) => decibelsOf(errors.get(name)) ?? Infinity));
    const error = Number.isFinite(worst) ? `${worst.toFixed(0)} dB` : "";
    // The title is the name of the box, uncut.
    const shape = svg(
      "g",
      {
        class: `box ${kind}${group ? " closed" : ""}`,
        transform: `translate(${x - boxWidth / 2} ${y})`,
        tabindex: id === stop() ? 0 : -1,
        role: "button",
        "data-box": id,
        "aria-expanded": group && "false",
        "aria-pressed": String(id === selected),
      },
      svg("title", {}, `${title}\n${second}\n${kind}${error && `, ${error}`}`),
      svg("rect", { width: boxWidth, height: boxHeight, rx: 7 }),
      svg("text", { x: 10, y: 19, class: "title" }, short(title, group ? 19 : 22)),
      svg("text", { x: 10, y: 36, class: "second" }, short(second, error ? 20 : 26)),
      error && svg("text", { x: boxWidth - 8, y: 36, class: "second", "text-anchor": "end" }, error),
      group && svg("text", { x: boxWidth - 18, y: 20, class: "title" }, "+"),
    );
    shape.addEventListener("click", () => select(id));
    shape.addEventListener("dblclick", () => group && toggle(group.path));
    shape.addEventListener("keydown", (event) => key(event, box));
    return shape;
  }

  // The box that the Tab key comes to; arrow keys lead on from there.
  const stop = () => (selected !== undefined && shownBoxes.has(selected) ? selected : firstShown);
  /** @type {Set<string>} */
  let shownBoxes = new Set();
  /** @type {string | undefined} */
  let firstShown;

  // The part of the scene that is to be seen, and as much again on each side if `margin` is 1.
  const seen = (margin = 0) => {
    const width = canvas.clientWidth / view.scale;
    const height = canvas.clientHeight / view.scale;
    return {
      x: -view.x / view.scale - margin * width,
      y: -view.y / view.scale - margin * height,
      width: (1 + 2 * margin) * width,
      height: (1 + 2 * margin) * height,
    };
  };

  function drawPart() {
    const focused = document.activeElement?.getAttribute("data-box");
    const part = seen(0.25);
    const isFar = isUnreadable();
    drawnPart = { ...part, isFar };
    /** @param {{ x: number, y: number }} box */
    const isNear = ({ x, y }) =>
      !isLarge() ||
      (x > part.x - boxWidth &&
        x < part.x + part.width + boxWidth &&
        y > part.y - boxHeight &&
        y < part.y + part.height);
    const boxes = layout.boxes.filter(isNear);
    const edges = layout.edges.filter(([from, to]) => isNear(from) || isNear(to));
    shownBoxes = new Set(boxes.map(({ id }) => id));
    firstShown = boxes[0]?.id;
    const frames = layout.frames.map(({ group, x, y, width, height }) =>
      svg("rect", { class: "frame", x, y, width, height, rx: 10 }, svg("title", {}, group.path)),
    );
    if (isFar)
      scene.replaceChildren(
        svg("path", { class: "edge-line", d: edges.map(line).join("") }),
        ...bareBoxes(boxes, kindOf),
      );
    else
      scene.replaceChildren(
        ...frames,
        ...edges.map((edge) => svg("path", { class: "edge-line", d: line(edge), "marker-end": "url(#arrow)" })),
        ...boxes.map(drawn),
      );
    if (focused) shapeOf(focused)?.focus({ preventScroll: true });
  }
  function draw() {
    minimap.show(layout, kindOf);
    drawPart();
    place();
  }

  /** @param {string} id */
  const shapeOf = (id) => /** @type {SVGElement | null} */ (scene.querySelector(`[data-box="${CSS.escape(id)}"]`));
  function place() {
    const now = seen();
    scene.setAttribute("transform", `translate(${view.x} ${view.y}) scale(${view.scale})`);
    minimap.frame(now);
    const old = drawnPart;
    const isInside =
      old &&
      now.x >= old.x &&
      now.y >= old.y &&
      now.x + now.width <= old.x + old.width &&
      now.y + now.height <= old.y + old.height;
    if (isLarge() && !(isInside && old.isFar === isUnreadable())) drawPart();
  }

  /** @param {number} factor */
  function zoom(factor, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) {
    const scale = Math.min(3, Math.max(0.03, view.scale * factor));
    const ratio = scale / view.scale;
    view = { x: x - (x - view.x) * ratio, y: y - (y - view.y) * ratio, scale };
    place();
  }
  // All of it in the middle if it is not too wide, else its beginning.
  /** @param {number} scale */
  function fromTop(scale) {
    const room = canvas.clientWidth - layout.width * scale;
    const first = canvas.clientWidth / 2 - (layout.boxes[0]?.x ?? 0) * scale;
    view = { x: room >= 0 ? room / 2 : Math.max(room, Math.min(0, first)), y: 20, scale };
    place();
  }
  const fitAll = () =>
    fromTop(Math.min(1.1, canvas.clientWidth / layout.width, (canvas.clientHeight - 40) / layout.height) || 1);
  // As large as can be read: the whole width, from the top.
  const begin = () => fromTop(Math.max(0.7, Math.min(1, canvas.clientWidth / layout.width)));
  /** @param {string} id */
  function center(id) {
    const box = layout.boxes.find((each) => each.id === id);
    if (box)
      view = {
        ...view,
        x: canvas.clientWidth / 2 - box.x * view.scale,
        y: canvas.clientHeight / 2 - (box.y + boxHeight / 2) * view.scale,
      };
    place();
  }

  /** @param {Set<string>} groups */
  function reopen(groups) {
    open = groups;
    layout = layoutOf(model, open);
    draw();
    begin();
    tell();
  }
  /** @param {string} path */
  function toggle(path) {
    const group = model.groups.get(path);
    if (!group) return;
    // Closing closes what is inside too; opening opens what is around.
    if (open.has(path)) open = new Set([...open].filter((other) => other !== path && !other.startsWith(`${path}.`)));
    else open = new Set([...open, ...ancestors(model, path).map((other) => other.path)]);
    layout = layoutOf(model, open);
    const there = (open.has(path) && layout.boxOf.get(group.nodes[0] ?? "")?.id) || `group:${path}`;
    draw();
    select(there);
    center(there);
    shapeOf(there)?.focus();
  }

  /**
   * @param {KeyboardEvent} event
   * @param {Box} box
   */
  function key(event, box) {
    /** @param {Box | undefined} to */
    const go = (to) => {
      event.preventDefault();
      if (!to) return;
      select(to.id);
      center(to.id);
      shapeOf(to.id)?.focus();
    };
    if (event.key === "Enter" && box.group) toggle(box.group.path);
    else if (event.key === "Enter" || event.key === " ") go(box);
    else if (event.key === "ArrowDown") go(layout.edges.find(([from]) => from === box)?.[1]);
    else if (event.key === "ArrowUp") go(layout.edges.find(([, to]) => to === box)?.[0]);
    else if (event.key === "+" || event.key === "-") zoom(event.key === "+" ? 1.3 : 1 / 1.3);
    else if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
      const row = layout.boxes.filter(({ y }) => y === box.y).sort((a, b) => a.x - b.x);
      go(row[row.indexOf(box) + (event.key === "ArrowRight" ? 1 : -1)]);
    }
  }

  /** @param {string} text */
  function find(text) {
    const wanted = text.toLowerCase();
    const group = model.groups.get(text);
    const nodes = [...model.nodes.values()];
    const node =
      group && open.has(text)
        ? model.nodes.get(group.nodes[0] ?? "")
        : (nodes.find(({ name, module }) => name === text || module === text) ??
          nodes.find((each) =>
            [each.name, each.module ?? "", titleOf(each)].some((name) => name.toLowerCase().includes(wanted)),
          ));
    if (!node) return;
    // A module by its name is shown closed unless it is open; an operator opens all around it.
    const around =
      group && !open.has(text) ? ancestors(model, group.parent) : ancestors(model, model.groupOf.get(node.name));
    if (!around.every(({ path }) => open.has(path))) {
      open = new Set([...open, ...around.map(({ path }) => path)]);
      layout = layoutOf(model, open);
      draw();
    }
    const there = group && !open.has(text) ? `group:${text}` : node.name;
    select(there);
    view.scale = Math.max(view.scale, 0.7);
    center(there);
  }

  /** @param {string} id */
  function select(id) {
    for (const shape of scene.querySelectorAll("[aria-pressed=true], [tabindex='0']")) {
      shape.setAttribute("aria-pressed", "false");
      shape.setAttribute("tabindex", "-1");
    }
    selected = id;
    const shape = shapeOf(id);
    shape?.setAttribute("aria-pressed", "true");
    shape?.setAttribute("tabindex", "0");
    tell();
    onSelect(id.replace(/^group:/, ""));
  }

  /** @param {string} name */
  const link = (name) =>
    model.nodes.has(name) ? h("button", { type: "button", class: "link", onclick: () => find(name) }, name) : name;
  /** @param {readonly string[]} list */
  const links = (list) =>
    list.length > 0 ? h("span", {}, ...list.flatMap((name, i) => [i > 0 && ", ", link(name)])) : "–";

  /**
   * What is known of a module that is closed.
   * @param {import("./graph-layout.js").Group} group
   * @param {readonly string[]} members
   * @returns {(readonly [string, Child])[]}
   */
  function groupFacts(group, members) {
    /** @param {string} outcome */
    const count = (outcome) => members.filter((name) => explanations.get(name)?.outcome === outcome).length;
    const worst = members
      .flatMap((name) => errors.get(name) ?? [])
      .filter((error) => decibelsOf(error) !== undefined)
      .sort((a, b) => (decibelsOf(a) ?? 0) - (decibelsOf(b) ?? 0))[0];
    return [
      ["Module", group.path],
      ["Type", group.type ?? "–"],
      ["Operators", `${members.length}: ${count("quantized")} int8, ${count("fused")} fused, ${count("float")} float`],
      ...(worst
        ? [
            /** @type {const} */ ([
              "Worst SQNR",
              h("span", {}, `${decibelsOf(worst)?.toFixed(1)} dB at `, link(worst.node)),
            ]),
          ]
        : []),
    ];
  }

  /**
   * What is known of an operator.
   * @param {import("qdq").NodeSnapshot} node
   * @returns {(readonly [string, Child])[]}
   */
  function nodeFacts(node) {
    const why = explanations.get(node.name);
    const error = decibelsOf(errors.get(node.name));
    /** @type {(readonly [string, Child])[]} */
    const out = [
      ["Name", node.name],
      ["Operator", node.op === "placeholder" ? "input" : node.target],
      ["Module", node.module ? `${node.module}${node.type ? ` (${node.type.split(".").at(-1)})` : ""}` : "–"],
      ["Output", `${node.dtype ?? ""}${formatShape(node.shape)}`],
      [
        "Reads",
        h(
          "span",
          {},
          ...(model.inputs.get(node.name) ?? ["–"]).map((name) => {
            const input = model.nodes.get(name);
            return h(
              "span",
              { class: "line" },
              link(name),
              input ? ` ${input.dtype ?? ""}${formatShape(input.shape)}` : "",
            );
          }),
        ),
      ],
      ["Read by", links(node.users.filter((name) => model.nodes.has(name)))],
    ];
    if (why) {
      out.push(["Becomes", why.outcome === "quantized" ? "int8" : why.outcome]);
      if (why.pattern) out.push(["Pattern", `${why.pattern} of ${why.quantizer}`]);
      out.push(["Because", why.reason]);
      for (const tensor of why.tensors)
        out.push(["edge" in tensor ? `${tensor.edge[0]} →` : "Its output", tensor.becomes]);
      const refused = why.decisions.filter(({ taken, reason }) => !taken && reason !== why.reason);
      for (const { quantizer, pattern, reason } of refused)
        out.push([`Not ${pattern || "taken"} (${quantizer})`, reason]);
    } else if (node.op !== "placeholder" && explanations.size > 0)
      out.push(["Becomes", "nothing: prepare folds it into the operator before it"]);
    for (const value of facts.qparams ?? []) {
      if (value.of !== node.name && !value.by.includes(node.name)) continue;
      // A folded weight has a name of its own, its reader is the operator.
      const what = value.of === node.name ? "Its value after conversion" : `${value.of} as its input`;
      const [low, high] = value.scale;
      const scale =
        value.channels > 1
          ? `${value.channels} scales, ${formatNumber(low)} to ${formatNumber(high)}`
          : `scale ${formatNumber(low)}`;
      out.push([
        what,
        `${value.dtype} [${value.quantMin}, ${value.quantMax}], ${scale}, zero point ${value.zeroPoint[0]}`,
      ]);
    }
    if (error !== undefined) out.push(["SQNR", `${error.toFixed(1)} dB`]);
    return out;
  }

  /**
   * The observers on an operator's edges, each with what shares it.
   * @param {string} name
   */
  function observerFacts(name) {
    return (facts.observers ?? [])
      .filter(({ covers }) => covers.some((place) => place.at(-1) === name))
      .map((observer) => {
        const others = observer.covers.filter((place) => place.at(-1) !== name);
        const figure = observerFigure(observer);
        if (others.length > 0)
          figure.append(h("small", {}, "shared with ", links([...new Set(others.map((place) => place.at(-1) ?? ""))])));
        return figure;
      });
  }

  function tell() {
    const box = layout.boxes.find(({ id }) => id === selected);
    if (!box)
      return details.replaceChildren(
        h("p", {}, "Select a box to see its details. Double-click a module or press Enter to open it."),
      );
    const around = ancestors(model, box.group?.path ?? model.groupOf.get(box.members[0] ?? ""));
    const known = box.group ? groupFacts(box.group, box.members) : box.node ? nodeFacts(box.node) : [];
    const modules = new Set(
      [...around.map(({ path }) => path), box.node?.module].filter((path) => path !== undefined && path !== ""),
    );
    const settings = [...modules].flatMap((module) => {
      const setting = settingFor(module ?? "");
      return setting ? [h("dt", {}, `Setting of ${module}`), h("dd", {}, setting)] : [];
    });
    const focused = document.activeElement?.getAttribute("aria-label");
    details.replaceChildren(
      h(
        "div",
        { class: "controls" },
        ...around.map((group) =>
          h(
            "button",
            { type: "button", onclick: () => toggle(group.path) },
            `${open.has(group.path) ? "Close" : "Open"} ${group.path}`,
          ),
        ),
      ),
      h(
        "dl",
        { class: "facts" },
        ...known.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
        ...settings,
      ),
      ...(box.node ? observerFacts(box.node.name) : []),
    );
    if (focused)
      [...details.querySelectorAll("select")].find((pick) => pick.getAttribute("aria-label") === focused)?.focus();
  }

  listenForGestures(canvas, zoom, (dx, dy) => {
    view = { ...view, x: view.x + dx, y: view.y + dy };
    place();
  });
  // From afar boxes are no elements of their own.
  canvas.addEventListener("click", (event) => {
    if (!drawnPart?.isFar) return;
    const { left, top } = canvas.getBoundingClientRect();
    const x = (event.clientX - left - view.x) / view.scale;
    const y = (event.clientY - top - view.y) / view.scale;
    const hit = layout.boxes.find((box) => Math.abs(x - box.x) <= boxWidth / 2 && y >= box.y && y <= box.y + boxHeight);
    if (!hit) return;
    view.scale = 0.7;
    select(hit.id);
    center(hit.id);
  });
  // A drawing that was hidden has no size before it is shown.
  let hadWidth = 0;
  new ResizeObserver(() => {
    const width = canvas.clientWidth;
    if (hadWidth === 0 && width > 0) {
      begin();
      if (selected !== undefined) center(selected);
    } else if (width > 0) place();
    hadWidth = width;
  }).observe(canvas);

  return {
    element,
    /** @param {readonly import("qdq").NodeSnapshot[]} nodes */
    show(nodes) {
      model = modelOf(nodes);
      selected = undefined;
      facts = {};
      explanations = new Map();
      errors = new Map();
      names.replaceChildren(
        ...[...new Set([...model.groups.keys(), ...model.nodes.keys()])].map((name) => h("option", { value: name })),
      );
      reopen(openAtFirst(model));
    },
    /** @param {Facts} known */
    know(known) {
      facts = known;
      explanations = new Map(known.operators?.map((operator) => [operator.node, operator]));
      errors = new Map(known.errors?.map((error) => [error.node, error]));
      draw();
      tell();
    },
    /** @param {string} name */
    select(name) {
      find(name);
      canvas.scrollIntoView({ block: "nearest" });
      shapeOf(selected ?? "")?.focus({ preventScroll: true });
    },
  };
}
