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

// What a terminal or a reader could be deceived by: control characters but for newlines and tabs, marks that turn the
// direction of writing, halves of characters. As src/base/readable.h has it.
const deceptive =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]|\p{Surrogate}/gu;
const longest = 2200;

/**
 * Text that holds names of files and of callers as a person may be shown it: such characters spelled out, the middle of
 * a long text left out. What C++ says is so already.
 * @internal
 */
export function readable(text: string): string {
  const escaped = (part: string) =>
    part.replace(deceptive, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`);
  if (text.length <= longest) return escaped(text);
  const head = Math.floor((longest / 4) * 3);
  const tail = text.length - Math.floor(longest / 4);
  return `${escaped(text.slice(0, head))} [${tail - head} characters are left out] ${escaped(text.slice(tail))}`;
}

/**
 * One clear sentence: what, where, found, wanted, remedy. `node` and `op` name the graph node and the operator it
 * happened in.
 */
export class QdqError extends Error {
  /** Always "QdqError". */
  override readonly name = "QdqError";
  /** The kind of error. */
  readonly code: ErrorCode;
  /** The graph node of the error, if any. */
  readonly node?: string;
  /** The operator of that node: "torch.ops.aten.conv2d.default". */
  readonly op?: string;

  /** qdq makes it. Your own quantizers and observers may throw it too. */
  constructor(code: ErrorCode, message: string, where: { node?: string; op?: string } = {}) {
    super(readable(String(message)));
    this.code = code;
    if (where.node) this.node = where.node;
    if (where.op) this.op = where.op;
  }
}
