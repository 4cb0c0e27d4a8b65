// Step 5: what quantization did, and what to take home.
import type { Report } from "qdq";
import { sqnrMeter } from "./charts.js";
import { byId, download, formatBytes, formatNumber, h, row, scrollTable } from "./dom.js";
import type { SampleScores, Score } from "./protocol.js";
import type { Run, State, Store } from "./state.js";
import { className, lastRun } from "./state.js";

export function resultStep(store: Store): void {
  const body = h("div", {});
  byId("result").append(body);

  const share = (classes: readonly string[], scores: readonly Score[]): string =>
    scores.length > 0 ? `${className(classes, scores[0]!.class)} ${(100 * scores[0]!.share).toFixed(0)} %` : "";
  const imageOf = (state: State, file: string): Blob | undefined =>
    (state.test ?? state.calibration)?.choice.files.find(({ name }) => name === file)?.file;

  let urls: string[] = [];
  function card(state: State, { file, label, float, int8 }: SampleScores): HTMLElement {
    const image = /\.(jpe?g|png|bmp)$/i.test(file) ? imageOf(state, file) : undefined;
    const url = image && URL.createObjectURL(image);
    if (url) urls.push(url);
    const line = (name: string, scores: readonly Score[]): HTMLElement =>
      h("small", { class: label !== undefined && scores[0]?.class !== label ? "wrong" : "" }, `${name}: ${share(state.classes, scores)}`);
    return h(
      "figure",
      {},
      url && h("img", { src: url, alt: file }),
      h(
        "figcaption",
        {},
        file,
        line("float", float),
        line("int8", int8),
        label !== undefined && h("small", {}, `label: ${className(state.classes, label)}`),
      ),
    );
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
        state.runs.map(({ recipe, quantized, evaluation }, i) =>
          row(
            String(i + 1),
            formatBytes(quantized.bytes),
            `${quantized.report.layers.quantized} of ${quantized.report.layers.total}`,
            percent(evaluation?.top1?.[1]),
            percent(evaluation?.agreement),
            evaluation ? `${evaluation.sqnr.toFixed(1)} dB` : "–",
            h("button", { type: "button", onclick: () => store.update({ recipe }) }, "Take this recipe"),
          ),
        ),
      ),
    );
  }

  function show(state: State, run: Run): void {
    urls.forEach((url) => URL.revokeObjectURL(url));
    urls = [];
    const { quantized, errors, evaluation } = run,
      before = state.model!.bytes;
    const fact = (id: string, name: string, value: string, note = ""): HTMLElement =>
      h("div", {}, h("dt", {}, name), h("dd", { id }, value), note && h("small", {}, note));
    const { layers, left } = quantized.report;
    body.replaceChildren(
      h(
        "dl",
        { class: "cards" },
        fact("size", "Size", `${formatBytes(before)} → ${formatBytes(quantized.bytes)}`, `${(before / quantized.bytes).toFixed(2)} times smaller`),
        fact("layers", "Layers on int8", `${layers.quantized} of ${layers.total}`),
        ...(evaluation
          ? [
              ...(evaluation.top1
                ? [
                    fact(
                      "top1",
                      "Top-1, float → int8",
                      `${evaluation.top1[0].toFixed(2)} % → ${evaluation.top1[1].toFixed(2)} %`,
                      `${evaluation.samples} samples`,
                    ),
                  ]
                : []),
              ...(evaluation.agreement !== undefined
                ? [
                    fact(
                      "agreement",
                      "Same answer as float",
                      `${evaluation.agreement.toFixed(2)} %`,
                      state.test ? "on the test data" : "on the calibration data",
                    ),
                  ]
                : []),
              fact("sqnr", "SQNR of the output", Number.isFinite(evaluation.sqnr) ? `${evaluation.sqnr.toFixed(1)} dB` : "no error"),
              fact(
                "speed",
                "Time for a sample in this tab",
                `${evaluation.speed.float.toFixed(2)} → ${evaluation.speed.int8.toFixed(2)} ms`,
                `int8 is ${(evaluation.speed.float / evaluation.speed.int8).toFixed(2)} times as fast`,
              ),
            ]
          : []),
      ),
      h(
        "div",
        { class: "controls" },
        h("button", { type: "button", id: "save-model", class: "primary", onclick: () => void save("model") }, "Save the int8 model (.pt2)"),
        h("button", { type: "button", id: "save-report", onclick: () => void save("report") }, "Report (.html)"),
        h("button", { type: "button", id: "save-observers", onclick: () => void save("observers") }, "Calibration statistics (.json)"),
        h(
          "button",
          {
            type: "button",
            id: "save-recipe",
            onclick: () => download("recipe.json", `${JSON.stringify(run.recipe, null, 2)}\n`, "application/json"),
          },
          "Recipe (.json)",
        ),
      ),
      history(state) ?? "",
      left.length > 0
        ? h(
            "details",
            { open: left.length < 8 },
            h("summary", {}, `${left.length} ${left.length === 1 ? "layer stays" : "layers stay"} float`),
            h("ul", {}, ...left.map(({ node, module, reason }) => h("li", {}, h("b", {}, module || node), ` ${reason}`))),
          )
        : "",
      errors
        ? h(
            "div",
            {},
            h("h3", {}, "Where accuracy is lost"),
            h(
              "p",
              {},
              "Signal to quantization noise of each operator's value, worst first: 20 dB is an error of a tenth, 40 dB of a hundredth. " +
                "The setting of a layer is in the table of the recipe.",
            ),
            scrollTable(
              "errors by layer",
              ["Operator", "SQNR", "", "Mean squared error", ""],
              errors.map((error) =>
                row(
                  {
                    class: "name",
                    content: h("span", {}, error.module || error.node, h("small", {}, `${error.node}: ${error.op.replace(/^aten\./, "")}`)),
                  },
                  { class: "n", content: typeof error.sqnr_db === "number" ? `${error.sqnr_db.toFixed(1)} dB` : "–" },
                  sqnrMeter(typeof error.sqnr_db === "number" ? error.sqnr_db : undefined),
                  { class: "n", content: typeof error.mse === "number" ? formatNumber(error.mse) : "–" },
                  error.quantized ? "int8" : "float",
                ),
              ),
            ),
          )
        : "",
      evaluation && evaluation.predictions.length > 0
        ? h(
            "div",
            {},
            h("h3", {}, "Predictions side by side, worst first"),
            h("div", { class: "images", id: "predictions" }, ...evaluation.predictions.map((sample) => card(state, sample))),
          )
        : "",
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

  async function reportOf(state: State, run: Run): Promise<Report> {
    const { quantized, errors, evaluation, recipe } = run;
    const predictions = await Promise.all(
      (evaluation?.predictions ?? []).map(async ({ file, label, float, int8 }) => {
        const image = imageOf(state, file);
        return {
          file,
          float: share(state.classes, float),
          int8: share(state.classes, int8),
          ...(label !== undefined && { label: className(state.classes, label) }),
          ...(image && /\.(jpe?g|png|bmp)$/i.test(file) && { image: await dataUrl(image) }),
        };
      }),
    );
    return {
      ...quantized.report,
      model: state.name,
      recipe,
      bytes: [state.model!.bytes, quantized.bytes],
      samples: quantized.samples,
      ...(errors && { errors }),
      ...(evaluation && { speed: evaluation.speed, predictions }),
      ...(evaluation?.agreement !== undefined && {
        accuracy: { agreement: evaluation.agreement, ...(evaluation.top1 && { top1: evaluation.top1 }) },
      }),
    };
  }

  async function save(what: "model" | "report" | "observers"): Promise<void> {
    const { state } = store,
      { engine } = state,
      run = lastRun(state);
    if (!engine || !run) return;
    const stem = state.name.replace(/\.pt2$/, "");
    try {
      if (what === "model") download(`${stem}.int8.pt2`, await engine.call("save", []), "application/octet-stream");
      else if (what === "observers") download(`${stem}.observers.json`, `${await engine.call("observers", [])}\n`, "application/json");
      else download(`${stem}.report.html`, await engine.call("report", [await reportOf(state, run)]), "text/html");
    } catch (error) {
      byId("status").textContent = `It could not be saved: ${(error as Error).message}`;
    }
  }

  store.listen((state, changed) => {
    const run = lastRun(state);
    byId("result").hidden = !run;
    if (changed.has("runs") && run) show(state, run);
  });
}
