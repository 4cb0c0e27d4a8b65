#include "format/pickle.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <unordered_map>

#include "tensor/strings.h"

namespace qdq::format {

namespace {

using Kind = PickleValue::Kind;

constexpr size_t kMaxValues = 2'000'000;
constexpr int kMaxPickleDepth = 128;

// The opcodes of protocols 2 to 5 (CPython, Lib/pickletools.py); the names are Python's.
enum Op : uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kNone = 'N',
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kLong1 = 0x8A,
  kLong4 = 0x8B,
  kBinFloat = 'G',
  kBinUnicode = 'X',
  kShortBinUnicode = 0x8C,
  kBinUnicode8 = 0x8D,
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kBinBytes8 = 0x8E,
  kByteArray8 = 0x96,
  kBinString = 'T',
  kShortBinString = 'U',
  kEmptyTuple = ')',
  kTuple = 't',
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kEmptyList = ']',
  kList = 'l',
  kAppend = 'a',
  kAppends = 'e',
  kEmptyDict = '}',
  kDict = 'd',
  kSetItem = 's',
  kSetItems = 'u',
  kEmptySet = 0x8F,
  kAddItems = 0x90,
  kFrozenSet = 0x91,
  kGlobal = 'c',
  kStackGlobal = 0x93,
  kReduce = 'R',
  kBuild = 'b',
  kNewObj = 0x81,
  kBinPersId = 'Q',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kMemoize = 0x94,
  kProto = 0x80,
  kFrame = 0x95,
  kExt1 = 0x82,
  kExt4 = 0x84,
  kNewObjEx = 0x92,
  kNextBuffer = 0x97,
  kReadonlyBuffer = 0x98,
};

class Unpickler {
 public:
  Unpickler(ByteSpan bytes, const std::string& what) : in_(bytes, what), what_(what) {}

  Pickle read() {
    QDQ_CHECK(in_.remaining() >= 2 && in_.number<uint8_t>() == kProto, kUnsupported, what_,
              ": this is not a pickle of protocol 2 or later; save the file again with torch.save");
    protocol();
    for (;;) {
      const auto op = in_.number<uint8_t>();
      if (op == kStop) break;
      if (!scalar(op) && !container(op) && !call(op) && !memory(op)) unknown(op);
    }
    pickle_.root = pop();
    if (!stack_.empty() || !marks_.empty()) bad("the pickle ends with values left over");
    check_depth();
    return std::move(pickle_);
  }

 private:
  template <class... Parts> [[noreturn]] void bad(const Parts&... parts) const {
    fail(ErrorCode::kBadFile, what_, ": ", parts..., " (at byte ", in_.position(), " of the pickle)");
  }

  void protocol() {
    const auto version = in_.number<uint8_t>();
    QDQ_CHECK(version >= 2 && version <= 5, kUnsupported, what_, ": a pickle of protocol ", int{version},
              "; 2 to 5 are read, so save the file again with torch.save");
  }

  [[noreturn]] void unknown(uint8_t op) const {
    static constexpr std::string_view kOld = "FILSVPpgio";
    const bool known = (op >= kExt1 && op <= kExt4) || op == kNewObjEx || op == kNextBuffer || op == kReadonlyBuffer ||
                       kOld.find(static_cast<char>(op)) != std::string_view::npos;
    QDQ_CHECK(!known, kUnsupported, what_, ": the pickle uses opcode ", int{op},
              " (of protocol 0 or 1, an extension registry, keyword arguments or out-of-band buffers);"
              " save it with protocol 2");
    bad("unknown pickle opcode ", int{op});
  }

