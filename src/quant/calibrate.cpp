// A prepared program at work: its observers see what passes.
#include <algorithm>
#include <cmath>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/disk_blocks.h"
#include "op/facts.h"
#include "quant/masks.h"
#include "quant/prepared_impl.h"
#include "quant/sample_rows.h"
#include "quant/unknown_operators.h"
#include "quant/written_values.h"

namespace qdq {

namespace {

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

// ", in sample 21 of this calibration (counted from 0)" of values that have a row for each of the batch's `samples`, of
// which the first has `number`; else empty.
std::string place_of(const Tensor& values, bool (*is_odd)(float), int64_t number, int64_t samples) {
  if (values.dim() == 0 || values.size(0) != samples) return "";
  const std::optional<int64_t> row = row_with(values, is_odd);
  return row ? concat(" in sample ", number + *row, " of this calibration (counted from 0)") : "";
}

bool is_nan(float value) { return std::isnan(value); }
bool is_infinite(float value) { return std::isinf(value); }

// Whether the model computes a value without its inputs.
bool depends_on_no_input(const Node& value) {
  std::vector<const Node*> left = {&value};
  std::unordered_set<const Node*> seen;
  while (!left.empty()) {
    const Node* node = left.back();
    left.pop_back();
    if (node->op() == Node::Op::kPlaceholder) return false;
    for (const Node* input : node->input_nodes())
      if (seen.insert(input).second) left.push_back(input);
  }
  return true;
}

// Whether an operator asks which elements are NaN, x != x included, as those do that put other numbers in their place.
bool looks_for_nan(const Node& node) {
  if (node.op() != Node::Op::kCallFunction) return false;
  const std::string_view name = base_name(node.target());
  if (name == "isnan" || name == "nan_to_num") return true;
  return (name == "eq" || name == "ne") && node.args().size() > 1 && node.arg(0).is_node() &&
         node.arg(0) == node.arg(1);
}
bool replaces_nan(const Program& program, const Node& input) {
  std::unordered_set<const Node*> depend = {&input};
  for (const Node* node = program.graph->first(); node != nullptr; node = node->next()) {
    const std::vector<Node*> inputs = node->input_nodes();
    if (std::none_of(inputs.begin(), inputs.end(), [&](const Node* one) { return depend.count(one) > 0; })) continue;
    if (looks_for_nan(*node)) return true;
    depend.insert(node);
  }
  return false;
}

// Where the model replaces NaN, an observer tells if it is given one all the same.
void check_inputs(const Program& program, const std::vector<Tensor>& inputs, int64_t number, int64_t samples) {
  const std::vector<Node*> placeholders = program.graph->placeholders();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined() || inputs[i].dtype() != DType::kF32 || !row_with(inputs[i], is_nan)) continue;
    QDQ_CHECK(
        i < placeholders.size() && replaces_nan(program, *placeholders[i]), kInvalidArgument, "the calibration input ",
        i < placeholders.size() ? "'" + placeholders[i]->name() + "'" : std::to_string(i), " holds NaN",
        place_of(inputs[i], is_nan, number, samples), "; observers would take it over, so remove it from the data");
  }
}

// The bounds of a node that clamps its first argument.
std::optional<FloatRange> clamp_of(const Node& node) {
  const std::optional<kernel::Activation> function = activation_function(node);
  if (!function || function->kind != kernel::Activation::Kind::kClamp) return std::nullopt;
  return FloatRange{static_cast<float>(function->low), static_cast<float>(function->high)};
}

}  // namespace

// Once for a program. Observers count no infinity, and its integer is that of the largest or least finite value; large
// numbers they do count, and all others become one integer.
void Prepared::Impl::warn_of_masks(const Node& observed, const Tensor& values, const FloatRange& range) {
  if (range.min > range.max || is_told_of_masks) return;  // a tensor of nothing
  const bool has_infinities = std::isinf(range.min) || std::isinf(range.max);
  if (!has_infinities && !has_finite_mask(values, range.min)) return;
  is_told_of_masks = true;
  if (has_infinities && observed.op() == Node::Op::kPlaceholder) {
    warnings.push_back(
        concat("the input ", observed.name(), " has infinities", place_of(values, is_infinite, samples_before, samples),
               ", and integers have none: remove them from the data, or, if they mask attention, recover "
               "accuracy (--recover) or leave the input in float"));
    return;
  }
  const std::string has = has_infinities
                              ? "infinities"
                              : concat("values down to ", static_cast<double>(range.min), ", far below all others");
  warnings.push_back(concat(observed.name(), " has ", has, ", as masks of attention do, and integers ",
                            has_infinities ? "have none: what it masks still has a weight"
                                           : "that reach so far do not tell those others apart",
                            "; recover accuracy (--recover) or leave it in float"));
}

