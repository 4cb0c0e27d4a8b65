// Python pickles as inert data: what torch.save writes is read without executing anything that it names.
#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "format/bytes.h"

namespace qdq::format {

// One value of a pickle. Values that a pickle names twice are one PickleValue.
struct PickleValue {
  enum class Kind : uint8_t {
    kNone,
    kBool,
    kInt,
    kFloat,
    kStr,
    kBytes,
    kTuple,
    kList,
    kSet,           // items
    kDict,          // entries, in order
    kGlobal,        // text: "torch._utils._rebuild_tensor_v2"; a name, never a callable
    kObject,        // what the pickle says to make by calling `callee` with `args`; nobody calls it
    kPersistentId,  // args: the id; torch.save refers to storages so
  };
  using Entries = std::vector<std::pair<const PickleValue*, const PickleValue*>>;

  Kind kind = Kind::kNone;
  int64_t integer = 0;  // also of a bool: 0 or 1
  double number = 0;
  std::string text;                       // of kStr (UTF-8), kBytes, kGlobal
  std::vector<const PickleValue*> items;  // also what was appended to an object
  Entries entries;                        // also what was set in an object, as in an OrderedDict
  const PickleValue* callee = nullptr;
  const PickleValue* args = nullptr;
  const PickleValue* state = nullptr;  // the argument of __setstate__, or nullptr

  bool is(Kind k) const { return kind == k; }
  // A global of that name.
  bool is_global(std::string_view name) const { return kind == Kind::kGlobal && text == name; }
  // An object whose callee is the global of that name.
  bool is_call_of(std::string_view name) const { return kind == Kind::kObject && callee && callee->is_global(name); }
};

// A pickle: its root and the values under it. Owns them all; moving keeps their addresses.
class Pickle {
 public:
  using Kind = PickleValue::Kind;
  Pickle() = default;
  Pickle(Pickle&&) = default;
  Pickle& operator=(Pickle&&) = default;

  const PickleValue* root = nullptr;

  // Makes values for write_pickle.
  PickleValue* add(Kind kind);
  const PickleValue* boolean(bool value);
  const PickleValue* integer(int64_t value);
  const PickleValue* str(std::string text);
  const PickleValue* global(std::string name);
  const PickleValue* tuple(std::vector<const PickleValue*> items);
  const PickleValue* call(const PickleValue* callee, std::vector<const PickleValue*> args);

  const std::deque<PickleValue>& values() const { return values_; }

 private:
  std::deque<PickleValue> values_;
};

// Reads a pickle of protocol 2 to 5 and never executes anything: REDUCE, NEWOBJ and BUILD of any global give kObject.
// The tree is at most 128 deep, holds no cycle, and has at most two million values. `what` names the bytes in errors.
// Throws Error{kBadFile} if the bytes are not such a pickle or break a limit, Error{kUnsupported} for protocols 0 and
// 1, integers beyond 64 bits, extension codes, keyword arguments of objects and out-of-band buffers.
Pickle read_pickle(ByteSpan bytes, const std::string& what = "the pickle");

// The pickle's root as a pickle of protocol 2. A value that is referred to twice is written once. Equal trees give
// equal bytes. Throws Error{kUnsupported} for sets and bytes, which protocol 2 does not have.
Bytes write_pickle(const Pickle& pickle);

}  // namespace qdq::format
