// Operator schemas: PyTorch's own one-line declarations, parsed.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace qdq {

// One argument: "SymInt[2] stride=1" has type "SymInt", is_list, list_size 2 and the default 1, which means [1, 1].
struct SchemaArgument {
  std::string name;
  // "Tensor", "int", "SymInt", "float", "bool", "str", "Scalar", "ScalarType", "Layout", "Device", "MemoryFormat"
  std::string type;
  bool is_list = false;
  int64_t list_size = 0;           // of "int[2]": one number stands for this many; else 0
  bool is_optional = false;        // "Tensor?", "int[]?"
  bool elements_optional = false;  // "Tensor?[]"
  bool is_mutated = false;         // "Tensor(a!) self"
  bool kwarg_only = false;
  std::optional<Argument> default_value;
};

struct Schema {
  std::string name;  // "conv2d", "add_.Tensor"
  std::vector<SchemaArgument> arguments;
  size_t num_returns = 1;
  bool returns_list = false;  // "Tensor[]"

  // Parses "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor". Throws Error{kInternal} on malformed
  // text.
  static Schema parse(std::string_view text);
  std::optional<size_t> index_of(std::string_view argument) const;
  size_t num_positional() const;
};

// A schema that is parsed when somebody first asks for it: there are a thousand operators, and a model calls a few
// dozen. Copies share what was parsed; threads may ask at the same time.
class SchemaLine {
 public:
  SchemaLine() = default;
  explicit SchemaLine(std::string_view text);  // as Schema::parse takes it, which may throw later
  std::string_view text() const { return held_->text; }
  // These two look at the text alone. name() throws Error{kInternal} if there is none.
  std::string_view name() const;
  bool mutates_first() const;  // "relu_(Tensor(a!) self) -> ..."
  const Schema& operator*() const;
  const Schema* operator->() const { return &**this; }

 private:
  struct Held {
    std::string text;
    std::once_flag parsed;
    Schema schema;
  };
  std::shared_ptr<Held> held_;
};

}  // namespace qdq
