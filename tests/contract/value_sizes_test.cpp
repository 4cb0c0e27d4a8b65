// Programs with sizes that only values tell (how many elements of a mask are true): they run in every form, each run
// with the sizes that it finds.
#include <gtest/gtest.h>

#include "exec/interpreter.h"
#include "format/npz.h"
#include "golden_bytes.h"
#include "io/pt2.h"
#include "unit/lower/graph_builder.h"

namespace qdq {
namespace {

void expect_close(const Tensor& found, const Tensor& wanted) {
  ASSERT_EQ(found.sizes(), wanted.sizes());
  const Tensor a = found.to(DType::kF64).contiguous(), b = wanted.to(DType::kF64).contiguous();
  for (int64_t i = 0; i < a.numel(); ++i) EXPECT_NEAR(a.data<double>()[i], b.data<double>()[i], 1e-5) << i;
}

// tests/golden/make_op.py, rows(): the rows of x with a positive sum through two layers, the elements above 0.5, the
// different remainders, and a number of rows as a size; "x0", "x1" are inputs, "x0_out2" is a result.
TEST(ValueSizes, AProgramOfTorchExportRunsAsInPyTorch) {
  const Program program = load_pt2(golden_bytes("op/rows.pt2"));
  EXPECT_EQ(program.graph->find("nonzero")->meta.val.tensor()->sizes[0].to_string(), "u0");
  Program saved = load_pt2(save_pt2(program));
  std::map<std::string, Tensor> arrays;
  for (format::NamedTensor& array : format::read_npz(golden_bytes("op/rows.npz"))) arrays[array.name] = array.tensor;
  for (const Program* one : {&program, static_cast<const Program*>(&saved)}) {
    Session fused = lower(*one), plain = lower(*one, {{"reference"}, false});
    for (const std::string input : {"x0", "x1", "x0"})
      for (Session* session : {&fused, &plain}) {
        const std::vector<Tensor> found = session->run({{arrays.at(input)}});
        ASSERT_GE(found.size(), 5u);
        for (size_t i = 0; i < 5; ++i) expect_close(found[i], arrays.at(concat(input, "_out", i)));
      }
  }
}

TEST(ValueSizes, FilesHaveARangeForEachAsPyTorchWants) {
  Program program = load_pt2(golden_bytes("op/rows.pt2"));
  program.symbol_ranges.clear();
  const Program saved = load_pt2(save_pt2(program));
  for (const char* symbol : {"s0", "u0", "u1"}) {
    ASSERT_TRUE(saved.symbol_ranges.contains(symbol)) << symbol;
    EXPECT_EQ(saved.symbol_ranges.at(symbol).min, 0);
  }
}

TEST(ValueSizes, EveryOneGetsASymbolAndKeepsIt) {
  GraphBuilder g;
  Node* x = g.input({4, 3});
  Node* first = g.call("torch.ops.aten.nonzero.default", {x});
  Node* second = g.call("torch.ops.aten.masked_select.default", {x, g.call("torch.ops.aten.gt.Scalar", {x, 0})});
  Node* unique = g.call("torch.ops.aten._unique2.default", {x, true, false, true});
  Node* counts = g.call("operator.getitem", {unique, 2});
  Node* item = g.call("torch.ops.aten.item.default", {g.call("torch.ops.aten.argmax.default", {x})});
  Program program = g.done({first, second, counts});
  const auto size_of = [](const Node* node) { return node->meta.val.tensor()->sizes[0].to_string(); };
  const auto check = [&] {
    EXPECT_EQ(size_of(first), "u0");
    EXPECT_EQ(size_of(second), "u1");
    EXPECT_EQ(size_of(counts), "u2");
    EXPECT_EQ(std::get<SymInt>(item->meta.val.value).to_string(), "u3");
  };
  check();
  infer_shapes(program);
  check();
}

// An image whose width only values tell goes into a pool with known results.
TEST(ValueSizes, PlansLeaveWhatReadsThem) {
  GraphBuilder g;
  using List = Argument::List;
  Node* x = g.input({2, 3, 6, 8});
  Node* row = g.call("torch.ops.aten.amax.default", {x, List{0, 1, 2}});
  Node* columns = g.call("torch.ops.aten.nonzero.default", {g.call("torch.ops.aten.gt.Scalar", {row, 2.5})});
  Node* flat = g.call("torch.ops.aten.squeeze.dim", {columns, 1});
  Node* image = g.call("torch.ops.aten.index.Tensor", {x, List{Argument(), Argument(), Argument(), flat}});
  Node* mean = g.call("torch.ops.aten.adaptive_avg_pool2d.default", {image, List{1, 1}});
  Node* rows = g.call("torch.ops.aten.flatten.using_ints", {mean, 1});
  Node* out = g.call("torch.ops.aten.linear.default", {rows, g.floats({5, 3})});
  const Program program = g.done({g.call("torch.ops.aten.relu.default", {out})});
  EXPECT_LT(difference_from("reference", program, {2, 3, 6, 8}).relative, 1e-5);
}

// A sum of what a plan holds and of columns that only values count.
TEST(ValueSizes, PlansLeaveASumWithThem) {
  GraphBuilder g;
  using List = Argument::List;
  Node* x = g.input({2, 3});
  Node* unique = g.call("torch.ops.aten._unique2.default", {g.call("torch.ops.aten.arange.default", {3})});
  Node* columns = g.call("operator.getitem", {unique, 0});
  Node* picked = g.call("torch.ops.aten.index.Tensor", {x, List{Argument(), columns}});
  Node* layer = g.call("torch.ops.aten.linear.default", {x, g.floats({3, 3})});
  Node* sum = g.call("torch.ops.aten.add.Tensor", {layer, picked});
  EXPECT_LT(difference_from("reference", g.done({g.call("torch.ops.aten.relu.default", {sum})}), {2, 3}).relative,
            1e-5);
}

// The shape alone of what draws random numbers.
TEST(ValueSizes, RandomNumbersAreRefusedWithAReason) {
  GraphBuilder g;
  Node* x = g.input({2, 3});
  Node* noise = g.call("torch.ops.aten.randn_like.default", {x});
  Session session = lower(g.done({g.call("torch.ops.aten.add.Tensor", {x, noise})}));
  try {
    session.run({{random_tensor({2, 3}, 1)}});
    ADD_FAILURE() << "noise came from somewhere";
  } catch (const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kUnsupported);
    EXPECT_NE(error.message.find("random numbers"), std::string::npos) << error.message;
  }
}

}  // namespace
}  // namespace qdq
