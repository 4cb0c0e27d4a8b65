// The world as the command line sees it: files, a console, a clock. The native program and npx each bring their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace qdq {

struct Host {
  virtual ~Host() = default;

  // The bytes of a file. Throws Error{kIo} with path and reason.
  virtual std::vector<std::byte> read_file(const std::string& path) = 0;
  // Puts the bytes where a reader sees either the old file or the whole new one. Throws Error{kIo}.
  virtual void write_file_whole(const std::string& path, std::span<const std::byte> bytes) = 0;
  // The names of files and folders in a folder, in any order. Throws Error{kIo}.
  virtual std::vector<std::string> list_folder(const std::string& path) = 0;
  virtual bool is_folder(const std::string& path) = 0;
  virtual bool is_file(const std::string& path) = 0;

  virtual void print(const std::string& text) = 0;        // to the standard output
  virtual void print_error(const std::string& text) = 0;  // to the standard error output
  virtual bool error_is_terminal() = 0;                   // whether a progress bar would be seen
  virtual double now_seconds() = 0;                       // since any fixed moment

  // The bytes of memory that the machine has for this program, where somebody knows.
  virtual std::optional<uint64_t> machine_memory() { return std::nullopt; }
};

}  // namespace qdq
