// The data to calibrate on, how images become inputs, and data to measure on.
import { h } from "../../src/report/html/dom.js";
import { dropZone, noneOf } from "./files.js";
import { byId, isImage, isNarrow, problemLine } from "./page.js";
import type { DataChoice, NamedFile } from "./protocol.js";
import { settingsText } from "./recipe.js";
import type { Store } from "./state.js";
import { readVocabulary } from "./vocabulary.js";
import { workLine } from "./work.js";

const thumbnails = 12;

// The presets that most models were trained with.
const presets: Record<string, Record<string, unknown>> = {
  "ImageNet (torchvision)": { resize: 256, crop: 224, mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] },
  "-1 to 1": { mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5] },
  "0 to 1": {},
};

// A preprocessing for the input's shape [N, C, H, W] or [N, H, W, C], to begin with.
function guess(shape: readonly (number | string)[] = []): Record<string, unknown> {
  const [, a, b, c] = shape;
  const last = typeof c === "number" && c <= 3 && typeof a === "number" && a > 3;
  const size = last ? [a, b] : [b, c];
  const channels = last ? c : a;
  return {
    ...(size.every((side) => typeof side === "number") && { resize: Math.min(...(size as number[])), crop: size }),
    ...(channels === 1 ? { grayscale: true } : { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] }),
    ...(last && { layout: "NHWC" }),
  };
}

interface Files {
  data: readonly NamedFile[];
  labels: string | undefined;
}

export interface DataStep {
  take(use: "calibration" | "test", files: readonly NamedFile[]): Promise<void>;
}

