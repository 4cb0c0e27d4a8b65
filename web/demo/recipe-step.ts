// What is quantized and how: the quantizer or the runtime, its settings, the JSON, and changes that can be taken back.
import type { Recipe, RuntimeName } from "qdq";
import { h } from "../../src/report/html/dom.js";
import { warningsOf } from "../../src/report/html/result-view.js";
import { layerSetting } from "./layer-setting.js";
import { byId, download, problemLine } from "./page.js";
import { globalOf, settingsText, withGlobal } from "./recipe.js";
import { diffView } from "./recipe-diff.js";
import type { Target } from "./protocol.js";
import type { State, Store } from "./state.js";
import { defaultRecipe } from "./state.js";
import { undoButtons } from "./undo.js";

const runtimes: Record<RuntimeName, string> = {
  ort: "ONNX Runtime",
  "ort-web": "ONNX Runtime Web",
  "transformers.js": "transformers.js",
  webnn: "WebNN in Chromium",
  openvino: "OpenVINO",
  qnn: "Qualcomm QNN",
  executorch: "ExecuTorch with XNNPACK",
  x86: "ONNX Runtime on any x86-64",
};

// Those that take activations of 16 bits, and those whose files have pairs of a range that is known.
const wideTargets: readonly RuntimeName[] = ["qnn"];
const pairTargets: readonly RuntimeName[] = ["ort", "ort-web", "webnn", "openvino", "qnn", "x86"];

const quantizers: Record<string, { title: string; fresh: Recipe; fields: Record<string, string> }> = {
  XNNPACKQuantizer: {
    title: "XNNPACK (phones, PCs)",
    fresh: { quantizer: "XNNPACKQuantizer", global: { is_per_channel: true } },
    fields: {
      is_per_channel: "One scale per weight channel",
      is_dynamic: "Activation ranges at run time (linear layers)",
    },
  },
  X86InductorQuantizer: {
    title: "X86 Inductor (servers)",
    fresh: { quantizer: "X86InductorQuantizer", global: {} },
    fields: {
      reduce_range: "Seven bits, for processors without VNNI",
      is_dynamic: "Activation ranges at run time (linear layers)",
    },
  },
};

// Warnings name the functions and commands that tell more; here a view does.
const inWordsOfThePage = (warning: string): string =>
  warning.replace("explain(), or qdq inspect --explain,", "the view Layers");

