// Operators along axes and between rows: the portable loops beside the reference.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "unit/exec/one_call.h"

namespace qdq::simd_axes_test {
namespace {

using List = Argument::List;

void expect_near(OneCall call, double tolerance, const std::string& what) {
  const Tensor expected = *call.run_reference()[0].get_if<Tensor>(), found = *call.run_fast()[0].get_if<Tensor>();
  ASSERT_EQ(found.sizes(), expected.sizes()) << what;
  for (int64_t i = 0; i < expected.numel(); ++i) {
    const double want = expected.data<float>()[i], got = found.data<float>()[i];
    if (std::isnan(want)) EXPECT_TRUE(std::isnan(got)) << what << " at " << i;
    else if (std::isinf(want)) EXPECT_EQ(got, want) << what << " at " << i;
    else EXPECT_NEAR(got, want, tolerance * (1 + std::abs(want))) << what << " at " << i;
  }
}

// Columns that are left in their places, in several blocks, and rows, whose loops are those of the last axis.
TEST(SimdAxes, SoftmaxOfColumnsHasTheBitsOfThatOfRows) {
  for (const char* op : {"aten.softmax.int", "aten.log_softmax.int", "aten.logsumexp.default"})
    for (const Shape& sizes : {Shape{2, 1, 64}, Shape{1, 3, 70}, Shape{2, 16, 5, 40}, Shape{1, 45, 2100}}) {
      const bool keeps_axis = std::string(op).find("softmax") != std::string::npos;
      const Tensor x = counting(sizes, 0.719f, -90.f), turned = x.transpose(1, -1).contiguous();
      const auto run = [&](const Tensor& given, int axis) {
        const Argument place = keeps_axis ? Argument(axis) : Argument(List{axis});
        return *OneCall(op, {given, place}).run_fast()[0].get_if<Tensor>();
      };
      const Tensor columns = run(x, 1), rows = run(turned, -1);
      Tensor back = keeps_axis ? rows.transpose(1, -1).contiguous() : rows;
      if (!keeps_axis && sizes.size() == 4) back = rows.transpose(1, 2).contiguous();
      EXPECT_TRUE(bitwise_equal(columns, back)) << op << " of " << to_string(sizes);
    }
}

TEST(SimdAxes, SoftmaxOfColumnsIsThatOfTheReference) {
  for (const char* op : {"aten.softmax.int", "aten.log_softmax.int"})
    for (const bool has_nan : {false, true})
      expect_near(OneCall(op, {numbers({2, 19, 90}, has_nan), Argument(1)}), 2e-6, op);
  expect_near(OneCall("aten.logsumexp.default", {numbers({2, 19, 90}, true), Argument(List{1})}), 2e-6, "logsumexp");
}

TEST(SimdAxes, DistancesBetweenRowsAreThoseOfTheReference) {
  const Tensor a = counting({3, 1, 33, 17}, 0.0719f, -1.f), b = counting({2, 40, 17}, 0.113f, -1.f);
  expect_near(OneCall("aten.cdist.default", {a, b}), 1e-6, "broadcast");
  expect_near(OneCall("aten.cdist.default", {numbers({9, 5}, true), numbers({18, 5}, false)}), 1e-6, "any numbers");
  const Tensor rows = counting({30, 64}, 0.0719f, -1.f),
               own = *OneCall("aten.cdist.default", {rows, rows}).run_fast()[0].get_if<Tensor>();
  for (int64_t i = 0; i < 30; ++i) EXPECT_EQ(own.data<float>()[31 * i], 0.0f);
}

TEST(SimdAxes, CosinesBetweenRowsAreThoseOfTheReference) {
  const Tensor a = counting({3, 40, 5}, 0.0719f, -1.f), b = counting({40, 1}, 0.113f, -1.f);
  for (const int axis : {0, 1, -1})
    expect_near(OneCall("aten.cosine_similarity.default", {a, b, Argument(axis)}), 2e-6, concat("along ", axis));
  expect_near(OneCall("aten.cosine_similarity.default", {a, Tensor::full({5}, DType::kF32, 0), Argument(2)}), 0,
              "zeros");
  expect_near(OneCall("aten.cosine_similarity.default", {a, numbers({3, 40, 5}, true), Argument(1)}), 2e-6, "any");
}

TEST(SimdAxes, ProductsOfVectorsAndSumsWithProductsAreThoseOfTheReference) {
  OneCall("aten.outer.default", {counting({70}, 0.0719f, -1.f), counting({33}, 0.113f, -1.f)}).expect_equal("outer");
  OneCall("aten.outer.default", {Tensor::empty({0}, DType::kF32), counting({3}, 0.1f, 0.f)}).expect_equal("nothing");
  const Tensor a = counting({2, 5, 7}, 0.0719f, -1.f), b = counting({2, 7, 9}, 0.113f, -1.f);
  const auto with_factors = [&](const Tensor& added, double beta, double alpha) {
    OneCall call("aten.baddbmm.default", {added, a, b});
    Node* node = call.program.graph->nodes().back()->arg(0).list()[0].node();
    node->set_kwargs({{"beta", Argument(beta)}, {"alpha", Argument(alpha)}});
    return call;
  };
  expect_near(with_factors(counting({2, 5, 9}, 0.3f, -1.f), 1, 1), 1e-6, "sum");
  expect_near(with_factors(counting({5, 1}, 0.3f, -1.f), 0.5, -2), 1e-6, "factors");
  expect_near(with_factors(Tensor::full({9}, DType::kF32, NAN), 0, 1), 1e-6, "what counts 0 times is not read");
}

TEST(SimdAxes, AnglesAndComplementsAreThoseOfTheReference) {
  expect_near(OneCall("aten.atan2.default", {numbers({40, 30}, true, 1), numbers({40, 30}, true, 2)}), 1e-7, "atan2");
  expect_near(OneCall("aten.atan2.default", {numbers({4, 30}, false), numbers({30}, false, 2)}), 1e-7, "of a row");
  expect_near(OneCall("aten.erfc.default", {numbers({40, 30}, true)}), 1e-7, "erfc");
}

TEST(SimdAxes, QuotientsAndRestsAreThoseOfTheReference) {
  const Tensor a = numbers({40, 33}, true, 1), b = numbers({40, 33}, true, 2), row = numbers({33}, false, 3);
  for (const char* name : {"floor_divide", "remainder.Tensor", "fmod.Tensor"}) {
    const std::string op = concat("aten.", name, name == std::string("floor_divide") ? ".default" : "");
    OneCall(op, {a, b}).expect_equal(op);
    OneCall(op, {a, row}).expect_equal(op + " by a row");
    OneCall(op, {row.expand({40, 33}), a.transpose(0, 1).contiguous().transpose(0, 1)}).expect_equal(op + " turned");
  }
  for (const char* name : {"floor_divide", "remainder", "fmod"})
    for (const double by : {0.7, -3.0, 0.0})
      OneCall(concat("aten.", name, ".Scalar"), {a, Argument(by)}).expect_equal(concat(name, " by ", by));
  OneCall("aten.remainder.Scalar_Tensor", {Argument(2.5), a}).expect_equal("remainder of a number");
  OneCall("aten.fmod_.Tensor", {a, b}).expect_equal("in place");
  for (const Argument& mode : {Argument("floor"), Argument("trunc"), Argument()})
    for (const bool by_number : {false, true}) {
      const std::string op = concat("aten.div.", by_number ? "Scalar" : "Tensor", "_mode");
      OneCall call = by_number ? OneCall(op, {a, Argument(-0.7)}) : OneCall(op, {a, b});
      call.program.graph->nodes().back()->arg(0).list()[0].node()->set_kwargs({{"rounding_mode", mode}});
      call.expect_equal(op);
    }
}

TEST(SimdAxes, AddedProductsAndQuotientsAreThoseOfTheReference) {
  const Tensor x = numbers({3, 700}, true, 1), a = numbers({3, 700}, false, 2), b = numbers({3, 700}, false, 3);
  for (const char* op : {"aten.addcmul.default", "aten.addcmul_.default", "aten.addcdiv.default"})
    for (const double value : {1.0, -0.3}) {
      const auto with_value = [&](const std::vector<std::variant<Tensor, Argument>>& operands) {
        OneCall call(op, operands);
        call.program.graph->nodes().back()->arg(0).list()[0].node()->set_kwargs({{"value", Argument(value)}});
        return call;
      };
      with_value({x, a, b}).expect_equal(concat(op, " ", value));
      if (std::string(op).find('_') != std::string::npos) continue;
      with_value({x, a.slice(0, 0, 1, 1), b.slice(1, 0, 1, 1)}).expect_equal("broadcast");
      with_value({x.slice(1, 0, 1, 1), a, b.transpose(0, 1).contiguous().transpose(0, 1)}).expect_equal("turned");
    }
}

TEST(SimdAxes, ProductsAlongAxesAreThoseOfTheReference) {
  for (const Shape& sizes : {Shape{3, 40, 5}, Shape{17}, Shape{2, 33}})
    for (int axis = 0; axis < static_cast<int>(sizes.size()); ++axis)
      expect_near(OneCall("aten.prod.dim_int", {counting(sizes, 0.0419f, 0.7f), Argument(axis), Argument(axis == 1)}),
                  1e-5, concat(to_string(sizes), " along ", axis));
  expect_near(OneCall("aten.prod.default", {counting({3, 7}, 0.0719f, -1.f)}), 1e-6, "all");
  expect_near(OneCall("aten.prod.dim_int", {numbers({9, 6}, true), Argument(-1)}), 1e-6, "any numbers");
}

TEST(SimdAxes, ExtremesOfRowsAreThoseOfTheReference) {
  for (const bool has_nan : {false, true})
    for (const Shape& sizes : {Shape{40, 3}, Shape{5, 16}, Shape{7, 131}, Shape{3, 1}}) {
      for (const char* op : {"aten.amax.default", "aten.amin.default"})
        OneCall(op, {numbers(sizes, has_nan), Argument(Argument::List{-1})}).expect_equal(concat(op, to_string(sizes)));
    }
}

// Sums, means and norms of rows, several at a time, in the order of kernel/math.h: as one by one, to the bit.
TEST(SimdAxes, NormsAndMeansOfARowDoNotDependOnOtherRows) {
  const auto same_alone = [](const std::string& op, const Tensor& x, const std::vector<Argument>& more) {
    const auto run = [&](const Tensor& rows) {
      std::vector<std::variant<Tensor, Argument>> arguments{rows};
      arguments.insert(arguments.end(), more.begin(), more.end());
      return *OneCall(op, arguments).run_fast()[0].get_if<Tensor>();
    };
    const Tensor all = run(x);
    for (int64_t r = 0; r < x.size(0); ++r)
      EXPECT_TRUE(bitwise_equal(run(x.slice(0, r, r + 1).contiguous()), all.slice(0, r, r + 1).contiguous())) << op;
  };
  for (const int64_t n : {3, 16, 37, 200}) {
    const Tensor x = counting({7, n}, 0.0719f, -2.f);
    same_alone("aten.mean.dim", x, {Argument(Argument::List{1})});
    same_alone("aten.sum.dim_IntList", x, {Argument(Argument::List{1})});
    same_alone("aten.layer_norm.default", x, {Argument(Argument::List{n})});
  }
}

TEST(SimdAxes, ProductsWithVectorsAreThoseOfTheReference) {
  for (const char* op : {"aten.mv.default", "aten.dot.default"}) {
    const Shape left = std::string_view(op) == "aten.mv.default" ? Shape{33, 70} : Shape{70};
    OneCall call(op, {counting(left, 0.0719f, -2.f), counting({70}, 0.113f, -2.f)});
    const Tensor expected = *call.run_reference()[0].get_if<Tensor>(), found = *call.run_fast()[0].get_if<Tensor>();
    ASSERT_EQ(found.sizes(), expected.sizes());
    for (int64_t i = 0; i < found.numel(); ++i)
      EXPECT_NEAR(found.data<float>()[i], expected.data<float>()[i], 1e-4) << op << " at " << i;
  }
}

TEST(SimdAxes, BilinearLayersAreThoseOfTheReference) {
  const Tensor a = counting({2, 5, 6}, 0.0719f, -1.f), b = counting({2, 5, 7}, 0.113f, -1.f),
               weight = counting({3, 6, 7}, 0.0319f, -0.5f);
  expect_near(OneCall("aten.bilinear.default", {a, b, weight}), 1e-5, "without a bias");
  expect_near(OneCall("aten.bilinear.default", {a, b, weight, counting({3}, 0.5f, -1.f)}), 1e-5, "with a bias");
}

TEST(SimdAxes, ImagesOfAnyWidthAreResizedAsInTheReference) {
  for (const char* kernel : {"bilinear", "bicubic"})
    for (const Shape& sizes : {Shape{2, 3, 9, 13}, Shape{1, 2, 1, 1}, Shape{1, 1, 6, 3}})
      for (const List& wanted : {List{17, 29}, List{4, 5}, List{1, 1}, List{6, 7}})
        for (const bool corners : {false, true})
          expect_near(OneCall(concat("aten.upsample_", kernel, "2d.vec"),
                              {counting(sizes, 0.0719f, -1.f), Argument(wanted), Argument(corners), Argument()}),
                      1e-5, concat(kernel, " ", to_string(sizes)));
  expect_near(OneCall("aten.upsample_linear1d.vec",
                      {counting({2, 5, 13}, 0.0719f, -1.f), Argument(List{30}), Argument(false), Argument()}),
              1e-5, "sequences");
}

TEST(SimdAxes, SoftmaxWithTheDtypeOfItsInputIsThatOfTheReference) {
  expect_near(OneCall("aten.softmax.int", {counting({3, 5, 9}, 0.0719f, -1.f), Argument(-1), Argument(DType::kF32)}),
              1e-6, "float32");
}

TEST(SimdAxes, VolumesAreResizedAsInTheReference) {
  for (const List& wanted : {List{6, 10, 14}, List{5, 3, 9}, List{3, 1, 7}})
    for (const bool corners : {false, true})
      expect_near(OneCall("aten.upsample_trilinear3d.vec",
                          {counting({2, 3, 3, 5, 7}, 0.0719f, -1.f), Argument(wanted), Argument(corners), Argument()}),
                  1e-5, "volumes");
}

TEST(SimdAxes, ImagesAreResizedWithAntialiasingAsInTheReference) {
  for (const char* kernel : {"linear", "cubic"})
    expect_near(OneCall(concat("aten._upsample_bi", kernel, "2d_aa.vec"),
                        {counting({2, 3, 21, 30}, 0.0719f, -1.f), Argument(List{9, 40}), Argument(false), Argument()}),
                1e-6, kernel);
}

}  // namespace
}  // namespace qdq::simd_axes_test
