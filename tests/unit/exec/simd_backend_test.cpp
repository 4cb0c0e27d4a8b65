// The portable loops beside the reference, operator by operator.
#include "exec/interpreter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "base/parallel.h"
#include "unit/exec/small_net.h"

namespace qdq::simd_backend_test {
namespace {

TEST(SimdBackend, AgreesWithTheReferenceAndWithItselfOnAnyThreads) {
  const Program program = small_net();
  const Tensor x = counting({3, 4, 9, 7}, 0.0173f, -1.f);
  const std::vector<Tensor> expected = Interpreter(program, {}).run({{x}});
  ASSERT_EQ(expected.size(), 2u);
  EXPECT_EQ(expected[0].sizes(), (Shape{3, 5}));
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  Interpreter fast(program, {simd.get()});
  const std::vector<Tensor> first = fast.run({{x}});
  for (size_t i = 0; i < expected.size(); ++i)
    for (int64_t j = 0; j < expected[i].numel(); ++j)
      EXPECT_NEAR(first[i].data<float>()[j], expected[i].data<float>()[j], 2e-5) << i << " " << j;
  set_num_threads(3);
  const std::vector<Tensor> again = fast.run({{x}});
  set_num_threads(1);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(bitwise_equal(first[i], again[i]));
  // A sample's result does not depend on its batch.
  const std::vector<Tensor> single = fast.run({{x.slice(0, 1, 2)}});
  EXPECT_TRUE(bitwise_equal(single[0], first[0].slice(0, 1, 2).contiguous()));
}

TEST(SimdBackend, AgreesWithTheReferenceOnEveryOperatorItTakes) {
  using List = Argument::List;
  struct Case {
    const char* op;
    std::vector<Argument> more;  // behind x
    double tolerance;            // relative to 1 + |expected|
    const char* backend = "simd";
  };
  const std::vector<Case> cases = {
      {"aten.relu.default", {}, 0},
      {"aten.relu_.default", {}, 0},
      {"aten.relu6.default", {}, 0},
      {"aten.hardtanh.default", {-0.25, 0.5}, 0},
      {"aten.hardswish_.default", {}, 0},
      {"aten.hardsigmoid.default", {}, 0},
      {"aten.leaky_relu.default", {0.01}, 0},
      {"aten.sigmoid.default", {}, 1e-6},
      {"aten.silu.default", {}, 1e-6},
      {"aten.gelu.default", {}, 1e-6},
      {"aten.tanh.default", {}, 1e-6},
      {"aten.exp.default", {}, 1e-6},
      {"aten.sin.default", {}, 1e-6},
      {"aten.cos.default", {}, 1e-6},
      {"aten.softmax.int", {-1}, 1e-6},
      {"aten.softmax.int", {1}, 1e-6},
      {"aten.log_softmax.int", {0}, 1e-6},
      {"aten.expm1.default", {}, 1e-6},
      {"aten.log1p.default", {}, 1e-6},
      {"aten.erf.default", {}, 1e-6},
      {"aten.neg.default", {}, 0},
      {"aten.abs_.default", {}, 0},
      {"aten.reciprocal.default", {}, 0},
      {"aten.round.default", {}, 0},
      {"aten.floor_.default", {}, 0},
      {"aten.ceil.default", {}, 0},
      {"aten.eq.Scalar", {-2.0}, 0},
      {"aten.ne.Scalar", {-2.0}, 0},
      {"aten.gt.Scalar", {0.1}, 0},
      {"aten.ge.Scalar", {-2}, 0},
      {"aten.lt.Scalar", {0.3}, 0},
      {"aten.le.Scalar", {-2.0}, 0},
      {"aten.elu.default", {0.7}, 1e-6},
      {"aten.selu.default", {}, 1e-6},
      {"aten.celu.default", {1.7}, 1e-6},
      {"aten.adaptive_avg_pool1d.default", {Argument(List{4})}, 1e-6},
      {"aten.softplus.default", {}, 1e-6},
      {"aten.mish.default", {}, 1e-6},
      {"aten.clamp.default", {-0.5, Argument()}, 0},
      {"aten.clamp_min.default", {0.25}, 0},
      {"aten.clamp_max_.default", {0.25}, 0},
      {"aten.pow.Tensor_Scalar", {2}, 1e-6},
      {"aten.pow.Tensor_Scalar", {3}, 1e-6},
      {"aten.exp2.default", {}, 1e-7},
      {"aten.log2.default", {}, 1e-7},
      {"aten.log10.default", {}, 1e-7},
      {"aten.tan.default", {}, 1e-7},
      {"aten.asin.default", {}, 1e-7},
      {"aten.acos.default", {}, 1e-7},
      {"aten.atan.default", {}, 1e-7},
      {"aten.sinh.default", {}, 1e-7},
      {"aten.cosh.default", {}, 1e-7},
      {"aten.asinh.default", {}, 1e-7},
      {"aten.acosh.default", {}, 1e-7},
      {"aten.atanh.default", {}, 1e-7},
      {"aten.log_sigmoid.default", {}, 1e-6},
      {"aten.glu.default", {0}, 1e-6},
      {"aten.var.dim", {Argument(List{-1, 1}), false, true}, 1e-6},
      {"aten.var.default", {}, 1e-6},
      {"aten.std.dim", {Argument(List{2})}, 1e-6},
      {"aten.std.default", {false}, 1e-6},
      {"aten.linalg_vector_norm.default", {2, Argument(List{1, -1}), true}, 1e-6},
      {"aten.linalg_vector_norm.default", {2.0, Argument(List{2})}, 1e-6},
      {"aten.linalg_vector_norm.default", {1, Argument(List{3})}, 0},
      {"aten.linalg_vector_norm.default", {1.0, Argument(List{-3}), true}, 0},
      {"aten.linalg_vector_norm.default", {1, Argument(List{2, 1})}, 0},
      {"aten.linalg_vector_norm.default", {1, Argument()}, 0},
      {"aten.add.Tensor", {0.3}, 0},
      {"aten.sub_.Tensor", {2}, 0},
      {"aten.rsub.Scalar", {1, 0.3}, 0},
      {"aten.mul.Tensor", {-1.7}, 0},
      {"aten.div.Tensor", {0.3}, 0},
      {"aten.mean.dim", {Argument(List{2, 3}), true}, 1e-6},
      {"aten.mean.dim", {Argument(List{-1})}, 1e-6},
      {"aten.sum.dim_IntList", {Argument(List{1, 3})}, 1e-6},
      {"aten.sum.dim_IntList", {Argument(List{0, 1})}, 1e-6},
      {"aten.amax.default", {Argument(List{1}), true}, 0},
      {"aten.logsumexp.default", {Argument(List{1, 3}), true}, 1e-6},
      {"aten.logsumexp.default", {Argument(List{1})}, 1e-6},
      {"aten.logsumexp.default", {Argument(List{2, 3})}, 1e-6},
      {"aten.amin.default", {Argument(List{2, 3})}, 0},
      {"aten.upsample_nearest2d.vec", {Argument(List{9, 11}), Argument()}, 0},
      {"aten.upsample_bilinear2d.vec", {Argument(List{13, 3}), false, Argument()}, 1e-6},
      {"aten.upsample_bicubic2d.vec", {Argument(), true, Argument(List{2.0, 3.0})}, 1e-6},
      {"aten.pad.default", {Argument(List{1, 2, 3, -1, 1, 0}), "constant", 0.5}, 0},
      {"aten.reflection_pad2d.default", {Argument(List{4, 3, 2, 6})}, 0},
      {"aten.pad.default", {Argument(List{-2, 9, 1, 1}), "replicate", Argument()}, 0},
      {"aten.group_norm.default", {3}, 1e-5},
      {"aten.instance_norm.default", {Argument(), Argument(), Argument(), Argument(), true, 0.1, 1e-5, false}, 1e-5},
      {"aten.max_pool1d.default", {List{3}, List{2}, List{1}}, 0, "simd"},
      {"aten.reshape.default", {Argument(List{-1, 5})}, 0},
      {"aten.permute.default", {Argument(List{2, 0, 3, 1})}, 0},
      {"aten.slice.Tensor", {-1, 1, 4, 2}, 0},
      {"aten.unsqueeze.default", {1}, 0},
      {"aten.layer_norm.default", {Argument(List{5})}, 1e-5},
      {"aten.layer_norm.default", {Argument(List{7, 5})}, 1e-5},
      {"aten.max_pool2d.default", {List{3, 3}, List{2, 2}, List{1, 1}, List{1, 1}, true}, 0},
      {"aten.max_pool3d.default", {List{2, 3, 2}, List{1, 2, 1}, List{1, 1, 0}, List{2, 1, 3}, true}, 0},
      {"aten.max_pool3d.default", {Argument(List{2, 2, 2})}, 0},
      {"aten.avg_pool3d.default", {List{2, 3, 2}, List{1, 2, 2}, List{1, 1, 1}, true, true}, 1e-6},
      {"aten.avg_pool3d.default", {List{2, 3, 2}, List{1, 2, 2}, List{1, 1, 1}, true, false}, 1e-6},
      {"aten.avg_pool3d.default", {List{3, 3, 2}, List{}, List{0, 1, 1}, false, true, 5}, 1e-6},
      {"aten.avg_pool2d.default", {List{3, 2}, List{2, 2}, List{1, 1}, true, false}, 1e-6},
      {"aten.adaptive_avg_pool2d.default", {Argument(List{3, 2})}, 1e-6},
      {"quantized_decomposed.quantize_per_tensor.default", {0.0173, 3, -128, 127, DType::kS8}, 0},
      {"quantized_decomposed.quantize_per_tensor.default", {0.0173, 100, 0, 127, DType::kU8}, 0},
  };
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  for (const Case& one : cases) {
    Program program;
    const bool is_sequence = std::string_view(one.op).find("pool1d") != std::string_view::npos;
    const Shape sizes = is_sequence ? Shape{2, 3, 35} : Shape{2, 3, 7, 5};
    Node* x = placeholder(program, "x", SymShape(sizes.begin(), sizes.end()));
    std::vector<Argument> args{x};
    args.insert(args.end(), one.more.begin(), one.more.end());
    Node* node = program.graph->call(concat("torch.ops.", one.op), args);
    program.graph->create(Node::Op::kOutput, "output", {Argument(List{node})});
    infer_shapes(program);
    Interpreter fast(program, {simd.get()});
    EXPECT_EQ(fast.placements().at(0).backend, one.backend) << one.op;
    // In-place operators write to their input, so each run gets its own.
    const Tensor data = counting(sizes, 0.0719f, -2.f);
    const Tensor expected = Interpreter(program, {}).run({{data.clone()}}).at(0).to(DType::kF64);
    const Tensor found = fast.run({{data.clone()}}).at(0).to(DType::kF64);
    ASSERT_EQ(found.sizes(), expected.sizes()) << one.op;
    for (int64_t i = 0; i < expected.numel(); ++i) {
      const double want = expected.data<double>()[i];
      if (std::isnan(want)) EXPECT_TRUE(std::isnan(found.data<double>()[i])) << one.op << " at " << i;
      else EXPECT_NEAR(found.data<double>()[i], want, one.tolerance * (1 + std::abs(want))) << one.op << " at " << i;
    }
  }
}

// Masks of numbers and bools, for all images or for each; hidden queries; shared keys; more queries than one block has.
TEST(SimdBackend, AttentionAgreesWithTheReference) {
  struct Case {
    Shape query, key, value, mask;
    bool is_bool, is_causal, is_grouped;
  };
  const std::vector<Case> cases = {{{2, 3, 7, 5}, {2, 3, 9, 5}, {2, 3, 9, 4}, {}, false, false, false},
                                   {{2, 3, 7, 5}, {2, 3, 9, 5}, {2, 3, 9, 4}, {7, 9}, false, false, false},
                                   {{2, 3, 7, 5}, {2, 3, 9, 5}, {2, 3, 9, 4}, {2, 1, 1, 9}, true, false, false},
                                   {{2, 3, 7, 5}, {2, 3, 9, 5}, {2, 3, 9, 4}, {1, 3, 7, 9}, false, false, false},
                                   {{3, 6, 8}, {3, 6, 8}, {3, 6, 8}, {}, false, true, false},
                                   {{4, 8}, {5, 8}, {5, 3}, {}, false, false, false},
                                   {{1, 6, 3, 8}, {1, 2, 4, 8}, {1, 2, 4, 8}, {3, 4}, true, false, true},
                                   {{1, 2, 70, 4}, {1, 2, 1100, 4}, {1, 2, 1100, 6}, {}, false, false, false}};
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  for (const Case& one : cases) {
    SCOPED_TRACE(to_string(one.query) + " " + to_string(one.mask));
    Program program;
    std::vector<Argument> args;
    std::vector<Tensor> inputs;
    for (const Shape& sizes : {one.query, one.key, one.value}) {
      const std::string name = concat("x", args.size());
      args.emplace_back(placeholder(program, name.c_str(), SymShape(sizes.begin(), sizes.end())));
      inputs.push_back(counting(sizes, 0.0719f + 0.01f * static_cast<float>(inputs.size()), -2.f));
    }
    args.emplace_back();
    if (!one.mask.empty()) {
      Tensor mask = counting(one.mask, 0.31f, -1.f);
      // The first of a row's keys, and in the first row all, are hidden.
      for (int64_t i = 0; i < mask.numel(); ++i)
        if (i < one.mask.back() || i % one.mask.back() == 0)
          mask.data<float>()[i] = one.is_bool ? 0 : -std::numeric_limits<float>::infinity();
      inputs.push_back(one.is_bool ? mask.to(DType::kBool) : mask);
      args.back() = placeholder(program, "mask", SymShape(one.mask.begin(), one.mask.end()));
      args.back().node()->meta.val.value =
          TensorMeta{inputs.back().dtype(), {one.mask.begin(), one.mask.end()}, {}, false};
    }
    args.insert(args.end(), {0.0, one.is_causal});
    Node* node = program.graph->call("torch.ops.aten.scaled_dot_product_attention.default", args,
                                     {{"enable_gqa", one.is_grouped}});
    program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{node})});
    infer_shapes(program);
    Interpreter fast(program, {simd.get()});
    EXPECT_EQ(fast.placements().at(0).backend, "simd");
    const Tensor expected = Interpreter(program, {}).run({inputs}).at(0), found = fast.run({inputs}).at(0);
    ASSERT_EQ(found.sizes(), expected.sizes());
    for (int64_t i = 0; i < expected.numel(); ++i)
      ASSERT_NEAR(found.data<float>()[i], expected.data<float>()[i], 2e-5 * (1 + std::abs(expected.data<float>()[i])))
          << i;
    set_num_threads(3);
    EXPECT_TRUE(bitwise_equal(fast.run({inputs}).at(0), found));
    set_num_threads(1);
  }
}

