// The view of a result: its verdict in words, the figures, what to take home, and all results of the session.
import type { Report } from "qdq";
import { cards, h } from "../../src/report/html/dom.js";
import { remediesText, remedyTable } from "../../src/report/html/remedies-view.js";
import { errorTable, leftInFloat, summaryOf, warningsOf } from "../../src/report/html/result-view.js";
import { byId, download } from "./page.js";
import { dataUrl, imageOf } from "./pictures.js";
import { withSetting } from "./recipe.js";
import { runsTable } from "./runs-table.js";
import type { Run, State, Store } from "./state.js";
import { shownRun, sizeOf } from "./state.js";
import { verdictOf, verdictView } from "./verdict.js";

const worst = 8; // layers that the result lists; the view of the layers has all

// All that is known of a run; the pictures of its predictions are given by `image`.
function reportOf(state: State, run: Run, image: (file: string) => string | undefined = () => undefined): Report {
  const { quantized, errors, evaluation, recipe } = run;
  const predictions = evaluation?.predictions?.map((sample) => {
    const picture = image(sample.file ?? "");
    return { ...sample, ...(picture && { image: picture }) };
  });
  return {
    ...quantized.report,
    model: state.name,
    made: { date: new Date().toISOString().slice(0, 10), by: "the page of qdq", machine: "WebAssembly" },
    nodes: state.model!.program.nodes,
    recipe,
    bytes: [state.model!.bytes, sizeOf(run)],
    ...(quantized.samples > 0 && { samples: quantized.samples }),
    ...(errors && { errors }),
    ...evaluation,
    ...(evaluation && { classes: evaluation.classes.length > 0 ? evaluation.classes : state.classes }),
    ...(predictions && { predictions }),
  };
}

// `choose` shows an operator in the graph, `recover` quantizes again and recovers accuracy.
export function resultStep(store: Store, choose: (node: string) => void, recover: () => void): void {
  const body = h("div", {});
  byId("result").append(body);
  const stem = (): string => store.state.name.replace(/^.*\//, "").replace(/\.(pt2|onnx)$/i, "");
  const tell = (text: string): void => {
    byId("status").textContent = text;
    byId("save-problem").textContent = text;
  };

  function savePt2(run: Run): void {
    const { pt2Problem } = run.quantized;
    if (pt2Problem) tell(`There is no .pt2 of this result: ${pt2Problem}`);
    else download(`${stem()}.int8.pt2`, run.quantized.file, "application/octet-stream");
  }
  // Of a result that was not asked for as .onnx, the file is made when somebody wants it.
  async function saveOnnx(run: Run): Promise<void> {
    try {
      const { onnx, file } = run.quantized;
      const bytes = onnx ?? (await store.state.engine!.call("onnxOf", [file, run.target]));
      download(`${stem()}.int8.onnx`, bytes, "application/octet-stream");
      tell("");
    } catch (error) {
      tell(`There is no .onnx of this result: ${(error as Error).message}`);
    }
  }

  async function saveReport(run: Run): Promise<void> {
    const { state } = store;
    try {
      const pictures = new Map<string, string>();
      for (const { file = "" } of run.evaluation?.predictions ?? []) {
        const image = imageOf(run, file);
        if (image) pictures.set(file, await dataUrl(image));
      }
      const report = reportOf(state, run, (file) => pictures.get(file));
      download(`${stem()}.report.html`, await state.engine!.call("report", [report]), "text/html");
    } catch (error) {
      tell(`The report could not be saved: ${(error as Error).message}`);
    }
  }

  // The file that fits the model or its runtime comes first.
  function saveButtons(run: Run): HTMLElement {
    const button = (id: string, label: string, act: () => void, isFirst = false): HTMLElement =>
      h("button", { type: "button", id, onclick: act, class: isFirst && "primary" }, label);
    const isOnnx = run.quantized.onnx !== undefined;
    const files = [
      button("save-model", "Save the int8 model (.pt2)", () => savePt2(run), !isOnnx),
      button("save-onnx", "Save the int8 model (.onnx)", () => void saveOnnx(run), isOnnx),
    ];
    const { onnxProblem } = run.quantized;
    return h(
      "div",
      {},
      h(
        "div",
        { class: "controls" },
        ...(isOnnx ? files.reverse() : files),
        button("save-report", "Report (.html)", () => void saveReport(run)),
        button("save-observers", "Statistics (.json)", () =>
          download(`${stem()}.observers.json`, run.quantized.observers, "application/json"),
        ),
        button("save-recipe", "Recipe (.json)", () =>
          download("recipe.json", `${JSON.stringify(run.recipe, null, 2)}\n`, "application/json"),
        ),
      ),
      h(
        "p",
        { id: "save-problem", class: "told" },
        onnxProblem ? `There is no .onnx of this result: ${onnxProblem}` : "",
      ),
    );
  }

  function runtimeText({ quantized: { runtime } }: Run): HTMLElement | string {
    if (!runtime) return "";
    const { inIntegers, total } = runtime.products;
    return h(
      "p",
      { id: "runtime" },
      `${runtime.runtime} would run ${inIntegers} of ${total} convolutions and matrix products in integers.`,
    );
  }

  function show(state: State): void {
    const run = shownRun(state);
    if (!run) {
      const steps = "Drop data and press Quantize. The verdict, the figures and the files to save appear here.";
      body.replaceChildren(h("h2", {}, "Nothing is quantized yet"), h("p", {}, steps));
      return;
    }
    const report = reportOf(state, run);
    const leave = (module: string): void =>
      store.update({ recipe: withSetting(store.state.recipe, "module_name", module, null) });
    const { errors } = run;
    const { remedies, losses, samples } = run.quantized;
    const again = remedies || losses || samples === 0 ? undefined : recover;
    const focused = document.activeElement?.id;
    body.replaceChildren(
      verdictView(verdictOf(run.evaluation, errors, report.dataWarnings), choose, leave, again),
      warningsOf(report),
      cards(summaryOf(report)),
      run.gained && h("p", { id: "gained" }, run.gained),
      runtimeText(run),
      saveButtons(run),
      runsTable(store, savePt2),
      run.quantized.remedies?.length
        ? h(
            "div",
            { id: "remedies" },
            h("h3", {}, "Recovered accuracy"),
            h("p", {}, remediesText),
            remedyTable(run.quantized.remedies),
          )
        : "",
      leftInFloat(run.quantized.report.left) || "",
      errors
        ? h("div", {}, h("h3", {}, "Where accuracy is lost most"), errorTable(errors.slice(0, worst), choose))
        : "",
    );
    if (focused && document.activeElement === document.body) document.getElementById(focused)?.focus();
  }

  store.listen((state, changed) => {
    if (changed.has("runs") || changed.has("shown") || changed.has("model")) show(state);
  });
}
