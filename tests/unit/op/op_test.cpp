// The operator table, calls, shape inference over programs; and what golden data cannot tell: aliasing, errors,
// symbols.
#include "message_of.h"
#include "op/op.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <ctime>
#include <set>

namespace qdq::op_test {
namespace {

using Kwargs = std::vector<std::pair<std::string, Value>>;

Value run(std::string_view target, std::vector<Value> args, Kwargs kwargs = {}) {
  const OpDef* op = find_op(target);
  QDQ_CHECK(op != nullptr, kInternal, "no operator ", target);
  return op->eval(Call<Tensor>(*op, std::move(args), std::move(kwargs)));
}
Tensor tensor(const Value& value) { return *value.get_if<Tensor>(); }
std::vector<float> floats(const Value& value) {
  const Tensor t = tensor(value).contiguous();
  return {t.data<float>(), t.data<float>() + t.numel()};
}
Value::List ints(std::initializer_list<int64_t> values) { return Value::List(values.begin(), values.end()); }

TEST(Op, TargetsAreUniqueAndFound) {
  std::set<std::string> seen;
  for (const OpDef& op : all_ops()) {
    EXPECT_TRUE(seen.insert(op.target).second) << op.target;
    EXPECT_EQ(find_op(op.target), &op);
    const int count = static_cast<int>(op.schema->arguments.size());
    for (int i : {op.roles.activation, op.roles.other, op.roles.weight, op.roles.bias})
      EXPECT_LT(i, count) << op.target;
  }
  EXPECT_EQ(find_op("torch.ops.aten.no_such_operator.default"), nullptr);
  EXPECT_EQ(find_op("_operator.add"), find_op("operator.add"));
}

TEST(Op, ProductsOfNoMatricesAreNone) {
  const Tensor none = Tensor::empty({0, 2, 3}, DType::kF32), one = Tensor::full({1, 3, 4}, DType::kF32, 1);
  EXPECT_EQ(tensor(run("torch.ops.aten.matmul.default", {none, one})).sizes(), (Shape{0, 2, 4}));
  EXPECT_EQ(tensor(run("torch.ops.aten.matmul.default", {one, Tensor::empty({0, 4, 2}, DType::kF32)})).sizes(),
            (Shape{0, 3, 2}));
}

// A detector that finds no box has nothing to round, and ran in float.
TEST(Op, NothingHasARangeAsZeroHas) {
  for (const char* target : {"choose_qparams.tensor", "choose_qparams_symmetric.tensor"}) {
    const auto chosen = [&](const Tensor& x) {
      const Value found =
          run(concat("torch.ops.quantized_decomposed.", target), {x, int64_t{-128}, int64_t{127}, 0.25, DType::kS8});
      return *found.get_if<Value::List>();
    };
    const Value::List none = chosen(Tensor::empty({0, 3}, DType::kF32)),
                      zero = chosen(Tensor::full({1}, DType::kF32, 0));
    for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(bitwise_equal(tensor(none.at(i)), tensor(zero.at(i)))) << target;
  }
}

TEST(Op, CallFillsDefaultsAndRefusesWhatDoesNotFit) {
  const OpDef& conv = *find_op("torch.ops.aten.conv2d.default");
  const Tensor x = Tensor::full({1, 1, 3, 3}, DType::kF32, 1), w = Tensor::full({1, 1, 2, 2}, DType::kF32, 1);
  const Call<Tensor> call(conv, {x, w});
  EXPECT_EQ(call.size(), 7u);
  EXPECT_EQ(call.integers(3), (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(call.integer(6), 1);
  EXPECT_EQ(call.optional_tensor(2), nullptr);
  EXPECT_EQ(Call<Tensor>(conv, {x, w, Value(), int64_t{2}}).integers(3), (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(Call<Tensor>(conv, {x, w}, {{"padding", ints({3})}}).integers(4), (std::vector<int64_t>{3, 3}));
  EXPECT_NE(message_of([&] { Call<Tensor>(conv, {x}); }).find("lacks the argument 'weight'"), std::string::npos);
  EXPECT_NE(message_of([&] { Call<Tensor>(conv, {x, w}, {{"size", int64_t{1}}}); }).find("no argument 'size'"),
            std::string::npos);
  EXPECT_NE(message_of([&] { Call<Tensor>(conv, {x, w}, {{"input", x}}); }).find("'input' twice"), std::string::npos);
  EXPECT_NE(message_of([&] {
              Call<Tensor>(conv, {x, w, Value(), int64_t{1}, int64_t{0}, int64_t{1}, int64_t{1}, int64_t{1}});
            }).find("found 8"),
            std::string::npos);
  EXPECT_NE(message_of([&] { run(conv.target, {x, w, Value(), Value("two")}); }).find("'stride'"), std::string::npos);
}

TEST(Op, InPlaceOperatorsWriteToSelfThroughViews) {
  const Tensor x = Tensor::of<float>({2, 3}, {-1, 2, -3, 4, -5, 6});
  const Tensor row = tensor(run("torch.ops.aten.select.int", {x, int64_t{0}, int64_t{1}}));
  const Tensor same = tensor(run("torch.ops.aten.relu_.default", {row}));
  EXPECT_EQ(same.storage(), x.storage());
  EXPECT_EQ(floats(x), (std::vector<float>{-1, 2, -3, 4, 0, 6}));
  const Tensor column = tensor(run("torch.ops.aten.slice.Tensor", {x, int64_t{1}, int64_t{0}, int64_t{1}}));
  run("torch.ops.aten.fill_.Tensor", {column, Tensor::scalar<float>(9)});
  EXPECT_EQ(floats(x), (std::vector<float>{9, 2, -3, 9, 0, 6}));
  run("torch.ops.aten.add_.Tensor", {x, x});
  EXPECT_EQ(floats(x), (std::vector<float>{18, 4, -6, 18, 0, 12}));
  EXPECT_NE(
      message_of([] { run("torch.ops.aten.add_.Tensor", {Tensor::of<int64_t>({1}, {1}), 0.5}); }).find("cannot store"),
      std::string::npos);
}

TEST(Op, ViewsAliasAndCopiesDoNot) {
  const Tensor x = Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  for (const Value& view :
       {run("torch.ops.aten.view.default", {x, ints({3, -1})}),
        run("torch.ops.aten.permute.default", {x, ints({1, 0})}),
        run("torch.ops.aten.expand.default", {x, ints({4, -1, -1})}),
        run("torch.ops.aten.dropout.default", {x, 0.5, false}), run("torch.ops.aten.to.dtype", {x, DType::kF32}),
        run("torch.ops.aten.contiguous.default", {x}),
        run("torch.ops.aten.chunk.default", {x, int64_t{2}}).get_if<Value::List>()->at(1)})
    EXPECT_EQ(tensor(view).storage(), x.storage());
  for (const Value& copy :
       {run("torch.ops.aten.clone.default", {x}), run("torch.ops.aten.view_copy.default", {x, ints({6})}),
        run("torch.ops.aten.relu.default", {x}), run("torch.ops.aten._to_copy.default", {x})})
    EXPECT_NE(tensor(copy).storage(), x.storage());
  const Tensor permuted = tensor(run("torch.ops.aten.reshape.default", {x.transpose(0, 1), ints({2, 3})}));
  EXPECT_NE(permuted.storage(), x.storage());
  EXPECT_EQ(floats(permuted), (std::vector<float>{1, 4, 2, 5, 3, 6}));
}

TEST(Op, ErrorsNameTheTrouble) {
  const Tensor x = Tensor::full({1, 3, 4, 4}, DType::kF32, 1), w = Tensor::full({8, 4, 3, 3}, DType::kF32, 1);
  EXPECT_EQ(
      message_of([&] { run("torch.ops.aten.conv2d.default", {x, w}); }),
      "torch.ops.aten.conv2d.default with a weight of shape [8, 4, 3, 3] and 1 groups needs 4 input channels, found 3");
  EXPECT_NE(message_of([&] { run("torch.ops.aten.dropout.default", {x, 0.5, true}); }).find("training mode"),
            std::string::npos);
  EXPECT_NE(message_of([&] { run("torch.ops.aten.add.Tensor", {x, w}); }).find("do not broadcast"), std::string::npos);
  EXPECT_NE(message_of([&] { run("torch.ops.aten.view.default", {x, ints({5, -1})}); }).find("48 elements"),
            std::string::npos);
  EXPECT_NE(message_of([&] { run("torch.ops.aten.linear.default", {x, w}); }).find("linear"), std::string::npos);
}

// Numbers that no int64 holds. What PyTorch 2.6 has kernels for (mul, bitwise, eq, cat) it computes so.
TEST(Op, Uint64IsNoInt64) {
  constexpr uint64_t kHigh = uint64_t{1} << 63;
  const Tensor a = Tensor::of<uint64_t>({3}, {kHigh + 5, 7, ~uint64_t{0}}),
               b = Tensor::of<uint64_t>({3}, {2, kHigh, 3});
  const auto of = [&](const char* name) {
    const Tensor out = tensor(run(concat("torch.ops.aten.", name), {a, b}));
    EXPECT_EQ(out.dtype(), DType::kU64) << name;
    return std::vector<uint64_t>(out.data<uint64_t>(), out.data<uint64_t>() + 3);
  };
  using Numbers = std::vector<uint64_t>;
  EXPECT_EQ(of("add.Tensor"), (Numbers{kHigh + 7, kHigh + 7, 2}));
  EXPECT_EQ(of("sub.Tensor"), (Numbers{kHigh + 3, kHigh + 7, ~uint64_t{0} - 3}));
  EXPECT_EQ(of("mul.Tensor"), (Numbers{10, kHigh, ~uint64_t{0} - 2}));
  EXPECT_EQ(of("floor_divide.default"), (Numbers{kHigh / 2 + 2, 0, ~uint64_t{0} / 3}));
  EXPECT_EQ(of("remainder.Tensor"), (Numbers{1, 7, 0}));
  EXPECT_EQ(of("fmod.Tensor"), (Numbers{1, 7, 0}));
  EXPECT_EQ(of("maximum.default"), (Numbers{kHigh + 5, kHigh, ~uint64_t{0}}));
  EXPECT_EQ(of("minimum.default"), (Numbers{2, 7, 3}));
  EXPECT_EQ(of("bitwise_xor.Tensor"), (Numbers{kHigh + 7, kHigh + 7, ~uint64_t{0} - 3}));
  EXPECT_EQ(of("bitwise_right_shift.Tensor"), (Numbers{kHigh / 4 + 1, 0, ~uint64_t{0} >> 3}));
  EXPECT_EQ(of("bitwise_left_shift.Tensor"), (Numbers{20, 0, ~uint64_t{0} << 3}));
  EXPECT_EQ(of("pow.Tensor_Tensor"), (Numbers{25, 1, ~uint64_t{0}}));
  const Tensor less = tensor(run("torch.ops.aten.lt.Tensor", {a, b}));
  EXPECT_FALSE(less.data<bool>()[0]);
  EXPECT_TRUE(less.data<bool>()[1]);
  EXPECT_EQ(floats(run("torch.ops.aten.div.Tensor", {a, b}))[0], 0x1p62f);
  const Tensor turned = tensor(run("torch.ops.aten.flip.default", {a, ints({0})}));
  EXPECT_EQ(turned.data<uint64_t>()[2], kHigh + 5);
  EXPECT_NE(message_of([&] { run("torch.ops.aten.amax.default", {a}); }).find("cast them to int64"), std::string::npos);
  EXPECT_NE(message_of([&] {
              run("torch.ops.aten.add.Tensor", {a, Tensor::scalar<int8_t>(1).expand({3})});
            }).find("no common dtype"),
            std::string::npos);
}

TEST(Op, FloatsOf8BitsMoveAndCast) {
  const Tensor x = Tensor::of<float>({2}, {1, -3}).to(DType::kF8E5M2);
  const Tensor turned = tensor(run("torch.ops.aten.flip.default", {x, ints({0})}));
  EXPECT_EQ(floats(turned.to(DType::kF32)), (std::vector<float>{-3, 1}));
  for (const char* name : {"add.Tensor", "mul.Tensor", "maximum.default", "lt.Tensor"})
    EXPECT_NE(message_of([&] { run(concat("torch.ops.aten.", name), {x, x}); }).find("cast them to float32"),
              std::string::npos)
        << name;
  EXPECT_NE(message_of([&] { run("torch.ops.aten.relu.default", {x}); }).find("cast them to float32"),
            std::string::npos);
}

TEST(Op, CheckOpsListsAllUnknownOperators) {
  Graph graph;
  Node* x = graph.create(Node::Op::kPlaceholder, "x");
  Node* a = graph.call("torch.ops.aten.foo.default", {x}, {}, "foo");
  Node* b = graph.call("torch.ops.aten.relu.default", {a}, {}, "relu");
  Node* c = graph.call("torch.ops.aten.foo.default", {b}, {}, "foo_1");
  graph.create(Node::Op::kOutput, "output", {Argument::List{graph.call("torch.ops.my.bar.default", {c}, {}, "bar")}});
  EXPECT_EQ(message_of([&] { check_ops(graph); }),
            "qdq does not have 2 operators of this program: torch.ops.aten.foo.default (nodes foo, foo_1); "
            "torch.ops.my.bar.default (node bar)");
}

TEST(Op, InfersAProgramWithASymbolicBatch) {
  Program program;
  Graph& graph = *program.graph;
  program.add_attribute({"conv.weight", Tensor::full({8, 3, 3, 3}, DType::kF32, 1)});
  Node* weight = graph.get_attr("conv.weight");
  Node* x = graph.create(Node::Op::kPlaceholder, "x");
  const SymInt batch = SymInt::symbol("s0");
  TensorMeta meta;
  meta.sizes = {batch, 3, 16, 16};
  x->meta.val.value = meta;
  Node* conv =
      graph.call("torch.ops.aten.conv2d.default", {x, weight, Argument(), Argument::List{2, 2}, Argument::List{1, 1}});
  Node* size = graph.call("torch.ops.aten.sym_size.int", {x, 0});
  Node* view = graph.call("torch.ops.aten.view.default", {conv, Argument::List{size, -1}});
  Node* flat = graph.call("torch.ops.aten.flatten.using_ints", {conv});
  Node* split = graph.call("torch.ops.aten.split.Tensor", {view, 128, 1});
  Node* part = graph.call("operator.getitem", {split, 2});
  Node* sum = graph.call("torch.ops.aten.add.Tensor", {part, part});
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{sum, flat})});
  infer_shapes(program);
  EXPECT_EQ(conv->meta.val.tensor()->sizes, (SymShape{batch, 8, 8, 8}));
  EXPECT_EQ(std::get<SymInt>(size->meta.val.value), batch);
  EXPECT_EQ(view->meta.val.tensor()->sizes, (SymShape{batch, 512}));
  EXPECT_EQ(flat->meta.val.tensor()->sizes, (SymShape{batch * SymInt(512)}));
  EXPECT_EQ(std::get<std::vector<ValueMeta>>(split->meta.val.value).size(), 4u);
  EXPECT_EQ(sum->meta.val.tensor()->sizes, (SymShape{batch, 128}));

  sum->set_arg(1, conv);
  try {
    infer_shapes(program);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.node, sum->name());
    EXPECT_EQ(error.op, "torch.ops.aten.add.Tensor");
  }
}

// Truncation, x[:, :100], of an axis that may be shorter.
TEST(Op, SlicesKeepTheOpenSizeThatAProgramTells) {
  Program program;
  Graph& graph = *program.graph;
  const SymInt size = SymInt::symbol("s0");
  Node* x = graph.create(Node::Op::kPlaceholder, "x");
  x->meta.val.value = TensorMeta{DType::kF32, {4, size}, {}, false};
  const auto slice = [&](int64_t from, int64_t to, int64_t step, const SymInt& told) {
    Node* out = graph.call("torch.ops.aten.slice.Tensor", {x, 1, from, to, step});
    out->meta.val.value = TensorMeta{DType::kF32, {4, told}, {}, false};
    return out;
  };
  Node *open = slice(0, 100, 1, size), *tail = slice(-100, 100, 3, size), *known = slice(0, 100, 1, 100),
       *rest = slice(2, INT64_MAX, 1, size - SymInt(2));
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{open, tail, known, rest})});
  infer_shapes(program);
  const auto length = [](const Node* node, int64_t of_size) {
    return node->meta.val.tensor()->sizes[1].evaluate({{"s0", of_size}});
  };
  for (const int64_t of_size : {20, 150}) {
    EXPECT_EQ(length(open, of_size), std::min<int64_t>(of_size, 100));
    EXPECT_EQ(length(tail, of_size), of_size == 20 ? 7 : 17);  // of x[0:20] and of x[50:100]
  }
  EXPECT_EQ(known->meta.val.tensor()->sizes[1], SymInt(100));
  EXPECT_EQ(rest->meta.val.tensor()->sizes[1], size - SymInt(2));
}