// What a view or indices chose is remembered: other values, sizes and strides must not see it.
TEST(SimdBackend, ViewsAndIndicesFollowTheirInputs) {
  using List = Argument::List;
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  Program program;
  Node* x = placeholder(program, "x", {SymInt::symbol("s0"), 6});
  Node* values = placeholder(program, "values", {2, 6});
  Node* places = attribute(program, "places", Tensor::of<int64_t>({2}, {2, 0}));
  const auto call = [&](const char* op, std::vector<Argument> args) {
    return program.graph->call(concat("torch.ops.aten.", op), std::move(args));
  };
  Node* turned = call("transpose.int", {x, 0, 1});
  Node* part = call("slice.Tensor", {turned, 0, 1, 5, 2});
  Node* halves = call("split.Tensor", {x, 3, 1});
  Node* second = program.graph->call("operator.getitem", {halves, 1});
  Node* flat = call("reshape.default", {turned, List{-1}});
  Node* picked = call("index.Tensor", {x, List{places}});
  Node* columns = call("index.Tensor", {x, List{Argument(), places}});
  Node* put = call("index_put.default", {x, List{places}, values});
  Node* twice = attribute(program, "twice", Tensor::of<int64_t>({2}, {2, 2}));
  Node* added = call("index_put.default", {x, List{twice}, values, true});
  Node* padded = call("constant_pad_nd.default", {x, List{1, 0, 0, 2}});
  program.graph->create(Node::Op::kOutput, "output",
                        {Argument(List{part, second, flat, picked, columns, put, added, padded})});
  infer_shapes(program);
  Interpreter fast(program, {simd.get()}), plain(program, {});
  for (const Interpreter::OpPlacement& one : fast.placements())
    EXPECT_EQ(one.backend, one.node->is("operator.getitem") ? "reference" : "simd") << one.node->name();
  for (const int64_t rows : {3, 3, 5, 3})
    for (const bool is_turned : {false, true}) {
      static float start = 0;
      const Tensor data = counting({rows, 6}, 0.0719f, start -= 0.3f), more = counting({2, 6}, 0.0173f, start);
      const Tensor given = is_turned ? data.transpose(0, 1).contiguous().transpose(0, 1) : data;
      const Tensor kept = given.clone();
      const std::vector<Tensor> expected = plain.run({{given, more}}), found = fast.run({{given, more}});
      for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(bitwise_equal(found[i], expected[i])) << i;
      EXPECT_TRUE(bitwise_equal(kept, given)) << "the input was written to";
    }
  EXPECT_THROW(fast.run({{counting({2, 6}, 1, 0), counting({2, 6}, 1, 0)}}), Error) << "row 2 of 2";
}

