// Settings by name, type and order, and those of fused calls.
#include "quant/fx/call_settings.h"

#include <algorithm>

#include "quant/fx/module_name_regex.h"

namespace qdq {

namespace {

bool same_observer(const ObserverWithArgs& a, const ObserverWithArgs& b) {
  if (a.class_name != b.class_name || a.custom_number != b.custom_number ||
      !std::is_permutation(a.args.begin(), a.args.end(), b.args.begin(), b.args.end()) ||
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

const QConfig* pointer(const OptionalQConfig& qconfig) { return qconfig ? &*qconfig : nullptr; }

// Whether the type may be that of a call whose source was not recorded: x + y and torch.add(x, y) are one operator
// then.
bool is_unrecorded(const TracedCall& call, const std::string& type) {
  const std::vector<std::string> same = equivalent_sources(call.type);
  return call.nodes[0]->meta.source_fn_stack.empty() && std::find(same.begin(), same.end(), type) != same.end();
}

}  // namespace

CallSettings::Found CallSettings::found(const QConfigMapping::Setting& setting, const char* kind) const {
  met_.insert(&setting);
  return {pointer(setting.qconfig), concat("the setting for ", kind, " ", setting.key)};
}

// The setting of a type; null if there is none. The key counts as the type, and where PyTorch's names are not asked
// for, as what the operator computes.
const QConfigMapping::Setting* CallSettings::by_type(const std::string& type, const TracedCall* call) const {
  for (const QConfigMapping::Setting& s : mapping_.object_types())
    if (is_object_type(type, s.key)) return &s;
  if (rules_.knows_records_only || call == nullptr || call->kind == TracedCall::Kind::kModule) return nullptr;
  const std::string computed = computed_function(*call);
  for (const QConfigMapping::Setting& s : mapping_.object_types())
    if (s.key == computed || is_unrecorded(*call, s.key)) return &s;
  return nullptr;
}

const QConfigMapping::Setting* CallSettings::by_operator(const QuantizedCall& call) const {
  const std::vector<Node*>& nodes = call.traced.nodes;
  if (rules_.knows_records_only || (nodes.size() != 1 && call.fused_type.empty())) return nullptr;
  const std::string& target = nodes[0]->target();
  for (const QConfigMapping::Setting& s : mapping_.object_types())
    if (target.substr(0, target.rfind('.')) == s.key) return &s;
  return nullptr;
}

CallSettings::Found CallSettings::by_type_or(const std::string& type, Found fallback, const TracedCall* call) const {
  const QConfigMapping::Setting* setting = by_type(type, call);
  return setting ? found(*setting, "type") : fallback;
}

CallSettings::Found CallSettings::by_name_or(const std::string& path, Found fallback) const {
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

CallSettings::Found CallSettings::of_fused(const QuantizedCall& call, const Found& global) const {
  const std::string& type = call.traced.type;
  const QConfigMapping::Setting* root = by_type(type);
  if (rules_.fused_settings_must_agree) {
    const auto qconfig = [](const QConfigMapping::Setting* s) { return s ? pointer(s->qconfig) : nullptr; };
    for (const std::string& module : call.fused)
      QDQ_CHECK(same_qconfig(qconfig(root), qconfig(by_type(module))), kInvalidArgument, "the settings for ", type,
                " and ", module, " differ, but in ", call.traced.path,
                " they are fused, which PyTorch 2.6 refuses; give both the same QConfig");
    if (qconfig(root)) return found(*root, "type");
  } else if (root) {
    return found(*root, "type");
  }
  return by_type_or(call.fused_type, global);
}

// How many calls had that key before.
int64_t CallSettings::count(std::string key) {
  const int64_t before = std::count(counted_.begin(), counted_.end(), key);
  counted_.push_back(std::move(key));
  return before;
}

void CallSettings::give(QuantizedCall& call) {
  const TracedCall& traced = call.traced;
  const Found global{pointer(mapping_.global()), mapping_.global() ? "the global setting" : ""};
  Found out = global;
  std::string parent = traced.path;
  if (traced.kind == TracedCall::Kind::kModule)
    parent.resize(std::min(parent.size(), parent.find('.') == std::string::npos ? 0 : parent.rfind('.')));
  const QConfigMapping::Setting* of_operator = by_operator(call);
  if (of_operator != nullptr) out = by_name_or(traced.path, found(*of_operator, "operator"));
  else switch (traced.kind) {
      case TracedCall::Kind::kModule:
        out =
            by_name_or(traced.path, call.fused_type.empty() ? by_type_or(traced.type, global) : of_fused(call, global));
        break;
      case TracedCall::Kind::kFunction:
        out = by_name_or(traced.path, by_type_or(traced.module_type, by_type_or(traced.type, global, &traced)));
        break;
      case TracedCall::Kind::kMethod:
        out = by_name_or(traced.path, by_type_or(traced.module_type,
                                                 by_name_or(traced.path, by_type_or(traced.type, global, &traced))));
        break;
    }
  if (traced.kind != TracedCall::Kind::kMethod) {
    const int64_t order =
        mapping_.module_name_object_type_orders().empty() ? 0 : count(concat(parent, " ", traced.type));
    for (const QConfigMapping::OrderSetting& s : mapping_.module_name_object_type_orders())
      if (s.module_name == parent && s.index == order &&
          (is_object_type(traced.type, s.object_type) ||
           (!rules_.knows_records_only && is_unrecorded(traced, s.object_type)))) {
        met_.insert(&s);
        out = {pointer(s.qconfig), concat("the setting for call ", order, " of ", s.object_type)};
        break;
      }
  }
  const auto passes = [&](const Node* node) { return !passes_ || passes_(*node); };
  if (!std::all_of(traced.nodes.begin(), traced.nodes.end(), passes)) {
    call.reason = "the filter function, or a quantizer in front, keeps it out";
    return;
  }
  call.qconfig = out.qconfig;
  call.reason = out.qconfig         ? concat("it follows ", out.words)
                : out.words.empty() ? "no setting names it"
                                    : concat(out.words, " leaves it in float");
}

}  // namespace qdq