// x[:, -y.size(1):] and x[:, :-y.size(1)].
TEST(Op, SlicesCountNegatedSizesFromTheEnd) {
  Program program;
  Graph& graph = *program.graph;
  const SymInt all = SymInt::symbol("s0"), some = SymInt::symbol("s1");
  Node *x = graph.create(Node::Op::kPlaceholder, "x"), *y = graph.create(Node::Op::kPlaceholder, "y");
  x->meta.val.value = TensorMeta{DType::kF32, {4, all}, {}, false};
  y->meta.val.value = TensorMeta{DType::kF32, {4, some}, {}, false};
  Node* size = graph.call("torch.ops.aten.sym_size.int", {y, 1});
  Node* negated = graph.call("operator.neg", {size});
  Node *last = graph.call("torch.ops.aten.slice.Tensor", {x, 1, negated, INT64_MAX}),
       *first = graph.call("torch.ops.aten.slice.Tensor", {x, 1, 0, negated}),
       *rest = graph.call("torch.ops.aten.slice.Tensor", {x, 1, size, -1});
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{last, first, rest})});
  infer_shapes(program);
  EXPECT_EQ(last->meta.val.tensor()->sizes[1], some);
  EXPECT_EQ(first->meta.val.tensor()->sizes[1], all - some);
  EXPECT_EQ(rest->meta.val.tensor()->sizes[1], all - some - SymInt(1));
}

