// What the WASM modules export, as the TypeScript sources see it. bindings/pack.mjs puts `qdq` here.

// A tensor as it crosses the border: the bytes of its elements in C order, or its strings.
export interface RawTensor {
  dtype: string;
  shape: number[];
  bytes?: Uint8Array;
  texts?: readonly string[];
}

// Every function answers with its result or with what went wrong; nothing of C++ is ever thrown into JavaScript.
export type Answer<T> =
  | { value: T; error?: undefined }
  | { error: { code: string; message: string; node: string; op: string } };

// An observer written in JavaScript, as C++ calls it.
export interface RawObserver {
  name: string;
  forward(tensor: RawTensor): void;
  calculateQparams(): string; // JSON: {"scale": [..], "zero_point": [..]}
  fakeQuantize?: (tensor: RawTensor) => RawTensor; // of fake quantizers
}

// What C++ calls while it prepares a program: quantizers and observers by their number in the recipe.
export interface RawCallbacks {
  annotate(quantizer: number, graph: string): string; // both JSON
  validate(quantizer: number, graph: string): void;
  transformForAnnotation(quantizer: number, graph: string): void;
  adjustObservers(quantizer: number, places: string): string; // both JSON; "" leaves all as they are
  derive(rule: number, sources: string): string; // both JSON, the answer as calculateQparams gives it
  makeObserver(observer: number, settings: string): RawObserver;
  filter(filter: number, node: string): boolean;
}

// A file that is written part by part; nobody sees it before it is finished. Methods answer "" or why they could not.
export interface RawOutput {
  append(bytes: Uint8Array): string; // a view of the module's memory
  finish(): string;
  abandon(): void; // leaves nothing of it
}

// Methods that can fail answer with a string that says why.
export interface RawHost {
  readFile(path: string, most: number): Uint8Array | string; // refused if it has more bytes than `most`
  // The file called `name` in the folder of the file `beside`, an ordinary one that no link keeps elsewhere.
  readBeside(beside: string, name: string, most: number): Uint8Array | string;
  sizeOf(path: string): number | string;
  // Fills `out`, a view of the module's memory, from the file's byte `offset` on; answers how many there were.
  readInto(path: string, offset: number, out: Uint8Array): number | string;
  // Where the file that readBeside reads lies, for readInto.
  pathBeside(beside: string, name: string): { path: string } | string;
  openOutput(path: string): RawOutput | string;
  whyNotWritten(folder: string): string; // "" if nothing speaks against it
  makeFolder(folder: string): string; // "" or why it could not
  listFolder(path: string): string[] | string;
  kind(path: string): "file" | "folder" | "";
  fileBehind(path: string): string; // the same for all names of a file, whether it is there yet or not
  print(text: string): void;
  printError(text: string): void;
  errorIsTerminal: boolean;
  errorHasColors: boolean;
  // Has the shell run a command in which {outputs} stands for a file with these bytes; only the command line does.
  runOnOutputs?(command: string, npz: Uint8Array): { status: number; printed: string } | string;
  date: string; // of today: "2026-11-23"
}

// What is known of a tensor before anything runs.
export interface RawSignature {
  dtype: string;
  shape: (number | string)[];
}

// An argument of an operator. T: a tensor or its signature.
export type RawValue<T> = T | number | boolean | string | null | RawValue<T>[];

// An operator written in JavaScript, as C++ calls it; results in a list.
export interface RawOperator {
  infer(args: RawValue<RawSignature>[]): RawSignature[];
  evaluate(args: RawValue<RawTensor>[]): RawTensor[];
}

// A file of a model: its bytes, what fills parts of them, or the number of one that is held.
export type RawSource =
  | Uint8Array
  | {
      size: number;
      readInto(offset: number, out: Uint8Array): number; // a view of the module's memory; how many it filled
    }
  | number;

