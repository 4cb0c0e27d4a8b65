#include "exec/interpreter.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/memory.h"
#include "exec/footprint.h"

namespace qdq {
namespace {

// Which value slot a node writes, and which slots are read for the last time by it.
struct Step {
  const Node* node = nullptr;
  const OpDef* op = nullptr;
  std::unique_ptr<CompiledOp> compiled;
  std::vector<size_t> last_uses;
  std::vector<bool> takes;  // the arguments whose only use is this one from here on: they are handed over, not shared
};

class Resolver {
 public:
  Resolver(const std::unordered_map<const Node*, size_t>& slots, const std::vector<Value>& values) : slots_(slots), values_(values) {}

  Value operator()(const Argument& argument) const { return std::visit(*this, argument.variant()); }
  Value operator()(std::monostate) const { return {}; }
  Value operator()(Node* node) const { return values_[slots_.at(node)]; }
  Value operator()(const Argument::List& list) const {
    Value::List out;
    out.reserve(list.size());
    for (const Argument& element : list) out.push_back((*this)(element));
    return out;
  }
  template <class T> Value operator()(const T& constant) const { return constant; }

 private:
  const std::unordered_map<const Node*, size_t>& slots_;
  const std::vector<Value>& values_;
};

std::string where(const Node& node) { return concat(" (in node ", node.name(), ", ", node.target(), ")"); }

// User outputs in order: tensors as they are, numbers as one-element tensors, None left out.
void flatten_outputs(const Value& value, std::vector<Tensor>& out) {
  if (const Tensor* tensor = value.get_if<Tensor>()) {
    out.push_back(*tensor);
  } else if (const int64_t* integer = value.get_if<int64_t>()) {
    out.push_back(Tensor::scalar(*integer));
  } else if (const double* number = value.get_if<double>()) {
    out.push_back(Tensor::scalar(*number));
  } else if (const bool* boolean = value.get_if<bool>()) {
    out.push_back(Tensor::scalar(*boolean));
  } else if (const Value::List* list = value.get_if<Value::List>()) {
    for (const Value& element : *list) flatten_outputs(element, out);
  }
}

// Holds an input against what the program says of it. `symbols` collects the value of each symbolic size met so far.
void check_input(const Node& placeholder, const Tensor& input, const Program& program, std::map<std::string, int64_t>& symbols) {
  const std::string& name = placeholder.name();
  QDQ_CHECK(input.defined(), kInvalidArgument, "input '", name, "' has no value");
  const TensorMeta* meta = placeholder.meta.val.tensor();
  if (meta == nullptr) return;
  const auto wanted = [&] { return concat(to_string(meta->dtype), " ", to_string(meta->sizes)); };
  const auto found = [&] { return concat(to_string(input.dtype()), " ", to_string(input.sizes())); };
  QDQ_CHECK(input.dtype() == meta->dtype && input.sizes().size() == meta->sizes.size(), kInvalidArgument, "input '", name, "' is ", found(),
            ", the program wants ", wanted());
  for (size_t i = 0; i < meta->sizes.size(); ++i) {
    const int64_t size = input.sizes()[i];
    if (const std::optional<int64_t> constant = meta->sizes[i].constant()) {
      QDQ_CHECK(size == *constant, kInvalidArgument, "input '", name, "' is ", found(), ", the program wants ", wanted(), ": dimension ", i,
                " must be ", *constant);
      continue;
    }
    const std::string symbol = meta->sizes[i].to_string();
    const auto [at, is_new] = symbols.emplace(symbol, size);
    QDQ_CHECK(is_new || at->second == size, kInvalidArgument, "input '", name, "' is ", found(), ", the program wants ", wanted(), ": dimension ", i,
              " (", symbol, ") is ", at->second, " in an earlier input");
    const auto range = program.symbol_ranges.find(symbol);
    if (range == program.symbol_ranges.end()) continue;
    QDQ_CHECK((!range->second.min || size >= *range->second.min) && (!range->second.max || size <= *range->second.max), kInvalidArgument, "input '",
              name, "' is ", found(), ": dimension ", i, " (", symbol, ") must be ", range->second.min ? concat("at least ", *range->second.min) : "",
              range->second.min && range->second.max ? " and " : "", range->second.max ? concat("at most ", *range->second.max) : "");
  }
}

}  // namespace

struct Interpreter::Impl {
  const Program* program = nullptr;
  std::vector<Step> steps;
  std::unordered_map<const Node*, size_t> slots;
  std::vector<const Node*> placeholders;
  std::vector<Placement> placements;
  ModuleHandler module_handler;
  NodeHook node_hook;
  std::optional<std::map<std::string, int64_t>> fitting;  // the symbols that a run has been found to fit with