  PickleValue* make(Kind kind) {
    if (pickle_.values().size() >= kMaxValues) bad("the pickle has more than ", kMaxValues, " values");
    return pickle_.add(kind);
  }
  PickleValue* push(Kind kind) {
    stack_.push_back(make(kind));
    return stack_.back();
  }
  // Constants are one value each: a byte of input must not cost a whole value.
  void push_constant(PickleValue*& constant, Kind kind, int64_t integer) {
    if (!constant) {
      constant = make(kind);
      constant->integer = integer;
    }
    stack_.push_back(constant);
  }
  void push_int(int64_t value) { push(Kind::kInt)->integer = value; }
  void push_text(Kind kind, uint64_t length) {
    const std::string_view text = text_of(in_.take(length));
    if (kind == Kind::kStr && !is_utf8(text)) bad("a string of the pickle is not UTF-8");
    push(kind)->text = text;
  }

  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  PickleValue* top() {
    if (stack_.size() <= floor()) bad("the pickle takes a value that is not there");
    return stack_.back();
  }
  PickleValue* pop() {
    PickleValue* value = top();
    stack_.pop_back();
    return value;
  }
  // The values above the last mark.
  std::vector<const PickleValue*> pop_to_mark() {
    if (marks_.empty()) bad("the pickle takes a mark that is not there");
    const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<const PickleValue*> out(first, stack_.end());
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return out;
  }

  int64_t long_integer(uint64_t length) {
    const ByteSpan bytes = in_.take(length);
    QDQ_CHECK(length <= 8, kUnsupported, what_, ": the pickle holds an integer beyond 64 bits");
    if (length == 0) return 0;
    uint64_t value = bytes.back() >= std::byte{0x80} ? ~uint64_t{0} : 0;
    for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<uint64_t>(bytes[i]);
    return static_cast<int64_t>(value);
  }

  double big_endian_double() {
    uint64_t bits = 0;
    for (const std::byte b : in_.take(8)) bits = bits << 8 | static_cast<uint64_t>(b);
    return std::bit_cast<double>(bits);
  }

  bool scalar(uint8_t op) {
    switch (op) {
      case kNone: push_constant(none_, Kind::kNone, 0); return true;
      case kNewTrue: push_constant(true_, Kind::kBool, 1); return true;
      case kNewFalse: push_constant(false_, Kind::kBool, 0); return true;
      case kBinInt: push_int(in_.number<int32_t>()); return true;
      case kBinInt1: push_int(in_.number<uint8_t>()); return true;
      case kBinInt2: push_int(in_.number<uint16_t>()); return true;
      case kLong1: push_int(long_integer(in_.number<uint8_t>())); return true;
      case kLong4: push_int(long_integer(in_.number<uint32_t>())); return true;
      case kBinFloat: push(Kind::kFloat)->number = big_endian_double(); return true;
      case kShortBinUnicode: push_text(Kind::kStr, in_.number<uint8_t>()); return true;
      case kBinUnicode: push_text(Kind::kStr, in_.number<uint32_t>()); return true;
      case kBinUnicode8: push_text(Kind::kStr, in_.number<uint64_t>()); return true;
      case kShortBinBytes:
      case kShortBinString: push_text(Kind::kBytes, in_.number<uint8_t>()); return true;
      case kBinBytes:
      case kBinString: push_text(Kind::kBytes, in_.number<uint32_t>()); return true;
      case kBinBytes8:
      case kByteArray8: push_text(Kind::kBytes, in_.number<uint64_t>()); return true;
      default: return false;
    }
  }

  void push_items(Kind kind, std::vector<const PickleValue*> items) { push(kind)->items = std::move(items); }
  void push_tuple(size_t count) {
    std::vector<const PickleValue*> items(count);
    for (size_t i = count; i-- > 0;) items[i] = pop();
    push_items(Kind::kTuple, std::move(items));
  }
  void add_items(const std::vector<const PickleValue*>& items) {
    PickleValue* to = top();
    if (!to->is(Kind::kList) && !to->is(Kind::kSet) && !to->is(Kind::kObject))
      bad("the pickle appends to a value that is not a list");
    to->items.insert(to->items.end(), items.begin(), items.end());
  }
  void add_entries(PickleValue* to, const std::vector<const PickleValue*>& flat) {
    if (!to->is(Kind::kDict) && !to->is(Kind::kObject))
      bad("the pickle sets a key of a value that is not a dictionary");
    if (flat.size() % 2) bad("the pickle sets a key without a value");
    for (size_t i = 0; i < flat.size(); i += 2) to->entries.emplace_back(flat[i], flat[i + 1]);
  }

