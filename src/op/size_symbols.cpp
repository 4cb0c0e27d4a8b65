#include "op/size_symbols.h"

#include <algorithm>

#include "base/error.h"

namespace qdq {
namespace {

constexpr std::string_view kFromValues = "(from values ";
constexpr int64_t kFar = int64_t{1} << 31;  // beyond any axis

std::string written(const char* name, const SymInt& a, const SymInt& b) {
  return concat(name, "(", a.to_srepr(), ", ", b.to_srepr(), ")");
}

}  // namespace

bool is_known_outside(const SymInt& size) {
  if (size.is_constant()) return true;
  const std::string text = size.to_string();
  for (size_t i = 0; i + 1 < text.size(); ++i)
    if ((text[i] == 'u' || text[i] == 'v') && text[i + 1] >= '0' && text[i + 1] <= '9') return false;
  return true;
}

SymInt size_from_values(size_t which) { return SymInt::symbol(concat(kFromValues, which, ")")); }
bool is_size_from_values(const SymInt& size) { return size.to_string().starts_with(kFromValues); }

SymInt smaller_size(const SymInt& a, const SymInt& b) {
  if (a == b) return a;
  if (const auto x = a.constant(), y = b.constant(); x && y) return std::min(*x, *y);
  return SymInt::parse(written("Min", a, b));
}

SymInt larger_size(const SymInt& a, const SymInt& b) {
  if (a == b) return a;
  if (const auto x = a.constant(), y = b.constant(); x && y) return std::max(*x, *y);
  return SymInt::parse(written("Max", a, b));
}

bool is_at_most(const SymInt& most, const SymInt& size) {
  return size.to_srepr().starts_with(concat("Min(", most.to_srepr(), ", "));
}

bool is_smaller_of(const SymInt& size, const SymInt& a, const SymInt& b) {
  return size.to_srepr() == written("Min", a, b);
}

bool is_symbol(const SymInt& size) {
  const std::string name = size.to_string();
  return name.find_first_of("( ") == std::string::npos && size == SymInt::symbol(name);
}

SymInt bound_within(int64_t bound, const SymInt& size) {
  if (bound >= kFar) return size;
  if (bound >= 0) return smaller_size(bound, size);
  return larger_size(0, size + SymInt(bound));
}

SymInt length_within(int64_t from, int64_t to, const SymInt& size) {
  const SymInt end = bound_within(to, size);
  if (from == 0) return end;
  const bool is_tail = from < 0 && from > -kFar && to >= 0;
  const SymInt length = is_tail && end == size ? size : larger_size(0, end - bound_within(from, size));
  return is_tail ? smaller_size(-from, length) : length;
}

SymInt slice_length(int64_t from, int64_t to, int64_t step, const SymInt& size) {
  return (length_within(from, to, size) + SymInt(step - 1)).floor_div(SymInt(step));
}

bool leaves_out_some(int64_t from, int64_t to) { return from >= 0 && (to < 0 || to == INT64_MAX); }

}  // namespace qdq
