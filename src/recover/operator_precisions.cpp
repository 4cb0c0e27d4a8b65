#include "recover/operator_precisions.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/stable_sort.h"
#include "op/math.h"
#include "quant/observers/observer_statistics.h"
#include "quant/layers.h"

namespace qdq {

namespace {

struct PrecisionName {
  Precision precision;
  std::string_view name;
  const char* reason;  // that explain() gives
};
constexpr PrecisionName kPrecisions[] = {
    {Precision::kInt8, "int8", ""},
    {Precision::kInt8Weights, "int8-weights", "its weight has 8 bits so that the outputs reach what is wished"},
    {Precision::kInt16, "int16", "it reads activations of 16 bits so that the outputs reach what is wished"},
    {Precision::kBf16, "bf16", "it was left in bfloat16 so that the outputs reach what is wished"},
    {Precision::kFloat, "float", "it was left in float so that the outputs reach the target"},
};

const PrecisionName& named(Precision precision) {
  return *std::find_if(std::begin(kPrecisions), std::end(kPrecisions),
                       [&](const PrecisionName& each) { return each.precision == precision; });
}

std::shared_ptr<Observer> observer_of_16_bits(float largest) {
  // What is larger than all that the samples show is not cut: a bit is to spare.
  constexpr float kSpare = 2;
  const float reach = std::max(largest * kSpare, 0x1p-100f);
  ObserverArgs args = default_observer_args("MinMaxObserver");
  args.dtype = DType::kS16;
  args.qdtype = QDType::kPlain;
  args.qscheme = QScheme::kPerTensorSymmetric;
  args.quant_min = -32768;
  args.quant_max = 32767;
  args.eps = 0x1p-120;
  auto out = make_observer("MinMaxObserver", args);
  out->set_state(Tensor::scalar(-reach), Tensor::scalar(reach), {});
  return out;
}

// The same for weights of 8 bits, which has seen the weight.
std::shared_ptr<Observer> observer_of_8_bits(const Observer& narrow, const Tensor& weight) {
  ObserverArgs args = narrow.args();
  const bool is_signed = narrow.quant_min() < 0, is_even = narrow.quant_min() == -narrow.quant_max();
  if (args.qdtype == QDType::kQuint4x2) args.qdtype = QDType::kQuantized;
  args.quant_min = is_even ? -127 : is_signed ? -128 : 0;
  args.quant_max = is_signed ? 127 : 255;
  auto out = make_observer(narrow.class_name(), args);
  out->forward(weight);
  return out;
}

std::shared_ptr<Observer> observer_of_bf16() {
  ObserverArgs args = default_observer_args("PlaceholderObserver");
  args.dtype = DType::kBF16;
  args.qdtype = QDType::kPlain;
  return make_observer("PlaceholderObserver", args);
}

}  // namespace

std::string_view to_string(Precision precision) { return named(precision).name; }

Precision precision_from_name(std::string_view name) {
  for (const PrecisionName& each : kPrecisions)
    if (each.name == name) return each.precision;
  fail(ErrorCode::kInvalidArgument, "there is no precision '", name, "'; wanted int8-weights, int16, bf16 or float");
}

std::vector<Precision> default_precisions(const Prepared& prepared, bool within_limits) {
  const std::vector<QuantizedLayer> layers = quantized_layers(prepared);
  const std::vector<ObserverGroup>& groups = Prepared::Impl::of(prepared).groups;
  std::vector<Precision> out;
  if (std::any_of(layers.begin(), layers.end(), [&](const QuantizedLayer& layer) {
        return has_few_integers(*groups[layer.weight_observer].observer);
      }))
    out.push_back(Precision::kInt8Weights);
  if (within_limits) out.insert(out.end(), {Precision::kInt16, Precision::kBf16});
  out.push_back(Precision::kFloat);
  return out;
}

bool costs_bytes(const std::vector<Precision>& precisions) {
  return std::find(precisions.begin(), precisions.end(), Precision::kInt8Weights) != precisions.end();
}

OperatorPrecisions::OperatorPrecisions(Recovery& recovery, std::vector<Sensitivity> sensitivities)
    : recovery_(recovery), impl_(Prepared::Impl::of(recovery.prepared())) {
  sort_stably(sensitivities, [](const Sensitivity& a, const Sensitivity& b) { return a.alone < b.alone; });
  for (Sensitivity& sensitivity : sensitivities)
    if (Node* node = impl_.program.graph->find(sensitivity.node)) candidates_.push_back({node, std::move(sensitivity)});
  for (const Precision precision : {Precision::kInt8Weights, Precision::kInt16, Precision::kBf16, Precision::kFloat})
    orders_[static_cast<size_t>(precision)] = find_order(precision);
}

OperatorPrecisions::~OperatorPrecisions() { raise_to(kept_, kept_others_); }

const Tensor* OperatorPrecisions::narrow_weight(const Candidate& candidate, const Observer** observer) const {
  for (const Node* input : candidate.node->input_nodes()) {
    const auto constant = own_constant(impl_, input);
    if (!constant || !constant->observer || !has_few_integers(*impl_.groups[*constant->observer].observer)) continue;
    *observer = impl_.groups[*constant->observer].observer.get();
    const auto unrounded = impl_.float_constants.find(constant->name);
    return unrounded != impl_.float_constants.end() ? &unrounded->second
                                                    : &impl_.program.find_attribute(constant->name)->tensor;
  }
  return nullptr;
}

std::vector<size_t> OperatorPrecisions::find_order(Precision precision) const {
  const auto reads_static_integers = [&](const Candidate& candidate) {
    const std::vector<Node*> inputs = candidate.node->input_nodes();
    return std::any_of(inputs.begin(), inputs.end(), [&](const Node* input) {
      const auto group = impl_.group_of_module(*input);
      return group && quantizes_statically(*impl_.groups[*group].observer) &&
             impl_.of_constants.count(impl_.groups[*group].observer.get()) == 0;
    });
  };
  std::vector<size_t> out;
  std::vector<double> decibels(candidates_.size());  // of the harm of one weight
  for (size_t i = 0; i < candidates_.size(); ++i) {
    const Observer* observer = nullptr;
    const Tensor* weight = narrow_weight(candidates_[i], &observer);
    if (precision == Precision::kInt8Weights ? weight == nullptr
                                             : precision == Precision::kInt16 && !reads_static_integers(candidates_[i]))
      continue;
    if (weight != nullptr && weight->numel() > 0)
      decibels[i] =
          candidates_[i].what.alone + 10 / std::numbers::ln10 * math::log(static_cast<double>(weight->numel()));
    out.push_back(i);
  }
  if (precision == Precision::kInt8Weights)
    sort_stably(out, [&](size_t a, size_t b) { return decibels[a] < decibels[b]; });
  return out;
}

OperatorPrecisions::Raised OperatorPrecisions::raised_with(Precision precision, size_t count, Precision others) const {
  Raised out;
  std::vector<bool> is_raised(candidates_.size());
  for (size_t i = 0; i < count && precision != Precision::kInt8; ++i) {
    out.emplace_back(order_of(precision)[i], precision);
    is_raised[out.back().first] = true;
  }
  for (const size_t candidate : order_of(others))
    if (!is_raised[candidate]) out.emplace_back(candidate, others);
  return out;
}

void OperatorPrecisions::raise_to(Raised wanted, Precision others) {
  if (raised_ == wanted && others_ == others) return;
  const auto differs = std::mismatch(raised_.begin(), raised_.end(), wanted.begin(), wanted.end()).first;
  const size_t common = others == others_ ? static_cast<size_t>(differs - raised_.begin()) : 0;
  for (; raised_.size() > common; raised_.pop_back()) restore(candidates_[raised_.back().first]);
  others_ = others;
  for (size_t i = common; i < wanted.size(); ++i) raise(candidates_[wanted[i].first], wanted[i].second);
  raised_ = std::move(wanted);
  impl_.interpreter.reset();
  recovery_.forget_simulation();
}

void OperatorPrecisions::set(Precision precision, size_t count, Precision others) {
  raise_to(raised_with(precision, count, others), others);
}

void OperatorPrecisions::keep(Precision precision, size_t count, Precision others) {
  set(precision, count, others);
  kept_ = raised_;
  kept_others_ = others;
  // The last note that was taken is what explain() tells.
  for (const auto& [candidate, has] : kept_)
    impl_.annotations.note(candidates_[candidate].node, {"", "", true, named(has).reason});
}

void OperatorPrecisions::raise(Candidate& candidate, Precision precision) {
  candidate.args = candidate.node->args();
  candidate.kwargs = candidate.node->kwargs();
  std::unordered_map<const Node*, Node*> read;
  const Observer* narrow = nullptr;
  if (precision != Precision::kInt16 ||
      (others_ == Precision::kInt8Weights && narrow_weight(candidate, &narrow) != nullptr))
    for (const Node* input : candidate.node->input_nodes())
      if (const auto constant = own_constant(impl_, input)) exchange_constant(candidate, constant->name);
  for (Node* input : candidate.node->input_nodes()) read[input] = input_at(candidate, input, precision);
  const auto instead = [&](Node* node) { return read.at(node); };
  std::vector<Argument> args = candidate.args;
  for (Argument& argument : args) argument = argument.map_nodes(instead);
  Node::Kwargs kwargs = candidate.kwargs;
  for (auto& [name, argument] : kwargs) argument = argument.map_nodes(instead);
  candidate.node->set_args(std::move(args));
  candidate.node->set_kwargs(std::move(kwargs));
}

void OperatorPrecisions::restore(Candidate& candidate) {
  candidate.node->set_args(std::exchange(candidate.args, {}));
  candidate.node->set_kwargs(std::exchange(candidate.kwargs, {}));
  for (const auto& [name, value] : std::exchange(candidate.constants, {}))
    impl_.program.find_attribute(name)->tensor = value;
  for (Node* node : std::exchange(candidate.inserted, {})) {
    const size_t group = *impl_.group_of_module(*node);
    impl_.of_constants.erase(impl_.groups[group].observer.get());
    impl_.groups.erase(impl_.groups.begin() + static_cast<std::ptrdiff_t>(group));
    impl_.modules.erase(node->target());
    impl_.program.graph->erase(node);
  }
}

// Gives a constant that the operator alone reads the value of the float program.
void OperatorPrecisions::exchange_constant(Candidate& candidate, const std::string& name) {
  Tensor& tensor = impl_.program.find_attribute(name)->tensor;
  candidate.constants.emplace_back(name, tensor);
  if (const auto found = impl_.float_constants.find(name); found != impl_.float_constants.end()) tensor = found->second;
}

Node* OperatorPrecisions::input_at(Candidate& candidate, Node* input, Precision precision) {
  const auto group = impl_.group_of_module(*input);
  if (!group) return input;
  Node* const value = input->arg(0).node();
  const Observer& observer = *impl_.groups[*group].observer;
  const bool is_constant = impl_.of_constants.count(&observer) != 0;
  if (precision == Precision::kInt8Weights || (precision == Precision::kInt16 && others_ == Precision::kInt8Weights)) {
    if (is_constant && has_few_integers(observer))
      return observed(candidate, value, observer_of_8_bits(observer, impl_.program.attribute_of(*value)), true);
    if (precision == Precision::kInt8Weights) return input;
  }
  if (precision == Precision::kFloat || !quantizes_statically(observer)) return value;
  if (precision == Precision::kBf16) return observed(candidate, value, observer_of_bf16(), is_constant);
  // A bias of 32 bits has the scales of the 8-bit activations.
  if (is_constant) return observer.args().dtype == DType::kS32 ? value : input;
  return observed(candidate, value, observer_of_16_bits(largest_of(*input)), false);
}

Node* OperatorPrecisions::observed(Candidate& candidate, Node* value, std::shared_ptr<Observer> observer,
                                   bool is_constant) {
  size_t number = impl_.modules.size();
  std::string module;
  do module = concat("activation_post_process_", number++);
  while (impl_.modules.count(module) != 0);
  impl_.modules[module] = impl_.groups.size();
  const auto point = impl_.program.graph->insert_before(candidate.node);
  Node* node = impl_.program.graph->create(Node::Op::kCallModule, module, {value});
  node->meta.val = value->meta.val;
  if (is_constant) impl_.of_constants.insert(observer.get());
  impl_.groups.push_back({std::move(observer), {Edge(value, candidate.node)}, {node->name()}, {}});
  candidate.inserted.insert(candidate.inserted.begin(), node);  // the last group goes first
  return node;
}

// Of all observers at once, when one is asked for.
float OperatorPrecisions::largest_of(const Node& value) {
  if (largest_.empty()) {
    Interpreter floats(impl_.program, impl_.backends);
    floats.set_module_handler([&](const Node& node, std::span<const Value> args, const kernel::MinMax*) {
      const Tensor* x = args[0].get_if<Tensor>();
      if (x != nullptr && is_floating(x->dtype()) && x->numel() > 0) {
        const FloatRange range = finite_range_of(*x);
        float& largest = largest_[&node];
        largest = std::max({largest, std::fabs(range.min), std::fabs(range.max)});
      }
      return args[0];
    });
    for (const Batch& batch : recovery_.batches()) {
      recovery_.tell_again();
      floats.run(batch);
    }
  }
  const auto found = largest_.find(&value);
  return found == largest_.end() ? 0 : found->second;
}

}  // namespace qdq
