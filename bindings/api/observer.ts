// Observers of a prepared program as plain data.
import type { EdgeOrNode, QScheme } from "./qspec.js";
import type { DType } from "./tensor.js";

/** One observer and everything that shares it: what the command line's --observers writes, in JavaScript's names. */
export interface ObserverReport {
  /** Its number in the prepared program. */
  id: number;
  /** Its class: "HistogramObserver". */
  class: string;
  /** The edges and nodes whose values it observes. */
  covers: readonly EdgeOrNode[];
  /** The names of the nodes that it stands in the graph as. */
  insertedAs: readonly string[];
  [field: string]: unknown;
}

/** A summary of an observer. Fields that need data are missing before it has seen any. */
export interface ObserverSummary {
  /** Its number in the prepared program. */
  id: number;
  /** Its class: "HistogramObserver". */
  class: string;
  /** The dtype of the integers. */
  dtype: DType;
  /** The quantization scheme. */
  qscheme: QScheme;
  /** The least integer. */
  quantMin: number;
  /** The largest integer. */
  quantMax: number;
  /** [node] or [producer, consumer]. */
  covers: readonly (readonly string[])[];
  /** The number of its scales: 1, or one for each channel. */
  channels: number;
  /** The observed range. */
  min?: number;
  /** The largest observed value. */
  max?: number;
  /** Its histogram from min to max. */
  counts?: readonly number[];
  /** The range of its integers. */
  low?: number;
  /** The largest value of its integers. */
  high?: number;
  /** The scale, if there is one for the whole tensor. */
  scale?: number;
  /** The integer that stands for 0, if there is one for the whole tensor. */
  zeroPoint?: number;
  /** The share of the values outside [low, high]. */
  clipped?: number;
}
