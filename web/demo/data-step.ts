// The data to calibrate on, how images become inputs, and data to measure on.
import { h } from "../../src/report/html/dom.js";
import { dropZone, noneOf } from "./files.js";
import { imagePreview } from "./image-preview.js";
import { byId, isImage, isNarrow, problemLine } from "./page.js";
import { guessPreprocess, preprocessControls, readPreprocess } from "./preprocess-controls.js";
import type { DataChoice, NamedFile } from "./protocol.js";
import type { Store } from "./state.js";
import { readVocabulary } from "./vocabulary.js";
import { workLine } from "./work.js";

interface Files {
  data: readonly NamedFile[];
  labels: string | undefined;
}

// What each of the files is for. `how` says how images become inputs; labels may also lie in an array.
function partsOf(files: readonly NamedFile[]) {
  const isNamed = (end: string) => (file: NamedFile) => file.name.split("/").at(-1)!.endsWith(end);
  const isArray = ({ name }: NamedFile): boolean => /\.np[yz]$/i.test(name);
  const tokenizer = files.find(({ name }) => /(^|\/)(tokenizer\.json|vocab\.txt)$/.test(name));
  const arrays = files.filter(isArray);
  return {
    tokenizer,
    how: files.find((file) => file !== tokenizer && isNamed(".json")(file)),
    classes: files.find(({ name }) => /(class|label)[^/]*\.txt$/i.test(name)),
    labels:
      files.find(isNamed(".csv")) ?? (arrays.length > 1 ? arrays.find(({ name }) => /label/i.test(name)) : undefined),
    data: files.filter((file) => isImage(file.name) || isArray(file)),
  };
}

export interface DataStep {
  take(use: "calibration" | "test", files: readonly NamedFile[]): Promise<void>;
}

