#include "train/tape.h"

#include <algorithm>
#include <functional>

#include "quant/observers/learnable_fake_quantize.h"
#include "train/backward.h"
#include "train/functional.h"

namespace qdq {
namespace {

// A tensor's shape without its values: one zero behind all places.
Tensor shape_of(const Tensor& x) { return x.defined() ? Tensor::empty({}, x.dtype()).expand(x.sizes()) : x; }
Value shape_of(const Value& value) {
  if (const Tensor* tensor = value.get_if<Tensor>()) return shape_of(*tensor);
  const Value::List* list = value.get_if<Value::List>();
  if (list == nullptr) return value;
  Value::List out;
  for (const Value& element : *list) out.push_back(shape_of(element));
  return out;
}

// a + b of gradients: tensors, or lists of what may be none.
Value sum_of(const Value& a, const Value& b) {
  if (a.is_none()) return b;
  if (b.is_none()) return a;
  if (const Tensor* tensor = a.get_if<Tensor>()) return add_tensors(*tensor, *b.get_if<Tensor>());
  Value::List out;
  for (size_t i = 0; i < a.get_if<Value::List>()->size(); ++i)
    out.push_back(sum_of((*a.get_if<Value::List>())[i], (*b.get_if<Value::List>())[i]));
  return out;
}

Tensor masked(const Tensor& grad, const Tensor& mask) {
  const Tensor g = contiguous_f32(grad), out = Tensor::empty(g.sizes(), DType::kF32);
  const float* from = g.data<float>();
  const uint8_t* inside = mask.data<uint8_t>();
  float* to = out.data<float>();
  for (int64_t i = 0; i < g.numel(); ++i) to[i] = inside[i] != 0 ? from[i] : 0.0f;
  return out;
}

bool learns_qparams(const Observer& observer) {
  if (!observer.is_learnable()) return false;
  const auto& learnable = static_cast<const LearnableFakeQuantize&>(observer);
  return learnable.learning_enabled() && learnable.fake_quant_enabled();
}

}  // namespace

Tape::Tape(Prepared& prepared, std::unordered_set<std::string> trained)
    : prepared_(prepared), trained_(std::move(trained)) {
  compile();
}

void Tape::compile() {
  interpreter_.reset();
  program_ = prepared_.program().clone();
  make_functional(program_, trained_);
  order_.clear();
  for (const Node* node : program_.graph->nodes()) order_.push_back(node);
  outputs_.clear();
  const Argument& results = program_.graph->output_node()->arg(0);
  if (results.is_list())
    for (const Argument& result : results.list()) outputs_.push_back(result.node());
  else outputs_.push_back(results.node());
  find_flow();
  interpreter_ = std::make_unique<Interpreter>(program_, prepared_.backends());
  interpreter_->set_module_handler(
      [this](const Node& node, std::span<const Value> args, const kernel::MinMax*) { return observe(node, args); });
  interpreter_->set_node_hook([this](const Node& node, const Value& value) { keep(node, value); });
  revision_ = prepared_.revision();
}

// Which nodes gradients flow through, and what of them is kept. Throws for all operators without a gradient at once.
void Tape::find_flow() {
  differentiable_.clear();
  saved_.clear();
  std::map<std::string, std::string> missing;  // operator -> nodes
  for (const Node* node : order_) {
    if (node->op() == Node::Op::kGetAttr && trained_.count(node->target())) differentiable_.insert(node);
    if (node->op() == Node::Op::kCallModule && prepared_.observer(*node).is_learnable()) differentiable_.insert(node);
    const std::vector<Node*> inputs = node->input_nodes();
    if (std::none_of(inputs.begin(), inputs.end(), [&](const Node* input) { return differentiable_.count(input) > 0; }))
      continue;
    if (node->op() == Node::Op::kCallModule || node->is("operator.getitem")) differentiable_.insert(node);
    if (node->op() != Node::Op::kCallFunction || node->is("operator.getitem")) continue;
    const TensorMeta* meta = node->meta.val.tensor();
    if (meta != nullptr && !is_floating(meta->dtype)) continue;
    const BackwardDef* def = find_backward(node->target());
    if (def == nullptr) {
      std::string& users = missing[node->target()];
      users += (users.empty() ? "" : ", ") + node->name();
      differentiable_.insert(node);  // so that what follows is looked at too
      continue;
    }
    if (def->backward == nullptr) continue;
    differentiable_.insert(node);
    if (def->saves_result) saved_.insert(node);
    if (def->saves_inputs) saved_.insert(inputs.begin(), inputs.end());
  }
  if (missing.empty()) return;
  std::string list;
  for (const auto& [target, users] : missing) list += concat(list.empty() ? "" : "; ", target, " (", users, ")");
  fail(ErrorCode::kUnsupported, "training has no gradient for these operators: ", list);
}

Value Tape::observe(const Node& node, std::span<const Value> args) {
  const Tensor& x = *args[0].get_if<Tensor>();
  Tensor mask;
  Observer& observer = prepared_.observer(node);
  const bool learns = learns_qparams(observer) && x.numel() > 0;
  Tensor out = observer.forward_with_mask(x, differentiable_.count(&node) && !learns ? &mask : nullptr);
  if (mask.defined()) masks_[&node] = mask;
  if (learns) learnt_[&node] = contiguous_f32(x);
  return out;
}

void Tape::keep(const Node& node, const Value& value) {
  if (saved_.count(&node)) values_[&node] = value;
  else if (node.op() != Node::Op::kOutput) values_[&node] = shape_of(value);
}

// The gradient of what a fake quantizer saw; those of its qparams go to gradients_.
Tensor Tape::backward_of_learnt(const Node& node, const Tensor& x, const Tensor& grad) {
  const auto& observer = static_cast<const LearnableFakeQuantize&>(prepared_.observer(node));
  const LearnableFakeQuantize::Grads grads = observer.backward(x, grad);
  const std::string& name = prepared_.observer_name(node);
  add_gradient(name + ".scale", grads.scale);
  if (!is_symmetric(observer.args().qscheme)) add_gradient(name + ".zero_point", grads.zero_point);
  return grads.x;
}

void Tape::add_gradient(const std::string& name, const Tensor& grad) {
  Tensor& sum = gradients_[name];
  sum = sum.defined() ? add_tensors(sum, grad) : grad;
}

// The gradients of the node's arguments by position among them, keyword arguments behind.
std::vector<Value> Tape::backward_of(const Node& node, const Value& grad) {
  if (node.op() == Node::Op::kCallModule) {
    if (const auto seen = learnt_.find(&node); seen != learnt_.end())
      return {backward_of_learnt(node, seen->second, contiguous_f32(*grad.get_if<Tensor>()))};
    const auto mask = masks_.find(&node);
    return {mask == masks_.end() ? grad : masked(*grad.get_if<Tensor>(), mask->second)};
  }
  if (node.is("operator.getitem")) {
    Value::List out(values_.at(node.arg(0).node()).get_if<Value::List>()->size());
    const auto at = static_cast<size_t>(node.arg(1).integer().value());
    QDQ_CHECK(at < out.size(), kInternal, "the result ", at, " of ", node.arg(0).node()->name(), " does not exist");
    out[at] = grad;
    return std::vector<Value>{Value(std::move(out))};
  }
  const OpDef& op = *find_op(node.target());
  const std::function<Value(const Argument&)> resolve = [&](const Argument& argument) -> Value {
    if (argument.is_list()) {
      Value::List out;
      for (const Argument& element : argument.list()) out.push_back(resolve(element));
      return out;
    }
    if (Node* input = argument.node()) return values_.at(input);
    return std::visit(
        [](const auto& constant) -> Value {
          using T = std::decay_t<decltype(constant)>;
          if constexpr (std::is_same_v<T, std::monostate> || std::is_same_v<T, Node*> ||
                        std::is_same_v<T, Argument::List>)
            return {};
          else return Value(constant);
        },
        argument.variant());
  };
  std::vector<Value> args;
  std::vector<std::pair<std::string, Value>> kwargs;
  std::vector<bool> wanted(op.schema->arguments.size());
  const auto wants = [&](size_t i, const Argument& argument) {
    argument.for_each_node([&](Node* input) { wanted[i] = wanted[i] || differentiable_.count(input) > 0; });
  };
  for (size_t i = 0; i < node.args().size(); ++i) {
    args.push_back(resolve(node.args()[i]));
    wants(i, node.args()[i]);
  }
  for (const auto& [name, argument] : node.kwargs()) {
    kwargs.emplace_back(name, resolve(argument));
    if (const auto i = op.schema->index_of(name)) wants(*i, argument);
  }
  const Call<Tensor> call(op, std::move(args), std::move(kwargs));
  return find_backward(node.target())->backward({call, values_.at(&node), grad, wanted});
}

std::vector<Tensor> Tape::forward(const std::vector<Tensor>& inputs) {
  if (revision_ != prepared_.revision()) compile();
  values_.clear();
  masks_.clear();
  learnt_.clear();
  is_recorded_ = false;
  std::vector<Tensor> outputs = interpreter_->run(inputs);
  QDQ_CHECK(!outputs.empty(), kInvalidArgument, "the program has no output to train on");
  is_recorded_ = true;
  return outputs;
}

std::map<std::string, Tensor> Tape::backward(const std::vector<Tensor>& of_outputs) {
  QDQ_CHECK(is_recorded_, kInvalidArgument,
            "there is no forward pass to go back through: call forward() before each backward()");
  QDQ_CHECK(of_outputs.size() <= outputs_.size(), kInvalidArgument, "there are gradients of ", of_outputs.size(),
            " outputs, and the program has ", outputs_.size());
  std::unordered_map<const Node*, Value> grads;
  gradients_.clear();
  const std::function<void(const Argument&, const Value&)> accumulate = [&](const Argument& argument, const Value& of) {
    if (of.is_none()) return;
    if (argument.is_list()) {
      const Value::List& list = *of.get_if<Value::List>();
      for (size_t i = 0; i < list.size(); ++i) accumulate(argument.list().at(i), list[i]);
    } else if (Node* input = argument.node(); input != nullptr && differentiable_.count(input)) {
      Value& sum = grads[input];
      sum = sum_of(sum, of);
    }
  };
  for (size_t i = 0; i < of_outputs.size(); ++i) {
    if (!of_outputs[i].defined()) continue;
    QDQ_CHECK(outputs_[i] != nullptr && differentiable_.count(outputs_[i]), kInvalidArgument, "the program's output ",
              i, " does not depend on its parameters");
    const Tensor& output = *values_.at(outputs_[i]).get_if<Tensor>();
    QDQ_CHECK(of_outputs[i].dtype() == DType::kF32 && of_outputs[i].sizes() == output.sizes(), kInvalidArgument,
              "the gradient of output ", i, " is ", to_string(of_outputs[i].dtype()), " ",
              to_string(of_outputs[i].sizes()), "; wanted float32 ", to_string(output.sizes()), ", as the output is");
    Value& sum = grads[outputs_[i]];
    sum = sum_of(sum, of_outputs[i]);
  }
  QDQ_CHECK(!grads.empty(), kInvalidArgument, "no output has a gradient, so there is nothing to learn from");
  is_recorded_ = false;
  for (size_t i = order_.size(); i-- > 0;) {
    const Node* node = order_[i];
    const auto found = grads.find(node);
    if (found != grads.end() && node->op() == Node::Op::kGetAttr) {
      add_gradient(node->target(), contiguous_f32(*found->second.get_if<Tensor>()));
    } else if (found != grads.end() && differentiable_.count(node)) {
      const Value of = std::move(found->second);
      try {
        const std::vector<Value> result = backward_of(*node, of);
        for (size_t a = 0; a < result.size() && a < node->args().size(); ++a) accumulate(node->args()[a], result[a]);
      } catch (const Error& error) {
        if (!error.node.empty()) throw;
        throw Error(error.code, concat(error.message, " (on the way back through ", node->name(), ")"), node->name(),
                    node->target());
      }
    }
    grads.erase(node);
    values_.erase(node);
    masks_.erase(node);
    learnt_.erase(node);
  }
  return std::move(gradients_);
}

void Tape::set_parameter(const std::string& name, const Tensor& value) {
  program_.find_attribute(name)->tensor = value;
}

}  // namespace qdq