// The module `qdq-run` (bindings/run.cpp).
export interface RawRunner {
  loadPt2(file: RawSource): Answer<number>;
  // A file in the module's memory, empty, and the bytes that come next in it. Loading frees what it has read.
  holdFile(): Answer<number>;
  appendToFile(file: number, bytes: Uint8Array): Answer<null>;
  describeProgram(program: number): Answer<string>;
  lower(program: number, backend: string, bf16: boolean, fuse: boolean): Answer<number>;
  runSession(session: number, inputs: RawTensor[]): Answer<RawTensor[]>;
  resetSession(session: number): Answer<null>;
  lowerDecoder(program: number, backend: string, bf16: boolean, fuse: boolean): Answer<number>;
  capacityOfDecoder(decoder: number): Answer<number>; // 0: not known
  startDecoder(
    decoder: number,
    prompt: readonly number[],
    most: number,
    temperature: number,
    topK: number,
    seed: number,
  ): Answer<null>;
  nextToken(decoder: number): Answer<number>;
  registerOperator(schema: string, callbacks: RawOperator): Answer<null>;
  dispose(handle: number): void;
  setThreads(count: number): Answer<null>;
  setMaxMemory(bytes: number): Answer<null>;
  capabilities(): Answer<{ integerProducts: string; threads: number }>;
  // Where the stack of C++ ends.
  stackSave(): number;
  stackRestore(stack: number): void;
}

