// Operators of ONNX on strings, which PyTorch does not have: casts, joining, splitting, matching, counting, looking up.
#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "op/families.h"
#include "op/full_match.h"
#include "op/infer.h"
#include "op/letter_case.h"
#include "tensor/strings.h"

namespace qdq {
namespace {

template <class T> void want_strings(const Call<T>& call, size_t i, DType found) {
  QDQ_CHECK(found == DType::kString, kInvalidArgument, call.op().target, " needs strings as its argument '",
            call.op().schema->arguments[i].name, "', found ", to_string(found));
}

// f of every text, as a tensor of R.
template <class R, class F> Tensor map_texts(const Tensor& x, const F& f) {
  const std::vector<std::string_view> texts = texts_of(x);
  const Tensor out = Tensor::empty(x.sizes(), DTypeOf<R>::value);
  for (size_t i = 0; i < texts.size(); ++i) out.data<R>()[i] = f(texts[i]);
  return out;
}

// Numbers with the fewest digits that give them back: plain from 0.0001 to 10^8, or beyond as long as it takes all of
// these digits; else with an exponent, as C writes it. Infinities and NaN are INF and NaN, as ONNX has them.
template <class T> std::string text_of_number(T number) {
  if constexpr (std::is_same_v<T, bool>) {
    return number ? "1" : "0";
  } else if constexpr (std::is_integral_v<T>) {
    return std::to_string(number);
  } else {
    const auto wide = static_cast<double>(number);
    if (std::isnan(wide)) return "NaN";
    if (std::isinf(wide)) return wide > 0 ? "INF" : "-INF";
    constexpr int kMostDigits = std::is_same_v<T, double> ? 17 : 9, kPlain = 8;
    char text[40];
    int digits = 0, exponent = 0;
    for (bool is_back = false; !is_back && digits < kMostDigits;) {
      std::snprintf(text, sizeof text, "%.*e", digits++, wide);
      if constexpr (std::is_same_v<T, double>) is_back = std::strtod(text, nullptr) == wide;
      else is_back = static_cast<double>(static_cast<float>(T(std::strtof(text, nullptr)))) == wide;
    }
    exponent = std::atoi(std::strchr(text, 'e') + 1);
    if (exponent >= -4 && exponent < std::max(digits, kPlain))
      std::snprintf(text, sizeof text, "%.*f", std::max(0, digits - 1 - exponent), wide);
    return text;
  }
}

MetaValue infer_cast_to_string(const Call<TensorMeta>& call) {
  return tensor_meta(DType::kString, call.tensor(0).sizes);
}
Value eval_cast_to_string(const Call<Tensor>& call) {
  const bool is_small = is_float8(call.tensor(0).dtype());
  const Tensor x = (is_small ? call.tensor(0).to(DType::kF32) : call.tensor(0)).contiguous();
  if (x.dtype() == DType::kString) return x;
  const Tensor out = Tensor::empty(x.sizes(), DType::kString);
  visit_dtype(x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    for (int64_t i = 0; i < x.numel(); ++i) out.data<StringId>()[i] = intern(text_of_number(x.data<T>()[i]));
  });
  return out;
}

std::string_view without_spaces(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\n\v\f\r";
  const size_t first = text.find_first_not_of(kSpaces);
  return first == std::string_view::npos ? std::string_view()
                                         : text.substr(first, text.find_last_not_of(kSpaces) + 1 - first);
}

bool is_equal_but_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    const auto small = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
    return small(x) == small(y);
  });
}

// The number that a text is, as C writes them; NaN and INF in any letters.
template <class T> bool read_number(std::string_view text, T& out) {
  text = without_spaces(text);
  std::string_view plain = text.starts_with('+') ? text.substr(1) : text;
  if constexpr (std::is_same_v<T, bool>) {
    const bool is_true = text == "1" || is_equal_but_case(text, "true");
    out = is_true;
    return is_true || text == "0" || is_equal_but_case(text, "false");
  } else if constexpr (std::is_integral_v<T>) {
    const auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), out);
    return error == std::errc() && end == plain.data() + plain.size();
  } else {
    const bool is_negative = text.starts_with('-');
    if (is_negative) plain.remove_prefix(1);
    double wide = 0;
    if (is_equal_but_case(plain, "nan")) {
      wide = std::nan("");
    } else if (is_equal_but_case(plain, "inf") || is_equal_but_case(plain, "infinity")) {
      wide = INFINITY;
    } else {
      if (plain.empty() || plain.find_first_not_of("0123456789.eE+-") != std::string_view::npos || plain[0] == '+' ||
          plain[0] == '-')
        return false;
      const std::string whole(plain);
      char* end = nullptr;
      // A float is rounded once.
      wide = std::is_same_v<T, double> ? std::strtod(whole.c_str(), &end)
                                       : static_cast<double>(std::strtof(whole.c_str(), &end));
      if (end != whole.c_str() + whole.size()) return false;
    }
    if (is_negative) wide = -wide;
    if constexpr (std::is_class_v<T>) out = T(static_cast<float>(wide));
    else out = static_cast<T>(wide);
    return true;
  }
}

