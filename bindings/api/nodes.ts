// A program looked into: its tensors, and the values of its nodes.
import { QdqError } from "./error.js";
import { handleOf, module, unwrap } from "./module.js";
import { isFunction, shown } from "./options.js";
import type { Program } from "./program.js";
import type { Tensor } from "./tensor.js";
import { fromRaw, rawInputs } from "./tensor.js";

/**
 * A parameter, buffer or constant of a program, by the name that info().attributes has. Throws
 * QdqError{InvalidArgument} for a name that it does not have.
 */
export const programTensor = (program: Program, name: string): Tensor =>
  fromRaw(unwrap(module().programTensor(handleOf(program), name)));

/**
 * Puts another tensor of the same dtype and shape in its place. Throws QdqError{InvalidArgument} for one of another.
 */
export function setProgramTensor(program: Program, name: string, tensor: Tensor): void {
  unwrap(module().setProgramTensor(handleOf(program), name, rawInputs([tensor])[0]!));
}

/**
 * Runs a program node by node, without fused steps, and calls `onNode` with the value of every operator that gives a
 * tensor. Returns the outputs.
 */
export function runNodes(
  program: Program,
  inputs: readonly Tensor[],
  onNode: (name: string, target: string, value: Tensor) => void,
): Tensor[] {
  if (!isFunction(onNode)) throw new QdqError("InvalidArgument", `onNode is ${shown(onNode)}, wanted a function`);
  return unwrap(
    module().runNodes(handleOf(program), rawInputs(inputs), (name, target, value) =>
      onNode(name, target, fromRaw(value)),
    ),
  ).map(fromRaw);
}
