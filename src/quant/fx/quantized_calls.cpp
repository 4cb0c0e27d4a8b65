// Fusion and patterns of traced calls.
#include "quant/fx/quantized_calls.h"

#include <algorithm>
#include <unordered_map>

#include "quant/fx/call_settings.h"
#include "quant/unmatched_settings.h"

namespace qdq {

namespace {

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

class Builder {
 public:
  Builder(const Program& program, const QConfigMapping& mapping, Compat compat, const NodeFilter& passes)
      : mapping_(mapping), rules_(fx_rules(compat)), passes_(passes) {
    for (TracedCall& call : traced_calls(program)) {
      QuantizedCall out;
      out.traced = std::move(call);
      out.pattern = pattern_of(out.traced);
      calls_.push_back(std::move(out));
    }
    index();
  }

  std::vector<ConvBn> batch_norms() const {
    std::vector<ConvBn> out;
    for (const QuantizedCall& call : calls_) {
      const auto norm = batch_norm_behind(call.traced);
      if (!norm) continue;
      const TracedCall& traced = calls_[*norm].traced;
      Node *root = call.traced.nodes[0], *node = traced.nodes[0];
      // The last pattern of the two that end in the relu: BatchNorm2d -> ReLU.
      const auto relu = only_user(traced);
      if (rules_.norms_take_relus_of_transposed && call.pattern->name == "conv_transpose" && calls_[*norm].pattern &&
          relu && is_relu(calls_[*relu].traced, false))
        continue;
      if (root->meta.val.tensor()->sizes.size() !=
          (call.pattern->name == "linear" ? 2u : root->meta.val.tensor()->sizes.size()))
        continue;
      const bool is_constant = [&] {
        for (size_t i = 1; i <= 4; ++i)
          if (!node->arg(i).is_none() && (!node->arg(i).node() || node->arg(i).node()->op() != Node::Op::kGetAttr))
            return false;
        const Node* weight = root->arg(1).node();
        return weight && weight->op() == Node::Op::kGetAttr && node->arg(5).is<bool>() && !node->arg(5).as<bool>();
      }();
      if (is_constant) out.push_back({root, root->arg(1).node(), root, root->arg(2).node(), root, node});
    }
    return out;
  }

  std::vector<QuantizedCall> run(const Graph& graph, std::vector<std::string>& unmatched) {
    fuse();
    index();
    CallSettings settings(mapping_, rules_, passes_);
    for (QuantizedCall& call : calls_) settings.give(call);
    unmatched = unmatched_settings(graph, settings);
    for (size_t i = calls_.size(); i-- > 0;) match(i);
    return std::move(calls_);
  }

 private:
  std::vector<std::string> unmatched_settings(const Graph& graph, const CallSettings& settings) const {
    const ProgramNames names(graph);
    std::vector<std::string> out, types = names.module_types;
    for (const QuantizedCall& call : calls_) types.push_back(call.traced.type);
    for (const QConfigMapping::Setting& s : mapping_.module_names())
      if (!settings.has_met(s)) out.push_back(unmatched_setting("module", s.key, names.modules));
    for (const QConfigMapping::Setting& s : mapping_.module_name_regexes())
      if (!settings.has_met(s))
        out.push_back(concat("the setting for modules like ", s.key, " reaches nothing: no name of a module matches"));
    for (const QConfigMapping::OrderSetting& s : mapping_.module_name_object_type_orders())
      if (!settings.has_met(s))
        out.push_back(concat("the setting for call ", s.index, " of ", s.object_type, " in module '", s.module_name,
                             "' reaches nothing: there is no such call"));
    const QConfigMapping defaults = get_default_qconfig_mapping();
    for (const QConfigMapping::Setting& s : mapping_.object_types()) {
      const auto is_same = [&](const QConfigMapping::Setting& other) { return other.key == s.key; };
      const auto& known = defaults.object_types();
      if (!settings.has_met(s) && std::none_of(known.begin(), known.end(), is_same))
        out.push_back(unmatched_setting("type", s.key, types));
    }
    return out;
  }

  const BackendPattern* pattern_of(const TracedCall& call) const {
    const BackendPattern* pattern = find_backend_pattern(call.type);
    if (pattern == nullptr && !rules_.knows_records_only) pattern = find_backend_pattern(computed_function(call));
    return pattern;
  }

