// Operators that order elements and move them, and recurrent layers of ONNX: the portable loops beside the reference.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "exec/interpreter.h"
#include "unit/exec/one_call.h"

namespace qdq::simd_moves_test {
namespace {

using List = Argument::List;
constexpr DType kHalves[] = {DType::kF32, DType::kF16, DType::kBF16};

TEST(SimdMoves, OrdersAndExtremesAreThoseOfTheReference) {
  for (const DType dtype : kHalves)
    for (const bool has_nan : {false, true})
      for (const Shape& sizes : {Shape{3, 700}, Shape{5, 33, 7}, Shape{1, 1}, Shape{2, 1200, 3}})
        for (const int axis : {0, 1, -1}) {
          const Tensor x = numbers(sizes, has_nan).to(dtype);
          const std::string what =
              concat(to_string(dtype), " ", to_string(sizes), " along ", axis, has_nan ? " with NaN" : "");
          const int64_t n = x.size(axis);
          for (const char* op : {"aten.argmax.default", "aten.argmin.default"})
            OneCall(op, {x, Argument(axis), Argument(axis == 1)}).expect_equal(op + what);
          for (const char* op : {"aten.max.dim", "aten.min.dim"})
            OneCall(op, {x, Argument(axis), Argument(axis == 1)}).expect_equal(op + what);
          for (const char* op : {"aten.max.default", "aten.min.default"}) OneCall(op, {x}).expect_equal(op + what);
          for (const int64_t k : {int64_t{1}, n / 20 + 1, n / 2, n, int64_t{0}})
            for (const bool largest : {false, true})
              if (k <= n)
                OneCall("aten.topk.default", {x, Argument(k), Argument(axis), Argument(largest)})
                    .expect_equal(concat("topk ", k, what));
          OneCall("aten.sort.default", {x, Argument(axis), Argument(has_nan)}).expect_equal("sort " + what);
        }
  OneCall("aten.argmax.default", {numbers({3, 5, 7}, false)}).expect_equal("argmax of all");
}

TEST(SimdMoves, PlacesOfExtremeIntegersAreThoseOfTheReference) {
  for (const DType dtype : {DType::kS64, DType::kS32, DType::kU8})
    for (const Shape& sizes : {Shape{3, 701}, Shape{5, 33, 7}, Shape{1, 1}})
      for (const int axis : {0, 1, -1})
        for (const char* op : {"aten.argmax.default", "aten.argmin.default"})
          OneCall(op, {integers(sizes, 50, dtype), Argument(axis), Argument(axis == 1)})
              .expect_equal(concat(op, " of ", to_string(dtype), " ", to_string(sizes), " along ", axis));
  const Tensor ends =
      Tensor::of<int64_t>({3}, {std::numeric_limits<int64_t>::max(), 0, std::numeric_limits<int64_t>::min()});
  OneCall("aten.argmin.default", {ends}).expect_equal("the smallest of all");
}

TEST(SimdMoves, PlacesOfPoolsAreThoseOfTheReference) {
  using List = Argument::List;
  Tensor hidden = numbers({2, 3, 9, 11}, false).clone();
  for (int64_t i = 0; i < hidden.numel(); i += i % 50 == 9 ? 1 : 3)
    hidden.data<float>()[i] = -std::numeric_limits<float>::infinity();
  const Tensor none = Tensor::full({1, 2, 5, 6}, DType::kF32, -std::numeric_limits<double>::infinity());
  for (const Tensor& x : {numbers({2, 3, 9, 11}, false), numbers({2, 3, 9, 11}, true), hidden, none,
                          numbers({2, 3, 9, 11}, true).to(DType::kF16)})
    for (const List& settings :
         {List{List{2, 2}, List{2, 2}}, List{List{3, 3}, List{2, 1}, List{1, 1}, List{1, 1}, true},
          List{List{3, 2}, List{2, 2}, List{1, 1}}, List{List{4, 3}}}) {
      std::vector<std::variant<Tensor, Argument>> args = {x};
      args.insert(args.end(), settings.begin(), settings.end());
      OneCall("aten.max_pool2d_with_indices.default", args).expect_equal("two axes");
    }
  OneCall("aten.max_pool1d_with_indices.default", {numbers({3, 40}, true), List{3}, List{2}, List{1}})
      .expect_equal("one axis");
}

TEST(SimdMoves, ExtremesSoFarAreThoseOfTheReference) {
  for (const DType dtype : kHalves)
    for (const bool has_nan : {false, true})
      for (const Shape& sizes : {Shape{700}, Shape{3, 40, 9}, Shape{40, 3}})
        for (int axis = 0; axis < static_cast<int>(sizes.size()); ++axis)
          for (const char* op : {"aten.cummax.default", "aten.cummin.default"})
            OneCall(op, {numbers(sizes, has_nan).to(dtype), Argument(axis)})
                .expect_equal(concat(op, " ", to_string(dtype), " ", to_string(sizes), " along ", axis));
}

TEST(SimdMoves, TrianglesAndElementsAlongAnAxisAreThoseOfTheReference) {
  for (const DType dtype : {DType::kF32, DType::kBool, DType::kS64, DType::kF16})
    for (const bool turned : {false, true}) {
      const Tensor dense = integers({2, 5, 9}, 2, dtype),
                   x = turned ? dense.transpose(1, 2).contiguous().transpose(1, 2) : dense;
      for (const int diagonal : {0, 2, -3, 40, -40})
        for (const char* op : {"aten.tril.default", "aten.triu.default"})
          OneCall(op, {x, Argument(diagonal)}).expect_equal(concat(op, " ", diagonal));
      if (!turned) OneCall("aten.triu_.default", {x, Argument(1)}).expect_equal("in place");
      OneCall("aten.take_along_dim.default", {x, integers({2, 1, 4}, 9), Argument(2)}).expect_equal("broadcast index");
      OneCall("aten.take_along_dim.default", {x.slice(0, 0, 1, 1), integers({3, 7, 9}, 5, DType::kS32), Argument(-2)})
          .expect_equal("broadcast input");
      OneCall("aten.take_along_dim.default", {x, integers({3, 2}, 90)}).expect_equal("of all");
    }
}

TEST(SimdMoves, CumulativeSumsAndProductsAreThoseOfTheReference) {
  for (const DType dtype : kHalves)
    for (const Shape& sizes : {Shape{700}, Shape{3, 40, 9}, Shape{40, 3}, Shape{2, 3, 17}, Shape{19, 70}})
      for (int axis = 0; axis < static_cast<int>(sizes.size()); ++axis)
        for (const char* op : {"aten.cumsum.default", "aten.cumprod.default"})
          OneCall(op, {counting(sizes, 0.0719f, -2.f).to(dtype), Argument(axis)})
              .expect_equal(concat(op, " ", to_string(dtype), " ", to_string(sizes), " along ", axis));
}

TEST(SimdMoves, ElementsOfAnyDtypeAreMovedAlongAnyAxis) {
  for (const DType dtype : {DType::kU8, DType::kF16, DType::kBF16, DType::kF32, DType::kS64, DType::kBool}) {
    const Tensor x = integers({4, 9, 5}, 100, dtype), values = integers({4, 6, 5}, 50, dtype);
    for (const bool turned : {false, true}) {
      const Tensor given = turned ? x.transpose(0, 2).contiguous().transpose(0, 2) : x;
      for (const int axis : {0, 1, -1}) {
        const Tensor index = integers({3, 6, 5}, given.size(axis));
        const std::string what = concat(to_string(dtype), " along ", axis);
        OneCall("aten.gather.default", {given, Argument(axis), index}).expect_equal("gather " + what);
        OneCall("aten.scatter.src", {given, Argument(axis), index, values}).expect_equal("scatter " + what);
        OneCall("aten.scatter_.value", {given, Argument(axis), index, Argument(1)}).expect_equal("value " + what);
      }
      OneCall("aten.cat.default", {given, values, given}, Argument(1)).expect_equal(concat("cat ", to_string(dtype)));
      OneCall("aten.constant_pad_nd.default", {given, Argument(List{1, 2, -1, 3}), Argument(1)}).expect_equal("pad");
      for (const Shape& sizes : {Shape{7}, Shape{3, 11}, Shape{2, 13, 9}}) {
        List wanted(sizes.begin(), sizes.end());
        Tensor image = given;
        while (image.dim() < static_cast<int64_t>(sizes.size()) + 2) image = image.unsqueeze(0);
        if (dtype == DType::kBool) continue;
        for (const char* kind : {"upsample_nearest", "_upsample_nearest_exact"})
          OneCall(concat("aten.", kind, sizes.size(), "d.vec"), {image, Argument(wanted), Argument()})
              .expect_equal(concat(kind, " ", to_string(sizes)));
      }
    }
  }
}

// Sums of floats go in the order of their indices; the reference's are in double.
void expect_nearly_equal(OneCall call, const std::string& what) {
  const Tensor expected = *call.run_reference()[0].get_if<Tensor>(), found = *call.run_fast()[0].get_if<Tensor>();
  for (int64_t i = 0; i < expected.numel(); ++i)
    EXPECT_NEAR(found.data<float>()[i], expected.data<float>()[i], 1e-5) << what << " at " << i;
}

TEST(SimdMoves, NumbersAreAddedAtIndices) {
  const Tensor x = counting({6, 5, 4}, 0.0719f, -1.f);
  for (const int axis : {0, 1, 2}) {
    Shape sizes = x.sizes();
    sizes[static_cast<size_t>(axis)] = 30;
    const Tensor places = integers({30}, x.size(axis)), index = integers({5, 5, 4}, x.size(axis));
    expect_nearly_equal(OneCall("aten.index_add.default", {x, Argument(axis), places, counting(sizes, 0.113f, -1.f)}),
                        concat("index_add along ", axis));
    expect_nearly_equal(OneCall("aten.scatter_add.default", {x, Argument(axis), index, counting({5, 6, 4}, 0.3f, 0.f)}),
                        concat("scatter_add along ", axis));
  }
}

TEST(SimdMoves, ExtremesAreScatteredAsInTheReference) {
  for (const bool has_nan : {false, true})
    for (const int axis : {0, 1, -1})
      for (const char* how : {"amax", "amin"})
        OneCall("aten.scatter_reduce.two", {numbers({6, 5, 4}, has_nan), Argument(axis), integers({4, 3, 2}, 4),
                                            numbers({4, 3, 2}, has_nan, 9), Argument(std::string(how))})
            .expect_equal(concat(how, " along ", axis));
  const Tensor whole = integers({6, 5}, 90).to(DType::kF32), added = integers({4, 5}, 90).to(DType::kF32);
  OneCall("aten.scatter_reduce.two", {whole, Argument(0), integers({4, 5}, 6), added, Argument(std::string("sum"))})
      .expect_equal("sum");
}

// As graph networks take the largest, the mean and the softmax of a node's neighbours.
TEST(SimdMoves, ScatteringCanAverageAndLeaveOutWhatWasThere) {
  for (const bool counts_self : {false, true})
    for (const int axis : {0, 1, -1})
      for (const char* how : {"sum", "mean", "amax", "amin"}) {
        const Tensor x = counting({6, 5, 4}, 0.113f, -5.f), index = integers({9, 4, 3}, 3),
                     values = counting({9, 5, 4}, 0.37f, -7.f);
        const std::vector<std::variant<Tensor, Argument>> arguments{
            x, Argument(axis), axis == 0 ? index : integers({4, 3, 3}, 4), values, Argument(std::string(how))};
        expect_nearly_equal(OneCall("aten.scatter_reduce.two", arguments, {{"include_self", counts_self}}),
                            concat(how, " along ", axis));
      }
}

TEST(SimdMoves, AnIndexOutsideIsRefusedAndOneFromTheEndCounts) {
  const Tensor x = counting({3, 4}, 0.1f, -1.f), back = Tensor::of<int64_t>({1, 2}, {-1, -3});
  OneCall("aten.gather.default", {x, Argument(0), back}).expect_equal("from the end");
  for (const int64_t outside : {3, -4}) {
    OneCall call("aten.gather.default", {x, Argument(0), Tensor::of<int64_t>({1, 1}, {outside})});
    const std::unique_ptr<OpBackend> simd = make_simd_ops();
    Interpreter fast(call.program, {simd.get()});
    EXPECT_THROW(fast.run(call.inputs), Error);
  }
}

TEST(SimdMoves, LogicOfAnyLengthAndPoolsOfVolumes) {
  for (const char* op : {"bitwise_and.Tensor", "bitwise_or.Tensor", "bitwise_xor.Tensor", "__and__.Tensor"})
    OneCall(concat("aten.", op), {integers({2, 21}, 2, DType::kBool), integers({2, 1}, 2, DType::kBool)})
        .expect_equal(op);
  OneCall("aten.bitwise_not.default", {integers({2, 21}, 2, DType::kBool)}).expect_equal("bitwise_not");
  for (const char* op : {"and", "or", "xor"})
    for (const int64_t n : {1, 8, 21, 90})
      for (const int64_t other : {n, int64_t{1}})
        OneCall(concat("aten.logical_", op, ".default"),
                {integers({2, n}, 2, DType::kBool), integers({2, other}, 2, DType::kBool)})
            .expect_equal(op);
  OneCall("aten.threshold.default", {numbers({3, 50}, true), Argument(0.5), Argument(-2)}).expect_equal("threshold");
  OneCall call("aten.adaptive_avg_pool3d.default", {counting({2, 3, 4, 5, 7}, 0.0719f, -2.f), Argument(List{1, 1, 1})});
  const Tensor expected = *call.run_reference()[0].get_if<Tensor>(), found = *call.run_fast()[0].get_if<Tensor>();
  ASSERT_EQ(found.sizes(), expected.sizes());
  for (int64_t i = 0; i < found.numel(); ++i) EXPECT_NEAR(found.data<float>()[i], expected.data<float>()[i], 1e-6);
}

struct Layer {
  const char* cell;  // lstm, gru, rnn
  int64_t gates;
  const char* activations;
  const char* direction = "forward";
  bool has_bias = true, has_states = true, has_lengths = false, flag = false;
  DType dtype = DType::kF32;
};

TEST(SimdMoves, RecurrentLayersOfOnnxAgreeWithTheReference) {
  const int64_t T = 6, N = 3, I = 5, H = 7;
  const Layer layers[] = {{"lstm", 4, "sigmoid,tanh,tanh"},
                          {"lstm", 4, "sigmoid,tanh,tanh", "reverse", false, false, true},
                          {"lstm", 4, "sigmoid,tanh,tanh,sigmoid,tanh,tanh", "bidirectional", true, true, true},
                          {"gru", 3, "sigmoid,tanh"},
                          {"gru", 3, "sigmoid,tanh", "reverse", true, true, true, true},
                          {"gru", 3, "sigmoid,tanh,sigmoid,tanh", "bidirectional", false, true, true},
                          {"rnn", 1, "tanh", "forward", true, false, true},
                          {"rnn", 1, "relu,relu", "bidirectional"},
                          {"lstm", 4, "sigmoid,tanh,tanh", "forward", true, true, true, false, DType::kF16},
                          {"gru", 3, "sigmoid,tanh", "forward", true, true, false, false, DType::kBF16}};
  for (const Layer& one : layers) {
    SCOPED_TRACE(concat(one.cell, " ", one.direction, " ", one.activations));
    const int64_t D = std::string_view(one.direction) == "bidirectional" ? 2 : 1;
    const auto tensor = [&](const Shape& sizes, float step) { return counting(sizes, step, -0.9f).to(one.dtype); };
    std::vector<std::variant<Tensor, Argument>> args = {
        tensor({T, N, I}, 0.173f), tensor({D, one.gates * H, I}, 0.0371f), tensor({D, one.gates * H, H}, 0.0913f)};
    const auto optional = [&](bool is_there, const Tensor& given) {
      args.push_back(is_there ? std::variant<Tensor, Argument>(given) : Argument());
    };
    optional(one.has_bias, tensor({D, 2 * one.gates * H}, 0.051f));
    optional(one.has_lengths, Tensor::of<int32_t>({N}, {6, 0, 4}));
    optional(one.has_states, tensor({D, N, H}, 0.31f));
    if (one.gates == 4) optional(one.has_states, tensor({D, N, H}, 0.23f));
    if (one.gates == 4) args.emplace_back(Argument());
    args.insert(args.end(), {Argument(one.direction), Argument(one.activations), Argument(List{}), Argument(List{}),
                             Argument(), Argument(one.flag)});
    OneCall call(concat("onnx.", one.cell, ".default"), args);
    const std::vector<Value> expected = call.run_reference(), found = call.run_fast();
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      const Tensor want = expected[i].get_if<Tensor>()->to(DType::kF64),
                   got = found[i].get_if<Tensor>()->to(DType::kF64);
      EXPECT_EQ(found[i].get_if<Tensor>()->dtype(), one.dtype);
      ASSERT_EQ(got.sizes(), want.sizes());
      const double tolerance = one.dtype == DType::kF32 ? 2e-6 : one.dtype == DType::kF16 ? 1e-3 : 1e-2;
      for (int64_t j = 0; j < want.numel(); ++j)
        ASSERT_NEAR(got.data<double>()[j], want.data<double>()[j], tolerance * (1 + std::abs(want.data<double>()[j])))
            << "result " << i << " at " << j;
    }
  }
}

TEST(SimdMoves, CellsThatPytorchDoesNotHaveAreLeftToTheReference) {
  const auto x = counting({2, 1, 3}, 0.1f, -1.f), w = counting({1, 4, 3}, 0.1f, -1.f),
             r = counting({1, 4, 4}, 0.1f, -1.f);
  const auto backend = [&](const char* activation, const Argument& clip) {
    OneCall call("onnx.rnn.default", {x, w, r, Argument(), Argument(), Argument(), Argument("forward"),
                                      Argument(activation), Argument(List{}), Argument(List{}), clip, Argument(false)});
    const std::unique_ptr<OpBackend> simd = make_simd_ops();
    return std::string(Interpreter(call.program, {simd.get()}).placements().at(0).backend);
  };
  EXPECT_EQ(backend("tanh", Argument()), "simd");
  EXPECT_EQ(backend("softsign", Argument()), "reference");
  EXPECT_EQ(backend("tanh", Argument(0.5)), "reference");
}

// Offsets that leave the image on all sides, by more than a window and by less than an element.
TEST(SimdMoves, DeformableConvolutionsAgreeWithTheReference) {
  struct Case {
    int64_t groups, parts, stride, padding, dilation;
    bool has_mask;
  };
  for (const Case& one : {Case{1, 1, 1, 1, 1, false}, Case{2, 3, 2, 0, 2, true}, Case{3, 1, 1, 2, 1, true}}) {
    const int64_t N = 2, C = 6, H = 24, W = 29, O = 6;
    const auto extent = [&](int64_t in) { return (in + 2 * one.padding - 2 * one.dilation - 1) / one.stride + 1; };
    const int64_t oH = extent(H), oW = extent(W);
    const Tensor offset = Tensor::empty({N, one.parts * 18, oH, oW}, DType::kF32);
    uint32_t seed = 5;
    for (float& value : offset.span<float>()) {
      seed = seed * 1664525u + 1013904223u;
      value = static_cast<float>(static_cast<int32_t>(seed >> 16 & 0xff) - 128) / (seed >> 30 == 0 ? 4 : 60);
    }
    OneCall call("torchvision.deform_conv2d.default",
                 {counting({N, C, H, W}, 0.0719f, -2.f), counting({O, C / one.groups, 3, 3}, 0.0371f, -1.f), offset,
                  counting({N, one.parts * 9, oH, oW}, 0.013f, 0.1f), counting({O}, 0.3f, -1.f), Argument(one.stride),
                  Argument(one.stride), Argument(one.padding), Argument(one.padding), Argument(one.dilation),
                  Argument(one.dilation), Argument(one.groups), Argument(one.parts), Argument(one.has_mask)});
    const Tensor expected = *call.run_reference()[0].get_if<Tensor>(), found = *call.run_fast()[0].get_if<Tensor>();
    ASSERT_EQ(found.sizes(), expected.sizes());
    for (int64_t i = 0; i < found.numel(); ++i)
      ASSERT_NEAR(found.data<float>()[i], expected.data<float>()[i], 2e-5) << i;
  }
}

TEST(SimdMoves, MasksAreFilled) {
  const Tensor x = numbers({2, 3, 40}, true), mask = integers({3, 40}, 2, DType::kBool),
               number = Tensor::of<float>({}, {-3});
  OneCall("aten.masked_fill.Scalar", {x, mask, Argument(-1e9)}).expect_equal("masked_fill.Scalar");
  OneCall("aten.masked_fill.Tensor", {x, mask, number}).expect_equal("masked_fill.Tensor");
  OneCall("aten.masked_fill.Scalar", {x.to(DType::kF16), mask, Argument(-9)}).expect_equal("masked_fill of float16");
  OneCall("aten.sign.default", {x}).expect_equal("sign");
  OneCall("aten.trunc.default", {x}).expect_equal("trunc");
  OneCall("aten.square.default", {numbers({3, 33}, true)}).expect_equal("square");
}

// float16 and bfloat16 are computed in float32 and rounded once, as the reference does.
TEST(SimdMoves, BfloatsAreThoseOfTheReference) {
  const Tensor x = counting({2, 3, 7, 5}, 0.0719f, -2.f).to(DType::kBF16);
  for (const char* op : {"relu", "neg", "sqrt", "abs", "round", "hardswish"})
    OneCall(concat("aten.", op, ".default"), {x}).expect_equal(op);
  OneCall("aten.add.Tensor", {x, x}).expect_equal("add");
  OneCall("aten.mul_.Tensor", {x, x}).expect_equal("mul_");
  OneCall("aten.max_pool2d.default", {x, Argument(List{3, 3})}).expect_equal("max_pool2d");
  OneCall("aten.to.dtype", {x, Argument(DType::kF32)}).expect_equal("to float32");
  OneCall("aten.to.dtype", {counting({77}, 0.0719f, -2.f), Argument(DType::kBF16)}).expect_equal("to bfloat16");
}

// Numbers at the borders of the integers, and those that no integer is.
Tensor numbers_of_all_sizes() {
  std::vector<float> all{0.f,
                         -0.f,
                         0.5f,
                         -0.5f,
                         255.5f,
                         256.f,
                         -129.f,
                         0x1p31f,
                         -0x1p31f,
                         0x1.fffffep30f,
                         0x1p62f,
                         0x1p63f,
                         -0x1p63f,
                         1e30f,
                         std::numeric_limits<float>::infinity(),
                         std::numeric_limits<float>::quiet_NaN()};
  for (const float x : std::vector<float>(all)) all.push_back(-x);
  for (int i = 0; i < 70; ++i) all.push_back(static_cast<float>(i * 97 - 3000) / 3);
  const Tensor out = Tensor::empty({static_cast<int64_t>(all.size())}, DType::kF32);
  std::copy(all.begin(), all.end(), out.data<float>());
  return out;
}

TEST(SimdMoves, CastsAreThoseOfTheReference) {
  const Tensor x = numbers_of_all_sizes();
  for (const DType to : {DType::kS32, DType::kS64, DType::kU8, DType::kS8, DType::kBool}) {
    OneCall("aten.to.dtype", {x, Argument(to)}).expect_equal(concat("to ", to_string(to)));
    const Tensor integers = counting({5, 77}, 0.719f, -120.f).to(to);
    if (to != DType::kS64)
      OneCall("aten.to.dtype", {integers, Argument(DType::kF32)}).expect_equal(concat("from ", to_string(to)));
    if (size_of(to) == 1 && to != DType::kBool)
      OneCall("aten.to.dtype", {integers, Argument(DType::kS32)}).expect_equal(concat("widened ", to_string(to)));
  }
  OneCall("aten.to.dtype", {counting({7, 9}, 0.3f, -8.f).transpose(0, 1), Argument(DType::kS32)})
      .expect_equal("transposed");
}

TEST(SimdMoves, KindsOfNumbersAreThoseOfTheReference) {
  for (const char* op : {"isnan", "isinf", "isfinite"})
    OneCall(concat("aten.", op, ".default"), {numbers_of_all_sizes()}).expect_equal(op);
}

TEST(SimdMoves, ChannelsAreDequantizedAsInTheReference) {
  using Given = std::variant<Tensor, Argument>;
  const Tensor scales = counting({4}, 0.3f, 0.1f), zeros = Tensor::of<int64_t>({4}, {0, 3, -7, 100});
  for (const DType dtype : {DType::kS8, DType::kU8}) {
    const Tensor q = counting({4, 3, 4}, 1.f, dtype == DType::kS8 ? -9.f : 100.f).to(dtype);
    for (const int64_t axis : {0, 2, -1})
      for (const bool has_zeros : {false, true}) {
        const Given zero_points = has_zeros ? Given(zeros) : Given(Argument());
        OneCall(
            "quantized_decomposed.dequantize_per_channel.default",
            {q, scales, zero_points, Argument(axis), Argument(min_of(dtype)), Argument(max_of(dtype)), Argument(dtype)})
            .expect_equal(concat(to_string(dtype), " along ", axis));
      }
  }
}

// Small ones by the kernels of bytes, in parts where float32 does not hold a sum; larger ones by the reference.
TEST(SimdMoves, ProductsOfIntegersAreThoseOfTheReference) {
  for (const int64_t depth : {5, 64, 1100}) {
    const Tensor x = integers({2, 3, depth}, 256, DType::kS32), w = integers({depth, 19}, 128, DType::kS32);
    OneCall("aten.matmul.default", {x, w}).expect_equal(concat("matmul of ", depth));
    OneCall("aten.mm.default",
            {Tensor::full({4, depth}, DType::kS32, -255), Tensor::full({depth, 7}, DType::kS32, -128)})
        .expect_equal(concat("largest sums of ", depth));
  }
  const Argument two = List{2, 1}, one = List{1, 1}, none;
  for (const auto& [channels, groups] : {std::pair{6, 1}, {6, 3}, {70, 1}}) {
    const Tensor x = integers({2, channels, 9, 8}, 200, DType::kS32),
                 w = integers({12, channels / groups, 3, 3}, 128, DType::kS32);
    OneCall("aten.conv2d.default", {x, w, none, two, one, one, Argument(groups)})
        .expect_equal(concat("conv2d of ", channels, " channels in ", groups));
  }
}

TEST(SimdMoves, SumsOfIntegersWrapAsInTheReference) {
  const int32_t most = std::numeric_limits<int32_t>::max(), least = std::numeric_limits<int32_t>::min();
  const Tensor x = integers({3, 5, 70}, 1 << 20, DType::kS32), row = integers({5, 1}, 300, DType::kS32),
               ends = Tensor::of<int32_t>({4}, {most, least, -1, least}),
               others = Tensor::of<int32_t>({4}, {1, 1, least, least});
  for (const char* op : {"aten.add.Tensor", "aten.sub.Tensor"}) {
    OneCall(op, {x, row}).expect_equal(op);
    OneCall(op, {row, x.transpose(0, 2).contiguous().transpose(0, 2)}).expect_equal(op);
    OneCall(op, {ends, others}).expect_equal(op);
  }
}

TEST(SimdMoves, IntegersThatBytesDoNotHoldRunInTheReference) {
  const Tensor wide = Tensor::full({4, 5}, DType::kS32, 300), small = Tensor::full({5, 4}, DType::kS32, 3);
  for (const auto& [x, w] : {std::pair{wide, small}, {small.transpose(0, 1), wide.transpose(0, 1)}}) {
    OneCall call("aten.mm.default", {x, w});
    const std::unique_ptr<OpBackend> simd = make_simd_ops();
    Interpreter fast(call.program, {simd.get()});
    const std::vector<Value> found = fast.run_values(OneCall::values_of(call.clones()));
    EXPECT_EQ(fast.placements().at(0).fallbacks.runs, 1u);
    EXPECT_TRUE(bitwise_equal(*found[0].get_if<Tensor>(), *call.run_reference()[0].get_if<Tensor>()));
  }
}

TEST(SimdMoves, FlipsAreThoseOfTheReference) {
  for (const DType dtype : {DType::kU8, DType::kF16, DType::kF32, DType::kS64}) {
    const Tensor x = integers({3, 4, 5}, 100, dtype);
    for (const List& axes : {List{0}, List{2}, List{-1, 1}, List{0, 1, 2}, List{}})
      OneCall("aten.flip.default", {x, Argument(axes)}).expect_equal(std::string(to_string(dtype)));
    OneCall("aten.flip.default", {x.transpose(0, 2), Argument(List{0})}).expect_equal("transposed");
    OneCall("aten.flip.default", {Tensor::empty({0, 3}, dtype), Argument(List{0})}).expect_equal("nothing");
  }
}

TEST(SimdMoves, RollsAreThoseOfTheReference) {
  for (const DType dtype : {DType::kU8, DType::kF16, DType::kF32, DType::kS64}) {
    const Tensor x = integers({3, 4, 5}, 100, dtype);
    const std::pair<List, List> cases[] = {
        {{2}, {0}}, {{-7, 3}, {1, 2}}, {{1, 1, 4}, {-1, -2, -1}}, {{0}, {1}}, {{9}, {}}};
    for (const auto& [shifts, axes] : cases)
      OneCall("aten.roll.default", {x, Argument(shifts), Argument(axes)}).expect_equal(std::string(to_string(dtype)));
    OneCall("aten.roll.default", {x.transpose(0, 2), Argument(List{1}), Argument(List{0})}).expect_equal("transposed");
  }
}

TEST(SimdMoves, StacksAreThoseOfTheReference) {
  for (const DType dtype : {DType::kU8, DType::kF16, DType::kF32, DType::kS64}) {
    const Tensor x = integers({3, 4, 5}, 100, dtype), y = integers({5, 4, 3}, 50, dtype).transpose(0, 2);
    for (const int axis : {0, 2, 3, -1})
      OneCall("aten.stack.default", {x, y, x}, Argument(axis)).expect_equal(concat(to_string(dtype), " at ", axis));
  }
}

// Squares of 32 go through a copy where rows are far apart.
TEST(SimdMoves, TurnedTensorsAreCopiedAsTheyLie) {
  for (const DType dtype : {DType::kU8, DType::kF16, DType::kF32, DType::kS64}) {
    const Tensor x = integers({45, 1024}, 100, dtype), turned = x.transpose(0, 1), copy = turned.contiguous();
    ASSERT_EQ(copy.sizes(), (Shape{1024, 45}));
    EXPECT_TRUE(bitwise_equal(copy.transpose(0, 1), x)) << to_string(dtype);
    for (const auto& [r, c] : {std::pair(0, 0), std::pair(44, 1023), std::pair(33, 31), std::pair(1, 700)})
      EXPECT_TRUE(bitwise_equal(copy.slice(0, c, c + 1).slice(1, r, r + 1).reshape({1}),
                                x.slice(0, r, r + 1).slice(1, c, c + 1).reshape({1})));
  }
}

TEST(SimdMoves, SlicesArePickedAsInTheReference) {
  for (const DType dtype : {DType::kU8, DType::kF16, DType::kF32, DType::kS64}) {
    const Tensor x = integers({4, 3, 5}, 100, dtype);
    for (const int axis : {0, 1, -1})
      for (const DType of_index : {DType::kS64, DType::kS32})
        OneCall("aten.index_select.default", {x, Argument(axis), integers({7}, 3, of_index)}).expect_equal("select");
    OneCall("aten.index_select.default", {x.transpose(0, 2), Argument(1), integers({2}, 3)}).expect_equal("turned");
    for (const Shape& sizes : {Shape{6}, Shape{2, 3}, Shape{}})
      OneCall("aten.embedding.default", {x.select(0, 0), integers(sizes, 3)}).expect_equal(to_string(sizes));
  }
  OneCall outside("aten.embedding.default", {integers({4, 3}, 9, DType::kF32), Tensor::scalar(int64_t{4})});
  const std::unique_ptr<OpBackend> simd = make_simd_ops();
  EXPECT_THROW(Interpreter(outside.program, {simd.get()}).run_values(OneCall::values_of(outside.inputs)), Error);
}

TEST(SimdMoves, IntegersAreComparedAsInTheReference) {
  for (const DType dtype : {DType::kS32, DType::kS64})
    for (const char* op : {"eq", "ne", "lt", "le", "gt", "ge"}) {
      const Tensor x = integers({2, 3, 37}, 5, dtype);
      const std::string what = concat(op, " ", to_string(dtype));
      OneCall(concat("aten.", op, ".Scalar"), {x, Argument(2)}).expect_equal(what);
      OneCall(concat("aten.", op, ".Scalar"), {x.transpose(0, 2), Argument(2)}).expect_equal(what + " turned");
      for (const Shape& sizes : {Shape{2, 3, 37}, Shape{37}, Shape{3, 1}, Shape{}})
        OneCall(concat("aten.", op, ".Tensor"), {x, integers(sizes, 4, dtype)}).expect_equal(what + to_string(sizes));
      OneCall(concat("aten.", op, ".Tensor"), {integers({3, 1}, 4, dtype), x}).expect_equal(what + " broadcast");
    }
  const Tensor ends = Tensor::of<int64_t>(
      {4}, {std::numeric_limits<int64_t>::max(), 0, std::numeric_limits<int64_t>::min(), int64_t{1} << 53});
  OneCall("aten.lt.Tensor", {ends, ends.slice(0, 1, 2)}).expect_equal("ends");
  OneCall("aten.eq.Scalar", {ends, Argument((int64_t{1} << 53) + 1)}).expect_equal("beyond doubles");
}

TEST(SimdMoves, BytesAreChosenAsInTheReference) {
  for (const DType dtype : {DType::kU8, DType::kS8}) {
    const Tensor x = integers({2, 3, 9, 7}, 256, dtype);
    OneCall("aten.relu.default", {x}).expect_equal("relu");
    OneCall("aten.clamp.default", {x, Argument(10), Argument(99)}).expect_equal("clamp");
    OneCall("aten.clamp.default", {x, Argument(), Argument(400)}).expect_equal("clamp beyond");
    OneCall("aten.max_pool2d.default", {x, Argument(List{3, 3}), Argument(List{2, 2}), Argument(List{1, 1})})
        .expect_equal("max_pool2d");
    OneCall("aten.max_pool1d.default", {x.select(0, 0), Argument(List{2})}).expect_equal("max_pool1d");
  }
}

// Twice the size has weights of quarters, also along three axes; other sizes round, and are left to the reference.
TEST(SimdMoves, BytesAreResizedAsInTheReference) {
  for (const DType dtype : {DType::kU8, DType::kS8}) {
    const Tensor x = integers({2, 3, 9, 7}, 256, dtype);
    OneCall("aten.upsample_bilinear2d.vec", {x, Argument(List{18, 14}), Argument(false), Argument()})
        .expect_equal("bilinear");
    OneCall("aten.upsample_linear1d.vec", {x.select(0, 0), Argument(List{28}), Argument(false), Argument()})
        .expect_equal("linear");
    OneCall("aten.upsample_trilinear3d.vec", {x.unsqueeze(0), Argument(List{6, 18, 14}), Argument(false), Argument()})
        .expect_equal("trilinear");
    OneCall call("aten.upsample_bilinear2d.vec", {x, Argument(List{20, 17}), Argument(false), Argument()});
    const std::unique_ptr<OpBackend> simd = make_simd_ops();
    Interpreter fast(call.program, {simd.get()});
    const std::vector<Value> found = fast.run_values(OneCall::values_of(call.clones()));
    EXPECT_TRUE(bitwise_equal(*found[0].get_if<Tensor>(), *call.run_reference()[0].get_if<Tensor>()));
    EXPECT_EQ(fast.placements().at(0).fallbacks.runs, 1u);
  }
}

}  // namespace
}  // namespace qdq::simd_moves_test
