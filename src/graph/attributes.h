// The tensors of a program: in order, and found by name.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/function_ref.h"
#include "tensor/tensor.h"

namespace qdq {

// A tensor that the graph reads through get_attr nodes.
struct Attribute {
  enum class Kind { kParameter, kBuffer, kConstant };
  std::string name;  // "layer1.0.conv1.weight"
  Tensor tensor;
  Kind kind = Kind::kBuffer;
  bool persistent = true;      // buffers only: whether it belongs to the state dict
  bool requires_grad = false;  // parameters only
};

// Attributes in the file's order. A name is found in a time that does not grow with their number: programs have
// 100,000 of them. Everything of an attribute may be changed in place, but not its name.
class Attributes {
 public:
  size_t size() const { return list_.size(); }
  bool empty() const { return list_.empty(); }
  auto begin() { return list_.begin(); }
  auto end() { return list_.end(); }
  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }
  Attribute& operator[](size_t i) { return list_[i]; }
  const Attribute& operator[](size_t i) const { return list_[i]; }

  // The place of this name; size() if there is none.
  size_t place_of(std::string_view name) const;
  // Throws Error{kInvalidArgument} if the name is taken.
  Attribute& add(Attribute attribute);
  void erase_if(FunctionRef<bool(const Attribute&)> goes);
  // A name of the form `candidate`, `candidate_1`, ... that no attribute has, with the smallest number.
  std::string free_name(std::string candidate) const;

 private:
  std::vector<Attribute> list_;
  std::unordered_map<std::string, size_t> places_;
  // All smaller numbers of this candidate are taken.
  mutable std::unordered_map<std::string, int64_t> next_number_;
};

}  // namespace qdq
