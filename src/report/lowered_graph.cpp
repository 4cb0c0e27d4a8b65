// Sessions as fused calls.
#include "report/lowered_graph.h"

#include <map>
#include <set>

#include "format/bytes.h"
#include "format/json.h"
#include "lower/plan.h"
#include "report/graph_report.h"

namespace qdq {

namespace {

using format::Json;
using format::json_object;

Json symbolic_shape(const SymShape& shape) {
  Json out = Json::array();
  for (const SymInt& size : shape) {
    if (const auto constant = size.constant()) out.push_back(*constant);
    else out.push_back(size.to_string());
  }
  return out;
}

Json json_of_window(const Window2d& w) {
  return json_object({{"kernel", Json::array({w.kernel_h, w.kernel_w})},
                      {"stride", Json::array({w.stride_h, w.stride_w})},
                      {"padding", Json::array({w.pad_h, w.pad_w})},
                      {"dilation", Json::array({w.dilation_h, w.dilation_w})}});
}

void add_qparams(const PlanQParams& qparams, Json& out) {
  out["scale"] = qparams.scale;
  out["zero_point"] = qparams.zero_point;
  out["quant_min"] = qparams.qmin;
  out["quant_max"] = qparams.qmax;
}

class Writer {
 public:
  explicit Writer(const Session& session) : plans_(session.plans()), program_(session.program()) {
    for (const Node* node : program_.graph->nodes()) {
      used_.insert(node->name());
      names_[node] = node->name();
    }
  }

  LoweredGraph write() {
    Json inputs = Json::array(), outputs = Json::array();
    for (const Node* node : program_.graph->nodes()) {
      switch (node->op()) {
        case Node::Op::kPlaceholder:
          inputs.push_back(node->name());
          add_value(*node);
          break;
        case Node::Op::kGetAttr:
          out_.tensors.push_back({node->name(), program_.attribute_of(*node)});
          add_value(*node);
          break;
        case Node::Op::kCallModule: add_plan(*node); break;
        case Node::Op::kCallFunction: add_call(*node); break;
        case Node::Op::kOutput:
          for (const Argument& argument : node->args()) outputs.push_back(json_of_argument(argument));
          break;
      }
    }
    Json json = json_object({{"inputs", std::move(inputs)}, {"outputs", std::move(outputs)}});
    json["values"] = std::move(values_);
    json["calls"] = std::move(calls_);
    out_.json = format::print_json(json);
    return std::move(out_);
  }

 private:
  void add_value(const Node& node) {
    const TensorMeta* meta = node.meta.val.tensor();
    if (meta == nullptr) return;
    values_[node.name()] =
        json_object({{"dtype", std::string(to_string(meta->dtype))}, {"shape", symbolic_shape(meta->sizes)}});
  }

  // Nodes by the names of their values: what takes a result out of a plan has that result's.
  Json json_of_argument(const Argument& argument) const {
    if (argument.is_node()) return json_object({{"node", names_.at(argument.node())}});
    if (!argument.is_list()) return json_of(argument);
    Json out = Json::array();
    for (const Argument& element : argument.list()) out.push_back(json_of_argument(element));
    return out;
  }

  void add_call(const Node& node) {
    const Node* producer = node.is("operator.getitem") ? node.arg(0).node() : nullptr;
    const auto results = producer == nullptr ? results_.end() : results_.find(producer);
    if (results != results_.end()) {
      names_[&node] = results->second.at(static_cast<size_t>(node.arg(1).integer().value_or(0)));
      return;
    }
    Json call = json_object({{"name", node.name()}, {"target", node.target()}});
    call["args"] = Json::array();
    for (const Argument& argument : node.args()) call["args"].push_back(json_of_argument(argument));
    call["kwargs"] = Json::object();
    for (const auto& [name, value] : node.kwargs()) call["kwargs"][name] = json_of_argument(value);
    calls_.push_back(std::move(call));
    add_value(node);
  }

  std::string unique(const std::string& name) {
    std::string out = name;
    for (int number = 1; !used_.insert(out).second; ++number) out = concat(name, ".", number);
    return out;
  }

