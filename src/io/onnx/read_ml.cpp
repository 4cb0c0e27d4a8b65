// ONNX operators of domain ai.onnx.ml, but for trees: classifiers, regressors and what stands around them.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "io/onnx/chains.h"
#include "io/onnx/ml.h"
#include "tensor/strings.h"

namespace qdq {
namespace {

using format::OnnxAttribute;

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

// ONNX Runtime reads as many coefficients in a row as x has columns, and ignores any that are left.
Node* linear_scores(OnnxCall& call, int64_t targets) {
  Node* x = cast_to(call, number_rows(call), DType::kF32);
  std::vector<float> coefficients = floats_of(call, "coefficients");
  const auto count = static_cast<int64_t>(coefficients.size());
  if (targets < 1 || count % targets != 0) call.refuse("has ", count, " coefficients for ", targets, " results");
  const int64_t columns = std::min(count / targets, call.extent(x, 1).constant().value_or(count / targets));
  coefficients.resize(static_cast<size_t>(targets * columns));
  Node* weight = call.import().constant(Tensor::of<float>({targets, columns}, std::span<const float>(coefficients)),
                                        "coefficients");
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
  // ONNX Runtime transforms one score for two classes by no other function.
  if (is_one && transform == "PROBIT")
    call.refuse("has one score for two classes with the post_transform PROBIT; give it a coefficient row per class");
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
    Node* likely = call.call("onnx.pairwise_probabilities.default", {scores, constant_of(call, "prob_a", {pairs}),
                                                                     constant_of(call, "prob_b", {pairs}), classes});
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
    x = call.call("onnx.find.default", {x, texts});
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
  Node* place = call.call("onnx.find.default", {call.tensor(0), call.import().constant(keys, "keys"), joins_nan});
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
    {"ai.onnx.ml.ZipMap", zip_map, nullptr},
};

}  // namespace

Node* number_rows(OnnxCall& call) {
  Node* x = call.tensor(0);
  if (call.meta(0).dtype != DType::kF64) x = cast_to(call, x, DType::kF32);
  if (call.rank(0) == 1) x = call.call("unsqueeze.default", {x, 0});
  if (call.meta_of(x).sizes.size() != 2) call.refuse("has an input of ", call.rank(0), " axes, wanted rows [N, C]");
  return x;
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

Node* is_positive(OnnxCall& call, Node* score, double threshold) {
  Node* positive = call.call("gt.Scalar", {call.call("squeeze.dim", {score, 1}), threshold});
  return call.call("to.dtype", {positive, DType::kS64});
}

Node* side_by_side(OnnxCall& call, Node* first, Node* second) {
  return call.call("cat.default", {Argument(Argument::List{first, second}), 1});
}

std::span<const OnnxOperator> onnx_ml_operators() { return kMlOperators; }

}  // namespace qdq
