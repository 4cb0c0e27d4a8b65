// ONNX operators that go along axes: reductions, softmax, sums so far, largest elements.
#include "io/onnx/import.h"

namespace qdq {
namespace {

void reduce(OnnxCall& call) {
  const size_t rank = call.rank(0);
  std::optional<std::vector<int64_t>> axes = call.axes(1, rank);
  if (axes && axes->empty()) axes.reset();
  if (!axes && call.integer("noop_with_empty_axes", 0) != 0) return call.same_as_input(0);
  if (!axes) {
    axes.emplace();
    for (size_t i = 0; i < rank; ++i) axes->push_back(static_cast<int64_t>(i));
  }
  call.set(call.call(call.op().aten, {call.tensor(0), OnnxCall::list(*axes), call.integer("keepdims", 1) != 0}));
}

void reduce_prod(OnnxCall& call) {
  const auto axes = call.axes(1, call.rank(0));
  if (!axes || axes->size() != 1)
    call.refuse("multiplies along ", axes ? axes->size() : call.rank(0), " axes at once, wanted one");
  call.set(call.call("prod.dim_int", {call.tensor(0), axes->front(), call.integer("keepdims", 1) != 0}));
}

void reduce_l2(OnnxCall& call) {
  const auto axes = call.axes(1, call.rank(0));
  call.set(call.call("linalg_vector_norm.default",
                     {call.tensor(0), 2, axes ? OnnxCall::list(*axes) : Argument(), call.integer("keepdims", 1) != 0}));
}

void arg_max(OnnxCall& call) {
  if (call.integer("select_last_index", 0) != 0) call.refuse("wants the last of equal values");
  call.set(call.call(call.op().aten, {call.tensor(0), call.integer("axis", 0), call.integer("keepdims", 1) != 0}));
}

void topk(OnnxCall& call) {
  Node* both = call.call("topk.default", {call.tensor(0), call.whole_number(1), call.integer("axis", -1),
                                          call.integer("largest", 1) != 0, call.integer("sorted", 1) != 0});
  for (const int output : {0, 1}) call.set(call.call("operator.getitem", {both, output}), static_cast<size_t>(output));
}

void cumsum(OnnxCall& call) {
  if (call.integer("exclusive", 0) != 0 || call.integer("reverse", 0) != 0)
    call.refuse("sums exclusively or in reverse");
  call.set(call.call("cumsum.default", {call.tensor(0), call.whole_number(1)}));
}

void softmax(OnnxCall& call) { call.set(call.call(call.op().aten, {call.tensor(0), call.integer("axis", -1)})); }

constexpr OnnxOperator kOperators[] = {
    {"ArgMax", arg_max, "argmax.default"},
    {"ArgMin", arg_max, "argmin.default"},
    {"CumSum", cumsum, nullptr},
    {"LogSoftmax", softmax, "log_softmax.int"},
    {"ReduceL2", reduce_l2, nullptr},
    {"ReduceLogSumExp", reduce, "logsumexp.default"},
    {"ReduceMax", reduce, "amax.default"},
    {"ReduceMean", reduce, "mean.dim"},
    {"ReduceMin", reduce, "amin.default"},
    {"ReduceProd", reduce_prod, nullptr},
    {"ReduceSum", reduce, "sum.dim_IntList"},
    {"Softmax", softmax, "softmax.int"},
    {"TopK", topk, nullptr},
};

}  // namespace

std::span<const OnnxOperator> onnx_reduction_operators() { return kOperators; }

}  // namespace qdq
