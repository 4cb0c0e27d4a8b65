// The page: what is chosen stands at the side, what came of it in tabs; all of them share one state.
import { followAddress } from "./address.js";
import { compareStep } from "./compare-step.js";
import { dataStep } from "./data-step.js";
import { graphStep } from "./graph-step.js";
import { layersStep } from "./layers-step.js";
import { modelStep } from "./model-step.js";
import { keepForOffline } from "./offline.js";
import { observersStep } from "./observers-step.js";
import { paretoStep } from "./pareto-step.js";
import { predictionsStep } from "./predictions-step.js";
import { quantizeStep } from "./quantize-step.js";
import { recipeStep } from "./recipe-step.js";
import { resultStep } from "./result-step.js";
import { Store } from "./state.js";
import { tabBar } from "./tabs.js";
import { welcome } from "./welcome.js";

const store = new Store();
// A file dropped beside the zones must not replace the page.
for (const event of ["dragover", "drop"]) window.addEventListener(event, (dropped) => dropped.preventDefault());
// Results are in this tab alone; what costs nothing to make again goes without a question.
window.addEventListener("beforeunload", (event) => {
  if (store.state.runs.length > 0 || store.state.busy) event.preventDefault();
});

welcome();
const data = dataStep(store);
const choose = graphStep(store);
const example = modelStep(store, data.take);
recipeStep(store);
layersStep(store, choose);
const showObservers = observersStep(store);
const recover = quantizeStep(store, showObservers);
resultStep(store, choose, recover);
predictionsStep(store);
compareStep(store, choose);
paretoStep(store);
tabBar(store);
keepForOffline(store);
followAddress(store, example);
