// How images become inputs: the settings of preprocess.json as controls and as JSON.
import { h } from "../../src/report/html/dom.js";
import { settingsText } from "./recipe.js";

type Settings = Record<string, unknown>;

// The presets that most models were trained with.
const presets: Record<string, Settings> = {
  "ImageNet (torchvision)": { resize: 256, crop: 224, mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] },
  "-1 to 1": { mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5] },
  "0 to 1": {},
};

// A setting takes the place of those that it does not go with.
const replaced: Record<string, readonly string[]> = {
  letterbox: ["resize", "crop"],
  resize: ["letterbox", "pad", "pad_position"],
};

// The settings with another one, or without it where the value is undefined.
function settingsWith(settings: Settings, key: string, value: unknown): Settings {
  const gone = [key, ...(value === undefined ? [] : (replaced[key] ?? []))];
  const rest = Object.fromEntries(Object.entries(settings).filter(([name]) => !gone.includes(name)));
  return value === undefined ? rest : { ...rest, [key]: value };
}

// A preprocessing for the input's shape [N, C, H, W] or [N, H, W, C], to begin with.
export function guessPreprocess(shape: readonly (number | string)[] = []): Settings {
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

// The settings in a preprocess.json; else an error says what is wrong with it.
export function readPreprocess(json: string): Settings {
  const settings: unknown = JSON.parse(json);
  if (typeof settings !== "object" || settings === null || Array.isArray(settings))
    throw new Error('it is no object; wanted one such as {"resize": 256, "crop": 224}');
  return settings as Settings;
}

// A number as people write it: 1/255 for what JSON gives seventeen digits.
function written(value: unknown): string {
  const part = typeof value === "number" && value > 0 && value < 1 ? Math.round(1 / value) : 0;
  return part > 1 && String(value).length > 8 && 1 / part === value ? `1/${part}` : String(value);
}

// The numbers of a text such as "1/255, 0.5"; NaN for what is none.
const numbersOf = (text: string): number[] =>
  text
    .split(/[ ,]+/)
    .filter(Boolean)
    .map((word) =>
      word
        .split("/")
        .map(Number)
        .reduce((whole, part) => whole / part),
    );

// A list of the presets; "as below" chooses none.
function presetChoice(choose: (preset: Settings) => void): HTMLElement {
  const names = ["as below", ...Object.keys(presets)];
  const chosen = (): Settings | undefined => presets[select.value];
  const select = h(
    "select",
    { onchange: () => chosen() && choose(chosen()!) },
    ...names.map((name) => h("option", {}, name)),
  );
  return h("label", {}, "Preset ", select);
}

export interface PreprocessControls {
  controls: HTMLElement;
  text: HTMLElement; // the JSON, with the id "preprocess"
  settings(): Settings;
  show(settings: Settings): void; // does not call `changed`
}

// `changed` is called when a person changed the settings, `fail` with what is wrong about what was entered.
export function preprocessControls(changed: () => void, fail: (problem: string) => void): PreprocessControls {
  let settings: Settings = {};
  const controls = h("div", { class: "controls" });
  const text = h("textarea", { id: "preprocess", rows: 8, spellcheck: false, onchange: () => parse(text.value) });

  function parse(json: string): void {
    try {
      become(readPreprocess(json));
    } catch (error) {
      fail(`the preprocessing could not be read: ${(error as Error).message}`);
    }
  }

  function become(next: Settings): void {
    show(next);
    changed();
  }

  function change(key: string, value: unknown): void {
    become(settingsWith(settings, key, value));
  }

  function numbers(key: string, label: string, hint: string, isSingle: boolean): HTMLElement {
    const shown = settings[key] === undefined ? "" : [settings[key]].flat().map(written).join(", ");
    const input = h("input", {
      type: "text",
      value: shown,
      placeholder: hint,
      onchange: () => {
        const values = numbersOf(input.value);
        if (values.some(Number.isNaN)) return fail(`${label}: "${input.value}" holds no numbers`);
        change(key, values.length === 0 ? undefined : isSingle && values.length === 1 ? values[0] : values);
      },
    });
    return h("label", {}, `${label} `, input);
  }

  function choice(key: string, label: string, options: readonly string[]): HTMLElement {
    const select = h(
      "select",
      { onchange: () => change(key, select.value) },
      ...options.map((option) => h("option", { selected: (settings[key] ?? options[0]) === option }, option)),
    );
    return h("label", {}, `${label} `, select);
  }

  function show(next: Settings): void {
    settings = next;
    const gray = h("input", {
      type: "checkbox",
      checked: settings.grayscale === true,
      onchange: () => change("grayscale", gray.checked || undefined),
    });
    controls.replaceChildren(
      presetChoice(become),
      numbers("resize", "Resize", "short side, or H, W", true),
      numbers("letterbox", "Letterbox", "side, or H, W", true),
      numbers("crop", "Crop", "side, or H, W", true),
      choice("filter", "Filter", ["bilinear", "nearest", "bicubic", "area"]),
      numbers("scale", "Scale", "1/255", true),
      numbers("mean", "Mean", "0", false),
      numbers("std", "Std", "1", false),
      choice("channel_order", "Channels", ["RGB", "BGR"]),
      choice("layout", "Layout", ["NCHW", "NHWC"]),
      h("label", {}, gray, " Gray"),
    );
    text.value = settingsText(settings);
    text.rows = Math.min(16, text.value.split("\n").length + 1);
  }

  show(settings);
  return { controls, text, settings: () => settings, show };
}
