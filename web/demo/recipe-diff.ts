// What differs between two recipes, line by line.
import { h } from "../../src/report/html/dom.js";
import { diffLines, settingsText } from "./recipe.js";

export const diffView = (before: object, after: object): HTMLElement[] =>
  diffLines(settingsText(before), settingsText(after)).map(({ sign, text }) =>
    h("span", { class: sign === "+" ? "added" : sign === "-" ? "removed" : "same" }, `${sign} ${text}\n`),
  );
