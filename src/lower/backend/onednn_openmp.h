// oneDNN's OpenMP regions on the threads of parallel_for.
#pragma once

#include <string_view>

namespace qdq::onednn {

// While one lives, parallel regions that this thread starts by GCC's OpenMP run on the threads of parallel_for instead
// of OpenMP's own, and take num_threads() threads unless they ask for a number. Everybody else's regions stay as they
// are. Where this library is loaded behind OpenMP's (as a plugin) nothing changes: OpenMP runs all regions itself.
//
// OpenMP waits for each of its threads at the end of a region, spinning, even while another program has the core of
// one: a network's hundred regions then take 50 to 300 times as long as with one thread. Here the caller runs the share
// of whoever does not come.
class OpenMpRegions {
 public:
  enum class Threads {
    kIndependent,  // those of a region never wait for each other: one may run after the other, in the same thread
    kTogether      // they do: a region may get fewer threads than it asked for
  };
  explicit OpenMpRegions(Threads threads);
  ~OpenMpRegions();
  OpenMpRegions(const OpenMpRegions&) = delete;
  OpenMpRegions& operator=(const OpenMpRegions&) = delete;

 private:
  int outer_;
};

// What the regions of an implementation need, by the name that oneDNN gives it: "gemm:jit" and its kin divide a sum
// among threads or share packed panels; no other that computes forward does.
OpenMpRegions::Threads threads_of(std::string_view implementation);

}  // namespace qdq::onednn
