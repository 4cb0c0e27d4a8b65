// What the page knows, and who wants to hear of it.
import type { LayerError, Recipe } from "qdq";
import type { Engine } from "./engine.js";
import type { DataChoice, DataInfo, Evaluation, Explained, ModelInfo, Quantized } from "./protocol.js";

export interface Chosen {
  choice: DataChoice;
  info: DataInfo;
}

export interface Run {
  recipe: Recipe;
  quantized: Quantized;
  errors?: readonly LayerError[];
  evaluation?: Evaluation;
  evaluatedOn?: Chosen; // the data of the evaluation
}

export interface State {
  engine?: Engine;
  name: string; // of the model's file
  model?: ModelInfo;
  calibration?: Chosen;
  test?: Chosen;
  classes: readonly string[];
  recipe: Recipe;
  explanation?: Explained;
  explanationError?: string;
  busy: boolean; // whether long work is under way
  runs: readonly Run[]; // the latest is last
}

type Listener = (state: State, changed: ReadonlySet<keyof State>) => void;

export const defaultRecipe: Recipe = { quantizer: "XNNPACKQuantizer", global: { is_per_channel: true } };

export class Store {
  state: State = { name: "", classes: [], recipe: defaultRecipe, busy: false, runs: [] };
  readonly #listeners: Listener[] = [];

  listen(listener: Listener): void {
    this.#listeners.push(listener);
  }

  // Changes some fields; undefined takes a field away.
  update(changes: { [K in keyof State]?: State[K] | undefined }): void {
    this.state = { ...this.state, ...changes } as State;
    const changed = new Set(Object.keys(changes) as (keyof State)[]);
    for (const listener of this.#listeners) listener(this.state, changed);
  }
}

// The data that results are measured on.
export const measuringData = ({ test, calibration }: State): Chosen | undefined => test ?? calibration;
// Whether there is all that quantizing takes.
export const canQuantize = ({ calibration, explanation }: State): boolean =>
  calibration !== undefined || explanation?.needsData === false;
export const lastRun = (state: State): Run | undefined => state.runs.at(-1);
