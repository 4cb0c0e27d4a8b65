// ONNX operators that go along axes: reductions, softmax, sums so far, largest elements.
#include <algorithm>
#include <limits>

#include "base/stable_sort.h"
#include "io/onnx/chains.h"
#include "op/targets.h"

namespace qdq {
namespace {

// The axes of a reduction, from the front; nothing if it is to leave its input as it is.
std::optional<std::vector<int64_t>> reduced_axes(OnnxCall& call) {
  const size_t rank = call.rank(0);
  std::vector<int64_t> axes = call.axes(1, rank).value_or(std::vector<int64_t>());
  if (axes.empty() && call.integer("noop_with_empty_axes", 0) != 0) return std::nullopt;
  if (axes.empty())
    for (size_t i = 0; i < rank; ++i) axes.push_back(static_cast<int64_t>(i));
  sort_stably(axes);
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  return axes;
}

struct Reduction {
  OnnxCall& call;
  std::vector<int64_t> axes;
  bool keeps;
  Node* x;
  DType dtype;  // of the input, and of the result

  Argument dims() const { return OnnxCall::list(axes); }
  Node* run(const char* target, Node* of) const { return call.call(target, {of, dims(), keeps}); }
  // Integers are summed in their own type, others in 64 bits that are cut.
  Node* sum(Node* of) const {
    if (is_floating(dtype)) return run("sum.dim_IntList", of);
    return call.call("sum.dim_IntList", {of, dims(), keeps}, "dtype", dtype);
  }
  // What is computed with floats alone.
  Node* floats() const { return is_floating(dtype) ? x : call.call("to.dtype", {x, DType::kF64}); }
  Node* norm(int order) const { return call.call("linalg_vector_norm.default", {floats(), order, dims(), keeps}); }
};

// Of nothing, the largest is the smallest number that there is.
Node* extreme(const Reduction& r, const char* target, bool largest) {
  const SymShape& sizes = r.call.meta(0).sizes;
  const bool is_empty =
      std::any_of(r.axes.begin(), r.axes.end(), [&](int64_t a) { return sizes[static_cast<size_t>(a)] == SymInt(0); });
  if (!is_empty) return r.run(target, r.x);
  Argument::List rest;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const bool is_reduced = std::find(r.axes.begin(), r.axes.end(), static_cast<int64_t>(i)) != r.axes.end();
    if (!is_reduced) rest.push_back(as_argument(r.call, size_along(r.call, r.x, static_cast<int64_t>(i))));
    else if (r.keeps) rest.emplace_back(1);
  }
  const double infinity = std::numeric_limits<double>::infinity();
  const Argument value = r.dtype == DType::kBool ? Argument(!largest)
                         : is_floating(r.dtype)  ? Argument(largest ? -infinity : infinity)
                                                 : Argument(largest ? min_of(r.dtype) : max_of(r.dtype));
  return r.call.call("full.default", {Argument(std::move(rest)), value}, "dtype", r.dtype);
}

Node* product(const Reduction& r) {
  if (r.axes.empty()) return r.x;
  Node* out = r.x;
  // From the last axis on, so that the numbers of the others stay.
  for (size_t i = r.axes.size(); i-- > 0;)
    out = is_floating(r.dtype) ? r.call.call("prod.dim_int", {out, r.axes[i], r.keeps})
                               : r.call.call("prod.dim_int", {out, r.axes[i], r.keeps}, "dtype", r.dtype);
  return out;
}

Node* reduced(const Reduction& r, std::string_view name) {
  OnnxCall& call = r.call;
  const bool is_float = is_floating(r.dtype);
  if (name == "ReduceSum") return r.sum(r.x);
  if (name == "ReduceMax") return extreme(r, "amax.default", true);
  if (name == "ReduceMin") return extreme(r, "amin.default", false);
  if (name == "ReduceProd") return product(r);
  if (name == "ReduceSumSquare") return r.sum(call.call("mul.Tensor", {r.x, r.x}));
  if (name == "ReduceMean") {
    if (is_float) return r.run("mean.dim", r.x);
    return call.call("mean.dim", {r.x, r.dims(), r.keeps}, "dtype", DType::kF64);
  }
  // A tensor without axes is its own sum.
  if (r.axes.empty() && (name == "ReduceL1" || name == "ReduceL2")) return call.call("abs.default", {r.x});
  if (r.axes.empty() && name == "ReduceLogSumExp") return r.x;
  if (name == "ReduceL1") return is_float ? r.norm(1) : r.sum(call.call("abs.default", {r.x}));
  if (name == "ReduceL2") return r.norm(2);
  if (name == "ReduceLogSum") return call.call("log.default", {r.run("sum.dim_IntList", r.floats())});
  return r.run("logsumexp.default", r.floats());
}

void reduce(OnnxCall& call) {
  const auto axes = reduced_axes(call);
  if (!axes) return call.same_as_input(0);
  const Reduction r{call, *axes, call.integer("keepdims", 1) != 0, call.tensor(0), call.meta(0).dtype};
  call.set(cast_to(call, reduced(r, call.op().name), r.dtype));
}

void arg_extreme(OnnxCall& call) {
  const int64_t axis = call.rank(0) == 0 ? 0 : call.axis(call.integer("axis", 0), call.rank(0));
  const bool keeps = call.integer("keepdims", 1) != 0;
  Node* x = call.tensor(0);
  if (call.integer("select_last_index", 0) == 0 || call.rank(0) == 0)
    return call.set(call.call(call.op().aten, {x, axis, keeps}));
  // The last of equal ones is the first from the other end.
  Node* from_end = call.call(call.op().aten, {reversed(call, x, axis), axis, keeps});
  const SymInt last = subtract_sizes(call, size_along(call, x, axis), 1);
  call.set(call.call("rsub.Scalar", {from_end, as_argument(call, last)}));
}

void topk(OnnxCall& call) {
  const SymInt k = call.has(1) ? call.size(1) : SymInt(call.integer("k", 1));
  Node* both = call.call("topk.default",
                         {call.tensor(0), as_argument(call, k), call.axis(call.integer("axis", -1), call.rank(0)),
                          call.integer("largest", 1) != 0, call.integer("sorted", 1) != 0});
  for (const int output : {0, 1}) call.set(call.call("operator.getitem", {both, output}), static_cast<size_t>(output));
}

// CumSum, and CumProd of opset 26.
void accumulate(OnnxCall& call) {
  const size_t rank = call.rank(0);
  const std::string target = call.op().aten;
  if (rank == 0) call.refuse("accumulates along an axis of a number");
  const int64_t axis = call.axis(known_number(call, 1), rank);
  const bool reverse = call.integer("reverse", 0) != 0;
  const DType dtype = call.meta(0).dtype;
  Node* x = call.tensor(0);
  if (reverse) x = reversed(call, x, axis);
  Node* out = is_floating(dtype) ? call.call(target, {x, axis}) : call.call(target, {x, axis}, "dtype", dtype);
  if (call.integer("exclusive", 0) != 0) {  // what changes nothing stands in front, and the last result goes
    Argument::List pads(2 * (rank - static_cast<size_t>(axis)), Argument(0));
    pads[pads.size() - 2] = 1;
    pads[pads.size() - 1] = -1;
    out = call.call("constant_pad_nd.default", {out, Argument(std::move(pads)), target.starts_with("cumprod") ? 1 : 0});
  }
  call.set(reverse ? reversed(call, out, axis) : out);
}

void softmax(OnnxCall& call) {
  along_rows(call, [&](Node* x, int64_t axis) { return call.call(call.op().aten, {x, axis}); });
}

Node* result(OnnxCall& call, Node* all, int i) { return call.call("operator.getitem", {all, i}); }

// Values, the first place of each, where each element went, how many there are of each.
void unique(OnnxCall& call) {
  const bool by_axis = call.attribute("axis") != nullptr;
  const int64_t axis = by_axis ? call.axis(call.integer("axis", 0), call.rank(0)) : 0;
  Node* x = call.tensor(0);
  const bool is_text = call.meta(0).dtype == DType::kString;
  if (is_text) x = call.call("onnx.string_ranks.default", {x});
  Node* all = by_axis ? call.call("unique_dim.default", {x, axis, true, true, true})
                      : call.call("_unique2.default", {x, true, true, true});
  Node *values = result(call, all, 0), *counts = result(call, all, 2);
  Node* inverse = result(call, all, 1);
  if (!by_axis && call.rank(0) != 1) inverse = call.call("reshape.default", {inverse, Argument(Argument::List{-1})});
  const bool is_sorted = call.integer("sorted", 1) != 0;
  Node* firsts = nullptr;
  if (!is_sorted || is_text || call.has_output(1)) {
    Node* places = count_up(call, size_along(call, inverse, 0));
    firsts = call.call("scatter_reduce.two", {call.call("zeros_like.default", {counts}), 0, inverse, places, "amin"},
                       "include_self", false);
  }
  if (!is_sorted) {  // in the order of the first places
    Node* order = call.call("argsort.default", {firsts});
    const auto ordered = [&](Node* node, int64_t along) {
      return call.call("index_select.default", {node, along, order});
    };
    values = ordered(values, axis);
    counts = ordered(counts, 0);
    firsts = ordered(firsts, 0);
    inverse = call.call("index_select.default", {call.call("argsort.default", {order}), 0, inverse});
  }
  if (is_text) {
    Node* texts = call.tensor(0);
    if (!by_axis) texts = call.call("reshape.default", {texts, Argument(Argument::List{-1})});
    values = call.call("index_select.default", {texts, axis, firsts});
  }
  call.set(values, 0);
  if (call.has_output(1)) call.set(firsts, 1);
  call.set(inverse, 2);
  call.set(counts, 3);
}

// Where the elements are that are not 0, a row for each; how many a constant has is known.
Node* places_of(OnnxCall& call, Node* x) {
  const Tensor known = call.import().constant_of(x);
  if (!known.defined()) return call.call("nonzero.default", {x});
  const OpDef& op = *find_op(op::aten("nonzero.default"));
  return call.import().constant(*op.eval(Call<Tensor>(op, {known})).get_if<Tensor>(), "places");
}

// [axes, elements].
void nonzero(OnnxCall& call) { call.set(call.call("transpose.int", {places_of(call, call.tensor(0)), 0, 1})); }

// The slices whose condition holds; those beyond its end do not count.
void compress(OnnxCall& call) {
  const bool by_axis = call.attribute("axis") != nullptr;
  Node* x = call.tensor(0);
  if (!by_axis) x = call.call("reshape.default", {x, Argument(Argument::List{-1})});
  const int64_t axis = by_axis ? call.axis(call.integer("axis", 0), call.rank(0)) : 0;
  Node* places = call.call("reshape.default", {places_of(call, call.tensor(1)), Argument(Argument::List{-1})});
  call.set(call.call("index_select.default", {x, axis, places}));
}

// Boxes [N, B, 4] and scores [N, C, B] give [M, 3]: batch, class, box.
void non_max_suppression(OnnxCall& call) {
  Argument most = 0, overlap = 0.0, least;
  if (call.has(2)) most = as_argument(call, call.size(2));
  if (call.has(3)) overlap = call.is_constant(3) ? Argument(call.number(3)) : Argument(call.tensor(3));
  if (call.has(4)) least = call.is_constant(4) ? Argument(call.number(4)) : Argument(call.tensor(4));
  call.set(call.call_as_it_is("onnx.non_max_suppression.default", {call.tensor(0), call.tensor(1), most, overlap, least,
                                                                   call.integer("center_point_box", 0) != 0}));
}

constexpr OnnxOperator kReductionOperators[] = {
    {"ArgMax", arg_extreme, "argmax.default"},
    {"ArgMin", arg_extreme, "argmin.default"},
    {"Compress", compress, nullptr},
    {"CumProd", accumulate, "cumprod.default"},
    {"CumSum", accumulate, "cumsum.default"},
    {"Det", import_plain, "linalg_det.default"},
    {"LogSoftmax", softmax, "log_softmax.int"},
    {"NonMaxSuppression", non_max_suppression, nullptr},
    {"NonZero", nonzero, nullptr},
    {"ReduceL1", reduce, nullptr},
    {"ReduceL2", reduce, nullptr},
    {"ReduceLogSum", reduce, nullptr},
    {"ReduceLogSumExp", reduce, nullptr},
    {"ReduceMax", reduce, nullptr},
    {"ReduceMean", reduce, nullptr},
    {"ReduceMin", reduce, nullptr},
    {"ReduceProd", reduce, nullptr},
    {"ReduceSum", reduce, nullptr},
    {"ReduceSumSquare", reduce, nullptr},
    {"Softmax", softmax, "softmax.int"},
    {"TopK", topk, nullptr},
    {"Unique", unique, nullptr},
};

}  // namespace

std::span<const OnnxOperator> onnx_reduction_operators() { return kReductionOperators; }

}  // namespace qdq
