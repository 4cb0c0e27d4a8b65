// ONNX operators on strings, and TfIdfVectorizer, which counts integers too.
#include <algorithm>

#include "io/onnx/chains.h"

namespace qdq {
namespace {

using format::OnnxAttribute;

constexpr const char* kNormalizer = "onnx.string_normalizer.default";

void string_concat(OnnxCall& call) {
  call.set(call.call("onnx.string_concat.default", {call.tensor(0), call.tensor(1)}));
}

void string_split(OnnxCall& call) {
  Node* both = call.call_as_it_is("onnx.string_split.default",
                                  {call.tensor(0), call.text("delimiter", ""), call.integer("maxsplit", -1)});
  for (const int output : {0, 1}) call.set(call.call("operator.getitem", {both, output}), static_cast<size_t>(output));
}

void regex_full_match(OnnxCall& call) {
  call.set(call.call("onnx.regex_full_match.default", {call.tensor(0), call.text("pattern", "")}));
}

// The languages whose letters change otherwise than those of all others.
bool has_letters_of_its_own(const std::string& locale) {
  const std::string language = locale.substr(0, 2);
  return language == "tr" || language == "az" || language == "lt";
}

void string_normalizer(OnnxCall& call) {
  const std::string letters = call.text("case_change_action", "NONE"), locale = call.text("locale", "");
  if (letters != "NONE" && has_letters_of_its_own(locale))
    call.refuse("changes letters as in ", locale, ", which qdq does only as in all languages together");
  const OnnxAttribute* stopwords = call.attribute("stopwords");
  Argument::List words;
  if (stopwords) words.assign(stopwords->strings.begin(), stopwords->strings.end());
  call.set(call.call_as_it_is(
      kNormalizer, {call.tensor(0), letters, call.integer("is_case_sensitive", 0) != 0, Argument(std::move(words))}));
}

void tfidf_vectorizer(OnnxCall& call) {
  const OnnxAttribute *texts = call.attribute("pool_strings"), *weights = call.attribute("weights");
  const bool has_texts = texts && !texts->strings.empty();
  Node* pool = has_texts ? call.import().constant(string_vector(texts->strings), "pool")
                         : constant_vector(call, call.integers("pool_int64s", {}));
  const std::vector<int64_t> columns = call.integers("ngram_indexes", {});
  if (columns.empty()) call.refuse("has no ngram_indexes");
  const int64_t last = *std::max_element(columns.begin(), columns.end());
  constexpr int64_t kMostColumns = int64_t{1} << 31;
  if (last < 0 || last >= kMostColumns) call.refuse("counts in the column ", last);
  const int64_t least = call.integer("min_gram_length", 0), most = call.integer("max_gram_length", 0),
                skip = call.integer("max_skip_count", 0);
  if (least < 1 || most < least || skip < 0)
    call.refuse("counts n-grams of ", least, " to ", most, " elements that skip ", skip);
  Argument weight;
  if (weights && !weights->floats.empty())
    weight = call.import().constant(
        Tensor::of<float>({static_cast<int64_t>(weights->floats.size())}, std::span<const float>(weights->floats)),
        "weights");
  Node* row = call.tensor(0);
  if (!has_texts) row = cast_to(call, row, DType::kS64);
  call.set(call.call("onnx.tfidf_vectorizer.default",
                     {row, pool, constant_vector(call, call.integers("ngram_counts", {})),
                      constant_vector(call, columns), weight, least, most, skip, call.text("mode", ""), last + 1}));
}

constexpr OnnxOperator kStringOperators[] = {
    {"RegexFullMatch", regex_full_match, nullptr},    {"StringConcat", string_concat, nullptr},
    {"StringNormalizer", string_normalizer, nullptr}, {"StringSplit", string_split, nullptr},
    {"TfIdfVectorizer", tfidf_vectorizer, nullptr},
};

}  // namespace

std::span<const OnnxOperator> onnx_string_operators() { return kStringOperators; }

}  // namespace qdq
