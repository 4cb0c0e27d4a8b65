// What is to be done with tensors: specs in the words of torch.ao, and the options that stand for them.
import type { NodeSnapshot } from "./graph.js";
import { checkObject } from "./options.js";
import type { DType, Tensor } from "./tensor.js";

/**
 * How integers stand for floats, in PyTorch's words: one scale and zero point for a tensor or one for each channel,
 * around zero (symmetric) or not (affine).
 */
export type QScheme =
  | "per_tensor_affine"
  | "per_tensor_symmetric"
  | "per_channel_affine"
  | "per_channel_symmetric"
  | "per_channel_affine_float_qparams"
  | "per_token_affine";

/** A use of a tensor (producer, consumer) or a node's output, by the names of nodes. */
export type EdgeOrNode = { edge: readonly [string, string] } | { node: string };

/** The settings an observer is made with. */
export interface ObserverSettings {
  /** The dtype of the integers. */
  dtype: DType;
  /** How integers stand for floats. */
  qscheme: QScheme;
  /** The least integer. */
  quantMin: number;
  /** The largest integer. */
  quantMax: number;
  /** The axis of the channels, where the qscheme is per channel. */
  chAxis: number;
  /** The least scale. */
  eps: number;
}

/**
 * An observer written in JavaScript. It sees every batch, then tells the qparams: one scale and zero point per tensor,
 * or one per channel of axis chAxis where the qscheme is per channel.
 */
export interface Observer {
  /** Sees a tensor, which is float32. */
  forward(tensor: Tensor): void;
  /** The scale and the integer that stands for 0, or lists with those of every channel. */
  calculateQparams(): QParams;
  /**
   * Makes it a fake quantizer, for quantization-aware training: called after forward() while fake quantization is on,
   * gives a tensor of the same shape that goes on in the place of the other. Its gradient passes as it comes.
   */
  fakeQuantize?(tensor: Tensor): Tensor;
}
/** The scale and the integer that stands for 0, or lists with those of every channel. */
export interface QParams {
  /** What one step of the integers is worth. */
  scale: number | readonly number[];
  /** The integer that stands for 0. */
  zeroPoint: number | readonly number[];
}

/** One of PyTorch's observers by its name, or a function that makes one written in JavaScript. */
export type ObserverCtr =
  | { class: string; args?: Record<string, unknown> }
  | ((settings: ObserverSettings) => Observer);

/** A tensor is quantized with an observer of its own (torch.ao's QuantizationSpec). */
export interface QuantizationSpec {
  /** Which kind of spec it is. */
  spec: "quantization";
  /** The dtype of the integers. */
  dtype: DType;
  /** The observer that finds the scale. */
  observer: ObserverCtr;
  /** The least integer; by default that of the dtype. */
  quantMin?: number | null;
  /** The largest integer; by default that of the dtype. */
  quantMax?: number | null;
  /** How integers stand for floats. */
  qscheme?: QScheme | null;
  /** The axis of the channels, where the qscheme is per channel. */
  chAxis?: number | null;
  /** Whether activations are quantized while the model runs, without calibration; default false. */
  isDynamic?: boolean;
}
/** A tensor has the scale of another (torch.ao's SharedQuantizationSpec). */
export interface SharedQuantizationSpec {
  /** Which kind of spec it is. */
  spec: "shared";
  /** The place whose observer it shares. */
  with: EdgeOrNode;
}
/** A tensor is quantized with a scale that is known before (torch.ao's FixedQParamsQuantizationSpec). */
export interface FixedQParamsQuantizationSpec {
  /** Which kind of spec it is. */
  spec: "fixed_qparams";
  /** The dtype of the integers. */
  dtype: DType;
  /** The scale. */
  scale: number;
  /** The integer that stands for 0. */
  zeroPoint: number;
  /** The least integer; by default that of the dtype. */
  quantMin?: number | null;
  /** The largest integer; by default that of the dtype. */
  quantMax?: number | null;
  /** How integers stand for floats. */
  qscheme?: QScheme | null;
}
/** The scale follows from those of other tensors (torch.ao's DerivedQuantizationSpec). */
export interface DerivedQuantizationSpec {
  /** Which kind of spec it is. */
  spec: "derived";
  /** The places whose scales it follows from. */
  from: readonly EdgeOrNode[];
  /**
   * How it follows: a bias has the product of input's and weight's scales; or a function of the sources' qparams, each
   * a list with one for the whole tensor or one for every channel.
   */
  rule:
    | "product_of_scales"
    | "copy_first"
    | "largest_scale"
    | ((sources: readonly { scale: readonly number[]; zeroPoint: readonly number[] }[]) => QParams);
  /** The dtype of the integers. */
  dtype: DType;
  /** The least integer; by default that of the dtype. */
  quantMin?: number | null;
  /** The largest integer; by default that of the dtype. */
  quantMax?: number | null;
  /** How integers stand for floats. */
  qscheme?: QScheme | null;
  /** The axis of the channels, where the qscheme is per channel. */
  chAxis?: number | null;
}
/** What is to be done with one tensor. */
export type QSpec = QuantizationSpec | SharedQuantizationSpec | FixedQParamsQuantizationSpec | DerivedQuantizationSpec;