  void index() {
    of_node_.clear();
    for (size_t i = 0; i < calls_.size(); ++i)
      for (const Node* node : calls_[i].traced.nodes) of_node_[node] = i;
  }

  // The only call that reads the result; nothing if others do too, or the program returns it.
  std::optional<size_t> only_user(const TracedCall& call) const {
    if (call.output == nullptr) return std::nullopt;
    std::optional<size_t> only;
    for (const Node* user : call.output->users()) {
      if (user->target().find(".sym_size.") != std::string::npos) continue;
      const auto found = of_node_.find(user);
      if (found == of_node_.end()) return std::nullopt;
      if (only && *only != found->second) return std::nullopt;
      only = found->second;
    }
    return only;
  }

  bool is_relu(const TracedCall& call, bool behind_binary) const {
    if (call.args.size() != 1 || call.output == nullptr) return false;
    if (is_one_of(call.type, {"torch.nn.modules.activation.ReLU", "torch.nn.functional.relu"})) return true;
    if (call.type == "torch.relu" && behind_binary) return true;
    return !rules_.knows_records_only && computed_function(call) == "torch.nn.functional.relu";
  }

  // The batch norm module that belongs to a convolution or linear module: Conv2d -> BatchNorm2d, Linear -> BatchNorm1d.
  std::optional<size_t> batch_norm_behind(const TracedCall& call) const {
    constexpr std::string_view kModules = "torch.nn.modules.";
    if (call.kind != TracedCall::Kind::kModule || call.nodes.size() != 1) return std::nullopt;
    const std::string& type = call.type;
    const bool is_conv = type.starts_with(concat(kModules, "conv.Conv"));
    if (!is_conv && type != "torch.nn.modules.linear.Linear") return std::nullopt;
    const auto user = only_user(call);
    const std::string wanted = concat(kModules, "batchnorm.BatchNorm", is_conv ? type.substr(type.size() - 2) : "1d");
    const bool found = user && calls_[*user].traced.type == wanted && calls_[*user].traced.nodes.size() == 1 &&
                       calls_[*user].traced.nodes[0]->is("torch.ops.aten.batch_norm.default");
    return found ? user : std::nullopt;
  }

  // Modules with a relu behind become one module before anything else: Conv2d -> ReLU  =>  ConvReLU2d.
  void fuse() {
    std::vector<QuantizedCall> out;
    std::vector<bool> gone(calls_.size());
    for (size_t i = 0; i < calls_.size(); ++i) {
      if (gone[i]) continue;
      QuantizedCall& call = calls_[i];
      const auto take_in = [&](size_t other) {
        const TracedCall& behind = calls_[other].traced;
        call.fused.push_back(behind.type);
        call.traced.nodes.insert(call.traced.nodes.end(), behind.nodes.begin(), behind.nodes.end());
        call.traced.output = behind.output;
        gone[other] = true;
      };
      if (call.traced.kind == TracedCall::Kind::kModule && call.pattern && call.pattern->takes_relu) {
        if (const auto norm = batch_norm_behind(call.traced)) take_in(*norm);
        // A linear layer has either behind it, not both.
        const auto user = only_user(call.traced);
        if (user && is_relu(calls_[*user].traced, false) && (call.fused.empty() || call.pattern->name != "linear"))
          take_in(*user);
      }
      out.push_back(std::move(call));
    }
    calls_ = std::move(out);
  }

  static bool is_per_channel_observer(const QConfig& qconfig) {
    return qconfig.weight &&
           is_one_of(qconfig.weight->class_name, {"PerChannelMinMaxObserver", "MovingAveragePerChannelMinMaxObserver"});
  }

  // The node's operand with complex numbers, or the node itself if its result alone has them; null if there is none.
  static const Node* complex_in(const Node& node) {
    const auto has_complex_elements = [](const Node* value) {
      const TensorMeta* meta = value->meta.val.tensor();
      return meta && is_complex(meta->dtype);
    };
    for (const Node* input : node.input_nodes())
      if (has_complex_elements(input)) return input;
    return has_complex_elements(&node) ? &node : nullptr;
  }

