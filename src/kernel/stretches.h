// Tells the caller of a kernel which stretches of the output are complete. Seen only inside the room.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/parallel.h"
#include "kernel/panel.h"

namespace qdq::kernel {

// A stretch is all that consecutive units of work give, each of them `images` images of `elements` elements; the last
// unit may have fewer. Where there are too few for the threads, all of the output is told at the end, in parts that
// divide the work among them.
class Stretches {
 public:
  using Written = std::function<void(int64_t begin, int64_t count)>;

  // `total` images in all; a unit is complete after `pieces` calls of finish. `written` may be empty, and must live as
  // long as this.
  Stretches(int64_t total, int64_t images, int64_t elements, int64_t pieces, const Written& written)
      : count_(total * elements), unit_(images * elements), written_(written) {
    const int64_t units = divide_up(total, images), threads = num_threads();
    together_ = std::clamp<int64_t>(divide_up(kStretch, unit_), 1, units);
    const int64_t stretches = divide_up(units, together_);
    if (!written || (threads > 1 && stretches < 4 * threads)) return;
    missing_ = std::vector<std::atomic<int64_t>>(static_cast<size_t>(stretches));
    for (size_t s = 0; s < missing_.size(); ++s)
      missing_[s] = std::min(together_, units - static_cast<int64_t>(s) * together_) * pieces;
  }

  // A piece of the unit is complete; from any thread.
  void finish(int64_t unit) {
    if (missing_.empty()) return;
    const int64_t stretch = unit / together_, begin = stretch * together_ * unit_;
    if (--missing_[static_cast<size_t>(stretch)] == 0) written_(begin, std::min(together_ * unit_, count_ - begin));
  }

  // All pieces are.
  void finish_all() {
    if (written_ && missing_.empty())
      parallel_for(count_, kStretch, [&](int64_t begin, int64_t end) { written_(begin, end - begin); });
  }

 private:
  // Elements that are worth to be told as written.
  static constexpr int64_t kStretch = int64_t{1} << 14;

  int64_t count_, unit_, together_ = 1;
  const Written& written_;
  std::vector<std::atomic<int64_t>> missing_;  // pieces of each stretch; none if all is told at the end
};

}  // namespace qdq::kernel
