// Sums that neither the order nor the grouping of what is added changes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace qdq {

// Sums of so many numbers side by side. A number is cut into digits of 36 bits at places that are the same for all
// numbers, in units of 2^(36 i), and the digits of the two highest places in use are added as integers: at least 37
// bits of the largest number that was ever added. What lies below them is cut off number by number, towards zero. The
// place depends on the largest number alone, so any order and any grouping gives the same integers (the idea of Demmel
// and Nguyen, Parallel Reproducible Summation, 2015).
class ExactSums {
 public:
  explicit ExactSums(size_t count = 0) : high_(count), low_(count) {}
  // With these digits, of which `low` belongs to the place below `high`. Throws Error{kInvalidArgument} if there are
  // not as many of both, the place is none that a number has, or there are digits without a number.
  ExactSums(int place, std::vector<int64_t> high, std::vector<int64_t> low);

  // Throws Error{kInvalidArgument} for a number that is not finite, where it changes nothing, and for digits that 64
  // bits do not hold, which takes more than 2^26 additions.
  void add(std::span<const double> values);
  void merge(const ExactSums& other);

  size_t size() const { return high_.size(); }
  std::vector<double> values() const;

  // The higher place in use; kNothing before a number other than 0 was added.
  static constexpr int kNothing = -1000;
  int place() const { return place_; }
  const std::vector<int64_t>& high() const { return high_; }
  const std::vector<int64_t>& low() const { return low_; }

 private:
  void raise(int place);

  int place_ = kNothing;
  std::vector<int64_t> high_, low_;
};

}  // namespace qdq
