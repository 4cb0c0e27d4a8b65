// Fusion and patterns of traced calls.
#include "quant/fx/quantized_calls.h"

#include <algorithm>
#include <unordered_map>

#include "base/stable_sort.h"
#include "op/targets.h"
#include "quant/fx/call_settings.h"
#include "quant/quantizers/positions.h"
#include "quant/unmatched_settings.h"

namespace qdq {

namespace {

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr std::string_view kModules = "torch.nn.modules.", kAnything = "MatchAllNode";

bool is_batch_norm(std::string_view type) { return type.starts_with("torch.nn.modules.batchnorm.BatchNorm"); }

size_t size_of(const BackendPattern& pattern) {
  size_t out = 1;
  for (const BackendPattern& input : pattern.inputs) out += size_of(input);
  return out;
}

bool has_any_input(const BackendPattern& pattern) {
  return pattern.type == kAnything || std::any_of(pattern.inputs.begin(), pattern.inputs.end(), has_any_input);
}

// A pattern as programs name its parts.
struct Searched {
  const BackendPatternConfig* config;
  BackendPattern pattern;
  size_t size;
};

// The calls of a match, the last first.
struct Match {
  const Searched* of = nullptr;
  std::vector<size_t> calls;
  size_t root = 0;
};

class Builder {
 public:
  Builder(const Program& program, const FxRequest& request)
      : request_(request), mapping_(request.mapping), rules_(fx_rules(request.compat)), positions_(*program.graph) {
    for (const BackendPatternConfig& config : request.backend.configs)
      patterns_.push_back({&config, with_recorded_names(config.pattern), size_of(config.pattern)});
    // The longer ones first, single operators last.
    sort_stably(patterns_, [](const Searched& a, const Searched& b) { return a.size > b.size; });
    const PrepareCustomConfig& custom = request.custom;
    const TracerScope scope{request.key, request.path, [&](const std::string& path, const std::string& type) {
                              return custom.is_non_traceable(path, type) || custom.standalone(path, type) != nullptr;
                            }};
    for (TracedCall& call : traced_calls(program, scope)) {
      QuantizedCall out;
      out.traced = std::move(call);
      if (out.traced.kind == TracedCall::Kind::kModule)
        out.standalone = custom.standalone(out.traced.path, out.traced.type);
      calls_.push_back(std::move(out));
    }
    index();
  }

  const std::vector<QuantizedCall>& calls() const { return calls_; }

  std::vector<ConvBn> batch_norms() const {
    std::vector<ConvBn> out;
    for (const Match& match : fusions()) {
      const TracedCall& layer = calls_[match.root].traced;
      const TracedCall* norm = nullptr;
      for (const size_t i : match.calls)
        if (i != match.root && is_batch_norm(calls_[i].traced.type)) norm = &calls_[i].traced;
      if (norm == nullptr) continue;
      Node *root = layer_of(layer), *node = norm->nodes[0];
      if (layer.type == "torch.nn.modules.linear.Linear" && root->meta.val.tensor()->sizes.size() != 2) continue;
      const bool is_constant = [&] {
        for (size_t i = 1; i <= 4; ++i)
          if (!node->arg(i).is_none() && (!node->arg(i).node() || node->arg(i).node()->op() != Node::Op::kGetAttr))
            return false;
        const Node* weight = root->arg(1).node();
        return weight && weight->op() == Node::Op::kGetAttr && node->arg(5).is<bool>() && !node->arg(5).as<bool>();
      }();
      if (is_constant) out.push_back({root, root->arg(1).node(), root, root->arg(2).node(), root, node});
    }
    // In the order of the program.
    std::reverse(out.begin(), out.end());
    return out;
  }

  void give_settings(const Graph& graph) {
    fuse();
    index();
    CallSettings settings(mapping_, rules_, request_.passes);
    for (QuantizedCall& call : calls_) settings.give(call);
    warnings_ = unmatched_settings(graph, settings);
  }

