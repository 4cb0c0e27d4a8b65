// What the page knows, and who wants to hear of it.
import type { LayerError, Recipe } from "qdq";
import type { Engine } from "./engine.js";
import type { DataChoice, DataInfo, Evaluation, Explained, ModelInfo, Quantized, Sample, Target } from "./protocol.js";

export interface Chosen {
  choice: DataChoice;
  info: DataInfo;
}

export interface Run {
  id: number; // counts the results of the page from 1
  name: string; // that the person gave
  recipe: Recipe;
  target?: Target;
  quantized: Quantized;
  gained: string; // what recovery or operators in float brought, or ""
  errors?: readonly LayerError[];
  evaluation?: Evaluation;
  evaluatedOn?: Chosen; // the data of the evaluation
  samples?: readonly Sample[]; // of the predictions, or the first where the model does not classify
}

export const tabNames = ["result", "layers", "graph", "observers", "predictions", "compare", "pareto"] as const;
export type Tab = (typeof tabNames)[number];

export interface State {
  engine?: Engine;
  name: string; // of the model's file
  model?: ModelInfo;
  isExample: boolean;
  calibration?: Chosen;
  test?: Chosen;
  classes: readonly string[];
  vocabulary: readonly string[]; // of the model's tokenizer, by number
  recipe: Recipe;
  target?: Target; // the runtime whose profile the recipe is
  explanation?: Explained;
  explanationError?: string;
  busy: boolean; // whether long work is under way
  runs: readonly Run[]; // the latest is last
  shown?: number; // the id of the run that the views show
  tab: Tab;
  node: string; // the operator or module that the graph shows, or ""
  find: string; // what the table of layers is searched for
}

type Listener = (state: State, changed: ReadonlySet<keyof State>) => void;

export const defaultRecipe: Recipe = { quantizer: "XNNPACKQuantizer", global: { is_per_channel: true } };

export class Store {
  state: State = {
    name: "",
    isExample: false,
    classes: [],
    vocabulary: [],
    recipe: defaultRecipe,
    busy: false,
    runs: [],
    tab: "layers",
    node: "",
    find: "",
  };
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

  // Changes what is known of one run.
  updateRun(id: number, changes: Partial<Run>): void {
    this.update({ runs: this.state.runs.map((run) => (run.id === id ? { ...run, ...changes } : run)) });
  }
}

// The data that results are measured on.
export const measuringData = ({ test, calibration }: State): Chosen | undefined => test ?? calibration;
// Whether there is all that quantizing takes.
export const canQuantize = ({ calibration, explanation, explanationError }: State): boolean =>
  explanationError === undefined && (calibration !== undefined || explanation?.needsData === false);
// The run that the views show.
export const shownRun = ({ runs, shown }: State): Run | undefined => runs.find(({ id }) => id === shown) ?? runs.at(-1);
// The size of a result's file as its model's or runtime's kind has it.
export const sizeOf = ({ quantized: { onnx, file } }: Run): number => (onnx ?? file).size;
// What is not measured yet on the data that is there.
export function isUnmeasured(state: State): boolean {
  const run = shownRun(state);
  const data = measuringData(state);
  return run !== undefined && data !== undefined && (!run.errors || run.evaluatedOn !== data);
}