// The module `qdq`, which has more (bindings/quantize.cpp, train.cpp, recover.cpp and state.cpp).
export interface RawModule extends RawRunner {
  // A .pt2 file or an ONNX model; the bytes tell which.
  loadProgram(
    file: RawSource,
    files: Record<string, RawSource> | undefined,
    fixed: Record<string, number | number[]>,
  ): Answer<number>;
  runtimeProfile(name: string, isDynamic: boolean, activationBits: number, weightBits: number): Answer<string>;
  transformersJsFiles(program: number, dtypes: string[], modelFileName: string): Answer<string>;
  runtimeReport(program: number, name: string): Answer<string>;
  savePt2(program: number): Answer<Uint8Array>;
  saveOnnx(program: number, options: string): Answer<Uint8Array>;
  preparePt2e(program: number, recipe: string, callbacks: RawCallbacks, isQat: boolean): Answer<number>;
  runPrepared(
    prepared: number,
    inputs: RawTensor[],
    onObserved: ((done: number, total: number) => void) | undefined,
  ): Answer<RawTensor[]>;
  loadObservers(prepared: number, report: string): Answer<null>;
  saveState(prepared: number, part: string): Answer<string>;
  loadState(prepared: number, state: string): Answer<null>;
  mergeStates(states: readonly string[], partial: boolean): Answer<string>;
  batchesOfShard(batches: number, shard: string): Answer<string>;
  // What of it is switched: "observer", "fake_quant", "param_learning" or "training".
  switchPrepared(prepared: number, what: string, enabled: boolean): Answer<null>;
  makeTrainer(prepared: number, options: string): Answer<number>;
  trainStep(trainer: number, inputs: RawTensor[], target: RawTensor | null, teacher: RawTensor | null): Answer<number>;
  trainForward(trainer: number, inputs: RawTensor[]): Answer<RawTensor[]>;
  trainBackward(trainer: number, grads: (RawTensor | null)[]): Answer<null>;
  trainUpdate(trainer: number): Answer<null>;
  trainGradients(trainer: number): Answer<Record<string, RawTensor>>;
  learningRate(trainer: number): Answer<number>;
  trainState(trainer: number): Answer<Record<string, RawTensor>>;
  loadTrainState(trainer: number, state: Record<string, RawTensor>): Answer<null>;
  learnQparams(prepared: number, useGradScaling: boolean): Answer<null>;
  augmentImages(
    images: RawTensor,
    how: string,
    preprocess: string,
    seed: number,
    epoch: number,
    samples: readonly number[],
  ): Answer<RawTensor>;
  setLearningRate(trainer: number, lr: number): Answer<null>;
  trainedParameters(trainer: number): Answer<string>;
  makeRecovery(
    prepared: number,
    batches: RawTensor[][],
    onRecovering: (remedy: string, done: number) => void,
    forRemedies: boolean,
    runtime: string,
  ): Answer<number>;
  awq(prepared: number, batches: RawTensor[][], onScaling: (done: number, total: number) => void): Answer<number>;
  gptq(prepared: number, batches: RawTensor[][], onRounding: (done: number, total: number) => void): Answer<number>;
  observeLayers(prepared: number): Answer<null>;
  recoverByStatistics(prepared: number): Answer<string>;
  recoverWithoutData(prepared: number): Answer<number>;
  gptqByStatistics(prepared: number): Answer<number>;
  nextRemedy(recovery: number): Answer<string>;
  sensitivities(recovery: number): Answer<string>;
  measure(
    metric: string,
    outputs: RawTensor[][],
    reference: RawTensor[][] | undefined,
    inputs: RawTensor[][] | undefined,
    labels: RawTensor | undefined,
  ): Answer<number>;
  choosePrecision(
    recovery: number,
    score: ((outputs: RawTensor[][]) => number) | null,
    wish: string,
    onSearch: ((text: string) => void) | null,
  ): Answer<string>;
  needsData(prepared: number): Answer<boolean>;
  preparedWarnings(prepared: number): Answer<string>;
  calibrationWarnings(prepared: number, batches: RawTensor[][]): Answer<string>;
  moveToEval(program: number): Answer<number>;
  describePrepared(prepared: number): Answer<string>;
  explain(prepared: number): Answer<string>;
  describeCalibration(prepared: number): Answer<string>;
  quantizationCapabilities(recipe: string, callbacks: RawCallbacks): Answer<string>;
  // A program's number, or -1 for the one that is being annotated.
  getSourcePartitions(program: number, sources: string[]): Answer<string>;
  findSequentialPartitions(program: number, sources: string[]): Answer<string>;
  replacePattern(program: number, pattern: number | string, replacement: number | string): Answer<number>;
  convertScalarsToAttrs(program: number): Answer<null>;
  matchPattern(
    program: number,
    pattern: number | string,
    ignoreLiterals: boolean,
    removeOverlappingMatches: boolean,
  ): Answer<string>;
  convertPt2e(prepared: number, foldQuantize: boolean, useReferenceRepresentation: boolean): Answer<number>;
  describeQuantization(prepared: number, program: number): Answer<string>;
  writeReport(report: string): Answer<string>;
  compareLayers(reference: number, candidates: readonly number[]): Answer<number>;
  fuseFx(program: number, backend: string): Answer<number>;
  onnxWarning(program: number): Answer<string>;
  programTensor(program: number, name: string): Answer<RawTensor>;
  setProgramTensor(program: number, name: string, tensor: RawTensor): Answer<null>;
  runNodes(
    program: number,
    inputs: RawTensor[],
    onNode: (name: string, target: string, value: RawTensor) => void,
  ): Answer<RawTensor[]>;
  describeSession(session: number): Answer<string>;
  generateNumericDebugHandles(program: number): Answer<null>;
  addToComparison(comparison: number, inputs: RawTensor[]): Answer<null>;
  describeComparison(comparison: number, candidate: number): Answer<string>;
  evaluate(program: number, quantized: number, labels: string): Answer<number>;
  addToEvaluation(evaluation: number, inputs: RawTensor[]): Answer<null>;
  describeEvaluation(evaluation: number): Answer<string>;
  openData(
    program: number,
    path: string,
    preprocess: string,
    batchSize: number,
    limit: number,
    host: RawHost,
  ): Answer<number>;
  describeData(data: number): Answer<string>;
  dataBatch(data: number, index: number): Answer<RawTensor[]>;
  expectBatches(data: number, begin: number, end: number): Answer<null>;
  dataLabels(data: number, path: string, classes: string): Answer<string>;
}

// How the module gets what it imports: instantiated with `imports`, it is handed to `done`.
export interface Instantiation {
  instantiateWasm(
    imports: WebAssembly.Imports,
    done: (instance: WebAssembly.Instance, module: WebAssembly.Module) => void,
  ): object;
}

declare const createQdq: (options: Instantiation) => Promise<RawModule>;
export default createQdq;
// The module for every engine, and the one for engines with relaxed SIMD.
export declare const wasmUrl: URL;
export declare const relaxedWasmUrl: URL;
// The name and the version that the files carry, in a custom section.
export declare const mark: string;
