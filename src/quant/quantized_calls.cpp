// Fusion, settings and patterns of traced calls.
#include "quant/quantized_calls.h"

#include <algorithm>
#include <unordered_map>

namespace qdq {

namespace {

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool same_observer(const ObserverWithArgs& a, const ObserverWithArgs& b) {
  if (a.class_name != b.class_name || !std::is_permutation(a.args.begin(), a.args.end(), b.args.begin(), b.args.end()) ||
      (a.observer == nullptr) != (b.observer == nullptr))
    return false;
  return a.observer == nullptr || same_observer(*a.observer, *b.observer);
}

bool same_qconfig(const QConfig* a, const QConfig* b) {
  if (a == nullptr || b == nullptr) return a == b;
  const auto same = [](const std::optional<ObserverWithArgs>& x, const std::optional<ObserverWithArgs>& y) {
    return x.has_value() == y.has_value() && (!x || same_observer(*x, *y));
  };
  return same(a->activation, b->activation) && same(a->weight, b->weight);
}

class Builder {
 public:
  Builder(const Graph& graph, const QConfigMapping& mapping, Compat compat, const NodeFilter& passes)
      : mapping_(mapping), strict_(compat == Compat::kTorch26), passes_(passes) {
    for (TracedCall& call : traced_calls(graph)) {
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
      if (strict_ && call.pattern->name == "conv_transpose" && calls_[*norm].pattern && relu && is_relu(calls_[*relu].traced, false)) continue;
      if (root->meta.val.tensor()->sizes.size() != (call.pattern->name == "linear" ? 2u : root->meta.val.tensor()->sizes.size())) continue;
      const bool is_constant = [&] {
        for (size_t i = 1; i <= 4; ++i)
          if (!node->arg(i).is_none() && (!node->arg(i).node() || node->arg(i).node()->op() != Node::Op::kGetAttr)) return false;
        const Node* weight = root->arg(1).node();
        return weight && weight->op() == Node::Op::kGetAttr && node->arg(5).is<bool>() && !node->arg(5).as<bool>();
      }();
      if (is_constant) out.push_back({root, root->arg(1).node(), root, root->arg(2).node(), root, node});
    }
    return out;
  }

  std::vector<QuantizedCall> run() {
    fuse();
    index();
    for (QuantizedCall& call : calls_) find_qconfig(call);
    for (size_t i = calls_.size(); i-- > 0;) match(i);
    return std::move(calls_);
  }

 private:
  // A setting, and in which words the mapping names it.
  struct Found {
    const QConfig* qconfig;
    std::string words;
  };

  // What the operator computes, for calls of one operator.
  static std::string by_operator(const TracedCall& call) {
    return call.nodes.size() == 1 ? function_of_operator(call.nodes[0]->target()) : std::string();
  }

  const BackendPattern* pattern_of(const TracedCall& call) const {
    const BackendPattern* pattern = find_backend_pattern(call.type);
    if (pattern == nullptr && !strict_) pattern = find_backend_pattern(by_operator(call));
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
    return !strict_ && by_operator(call) == "torch.nn.functional.relu";
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
        if (const auto user = only_user(call.traced); user && is_relu(calls_[*user].traced, false)) take_in(*user);
      }
      out.push_back(std::move(call));
    }
    calls_ = std::move(out);
  }

  // settings

  // The setting of a type; null if there is none. The key counts as the type, and where PyTorch's names are not asked for, as what the
  // operator computes.
  const QConfigMapping::Setting* by_type(const std::string& type, const TracedCall* call = nullptr) const {
    for (const QConfigMapping::Setting& s : mapping_.object_types())
      if (is_object_type(type, s.key)) return &s;
    if (strict_ || call == nullptr || call->kind == TracedCall::Kind::kModule) return nullptr;
    const std::string computed = by_operator(*call);
    for (const QConfigMapping::Setting& s : mapping_.object_types())
      if (s.key == computed || is_unrecorded(*call, s.key)) return &s;
    return nullptr;
  }

