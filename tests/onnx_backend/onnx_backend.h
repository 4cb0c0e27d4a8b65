// Runs ONNX's own backend tests (Debian's package libonnx-testdata): `./dev test onnx`.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "base/files.h"

namespace qdq {

struct BackendTestOptions {
  // Folders of cases, or of folders of cases at any depth.
  std::vector<std::string> folders;
  // Only cases whose name, "node/test_abs", matches; * stands for any characters.
  std::string only = "*";
  // Whether a model that is refused is tried once more with its inputs but the first as constants.
  bool binds_constants = false;
  // Instead of the table: one line per case that is "passed", "refused", "differing", "disputed" or "failing" (the last
  // three).
  std::string list;
  // A file with a line "NAME: ..." for every case that is not to pass, as `list` "failing" writes it; lines that begin
  // with # are not read. Every other case must pass, and these must not.
  std::string expected;
};

// Loads the model of every case, runs it by a session, by the portable backend and by the reference operators, and
// compares the outputs with ONNX's: dtypes and shapes equal, integers exactly, floats as ONNX's runner does, within
// 1e-7 + 1e-3 * |expected|, and bfloat16 within one unit of its last place. A case is refused if qdq says that it
// cannot read or run it; it differs if an output is another or qdq itself broke, and is disputed if that output is
// known to be ONNX Runtime's too. Writes a table by operator, and the totals. Returns 1 if a case differs, or, with
// `expected`, if another set of cases fails; 1 too if there is no case at all; else 0.
int run_backend_tests(const BackendTestOptions& options, Files& files, std::ostream& out);

}  // namespace qdq