MetaValue infer_cast_from_string(const Call<TensorMeta>& call) {
  want_strings(call, 0, call.tensor(0).dtype);
  return tensor_meta(call.dtype(1, DType::kF32), call.tensor(0).sizes);
}
Value eval_cast_from_string(const Call<Tensor>& call) {
  infer_call(call);
  const DType dtype = call.dtype(1, DType::kF32);
  if (dtype == DType::kString) return call.tensor(0);
  const Tensor out = visit_dtype(is_float8(dtype) ? DType::kF32 : dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    return map_texts<T>(call.tensor(0), [&](std::string_view text) {
      T number{};
      QDQ_CHECK(read_number(text, number), kInvalidArgument, "the string '", text, "' is not a valid ",
                to_string(dtype));
      return number;
    });
  });
  return out.to(dtype);
}

MetaValue infer_string_concat(const Call<TensorMeta>& call) {
  for (const size_t i : {size_t{0}, size_t{1}}) want_strings(call, i, call.tensor(i).dtype);
  return tensor_meta(DType::kString, broadcast_shapes(call.tensor(0).sizes, call.tensor(1).sizes));
}
Value eval_string_concat(const Call<Tensor>& call) {
  const Tensor out = empty_result(call);
  const std::vector<std::string_view> a = texts_of(call.tensor(0).expand(out.sizes())),
                                      b = texts_of(call.tensor(1).expand(out.sizes()));
  for (size_t i = 0; i < a.size(); ++i) out.data<StringId>()[i] = intern(concat(a[i], b[i]));
  return out;
}

enum class LetterCase { kAsIs, kLower, kUpper };
LetterCase case_of(const OpDef& op, const std::string& name) {
  if (name == "LOWER") return LetterCase::kLower;
  if (name == "UPPER") return LetterCase::kUpper;
  QDQ_CHECK(name == "NONE", kInvalidArgument, op.target, " changes letters by NONE, LOWER or UPPER, found ", name);
  return LetterCase::kAsIs;
}
std::string in_case(std::string_view text, LetterCase letters) {
  if (letters == LetterCase::kAsIs) return std::string(text);
  std::u32string characters = characters_of(text);
  for (char32_t& c : characters) c = letters == LetterCase::kLower ? to_lower(c) : to_upper(c);
  return utf8_of(characters);
}

// The elements of a row [C] or [1, C] that are none of the stop words, in another case; one empty text if none is left.
MetaValue infer_string_normalizer(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(0);
  want_strings(call, 0, x.dtype);
  case_of(call.op(), call.string(1));
  const bool is_row = x.sizes.size() == 1 || (x.sizes.size() == 2 && may_be_equal(x.sizes[0], SymInt(1)));
  QDQ_CHECK(is_row, kInvalidArgument, call.op().target, " needs a row [C] or [1, C], found shape ", to_string(x.sizes));
  const auto* stopwords = call[3].get_if<MetaValue::List>();
  if (stopwords && stopwords->empty()) return tensor_meta(DType::kString, x.sizes);
  SymShape sizes(x.sizes.size(), SymInt(1));
  sizes.back() = size_from_values();
  return tensor_meta(DType::kString, sizes);
}
Value eval_string_normalizer(const Call<Tensor>& call) {
  infer_call(call);
  const LetterCase letters = case_of(call.op(), call.string(1));
  const bool is_case_sensitive = call.boolean(2);
  const LetterCase compared = is_case_sensitive ? LetterCase::kAsIs : LetterCase::kLower;
  std::unordered_set<std::string> stopwords;
  for (const Value& word : *call[3].get_if<Value::List>())
    if (const auto* text = word.get_if<std::string>()) stopwords.insert(in_case(*text, compared));
  std::vector<std::string> kept;
  for (const std::string_view text : texts_of(call.tensor(0)))
    if (stopwords.empty() || !stopwords.contains(in_case(text, compared))) kept.push_back(in_case(text, letters));
  if (kept.empty() && !stopwords.empty()) kept.emplace_back();
  Shape sizes(call.tensor(0).sizes().size(), 1);
  sizes.back() = static_cast<int64_t>(kept.size());
  return string_tensor(sizes, kept);
}

