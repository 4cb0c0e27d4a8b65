// An operator as others that have gradients make it up: they run again, and the way back goes through each.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "train/backward.h"

namespace qdq {

class Composition {
 public:
  // A value: an argument, a constant or a result.
  struct Term {
    size_t at = 0;
  };
  using Operand = std::variant<Term, Value, std::vector<Term>>;

  explicit Composition(const BackwardCall& call) : call_(call) {}

  // An argument, or an element of a list; its gradient is one of gradients().
  Term argument(size_t i);
  Term argument(size_t i, size_t element);
  Term constant(Tensor value);
  // The result of an operator of aten ("mul.Tensor") that has a gradient and gives one tensor. Operands are in schema
  // order, keyword-only ones included.
  Term call(std::string_view op, std::vector<Operand> operands);
  const Tensor& value(Term term) const { return terms_[term.at].value; }
  const BackwardCall& of() const { return call_; }

  // The gradients by argument of the call, where that of `result` is given.
  std::vector<Value> gradients(Term result, const Tensor& grad);
  std::vector<Value> gradients(Term result) { return gradients(result, call_.g()); }
  // The same for several results; one without a gradient is undefined.
  std::vector<Value> gradients(const std::vector<Term>& results, const std::vector<Tensor>& grads);

 private:
  struct Part {
    Tensor value, grad;
    const OpDef* op = nullptr;  // null: an argument or a constant
    std::vector<Operand> operands;
    int64_t argument = -1, element = -1;  // of the call
    bool is_wanted = false;               // whether its gradient is of use
  };
  void add(Term term, const Tensor& grad);
  void step_back(Part& part);

  const BackwardCall& call_;
  std::vector<Part> terms_;
};

}  // namespace qdq