// What was joined is parted again.
TEST(Op, SplitsTakeLengthsThatAreSizes) {
  Program program;
  Graph& graph = *program.graph;
  const SymInt some = SymInt::symbol("s0");
  Node* x = graph.create(Node::Op::kPlaceholder, "x");
  x->meta.val.value = TensorMeta{DType::kF32, {some + SymInt(3), 4}, {}, false};
  Node* y = graph.create(Node::Op::kPlaceholder, "y");
  y->meta.val.value = TensorMeta{DType::kF32, {some}, {}, false};
  Node* size = graph.call("torch.ops.aten.sym_size.int", {y, 0});
  Node* parts = graph.call("torch.ops.aten.split_with_sizes.default", {x, Argument::List{3, size}});
  Node* second = graph.call("operator.getitem", {parts, 1});
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{second})});
  infer_shapes(program);
  EXPECT_EQ(second->meta.val.tensor()->sizes, (SymShape{some, 4}));
  parts->set_arg(1, Argument::List{2, 3});  // an axis of 5: then s0 is 2
  EXPECT_NO_THROW(infer_shapes(program));
}

// With the shapes of all parts copied for each of them this takes a minute.
TEST(Op, ManyPartsInferShapesInTimeThatGrowsWithTheirNumber) {
  constexpr int64_t kParts = 20000;
  Program program;
  Graph& graph = *program.graph;
  Node* x = graph.create(Node::Op::kPlaceholder, "x");
  x->meta.val.value = TensorMeta{DType::kF32, {2, kParts}, {}, false};
  Node* parts = graph.call("torch.ops.aten.split.Tensor", {x, 1, 1});
  Argument::List results;
  for (int64_t i = 0; i < kParts; ++i) results.emplace_back(graph.call("operator.getitem", {parts, i}));
  Node* last = results.back().node();
  graph.create(Node::Op::kOutput, "output", {Argument(std::move(results))});
  const std::clock_t begin = std::clock();
  infer_shapes(program);
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 5);
  EXPECT_EQ(last->meta.val.tensor()->sizes, (SymShape{2, 1}));
}

