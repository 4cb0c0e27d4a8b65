// Quantization-aware training: a program with fake quantizers in it learns to live with their rounding, on data that
// stays where it is.
import { eachUnlessAborted, pause } from "./abort.js";
import { QdqError } from "./error.js";
import { Handle } from "./handle.js";
import { handleOf, module, unwrap, whole } from "./module.js";
import type { LongWork } from "./pt2e.js";
import { Prepared, callbacks, totalOf } from "./pt2e.js";
import { toJson } from "./names.js";
import { checkOptions, isFunction, isIterable, jsonOf, shown } from "./options.js";
import { Program } from "./program.js";
import type { AnyQuantizer } from "./quantizer.js";
import { RecipeWriter } from "./quantizer.js";
import type { Tensor } from "./tensor.js";
import { fromRaw, rawInputs, tensor, toRaw } from "./tensor.js";

/** A program with fake quantizers in it. run() observes and rounds; convertPt2e() folds its batch norms. */
export class PreparedQat extends Prepared {
  /** Whether the fake quantizers observe values. */
  enableObserver(enabled = true): void {
    unwrap(module().switchPrepared(this.handle, "observer", enabled));
  }

  /** Whether the fake quantizers round values. */
  enableFakeQuant(enabled = true): void {
    unwrap(module().switchPrepared(this.handle, "fake_quant", enabled));
  }

  /**
   * Replaces the fake quantizers that have a scale of their own with learnable ones (PyTorch's
   * _LearnableFakeQuantize). Call it before you make a Trainer; they estimate their scales until enableParamLearning().
   */
  learnQparams(options: { useGradScaling?: boolean } = {}): void {
    checkOptions("learnQparams", options, ["useGradScaling"]);
    const { useGradScaling = false } = options;
    unwrap(module().learnQparams(this.handle, useGradScaling));
  }

  /**
   * Whether scales and zero points are learnt with the weights (LSQ); enabled, the learnable fake quantizers round and
   * their observers are off.
   */
  enableParamLearning(enabled = true): void {
    unwrap(module().switchPrepared(this.handle, "param_learning", enabled));
  }

  /** Batch norms learn the statistics of batches (move_exported_model_to_train). */
  train(): void {
    unwrap(module().switchPrepared(this.handle, "training", true));
  }

  /** Batch norms keep their statistics (move_exported_model_to_eval). */
  eval(): void {
    unwrap(module().switchPrepared(this.handle, "training", false));
  }
}

/**
 * A program that was exported in training mode in its inference form: batch norms use their running statistics,
 * dropouts do nothing. The program itself does not change.
 */
export const moveExportedModelToEval = (program: Program): Program =>
  new Program(unwrap(module().moveToEval(handleOf(program))), whole);

/**
 * Puts fake quantizers where the quantizer wants them, whose settings have isQat, and rewrites convolutions in front of
 * batch norms so that their weights are rounded as they will be when folded. The program itself does not change.
 * `onWarning` is called with each of the prepared program's warnings().
 */
export function prepareQatPt2e(
  program: Program,
  quantizer: AnyQuantizer,
  options: { onWarning?: (warning: string) => void } = {},
): PreparedQat {
  checkOptions("prepareQatPt2e", options, ["onWarning"]);
  const writer = new RecipeWriter();
  const recipe = jsonOf(() => writer.quantizer(quantizer), "the quantizer");
  const raw = module().preparePt2e(handleOf(program), recipe, callbacks(writer), true);
  const prepared = new PreparedQat(unwrap(raw), whole);
  if (options.onWarning) for (const warning of prepared.warnings()) options.onWarning(warning);
  return prepared;
}

/**
 * Your own loss: its value for a batch, and its gradient by output (float32 of the output's shape; null, or
 * missing at the end, where nothing flows back from the output).
 */
export type LossFunction = (
  outputs: Tensor[],
  batch: TrainingBatch,
) => { loss: number; grads: readonly (Tensor | null)[] };

