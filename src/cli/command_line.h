// The verbs and what each takes: add_... of a verb stands in the verb's file.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/memory.h"
#include "cli/options.h"
#include "cli/readable_host.h"

namespace qdq {

// Verbs write their options into this and, when the words are read, say what is to be done.
struct CommandLine {
  // `command`: the words as a report shows them.
  CommandLine(ReadableHost& host, std::string command);

  // `example`: a command as help shows it, of 78 columns. `check`, if given, throws a CLI::ParseError for words that do
  // not go together.
  CLI::App* verb(const char* name, const char* description, const char* example, std::function<void(Host&)> body,
                 std::function<void()> check = {});
  // What may be used: what --max-memory says, or what the machine has; nothing if nobody knows.
  std::optional<MemoryLimit> memory_limit() const;

  ReadableHost& host;
  CLI::App app{"Int8 quantization of PyTorch and ONNX models (.pt2, .onnx)", "qdq"};
  std::string command;
  std::function<void(Host&)> work;
  int threads = 1;
  std::optional<double> timeout;  // seconds

 private:
  void add_descriptions();

  std::string shell_, max_memory_;
};

void add_quantize(CommandLine& line);
void add_calibrate(CommandLine& line);
void add_merge(CommandLine& line);
void add_train(CommandLine& line);
void add_run(CommandLine& line);
void add_evaluate(CommandLine& line);
void add_compare(CommandLine& line);
void add_sensitivity(CommandLine& line);
void add_benchmark(CommandLine& line);
void add_inspect(CommandLine& line);
void add_recipe(CommandLine& line);
void add_convert(CommandLine& line);
void add_fuse(CommandLine& line);

}  // namespace qdq
