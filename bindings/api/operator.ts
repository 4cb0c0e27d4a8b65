// Operators that qdq does not have, brought by the program that uses it.
import type { RawRunner, RawSignature, RawTensor, RawValue } from "../wasm/qdq.js";
import { QdqError } from "./error.js";
import { unwrap } from "./loader.js";
import type { Loader } from "./loader.js";
import { areAll, shown } from "./options.js";
import { fromRaw, toRaw } from "./tensor.js";
import type { DType, Tensor } from "./tensor.js";

/**
 * The properties of a tensor before a run. Sizes that depend on the inputs' are text, which you may pass on unchanged.
 */
export interface TensorSignature {
  /** The dtype of its elements. */
  dtype: DType;
  /** Its sizes. */
  shape: readonly (number | string)[];
}

/** An argument of a call, in the order of the schema, defaults filled in. T: a tensor, or its properties. */
export type OperatorArgument<T> = T | number | boolean | string | null | readonly OperatorArgument<T>[];

/** An operator written in JavaScript, for registerOperator. */
export interface CustomOperator {
  /** The result's dtype and shape; a list for several results. */
  infer(args: readonly OperatorArgument<TensorSignature>[]): TensorSignature | readonly TensorSignature[];
  /** The result, which must be what `infer` says. */
  evaluate(args: readonly OperatorArgument<Tensor>[]): Tensor | readonly Tensor[];
}

const isObject = (value: unknown): value is object => typeof value === "object" && value !== null;

function tensorsIn(value: RawValue<RawTensor>): OperatorArgument<Tensor> {
  if (Array.isArray(value)) return value.map(tensorsIn);
  return isObject(value) ? fromRaw(value as RawTensor) : (value as number | boolean | string | null);
}

const list = <T>(value: T | readonly T[]): readonly T[] => (Array.isArray(value) ? value : [value]) as readonly T[];

function checkedSignature(signature: TensorSignature, schema: string): RawSignature {
  const { dtype, shape } = (signature ?? {}) as Partial<TensorSignature>;
  const isSize = (size: unknown) => typeof size === "number" || typeof size === "string";
  if (typeof dtype === "string" && Array.isArray(shape) && areAll(shape, isSize)) return { dtype, shape: [...shape] };
  throw new QdqError(
    "InvalidArgument",
    `infer() of ${schema} gave ${shown(signature)}, wanted {dtype: "float32", shape: [2, 3]}`,
  );
}

/**
 * Brings the operator into a module; registerOperator of both entries says what holds.
 * @internal
 */
export async function registerIn<M extends RawRunner>(
  loader: Loader<M>,
  schema: string,
  operator: CustomOperator,
): Promise<void> {
  if (typeof schema !== "string")
    throw new QdqError(
      "InvalidArgument",
      `an operator's schema is ${shown(schema)}, wanted "my::blur(Tensor x) -> Tensor"`,
    );
  if (typeof operator?.infer !== "function" || typeof operator?.evaluate !== "function") {
    throw new QdqError("InvalidArgument", `the operator ${schema} lacks a function infer or evaluate`);
  }
  const callbacks = {
    infer: (args: RawValue<RawSignature>[]): RawSignature[] =>
      Array.from(list(operator.infer(args as OperatorArgument<TensorSignature>[])), (signature) =>
        checkedSignature(signature, schema),
      ),
    evaluate: (args: RawValue<RawTensor>[]): RawTensor[] =>
      Array.from(list(operator.evaluate(args.map(tensorsIn))), (result) => toRaw(result, `the result of ${schema}`)),
  };
  unwrap((await loader.load()).registerOperator(schema, callbacks));
}
