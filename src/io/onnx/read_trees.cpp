// ONNX operators of domain ai.onnx.ml: ensembles of trees.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "io/onnx/chains.h"
#include "io/onnx/ml.h"
#include "op/trees.h"

namespace qdq {
namespace {

using format::OnnxAttribute;

// Nodes of trees as the operator onnx.tree_ensemble takes them.
struct Trees {
  std::vector<int64_t> roots, features, modes, yes, no, missing, first, count, targets;
  std::vector<double> thresholds, weights;

  int64_t add(int64_t mode, int64_t feature, double threshold, bool goes_yes_if_missing) {
    modes.push_back(mode);
    features.push_back(feature);
    thresholds.push_back(threshold);
    missing.push_back(goes_yes_if_missing);
    for (std::vector<int64_t>* empty : {&yes, &no, &first, &count}) empty->push_back(0);
    return static_cast<int64_t>(modes.size()) - 1;
  }
};
constexpr auto kLeafMode = static_cast<int64_t>(TreeMode::kLeaf);

// What the trees give each row: scores, and which of them it has reached; the others are 0.
struct TreeScores {
  Node *scores, *reached;
};
TreeScores run_trees(OnnxCall& call, const Trees& trees, int64_t num_targets, const std::string& aggregate) {
  const auto integers = [&](const std::vector<int64_t>& values) { return constant_vector(call, values); };
  const auto doubles = [&](const std::vector<double>& values) {
    return call.import().constant(
        Tensor::of<double>({static_cast<int64_t>(values.size())}, std::span<const double>(values)), "trees");
  };
  Node* both =
      call.call_as_it_is("onnx.tree_ensemble.default",
                         {number_rows(call), integers(trees.roots), integers(trees.features), integers(trees.modes),
                          doubles(trees.thresholds), integers(trees.yes), integers(trees.no), integers(trees.missing),
                          integers(trees.first), integers(trees.count), integers(trees.targets), doubles(trees.weights),
                          num_targets, aggregate});
  return {call.call("operator.getitem", {both, 0}), call.call("operator.getitem", {both, 1})};
}

// Numbers that are floats, or a tensor in newer versions.
std::vector<double> doubles_of(OnnxCall& call, const std::string& name) {
  const OnnxAttribute* tensor = call.attribute(name + "_as_tensor");
  if (tensor == nullptr) tensor = call.attribute(name);
  if (tensor == nullptr) return {};
  if (!tensor->t.defined()) return {tensor->floats.begin(), tensor->floats.end()};
  const Tensor wide = tensor->t.to(DType::kF64).contiguous();
  return {wide.data<double>(), wide.data<double>() + wide.numel()};
}

// Trees whose nodes are told by the number of their tree and their own. `leaves` is "class" or "target".
Trees numbered_trees(OnnxCall& call, const std::string& leaves) {
  const std::vector<int64_t> tree = call.integers("nodes_treeids", {}), node = call.integers("nodes_nodeids", {}),
                             feature = call.integers("nodes_featureids", {}),
                             yes = call.integers("nodes_truenodeids", {}), no = call.integers("nodes_falsenodeids", {}),
                             missing = call.integers("nodes_missing_value_tracks_true", {});
  const std::vector<double> threshold = doubles_of(call, "nodes_values");
  const OnnxAttribute* modes = call.attribute("nodes_modes");
  const size_t count = tree.size();
  if (modes == nullptr || modes->strings.size() != count || node.size() != count || feature.size() != count ||
      yes.size() != count || no.size() != count || threshold.size() != count ||
      (!missing.empty() && missing.size() != count))
    call.refuse("has parts of its trees for different numbers of nodes");
  Trees out;
  std::map<std::pair<int64_t, int64_t>, int64_t> places;
  for (size_t i = 0; i < count; ++i) {
    const auto* mode = std::ranges::find(kTreeModeNames, modes->strings[i]);
    if (mode == std::end(kTreeModeNames)) call.refuse("has a node of mode ", modes->strings[i]);
    if (!places.emplace(std::pair(tree[i], node[i]), static_cast<int64_t>(i)).second)
      call.refuse("has the node ", node[i], " of tree ", tree[i], " twice");
    out.add(mode - std::begin(kTreeModeNames), feature[i], threshold[i], !missing.empty() && missing[i] != 0);
  }
  const auto place = [&](int64_t of_tree, int64_t number) {
    const auto found = places.find({of_tree, number});
    if (found == places.end()) call.refuse("lacks the node ", number, " of tree ", of_tree);
    return found->second;
  };
  std::vector<bool> has_parent(count, false);
  for (size_t i = 0; i < count; ++i) {
    if (out.modes[i] == kLeafMode) continue;
    out.yes[i] = place(tree[i], yes[i]);
    out.no[i] = place(tree[i], no[i]);
    for (const int64_t child : {out.yes[i], out.no[i]}) has_parent[static_cast<size_t>(child)] = true;
  }
  for (size_t i = 0; i < count; ++i)
    if (!has_parent[i]) out.roots.push_back(static_cast<int64_t>(i));
  const std::vector<int64_t> leaf_tree = call.integers(leaves + "_treeids", {}),
                             leaf_node = call.integers(leaves + "_nodeids", {}),
                             leaf_target = call.integers(leaves + "_ids", {});
  const std::vector<double> leaf_weight = doubles_of(call, leaves + "_weights");
  if (leaf_node.size() != leaf_tree.size() || leaf_target.size() != leaf_tree.size() ||
      leaf_weight.size() != leaf_tree.size())
    call.refuse("has parts of its leaves of different number");
  std::map<int64_t, std::vector<size_t>> by_node;
  for (size_t i = 0; i < leaf_tree.size(); ++i) by_node[place(leaf_tree[i], leaf_node[i])].push_back(i);
  for (const auto& [at, entries] : by_node) {
    out.first[static_cast<size_t>(at)] = static_cast<int64_t>(out.weights.size());
    out.count[static_cast<size_t>(at)] = static_cast<int64_t>(entries.size());
    for (const size_t i : entries) {
      out.targets.push_back(leaf_target[i]);
      out.weights.push_back(leaf_weight[i]);
    }
  }
  return out;
}

// Scores of float32 with the base values.
Node* plus_base(OnnxCall& call, Node* scores) {
  scores = cast_to(call, scores, DType::kF32);
  const std::vector<double> base = doubles_of(call, "base_values");
  if (base.empty()) return scores;
  const Tensor values = Tensor::of<double>({static_cast<int64_t>(base.size())}, std::span<const double>(base));
  return call.call("add.Tensor", {scores, call.import().constant(values.to(DType::kF32), "base_values")});
}

// A target that a row does not reach stays 0, without its base value.
void tree_ensemble_regressor(OnnxCall& call) {
  const TreeScores all = run_trees(call, numbered_trees(call, "target"), call.integer("n_targets", 1),
                                   call.text("aggregate_function", "SUM"));
  Node* scores = plus_base(call, all.scores);
  if (!doubles_of(call, "base_values").empty()) scores = call.call("where.ScalarOther", {all.reached, scores, 0.0});
  call.set(transformed_scores(call, scores, call.text("post_transform", "NONE")));
}

// The scores of both classes from that of one [N, 1].
Node* both_classes(OnnxCall& call, Node* score, const std::string& transform) {
  Node* both = side_by_side(call, call.call("neg.default", {score}), score);
  return transform == "LOGISTIC" ? call.call("sigmoid.default", {both}) : both;
}

// As ONNX Runtime has it, whose answers for two classes depend on the weights: those of class 0 alone are the score of
// class 1, which decides, against a half if no weight is negative, else against 0; so is the score of class 0 in rows
// that do not reach class 1.
void tree_ensemble_classifier(OnnxCall& call) {
  constexpr const char *kIntegers = "classlabels_int64s", *kStrings = "classlabels_strings";
  const Trees trees = numbered_trees(call, "class");
  const auto classes = static_cast<int64_t>(number_of_labels(call, kIntegers, kStrings));
  const std::string transform = call.text("post_transform", "NONE");
  const TreeScores all = run_trees(call, trees, classes, "SUM");
  const size_t num_base = doubles_of(call, "base_values").size();
  if (classes != 2) {
    Node* scores = plus_base(call, all.scores);
    Node* ranked =
        num_base > 0 ? scores
                     : call.call("where.ScalarOther", {all.reached, scores, -std::numeric_limits<double>::infinity()});
    set_labels(call, call.call("argmax.default", {ranked, 1}), kIntegers, kStrings);
    return call.set(transformed_scores(call, scores, transform), 1);
  }
  if (num_base > 1) call.refuse("has ", num_base, " base values for two classes, wanted one");
  const bool is_one = std::all_of(trees.targets.begin(), trees.targets.end(),
                                  [&](int64_t target) { return target == trees.targets[0]; });
  if (is_one && transform == "PROBIT") call.refuse("has one score for two classes with the post_transform PROBIT");
  const bool is_positive_alone =
      std::all_of(trees.weights.begin(), trees.weights.end(), [](double weight) { return weight >= 0; });
  const auto column = [&](Node* of, int64_t i) { return call.call("slice.Tensor", {of, 1, i, i + 1}); };
  Node *zero = plus_base(call, column(all.scores, 0)), *one = cast_to(call, column(all.scores, 1), DType::kF32);
  if (num_base > 0) zero = call.call("where.ScalarOther", {column(all.reached, 0), zero, 0.0});
  Node* has_one = column(all.reached, 1);
  Node* score = call.call("where.self", {has_one, one, zero});
  set_labels(call, is_positive(call, score, is_one && is_positive_alone ? 0.5 : 0), kIntegers, kStrings);
  Node* alone = is_one && is_positive_alone ? side_by_side(call, call.call("rsub.Scalar", {zero, 1}), zero)
                                            : both_classes(call, zero, transform);
  Node* pair = transformed_scores(call, side_by_side(call, zero, one), transform);
  call.set(call.call("where.self", {has_one, pair, alone}), 1);
}

// Trees of version 5: leaves are counted by themselves; a node may ask for one of several values.
void tree_ensemble(OnnxCall& call) {
  static constexpr std::string_view kTransforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  static constexpr const char* kAggregates[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  constexpr int64_t kMember = 6, kEqual = 4;
  const std::vector<int64_t> feature = call.integers("nodes_featureids", {}),
                             yes = call.integers("nodes_truenodeids", {}), no = call.integers("nodes_falsenodeids", {}),
                             yes_leaf = call.integers("nodes_trueleafs", {}),
                             no_leaf = call.integers("nodes_falseleafs", {}),
                             missing = call.integers("nodes_missing_value_tracks_true", {}),
                             targets = call.integers("leaf_targetids", {});
  const std::vector<double> threshold = doubles_of(call, "nodes_splits"), weights = doubles_of(call, "leaf_weights"),
                            members = doubles_of(call, "membership_values"), modes = doubles_of(call, "nodes_modes");
  const size_t count = feature.size();
  const int64_t aggregate = call.integer("aggregate_function", 1), transform = call.integer("post_transform", 0);
  if (yes.size() != count || no.size() != count || yes_leaf.size() != count || no_leaf.size() != count ||
      threshold.size() != count || modes.size() != count || (!missing.empty() && missing.size() != count) ||
      targets.size() != weights.size())
    call.refuse("has parts of its trees for different numbers of nodes or leaves");
  if (aggregate < 0 || aggregate > 3 || transform < 0 || transform > 4)
    call.refuse("has the aggregate_function ", aggregate, " and the post_transform ", transform);
  Trees out;
  size_t next = 0;  // of the values that nodes ask for, NaN behind those of each
  std::vector<std::vector<int64_t>> places(count);
  for (size_t i = 0; i < count; ++i) {
    if (!(modes[i] >= 0 && modes[i] <= kMember)) call.refuse("has a node of mode ", modes[i]);
    const auto mode = static_cast<int64_t>(modes[i]);
    const bool if_missing = !missing.empty() && missing[i] != 0;
    if (mode != kMember) places[i].push_back(out.add(mode, feature[i], threshold[i], if_missing));
    else {
      for (; next < members.size() && !std::isnan(members[next]); ++next)
        places[i].push_back(out.add(kEqual, feature[i], members[next], if_missing));
      ++next;
    }
    if (places[i].empty()) call.refuse("has a node that asks for none of its values");
  }
  const auto first_leaf = static_cast<int64_t>(out.modes.size());
  for (size_t i = 0; i < targets.size(); ++i) {
    const auto leaf = static_cast<size_t>(out.add(kLeafMode, 0, 0, false));
    out.first[leaf] = static_cast<int64_t>(i);
    out.count[leaf] = 1;
  }
  out.targets = targets;
  out.weights = weights;
  const auto place = [&](int64_t number, bool is_leaf) {
    const auto limit = static_cast<int64_t>(is_leaf ? targets.size() : count);
    if (number < 0 || number >= limit) call.refuse("names the node or leaf ", number, " of ", limit);
    return is_leaf ? first_leaf + number : places[static_cast<size_t>(number)][0];
  };
  for (size_t i = 0; i < count; ++i)
    for (size_t k = 0; k < places[i].size(); ++k) {
      const auto at = static_cast<size_t>(places[i][k]);
      out.yes[at] = place(yes[i], yes_leaf[i] != 0);
      out.no[at] = k + 1 < places[i].size() ? places[i][k + 1] : place(no[i], no_leaf[i] != 0);
    }
  for (const int64_t root : call.integers("tree_roots", {})) {
    // A tree of one leaf stands as a node both of whose ways lead to it.
    out.roots.push_back(place(root, false));
  }
  const TreeScores all = run_trees(call, out, call.integer("n_targets", 1), kAggregates[aggregate]);
  call.set(transformed_scores(call, all.scores, kTransforms[transform]));
}

constexpr OnnxOperator kTreeOperators[] = {
    {"ai.onnx.ml.TreeEnsemble", tree_ensemble, nullptr},
    {"ai.onnx.ml.TreeEnsembleClassifier", tree_ensemble_classifier, nullptr},
    {"ai.onnx.ml.TreeEnsembleRegressor", tree_ensemble_regressor, nullptr},
};

}  // namespace

std::span<const OnnxOperator> onnx_tree_operators() { return kTreeOperators; }

}  // namespace qdq