  void compile(const std::vector<Backend*>& backends);
  void find_last_uses();
  Value evaluate(Step& step, std::vector<Value>& values);
};

Interpreter::Interpreter(const Program& program, std::vector<Backend*> backends) : impl_(std::make_unique<Impl>()) {
  check_ops(*program.graph);
  impl_->program = &program;
  impl_->compile(backends);
  impl_->find_last_uses();
}

Interpreter::~Interpreter() = default;
Interpreter::Interpreter(Interpreter&&) noexcept = default;
Interpreter& Interpreter::operator=(Interpreter&&) noexcept = default;

void Interpreter::set_module_handler(ModuleHandler handler) { impl_->module_handler = std::move(handler); }
void Interpreter::set_node_hook(NodeHook hook) { impl_->node_hook = std::move(hook); }
const std::vector<Interpreter::Placement>& Interpreter::placements() const { return impl_->placements; }

void Interpreter::Impl::compile(const std::vector<Backend*>& backends) {
  for (const Node* node : program->graph->nodes()) {
    slots.emplace(node, steps.size());
    Step step;
    step.node = node;
    if (node->op() == Node::Op::kPlaceholder) placeholders.push_back(node);
    if (node->op() == Node::Op::kCallFunction) {
      step.op = find_op(node->target());
      Placement placement{node, "reference", {}};
      for (Backend* backend : backends) {
        auto outcome = backend->compile(*node, *program);
        if (auto* compiled = std::get_if<std::unique_ptr<CompiledOp>>(&outcome)) {
          step.compiled = std::move(*compiled);
          placement.backend = backend->name();
          break;
        }
        placement.refusals.emplace_back(backend->name(), std::move(std::get<std::string>(outcome)));
      }
      placements.push_back(std::move(placement));
    }
    steps.push_back(std::move(step));
  }
}

void Interpreter::Impl::find_last_uses() {
  std::vector<size_t> last(steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    last[i] = i;
    for (const Node* input : steps[i].node->input_nodes()) last[slots.at(input)] = i;
  }
  for (const BufferMutation& mutation : program->buffer_mutations) {
    const Node* node = program->graph->find(mutation.node);
    if (node != nullptr) last[slots.at(node)] = steps.size();
  }
  for (size_t i = 0; i < steps.size(); ++i)
    if (last[i] < steps.size()) steps[last[i]].last_uses.push_back(i);
  for (size_t i = 0; i < steps.size(); ++i) {
    std::unordered_map<const Node*, int> times;
    const auto count = [&](const Node* node) { ++times[node]; };
    for (const Argument& argument : steps[i].node->args()) argument.for_each_node(count);
    for (const auto& [key, argument] : steps[i].node->kwargs()) argument.for_each_node(count);
    for (const Argument& argument : steps[i].node->args()) {
      const Node* node = argument.node();
      steps[i].takes.push_back(node != nullptr && last[slots.at(node)] == i && times.at(node) == 1);
    }
  }
}

Value Interpreter::Impl::evaluate(Step& step, std::vector<Value>& values) {
  const Node& node = *step.node;
  const Resolver resolve(slots, values);
  std::vector<Value> args;
  args.reserve(node.args().size());
  for (size_t i = 0; i < node.args().size(); ++i)
    args.push_back(step.takes[i] ? std::exchange(values[slots.at(node.arg(i).node())], {}) : resolve(node.arg(i)));
  if (node.op() == Node::Op::kCallModule) {
    QDQ_CHECK(module_handler != nullptr, kInternal, "the graph calls the module ", node.target(), ", and nobody answers for modules");
    return module_handler(node, args);
  }
  std::vector<std::pair<std::string, Value>> kwargs;
  for (const auto& [key, value] : node.kwargs()) kwargs.emplace_back(key, resolve(value));
  const Call<Tensor> call(*step.op, std::move(args), std::move(kwargs));
  return step.compiled ? step.compiled->run(call) : step.op->eval(call);
}

std::vector<Tensor> Interpreter::run(std::span<const Tensor> inputs) {
  Impl& impl = *impl_;
  QDQ_CHECK(inputs.size() == impl.placeholders.size(), kInvalidArgument, "the program takes ", impl.placeholders.size(), " input",
            impl.placeholders.size() == 1 ? "" : "s", ", found ", inputs.size());
  std::map<std::string, int64_t> symbols;
  for (size_t i = 0; i < inputs.size(); ++i) check_input(*impl.placeholders[i], inputs[i], *impl.program, symbols);

  if (impl.fitting != symbols) {
    check_memory(least_bytes_of_results(*impl.program, symbols), "a run of the program");
    impl.fitting = symbols;
  }

  std::vector<Value> values(impl.steps.size());
  std::vector<Tensor> outputs;
  size_t next_input = 0;
  for (size_t i = 0; i < impl.steps.size(); ++i) {
    Step& step = impl.steps[i];
    const Node& node = *step.node;
    switch (node.op()) {
      case Node::Op::kPlaceholder: values[i] = inputs[next_input++]; break;
      case Node::Op::kGetAttr: values[i] = impl.program->attribute_of(node); break;
      case Node::Op::kOutput: flatten_outputs(Resolver(impl.slots, values)(node.arg(0)), outputs); break;
      default: {
        try {
          values[i] = impl.evaluate(step, values);
        } catch (Error& error) {
          if (!error.node.empty()) throw;
          throw Error(error.code, error.message + where(node), node.name(), node.target());
        }
      }
    }
    if (impl.node_hook) impl.node_hook(node, values[i]);
    for (size_t slot : step.last_uses) values[slot] = {};
  }
  for (const BufferMutation& mutation : impl.program->buffer_mutations) {
    const Node* node = impl.program->graph->find(mutation.node);
    const Attribute* buffer = impl.program->find_attribute(mutation.buffer);
    QDQ_CHECK(node != nullptr && buffer != nullptr, kInternal, "the mutation of buffer '", mutation.buffer, "' names nothing");
    if (const Tensor* value = values[impl.slots.at(node)].get_if<Tensor>()) buffer->tensor.copy_from(*value);
  }
  return outputs;
}

}  // namespace qdq
