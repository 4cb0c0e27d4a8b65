// The one exception type of the package.

/** The names of ErrorCode in src/base/error.h, without the k. */
export type ErrorCode =
  | "InvalidArgument"
  | "BadFile"
  | "Unsupported"
  | "NotCalibrated"
  | "OutOfMemory"
  | "Cancelled"
  | "Io"
  | "Internal";

/**
 * One clear sentence: what, where, found, wanted, remedy. `node` and `op` name the graph node and the operator it
 * happened in.
 */
export class QdqError extends Error {
  /** Always "QdqError". */
  override readonly name = "QdqError";
  /** What kind of error it is. */
  readonly code: ErrorCode;
  /** The graph node that it happened in, if it was one. */
  readonly node?: string;
  /** The operator of that node: "torch.ops.aten.conv2d.default". */
  readonly op?: string;

  /** qdq makes it. Your own quantizers and observers may throw it too. */
  constructor(code: ErrorCode, message: string, where: { node?: string; op?: string } = {}) {
    super(message);
    this.code = code;
    if (where.node) this.node = where.node;
    if (where.op) this.op = where.op;
  }
}