  bool container(uint8_t op) {
    switch (op) {
      case kMark: marks_.push_back(stack_.size()); return true;
      case kEmptyTuple: push_constant(empty_tuple_, Kind::kTuple, 0); return true;
      case kTuple1: push_tuple(1); return true;
      case kTuple2: push_tuple(2); return true;
      case kTuple3: push_tuple(3); return true;
      case kTuple: push_items(Kind::kTuple, pop_to_mark()); return true;
      case kEmptyList: push(Kind::kList); return true;
      case kList: push_items(Kind::kList, pop_to_mark()); return true;
      case kEmptySet: push(Kind::kSet); return true;
      case kFrozenSet: push_items(Kind::kSet, pop_to_mark()); return true;
      case kAppend: add_items({pop()}); return true;
      case kAppends:
      case kAddItems: add_items(pop_to_mark()); return true;
      case kEmptyDict: push(Kind::kDict); return true;
      case kDict: {
        const auto flat = pop_to_mark();
        add_entries(push(Kind::kDict), flat);
        return true;
      }
      case kSetItem: {
        const PickleValue* value = pop();
        const PickleValue* key = pop();
        add_entries(top(), {key, value});
        return true;
      }
      case kSetItems: {
        const auto flat = pop_to_mark();
        add_entries(top(), flat);
        return true;
      }
      default: return false;
    }
  }

  std::string_view line() {
    const size_t start = in_.position();
    std::string_view text;
    ByteReader probe = in_;
    while (probe.number<uint8_t>() != '\n') {}
    text = text_of(in_.take(probe.position() - start));
    return text.substr(0, text.size() - 1);
  }

  void push_global(std::string_view module, std::string_view name) {
    if (!is_utf8(module) || !is_utf8(name)) bad("a name in the pickle is not UTF-8");
    std::string& text = push(Kind::kGlobal)->text;
    text = module;
    text += '.';
    text += name;
  }

  bool call(uint8_t op) {
    switch (op) {
      case kGlobal: {
        const std::string_view module = line(), name = line();
        push_global(module, name);
        return true;
      }
      case kStackGlobal: {
        const PickleValue* name = pop();
        const PickleValue* module = pop();
        if (!name->is(Kind::kStr) || !module->is(Kind::kStr))
          bad("the pickle names a global by something other than strings");
        push_global(module->text, name->text);
        return true;
      }
      case kReduce:
      case kNewObj: {
        const PickleValue* args = pop();
        const PickleValue* callee = pop();
        if (!args->is(Kind::kTuple)) bad("the pickle makes an object with arguments that are not a tuple");
        PickleValue* object = push(Kind::kObject);
        object->callee = callee;
        object->args = args;
        return true;
      }
      case kBuild: {
        const PickleValue* state = pop();
        if (!top()->is(Kind::kObject)) bad("the pickle sets the state of a value that is not an object");
        top()->state = state;
        return true;
      }
      case kBinPersId: {
        const PickleValue* id = pop();
        push(Kind::kPersistentId)->args = id;
        return true;
      }
      default: return false;
    }
  }

  void recall(uint32_t index) {
    const auto at = memo_.find(index);
    if (at == memo_.end()) bad("the pickle recalls value ", index, ", which it never stored");
    stack_.push_back(at->second);
  }

  bool memory(uint8_t op) {
    switch (op) {
      case kBinPut: memo_[in_.number<uint8_t>()] = top(); return true;
      case kLongBinPut: memo_[in_.number<uint32_t>()] = top(); return true;
      case kMemoize: memo_[static_cast<uint32_t>(memo_.size())] = top(); return true;
      case kBinGet: recall(in_.number<uint8_t>()); return true;
      case kLongBinGet: recall(in_.number<uint32_t>()); return true;
      case kPop:
        if (stack_.size() > floor()) stack_.pop_back();
        else pop_to_mark();
        return true;
      case kPopMark: pop_to_mark(); return true;
      case kDup: stack_.push_back(top()); return true;
      case kProto: protocol(); return true;
      case kFrame:
        if (in_.number<uint64_t>() > in_.remaining()) bad("a frame of the pickle reaches beyond its end");
        return true;
      default: return false;
    }
  }

