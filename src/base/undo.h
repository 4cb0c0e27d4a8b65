#pragma once

#include <functional>
#include <utility>

namespace qdq {

// Calls `undo` when it goes, unless what was done is to be kept. A destructor runs where JavaScript's exceptions pass,
// which a catch does not see. `undo` must not throw.
class Undo {
 public:
  explicit Undo(std::function<void()> undo) : undo_(std::move(undo)) {}
  ~Undo() {
    if (undo_) undo_();
  }
  Undo(const Undo&) = delete;
  Undo& operator=(const Undo&) = delete;
  void keep() { undo_ = nullptr; }

 private:
  std::function<void()> undo_;
};

}  // namespace qdq
