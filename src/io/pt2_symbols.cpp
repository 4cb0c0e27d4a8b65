#include "io/pt2_symbols.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace qdq {
namespace {

using format::append_field;
using format::Json;

// Calls body for the sizes and numbers of a node's value that are a symbol.
template <class Body> void for_each_symbol(const Node& node, const Body& body) {
  const TensorMeta* meta = node.meta.val.tensor();
  const SymInt* number = std::get_if<SymInt>(&node.meta.val.value);
  for (const SymInt& size : meta ? meta->sizes : number ? SymShape{*number} : SymShape()) {
    const std::string symbol = size.to_string();
    if (!size.is_constant() && size == SymInt::symbol(symbol)) body(symbol);
  }
}

// Values of sizes that a run tells, if the model is none of PyTorch's, which knows what it asks of those: so large
// that sizes computed from them are none below zero.
void choose_hints_of_values(const Program& program, std::map<std::string, int64_t>& hints) {
  constexpr int64_t kLarge = 4096;
  for (const Node* node : program.graph->nodes()) {
    for (const Argument& argument : node->args())
      if (argument.is<Subprogram>()) choose_hints_of_values(*argument.as<Subprogram>(), hints);
    for_each_symbol(*node, [&](const std::string& symbol) {
      hints.emplace(symbol, kLarge + 64 * static_cast<int64_t>(hints.size()));
    });
  }
}

// How many sizes of values the hints make less than none.
int64_t sizes_below_zero(const Program& program, const std::map<std::string, int64_t>& hints) {
  int64_t count = 0;
  for (const Node* node : program.graph->nodes()) {
    const TensorMeta* meta = node->meta.val.tensor();
    for (const SymInt& size : meta ? meta->sizes : SymShape()) count += pt2_hint_of(size, hints).value_or(0) < 0;
    for (const Argument& argument : node->args())
      if (argument.is<Subprogram>()) count += sizes_below_zero(*argument.as<Subprogram>(), hints);
  }
  return count;
}

// Doubles the hints of open lengths until no size behind is below zero, as that of a convolution whose window is longer
// than the hint, which PyTorch does not load. The hint of one length alone where that helps: a decoder's whole length
// less its past is below zero however long both are.
void lengthen_hints(const Program& program, const std::vector<std::string>& lengths,
                    std::map<std::string, int64_t>& hints) {
  std::map<std::string, int64_t> longer = hints;
  int64_t below = sizes_below_zero(program, longer);
  for (int doublings = 0; doublings < 16 && below > 0; ++doublings) {
    bool helped = false;
    for (size_t i = 0; i < lengths.size() && !helped; ++i) {
      std::map<std::string, int64_t> one = longer;
      one[lengths[i]] *= 2;
      const int64_t left = sizes_below_zero(program, one);
      helped = left < below;
      if (helped) longer = std::move(one), below = left;
    }
    if (helped) continue;
    for (const std::string& symbol : lengths) longer[symbol] *= 2;
    below = sizes_below_zero(program, longer);
  }
  if (below == 0) hints = std::move(longer);
}

// PyTorch wants a range for every symbol, of sizes that only values tell too.
void add_ranges(const Program& program, Json& out) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() - 1;
  for (const Node* node : program.graph->nodes()) {
    for (const Argument& argument : node->args())
      if (argument.is<Subprogram>()) add_ranges(*argument.as<Subprogram>(), out);
    for_each_symbol(*node, [&](const std::string& symbol) {
      if (!out.contains(symbol)) append_field(out, symbol, {{"min_val", 0}, {"max_val", kMost}});
    });
  }
}

}  // namespace

std::optional<int64_t> pt2_hint_of(const SymInt& size, const std::map<std::string, int64_t>& hints) {
  try {
    return size.evaluate(hints);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::map<std::string, int64_t> pt2_hints(const Program& program) {
  std::map<std::string, int64_t> hints = program.symbol_hints;
  std::vector<std::string> lengths;
  int64_t next = 64;
  for (const Node* input : program.graph->placeholders()) {
    const TensorMeta* meta = input->meta.val.tensor();
    for (size_t axis = 0; meta != nullptr && axis < meta->sizes.size(); ++axis) {
      const std::string symbol = meta->sizes[axis].to_string();
      if (!(meta->sizes[axis] == SymInt::symbol(symbol)) || hints.contains(symbol)) continue;
      int64_t& hint = hints[symbol] = axis == 0 ? 2 : next;
      if (axis != 0) next += 64;
      const auto range = program.symbol_ranges.find(symbol);
      if (axis != 0 && (range == program.symbol_ranges.end() || !range->second.max)) lengths.push_back(symbol);
      if (range == program.symbol_ranges.end()) continue;
      hint = std::max(hint, range->second.min.value_or(hint));
      hint = std::min(hint, range->second.max.value_or(hint));
    }
  }
  if (program.torch_version.empty()) choose_hints_of_values(program, hints);
  lengthen_hints(program, lengths, hints);
  return hints;
}

Json pt2_range_constraints(const Program& program) {
  Json out = Json::object();
  for (const auto& [symbol, range] : program.symbol_ranges) {
    Json bounds = Json::object();
    bounds["min_val"] = range.min ? Json(*range.min) : Json(nullptr);
    bounds["max_val"] = range.max ? Json(*range.max) : Json(nullptr);
    append_field(out, symbol, std::move(bounds));
  }
  add_ranges(program, out);
  return out;
}

}  // namespace qdq