  template <class Visit> static void for_each_child(const PickleValue& value, Visit&& visit) {
    for (const PickleValue* item : value.items) visit(item);
    for (const auto& [key, item] : value.entries) {
      visit(key);
      visit(item);
    }
    for (const PickleValue* part : {value.callee, value.args, value.state})
      if (part) visit(part);
  }

  // Readers walk the tree recursively, so it must be shallow and without cycles. Values are visited once, without
  // recursion.
  void check_depth() const {
    struct Visit {
      const PickleValue* value;
      std::vector<const PickleValue*> children;
      size_t next = 0;
      int height = 1;
    };
    std::unordered_map<const PickleValue*, int> heights;  // 0 while the value is being visited
    std::vector<Visit> path;
    const auto enter = [&](const PickleValue* value) {
      heights[value] = 0;
      path.push_back({value, {}});
      for_each_child(*value, [&](const PickleValue* child) { path.back().children.push_back(child); });
      if (path.size() > kMaxPickleDepth) bad("the pickle is nested more than ", kMaxPickleDepth, " deep");
    };
    enter(pickle_.root);
    while (!path.empty()) {
      Visit& visit = path.back();
      if (visit.next == visit.children.size()) {
        const int height = visit.height;
        heights[visit.value] = height;
        path.pop_back();
        if (!path.empty()) path.back().height = std::max(path.back().height, height + 1);
        continue;
      }
      const PickleValue* child = visit.children[visit.next++];
      const auto known = heights.find(child);
      if (known == heights.end()) {
        enter(child);
        continue;
      }
      if (known->second == 0) bad("a value of the pickle contains itself");
      visit.height = std::max(visit.height, known->second + 1);
      if (static_cast<int>(path.size()) + known->second > kMaxPickleDepth)
        bad("the pickle is nested more than ", kMaxPickleDepth, " deep");
    }
  }

  ByteReader in_;
  const std::string& what_;
  Pickle pickle_;
  std::vector<PickleValue*> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint32_t, PickleValue*> memo_;
  PickleValue* none_ = nullptr;
  PickleValue* true_ = nullptr;
  PickleValue* false_ = nullptr;
  PickleValue* empty_tuple_ = nullptr;
};

// Writes protocol 2. Containers, strings and globals are stored in the memo, so that what is shared stays shared.
class Pickler {
 public:
  Bytes write(const PickleValue& root) {
    op(kProto);
    op(2);
    value(root);
    op(kStop);
    return std::move(out_);
  }

 private:
  void op(int code) { out_.push_back(static_cast<std::byte>(code)); }

  void value(const PickleValue& v) {
    const auto known = memo_.find(&v);
    if (known != memo_.end()) {
      reference(kBinGet, kLongBinGet, known->second);
      return;
    }
    switch (v.kind) {
      case Kind::kNone: op(kNone); return;
      case Kind::kBool: op(v.integer ? kNewTrue : kNewFalse); return;
      case Kind::kInt: integer(v.integer); return;
      case Kind::kFloat: number(v.number); return;
      case Kind::kStr:
        op(kBinUnicode);
        append_number(out_, static_cast<uint32_t>(v.text.size()));
        append(out_, bytes_of(v.text));
        break;
      case Kind::kTuple:
        if (tuple(v)) return;
        break;
      case Kind::kList: op(kEmptyList); break;
      case Kind::kDict: op(kEmptyDict); break;
      case Kind::kGlobal: global(v.text); break;
      case Kind::kObject:
        value(*v.callee);
        value(*v.args);
        op(kReduce);
        break;
      case Kind::kPersistentId:
        value(*v.args);
        op(kBinPersId);
        return;
      case Kind::kSet:
      case Kind::kBytes: fail(ErrorCode::kUnsupported, "sets and bytes cannot be written in a pickle of protocol 2");
    }
    const auto index = static_cast<uint32_t>(memo_.size());
    memo_.emplace(&v, index);
    reference(kBinPut, kLongBinPut, index);
    contents(v);
  }

