#include "exec/interpreter.h"

#include <algorithm>
#include <cstdint>
#include <list>
#include <map>
#include <utility>

#include "base/disk_blocks.h"
#include "base/memory.h"
#include "exec/footprint.h"
#include "op/control_flow.h"
#include "op/targets.h"

namespace qdq {
namespace {

// Which value slot a node writes, and which slots are read for the last time by it.
struct NodeStep {
  static constexpr size_t kNoSlot = SIZE_MAX;
  const Node* node = nullptr;
  Node::Op kind = Node::Op::kCallFunction;  // of the node, which lies elsewhere in memory
  const OpDef* op = nullptr;
  size_t arguments = 0;  // of the operator
  std::unique_ptr<CompiledOp> compiled;
  std::vector<size_t> last_uses;
  std::vector<size_t> from;   // the slots of the arguments that are nodes; kNoSlot for the others
  std::vector<Value> given;   // the arguments that hold no node; None for the others
  std::vector<size_t> lists;  // the arguments that hold nodes in a list
  std::vector<bool> takes;    // the arguments whose only use is this one from here on: they are handed over, not shared
  std::optional<size_t> item;  // of a call that takes this element of a list
  size_t attribute = 0;        // of a get_attr: where among the program's attributes it was found last
  // How many of the steps behind may run as its tail: each reads the value of the one before, which nobody else reads.
  size_t tail = 0;
};

class Resolver {
 public:
  Resolver(const std::unordered_map<const Node*, size_t>& slots, const std::vector<Value>& values)
      : slots_(slots), values_(values) {}

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

void flatten_output(const Value& value, std::vector<Tensor>& out) {
  if (const Tensor* tensor = value.get_if<Tensor>()) out.push_back(*tensor);
  else if (const Value::List* list = value.get_if<Value::List>())
    for (const Value& element : *list) flatten_output(as_output(element), out);
}

// Holds an input against what the program says of it. `symbols` collects the value of each symbolic size met so far.
void check_input(const Node& placeholder, const Value& value, const Program& program,
                 std::map<std::string, int64_t>& symbols) {
  const std::string& name = placeholder.name();
  const TensorMeta* meta = placeholder.meta.val.tensor();
  const std::string& kind = placeholder.meta.extra_of(kInputKind);
  if (!kind.empty()) {
    const bool fits =
        value.is_none() ? kind.starts_with(kOptional) : value.is<Value::List>() == kind.ends_with(kSequence);
    QDQ_CHECK(fits, kInvalidArgument, "input '", name, "' is ",
              value.is_none()     ? "None"
              : value.is_tensor() ? "one tensor"
                                  : "a list of tensors",
              ", the program needs an ONNX ", kind,
              "; sequences are lists of tensors and optionals may be None, which C++ gives by run_values, and neither "
              "the command line nor JavaScript can");
    return;
  }
  // Of a program within a program nothing may be known.
  if (meta == nullptr && !value.is_tensor()) return;
  const Tensor* given = value.get_if<Tensor>();
  QDQ_CHECK(given != nullptr && given->defined(), kInvalidArgument, "input '", name, "' has no value");
  const Tensor& input = *given;
  if (meta == nullptr) return;
  const auto wanted = [&] { return concat(to_string(meta->dtype), " ", to_string(meta->sizes)); };
  const auto found = [&] { return concat(to_string(input.dtype()), " ", to_string(input.sizes())); };
  QDQ_CHECK(input.dtype() == meta->dtype && input.sizes().size() == meta->sizes.size(), kInvalidArgument, "input '",
            name, "' is ", found(), ", the program needs ", wanted());
  for (size_t i = 0; i < meta->sizes.size(); ++i) {
    const int64_t size = input.sizes()[i];
    if (const std::optional<int64_t> constant = meta->sizes[i].constant()) {
      QDQ_CHECK(size == *constant, kInvalidArgument, "input '", name, "' is ", found(), ", the program needs ",
                wanted(), ": dimension ", i, " must be ", *constant);
      continue;
    }
    const std::string symbol = meta->sizes[i].to_string();
    const auto [at, is_new] = symbols.emplace(symbol, size);
    QDQ_CHECK(is_new || at->second == size, kInvalidArgument, "input '", name, "' is ", found(), ", the program needs ",
              wanted(), ": dimension ", i, " (", symbol, ") is ", at->second, " in an earlier input");
    const auto range = program.symbol_ranges.find(symbol);
    if (range == program.symbol_ranges.end()) continue;
    QDQ_CHECK((!range->second.min || size >= *range->second.min) && (!range->second.max || size <= *range->second.max),
              kInvalidArgument, "input '", name, "' is ", found(), ": dimension ", i, " (", symbol, ") must be ",
              range->second.min ? concat("at least ", *range->second.min) : "",
              range->second.min && range->second.max ? " and " : "",
              range->second.max ? concat("at most ", *range->second.max) : "");
  }
}

// Calls body, and says of its errors that they happened in the node.
template <class Body> auto in_node(const Node& node, Body&& body) {
  try {
    return body();
  } catch (Error& error) {
    if (!error.node.empty()) throw;
    throw Error(error.code, error.message + where(node), node.name(), node.target());
  }
}

}  // namespace

Value CompiledOp::run(const Call<Tensor>& call, Tail& tail) {
  Value out = run(call);
  const Tensor* result = out.get_if<Tensor>();
  if (result != nullptr && result->defined() && tail.begin(*result, result->storage().use_count() == 1)) tail.run();
  return out;
}

Value CompiledOp::run_reference(const Call<Tensor>& call, std::string_view reason) {
  ++fallbacks_.runs;
  fallbacks_.reason = reason;
  return call.op().eval(call);
}

Tail::Loop CompiledOp::loop_over(const Call<Tensor>&, const Tensor&) const { return {}; }

struct Interpreter::Impl {
  const Program* program = nullptr;
  std::vector<NodeStep> steps;
  std::unordered_map<const Node*, size_t> slots;
  std::vector<const Node*> placeholders;
  std::vector<OpPlacement> placements;
  ModuleHandler module_handler;
  NodeTest wants_range;
  NodeHook node_hook;
  std::optional<std::map<std::string, int64_t>> fitting;  // the symbols that a run has been found to fit with

