// The one exception type of the package.

// The names of ErrorCode in src/base/error.h, without the k.
export type ErrorCode =
  | "InvalidArgument"
  | "BadFile"
  | "Unsupported"
  | "NotCalibrated"
  | "OutOfMemory"
  | "Cancelled"
  | "Io"
  | "Internal";

// One clear sentence: what, where, found, wanted, remedy. `node` and `op` name the graph node and the operator it
// happened in.
export class QdqError extends Error {
  override readonly name = "QdqError";
  readonly code: ErrorCode;
  readonly node?: string;
  readonly op?: string;

  constructor(code: ErrorCode, message: string, where: { node?: string; op?: string } = {}) {
    super(message);
    this.code = code;
    if (where.node) this.node = where.node;
    if (where.op) this.op = where.op;
  }
}