  std::vector<QuantizedCall> with_settings(const Graph& graph, std::vector<std::string>& unmatched) {
    give_settings(graph);
    unmatched = std::move(warnings_);
    return std::move(calls_);
  }

  std::vector<QuantizedCall> run(const Graph& graph, std::vector<std::string>& unmatched) {
    give_settings(graph);
    std::vector<bool> matched(calls_.size());
    for (size_t i = calls_.size(); i-- > 0;) {
      if (matched[i]) continue;
      const Match match = pattern_ending_in(i);
      for (const size_t part : match.calls) matched[part] = true;
      take(i, match);
    }
    unmatched = std::move(warnings_);
    return std::move(calls_);
  }

 private:
  // Which of a setting's module and type the program does not have; if it has both, that they do not meet there.
  static std::string why_no_such_call(const QConfigMapping::OrderSetting& setting,
                                      const std::vector<std::string>& modules, const std::vector<std::string>& types) {
    const auto is_wanted = [&](const std::string& type) { return is_object_type(type, setting.object_type); };
    if (!setting.module_name.empty() && std::find(modules.begin(), modules.end(), setting.module_name) == modules.end())
      return concat("the program has no such module", meant_or_known(setting.module_name, modules));
    if (std::none_of(types.begin(), types.end(), is_wanted))
      return concat("the program has no such type", meant_or_known(setting.object_type, types));
    return "the module has fewer calls of that type, which are counted from 0";
  }

  std::vector<std::string> unmatched_settings(const Graph& graph, const CallSettings& settings) const {
    const ProgramNames names(graph);
    std::vector<std::string> out, types = names.module_types;
    for (const QuantizedCall& call : calls_)
      if (std::find(types.begin(), types.end(), call.traced.type) == types.end()) types.push_back(call.traced.type);
    for (const QConfigMapping::Setting& s : mapping_.module_names())
      if (!settings.has_met(s)) out.push_back(unmatched_setting("module", s.key, names.modules));
    for (const QConfigMapping::Setting& s : mapping_.module_name_regexes())
      if (!settings.has_met(s))
        out.push_back(concat("the setting for modules like ", s.key, " reaches nothing: no name of a module matches",
                             meant_or_known(s.key, names.modules)));
    for (const QConfigMapping::OrderSetting& s : mapping_.module_name_object_type_orders())
      if (!settings.has_met(s))
        out.push_back(concat("the setting for call ", s.index, " of ", s.object_type, " in module '", s.module_name,
                             "' reaches nothing: ", why_no_such_call(s, names.modules, types)));
    const QConfigMapping defaults = get_default_qconfig_mapping();
    for (const QConfigMapping::Setting& s : mapping_.object_types()) {
      const auto is_same = [&](const QConfigMapping::Setting& other) { return other.key == s.key; };
      const auto& known = defaults.object_types();
      if (!settings.has_met(s) && std::none_of(known.begin(), known.end(), is_same))
        out.push_back(unmatched_setting("type", s.key, types));
    }
    return out;
  }

  void index() {
    of_node_.clear();
    names_.clear();
    for (size_t i = 0; i < calls_.size(); ++i) {
      for (const Node* node : calls_[i].traced.nodes) of_node_[node] = i;
      names_.push_back(names_of(calls_[i]));
    }
  }

