// ONNX operators of domain ai.onnx.ml: classifiers, regressors and what stands around them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <numeric>

#include "io/onnx/chains.h"
#include "tensor/strings.h"

namespace qdq {
namespace {

using format::OnnxAttribute;

Node* number_rows(OnnxCall& call) {
  Node* x = call.tensor(0);
  if (call.meta(0).dtype != DType::kF64) x = cast_to(call, x, DType::kF32);
  if (call.rank(0) == 1) x = call.call("unsqueeze.default", {x, 0});
  if (call.meta_of(x).sizes.size() != 2) call.refuse("has an input of ", call.rank(0), " axes, wanted rows [N, C]");
  return x;
}

std::vector<float> floats_of(OnnxCall& call, std::string_view name) {
  const OnnxAttribute* found = call.attribute(name);
  return found ? found->floats : std::vector<float>();
}

// Numbers of an attribute as a tensor of this dtype and shape.
Node* constant_of(OnnxCall& call, std::string_view name, const Shape& sizes, DType dtype = DType::kF32) {
  const std::vector<float> values = floats_of(call, name);
  if (numel_of(sizes) != static_cast<int64_t>(values.size()))
    call.refuse("has ", values.size(), " numbers as ", name, ", wanted the shape ", to_string(sizes));
  return call.import().constant(Tensor::of<float>(sizes, std::span<const float>(values)).to(dtype), std::string(name));
}

Node* transformed_scores(OnnxCall& call, Node* scores, std::string_view transform) {
  if (transform == "NONE" || transform.empty()) return scores;
  if (transform == "LOGISTIC") return call.call("sigmoid.default", {scores});
  if (transform == "SOFTMAX") return call.call("softmax.int", {scores, -1});
  if (transform == "PROBIT") {
    Node* twice = call.call("add.Tensor", {call.call("mul.Tensor", {scores, 2}), -1});
    return call.call("mul.Tensor", {call.call("erfinv.default", {twice}), std::numbers::sqrt2});
  }
  if (transform == "SOFTMAX_ZERO") {  // zeros stay what they are
    Node* is_some = call.call("gt.Scalar", {call.call("abs.default", {scores}), 1e-7});
    Node* largest = call.call("amax.default", {scores, OnnxCall::list(std::vector<int64_t>{-1}), true});
    Node* powers = call.call("exp.default", {call.call("sub.Tensor", {scores, largest})});
    powers = call.call("where.ScalarOther", {is_some, powers, 0.0});
    return call.call("div.Tensor",
                     {powers, call.call("sum.dim_IntList", {powers, OnnxCall::list(std::vector<int64_t>{-1}), true})});
  }
  call.refuse("has the post_transform ", transform, ", wanted NONE, LOGISTIC, SOFTMAX, SOFTMAX_ZERO or PROBIT");
}

// The strings of an attribute as a constant, or null if there are none.
Node* strings_of(OnnxCall& call, std::string_view name) {
  const OnnxAttribute* found = call.attribute(name);
  if (found == nullptr || found->strings.empty()) return nullptr;
  return call.import().constant(string_vector(found->strings), std::string(name));
}

// The elements of a list [K] at these places.
Node* taken(OnnxCall& call, Node* list, Node* places) {
  return call.call("index.Tensor", {list, Argument(Argument::List{places})});
}

// The labels of classes by number [N].
void set_labels(OnnxCall& call, Node* classes, std::string_view integers, std::string_view strings) {
  if (!call.has_output(0) || call.num_uses(0) == 0) return;
  if (Node* texts = strings_of(call, strings)) return call.set(taken(call, texts, classes));
  const std::vector<int64_t> labels = call.integers(integers, {});
  bool counts = true;
  for (size_t i = 0; i < labels.size(); ++i) counts = counts && labels[i] == static_cast<int64_t>(i);
  if (counts) return call.set(classes);
  call.set(taken(call, constant_vector(call, labels), classes));
}

size_t number_of_labels(OnnxCall& call, std::string_view integers, std::string_view strings) {
  const OnnxAttribute* text = call.attribute(strings);
  return std::max(call.integers(integers, {}).size(), text ? text->strings.size() : 0);
}

// 1 where a score [N, 1] is larger than the threshold, else 0, as [N].
Node* is_positive(OnnxCall& call, Node* score, double threshold) {
  Node* positive = call.call("gt.Scalar", {call.call("squeeze.dim", {score, 1}), threshold});
  return call.call("to.dtype", {positive, DType::kS64});
}

Node* side_by_side(OnnxCall& call, Node* first, Node* second) {
  return call.call("cat.default", {Argument(Argument::List{first, second}), 1});
}

Node* linear_scores(OnnxCall& call, int64_t targets) {
  Node* x = cast_to(call, number_rows(call), DType::kF32);
  const auto count = static_cast<int64_t>(floats_of(call, "coefficients").size());
  if (targets < 1 || count % targets != 0) call.refuse("has ", count, " coefficients for ", targets, " results");
  Node* weight = constant_of(call, "coefficients", {targets, count / targets});
  Node* bias = call.attribute("intercepts") ? constant_of(call, "intercepts", {targets}) : nullptr;
  return bias ? call.call("linear.default", {x, weight, bias}) : call.call("linear.default", {x, weight});
}

void linear_regressor(OnnxCall& call) {
  call.set(
      transformed_scores(call, linear_scores(call, call.integer("targets", 1)), call.text("post_transform", "NONE")));
}

void linear_classifier(OnnxCall& call) {
  const auto count = static_cast<int64_t>(floats_of(call, "intercepts").size());
  const size_t labels = number_of_labels(call, "classlabels_ints", "classlabels_strings");
  Node* scores = linear_scores(call, count > 0 ? count : static_cast<int64_t>(labels));
  const std::string transform = call.text("post_transform", "NONE");
  const bool is_one = call.extent(scores, 1) == SymInt(1);
  if (is_one && labels != 2) call.refuse("has one score for ", labels, " classes");
  Node* classes = is_one ? is_positive(call, scores, 0) : call.call("argmax.default", {scores, 1});
  set_labels(call, classes, "classlabels_ints", "classlabels_strings");
  if (is_one && transform != "NONE") call.refuse("has one score for two classes with the post_transform ", transform);
  call.set(is_one ? side_by_side(call, call.call("rsub.Scalar", {scores, 1}), scores)
                  : transformed_scores(call, scores, transform),
           1);
}

// K(x, s) for every row and every support vector.
Node* kernel_of(OnnxCall& call, Node* x, Node* vectors) {
  const std::vector<float> params = floats_of(call, "kernel_params");
  const auto param = [&](size_t i) { return i < params.size() ? static_cast<double>(params[i]) : 0.0; };
  const std::string kind = call.text("kernel_type", "LINEAR");
  Node* products = call.call("linear.default", {x, vectors});
  if (kind == "LINEAR") return products;
  if (kind == "RBF") {
    const auto squares = [&](Node* rows) {
      return call.call("sum.dim_IntList", {call.call("mul.Tensor", {rows, rows}), Argument(Argument::List{-1}), true});
    };
    Node* both = call.call("add.Tensor", {squares(x), call.call("transpose.int", {squares(vectors), 0, 1})});
    Node* distance = call.call("sub.Tensor", {both, call.call("mul.Tensor", {products, 2})});
    return call.call("exp.default", {call.call("mul.Tensor", {distance, -param(0)})});
  }
  Node* line = call.call("add.Tensor", {call.call("mul.Tensor", {products, param(0)}), param(1)});
  if (kind == "SIGMOID") return call.call("tanh.default", {line});
  if (kind == "POLY") return call.call("pow.Tensor_Scalar", {line, param(2)});
  call.refuse("has the kernel ", kind, ", wanted LINEAR, POLY, RBF or SIGMOID");
}

void svm_regressor(OnnxCall& call) {
  const int64_t supports = call.integer("n_supports", 0);
  Node* x = cast_to(call, number_rows(call), DType::kF32);
  const auto count = static_cast<int64_t>(floats_of(call, "coefficients").size());
  Node* weights = constant_of(call, "coefficients", {1, count});
  if (supports > 0) {
    const auto all = static_cast<int64_t>(floats_of(call, "support_vectors").size());
    x = kernel_of(call, x, constant_of(call, "support_vectors", {supports, all / supports}));
  }
  const std::vector<float> rho = floats_of(call, "rho");
  Node* score = call.call("linear.default", {x, weights});
  if (!rho.empty()) score = call.call("add.Tensor", {score, static_cast<double>(rho[0])});
  if (call.integer("one_class", 0) != 0) {
    Node* inside = cast_to(call, call.call("gt.Scalar", {score, 0}), DType::kF32);
    score = call.call("add.Tensor", {call.call("mul.Tensor", {inside, 2}), -1});
  }
  call.set(transformed_scores(call, score, call.text("post_transform", "NONE")));
}

// Scores between each pair of classes (i, j): the support vectors of i by their coefficients against j, those of j by
// theirs against i. Each pair votes for one of its classes.
void svm_of_pairs(OnnxCall& call, const std::vector<int64_t>& counts, int64_t classes) {
  const std::vector<float> values = floats_of(call, "coefficients"), all = floats_of(call, "support_vectors");
  const auto given = static_cast<int64_t>(values.size()), size = static_cast<int64_t>(all.size());
  int64_t vectors = 0;
  for (const int64_t count : counts) {
    if (count < 0 || count > size)
      call.refuse("has ", count, " support vectors of a class, and ", size, " numbers of all");
    vectors += count;
  }
  const int64_t pairs = classes * (classes - 1) / 2;
  if (static_cast<int64_t>(counts.size()) != classes || vectors < 1 || given != vectors * (classes - 1) ||
      size % vectors != 0)
    call.refuse("has ", size, " numbers as support_vectors and ", given, " coefficients for ", vectors, " vectors of ",
                classes, " classes");
  const Tensor weights = Tensor::empty({pairs, vectors}, DType::kF32),
               votes = Tensor::empty({classes, pairs}, DType::kF32), lost = Tensor::empty({classes}, DType::kF32);
  int64_t pair = 0, begin = 0;
  for (int64_t i = 0; i < classes; begin += counts[static_cast<size_t>(i++)])
    for (int64_t j = i + 1, other = begin + counts[static_cast<size_t>(i)]; j < classes;
         other += counts[static_cast<size_t>(j++)], ++pair) {
      const auto put = [&](int64_t first, int64_t count, int64_t row) {
        std::copy_n(values.data() + row * vectors + first, count, weights.data<float>() + pair * vectors + first);
      };
      put(begin, counts[static_cast<size_t>(i)], j - 1);
      put(other, counts[static_cast<size_t>(j)], i);
      votes.data<float>()[i * pairs + pair] = 1;
      votes.data<float>()[j * pairs + pair] = -1;
      lost.data<float>()[j] += 1;
    }
  const auto constant = [&](const Tensor& tensor) { return call.import().constant(tensor, "svm"); };
  Node* x = cast_to(call, number_rows(call), DType::kF32);
  Node* kernel = kernel_of(call, x, constant_of(call, "support_vectors", {vectors, size / vectors}));
  Node* scores = call.call("linear.default", {kernel, constant(weights), constant_of(call, "rho", {pairs})});
  Node* wins = cast_to(call, call.call("gt.Scalar", {scores, 0}), DType::kF32);
  Node* counted = call.call("linear.default", {wins, constant(votes), constant(lost)});
  set_labels(call, call.call("argmax.default", {counted, 1}), "classlabels_ints", "classlabels_strings");
  const std::string transform = call.text("post_transform", "NONE");
  if (!floats_of(call, "prob_a").empty()) {
    Node* likely =
        call.call("torch.ops.onnx.pairwise_probabilities.default",
                  {scores, constant_of(call, "prob_a", {pairs}), constant_of(call, "prob_b", {pairs}), classes});
    return call.set(transformed_scores(call, likely, transform), 1);
  }
  if (classes > 2) return call.set(transformed_scores(call, scores, transform), 1);
  Node* other = transform == "NONE" ? call.call("neg.default", {scores}) : call.call("rsub.Scalar", {scores, 1});
  call.set(side_by_side(call, other, scores), 1);
}

// As ONNX Runtime has it: without support vectors a score for each class, and of two classes the second one if a score
// is above a half, where no coefficient is negative, or above 0.
void svm_classifier(OnnxCall& call) {
  const std::vector<int64_t> counts = call.integers("vectors_per_class", {});
  const auto classes = static_cast<int64_t>(number_of_labels(call, "classlabels_ints", "classlabels_strings"));
  if (classes < 2) call.refuse("has ", classes, " classes");
  if (!counts.empty()) return svm_of_pairs(call, counts, classes);
  const std::vector<float> rho = floats_of(call, "rho"), weights = floats_of(call, "coefficients");
  Node* scores = linear_scores(call, classes);
  if (!rho.empty()) scores = call.call("add.Tensor", {scores, static_cast<double>(rho[0])});
  Node* best = call.call("argmax.default", {scores, 1});
  if (classes == 2 && rho.size() == 1) {
    const bool is_positive_alone = std::all_of(weights.begin(), weights.end(), [](float w) { return w >= 0; });
    Node* largest = call.call("amax.default", {scores, Argument(Argument::List{1})});
    Node* is_second = is_positive_alone ? call.call("ge.Scalar", {largest, 0.5}) : call.call("gt.Scalar", {largest, 0});
    best = call.call("where.ScalarSelf", {is_second, 1, best});
  }
  set_labels(call, best, "classlabels_ints", "classlabels_strings");
  call.set(transformed_scores(call, scores, call.text("post_transform", "NONE")), 1);
}

void scaler(OnnxCall& call) {
  Node* x = cast_to(call, call.tensor(0), DType::kF32);
  const auto size = [&](std::string_view name) { return static_cast<int64_t>(floats_of(call, name).size()); };
  if (size("offset") > 0) x = call.call("sub.Tensor", {x, constant_of(call, "offset", {size("offset")})});
  if (size("scale") > 0) x = call.call("mul.Tensor", {x, constant_of(call, "scale", {size("scale")})});
  call.set(x);
}

// Each row by its largest element, or its norm; a row of zeros stays.
void normalizer(OnnxCall& call) {
  Node* x = cast_to(call, call.tensor(0), DType::kF32);
  const std::string norm = call.text("norm", "MAX");
  const Argument axes = Argument(Argument::List{-1});
  Node* size = nullptr;
  if (norm == "MAX") size = call.call("amax.default", {x, axes, true});
  else if (norm == "L1" || norm == "L2")
    size = call.call("linalg_vector_norm.default", {x, norm == "L1" ? 1 : 2, axes, true});
  else call.refuse("has the norm ", norm, ", wanted MAX, L1 or L2");
  Node* divisor = call.call("masked_fill.Scalar", {size, call.call("eq.Scalar", {size, 0}), 1});
  call.set(call.call("div.Tensor", {x, divisor}));
}

void binarizer(OnnxCall& call) {
  Node* above = call.call("gt.Scalar", {call.tensor(0), call.real("threshold", 0)});
  call.set(call.call("to.dtype", {above, call.meta(0).dtype}));
}

void imputer(OnnxCall& call) {
  Node* x = call.tensor(0);
  const DType dtype = call.meta(0).dtype;
  if (is_floating(dtype)) {
    const std::vector<float> values = floats_of(call, "imputed_value_floats");
    const double replaced = call.real("replaced_value_float", 0);
    Node* is_missing = std::isnan(replaced) ? call.call("isnan.default", {x}) : call.call("eq.Scalar", {x, replaced});
    Node* value = constant_of(call, "imputed_value_floats", {static_cast<int64_t>(values.size())}, dtype);
    return call.set(call.call("where.self", {is_missing, value, x}));
  }
  Node* is_missing = call.call("eq.Scalar", {x, call.integer("replaced_value_int64", 0)});
  Node* value = cast_to(call, constant_vector(call, call.integers("imputed_value_int64s", {})), dtype);
  call.set(call.call("where.self", {is_missing, value, x}));
}

void array_feature_extractor(OnnxCall& call) {
  Node* x = call.tensor(0);
  if (call.rank(0) == 1) x = call.call("unsqueeze.default", {x, 0});
  Node* places = call.call("reshape.default", {call.tensor(1), Argument(Argument::List{-1})});
  call.set(call.call("index_select.default", {x, -1, places}));
}

void one_hot_encoder(OnnxCall& call) {
  std::vector<int64_t> classes = call.integers("cats_int64s", {});
  Node* x = call.tensor(0);
  if (Node* texts = strings_of(call, "cats_strings")) {
    x = call.call("torch.ops.onnx.find.default", {x, texts});
    classes.resize(static_cast<size_t>(call.import().constant_of(texts).numel()));
    std::iota(classes.begin(), classes.end(), 0);
  }
  x = call.call("unsqueeze.default", {cast_to(call, x, DType::kS64), -1});
  Node* is_class = call.call("eq.Tensor", {x, constant_vector(call, classes)});
  call.set(call.call("to.dtype", {is_class, DType::kF32}));
}

void feature_vectorizer(OnnxCall& call) {
  const std::vector<int64_t> widths = call.integers("inputdimensions", {});
  Argument::List parts;
  for (size_t i = 0; i < call.num_inputs(); ++i) {
    Node* x = cast_to(call, call.tensor(i), DType::kF32);
    if (call.rank(i) == 1) x = call.call("unsqueeze.default", {x, 0});
    const SymShape& sizes = call.meta_of(x).sizes;
    if (sizes.size() != 2 || i >= widths.size() || !(sizes[1] == SymInt(widths[i])))
      call.refuse("has an input of shape ", to_string(sizes), " for ", i < widths.size() ? widths[i] : 0, " features");
    parts.emplace_back(x);
  }
  call.set(call.call("cat.default", {Argument(std::move(parts)), 1}));
}

// Keys or values of a map: strings, integers or floats.
Tensor mapped(OnnxCall& call, const char* what) {
  const auto name = [&](const char* kind) { return concat(what, kind); };
  if (const OnnxAttribute* found = call.attribute(name("_tensor")); found && found->t.defined())
    return found->t.reshape({found->t.numel()});
  if (const std::vector<int64_t> found = call.integers(name("_int64s"), {}); !found.empty())
    return Tensor::of<int64_t>({static_cast<int64_t>(found.size())}, found);
  if (const OnnxAttribute* found = call.attribute(name("_strings")); found && !found->strings.empty())
    return string_vector(found->strings);
  const std::vector<float> found = floats_of(call, name("_floats"));
  if (found.empty()) call.refuse("has no ", what);
  return Tensor::of<float>({static_cast<int64_t>(found.size())}, std::span<const float>(found));
}

// The values of the keys that the elements equal; what is no key becomes the default, a tensor of one element.
Node* looked_up(OnnxCall& call, const Tensor& keys, const Tensor& values, const Tensor& otherwise, bool joins_nan) {
  if (keys.numel() != values.numel()) call.refuse("has ", keys.numel(), " keys and ", values.numel(), " values");
  if (otherwise.numel() != 1 || otherwise.dtype() != values.dtype())
    call.refuse("has values of ", to_string(values.dtype()), " and a default of ", to_string(otherwise.dtype()),
                to_string(otherwise.sizes()));
  Node* place =
      call.call("torch.ops.onnx.find.default", {call.tensor(0), call.import().constant(keys, "keys"), joins_nan});
  // The default stands behind the values, where the place -1 leads.
  Tensor all = Tensor::empty({values.numel() + 1}, values.dtype());
  all.slice(0, 0, values.numel()).copy_from(values);
  all.slice(0, values.numel(), values.numel() + 1).copy_from(otherwise.reshape({1}));
  return taken(call, call.import().constant(all, "values"), place);
}

// Before version 2: texts by their places, or places by their texts.
void old_label_encoder(OnnxCall& call) {
  const OnnxAttribute* classes = call.attribute("classes_strings");
  if (classes == nullptr) call.refuse("has no classes");
  const Tensor texts = string_vector(classes->strings);
  std::vector<int64_t> numbers(classes->strings.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  const Tensor places = Tensor::of<int64_t>({texts.numel()}, numbers);
  if (call.meta(0).dtype == DType::kString)
    return call.set(looked_up(call, texts, places, Tensor::scalar(call.integer("default_int64", -1)), false));
  const std::string otherwise = call.text("default_string", "_Unused");
  call.set(looked_up(call, places, texts, string_tensor({}, {&otherwise, 1}), false));
}

void label_encoder(OnnxCall& call) {
  if (call.opset() < 2) return old_label_encoder(call);
  const Tensor keys = mapped(call, "keys"), values = mapped(call, "values");
  Tensor otherwise = Tensor::scalar(call.integer("default_int64", -1));
  const std::string text = call.text("default_string", "_Unused");
  if (values.dtype() == DType::kString) otherwise = string_tensor({}, {&text, 1});
  else if (is_floating(values.dtype())) otherwise = Tensor::scalar(call.real("default_float", 0));
  if (const OnnxAttribute* found = call.attribute("default_tensor"); found && found->t.defined()) otherwise = found->t;
  else if (otherwise.dtype() != values.dtype()) otherwise = otherwise.to(values.dtype());
  call.set(looked_up(call, keys, values, otherwise, call.opset() >= 4));
}

void category_mapper(OnnxCall& call) {
  const OnnxAttribute* texts = call.attribute("cats_strings");
  if (texts == nullptr) call.refuse("has no cats_strings");
  const Tensor names = string_vector(texts->strings), numbers = mapped(call, "cats");
  const std::string otherwise = call.text("default_string", "_Unused");
  if (call.meta(0).dtype == DType::kString)
    return call.set(looked_up(call, names, numbers, Tensor::scalar(call.integer("default_int64", -1)), false));
  call.set(looked_up(call, numbers, names, string_tensor({}, {&otherwise, 1}), false));
}

// A map from labels to scores is the tensor of the scores.
void zip_map(OnnxCall& call) { call.same_as_input(0); }

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
constexpr int64_t kLeafMode = 6;

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
      call.call_as_it_is("torch.ops.onnx.tree_ensemble.default",
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
  static constexpr std::string_view kModes[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE", "BRANCH_GT",
                                                "BRANCH_EQ",  "BRANCH_NEQ", "LEAF"};
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
    const auto* mode = std::find(std::begin(kModes), std::end(kModes), modes->strings[i]);
    if (mode == std::end(kModes)) call.refuse("has a node of mode ", modes->strings[i]);
    if (!places.emplace(std::pair(tree[i], node[i]), static_cast<int64_t>(i)).second)
      call.refuse("has the node ", node[i], " of tree ", tree[i], " twice");
    out.add(mode - std::begin(kModes), feature[i], threshold[i], !missing.empty() && missing[i] != 0);
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
    const auto mode = static_cast<int64_t>(modes[i]);
    const bool if_missing = !missing.empty() && missing[i] != 0;
    if (mode < 0 || mode > kMember) call.refuse("has a node of mode ", mode);
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

constexpr OnnxOperator kMlOperators[] = {
    {"ai.onnx.ml.ArrayFeatureExtractor", array_feature_extractor, nullptr},
    {"ai.onnx.ml.Binarizer", binarizer, nullptr},
    {"ai.onnx.ml.CategoryMapper", category_mapper, nullptr},
    {"ai.onnx.ml.FeatureVectorizer", feature_vectorizer, nullptr},
    {"ai.onnx.ml.Imputer", imputer, nullptr},
    {"ai.onnx.ml.LabelEncoder", label_encoder, nullptr},
    {"ai.onnx.ml.LinearClassifier", linear_classifier, nullptr},
    {"ai.onnx.ml.LinearRegressor", linear_regressor, nullptr},
    {"ai.onnx.ml.Normalizer", normalizer, nullptr},
    {"ai.onnx.ml.OneHotEncoder", one_hot_encoder, nullptr},
    {"ai.onnx.ml.SVMClassifier", svm_classifier, nullptr},
    {"ai.onnx.ml.SVMRegressor", svm_regressor, nullptr},
    {"ai.onnx.ml.Scaler", scaler, nullptr},
    {"ai.onnx.ml.TreeEnsemble", tree_ensemble, nullptr},
    {"ai.onnx.ml.TreeEnsembleClassifier", tree_ensemble_classifier, nullptr},
    {"ai.onnx.ml.TreeEnsembleRegressor", tree_ensemble_regressor, nullptr},
    {"ai.onnx.ml.ZipMap", zip_map, nullptr},
};

}  // namespace

std::span<const OnnxOperator> onnx_ml_operators() { return kMlOperators; }

}  // namespace qdq
