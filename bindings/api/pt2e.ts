// The PyTorch 2 Export flow: prepare, calibrate, convert.
import { eachUnlessAborted, pause } from "./abort.js";
import { QdqError, readable } from "./error.js";
import type { Observer, ObserverSettings, QParams } from "./qspec.js";
import type { AnyQuantizer, ObservedPlace } from "./quantizer.js";
import { ComposableQuantizer, RecipeWriter, isCustom, nameOf } from "./quantizer.js";
import { annotatedGraph, transformedGraph } from "./backend.js";
import type { QuantizationCapabilities } from "./backend.js";
import type { GraphSnapshot, NodeSnapshot } from "./graph.js";
import { Handle } from "./handle.js";
import { handleOf, loadModule, module, unwrap, whole } from "./module.js";
import { fromJson, toJson } from "./names.js";
import type { ObserverReport, ObserverSummary } from "./observer.js";
import { areAll, checkNearNames, checkOptions, isFunction, isIterable, jsonOf, shown } from "./options.js";
import { Program } from "./program.js";
import type { HistogramObserver } from "./recipe.js";
import type { PartOfData } from "./state.js";
import type { Tensor } from "./tensor.js";
import { fromRaw, rawInputs } from "./tensor.js";
import type { RawCallbacks, RawTensor } from "../wasm/qdq.js";

/** The progress of long work. */
export interface Progress {
  /** The stage: "calibrate", "train", or a remedy of recover(). */
  stage: string;
  /** The number of batches done; for recover() the share from 0 to 1. */
  done: number;
  /** The total; missing if unknown. */
  total?: number;
  /** The current node. */
  node?: string;
  /** The loss of the batch, in training. */
  loss?: number;
}
/** How to watch and end long work. */
export interface LongWork {
  /** Called after every batch. */
  onProgress?: (progress: Progress) => void;
  /** Ends the work when it is aborted, with QdqError{Cancelled}. */
  signal?: AbortSignal;
}

/** The options of prepared.calibrate(). */
export interface CalibrateOptions extends LongWork {
  /** Called with each of the prepared program's calibrationWarnings() of up to four batches, when all are done. */
  onWarning?: (warning: string) => void;
}

/** A program with observers in it; running it calibrates them. */
export class Prepared extends Handle {
  /**
   * Runs one batch, the inputs in the order of the program's; returns the float outputs. `onObserved` is called after
   * each observer has seen its tensor, with how many have in this batch and how many will.
   */
  run(inputs: readonly Tensor[], onObserved?: (done: number, total: number) => void): Tensor[] {
    if (onObserved !== undefined && !isFunction(onObserved))
      throw new QdqError("InvalidArgument", `onObserved is ${shown(onObserved)}, wanted a function`);
    return unwrap(module().runPrepared(this.handle, rawInputs(inputs), onObserved)).map(fromRaw);
  }

  /** Whether converting needs data first. A recipe that quantizes dynamically needs none. */
  needsData(): boolean {
    return unwrap(module().needsData(this.handle));
  }

  /**
   * Takes over what the observers of another program saw that was prepared from the same model by the same recipe: its
   * observers(), or the text that saveObservers() or --observers wrote. So converting needs no data. Throws
   * QdqError{InvalidArgument} if they do not fit.
   */
  loadObservers(report: readonly ObserverReport[] | string): void {
    unwrap(module().loadObservers(this.handle, typeof report === "string" ? report : toJson(report)));
  }

  /**
   * What the observers saw, as the text that `qdq calibrate` writes, the same bytes for the same program and data;
   * mergeStates merges such texts. `part` says which shard of which data it was: data.shard("3/16"), or an object of
   * one's own; without it all of data without a name. Throws QdqError{InvalidArgument}, naming the class to use in its
   * place, for an observer whose statistics depend on the order of the data (prepare with `mergeable`).
   */
  state(part: PartOfData = { id: "", numSamples: 0, numBatches: 0, shard: "1/1" }): string {
    if (typeof part !== "object" || part === null)
      throw new QdqError("InvalidArgument", `state() was given ${shown(part)}, wanted data.shard("3/16")`);
    const { id, numSamples: samples, numBatches: batches, shard } = part;
    return unwrap(
      module().saveState(
        this.handle,
        jsonOf(() => ({ id, samples, batches, shard }), "the shard"),
      ),
    );
  }