// Indices that the caller writes anew are looked at in every run.
TEST(SimdBackend, SeesIndicesThatChange) {
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  Program program;
  Node* x = placeholder(program, "x", {4});
  Node* places = placeholder(program, "places", {1, 2});
  places->meta.val.value = TensorMeta{DType::kS64, {1, 2}, {}, false};
  Node* row = program.graph->call("torch.ops.aten.select.int", {places, 0, 0});
  Node* picked = program.graph->call("torch.ops.aten.index.Tensor", {x, Argument::List{row}});
  program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{picked})});
  infer_shapes(program);
  Interpreter fast(program, {simd.get()});
  const Tensor data = Tensor::of<float>({4}, {0, 1, 2, 3}), at = Tensor::of<int64_t>({1, 2}, {3, 1});
  EXPECT_TRUE(bitwise_equal(fast.run({{data, at}})[0], Tensor::of<float>({2}, {3, 1})));
  at.data<int64_t>()[0] = 2;
  EXPECT_TRUE(bitwise_equal(fast.run({{data, at}})[0], Tensor::of<float>({2}, {2, 1})));
}

TEST(SimdBackend, RunsRecurrentLayersAsTheReferenceDoes) {
  using List = Argument::List;
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  constexpr int64_t T = 5, N = 2, I = 3, H = 19;
  struct Net {
    const char* op;
    int64_t gates, P;  // P other than H: with projections
  };
  for (const auto& [op, gates, P] : {Net{"lstm.input", 4, H}, Net{"lstm.input", 4, 7}, Net{"gru.input", 3, H},
                                     Net{"rnn_tanh.input", 1, H}, Net{"rnn_relu.input", 1, H}})
    for (const bool has_biases : {false, true})
      for (const bool is_batch_first : {false, true}) {
        Program program;
        Node* x = placeholder(program, "x", is_batch_first ? SymShape{N, T, I} : SymShape{T, N, I});
        List states{attribute(program, "h", counting({4, N, P}, 0.0173f, -0.5f))}, params;
        if (gates == 4) states.push_back(attribute(program, "c", counting({4, N, H}, -0.0121f, 0.4f)));
        for (int64_t i = 0; i < 4; ++i) {
          const auto add = [&](const char* name, const Shape& sizes) {
            params.push_back(attribute(program, concat(name, i), counting(sizes, 0.0237f, -0.3f)));
          };
          add("w_ih", {gates * H, i < 2 ? I : 2 * P});
          add("w_hh", {gates * H, P});
          if (has_biases) add("b_ih", {gates * H});
          if (has_biases) add("b_hh", {gates * H});
          if (P != H) add("w_hr", {P, H});
        }
        Node* node = program.graph->call(
            concat("torch.ops.aten.", op),
            {x, gates == 4 ? Argument(states) : states[0], params, has_biases, 2, 0.0, false, true, is_batch_first});
        Node* first = program.graph->call("operator.getitem", {node, 0});
        Node* last = program.graph->call("operator.getitem", {node, gates == 4 ? 2 : 1});
        program.graph->create(Node::Op::kOutput, "output", {Argument(List{first, last})});
        infer_shapes(program);
        Interpreter fast(program, {simd.get()});
        EXPECT_EQ(fast.placements().at(0).backend, "simd") << op;
        const Tensor data = counting({is_batch_first ? N : T, is_batch_first ? T : N, I}, 0.0719f, -1.f);
        const std::vector<Tensor> expected = Interpreter(program, {}).run({{data}}), found = fast.run({{data}});
        EXPECT_EQ(fast.placements().at(0).fallbacks.runs, 0u) << op;
        for (size_t i = 0; i < expected.size(); ++i) {
          ASSERT_EQ(found[i].sizes(), expected[i].sizes()) << op;
          for (int64_t j = 0; j < expected[i].numel(); ++j)
            EXPECT_NEAR(found[i].data<float>()[j], expected[i].data<float>()[j],
                        1e-5 * (1 + std::abs(expected[i].data<float>()[j])))
                << op << " " << i << " " << j;
        }
      }
}