// Filters that are computed for each sample: the samples become channels, and the groups are the batch.
TEST(Op, ConvolutionsInferShapesWithAnOpenNumberOfGroups) {
  Program program;
  Graph& graph = *program.graph;
  const SymInt batch = SymInt::symbol("s0");
  const auto input = [&](const char* name, const SymShape& sizes) {
    Node* node = graph.create(Node::Op::kPlaceholder, name);
    TensorMeta meta;
    meta.sizes = sizes;
    node->meta.val.value = meta;
    return node;
  };
  Node *x = input("x", {1, batch * SymInt(8), 12, 12}), *weight = input("weight", {batch * SymInt(16), 8, 3, 3});
  Node* groups = graph.call("torch.ops.aten.sym_size.int", {input("samples", {batch, 8}), 0});
  const auto conv_with = [&](Argument count) {
    return graph.call("torch.ops.aten.conv2d.default",
                      {x, weight, Argument(), Argument::List{1, 1}, Argument::List{1, 1}, Argument::List{1, 1}, count});
  };
  Node* conv = conv_with(groups);
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{conv})});
  infer_shapes(program);
  EXPECT_EQ(conv->meta.val.tensor()->sizes, (SymShape{1, batch * SymInt(16), 12, 12}));

  conv->set_arg(6, Argument(int64_t{0}));
  EXPECT_THROW(infer_shapes(program), Error);
}

