// Observers of annotated edges and outputs: union-find says who shares one.
#include "quant/observer_map.h"

#include <algorithm>
#include <unordered_map>

namespace qdq {

namespace {

struct EdgeOrNodeHash {
  size_t operator()(const EdgeOrNode& at) const {
    const std::hash<const void*> hash;
    if (const Edge* edge = std::get_if<Edge>(&at)) return hash(edge->first) * 31 + hash(edge->second) + 1;
    return hash(std::get<Node*>(at));
  }
};

// What two specs must agree on to share implicitly; a field that a kind of spec does not have is compared as missing.
struct Comparable {
  DType dtype;
  bool is_dynamic = false;
  std::optional<int64_t> quant_min, quant_max;
  std::optional<QScheme> qscheme;
  bool has_ch_axis = false;
  std::optional<int64_t> ch_axis;
  bool has_qparams = false;
  double scale = 0;
  int64_t zero_point = 0;
  bool operator==(const Comparable&) const = default;
};

std::optional<Comparable> comparable(const QSpec& spec) {
  if (const auto* s = std::get_if<QuantizationSpec>(&spec))
    return Comparable{s->dtype, s->is_dynamic, s->quant_min, s->quant_max, s->qscheme, true, s->ch_axis, false, 0, 0};
  if (const auto* s = std::get_if<FixedQParamsQuantizationSpec>(&spec))
    return Comparable{s->dtype, false, s->quant_min, s->quant_max, s->qscheme,
                      false,    {},    true,         s->scale,     s->zero_point};
  if (const auto* s = std::get_if<DerivedQuantizationSpec>(&spec))
    return Comparable{s->dtype, false, s->quant_min, s->quant_max, s->qscheme, true, s->ch_axis, false, 0, 0};
  return std::nullopt;
}

class Sharing {
 public:
  Sharing(const Graph& graph, const Annotations& annotations) : annotations_(annotations) {
    for (Node* node : graph.nodes()) {
      const auto found = annotations.find(node);
      if (found == annotations.end()) continue;
      for (const auto& [input, spec] : found->second.input_qspec_map) add(Edge{input, node}, spec);
      if (!std::holds_alternative<std::monostate>(found->second.output_qspec)) add(node, found->second.output_qspec);
    }
    for (size_t i = 0; i < points_.size(); ++i) unite_one(i);
  }

  struct Point {
    EdgeOrNode at;
    const QSpec* spec;
    size_t parent;
  };
  const std::vector<Point>& points() const { return points_; }
  size_t root(size_t i) {
    while (points_[i].parent != i) {
      points_[i].parent = points_[points_[i].parent].parent;
      i = points_[i].parent;
    }
    return i;
  }
  std::optional<size_t> find(const EdgeOrNode& at) const {
    const auto found = index_.find(at);
    return found == index_.end() ? std::nullopt : std::optional<size_t>(found->second);
  }

 private:
  void add(EdgeOrNode at, const QSpec& spec) {
    check_spec(spec, to_string(at));
    index_.emplace(at, points_.size());
    points_.push_back({at, &spec, points_.size()});
  }

  size_t require(const EdgeOrNode& at, size_t who) const {
    const auto found = find(at);
    QDQ_CHECK(found, kInvalidArgument, "the spec of ", to_string(points_[who].at), " shares with ", to_string(at),
              ", which carries no spec; annotate it, or share with something that is annotated");
    return *found;
  }

  // The spec that a chain of shared specs leads to, following the unions made so far.
  const QSpec* root_spec(size_t i) {
    const QSpec* spec = points_[i].spec;
    for (size_t steps = 0;; ++steps) {
      const auto* shared = std::get_if<SharedQuantizationSpec>(spec);
      if (shared == nullptr) return spec;
      QDQ_CHECK(steps <= points_.size(), kInvalidArgument, "the spec of ", to_string(points_[i].at),
                " shares with itself in a circle; one member of a sharing group needs a spec of its own");
      spec = points_[root(require(shared->with, i))].spec;
    }
  }

  void unite(size_t parent, size_t child) { points_[root(child)].parent = root(parent); }

