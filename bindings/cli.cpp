// The command line as a module of its own, for npx: option parsing and the verbs are code that no page downloads.
#include "cli/cli.h"

#include <emscripten/bind.h>

#include "files.h"

namespace qdq {

namespace {

// A console in JavaScript.
class JavaScriptHost final : public Host {
 public:
  JavaScriptHost(Files& files, emscripten::val host) : Host(files), host_(std::move(host)) {}

  void print(const std::string& text) override { host_.call<void>("print", text); }
  void print_error(const std::string& text) override { host_.call<void>("printError", text); }
  bool error_is_terminal() override { return host_["errorIsTerminal"].as<bool>(); }
  std::string date() override { return host_["date"].as<std::string>(); }
  bool error_has_colors() override { return host_["errorHasColors"].as<bool>(); }
  CommandResult run_on_outputs(const std::string& command, std::span<const std::byte> npz) override {
    const emscripten::val view(emscripten::typed_memory_view(npz.size(), reinterpret_cast<const uint8_t*>(npz.data())));
    const emscripten::val result = host_.call<emscripten::val>("runOnOutputs", command, view);
    QDQ_CHECK(!result.isString(), kIo, "cannot run ", command, ": ", result.as<std::string>());
    return {result["status"].as<int>(), result["printed"].as<std::string>()};
  }
  double now_seconds() override { return emscripten::val::global("performance").call<double>("now") / 1000; }

 private:
  const emscripten::val host_;
};

int run_command_line(const emscripten::val& args, const emscripten::val& host) {
  JavaScriptFiles files(host);
  JavaScriptHost adapter(files, host);
  return run_cli(emscripten::vecFromJSArray<std::string>(args), adapter);
}

}  // namespace

}  // namespace qdq

EMSCRIPTEN_BINDINGS(qdq_cli) { emscripten::function("runCli", &qdq::run_command_line); }
