// The graph of a model as a drawing: modules open and close, colours tell what an operator becomes and how far its
// value moves, and a box that is selected tells all that is known of it.
import { h, svg } from "./dom.js";
import { arrowHead, bareBoxes, boxShape, edgePath, frameShape } from "./graph-boxes.js";
import { GraphCamera } from "./graph-camera.js";
import { graphLegend, kindOf, knowledgeOf, worstDecibels } from "./graph-facts.js";
import { groupFacts, nodeFacts, observerFigures } from "./graph-facts.js";
import { listenForGestures } from "./graph-gestures.js";
import { ancestors, boxHeight, boxMeantBy, boxWidth, idOfGroup, layoutOf, modelOf } from "./graph-layout.js";
import { nameOfBox, openAtFirst } from "./graph-layout.js";
import { graphMinimap } from "./graph-minimap.js";

/** @typedef {import("./graph-layout.js").Box} Box */
/** @typedef {import("./graph-layout.js").Layout} Layout */
/** @typedef {import("./dom.js").Child} Child */

/**
 * @param {string} label
 * @param {string} title
 * @param {() => void} act
 */
const controlButton = (label, title, act) =>
  h("button", { type: "button", title, "aria-label": title, onclick: act }, label);

/** @param {Layout} layout */
const isLarge = (layout) => layout.boxes.length > 400;

class GraphView {
  #model = modelOf([]);
  /** @type {ReadonlySet<string>} */
  #open = new Set();
  #layout = layoutOf(this.#model, this.#open);
  /** @type {string | undefined} */
  #selected;
  #known = knowledgeOf({});

  // Of a large graph only what is near the part to be seen is drawn, and bare boxes where nobody can read them.
  /** @type {(import("./graph-camera.js").Area & { isFar: boolean }) | undefined} */
  #drawnPart;
  /** @type {Set<string>} */
  #drawnBoxes = new Set();
  /** @type {string | undefined} */
  #firstDrawn;

