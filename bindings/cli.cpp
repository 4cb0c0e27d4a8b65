// The command line as a module of its own, for npx: option parsing, the verbs and conformance are a quarter of all code, and no page
// downloads them.
#include "cli/cli.h"

#include <emscripten/bind.h>

#include "host.h"

namespace {

int run_command_line(const emscripten::val& args, const emscripten::val& host) {
  qdq::JavaScriptHost adapter(host);
  return qdq::run_cli(emscripten::vecFromJSArray<std::string>(args), adapter);
}

}  // namespace

EMSCRIPTEN_BINDINGS(qdq_cli) { emscripten::function("runCli", &run_command_line); }
