// A progress bar on a terminal; elsewhere one line for each stage of long work.
#include "cli/progress.h"

#include <algorithm>
#include <cstdio>

#include "base/error.h"

namespace qdq {

namespace {

constexpr double kRedrawSeconds = 0.05;
constexpr int64_t kBarWidth = 30;

}  // namespace

Progress::Progress(Host& host, std::string stage, int64_t total, std::string unit)
    : host_(host), stage_(std::move(stage)), unit_(std::move(unit)), total_(total), began_(host.now_seconds()) {
  if (host_.is_quiet()) return;
  if (host_.error_is_terminal()) draw();
  else host_.print_error(unit_ == "%" ? stage_ + "\n" : concat(stage_, ": ", counted(total_, unit_), "\n"));
}

Progress::~Progress() {
  if (width_ > 0) host_.print_error("\r" + std::string(width_, ' ') + "\r");
}

void Progress::advance() {
  ++done_;
  if (!host_.is_quiet() && host_.error_is_terminal() &&
      (done_ == total_ || host_.now_seconds() - drawn_ >= kRedrawSeconds))
    draw();
}

void Progress::draw() {
  drawn_ = host_.now_seconds();
  const int64_t filled = total_ > 0 ? done_ * kBarWidth / total_ : 0;
  std::string line = concat(stage_, " [", std::string(static_cast<size_t>(filled), '#'),
                            std::string(static_cast<size_t>(kBarWidth - filled), '.'), "] ", done_,
                            unit_ == "%" ? "" : concat("/", total_, " "), unit_);
  if (done_ > 0 && done_ < total_) {
    const double left = (drawn_ - began_) / static_cast<double>(done_) * static_cast<double>(total_ - done_);
    line += concat(", ", human_seconds(left), " left");
  }
  const size_t shown = line.size();
  line.resize(std::max(shown, width_), ' ');
  width_ = shown;
  host_.print_error("\r" + line);
}

void StageBar::show(const std::string& stage, double done) {
  constexpr int64_t kParts = 100;
  if (!host_.error_is_terminal()) return;
  if (stage != stage_) {
    bar_.emplace(host_, stage, kParts, "%");
    stage_ = stage;
    shown_ = 0;
  }
  for (; shown_ < static_cast<int64_t>(done * kParts); ++shown_) bar_->advance();
}

void StageBar::wipe() {
  bar_.reset();
  stage_.clear();
}

std::string counted(int64_t count, std::string_view plural) {
  if (count == 1) plural.remove_suffix(plural.ends_with("ches") ? 2 : 1);
  return concat(count, " ", plural);
}

std::string human_bytes(uint64_t bytes) {
  char text[32];
  const auto value = static_cast<double>(bytes);
  if (bytes < 1000) std::snprintf(text, sizeof text, "%d B", static_cast<int>(bytes));
  else if (bytes < 1000000) std::snprintf(text, sizeof text, "%.1f kB", value / 1e3);
  else std::snprintf(text, sizeof text, "%.2f MB", value / 1e6);
  return text;
}

std::string human_seconds(double seconds) {
  char text[32];
  if (seconds < 1) std::snprintf(text, sizeof text, "%.0f ms", seconds * 1e3);
  else std::snprintf(text, sizeof text, "%.1f s", seconds);
  return text;
}

}  // namespace qdq