TEST(Op, SlicesFollowPython) {
  const Tensor x = Tensor::of<float>({5}, {0, 1, 2, 3, 4});
  const auto slice = [&](Value start, Value end, int64_t step) {
    return floats(run("torch.ops.aten.slice.Tensor", {x, int64_t{0}, start, end, step}));
  };
  EXPECT_EQ(slice(int64_t{-2}, Value(), 1), (std::vector<float>{3, 4}));
  EXPECT_EQ(slice(Value(), int64_t{-1}, 2), (std::vector<float>{0, 2}));
  EXPECT_EQ(slice(int64_t{1}, std::numeric_limits<int64_t>::max(), 3), (std::vector<float>{1, 4}));
  EXPECT_EQ(slice(int64_t{4}, int64_t{2}, 1), (std::vector<float>{}));
  EXPECT_EQ(slice(int64_t{-9}, int64_t{9}, 1), (std::vector<float>{0, 1, 2, 3, 4}));
}

TEST(Op, SortsKeepEqualElementsInPlaceWithNaNBehindAllNumbers) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = Tensor::of<float>({10}, {nan, 0, -0.0f, -inf, 1, inf, -nan, -1, 0, -2});
  const auto order = [](const Value& sorted) {
    const Tensor indices = tensor(sorted.get_if<Value::List>()->at(1));
    return std::vector<int64_t>(indices.data<int64_t>(), indices.data<int64_t>() + indices.numel());
  };
  EXPECT_EQ(order(run("torch.ops.aten.sort.default", {x, int64_t{0}, false})),
            (std::vector<int64_t>{3, 9, 7, 1, 2, 8, 4, 5, 0, 6}));
  EXPECT_EQ(order(run("torch.ops.aten.sort.default", {x, int64_t{0}, true})),
            (std::vector<int64_t>{0, 6, 5, 4, 1, 2, 8, 7, 9, 3}));
  const int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();
  const Tensor integers = Tensor::of<int64_t>({5}, {0, most, least, 0, -1});
  EXPECT_EQ(order(run("torch.ops.aten.sort.default", {integers, int64_t{0}, false})),
            (std::vector<int64_t>{2, 4, 0, 3, 1}));
  EXPECT_EQ(order(run("torch.ops.aten.sort.default", {integers, int64_t{0}, true})),
            (std::vector<int64_t>{1, 0, 3, 4, 2}));
}

