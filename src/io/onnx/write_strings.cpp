// How operators on strings are written as ONNX.
#include "io/onnx/export.h"
#include "tensor/strings.h"

namespace qdq {
namespace {

using format::OnnxAttribute;
using format::OnnxKind;

void cast_to_string(AtenCall& call) {
  call.finish("Cast", call.tensor(0), {"to", format::onnx_number(DType::kString)});
}

void cast_from_string(AtenCall& call) {
  call.finish("Cast", call.tensor(0), {"to", format::onnx_number(call.result().dtype)});
}

void string_concat(AtenCall& call) { call.finish("StringConcat", {call.tensor(0), call.tensor(1)}); }

void string_normalizer(AtenCall& call) {
  OnnxAttributes attributes = {"case_change_action", call.arg(1).as<std::string>().c_str(), "is_case_sensitive",
                               call.flag(2)};
  std::vector<std::string> stopwords;
  for (const Argument& word : call.arg(3).list()) stopwords.push_back(word.as<std::string>());
  if (!stopwords.empty()) attributes.add("stopwords", stopwords);
  call.finish("StringNormalizer", call.tensor(0), attributes);
}

void regex_full_match(AtenCall& call) {
  call.finish("RegexFullMatch", call.tensor(0), {"pattern", call.arg(1).as<std::string>().c_str()});
}

void string_split(AtenCall& call) {
  OnnxAttributes attributes = {"delimiter", call.arg(1).as<std::string>().c_str()};
  if (call.integer(2) >= 0) attributes.add("maxsplit", call.integer(2));
  call.file().emit_many("StringSplit", call.tensor(0), attributes, call.name_results(2),
                        call.node().meta.extra_of(kOnnxNode));
}

// Where each text went among the sorted ones: the third result of Unique.
void string_ranks(AtenCall& call) {
  const std::string places = call.file().fresh(call.node().name() + "_part");
  call.file().emit_many("Unique", call.tensor(0), {"sorted", 1}, {"", "", places});
  call.finish("Reshape", {places, call.emit("Shape", call.tensor(0))});
}

OnnxAttribute list_of(const char* name, const Tensor& values) {
  OnnxAttribute out;
  out.name = name;
  if (values.dtype() == DType::kString) {
    out.kind = OnnxKind::kStrings;
    for (const std::string_view text : texts_of(values)) out.strings.emplace_back(text);
  } else if (is_floating(values.dtype())) {
    out.kind = OnnxKind::kFloats;
    const Tensor floats = values.to(DType::kF32);
    out.floats.assign(floats.data<float>(), floats.data<float>() + floats.numel());
  } else {
    out.kind = OnnxKind::kInts;
    const Tensor integers = values.to(DType::kS64);
    out.ints.assign(integers.data<int64_t>(), integers.data<int64_t>() + integers.numel());
  }
  return out;
}

// (x, keys, joins_nan): a LabelEncoder whose values are places.
void find_places(AtenCall& call) {
  const Tensor keys = call.known(1);
  const DType from = call.meta(0).dtype;
  std::string x = call.tensor(0);
  DType wanted = DType::kString;
  if (keys.dtype() != DType::kString) {
    wanted = is_floating(keys.dtype()) ? DType::kF32 : DType::kS64;
    if (is_floating(from) != is_floating(keys.dtype())) call.refuse("looks up floats among integers, or the reverse");
    if (from == DType::kF64 || keys.dtype() == DType::kF64) call.refuse("looks up float64 numbers");
    x = call.cast(x, from, wanted);
  }
  std::vector<int64_t> places(static_cast<size_t>(keys.numel()));
  for (size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int64_t>(i);
  OnnxAttributes attributes = {"values_int64s", places, "default_int64", -1};
  attributes.list.push_back(list_of(wanted == DType::kString ? "keys_strings"
                                    : wanted == DType::kF32  ? "keys_floats"
                                                             : "keys_int64s",
                                    keys));
  // Since version 4 NaN is equal to NaN.
  call.file().use_domain("ai.onnx.ml", call.flag(2) && wanted == DType::kF32 ? 4 : 3);
  call.finish("ai.onnx.ml.LabelEncoder", x, attributes);
}

// (x, pool, starts, columns, weights, min_length, max_length, skip, mode, width)
void tfidf_vectorizer(AtenCall& call) {
  const Tensor pool = call.known(1);
  OnnxAttributes attributes = {"min_gram_length",
                               call.integer(5),
                               "max_gram_length",
                               call.integer(6),
                               "max_skip_count",
                               call.integer(7),
                               "mode",
                               call.arg(8).as<std::string>().c_str(),
                               "ngram_counts",
                               call.known_integers(2),
                               "ngram_indexes",
                               call.known_integers(3)};
  attributes.list.push_back(list_of(pool.dtype() == DType::kString ? "pool_strings" : "pool_int64s", pool));
  if (!call.is_none(4)) attributes.list.push_back(list_of("weights", call.known(4)));
  call.finish("TfIdfVectorizer", call.tensor(0), attributes);
}

constexpr AtenExporter kStringExporters[] = {{"cast_from_string.default", cast_from_string},
                                             {"cast_to_string.default", cast_to_string},
                                             {"find.default", find_places},
                                             {"regex_full_match.default", regex_full_match},
                                             {"string_concat.default", string_concat},
                                             {"string_normalizer.default", string_normalizer},
                                             {"string_ranks.default", string_ranks},
                                             {"string_split.default", string_split},
                                             {"tfidf_vectorizer.default", tfidf_vectorizer}};

}  // namespace

std::span<const AtenExporter> string_exporters() { return kStringExporters; }

}  // namespace qdq
