#include "recover/simulation.h"

#include <algorithm>
#include <map>

#include "base/disk_blocks.h"
#include "graph/dead_code.h"
#include "op/composed.h"
#include "op/targets.h"
#include "quant/layers.h"
#include "quant/observers/fake_quantize.h"
#include "quant/prepared_impl.h"
#include "recover/judged_outputs.h"

namespace qdq {

namespace {

Interpreter float_interpreter_of(const Program& program, const std::vector<OpBackend*>& backends) {
  Interpreter out(program, backends);
  out.set_module_handler([](const Node&, std::span<const Value> args, const kernel::MinMax*) { return args[0]; });
  return out;
}

Value call(std::string_view target, std::vector<Value> args) {
  return run_op<Tensor>(*find_op(target), std::move(args));
}

// Rounds each row along the last axis by a scale and zero point of its own.
Tensor rounded_by_token(const Tensor& x, const Observer& observer) {
  const DType dtype = observer.args().dtype;
  const Value choice = call(op::kChooseQParamsPerToken, {x, dtype});
  std::vector<Value> args = {x, item<Tensor>(choice, 0), item<Tensor>(choice, 1), min_of(dtype), max_of(dtype), dtype};
  args[0] = call(op::kQuantizePerToken, args);
  args.emplace_back(x.dtype());
  return *call(op::kDequantizePerToken, std::move(args)).get_if<Tensor>();
}

// Rounds a weight whose rows are cut into groups.
Tensor rounded_by_group(const Tensor& x, const QParams& qparams, const Observer& observer) {
  const Shape sizes = {x.size(0), x.size(1) / observer.args().group_size};
  std::vector<Value> args = {x,
                             Tensor::of<float>(sizes, std::span<const float>(qparams.scale)),
                             Tensor::of<int64_t>(sizes, std::span<const int64_t>(qparams.zero_point)).to(DType::kS32),
                             observer.quant_min(),
                             observer.quant_max(),
                             observer.args().dtype,
                             observer.args().group_size};
  args[0] = call(op::kQuantizeGroups, args);
  args.emplace_back(x.dtype());
  return *call(op::kDequantizeGroups, std::move(args)).get_if<Tensor>();
}

}  // namespace

Interpreter float_interpreter(const Prepared& prepared) {
  const Prepared::Impl& impl = Prepared::Impl::of(prepared);
  return float_interpreter_of(impl.program, impl.backends);
}

FloatProgram::FloatProgram(const Prepared& prepared)
    : program_(prepared.program().clone(&copies_)), backends_(Prepared::Impl::of(prepared).backends) {
  for (const auto& [name, value] : Prepared::Impl::of(prepared).float_constants)
    program_.find_attribute(name)->tensor = value;
  for (const auto& [node, copy] : copies_) originals_[copy] = node;
}

Interpreter FloatProgram::interpreter() const { return float_interpreter_of(program_, backends_); }

void FloatProgram::judge() { add_judged_outputs(program_); }

const Node* FloatProgram::node(const Node& of_prepared) const {
  const auto found = copies_.find(&of_prepared);
  return found == copies_.end() ? nullptr : found->second;
}

const Node* FloatProgram::original(const Node& node) const {
  const auto found = originals_.find(&node);
  return found == originals_.end() ? nullptr : found->second;
}

Simulation::Simulation(Prepared& prepared) : prepared_(prepared), program_(prepared.program().clone(&copies_)) {
  add_judged_outputs(program_);
  const Prepared::Impl& impl = Prepared::Impl::of(prepared);
  rounders_.resize(impl.groups.size());
  for (const Node* node : prepared.program().graph->nodes()) {
    const auto group = impl.group_of_module(*node);
    if (!group) continue;
    Node* copy = copies_.at(node);
    if (impl.of_constants.count(impl.groups[*group].observer.get()) == 0) {
      observer_of_[copy] = *group;
      continue;
    }
    const std::string name = program_.unique_attribute_name("rounded");
    program_.add_attribute({name, impl.program.attribute_of(*node->arg(0).node())});
    Node* constant = nullptr;
    {
      const auto point = program_.graph->insert_before(copy);
      constant = program_.graph->get_attr(name);
      constant->meta.val = copy->meta.val;
    }
    copy->replace_all_uses_with(constant);
    program_.graph->erase(copy);
    copies_.erase(node);
    constants_.push_back({node->arg(0).node(), name, *group, {}, nullptr});
  }
  eliminate_dead_code(program_);
  std::unordered_map<const Node*, bool> left;
  for (const Node* node : program_.graph->nodes()) left[node] = true;
  std::erase_if(copies_, [&](const auto& pair) { return left.count(pair.second) == 0; });
  interpreter_ = std::make_unique<Interpreter>(program_, impl.backends);
  interpreter_->set_module_handler([this](const Node& node, std::span<const Value> args, const kernel::MinMax*) {
    const Rounder& rounder = rounders_[observer_of_.at(&node)];
    if (const Tensor* x = args[0].get_if<Tensor>(); keeps_unrounded_ && x) seen_[&node] = *x;
    return rounder.rounds && bypassed_.count(&node) == 0 ? Value(rounded(rounder, *args[0].get_if<Tensor>())) : args[0];
  });
  refresh();
}

void Simulation::set_rounding(size_t observer, bool rounds) {
  if (std::exchange(rounders_[observer].rounds, rounds) == rounds) return;
  ++version_;
  refresh();
}

void Simulation::set_rounding_to_few(bool rounds) {
  for (const Constant& constant : constants_)
    if (has_few_integers(*rounders_[constant.observer].observer)) set_rounding(constant.observer, rounds);
}

void Simulation::bypass(const Node& module) {
  if (bypassed_.insert(copies_.at(&module)).second) ++version_;
}

void Simulation::refresh() {
  const Prepared::Impl& impl = Prepared::Impl::of(prepared_);
  for (size_t i = 0; i < rounders_.size(); ++i) {
    const std::shared_ptr<Observer>& observer = impl.groups[i].observer;
    if (rounders_[i].observer == observer) continue;
    rounders_[i].observer = observer;
    ++version_;
    if (quantizes_statically(*observer)) rounders_[i].qparams = observer->calculate_qparams_or_default();
  }
  for (Attribute& attribute : program_.attributes)
    if (const Attribute* original = impl.program.find_attribute(attribute.name)) {
      if (original->tensor.raw() != attribute.tensor.raw()) ++version_;
      attribute.tensor = original->tensor;
    }
  const BlocksOnDisk as_the_weights(has_disk_blocks());
  for (Constant& constant : constants_) {
    const Tensor& value = impl.program.attribute_of(*constant.observed);
    const Rounder& rounder = rounders_[constant.observer];
    const Observer* by = rounder.rounds ? rounder.observer.get() : nullptr;
    if (constant.source.defined() && constant.source.raw() == value.raw() && constant.rounded_by == by) continue;
    constant.source = value;
    constant.rounded_by = by;
    Tensor& simulated = program_.find_attribute(constant.attribute)->tensor;
    simulated = by ? rounded(rounder, value) : value;
    for (const Tensor& used : {value, simulated}) release_pages({used.storage()->data(), used.storage()->size()});
  }
}

// What convert_pt2e would put in the place of the observer.
Tensor Simulation::rounded(const Rounder& rounder, const Tensor& x) const {
  const Observer& observer = *rounder.observer;
  const IntegerRange limits{observer.quant_min(), observer.quant_max()};
  if (observer.args().group_size != 0) return rounded_by_group(x, rounder.qparams, observer);
  if (quantizes_statically(observer)) return fake_quantized(x, rounder.qparams, observer.args(), limits);
  if (rounds_to_half(observer, Prepared::Impl::of(prepared_).compat)) return x.to(observer.args().dtype).to(x.dtype());
  if (!observer.args().is_dynamic || x.numel() == 0) return x;
  if (observer.args().qscheme == QScheme::kPerTokenAffine) return rounded_by_token(x, observer);
  const FloatRange range = range_of(x);
  const QParams qparams = qparams_of_range(std::span(&range.min, 1), std::span(&range.max, 1), observer.args(), limits);
  return fake_quantized(x, qparams, observer.args(), limits);
}

std::vector<Tensor> Simulation::run(const std::vector<Tensor>& inputs) { return interpreter_->run(inputs); }
Interpreter::Walk Simulation::walk(const std::vector<Tensor>& inputs) {
  return Interpreter::Walk(*interpreter_, inputs);
}

const Node* Simulation::node(const Node& of_prepared) const {
  const auto found = copies_.find(&of_prepared);
  return found == copies_.end() ? nullptr : found->second;
}

std::optional<size_t> Simulation::observer_behind(const Node& input) const {
  for (const Constant& constant : constants_)
    if (input.op() == Node::Op::kGetAttr && input.target() == constant.attribute) return constant.observer;
  return observer_of(input);
}

Tensor Simulation::rounded(size_t observer, const Tensor& x) const { return rounded(rounders_[observer], x); }

Tensor Simulation::unrounded(const Node& input) const {
  for (const Constant& constant : constants_)
    if (input.op() == Node::Op::kGetAttr && input.target() == constant.attribute) return constant.source;
  const auto found = seen_.find(&input);
  return found == seen_.end() ? Tensor() : found->second;
}

std::optional<size_t> Simulation::observer_of(const Node& node) const {
  const auto found = observer_of_.find(&node);
  return found == observer_of_.end() ? std::nullopt : std::optional<size_t>(found->second);
}

bool has_known_rows(const Program& program, const Node& rows) {
  std::map<std::string, int64_t> symbols;
  for (const Node* input : program.graph->placeholders())
    if (const TensorMeta* meta = input->meta.val.tensor())
      for (const SymInt& size : meta->sizes) symbols.emplace(size.to_string(), 1);
  const TensorMeta* meta = rows.meta.val.tensor();
  return meta != nullptr && std::all_of(meta->sizes.begin(), meta->sizes.end(),
                                        [&](const SymInt& size) { return size.evaluate(symbols).has_value(); });
}

}  // namespace qdq
