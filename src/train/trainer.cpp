// The tape: what a forward pass leaves behind, and the walk back over it.
#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "exec/interpreter.h"
#include "quant/observers/fake_quantize.h"
#include "quant/trainee.h"
#include "train/backward.h"
#include "train/functional.h"

namespace qdq {
namespace {

// Parameters that share their bytes are one.
struct Parameter {
  std::vector<std::string> names;
  Tensor momentum, square;  // of the optimizer
};

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

}  // namespace

struct Trainer::Impl {
  Trainee prepared;
  TrainingOptions options;
  std::vector<Parameter> parameters;
  std::map<std::string, Tensor> gradients;
  int64_t steps = 0;
  double beta1_power = 1, beta2_power = 1;  // of Adam's betas, to the number of steps

  // The prepared program in functional form, of the revision that the mode has.
  Program program;
  int64_t revision = -1;
  std::unique_ptr<Interpreter> interpreter;
  std::vector<const Node*> order;                  // of execution
  std::unordered_set<const Node*> differentiable;  // nodes through which gradients flow
  std::unordered_set<const Node*> saved;           // whose values the way back reads

  // What one forward pass left.
  std::unordered_map<const Node*, Value> values;
  std::unordered_map<const Node*, Tensor> masks;  // of fake quantizers that rounded