export function dataStep(store: Store): DataStep {
  const { element: problem, fail } = problemLine();
  const work = workLine("data");
  const summary = { calibration: h("p", { id: "calibration-summary" }), test: h("p", { id: "test-summary" }) };
  const preprocess = preprocessControls(() => void again(), fail);
  const { pictures, preview, ...calibrationImages } = imagePreview(store, fail);
  const batchSize = h("input", {
    type: "number",
    id: "batch-size",
    min: "1",
    value: "16",
    onchange: () => void again(),
  });
  const limit = h("input", { type: "number", id: "limit", min: "0", value: "0", onchange: () => void again() });
  const images = h(
    "details",
    { class: "preprocess", hidden: true },
    h("summary", {}, "How images become inputs"),
    h(
      "p",
      { class: "guessed" },
      "Use the preprocessing that the model was trained with. With any other, its answers are wrong.",
    ),
    h(
      "div",
      { class: "columns" },
      h(
        "div",
        {},
        preprocess.controls,
        h("label", { for: "preprocess" }, "The same as JSON (--preprocess)"),
        preprocess.text,
      ),
      preview,
    ),
  );

  const intake = h(
    "details",
    { class: "intake", open: true },
    h("summary", {}, "Add or change data"),
    h(
      "p",
      {},
      "Calibration runs the float model on typical samples and records the range of every value. " +
        "A hundred are plenty.",
    ),
    h(
      "div",
      { class: "row" },
      dropZone(
        "calibration-files",
        "Drop calibration data",
        "a folder of images (one folder per class gives labels), or an .npz or .npy; " +
          "with labels.csv, classes.txt, preprocess.json, tokenizer.json if you have them",
        ".png,.jpg,.jpeg,.bmp,.npz,.npy,.csv,.json,.txt",
        (files) => void take("calibration", files),
        true,
      ),
      dropZone(
        "test-files",
        "Drop test data",
        "optional: other samples to measure on, in folders named by class or with labels.csv",
        ".png,.jpg,.jpeg,.bmp,.npz,.npy,.csv,.json,.txt",
        (files) => void take("test", files),
        true,
      ),
    ),
    h(
      "div",
      { class: "controls" },
      h("label", {}, "Samples per batch ", batchSize),
      h("label", {}, "Limit (0: all samples) ", limit),
    ),
  );
  byId("data").append(work.element, problem, summary.calibration, summary.test, pictures, images, intake);

  function settings(): Omit<DataChoice, "files" | "labels"> {
    const { classes } = store.state;
    return {
      ...(classes.length > 0 && { classes }),
      preprocess: preprocess.settings(),
      batchSize: Math.max(1, batchSize.valueAsNumber || 16),
      limit: Math.max(0, limit.valueAsNumber || 0),
    };
  }

  // Answers whether it was left as it is, because the person cancelled it.
  async function open(use: "calibration" | "test", { data: files, labels }: Files): Promise<boolean> {
    const { engine } = store.state;
    if (!engine) return false;
    const own = settings();
    // The limit is for calibration alone.
    const choice: DataChoice = { ...own, files, ...(labels && { labels }), ...(use === "test" && { limit: 0 }) };
    try {
      const info = await work.run(`Reading the ${use} data`, (how) => engine.call("openData", [use, choice], how));
      if (engine !== store.state.engine) return false;
      if (!info) {
        showSettings(store.state.calibration?.choice);
        return true;
      }
      fail("");
      store.update({ [use]: { choice, info } });
    } catch (error) {
      fail((error as Error).message);
      store.update({ [use]: undefined });
    }
    return false;
  }

  // The settings of the data that is there.
  function showSettings(choice: DataChoice | undefined): void {
    if (!choice) return;
    batchSize.value = String(choice.batchSize);
    limit.value = String(choice.limit);
    preprocess.show(choice.preprocess);
  }

  // Opens what was chosen with the settings of now.
  async function again(): Promise<void> {
    for (const use of ["calibration", "test"] as const) {
      const files = chosen[use];
      if (files && (await open(use, files))) return;
    }
    void calibrationImages.show();
  }

  const chosen: { calibration?: Files; test?: Files } = {};

  async function take(use: "calibration" | "test", files: readonly NamedFile[]): Promise<void> {
    fail("");
    const { tokenizer, how, classes, labels, data } = partsOf(files);
    if (tokenizer) {
      try {
        store.update({ vocabulary: readVocabulary(tokenizer.name, await tokenizer.file.text()) });
      } catch (error) {
        return fail(`${tokenizer.name} could not be read: ${(error as Error).message}`);
      }
    }
    if (classes) store.update({ classes: (await classes.file.text()).split(/\r?\n/).filter(Boolean) });
    if (how) {
      try {
        preprocess.show(readPreprocess(await how.file.text()));
      } catch (error) {
        return fail(`${how.name} could not be read: ${(error as Error).message}`);
      }
    } else if (use === "calibration" && !chosen.calibration) {
      preprocess.show(guessPreprocess(store.state.model?.program.inputs[0]?.shape));
      // A guess decides the accuracy: whoever knows better must see it.
      images.open = true;
    }
    if (data.length === 0 && !labels) {
      if (how || classes || tokenizer) return again();
      return fail(`${noneOf(files, "data")}; wanted .png, .jpg or .bmp images, an .npz or an .npy`);
    }
    const all = labels ? [...data.filter((file) => file !== labels), labels] : data;
    // Labels alone belong to the data that is there.
    const there = chosen[use]?.data ?? [];
    const taken = { data: data.length > 0 ? all : [...there, labels!], labels: labels?.name };
    if (await open(use, taken)) return;
    chosen[use] = taken;
    // A small screen has room for what comes next alone, a large one for what may still come.
    if (store.state[use] && (isNarrow() || (chosen.calibration && chosen.test))) intake.open = false;
    if (use === "calibration") {
      showImages();
      void calibrationImages.show(0);
    }
  }

  function showImages(): void {
    const list = (chosen.calibration?.data ?? []).filter(({ name }) => isImage(name));
    images.hidden = list.length === 0;
    calibrationImages.showThumbnails(list);
  }

  store.listen((state, changed) => {
    // What is being measured must be what is shown here.
    byId("data").inert = state.busy;
    if (changed.has("model")) {
      delete chosen.calibration;
      delete chosen.test;
      byId("data").hidden = !state.model;
      batchSize.disabled = state.model?.program.inputs.some(({ shape }) => typeof shape?.[0] === "number") ?? false;
      batchSize.title = batchSize.disabled ? "the model fixes the size of its batches" : "";
      intake.open = true;
      showImages();
    }
    for (const use of ["calibration", "test"] as const) {
      const info = state[use]?.info;
      summary[use].textContent = info
        ? `${use === "calibration" ? "Calibration" : "Test"}: ${info.samples} sample${info.samples === 1 ? "" : "s"} ` +
          `in ${info.batches} batch${info.batches === 1 ? "" : "es"}` +
          `${info.labels ? ", with labels" : ""}.${info.folders ? ` No labels: ${info.folders}.` : ""}` +
          info.warnings.map((warning) => ` Warning: ${warning}.`).join("")
        : "";
    }
  });
  return { take };
}
