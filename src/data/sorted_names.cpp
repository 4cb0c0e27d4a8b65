#include "data/sorted_names.h"

#include <algorithm>
#include <utility>

namespace qdq {

namespace {

void put_size(std::string& out, size_t value) {
  for (; value >= 128; value >>= 7) out += static_cast<char>(value % 128 + 128);
  out += static_cast<char>(value);
}

size_t take_size(const std::string& from, size_t& at) {
  size_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(from[at++]);
    value |= static_cast<size_t>(byte % 128) << shift;
    if (byte < 128) return value;
  }
}

}  // namespace

void SortedNames::append(std::string_view name) {
  size_t shared = 0;
  if (size_ % kBlock == 0) {
    if (!blocks_.empty()) blocks_.back().shrink_to_fit();
    blocks_.emplace_back();
  } else {
    shared =
        static_cast<size_t>(std::mismatch(name.begin(), name.end(), last_.begin(), last_.end()).first - name.begin());
  }
  put_size(blocks_.back(), shared);
  put_size(blocks_.back(), name.size() - shared);
  blocks_.back() += name.substr(shared);
  last_ = name;
  ++size_;
}

bool SortedNames::Cursor::next() {
  if (block_ < names_->blocks_.size() && at_ == names_->blocks_[block_].size()) {
    ++block_;
    at_ = 0;
  }
  if (block_ >= names_->blocks_.size()) return false;
  const std::string& block = names_->blocks_[block_];
  const size_t shared = take_size(block, at_), count = take_size(block, at_);
  name_.resize(shared);
  name_.append(block, at_, count);
  at_ += count;
  return true;
}

std::string SortedNames::operator[](int64_t index) const {
  Cursor cursor(*this, static_cast<size_t>(index / kBlock));
  for (int64_t i = 0; i <= index % kBlock; ++i) cursor.next();
  return cursor.name();
}

int64_t SortedNames::lower_bound(std::string_view name) const {
  // The last block whose first name is before it.
  size_t begin = 0, end = blocks_.size();
  while (begin < end) {
    const size_t middle = begin + (end - begin) / 2;
    Cursor first(*this, middle);
    first.next();
    if (first.name() < name) begin = middle + 1;
    else end = middle;
  }
  const size_t block = begin == 0 ? 0 : begin - 1;
  auto index = static_cast<int64_t>(block) * kBlock;
  for (Cursor cursor(*this, block); cursor.next() && cursor.name() < name;) ++index;
  return index;
}

void SortedNames::for_each(const std::function<void(std::string_view)>& visit) const {
  for (Cursor cursor(*this, 0); cursor.next();) visit(cursor.name());
}

size_t SortedNames::bytes() const {
  size_t sum = blocks_.capacity() * sizeof(std::string);
  for (const std::string& block : blocks_) sum += block.capacity();
  return sum;
}

void NameSorter::add(std::string name) {
  constexpr size_t kMost = 1 << 14;
  names_.push_back(std::move(name));
  if (names_.size() == kMost) pack();
}

void NameSorter::pack() {
  std::sort(names_.begin(), names_.end());
  SortedNames& run = runs_.emplace_back();
  for (const std::string& name : names_) run.append(name);
  names_.clear();
}

// Frees what was merged.
bool NameSorter::Rest::next() {
  const size_t block = cursor.block();
  const bool has_more = cursor.next();
  if (cursor.block() != block) std::exchange(run->blocks_[block], {});
  return has_more;
}

SortedNames NameSorter::finish() {
  pack();
  if (runs_.size() == 1) return std::move(runs_[0]);
  names_ = {};
  std::vector<Rest> rests;  // a heap, the least name in front
  for (SortedNames& run : runs_)
    if (Rest rest{&run, {run, 0}}; rest.next()) rests.push_back(std::move(rest));
  const auto behind = [](const Rest& a, const Rest& b) { return a.cursor.name() > b.cursor.name(); };
  std::make_heap(rests.begin(), rests.end(), behind);
  SortedNames out;
  while (!rests.empty()) {
    std::pop_heap(rests.begin(), rests.end(), behind);
    out.append(rests.back().cursor.name());
    if (rests.back().next()) std::push_heap(rests.begin(), rests.end(), behind);
    else rests.pop_back();
  }
  return out;
}

}  // namespace qdq
