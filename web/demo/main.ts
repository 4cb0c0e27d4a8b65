// The page: steps that share one state.
import { dataStep } from "./data-step.js";
import { graphStep } from "./graph-step.js";
import { modelStep } from "./model-step.js";
import { quantizeStep } from "./quantize-step.js";
import { recipeStep } from "./recipe-step.js";
import { resultStep } from "./result-step.js";
import { Store } from "./state.js";

const store = new Store();
// A file dropped beside the zones must not replace the page.
for (const event of ["dragover", "drop"]) window.addEventListener(event, (dropped) => dropped.preventDefault());

const data = dataStep(store);
const choose = graphStep(store);
modelStep(store, data.take);
recipeStep(store, choose);
quantizeStep(store);
resultStep(store, choose);