TEST(SimdBackend, RunsRecurrentCellsAsTheReferenceDoes) {
  using List = Argument::List;
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  constexpr int64_t N = 3, I = 5, H = 19;
  for (const auto& [op, gates] : {std::pair("lstm_cell", 4), std::pair("gru_cell", 3), std::pair("rnn_tanh_cell", 1),
                                  std::pair("rnn_relu_cell", 1)})
    for (const bool has_biases : {false, true}) {
      Program program;
      Node* x = placeholder(program, "x", SymShape{N, I});
      const auto add = [&](const char* name, const Shape& sizes) {
        return Argument(attribute(program, name, counting(sizes, 0.0237f, -0.3f)));
      };
      List states{add("h", {N, H})};
      if (gates == 4) states.push_back(add("c", {N, H}));
      std::vector<Argument> arguments{x, gates == 4 ? Argument(states) : states[0], add("w_ih", {gates * H, I}),
                                      add("w_hh", {gates * H, H})};
      if (has_biases) arguments.push_back(add("b_ih", {gates * H}));
      if (has_biases) arguments.push_back(add("b_hh", {gates * H}));
      Node* node = program.graph->call(concat("torch.ops.aten.", op, ".default"), arguments);
      List results{node};
      if (gates == 4)
        results = {program.graph->call("operator.getitem", {node, 0}),
                   program.graph->call("operator.getitem", {node, 1})};
      program.graph->create(Node::Op::kOutput, "output", {Argument(results)});
      infer_shapes(program);
      Interpreter fast(program, {simd.get()});
      EXPECT_EQ(fast.placements().at(0).backend, "simd") << op;
      const Tensor data = counting({N, I}, 0.0719f, -1.f);
      const std::vector<Tensor> expected = Interpreter(program, {}).run({{data}}), found = fast.run({{data}});
      EXPECT_EQ(fast.placements().at(0).fallbacks.runs, 0u) << op;
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_EQ(found[i].sizes(), expected[i].sizes()) << op;
        for (int64_t j = 0; j < expected[i].numel(); ++j)
          EXPECT_NEAR(found[i].data<float>()[j], expected[i].data<float>()[j], 1e-5) << op << " " << i << " " << j;
      }
    }
}

