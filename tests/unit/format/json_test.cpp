// JSON: values, places of errors, limits, fields and the names that were probably meant.
#include "format/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "unit/format/expect_error.h"

namespace qdq::format::json_test {
namespace {

TEST(Json, ObjectsOfFieldsAreThoseOfJsonsOwnLists) {
  const std::vector<std::string> texts{"a", "b"};
  const std::vector<int64_t> numbers{3, -4};
  Json moved = Json::array({1, 2});
  const Json kept{{"x", 1}};
  const std::string text = "text";
  const Json object = json_object({{"null", nullptr},
                                   {"no", false},
                                   {"c", "literal"},
                                   {"s", text},
                                   {"v", std::string_view(text).substr(1)},
                                   {"i", -5},
                                   {"u", size_t{7}},
                                   {"largest", UINT64_MAX},
                                   {"d", 0.5},
                                   {"f", 0.25f},
                                   {"texts", texts},
                                   {"numbers", numbers},
                                   {"moved", std::move(moved)},
                                   {"kept", kept}});
  EXPECT_EQ(object, (Json{{"null", nullptr},
                          {"no", false},
                          {"c", "literal"},
                          {"s", "text"},
                          {"v", "ext"},
                          {"i", -5},
                          {"u", 7},
                          {"largest", UINT64_MAX},
                          {"d", 0.5},
                          {"f", 0.25},
                          {"texts", {"a", "b"}},
                          {"numbers", {3, -4}},
                          {"moved", {1, 2}},
                          {"kept", {{"x", 1}}}}));
  EXPECT_EQ(print_json(json_object({})), "{}");
}

TEST(Json, ValuesAreReadInOrder) {
  const Json json = parse_json(R"({"z": [1, -2, 3.5, true, null, "ä\n"], "a": {"k": 18446744073709551615}})", "j");
  EXPECT_EQ(print_json(json), R"({"z":[1,-2,3.5,true,null,"ä\n"],"a":{"k":18446744073709551615}})");
  EXPECT_TRUE(json["z"][0].is_number_integer());
  EXPECT_TRUE(json["z"][2].is_number_float());
}

TEST(Json, DoublesReadBackExactly) {
  for (const double value : {0.1, 1.0 / 255, 3.0000000054977558e+38, 5e-324, 1.7976931348623157e308, -0.0, 100.0}) {
    const double back = parse_json(print_json(Json(value)), "j").get<double>();
    EXPECT_EQ(back, value);
    EXPECT_EQ(std::signbit(back), std::signbit(value));
  }
}

TEST(Json, PythonsBareInfinitiesAreReadAndWritten) {
  const std::string text = R"({"NaN":["NaN",NaN,-Infinity,Infinity,"\"Infinity"]})";
  const Json json = parse_json(text, "j");
  EXPECT_EQ(print_json(json), text);
  const Json& list = json["NaN"];
  EXPECT_TRUE(list[0].is_string());
  EXPECT_TRUE(std::isnan(list[1].get<double>()));
  EXPECT_EQ(list[2].get<double>(), -std::numeric_limits<double>::infinity());
  expect_error(ErrorCode::kBadFile, "line 1, column", [] { parse_json("[NaN, \"\x7f\"]", "j"); });
  expect_error(ErrorCode::kBadFile, "line 2, column 7", [] { parse_json("[NaN,\n NaN, x]", "j"); });
}

TEST(Json, NumbersOutsideJsonHaveAConvention) {
  for (const double value : {1.5, std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()})
    EXPECT_EQ(number_of_json(parse_json(print_json(json_of_number(value)), "j"), "x"), value);
  EXPECT_EQ(print_json(json_of_number(-std::numeric_limits<double>::infinity())), R"({"float":"-inf"})");
  EXPECT_TRUE(std::isnan(number_of_json(json_of_number(std::nan("")), "x")));
  EXPECT_EQ(number_of_json(Json("-Infinity"), "x"), -std::numeric_limits<double>::infinity());
  expect_error(ErrorCode::kBadFile, "x is the string \"1\", wanted a number", [] { number_of_json(Json("1"), "x"); });
  expect_error(ErrorCode::kBadFile, "x is an object",
               [] { number_of_json(parse_json(R"({"float": "big"})", "j"), "x"); });
}

TEST(Json, AnIndentedTextKeepsFlatListsOnALine) {
  const Json json = parse_json(R"({"sizes":[1,2],"nodes":[{"a":1}],"empty":{},"none":[]})", "j");
  EXPECT_EQ(print_json(json, 2), R"({
  "sizes": [1, 2],
  "nodes": [
    {
      "a": 1
    }
  ],
  "empty": {},
  "none": []
})");
  EXPECT_EQ(parse_json(print_json(json, 2), "j"), json);
}

