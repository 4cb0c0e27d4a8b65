// Operators of ai.onnx.ml that qdq runs as a whole, as ONNX again: ensembles of trees, and the probabilities of support
// vector machines.
#include <algorithm>

#include "io/onnx/export.h"
#include "op/trees.h"

namespace qdq {
namespace {

constexpr const char* kDomain = "ai.onnx.ml";
constexpr int64_t kFirstWithWideTrees = 3;  // version of the domain

// The nodes of all trees as attributes of TreeEnsembleRegressor, which numbers them by tree.
class TreeWriter {
 public:
  explicit TreeWriter(AtenCall& call) : call_(call) {
    const auto integers = [&](size_t i) { return call.known_integers(i); };
    roots_ = integers(kTreeRoots);
    features_ = integers(kTreeFeatures);
    modes_ = integers(kTreeModes);
    yes_ = integers(kTreeYes);
    no_ = integers(kTreeNo);
    missing_ = integers(kTreeMissing);
    first_ = integers(kTreeFirst);
    count_ = integers(kTreeCount);
    targets_ = integers(kTreeTargets);
    thresholds_ = doubles(kTreeThresholds);
    weights_ = doubles(kTreeWeights);
    const size_t nodes = features_.size();
    for (const auto* part : {&modes_, &yes_, &no_, &missing_, &first_, &count_})
      if (part->size() != nodes) call.refuse("has parts of its trees for different numbers of nodes");
    if (thresholds_.size() != nodes || weights_.size() != targets_.size())
      call.refuse("has parts of its trees for different numbers of nodes or leaves");
    // Roots have no parents, so that trees share no nodes; branches of one may, as of sets of values.
    for (size_t tree = 0; tree < roots_.size(); ++tree) add_tree(static_cast<int64_t>(tree));
  }

  // Whether float32 does not hold the thresholds and weights.
  bool is_wide() const {
    const auto is_float = [](double value) { return !(static_cast<double>(static_cast<float>(value)) != value); };
    return !std::ranges::all_of(thresholds_, is_float) || !std::ranges::all_of(weights_, is_float);
  }

  // Of x; `counts`: each weight is 1, so that what comes out is 0 where a row reaches no leaf of a target.
  std::string write(const std::string& x, bool is_wide, bool counts) const {
    OnnxAttributes out = {"nodes_treeids",
                          node_trees_,
                          "nodes_nodeids",
                          nodes_,
                          "nodes_featureids",
                          chosen(features_),
                          "nodes_modes",
                          mode_names(),
                          "nodes_truenodeids",
                          chosen(yes_),
                          "nodes_falsenodeids",
                          chosen(no_),
                          "nodes_missing_value_tracks_true",
                          chosen(missing_),
                          "target_treeids",
                          leaf_trees_,
                          "target_nodeids",
                          leaf_nodes_,
                          "target_ids",
                          leaf_targets_,
                          "n_targets",
                          call_.integer(kTreeNumTargets),
                          "aggregate_function",
                          counts ? "SUM" : call_.arg(kTreeAggregate).as<std::string>().c_str(),
                          "post_transform",
                          "NONE"};
    std::vector<double> weights = leaf_weights_;
    if (counts) std::ranges::fill(weights, 1);
    add_numbers(out, "nodes_values", chosen(thresholds_), is_wide);
    add_numbers(out, "target_weights", weights, is_wide);
    call_.file().use_domain(kDomain, kFirstWithWideTrees);
    return call_.emit(std::string(kDomain) + ".TreeEnsembleRegressor", x, out);
  }

 private:
  AtenCall& call_;
  std::vector<int64_t> roots_, features_, modes_, yes_, no_, missing_, first_, count_, targets_;
  std::vector<double> thresholds_, weights_;
  // What is written: a node of a tree each, and a weight of a leaf each.
  std::vector<int64_t> node_trees_, nodes_, leaf_trees_, leaf_nodes_, leaf_targets_;
  std::vector<double> leaf_weights_;

  std::vector<double> doubles(size_t i) const {
    const Tensor wide = call_.known(i).to(DType::kF64).contiguous();
    return {wide.data<double>(), wide.data<double>() + wide.numel()};
  }
  template <class T> std::vector<T> chosen(const std::vector<T>& of) const {
    std::vector<T> out;
    for (const int64_t node : nodes_) out.push_back(of[static_cast<size_t>(node)]);
    return out;
  }
  bool is_leaf(size_t node) const { return modes_[node] == static_cast<int64_t>(TreeMode::kLeaf); }
  std::vector<std::string> mode_names() const {
    std::vector<std::string> out;
    for (const int64_t mode : chosen(modes_)) {
      if (mode < 0 || mode >= std::ssize(kTreeModeNames)) call_.refuse("has a node of the mode ", mode);
      out.emplace_back(kTreeModeNames[mode]);
    }
    return out;
  }
  static void add_numbers(OnnxAttributes& to, const char* name, const std::vector<double>& values, bool is_wide) {
    if (is_wide)
      return to.add(concat(name, "_as_tensor").c_str(),
                    Tensor::of<double>({std::ssize(values)}, std::span<const double>(values)));
    to.add(name, std::vector<float>(values.begin(), values.end()));
  }

