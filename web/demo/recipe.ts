// Recipes as values: what a click changes in them, and how two of them differ. The JSON is that of --recipe.
import type { Recipe } from "qdq";

export type Setting = Record<string, unknown> | null; // null: stays float
export type Section = "module_name" | "module_type" | "operator_type";
type Entry = [name: string, setting: Setting];

// The page edits recipes of any kind by the names of their fields.
const fieldsOf = (recipe: Recipe): Record<string, unknown> => ({ ...recipe });

const entries = (recipe: Recipe, section: string): Entry[] =>
  ((fieldsOf(recipe)[section] as Entry[] | undefined) ?? []).map(([name, setting]) => [name, setting]);

// The recipe with the setting of a module or a type; undefined takes it out, so that the rest of the recipe decides.
export function withSetting(recipe: Recipe, section: Section, name: string, setting: Setting | undefined): Recipe {
  const others = entries(recipe, section).filter(([other]) => other !== name);
  const list = setting === undefined ? others : [...others, [name, setting]];
  const { [section]: _, ...rest } = fieldsOf(recipe);
  return (list.length > 0 ? { ...rest, [section]: list } : rest) as unknown as Recipe;
}

export const settingOf = (recipe: Recipe, section: Section, name: string): Setting | undefined =>
  entries(recipe, section).find(([other]) => other === name)?.[1];

// The recipe with one field of its global setting changed; a value that is the default is left out.
export function withGlobal(recipe: Recipe, field: string, value: boolean): Recipe {
  const { [field]: _, ...rest } = (fieldsOf(recipe).global as Record<string, unknown> | undefined) ?? {};
  return { ...recipe, global: value ? { ...rest, [field]: true } : rest } as unknown as Recipe;
}

export const globalOf = (recipe: Recipe, field: string): boolean =>
  (fieldsOf(recipe).global as Record<string, unknown> | undefined)?.[field] === true;

interface Choice {
  label: string;
  setting: Setting | undefined;
}
const weightsAlone = (quantMin: number, quantMax: number): Setting => ({
  weight: {
    spec: "quantization",
    dtype: "int8",
    quant_min: quantMin,
    quant_max: quantMax,
    qscheme: "per_channel_symmetric",
    ch_axis: 0,
    observer: { class: "PerChannelMinMaxObserver" },
  },
});
const choices: Record<string, readonly Choice[]> = {
  X86InductorQuantizer: [
    { label: "int8", setting: {} },
    { label: "int8, dynamic", setting: { is_dynamic: true } },
    { label: "int8, reduced range", setting: { reduce_range: true } },
  ],
  XNNPACKQuantizer: [
    { label: "int8 per channel", setting: { is_per_channel: true } },
    { label: "int8 per tensor", setting: {} },
    { label: "int8 dynamic (linear)", setting: { is_per_channel: true, is_dynamic: true } },
    { label: "int8, 4-bit weights", setting: { is_per_channel: true, weight_qmin: -8, weight_qmax: 7 } },
    { label: "int8, weights only", setting: weightsAlone(-127, 127) },
  ],
};

// What can be said of a layer, by quantizer; the first is the rule of the recipe itself. Empty for quantizers without
// such settings.
export function choicesFor({ quantizer }: Recipe): readonly Choice[] {
  const own = choices[quantizer];
  return own ? [{ label: "by the recipe", setting: undefined }, { label: "float", setting: null }, ...own] : [];
}

// A recipe or a preprocessing as JSON with one line for each layer, so that a diff shows a layer as a line.
export function settingsText(settings: object): string {
  const lines = Object.entries(settings).map(([key, value]) => {
    const list =
      Array.isArray(value) && Array.isArray(value[0])
        ? `[\n${value.map((entry) => `    ${JSON.stringify(entry)}`).join(",\n")}\n  ]`
        : JSON.stringify(value);
    return `  ${JSON.stringify(key)}: ${list}`;
  });
  return `{\n${lines.join(",\n")}\n}`;
}

export interface DiffLine {
  sign: " " | "+" | "-";
  text: string;
}

// The lines of both texts along a longest common subsequence.
export function diffLines(before: string, after: string): DiffLine[] {
  const a = before.split("\n");
  const b = after.split("\n");
  const common = Array.from({ length: a.length + 1 }, () => new Array<number>(b.length + 1).fill(0));
  for (let i = a.length - 1; i >= 0; --i) {
    for (let k = b.length - 1; k >= 0; --k)
      common[i]![k] = a[i] === b[k] ? common[i + 1]![k + 1]! + 1 : Math.max(common[i + 1]![k]!, common[i]![k + 1]!);
  }
  const out: DiffLine[] = [];
  let i = 0;
  let k = 0;
  while (i < a.length || k < b.length) {
    if (i < a.length && k < b.length && a[i] === b[k]) {
      out.push({ sign: " ", text: a[i]! });
      ++i;
      ++k;
    } else if (k === b.length || (i < a.length && common[i + 1]![k]! >= common[i]![k + 1]!))
      out.push({ sign: "-", text: a[i++]! });
    else out.push({ sign: "+", text: b[k++]! });
  }
  return out;
}