// What a file says of a convolution need not fit its tensors; a list of one stands for both axes.
TEST(SimdBackend, TakesOrRefusesTheNumbersOfAConvolutionAsTheReferenceDoes) {
  using List = Argument::List;
  constexpr int64_t kHuge = int64_t{1} << 62;
  struct Case {
    List stride, padding, dilation;
    int64_t groups, biases;
    bool runs;
  };
  const std::vector<Case> cases = {
      {{2}, {1}, {1}, 1, 4, true},        {{2, 1}, {1}, {1, 2}, 2, 4, true}, {{}, {1}, {1}, 1, 4, false},
      {{1, 1, 1}, {1}, {1}, 1, 4, false}, {{0}, {1}, {1}, 1, 4, false},      {{1}, {-1}, {1}, 1, 4, false},
      {{1}, {kHuge}, {1}, 1, 4, false},   {{1}, {1}, {kHuge}, 1, 4, false},  {{1}, {1}, {1}, 3, 4, false},
      {{1}, {1}, {1}, kHuge, 4, false},   {{1}, {1}, {1}, 1, 3, false},      {{1}, {0}, {4}, 1, 4, false},
  };
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& one = cases[i];
    Program program;
    Node* x = placeholder(program, "x", {2, 4, 7, 5});
    Node* weight = attribute(program, "weight", counting({4, one.groups == 2 ? 2 : 4, 3, 3}, 0.0371f, -1.f));
    Node* bias = attribute(program, "bias", counting({one.biases}, 0.3f, -1.f));
    Node* conv = program.graph->call("torch.ops.aten.convolution.default", {x, weight, bias, one.stride, one.padding,
                                                                            one.dilation, false, List{0}, one.groups});
    conv->meta.val.value = TensorMeta{DType::kF32, {2, 4, 7, 5}, {}, false};
    program.graph->create(Node::Op::kOutput, "output", {Argument(List{conv})});
    Interpreter fast(program, {simd.get()}), plain(program, {});
    EXPECT_EQ(fast.placements().at(0).backend, "simd") << i;
    const Tensor data = counting({2, 4, 7, 5}, 0.0173f, -1.f);
    if (!one.runs) {
      EXPECT_THROW(plain.run({{data}}), Error) << i;
      EXPECT_THROW(fast.run({{data}}), Error) << i;
      continue;
    }
    const Tensor found = fast.run({{data}})[0], expected = plain.run({{data}})[0];
    ASSERT_EQ(found.sizes(), expected.sizes()) << i;
    for (int64_t j = 0; j < found.numel(); ++j)
      EXPECT_NEAR(found.data<float>()[j], expected.data<float>()[j], 2e-5) << i;
  }
}

