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

SortedNames::SortedNames(std::shared_ptr<ScratchBytes> store) : store_(std::move(store)) {}

void SortedNames::append(std::string_view name) {
  size_t shared = 0;
  if (size_ % kBlock == 0) {
    if (begins_.empty()) begins_.push_back(store_->size());
    if (size_ > 0) {
      store_->append(open_);
      begins_.push_back(store_->size());
      open_.clear();
    }
  } else {
    shared =
        static_cast<size_t>(std::mismatch(name.begin(), name.end(), last_.begin(), last_.end()).first - name.begin());
  }
  const size_t before = open_.size();
  put_size(open_, shared);
  put_size(open_, name.size() - shared);
  open_ += name.substr(shared);
  bytes_ += open_.size() - before;
  last_ = name;
  ++size_;
}

std::string SortedNames::block(size_t index) const {
  if (index + 1 >= begins_.size()) return open_;
  return store_->read(begins_[index], static_cast<size_t>(begins_[index + 1] - begins_[index]));
}

bool SortedNames::Cursor::next() {
  if (at_ == block_.size()) {
    if (next_block_ >= names_->begins_.size()) return false;
    block_ = names_->block(next_block_++);
    at_ = 0;
  }
  const size_t shared = take_size(block_, at_), count = take_size(block_, at_);
  name_.resize(shared);
  name_.append(block_, at_, count);
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
  size_t begin = 0, end = begins_.size();
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

void NameSorter::add(std::string name) {
  constexpr size_t kMost = 1 << 14;
  names_.push_back(std::move(name));
  if (names_.size() == kMost) pack();
}

void NameSorter::pack() {
  std::sort(names_.begin(), names_.end());
  SortedNames& run = runs_.emplace_back(store_);
  for (const std::string& name : names_) run.append(name);
  names_.clear();
}

SortedNames NameSorter::finish() {
  pack();
  if (runs_.size() == 1) return std::move(runs_[0]);
  names_ = {};
  std::vector<SortedNames::Cursor> rests;  // a heap, the least name in front
  for (const SortedNames& run : runs_)
    if (SortedNames::Cursor rest(run, 0); rest.next()) rests.push_back(std::move(rest));
  const auto behind = [](const auto& a, const auto& b) { return a.name() > b.name(); };
  std::make_heap(rests.begin(), rests.end(), behind);
  SortedNames out;
  while (!rests.empty()) {
    std::pop_heap(rests.begin(), rests.end(), behind);
    out.append(rests.back().name());
    if (rests.back().next()) std::push_heap(rests.begin(), rests.end(), behind);
    else rests.pop_back();
  }
  runs_.clear();
  store_ = std::make_shared<ScratchBytes>();
  return out;
}

}  // namespace qdq