/** How the learning rate changes from step to step, as in torch.optim.lr_scheduler. */
export interface LrSchedule {
  /**
   * "step": times gamma after every stepSize steps (StepLR); "cosine": down to etaMin in totalSteps
   * (CosineAnnealingLR); default "constant".
   */
  schedule?: "constant" | "step" | "cosine";
  /** For "step": the number of steps between two changes of the rate. */
  stepSize?: number;
  /** For "step": the factor; default 0.1. */
  gamma?: number;
  /** For "cosine": the number of steps after the warm-up. */
  totalSteps?: number;
  /** Default 0. */
  etaMin?: number;
  /** The number of steps of a warm-up (LinearLR); default 0. */
  warmupSteps?: number;
  /** The factor at the start of the warm-up; default 1/3. */
  warmupStartFactor?: number;
}

/** The options of a Trainer. */
export interface TrainingOptions {
  /** A named loss applies to the program's first output; default cross_entropy. */
  loss?: "cross_entropy" | "mse" | LossFunction;
  /** The optimizer; default sgd. */
  optimizer?: "sgd" | "adam" | "adamw";
  /** The learning rate; default 0.01. Fine-tuning needs less: 3e-5 for sgd, 1e-5 for adam. */
  lr?: number;
  /** The momentum of sgd; default 0. */
  momentum?: number;
  /** Nesterov's form of sgd with momentum; default false. */
  nesterov?: boolean;
  /** Default 0. */
  weightDecay?: number;
  /** The betas of adam and adamw; default [0.9, 0.999]. */
  betas?: readonly [number, number];
  /** The eps of adam and adamw; default 1e-8. */
  eps?: number;
  /** The factor of the rate for learnt scales and zero points; default 1. */
  qparamsLr?: number;
  /** How the learning rate changes; default: it is constant. */
  schedule?: LrSchedule;
  /** The share of the distance to the float model's output, batch.teacher, in the loss: 0 (default) to 1. */
  distillation?: number;
  /** The temperature of the distillation; default 1. */
  temperature?: number;
}

/** The samples of one step. */
export interface TrainingBatch {
  /** The program's inputs in their order. */
  inputs: readonly Tensor[];
  /**
   * Classes (numbers, or an int64 tensor) for cross_entropy; a float32 tensor of the output's shape for mse. Not needed
   * where distillation is 1, or the loss is a function.
   */
  target?: readonly number[] | Tensor;
  /** The float model's first output for these inputs, for distillation. */
  teacher?: Tensor;
}

const optionNames = [
  "loss",
  "optimizer",
  "lr",
  "momentum",
  "nesterov",
  "weightDecay",
  "betas",
  "eps",
  "qparamsLr",
  "schedule",
  "distillation",
  "temperature",
];
const scheduleNames = ["schedule", "stepSize", "gamma", "totalSteps", "etaMin", "warmupSteps", "warmupStartFactor"];

// Labels as cross entropy takes them.
function classesOf(labels: readonly unknown[]): Tensor {
  for (const label of labels)
    if (!Number.isSafeInteger(label))
      throw new QdqError(
        "InvalidArgument",
        `the target holds ${shown(label)}; wanted the number of a class for each sample, such as [3, 1]`,
      );
  return tensor(BigInt64Array.from(labels as readonly number[], (label) => BigInt(label)));
}

/** Trains a prepared program, step by step. */
export class Trainer extends Handle {
  private readonly loss: LossFunction | undefined;