std::optional<Tensor> Prepared::Impl::hide_mask(const Node& observed, const Tensor& values,
                                                const FloatRange& range) const {
  constexpr float kLeastOfPyTorch = -3.4028235e15F;  // its histc fails for lower ones
  if (is_qat || compat != Compat::kNone || range.min > (hides_masks ? kHiddenScore : kLeastOfPyTorch)) return {};
  return leads_to_softmax(observed) ? without_hidden_scores(values, range.min) : std::nullopt;
}

std::optional<size_t> Prepared::Impl::group_of_module(const Node& node) const {
  if (node.op() != Node::Op::kCallModule) return std::nullopt;
  const auto found = modules.find(node.target());
  return found == modules.end() ? std::nullopt : std::optional<size_t>(found->second);
}

void Prepared::Impl::observe_constants() {
  const WrittenAttributes written = written_attributes(program);
  const auto is_constant = [&](const std::string& observer) {
    const Node* input = program.graph->find(observer)->arg(0).node();
    return input->op() == Node::Op::kGetAttr && written.count(input->target()) == 0;
  };
  for (const ObserverGroup& group : groups) {
    const std::vector<std::string>& calls = group.inserted_as;
    if (!group.observer->is_idempotent() || calls.empty() || !std::all_of(calls.begin(), calls.end(), is_constant))
      continue;
    try {
      for (const std::string& call : calls) {
        const Node& constant = *program.graph->find(call)->arg(0).node();
        const Tensor& weight = program.attribute_of(constant);
        const auto masked =
            weight.dtype() == DType::kF32 ? hide_mask(constant, weight, range_of(weight)) : std::nullopt;
        group.observer->forward(masked ? *masked : weight);
        release_pages({weight.storage()->data(), weight.storage()->size()});
      }
      of_constants.insert(group.observer.get());
    } catch (const Error&) {
      // Calibration looks again, and says whose values these are.
    }
  }
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
      if (groups[*group].observer->foresees_clamps()) clamps.emplace(node, *clamp);
    }
  erase_without_data(calibrated);
  interpreter = std::make_unique<Interpreter>(calibrated, backends);
  if (node_hook) interpreter->set_node_hook(node_hook);
  const auto observe = [this](const Node& node, std::span<const Value> args, const kernel::MinMax* range) -> Value {
    const Tensor* x = args.empty() ? nullptr : args[0].get_if<Tensor>();
    if (x == nullptr)
      throw Error(ErrorCode::kInternal, concat("the observer ", node.name(), " sees something that is not a tensor"),
                  node.name());
    const Node* observed = node.arg(0).node();
    try {
      Observer& observer = *groups[group_of_module(node).value()].observer;
      const auto clamp = clamps.find(&node);
      const bool known = clamp != clamps.end() && observer.forward_clamped(clamp->second.min, clamp->second.max);
      std::optional<FloatRange> found;
      if (range != nullptr) found = {range->min, range->max};
      else if (!known && observer.wants_range() && is_floating(x->dtype())) found = range_of(*x);
      QDQ_CHECK(!found || !std::isnan(found->min), kInvalidArgument, observer.class_name(),
                " was given a tensor that holds NaN");
      const auto masked = found && quantizes_statically(observer) ? hide_mask(*observed, *x, *found) : std::nullopt;
      if (masked) observer.forward_with_range(*masked, range_of(*masked));
      else if (found && quantizes_statically(observer)) warn_of_masks(*observed, *x, *found);
      Tensor seen = known || masked ? *x : found ? observer.forward_with_range(*x, *found) : observer.forward(*x);
      for (const EqualizedLayer& layer : equalized)
        if (layer.observed_as == node.name()) layer.input->forward(*x);
      if (on_observed) (*on_observed)(++looks_done, looks);
      return seen;
    } catch (const Error& error) {
      const bool is_constant = depends_on_no_input(*observed), is_float = is_floating(x->dtype());
      const std::string_view remedy = is_constant ? ", a constant of the model; leave it in float"
                                      : is_float  ? "; look for infinite or huge numbers in the calibration data"
                                                  : "; leave them in float";
      const std::string where = is_float && !is_constant ? place_of(*x, is_nan, samples_before, samples) : "";
      throw Error(error.code, concat(error.message, ", the values of ", observed->name(), where, remedy),
                  observed->name());
    }
  };
  interpreter->set_module_handler(observe, [this](const Node& node) {
    return clamps.count(&node) == 0 && groups[group_of_module(node).value()].observer->wants_range();
  });
}