  // Whether the type may be that of a call whose source was not recorded: x + y and torch.add(x, y) are one operator then.
  static bool is_unrecorded(const TracedCall& call, const std::string& type) {
    const std::vector<std::string> same = equivalent_sources(call.type);
    return call.nodes[0]->meta.source_fn_stack.empty() && std::find(same.begin(), same.end(), type) != same.end();
  }

  static const QConfig* pointer(const OptionalQConfig& qconfig) { return qconfig ? &*qconfig : nullptr; }
  static Found found(const QConfigMapping::Setting& setting, const char* kind) {
    return {pointer(setting.qconfig), concat("the setting for ", kind, " ", setting.key)};
  }

  Found by_type_or(const std::string& type, Found fallback, const TracedCall* call = nullptr) const {
    const QConfigMapping::Setting* setting = by_type(type, call);
    return setting ? found(*setting, "type") : fallback;
  }

  Found by_name_or(const std::string& path, Found fallback) const {
    for (std::string name = path; !name.empty();) {
      for (const QConfigMapping::Setting& s : mapping_.module_names())
        if (s.key == name) return found(s, "module");
      const size_t dot = name.rfind('.');
      name.resize(dot == std::string::npos ? 0 : dot);
    }
    for (const QConfigMapping::Setting& s : mapping_.module_name_regexes())
      if (matches_at_start(s.key, path)) return found(s, "modules like");
    return fallback;
  }

  // Conv2d -> ConvReLU2d, ConvBn2d, ConvBnReLU2d; Linear -> LinearReLU; BatchNorm2d -> BNReLU2d
  static std::string fused_type(const QuantizedCall& call) {
    std::string name = call.traced.type.substr(call.traced.type.rfind('.') + 1), dimensions;
    if (name.back() == 'd') {
      dimensions = name.substr(name.size() - 2);
      name.resize(name.size() - 2);
    }
    if (name == "BatchNorm") name = "BN";
    for (const std::string& type : call.fused) {
      const bool is_norm = type.starts_with("torch.nn.modules.batchnorm.");
      name += is_norm ? "Bn" : "ReLU";
      if (is_norm && dimensions.empty()) dimensions = "1d";
    }
    return concat("torch.ao.nn.intrinsic.modules.fused.", name, dimensions);
  }

  Found of_fused(const QuantizedCall& call, const Found& global) const {
    const std::string& type = call.traced.type;
    const QConfigMapping::Setting* root = by_type(type);
    if (strict_) {
      const auto qconfig = [](const QConfigMapping::Setting* s) { return s ? pointer(s->qconfig) : nullptr; };
      for (const std::string& other : call.fused) {
        const std::string module = other == "torch.nn.functional.relu" ? "torch.nn.modules.activation.ReLU" : other;
        QDQ_CHECK(same_qconfig(qconfig(root), qconfig(by_type(module))), kInvalidArgument, "the settings for ", type, " and ", module,
                  " differ, but in ", call.traced.path, " they are fused, which PyTorch 2.6 refuses; give both the same QConfig");
      }
      if (qconfig(root)) return found(*root, "type");
    } else if (root) {
      return found(*root, "type");
    }
    return by_type_or(fused_type(call), global);
  }

  // How many calls had that key before.
  int64_t count(std::string key) {
    const int64_t before = std::count(counted_.begin(), counted_.end(), key);
    counted_.push_back(std::move(key));
    return before;
  }

