#include "op/size_symbols.h"

#include <algorithm>

#include "base/error.h"

namespace qdq {
namespace {

constexpr std::string_view kFromValues = "(from values ";

SymInt extreme_size(const char* name, const SymInt& a, const SymInt& b) {
  return SymInt::parse(concat(name, "(", a.to_srepr(), ", ", b.to_srepr(), ")"));
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
  return extreme_size("Min", a, b);
}

SymInt larger_size(const SymInt& a, const SymInt& b) {
  if (a == b) return a;
  if (const auto x = a.constant(), y = b.constant(); x && y) return std::max(*x, *y);
  return extreme_size("Max", a, b);
}

bool is_at_most_one(const SymInt& size) {
  const std::string text = size.to_string();
  const size_t end = text.find(')');  // of a minimum of plain sizes, which holds no other
  return text.starts_with("Min(1, ") && end + 1 == text.size();
}

SymInt bound_within(int64_t bound, const SymInt& size) {
  if (bound >= int64_t{1} << 31) return size;
  if (bound >= 0) return smaller_size(bound, size);
  return larger_size(0, size + SymInt(bound));
}

}  // namespace qdq