  explicit Impl(Prepared& of) : prepared(of) {}
  void find_parameters();
  std::unordered_set<std::string> trained() const;  // the names of all parameters
  void compile();
  void find_flow();
  Value observe(const Node& node, std::span<const Value> args);
  void keep(const Node& node, const Value& value);
  void backward(const Node* output, Tensor grad);
  std::vector<Value> backward_of(const Node& node, const Value& grad);
  void update();
};

void Trainer::Impl::find_parameters() {
  std::map<std::pair<const Storage*, int64_t>, size_t> seen;
  for (const Attribute& attribute : prepared.program().attributes) {
    if (attribute.kind != Attribute::Kind::kParameter || !attribute.requires_grad ||
        attribute.tensor.dtype() != DType::kF32)
      continue;
    const auto [at, is_new] =
        seen.emplace(std::pair(attribute.tensor.storage().get(), attribute.tensor.storage_offset()), parameters.size());
    if (is_new) parameters.emplace_back();
    parameters[at->second].names.push_back(attribute.name);
  }
  QDQ_CHECK(!parameters.empty(), kInvalidArgument,
            "the program has no float32 parameter that requires a gradient, so there is nothing to train: export the "
            "model with "
            "requires_grad on what is to learn");
}

std::unordered_set<std::string> Trainer::Impl::trained() const {
  std::unordered_set<std::string> names;
  for (const Parameter& parameter : parameters) names.insert(parameter.names.begin(), parameter.names.end());
  return names;
}

void Trainer::Impl::compile() {
  interpreter.reset();
  program = prepared.program().clone();
  make_functional(program, trained());
  order.clear();
  for (const Node* node : program.graph->nodes()) order.push_back(node);
  find_flow();
  interpreter = std::make_unique<Interpreter>(program, prepared.backends());
  interpreter->set_module_handler(
      [this](const Node& node, std::span<const Value> args, const kernel::MinMax*) { return observe(node, args); });
  interpreter->set_node_hook([this](const Node& node, const Value& value) { keep(node, value); });
  revision = prepared.revision();
}

// Which nodes gradients flow through, and what of them is kept. Throws for all operators without a gradient at once.
void Trainer::Impl::find_flow() {
  const std::unordered_set<std::string> names = trained();
  differentiable.clear();
  saved.clear();
  std::map<std::string, std::string> missing;  // operator -> nodes
  for (const Node* node : order) {
    if (node->op() == Node::Op::kGetAttr && names.count(node->target())) differentiable.insert(node);
    const std::vector<Node*> inputs = node->input_nodes();
    if (std::none_of(inputs.begin(), inputs.end(), [&](const Node* input) { return differentiable.count(input) > 0; }))
      continue;
    if (node->op() == Node::Op::kCallModule || node->is("operator.getitem")) differentiable.insert(node);
    if (node->op() != Node::Op::kCallFunction || node->is("operator.getitem")) continue;
    const TensorMeta* meta = node->meta.val.tensor();
    if (meta != nullptr && !is_floating(meta->dtype)) continue;
    const BackwardDef* def = find_backward(node->target());
    if (def == nullptr) {
      std::string& users = missing[node->target()];
      users += (users.empty() ? "" : ", ") + node->name();
      differentiable.insert(node);  // so that what follows is looked at too
      continue;
    }
    if (def->backward == nullptr) continue;
    differentiable.insert(node);
    if (def->saves_result) saved.insert(node);
    if (def->saves_inputs) saved.insert(inputs.begin(), inputs.end());
  }
  if (missing.empty()) return;
  std::string list;
  for (const auto& [target, users] : missing) list += concat(list.empty() ? "" : "; ", target, " (", users, ")");
  fail(ErrorCode::kUnsupported, "training has no gradient for these operators: ", list);
}

Value Trainer::Impl::observe(const Node& node, std::span<const Value> args) {
  const Tensor& x = *args[0].get_if<Tensor>();
  Tensor mask;
  Tensor out = prepared.observer(node).forward_with_mask(x, differentiable.count(&node) ? &mask : nullptr);
  if (mask.defined()) masks[&node] = mask;
  return out;
}

void Trainer::Impl::keep(const Node& node, const Value& value) {
  if (saved.count(&node)) values[&node] = value;
  else if (node.op() != Node::Op::kOutput) values[&node] = shape_of(value);
}

// The gradients of the node's arguments by position among them, keyword arguments behind.
std::vector<Value> Trainer::Impl::backward_of(const Node& node, const Value& grad) {
  if (node.op() == Node::Op::kCallModule) {
    const auto mask = masks.find(&node);
    return {mask == masks.end() ? grad : masked(*grad.get_if<Tensor>(), mask->second)};
  }
  if (node.is("operator.getitem")) {
    Value::List out(values.at(node.arg(0).node()).get_if<Value::List>()->size());
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
    if (Node* input = argument.node()) return values.at(input);
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
  std::vector<bool> wanted(op.schema.arguments.size());
  const auto wants = [&](size_t i, const Argument& argument) {
    argument.for_each_node([&](Node* input) { wanted[i] = wanted[i] || differentiable.count(input) > 0; });
  };
  for (size_t i = 0; i < node.args().size(); ++i) {
    args.push_back(resolve(node.args()[i]));
    wants(i, node.args()[i]);
  }
  for (const auto& [name, argument] : node.kwargs()) {
    kwargs.emplace_back(name, resolve(argument));
    if (const auto i = op.schema.index_of(name)) wants(*i, argument);
  }
  const Call<Tensor> call(op, std::move(args), std::move(kwargs));
  return find_backward(node.target())->backward({call, values.at(&node), grad, wanted});
}

void Trainer::Impl::backward(const Node* output, Tensor grad) {
  std::unordered_map<const Node*, Value> grads;
  grads.emplace(output, std::move(grad));
  gradients.clear();
  const std::function<void(const Argument&, const Value&)> accumulate = [&](const Argument& argument, const Value& of) {
    if (of.is_none()) return;
    if (argument.is_list()) {
      const Value::List& list = *of.get_if<Value::List>();
      for (size_t i = 0; i < list.size(); ++i) accumulate(argument.list().at(i), list[i]);
    } else if (Node* input = argument.node(); input != nullptr && differentiable.count(input)) {
      Value& sum = grads[input];
      sum = sum_of(sum, of);
    }
  };
  for (size_t i = order.size(); i-- > 0;) {
    const Node* node = order[i];
    const auto found = grads.find(node);
    if (found != grads.end() && node->op() == Node::Op::kGetAttr) {
      const auto name = std::find_if(parameters.begin(), parameters.end(), [&](const Parameter& p) {
        return std::find(p.names.begin(), p.names.end(), node->target()) != p.names.end();
      });
      Tensor& sum = gradients[name->names[0]];
      const Tensor one = contiguous_f32(*found->second.get_if<Tensor>());
      sum = sum.defined() ? add_tensors(sum, one) : one;
    } else if (found != grads.end() && differentiable.count(node)) {
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
    values.erase(node);
    masks.erase(node);
  }
}

void Trainer::Impl::update() {
  ++steps;
  const auto lr = static_cast<float>(options.lr), momentum = static_cast<float>(options.momentum),
             decay = static_cast<float>(options.weight_decay);
  constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kAdamEps = 1e-8;
  beta1_power *= kBeta1;
  beta2_power *= kBeta2;
  const double rate = options.lr / (1 - beta1_power), norm = std::sqrt(1 - beta2_power);
  for (Parameter& parameter : parameters) {
    const auto found = gradients.find(parameter.names[0]);
    if (found == gradients.end()) continue;
    const Tensor old = prepared.program().find_attribute(parameter.names[0])->tensor.contiguous(), grad = found->second;
    // New bytes each time: whoever holds the old ones, a cache of packed weights or the caller's own program, keeps
    // them.
    const Tensor now = Tensor::empty(old.sizes(), DType::kF32);
    const bool first = !parameter.momentum.defined();
    if (first) parameter.momentum = Tensor::empty(old.sizes(), DType::kF32);
    if (first && options.optimizer == Optimizer::kAdam) parameter.square = Tensor::empty(old.sizes(), DType::kF32);
    const float *p = old.data<float>(), *gradient = grad.data<float>();
    float *to = now.data<float>(), *m = parameter.momentum.data<float>();
    float* squares = parameter.square.defined() ? parameter.square.data<float>() : nullptr;
    for (int64_t i = 0; i < old.numel(); ++i) {
      const float g = decay != 0 ? gradient[i] + decay * p[i] : gradient[i];
      if (options.optimizer == Optimizer::kAdam) {
        float& v = squares[i];
        m[i] = m[i] + static_cast<float>(1 - kBeta1) * (g - m[i]);
        v = v * static_cast<float>(kBeta2) + static_cast<float>(1 - kBeta2) * g * g;
        const float root = std::sqrt(v) / static_cast<float>(norm) + static_cast<float>(kAdamEps);
        to[i] = p[i] - static_cast<float>(rate) * (m[i] / root);
      } else {
        m[i] = momentum != 0 && !first ? momentum * m[i] + g : g;
        to[i] = p[i] - lr * m[i];
      }
    }
    for (const std::string& name : parameter.names) {
      const Tensor& like = prepared.program().find_attribute(name)->tensor;
      const Tensor value = like.sizes() == now.sizes() ? now : now.reshape(like.sizes());
      prepared.set_parameter(name, value);
      program.find_attribute(name)->tensor = value;
    }
  }
}

Trainer::Trainer(Prepared& prepared, const TrainingOptions& options) : impl_(std::make_unique<Impl>(prepared)) {
  impl_->options = options;
  set_lr(options.lr);
  QDQ_CHECK(options.momentum >= 0 && std::isfinite(options.momentum) && options.weight_decay >= 0 &&
                std::isfinite(options.weight_decay),
            kInvalidArgument, "momentum is ", options.momentum, " and weight decay ", options.weight_decay,
            "; neither may be negative");
  impl_->find_parameters();
  impl_->compile();
}

Trainer::~Trainer() = default;
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;

double Trainer::step(const std::vector<Tensor>& inputs, const Tensor& target) {
  Impl& impl = *impl_;
  if (impl.revision != impl.prepared.revision()) impl.compile();
  impl.values.clear();
  impl.masks.clear();
  const std::vector<Tensor> outputs = impl.interpreter->run(inputs);
  QDQ_CHECK(!outputs.empty(), kInvalidArgument, "the program has no output to train on");
  const Argument& first = impl.program.graph->output_node()->arg(0);
  const Node* output = first.is_list() ? first.list().at(0).node() : first.node();
  QDQ_CHECK(output != nullptr && impl.differentiable.count(output), kInvalidArgument,
            "the program's first output does not depend on its parameters");
  LossAndGrad loss = loss_and_grad(impl.options.loss, outputs[0], target);
  QDQ_CHECK(std::isfinite(loss.loss), kInvalidArgument, "the loss is ", loss.loss, " after ", impl.steps,
            " steps; a smaller learning rate, or data without infinite or huge numbers, may help");
  impl.backward(output, std::move(loss.grad));
  impl.update();
  return loss.loss;
}

void Trainer::set_lr(double lr) {
  QDQ_CHECK(lr >= 0 && std::isfinite(lr), kInvalidArgument, "the learning rate is ", lr,
            "; it must be a number that is not negative");
  impl_->options.lr = lr;
}

const std::map<std::string, Tensor>& Trainer::gradients() const { return impl_->gradients; }

std::vector<std::string> Trainer::parameters() const {
  std::vector<std::string> out;
  for (const Parameter& parameter : impl_->parameters) out.push_back(parameter.names[0]);
  return out;
}

}  // namespace qdq