/** What is to be done with a node's inputs and output; null: it stays float. */
export interface QuantizationAnnotation {
  /** The node's name. */
  node: string;
  /** For each producer that the node reads, the spec of that edge; null: it stays float. */
  inputs?: readonly (readonly [producer: string, qspec: QSpec | null])[];
  /** The spec of the node's value. */
  output?: QSpec | null;
  /** Whether the observer of the same tensor at another node may serve here too; default true. */
  allowImplicitSharing?: boolean;
  /** Whether later quantizers leave the node alone; default true. */
  annotated?: boolean;
  /** Why, for explain(). */
  reason?: string;
}

/** Whether a node may be quantized. */
export type FilterFunction = (node: NodeSnapshot) => boolean;

/** The attributes of one observer, and so of all that share it, set before it sees data: { quantMax: 127 }. */
export type ObserverOverride = EdgeOrNode & { attributes: Readonly<Record<string, boolean | number | string>> };

/** Specs in the place of options: what is left out stays float. */
export interface QuantizationConfig {
  /** Says that these are specs, not options. */
  readonly kind: "specs";
  /** The spec of the activations that an operator reads. */
  inputActivation?: QuantizationSpec | null;
  /** The spec of what it gives. */
  outputActivation?: QuantizationSpec | null;
  /** The spec of its weight. */
  weight?: QuantizationSpec | null;
  /** The spec of its bias. */
  bias?: QuantizationSpec | null;
  /** Whether it is for quantization-aware training; default false. */
  isQat?: boolean;
}

/** Arguments of PyTorch's get_symmetric_quantization_config, with its defaults. */
export interface SymmetricQuantizationOptions {
  /** Whether every output channel of a weight has a scale of its own; default false. */
  isPerChannel?: boolean;
  /** Whether it is for quantization-aware training; default false. */
  isQat?: boolean;
  /** Whether activations are quantized while the model runs, without calibration; default false. */
  isDynamic?: boolean;
  /** The least integer of activations; default -128. */
  actQmin?: number;
  /** The largest integer of activations; default 127. */
  actQmax?: number;
  /** The least integer of weights; default -127. */
  weightQmin?: number;
  /** The largest integer of weights; default 127. */
  weightQmax?: number;
  /**
   * Weights in -64..63, for runtimes whose int8 products saturate without VNNI; PyTorch's function does not have it.
   */
  reduceRange?: boolean;
}
/** Arguments of PyTorch's get_default_x86_inductor_quantization_config, with its defaults. */
export interface X86InductorQuantizationOptions {
  /** Whether it is for quantization-aware training; default false. */
  isQat?: boolean;
  /** Whether activations are quantized while the model runs, without calibration; default false. */
  isDynamic?: boolean;
  /** Whether activations take seven bits, for processors whose int8 products saturate; default false. */
  reduceRange?: boolean;
}
/** What getSymmetricQuantizationConfig() gives. */
export type SymmetricQuantizationConfig = SymmetricQuantizationOptions & { readonly kind: "symmetric" };
/** What getDefaultX86InductorQuantizationConfig() gives. */
export type X86InductorQuantizationConfig = X86InductorQuantizationOptions & { readonly kind: "x86_inductor" };

/**
 * The config of the XNNPACKQuantizer: int8 activations and weights, weights symmetric
 * (get_symmetric_quantization_config).
 */
export const getSymmetricQuantizationConfig = (
  options: SymmetricQuantizationOptions = {},
): SymmetricQuantizationConfig => ({ kind: "symmetric", ...checkObject("getSymmetricQuantizationConfig", options) });
/**
 * The config of the X86InductorQuantizer: uint8 activations, int8 weights per channel
 * (get_default_x86_inductor_quantization_config).
 */
export const getDefaultX86InductorQuantizationConfig = (
  options: X86InductorQuantizationOptions = {},
): X86InductorQuantizationConfig => ({
  kind: "x86_inductor",
  ...checkObject("getDefaultX86InductorQuantizationConfig", options),
});
