// prepare_pt2e: folds batch norm, annotates, and puts observers into the graph; and the prepared program, which calibrates them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "base/memory.h"
#include "exec/footprint.h"
#include "quant/observer_histogram.h"
#include "quant/observer_statistics.h"
#include "quant/prepared_impl.h"
#include "quant/sharing.h"

namespace qdq {

namespace {

// Puts the observers of a map into the graph, node by node (torch/ao/quantization/pt2e/prepare.py).
class Inserter {
 public:
  Inserter(Prepared::Impl& prepared, const ObserverMap& map) : prepared_(prepared), graph_(*prepared.program.graph) {
    for (const auto& [at, observer] : map) {
      if (!observer) continue;
      if (const Edge* edge = std::get_if<Edge>(&at)) edges_[edge->second].emplace_back(edge->first, observer.get());
      else outputs_[std::get<Node*>(at)] = observer.get();
      if (group_of_.emplace(observer.get(), prepared.groups.size()).second) prepared.groups.push_back({observer, {}, {}, {}});
      prepared.groups[group_of_.at(observer.get())].covers.push_back(at);
    }
  }

  void run() {
    for (Node* node : graph_.nodes()) {
      const auto annotation = prepared_.annotations.find(node);
      if (annotation == prepared_.annotations.end()) continue;
      observe_inputs(node);
      if (node->meta.val.is_tensor()) observe_output(node);
    }
  }

 private:
  // The node whose value this is, seen through observers.
  Node* original(Node* node) const {
    while (prepared_.group_of_module(*node)) node = node->arg(0).node();
    return node;
  }

  Node* insert_behind(Node* node, Observer* observer) {
    ObserverGroup& group = prepared_.groups[group_of_.at(observer)];
    const std::string module = "activation_post_process_" + std::to_string(prepared_.modules.size());
    prepared_.modules[module] = group_of_.at(observer);
    const auto point = graph_.insert_after(node);
    Node* call = graph_.create(Node::Op::kCallModule, module, {node});
    call->meta.val = node->meta.val;
    group.inserted_as.push_back(call->name());
    return call;
  }

  Node* observed_input(Node* argument, Node* node) {
    Node* source = original(argument);
    Observer* observer = nullptr;
    if (const auto found = edges_.find(node); found != edges_.end())
      for (const auto& [input, of_edge] : found->second)
        if (input == source) observer = of_edge;
    if (observer == nullptr) return argument;
    const auto output = outputs_.find(source);
    if (output != outputs_.end() && output->second == observer) return argument;
    for (Node* user : argument->users())
      if (const auto group = prepared_.group_of_module(*user); group && prepared_.groups[*group].observer.get() == observer) return user;
    return insert_behind(argument, observer);
  }

  void observe_inputs(Node* node) {
    if (prepared_.compat == Compat::kTorch26 && !node->kwargs().empty() && !node->is("torch.ops.aten.clone.default") &&
        !node->is("torch.ops.aten.zeros_like.default") && !node->is("torch.ops.aten.gelu.default"))
      throw Error(ErrorCode::kInvalidArgument,
                  concat("the annotated node ", node->name(), " has the keyword argument '", node->kwargs()[0].first,
                         "'; PyTorch 2.6 quantizes only nodes whose arguments are all positional"),
                  node->name(), node->target());
    std::vector<Argument> args;
    const std::function<Node*(Node*)> observe = [&](Node* input) { return observed_input(input, node); };
    for (const Argument& argument : node->args()) args.push_back(argument.map_nodes(observe));
    node->set_args(std::move(args));
    if (node->kwargs().empty()) return;
    Node::Kwargs kwargs;
    for (const auto& [name, argument] : node->kwargs()) kwargs.emplace_back(name, argument.map_nodes(observe));
    node->set_kwargs(std::move(kwargs));
  }

  void observe_output(Node* node) {
    const auto found = outputs_.find(node);
    if (found == outputs_.end()) return;
    const std::vector<Node*> users = node->users();
    Node* call = insert_behind(node, found->second);
    call->meta.debug_handle = node->meta.debug_handle;
    for (Node* user : users) user->replace_input_with(node, call);
  }