Prepared::Prepared(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Prepared::Prepared(Prepared&&) noexcept = default;
Prepared& Prepared::operator=(Prepared&&) noexcept = default;
Prepared::~Prepared() = default;

const Program& Prepared::program() const { return impl_->program; }
const std::vector<ObserverGroup>& Prepared::observers() const { return impl_->groups; }
const Annotations& Prepared::annotations() const { return impl_->annotations; }
const std::vector<std::string>& Prepared::warnings() const { return impl_->warnings; }

std::vector<Tensor> Prepared::run(const std::vector<Tensor>& inputs, const OnObserved& on_observed) {
  impl_->check_idle();
  impl_->samples_before += std::exchange(impl_->samples, samples_of(inputs));
  check_inputs(impl_->program, inputs, impl_->samples_before, impl_->samples);
  if (!impl_->interpreter) impl_->make_interpreter();
  impl_->looks_done = 0;
  impl_->on_observed = on_observed ? &on_observed : nullptr;
  impl_->is_running = true;
  const auto stop = [](Impl* impl) {
    impl->is_running = false;
    impl->on_observed = nullptr;
  };
  const std::unique_ptr<Impl, decltype(stop)> when_done(impl_.get(), stop);  // also when a callback throws
  return impl_->interpreter->run(inputs);
}

std::vector<std::string> Prepared::layers_to_equalize() const {
  std::vector<std::string> out;
  for (const EqualizedLayer& layer : impl_->equalized) out.push_back(layer.node);
  return out;
}

bool Prepared::needs_data() const {
  const auto is_unseen = [](const EqualizedLayer& layer) { return !layer.input->calibrated(); };
  if (std::any_of(impl_->equalized.begin(), impl_->equalized.end(), is_unseen)) return true;
  return !impl_->has_seen_data() && !values_without_data().empty();
}

std::vector<std::string> Prepared::values_without_data() const {
  std::vector<std::string> out = impl_->unreached;
  for (const Node* node : impl_->program.graph->nodes()) {
    const auto group = impl_->group_of_module(*node);
    if (!group || !impl_->is_unseen(*group) || impl_->of_constants.count(impl_->groups[*group].observer.get()) != 0)
      continue;
    if (const std::string name = node->arg(0).node()->name(); std::find(out.begin(), out.end(), name) == out.end())
      out.push_back(name);
  }
  return out;
}

bool Prepared::Impl::is_unseen(size_t index) const {
  const ObserverGroup& group = groups.at(index);
  const auto lacks_data = [](const std::shared_ptr<Observer>& observer) { return !observer->calibrated(); };
  return quantizes_statically(*group.observer) &&
         (lacks_data(group.observer) || std::any_of(group.derived_from.begin(), group.derived_from.end(), lacks_data));
}

bool Prepared::Impl::has_seen_data() const {
  // What has fixed qparams sees nothing, and has no range of its own.
  const auto has_range = [&](const ObserverGroup& group) {
    const Observer& observer = *group.observer;
    return !group.inserted_as.empty() && quantizes_statically(observer) && of_constants.count(&observer) == 0 &&
           observer.calibrated() && observer.min_val().defined();
  };
  return !is_qat && std::any_of(groups.begin(), groups.end(), has_range);
}

void Prepared::set_state(size_t index, const ObserverState& state) {
  impl_->check_idle();
  const ObserverGroup& group = impl_->groups.at(index);
  Observer& observer = *group.observer;
  const std::vector<float> least = floats_of(state.min_val), largest = floats_of(state.max_val);
  if (impl_->of_constants.count(&observer))
    QDQ_CHECK(floats_of(observer.min_val()) == least && floats_of(observer.max_val()) == largest, kInvalidArgument,
              "it has seen other values here; statistics belong to one model with its weights");
  else
    QDQ_CHECK(!observer.calibrated(), kInvalidArgument,
              "it has seen data already, which these statistics would replace; prepare the model again");
  for (size_t i = 0; i < std::min(least.size(), largest.size()); ++i)
    QDQ_CHECK(least[i] <= largest[i] || (std::isinf(least[i]) && least[i] == -largest[i]), kInvalidArgument,
              "its least value ", least[i], " is not below its largest, ", largest[i]);
  for (const float count : floats_of(state.histogram))
    QDQ_CHECK(count >= 0 && std::isfinite(count), kInvalidArgument, "its histogram counts ", count, " values");
  if (is_per_channel(observer.args().qscheme) && observer.args().group_size == 0)
    for (const std::string& name : group.inserted_as) {
      const Node* of = impl_->program.graph->find(name)->arg(0).node();
      const auto channels = channels_of(*of, observer.args().ch_axis);
      QDQ_CHECK(least.empty() || !channels || *channels == static_cast<int64_t>(least.size()), kInvalidArgument,
                "it covers ", least.size(), " channels, and ", of->name(), " has ", *channels);
    }
  observer.set_state(state.min_val, state.max_val, state.histogram);
}

bool Prepared::Impl::takes_range(size_t index) const {
  const Observer& observer = *groups.at(index).observer;
  const auto derives = [&](const ObserverGroup& group) {
    const auto& sources = group.derived_from;
    return &group == &groups[index]
               ? !sources.empty()
               : std::find(sources.begin(), sources.end(), groups[index].observer) != sources.end();
  };
  return !is_qat && !observer.is_fake_quantize() && quantizes_statically(observer) &&
         observer.args().qscheme != QScheme::kPerChannelAffineFloatQParams && observer.min_val().defined() &&
         std::none_of(groups.begin(), groups.end(), derives);
}

void Prepared::set_range(size_t index, const Tensor& min, const Tensor& max) {
  impl_->check_idle();
  QDQ_CHECK(impl_->takes_range(index), kInvalidArgument, "the observer ", index, " (",
            impl_->groups[index].observer->class_name(),
            ") takes no range; wanted one of static integers whose scale nothing fixes and nothing derives from");
  std::shared_ptr<Observer>& observer = impl_->groups[index].observer;
  ObserverArgs args = observer->args();
  args.quant_min = observer->quant_min();
  args.quant_max = observer->quant_max();
  args.reduce_range = false;
  args.eps = 0x1p-40;
  const bool per_channel = is_per_channel(args.qscheme);
  auto replacement = make_observer(args.group_size != 0 ? "PerGroupMinMaxObserver"
                                   : per_channel        ? "PerChannelMinMaxObserver"
                                                        : "MinMaxObserver",
                                   args);
  const std::vector<float> least = floats_of(min), largest = floats_of(max);
  QDQ_CHECK(least.size() == largest.size() && !least.empty() &&
                (!per_channel || least.size() == observer->calculate_qparams().scale.size()),
            kInvalidArgument, "the range of observer ", index, " has ", least.size(), " least and ", largest.size(),
            " largest values, which does not fit");
  for (size_t i = 0; i < least.size(); ++i)
    QDQ_CHECK(least[i] <= largest[i] && std::isfinite(least[i]) && std::isfinite(largest[i]), kInvalidArgument,
              "the range of observer ", index, " is ", least[i], " to ", largest[i],
              ", wanted finite numbers in order");
  replacement->set_state(min, max, {});
  if (impl_->of_constants.erase(observer.get()) != 0) impl_->of_constants.insert(replacement.get());
  observer = std::move(replacement);
  impl_->interpreter.reset();
}

}  // namespace qdq