TEST(Json, ErrorsNameTheirPlace) {
  expect_error(ErrorCode::kBadFile, "recipe.json is not JSON at line 2, column 8",
               [] { parse_json("{\n  \"a\": x}", "recipe.json"); });
  for (const char* text : {"", " \n"})
    expect_error(ErrorCode::kBadFile, "j is empty, wanted JSON", [&] { parse_json(text, "j"); });
  expect_error(ErrorCode::kBadFile, "not JSON", [] { parse_json("{} {}", "j"); });
  expect_error(ErrorCode::kBadFile, "not JSON", [] { parse_json("[1e999]", "j"); });
  expect_error(ErrorCode::kBadFile, "not UTF-8", [] { parse_json("[\"\xFF\"]", "j"); });
}

TEST(Json, DepthIsLimited) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(print_json(parse_json(nested(512), "j")), nested(512));
  expect_error(ErrorCode::kBadFile, "more than 512 deep", [&] { parse_json(nested(513), "j"); });
  expect_error(ErrorCode::kBadFile, "more than 512 deep", [&] { parse_json(std::string(1'000'000, '['), "j"); });
}

TEST(Json, AKeyStandsOnceInSmallAndLargeObjects) {
  expect_error(ErrorCode::kBadFile, "the key 'a' appears twice",
               [] { parse_json(R"({"a": 1, "b": 2, "a": 3})", "j"); });
  std::string large = "{";
  for (int i = 0; i < 20000; ++i) large += "\"k" + std::to_string(i) + "\":" + std::to_string(i) + ",";
  EXPECT_EQ(parse_json(large + "\"end\":0}", "j").size(), 20001u);
  expect_error(ErrorCode::kBadFile, "the key 'k3' appears twice", [&] { parse_json(large + "\"k3\":0}", "j"); });
}

TEST(Fields, TypedFieldsAreReadAndWrongOnesRefused) {
  const Json json = parse_json(R"({"flag": true, "count": 3, "exact": 4.0, "scale": 0.5, "name": "x", "list": [1, 2],
                                   "most": {"float": "inf"}, "inner": {"bad": 1}, "wide": 5000000000})",
                               "j");
  const Fields fields(json, "the recipe");
  EXPECT_TRUE(fields.required<bool>("flag"));
  EXPECT_EQ(fields.required<int>("count"), 3);
  EXPECT_EQ(fields.required<int64_t>("exact"), 4);
  EXPECT_EQ(fields.required<float>("scale"), 0.5f);
  EXPECT_EQ(fields.required<std::string>("name"), "x");
  EXPECT_EQ(fields.required<std::vector<int64_t>>("list"), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(fields.required<double>("most"), std::numeric_limits<double>::infinity());
  EXPECT_EQ(fields.optional<int>("absent", 7), 7);
  const auto refuse = [](std::string_view words, auto body) { expect_error(ErrorCode::kInvalidArgument, words, body); };
  refuse("field 'absent' of the recipe is missing", [&] { fields.required<int>("absent"); });
  refuse("field 'name' of the recipe is the string \"x\", wanted an integer",
         [&] { fields.required<int64_t>("name"); });
  refuse("field 'scale' of the recipe is 0.5, wanted an integer", [&] { fields.required<int64_t>("scale"); });
  refuse("wanted an integer of 32 bits", [&] { fields.required<int>("wide"); });
  refuse("wanted true or false", [&] { fields.required<bool>("count"); });
  refuse("wanted a string", [&] { fields.required<std::string>("count"); });
  refuse("wanted a list", [&] { fields.required<std::vector<double>>("count"); });
  refuse("item 0 of field 'list' of the recipe is 1, wanted a string",
         [&] { fields.required<std::vector<std::string>>("list"); });
  refuse("is an object, wanted a number", [&] { fields.required<double>("inner"); });
  refuse("field 'bad' of field 'inner' of the recipe is 1, wanted a string",
         [&] { fields.object("inner").required<std::string>("bad"); });
  refuse("field 'nothing' of the recipe is missing", [&] { fields.object("nothing"); });
  const Json list = Json::array();
  refuse("the recipe is a list, wanted an object", [&] { Fields(list, "the recipe"); });
}

TEST(Fields, AMisspeltFieldIsNamedWithWhatWasMeant) {
  const auto refuse = [](const char* text, std::string_view words) {
    expect_error(ErrorCode::kInvalidArgument, words, [&] {
      const Json json = parse_json(text, "j");
      const Fields fields(json, "recipe");
      fields.find("quantizer");
      fields.find("global");
      fields.reject_unknown();
    });
  };
  refuse(R"({"quantiser": "x"})", "unknown field 'quantiser' in recipe; did you mean 'quantizer'?");
  refuse(R"({"golbal": 1})", "did you mean 'global'?");
  refuse(R"({"weather": 1})", "unknown field 'weather' in recipe; it may have: quantizer, global");
  const Json json = parse_json(R"({"global": 1})", "j");
  const Fields fields(json, "recipe");
  fields.find("global");
  EXPECT_NO_THROW(fields.reject_unknown());
}

}  // namespace
}  // namespace qdq::format::json_test
