// Step 3: what is quantized and how, layer by layer, with the reason for each.
import type { Explanation, Recipe } from "qdq";
import { byId, download, formatBytes, formatShape, h, row, scrollTable } from "./dom.js";
import type { EngineError } from "./engine.js";
import { choicesFor, diffLines, globalOf, settingsText, settingOf, withGlobal, withSetting } from "./recipe.js";
import type { State, Store } from "./state.js";
import { lastRun } from "./state.js";

const quantizers: Record<string, { title: string; fresh: Recipe; fields: Record<string, string> }> = {
  XNNPACKQuantizer: {
    title: "XNNPACK: signed activations, for phones and CPUs",
    fresh: { quantizer: "XNNPACKQuantizer", global: { is_per_channel: true } },
    fields: { is_per_channel: "A scale for each channel of a weight", is_dynamic: "Ranges of activations at run time (linear layers)" },
  },
  X86InductorQuantizer: {
    title: "X86 Inductor: unsigned activations, for servers",
    fresh: { quantizer: "X86InductorQuantizer", global: {} },
    fields: { reduce_range: "Seven bits, for processors without VNNI", is_dynamic: "Ranges of activations at run time (linear layers)" },
  },
};

export function recipeStep(store: Store): void {
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const select = h("select", { id: "quantizer", onchange: () => store.update({ recipe: quantizers[select.value]?.fresh ?? store.state.recipe }) });
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
  const load = h("input", {
    type: "file",
    id: "recipe-file",
    accept: ".json",
    class: "file",
    onchange: () => void load.files?.[0]?.text().then(apply),
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
        h("button", { type: "button", onclick: () => download("recipe.json", `${text.value}\n`, "application/json") }, "Save"),
        h("label", { for: "recipe-file", class: "button" }, "Load"),
        load,
      ),
      h("h3", {}, "Against the recipe of the last result"),
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
  function fail(reason: string): void {
    problem.textContent = reason;
    problem.hidden = reason === "";
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
      if (turn === asked) store.update({ explanation: undefined, explanationError: (error as EngineError).message });
    }
  }

  function showControls({ recipe, model }: State): void {
    const known = quantizers[recipe.quantizer];
    select.replaceChildren(
      ...Object.entries(quantizers).map(([name, { title }]) => h("option", { value: name, selected: name === recipe.quantizer }, title)),
      ...(known ? [] : [h("option", { value: recipe.quantizer, selected: true }, `${recipe.quantizer} (see the JSON)`)]),
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
      ...new Set((model?.program.nodes ?? []).map((node) => (node as { type?: string }).type).filter((type) => type !== undefined)),
    ].sort();
    types.replaceChildren(
      ...(known ? names : []).map((name) => {
        const box = h("input", {
          type: "checkbox",
          checked: settingOf(recipe, "module_type", name) !== null,
          onchange: () => store.update({ recipe: withSetting(recipe, "module_type", name, box.checked ? undefined : null) }),
        });
        return h("label", { title: name }, box, ` ${name.split(".").at(-1)}`);
      }),
    );
    if (document.activeElement !== text) text.value = settingsText(recipe);
  }

  function weightsOf({ model }: State, module: string): { bytes: number; shape: string } | undefined {
    const weight = model?.program.attributes.find(({ name }) => name === `${module}.weight`);
    return weight && { bytes: weight.bytes, shape: formatShape(weight.shape) };
  }

  function choiceFor({ recipe }: State, operator: Explanation): HTMLElement | string {
    if (!operator.module || !quantizers[recipe.quantizer]) return "";
    const choices = choicesFor(recipe),
      now = JSON.stringify(settingOf(recipe, "module_name", operator.module));
    const pick = h(
      "select",
      {
        "aria-label": `setting of ${operator.module}`,
        onchange: () =>
          store.update({ recipe: withSetting(store.state.recipe, "module_name", operator.module, choices[pick.selectedIndex]?.setting) }),
      },
      ...choices.map(({ label, setting }) => h("option", { selected: JSON.stringify(setting) === now }, label)),
    );
    return pick;
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
          const weights = weightsOf(state, operator.module),
            sqnr = errors.get(operator.node)?.sqnr_db;
          const line = row(
            {
              class: "name",
              content: h("span", {}, operator.module || operator.node, h("small", {}, `${operator.node}: ${operator.op.replace(/^aten\./, "")}`)),
            },
            { class: "n", content: weights ? h("span", {}, formatBytes(weights.bytes), h("small", {}, weights.shape)) : "" },
            { class: `outcome ${operator.outcome}`, content: operator.outcome === "quantized" ? "int8" : operator.outcome },
            choiceFor(state, operator),
            { class: "n", content: typeof sqnr === "number" ? `${sqnr.toFixed(1)} dB` : "" },
            { class: "reason", content: operator.reason },
          );
          line.dataset.node = operator.node;
          return line;
        }),
      ),
    );
    table.firstElementChild!.scrollTop = top;
    if (focused) [...table.querySelectorAll("select")].find((pick) => pick.getAttribute("aria-label") === focused)?.focus();
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
        `${count("quantized")} operators on int8, ${count("fused")} fused into them, ${count("float")} stay float.` +
        (state.explanation?.conflicts.map(({ message }) => ` Conflict: ${message}.`).join("") ?? "");
    }
    if (changed.has("explanation") || changed.has("runs")) showTable(state);
    if (changed.has("recipe") || changed.has("runs") || changed.has("model")) {
      const before = lastRun(state);
      diff.replaceChildren(
        ...(before
          ? diffLines(settingsText(before.recipe), settingsText(state.recipe)).map(({ sign, text: line }) =>
              h("span", { class: sign === "+" ? "added" : sign === "-" ? "removed" : "same" }, `${sign} ${line}\n`),
            )
          : ["There is no result yet."]),
      );
    }
  });
}
