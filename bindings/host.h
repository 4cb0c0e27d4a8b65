// Files, folders and a console as JavaScript gives them.
#pragma once

#include <emscripten/val.h>

#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "bytes.h"
#include "cli/host.h"

namespace qdq {

// A host in JavaScript. Its methods answer with a string where they could not do their work.
class JavaScriptHost final : public Host {
 public:
  explicit JavaScriptHost(emscripten::val host) : host_(std::move(host)) {}

  std::vector<std::byte> read_file(const std::string& path) override {
    const emscripten::val answer = host_.call<emscripten::val>("readFile", path);
    refuse(answer, "cannot read ", path);
    return bytes_from(answer);
  }
  void write_file_whole(const std::string& path, std::span<const std::byte> bytes) override {
    const auto reason = host_.call<std::string>("writeFile", path, bytes_to(bytes));
    if (!reason.empty()) fail(ErrorCode::kIo, "cannot write ", path, ": ", reason);
  }
  std::vector<std::string> list_folder(const std::string& path) override {
    const emscripten::val answer = host_.call<emscripten::val>("listFolder", path);
    refuse(answer, "cannot list ", path);
    return emscripten::vecFromJSArray<std::string>(answer);
  }
  bool is_folder(const std::string& path) override { return host_.call<std::string>("kind", path) == "folder"; }
  bool is_file(const std::string& path) override { return host_.call<std::string>("kind", path) == "file"; }
  void print(const std::string& text) override { host_.call<void>("print", text); }
  void print_error(const std::string& text) override { host_.call<void>("printError", text); }
  bool error_is_terminal() override { return host_["errorIsTerminal"].as<bool>(); }
  double now_seconds() override { return emscripten::val::global("performance").call<double>("now") / 1000; }

 private:
  static void refuse(const emscripten::val& answer, const char* what, const std::string& path) {
    if (answer.isString()) fail(ErrorCode::kIo, what, path, ": ", answer.as<std::string>());
  }

  const emscripten::val host_;
};

}  // namespace qdq
