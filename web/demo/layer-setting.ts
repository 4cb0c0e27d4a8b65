// The setting of a layer, of all layers in a module, or of all layers of a type, as a choice.
import { h } from "../../src/report/html/dom.js";
import { choicesFor, settingOf, withSetting } from "./recipe.js";
import type { Section } from "./recipe.js";
import type { Store } from "./state.js";

// Nothing where the recipe's quantizer has no such settings.
export function layerSetting(store: Store, section: Section, name: string): HTMLElement | undefined {
  const { recipe } = store.state;
  const choices = choicesFor(recipe);
  if (choices.length === 0) return undefined;
  const setting = settingOf(recipe, section, name);
  const now = JSON.stringify(setting);
  const known = choices.some((choice) => JSON.stringify(choice.setting) === now);
  // A recipe that was written by hand may say what no choice does.
  const all = known ? choices : [...choices, { label: "as in the JSON", setting }];
  const pick = h(
    "select",
    {
      "aria-label": `setting of ${name}`,
      onchange: () =>
        store.update({ recipe: withSetting(store.state.recipe, section, name, all[pick.selectedIndex]?.setting) }),
    },
    ...all.map((choice) => h("option", { selected: JSON.stringify(choice.setting) === now }, choice.label)),
  );
  return pick;
}