TEST(Op, TheLargestAreTheFirstOfTheSorted) {
  std::vector<float> values;
  for (int i = 0; i < 50; ++i) values.push_back(static_cast<float>(i * 37 % 11));
  values[20] = values[31] = NAN;
  const Tensor x = Tensor::of<float>({50}, std::span<const float>(values));
  for (const bool largest : {true, false}) {
    const Value sorted = run("torch.ops.aten.sort.default", {x, int64_t{0}, largest});
    for (const int64_t k : {0, 1, 2, 9, 49, 50}) {
      const Value top = run("torch.ops.aten.topk.default", {x, k, int64_t{0}, largest, true});
      for (const size_t i : {size_t{0}, size_t{1}})
        EXPECT_TRUE(bitwise_equal(tensor(top.get_if<Value::List>()->at(i)),
                                  tensor(sorted.get_if<Value::List>()->at(i)).slice(0, 0, k).contiguous()))
            << k << " " << i;
    }
  }
}

// Floats of all sizes, and pairs whose quotient is just beside an integer.
TEST(Op, RestsOfFloatsAreExact) {
  std::vector<float> x, y;
  uint32_t seed = 1;
  const auto next = [&] { return seed = seed * 1664525u + 1013904223u; };
  for (int i = 0; i < 20000; ++i) {
    const auto exponent = static_cast<int>(next() >> 27) - 16;
    const float b = std::ldexp(static_cast<float>(static_cast<int32_t>(next())), exponent - 31);
    y.push_back(i % 500 == 0 ? INFINITY : b);
    x.push_back(i % 3 == 0 ? std::nextafter(b * static_cast<float>(next() >> 20), i % 2 == 0 ? INFINITY : 0.0f)
                           : std::bit_cast<float>(next()));
  }
  for (const float zero : {0.0f, -0.0f}) x.push_back(zero), y.push_back(-3), x.push_back(1), y.push_back(zero);
  const auto count = static_cast<int64_t>(x.size());
  const Tensor a = Tensor::of<float>({count}, std::span<const float>(x)),
               b = Tensor::of<float>({count}, std::span<const float>(y));
  const std::vector<float> rests = floats(run("torch.ops.aten.fmod.Tensor", {a, b})),
                           modulos = floats(run("torch.ops.aten.remainder.Tensor", {a, b}));
  for (size_t i = 0; i < x.size(); ++i) {
    float want = std::fmod(x[i], y[i]);
    EXPECT_TRUE(std::isnan(want) ? std::isnan(rests[i]) : std::bit_cast<int>(rests[i]) == std::bit_cast<int>(want))
        << x[i] << " " << y[i] << " gives " << rests[i];
    if (want != 0 && (want < 0) != (y[i] < 0)) want += y[i];
    EXPECT_TRUE(std::isnan(want) ? std::isnan(modulos[i]) : std::bit_cast<int>(modulos[i]) == std::bit_cast<int>(want))
        << x[i] << " " << y[i] << " gives " << modulos[i];
  }
}

