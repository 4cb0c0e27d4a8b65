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
  bool error_has_colors() override { return colors; }
  std::string date() override { return day; }
  double now_seconds() override { return clock += 0.125; }

  std::string out, err, day;
  bool terminal = false, colors = false;
  double clock = 0;
};

}  // namespace qdq
