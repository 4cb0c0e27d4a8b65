// The command line: words in, an exit status out. The same body runs natively and in the WASM module behind npx.
#pragma once

#include <span>
#include <string>

#include "cli/host.h"

namespace qdq {

// Runs `qdq ARGS...` (the program's name left out). 0: done; 1: the work failed and one line on the error output says
// why; 2: wrong usage. Never throws qdq::Error.
int run_cli(std::span<const std::string> args, Host& host);

}  // namespace qdq
