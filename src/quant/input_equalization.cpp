// Input-weight equalization of FX graph mode.
#include "quant/input_equalization.h"

#include <algorithm>
#include <cmath>

#include "op/facts.h"
#include "op/targets.h"
#include "quant/observers/observer_statistics.h"
#include "quant/prepared_impl.h"

namespace qdq {

namespace {

bool is_convolution(const Node& node) { return is_a(node, Family::kConvolution); }

// The constant behind an observer or without; null: it is computed.
Node* constant_behind(const Prepared::Impl& prepared, Node* value) {
  while (value != nullptr && prepared.group_of_module(*value)) value = value->arg(0).node();
  return value != nullptr && value->op() == Node::Op::kGetAttr ? value : nullptr;
}

bool is_read_once(const Graph& graph, const Node& constant) {
  const std::vector<Node*> nodes = graph.nodes();
  return constant.users().size() == 1 && std::count_if(nodes.begin(), nodes.end(), [&](const Node* node) {
                                           return node->op() == Node::Op::kGetAttr &&
                                                  node->target() == constant.target();
                                         }) == 1;
}

int64_t channel_axis(const Node& layer, int64_t rank, Compat compat) {
  if (compat == Compat::kTorch26) return 1;
  if (!is_convolution(layer)) return rank - 1;
  return rank - static_cast<int64_t>(weight_of(layer)->meta.val.tensor()->sizes.size()) + 1;
}

// Why a layer cannot be equalized; empty: it can.
std::string obstacle(const Prepared::Impl& prepared, const Node& layer, Compat compat) {
  const Node* input = layer.arg(0).node();
  const auto group = input ? prepared.group_of_module(*input) : std::nullopt;
  if (!group || input->meta.val.tensor() == nullptr) return "its input is not observed";
  Node* weight = constant_behind(prepared, weight_of(layer));
  if (weight == nullptr || !prepared.program.find_attribute(weight->target())) return "its weight is not a constant";
  if (compat == Compat::kTorch26) return {};
  if (prepared.groups[*group].inserted_as.size() != 1 || input->users().size() != 1)
    return "others read its input through the same observer";
  if (!is_read_once(*prepared.program.graph, *weight)) return "others read its weight";
  const SymShape& of_input = input->meta.val.tensor()->sizes;
  const int64_t axis = channel_axis(layer, static_cast<int64_t>(of_input.size()), compat);
  const Tensor& values = prepared.program.find_attribute(weight->target())->tensor;
  if (values.dtype() != DType::kF32 || values.dim() < 2 ||
      of_input[static_cast<size_t>(axis)] != SymInt(values.size(1)))
    return "its channels are in groups";
  return {};
}

using Scale = std::vector<float>;

// x with element i multiplied by the factor of its place along an axis.
Tensor scaled_along(const Tensor& x, int64_t axis, const Scale& by) {
  const Tensor out = x.contiguous().clone();
  int64_t inner = 1;
  for (int64_t i = axis + 1; i < out.dim(); ++i) inner *= out.size(i);
  const std::span<float> values = out.span<float>();
  for (size_t i = 0; i < values.size(); ++i) values[i] *= by[i / static_cast<size_t>(inner) % by.size()];
  return out;
}

class Equalizer {
 public:
  Equalizer(Program& program, const Prepared::Impl& prepared, std::vector<ObserverGroup>& groups)
      : program_(program), graph_(*program.graph), prepared_(prepared), groups_(groups) {}

  void run() {
    if (!prepared_.equalized.empty()) compat_ = prepared_.equalized[0].compat;
    for (const EqualizedLayer& layer : prepared_.equalized) add(layer);
    for (Part& part : parts_) connect(part);
    for (const Part& part : parts_) scale_weight(part);
    for (const Part& part : parts_) scale_input(part);
  }

 private:
  struct Part {
    Node *layer, *observer, *weight;
    Scale least, largest, scale;
    const Scale* next = nullptr;  // of the layer that reads what this one gives
    bool is_connected = false;    // what is in front gives the scaled input
    bool keeps_range = false;     // of the observer of its input
  };

  void add(const EqualizedLayer& from) {
    if (!from.input->calibrated()) {
      QDQ_CHECK(from.compat == Compat::kTorch26, kNotCalibrated, "the input of ", from.node,
                ", which is to be equalized with its weight, has not been seen; run the calibration batches first "
                "(files of observers do not hold it)");
      return;
    }
    Part part{graph_.find(from.node), graph_.find(from.observed_as), nullptr, {}, {}, {}};
    part.weight = constant_behind(prepared_, weight_of(*part.layer));
    const Tensor least = from.input->min_val().contiguous(), largest = from.input->max_val().contiguous();
    part.least.assign(least.span<float>().begin(), least.span<float>().end());
    part.largest.assign(largest.span<float>().begin(), largest.span<float>().end());
    const ChannelRanges columns = channel_ranges_of(program_.attribute_of(*part.weight), 1);
    QDQ_CHECK(columns.min.size() == part.least.size(), kInvalidArgument, "the input of ", from.node, " has ",
              part.least.size(), " channels and its weight ", columns.min.size(),
              "; only layers can be equalized where they are as many, without groups");
    for (size_t c = 0; c < columns.min.size(); ++c) {
      const float s = std::sqrt((columns.max[c] - columns.min[c]) / (part.largest[c] - part.least[c]));
      part.scale.push_back(std::isfinite(s) && s != 0 ? s : 1);
    }
    parts_.push_back(std::move(part));
  }

