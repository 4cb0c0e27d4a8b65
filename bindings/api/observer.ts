// Observers of a prepared program as plain data.
import type { EdgeOrNode, QScheme } from "./quantizer.js";
import type { DType } from "./tensor.js";

// One observer and everything that shares it: what the command line's --observers writes, in JavaScript's names.
export interface ObserverReport {
  id: number;
  class: string;
  covers: readonly EdgeOrNode[];
  insertedAs: readonly string[];
  [field: string]: unknown;
}

// An observer in short. What needs data is missing before it was seen.
export interface ObserverSummary {
  id: number;
  class: string;
  dtype: DType;
  qscheme: QScheme;
  quantMin: number;
  quantMax: number;
  covers: readonly (readonly string[])[]; // [node] or [producer, consumer]
  channels: number;
  min?: number; // the range that it saw
  max?: number;
  counts?: readonly number[]; // its histogram from min to max
  low?: number; // the range that its integers reach
  high?: number;
  scale?: number; // where there is one for the whole tensor
  zeroPoint?: number;
  clipped?: number; // the share of the values that lies outside of [low, high]
}
