// The views of a result as tabs: arrow keys walk along them, the one that is chosen stands in the address.
import { h } from "../../src/report/html/dom.js";
import { byId } from "./page.js";
import type { Store, Tab } from "./state.js";
import { tabNames } from "./state.js";

const titles: Record<Tab, string> = {
  result: "Result",
  layers: "Layers",
  graph: "Graph",
  observers: "Observers",
  predictions: "Predictions",
  compare: "Compare",
  pareto: "Pareto",
};
const panels: Record<Tab, string> = {
  result: "result",
  layers: "layers-view",
  graph: "graph",
  observers: "observers",
  predictions: "predictions-view",
  compare: "compare",
  pareto: "pareto",
};

export function tabBar(store: Store): void {
  const buttons = tabNames.map((tab) =>
    h(
      "button",
      {
        type: "button",
        role: "tab",
        id: `tab-${tab}`,
        "data-tab": tab,
        "aria-controls": panels[tab],
        onclick: () => store.update({ tab }),
      },
      titles[tab],
    ),
  );
  const bar = byId("tabs");
  bar.append(...buttons);
  bar.addEventListener("keydown", ({ key }) => {
    const step = key === "ArrowRight" ? 1 : key === "ArrowLeft" ? -1 : 0;
    if (step === 0) return;
    const next = (tabNames.indexOf(store.state.tab) + step + tabNames.length) % tabNames.length;
    store.update({ tab: tabNames[next]! });
    buttons[next]!.focus();
  });
  for (const tab of tabNames) byId(panels[tab]).setAttribute("aria-labelledby", `tab-${tab}`);
  store.listen(({ tab, model }, changed) => {
    byId("views").hidden = !model;
    document.body.classList.toggle("empty", !model);
    if (!changed.has("tab") && !changed.has("model")) return;
    tabNames.forEach((name, i) => {
      byId(panels[name]).hidden = name !== tab;
      buttons[i]!.setAttribute("aria-selected", String(name === tab));
      buttons[i]!.tabIndex = name === tab ? 0 : -1;
    });
    const [button] = buttons.filter((each) => each.dataset.tab === tab);
    // The bar alone moves where it is too narrow for all of them.
    if (button) bar.scrollLeft = button.offsetLeft - (bar.clientWidth - button.clientWidth) / 2;
  });
}