// Places are worked on some at a time: each has the value that it has alone.
TEST(Op, ImagesAreSampledAtManyPlacesAsAtFew) {
  std::vector<float> grid, image;
  for (int i = 0; i < 2 * 2 * 40 * 41; ++i) grid.push_back(static_cast<float>(i * 37 % 101) / 40 - 1.2f);
  for (int i = 0; i < 2 * 3 * 9 * 8; ++i) image.push_back(static_cast<float>(i * 29 % 83) / 10);
  const Tensor x = Tensor::of<float>({2, 3, 9, 8}, std::span<const float>(image)),
               places = Tensor::of<float>({2, 40, 41, 2}, std::span<const float>(grid));
  for (const int64_t mode : {0, 1, 2}) {
    const Tensor all = tensor(run("torch.ops.aten.grid_sampler.default", {x, places, mode, int64_t{0}, false}));
    const Value some = run("torch.ops.aten.grid_sampler.default",
                           {x.slice(0, 1, 2), places.slice(0, 1, 2).slice(1, 30, 40), mode, int64_t{0}, false});
    EXPECT_TRUE(bitwise_equal(tensor(some), all.slice(0, 1, 2).slice(2, 30, 40).contiguous())) << mode;
  }
}

}  // namespace
}  // namespace qdq::op_test
