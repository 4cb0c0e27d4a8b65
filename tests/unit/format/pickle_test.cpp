// Pickles: what Python writes becomes inert data; limits and refusals.
#include "format/pickle.h"

#include <gtest/gtest.h>

#include "unit/format/expect_error.h"

namespace qdq::format::pickle_test {
namespace {

using Kind = PickleValue::Kind;

Pickle parse(const std::string& opcodes) { return read_pickle(bytes_of(opcodes), "p"); }

// One line per value, so that trees compare as text.
std::string print(const PickleValue& v) {
  std::string out;
  const auto list = [&](const auto& items) {
    std::string text;
    for (const PickleValue* item : items) text += (text.empty() ? "" : ", ") + print(*item);
    return text;
  };
  switch (v.kind) {
    case Kind::kNone: out = "None"; break;
    case Kind::kBool: out = v.integer ? "True" : "False"; break;
    case Kind::kInt: out = std::to_string(v.integer); break;
    case Kind::kFloat: out = concat(v.number); break;
    case Kind::kStr: out = "'" + v.text + "'"; break;
    case Kind::kBytes: out = "b'" + v.text + "'"; break;
    case Kind::kTuple: return "(" + list(v.items) + ")";
    case Kind::kList: return "[" + list(v.items) + "]";
    case Kind::kSet: return "set(" + list(v.items) + ")";
    case Kind::kDict: out = "dict"; break;
    case Kind::kGlobal: return "<" + v.text + ">";
    case Kind::kObject: out = print(*v.callee) + print(*v.args); break;
    case Kind::kPersistentId: return "@" + print(*v.args);
  }
  if (!v.items.empty()) out += "[" + list(v.items) + "]";
  for (const auto& [key, item] : v.entries) out += "{" + print(*key) + ": " + print(*item) + "}";
  if (v.state) out += "." + print(*v.state);
  return out;
}

// pickle.dumps(..., protocol=N) of
// [None, True, -1, 300, 70000, -(2**40), 1.5, "ä", b"xy", (), (1,), (1, 2, 3, 4), {"k": []}, {7}]
TEST(Pickle, EveryPlainTypeOfProtocols2To5IsRead) {
  const std::string plain = "[None, True, -1, 300, 70000, -1099511627776, 1.5, 'ä', ";
  const std::string expected = plain + "b'xy', (), (1), (1, 2, 3, 4), dict{'k': []}, set(7)]";
  const std::string proto4(
      "\200\004\225N\000\000\000\000\000\000\000]\224(N\210J\377\377\377\377M,\001Jp\021\001"
      "\000\212\006\000\000\000\000\000\377G\077\370\000\000\000\000\000\000\214\002\303\244\224C\002xy\224"
      ")K\001\205\224(K\001K\002K\003K\004t\224}\224\214\001k\224]\224s\217\224("
      "K\007\220e.",
      89);
  EXPECT_EQ(print(*parse(proto4).root), expected);
  std::string proto5 = proto4;
  proto5[1] = 5;
  EXPECT_EQ(print(*parse(proto5).root), expected);
  const std::string proto2(
      "\200\002]q\000(N\210J\377\377\377\377M,\001Jp\021\001\000\212\006\000\000\000\000\000"
      "\377G\077\370\000\000\000\000\000\000X\002\000\000\000\303\244q\001c_codecs\012"
      "encode\012q\002X\002\000\000\000xyq\003X\006\000\000\000latin"
      "1q\004\206q\005Rq\006)K\001\205q\007(K\001K\002K\003K\004tq\010}"
      "q\011X\001\000\000\000kq\012]q\013sc__builtin__\012s"
      "et\012q\014]q\015K\007a\205q\016Rq\017e.",
      159);
  EXPECT_EQ(print(*parse(proto2).root),
            plain + "<_codecs.encode>('xy', 'latin1'), (), (1), (1, 2, 3, 4), dict{'k': []}, <__builtin__.set>([7])]");
}

TEST(Pickle, CallsAreInertData) {
  EXPECT_EQ(print(*parse(std::string("\x80\x02"
                                     "cos\nsystem\nX\4\0\0\0boom\x85R.",
                                     25))
                       .root),
            "<os.system>('boom')");
}

TEST(Pickle, ValuesThatAreSharedStaySharedWhenWritten) {
  Pickle pickle;
  PickleValue* list = pickle.add(Kind::kList);
  const PickleValue* text = pickle.str("twice");
  list->items = {text,
                 text,
                 pickle.integer(-70000),
                 pickle.integer(int64_t{1} << 40),
                 pickle.boolean(false),
                 pickle.tuple({}),
                 pickle.call(pickle.global("collections.OrderedDict"), {}),
                 pickle.add(Kind::kNone)};
  PickleValue* number = pickle.add(Kind::kFloat);
  number->number = -0.1;
  list->items.push_back(number);
  PickleValue* dict = pickle.add(Kind::kDict);
  dict->entries = {{text, list->items[5]}, {pickle.integer(300), pickle.tuple({number, number, number, number})}};
  list->items.push_back(dict);
  pickle.root = list;
  const Bytes bytes = write_pickle(pickle);
  EXPECT_EQ(bytes, write_pickle(pickle));
  const Pickle back = read_pickle(bytes);
  EXPECT_EQ(print(*back.root), print(*pickle.root));
  EXPECT_EQ(back.root->items[0], back.root->items[1]);
}

TEST(Pickle, BadPicklesAreRefused) {
  const auto refuse = [](const std::string& opcodes, std::string_view words, ErrorCode code = ErrorCode::kBadFile) {
    expect_error(code, words, [&] { parse(std::string("\x80\x02", 2) + opcodes); });
  };
  expect_error(ErrorCode::kUnsupported, "not a pickle of protocol 2", [] { parse("I1\n."); });
  expect_error(ErrorCode::kUnsupported, "protocol 6", [] { parse("\x80\x06N."); });
  refuse("", "ends too early");
  refuse("N", "ends too early");
  refuse("NN.", "left over");
  refuse("(N.", "left over");
  refuse(".", "not there");
  refuse("t.", "takes a mark");
  refuse("(a.", "not there");
  refuse("\xFF.", "unknown pickle opcode 255");
  refuse("I1\n.", "opcode 73", ErrorCode::kUnsupported);
  refuse("\x97.", "opcode 151", ErrorCode::kUnsupported);
  refuse("h\x05.", "recalls value 5");
  refuse(std::string("X\xFF\xFF\xFF\xFF", 5), "ends too early");
  refuse(std::string("X\x02\0\0\0\xC3\x28.", 8), "not UTF-8");
  refuse(
      "\x8A\x09"
      "123456789.",
      "beyond 64 bits", ErrorCode::kUnsupported);
  refuse("NNa.", "not a list");
  refuse("NNNs.", "not a dictionary");
  refuse("}(Nu.", "without a value");
  refuse("NNR.", "not a tuple");
  refuse("NNb.", "not an object");
  refuse("NN\x93.", "something other than strings");
  refuse(std::string("\x95\xFF\0\0\0\0\0\0\0N.", 11), "frame");
  refuse("cos\nsystem", "ends too early");
}

TEST(Pickle, DeepAndEndlessTreesAreRefused) {
  const auto nested = [](size_t depth) { return "\x80\x02)" + std::string(depth, '\x85') + "."; };
  EXPECT_EQ(print(*parse(nested(100)).root).size(), 202u);
  expect_error(ErrorCode::kBadFile, "128 deep", [&] { parse(nested(128)); });
  expect_error(ErrorCode::kBadFile, "128 deep", [&] { parse(nested(1000000)); });
  expect_error(ErrorCode::kBadFile, "contains itself", [] { parse(std::string("\x80\x02]q\0h\0a.", 9)); });
  // Two halves of 100, one inside the other through the memo.
  const std::string half = "\x80\x02)" + std::string(100, '\x85') + "q\1" + "0" + "h\1";
  expect_error(ErrorCode::kBadFile, "128 deep", [&] { parse(half + std::string(100, '\x85') + "."); });
  std::string many("\x80\x02(", 3);
  for (int i = 0; i < 2000001; ++i) many += "K\x01";
  expect_error(ErrorCode::kBadFile, "more than 2000000 values", [&] { parse(many + "t."); });
}

TEST(Pickle, Protocol2HasNoBytesToWrite) {
  Pickle pickle;
  pickle.root = pickle.add(Kind::kBytes);
  expect_error(ErrorCode::kUnsupported, "cannot be written", [&] { write_pickle(pickle); });
}

}  // namespace
}  // namespace qdq::format::pickle_test