  void compile(const std::vector<OpBackend*>& backends);
  void find_last_uses();
  bool may_follow(size_t i) const;

  // A run: the values so far, and the range of the newest one if it is known.
  struct Run {
    std::vector<Value> values, outputs;
    size_t next = 0;        // the step that comes next
    size_t next_input = 0;  // of `inputs`
    std::vector<Value> inputs;
    bool in_tails = true;  // whether steps may run as the tail of others
    const Node* ranged = nullptr;
    kernel::MinMax range{};
  };
  Run begin(std::span<const Value> inputs);
  // Runs the next step and the steps that are its tail, and frees what nobody reads any more.
  void advance(Run& run);
  const Tensor& attribute_of(NodeStep& step);
  // Runs step i and the steps behind that are its tail; returns the last one of them.
  size_t evaluate(size_t i, Run& run);
  Value answer(const Node& node, std::span<const Value> args, const Run& run) const;
  Call<Tensor> call_of(const NodeStep& step, std::vector<Value> args, const Resolver& resolve) const;
  // Calls live while the tail does; a list of none asks for no memory.
  Tail::Work find_tail(size_t i, const Tensor& result, const Run& run, std::list<Call<Tensor>>& calls) const;
};

Interpreter::Interpreter(const Program& program, std::vector<OpBackend*> backends) : impl_(std::make_unique<Impl>()) {
  check_ops(*program.graph);
  impl_->program = &program;
  impl_->compile(backends);
  impl_->find_last_uses();
}

Interpreter::~Interpreter() = default;
Interpreter::Interpreter(Interpreter&&) noexcept = default;
Interpreter& Interpreter::operator=(Interpreter&&) noexcept = default;

void Interpreter::set_module_handler(ModuleHandler handler, NodeTest wants_range) {
  impl_->module_handler = std::move(handler);
  impl_->wants_range = std::move(wants_range);
}
void Interpreter::set_node_hook(NodeHook hook) { impl_->node_hook = std::move(hook); }
const std::vector<Interpreter::OpPlacement>& Interpreter::placements() const {
  for (OpPlacement& placement : impl_->placements) {
    const NodeStep& step = impl_->steps[impl_->slots.at(placement.node)];
    if (step.compiled) placement.fallbacks = step.compiled->fallbacks();
  }
  return impl_->placements;
}

void Interpreter::Impl::compile(const std::vector<OpBackend*>& backends) {
  const std::unique_ptr<OpBackend> control_flow =
      make_control_flow_ops("interpreter", [backends](const Program& inner) -> ProgramRunner {
        const auto interpreter = std::make_shared<Interpreter>(inner, backends);
        return [interpreter](std::span<const Value> inputs) { return interpreter->run_values(inputs); };
      });
  const WrittenAttributes written = written_attributes(*program);
  for (const Node* node : program->graph->nodes()) {
    slots.emplace(node, steps.size());
    NodeStep step;
    step.node = node;
    step.kind = node->op();
    if (node->op() == Node::Op::kPlaceholder) placeholders.push_back(node);
    if (node->op() == Node::Op::kCallFunction) {
      step.op = find_op(node->target());
      step.arguments = step.op->schema->arguments.size();
      if (node->is(op::kGetItem) && node->args().size() == 2 && node->arg(1).integer().value_or(-1) >= 0)
        step.item = static_cast<size_t>(*node->arg(1).integer());
      OpPlacement placement{node, "reference"};
      for (OpBackend* backend : backends) {
        auto outcome = backend->compile(*node, written);
        if (auto* compiled = std::get_if<std::unique_ptr<CompiledOp>>(&outcome)) {
          step.compiled = std::move(*compiled);
          placement.backend = backend->name();
          break;
        }
        std::string& reason = std::get<std::string>(outcome);
        if (!reason.empty()) placement.refusals.emplace_back(backend->name(), std::move(reason));
      }
      if (!step.compiled && step.op->family == Family::kControlFlow) {
        step.compiled = std::move(std::get<0>(control_flow->compile(*node, written)));
        placement.backend = control_flow->name();
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
  for (size_t i = steps.size(); i-- > 1;)
    if (may_follow(i)) steps[i - 1].tail = 1 + steps[i].tail;
  const std::vector<Value> none;
  const Resolver resolve(slots, none);
  for (size_t i = 0; i < steps.size(); ++i) {
    std::unordered_map<const Node*, int> times;
    const auto count = [&](const Node* node) { ++times[node]; };
    for (const Argument& argument : steps[i].node->args()) argument.for_each_node(count);
    for (const auto& [key, argument] : steps[i].node->kwargs()) argument.for_each_node(count);
    for (const Argument& argument : steps[i].node->args()) {
      const Node* node = argument.node();
      steps[i].from.push_back(node == nullptr ? NodeStep::kNoSlot : slots.at(node));
      steps[i].takes.push_back(node != nullptr && last[steps[i].from.back()] == i && times.at(node) == 1);
      bool has_nodes = false;
      argument.for_each_node([&](const Node*) { has_nodes = true; });
      if (has_nodes && node == nullptr) steps[i].lists.push_back(steps[i].given.size());
      steps[i].given.push_back(has_nodes ? Value() : resolve(argument));
    }
  }
}

// Whether step i may run over the result of the step before it: nothing else reads that one, then or later.
bool Interpreter::Impl::may_follow(size_t i) const {
  const Node *head = steps[i - 1].node, *node = steps[i].node;
  if (node->op() != Node::Op::kCallFunction || !steps[i].compiled || !steps[i].compiled->may_be_tail() ||
      head->users().size() != 1 || head->users()[0] != node)
    return false;
  const std::vector<size_t>& dying = steps[i].last_uses;
  if (std::find(dying.begin(), dying.end(), i - 1) == dying.end()) return false;
  int times = 0;
  const auto count = [&](const Node* input) { times += input == head; };
  for (const Argument& argument : node->args()) argument.for_each_node(count);
  for (const auto& [key, argument] : node->kwargs()) argument.for_each_node(count);
  return times == 1;
}

Value Interpreter::Impl::answer(const Node& node, std::span<const Value> args, const Run& run) const {
  QDQ_CHECK(module_handler != nullptr, kInternal, "the graph calls the module ", node.target(),
            ", and nobody answers for modules");
  const bool knows_range = !node.args().empty() && run.ranged != nullptr && node.arg(0).node() == run.ranged;
  return module_handler(node, args, knows_range ? &run.range : nullptr);
}

Call<Tensor> Interpreter::Impl::call_of(const NodeStep& step, std::vector<Value> args, const Resolver& resolve) const {
  std::vector<std::pair<std::string, Value>> kwargs;
  for (const auto& [key, value] : step.node->kwargs()) kwargs.emplace_back(key, resolve(value));
  return Call<Tensor>(*step.op, std::move(args), std::move(kwargs));
}

// What the steps behind step i do to its result, as far as their operators can; the calls, which live while the tail
// does.
Tail::Work Interpreter::Impl::find_tail(size_t i, const Tensor& result, const Run& run,
                                        std::list<Call<Tensor>>& calls) const {
  const Resolver resolve(slots, run.values);
  Tail::Work work;
  for (const size_t end = i + steps[i].tail; i < end; ++i) {
    const NodeStep& step = steps[i + 1];
    Tail::Loop loop = in_node(*step.node, [&] {
      std::vector<Value> args;
      for (const Argument& argument : step.node->args())
        args.push_back(argument.node() == steps[i].node ? Value(result) : resolve(argument));
      return step.compiled->loop_over(calls.emplace_back(call_of(step, std::move(args), resolve)), result);
    });
    if (!loop) return work;
    work.loops.push_back(std::move(loop));
  }
  const Node* next = i + 1 < steps.size() ? steps[i + 1].node : nullptr;
  work.wants_range = wants_range && next != nullptr && next->op() == Node::Op::kCallModule && !next->args().empty() &&
                     next->arg(0).node() == steps[i].node && wants_range(*next);
  return work;
}

namespace {
// Takes weights that lie on disk out of memory, layer by layer.
void release_operands(const Call<Tensor>& call) {
  if (!has_disk_blocks()) return;
  for (size_t i = 0; i < call.size(); ++i)
    if (const Tensor* tensor = call[i].get_if<Tensor>(); tensor != nullptr && tensor->defined())
      release_pages({tensor->storage()->data(), tensor->storage()->size()});
}
}  // namespace

size_t Interpreter::Impl::evaluate(size_t i, Run& run) {
  NodeStep& step = steps[i];
  const Node& node = *step.node;
  std::vector<Value>& values = run.values;
  if (step.item && step.from[0] != NodeStep::kNoSlot) {
    const Value::List* list = values[step.from[0]].get_if<Value::List>();
    if (list != nullptr && *step.item < list->size()) {
      Value item = (*list)[*step.item];
      values[i] = std::move(item);
      return i;
    }
  }
  const Resolver resolve(slots, values);
  std::vector<Value> args;
  args.reserve(std::max(step.arguments, step.given.size()));
  args.insert(args.end(), step.given.begin(), step.given.end());
  for (const size_t a : step.lists) args[a] = resolve(node.arg(a));
  for (size_t a = 0; a < step.from.size(); ++a) {
    const size_t slot = step.from[a];
    if (slot == NodeStep::kNoSlot) continue;
    if (step.takes[a]) args[a] = std::exchange(values[slot], {});
    else args[a] = values[slot];
  }
  if (step.kind == Node::Op::kCallModule) {
    values[i] = answer(node, args, run);
    return i;
  }
  const Call<Tensor> call = call_of(step, std::move(args), resolve);
  run.ranged = nullptr;
  if (!step.compiled || node_hook || !run.in_tails) {
    values[i] = step.compiled ? step.compiled->run(call) : step.op->eval(call);
    release_operands(call);
    return i;
  }
  std::list<Call<Tensor>> calls;
  const auto find = [&](const Tensor& result) { return find_tail(i, result, run, calls); };
  Tail tail(std::cref(find));  // which needs no memory
  Value result = step.compiled->run(call, tail);
  const size_t last = i + tail.length();
  values[last] = std::move(result);
  release_operands(call);
  if (tail.range()) {
    run.ranged = steps[last].node;
    run.range = *tail.range();
  }
  return last;
}

std::vector<Tensor> flat_tensors(std::span<const Value> outputs) {
  std::vector<Tensor> out;
  for (const Value& value : outputs) flatten_output(value, out);
  return out;
}

std::vector<Tensor> Interpreter::run(std::span<const Tensor> inputs) {
  return flat_tensors(run_values(std::vector<Value>(inputs.begin(), inputs.end())));
}

Interpreter::Impl::Run Interpreter::Impl::begin(std::span<const Value> inputs) {
  QDQ_CHECK(inputs.size() == placeholders.size(), kInvalidArgument, "the program takes ", placeholders.size(), " input",
            placeholders.size() == 1 ? "" : "s", ", found ", inputs.size());
  std::map<std::string, int64_t> symbols;
  for (size_t i = 0; i < inputs.size(); ++i) check_input(*placeholders[i], inputs[i], *program, symbols);

  if (fitting != symbols) {
    check_memory(least_bytes_of_results(*program, symbols), "a run of the program");
    fitting = symbols;
  }
  Run run;
  run.values.resize(steps.size());
  run.inputs.assign(inputs.begin(), inputs.end());
  return run;
}

// The attributes may be others at every run, and are mostly the same.
const Tensor& Interpreter::Impl::attribute_of(NodeStep& step) {
  const Attributes& all = program->attributes;
  if (step.attribute >= all.size() || all[step.attribute].name != step.node->target())
    step.attribute = all.place_of(step.node->target());
  const bool is_there = step.attribute < all.size() && all[step.attribute].tensor.defined();
  return is_there ? all[step.attribute].tensor : program->attribute_of(*step.node);
}

void Interpreter::Impl::advance(Run& run) {
  const size_t first = run.next;
  size_t last = first;
  const Node& node = *steps[first].node;
  switch (steps[first].kind) {
    case Node::Op::kPlaceholder: run.values[first] = std::move(run.inputs[run.next_input++]); break;
    case Node::Op::kGetAttr: run.values[first] = attribute_of(steps[first]); break;
    case Node::Op::kOutput:
      for (const Argument& result : node.arg(0).list())
        run.outputs.push_back(as_output(Resolver(slots, run.values)(result)));
      break;
    default: last = in_node(node, [&] { return evaluate(first, run); });
  }
  if (node_hook) node_hook(node, run.values[last]);
  for (size_t done = first; done <= last; ++done)
    for (const size_t slot : steps[done].last_uses) run.values[slot] = {};
  run.next = last + 1;
}

std::vector<Value> Interpreter::run_values(std::span<const Value> inputs) {
  Impl& impl = *impl_;
  Impl::Run run = impl.begin(inputs);
  while (run.next < impl.steps.size()) impl.advance(run);
  for (const BufferMutation& mutation : impl.program->buffer_mutations) {
    const Node* node = impl.program->graph->find(mutation.node);
    const Attribute* buffer = impl.program->find_attribute(mutation.buffer);
    QDQ_CHECK(node != nullptr && buffer != nullptr, kInternal, "the mutation of buffer '", mutation.buffer,
              "' names nothing");
    if (const Tensor* value = run.values[impl.slots.at(node)].get_if<Tensor>()) buffer->tensor.copy_from(*value);
  }
  return std::move(run.outputs);
}

struct Interpreter::Walk::Impl {
  Interpreter::Impl* interpreter;
  Interpreter::Impl::Run run;
};

Interpreter::Walk::Walk(Interpreter& interpreter, std::span<const Tensor> inputs)
    : impl_(std::make_unique<Impl>(
          Impl{interpreter.impl_.get(), interpreter.impl_->begin(std::vector<Value>(inputs.begin(), inputs.end()))})) {
  impl_->run.in_tails = false;
}
Interpreter::Walk::Walk(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Interpreter::Walk Interpreter::Walk::clone() const {
  auto copy = std::make_unique<Impl>(*impl_);
  const std::vector<NodeStep>& steps = copy->interpreter->steps;
  // Operators in place may write to all but the program's own tensors, whose packed forms are known by their bytes.
  for (size_t i = 0; i < copy->run.next; ++i)
    if (const Tensor* value = copy->run.values[i].get_if<Tensor>();
        value != nullptr && value->defined() && steps[i].node->op() != Node::Op::kGetAttr)
      copy->run.values[i] = value->clone();
  return Walk(std::move(copy));
}

Interpreter::Walk::~Walk() = default;
Interpreter::Walk::Walk(Walk&&) noexcept = default;
Interpreter::Walk& Interpreter::Walk::operator=(Walk&&) noexcept = default;

const Node* Interpreter::Walk::next() const {
  const std::vector<NodeStep>& steps = impl_->interpreter->steps;
  return impl_->run.next < steps.size() ? steps[impl_->run.next].node : nullptr;
}
void Interpreter::Walk::advance() {
  QDQ_CHECK(next() != nullptr, kInternal, "a run has ended and was to go on");
  impl_->interpreter->advance(impl_->run);
}
const Value& Interpreter::Walk::value(const Node& node) const {
  return impl_->run.values[impl_->interpreter->slots.at(&node)];
}
void Interpreter::Walk::set_value(const Node& node, Value value) {
  impl_->run.values[impl_->interpreter->slots.at(&node)] = std::move(value);
}
Value Interpreter::Walk::result_with(std::vector<std::pair<const Node*, Value>> others) {
  Interpreter::Impl& interpreter = *impl_->interpreter;
  const NodeStep& step = interpreter.steps[impl_->run.next];
  QDQ_CHECK(step.op != nullptr, kInternal, step.node->name(), " calls no operator");
  const auto exchange = [&] {
    for (auto& [input, value] : others) std::swap(impl_->run.values[interpreter.slots.at(input)], value);
  };
  exchange();
  const Resolver resolve(interpreter.slots, impl_->run.values);
  std::vector<Value> args;
  for (const Argument& argument : step.node->args()) args.push_back(resolve(argument));
  const Call<Tensor> call = interpreter.call_of(step, std::move(args), resolve);
  exchange();
  return in_node(*step.node, [&] { return step.compiled ? step.compiled->run(call) : step.op->eval(call); });
}
std::vector<Tensor> Interpreter::Walk::outputs() const { return flat_tensors(impl_->run.outputs); }

}  // namespace qdq