  /**
   * Takes over the merged state of all shards, so that converting needs no data: what state(), mergeStates(),
   * `qdq calibrate` or `qdq merge` gave of the same model and recipe. Throws QdqError{InvalidArgument} if it is another
   * one's, or of some shards only, QdqError{BadFile} if it is none.
   */
  loadState(state: string): void {
    if (typeof state !== "string")
      throw new QdqError("InvalidArgument", `the state is ${shown(state)}, wanted the text that state() gave`);
    unwrap(module().loadState(this.handle, state));
  }

  /**
   * Runs all batches, each a list of inputs, and lets other work run between them. Throws QdqError{Cancelled} once the
   * signal is aborted; the batches before that count. Throws QdqError{InvalidArgument} if there is no batch and
   * converting needs data.
   */
  async calibrate(
    batches: Iterable<readonly Tensor[]> | AsyncIterable<readonly Tensor[]>,
    work: CalibrateOptions = {},
  ): Promise<void> {
    checkOptions("calibrate", work, ["onProgress", "onWarning", "signal"]);
    if (!isIterable(batches)) {
      throw new QdqError(
        "InvalidArgument",
        "the calibration data is not a list or iterable of batches; wanted calibrate([[tensor, ...], ...])",
      );
    }
    const total = totalOf(batches);
    let done = 0;
    const some = new SomeBatches();
    await eachUnlessAborted(batches, work.signal, {
      step: (batch) => {
        this.run(batch);
        some.add(batch);
        done += 1;
        work.onProgress?.({ stage: "calibrate", done, ...total });
        return pause();
      },
      reason: () => new QdqError("Cancelled", `calibration was cancelled after ${done} batches`),
    });
    if (done === 0 && this.needsData())
      throw new QdqError(
        "InvalidArgument",
        "the calibration data has no batches; wanted calibrate([[tensor, ...], ...])",
      );
    const { onWarning } = work;
    if (onWarning && done > 0) for (const warning of this.calibrationWarnings(...some.chosen())) onWarning(warning);
  }

  /**
   * What is wrong with the calibration, one sentence each: ranges that the samples leave doubtful, and outputs that the
   * integers lose, more noise than signal, which are judged by the batches. The command line prints the same. None are
   * lost in a program that is prepared for training.
   */
  calibrationWarnings(...batches: (readonly Tensor[])[]): string[] {
    return readableWarnings(unwrap(module().calibrationWarnings(this.handle, batches.map(rawInputs))));
  }

  /**
   * Settings of the quantizer that had no effect, one sentence each: names that the program does not have, configs that
   * do not go together.
   */
  warnings(): string[] {
    return readableWarnings(unwrap(module().preparedWarnings(this.handle)));
  }

  /**
   * What the observers have seen so far, in histograms of 64 bins, and the ranges that follow from it; cheap enough to
   * show while calibration runs.
   */
  calibration(): ObserverSummary[] {
    return fromJson(unwrap(module().describeCalibration(this.handle)));
  }

  /** Every observer instance: class, settings, what it saw, what it covers. */
  observers(): ObserverReport[] {
    return fromJson(unwrap(module().describePrepared(this.handle)));
  }

  /** The same as the text of a file, which `qdq quantize --observers` writes and --calibrate reads. */
  saveObservers(): string {
    return `${JSON.stringify(JSON.parse(unwrap(module().describePrepared(this.handle))), null, 1)}\n`;
  }
}

/**
 * A few of the batches that come, spread over all of them.
 * @internal
 */
export class SomeBatches {
  #kept: (readonly Tensor[])[] = [];
  #seen = 0;
  #step = 1;