MetaValue infer_full_match(const Call<TensorMeta>& call) {
  want_strings(call, 0, call.tensor(0).dtype);
  FullMatch{call.string(1)};
  return tensor_meta(DType::kBool, call.tensor(0).sizes);
}
Value eval_full_match(const Call<Tensor>& call) { return map_texts<bool>(call.tensor(0), FullMatch(call.string(1))); }

// The parts of a text between the delimiters; without one, between stretches of spaces, of which those at either end
// are left out. At most `most` cuts are made, if that is not negative.
std::vector<std::string_view> parts_of(std::string_view text, std::string_view delimiter, int64_t most) {
  constexpr std::string_view kSpaces = " \t\n\v\f\r";
  std::vector<std::string_view> out;
  const auto may_cut = [&] { return most < 0 || static_cast<int64_t>(out.size()) < most; };
  if (delimiter.empty()) {
    for (size_t at = text.find_first_not_of(kSpaces); at != std::string_view::npos;) {
      const size_t end = may_cut() ? text.find_first_of(kSpaces, at) : std::string_view::npos;
      out.push_back(text.substr(at, end - at));
      at = end == std::string_view::npos ? end : text.find_first_not_of(kSpaces, end);
    }
    return out;
  }
  size_t at = 0;
  for (size_t end; may_cut() && (end = text.find(delimiter, at)) != std::string_view::npos; at = end + delimiter.size())
    out.push_back(text.substr(at, end - at));
  out.push_back(text.substr(at));
  return out;
}

MetaValue infer_string_split(const Call<TensorMeta>& call) {
  want_strings(call, 0, call.tensor(0).dtype);
  SymShape sizes = call.tensor(0).sizes;
  sizes.push_back(size_from_values());
  return MetaValue::List{tensor_meta(DType::kString, sizes), tensor_meta(DType::kS64, call.tensor(0).sizes)};
}
Value eval_string_split(const Call<Tensor>& call) {
  infer_call(call);
  const Tensor& x = call.tensor(0);
  std::vector<std::vector<std::string_view>> all;
  size_t width = 0;
  for (const std::string_view text : texts_of(x)) {
    all.push_back(parts_of(text, call.string(1), call.integer(2)));
    width = std::max(width, all.back().size());
  }
  Shape sizes = x.sizes();
  sizes.push_back(static_cast<int64_t>(width));
  const Tensor parts = Tensor::empty(sizes, DType::kString), counts = Tensor::empty(x.sizes(), DType::kS64);
  for (size_t i = 0; i < all.size(); ++i) {
    counts.data<int64_t>()[i] = static_cast<int64_t>(all[i].size());
    for (size_t k = 0; k < all[i].size(); ++k) parts.data<StringId>()[i * width + k] = intern(all[i][k]);
  }
  return Value::List{parts, counts};
}

// The place of each text among the different ones in the order of their bytes: what sorts texts.
MetaValue infer_ranks(const Call<TensorMeta>& call) {
  want_strings(call, 0, call.tensor(0).dtype);
  return tensor_meta(DType::kS64, call.tensor(0).sizes);
}
Value eval_ranks(const Call<Tensor>& call) {
  infer_call(call);
  std::map<std::string_view, int64_t> ranks;
  for (const std::string_view text : texts_of(call.tensor(0))) ranks.emplace(text, 0);
  int64_t next = 0;
  for (auto& [text, rank] : ranks) rank = next++;
  return map_texts<int64_t>(call.tensor(0), [&](std::string_view text) { return ranks.at(text); });
}

// Elements that can be looked up: the bits of numbers, which are equal where the numbers are, and the numbers of texts.
// With `joins_nan` all NaN are one; else each is none of the others, and marked here as what never stands in a table.
std::vector<std::pair<uint64_t, bool>> sought(const Tensor& x, bool is_float, bool joins_nan) {
  const Tensor dense = (x.dtype() == DType::kString ? x : x.to(is_float ? DType::kF64 : DType::kS64)).contiguous();
  std::vector<std::pair<uint64_t, bool>> out(static_cast<size_t>(dense.numel()));
  for (size_t i = 0; i < out.size(); ++i) {
    out[i].second = true;
    if (x.dtype() == DType::kString) {
      out[i].first = dense.data<StringId>()[i].number;
    } else if (!is_float) {
      out[i].first = static_cast<uint64_t>(dense.data<int64_t>()[i]);
    } else {
      double number = dense.data<double>()[i];
      if (std::isnan(number)) {
        out[i].second = joins_nan;
        number = std::nan("");
      }
      if (number == 0) number = 0;  // -0 too
      out[i].first = std::bit_cast<uint64_t>(number);
    }
  }
  return out;
}

