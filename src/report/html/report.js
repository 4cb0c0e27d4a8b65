// The file of --report: the views of the page in one document, over data that stands in it.
import { observerGallery } from "./charts.js";
import { cards, h, row, scrollTable } from "./dom.js";
import { trialsView } from "./front-view.js";
import { graphView } from "./graph-view.js";
import { remediesText, remedyTable } from "./remedies-view.js";
import { errorTable, errorsBehindClamps, leftInFloat, madeOf, operatorCell } from "./result-view.js";
import { outcomeCell, predictionCards, summaryOf, warningsOf } from "./result-view.js";

/** @type {import("qdq").Report} */
const report = JSON.parse(document.getElementById("report")?.textContent ?? "{}");
if (report.errors && report.nodes) report.errors = errorsBehindClamps(report.errors, report.nodes);
const main = h("main", {});
document.body.append(main);

/**
 * @param {string} title
 * @param {string} text
 * @param {...import("./dom.js").Child} content
 */
const section = (title, text, ...content) =>
  main.append(h("section", {}, h("h2", {}, title), text && h("p", {}, text), ...content));

if (report.model) document.title = `Quantization of ${report.model}`;
main.append(
  h("header", {}, h("h1", {}, document.title), madeOf(report)),
  warningsOf(report),
  cards(summaryOf(report)),
  leftInFloat(report.left ?? []) || "",
);

if (report.remedies?.length) section("Recovered accuracy", remediesText, remedyTable(report.remedies));
if (report.precision)
  section(
    "Cost of precision",
    "Each program that qdq tried, by the number of operators with another precision, the most harmful first.",
    trialsView(report.precision.trials, report.precision.score?.split(" ").at(-1) ?? ""),
  );
const graph = graphView();
if (report.errors?.length)
  section(
    "Where accuracy is lost",
    "Click an operator to show it in the graph.",
    errorTable(report.errors, graph.select),
  );
if (report.nodes?.length) {
  section(
    "Graph",
    "Colours show what each operator became and how large its error is. " +
      "Double-click a module, press Enter or use its button to open it.",
    graph.element,
  );
  graph.show(report.nodes);
  graph.know(report);
}
if (report.predictions?.length) {
  const order = "Worst first: samples with different answers (framed), then those whose scores changed most.";
  section("Predictions side by side", order, predictionCards(report.predictions, report.classes));
}
if (report.observers?.length) {
  const gallery = observerGallery();
  gallery.show(report.observers);
  section("Observed ranges", "", gallery.element);
}
if (report.operators?.length) {
  const choose = report.nodes?.length ? graph.select : undefined;
  section(
    "Result by operator",
    "The recipe decides this. A fused operator is computed together with a quantized one.",
    scrollTable(
      "operators",
      ["Operator", "Becomes", "Because"],
      report.operators.map((each) =>
        row(operatorCell(each, choose), outcomeCell(each.outcome), { class: "reason", content: each.reason }),
      ),
    ),
  );
}
if (report.conflicts?.length)
  section(
    "Conflicts",
    "Tensors that two specs quantize twice.",
    h("ul", {}, ...report.conflicts.map(({ message }) => h("li", {}, message))),
  );
if (report.recipe) {
  const use = "The same JSON gives the same file on the command line, in C++ and in JavaScript.";
  section("The recipe", use, h("pre", {}, JSON.stringify(report.recipe, null, 2)));
}
