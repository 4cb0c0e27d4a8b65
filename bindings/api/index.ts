// The public API of the package; both doors give out exactly this.
export { QdqError } from "./error.js";
export type { ErrorCode } from "./error.js";
export { capabilities, configure, registerOperator } from "./module.js";
export type { Capabilities, Configuration } from "./configuration.js";
export { tensor } from "./tensor.js";
export type { DType, DTypeOf, Tensor, TensorArrays, TensorData } from "./tensor.js";
export type {
  Argument,
  AttributeInfo,
  GraphSnapshot,
  NodeSnapshot,
  ProgramInfo,
  QParamsInfo,
  ValueInfo,
} from "./graph.js";
export type { Handle } from "./handle.js";
export {
  getDefaultX86InductorQuantizationConfig,
  getSymmetricQuantizationConfig,
} from "./qspec.js";
export type {
  DerivedQuantizationSpec,
  EdgeOrNode,
  FilterFunction,
  FixedQParamsQuantizationSpec,
  Observer,
  ObserverCtr,
  ObserverOverride,
  ObserverSettings,
  QParams,
  QScheme,
  QSpec,
  QuantizationAnnotation,
  QuantizationConfig,
  QuantizationSpec,
  SharedQuantizationSpec,
  SymmetricQuantizationConfig,
  SymmetricQuantizationOptions,
  X86InductorQuantizationConfig,
  X86InductorQuantizationOptions,
} from "./qspec.js";
export { BackendConfig } from "./qconfig.js";
export type {
  BackendConfigName,
  BackendPatternConfig,
  ComplexPattern,
  DTypeConfig,
  DTypeWithConstraints,
  ObservationType,
  ObserverWithArgs,
  QConfig,
  QuantizationBackend,
} from "./qconfig.js";
export type {
  AnnotationRecipe,
  BackendConfigRecipe,
  Compat,
  ComposableRecipe,
  ConfigRecipe,
  EmbeddingRecipe,
  FxRecipe,
  HistogramObserver,
  InSnakeCase,
  PatternRecipe,
  PatternRow,
  PrepareCustomConfigRecipe,
  QConfigMappingRecipe,
  Recipe,
  RecipeFields,
  StandaloneModuleRecipe,
  X86InductorRecipe,
  XNNPACKRecipe,
} from "./recipe.js";
export { EmbeddingQuantizer, X86InductorQuantizer, XNNPACKQuantizer } from "./recipe-quantizer.js";
export { QConfigMapping, fuseFx, getDefaultQConfigMapping, getDefaultQatQConfigMapping } from "./qconfig-mapping.js";
export type { PrepareCustomConfig, StandaloneModule } from "./qconfig-mapping.js";
export { ComposableQuantizer } from "./quantizer.js";
export type { AnyQuantizer, ObservedPlace, Quantizer } from "./quantizer.js";
export { Data, DataShard, openData } from "./data.js";
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
export { findSequentialPartitions, getSourcePartitions, matchPattern, replacePattern } from "./backend.js";
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
  TransformedGraph,
} from "./backend.js";
export type { ObserverReport, ObserverSummary } from "./observer.js";
export { loadOnnx, loadPt2, saveOnnx, savePt2 } from "./file.js";
export type { ByteSource, ModelSource } from "./source.js";
export type { OnnxOptions } from "./file.js";
export { runtimeProfile, runtimeReport, transformersJsFiles } from "./profile.js";
export type {
  RuntimeName,
  RuntimeProfile,
  RuntimeReport,
  RuntimeSettings,
  RuntimeVerdict,
  TransformersJsDtype,
  TransformersJsFile,
  TransformersJsOptions,
} from "./profile.js";
export type { CustomOperator, OperatorArgument, TensorSignature } from "./operator.js";
export { Program } from "./program.js";
export { programTensor, runNodes, setProgramTensor } from "./nodes.js";
export { Prepared, convertPt2e, preparePt2e, quantizationCapabilities } from "./pt2e.js";
export type { CalibrateOptions, ConvertOptions, PrepareOptions, LongWork, Progress } from "./pt2e.js";
export { mergeStates } from "./state.js";
export type { MergeOptions, PartOfData } from "./state.js";
export type { Metric, MetricSamples } from "./metrics.js";
export { measure } from "./metrics.js";
export {
  awq,
  choosePrecision,
  gptq,
  gptqByStatistics,
  reachScore,
  recover,
  recoverByStatistics,
  recoverWithoutData,
  sensitivities,
} from "./recover.js";
export type {
  PrecisionName,
  PrecisionOptions,
  PrecisionResult,
  PrecisionTrial,
  RecoverOptions,
  RemedyResult,
  Sensitivity,
} from "./recover.js";
export { Decoder, lowerDecoder } from "./decoder.js";
export type { GenerateOptions } from "./decoder.js";
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