  // What patterns may call a call: by its record, and by what it computes where records are not all that counts.
  struct Names {
    std::vector<std::string> recorded, computed;
    bool is(const std::string& name) const {
      return std::find(recorded.begin(), recorded.end(), name) != recorded.end();
    }
    bool computes(const std::string& name) const {
      return std::find(computed.begin(), computed.end(), name) != computed.end();
    }
  };
  Names names_of(const QuantizedCall& call) const {
    Names out;
    const std::string& type = call.fused_type.empty() ? call.traced.type : call.fused_type;
    const std::string last = type.substr(type.rfind('.') + 1);
    out.recorded.push_back(type);
    if (type.starts_with(kModules)) out.recorded.push_back("torch.nn." + last);
    else if (call.traced.kind == TracedCall::Kind::kModule && !type.starts_with("torch.")) out.recorded.push_back(last);
    const std::string computed =
        rules_.knows_records_only || !call.fused_type.empty() ? "" : computed_function(call.traced);
    if (computed.empty()) return out;
    out.computed = equivalent_sources(type);
    for (std::string& name : equivalent_sources(computed)) out.computed.push_back(std::move(name));
    return out;
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

  // Whether the pattern ends in call `i` (torch/ao/quantization/fx/match_utils.py, _is_match); `match` gets the calls.
  bool find_match(size_t i, const BackendPattern& pattern, const BackendPattern& root, bool by_computation,
                  Match& match) const {
    const TracedCall& call = calls_[i].traced;
    if (calls_[i].standalone != nullptr) return false;
    // A batch norm that was folded, of a layer whose result is added to something: others fuse alike without it.
    if (is_batch_norm(pattern.type) && pattern.inputs.size() == 1 && has_any_input(match.of->pattern) &&
        request_.has_folded_norm.count(call.nodes[0]) != 0)
      return find_match(i, pattern.inputs[0], root, by_computation, match);
    // The layer itself is the module or function that the pattern names, behind it may stand what computes the same.
    const bool may_compute = by_computation && (&pattern != &root || pattern.inputs.empty()) &&
                             (&pattern != &root || call.kind != TracedCall::Kind::kModule || match.calls.empty());
    if (!names_[i].is(pattern.type) && !(may_compute && names_[i].computes(pattern.type))) return false;
    if (is_batch_norm(pattern.type) && !match.calls.empty() &&
        (call.nodes.size() != 1 || !call.nodes[0]->is(op::kBatchNorm)))
      return false;
    match.calls.push_back(i);
    if (&pattern == &root) match.root = i;
    if (pattern.inputs.empty()) return true;
    if (call.args.size() != pattern.inputs.size()) return false;
    for (size_t k = 0; k < pattern.inputs.size(); ++k) {
      if (pattern.inputs[k].type == kAnything) continue;
      const Node* value = call.args[k].is_node() ? call.args[k].node() : nullptr;
      const auto producer = of_node_.find(value);
      if (producer == of_node_.end() || calls_[producer->second].traced.output != value ||
          only_user(calls_[producer->second].traced) != i ||
          !find_match(producer->second, pattern.inputs[k], root, by_computation, match))
        return false;
    }
    return true;
  }

  bool ends_in(size_t i, const Searched& searched, bool by_computation, Match& match) const {
    match = {&searched, {}, i};
    return find_match(i, searched.pattern, root_of(searched.pattern), by_computation, match);
  }

  // The matches of patterns that become one module, from the last to the first.
  std::vector<Match> fusions() const {
    std::vector<Match> out;
    std::vector<bool> taken(calls_.size());
    for (size_t i = calls_.size(); i-- > 0;) {
      if (taken[i]) continue;
      for (const Searched& searched : patterns_) {
        Match match;
        if (searched.config->fused_module.empty() || !ends_in(i, searched, true, match) ||
            calls_[match.root].traced.kind != TracedCall::Kind::kModule ||
            layer_of(calls_[match.root].traced) == nullptr)
          continue;
        for (const size_t part : match.calls) taken[part] = true;
        out.push_back(std::move(match));
        break;
      }
    }
    return out;
  }

  // Modules become one before anything else: Conv2d -> ReLU  =>  ConvReLU2d, in the place of the last.
  void fuse() {
    std::vector<bool> gone(calls_.size());
    for (const Match& match : fusions()) {
      QuantizedCall fused = std::move(calls_[match.root]);
      fused.fused_type = recorded_name(match.of->config->fused_module);
      gone[match.root] = true;
      if (fused.fused_type == fused.traced.type) {  // such a batch norm is folded or stays
        fused.fused_type.clear();
        gone[match.root] = false;
        calls_[match.root] = std::move(fused);
        continue;
      }
      for (size_t k = match.calls.size(); k-- > 0;) {
        const size_t i = match.calls[k];
        if (i == match.root) continue;
        const TracedCall& behind = calls_[i].traced;
        if (behind.kind == TracedCall::Kind::kModule) fused.fused.push_back(behind.type);
        else if (names_[i].is("torch.nn.functional.relu") || names_[i].computes("torch.nn.functional.relu"))
          fused.fused.push_back("torch.nn.modules.activation.ReLU");
        for (const Argument& argument : behind.args) {
          const bool is_inside = argument.is_node() && argument.node() == fused.traced.output;
          if (!is_inside) fused.traced.args.push_back(argument);
        }
        fused.traced.nodes.insert(fused.traced.nodes.end(), behind.nodes.begin(), behind.nodes.end());
        fused.traced.output = behind.output;
        gone[i] = true;
      }
      const size_t last = match.calls[0];
      calls_[last] = std::move(fused);
      gone[last] = false;
    }
    std::vector<QuantizedCall> out;
    for (size_t i = 0; i < calls_.size(); ++i)
      if (!gone[i]) out.push_back(std::move(calls_[i]));
    calls_ = std::move(out);
  }

  // The pattern that ends in a call; none: a match without calls.
  Match pattern_ending_in(size_t i) const {
    for (const bool by_computation : {false, true})
      for (const Searched& searched : patterns_) {
        Match match;
        if (searched.config->fused_module.empty() && ends_in(i, searched, by_computation || searched.size > 1, match))
          return match;
      }
    return {};
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
  std::string refusal(const QuantizedCall& root, const QuantizedCall& last) {
    const QConfig* qconfig = last.qconfig;
    if (qconfig == nullptr) return concat("the operator ", last.traced.type, " behind it has no QConfig");
    const bool is_module = root.traced.kind == TracedCall::Kind::kModule;
    if (is_module && root.traced.type.starts_with("torch.nn.modules.conv.ConvTranspose") &&
        is_per_channel_observer(*qconfig)) {
      QDQ_CHECK(!rules_.refuses_transposed_per_channel, kInvalidArgument, "the weight observer of ", root.traced.path,
                " is per channel, which PyTorch 2.6 refuses for transposed convolutions; set one per tensor for ",
                root.traced.type);
      return "weight observers per channel would go along the input channels of a transposed convolution; set one per "
             "tensor";
    }
    if (root.pattern->observation_type == ObservationType::kInputOutputNotObserved &&
        !rules_.observes_what_is_not_observed)
      return "the backend does not observe it";
    std::string broken;
    bool fits = supports(*root.pattern, *qconfig, !is_module && root.argument(&Roles::weight), broken);
    if (fits && is_module && root.quantizes_weight() && !rules_.takes_any_range_of_module_weights) {
      supports(*root.pattern, *qconfig, true, broken);
      fits = broken.empty();
    }
    if (fits) return {};
    if (broken.empty()) return "the backend does not take it with the dtypes of its QConfig";
    warn(concat("the QConfig of ", is_module ? root.traced.path : root.traced.type, " is ignored: ", broken));
    return concat("the backend ignores its QConfig: ", broken);
  }

  void warn(std::string text) {
    if (std::find(warnings_.begin(), warnings_.end(), text) == warnings_.end()) warnings_.push_back(std::move(text));
  }

  bool shares_input(const QuantizedCall& root) const {
    ObservationType type = root.pattern->observation_type;
    const auto tensors = std::count_if(root.traced.args.begin(), root.traced.args.end(),
                                       [](const Argument& argument) { return argument.is_node(); });
    for (const auto& [count, of_count] : root.pattern->num_tensor_args_to_observation_type)
      if (count == tensors) type = of_count;
    return type == ObservationType::kOutputShareObserverWithInput;
  }

  void take(size_t i, const Match& match) {
    QuantizedCall& last = calls_[i];
    if (match.calls.empty()) {
      if (last.standalone) return;
      if (last.qconfig) last.reason = concat("the backend has no pattern for ", last.traced.type);
      last.qconfig = nullptr;
      return;
    }
    QuantizedCall& root = calls_[match.root];
    root.pattern = match.of->config;
    const bool shares = shares_input(root);
    bool has_qconfig = false;
    for (const size_t part : match.calls) {
      QuantizedCall& call = calls_[part];
      call.pattern = match.of->config;
      call.is_root = part == match.root;
      call.is_last = part == i;
      call.shares_input = shares;
      has_qconfig = has_qconfig || call.qconfig;
    }
    if (!has_qconfig) return;
    // The results of a recurrent layer stay float.
    const bool has_value = last.traced.output || last.traced.type.starts_with("torch.nn.modules.rnn.");
    std::string why = has_value ? refusal(root, last) : "its result is not a single tensor";
    for (const size_t part : match.calls)
      for (const Node* node : calls_[part].traced.nodes)
        if (const Node* complex = complex_in(*node); complex && why.empty())
          why = concat(complex == node ? "its result" : concat("its operand ", complex->name()),
                       " is complex64, which is not quantized");
        else if (why.empty() && !rules_.takes_positions) why = positions_.obstacle(*node);
    for (const size_t part : match.calls) {
      if (why.empty()) calls_[part].effective = last.qconfig;
      else if (calls_[part].qconfig) calls_[part].reason = why;
    }
  }

  const FxRequest& request_;
  const QConfigMapping& mapping_;
  const FxRules& rules_;
  const Positions positions_;
  std::vector<Searched> patterns_;
  std::vector<QuantizedCall> calls_;
  std::vector<Names> names_;  // of the calls
  std::unordered_map<const Node*, size_t> of_node_;
  std::vector<std::string> warnings_;
};

}  // namespace

bool QuantizedCall::quantizes_weight() const {
  if (traced.kind == TracedCall::Kind::kModule) return !pattern->root_module.empty();
  // Norms keep their weight in float (torch/ao/quantization/fx/utils.py, NON_QUANTIZABLE_WEIGHT_OPS).
  return std::none_of(traced.nodes.begin(), traced.nodes.end(),
                      [](const Node* node) { return node->target().find("_norm.") != std::string::npos; });
}

Node* QuantizedCall::argument(int Roles::* role) const {
  for (const Node* node : traced.nodes) {
    const OpDef* op = find_op(node->target());
    if (op == nullptr || op->roles.*role < 0) continue;
    if (Node* found = node->arg(static_cast<size_t>(op->roles.*role)).node()) return found;
  }
  return nullptr;
}

FxRequest request_inside(const FxRequest& request, const QuantizedCall& call, const OptionalQConfig& qconfig,
                         QConfigMapping& own) {
  static const PrepareCustomConfig kNothing;
  const PrepareCustomConfig::StandaloneModule& entry = *call.standalone;
  if (!entry.qconfig_mapping) own.set_global(qconfig);
  return {entry.qconfig_mapping ? *entry.qconfig_mapping : own,
          entry.backend_config ? *entry.backend_config : request.backend,
          entry.prepare_custom_config ? *entry.prepare_custom_config : kNothing,
          request.compat,
          call.traced.key,
          request.path.empty() ? call.traced.path : concat(request.path, ".", call.traced.path),
          request.passes,
          request.has_folded_norm};
}

std::vector<ConvBn> foldable_batch_norms(const Program& program, const FxRequest& request) {
  const Builder builder(program, request);
  std::vector<ConvBn> out = builder.batch_norms();
  for (const QuantizedCall& call : builder.calls()) {
    if (call.standalone == nullptr) continue;
    QConfigMapping own;
    const std::vector<ConvBn> inside = foldable_batch_norms(program, request_inside(request, call, {}, own));
    out.insert(out.end(), inside.begin(), inside.end());
  }
  return out;
}

std::vector<QuantizedCall> calls_with_settings(const Program& program, const FxRequest& request,
                                               std::vector<std::string>& unmatched) {
  return Builder(program, request).with_settings(*program.graph, unmatched);
}

std::vector<QuantizedCall> quantized_calls(const Program& program, const FxRequest& request,
                                           std::vector<std::string>& unmatched) {
  return Builder(program, request).run(*program.graph, unmatched);
}

}  // namespace qdq
