#include "quant/written_values.h"

#include <algorithm>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "op/written_attributes.h"
#include "op/facts.h"
#include "op/shared_storage.h"

namespace qdq {
namespace {

constexpr char kWritten[] = "an operator writes into its result later, which readers of integers would miss";
constexpr char kReads[] = "it reads a tensor that an operator writes into through a view, which integers would miss";

// Whether a node writes to its first argument.
bool writes_first(const Node& node) {
  const std::vector<Node*> written = written_by(node);
  return op_of(node) != nullptr && !written.empty() && written[0] == node.arg(0).node();
}

// Which values may be in the bytes of which. Each belongs to a tree: below it are those that are made of it.
class SharedBytes {
 public:
  explicit SharedBytes(const Graph& graph) {
    const std::vector<Node*> nodes = graph.nodes();
    for (Node* node : nodes) extents_[node].place = static_cast<int64_t>(extents_.size());
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node)
      if (const Node* source = source_of(**node)) extents_.at(source).size += extents_.at(*node).size;
    order_.resize(nodes.size());
    size_t roots = 0;
    for (Node* node : nodes) {
      Extent& extent = extents_.at(node);
      const Node* source = source_of(*node);
      extent.root = source ? extents_.at(source).root : node;
      size_t& begin = source ? extents_.at(source).free : roots;
      extent.begin = std::exchange(begin, begin + extent.size);
      extent.free = extent.begin + 1;
      order_[extent.begin] = node;
    }
    find_readers();
  }

  const Node* base_of(const Node& value) const { return extents_.at(&value).root; }
  // A value and all below it.
  std::span<Node* const> below(const Node* value) const {
    const Extent& extent = extents_.at(value);
    return std::span(order_).subspan(extent.begin, extent.size);
  }
  // Whether a node behind the write reads these bytes otherwise than through the result of the write.
  bool is_read_behind(const Node& write, const Node* base) const {
    const Extent &all = extents_.at(base), &written = extents_.at(&write);
    const size_t end = all.begin + all.size;
    const bool is_inside = written.root == base;
    const size_t begin_of_results = is_inside ? written.begin : end;
    const size_t end_of_results = is_inside ? written.begin + written.size : end;
    if (begin_of_results > all.begin && last_up_to_[begin_of_results - 1] > written.place) return true;
    if (end_of_results < end && last_from_[end_of_results] > written.place) return true;
    const auto is_result = [&](const Node* node) {
      const size_t at = extents_.at(node).begin;
      return at >= written.begin && at < written.begin + written.size;
    };
    const auto found = readers_within_.find(base);
    return found != readers_within_.end() && std::ranges::any_of(found->second, [&](const auto& read) {
             return extents_.at(read.second).place > written.place && !is_result(read.first) && !is_result(read.second);
           });
  }

 private:
  struct Extent {
    int64_t place = 0;                     // in the graph
    size_t begin = 0, size = 1, free = 0;  // in order_; the first that no value below has taken
    const Node* root = nullptr;
  };

  // Where the last reader of the values of a tree stands, of those from its first on and of those up to its last.
  // Readers that are in the tree, and not below the value, are kept one by one.
  void find_readers() {
    last_up_to_.assign(order_.size(), -1);
    for (size_t i = 0; i < order_.size(); ++i) {
      const Node* value = order_[i];
      const Node* root = base_of(*value);
      for (const Node* user : value->users())
        if (base_of(*user) != root || source_of(*user) == value)
          last_up_to_[i] = std::max(last_up_to_[i], extents_.at(user).place);
        else readers_within_[root].emplace_back(value, user);
    }
    last_from_ = last_up_to_;
    for (size_t i = 1; i < order_.size(); ++i)
      if (base_of(*order_[i]) != order_[i]) last_up_to_[i] = std::max(last_up_to_[i], last_up_to_[i - 1]);
    for (size_t i = order_.size(); i-- > 1;)
      if (base_of(*order_[i]) != order_[i]) last_from_[i - 1] = std::max(last_from_[i - 1], last_from_[i]);
  }

  std::unordered_map<const Node*, Extent> extents_;
  std::vector<Node*> order_;  // the trees one after the other, the values below a value right behind it
  std::vector<int64_t> last_up_to_, last_from_;
  std::unordered_map<const Node*, std::vector<std::pair<const Node*, const Node*>>> readers_within_;  // of each root
};

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
  const std::vector<Node*> nodes = program.graph->nodes();
  if (std::ranges::none_of(nodes, [](const Node* node) { return writes_first(*node); })) return;
  const SharedBytes bytes(*program.graph);
  Eraser eraser(program, annotations);
  bool any = false;
  std::unordered_set<const Node*> left, bases_left;  // values on the way to a write, and what has all of its in float
  for (const Node* write : nodes) {
    if (!writes_first(*write)) continue;
    const Node* base = bytes.base_of(*write->arg(0).node());
    if (bases_left.count(base) != 0) continue;
    const bool outlives_run = base->op() == Node::Op::kGetAttr;
    const bool is_read = bytes.is_read_behind(*write, base);
    if (!outlives_run && !is_read) continue;
    any = true;
    // On the way from the bytes to the write nothing may stand between.
    eraser.erase(write, kReads);
    for (const Node* value = write->arg(0).node(); value != nullptr && left.insert(value).second;
         value = source_of(*value))
      value == base ? eraser.erase_output(value) : eraser.erase(value, kWritten);
    if (!is_read) continue;
    bases_left.insert(base);
    for (const Node* value : bytes.below(base))
      if (value != base) eraser.erase(value, kWritten);
    for (const Node* value : bytes.below(base))
      for (const Node* user : value->users()) eraser.erase(user, kReads);
  }
  if (any) eraser.erase_sharers();
}

}  // namespace qdq