TEST(SimdBackend, MultipliesVectorsAsTheReferenceDoes) {
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  const std::vector<std::pair<Shape, Shape>> shapes = {
      {{5}, {5, 4}}, {{3, 5}, {5}}, {{5}, {5}}, {{2, 3, 5}, {5}}, {{5}, {2, 5, 4}}};
  for (const auto& [left, right] : shapes) {
    SCOPED_TRACE(to_string(left) + to_string(right));
    Program program;
    Node* x = placeholder(program, "x", SymShape(left.begin(), left.end()));
    Node* y = placeholder(program, "y", SymShape(right.begin(), right.end()));
    Node* node = program.graph->call("torch.ops.aten.matmul.default", {x, y});
    program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{node})});
    infer_shapes(program);
    const Tensor a = counting(left, 0.0719f, -2.f), b = counting(right, 0.113f, -2.f);
    const Tensor expected = Interpreter(program, {}).run({{a, b}}).at(0);
    Interpreter fast(program, {simd.get()});
    const Tensor found = fast.run({{a, b}}).at(0);
    EXPECT_EQ(fast.placements().at(0).backend, "simd");
    ASSERT_EQ(found.sizes(), expected.sizes());
    for (int64_t i = 0; i < found.numel(); ++i) EXPECT_NEAR(found.data<float>()[i], expected.data<float>()[i], 1e-5);
  }
}