  // The nodes of a tree from its root, which readers want first.
  void add_tree(int64_t tree) {
    std::vector<int64_t> waiting{roots_[static_cast<size_t>(tree)]};
    std::vector<bool> seen(features_.size(), false);
    while (!waiting.empty()) {
      const int64_t node = waiting.back();
      waiting.pop_back();
      if (node < 0 || node >= std::ssize(features_)) call_.refuse("names the node ", node, " of ", features_.size());
      const auto at = static_cast<size_t>(node);
      if (seen[at]) continue;
      seen[at] = true;
      node_trees_.push_back(tree);
      nodes_.push_back(node);
      if (is_leaf(at)) add_leaf(tree, at);
      else waiting.insert(waiting.end(), {no_[at], yes_[at]});
    }
    if (nodes_.size() > features_.size()) call_.refuse("has trees that share nodes");
  }
  void add_leaf(int64_t tree, size_t node) {
    for (int64_t i = first_[node]; i < first_[node] + count_[node]; ++i) {
      if (i < 0 || i >= std::ssize(weights_)) call_.refuse("names the weight ", i, " of ", weights_.size());
      leaf_trees_.push_back(tree);
      leaf_nodes_.push_back(static_cast<int64_t>(node));
      leaf_targets_.push_back(targets_[static_cast<size_t>(i)]);
      leaf_weights_.push_back(weights_[static_cast<size_t>(i)]);
    }
  }
};

// TreeEnsembleRegressor; which targets a row has reached is counted by another one, which goes unless it is read.
void tree_ensemble(AtenCall& call) {
  const TreeWriter trees(call);
  const DType given = call.meta(kTreeX).dtype;
  const bool is_wide = given == DType::kF64 || trees.is_wide();
  const std::string x = call.cast(call.tensor(kTreeX), given, is_wide ? DType::kF64 : DType::kF32);
  const std::vector<std::string> results = call.name_results(2);
  OnnxExport& file = call.file();
  const std::string scores = trees.write(x, is_wide, false);
  if (given == DType::kF64) file.emit("Cast", scores, {"to", format::onnx_number(DType::kF64)}, results[0]);
  else file.emit("Identity", scores, {}, results[0]);
  file.emit("Cast", trees.write(x, is_wide, true), {"to", format::onnx_number(DType::kBool)}, results[1]);
}

// (scores, a, b, classes): an SVMClassifier with a support vector for each pair of classes, which is 1 at the place of
// that pair's score and has no weight in other pairs. Its vectors lie by the first class of their pairs; the last class
// has a vector without weights, for ONNX Runtime 1.21 breaks down at a class without any.
void pairwise_probabilities(AtenCall& call) {
  const int64_t classes = call.integer(3), pairs = classes * (classes - 1) / 2;
  constexpr int64_t kMostPairs = 2048;  // the vectors are a matrix of pairs by pairs
  if (classes < 2 || pairs > kMostPairs)
    call.refuse("has ", pairs, " pairs of classes, at most ", kMostPairs, " are written");
  const auto numbers = [&](size_t i) {
    const Tensor floats = call.known(i).to(DType::kF32).contiguous();
    return std::vector<float>(floats.data<float>(), floats.data<float>() + floats.numel());
  };
  const auto size = static_cast<size_t>(pairs), num_vectors = size + 1;
  std::vector<float> vectors(num_vectors * size, 0), weights(static_cast<size_t>(classes - 1) * num_vectors, 0);
  std::vector<int64_t> labels, per_class;
  size_t pair = 0;
  for (int64_t i = 0; i < classes; ++i) {
    labels.push_back(i);
    per_class.push_back(std::max<int64_t>(1, classes - 1 - i));
    for (int64_t j = i + 1; j < classes; ++j, ++pair) {
      vectors[pair * size + pair] = 1;
      weights[static_cast<size_t>(j - 1) * num_vectors + pair] = 1;
    }
  }
  const OnnxAttributes attributes = {"classlabels_ints",
                                     labels,
                                     "vectors_per_class",
                                     per_class,
                                     "kernel_type",
                                     "LINEAR",
                                     "kernel_params",
                                     std::vector<float>{1, 0, 1},  // a linear kernel reads none
                                     "support_vectors",
                                     vectors,
                                     "coefficients",
                                     weights,
                                     "rho",
                                     std::vector<float>(size, 0),
                                     "prob_a",
                                     numbers(1),
                                     "prob_b",
                                     numbers(2),
                                     "post_transform",
                                     "NONE"};
  OnnxExport& file = call.file();
  file.use_domain(kDomain, kFirstWithWideTrees);
  const std::string scores = call.cast(call.tensor(0), call.meta(0).dtype, DType::kF32);
  const std::string name = file.name_of(&call.node());
  file.emit_many(std::string(kDomain) + ".SVMClassifier", scores, attributes, {file.fresh(name + "_label"), name});
  call.same_as(name);
}

constexpr AtenExporter kTreeExporters[] = {{"pairwise_probabilities.default", pairwise_probabilities},
                                           {"tree_ensemble.default", tree_ensemble}};

}  // namespace

std::span<const AtenExporter> tree_exporters() { return kTreeExporters; }

}  // namespace qdq