  Prepared::Impl& prepared_;
  Graph& graph_;
  std::unordered_map<const Node*, std::vector<std::pair<Node*, Observer*>>> edges_;  // of a consumer
  std::unordered_map<const Node*, Observer*> outputs_;
  std::unordered_map<const Observer*, size_t> group_of_;
};

// The last component of the innermost module's path, from which convert names buffers.
std::unordered_map<std::string, std::string> scopes_of(const Graph& graph) {
  std::unordered_map<std::string, std::string> out;
  for (const Node* node : graph.nodes()) {
    const std::string path = node->meta.module_path().value_or("");
    out[node->name()] = path.substr(path.rfind('.') + 1);
  }
  return out;
}

void check_annotations(const Graph& graph, const Annotations& annotations, Compat compat) {
  for (const Node* node : graph.nodes()) {
    const auto found = annotations.find(node);
    if (found == annotations.end()) continue;
    const std::vector<Node*> inputs = node->input_nodes();
    for (const auto& [input, spec] : found->second.input_qspec_map)
      if (input == nullptr || (compat == Compat::kNone && std::find(inputs.begin(), inputs.end(), input) == inputs.end()))
        throw Error(ErrorCode::kInvalidArgument,
                    concat("the annotation of ", node->name(), " names the input ", input ? input->name() : "None", ", which ", node->name(),
                           " does not read"),
                    node->name(), node->target());
  }
}

// Makes channel axes that count from the end count from the front, and refuses those that a tensor does not have.
void resolve_axes(const Graph& graph, Annotations& annotations) {
  const auto resolve = [](const Node& of, QSpec& spec, const EdgeOrNode& at) {
    const auto wrap = [&](auto& s) {
      if constexpr (requires { s.ch_axis; }) {
        const TensorMeta* meta = of.meta.val.tensor();
        if (!s.ch_axis || (meta == nullptr && *s.ch_axis >= 0)) return;
        if (*s.ch_axis >= 0 && !(s.qscheme && is_per_channel(*s.qscheme))) return;  // not read
        const auto rank = meta ? static_cast<int64_t>(meta->sizes.size()) : 0;
        QDQ_CHECK(-rank <= *s.ch_axis && *s.ch_axis < rank, kInvalidArgument, "the spec of ", to_string(at), " has ch_axis ", *s.ch_axis, ", but ",
                  of.name(), meta ? concat(" has ", rank, " axes") : std::string(" is no tensor"));
        if (*s.ch_axis < 0) s.ch_axis = *s.ch_axis + rank;
      }
    };
    std::visit(wrap, spec);
  };
  for (Node* node : graph.nodes()) {
    const auto found = annotations.find(node);
    if (found == annotations.end()) continue;
    for (auto& [input, spec] : found->second.input_qspec_map) resolve(*input, spec, Edge{input, node});
    resolve(*node, found->second.output_qspec, node);
  }
}

// Whether further looks at the same constant leave the observer as it is after the first.
bool is_idempotent(const Observer& observer) {
  return observer.class_name() == "MinMaxObserver" || observer.class_name() == "PerChannelMinMaxObserver";
}

void find_constant_observers(Prepared::Impl& prepared) {
  const Program& program = prepared.program;
  for (ObserverGroup& group : prepared.groups) {
    bool constant = is_idempotent(*group.observer) && !group.inserted_as.empty();
    for (const std::string& name : group.inserted_as) {
      const Node* input = program.graph->find(name)->arg(0).node();
      constant = constant && input->op() == Node::Op::kGetAttr;
      for (const BufferMutation& mutation : program.buffer_mutations) constant = constant && mutation.buffer != input->target();
      // An in-place operator on the constant itself would change what the next batch sees.
      for (const Node* user : input->users()) constant = constant && user->target().find("_.") == std::string::npos;
    }
    if (constant) prepared.of_constants.insert(group.observer.get());
  }
}

std::vector<float> floats_of(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  const Tensor flat = tensor.to(DType::kF32).contiguous();
  return {flat.span<float>().begin(), flat.span<float>().end()};
}

// How many channels a value has along an axis, where that is known.
std::optional<int64_t> channels_of(const Node& node, int64_t axis) {
  const TensorMeta* meta = node.meta.val.tensor();
  if (meta == nullptr) return std::nullopt;
  return meta->sizes[static_cast<size_t>(wrap_axis(axis, static_cast<int64_t>(meta->sizes.size())))].constant();
}

void check_inputs(const Program& program, const std::vector<Tensor>& inputs) {
  const std::vector<Node*> placeholders = program.graph->placeholders();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined() || inputs[i].dtype() != DType::kF32) continue;
    const Tensor flat = inputs[i].contiguous();
    for (const float value : flat.span<float>())
      QDQ_CHECK(!std::isnan(value), kInvalidArgument, "the calibration input ",
                i < placeholders.size() ? "'" + placeholders[i]->name() + "'" : std::to_string(i),
                " holds NaN; observers would take it over, so remove it from the data");
  }
}

