// A host that shows texts from files, names of operators and tensors among them, so that they can do no harm.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/host.h"

namespace qdq {

class ReadableHost final : public Host {
 public:
  explicit ReadableHost(Host& host) : Host(host.files), host_(host) {}

  void print(const std::string& text) override;
  void print_error(const std::string& text) override;
  bool error_has_colors() override { return host_.error_has_colors(); }
  bool is_quiet() override { return quiet; }
  std::string date() override { return host_.date(); }
  bool error_is_terminal() override { return host_.error_is_terminal(); }
  double now_seconds() override { return host_.now_seconds(); }
  std::optional<uint64_t> machine_memory() override { return host_.machine_memory(); }
  void hold_interrupts(bool hold) override { host_.hold_interrupts(hold); }
  bool is_interrupted() override { return host_.is_interrupted(); }
  void end_after(double seconds) override { host_.end_after(seconds); }
  CommandResult run_on_outputs(const std::string& command, std::span<const std::byte> npz) override {
    return host_.run_on_outputs(command, npz);
  }

  bool quiet = false;

 private:
  std::string colored(const std::string& text);

  Host& host_;
};

}  // namespace qdq
