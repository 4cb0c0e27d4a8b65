// Step 5: what quantization did, and what to take home.
import type { Report } from "qdq";
import { cards, formatBytes, h, row, scrollTable } from "../../src/report/html/dom.js";
import { errorTable, leftInFloat, predictionCards, summaryOf, warningsOf } from "../../src/report/html/result-view.js";
import { byId, download, isImage } from "./page.js";
import type { Run, State, Store } from "./state.js";
import { lastRun } from "./state.js";

// `choose` shows an operator in the graph.
export function resultStep(store: Store, choose: (node: string) => void): void {
  const body = h("div", {});
  byId("result").append(body);

  const imageOf = (run: Run, file: string): Blob | undefined =>
    isImage(file) ? run.evaluatedOn?.choice.files.find(({ name }) => name === file)?.file : undefined;

  // All that is known of a run; the pictures of its predictions are given by `image`.
  function reportOf(
    state: State,
    { quantized, errors, evaluation, recipe }: Run,
    image: (file: string) => string | undefined,
  ): Report {
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
      bytes: [state.model!.bytes, quantized.file.size],
      ...(quantized.samples > 0 && { samples: quantized.samples }),
      ...(errors && { errors }),
      ...evaluation,
      ...(evaluation && { classes: evaluation.classes.length > 0 ? evaluation.classes : state.classes }),
      ...(predictions && { predictions }),
    };
  }

  function history(state: State): HTMLElement | null {
    if (state.runs.length < 2) return null;
    const percent = (value: number | undefined): string => (value === undefined ? "–" : `${value.toFixed(1)} %`);
    return h(
      "div",
      {},
      h("h3", {}, "All results of this session"),
      scrollTable(
        "results",
        ["", "Size", "Layers", "Top-1", "As float", "SQNR", ""],
        state.runs.map((run, i) =>
          row(
            String(i + 1),
            formatBytes(run.quantized.file.size),
            `${run.quantized.report.layers.quantized} of ${run.quantized.report.layers.total}`,
            percent(run.evaluation?.accuracy?.top1?.[1]),
            percent(run.evaluation?.accuracy?.agreement),
            typeof run.evaluation?.sqnr === "number" ? `${run.evaluation.sqnr.toFixed(1)} dB` : "–",
            h(
              "span",
              { class: "controls" },
              h("button", { type: "button", onclick: () => store.update({ recipe: run.recipe }) }, "Take this recipe"),
              h(
                "button",
                { type: "button", "aria-label": `save the model of result ${i + 1}`, onclick: () => saveModel(run) },
                "Save",
              ),
            ),
          ),
        ),
      ),
    );
  }

  const stem = (): string => store.state.name.replace(/\.(pt2|onnx)$/, "");
  const saveModel = (run: Run): void => download(`${stem()}.int8.pt2`, run.quantized.file, "application/octet-stream");

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
      byId("status").textContent = `The report could not be saved: ${(error as Error).message}`;
    }
  }

  let urls: string[] = [];
  function show(state: State, run: Run): void {
    urls.forEach((url) => URL.revokeObjectURL(url));
    urls = [];
    const report = reportOf(state, run, (file) => {
      const image = imageOf(run, file);
      const url = image && URL.createObjectURL(image);
      if (url) urls.push(url);
      return url;
    });
    const { predictions = [], classes = [] } = report;
    const { errors } = run;
    const button = (id: string, label: string, act: () => void, props = {}): HTMLElement =>
      h("button", { type: "button", id, onclick: act, ...props }, label);
    body.replaceChildren(
      warningsOf(report),
      cards(summaryOf(report)),
      h(
        "div",
        { class: "controls" },
        button("save-model", "Save the int8 model (.pt2)", () => saveModel(run), { class: "primary" }),
        button("save-report", "Report (.html)", () => void saveReport(run)),
        button("save-observers", "Calibration statistics (.json)", () =>
          download(`${stem()}.observers.json`, run.quantized.observers, "application/json"),
        ),
        button("save-recipe", "Recipe (.json)", () =>
          download("recipe.json", `${JSON.stringify(run.recipe, null, 2)}\n`, "application/json"),
        ),
      ),
      history(state) ?? "",
      leftInFloat(run.quantized.report.left) || "",
      errors ? h("div", {}, h("h3", {}, "Where accuracy is lost"), errorTable(errors, choose)) : "",
      predictions.length > 0
        ? h(
            "div",
            {},
            h("h3", {}, "Predictions side by side"),
            h(
              "p",
              {},
              "The worst first: where int8 answers otherwise than float (framed), then where its scores moved most.",
            ),
            predictionCards(predictions, classes),
          )
        : "",
    );
  }

  // A small picture of a file for the report, which stands alone.
  async function dataUrl(image: Blob): Promise<string> {
    const bitmap = await createImageBitmap(image);
    const size = 96;
    const scale = Math.min(1, size / Math.max(bitmap.width, bitmap.height));
    const canvas = h("canvas", {
      width: Math.max(1, Math.round(bitmap.width * scale)),
      height: Math.max(1, Math.round(bitmap.height * scale)),
    });
    canvas.getContext("2d")!.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
    return canvas.toDataURL("image/jpeg", 0.85);
  }

  store.listen((state, changed) => {
    const run = lastRun(state);
    byId("result").hidden = !run;
    if (changed.has("runs") && run) show(state, run);
  });
}