  /**
   * Throws QdqError{Unsupported} that lists all operators without a gradient, and QdqError{InvalidArgument} for options
   * that make no sense.
   */
  constructor(prepared: PreparedQat, options: TrainingOptions = {}) {
    checkOptions("Trainer", options, optionNames);
    if (options.schedule !== undefined) checkOptions("The schedule", options.schedule, scheduleNames);
    const { loss, ...others } = options;
    if (loss !== undefined && typeof loss !== "string" && !isFunction(loss))
      throw new QdqError(
        "InvalidArgument",
        `loss is ${shown(loss)}; wanted "cross_entropy", "mse" or a function of outputs and batch`,
      );
    for (const name of ["distillation", "temperature"] as const)
      if (typeof loss === "function" && options[name] !== undefined)
        throw new QdqError("InvalidArgument", `${name} does nothing where the loss is a function; leave it out`);
    const words = typeof loss === "string" ? { loss, ...others } : others;
    super(unwrap(module().makeTrainer(handleOf(prepared), toJson(words))), whole);
    this.loss = typeof loss === "function" ? loss : undefined;
  }

  /** One step of the optimizer; returns the loss before it. */
  step(batch: TrainingBatch): number {
    checkOptions("a training batch", batch, this.loss ? Object.keys(batch ?? {}) : ["inputs", "target", "teacher"]);
    if (this.loss) {
      const told: unknown = this.loss(this.forward(batch.inputs), batch);
      const { loss, grads } = (told ?? {}) as ReturnType<LossFunction>;
      if (typeof loss !== "number" || !Array.isArray(grads))
        throw new QdqError(
          "InvalidArgument",
          `the loss function gave ${shown(told)}, wanted {loss: number, grads: [tensor, ...]}`,
        );
      this.backward(grads);
      this.update();
      return loss;
    }
    const { inputs, target, teacher } = batch;
    const raw = Array.isArray(target) ? classesOf(target) : (target as Tensor | undefined);
    return unwrap(
      module().trainStep(
        this.handle,
        rawInputs(inputs),
        raw === undefined ? null : toRaw(raw, "the target"),
        teacher === undefined ? null : toRaw(teacher, "the teacher's output"),
      ),
    );
  }

  /**
   * The parts of a step, for any loss. forward() observes, rounds and returns the outputs; backward() takes the
   * gradients of the loss by output and finds those of the parameters, in the place of earlier ones; update() moves the
   * parameters by them. Each throws QdqError{InvalidArgument} where the part before it is missing.
   */
  forward(inputs: readonly Tensor[]): Tensor[] {
    return unwrap(module().trainForward(this.handle, rawInputs(inputs))).map(fromRaw);
  }

  /** Takes the gradients of the loss by output, and finds those of the parameters. */
  backward(grads: readonly (Tensor | null)[]): void {
    if (!Array.isArray(grads))
      throw new QdqError("InvalidArgument", "the gradients are not a list of tensors by output");
    const raw = grads.map((grad: Tensor | null, i) =>
      grad === null ? null : toRaw(grad, `the gradient of output ${i}`),
    );
    unwrap(module().trainBackward(this.handle, raw));
  }

  /** Moves the parameters by their gradients. */
  update(): void {
    unwrap(module().trainUpdate(this.handle));
  }

  /** The gradients of the last step by the parameter's name. */
  gradients(): Record<string, Tensor> {
    const raw = unwrap(module().trainGradients(this.handle));
    return Object.fromEntries(Object.entries(raw).map(([name, grad]) => [name, fromRaw(grad)]));
  }

  /** The state of the training by name, as plain data that IndexedDB can store. */
  stateDict(): Record<string, Tensor> {
    const raw = unwrap(module().trainState(this.handle));
    return Object.fromEntries(Object.entries(raw).map(([name, value]) => [name, fromRaw(value)]));
  }

  /**
   * Resumes from the state of another trainer of the same program, quantizer and options, with the same bytes. Throws
   * QdqError{InvalidArgument} for the state of any other; this trainer is then unusable.
   */
  loadStateDict(state: Readonly<Record<string, Tensor>>): void {
    if (typeof state !== "object" || state === null)
      throw new QdqError("InvalidArgument", "the state is not an object of tensors; wanted what stateDict() returned");
    const raw = Object.entries(state).map(([name, value]) => [name, toRaw(value, `the state's ${name}`)] as const);
    unwrap(module().loadTrainState(this.handle, Object.fromEntries(raw)));
  }

