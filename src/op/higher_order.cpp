// Operators that call operators: out_dtype, of which the integer reference representation of quantized programs is
// made; and those that run programs: cond, while_loop, map, scan, and ONNX's loop.
#include <algorithm>
#include <cstring>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "base/shell_word.h"
#include "op/control_flow.h"
#include "op/facts.h"
#include "op/families.h"
#include "op/infer.h"
#include "op/size_symbols.h"
#include "op/targets.h"

namespace qdq {
namespace {

constexpr size_t kInnerArguments = 2;  // the arguments of the inner operator follow its name and the wanted dtype

template <class T> const OpDef& inner_op(const Call<T>& call) {
  QDQ_CHECK(!call.is_none(1), kInvalidArgument, "out_dtype of ", call.string(0), " lacks the dtype of its result");
  const OpDef* op = find_op(call.string(0));
  QDQ_CHECK(op != nullptr && op->target != call.op().target, kUnsupported, "out_dtype names the operator ",
            call.string(0), ", which qdq does not have");
  return *op;
}

template <class T> std::vector<BasicValue<T>> inner_args(const Call<T>& call, const OpDef& inner) {
  std::vector<BasicValue<T>> out;
  for (size_t i = kInnerArguments; i < call.size() && out.size() < inner.schema->num_positional(); ++i)
    out.push_back(call[i]);
  while (!out.empty() && out.back().is_none()) out.pop_back();
  return out;
}

// All tensors are brought to the promoted dtype of theirs and a tensor of the wanted dtype
// (torch/_higher_order_ops/out_dtype.py).
DType promoted(const Call<Tensor>& call) {
  DType by_rank[3] = {call.dtype(1, DType::kF32), call.dtype(1, DType::kF32), call.dtype(1, DType::kF32)};
  bool has[3] = {false, false, true};
  for (size_t i = kInnerArguments; i < call.size(); ++i) {
    if (!call[i].is_tensor()) continue;
    const OperandKind kind = operand_kind(call, i);
    by_rank[kind.rank] = has[kind.rank] ? promote(by_rank[kind.rank], kind.dtype) : kind.dtype;
    has[kind.rank] = true;
  }
  const OperandKind axes{by_rank[2], 2};
  return has[1] ? result_dtype({axes, OperandKind{by_rank[1], 1}}) : axes.dtype;
}

MetaValue infer_out_dtype(const Call<TensorMeta>& call) {
  const OpDef& inner = inner_op(call);
  std::vector<MetaValue> args = inner_args(call, inner);
  for (MetaValue& arg : args)  // of one dtype, whichever it is: only the sizes are asked for
    if (const TensorMeta* meta = arg.get_if<TensorMeta>()) arg = tensor_meta(call.dtype(1, meta->dtype), meta->sizes);
  const MetaValue result = inner.infer(Call<TensorMeta>(inner, std::move(args)));
  const TensorMeta* meta = result.get_if<TensorMeta>();
  QDQ_CHECK(meta != nullptr, kUnsupported, "out_dtype of ", inner.target, " does not give a tensor");
  return tensor_meta(call.dtype(1, meta->dtype), meta->sizes);
}

Value eval_out_dtype(const Call<Tensor>& call) {
  const OpDef& inner = inner_op(call);
  const DType computed = promoted(call);
  std::vector<Value> args = inner_args(call, inner);
  for (Value& arg : args)
    if (const Tensor* tensor = arg.get_if<Tensor>()) arg = tensor->to(computed);
  const Value result = inner.eval(Call<Tensor>(inner, std::move(args)));
  return result.get_if<Tensor>()->to(call.dtype(1, computed));
}

// What is known of the outputs of a program.
std::vector<ValueMeta> output_metas(const Program& program) {
  std::vector<ValueMeta> out;
  for (const Argument& result : program.graph->output_node()->arg(0).list())
    out.push_back(result.node() ? result.node()->meta.val : ValueMeta());
  return out;
}

// One value that can be either: what differs between the two is known when it runs.
MetaValue either(const ValueMeta& a, const ValueMeta& b) {
  const TensorMeta *x = a.tensor(), *y = b.tensor();
  if (x == nullptr || y == nullptr || x->dtype != y->dtype || x->sizes.size() != y->sizes.size()) return {};
  SymShape sizes = x->sizes;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (!(sizes[i] == y->sizes[i]) || !is_known_outside(sizes[i])) sizes[i] = size_from_values();
  return tensor_meta(x->dtype, std::move(sizes));
}

MetaValue infer_cond(const Call<TensorMeta>& call) {
  const std::vector<ValueMeta> a = output_metas(call.program(1)), b = output_metas(call.program(2));
  QDQ_CHECK(a.size() == b.size(), kInvalidArgument, call.op().target, " has branches with ", a.size(), " and ",
            b.size(), " results");
  MetaValue::List out;
  for (size_t i = 0; i < a.size(); ++i) out.push_back(either(a[i], b[i]));
  return out;
}

}  // namespace

Value as_output(Value value) {
  if (const auto* integer = value.get_if<int64_t>()) return Tensor::scalar(*integer);
  if (const auto* number = value.get_if<double>()) return Tensor::scalar(*number);
  if (const auto* truth = value.get_if<bool>()) return Tensor::scalar(*truth);
  return value;
}

namespace {

// The values of a list, of which one may be a list of tensors itself.
std::vector<Value> values_of(const Call<Tensor>& call, size_t i) {
  const Value::List* list = call[i].get_if<Value::List>();
  QDQ_CHECK(list != nullptr, kInvalidArgument, call.op().target, " needs a list as its argument ", i);
  std::vector<Value> out;
  for (const Value& value : *list) {
    out.push_back(as_output(value));  // a size is a tensor within
    QDQ_CHECK(out.back().is_tensor() || out.back().is_none() || out.back().is<Value::List>(), kInvalidArgument,
              call.op().target, " needs tensors in its argument ", i);
  }
  return out;
}
const Tensor& tensor_in(const Call<Tensor>& call, const Value& value) {
  const Tensor* tensor = value.get_if<Tensor>();
  QDQ_CHECK(tensor != nullptr, kInvalidArgument, call.op().target, " needs a tensor where a program of it gives none");
  return *tensor;
}

bool is_true(const Call<Tensor>& call, const Value& value) {
  const Tensor& tensor = tensor_in(call, value);
  QDQ_CHECK(tensor.numel() == 1, kInvalidArgument, call.op().target, " branches on ", tensor.numel(),
            " values, wanted one");
  return tensor.item() != 0;
}

Value run_cond(const Call<Tensor>& call, const RunProgram& run) {
  // Else it is a number, as what sizes tell.
  const bool holds = call[0].is_tensor() ? is_true(call, call[0]) : call.boolean(0);
  return run(call.program(holds ? 1 : 2), values_of(call, 3));
}

MetaValue infer_while_loop(const Call<TensorMeta>& call) {
  MetaValue::List out;
  for (const ValueMeta& meta : output_metas(call.program(1))) out.push_back(either(meta, meta));
  return out;
}

// A loop that only its condition ends is taken for endless after so many iterations.
constexpr int64_t kMostIterations = 1 << 17;
void check_iterations(const Call<Tensor>& call, int64_t done) {
  QDQ_CHECK(done < kMostIterations, kUnsupported, call.op().target, " has run ", done,
            " iterations, its condition still holds, and the model says no number of them; qdq takes it for endless");
}

Value run_while_loop(const Call<Tensor>& call, const RunProgram& run) {
  std::vector<Value> carried = values_of(call, 2);
  const std::vector<Value> additional = values_of(call, 3);
  const auto inputs = [&] {
    std::vector<Value> all = carried;
    all.insert(all.end(), additional.begin(), additional.end());
    return all;
  };
  for (int64_t done = 0;; ++done) {
    check_iterations(call, done);
    const std::vector<Value> goes_on = run(call.program(0), inputs());
    QDQ_CHECK(goes_on.size() == 1, kInvalidArgument, call.op().target, " has a condition of ", goes_on.size(),
              " results, wanted one");
    if (!is_true(call, goes_on[0])) return carried;
    carried = run(call.program(1), inputs());
  }
}

// What is known of a result that every iteration adds to: there are `count`.
MetaValue each_of(const ValueMeta& meta, const SymInt& count) {
  if (meta.tensor() == nullptr) return {};
  SymShape sizes = either(meta, meta).get_if<TensorMeta>()->sizes;
  sizes.insert(sizes.begin(), count);
  return tensor_meta(meta.tensor()->dtype, std::move(sizes));
}

// What the iterations gave as their result k, along a new first axis.
Tensor joined(const Call<Tensor>& call, const std::vector<Tensor>& parts, const ValueMeta& known, size_t k) {
  const TensorMeta* meta = known.tensor();
  QDQ_CHECK(!parts.empty() || meta, kInvalidArgument, call.op().target, " has no iteration, and its result ", k,
            " no known shape");
  Shape sizes;
  if (!parts.empty()) sizes = parts[0].sizes();
  else
    for (const SymInt& size : meta->sizes) sizes.push_back(size.constant().value_or(0));
  const DType dtype = parts.empty() ? meta->dtype : parts[0].dtype();
  Shape all = sizes;
  all.insert(all.begin(), static_cast<int64_t>(parts.size()));
  Tensor out = Tensor::empty(all, dtype);
  for (size_t i = 0; i < parts.size(); ++i) {
    QDQ_CHECK(parts[i].sizes() == sizes && parts[i].dtype() == dtype, kInvalidArgument, call.op().target,
              " has iterations whose results have different shapes: ", to_string(sizes), " and ",
              to_string(parts[i].sizes()));
    const Tensor part = parts[i].contiguous();
    if (part.nbytes() > 0) std::memcpy(out.raw() + i * part.nbytes(), part.raw(), part.nbytes());
  }
  return out;
}

// loop: the body takes the iteration's number, the condition, what is carried, and what it needs of the outside; it
// gives the next condition, what is carried, and what every iteration adds to the results.
MetaValue infer_loop(const Call<TensorMeta>& call) {
  const std::vector<ValueMeta> body = output_metas(call.program(2));
  const auto* list = call[3].get_if<MetaValue::List>();
  const size_t carried = list ? list->size() : 0;
  QDQ_CHECK(body.size() > carried, kInvalidArgument, call.op().target, " carries ", carried, " values, its body gives ",
            body.size(), " results, wanted one more at least");
  MetaValue::List out;
  for (size_t i = 1; i < body.size(); ++i)
    out.push_back(i <= carried ? either(body[i], body[i]) : each_of(body[i], size_from_values()));
  return out;
}

Value run_loop(const Call<Tensor>& call, const RunProgram& run) {
  const Program& body = call.program(2);
  std::vector<Value> carried = values_of(call, 3);
  const std::vector<Value> captured = values_of(call, 4);
  const Tensor* trips = call.optional_tensor(0);
  constexpr int64_t kNoCount = std::numeric_limits<int32_t>::max();  // exporters write the largest number then
  const int64_t count = trips ? trips->item_int() : std::numeric_limits<int64_t>::max();
  Value condition = Tensor::full({}, DType::kBool, 1);
  if (const Tensor* given = call.optional_tensor(1)) condition = *given;
  const std::vector<ValueMeta> metas = output_metas(body);
  std::vector<std::vector<Tensor>> scans(metas.size() - 1 - carried.size());
  for (int64_t i = 0; i < count && is_true(call, condition); ++i) {
    if (count >= kNoCount) check_iterations(call, i);
    std::vector<Value> inputs = {Tensor::scalar(i), condition};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    inputs.insert(inputs.end(), captured.begin(), captured.end());
    const std::vector<Value> results = run(body, inputs);
    QDQ_CHECK(results.size() == metas.size(), kInternal, "a loop's body gave another number of results");
    condition = results[0];
    for (size_t k = 0; k < carried.size(); ++k) carried[k] = results[1 + k];
    for (size_t k = 0; k < scans.size(); ++k) scans[k].push_back(tensor_in(call, results[1 + carried.size() + k]));
  }
  Value::List out = carried;
  for (size_t k = 0; k < scans.size(); ++k) out.push_back(joined(call, scans[k], metas[1 + carried.size() + k], k));
  return out;
}

// Of map and scan, which go along an axis of several tensors: its size, and element i of each of them.
int64_t steps_along(const Call<Tensor>& call, const std::vector<Tensor>& tensors, int64_t axis) {
  QDQ_CHECK(!tensors.empty(), kInvalidArgument, call.op().target, " goes along no tensor");
  for (const Tensor& tensor : tensors)
    QDQ_CHECK(tensor.dim() > 0 && tensor.size(axis) == tensors[0].size(axis), kInvalidArgument, call.op().target,
              " goes along axis ", axis, " of tensors of the shapes ", to_string(tensors[0].sizes()), " and ",
              to_string(tensor.sizes()));
  return tensors[0].size(axis);
}

// (combine_fn, init, xs, dim, reverse, additional_inputs); map is a scan that carries nothing.
Value run_along(const Call<Tensor>& call, const RunProgram& run, std::vector<Value> carried,
                const std::vector<Tensor>& xs, int64_t axis, bool is_reverse, const std::vector<Value>& captured) {
  const Program& body = call.program(0);
  const std::vector<ValueMeta> metas = output_metas(body);
  QDQ_CHECK(metas.size() >= carried.size(), kInvalidArgument, call.op().target, " carries ", carried.size(),
            " values, its body gives ", metas.size());
  const int64_t count = steps_along(call, xs, axis);
  std::vector<std::vector<Tensor>> parts(metas.size() - carried.size());
  for (int64_t i = 0; i < count; ++i) {
    std::vector<Value> inputs = carried;
    for (const Tensor& x : xs) inputs.push_back(x.select(axis, is_reverse ? count - 1 - i : i).contiguous());
    inputs.insert(inputs.end(), captured.begin(), captured.end());
    const std::vector<Value> results = run(body, inputs);
    QDQ_CHECK(results.size() == metas.size(), kInternal, "a program gave another number of results");
    for (size_t k = 0; k < carried.size(); ++k) carried[k] = results[k];
    for (size_t k = 0; k < parts.size(); ++k) parts[k].push_back(tensor_in(call, results[carried.size() + k]));
  }
  Value::List out = carried;
  for (size_t k = 0; k < parts.size(); ++k) {
    if (is_reverse) std::reverse(parts[k].begin(), parts[k].end());
    out.push_back(joined(call, parts[k], metas[carried.size() + k], k));
  }
  return out;
}

MetaValue infer_along(const Call<TensorMeta>& call, size_t carried, const std::vector<TensorMeta>& xs, int64_t axis) {
  QDQ_CHECK(!xs.empty() && !xs[0].sizes.empty(), kInvalidArgument, call.op().target, " goes along no tensor");
  const SymInt& count = xs[0].sizes[static_cast<size_t>(wrap_axis(axis, static_cast<int64_t>(xs[0].sizes.size())))];
  MetaValue::List out;
  for (const ValueMeta& meta : output_metas(call.program(0)))
    out.push_back(out.size() < carried ? either(meta, meta) : each_of(meta, count));
  return out;
}

MetaValue infer_map(const Call<TensorMeta>& call) { return infer_along(call, 0, call.tensors(1), 0); }
Value run_map(const Call<Tensor>& call, const RunProgram& run) {
  return run_along(call, run, {}, call.tensors(1), 0, false, values_of(call, 2));
}

MetaValue infer_scan(const Call<TensorMeta>& call) {
  return infer_along(call, call.tensors(1).size(), call.tensors(2), call.integer(3));
}
Value run_scan(const Call<Tensor>& call, const RunProgram& run) {
  return run_along(call, run, values_of(call, 1), call.tensors(2), call.integer(3), call.boolean(4),
                   values_of(call, 5));
}

// Runs a program on the reference operators alone.
std::vector<Value> run_by_reference(const Program& program, std::span<const Value> inputs) {
  std::unordered_map<const Node*, Value> values;
  const auto resolve = [&](const auto& self, const Argument& argument) -> Value {
    if (const Node* node = argument.node()) return values.at(node);
    if (argument.is_list()) {
      Value::List list;
      for (const Argument& element : argument.list()) list.push_back(self(self, element));
      return list;
    }
    return std::visit(
        [](const auto& value) -> Value {
          using U = std::decay_t<decltype(value)>;
          if constexpr (std::is_same_v<U, Node*> || std::is_same_v<U, Argument::List> ||
                        std::is_same_v<U, std::monostate>)
            return {};
          else return value;
        },
        argument.variant());
  };
  size_t next = 0;
  for (const Node* node : program.graph->nodes()) {
    if (node->op() == Node::Op::kPlaceholder) {
      QDQ_CHECK(next < inputs.size(), kInvalidArgument, "a program got ", inputs.size(), " inputs, wanted more");
      values[node] = inputs[next++];
    } else if (node->op() == Node::Op::kGetAttr) {
      values[node] = program.attribute_of(*node);
    } else if (node->op() == Node::Op::kCallFunction) {
      const OpDef* op = find_op(node->target());
      QDQ_CHECK(op != nullptr, kUnsupported, "qdq does not have the operator ", node->target());
      std::vector<Value> args;
      for (const Argument& argument : node->args()) args.push_back(resolve(resolve, argument));
      std::vector<std::pair<std::string, Value>> kwargs;
      for (const auto& [key, argument] : node->kwargs()) kwargs.emplace_back(key, resolve(resolve, argument));
      values[node] = op->eval(Call<Tensor>(*op, std::move(args), std::move(kwargs)));
    } else if (node->op() == Node::Op::kOutput) {
      std::vector<Value> out;
      for (const Argument& result : node->arg(0).list()) out.push_back(as_output(resolve(resolve, result)));
      return out;
    }
  }
  fail(ErrorCode::kInvalidArgument, "a program within a program has no output");
}

constexpr int64_t kMostBoundIntegers = 4096, kMostBoundNumbers = 16;

}  // namespace

bool is_bound(const Tensor& tensor) {
  if (tensor.dtype() == DType::kString) return false;
  return tensor.numel() <= (is_floating(tensor.dtype()) ? kMostBoundNumbers : kMostBoundIntegers);
}

std::string expansion_key(const Call<Tensor>& call) {
  std::string key;
  for (const Value& value : *call[0].get_if<Value::List>()) {
    const Tensor* tensor = value.get_if<Tensor>();
    key += tensor ? concat(to_string(tensor->dtype()), to_string(tensor->sizes())) : std::string("none");
    if (tensor == nullptr || !is_bound(*tensor)) continue;
    const Tensor flat = tensor->contiguous();
    key.append(reinterpret_cast<const char*>(flat.raw()), flat.nbytes());
  }
  return key;
}

Value run_expansion(const Call<Tensor>& call, const Program& program, const RunProgram& run) {
  std::vector<Value> inputs;
  for (const Value& value : *call[0].get_if<Value::List>())
    if (const Tensor* tensor = value.get_if<Tensor>(); tensor && !is_bound(*tensor)) inputs.emplace_back(*tensor);
  const std::vector<Value> results = run(program, inputs);
  Value::List out;
  size_t next = 0;
  for (const Value& name : *call[2].get_if<Value::List>()) {
    const bool is_wanted = name.is<std::string>() && !name.get_if<std::string>()->empty();
    QDQ_CHECK(!is_wanted || next < results.size(), kInternal, call.op().target, " gave ", results.size(), " results");
    if (is_wanted) out.push_back(results[next++]);
    else out.emplace_back();
  }
  return out.size() == 1 ? out[0] : Value(std::move(out));
}

Value eval_control_flow(const Call<Tensor>& call) { return run_control_flow(call, &run_by_reference); }

Value run_control_flow(const Call<Tensor>& call, const RunProgram& run) {
  if (call.op().expand) return run_expansion(call, *call.op().expand(call), run);
  if (call.op().target == op::kCond) return run_cond(call, run);
  if (call.op().target == op::kWhileLoop) return run_while_loop(call, run);
  if (call.op().target == op::kMap) return run_map(call, run);
  if (call.op().target == op::kScan) return run_scan(call, run);
  return run_loop(call, run);
}

namespace {
// Whether somebody can say what an input holds: not the numbers of an image.
bool is_setting(const Node& input) {
  const TensorMeta* meta = input.meta.val.tensor();
  if (meta == nullptr) return true;
  const std::optional<int64_t> count = numel_of(meta->sizes).constant();
  return count && *count <= kMostBoundNumbers;
}
}  // namespace

std::string fixes_of(const Node& condition, const Enclosing* around) {
  struct Place {
    const Node* node;
    const Enclosing* around;
    bool is_behind_size;
  };
  std::string out;
  std::unordered_set<const Node*> seen;
  std::vector<Place> left = {{&condition, around, false}};
  while (!left.empty()) {
    const Place place = left.back();
    left.pop_back();
    const Node& node = *place.node;
    if (!seen.insert(&node).second) continue;
    const bool is_input = node.op() == Node::Op::kPlaceholder;
    if (is_input && place.around == nullptr) {
      const std::string_view name = node.meta.extra_of(kOnnxValue);
      if (!name.empty() && (place.is_behind_size || is_setting(node)))
        out += concat(" --fix ", shell_word(concat(name, place.is_behind_size ? "=SHAPE" : "=VALUE")));
    } else if (is_input) {
      const Node& call = *place.around->call;
      const std::vector<Node*> placeholders = node.graph().placeholders();
      const size_t i =
          static_cast<size_t>(std::find(placeholders.begin(), placeholders.end(), &node) - placeholders.begin());
      // Of a loop any of its operands may be what it carries.
      if (call.is(op::kCond) && call.arg(3).list()[i].is_node())
        left.push_back({call.arg(3).list()[i].node(), place.around->around, place.is_behind_size});
      else if (!call.is(op::kCond))
        for (const Node* input : call.input_nodes())
          left.push_back({input, place.around->around, place.is_behind_size});
    }
    const bool is_size =
        place.is_behind_size || node.is(op::kSymSize) || short_name(node.target()).starts_with("onnx.Shape.");
    for (const Node* input : node.input_nodes()) left.push_back({input, place.around, is_size});
  }
  return out;
}

void add_higher_order_ops(std::vector<OpDef>& ops) {
  OpDef out_dtype = define(
      "higher_order::out_dtype(str op, ScalarType output_dtype, Tensor? arg0=None, Tensor? arg1=None, Tensor? "
      "arg2=None, Tensor? arg3=None, "
      "Tensor? arg4=None, Tensor? arg5=None, Tensor? arg6=None, Tensor? arg7=None, Tensor? arg8=None) -> Tensor",
      infer_out_dtype, eval_out_dtype);
  out_dtype.target = "torch.ops.higher_order.out_dtype";  // it has no overloads
  ops.push_back(std::move(out_dtype));
  const auto add = [&](std::string_view target, std::string_view line, Infer infer) {
    OpDef op = define(line, infer, eval_control_flow, {}, Family::kControlFlow);
    op.target = target;
    ops.push_back(std::move(op));
  };
  add(op::kCond, "higher_order::cond(Tensor pred, Graph true_fn, Graph false_fn, Tensor[] operands) -> Tensor[]",
      infer_cond);
  add(op::kWhileLoop,
      "higher_order::while_loop(Graph cond_fn, Graph body_fn, Tensor[] carried_inputs, Tensor[] additional_inputs) -> "
      "Tensor[]",
      infer_while_loop);
  add(op::kMap, "higher_order::map_impl(Graph f, Tensor[] xs, Tensor[] pos_args) -> Tensor[]", infer_map);
  add(op::kScan,
      "higher_order::scan(Graph combine_fn, Tensor[] init, Tensor[] xs, int dim, bool reverse, Tensor[] "
      "additional_inputs) -> Tensor[]",
      infer_scan);
  // ONNX's Loop, which PyTorch does not have.
  add(op::kLoop,
      "higher_order::loop(Tensor? trip_count, Tensor? condition, Graph body, Tensor[] carried, Tensor[] captured) -> "
      "Tensor[]",
      infer_loop);
}

}  // namespace qdq