  #settingFor;
  #onSelect;
  #scene = svg("g");
  #canvas = svg(
    "svg",
    {
      class: "graph",
      role: "group",
      "aria-label": "graph of the model; arrow keys walk along it, Enter opens a module",
    },
    arrowHead(),
    this.#scene,
  );
  #camera = new GraphCamera(this.#canvas, () => this.#place());
  #minimap = graphMinimap((x, y) => this.#camera.center(x, y));
  #details = h("div", {
    class: "details",
    id: "node-details",
    role: "region",
    "aria-label": "the selected operator",
    "aria-live": "polite",
  });
  #names = h("datalist", { id: "graph-names" });
  element = h(
    "div",
    {},
    this.#controls(),
    graphLegend(),
    h("div", { class: "split" }, h("div", { class: "drawing" }, this.#canvas, this.#minimap.element), this.#details),
  );

  /**
   * @param {(module: string) => Child} settingFor
   * @param {(name: string) => void} onSelect
   */
  constructor(settingFor, onSelect) {
    this.#settingFor = settingFor;
    this.#onSelect = onSelect;
    listenForGestures(
      this.#canvas,
      (factor, x, y) => this.#camera.zoom(factor, x, y),
      (dx, dy) => this.#camera.move(dx, dy),
    );
    this.#canvas.addEventListener("click", (event) => this.#clickFromAfar(event));
    this.#listenForSizes();
  }

  /** @param {readonly import("qdq").NodeSnapshot[]} nodes */
  show(nodes) {
    this.#model = modelOf(nodes);
    this.#selected = undefined;
    this.#known = knowledgeOf({});
    const names = new Set([...this.#model.groups.keys(), ...this.#model.nodes.keys()]);
    this.#names.replaceChildren(...[...names].map((name) => h("option", { value: name })));
    this.#reopen(openAtFirst(this.#model));
  }

  /** @param {import("./graph-facts.js").Facts} facts */
  know(facts) {
    this.#known = knowledgeOf(facts);
    this.#draw();
    this.#tell();
  }

  /** @param {string} name */
  find(name) {
    const there = boxMeantBy(this.#model, this.#open, name);
    if (!there) return;
    if (!there.around.every(({ path }) => this.#open.has(path))) {
      this.#setOpen(new Set([...this.#open, ...there.around.map(({ path }) => path)]));
      this.#draw();
    }
    this.#select(there.id);
    this.#center(there.id, Math.max(this.#camera.scale, 0.7));
  }

  /** Brings the drawing onto the screen, and the keyboard to the box that is selected. */
  focus() {
    this.#canvas.scrollIntoView({ block: "nearest" });
    this.#shapeOf(this.#selected ?? "")?.focus({ preventScroll: true });
  }

  #controls() {
    const search = h("input", {
      type: "search",
      id: "graph-search",
      placeholder: "find an operator or module",
      "aria-label": "find an operator or module",
      list: "graph-names",
      oninput: () => search.value !== "" && this.find(search.value),
    });
    return h(
      "div",
      { class: "controls" },
      search,
      this.#names,
      controlButton("+", "zoom in", () => this.#camera.zoom(1.3)),
      controlButton("−", "zoom out", () => this.#camera.zoom(1 / 1.3)),
      controlButton("Fit", "Fit all of the graph into view", () => this.#camera.fit(this.#layout)),
      controlButton("Open all", "Open all modules", () => this.#reopen(new Set(this.#model.groups.keys()))),
      controlButton("Close all", "Close all modules", () => this.#reopen(new Set())),
    );
  }

  // From afar boxes are no elements of their own.
  /** @param {MouseEvent} event */
  #clickFromAfar(event) {
    if (!this.#drawnPart?.isFar) return;
    const { x, y } = this.#camera.placeOf(event);
    const hit = this.#layout.boxes.find(
      (box) => Math.abs(x - box.x) <= boxWidth / 2 && y >= box.y && y <= box.y + boxHeight,
    );
    if (!hit) return;
    this.#select(hit.id);
    this.#center(hit.id, 0.7);
  }

  // A drawing that was hidden has no size before it is shown.
  #listenForSizes() {
    let hadWidth = 0;
    new ResizeObserver(() => {
      const width = this.#canvas.clientWidth;
      if (hadWidth === 0 && width > 0) {
        this.#camera.begin(this.#layout);
        if (this.#selected !== undefined) this.#center(this.#selected);
      } else if (width > 0) this.#place();
      hadWidth = width;
    }).observe(this.#canvas);
  }

  /** @param {ReadonlySet<string>} groups */
  #setOpen(groups) {
    this.#open = groups;
    this.#layout = layoutOf(this.#model, groups);
  }

  /** @param {ReadonlySet<string>} groups */
  #reopen(groups) {
    this.#setOpen(groups);
    this.#draw();
    this.#camera.begin(this.#layout);
    this.#tell();
  }

  /** @param {string} path */
  #toggle(path) {
    const group = this.#model.groups.get(path);
    if (!group) return;
    // Closing closes what is inside too; opening opens what is around.
    const opens = !this.#open.has(path);
    this.#setOpen(
      new Set(
        opens
          ? [...this.#open, ...ancestors(this.#model, path).map((other) => other.path)]
          : [...this.#open].filter((other) => other !== path && !other.startsWith(`${path}.`)),
      ),
    );
    const there = (opens && this.#layout.boxOf.get(group.nodes[0] ?? "")?.id) || idOfGroup(path);
    this.#draw();
    this.#goTo(there);
  }

  /** @param {Box} box */
  #isSelected({ id }) {
    return id === this.#selected;
  }

  // The box that the Tab key comes to; arrow keys lead on from there.
  #stop() {
    return this.#selected !== undefined && this.#drawnBoxes.has(this.#selected) ? this.#selected : this.#firstDrawn;
  }

  /** @param {Box} box */
  #shape(box) {
    const shape = boxShape(box, {
      kind: kindOf(this.#known, box),
      worst: worstDecibels(this.#known, box.members),
      isStop: box.id === this.#stop(),
      isSelected: this.#isSelected(box),
    });
    shape.addEventListener("click", () => this.#select(box.id));
    shape.addEventListener("dblclick", () => box.group && this.#toggle(box.group.path));
    shape.addEventListener("keydown", (event) => this.#key(event, box));
    return shape;
  }

  #isUnreadable() {
    return isLarge(this.#layout) && this.#camera.scale < 0.45;
  }

  #draw() {
    this.#minimap.show(this.#layout, (box) => kindOf(this.#known, box));
    this.#drawPart();
    this.#place();
  }

  #drawPart() {
    const focused = document.activeElement?.getAttribute("data-box");
    const part = this.#camera.seen(0.25);
    this.#drawnPart = { ...part, isFar: this.#isUnreadable() };
    /** @param {{ x: number, y: number }} box */
    const isNear = ({ x, y }) =>
      !isLarge(this.#layout) ||
      (x > part.x - boxWidth &&
        x < part.x + part.width + boxWidth &&
        y > part.y - boxHeight &&
        y < part.y + part.height);
    const boxes = this.#layout.boxes.filter(isNear);
    const edges = this.#layout.edges.filter(([from, to]) => isNear(from) || isNear(to));
    this.#drawnBoxes = new Set(boxes.map(({ id }) => id));
    this.#firstDrawn = boxes[0]?.id;
    if (this.#drawnPart.isFar)
      this.#scene.replaceChildren(
        svg("path", { class: "edge-line", d: edges.map(edgePath).join("") }),
        ...bareBoxes(boxes, (box) => kindOf(this.#known, box)),
      );
    else
      this.#scene.replaceChildren(
        ...this.#layout.frames.map(frameShape),
        ...edges.map((edge) => svg("path", { class: "edge-line", d: edgePath(edge), "marker-end": "url(#arrow)" })),
        ...boxes.map((box) => this.#shape(box)),
      );
    if (focused) this.#shapeOf(focused)?.focus({ preventScroll: true });
  }

  /** @param {string} id */
  #shapeOf(id) {
    return /** @type {SVGElement | null} */ (this.#scene.querySelector(`[data-box="${CSS.escape(id)}"]`));
  }

  #place() {
    const { x, y, scale } = this.#camera;
    const now = this.#camera.seen();
    this.#scene.setAttribute("transform", `translate(${x} ${y}) scale(${scale})`);
    this.#minimap.frame(now);
    const old = this.#drawnPart;
    const isInside =
      old &&
      now.x >= old.x &&
      now.y >= old.y &&
      now.x + now.width <= old.x + old.width &&
      now.y + now.height <= old.y + old.height;
    if (isLarge(this.#layout) && !(isInside && old.isFar === this.#isUnreadable())) this.#drawPart();
  }

  /** @param {string} id */
  #center(id, scale = this.#camera.scale) {
    const box = this.#layout.boxes.find((each) => each.id === id);
    if (box) this.#camera.center(box.x, box.y + boxHeight / 2, scale);
    else this.#place();
  }

  /** @param {string} id */
  #goTo(id) {
    this.#select(id);
    this.#center(id);
    this.#shapeOf(id)?.focus();
  }

  /**
   * @param {KeyboardEvent} event
   * @param {Box} box
   */
  #key(event, box) {
    if (event.key === "Enter" && box.group) this.#toggle(box.group.path);
    else if (event.key === "+" || event.key === "-") this.#camera.zoom(event.key === "+" ? 1.3 : 1 / 1.3);
    else if (["Enter", " ", "ArrowDown", "ArrowUp", "ArrowRight", "ArrowLeft"].includes(event.key)) {
      event.preventDefault();
      const to = this.#boxBehind(event.key, box);
      if (to) this.#goTo(to.id);
    }
  }

  /**
   * The box that a key leads to.
   * @param {string} pressed
   * @param {Box} box
   */
  #boxBehind(pressed, box) {
    if (pressed === "ArrowDown") return this.#layout.edges.find(([from]) => from === box)?.[1];
    if (pressed === "ArrowUp") return this.#layout.edges.find(([, to]) => to === box)?.[0];
    if (pressed !== "ArrowRight" && pressed !== "ArrowLeft") return box;
    const row = this.#layout.boxes.filter(({ y }) => y === box.y).sort((a, b) => a.x - b.x);
    return row[row.indexOf(box) + (pressed === "ArrowRight" ? 1 : -1)];
  }

  /** @param {string} id */
  #select(id) {
    for (const shape of this.#scene.querySelectorAll("[aria-pressed=true], [tabindex='0']")) {
      shape.setAttribute("aria-pressed", "false");
      shape.setAttribute("tabindex", "-1");
    }
    this.#selected = id;
    const shape = this.#shapeOf(id);
    shape?.setAttribute("aria-pressed", "true");
    shape?.setAttribute("tabindex", "0");
    this.#tell();
    this.#onSelect(nameOfBox(id));
  }

  /** @param {string} name */
  #link(name) {
    const isShown = this.#model.nodes.has(name);
    return isShown ? h("button", { type: "button", class: "link", onclick: () => this.find(name) }, name) : name;
  }

  #tell() {
    const box = this.#layout.boxes.find((each) => this.#isSelected(each));
    if (!box)
      return this.#details.replaceChildren(
        h("p", {}, "Select a box to see its details. Double-click a module or press Enter to open it."),
      );
    const around = ancestors(this.#model, box.group?.path ?? this.#model.groupOf.get(box.members[0] ?? ""));
    const focused = document.activeElement?.getAttribute("aria-label");
    this.#details.replaceChildren(
      h(
        "div",
        { class: "controls" },
        ...around.map(({ path }) => {
          const label = `${this.#open.has(path) ? "Close" : "Open"} ${path}`;
          return h("button", { type: "button", onclick: () => this.#toggle(path) }, label);
        }),
      ),
      h(
        "dl",
        { class: "facts" },
        ...this.#factsOf(box).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
      ),
      ...(box.node ? observerFigures(this.#known, box.node.name, (name) => this.#link(name)) : []),
    );
    if (focused)
      [...this.#details.querySelectorAll("select")]
        .find((pick) => pick.getAttribute("aria-label") === focused)
        ?.focus();
  }

  /**
   * What is known of an operator or a closed module, and the settings of the modules around it.
   * @param {Box} box
   * @returns {import("./graph-facts.js").Fact[]}
   */
  #factsOf({ group, node, members }) {
    /** @param {string} name */
    const link = (name) => this.#link(name);
    const known = group
      ? groupFacts(this.#known, group, members, link)
      : node
        ? nodeFacts(this.#model, this.#known, node, link)
        : [];
    const around = ancestors(this.#model, group?.path ?? this.#model.groupOf.get(members[0] ?? ""));
    const modules = new Set([...around.map(({ path }) => path), node?.module ?? ""]);
    modules.delete("");
    const settings = [...modules].flatMap((module) => {
      const setting = this.#settingFor(module);
      return setting ? [/** @type {const} */ ([`Setting of ${module}`, setting])] : [];
    });
    return [...known, ...settings];
  }
}

/**
 * show(nodes) takes another model, know(facts) what is known of its operators, select(name) selects an operator or a
 * module by its name and brings it into view. `settingFor` may add to the facts of an operator or module what can be
 * changed about it; `onSelect` is called with the name of the operator or module that is selected.
 * @param {(module: string) => Child} [settingFor]
 * @param {(name: string) => void} [onSelect]
 */
export function graphView(settingFor = () => undefined, onSelect = () => undefined) {
  const view = new GraphView(settingFor, onSelect);
  return {
    element: view.element,
    /** @param {readonly import("qdq").NodeSnapshot[]} nodes */
    show: (nodes) => view.show(nodes),
    /** @param {import("./graph-facts.js").Facts} facts */
    know: (facts) => view.know(facts),
    /** @param {string} name */
    select(name) {
      view.find(name);
      view.focus();
    },
  };
}