  void reference(int short_op, int long_op, uint32_t index) {
    op(index < 256 ? short_op : long_op);
    if (index < 256) op(static_cast<int>(index));
    else append_number(out_, index);
  }

  // Whether it is the empty tuple, which needs no memo.
  bool tuple(const PickleValue& v) {
    const size_t count = v.items.size();
    if (count > 3) op(kMark);
    for (const PickleValue* item : v.items) value(*item);
    static constexpr int kOps[] = {kEmptyTuple, kTuple1, kTuple2, kTuple3, kTuple};
    op(kOps[std::min<size_t>(count, 4)]);
    return count == 0;
  }

  void contents(const PickleValue& v) {
    if (!v.items.empty() && !v.is(Kind::kTuple)) {
      op(kMark);
      for (const PickleValue* item : v.items) value(*item);
      op(kAppends);
    }
    if (!v.entries.empty()) {
      op(kMark);
      for (const auto& [key, item] : v.entries) {
        value(*key);
        value(*item);
      }
      op(kSetItems);
    }
    if (v.state) {
      value(*v.state);
      op(kBuild);
    }
  }

  void global(const std::string& name) {
    const size_t dot = name.rfind('.');
    op(kGlobal);
    append(out_, bytes_of(name.substr(0, dot) + "\n" + name.substr(dot + 1) + "\n"));
  }

  void integer(int64_t v) {
    if (v >= 0 && v < 256) {
      op(kBinInt1);
      op(static_cast<int>(v));
    } else if (v >= 0 && v < 65536) {
      op(kBinInt2);
      append_number(out_, static_cast<uint16_t>(v));
    } else if (v >= std::numeric_limits<int32_t>::min() && v <= std::numeric_limits<int32_t>::max()) {
      op(kBinInt);
      append_number(out_, static_cast<int32_t>(v));
    } else {
      op(kLong1);
      op(8);
      append_number(out_, v);
    }
  }

  void number(double v) {
    op(kBinFloat);
    const auto bits = std::bit_cast<uint64_t>(v);
    for (int shift = 56; shift >= 0; shift -= 8) op(static_cast<int>(bits >> shift & 0xFF));
  }

  Bytes out_;
  std::unordered_map<const PickleValue*, uint32_t> memo_;
};

}  // namespace

PickleValue* Pickle::add(Kind kind) {
  values_.emplace_back().kind = kind;
  return &values_.back();
}

const PickleValue* Pickle::boolean(bool value) {
  PickleValue* out = add(Kind::kBool);
  out->integer = value;
  return out;
}

const PickleValue* Pickle::integer(int64_t value) {
  PickleValue* out = add(Kind::kInt);
  out->integer = value;
  return out;
}

const PickleValue* Pickle::str(std::string text) {
  PickleValue* out = add(Kind::kStr);
  out->text = std::move(text);
  return out;
}

const PickleValue* Pickle::global(std::string name) {
  PickleValue* out = add(Kind::kGlobal);
  out->text = std::move(name);
  return out;
}

const PickleValue* Pickle::tuple(std::vector<const PickleValue*> items) {
  PickleValue* out = add(Kind::kTuple);
  out->items = std::move(items);
  return out;
}

const PickleValue* Pickle::call(const PickleValue* callee, std::vector<const PickleValue*> args) {
  PickleValue* out = add(Kind::kObject);
  out->callee = callee;
  out->args = tuple(std::move(args));
  return out;
}

Pickle read_pickle(ByteSpan bytes, const std::string& what) { return Unpickler(bytes, what).read(); }

Bytes write_pickle(const Pickle& pickle) { return Pickler().write(*pickle.root); }

}  // namespace qdq::format
