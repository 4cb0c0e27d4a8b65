#include "quant/masks.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>
#include <vector>

#include "op/facts.h"

namespace qdq {
namespace {

bool passes_scores(const Node& node) {
  if (node.op() == Node::Op::kCallModule) return true;  // an observer
  for (const Family family : {Family::kAdd, Family::kView, Family::kCopy, Family::kDropout})
    if (is_a(node, family)) return true;
  return false;
}

bool is_infinite_mask(float value) { return std::isinf(value) && value < 0; }

}  // namespace

bool leads_to_softmax(const Node& value) {
  std::vector<const Node*> left = {&value};
  std::unordered_set<const Node*> seen;
  while (!left.empty()) {
    const Node* node = left.back();
    left.pop_back();
    for (const Node* user : node->users()) {
      if (is_a(*user, Family::kSoftmax)) return true;
      if (passes_scores(*user) && seen.insert(user).second) left.push_back(user);
    }
  }
  return false;
}

bool has_finite_mask(const Tensor& values, float least) {
  if (least > -1000 || std::isinf(least)) return false;
  const Tensor flat = values.to(DType::kF32).contiguous();
  const std::span<const float> all = flat.span<float>();
  // Two masks may be added up.
  const auto is_hidden = [&](float value) { return value <= 0.4F * least; };
  const auto is_seen = [&](float value) { return value >= 0.01F * least; };
  return std::any_of(all.begin(), all.end(), is_seen) &&
         std::all_of(all.begin(), all.end(), [&](float value) { return is_hidden(value) || is_seen(value); });
}

std::optional<Tensor> without_hidden_scores(const Tensor& values, float least) {
  const bool is_infinite = is_infinite_mask(least);
  if (!is_infinite && !has_finite_mask(values, least)) return std::nullopt;
  const Tensor out = values.to(DType::kF32).clone();
  const auto is_hidden = [&](float value) { return is_infinite ? is_infinite_mask(value) : value <= 0.4F * least; };
  const std::span<float> all(out.data<float>(), static_cast<size_t>(out.numel()));
  if (std::all_of(all.begin(), all.end(), is_hidden)) return std::nullopt;
  std::replace_if(all.begin(), all.end(), is_hidden, kHiddenScore);
  return out;
}

}  // namespace qdq
