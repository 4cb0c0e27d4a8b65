// A Host whose files and console are in memory.
#pragma once

#include <string>

#include "cli/host.h"
#include "unit/memory_files.h"

namespace qdq {

class MemoryHost : public MemoryFiles, public Host {
 public:
  MemoryHost() : Host(static_cast<Files&>(*this)) {}

  void print(const std::string& text) override { out += text; }
  void print_error(const std::string& text) override { err += text; }
  bool error_is_terminal() override { return terminal; }
  double now_seconds() override { return clock += 0.125; }

  std::string out, err;
  bool terminal = false;
  double clock = 0;
};

}  // namespace qdq