  // Why the backend cannot take a pattern with a root call, by the QConfig of its last; nothing if it can.
  std::string refusal(const QuantizedCall& root, const QuantizedCall& last) const {
    const QConfig* qconfig = last.qconfig;
    if (qconfig == nullptr) return concat("the operator ", last.traced.type, " behind it has no QConfig");
    const bool is_module = root.traced.kind == TracedCall::Kind::kModule;
    if (root.pattern->name == "conv_transpose" && is_module && is_per_channel_observer(*qconfig)) {
      QDQ_CHECK(!rules_.refuses_transposed_per_channel, kInvalidArgument, "the weight observer of ", root.traced.path,
                " is per channel, which PyTorch 2.6 refuses for transposed convolutions; set one per tensor for ",
                root.traced.type);
      return "weight observers per channel would go along the input channels of a transposed convolution; set one per "
             "tensor";
    }
    if (!supports(*root.pattern, *qconfig, !is_module && root.argument(&Roles::weight)))
      return root.pattern->fixed_scale != 0
                 ? "its QConfig has not the fixed scale and zero point that the backend wants"
                 : "the backend does not take it with the dtypes of its QConfig";
    return {};
  }

  void match(size_t i) {
    QuantizedCall& last = calls_[i];
    if (!last.is_last) return;  // the first half of a pattern
    QuantizedCall* root = &last;
    if (last.fused.empty() && last.traced.args.size() == 1 && last.traced.args[0].is_node()) {
      const auto producer = of_node_.find(last.traced.args[0].node());
      QuantizedCall* in_front = producer == of_node_.end() ? nullptr : &calls_[producer->second];
      if (in_front && in_front->traced.kind != TracedCall::Kind::kModule && in_front->pattern &&
          in_front->pattern->takes_relu &&
          is_relu(last.traced, in_front->pattern->observation == Observation::kSharedWithNumber) &&
          only_user(in_front->traced) == i)
        root = in_front;
    }
    if (root->pattern == nullptr) {
      if (last.qconfig) last.reason = concat("the backend has no pattern for ", last.traced.type);
      last.qconfig = nullptr;
      return;
    }
    if (root != &last) {
      root->is_last = last.is_root = false;
      last.pattern = root->pattern;
    }
    size_t tensors = 0;
    for (const Argument& argument : root->traced.args) tensors += argument.is_node();
    const bool shares = root->pattern->observation == Observation::kShared ||
                        (root->pattern->observation == Observation::kSharedWithNumber && tensors == 1);
    for (QuantizedCall* call : {root, &last}) call->shares_input = shares;
    if (last.qconfig == nullptr && root->qconfig == nullptr) return;
    const bool is_recurrent = root->pattern->name == "recurrent";  // whose results stay float
    std::string why = last.traced.output || is_recurrent ? refusal(*root, last) : "its result is no single tensor";
    for (const QuantizedCall* call : {root, &last})
      for (const Node* node : call->traced.nodes)
        if (const Node* complex = complex_in(*node); complex && why.empty())
          why = concat(complex == node ? "its result" : concat("its operand ", complex->name()),
                       " is complex64, which is not quantized");
    if (why.empty()) {
      root->effective = last.effective = last.qconfig;
      return;
    }
    for (QuantizedCall* call : {root, &last})
      if (call->qconfig) call->reason = why;
  }

  const QConfigMapping& mapping_;
  const FxRules& rules_;
  const NodeFilter& passes_;
  std::vector<QuantizedCall> calls_;
  std::unordered_map<const Node*, size_t> of_node_;
};

}  // namespace

Node* QuantizedCall::argument(int Roles::* role) const {
  for (const Node* node : traced.nodes) {
    const OpDef* op = find_op(node->target());
    if (op == nullptr || op->roles.*role < 0) continue;
    if (Node* found = node->arg(static_cast<size_t>(op->roles.*role)).node()) return found;
  }
  return nullptr;
}

std::vector<ConvBn> foldable_batch_norms(const Program& program, Compat compat) {
  return Builder(program, QConfigMapping(), compat, [](const Node&) { return true; }).batch_norms();
}

std::vector<QuantizedCall> quantized_calls(const Program& program, const QConfigMapping& mapping, Compat compat,
                                           const NodeFilter& passes, std::vector<std::string>& unmatched) {
  return Builder(program, mapping, compat, passes).run(*program.graph, unmatched);
}

}  // namespace qdq
