#include "quant/exact_sums.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace qdq {

namespace {

constexpr int kDigitBits = 36;
// Of the smallest and the largest number of 64 bits.
constexpr int kLeastPlace = -30, kLargestPlace = 28;

int place_of(double value) {
  const int exponent = std::ilogb(value);
  return exponent >= 0 ? exponent / kDigitBits : -((-exponent + kDigitBits - 1) / kDigitBits);
}

void add_digit(int64_t& to, int64_t digit) {
  QDQ_CHECK(!__builtin_add_overflow(to, digit, &to), kInvalidArgument,
            "more was added up than 64 bits hold; a calibration has at most 2^26 batches");
}

}  // namespace

ExactSums::ExactSums(int place, std::vector<int64_t> high, std::vector<int64_t> low)
    : place_(place), high_(std::move(high)), low_(std::move(low)) {
  QDQ_CHECK(high_.size() == low_.size(), kInvalidArgument, "there are ", high_.size(), " high digits and ", low_.size(),
            " low ones");
  QDQ_CHECK(place == kNothing || (place >= kLeastPlace && place <= kLargestPlace), kInvalidArgument,
            "the place of the digits is ", place, ", wanted ", kLeastPlace, " to ", kLargestPlace);
  const auto is_zero = [](int64_t digit) { return digit == 0; };
  QDQ_CHECK(place != kNothing ||
                (std::all_of(high_.begin(), high_.end(), is_zero) && std::all_of(low_.begin(), low_.end(), is_zero)),
            kInvalidArgument, "there are digits, and no place for them");
}

void ExactSums::raise(int place) {
  if (place <= place_) return;
  if (place == place_ + 1) low_.swap(high_);
  else std::fill(low_.begin(), low_.end(), 0);
  std::fill(high_.begin(), high_.end(), 0);
  place_ = place;
}

void ExactSums::add(std::span<const double> values) {
  QDQ_CHECK(values.size() == high_.size(), kInternal, "there are ", values.size(), " numbers for ", high_.size(),
            " sums");
  double largest = 0;
  for (const double value : values) {
    QDQ_CHECK(std::isfinite(value), kInvalidArgument,
              "there are sums that are not finite; look for infinite or huge numbers in the calibration data");
    largest = std::max(largest, std::fabs(value));
  }
  if (largest == 0) return;
  raise(place_of(largest));
  const double down = std::ldexp(1.0, -kDigitBits * place_ / 2), down_again = std::ldexp(1.0, -kDigitBits * place_ / 2);
  for (size_t i = 0; i < values.size(); ++i) {
    const double scaled = values[i] * down * down_again;  // by two factors, since one would be infinite for some places
    const double high = std::trunc(scaled), low = std::trunc((scaled - high) * 0x1p36);
    add_digit(high_[i], static_cast<int64_t>(high));
    add_digit(low_[i], static_cast<int64_t>(low));
  }
}

void ExactSums::merge(const ExactSums& other) {
  QDQ_CHECK(other.size() == size(), kInvalidArgument, "there are ", other.size(), " sums to merge with ", size());
  raise(other.place_);
  if (other.place_ < place_ - 1 || other.place_ == kNothing) return;
  const bool same = other.place_ == place_;
  for (size_t i = 0; i < size(); ++i) {
    if (same) add_digit(high_[i], other.high_[i]);
    add_digit(low_[i], same ? other.low_[i] : other.high_[i]);
  }
}

std::vector<double> ExactSums::values() const {
  std::vector<double> out(size());
  if (place_ == kNothing) return out;
  for (size_t i = 0; i < size(); ++i)
    out[i] = std::ldexp(static_cast<double>(high_[i]) + static_cast<double>(low_[i]) * 0x1p-36, kDigitBits * place_);
  return out;
}

}  // namespace qdq
