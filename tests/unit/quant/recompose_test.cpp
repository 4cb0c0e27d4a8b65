// Layers that decompositions took apart.
#include "op/recompose.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "exec/interpreter.h"
#include "op/facts.h"
#include "program_builder.h"
#include "quant/explain.h"
#include "quant/pt2e.h"
#include "quant/quantizers/pattern_quantizer.h"
#include "quant/quantizers/x86_inductor_quantizer.h"
#include "quant/quantizers/xnnpack_quantizer.h"

namespace qdq::recompose_test {
namespace {

// The calls of a graph in order, "conv2d.default linear.default".
std::string calls_of(const Program& program) {
  std::string out;
  for (const Node* node : program.graph->nodes())
    if (node->op() == Node::Op::kCallFunction) out += concat(out.empty() ? "" : " ", local_name(node->target()));
  return out;
}

Tensor ramp(const Shape& sizes) {
  Tensor tensor = Tensor::empty(sizes, DType::kF32);
  float value = -2.0f;
  for (float& element : tensor.span<float>()) element = value = value > 2.0f ? value - 4.1f : value + 0.37f;
  return tensor;
}

using Body = std::function<std::vector<Argument>(ProgramBuilder&, Node* x)>;

// What becomes of a program of one input; its outputs must stay what they are, to `tolerance` times 1 + their size.
std::string recomposed(const Shape& sizes, const Body& body, float tolerance = 0) {
  ProgramBuilder b;
  Node* x = b.input("x", sizes);
  Program before = b.finish(body(b, x));
  Program after = before.clone();
  recompose(after);
  const Tensor input = ramp(sizes);
  const std::vector<Tensor> expected = Interpreter(before, {}).run({&input, 1}),
                            got = Interpreter(after, {}).run({&input, 1});
  EXPECT_EQ(expected.size(), got.size());
  for (size_t i = 0; i < std::min(expected.size(), got.size()); ++i) {
    const Tensor want = expected[i].contiguous(), have = got[i].contiguous();
    EXPECT_EQ(want.sizes(), have.sizes());
    for (int64_t k = 0; k < want.numel(); ++k)
      EXPECT_NEAR(want.data<float>()[k], have.data<float>()[k], tolerance * (1 + std::fabs(want.data<float>()[k])));
  }
  Program copy = after.clone();
  infer_shapes(copy);
  for (const Node* node : copy.graph->nodes())
    EXPECT_EQ(node->meta.val, after.graph->find(node->name())->meta.val) << node->name();
  return calls_of(after);
}

Argument::List list(std::initializer_list<int64_t> values) { return Argument::List(values.begin(), values.end()); }

TEST(Recompose, EinsumsWithAConstantAreLinearLayers) {
  const auto einsum = [](const char* equation, const Shape& input, const Shape& weight, bool weight_first = false) {
    return recomposed(
        input,
        [&](ProgramBuilder& b, Node* x) -> std::vector<Argument> {
          Argument::List operands{x, b.weight("w", weight)};
          if (weight_first) std::swap(operands[0], operands[1]);
          return {b.call("einsum.default", {equation, operands})};
        },
        1e-5f);
  };
  EXPECT_EQ(einsum("bti,oi->bto", {2, 3, 4}, {5, 4}), "linear.default");
  EXPECT_EQ(einsum("oi,bi->bo", {2, 4}, {5, 4}, true), "linear.default");
  EXPECT_EQ(einsum("...i,ij", {2, 3, 4}, {4, 5}), "permute.default linear.default");
  EXPECT_EQ(einsum("bthd,hdo->bto", {2, 3, 2, 4}, {2, 4, 5}),
            "flatten.using_ints permute.default reshape.default linear.default");
  EXPECT_EQ(einsum("btd,hdk->bhtk", {2, 3, 4}, {2, 4, 5}),
            "permute.default reshape.default linear.default unflatten.int permute.default");
  EXPECT_EQ(einsum("bhd,hdk->bhk", {2, 3, 4}, {3, 4, 5}), "einsum.default") << "each head has its own weight";
}

// x @ W + b, with the constant as it is or turned, and the bias on either side.
TEST(Recompose, ProductsWithAConstantMatrixAreLinearLayers) {
  const auto product = [](const Shape& input, bool is_turned, int64_t bias_place, const Shape& bias = {5}) {
    return recomposed(
        input,
        [&](ProgramBuilder& b, Node* x) -> std::vector<Argument> {
          Node* w = b.weight("w", is_turned ? Shape{5, 4} : Shape{4, 5});
          Node* y = b.call("matmul.default", {x, is_turned ? b.call("transpose.int", {w, -1, -2}) : w});
          if (bias_place < 0) return {y};
          std::vector<Argument> sum = {y, b.weight("b", bias)};
          if (bias_place == 0) std::swap(sum[0], sum[1]);
          return {b.call("add.Tensor", sum)};
        },
        1e-5f);
  };
  EXPECT_EQ(product({2, 3, 4}, false, -1), "linear.default");
  EXPECT_EQ(product({2, 3, 4}, true, -1), "linear.default");
  EXPECT_EQ(product({3, 4}, false, 1), "linear.default");
  EXPECT_EQ(product({2, 2, 3, 4}, true, 0), "linear.default");
  EXPECT_EQ(product({3, 4}, false, 1, {3, 1}), "linear.default add.Tensor");
  EXPECT_EQ(product({4}, false, -1), "matmul.default");
}

TEST(Recompose, ProductsWithABatchOfTheirOwnStay) {
  const std::string calls = recomposed({3, 4}, [&](ProgramBuilder& b, Node* x) -> std::vector<Argument> {
    return {b.call("matmul.default", {x, b.call("expand.default", {b.weight("w", {4, 5}), list({2, 4, 5})})})};
  });
  EXPECT_EQ(calls, "expand.default matmul.default");
}

// They are counted and quantized as such.
TEST(Recompose, EinsumsAreQuantized) {
  ProgramBuilder b;
  Node* x = b.input("x", {2, 3, 4});
  Node* first = b.call("einsum.default", {"btd,hdk->bthk", Argument::List{x, b.weight("w", {2, 4, 5})}});
  Program program =
      b.finish({b.call("einsum.default", {"bthk,hko->bto", Argument::List{first, b.weight("v", {2, 5, 3})}})});
  XNNPACKQuantizer quantizer;
  quantizer.set_global(get_symmetric_quantization_config({.is_per_channel = true}));
  Prepared prepared = prepare_pt2e(std::move(program), quantizer);
  const Tensor input = ramp({2, 3, 4});
  prepared.run({input});
  const Program converted = convert_pt2e(prepared);
  EXPECT_EQ(count_layers(converted), 2);
  EXPECT_TRUE(left_in_float(prepared, converted).empty());
}

// Others with a parameter stay float, and the summary says so.
TEST(Recompose, ProductsOfSeveralTensorsWithAParameterAreFloatLayers) {
  ProgramBuilder b;
  Node* x = b.call("linear.default", {b.input("x", {2, 3, 4}), b.weight("w", {4, 4})});
  Node* heads = b.call("einsum.default", {"bhd,hdk->bhk", Argument::List{x, b.weight("v", {3, 4, 5})}});
  Program program = b.finish({heads, b.call("bilinear.default", {x, x, b.weight("u", {2, 4, 4})})});
  XNNPACKQuantizer quantizer;
  quantizer.set_global(get_symmetric_quantization_config());
  Prepared prepared = prepare_pt2e(std::move(program), quantizer);
  prepared.run({ramp({2, 3, 4})});
  const Program converted = convert_pt2e(prepared);
  EXPECT_EQ(count_layers(converted), 3);
  const std::vector<LeftInFloat> left = left_in_float(prepared, converted);
  ASSERT_EQ(left.size(), 2U);
  EXPECT_EQ(left[0].op, "aten.einsum.default");
  EXPECT_EQ(left[1].op, "aten.bilinear.default");
}

TEST(Recompose, ConvolutionsOfAllAxes) {
  const auto plain = [](const Shape& input, const Shape& weight, bool transposed) {
    return recomposed(input, [&](ProgramBuilder& b, Node* x) -> std::vector<Argument> {
      const size_t axes = weight.size() - 2;
      const auto each = [&](int64_t value) { return Argument::List(axes, Argument(value)); };
      return {b.call("convolution.default", {x, b.weight("w", weight), b.weight("bias", {4}), each(2), each(1), each(1),
                                             transposed, each(transposed ? 1 : 0), 2})};
    });
  };
  EXPECT_EQ(plain({1, 4, 9}, {4, 2, 3}, false), "conv1d.default");
  EXPECT_EQ(plain({1, 4, 9, 8}, {4, 2, 3, 3}, false), "conv2d.default");
  EXPECT_EQ(plain({1, 4, 5, 6, 7}, {4, 2, 3, 3, 3}, false), "conv3d.default");
  EXPECT_EQ(plain({1, 4, 9}, {4, 2, 3}, true), "conv_transpose1d.default");
  EXPECT_EQ(plain({1, 4, 9, 8}, {4, 2, 3, 3}, true), "conv_transpose2d.input");
  EXPECT_EQ(plain({1, 4, 3, 4, 5}, {4, 2, 3, 3, 3}, true), "conv_transpose3d.input");
}

TEST(Recompose, ConvolutionsWithPaddingInWords) {
  const auto padded = [](const Shape& input, const Shape& weight, const char* words, int64_t dilation) {
    return recomposed(input, [&](ProgramBuilder& b, Node* x) -> std::vector<Argument> {
      const size_t axes = weight.size() - 2;
      const auto each = [&](int64_t value) { return Argument::List(axes, Argument(value)); };
      return {b.call(concat("conv", axes, "d.padding"),
                     {x, b.weight("w", weight), b.weight("bias", {4}), each(1), words, each(dilation), 2})};
    });
  };
  EXPECT_EQ(padded({1, 4, 9}, {4, 2, 3}, "same", 2), "conv1d.default");
  EXPECT_EQ(padded({1, 4, 9}, {4, 2, 4}, "valid", 2), "conv1d.default");
  EXPECT_EQ(padded({1, 4, 9}, {4, 2, 4}, "same", 1), "pad.default conv1d.default");
  EXPECT_EQ(padded({1, 4, 9, 8}, {4, 2, 3, 5}, "same", 1), "conv2d.default");
  EXPECT_EQ(padded({1, 4, 9, 8}, {4, 2, 3, 2}, "same", 3), "pad.default conv2d.default");
  EXPECT_EQ(padded({1, 4, 5, 6, 7}, {4, 2, 1, 2, 3}, "same", 1), "pad.default conv3d.default");
}

TEST(Recompose, ProductsWithTransposedWeights) {
  const auto product = [](const std::string& turn, std::vector<Argument> rest) {
    return recomposed({2, 12}, [&](ProgramBuilder& b, Node* x) -> std::vector<Argument> {
      std::vector<Argument> args = {b.weight("w", {5, 12})};
      args.insert(args.end(), rest.begin(), rest.end());
      return {b.call("addmm.default", {b.weight("bias", {5}), x, b.call(turn, args)})};
    });
  };
  EXPECT_EQ(product("t.default", {}), "linear.default");
  EXPECT_EQ(product("permute.default", {Argument(list({1, 0}))}), "linear.default");
  EXPECT_EQ(product("permute.default", {Argument(list({-1, -2}))}), "linear.default");
  EXPECT_EQ(product("transpose.int", {0, 1}), "linear.default");
  EXPECT_EQ(product("transpose.int", {-1, 0}), "linear.default");
}

TEST(Recompose, ProductsWithOtherConstants) {
  const auto product = [](const std::string& op,
                          const std::function<std::vector<Argument>(ProgramBuilder&, Node*)>& args,
                          Node::Kwargs kwargs = {}) {
    return recomposed({2, 12}, [&](ProgramBuilder& b, Node* x) -> std::vector<Argument> {
      Node* call = b.call(op, args(b, x));
      call->set_kwargs(kwargs);
      return {call};
    });
  };
  const auto addmm = [](ProgramBuilder& b, Node* x) -> std::vector<Argument> {
    return {b.weight("bias", {5}), x, b.weight("w", {12, 5})};
  };
  EXPECT_EQ(product("addmm.default", addmm), "linear.default");
  EXPECT_EQ(product("addmm.default", addmm, {{"beta", 1}, {"alpha", 1.0}}), "linear.default");
  EXPECT_EQ(product("addmm.default", addmm, {{"alpha", 2}}), "addmm.default");
  EXPECT_EQ(product("mm.default",
                    [](ProgramBuilder& b, Node* x) -> std::vector<Argument> {
                      return {x, b.call("exp.default", {b.weight("w", {12, 5})})};
                    }),
            "exp.default permute.default linear.default");
  // A matrix is added, and the second factor comes from the input.
  EXPECT_EQ(product("addmm.default",
                    [](ProgramBuilder& b, Node* x) -> std::vector<Argument> {
                      return {b.weight("bias", {2, 5}), x, b.weight("w", {12, 5})};
                    }),
            "addmm.default");
  EXPECT_EQ(product("mm.default",
                    [](ProgramBuilder& b, Node* x) -> std::vector<Argument> {
                      return {x, b.call("permute.default", {x, list({1, 0})})};
                    }),
            "permute.default mm.default");
}

TEST(Recompose, MatricesThatAreSpreadOverABatch) {
  const auto spread = [](const std::string& bias_from) {
    return recomposed({2, 3, 12}, [&](ProgramBuilder& b, Node* x) -> std::vector<Argument> {
      Node* turned = b.call("permute.default", {b.weight("w", {5, 12}), list({1, 0})});
      Node* matrices = b.call("expand.default", {turned, list({2, 12, 5})});
      Node* rows = b.call("view.default", {b.call("clone.default", {x}), list({2, 3, 12})});
      Node* product = b.call("bmm.default", {rows, b.call("view.default", {matrices, list({2, 12, 5})})});
      product = b.call("view.default", {product, list({2, 3, 5})});
      Node* bias = bias_from == "weight" ? b.weight("bias", {5}) : b.call("slice.Tensor", {x, -1, 0, 5});
      return {b.call("add.Tensor", {product, bias})};
    });
  };
  EXPECT_EQ(spread("weight"), "linear.default");
  EXPECT_EQ(spread("input"), "linear.default slice.Tensor add.Tensor");
}

TEST(Recompose, ViewsThatMakeRowsOfOtherTensors) {
  const auto viewed = [](const Argument::List& rows, const Argument::List& back, bool twice = false) {
    return recomposed({2, 3, 12}, [&](ProgramBuilder& b, Node* x) -> std::vector<Argument> {
      Node* view = b.call("view.default", {x, rows});
      Node* mm = b.call("mm.default", {view, b.call("t.default", {b.weight("w", {6, rows.back().integer().value()})})});
      std::vector<Argument> out = {b.call("_unsafe_view.default", {mm, back})};
      if (twice) out.push_back(mm);
      return out;
    });
  };
  EXPECT_EQ(viewed(list({6, 12}), list({2, 3, 6})), "linear.default");
  EXPECT_EQ(viewed(list({6, 12}), list({3, 2, 6})), "view.default linear.default _unsafe_view.default");
  EXPECT_EQ(viewed(list({12, 6}), list({2, 3, 12})), "view.default linear.default _unsafe_view.default");
  EXPECT_EQ(viewed(list({6, 12}), list({2, 3, 6}), true), "view.default linear.default _unsafe_view.default");
}

TEST(Recompose, NormsAndPoolsWithResultsThatNobodyReads) {
  EXPECT_EQ(
      recomposed({2, 4, 6, 6},
                 [](ProgramBuilder& b, Node* x) -> std::vector<Argument> {
                   Node* variance = b.call("abs.default", {b.weight("variance", {4})});
                   Node* mean = b.weight("mean", {4});
                   Node* norm = b.call("_native_batch_norm_legit_no_training.default",
                                       {x, b.weight("gamma", {4}), b.weight("beta", {4}), mean, variance, 0.1, 1e-3});
                   Node* legit = b.call("native_batch_norm.default",
                                        {b.item(norm, 0), Argument(), Argument(), mean, variance, false, 0.1, 1e-3});
                   Node* pool = b.call("max_pool2d_with_indices.default",
                                       {b.item(legit, 0), list({3, 3}), list({2, 2}), list({1, 1})});
                   b.item(pool, 1);
                   return {b.item(pool, 0)};
                 }),
      "abs.default batch_norm.default batch_norm.default max_pool2d.default");
  EXPECT_EQ(recomposed({2, 4, 6},
                       [](ProgramBuilder& b, Node* x) -> std::vector<Argument> {
                         Node* group = b.call("native_group_norm.default",
                                              {x, b.weight("gamma", {4}), b.weight("beta", {4}), 2, 4, 6, 2, 1e-5});
                         Node* layer = b.call("native_layer_norm.default",
                                              {b.item(group, 0), list({6}), b.weight("g", {6}), Argument(), 1e-5});
                         return {b.call("_softmax.default", {b.item(layer, 0), -1, false})};
                       }),
            "group_norm.default layer_norm.default softmax.int");
  // Somebody reads the indices.
  EXPECT_EQ(recomposed({2, 4, 6, 6},
                       [](ProgramBuilder& b, Node* x) -> std::vector<Argument> {
                         Node* pool = b.call("max_pool2d_with_indices.default", {x, list({2, 2})});
                         Node* largest = b.item(pool, 0);
                         return {largest, b.call("to.dtype", {b.item(pool, 1), DType::kF32})};
                       }),
            "max_pool2d_with_indices.default operator.getitem operator.getitem to.dtype");
}

TEST(Recompose, ActivationsInParts) {
  const auto curve = [](const Body& body) { return recomposed({3, 50}, body, 1e-6f); };
  EXPECT_EQ(curve([](ProgramBuilder& b, Node* x) -> std::vector<Argument> {
              return {b.call("mul.Tensor", {x, b.call("sigmoid.default", {x})})};
            }),
            "silu.default");
  const auto bounded = [](ProgramBuilder& b, Node* x) {
    Node* low = b.call("clamp.default", {b.call("add.Tensor", {x, 3}), 0});
    return b.call("clamp.default", {low, Argument(), 6});
  };
  EXPECT_EQ(curve([&](ProgramBuilder& b, Node* x) -> std::vector<Argument> {
              return {b.call("div.Tensor", {bounded(b, x), 6})};
            }),
            "hardsigmoid.default");
  EXPECT_EQ(curve([&](ProgramBuilder& b, Node* x) -> std::vector<Argument> {
              return {b.call("div.Tensor", {b.call("mul.Tensor", {x, bounded(b, x)}), 6})};
            }),
            "hardswish.default");
  EXPECT_EQ(curve([](ProgramBuilder& b, Node* x) -> std::vector<Argument> {
              Node* relu6 = b.call("hardtanh.default", {b.call("add.Tensor", {x, 3.0}), 0.0, 6.0});
              return {b.call("mul.Tensor", {b.call("mul.Tensor", {relu6, 1.0 / 6}), x})};
            }),
            "hardswish.default");
  // Other bounds, and somebody else who reads what is bounded.
  EXPECT_EQ(curve([](ProgramBuilder& b, Node* x) -> std::vector<Argument> {
              Node* clamp = b.call("clamp.default", {b.call("add.Tensor", {x, 3}), 0, 5});
              return {b.call("div.Tensor", {clamp, 6})};
            }),
            "add.Tensor clamp.default div.Tensor");
  EXPECT_EQ(curve([&](ProgramBuilder& b, Node* x) -> std::vector<Argument> {
              Node* six = bounded(b, x);
              return {b.call("div.Tensor", {six, 6}), six};
            }),
            "add.Tensor clamp.default clamp.default div.Tensor");
}

// convolution, batch norm, relu, flatten, addmm
Program decomposed() {
  ProgramBuilder b;
  Node* conv = b.call("convolution.default", {b.input("x", {1, 3, 6, 6}), b.weight("w", {4, 3, 3, 3}), Argument(),
                                              list({1, 1}), list({0, 0}), list({1, 1}), false, list({0, 0}), 1});
  Node* norm = b.call("_native_batch_norm_legit_no_training.default",
                      {conv, b.weight("gamma", {4}), b.weight("beta", {4}), b.weight("mean", {4}),
                       b.parameter("variance", Tensor::of<float>({4}, {1, 2, 3, 4})), 0.1, 1e-3});
  Node* relu = b.call("relu.default", {b.item(norm, 0)});
  Node* flat = b.call("view.default", {relu, list({1, 64})});
  return b.finish(
      {b.call("addmm.default", {b.weight("bias", {5}), flat, b.call("t.default", {b.weight("fc", {5, 64})})})});
}

TEST(Recompose, AttentionInParts) {
  const auto attention = [](bool joins, float factor) {
    return recomposed(
        {2, 3, 5, 4},
        [&](ProgramBuilder& b, Node* x) -> std::vector<Argument> {
          const auto flat = [&](Node* value, const Shape& sizes) {
            Node* expanded = b.call("expand.default", {value, Argument::List(sizes.begin(), sizes.end())});
            return b.call("view.default", {expanded, list({6, sizes[2], sizes[3]})});
          };
          Node* key = b.call("permute.default", {x, list({0, 1, 3, 2})});
          Node* scores = b.call("bmm.default", {flat(b.call("mul.Scalar", {x, factor}), {2, 3, 5, 4}),
                                                flat(b.call("mul.Scalar", {key, factor}), {2, 3, 4, 5})});
          scores = b.call("view.default", {scores, joins ? list({2, 3, 5, 5}) : list({3, 2, 5, 5})});
          Node* softmax = b.call("_softmax.default", {scores, -1, false});
          Node* finite = b.call("logical_not.default", {b.call("eq.Scalar", {scores, -INFINITY})});
          Node* none = b.call("logical_not.default", {b.call("any.dim", {finite, -1, true})});
          Node* share = b.call("where.self", {none, b.call("full_like.default", {softmax, 0}), softmax});
          Node* out = b.call("bmm.default",
                             {flat(share, joins ? Shape{2, 3, 5, 5} : Shape{3, 2, 5, 5}), flat(x, {2, 3, 5, 4})});
          return {b.call("view.default", {out, list({2, 3, 5, 4})})};
        },
        1e-6f);
  };
  EXPECT_EQ(attention(true, std::sqrt(0.5f)), "scaled_dot_product_attention.default");
  // Another view parts the front axes otherwise.
  EXPECT_NE(attention(false, 1.0f).find("bmm.default"), std::string::npos);
}

TEST(Recompose, ArgumentsThatDoNotFitStayAsTheyAre) {
  // Axes by name, axes that no matrix has, and a weight that is no matrix: nothing is read that is not there.
  const auto product = [](const std::string& op, std::vector<Argument> axes, Node::Kwargs kwargs = {}) {
    ProgramBuilder b;
    Node* x = b.input("x", {2, 12});
    Node* turned = b.call("permute.default", {b.weight("w", {5, 12}), list({1, 0})});
    Node* mm = b.call("mm.default", {x, turned});
    Program program = b.finish({mm});
    turned->set_target("torch.ops.aten." + op);
    std::vector<Argument> args = {turned->arg(0)};
    args.insert(args.end(), axes.begin(), axes.end());
    turned->set_args(std::move(args));
    turned->set_kwargs(std::move(kwargs));
    recompose(program);
    return calls_of(program);
  };
  EXPECT_EQ(product("transpose.int", {}, {{"dim0", 0}, {"dim1", -1}}), "linear.default");
  EXPECT_EQ(product("transpose.int", {0}), "transpose.int permute.default linear.default");
  EXPECT_EQ(product("transpose.int", {0, 7}), "transpose.int permute.default linear.default");
  EXPECT_EQ(product("permute.default", {Argument(Argument::List{})}), "permute.default permute.default linear.default");
  EXPECT_EQ(product("permute.default", {Argument(list({0, 9}))}), "permute.default permute.default linear.default");
  EXPECT_EQ(product("permute.default", {3}), "permute.default permute.default linear.default");
}

TEST(Recompose, OperatorsOfOthersStayWhateverTheirName) {
  ProgramBuilder b;
  Node* mm = b.call("mm.default", {b.input("x", {2, 12}), b.weight("w", {12, 5})});
  Program program = b.finish({mm});
  mm->set_target("torch.ops.mylib.mm.default");
  recompose(program);
  EXPECT_TRUE(mm->is("torch.ops.mylib.mm.default"));
}

TEST(Recompose, FlashAttention) {
  EXPECT_EQ(recomposed({2, 3, 5, 4},
                       [](ProgramBuilder& b, Node* x) -> std::vector<Argument> {
                         Node* whole =
                             b.call("_scaled_dot_product_flash_attention_for_cpu.default", {x, x, x, 0.0, true});
                         whole->set_kwargs({{"scale", 0.25}});
                         return {b.item(whole, 0)};
                       }),
            "scaled_dot_product_attention.default");
}

TEST(Recompose, QuantizersFindTheLayersUnderTheirNames) {
  XNNPACKQuantizer xnnpack;
  xnnpack.set_global(get_symmetric_quantization_config());
  X86InductorQuantizer x86;
  x86.set_global(get_default_x86_inductor_quantization_config());
  for (Quantizer* quantizer : {static_cast<Quantizer*>(&xnnpack), static_cast<Quantizer*>(&x86)}) {
    Prepared prepared = prepare_pt2e(decomposed(), *quantizer);
    prepared.run({ramp({1, 3, 6, 6})});
    const Program converted = convert_pt2e(prepared);
    EXPECT_TRUE(converted.graph->find("convolution")->is("torch.ops.aten.conv2d.default"));
    EXPECT_TRUE(is_a(*converted.graph->find("convolution")->arg(1).node(), Family::kDequantize));
    EXPECT_TRUE(is_a(*converted.graph->find("addmm")->arg(1).node(), Family::kDequantize));
    EXPECT_EQ(calls_of(converted).find("norm"), std::string::npos);
  }
}

TEST(Recompose, TheRulesOfPyTorchLeaveThemInFloat) {
  X86InductorQuantizer x86(Compat::kTorch26);
  x86.set_global(get_default_x86_inductor_quantization_config());
  Prepared prepared = prepare_pt2e(decomposed(), x86);
  prepared.run({ramp({1, 3, 6, 6})});
  EXPECT_NE(calls_of(convert_pt2e(prepared)).find("convolution.default"), std::string::npos);
}

TEST(Recompose, RowsThatNameWhatDecompositionsLeaveFindIt) {
  EXPECT_TRUE(is_decomposed("aten.convolution"));
  EXPECT_TRUE(is_decomposed("aten._softmax.default"));
  EXPECT_FALSE(is_decomposed("aten.bmm"));
  EXPECT_FALSE(is_decomposed("aten.conv2d"));
  for (const std::string_view name : {"aten.convolution", "aten.conv2d"}) {
    PatternQuantizer quantizer("Rows", {{.name = "conv", .places = {{{name}}}}});
    quantizer.set_global(get_default_x86_inductor_quantization_config());
    Prepared prepared = prepare_pt2e(decomposed(), quantizer);
    prepared.run({ramp({1, 3, 6, 6})});
    const Program converted = convert_pt2e(prepared);
    const Node* conv = converted.graph->find("convolution");
    EXPECT_EQ(base_name(conv->target()), name.substr(5));
    EXPECT_TRUE(is_a(*conv->arg(1).node(), Family::kDequantize));
  }
}

}  // namespace
}  // namespace qdq::recompose_test