export function dataStep(store: Store): DataStep {
  let preprocess: Record<string, unknown> = {};
  const { element: problem, fail } = problemLine();
  const work = workLine("data");
  const summary = { calibration: h("p", { id: "calibration-summary" }), test: h("p", { id: "test-summary" }) };
  const pictures = h("div", { class: "pictures", role: "group", "aria-label": "calibration images" });
  const batchSize = h("input", {
    type: "number",
    id: "batch-size",
    min: "1",
    value: "16",
    onchange: () => void again(),
  });
  const limit = h("input", { type: "number", id: "limit", min: "0", value: "0", onchange: () => void again() });
  const canvas = h("canvas", { width: 1, height: 1, role: "img", "aria-label": "an image as the model sees it" });
  const caption = h("p", { "aria-live": "polite" });
  const text = h("textarea", {
    id: "preprocess",
    rows: 8,
    spellcheck: false,
    onchange: () => setPreprocess(text.value),
  });
  const controls = h("div", { class: "controls" });
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
      h("div", {}, controls, h("label", { for: "preprocess" }, "The same as JSON (--preprocess)"), text),
      h("div", { class: "preview" }, canvas, caption),
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

  function setPreprocess(json: string): void {
    try {
      preprocess = JSON.parse(json) as Record<string, unknown>;
    } catch (error) {
      fail(`the preprocessing is not JSON: ${(error as Error).message}`);
      return;
    }
    showControls();
    void again();
  }

  function change(key: string, value: unknown): void {
    const { [key]: _, ...rest } = preprocess;
    setPreprocess(JSON.stringify(value === undefined ? rest : { ...rest, [key]: value }));
  }

  function showControls(): void {
    // Numbers as people write them: 1/255 for what JSON gives seventeen digits.
    const written = (value: unknown): string => {
      const part = typeof value === "number" && value > 0 && value < 1 ? Math.round(1 / value) : 0;
      return part > 1 && String(value).length > 8 && 1 / part === value ? `1/${part}` : String(value);
    };
    const show = (key: string): string =>
      preprocess[key] === undefined ? "" : [preprocess[key]].flat().map(written).join(", ");
    const numbers = (key: string, label: string, hint: string, single: boolean): HTMLElement => {
      const input = h("input", {
        type: "text",
        value: show(key),
        placeholder: hint,
        onchange: () => {
          const values = input.value
            .split(/[ ,]+/)
            .filter(Boolean)
            .map((word) =>
              word
                .split("/")
                .map(Number)
                .reduce((whole, part) => whole / part),
            );
          if (values.some(Number.isNaN)) return fail(`${label}: "${input.value}" holds no numbers`);
          change(key, values.length === 0 ? undefined : single && values.length === 1 ? values[0] : values);
        },
      });
      return h("label", {}, `${label} `, input);
    };
    const choice = (key: string, label: string, options: readonly string[]): HTMLElement => {
      const select = h(
        "select",
        { onchange: () => change(key, select.value) },
        ...options.map((option) => h("option", { selected: (preprocess[key] ?? options[0]) === option }, option)),
      );
      return h("label", {}, `${label} `, select);
    };
    const preset = h(
      "select",
      { onchange: () => setPreprocess(JSON.stringify(presets[preset.value] ?? preprocess)) },
      h("option", {}, "as below"),
      ...Object.keys(presets).map((name) => h("option", {}, name)),
    );
    const gray = h("input", {
      type: "checkbox",
      checked: preprocess.grayscale === true,
      onchange: () => change("grayscale", gray.checked || undefined),
    });
    controls.replaceChildren(
      h("label", {}, "Preset ", preset),
      numbers("resize", "Resize", "short side, or H, W", true),
      numbers("crop", "Crop", "side, or H, W", true),
      choice("filter", "Filter", ["bilinear", "nearest", "bicubic", "area"]),
      numbers("scale", "Scale", "1/255", true),
      numbers("mean", "Mean", "0", false),
      numbers("std", "Std", "1", false),
      choice("channel_order", "Channels", ["RGB", "BGR"]),
      choice("layout", "Layout", ["NCHW", "NHWC"]),
      h("label", {}, gray, " Gray"),
    );
    text.value = settingsText(preprocess);
    text.rows = Math.min(16, text.value.split("\n").length + 1);
  }

  function settings(): Omit<DataChoice, "files" | "labels"> {
    const { classes } = store.state;
    return {
      ...(classes.length > 0 && { classes }),
      preprocess,
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
    preprocess = choice.preprocess;
    showControls();
  }

  // Opens what was chosen with the settings of now.
  async function again(): Promise<void> {
    for (const use of ["calibration", "test"] as const) {
      const files = chosen[use];
      if (files && (await open(use, files))) return;
    }
    void showPreview();
  }

  const chosen: { calibration?: Files; test?: Files } = {};

  async function take(use: "calibration" | "test", files: readonly NamedFile[]): Promise<void> {
    fail("");
    const named = (end: string): NamedFile | undefined =>
      files.find(({ name }) => name.split("/").at(-1)!.endsWith(end));
    const tokenizer = files.find(({ name }) => /(^|\/)(tokenizer\.json|vocab\.txt)$/.test(name));
    const how = files.find((file) => file !== tokenizer && file.name.split("/").at(-1)!.endsWith(".json"));
    const classes = files.find(({ name }) => /(class|label)[^/]*\.txt$/i.test(name));
    const arrays = files.filter(({ name }) => /\.np[yz]$/i.test(name));
    const labels = named(".csv") ?? (arrays.length > 1 ? arrays.find(({ name }) => /label/i.test(name)) : undefined);
    const data = files.filter(({ name }) => isImage(name) || /\.np[yz]$/i.test(name));
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
        preprocess = JSON.parse(await how.file.text()) as Record<string, unknown>;
      } catch (error) {
        return fail(`${how.name} is not JSON: ${(error as Error).message}`);
      }
    } else if (use === "calibration" && !chosen.calibration) {
      preprocess = guess(store.state.model?.program.inputs[0]?.shape);
      // A guess decides the accuracy: whoever knows better must see it.
      images.open = true;
    }
    showControls();
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
      showThumbnails();
      void showPreview(0);
    }
  }

  // What the browser cannot draw leaves its place empty; the message beside it says what is wrong with the file.
  const picture = (src: string): HTMLImageElement => {
    const image = h("img", { src, alt: "", loading: "lazy", onerror: () => (image.style.visibility = "hidden") });
    return image;
  };

  let urls: string[] = [];
  function showThumbnails(): void {
    urls.forEach((url) => URL.revokeObjectURL(url));
    const list = (chosen.calibration?.data ?? []).filter(({ name }) => isImage(name));
    images.hidden = list.length === 0;
    const first = list.slice(0, thumbnails);
    urls = first.map(({ file }) => URL.createObjectURL(file));
    pictures.replaceChildren(
      ...first.map(({ name }, i) =>
        h(
          "button",
          {
            type: "button",
            class: "thumbnail",
            title: name,
            "aria-label": `preview ${name}`,
            onclick: () => void showPreview(i),
          },
          picture(urls[i]!),
        ),
      ),
      ...(list.length > thumbnails ? [h("span", {}, `and ${list.length - thumbnails} more`)] : []),
    );
  }

  let previewed = 0;
  async function showPreview(index = previewed): Promise<void> {
    const { engine, calibration } = store.state;
    if (!engine || images.hidden || !calibration) return;
    const list = calibration.choice.files.filter(({ name }) => isImage(name));
    previewed = Math.min(index, list.length - 1);
    try {
      const { width, height, pixels } = await engine.call("preview", [calibration.choice, previewed]);
      caption.textContent = `${list[previewed]?.name} as the model sees it.`;
      canvas.hidden = false;
      canvas.width = width;
      canvas.height = height;
      canvas.getContext("2d")!.putImageData(new ImageData(pixels, width, height), 0, 0);
    } catch (error) {
      canvas.hidden = true;
      caption.textContent = "";
      fail((error as Error).message);
    }
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
      showThumbnails();
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