TEST(SimdBackend, SumsAsTheEquationSays) {
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  struct Case {
    const char* equation;
    std::vector<Shape> operands;
    bool by_loops = true;
  };
  const std::vector<Case> cases = {
      {"ij,jk->ik", {{3, 5}, {5, 4}}},
      {"bythwc,tkc->bythwk", {{2, 3, 2, 2, 3, 4}, {2, 5, 4}}},
      {"bhqd, bhkd -> bhqk", {{2, 3, 4, 5}, {2, 3, 6, 5}}},
      {"...ij,...jk->...ki", {{2, 3, 5}, {2, 5, 4}}},
      {"i,j->ji", {{3}, {4}}},
      {"bi,bi->b", {{3, 4}, {3, 4}}},
      {"ij,ij->i", {{33, 300}, {33, 300}}},
      {"ij,ji->i", {{5, 40}, {40, 5}}},  // rows that do not lie dense
      {"ij,jk", {{3, 5}, {5, 4}}},
      {"ii,ij->j", {{3, 3}, {3, 4}}},   // a diagonal
      {"ij,jk->k", {{3, 5}, {5, 4}}},   // a sum over one operand alone
      {"ij,ij->ij", {{3, 1}, {3, 4}}},  // a size that is stretched
      {"ij,ij->i", {{3, 1}, {3, 4}}},   // and summed over
      {"ij,jk->ik", {{3, 1}, {1, 4}}},  // a sum of one product
      {"ijk->kji", {{2, 3, 4}}},        // no product
      {"ijk->", {{2, 3, 4}}},           // a sum alone
      {"ii->i", {{3, 3}}},              // a view of its input
      {"bnd,bnm,bme->bde", {{2, 5, 3}, {2, 5, 4}, {2, 4, 6}}},
      {"bln,bld,bl->bldn", {{2, 3, 4}, {2, 3, 5}, {2, 3}}},
      {"ai,bi,ci->abc", {{2, 5}, {3, 5}, {4, 5}}},  // an axis of all that is summed over
      {"ij,jk,kl,lm->im", {{3, 4}, {4, 2}, {2, 5}, {5, 3}}},
      {"ij,j,jk,->k", {{3, 4}, {4}, {1, 2}, {}}},
      {"ij,jk->ik", {{3, 0}, {0, 4}}, false},
  };
  for (const Case& one : cases) {
    Program program;
    Argument::List nodes;
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < one.operands.size(); ++i) {
      const Shape& sizes = one.operands[i];
      nodes.push_back(placeholder(program, concat("x", i), SymShape(sizes.begin(), sizes.end())));
      inputs.push_back(counting(sizes, 0.0719f + 0.041f * static_cast<float>(i), -2.f));
    }
    Node* node = program.graph->call("torch.ops.aten.einsum.default", {one.equation, Argument(nodes)});
    program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{node})});
    infer_shapes(program);
    const Tensor expected = Interpreter(program, {}).run(inputs).at(0);
    Interpreter fast(program, {simd.get()});
    const Tensor found = fast.run(inputs).at(0).contiguous();
    EXPECT_EQ(fast.placements().at(0).fallbacks.runs, one.by_loops ? 0 : 1) << one.equation;
    ASSERT_EQ(found.sizes(), expected.sizes()) << one.equation;
    for (int64_t i = 0; i < found.numel(); ++i)
      EXPECT_NEAR(found.data<float>()[i], expected.data<float>()[i], 1e-5 * (1 + std::fabs(expected.data<float>()[i])))
          << one.equation;
  }
}

