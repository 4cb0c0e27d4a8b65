// Quantization-aware training in the worker, with the defaults of `qdq train` and to its bytes.
import { Trainer, lower, prepareQatPt2e } from "qdq";
import type { Data, PreparedQat, Program, Recipe, Tensor } from "qdq";
import type { Stage } from "./protocol.js";

type Fields = Record<string, unknown>;
const isPlain = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);

// The recipe with is_qat in all settings that do not say: nobody trains with observers that do not round.
function recipeForTraining(recipe: Recipe): Recipe {
  const set = (config: unknown): unknown =>
    isPlain(config) && !("config" in config) && !("is_qat" in config) ? { ...config, is_qat: true } : config;
  const fields: Fields = { ...recipe };
  if ("global" in fields) fields.global = set(fields.global);
  for (const section of ["module_type", "operator_type", "module_name", "function_type", "object_type"])
    if (Array.isArray(fields[section]))
      fields[section] = (fields[section] as unknown[]).map((entry) =>
        Array.isArray(entry) && entry.length === 2 ? [entry[0], set(entry[1])] : entry,
      );
  if (Array.isArray(fields.quantizers)) fields.quantizers = fields.quantizers.map((part) => recipeForTraining(part));
  return (recipe.quantizer === "QConfigMapping" ? set(fields) : fields) as Recipe;
}

// All samples in memory, in an order that changes from epoch to epoch.
class Samples {
  readonly #inputs: { dtype: Tensor["dtype"]; shape: readonly number[]; rows: Tensor["data"][] }[] = [];
  readonly #order: number[];
  readonly #batch: number;
  #state = 0n;

  constructor(data: Data) {
    let batch = 1;
    for (let i = 0; i < data.numBatches; ++i)
      data.batch(i).forEach(({ dtype, shape, data: values }, input) => {
        if (i === 0 && input === 0) batch = shape[0]!;
        const size = values.length / shape[0]!;
        const { rows } = (this.#inputs[input] ??= { dtype, shape: shape.slice(1), rows: [] });
        for (let k = 0; k < shape[0]!; ++k) rows.push(values.slice(k * size, (k + 1) * size));
      });
    this.#batch = batch;
    this.#order = Array.from({ length: data.numSamples }, (_, i) => i);
  }
  // Samples that do not fill a batch wait for another epoch's order.
  get numBatches(): number {
    return Math.max(1, Math.floor(this.#order.length / this.#batch));
  }
  // Fisher and Yates, by a 64-bit congruential generator.
  shuffle(): void {
    for (let i = this.#order.length - 1; i > 0; --i) {
      this.#state = BigInt.asUintN(64, this.#state * 6364136223846793005n + 1442695040888963407n);
      const k = Number((this.#state >> 33n) % BigInt(i + 1));
      [this.#order[i], this.#order[k]] = [this.#order[k]!, this.#order[i]!];
    }
  }
  batch(index: number): { places: number[]; inputs: Tensor[] } {
    const places = this.#order.slice(index * this.#batch, (index + 1) * this.#batch);
    const inputs = this.#inputs.map(({ dtype, shape, rows }) => {
      const size = rows[0]!.length;
      const Values = rows[0]!.constructor as new (length: number) => Float32Array;
      const values = new Values(size * places.length);
      places.forEach((place, k) => values.set(rows[place] as Float32Array, k * size));
      return { dtype, shape: [places.length, ...shape], data: values } as Tensor;
    });
    return { places, inputs };
  }
}

// Trains on the classes of the samples, or without them on what the float model answers. The result is ready to be
// converted; `losses` is the mean of each epoch.
export function train(
  program: Program,
  recipe: Recipe,
  { data, labels }: { data: Data; labels?: readonly number[] },
  epochs: number,
  progress: (stage: Stage) => void,
): { prepared: PreparedQat; losses: number[] } {
  const prepared = prepareQatPt2e(program, recipeForTraining(recipe));
  try {
    return { prepared, losses: run(program, prepared, new Samples(data), labels, epochs, progress) };
  } catch (error) {
    prepared.dispose();
    throw error;
  }
}

function run(
  program: Program,
  prepared: PreparedQat,
  samples: Samples,
  labels: readonly number[] | undefined,
  epochs: number,
  progress: (stage: Stage) => void,
): number[] {
  const batches = samples.numBatches;
  const steps = epochs * batches;
  const lr = 1e-5 * Math.min(30, Math.max(1, steps / 18));
  using trainer = new Trainer(prepared, {
    optimizer: "adam",
    lr,
    schedule: { schedule: "cosine", totalSteps: steps },
    distillation: labels ? 0 : 1,
  });
  using teacher = labels ? undefined : lower(program);
  samples.shuffle();
  prepared.eval();
  prepared.enableFakeQuant(false);
  for (let i = 0; i < batches; ++i) {
    progress({ stage: "Calibrating", done: i, total: batches });
    prepared.run(samples.batch(i).inputs);
  }
  prepared.enableFakeQuant();
  prepared.train();
  // In the last third ranges and statistics stay, so that the weights settle for those that the int8 model will have.
  const frozen = epochs - Math.floor(epochs / 3);
  const losses: number[] = [];
  for (let epoch = 0; epoch < epochs; ++epoch) {
    if (epoch === frozen) prepared.enableObserver(false);
    if (epoch === Math.min(frozen, 1)) prepared.eval();
    samples.shuffle();
    let sum = 0;
    for (let i = 0; i < batches; ++i) {
      const loss = i > 0 ? `, loss ${(sum / i).toFixed(3)}` : "";
      const note = `epoch ${epoch + 1} of ${epochs}${loss}`;
      progress({ stage: "Training", done: epoch * batches + i, total: steps, note });
      const { places, inputs } = samples.batch(i);
      const target = labels && places.map((place) => labels[place]!);
      const wanted = teacher?.run(inputs)[0];
      sum += trainer.step({ inputs, ...(target && { target }), ...(wanted && { teacher: wanted }) });
    }
    losses.push(sum / batches);
  }
  prepared.eval();
  return losses;
}
