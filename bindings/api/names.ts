// Names of fields: snake_case in JSON, as PyTorch, recipes and C++ write them, and camelCase in JavaScript.

import { jsonOf } from "./options.js";

// What these hold is named by a model, or by PyTorch: arguments of its functions, nodes of a pattern, a recipe.
const verbatim = new Set(["args", "kwargs", "name_node_map", "recipe"]);

export const snakeCase = (key: string): string => key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
const camelCase = (key: string): string => key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());

function renamed(value: unknown, rename: (key: string) => string): unknown {
  if (Array.isArray(value)) return value.map((element) => renamed(element, rename));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, field]) => [rename(key), verbatim.has(key) ? field : renamed(field, rename)]),
  );
}

// The objects that C++ wrote as JSON: its `quant_min` is `quantMin` here.
export const fromJson = <T>(text: string): T => renamed(JSON.parse(text), camelCase) as T;

// The same objects as JSON for C++. `what` is the value's name in errors.
export const toJson = (value: unknown, what = "what was given"): string =>
  jsonOf(() => renamed(value, snakeCase), what);
