// Step 3: what is quantized and how, layer by layer, with the reason for each.
import type { Recipe } from "qdq";
import { formatBytes, formatShape, h, row, scrollTable } from "../../src/report/html/dom.js";
import { decibelsOf } from "../../src/report/html/graph-view.js";
import { operatorCell, outcomeCell } from "../../src/report/html/result-view.js";
import { layerSetting } from "./layer-setting.js";
import { byId, download, problemLine } from "./page.js";
import { diffLines, globalOf, settingsText, withGlobal } from "./recipe.js";
import type { State, Store } from "./state.js";
import { defaultRecipe, lastRun } from "./state.js";

const quantizers: Record<string, { title: string; fresh: Recipe; fields: Record<string, string> }> = {
  XNNPACKQuantizer: {
    title: "XNNPACK: signed activations, for phones and CPUs",
    fresh: { quantizer: "XNNPACKQuantizer", global: { is_per_channel: true } },
    fields: {
      is_per_channel: "A scale for each channel of a weight",
      is_dynamic: "Ranges of activations at run time (linear layers)",
    },
  },
  X86InductorQuantizer: {
    title: "X86 Inductor: unsigned activations, for servers",
    fresh: { quantizer: "X86InductorQuantizer", global: {} },
    fields: {
      reduce_range: "Seven bits, for processors without VNNI",
      is_dynamic: "Ranges of activations at run time (linear layers)",
    },
  },
};

// `choose` shows an operator in the graph.
export function recipeStep(store: Store, choose: (node: string) => void): void {
  const { element: problem, fail } = problemLine();
  const select = h("select", {
    id: "quantizer",
    onchange: () => store.update({ recipe: quantizers[select.value]?.fresh ?? store.state.recipe }),
  });
  const fields = h("div", { class: "controls" });
  const types = h("div", { class: "controls" });
  const filter = h("input", {
    type: "search",
    id: "layer-filter",
    placeholder: "find a layer",
    "aria-label": "find a layer",
    oninput: () => showTable(store.state),
  });
  const counts = h("p", { id: "explained" });
  const table = h("div", {});
  const text = h("textarea", {
    id: "recipe-json",
    rows: 10,
    spellcheck: false,
    "aria-label": "the recipe as JSON",
    onchange: () => apply(text.value),
  });
  const diff = h("pre", { class: "diff", id: "recipe-diff" });
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
    h("div", { class: "controls" }, h("label", {}, "Quantizer ", select)),
    fields,
    h("details", {}, h("summary", {}, "Types of layers"), types),
    problem,
    counts,
    h("div", { class: "controls" }, filter),
    table,
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
      h("label", {}, "Changes against ", against),
      diff,
    ),
  );

  function apply(json: string): void {
    try {
      store.update({ recipe: JSON.parse(json) as Recipe });
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
    const names = [
      ...new Set((model?.program.nodes ?? []).map(({ type }) => type).filter((type) => type !== undefined)),
    ].sort();
    const focused = document.activeElement?.getAttribute("aria-label");
    types.replaceChildren(
      ...(known ? names : []).map((name) =>
        h("label", { title: name }, `${name.split(".").at(-1)} `, layerSetting(store, "module_type", name)),
      ),
    );
    if (focused)
      [...types.querySelectorAll("select")].find((pick) => pick.getAttribute("aria-label") === focused)?.focus();
    if (document.activeElement === text) return;
    text.value = settingsText(recipe);
    text.rows = Math.min(16, text.value.split("\n").length + 1);
  }

  function weightsOf({ model }: State, module: string): { bytes: number; shape: string } | undefined {
    const weight = model?.program.attributes.find(({ name }) => name === `${module}.weight`);
    return weight && { bytes: weight.bytes, shape: formatShape(weight.shape) };
  }

  // The recipes that there are to compare with; the last result is chosen anew whenever there is one more.
  function showRecipes({ runs }: State): void {
    against.replaceChildren(
      h("option", {}, "the default recipe"),
      ...runs.map((_, i) => h("option", {}, `the recipe of result ${i + 1}`)),
    );
    against.selectedIndex = runs.length;
  }
  function showDiff({ runs, recipe }: State): void {
    const before = runs[against.selectedIndex - 1]?.recipe ?? defaultRecipe;
    diff.replaceChildren(
      ...diffLines(settingsText(before), settingsText(recipe)).map(({ sign, text: line }) =>
        h("span", { class: sign === "+" ? "added" : sign === "-" ? "removed" : "same" }, `${sign} ${line}\n`),
      ),
    );
  }

  function showTable(state: State): void {
    const operators = state.explanation?.operators ?? [];
    const wanted = filter.value.toLowerCase();
    const shown = operators.filter(({ node, module, op }) => `${node} ${module} ${op}`.toLowerCase().includes(wanted));
    const errors = new Map(lastRun(state)?.errors?.map((error) => [error.node, error]));
    const top = table.firstElementChild?.scrollTop ?? 0;
    const focused = document.activeElement?.getAttribute("aria-label");
    table.replaceChildren(
      scrollTable(
        "layers",
        ["Operator", "Weights", "Becomes", "Setting", "SQNR", "Because"],
        shown.map((operator) => {
          const weights = weightsOf(state, operator.module);
          const decibels = decibelsOf(errors.get(operator.node));
          const line = row(
            operatorCell(operator, choose),
            {
              class: "n",
              content: weights ? h("span", {}, formatBytes(weights.bytes), h("small", {}, weights.shape)) : "",
            },
            outcomeCell(operator.outcome),
            operator.module && layerSetting(store, "module_name", operator.module),
            { class: "n", content: decibels === undefined ? "" : `${decibels.toFixed(1)} dB` },
            { class: "reason", content: operator.reason },
          );
          line.dataset.node = operator.node;
          return line;
        }),
      ),
    );
    table.firstElementChild!.scrollTop = top;
    if (focused)
      [...table.querySelectorAll("select")].find((pick) => pick.getAttribute("aria-label") === focused)?.focus();
  }

  store.listen((state, changed) => {
    byId("recipe").hidden = !state.model;
    if (!state.model) return;
    if (changed.has("model") || changed.has("recipe")) {
      showControls(state);
      void ask(state);
    }
    if (changed.has("explanationError") || changed.has("explanation")) {
      fail(state.explanationError ?? "");
      const operators = state.explanation?.operators ?? [];
      const count = (outcome: string): number => operators.filter((operator) => operator.outcome === outcome).length;
      counts.textContent =
        `${count("quantized")} ${count("quantized") === 1 ? "operator" : "operators"} on int8` +
        `${count("fused") > 0 ? `, ${count("fused")} fused into them` : ""}, ` +
        `${count("float")} ${count("float") === 1 ? "stays" : "stay"} float.` +
        (state.explanation?.conflicts.map(({ message }) => ` Conflict: ${message}.`).join("") ?? "");
    }
    if (changed.has("explanation") || changed.has("runs")) showTable(state);
    if (changed.has("runs") || changed.has("model")) showRecipes(state);
    if (changed.has("recipe") || changed.has("runs") || changed.has("model")) showDiff(state);
  });
}
