// The public API of the package; both doors give out exactly this.
export { QdqError } from "./error.js";
export type { ErrorCode } from "./error.js";
export { capabilities, configure, registerOperator } from "./module.js";
export type { Capabilities, Configuration } from "./loader.js";
export { tensor } from "./tensor.js";
export type { DType, Tensor, TensorData } from "./tensor.js";
export type { Argument, GraphSnapshot, NodeSnapshot, ProgramInfo, ValueInfo } from "./graph.js";
export {
  BackendConfig,
  ComposableQuantizer,
  EmbeddingQuantizer,
  QConfigMapping,
  X86InductorQuantizer,
  XNNPACKQuantizer,
  getDefaultQConfigMapping,
  getDefaultQatQConfigMapping,
  getDefaultX86InductorQuantizationConfig,
  getSymmetricQuantizationConfig,
} from "./quantizer.js";
export type {
  AnyQuantizer,
  BackendConfigName,
  BackendPatternConfig,
  ComplexPattern,
  DTypeConfig,
  DTypeWithConstraints,
  DerivedQuantizationSpec,
  EdgeOrNode,
  FilterFunction,
  FixedQParamsQuantizationSpec,
  Observer,
  ObserverCtr,
  ObserverOverride,
  ObserverSettings,
  ObserverWithArgs,
  ObservationType,
  PrepareCustomConfig,
  QConfig,
  QScheme,
  QSpec,
  QuantizationAnnotation,
  QuantizationBackend,
  QuantizationConfig,
  QuantizationSpec,
  Quantizer,
  Recipe,
  SharedQuantizationSpec,
  StandaloneModule,
  SymmetricQuantizationConfig,
  SymmetricQuantizationOptions,
  X86InductorQuantizationConfig,
  X86InductorQuantizationOptions,
} from "./quantizer.js";
export { Data, openData } from "./data.js";
export type { DataSettings, Files } from "./data.js";
export {
  Evaluation,
  LayerComparison,
  compareLayers,
  generateNumericDebugHandles,
  evaluate,
  explain,
  quantizationReport,
  reportHtml,
} from "./report.js";
export type {
  Choice,
  ConvertedQParams,
  Decision,
  EvaluationReport,
  Explanation,
  ExplanationReport,
  LayerError,
  QuantizationReport,
  Report,
  SamplePrediction,
  ValueError,
} from "./report.js";
export { findSequentialPartitions, getSourcePartitions, matchPattern } from "./backend.js";
export type {
  AnnotatedGraph,
  Match,
  MatchOptions,
  Matching,
  Pattern,
  PatternCapability,
  PatternSpec,
  QuantizationCapabilities,
  SourcePartition,
} from "./backend.js";
export type { ObserverReport, ObserverSummary } from "./observer.js";
export { loadOnnx, loadPt2, saveOnnx, savePt2 } from "./file.js";
export type { CustomOperator, OperatorArgument, TensorSignature } from "./operator.js";
export { Program } from "./program.js";
export { programTensor, runNodes, setProgramTensor } from "./nodes.js";
export { Prepared, convertPt2e, preparePt2e, quantizationCapabilities } from "./pt2e.js";
export type { ConvertOptions, PrepareOptions, LongWork, Progress } from "./pt2e.js";
export { recover, sensitivities } from "./recover.js";
export type { RecoverOptions, RemedyResult, Sensitivity } from "./recover.js";
export { Session, lower } from "./session.js";
export type { LowerOptions, Placement } from "./session.js";
export { PreparedQat, Trainer, augment, moveExportedModelToEval, prepareQatPt2e } from "./train.js";
export type {
  AugmentOptions,
  Augmentation,
  LossFunction,
  LrSchedule,
  TrainingBatch,
  TrainingOptions,
} from "./train.js";
