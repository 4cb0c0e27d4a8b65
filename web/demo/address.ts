// The state that a link can carry: tab, operator, search and recipe stand in the fragment of the address, so that back,
// forward and a bookmark find them again. Files cannot; the example can.
import type { Recipe } from "qdq";
import type { State, Store, Tab } from "./state.js";
import { defaultRecipe, tabNames } from "./state.js";

const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

// What is as it is at first is left out.
function fragmentOf({ model, isExample, tab, node, find, recipe }: State): string {
  if (!model) return "";
  const words = new URLSearchParams();
  if (isExample) words.set("model", "example");
  words.set("tab", tab);
  if (node) words.set("node", node);
  if (find) words.set("find", find);
  if (!same(recipe, defaultRecipe)) words.set("recipe", JSON.stringify(recipe));
  return `#${words.toString()}`;
}

export interface Place {
  isExample: boolean;
  tab: Tab;
  node: string;
  find: string;
  recipe: Recipe;
}

// What a fragment says; undefined for one that is not of the page, such as that of a link to its middle.
function placeOf(fragment: string): Place | undefined {
  const words = new URLSearchParams(fragment.replace(/^#/, ""));
  const tab = tabNames.find((name) => name === words.get("tab"));
  if (tab === undefined) return undefined;
  let recipe = defaultRecipe;
  try {
    const read: unknown = JSON.parse(words.get("recipe") ?? "null");
    if (typeof read === "object" && read !== null && "quantizer" in read) recipe = read as Recipe;
  } catch {
    // An address that somebody cut off has no recipe; the rest of it still holds.
  }
  return {
    isExample: words.get("model") === "example",
    tab,
    node: words.get("node") ?? "",
    find: words.get("find") ?? "",
    recipe,
  };
}

// Keeps the address and the state the same: a step of the person is an entry of the browser's history.
export function followAddress(store: Store, openExample: (place: Place) => Promise<void>): void {
  const follow = (): void => {
    const place = placeOf(location.hash);
    if (!place) return;
    const { model, recipe } = store.state;
    if (!model) return void (place.isExample && openExample(place));
    const { isExample: _, recipe: wanted, ...rest } = place;
    store.update({ ...rest, ...(!same(recipe, wanted) && { recipe: wanted }) });
  };
  store.listen((state, changed) => {
    const fragment = fragmentOf(state);
    if (fragment === location.hash || fragment === decodeURI(location.hash)) return;
    // What is typed into a search and where somebody looks in the graph are no steps of their own.
    const isStep = changed.has("tab") || changed.has("recipe");
    if (!isStep && !["find", "node", "model"].some((field) => changed.has(field as keyof State))) return;
    history[isStep && !changed.has("model") ? "pushState" : "replaceState"](
      null,
      "",
      fragment || location.pathname + location.search,
    );
  });
  addEventListener("popstate", follow);
  follow();
}
