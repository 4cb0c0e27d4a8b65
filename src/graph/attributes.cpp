#include "graph/attributes.h"

#include <utility>

#include "base/error.h"

namespace qdq {

size_t Attributes::place_of(std::string_view name) const {
  const auto found = places_.find(std::string(name));
  return found == places_.end() ? size() : found->second;
}

Attribute& Attributes::add(Attribute attribute) {
  const bool is_new = places_.emplace(attribute.name, size()).second;
  QDQ_CHECK(is_new, kInvalidArgument, "the program has an attribute '", attribute.name, "' already");
  return list_.emplace_back(std::move(attribute));
}

void Attributes::erase_if(FunctionRef<bool(const Attribute&)> goes) {
  if (std::erase_if(list_, goes) == 0) return;
  places_.clear();
  next_number_.clear();
  for (size_t i = 0; i < list_.size(); ++i) places_.emplace(list_[i].name, i);
}

std::string Attributes::free_name(std::string candidate) const {
  if (places_.count(candidate) == 0) return candidate;
  candidate += '_';
  int64_t& number = next_number_.emplace(candidate, 1).first->second;
  while (places_.count(candidate + std::to_string(number)) != 0) ++number;
  return candidate + std::to_string(number);
}

}  // namespace qdq
