#include "lower/lower.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <list>
#include <map>

#include "base/undo.h"
#include "exec/interpreter.h"
#include "lower/bound_operands.h"
#include "lower/compiled_plan.h"
#include "lower/fold_constants.h"
#include "lower/fuse.h"
#include "lower/fuse_products.h"
#include "lower/known_sizes.h"
#include "lower/mixed_bf16.h"
#include "lower/mutable_buffers.h"
#include "lower/rewrite_for_steps.h"

namespace qdq {
namespace {

std::unique_ptr<OpBackend> make_op_backend(std::string_view name) {
  if (name == "onednn") return make_onednn_ops();
  if (name == "simd") return make_simd_ops();
  return nullptr;
}

}  // namespace

std::vector<std::string_view> backend_names() {
  std::vector<std::string_view> out;
  if (make_onednn_ops() != nullptr) out.push_back("onednn");
  out.push_back("simd");
  out.push_back("reference");
  return out;
}

bool int8_products_saturate() {
  const std::unique_ptr<StepBackend> steps = make_onednn_steps();
  return steps != nullptr && steps->int8_saturates();
}

namespace {

std::unique_ptr<StepBackend> make_step_backend(std::string_view name) {
  if (name == "onednn") return make_onednn_steps();
  if (name == "simd") return make_simd_steps();
  return nullptr;
}

using Symbols = std::map<std::string, int64_t>;

// A plan for one set of sizes.
struct Specialization {
  Symbols symbols;
  std::unique_ptr<CompiledPlan> plan;
};
// Sizes that change all the time must not fill the memory.
constexpr size_t kMaxSpecializations = 8, kMaxSized = 4;

// The first element that `is_wanted`, which becomes the first of the list; null if there is none.
template <class T, class Test> T* latest(std::list<T>& list, Test is_wanted) {
  const auto found = std::find_if(list.begin(), list.end(), is_wanted);
  if (found == list.end()) return nullptr;
  list.splice(list.begin(), list, found);
  return &list.front();
}

// A multiplication and an addition for every term of the sums.
double operations_of(const Plan& plan, const PlanStep& step) {
  if (const ProductWeights* weights = step.weights())
    return 2 * static_cast<double>(weights->depth()) * static_cast<double>(numel_of(plan.buffers[step.output].sizes));
  if (const auto* linear = std::get_if<PlanStep::GroupLinear>(&step.form))
    return 2 * static_cast<double>(linear->weights.depth) *
           static_cast<double>(numel_of(plan.buffers[step.output].sizes));
  if (step.kind() != PlanStep::Kind::kAttention) return 0;
  const Shape &q = plan.buffers[step.inputs[0]].sizes, &v = plan.buffers[step.inputs[2]].sizes;
  return 2 * static_cast<double>(q[0] * q[1] * q[2]) * static_cast<double>(v[2] * (q[3] + v[3]));
}

bool has_open_inputs(const Program& program) {
  const std::vector<Node*> placeholders = program.graph->placeholders();
  return std::any_of(placeholders.begin(), placeholders.end(), [](const Node* input) {
    const TensorMeta* meta = input->meta.val.tensor();
    return meta != nullptr &&
           std::any_of(meta->sizes.begin(), meta->sizes.end(), [](const SymInt& size) { return !size.is_constant(); });
  });
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

struct Session::Impl {
  Program program;
  std::vector<std::unique_ptr<OpBackend>> backends;
  std::vector<std::shared_ptr<StepBackend>> step_backends;
  Fusion fusion;
  Workspace workspace;
  std::vector<std::list<Specialization>> specializations;  // of each plan, the latest first
  std::list<Symbols> checked;                              // sizes of inputs, those of the run first
  std::unique_ptr<Interpreter> interpreter;
  std::vector<Node*> placeholders;                          // of the program
  std::optional<Program> unfused;                           // what was fused, if it has open sizes
  std::vector<std::pair<std::string, Tensor>> first_state;  // the buffers that runs write to, as the program has them
  LowerOptions options;
  // The program lowered again for the sizes of runs, the latest first, where more can be fused then; without a session
  // where that fails.
  struct Sized {
    Symbols symbols;
    std::unique_ptr<Session> session;
  };
  std::list<Sized> sized;
  bool gains_by_sizes = false;
  std::vector<std::string> warnings;
  std::vector<Timing>* timings = nullptr;
  size_t repeats = 0;  // of every step, for run_repeated(); 0: an ordinary run
  double last_time = 0;
  std::atomic<bool> is_running{false};

  // Marks the session as running while the result lives. Throws Error{kInvalidArgument} if it runs already: its
  // workspace is that of one run.
  [[nodiscard]] auto begin_run() {
    QDQ_CHECK(!is_running.exchange(true), kInvalidArgument,
              "the session is running; run() must return before another thread or an operator that it runs uses it: "
              "lower the program once for each");
    const auto end_run = [](Impl* impl) { impl->is_running = false; };
    return std::unique_ptr<Impl, decltype(end_run)>(this, end_run);
  }

  bool has_steps(PlanStep::Kind kind) const {
    return std::any_of(step_backends.begin(), step_backends.end(), [&](const auto& one) { return one->has(kind); });
  }

  void fuse(bool floats) {
    const bool is_dynamic = has_steps(PlanStep::Kind::kDynamicLinear);
    fusion = fuse_program(program, {.dynamic = is_dynamic, .floats = floats, .bf16 = options.bf16});
  }

  // Runs write to buffers of the session's own.
  void own_state() {
    for (const std::string& name : written_buffers(program)) {
      Attribute* buffer = program.find_attribute(name);
      if (buffer == nullptr || !buffer->tensor.defined()) continue;
      first_state.emplace_back(name, buffer->tensor);
      buffer->tensor = buffer->tensor.clone();
    }
  }

  // Steps believe the shapes that the graph tells, and a file may tell anything: they are found anew. A graph that does
  // not let them be found runs node by node, where every operator looks at its operands.
  bool knows_shapes() {
    try {
      infer_shapes(program);
      return true;
    } catch (const Error& error) {
      warnings.push_back(
          concat("no operators were fused, because a shape in the graph cannot be told: ", error.what()));
      return false;
    }
  }

  // Of a program whose inputs have one size.
  void take_known_sizes() {
    if (!gains_by_known_sizes(program)) return;
    try {
      program = with_known_sizes(program, {});
    } catch (const Error&) {  // a run tells what is wrong, if it comes there
    }
  }

  void check_bf16(const LowerOptions& options) {
    QDQ_CHECK(options.fuse, kInvalidArgument,
              "bf16 is computed by fused steps, it cannot go with a graph that is run node by node");
    QDQ_CHECK(!step_backends.empty(), kInvalidArgument,
              "bf16 is computed by fused steps, which the backends that are asked here do not have; wanted onednn or "
              "simd");
    QDQ_CHECK(knows_shapes(), kUnsupported,
              "bf16 is computed by fused steps, for which the program's sizes must be known; leave bf16 out");
  }
  void use_bf16(const StepBackend& first) {
    const std::string obstacle = first.bf16_obstacle();
    if (!obstacle.empty()) warnings.push_back(concat("bfloat16 was asked for, but ", obstacle));
    std::vector<std::vector<size_t>> moved;
    for (Plan& plan : fusion.plans) moved.push_back(keep_floats_in_bf16(plan));
    for (NodeFate& fate : fusion.fates)
      if (fate.plan >= 0 && fate.step < moved[static_cast<size_t>(fate.plan)].size())
        fate.step = moved[static_cast<size_t>(fate.plan)][fate.step];
  }
  Symbols symbols_at_export() const {
    Symbols symbols = program.symbol_hints;
    for (const Node* input : program.graph->placeholders())
      if (const TensorMeta* meta = input->meta.val.tensor())
        for (const SymInt& size : meta->sizes)
          if (!size.is_constant()) symbols.emplace(size.to_string(), 1);
    return symbols;
  }

  // Open sizes may turn out not to fit each other: x[s0, s1] * w[3, 3] says that s1 is 3, and no step looks again.
  // Throws what infer_shapes() says of the graph as it was before steps took nodes out of it.
  void check_sizes(const Symbols& symbols) const {
    Program sized = unfused->clone();
    for (Node* input : sized.graph->placeholders())
      if (TensorMeta* meta = std::get_if<TensorMeta>(&input->meta.val.value))
        for (SymInt& size : meta->sizes)
          if (const std::optional<int64_t> value = size.evaluate(symbols)) size = SymInt(*value);
    infer_shapes(sized);
  }

  // The session that runs inputs of these sizes, null if this one does. Always the same for the same sizes, so that
  // equal inputs give equal bits.
  Session* session_for(const Symbols& symbols) {
    if (!gains_by_sizes) return nullptr;
    if (const Sized* known = latest(sized, [&](const Sized& one) { return one.symbols == symbols; }))
      return known->session.get();
    sized.push_front({symbols, nullptr});
    if (sized.size() > kMaxSized) sized.pop_back();
    try {
      Program known = with_known_sizes(*unfused, symbols);
      if (!has_open_inputs(known)) sized.front().session = std::make_unique<Session>(std::move(known), options);
    } catch (const Error&) {  // a run tells what is wrong, if it comes there
    }
    return sized.front().session.get();
  }
  Session* session_for(std::span<const Tensor> inputs) {
    return session_for(symbols_of(placeholders, std::vector<Value>(inputs.begin(), inputs.end())));
  }

  void select(Symbols symbols) {
    if (fusion.plans.empty()) return;
    if (latest(checked, [&](const Symbols& one) { return one == symbols; }) != nullptr) return;
    if (unfused) check_sizes(symbols);
    checked.push_front(std::move(symbols));
    if (checked.size() > kMaxSpecializations) checked.pop_back();
  }
  // For the sizes of the run and those that only the plan's inputs tell.
  CompiledPlan& compiled(size_t index, std::span<const Tensor> inputs) {
    const Plan& plan = fusion.plans[index];
    if (!plan.has_sizes_from_run) return compiled(index, checked.front());
    Symbols symbols = checked.front();
    for (size_t i = 0; i < inputs.size(); ++i) {
      const SymShape& sizes = plan.buffers[plan.inputs[i]].symbolic_sizes;
      for (size_t axis = 0; axis < std::min(sizes.size(), inputs[i].sizes().size()); ++axis)
        if (!sizes[axis].is_constant()) {
          const std::string size = sizes[axis].to_string();
          const int64_t found = inputs[i].sizes()[axis], wanted = symbols.emplace(size, found).first->second;
          QDQ_CHECK(found == wanted, kInvalidArgument, "the size ", size, " is ", wanted, " in one value and ", found,
                    " in another");
        }
    }
    return compiled(index, symbols);
  }
  CompiledPlan& compiled(size_t index, const Symbols& symbols) {
    specializations.resize(fusion.plans.size());
    std::list<Specialization>& of_plan = specializations[index];
    if (const Specialization* known = latest(of_plan, [&](const auto& one) { return one.symbols == symbols; }))
      return *known->plan;
    auto plan = std::make_unique<CompiledPlan>(specialize(fusion.plans[index], symbols), step_backends, workspace);
    of_plan.push_front({symbols, std::move(plan)});
    if (of_plan.size() > kMaxSpecializations) of_plan.pop_back();
    return *of_plan.front().plan;
  }
  // As it ran last, or for the sizes at export, where those that only a run tells are taken for 1.
  CompiledPlan& latest_compiled(size_t index) {
    if (index < specializations.size() && !specializations[index].empty()) return *specializations[index].front().plan;
    Symbols symbols = checked.front();
    const Plan& plan = fusion.plans[index];
    for (const size_t input : plan.inputs)
      for (const SymInt& size : plan.buffers[input].symbolic_sizes)
        if (!size.evaluate(symbols)) symbols.emplace(size.to_string(), 1);
    return compiled(index, symbols);
  }

  // Answers for the node "plan_<i>".
  Value run_plan(const Node& node, std::span<const Value> args) {
    std::vector<Tensor> inputs;
    inputs.reserve(args.size());
    for (const Value& value : args) {
      const Tensor* tensor = value.get_if<Tensor>();
      QDQ_CHECK(tensor != nullptr, kInternal, "a plan got something other than a tensor");
      inputs.push_back(*tensor);
    }
    CompiledPlan& plan = compiled(static_cast<size_t>(std::stoul(node.target().substr(5))), inputs);
    const CompiledPlan::StepHook observe = [&](size_t s) { lap(plan, s); };
    std::vector<Tensor> outputs =
        repeats > 0 ? run_repeated(plan, inputs) : plan.run(inputs, timings == nullptr ? nullptr : &observe);
    return Value::List(std::move_iterator(outputs.begin()), std::move_iterator(outputs.end()));
  }
  std::vector<Tensor> run_repeated(CompiledPlan& plan, std::span<const Tensor> inputs) {
    std::vector<double> seconds;
    std::vector<Tensor> outputs = plan.run_repeated(inputs, repeats, seconds);
    for (size_t s = 0; s < seconds.size(); ++s) note(plan, s, seconds[s]);
    return outputs;
  }

  // The time since the last call belongs to the step before `s`; before the first, to bringing the inputs.
  void lap(const CompiledPlan& plan, size_t s) {
    const double time = now();
    if (s > 0) note(plan, s - 1, time - last_time);
    last_time = time;
  }
  void note(const CompiledPlan& plan, size_t s, double seconds) {
    const PlanStep& step = plan.plan().steps[s];
    const CompiledPlan::StepPlacement& by = plan.placements()[s];
    timings->push_back({step.name, std::string(to_string(step.kind())), by.backend, by.description, seconds,
                        operations_of(plan.plan(), step)});
  }
};

namespace {

// The backends that are asked, in their order; those that the build does not have are refused.
std::vector<std::string> wanted_backends(const LowerOptions& options) {
  const std::vector<std::string_view> known = backend_names();
  if (options.backends.empty()) return {known.begin(), known.end()};
  for (const std::string& name : options.backends)
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      std::string list;
      for (std::string_view one : known) list += (list.empty() ? "" : ", ") + std::string(one);
      fail(ErrorCode::kInvalidArgument, "there is no backend '", name, "' in this build; it has ", list);
    }
  return options.backends;
}

}  // namespace

Session::Session(Program program, const LowerOptions& options) : impl_(std::make_unique<Impl>()) {
  check_ops(*program.graph);
  impl_->program = std::move(program);
  impl_->own_state();
  if (options.fuse) make_functional(impl_->program);
  make_outputs_of_mutations(impl_->program);
  const std::vector<std::string> wanted = wanted_backends(options);
  impl_->backends.push_back(make_control_flow_ops("session", [options](const Program& inner) -> ProgramRunner {
    const auto session = std::make_shared<Session>(inner.clone(), options);
    return [session](std::span<const Value> inputs) { return session->run_values(inputs); };
  }));
  std::vector<OpBackend*> candidates = {impl_->backends.back().get()};
  for (const std::string& name : wanted) {
    if (std::unique_ptr<OpBackend> backend = make_op_backend(name)) {
      candidates.push_back(backend.get());
      impl_->backends.push_back(std::move(backend));
    }
    if (std::unique_ptr<StepBackend> backend = make_step_backend(name))
      impl_->step_backends.push_back(std::move(backend));
  }
  if (options.bf16) impl_->check_bf16(options);
  // Requests and warnings are about the backends of the build; those given are asked first for every step.
  std::vector<std::shared_ptr<StepBackend>> all = options.step_backends;
  QDQ_CHECK(std::none_of(all.begin(), all.end(), [](const auto& one) { return one == nullptr; }), kInvalidArgument,
            "a step backend that was given is null");
  const bool gives_floats = std::any_of(all.begin(), all.end(), [](const auto& one) { return one->has_floats(); });
  all.insert(all.end(), impl_->step_backends.begin(), impl_->step_backends.end());
  const std::shared_ptr<StepBackend> first = impl_->step_backends.empty() ? nullptr : impl_->step_backends.front();
  impl_->step_backends = std::move(all);
  if (options.fuse) bind_constant_operands(impl_->program);
  if (options.fuse && impl_->has_steps(PlanStep::Kind::kConvolution) && impl_->has_steps(PlanStep::Kind::kLinear) &&
      impl_->knows_shapes()) {
    // Steps that the wanted backends refuse fall to the portable kernels, then to the plain loops.
    if (std::find(wanted.begin(), wanted.end(), "simd") == wanted.end())
      impl_->step_backends.push_back(make_simd_steps());
    impl_->step_backends.push_back(make_reference_steps());
    const bool floats = gives_floats || options.bf16 || (first && first->has_floats());
    if (!impl_->symbols_at_export().empty()) impl_->unfused = impl_->program.clone();
    if (!has_open_inputs(impl_->program)) impl_->take_known_sizes();
    rewrite_for_steps(impl_->program, floats);
    impl_->options = options;
    impl_->gains_by_sizes = impl_->unfused && impl_->first_state.empty() && has_open_inputs(*impl_->unfused) &&
                            gains_by_known_sizes(*impl_->unfused);
    impl_->fuse(floats);
    if (!floats) fold_norms_into_weights(impl_->program);
    if (options.bf16) impl_->use_bf16(*first);
  }
  fold_constants(impl_->program);
  end_as_outputs(impl_->program);
  if (options.fuse) write_in_place(impl_->program);
  impl_->placeholders = impl_->program.graph->placeholders();
  impl_->interpreter = std::make_unique<Interpreter>(impl_->program, candidates);
  if (impl_->fusion.plans.empty()) return;
  impl_->interpreter->set_module_handler(
      [impl = impl_.get()](const Node& node, std::span<const Value> args, const kernel::MinMax*) {
        return impl->run_plan(node, args);
      });
}

Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

std::vector<Tensor> Session::run(std::span<const Tensor> inputs) {
  return flat_tensors(run_values(std::vector<Value>(inputs.begin(), inputs.end())));
}

void Session::reset() {
  const auto running = impl_->begin_run();
  for (const auto& [name, tensor] : impl_->first_state)
    if (Attribute* buffer = impl_->program.find_attribute(name)) buffer->tensor.copy_from(tensor);
}

std::vector<Value> Session::run_values(std::span<const Value> inputs) {
  const auto running = impl_->begin_run();
  // The interpreter checks that all inputs agree.
  Symbols symbols = symbols_of(impl_->placeholders, inputs);
  if (Session* session = impl_->session_for(symbols)) return session->run_values(inputs);
  impl_->select(std::move(symbols));
  return impl_->interpreter->run_values(inputs);
}

std::vector<Tensor> Session::run(std::span<const Tensor> inputs, std::vector<Timing>& timings) {
  Impl& impl = *impl_;
  if (impl.gains_by_sizes) {
    const auto running = impl.begin_run();
    if (Session* session = impl.session_for(inputs)) return session->run(inputs, timings);
  }
  std::unordered_map<std::string_view, std::string_view> backend_of;
  for (const Interpreter::OpPlacement& placement : impl.interpreter->placements())
    backend_of[placement.node->name()] =
        placement.fallbacks.runs > 0 ? std::string_view("reference") : placement.backend;
  impl.timings = &timings;
  impl.interpreter->set_node_hook([&](const Node& node, const Value&) {
    const double time = now();
    if (node.op() == Node::Op::kCallFunction)
      timings.push_back(
          {node.name(), node.target(), std::string(backend_of[node.name()]), {}, time - impl.last_time, 0});
    impl.last_time = time;
  });
  const Undo stop([&] {
    impl.timings = nullptr;
    impl.interpreter->set_node_hook({});
  });
  impl.last_time = now();
  return run(inputs);
}

void Session::run_repeated(std::span<const Tensor> inputs, size_t repeats, std::vector<Timing>& timings) {
  if (impl_->gains_by_sizes) {
    const auto running = impl_->begin_run();
    if (Session* session = impl_->session_for(inputs)) return session->run_repeated(inputs, repeats, timings);
  }
  impl_->repeats = std::max<size_t>(repeats, 1);
  const Undo run_once([&] { impl_->repeats = 0; });
  run(inputs, timings);
}

const std::vector<std::string>& Session::warnings() const { return impl_->warnings; }

const Program& Session::program() const { return impl_->program; }

const std::vector<Plan>& Session::plans() const { return impl_->fusion.plans; }

std::vector<Session::Placement> Session::placements() {
  Impl& impl = *impl_;
  if (Session* session = impl.session_for(impl.sized.empty() ? impl.symbols_at_export() : impl.sized.front().symbols))
    return session->placements();
  if (impl.checked.empty()) impl.select(impl.symbols_at_export());
  std::vector<Placement> out;
  std::unordered_map<std::string_view, const Interpreter::OpPlacement*> alone;
  for (const Interpreter::OpPlacement& placement : impl.interpreter->placements())
    alone[placement.node->name()] = &placement;
  const auto add_alone = [&](const Interpreter::OpPlacement& placement) -> Placement& {
    return out.emplace_back(Placement{placement.node->name(),
                                      placement.node->target(),
                                      {},
                                      placement.backend,
                                      {},
                                      placement.refusals,
                                      placement.fallbacks.runs,
                                      std::string(placement.fallbacks.reason)});
  };
  if (impl.fusion.fates.empty()) {
    for (const Interpreter::OpPlacement& placement : impl.interpreter->placements()) add_alone(placement);
    return out;
  }
  for (const NodeFate& fate : impl.fusion.fates) {
    if (fate.plan < 0) {
      const auto found = alone.find(fate.node);
      if (found == alone.end()) continue;
      Placement& placement = add_alone(*found->second);
      placement.refusals.insert(placement.refusals.begin(), {"fusion", fate.refusal});
      continue;
    }
    const CompiledPlan& plan = impl.latest_compiled(static_cast<size_t>(fate.plan));
    const CompiledPlan::StepPlacement& by = plan.placements().at(fate.step);
    out.push_back(
        {fate.node, fate.target, plan.plan().steps[fate.step].name, by.backend, by.description, by.refusals, 0, {}});
  }
  return out;
}

Session lower(const Program& program, const LowerOptions& options) { return Session(program.clone(), options); }

}  // namespace qdq

#ifdef __EMSCRIPTEN__
namespace qdq {
std::unique_ptr<OpBackend> make_onednn_ops() { return nullptr; }
std::unique_ptr<StepBackend> make_onednn_steps() { return nullptr; }
}  // namespace qdq
#endif