  void connect(Part& part) {
    Node *value = part.observer->arg(0).node(), *layer = value;
    const bool has_relu = is_form_of(*value, op::kRelu);
    if (has_relu) layer = value->arg(0).node();
    const auto before = std::find_if(parts_.begin(), parts_.end(), [&](const Part& p) { return p.layer == layer; });
    if (compat_ == Compat::kTorch26) {
      part.is_connected = part.keeps_range = has_relu || is_convolution(*layer) || layer->is(op::kLinear);
      if (before != parts_.end()) before->next = &part.scale;
      return;
    }
    if (before == parts_.end() || value->users().size() != 1 || layer->users().size() != 1) return;
    const Node* bias = layer->arg(2).node();
    const Node* constant = bias ? constant_behind(prepared_, layer->arg(2).node()) : nullptr;
    if (bias && (!constant || constant != bias || !is_read_once(graph_, *constant))) return;
    before->next = &part.scale;
    part.is_connected = true;
  }

  void scale_weight(const Part& part) {
    Scale inverse;
    for (const float s : part.scale) inverse.push_back(1 / s);
    Tensor weight = scaled_along(program_.attribute_of(*part.weight), 1, inverse);
    if (part.next) weight = scaled_along(weight, 0, *part.next);
    replace(*part.weight, weight);
    Node* bias = part.layer->arg(2).node();
    if (part.next && bias) {
      Node* constant = constant_behind(prepared_, bias);
      replace(*constant, scaled_along(program_.attribute_of(*constant), 0, *part.next));
    }
    if (const auto group = prepared_.group_of_module(*weight_of(*part.layer))) {
      const Observer& observer = *groups_[*group].observer;
      groups_[*group].observer = make_observer(observer.class_name(), observer.args());
      groups_[*group].observer->forward(weight);
    }
  }

  void scale_input(const Part& part) {
    const size_t group = prepared_.group_of_module(*part.observer).value();
    if (!part.keeps_range && prepared_.takes_range(group)) scale_range(part, groups_[group].observer);
    if (part.is_connected) return;
    Node* value = part.observer->arg(0).node();
    const auto rank = static_cast<int64_t>(value->meta.val.tensor()->sizes.size());
    std::vector<int64_t> sizes(static_cast<size_t>(rank), 1);
    sizes[static_cast<size_t>(channel_axis(*part.layer, rank, compat_))] = static_cast<int64_t>(part.scale.size());
    const std::string name = program_.unique_attribute_name(value->name() + "_equalization_scale");
    program_.add_attribute(
        {name, Tensor::of<float>(sizes, std::span<const float>(part.scale)), Attribute::Kind::kBuffer, true, false});
    const auto point = graph_.insert_before(part.observer);
    Node* scale = graph_.get_attr(name);
    scale->meta.val.value = TensorMeta{DType::kF32, SymShape(sizes.begin(), sizes.end()), {}, false};
    Node* product = graph_.call(std::string(op::kMul), {value, scale});
    product->meta.val = value->meta.val;
    product->meta.nn_module_stack = part.layer->meta.nn_module_stack;
    part.observer->replace_input_with(value, product);
  }

  // PyTorch keeps the histogram of an observer, whatever is between the new ends.
  void scale_range(const Part& part, std::shared_ptr<Observer>& observer) const {
    float least = INFINITY, largest = -INFINITY;
    for (size_t c = 0; c < part.scale.size(); ++c) {
      least = std::min(least, part.least[c] * part.scale[c]);
      largest = std::max(largest, part.largest[c] * part.scale[c]);
    }
    const bool keeps_class = compat_ == Compat::kTorch26;
    ObserverArgs args = observer->args();
    if (!keeps_class) {
      args.quant_min = observer->quant_min();
      args.quant_max = observer->quant_max();
      args.reduce_range = false;
    }
    auto scaled = make_observer(keeps_class ? observer->class_name() : "MinMaxObserver", args);
    scaled->set_state(Tensor::of<float>({}, {least}), Tensor::of<float>({}, {largest}),
                      keeps_class ? observer->histogram() : Tensor());
    observer = std::move(scaled);
  }

  // Others keep the old values.
  void replace(Node& constant, const Tensor& values) {
    const Attribute* old = program_.find_attribute(constant.target());
    const std::string name = program_.unique_attribute_name(constant.target() + "_equalized");
    program_.add_attribute({name, values, old->kind, old->persistent, false});
    constant.set_target(name);
  }

  Program& program_;
  Graph& graph_;
  const Prepared::Impl& prepared_;
  std::vector<ObserverGroup>& groups_;
  Compat compat_ = Compat::kNone;
  std::vector<Part> parts_;
};

}  // namespace

std::vector<EqualizedLayer> equalized_layers(const Prepared::Impl& prepared, const LayersToEqualize& layers,
                                             std::vector<std::string>& warnings) {
  std::vector<EqualizedLayer> out;
  for (const std::string& name : layers.nodes) {
    const Node& layer = *prepared.program.graph->find(name);
    if (const std::string why = obstacle(prepared, layer, layers.compat); !why.empty()) {
      warnings.push_back(concat("the input of ", name, " is not equalized: ", why));
      continue;
    }
    const Node* input = layer.arg(0).node();
    ObserverArgs args = default_observer_args("PerChannelMinMaxObserver");
    args.ch_axis = channel_axis(layer, static_cast<int64_t>(input->meta.val.tensor()->sizes.size()), layers.compat);
    out.push_back({name, input->name(), make_observer("PerChannelMinMaxObserver", args), layers.compat});
  }
  return out;
}

void equalize_inputs(Program& program, const Prepared::Impl& prepared, std::vector<ObserverGroup>& groups) {
  Equalizer(program, prepared, groups).run();
}

}  // namespace qdq