  /** The learning rate of the next step. */
  lr(): number {
    return unwrap(module().learningRate(this.handle));
  }

  /** Sets the initial learning rate of the schedule for the next steps. */
  setLr(lr: number): void {
    unwrap(module().setLearningRate(this.handle, lr));
  }

  /** The names of the trained parameters. */
  parameters(): string[] {
    return JSON.parse(unwrap(module().trainedParameters(this.handle)));
  }

  /**
   * A step for each batch; returns the mean of the losses. Other work can run between two batches. Throws
   * QdqError{Cancelled} if the signal aborts; the training so far is kept.
   */
  async train(batches: Iterable<TrainingBatch> | AsyncIterable<TrainingBatch>, work: LongWork = {}): Promise<number> {
    if (!isIterable(batches)) {
      throw new QdqError(
        "InvalidArgument",
        "the training data is not a list or iterable of batches; wanted train([{ inputs: [tensor], target }, ...])",
      );
    }
    checkOptions("train", work, ["onProgress", "signal"]);
    const total = totalOf(batches);
    let done = 0;
    let sum = 0;
    await eachUnlessAborted(batches, work.signal, {
      step: (batch) => {
        const loss = this.step(batch);
        sum += loss;
        done += 1;
        work.onProgress?.({ stage: "train", done, ...total, loss });
        return pause();
      },
      reason: () => new QdqError("Cancelled", `training was cancelled after ${done} batches`),
    });
    if (done === 0)
      throw new QdqError("InvalidArgument", "the training data has no batches; wanted [{ inputs, target }]");
    return sum / done;
  }
}

/** How images are changed at random, as torchvision's RandomCrop, RandomHorizontalFlip and ColorJitter do it. */
export interface Augmentation {
  /** The padding of each side, or above and left. */
  crop?: number | readonly [number, number];
  /** The probability of a flip; true: 0.5. */
  flip?: number | boolean;
  /** The range x of brightness: a factor from 1 - x to 1 + x. */
  brightness?: number;
  /** The range of contrast, likewise. */
  contrast?: number;
  /** The range of saturation, likewise. */
  saturation?: number;
}

/** The options of augment(). */
export interface AugmentOptions {
  /** Default 0. */
  seed?: number;
  /** Default 0. */
  epoch?: number;
  /**
   * The number of each image among all samples; it, the seed and the epoch determine the change. Default 0, 1, 2, ...
   */
  samples?: readonly number[];
  /** What the images were made with, as the fields of --preprocess; gives black and white. */
  preprocess?: object;
}

/** The images, float32 [N, C, H, W] or [N, H, W, C], changed at random: the same in every build. */
export function augment(images: Tensor, how: Augmentation, options: AugmentOptions = {}): Tensor {
  checkOptions("augment", options, ["seed", "epoch", "samples", "preprocess"]);
  const { seed = 0, epoch = 0, samples, preprocess = {} } = options;
  const raw = toRaw(images, "what augment() was given as images");
  if (samples !== undefined && !Array.isArray(samples))
    throw new QdqError("InvalidArgument", `samples of augment is ${shown(samples)}, wanted an array of numbers`);
  for (const [name, value] of Object.entries({ how, preprocess }))
    if (typeof value !== "object" || value === null)
      throw new QdqError("InvalidArgument", `${name} of augment is ${shown(value)}, wanted an object of settings`);
  const numbers = samples ?? Array.from({ length: raw.shape[0] ?? 0 }, (_, i) => i);
  for (const number of [seed, epoch, ...numbers])
    if (!Number.isSafeInteger(number) || number < 0)
      throw new QdqError(
        "InvalidArgument",
        `a seed, epoch or sample is ${shown(number)}; wanted a whole number from 0`,
      );
  if (Object.keys(how).length === 0)
    throw new QdqError("InvalidArgument", "how of augment changes nothing; give crop, flip, brightness, ...");
  return fromRaw(unwrap(module().augmentImages(raw, toJson(how), toJson(preprocess), seed, epoch, numbers)));
}
