// Quantization-aware training: a program with fake quantizers in it learns to live with their rounding, on data that
// stays where it is.
import { QdqError } from "./error.js";
import { Handle } from "./handle.js";
import { handleOf, module, unwrap, whole } from "./module.js";
import type { LongWork } from "./pt2e.js";
import { Prepared, callbacks, isIterable, totalOf } from "./pt2e.js";
import { checkOptions } from "./options.js";
import { Program } from "./program.js";
import type { AnyQuantizer } from "./quantizer.js";
import { RecipeWriter } from "./quantizer.js";
import type { Tensor } from "./tensor.js";
import { rawInputs, tensor, toRaw } from "./tensor.js";

// A program with fake quantizers in it. run() observes and rounds; convertPt2e() folds its batch norms.
export class PreparedQat extends Prepared {
  // Whether the fake quantizers take in what passes.
  enableObserver(enabled = true): void {
    unwrap(module().switchPrepared(this.handle, "observer", enabled));
  }

  // Whether they round it.
  enableFakeQuant(enabled = true): void {
    unwrap(module().switchPrepared(this.handle, "fake_quant", enabled));
  }

  // Batch norms take in the statistics of batches (move_exported_model_to_train).
  train(): void {
    unwrap(module().switchPrepared(this.handle, "training", true));
  }

  // Batch norms keep the statistics that they have (move_exported_model_to_eval).
  eval(): void {
    unwrap(module().switchPrepared(this.handle, "training", false));
  }
}

// A program that was exported in training mode in its inference form: batch norms use their running statistics,
// dropouts do nothing. The program itself is left as it was.
export const moveExportedModelToEval = (program: Program): Program =>
  new Program(unwrap(module().moveToEval(handleOf(program))), whole);

// Puts fake quantizers where the quantizer wants them, whose settings have isQat, and rewrites convolutions in front of
// batch norms so that their weights are rounded as they will be when folded. The program is left as it was.
export function prepareQatPt2e(program: Program, quantizer: AnyQuantizer): PreparedQat {
  const writer = new RecipeWriter();
  const recipe = JSON.stringify(writer.quantizer(quantizer));
  return new PreparedQat(unwrap(module().preparePt2e(handleOf(program), recipe, callbacks(writer), true)), whole);
}

export interface TrainingOptions {
  loss?: "cross_entropy" | "mse"; // of the program's first output; default cross_entropy
  optimizer?: "sgd" | "adam"; // default sgd
  lr?: number; // default 0.01; fine-tuning a trained model wants less: 3e-5 of sgd, 1e-5 of adam
  momentum?: number; // of sgd; default 0
  weightDecay?: number; // default 0
}

export interface TrainingBatch {
  inputs: readonly Tensor[];
  // Classes (numbers, or an int64 tensor) for cross_entropy; a float32 tensor of the output's shape for mse.
  target: readonly number[] | Tensor;
}

export class Trainer extends Handle {
  // Throws QdqError{Unsupported} that lists all operators without a gradient, and QdqError{InvalidArgument} for options
  // that make no sense.
  constructor(prepared: PreparedQat, options: TrainingOptions = {}) {
    checkOptions("Trainer", options, ["loss", "optimizer", "lr", "momentum", "weightDecay"]);
    if (options.loss !== undefined && typeof options.loss !== "string")
      throw new QdqError("InvalidArgument", `loss is a ${typeof options.loss}; wanted "cross_entropy" or "mse"`);
    super(unwrap(module().makeTrainer(handleOf(prepared), JSON.stringify(options))), whole);
  }

  // One step of the optimizer; returns the loss before it.
  step({ inputs, target }: TrainingBatch): number {
    const raw = Array.isArray(target)
      ? tensor(BigInt64Array.from(target, (label: number) => BigInt(label)))
      : (target as Tensor);
    return unwrap(module().trainStep(this.handle, rawInputs(inputs), toRaw(raw, "the target")));
  }

  // Sets the learning rate of the steps to come.
  setLr(lr: number): void {
    unwrap(module().setLearningRate(this.handle, lr));
  }

  // The names of the parameters that are trained.
  parameters(): string[] {
    return JSON.parse(unwrap(module().trainedParameters(this.handle)));
  }

  // A step for each batch; returns the mean of the losses. Between two batches other work gets its turn. Throws
  // QdqError{Cancelled} when the signal says so; what was learned until then stays.
  async train(batches: Iterable<TrainingBatch> | AsyncIterable<TrainingBatch>, work: LongWork = {}): Promise<number> {
    if (!isIterable(batches)) {
      throw new QdqError(
        "InvalidArgument",
        "the training data is no list or iterable of batches; wanted train([{ inputs: [tensor], target }, ...])",
      );
    }
    const total = totalOf(batches);
    let done = 0;
    let sum = 0;
    for await (const batch of batches) {
      if (work.signal?.aborted) throw new QdqError("Cancelled", `training was cancelled after ${done} batches`);
      const loss = this.step(batch);
      sum += loss;
      done += 1;
      work.onProgress?.({ stage: "train", done, ...total, loss });
      await new Promise((resolve) => setTimeout(resolve));
    }
    return sum / done;
  }
}