// The bounds of a node that clamps its first argument.
std::optional<FloatRange> clamp_of(const Node& node) {
  if (node.is("torch.ops.aten.relu.default") || node.is("torch.ops.aten.relu_.default")) return FloatRange{0, std::numeric_limits<float>::infinity()};
  if (!node.is("torch.ops.aten.hardtanh.default") && !node.is("torch.ops.aten.hardtanh_.default")) return std::nullopt;
  if (!node.kwargs().empty()) return std::nullopt;
  return FloatRange{static_cast<float>(node.arg(1).number().value_or(-1)), static_cast<float>(node.arg(2).number().value_or(1))};
}

}  // namespace

std::optional<size_t> Prepared::Impl::group_of_module(const Node& node) const {
  if (node.op() != Node::Op::kCallModule) return std::nullopt;
  const auto found = modules.find(node.target());
  return found == modules.end() ? std::nullopt : std::optional<size_t>(found->second);
}

void Prepared::Impl::observe_constants() {
  if (constants_observed) return;
  for (const Node* node : program.graph->nodes())
    if (const auto group = group_of_module(*node); group && of_constants.count(groups[*group].observer.get()))
      groups[*group].observer->forward(program.attribute_of(*node->arg(0).node()));
  constants_observed = true;
}

// Calibration runs a copy in which constants go straight to their users, so that backends can pack weights once.
void Prepared::Impl::make_interpreter() {
  calibrated = program.clone();
  looks = 0;
  clamps.clear();
  std::unordered_map<size_t, const Node*> newest;  // of each group the observer that looked last
  for (Node* node : calibrated.graph->nodes())
    if (const auto group = group_of_module(*node); group && of_constants.count(groups[*group].observer.get())) {
      node->replace_all_uses_with(node->arg(0).node());
      calibrated.graph->erase(node);
    } else if (group) {
      ++looks;
      const Node *seen = node->arg(0).node(), *before = std::exchange(newest[*group], node);
      const std::optional<FloatRange> clamp = clamp_of(*seen);
      if (!clamp || before == nullptr || seen->arg(0).node() != before || before->users().size() != 1) continue;
      if (groups[*group].observer->as_histogram() != nullptr) clamps.emplace(node, *clamp);
    }
  interpreter = std::make_unique<Interpreter>(calibrated, backends);
  const auto observe = [this](const Node& node, std::span<const Value> args, const kernel::MinMax* range) -> Value {
    const Tensor* x = args.empty() ? nullptr : args[0].get_if<Tensor>();
    if (x == nullptr) throw Error(ErrorCode::kInternal, concat("the observer ", node.name(), " sees something that is no tensor"), node.name());
    const Node* observed = node.arg(0).node();
    try {
      Observer& observer = *groups[group_of_module(node).value()].observer;
      const auto clamp = clamps.find(&node);
      const bool known = clamp != clamps.end() && observer.as_histogram()->forward_clamped(clamp->second.min, clamp->second.max);
      Tensor seen = known ? *x : range ? observer.forward_with_range(*x, {range->min, range->max}) : observer.forward(*x);
      if (on_observed) (*on_observed)(++looks_done, looks);
      return seen;
    } catch (const Error& error) {
      throw Error(error.code,
                  concat(error.message, ", the values of ", observed->name(), "; look for infinite or huge numbers in the calibration data"),
                  observed->name());
    }
  };
  interpreter->set_module_handler([=](const Node& node, std::span<const Value> args) { return observe(node, args, nullptr); });
  interpreter->set_ranged_module_handler(
      [=](const Node& node, std::span<const Value> args, const kernel::MinMax& range) { return observe(node, args, &range); },
      [this](const Node& node) { return clamps.count(&node) == 0; });
}

