// Strings among the operators: who takes them, and what is said where they cannot be read.
#include "tensor/strings.h"

#include <gtest/gtest.h>

#include "message_of.h"
#include "op/full_match.h"
#include "op/letter_case.h"
#include "op/op.h"

namespace qdq::strings_test {
namespace {

Value run(std::string_view target, std::vector<Value> args) {
  const OpDef* op = find_op(target);
  QDQ_CHECK(op != nullptr, kInternal, "no operator ", target);
  return op->eval(Call<Tensor>(*op, std::move(args)));
}

Tensor strings(const std::vector<std::string>& texts) {
  return string_tensor({static_cast<int64_t>(texts.size())}, texts);
}

// Whoever computes refuses strings before it looks at anything else.
TEST(StringOps, AreRefusedByWhoeverComputes) {
  const Tensor x = strings({"a"});
  size_t takers = 0;
  for (const OpDef& op : all_ops()) {
    const auto& arguments = op.schema->arguments;
    if (arguments.empty() || arguments[0].type != "Tensor") continue;
    std::vector<Value> args;
    for (size_t i = 0; i < op.schema->num_positional(); ++i) args.emplace_back(i == 0 ? Value(x) : Value());
    const std::string message = message_of([&] { Call<Tensor>(op, args); });
    takers += op.takes_strings ? 1 : 0;
    const bool lacks_keywords = message.find("lacks the argument") != std::string::npos;
    if (op.takes_strings || lacks_keywords) continue;
    EXPECT_NE(message.find("computes with numbers, and its argument"), std::string::npos) << op.target << message;
  }
  EXPECT_GT(takers, 50u);
  for (const char* target : {"add.Tensor", "lt.Tensor", "eq.Scalar", "to.dtype", "copy_.default", "relu.default",
                             "sort.default", "item.default", "max_pool1d.default", "embedding.default"})
    EXPECT_FALSE(find_op(std::string("torch.ops.aten.") + target)->takes_strings) << target;
  EXPECT_NE(message_of([] {
              run("torch.ops.aten.to.dtype", {Tensor::scalar(1.0f), DType::kString});
            }).find("its argument 'dtype' is of strings"),
            std::string::npos);
}

TEST(StringOps, AreNotMixedWithNumbers) {
  const Tensor x = strings({"a", "b"}), ids = Tensor::of<int64_t>({2}, {0, 1});
  for (const char* target : {"torch.ops.aten.eq.Tensor", "torch.ops.aten.ne.Tensor"})
    EXPECT_EQ(message_of([&] { run(target, {x, ids}); }), "string and int64 have no common dtype");
  EXPECT_NE(message_of([&] { run("torch.ops.aten.eq.Tensor", {Tensor::scalar(1.0f), x}); }).find("no common dtype"),
            std::string::npos);
  EXPECT_THROW(run("torch.ops.aten.cat.default", {Value::List{x, ids}}), Error);
  EXPECT_THROW(run("torch.ops.aten.where.self", {ids.to(DType::kBool), x, ids}), Error);
  EXPECT_THROW(run("torch.ops.aten.where.self", {x, x, x}), Error);
  EXPECT_THROW(run("torch.ops.aten.index_select.default", {ids, 0, x}), Error);
  EXPECT_THROW(run("torch.ops.aten.index.Tensor", {ids, Value::List{x}}), Error);
  EXPECT_THROW(run("torch.ops.aten.scatter.src", {x, 0, ids, ids}), Error);
  EXPECT_THROW(run("torch.ops.aten.index_put.default", {x, Value::List{ids}, x, true}), Error);
  EXPECT_THROW(run("torch.ops.aten.repeat.default", {ids, Value::List{x}}), Error);
}

TEST(StringOps, NumbersThatAreNone) {
  const auto cast = [](const std::string& text, DType dtype) {
    return message_of([&] { run("torch.ops.onnx.cast_from_string.default", {strings({text}), dtype}); });
  };
  for (const char* text : {"", " ", "1.5x", "0x10", "nan(1)", "--1", "+-1", "1e", "e5", "1 2"})
    EXPECT_EQ(cast(text, DType::kF32), concat("the string '", text, "' is not a valid float32"));
  EXPECT_EQ(cast("256", DType::kU8), "the string '256' is not a valid uint8");
  EXPECT_EQ(cast("-1", DType::kU16), "the string '-1' is not a valid uint16");
  EXPECT_EQ(cast("1.0", DType::kS64), "the string '1.0' is not a valid int64");
  EXPECT_EQ(cast("yes", DType::kBool), "the string 'yes' is not a valid bool");
  EXPECT_EQ(cast("1e400", DType::kF32), "");  // an infinity
}

// The text of a number gives the number back.
TEST(StringOps, NumbersComeBack) {
  const Tensor numbers = Tensor::of<float>({6}, {0.1f, 16777216.f, 1e-45f, 3.4028235e38f, -1.0f / 3, 0.60484550f});
  const Value texts = run("torch.ops.onnx.cast_to_string.default", {numbers});
  EXPECT_EQ(texts_of(*texts.get_if<Tensor>())[5], "0.6048455");
  EXPECT_TRUE(
      bitwise_equal(*run("torch.ops.onnx.cast_from_string.default", {texts, DType::kF32}).get_if<Tensor>(), numbers));
}

TEST(FullMatch, TakesTheWholeText) {
  EXPECT_TRUE(FullMatch("(a*)*")(std::string(200, 'a')));
  EXPECT_FALSE(FullMatch("(a*)*b")(std::string(2000, 'a')));  // at once
  EXPECT_TRUE(FullMatch("(?i)\\x{53}TRASSE\\.")("strasse."));
  EXPECT_TRUE(FullMatch("a\\b b")("a b"));
  EXPECT_TRUE(FullMatch("(?m)a$\\n^b")("a\nb"));
  EXPECT_FALSE(FullMatch("a$\\n^b")("a\nb"));
  EXPECT_TRUE(FullMatch("[^\\W\\d]+")("abc"));
  EXPECT_FALSE(FullMatch("[^\\W\\d]+")("ab1"));
  EXPECT_TRUE(FullMatch("(?i)[^b]")("a"));
  EXPECT_FALSE(FullMatch("(?i)[^b]")("B"));
  EXPECT_TRUE(FullMatch("((a|b){2}|c){1,3}x?")("abcba"));
  EXPECT_TRUE(FullMatch("(?i)a(?-i)b")("Ab"));
  EXPECT_FALSE(FullMatch("(?i)a(?-i)b")("AB"));
}

TEST(FullMatch, RefusesWhatRe2Refuses) {
  const auto refuse = [](const std::string& pattern, const std::string& words) {
    const std::string message = message_of([&] { FullMatch{pattern}; });
    EXPECT_NE(message.find(words), std::string::npos) << pattern << ": " << message;
  };
  refuse("(a", "a group without an end");
  refuse("a)", "a ) too many");
  refuse("[a", "a [ without an end");
  refuse("*a", "repeats nothing");
  refuse("a**", "repeats nothing, or a repetition");
  refuse("a{1001}", "repeats beyond 1000 times");
  refuse("a{3,2}", "fewer than none");
  refuse("((a{1000}){1000}){1000}", "is too long");
  refuse(std::string(300, '('), "groups in groups");
  refuse("a\\", "ends with a backslash");
  refuse("(a)\\1", "refers to a group");
  refuse("(?=a)", "of a kind that RE2 does not have");
  refuse("\\pL", "a class of Unicode");
  refuse("[b-a]", "ends before it begins");
  refuse("[[:word2:]]", "a class of a name");
  refuse("\\x{110000}", "is not a character");
  refuse("(?P<>a)", "without a name");
}

TEST(LetterCase, IsThatOfUnicode) {
  constexpr std::pair<char32_t, char32_t> kPairs[] = {{'A', 'a'},
                                                      {U'\u00C4', U'\u00E4'},
                                                      {U'\u0178', U'\u00FF'},
                                                      {U'\u0141', U'\u0142'},
                                                      {U'\u03A3', U'\u03C3'},
                                                      {U'\u0416', U'\u0436'},
                                                      {U'\u0531', U'\u0561'},
                                                      {U'\u1E9C', U'\u1E9C'}};
  for (const auto& [capital, small] : kPairs) {
    EXPECT_EQ(to_lower(capital), small);
    EXPECT_EQ(to_upper(small), capital);
  }
  EXPECT_EQ(to_upper(U'\u03C2'), U'\u03A3');  // the sigma at the end of words
  EXPECT_EQ(to_upper(U'\u00DF'), U'\u00DF');
  EXPECT_EQ(to_lower(U'\u1E9E'), U'\u00DF');
  EXPECT_EQ(to_upper(U'\u00B5'), U'\u039C');
  EXPECT_EQ(to_lower('5'), char32_t{'5'});
}

}  // namespace
}  // namespace qdq::strings_test
