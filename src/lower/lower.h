// From a program to a session that runs it on backends.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exec/interpreter.h"

namespace qdq {

// Float convolutions, linear layers and matrix products as PyTorch 2.6 runs them on one thread of this processor: on oneDNN and on
// OpenBLAS, in the same order of summation. So a calibration on it gets PyTorch's ranges, but not the portable backend's bits, and
// nothing that decides about integers runs on it unless asked to. Null in builds without oneDNN (WASM).
std::unique_ptr<Backend> make_onednn_backend();

// The names that `LowerOptions::backends` may hold, best first: "onednn" (native builds), "simd", "reference".
std::vector<std::string_view> backend_names();

struct LowerOptions {
  // Asked in this order; the reference operators always close the list. Empty: all that the build has, best first.
  std::vector<std::string> backends;
};

// A program made ready to run again and again. It owns its program.
class Session {
 public:
  Session(Program program, const LowerOptions& options);
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  // As Interpreter::run.
  std::vector<Tensor> run(std::span<const Tensor> inputs);
  const Program& program() const;
  const std::vector<Interpreter::Placement>& placements() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Chooses a backend for every node. Constant subgraphs (dequantized weights) are computed once, here.
// Throws Error{kInvalidArgument} for a backend name that the build does not have.
Session lower(const Program& program, const LowerOptions& options = {});

}  // namespace qdq
