// ONNX operators that read and write elements at places that other tensors tell.
#include <algorithm>

#include "io/onnx/chains.h"

namespace qdq {
namespace {

// PyTorch takes indices of other types for a mask.
void check_indices(OnnxCall& call) {
  const DType dtype = call.meta(1).dtype;
  if (dtype != DType::kS32 && dtype != DType::kS64)
    call.refuse("has indices of ", to_string(dtype), ", wanted int32 or int64");
}

void gather(OnnxCall& call) {
  check_indices(call);
  const int64_t axis = call.axis(call.integer("axis", 0), call.rank(0));
  Node *data = call.tensor(0), *index = call.tensor(1);
  const Tensor known = call.constant(1);
  if (known.defined() && known.dim() == 0) return call.set(call.call("select.int", {data, axis, known.item_int()}));
  if (axis == 0 && call.rank(0) == 2 && call.is_constant(0) && !known.defined() && call.meta(0).dtype != DType::kString)
    return call.set(call.call("embedding.default", {data, index}));
  Argument::List indices(static_cast<size_t>(axis));
  indices.emplace_back(index);
  call.set(call.call("index.Tensor", {data, Argument(std::move(indices))}));
}

void gather_elements(OnnxCall& call) {
  call.set(
      call.call("gather.default", {call.tensor(0), call.axis(call.integer("axis", 0), call.rank(0)), call.tensor(1)}));
}

// Whether all that lies along an axis is the same.
bool is_same_along(const Tensor& x, int64_t axis) {
  const Tensor first = x.slice(axis, 0, 1).contiguous();
  for (int64_t i = 1; i < x.size(axis); ++i)
    if (!bitwise_equal(first, x.slice(axis, i, i + 1).contiguous())) return false;
  return true;
}

// The tensors along the last axis of x, each of size 1 along axes where it does not change; together they broadcast to
// their size. Exporters write x[:, a:b] = y as the places of every element, of which little is left.
std::vector<Tensor> compact_places(const Tensor& x) {
  const int64_t rank = x.dim() - 1;
  std::vector<Tensor> out;
  for (int64_t i = 0; i < x.size(-1); ++i) out.push_back(x.select(-1, i));
  for (int64_t axis = 0; axis < rank; ++axis) {
    bool is_kept = x.size(axis) == 1;
    for (Tensor& place : out) {
      const bool changes = x.size(axis) > 1 && !is_same_along(place, axis);
      is_kept = is_kept || changes;
      if (!changes && (is_kept || &place != &out.back()) && place.size(axis) > 1) place = place.slice(axis, 0, 1);
    }
  }
  for (Tensor& place : out) place = place.contiguous();
  return out;
}

// The last axis of the input 1 holds a place along each of the first axes of the input 0, behind `batch` axes that both
// have: one tensor of indices for each of them.
std::vector<Node*> places_in(OnnxCall& call, size_t batch) {
  check_indices(call);
  Node* indices = call.tensor(1);
  const SymShape& sizes = call.meta(1).sizes;
  const auto depth = sizes.empty() ? std::nullopt : sizes.back().constant();
  if (!depth || *depth < 0 || batch >= sizes.size() || batch + static_cast<size_t>(*depth) > call.rank(0))
    call.refuse("has indices of shape ", to_string(sizes), " for ", call.rank(0), " axes, ", batch, " of them shared");
  std::vector<Node*> out;
  for (size_t i = 0; i < batch; ++i) {
    const auto axis = static_cast<int64_t>(i);
    out.push_back(along_axis(call, count_up(call, size_along(call, call.tensor(0), axis)), axis, sizes.size() - 1));
  }
  if (const Tensor known = call.constant(1); known.defined()) {
    for (const Tensor& place : compact_places(known)) out.push_back(call.import().constant(place, "places"));
    return out;
  }
  for (int64_t i = 0; i < *depth; ++i) out.push_back(call.call("select.int", {indices, -1, i}));
  return out;
}

Argument as_list(const std::vector<Node*>& nodes) { return Argument(Argument::List(nodes.begin(), nodes.end())); }

void gather_nd(OnnxCall& call) {
  const std::vector<Node*> places =
      places_in(call, static_cast<size_t>(std::max<int64_t>(0, call.integer("batch_dims", 0))));
  if (places.empty()) call.refuse("picks by no indices");
  call.set(call.call("index.Tensor", {call.tensor(0), as_list(places)}));
}

// ONNX's name of a reduction as PyTorch's scatter_reduce has it; nothing for none.
std::string scatter_reduction(OnnxCall& call) {
  static constexpr std::pair<std::string_view, const char*> kNames[] = {
      {"none", ""}, {"add", "sum"}, {"mul", "prod"}, {"max", "amax"}, {"min", "amin"}};
  const std::string name = call.text("reduction", "none");
  for (const auto& [onnx, aten] : kNames)
    if (name == onnx) return aten;
  call.refuse("has the reduction ", name, ", wanted none, add, mul, max or min");
}

void scatter_elements(OnnxCall& call) {
  const int64_t axis = call.axis(call.integer("axis", 0), call.rank(0));
  const std::string reduction = scatter_reduction(call);
  Node *x = call.tensor(0), *index = call.tensor(1), *values = call.tensor(2);
  if (reduction.empty()) return call.set(call.call("scatter.src", {x, axis, index, values}));
  call.set(call.call("scatter_reduce.two", {x, axis, index, values, reduction}));
}

void scatter_nd(OnnxCall& call) {
  const std::string reduction = scatter_reduction(call);
  const std::vector<Node*> places = places_in(call, 0);
  if (places.empty()) call.refuse("writes to no indices");
  Node *x = call.tensor(0), *values = call.tensor(2);
  if (reduction.empty()) return call.set(call.call("index_put.default", {x, as_list(places), values}));
  if (reduction == "sum") return call.set(call.call("index_put.default", {x, as_list(places), values, true}));
  // The axes with indices as one, the others as another; places are numbers along the first.
  const auto depth = static_cast<int64_t>(places.size());
  Node* number = nullptr;
  for (int64_t i = 0; i < depth; ++i) {
    const Argument size = as_argument(call, size_along(call, x, i));
    Node* place = call.call("remainder.Scalar", {places[static_cast<size_t>(i)], size});
    number = number ? call.call("add.Tensor", {call.call("mul.Tensor", {number, size}), place}) : place;
  }
  Argument::List rows = {-1};
  for (size_t i = static_cast<size_t>(depth); i < call.rank(0); ++i)
    rows.push_back(as_argument(call, size_along(call, x, static_cast<int64_t>(i))));
  const auto flat = [&](Node* node) { return call.call("reshape.default", {node, Argument(rows)}); };
  Node *table = flat(x), *updates = flat(values);
  Node* index = along_axis(call, call.call("reshape.default", {number, Argument(Argument::List{-1})}), 0, rows.size());
  index = call.call("expand_as.default", {index, updates});
  Node* out = call.call("scatter_reduce.two", {table, 0, index, updates, reduction});
  Argument::List sizes;
  for (size_t i = 0; i < call.rank(0); ++i)
    sizes.push_back(as_argument(call, size_along(call, x, static_cast<int64_t>(i))));
  call.set(call.call("reshape.default", {out, Argument(std::move(sizes))}));
}

// What is new is written into what is there, from each row's own place on.
void tensor_scatter(OnnxCall& call) {
  Node *cache = call.tensor(0), *update = call.tensor(1);
  const size_t rank = call.rank(0);
  const int64_t axis = call.axis(call.integer("axis", -2), rank);
  const SymInt count = size_along(call, update, axis);
  Node* places = along_axis(call, count_up(call, count), axis, rank);
  if (call.has(2)) places = call.call("add.Tensor", {along_axis(call, call.tensor(2), 0, rank), places});
  const std::string mode = call.text("mode", "linear");
  if (mode == "circular")
    places = call.call("remainder.Scalar", {places, as_argument(call, size_along(call, cache, axis))});
  else if (mode != "linear") call.refuse("has the mode ", mode, ", wanted linear or circular");
  call.set(call.call("scatter.src", {cache, axis, call.call("expand_as.default", {places, update}), update}));
}

// The first elements of each row in the opposite order.
void reverse_sequence(OnnxCall& call) {
  Node* x = call.tensor(0);
  const size_t rank = call.rank(0);
  const int64_t time = call.axis(call.integer("time_axis", 0), rank),
                batch = call.axis(call.integer("batch_axis", 1), rank);
  if (time > 1 || batch > 1 || time == batch)
    call.refuse("has the time on axis ", time, " and the batch on axis ", batch, ", wanted 0 and 1 or 1 and 0");
  const auto along = [&](Node* values, int64_t axis) { return along_axis(call, values, axis, 2); };
  Node* steps = along(count_up(call, size_along(call, x, time)), time);
  Node* lengths = along(cast_to(call, call.tensor(1), DType::kS64), batch);
  Node* turned = call.call("sub.Tensor", {call.call("sub.Tensor", {lengths, 1}), steps});
  Node* places = call.call("where.self", {call.call("lt.Tensor", {steps, lengths}), turned, steps});
  Node* rows = along(count_up(call, size_along(call, x, batch)), batch);
  const std::vector<Node*> both = time == 0 ? std::vector<Node*>{places, rows} : std::vector<Node*>{rows, places};
  call.set(call.call("index.Tensor", {x, as_list(both)}));
}

// 1 where the class is the number along the new axis. Classes may count from the end; others are nowhere.
void one_hot(OnnxCall& call) {
  const size_t rank = call.rank(0) + 1;
  const int64_t axis = call.axis(call.integer("axis", -1), rank);
  Node* classes_given = call.tensor(1);
  if (call.rank(1) > 0) classes_given = call.call("reshape.default", {classes_given, Argument(Argument::List{})});
  const SymInt depth = call.is_sizes(1) ? call.size(1) : as_size(call, classes_given);
  Node* given = cast_to(call, call.tensor(0), DType::kS64);
  Node* from_end = call.call("add.Tensor", {given, as_argument(call, depth)});
  Node* classes = call.call("where.self", {call.call("lt.Scalar", {given, 0}), from_end, given});
  Node* numbers = along_axis(call, count_up(call, depth), axis, rank);
  Node* is_class = call.call("eq.Tensor", {call.call("unsqueeze.default", {classes, axis}), numbers});
  const auto value = [&](int i) { return call.call("select.int", {call.tensor(2), 0, i}); };
  call.set(call.call("where.self", {is_class, value(1), value(0)}));
}

constexpr OnnxOperator kPlaceOperators[] = {
    {"Gather", gather, nullptr},
    {"GatherElements", gather_elements, nullptr},
    {"GatherND", gather_nd, nullptr},
    {"OneHot", one_hot, nullptr},
    {"ReverseSequence", reverse_sequence, nullptr},
    {"Scatter", scatter_elements, nullptr},
    {"ScatterElements", scatter_elements, nullptr},
    {"ScatterND", scatter_nd, nullptr},
    {"TensorScatter", tensor_scatter, nullptr},
};

}  // namespace

std::span<const OnnxOperator> onnx_place_operators() { return kPlaceOperators; }

}  // namespace qdq
