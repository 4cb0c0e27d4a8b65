// Files and folders as JavaScript gives them.
#pragma once

#include <emscripten/val.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "bytes.h"

namespace qdq {

// Files of a host in JavaScript. Its methods answer with a string where they could not do their work.
class JavaScriptFiles final : public Files {
 public:
  explicit JavaScriptFiles(emscripten::val host) : host_(std::move(host)) {}

  std::vector<std::byte> read(const std::string& path) override {
    const emscripten::val answer = host_.call<emscripten::val>("readFile", path, most());
    refuse(answer, "cannot read ", path);
    return bytes_from(answer);
  }
  std::vector<std::byte> read_beside(const std::string& beside, const std::string& name) override {
    const emscripten::val answer = host_.call<emscripten::val>("readBeside", beside, name, most());
    refuse(answer, "cannot read ", name);
    return bytes_from(answer);
  }
  uint64_t size_of(const std::string& path) override {
    const emscripten::val answer = host_.call<emscripten::val>("sizeOf", path);
    refuse(answer, "cannot read ", path);
    return static_cast<uint64_t>(answer.as<double>());
  }
  std::vector<std::byte> read_part(const std::string& path, uint64_t offset, uint64_t count) override {
    check_memory_of_file(count, "a part of a file");
    std::vector<std::byte> bytes(static_cast<size_t>(count));
    const emscripten::val answer =
        host_.call<emscripten::val>("readInto", path, static_cast<double>(offset), view_of(bytes));
    refuse(answer, "cannot read ", path);
    bytes.resize(static_cast<size_t>(answer.as<double>()));
    return bytes;
  }
  std::optional<std::string> path_beside(const std::string& beside, const std::string& name) override {
    const emscripten::val answer = host_.call<emscripten::val>("pathBeside", beside, name);
    refuse(answer, "cannot read ", name);
    return answer["path"].as<std::string>();
  }
  void write(const std::string& path, std::span<const std::byte> bytes) override { write_parts(path, {&bytes, 1}); }
  void write_parts(const std::string& path, std::span<const std::span<const std::byte>> parts) override {
    const emscripten::val output = host_.call<emscripten::val>("openOutput", path);
    refuse(output, "cannot write ", path);
    const auto done = [&](const std::string& reason) {
      if (reason.empty()) return;
      output.call<void>("abandon");
      fail(ErrorCode::kIo, "cannot write ", path, ": ", reason);
    };
    for (const std::span<const std::byte> part : parts) done(output.call<std::string>("append", view_of(part)));
    done(output.call<std::string>("finish"));
  }
  std::string why_not_written(const std::string& folder) override {
    return host_.call<std::string>("whyNotWritten", folder);
  }
  void make_folder(const std::string& folder) override {
    const auto reason = host_.call<std::string>("makeFolder", folder);
    if (!reason.empty()) fail(ErrorCode::kIo, "cannot make the folder ", folder, ": ", reason);
  }
  std::vector<std::string> list(const std::string& folder) override {
    const emscripten::val answer = host_.call<emscripten::val>("listFolder", folder);
    refuse(answer, "cannot list ", folder);
    return emscripten::vecFromJSArray<std::string>(answer);
  }
  bool is_same(const std::string& a, const std::string& b) override {
    return host_.call<std::string>("fileBehind", a) == host_.call<std::string>("fileBehind", b);
  }
  bool is_folder(const std::string& path) override { return host_.call<std::string>("kind", path) == "folder"; }
  bool is_file(const std::string& path) override { return host_.call<std::string>("kind", path) == "file"; }

 private:
  // The bytes that a file may have, so that one without an end is not read to its end.
  static double most() { return static_cast<double>(*available_memory()); }
  static void refuse(const emscripten::val& answer, const char* what, const std::string& path) {
    if (answer.isString()) fail(ErrorCode::kIo, what, path, ": ", answer.as<std::string>());
  }

  const emscripten::val host_;
};

}  // namespace qdq