  void add_plan(const Node& node) {
    const Plan& plan = plans_.at(static_cast<size_t>(std::stoul(node.target().substr(5))));
    std::vector<std::string> names(plan.buffers.size());
    for (size_t i = 0; i < plan.inputs.size(); ++i) names[plan.inputs[i]] = names_.at(node.arg(i).node());
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i].empty()) names[i] = unique(plan.buffers[i].name);
      else if (values_.contains(names[i])) continue;
      const PlanBuffer& buffer = plan.buffers[i];
      Json value = json_object(
          {{"dtype", std::string(to_string(buffer.dtype))}, {"shape", symbolic_shape(buffer.symbolic_sizes)}});
      if (buffer.dtype == DType::kU8) add_qparams(buffer.qparams, value);
      if (buffer.location == PlanBuffer::Location::kView) {
        value["view_of"] = names[buffer.base];
        value["offset"] = symbolic_shape({buffer.symbolic_view_offset})[0];
        value["strides"] = symbolic_shape(buffer.symbolic_view_strides);
      }
      values_[names[i]] = std::move(value);
    }
    for (const PlanStep& step : plan.steps) {
      const std::string name = unique(step.name);
      Json call = json_object({{"name", name}, {"target", concat("fused.", to_string(step.kind()))}});
      call["inputs"] = Json::array();
      for (const size_t input : step.inputs) call["inputs"].push_back(names[input]);
      call["output"] = names[step.output];
      if (step.activation.kind != Activation::Kind::kNone) {
        call["activation"] = json_object({{"kind", std::string(to_string(step.activation.kind))}});
        if (step.activation.kind == Activation::Kind::kClamp) {
          call["activation"]["low"] = format::json_of_number(step.activation.low);
          call["activation"]["high"] = format::json_of_number(step.activation.high);
        }
        if (step.activation.kind == Activation::Kind::kLeakyRelu) call["activation"]["slope"] = step.activation.slope;
      }
      std::visit([&](const auto& form) { add_fields(form, name, call); }, step.form);
      calls_.push_back(std::move(call));
    }
    for (const size_t output : plan.outputs) results_[&node].push_back(names[output]);
  }

  void add_tensor(const std::string& call_name, const char* key, const Tensor& tensor, Json& call) {
    if (!tensor.defined()) return;
    const std::string name = unique(concat(call_name, ".", key));
    out_.tensors.push_back({name, tensor.contiguous()});
    call[key] = name;
  }
  void add_weights(const ProductWeights& weights, const std::string& name, Json& call) {
    add_tensor(name, "weight", weights.values, call);
    add_tensor(name, "weight_scale", weights.scales, call);
    add_tensor(name, "bias", weights.bias, call);
  }

  template <class Form> void add_fields(const Form&, const std::string&, Json&) {}  // without any
  void add_fields(const PlanStep::Convolution& form, const std::string& name, Json& call) {
    add_weights(form.weights, name, call);
    call["groups"] = form.groups;
    call["window"] = json_of_window(form.window);
    if (!form.is_of_volumes()) return;
    const kernel::FrameWindow& f = form.frames;
    call["frames"] = json_object({{"in", f.in},
                                  {"out", f.out},
                                  {"kernel", f.kernel},
                                  {"stride", f.stride},
                                  {"padding", f.pad},
                                  {"dilation", f.dilation}});
  }
  void add_fields(const PlanStep::Linear& form, const std::string& name, Json& call) {
    add_weights(form.weights, name, call);
  }
  void add_fields(const PlanStep::DynamicLinear& form, const std::string& name, Json& call) {
    add_weights(form.weights, name, call);
    call["quant_min"] = form.range.qmin;
    call["quant_max"] = form.range.qmax;
    call["eps"] = form.range.epsilon;
  }
  void add_fields(const PlanStep::MaxPool& form, const std::string&, Json& call) {
    call["window"] = json_of_window(form.window);
  }
  void add_fields(const PlanStep::AveragePool& form, const std::string&, Json& call) {
    if (form.is_global) call["window"] = "all";
    else call["window"] = json_of_window(form.window);
    call["count_include_pad"] = form.count_include_pad;
    call["divisor_override"] = form.divisor_override;
    if (form.rounding) add_qparams(*form.rounding, call["rounding"]);
  }
  void add_fields(const PlanStep::Concat& form, const std::string&, Json& call) { call["axis"] = form.axis; }
  void add_fields(const PlanStep::Map& form, const std::string& name, Json& call) {
    add_tensor(name, "table", form.table, call);
  }
  void add_fields(const PlanStep::LayerNorm& form, const std::string& name, Json& call) {
    add_tensor(name, "weight", form.gamma, call);
    add_tensor(name, "bias", form.beta, call);
    call["eps"] = form.epsilon;
    if (form.is_rms) call["rms"] = true;
  }
  void add_fields(const PlanStep::Attention& form, const std::string&, Json& call) { call["factor"] = form.factor; }

  const std::vector<Plan>& plans_;
  const Program& program_;
  LoweredGraph out_;
  Json values_ = Json::object(), calls_ = Json::array();
  std::set<std::string> used_;
  std::map<const Node*, std::string> names_;                 // of values
  std::map<const Node*, std::vector<std::string>> results_;  // of plans
};

}  // namespace

LoweredGraph lowered_graph(const Session& session) { return Writer(session).write(); }

void save_lowered_graph(const LoweredGraph& graph, const std::string& path, Files& files) {
  constexpr std::string_view kEnding = ".json";
  QDQ_CHECK(path.ends_with(kEnding), kInvalidArgument, "the file of a lowered graph is called '", path,
            "'; wanted a name that ends in .json (its tensors go next to it, into .npz)");
  files.write(path, format::bytes_of(graph.json));
  files.write(path.substr(0, path.size() - kEnding.size()) + ".npz", format::write_npz(graph.tensors));
}

}  // namespace qdq