Prepared::Prepared(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Prepared::Prepared(Prepared&&) noexcept = default;
Prepared& Prepared::operator=(Prepared&&) noexcept = default;
Prepared::~Prepared() = default;

const Program& Prepared::program() const { return impl_->program; }
const std::vector<ObserverGroup>& Prepared::observers() const { return impl_->groups; }
const Annotations& Prepared::annotations() const { return impl_->annotations; }

std::vector<Tensor> Prepared::run(const std::vector<Tensor>& inputs, const OnObserved& on_observed) {
  check_inputs(impl_->program, inputs);
  impl_->observe_constants();
  if (!impl_->interpreter) impl_->make_interpreter();
  impl_->looks_done = 0;
  impl_->on_observed = on_observed ? &on_observed : nullptr;
  return impl_->interpreter->run(inputs);
}

bool Prepared::needs_data() const {
  return std::any_of(impl_->groups.begin(), impl_->groups.end(), [&](const ObserverGroup& group) {
    return !group.inserted_as.empty() && quantizes_statically(*group.observer) && !impl_->of_constants.count(group.observer.get()) &&
           !group.observer->calibrated();
  });
}

void Prepared::set_state(size_t index, const ObserverState& state) {
  impl_->observe_constants();
  const ObserverGroup& group = impl_->groups.at(index);
  Observer& observer = *group.observer;
  const std::vector<float> least = floats_of(state.min_val), largest = floats_of(state.max_val);
  if (impl_->of_constants.count(&observer))
    QDQ_CHECK(floats_of(observer.min_val()) == least && floats_of(observer.max_val()) == largest, kInvalidArgument,
              "it has seen other values here; statistics belong to one model with its weights");
  for (size_t i = 0; i < std::min(least.size(), largest.size()); ++i)
    QDQ_CHECK(least[i] <= largest[i] || (std::isinf(least[i]) && least[i] == -largest[i]), kInvalidArgument, "its least value ", least[i],
              " is not below its largest, ", largest[i]);
  for (const float count : floats_of(state.histogram))
    QDQ_CHECK(count >= 0 && std::isfinite(count), kInvalidArgument, "its histogram counts ", count, " values");
  if (is_per_channel(observer.args().qscheme))
    for (const std::string& name : group.inserted_as) {
      const Node* of = impl_->program.graph->find(name)->arg(0).node();
      const auto channels = channels_of(*of, observer.args().ch_axis);
      QDQ_CHECK(least.empty() || !channels || *channels == static_cast<int64_t>(least.size()), kInvalidArgument, "it tells of ", least.size(),
                " channels, and ", of->name(), " has ", *channels);
    }
  observer.set_state(state.min_val, state.max_val, state.histogram);
}

Prepared prepare_pt2e(Program program, Quantizer& quantizer, std::vector<Backend*> backends) {
  return Prepared::Impl::prepare(std::move(program), quantizer, std::move(backends), /*is_qat=*/false);
}

Prepared Prepared::Impl::prepare(Program program, Quantizer& quantizer, std::vector<Backend*> backends, bool is_qat) {
  check_memory(least_bytes_of_results(program, {}), "calibrating the program");
  auto impl = std::make_unique<Prepared::Impl>();
  impl->program = std::move(program);
  impl->compat = quantizer.compat();
  impl->scopes = scopes_of(*impl->program.graph);
  impl->is_qat = is_qat;
  if (!is_qat) quantizer.fold_batch_norms(impl->program);
  quantizer.transform_for_annotation(impl->program);
  annotate_and_note(quantizer, impl->program, impl->annotations);
  check_annotations(*impl->program.graph, impl->annotations, impl->compat);
  if (impl->compat == Compat::kNone) resolve_axes(*impl->program.graph, impl->annotations);
  quantizer.validate(impl->program, impl->annotations);
  if (is_qat) impl->conv_bns = fuse_conv_bn_qat(impl->program, impl->annotations, impl->compat);

  std::vector<std::pair<std::shared_ptr<Observer>, std::vector<std::shared_ptr<Observer>>>> derived;
  ObserverMap observers = make_observers(*impl->program.graph, impl->annotations, &derived, is_qat);
  quantizer.adjust_observers(impl->program, observers);
  Inserter(*impl, observers).run();
  for (ObserverGroup& group : impl->groups)
    for (const auto& [observer, sources] : derived)
      if (observer == group.observer) group.derived_from = sources;
  find_constant_observers(*impl);

  if (backends.empty()) {
    impl->own_backend = make_simd_backend();
    backends = {impl->own_backend.get()};
  }
  impl->backends = std::move(backends);
  return Prepared(std::move(impl));
}

}  // namespace qdq
