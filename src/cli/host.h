// The world as the command line sees it: files, a console, a clock. The native program and npx each bring their own.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/files.h"

namespace qdq {

struct Host {
  explicit Host(Files& files) : files(files) {}
  virtual ~Host() = default;

  virtual void print(const std::string& text) = 0;        // to the standard output
  virtual void print_error(const std::string& text) = 0;  // to the standard error output
  virtual bool error_is_terminal() = 0;                   // whether a progress bar would be seen
  // Whether colors are seen and wanted there: a terminal that has them, and no NO_COLOR in the environment.
  virtual bool error_has_colors() { return false; }
  virtual bool is_quiet() { return false; }  // whether only errors, warnings and results are wanted
  virtual double now_seconds() = 0;          // since any fixed moment

  // The day, as 2026-11-23; empty where it shall not be known, so that files come out the same.
  virtual std::string date() { return {}; }
  // The bytes of memory that the machine has for this program, where somebody knows.
  virtual std::optional<uint64_t> machine_memory() { return std::nullopt; }

  // Long work that can end early with what it has holds interrupts (Ctrl+C) meanwhile: the first is told of by
  // is_interrupted() instead of ending the program, the second ends it. Where interrupts cannot be held, they end it.
  virtual void hold_interrupts(bool /*hold*/) {}
  virtual bool is_interrupted() { return false; }

  // Ends the program with one line and status 1 when so many seconds (above 0, at most 10^9) have passed, whatever it
  // is at; outputs that are not finished by then stay as they were. Throws Error{kUnsupported} where nothing can.
  virtual void end_after(double seconds);

  // What a command of the user's printed to its standard output, and how it ended.
  struct CommandResult {
    int status = 0;
    std::string printed;
  };
  // Has the system's shell run a command line in which {outputs} stands for the path of an .npz with these bytes, which
  // is gone afterwards. Throws Error{kUnsupported} where there is no shell, Error{kIo} if the file cannot be written or
  // the shell does not start.
  virtual CommandResult run_on_outputs(const std::string& command, std::span<const std::byte> npz);

  Files& files;
};

}  // namespace qdq
