// Step 5: what quantization did, and what to take home.
import type { Report, SamplePrediction } from "qdq";
import { cards, formatBytes, h, row, scrollTable } from "../../src/cli/report/dom.js";
import { errorTable, leftInFloat, predictionCards, summaryOf } from "../../src/cli/report/result-view.js";
import { byId, download, isImage } from "./page.js";
import type { SampleScores, Score } from "./protocol.js";
import type { Run, State, Store } from "./state.js";
import { className, lastRun } from "./state.js";

// `choose` shows an operator in the graph.
export function resultStep(store: Store, choose: (node: string) => void): void {
  const body = h("div", {});
  byId("result").append(body);

  const imageOf = (state: State, file: string): Blob | undefined =>
    isImage(file) ? (state.test ?? state.calibration)?.choice.files.find(({ name }) => name === file)?.file : undefined;

  function prediction({ classes }: State, { file, label, float, int8 }: SampleScores, image: string | undefined): SamplePrediction {
    const first = (scores: readonly Score[]): string =>
      scores[0] ? `${className(classes, scores[0].class)} ${(100 * scores[0].share).toFixed(0)} %` : "";
    const known = label !== undefined && { label: className(classes, label) };
    return { file, float: first(float), int8: first(int8), ...known, ...(image && { image }) };
  }

  // All that is known of a run but its predictions.
  function reportOf(state: State, { quantized, errors, evaluation, recipe }: Run): Report {
    return {
      ...quantized.report,
      model: state.name,
      nodes: state.model!.program.nodes,
      recipe,
      bytes: [state.model!.bytes, quantized.file.size],
      samples: quantized.samples,
      ...(errors && { errors }),
      ...(evaluation && { speed: evaluation.speed, sqnr: evaluation.sqnr }),
      ...(evaluation?.agreement !== undefined && {
        accuracy: { agreement: evaluation.agreement, samples: evaluation.samples, ...(evaluation.top1 && { top1: evaluation.top1 }) },
      }),
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
            percent(run.evaluation?.top1?.[1]),
            percent(run.evaluation?.agreement),
            typeof run.evaluation?.sqnr === "number" ? `${run.evaluation.sqnr.toFixed(1)} dB` : "–",
            h(
              "span",
              { class: "controls" },
              h("button", { type: "button", onclick: () => store.update({ recipe: run.recipe }) }, "Take this recipe"),
              h("button", { type: "button", "aria-label": `save the model of result ${i + 1}`, onclick: () => saveModel(run) }, "Save"),
            ),
          ),
        ),
      ),
    );
  }

  const stem = (): string => store.state.name.replace(/\.pt2$/, "");
  const saveModel = (run: Run): void => download(`${stem()}.int8.pt2`, run.quantized.file, "application/octet-stream");

  async function saveReport(run: Run): Promise<void> {
    const { state } = store;
    try {
      const predictions = await Promise.all(
        (run.evaluation?.predictions ?? []).map(async (sample) => {
          const image = imageOf(state, sample.file);
          return prediction(state, sample, image && (await dataUrl(image)));
        }),
      );
      const report: Report = { ...reportOf(state, run), ...(predictions.length > 0 && { predictions }) };
      download(`${stem()}.report.html`, await state.engine!.call("report", [report]), "text/html");
    } catch (error) {
      byId("status").textContent = `The report could not be saved: ${(error as Error).message}`;
    }
  }

  let urls: string[] = [];
  function show(state: State, run: Run): void {
    urls.forEach((url) => URL.revokeObjectURL(url));
    urls = [];
    const samples = (run.evaluation?.predictions ?? []).map((sample) => {
      const image = imageOf(state, sample.file),
        url = image && URL.createObjectURL(image);
      if (url) urls.push(url);
      return prediction(state, sample, url);
    });
    const { observers, errors } = run;
    const button = (id: string, label: string, act: () => void, props = {}): HTMLElement =>
      h("button", { type: "button", id, onclick: act, ...props }, label);
    body.replaceChildren(
      cards(summaryOf(reportOf(state, run))),
      h(
        "div",
        { class: "controls" },
        button("save-model", "Save the int8 model (.pt2)", () => saveModel(run), { class: "primary" }),
        button("save-report", "Report (.html)", () => void saveReport(run)),
        button("save-observers", "Calibration statistics (.json)", () => download(`${stem()}.observers.json`, `${observers}\n`, "application/json"), {
          disabled: observers === undefined,
        }),
        button("save-recipe", "Recipe (.json)", () => download("recipe.json", `${JSON.stringify(run.recipe, null, 2)}\n`, "application/json")),
      ),
      history(state) ?? "",
      leftInFloat(run.quantized.report.left) || "",
      errors ? h("div", {}, h("h3", {}, "Where accuracy is lost"), errorTable(errors, choose)) : "",
      samples.length > 0 ? h("div", {}, h("h3", {}, "Predictions side by side, worst first"), predictionCards(samples)) : "",
    );
  }

  // A small picture of a file for the report, which stands alone.
  async function dataUrl(image: Blob): Promise<string> {
    const bitmap = await createImageBitmap(image),
      size = 96,
      scale = Math.min(1, size / Math.max(bitmap.width, bitmap.height));
    const canvas = h("canvas", { width: Math.max(1, Math.round(bitmap.width * scale)), height: Math.max(1, Math.round(bitmap.height * scale)) });
    canvas.getContext("2d")!.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
    return canvas.toDataURL("image/png");
  }

  store.listen((state, changed) => {
    const run = lastRun(state);
    byId("result").hidden = !run;
    if (changed.has("runs") && run) show(state, run);
  });
}