// Where each element stands among the keys [K]: the first place, or -1.
MetaValue infer_find(const Call<TensorMeta>& call) {
  const TensorMeta &x = call.tensor(0), &keys = call.tensor(1);
  QDQ_CHECK(keys.sizes.size() == 1, kInvalidArgument, call.op().target, " needs a list of keys, found shape ",
            to_string(keys.sizes));
  QDQ_CHECK((x.dtype == DType::kString) == (keys.dtype == DType::kString), kInvalidArgument, call.op().target,
            " looks up ", to_string(x.dtype), " among keys of ", to_string(keys.dtype));
  return tensor_meta(DType::kS64, x.sizes);
}
Value eval_find(const Call<Tensor>& call) {
  infer_call(call);
  const Tensor &x = call.tensor(0), &keys = call.tensor(1);
  const bool is_float = is_floating(x.dtype()) || is_floating(keys.dtype()), joins_nan = call.boolean(2);
  std::unordered_map<uint64_t, int64_t> places;
  int64_t place = 0;
  for (const auto& [bits, can_be_found] : sought(keys, is_float, joins_nan)) {
    if (can_be_found) places.emplace(bits, place);
    ++place;
  }
  const Tensor out = Tensor::empty(x.sizes(), DType::kS64);
  int64_t* to = out.data<int64_t>();
  for (const auto& [bits, can_be_found] : sought(x, is_float, joins_nan)) {
    const auto found = places.find(bits);
    *to++ = !can_be_found || found == places.end() ? -1 : found->second;
  }
  return out;
}

// How often each n-gram of the pool stands in a row [C], or in each of [N, C]: n elements, `least` to `most`, behind
// each other or with up to `skip` elements left out between any two. The pool has those of length 1 from starts[0] on,
// those of length 2 from starts[1] on; the i-th counts in the column columns[i]. The modes IDF and TFIDF weigh a column
// by weights[column], as ONNX's reference has it.
struct Vectorizer {  // its arguments
  enum : size_t { kRow, kPool, kStarts, kColumns, kWeights, kLeast, kMost, kSkip, kMode, kWidth };
};
MetaValue infer_vectorizer(const Call<TensorMeta>& call) {
  const TensorMeta& x = call.tensor(Vectorizer::kRow);
  QDQ_CHECK(x.sizes.size() == 1 || x.sizes.size() == 2, kInvalidArgument, call.op().target,
            " needs rows [C] or [N, C], found shape ", to_string(x.sizes));
  QDQ_CHECK((x.dtype == DType::kString) == (call.tensor(Vectorizer::kPool).dtype == DType::kString), kInvalidArgument,
            call.op().target, " counts ", to_string(x.dtype), " by a pool of ",
            to_string(call.tensor(Vectorizer::kPool).dtype));
  SymShape sizes = x.sizes;
  sizes.back() = SymInt(call.integer(Vectorizer::kWidth));
  return tensor_meta(DType::kF32, sizes);
}

// The n-grams of the pool, and where each counts.
using Grams = std::map<std::vector<uint64_t>, size_t>;
Grams grams_of(const Call<Tensor>& call, const std::vector<uint64_t>& pool) {
  const Tensor starts = call.tensor(Vectorizer::kStarts).contiguous();
  const auto lengths = starts.span<int64_t>();
  const auto size = static_cast<int64_t>(pool.size());
  Grams out;
  size_t number = 0;
  for (size_t n = 1; n <= lengths.size(); ++n) {
    const int64_t begin = lengths[n - 1], end = n < lengths.size() ? lengths[n] : size;
    const auto step = static_cast<int64_t>(n);
    QDQ_CHECK(begin >= 0 && begin <= end && end <= size && (end - begin) % step == 0, kInvalidArgument,
              call.op().target, " has a pool whose n-grams of length ", n, " stand from ", begin, " to ", end, " of ",
              size);
    for (int64_t at = begin; at < end; at += step)
      out.emplace(std::vector<uint64_t>(pool.begin() + at, pool.begin() + at + step), number++);
  }
  return out;
}

