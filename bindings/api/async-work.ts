// What the worker of the asynchronous door does.
import type { AsyncModel, FromAsyncWorker, ToAsyncWorker } from "./async.js";
import type { Configuration } from "./configuration.js";
import type { Decoder, GenerateOptions } from "./decoder.js";
import { lowerDecoder } from "./decoder.js";
import { QdqError } from "./error.js";
import { loadPt2, saveOnnx, savePt2 } from "./file.js";
import type { ValueInfo } from "./graph.js";
import { configure } from "./module.js";
import type { RuntimeName, RuntimeProfile } from "./profile.js";
import { runtimeProfile } from "./profile.js";
import type { Prepared } from "./pt2e.js";
import { SomeBatches, convertPt2e, preparePt2e } from "./pt2e.js";
import type { Recipe } from "./recipe.js";
import type { RemedyResult } from "./recover.js";
import { recoverWithoutData, remedies } from "./recover.js";
import type { LowerOptions, Session } from "./session.js";
import { lower } from "./session.js";
import type { Tensor } from "./tensor.js";

let session: Session | undefined;
let decoder: Decoder | undefined;
let tokens: AsyncGenerator<number, void, undefined> | undefined;
let prepared: Prepared | undefined;
let kind: "pt2" | "onnx" = "pt2"; // of the model that is prepared, or what its runtime reads
let profile: RuntimeProfile | undefined;
let some = new SomeBatches();
const samples: (readonly Tensor[])[] = [];
let recovery: AsyncGenerator<RemedyResult, void, undefined> | undefined;

// A .pt2 file is a zip archive, which begins with PK; what was read and is none is ONNX.
async function kindOf(model: AsyncModel): Promise<"pt2" | "onnx"> {
  const head = new Blob([model.slice(0, 2) as BlobPart]);
  return (await head.text()) === "PK" ? "pt2" : "onnx";
}

const methods: Record<string, (...args: never[]) => unknown> = {
  async open(model: AsyncModel, options: LowerOptions, settings: Configuration) {
    configure(settings);
    const program = await loadPt2(model);
    const { inputs, outputs } = program.info();
    session = lower(program, options);
    program.dispose();
    const names = (values: readonly ValueInfo[]): string[] => values.map(({ name, called }) => called ?? name);
    return { inputs: names(inputs), outputs: names(outputs) };
  },
  run: (inputs: readonly Tensor[]) => session!.run(inputs),
  async openDecoder(model: AsyncModel, options: LowerOptions, settings: Configuration) {
    configure(settings);
    const program = await loadPt2(model);
    decoder = lowerDecoder(program, options);
    program.dispose();
    return decoder.capacity;
  },
  async firstToken(prompt: readonly number[], options: GenerateOptions) {
    tokens = decoder!.generate(prompt, options);
    return await tokens.next();
  },
  nextToken: () => tokens!.next(),
  async prepare(model: AsyncModel, how: Recipe | RuntimeName, settings: Configuration) {
    configure(settings);
    const program = await loadPt2(model);
    profile = typeof how === "string" ? await runtimeProfile(how) : undefined;
    kind = profile ? (profile.file === ".onnx" ? "onnx" : "pt2") : await kindOf(model);
    prepared = preparePt2e(program, profile?.recipe ?? (how as Recipe));
    some = new SomeBatches();
    program.dispose();
    return prepared.needsData();
  },
  calibrate(batch: readonly Tensor[], keeps: boolean) {
    prepared!.run(batch);
    some.add(batch);
    if (keeps) samples.push(batch);
  },
  nextRemedy() {
    recovery ??= remedies(prepared!, samples, profile ? { runtime: profile.name } : {});
    return recovery.next();
  },
  recoverWithoutData: () => recoverWithoutData(prepared!),
  convert(format: "pt2" | "onnx" = kind) {
    const warnings = prepared!.warnings();
    if (some.chosen().length > 0) warnings.push(...prepared!.calibrationWarnings(...some.chosen()));
    const quantized = convertPt2e(prepared!);
    const onWarning = (warning: string): number => warnings.push(warning);
    const options = { ...profile?.onnx, onWarning };
    return { bytes: format === "onnx" ? saveOnnx(quantized, options) : savePt2(quantized), warnings };
  },
};

/** @internal */
export async function answerAsync({ id, method, args }: ToAsyncWorker): Promise<FromAsyncWorker> {
  try {
    return { id, value: await methods[method]!(...(args as never[])) };
  } catch (error) {
    const { message } = error as Error;
    if (!(error instanceof QdqError)) return { id, error: { message } };
    const { code, node, op } = error;
    return { id, error: { code, message, ...(node !== undefined && { node }), ...(op !== undefined && { op }) } };
  }
}
