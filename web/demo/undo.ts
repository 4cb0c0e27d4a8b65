// Changes of the recipe that can be taken back, one by one, and made again.
import type { Recipe } from "qdq";
import { h } from "../../src/report/html/dom.js";
import type { Store } from "./state.js";

export function undoButtons(store: Store): HTMLElement {
  let past: Recipe[] = [];
  let future: Recipe[] = [];
  let last = store.state.recipe;
  let isOwn = false; // whether the change is one of these buttons

  function step(from: Recipe[], to: Recipe[]): void {
    const recipe = from.pop();
    if (!recipe) return;
    to.push(store.state.recipe);
    isOwn = true;
    store.update({ recipe });
    isOwn = false;
  }
  const button = (id: string, label: string, key: string, act: () => void): HTMLButtonElement =>
    h("button", { type: "button", id, title: `${label} the last change of the recipe (${key})`, onclick: act }, label);
  const undo = button("undo", "Undo", "Ctrl+Z", () => step(past, future));
  const redo = button("redo", "Redo", "Ctrl+Shift+Z", () => step(future, past));

  addEventListener("keydown", (event) => {
    // Where text is typed, the keys are the text's.
    const isText = event.target instanceof Element && event.target.matches("textarea, input:not([type=checkbox])");
    if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "z" || isText) return;
    event.preventDefault();
    if (event.shiftKey) step(future, past);
    else step(past, future);
  });
  store.listen(({ recipe }, changed) => {
    if (changed.has("model")) [past, future] = [[], []];
    else if (changed.has("recipe") && !isOwn && JSON.stringify(last) !== JSON.stringify(recipe)) {
      past.push(last);
      future = [];
    }
    last = recipe;
    undo.disabled = past.length === 0;
    redo.disabled = future.length === 0;
  });
  undo.disabled = redo.disabled = true;
  return h("span", { class: "controls" }, undo, redo);
}