Value eval_vectorizer(const Call<Tensor>& call) {
  const Tensor out = empty_result(call), &x = call.tensor(Vectorizer::kRow);
  const auto elements = [](const Tensor& tensor) {
    std::vector<uint64_t> bits;
    for (const auto& [each, can_be_found] : sought(tensor, false, false)) bits.push_back(each);
    return bits;
  };
  const std::vector<uint64_t> row = elements(x);
  const Grams grams = grams_of(call, elements(call.tensor(Vectorizer::kPool)));
  const Tensor columns = call.tensor(Vectorizer::kColumns).contiguous(),
               weights = call.is_none(Vectorizer::kWeights) ? Tensor() : call.tensor(Vectorizer::kWeights).contiguous();
  const int64_t width = call.integer(Vectorizer::kWidth), least = call.integer(Vectorizer::kLeast),
                most = call.integer(Vectorizer::kMost), skip = call.integer(Vectorizer::kSkip);
  const std::string& mode = call.string(Vectorizer::kMode);
  QDQ_CHECK(mode == "TF" || mode == "IDF" || mode == "TFIDF", kInvalidArgument, call.op().target, " has the mode ",
            mode, ", wanted TF, IDF or TFIDF");
  QDQ_CHECK(columns.numel() >= static_cast<int64_t>(grams.size()), kInvalidArgument, call.op().target, " has ",
            columns.numel(), " columns for ", grams.size(), " n-grams");
  QDQ_CHECK(!weights.defined() || weights.numel() >= width, kInvalidArgument, call.op().target, " has ",
            weights.numel(), " weights for ", width, " columns");
  const int64_t length = x.sizes().back(), rows = length == 0 ? 0 : x.numel() / length;
  std::vector<uint64_t> gram;
  for (int64_t r = 0; r < rows; ++r) {
    float* to = out.data<float>() + r * width;
    for (int64_t n = least; n <= std::min(most, length); ++n)
      for (int64_t step = 1; step - 1 <= (n == 1 ? 0 : skip) && step * (n - 1) < length; ++step)
        for (int64_t begin = 0; begin + step * (n - 1) < length; ++begin) {
          gram.clear();
          for (int64_t k = 0; k < n; ++k) gram.push_back(row[static_cast<size_t>(r * length + begin + k * step)]);
          const auto found = grams.find(gram);
          if (found == grams.end()) continue;
          const int64_t column = columns.data<int64_t>()[found->second];
          QDQ_CHECK(column >= 0 && column < width, kInvalidArgument, call.op().target, " counts in the column ", column,
                    " of ", width);
          const float weight = weights.defined() && mode != "TF" ? weights.data<float>()[column] : 1;
          if (mode == "IDF") to[column] = weight;
          else to[column] += weight;
        }
  }
  return out;
}

}  // namespace

void add_string_ops(std::vector<OpDef>& ops) {
  const auto add = [&](const char* line, Infer infer, Eval eval) {
    ops.push_back(define(line, infer, eval));
    ops.back().takes_strings = true;
  };
  add("onnx::cast_to_string(Tensor x) -> Tensor", infer_cast_to_string, eval_cast_to_string);
  add("onnx::cast_from_string(Tensor x, ScalarType dtype) -> Tensor", infer_cast_from_string, eval_cast_from_string);
  add("onnx::string_concat(Tensor x, Tensor y) -> Tensor", infer_string_concat, eval_string_concat);
  add("onnx::string_normalizer(Tensor x, str case_change_action, bool is_case_sensitive, str[] stopwords) -> Tensor",
      infer_string_normalizer, eval_string_normalizer);
  add("onnx::regex_full_match(Tensor x, str pattern) -> Tensor", infer_full_match, eval_full_match);
  add("onnx::string_split(Tensor x, str delimiter, int maxsplit=-1) -> (Tensor parts, Tensor counts)",
      infer_string_split, eval_string_split);
  add("onnx::string_ranks(Tensor x) -> Tensor", infer_ranks, eval_ranks);
  add("onnx::find(Tensor x, Tensor keys, bool joins_nan=False) -> Tensor", infer_find, eval_find);
  add("onnx::tfidf_vectorizer(Tensor x, Tensor pool, Tensor starts, Tensor columns, Tensor? weights, int min_length, "
      "int max_length, int skip, str mode, int width) -> Tensor",
      infer_vectorizer, eval_vectorizer);
}

}  // namespace qdq