  add(batch: readonly Tensor[]): void {
    if (this.#seen === 8 * this.#step) {
      this.#kept = this.#kept.filter((_, i) => i % 2 === 0);
      this.#step *= 2;
    }
    if (this.#seen % this.#step === 0) this.#kept.push(batch);
    this.#seen += 1;
  }

  /** Four at most. */
  chosen(): (readonly Tensor[])[] {
    const last = this.#kept.length - 1;
    const wanted = Math.min(4, this.#kept.length);
    return Array.from({ length: wanted }, (_, i) => this.#kept[i && Math.floor((i * last) / (wanted - 1))]!);
  }
}

const readableWarnings = (json: string): string[] => (JSON.parse(json) as string[]).map(readable);

/** The options of preparePt2e. */
export interface PrepareOptions {
  /** Called with each of the prepared program's warnings(). */
  onWarning?: (warning: string) => void;
  /**
   * Puts MergeableHistogramObserver in the place of HistogramObserver, so that the states of parts of the data merge;
   * default false.
   */
  mergeable?: boolean;
  /**
   * The class that takes the place of HistogramObserver: MinMaxObserver takes the whole range, PercentileObserver
   * 99.99 % of the values, EntropyObserver the range of the least divergence, MSEObserver that of the least squared
   * error.
   */
  histogramObserver?: HistogramObserver;
  /**
   * Sees, while the program is calibrated, what its layers read as well, in sums that merge exactly: for
   * recoverByStatistics() and gptqByStatistics() on the merged state. Default false.
   */
  observeLayers?: boolean;
}

/**
 * Puts observers where the quantizer wants them. The program is left as it was. Throws QdqError{InvalidArgument} where
 * PyTorch refuses the annotations; what a callback throws comes through unchanged. Unless the quantizer follows PyTorch
 * 2.6, also for a program that is quantized already or was exported in training mode (moveExportedModelToEval).
 * `onWarning` is called with each of the warnings().
 */
export function preparePt2e(program: Program, quantizer: AnyQuantizer, options: PrepareOptions = {}): Prepared {
  checkOptions("preparePt2e", options, ["onWarning", "mergeable", "histogramObserver", "observeLayers"]);
  const writer = new RecipeWriter();
  const { mergeable, histogramObserver } = options;
  const more = {
    ...(mergeable && { mergeable: true }),
    ...(histogramObserver !== undefined && { histogram_observer: histogramObserver }),
  };
  const recipe = jsonOf(() => Object.assign({}, writer.quantizer(quantizer), more), "the quantizer");
  const prepared = new Prepared(
    unwrap(module().preparePt2e(handleOf(program), recipe, callbacks(writer), false)),
    whole,
  );
  if (options.observeLayers) unwrap(module().observeLayers(prepared.handle));
  if (options.onWarning) for (const warning of prepared.warnings()) options.onWarning(warning);
  return prepared;
}

/**
 * What a quantizer can do, pattern by pattern, whatever its settings are. Of one written in JavaScript what its own
 * quantizationCapabilities() tells; what is left out there is as in C++: static and with QAT, not dynamic, without a
 * note. Throws QdqError{InvalidArgument} for a pattern without a name or a list of alternative operators for each
 * place.
 */
export async function quantizationCapabilities(quantizer: AnyQuantizer): Promise<QuantizationCapabilities> {
  if (quantizer instanceof ComposableQuantizer) {
    return {
      quantizer: quantizer.name,
      patterns: [],
      parts: await Promise.all(quantizer.quantizers.map(quantizationCapabilities)),
    };
  }
  if (isCustom(quantizer)) {
    const name = nameOf(quantizer);
    const told: unknown = quantizer.quantizationCapabilities?.() ?? [];
    if (!Array.isArray(told))
      throw new QdqError(
        "InvalidArgument",
        `quantizationCapabilities() of ${name} gave ${shown(told)}, wanted a list of patterns`,
      );
    const patterns = Array.from(told, (each: Partial<QuantizationCapabilities["patterns"][number]> | null, i) => {
      const { pattern, operators, ...rest } = each ?? {};
      const isPattern = typeof pattern === "string" && Array.isArray(operators) && operators.every(isListOfStrings);
      if (isPattern) checkOptions(`pattern ${pattern} of ${name}`, rest, ["static", "dynamic", "qat", "note"]);
      if (isPattern) return { pattern, operators, static: true, dynamic: false, qat: true, note: "", ...rest };
      throw new QdqError(
        "InvalidArgument",
        `quantizationCapabilities() of ${name}, pattern ${i}: found ${shown({ pattern, operators })}, ` +
          'wanted {pattern: "linear", operators: [["aten.linear.default"]]}, ' +
          "with a list of alternatives for each operator",
      );
    });
    return { quantizer: name, patterns, parts: [] };
  }
  const wasm = await loadModule();
  const writer = new RecipeWriter();
  const recipe = jsonOf(() => writer.quantizer(quantizer), "the quantizer");
  return fromJson(unwrap(wasm.quantizationCapabilities(recipe, callbacks(writer))));
}

/** The options of convertPt2e. */
export interface ConvertOptions {
  /** Store weights as integers; default true. */
  foldQuantize?: boolean;
  /** Integer arithmetic spelled out; default false. */
  useReferenceRepresentation?: boolean;
}

/**
 * The quantized program: observers have become quantize/dequantize pairs, weights integers. `prepared` is left as it
 * was. Values that no data has reached stay float, which calibrationWarnings() tells. Throws QdqError{NotCalibrated}
 * naming the observers if none has seen data.
 */
export function convertPt2e(prepared: Prepared, options: ConvertOptions = {}): Program {
  checkOptions("convertPt2e", options, ["foldQuantize", "useReferenceRepresentation"]);
  const { foldQuantize = true, useReferenceRepresentation = false } = options;
  return new Program(unwrap(module().convertPt2e(handleOf(prepared), foldQuantize, useReferenceRepresentation)), whole);
}

/**
 * {total} of batches whose number the list tells: an array's, or that of openData.
 * @internal
 */
export function totalOf(batches: object): { total?: number } {
  if (Array.isArray(batches)) return { total: batches.length };
  return "numBatches" in batches && typeof batches.numBatches === "number" ? { total: batches.numBatches } : {};
}

const isListOfStrings = (value: unknown): boolean =>
  Array.isArray(value) && value.every((each) => typeof each === "string");

const isNumbers = (value: unknown): value is number | readonly number[] =>
  typeof value === "number" || (Array.isArray(value) && areAll(value, (each) => typeof each === "number"));

function rawQparams(qparams: QParams | undefined, who: string): string {
  const { scale, zeroPoint } = qparams ?? {};
  if (!isNumbers(scale) || !isNumbers(zeroPoint))
    throw new QdqError(
      "InvalidArgument",
      `${who} gave the scale ${shown(scale)} and the zeroPoint ${shown(zeroPoint)}, wanted numbers or arrays of them`,
    );
  return toJson({ scale: listOf(scale), zeroPoint: listOf(zeroPoint) });
}

// A recipe of plain data may have a number where a function's would stand.
function functionOf<T>(functions: readonly T[], number: number): T {
  const found = functions[number];
  if (typeof found === "function") return found;
  throw new QdqError(
    "InvalidArgument",
    "the recipe has a field custom, which is not a function; give the function itself",
  );
}

const listOf = (value: number | readonly number[]): readonly number[] => (typeof value === "number" ? [value] : value);

/**
 * What C++ calls for the quantizers and observers that the writer has met.
 * @internal
 */
export function callbacks(writer: RecipeWriter): RawCallbacks {
  return {
    annotate(number, text) {
      const quantizer = writer.quantizers[number]!;
      const annotations = quantizer.annotate(annotatedGraph(JSON.parse(text) as GraphSnapshot));
      if (!Array.isArray(annotations)) {
        throw new QdqError(
          "InvalidArgument",
          `annotate() of ${nameOf(quantizer)} did not return a list of annotations`,
        );
      }
      return jsonOf(() => writer.plain(annotations), `what annotate() of ${nameOf(quantizer)} returned`);
    },
    validate(number, text) {
      writer.quantizers[number]!.validate?.(annotatedGraph(JSON.parse(text) as GraphSnapshot));
    },
    transformForAnnotation(number, text) {
      writer.quantizers[number]!.transformForAnnotation?.(transformedGraph(JSON.parse(text) as GraphSnapshot));
    },
    adjustObservers(number, text) {
      const quantizer = writer.quantizers[number]!;
      const wanted = quantizer.adjustObservers?.(JSON.parse(text) as ObservedPlace[]);
      if (wanted === undefined) return "";
      return jsonOf(() => writer.plain(wanted), `what adjustObservers() of ${nameOf(quantizer)} returned`);
    },
    derive(number, text) {
      const rule = functionOf(writer.functions, number) as (sources: unknown) => QParams;
      return rawQparams(rule(JSON.parse(text)), "the rule of a derived spec");
    },
    filter(number, text) {
      const told: unknown = functionOf(writer.filters, number)(JSON.parse(text) as NodeSnapshot);
      if (typeof told === "boolean") return told;
      throw new QdqError("InvalidArgument", `the filter function gave ${shown(told)}, wanted true or false`);
    },
    makeObserver(number, text) {
      const settings = JSON.parse(text) as ObserverSettings;
      const observer = (functionOf(writer.functions, number) as (settings: ObserverSettings) => Observer)(settings);
      if (typeof observer?.forward !== "function" || typeof observer?.calculateQparams !== "function") {
        throw new QdqError("InvalidArgument", "an observer needs the methods forward(tensor) and calculateQparams()");
      }
      const type = observer.constructor?.name ?? "";
      checkNearNames(type || "the observer", observer, ["forward", "calculateQparams", "fakeQuantize"]);
      return {
        name: type && type !== "Object" ? type : "JavaScriptObserver",
        forward: (tensor) => observer.forward(fromRaw(tensor)),
        calculateQparams: () => rawQparams(observer.calculateQparams(), `calculateQparams() of ${type}`),
        ...(typeof observer.fakeQuantize === "function" && {
          fakeQuantize: (tensor: RawTensor) => rawInputs([observer.fakeQuantize!(fromRaw(tensor))])[0]!,
        }),
      };
    },
  };
}