  void unite_if_equal(size_t edge, const std::optional<Comparable>& own, const EdgeOrNode& other) {
    const auto found = find(other);
    if (!found) return;
    const auto theirs = comparable(*root_spec(*found));
    if (theirs && theirs == own) unite(*found, edge);
  }

  bool is_shared(const EdgeOrNode& at) const {
    const auto found = find(at);
    return found && std::holds_alternative<SharedQuantizationSpec>(*points_[*found].spec);
  }

  // Where no reader of a value shares a spec of another place, the first of equal readers is united with all others,
  // and nothing is left to do for these: a value with many readers would take the square of their number.
  struct Readers {
    bool share_nothing = true;
    std::vector<std::optional<Comparable>> united;
  };
  Readers& readers_of(Node* input) {
    const auto [found, is_new] = readers_.try_emplace(input);
    if (is_new) {
      const auto shares = [&](Node* user) { return is_shared(Edge{input, user}); };
      found->second.share_nothing = !is_shared(input) && std::ranges::none_of(input->users(), shares);
    }
    return found->second;
  }

  void unite_with_readers(size_t i, Node* input, const Node* node) {
    const auto own = comparable(*root_spec(i));
    Readers& readers = readers_of(input);
    if (readers.share_nothing) {
      if (std::ranges::find(readers.united, own) != readers.united.end()) return;
      readers.united.push_back(own);
    }
    for (Node* user : input->users())
      if (user != node) unite_if_equal(i, own, Edge{input, user});
    unite_if_equal(i, own, input);
  }

  // PyTorch's order: first other users of the same tensor, then its producer's output, then what the spec itself says.
  void unite_one(size_t i) {
    if (const Edge* edge = std::get_if<Edge>(&points_[i].at))
      if (annotations_.at(edge->second).allow_implicit_sharing) unite_with_readers(i, edge->first, edge->second);
    if (const auto* shared = std::get_if<SharedQuantizationSpec>(points_[i].spec)) unite(require(shared->with, i), i);
  }

  const Annotations& annotations_;
  std::vector<Point> points_;
  std::unordered_map<EdgeOrNode, size_t, EdgeOrNodeHash> index_;
  std::unordered_map<const Node*, Readers> readers_;
};

}  // namespace

ObserverMap make_observers(
    const Graph& graph, const Annotations& annotations,
    std::vector<std::pair<std::shared_ptr<Observer>, std::vector<std::shared_ptr<Observer>>>>* derived_from,
    bool is_qat) {
  Sharing sharing(graph, annotations);
  ObserverMap out;
  std::unordered_map<size_t, std::shared_ptr<Observer>> of_root;
  std::unordered_map<EdgeOrNode, std::shared_ptr<Observer>, EdgeOrNodeHash> made;
  for (size_t i = 0; i < sharing.points().size(); ++i) {
    const EdgeOrNode at = sharing.points()[i].at;
    const QSpec& spec = *sharing.points()[i].spec;
    const auto source = [&](const EdgeOrNode& from, const char* relation) {
      const auto found = made.find(from);
      QDQ_CHECK(
          found != made.end(), kInvalidArgument, "the spec of ", to_string(at), relation, to_string(from),
          ", which has no observer yet: specs are served in the order of the graph, so name something in front of it");
      return found->second;
    };
    const size_t root = sharing.root(i);
    if (!of_root.count(root)) {
      std::shared_ptr<Observer> observer;
      if (const auto* s = std::get_if<QuantizationSpec>(&spec)) {
        observer = make_observer(*s);
      } else if (const auto* f = std::get_if<FixedQParamsQuantizationSpec>(&spec)) {
        observer = make_observer(*f, is_qat);
      } else if (const auto* shared = std::get_if<SharedQuantizationSpec>(&spec)) {
        observer = source(shared->with, " shares with ");
      } else if (const auto* d = std::get_if<DerivedQuantizationSpec>(&spec)) {
        std::vector<std::shared_ptr<Observer>> sources;
        for (const EdgeOrNode& from : d->derived_from) sources.push_back(source(from, " is derived from "));
        observer = make_observer(*d, sources);
        if (derived_from) derived_from->emplace_back(observer, sources);
      }
      of_root[root] = observer;
    }
    made[at] = of_root[root];
    out.emplace_back(at, of_root[root]);
  }
  return out;
}

}  // namespace qdq
