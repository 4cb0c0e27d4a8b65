#include "quant/written_values.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "exec/written_attributes.h"
#include "op/facts.h"
#include "op/shared_storage.h"

namespace qdq {
namespace {

constexpr char kWritten[] = "an operator writes into its result later, which readers of integers would miss";
constexpr char kReads[] = "it reads a tensor that an operator writes into through a view, which integers would miss";

// What a node writes to, from its first argument to the value whose bytes these are. Empty if it does not write to its
// first argument.
std::vector<Node*> chain_of(const Node& write) {
  const std::vector<Node*> written = written_by(write);
  if (op_of(write) == nullptr || written.empty() || written[0] != write.arg(0).node()) return {};
  std::vector<Node*> chain = {written[0]};
  while (Node* source = source_of(*chain.back())) chain.push_back(source);
  return chain;
}

// The values that may be in the bytes of `base`.
std::unordered_set<const Node*> in_bytes_of(const Node* base) {
  std::unordered_set<const Node*> out = {base};
  std::vector<const Node*> rest = {base};
  while (!rest.empty()) {
    const Node* value = rest.back();
    rest.pop_back();
    for (const Node* user : value->users())
      if (source_of(*user) == value && out.insert(user).second) rest.push_back(user);
  }
  return out;
}

using Places = std::unordered_map<const Node*, size_t>;

// Whether a node behind the write reads these bytes otherwise than through the result of the write.
bool is_read_behind(const Node& write, const Node* base, const Places& places) {
  const std::unordered_set<const Node*> results = in_bytes_of(&write);
  for (const Node* value : in_bytes_of(base)) {
    if (results.count(value) != 0) continue;
    for (const Node* user : value->users())
      if (user != &write && places.at(user) > places.at(&write) && results.count(user) == 0) return true;
  }
  return false;
}

// Erases specs that share one that is gone, until all that are left can be resolved.
class Eraser {
 public:
  Eraser(const Program& program, Annotations& annotations) : program_(program), annotations_(annotations) {}

  void erase(const Node* node, const char* reason) {
    if (annotations_.erase(node) != 0) annotations_.note(node, {"prepare_pt2e", {}, false, reason});
  }
  void erase_output(const Node* node) {
    const auto found = annotations_.find(node);
    if (found == annotations_.end() || std::holds_alternative<std::monostate>(found->second.output_qspec)) return;
    found->second.output_qspec = {};
    if (found->second.input_qspec_map.empty()) erase(node, kWritten);
  }
  void erase_sharers() {
    for (bool changed = true; changed;) {
      changed = false;
      for (Node* node : program_.graph->nodes()) {
        const auto found = annotations_.find(node);
        if (found == annotations_.end()) continue;
        QuantizationAnnotation& annotation = found->second;
        if (is_lost(annotation.output_qspec)) {
          changed = true;
          annotation.output_qspec = {};
        }
        const auto is_lost_input = [&](const auto& entry) { return is_lost(entry.second); };
        if (std::none_of(annotation.input_qspec_map.begin(), annotation.input_qspec_map.end(), is_lost_input)) continue;
        changed = true;
        erase(node, kReads);
      }
    }
  }

 private:
  bool has_spec(const EdgeOrNode& at) const {
    const Edge* edge = std::get_if<Edge>(&at);
    const auto found = annotations_.find(edge ? edge->second : std::get<Node*>(at));
    if (found == annotations_.end()) return false;
    return edge ? found->second.find_input(edge->first) != nullptr
                : !std::holds_alternative<std::monostate>(found->second.output_qspec);
  }
  bool is_lost(const QSpec& spec) const {
    if (const auto* shared = std::get_if<SharedQuantizationSpec>(&spec)) return !has_spec(shared->with);
    const auto* derived = std::get_if<DerivedQuantizationSpec>(&spec);
    return derived != nullptr && !std::all_of(derived->derived_from.begin(), derived->derived_from.end(),
                                              [&](const EdgeOrNode& at) { return has_spec(at); });
  }

  const Program& program_;
  Annotations& annotations_;
};

}  // namespace

void own_written_attributes(Program& program) {
  for (const std::string& name : written_attributes(program))
    if (Attribute* attribute = program.find_attribute(name)) attribute->tensor = attribute->tensor.clone();
}

void leave_written_in_float(const Program& program, Annotations& annotations) {
  Places places;
  for (const Node* node : program.graph->nodes()) places.emplace(node, places.size());
  Eraser eraser(program, annotations);
  bool any = false;
  for (const Node* write : program.graph->nodes()) {
    const std::vector<Node*> chain = chain_of(*write);
    if (chain.empty()) continue;
    const Node* base = chain.back();
    const bool outlives_run = base->op() == Node::Op::kGetAttr;
    const bool is_read = is_read_behind(*write, base, places);
    if (!outlives_run && !is_read) continue;
    any = true;
    // On the way from the bytes to the write nothing may stand between.
    eraser.erase(write, kReads);
    for (const Node* value : chain) value == base ? eraser.erase_output(value) : eraser.erase(value, kWritten);
    if (!is_read) continue;
    for (const Node* value : in_bytes_of(base)) {
      if (value != base) eraser.erase(value, kWritten);
      for (const Node* user : value->users()) eraser.erase(user, kReads);
    }
  }
  if (any) eraser.erase_sharers();
}

}  // namespace qdq