  void find_qconfig(QuantizedCall& call) {
    const TracedCall& traced = call.traced;
    const Found global{pointer(mapping_.global()), mapping_.global() ? "the global setting" : ""};
    Found out = global;
    std::string parent = traced.path;
    switch (traced.kind) {
      case TracedCall::Kind::kModule:
        out = by_name_or(traced.path, call.fused.empty() ? by_type_or(traced.type, global) : of_fused(call, global));
        parent.resize(std::min(parent.size(), parent.find('.') == std::string::npos ? 0 : parent.rfind('.')));
        break;
      case TracedCall::Kind::kFunction:
        out = by_name_or(traced.path, by_type_or(traced.module_type, by_type_or(traced.type, global, &traced)));
        break;
      case TracedCall::Kind::kMethod:
        out = by_name_or(traced.path, by_type_or(traced.module_type, by_name_or(traced.path, by_type_or(traced.type, global, &traced))));
        break;
    }
    if (traced.kind != TracedCall::Kind::kMethod) {
      const int64_t order = mapping_.module_name_object_type_orders().empty() ? 0 : count(concat(parent, " ", traced.type));
      for (const QConfigMapping::OrderSetting& s : mapping_.module_name_object_type_orders())
        if (s.module_name == parent && s.index == order &&
            (is_object_type(traced.type, s.object_type) || (!strict_ && is_unrecorded(traced, s.object_type)))) {
          out = {pointer(s.qconfig), concat("the setting for call ", order, " of ", s.object_type)};
          break;
        }
    }
    if (!std::all_of(traced.nodes.begin(), traced.nodes.end(), [&](const Node* node) { return passes_(*node); })) {
      call.reason = "the filter function, or a quantizer in front, keeps it out";
      return;
    }
    call.qconfig = out.qconfig;
    call.reason = out.qconfig         ? concat("it follows ", out.words)
                  : out.words.empty() ? "no setting names it"
                                      : concat(out.words, " leaves it in float");
  }

  // patterns

  static bool is_per_channel_observer(const QConfig& qconfig) {
    return qconfig.weight && is_one_of(qconfig.weight->class_name, {"PerChannelMinMaxObserver", "MovingAveragePerChannelMinMaxObserver"});
  }

  // Why the backend cannot take a pattern with a root call, by the QConfig of its last; nothing if it can.
  std::string refusal(const QuantizedCall& root, const QuantizedCall& last) const {
    const QConfig* qconfig = last.qconfig;
    if (qconfig == nullptr) return concat("the operator ", last.traced.type, " behind it has no QConfig");
    const bool is_module = root.traced.kind == TracedCall::Kind::kModule;
    if (root.pattern->name == "conv_transpose" && is_module && is_per_channel_observer(*qconfig)) {
      QDQ_CHECK(!strict_, kInvalidArgument, "the weight observer of ", root.traced.path,
                " is per channel, which PyTorch 2.6 refuses for transposed convolutions; set one per tensor for ", root.traced.type);
      return "weight observers per channel would go along the input channels of a transposed convolution; set one per tensor";
    }
    if (!supports(*root.pattern, *qconfig, !is_module && root.argument(&Roles::weight)))
      return root.pattern->fixed_scale != 0 ? "its QConfig has not the fixed scale and zero point that the backend wants"
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
      if (in_front && in_front->traced.kind != TracedCall::Kind::kModule && in_front->pattern && in_front->pattern->takes_relu &&
          is_relu(last.traced, in_front->pattern->observation == Observation::kSharedWithNumber) && only_user(in_front->traced) == i)
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
    const bool shares =
        root->pattern->observation == Observation::kShared || (root->pattern->observation == Observation::kSharedWithNumber && tensors == 1);
    for (QuantizedCall* call : {root, &last}) call->shares_input = shares;
    if (last.qconfig == nullptr && root->qconfig == nullptr) return;
    const bool is_recurrent = root->pattern->name == "recurrent";  // whose results stay float
    std::string why = last.traced.output || is_recurrent ? refusal(*root, last) : "its result is no single tensor";
    if (why.empty()) {
      root->effective = last.effective = last.qconfig;
      return;
    }
    for (QuantizedCall* call : {root, &last})
      if (call->qconfig) call->reason = why;
  }

  const QConfigMapping& mapping_;
  bool strict_;
  const NodeFilter& passes_;
  std::vector<QuantizedCall> calls_;
  std::unordered_map<const Node*, size_t> of_node_;
  std::vector<std::string> counted_;  // module and type of the calls so far
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

std::vector<ConvBn> foldable_batch_norms(const Graph& graph, Compat compat) {
  return Builder(graph, QConfigMapping(), compat, [](const Node&) { return true; }).batch_norms();
}

std::vector<QuantizedCall> quantized_calls(const Graph& graph, const QConfigMapping& mapping, Compat compat, const NodeFilter& passes) {
  return Builder(graph, mapping, compat, passes).run();
}

}  // namespace qdq