TEST(SimdBackend, AddsAndMultipliesExactly) {
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  const Tensor a = counting({2, 3, 4, 5}, 0.0719f, -2.f);
  const std::vector<Tensor> others = {counting({2, 3, 4, 5}, 0.113f, -2.f), counting({2, 3, 1, 1}, 0.3f, -1.f),
                                      counting({1, 3, 1, 1}, 0.3f, -1.f), counting({5}, 0.3f, -1.f)};
  for (const char* op : {"add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor", "add_.Tensor", "mul_.Tensor"}) {
    for (const Tensor& b : others) {
      Program program;
      Node* x = placeholder(program, "x", {2, 3, 4, 5});
      Node* y = placeholder(program, "y", SymShape(b.sizes().begin(), b.sizes().end()));
      Node* node = program.graph->call(concat("torch.ops.aten.", op), {x, y});
      program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{node})});
      infer_shapes(program);
      const Tensor expected = Interpreter(program, {}).run({{a.clone(), b}}).at(0);
      const Tensor found = Interpreter(program, {simd.get()}).run({{a.clone(), b}}).at(0);
      EXPECT_TRUE(bitwise_equal(found, expected)) << op << " " << to_string(b.sizes());
    }
  }
}

TEST(SimdBackend, NormalizesBatchesAsTheReferenceDoes) {
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  const Tensor x = counting({2, 3, 5, 7}, 0.0719f, -2.f);
  for (const bool affine : {true, false}) {
    Program program;
    Node* in = placeholder(program, "x", {2, 3, 5, 7});
    const Argument weight = affine ? Argument(attribute(program, "weight", counting({3}, 0.31f, 0.2f))) : Argument();
    const Argument bias = affine ? Argument(attribute(program, "bias", counting({3}, 0.7f, -1.f))) : Argument();
    Node* mean = attribute(program, "mean", counting({3}, 0.3f, -0.5f));
    Node* var = attribute(program, "var", counting({3}, 0.2f, 0.1f));
    Node* node =
        program.graph->call("torch.ops.aten.batch_norm.default", {in, weight, bias, mean, var, false, 0.1, 1e-5, true});
    program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{node})});
    infer_shapes(program);
    Interpreter fast(program, {simd.get()});
    EXPECT_EQ(fast.placements().at(0).backend, "simd");
    EXPECT_TRUE(bitwise_equal(fast.run({{x}}).at(0), Interpreter(program, {}).run({{x}}).at(0))) << affine;
  }
}

TEST(SimdBackend, QuantizesChannelsAsTheReferenceDoes) {
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  const Tensor x = counting({3, 5, 2, 7}, 0.0719f, -2.f);
  for (const int64_t axis : {0, 1, 3, -1}) {
    for (const DType dtype : {DType::kS8, DType::kU8}) {
      const int64_t channels = x.size(axis);
      Program program;
      Node* in = placeholder(program, "x", {3, 5, 2, 7});
      Node* scales = attribute(program, "scales", counting({channels}, 0.0031f, 0.002f));
      std::vector<int64_t> points;
      for (int64_t c = 0; c < channels; ++c) points.push_back(dtype == DType::kU8 ? 100 + c : -c);
      Node* zero_points =
          attribute(program, "zero_points", Tensor::of<int64_t>({channels}, std::span<const int64_t>(points)));
      Node* node = program.graph->call("torch.ops.quantized_decomposed.quantize_per_channel.default",
                                       {in, scales, zero_points, axis, dtype == DType::kU8 ? 0 : -127, 127, dtype});
      program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{node})});
      infer_shapes(program);
      Interpreter fast(program, {simd.get()});
      EXPECT_EQ(fast.placements().at(0).backend, "simd");
      EXPECT_TRUE(bitwise_equal(fast.run({{x}}).at(0), Interpreter(program, {}).run({{x}}).at(0)))
          << axis << " " << to_string(dtype);
    }
  }
}

}  // namespace
}  // namespace qdq::simd_backend_test
