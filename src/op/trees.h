// Ensembles of trees for the operator onnx::tree_ensemble, which op/onnx.cpp defines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace qdq {

// Its arguments, in order. Each node has a feature, a mode, a threshold, the nodes `yes` and `no` that it leads to,
// whether a missing value (NaN) goes to `yes`, and the weights `first` to `first` + `count` - 1, which a leaf adds to
// their targets.
enum TreeArgument : size_t {
  kTreeX,
  kTreeRoots,
  kTreeFeatures,
  kTreeModes,
  kTreeThresholds,
  kTreeYes,
  kTreeNo,
  kTreeMissing,
  kTreeFirst,
  kTreeCount,
  kTreeTargets,
  kTreeWeights,
  kTreeNumTargets,
  kTreeAggregate
};

enum class TreeMode : int64_t { kLessEqual, kLess, kGreaterEqual, kGreater, kEqual, kNotEqual, kLeaf };

// What ONNX calls the modes, in their order.
constexpr std::string_view kTreeModeNames[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE", "BRANCH_GT",
                                               "BRANCH_EQ",  "BRANCH_NEQ", "LEAF"};

}  // namespace qdq
