#include "train/composition.h"
#include "op/targets.h"

#include <algorithm>

namespace qdq {

Composition::Term Composition::argument(size_t i) {
  Part part;
  part.value = call_.x(i);
  part.argument = static_cast<int64_t>(i);
  part.is_wanted = call_.wanted[i];
  terms_.push_back(std::move(part));
  return {terms_.size() - 1};
}

Composition::Term Composition::argument(size_t i, size_t element) {
  Part part;
  part.value = call_.call.tensors(i).at(element);
  part.argument = static_cast<int64_t>(i);
  part.element = static_cast<int64_t>(element);
  part.is_wanted = call_.wanted[i] && is_floating(part.value.dtype());
  terms_.push_back(std::move(part));
  return {terms_.size() - 1};
}

Composition::Term Composition::constant(Tensor value) {
  Part part;
  part.value = std::move(value);
  terms_.push_back(std::move(part));
  return {terms_.size() - 1};
}

namespace {

// Operands as the arguments of a call: keyword-only ones by name.
Call<Tensor> call_of(const OpDef& op, const std::vector<Value>& values) {
  std::vector<Value> args;
  std::vector<std::pair<std::string, Value>> kwargs;
  for (size_t i = 0; i < values.size(); ++i) {
    const SchemaArgument& argument = op.schema->arguments.at(i);
    if (argument.kwarg_only) kwargs.emplace_back(argument.name, values[i]);
    else args.push_back(values[i]);
  }
  return Call<Tensor>(op, std::move(args), std::move(kwargs));
}

}  // namespace

Composition::Term Composition::call(std::string_view op, std::vector<Operand> operands) {
  Part part;
  part.op = find_op(op::aten(op));
  QDQ_CHECK(part.op != nullptr && find_backward(part.op->target) != nullptr, kInternal, "the gradient of ",
            call_.call.op().target, " needs that of ", op, ", which there is not");
  std::vector<Value> values;
  for (const Operand& operand : operands) {
    if (const Term* term = std::get_if<Term>(&operand)) {
      values.emplace_back(value(*term));
      part.is_wanted = part.is_wanted || terms_[term->at].is_wanted;
    } else if (const auto* list = std::get_if<std::vector<Term>>(&operand)) {
      Value::List elements;
      for (const Term& term : *list) {
        elements.emplace_back(value(term));
        part.is_wanted = part.is_wanted || terms_[term.at].is_wanted;
      }
      values.emplace_back(std::move(elements));
    } else {
      values.push_back(std::get<Value>(operand));
    }
  }
  part.value = *part.op->eval(call_of(*part.op, values)).get_if<Tensor>();
  part.operands = std::move(operands);
  terms_.push_back(std::move(part));
  return {terms_.size() - 1};
}

void Composition::add(Term term, const Tensor& grad) {
  Part& part = terms_[term.at];
  part.grad = part.grad.defined() ? add_tensors(part.grad, grad) : grad;
}

void Composition::step_back(Part& part) {
  std::vector<Value> values;
  std::vector<bool> wanted(part.op->schema->arguments.size());
  for (size_t i = 0; i < part.operands.size(); ++i) {
    if (const Term* term = std::get_if<Term>(&part.operands[i])) {
      values.emplace_back(value(*term));
      wanted[i] = terms_[term->at].is_wanted;
    } else if (const auto* list = std::get_if<std::vector<Term>>(&part.operands[i])) {
      Value::List elements;
      for (const Term& element : *list) {
        elements.emplace_back(value(element));
        wanted[i] = wanted[i] || terms_[element.at].is_wanted;
      }
      values.emplace_back(std::move(elements));
    } else {
      values.push_back(std::get<Value>(part.operands[i]));
    }
  }
  const BackwardDef* def = find_backward(part.op->target);
  if (def->backward == nullptr) return;
  const Call<Tensor> call = call_of(*part.op, values);
  const Value result(part.value), grad(part.grad);
  const std::vector<Value> grads = def->backward({call, result, grad, wanted});
  for (size_t i = 0; i < std::min(grads.size(), part.operands.size()); ++i) {
    if (!wanted[i] || grads[i].is_none()) continue;
    if (const Term* term = std::get_if<Term>(&part.operands[i])) add(*term, *grads[i].get_if<Tensor>());
    else if (const auto* list = std::get_if<std::vector<Term>>(&part.operands[i]))
      for (size_t k = 0; k < list->size(); ++k)
        if (const Tensor* element = grads[i].get_if<Value::List>()->at(k).get_if<Tensor>()) add((*list)[k], *element);
  }
}

std::vector<Value> Composition::gradients(Term result, const Tensor& grad) {
  return gradients(std::vector<Term>{result}, std::vector<Tensor>{grad});
}

std::vector<Value> Composition::gradients(const std::vector<Term>& results, const std::vector<Tensor>& grads) {
  for (size_t i = 0; i < results.size(); ++i)
    if (grads[i].defined()) add(results[i], grads[i]);
  std::vector<Value> out(call_.call.size());
  for (size_t i = terms_.size(); i-- > 0;) {
    Part& part = terms_[i];
    if (!part.is_wanted || !part.grad.defined()) continue;
    if (part.op != nullptr) {
      step_back(part);
      continue;
    }
    Value& to = out[static_cast<size_t>(part.argument)];
    if (part.element < 0) {
      to = to.is_none() ? Value(part.grad) : Value(add_tensors(*to.get_if<Tensor>(), part.grad));
      continue;
    }
    Value::List list = to.is_none() ? Value::List(call_.call.tensors(static_cast<size_t>(part.argument)).size())
                                    : *to.get_if<Value::List>();
    Value& element = list[static_cast<size_t>(part.element)];
    element = element.is_none() ? Value(part.grad) : Value(add_tensors(*element.get_if<Tensor>(), part.grad));
    to = std::move(list);
  }
  return out;
}

}  // namespace qdq