export function recipeStep(store: Store): void {
  const { element: problem, fail } = problemLine();
  const warned = h("div", { id: "recipe-warnings" });
  const select = h("select", {
    id: "quantizer",
    onchange: () => store.update({ recipe: quantizers[select.value]?.fresh ?? store.state.recipe, target: undefined }),
  });
  const target = h(
    "select",
    { id: "target", onchange: () => void aim(target.value as RuntimeName | "") },
    h("option", { value: "" }, "any runtime"),
    ...Object.entries(runtimes).map(([name, title]) => h("option", { value: name }, title)),
  );
  const again = (): void => void aim(target.value as RuntimeName | "");
  const wide = h("input", { type: "checkbox", id: "activation-bits", onchange: again });
  const wideLabel = h("label", { class: "choice" }, wide, "Activations of 16 bits");
  const pairs = h("input", { type: "checkbox", id: "dedicated-pairs", onchange: again });
  const pairsLabel = h("label", { class: "choice" }, pairs, "Own QuantizeLinear and DequantizeLinear for each reader");
  const fields = h("div", { class: "controls" });
  const types = h("div", { class: "controls" });
  const text = h("textarea", {
    id: "recipe-json",
    rows: 10,
    spellcheck: false,
    "aria-label": "the recipe as JSON",
    onchange: () => apply(text.value),
  });
  const diff = h("pre", { class: "diff", id: "recipe-diff", tabindex: "0" });
  const against = h("select", { id: "diff-against", onchange: () => showDiff(store.state) });
  const load = h("input", {
    type: "file",
    id: "recipe-file",
    accept: ".json",
    class: "file",
    onchange: () => {
      void load.files?.[0]?.text().then(apply);
      load.value = "";
    },
  });

  byId("recipe").append(
    undoButtons(store),
    h("label", { class: "choice" }, "For ", target),
    wideLabel,
    pairsLabel,
    h("label", { class: "choice" }, "Quantizer ", select),
    fields,
    problem,
    warned,
    h("details", {}, h("summary", {}, "Types of layers"), types),
    h(
      "details",
      { id: "recipe-details" },
      h("summary", {}, "The recipe as JSON"),
      text,
      h(
        "div",
        { class: "controls" },
        h(
          "button",
          {
            type: "button",
            onclick: () =>
              void navigator.clipboard.writeText(text.value).then(() => {
                byId("status").textContent = "The recipe is on the clipboard";
              }),
          },
          "Copy",
        ),
        h(
          "button",
          { type: "button", onclick: () => download("recipe.json", `${text.value}\n`, "application/json") },
          "Save",
        ),
        load,
        h("label", { for: "recipe-file", class: "button" }, "Load"),
      ),
      h("label", {}, "Compare with ", against),
      diff,
    ),
  );

  // Takes the recipe of a runtime's profile.
  async function aim(name: RuntimeName | ""): Promise<void> {
    const { engine } = store.state;
    if (name === "" || !engine) return store.update({ target: undefined });
    const wanted: Target = {
      name,
      ...(wide.checked && wideTargets.includes(name) && { activationBits: 16 }),
      ...(pairs.checked && pairTargets.includes(name) && { dedicatedPairs: true }),
    };
    try {
      const { recipe } = await engine.call("profile", [wanted]);
      store.update({ recipe, target: wanted });
    } catch (error) {
      fail((error as Error).message);
    }
  }

  function showTarget(to: Target | undefined): void {
    target.value = to?.name ?? "";
    wide.checked = to?.activationBits === 16;
    pairs.checked = to?.dedicatedPairs ?? false;
    wideLabel.hidden = !to || !wideTargets.includes(to.name);
    pairsLabel.hidden = !to || !pairTargets.includes(to.name);
  }

  function apply(json: string): void {
    try {
      store.update({ recipe: JSON.parse(json) as Recipe, target: undefined });
    } catch (error) {
      fail(`the recipe is not JSON: ${(error as Error).message}`);
    }
  }

  // Asks the worker what the recipe would do; of several answers only that to the last question counts.
  let asked = 0;
  async function ask({ engine, recipe }: State): Promise<void> {
    const turn = ++asked;
    if (!engine) return;
    try {
      const explanation = await engine.call("explain", [recipe]);
      if (turn === asked) store.update({ explanation, explanationError: undefined });
    } catch (error) {
      if (turn === asked) store.update({ explanation: undefined, explanationError: (error as Error).message });
    }
  }

  function showControls({ recipe, model }: State): void {
    const known = quantizers[recipe.quantizer];
    select.replaceChildren(
      ...Object.entries(quantizers).map(([name, { title }]) =>
        h("option", { value: name, selected: name === recipe.quantizer }, title),
      ),
      ...(known
        ? []
        : [h("option", { value: recipe.quantizer, selected: true }, `${recipe.quantizer} (see the JSON)`)]),
    );
    fields.replaceChildren(
      ...Object.entries(known?.fields ?? {}).map(([field, label]) => {
        const box = h("input", {
          type: "checkbox",
          id: field,
          checked: globalOf(recipe, field),
          onchange: () => store.update({ recipe: withGlobal(recipe, field, box.checked) }),
        });
        return h("label", {}, box, ` ${label}`);
      }),
    );
    const nodes = (model?.program.nodes ?? []).filter(({ op }) => op === "call_function");
    const typed = nodes.map(({ type }) => type ?? "").filter(Boolean);
    // A model without modules has operators alone.
    const section = typed.length > 0 ? "module_type" : "operator_type";
    const operators = nodes.map(({ target }) => target.replace(/\.\w+$/, ""));
    const names = [...new Set(typed.length > 0 ? typed : operators)].sort();
    const focused = document.activeElement?.getAttribute("aria-label");
    types.replaceChildren(
      ...(known ? names : []).map((name) =>
        h("label", { title: name }, `${name.split(".").at(-1)} `, layerSetting(store, section, name)),
      ),
    );
    if (focused)
      [...types.querySelectorAll("select")].find((pick) => pick.getAttribute("aria-label") === focused)?.focus();
    if (document.activeElement === text) return;
    text.value = settingsText(recipe);
    text.rows = Math.min(16, text.value.split("\n").length + 1);
  }

  // The recipes that there are to compare with; the last result is chosen anew whenever there is one more.
  function showRecipes({ runs }: State): void {
    against.replaceChildren(
      h("option", {}, "the default recipe"),
      ...runs.map(({ id }) => h("option", {}, `the recipe of result ${id}`)),
    );
    against.selectedIndex = runs.length;
  }
  function showDiff({ runs, recipe }: State): void {
    const before = runs[against.selectedIndex - 1]?.recipe ?? defaultRecipe;
    diff.replaceChildren(...diffView(before, recipe));
  }

  store.listen((state, changed) => {
    byId("recipe").hidden = !state.model;
    if (!state.model) return;
    if (changed.has("model") || changed.has("recipe")) {
      showControls(state);
      void ask(state);
    }
    if (changed.has("explanationError")) fail(state.explanationError ?? "");
    if (changed.has("explanation"))
      warned.replaceChildren(warningsOf({ warnings: state.explanation?.warnings.map(inWordsOfThePage) ?? [] }));
    if (changed.has("target") || changed.has("model")) showTarget(state.target);
    if (changed.has("runs") || changed.has("model")) showRecipes(state);
    if (changed.has("recipe") || changed.has("runs") || changed.has("model")) showDiff(state);
  });
}
