// A progress bar on a terminal; elsewhere one line for each stage of long work.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/host.h"

namespace qdq {

class Progress {
 public:
  // Begins a stage: "calibrating", of so many "batches", or of 100 "%".
  Progress(Host& host, std::string stage, int64_t total, std::string unit);
  // Wipes the bar.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void advance();

 private:
  void draw();

  Host& host_;
  std::string stage_;
  std::string unit_;
  int64_t total_;
  int64_t done_ = 0;
  double began_;
  double drawn_ = 0;
  size_t width_ = 0;  // of what stands on the line
};

// The bar of the stage that is at work, of several; on a terminal only.
class StageBar {
 public:
  explicit StageBar(Host& host) : host_(host) {}
  // `done`: from 0 to 1, of the stage.
  void show(const std::string& stage, double done);
  // Before something else is printed.
  void wipe();

 private:
  Host& host_;
  std::string stage_;
  std::optional<Progress> bar_;
  int64_t shown_ = 0;
};

// "1.42 MB", "873 B"; "1.4 s", "320 ms".
std::string human_bytes(uint64_t bytes);
// "1 batch", "2 batches": a count of things whose plural ends in s, or in ches.
std::string counted(int64_t count, std::string_view plural);
std::string human_seconds(double seconds);

}  // namespace qdq
