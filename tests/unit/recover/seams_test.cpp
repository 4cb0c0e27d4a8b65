// Which channels can be scaled against each other: through splits, shuffles, rolls, norms, attention and flattened
// images.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "recover/seams.h"
#include "unit/recover/networks.h"

namespace qdq::seams_test {
namespace {

// x[4, 3, 8, 8] -> [conv, conv] -> cat -> batch norm -> relu -> conv, as in DenseNet.
Program dense_network() {
  ProgramBuilder b;
  Node* x = b.input("x", {4, 3, 8, 8});
  Node* one = b.call("conv2d.default", {x, b.weight("one.weight", {4, 3, 1, 1})});
  Node* two = b.call("conv2d.default", {x, b.weight("two.weight", {4, 3, 1, 1})});
  Node* joined = b.call("cat.default", {Argument::List{one, two}, 1});
  Node* norm = b.call("batch_norm.default", {joined, b.weight("norm.weight", {8}), b.weight("norm.bias", {8}),
                                             b.weight("mean", {8}), b.weight("var", {8}), false, 0.1, 1e-5, true});
  Node* relu = b.call("relu.default", {norm});
  Program program = b.finish({b.call("conv2d.default", {relu, b.weight("last.weight", {5, 8, 1, 1})})});
  for (float& variance : program.find_attribute("var")->tensor.span<float>()) variance = std::fabs(variance) + 0.5f;
  return program;
}

// Scales the channels of each seam by powers of two, and twins by the inverse, which the float program must not show.
std::vector<Seam> scaled_seams(const std::function<Program()>& make, const std::vector<Batch>& batches) {
  XNNPACKQuantizer quantizer = xnnpack();
  Prepared prepared = prepare_pt2e(make(), quantizer);
  for (const Batch& batch : batches) prepared.run(batch);
  std::vector<Seam> seams = seams_of(prepared);
  for (const Seam& seam : seams) {
    std::vector<float> factors;
    for (size_t c = 0; c < seam.fixed.size(); ++c)
      factors.push_back(seam.fixed[c] ? 1.0f : std::exp2(static_cast<float>(c * 7 % 5) - 2));
    for (size_t c = 0; c < factors.size(); ++c)
      if (const auto twin = static_cast<size_t>(seam.twins[c]); seam.twins[c] > static_cast<int64_t>(c))
        factors[twin] = 1 / factors[c];
    BeforeChannels before;
    apply_seam(prepared, before, seam, factors);
  }
  expect_same_floats(make(), prepared, batches);
  return seams;
}

TEST(Seams, GoThroughSplitsAndShuffles) {
  for (const int way : {0, 1, 2}) {
    const std::vector<Seam> seams = scaled_seams([&] { return shuffle_network(way); },
                                                 way == 2 ? std::vector<Batch>{{sample({1, 3, 8, 8}, 1)}} : batches());
    ASSERT_EQ(seams.size(), 2u) << way;
    // The first layer and those of the units make channels that these units and the last layer read.
    EXPECT_EQ(seams[0].producers.size(), 3u) << way;
    EXPECT_EQ(seams[0].readers.size(), 3u) << way;
    EXPECT_EQ(seams[0].fixed, std::vector<bool>(16)) << way;
    EXPECT_EQ(seams[1].producers.size(), 1u) << way;
  }
}

// x[4, 6, 16] -> norm -> roll, flip -> linear, and -> mean or the largest of the tokens -> linear, as in Swin.
TEST(Seams, GoThroughRollsAndPoolsOfTokens) {
  for (const char* pool : {"mean.dim", "amax.default"})
    for (const bool keeps : {false, true}) {
      const auto make = [&] {
        ProgramBuilder b;
        Node* x = b.input("x", {4, 6, 16});
        Node* norm = b.call("layer_norm.default",
                            {x, Argument::List{16}, b.weight("norm.weight", {16}), b.weight("norm.bias", {16})});
        Node* rolled = b.call("roll.default", {norm, Argument::List{-2}, Argument::List{1}});
        Node* flipped = b.call("flip.default", {rolled, Argument::List{-2}});
        Node* tokens = b.call("linear.default", {flipped, b.weight("tokens.weight", {5, 16})});
        Node* pooled = b.call(pool, {norm, Argument::List{1}, keeps});
        return b.finish({tokens, b.call("linear.default", {pooled, b.weight("head.weight", {3, 16})})});
      };
      const std::vector<Seam> seams = scaled_seams(make, {{sample({4, 6, 16}, 1)}});
      ASSERT_EQ(seams.size(), 1u) << pool << keeps;
      EXPECT_EQ(seams[0].readers.size(), 2u);
      EXPECT_EQ(std::count(seams[0].fixed.begin(), seams[0].fixed.end(), true), 0);
    }
}

TEST(Seams, BeginAtBatchNormsBehindConcatenations) {
  const std::vector<Seam> seams = scaled_seams(dense_network, batches());
  ASSERT_EQ(seams.size(), 1u);
  EXPECT_EQ(seams[0].producers.size(), 1u);
  EXPECT_EQ(seams[0].fixed, std::vector<bool>(8));
}

TEST(Seams, LeaveWhatIsJoinedWithThemAsItIs) {
  const std::vector<Seam> seams = scaled_seams(network_with_skip, batches());
  ASSERT_EQ(seams.size(), 2u);
  EXPECT_EQ(std::count(seams[0].fixed.begin(), seams[0].fixed.end(), false), 4);
  EXPECT_EQ(std::count(seams[0].fixed.begin(), seams[0].fixed.end(), true), 3);
  EXPECT_EQ(seams[1].fixed, std::vector<bool>(6));  // behind prelu
}

bool none_is_fixed(const Seam& seam) { return std::count(seam.fixed.begin(), seam.fixed.end(), true) == 0; }

// x[4, 3, 8, 8] -> conv -> transposed convolution of two groups -> conv -> transposed one -> the output.
TEST(Seams, GoThroughTransposedConvolutions) {
  const auto make = [] {
    ProgramBuilder b;
    Node* x = b.input("x", {4, 3, 8, 8});
    const auto relu = [&](Node* from) { return b.call("relu.default", {from}); };
    const Argument::List two{2, 2}, none{0, 0}, one{1, 1};
    Node* first = b.call("conv2d.default", {x, b.weight("first.weight", {8, 3, 1, 1}), b.weight("first.bias", {8})});
    Node* wide = b.call("conv_transpose2d.input", {relu(first), b.weight("up.weight", {8, 3, 4, 4}),
                                                   b.weight("up.bias", {6}), two, one, none, 2});
    Node* last = b.call("conv2d.default", {relu(wide), b.weight("last.weight", {5, 6, 1, 1})});
    return b.finish({b.call("conv_transpose2d.input",
                            {relu(last), b.weight("out.weight", {5, 2, 2, 2}), b.weight("out.bias", {2}), two})});
  };
  const std::vector<Seam> seams = scaled_seams(make, batches());
  ASSERT_EQ(seams.size(), 3u);
  for (const Seam& seam : seams) EXPECT_TRUE(none_is_fixed(seam));
}

// x[4, 3, 8, 8] -> conv -> flatten -> linear -> view as images -> conv.
TEST(Seams, GoThroughFlattenedImages) {
  const auto make = [] {
    ProgramBuilder b;
    Node* x = b.input("x", {4, 3, 8, 8});
    Node* first = b.call("conv2d.default", {x, b.weight("first.weight", {6, 3, 1, 1}), b.weight("first.bias", {6})});
    Node* flat = b.call("flatten.using_ints", {b.call("relu.default", {first}), 1});
    Node* rows = b.call("linear.default", {flat, b.weight("rows.weight", {20, 384}), b.weight("rows.bias", {20})});
    Node* images = b.call("view.default", {b.call("relu.default", {rows}), Argument::List{4, 5, 2, 2}});
    return b.finish({b.call("conv2d.default", {images, b.weight("last.weight", {3, 5, 1, 1})})});
  };
  const std::vector<Seam> seams = scaled_seams(make, batches());
  ASSERT_EQ(seams.size(), 2u);
  EXPECT_EQ(seams[0].fixed, std::vector<bool>(6));
  EXPECT_EQ(seams[1].fixed, std::vector<bool>(5));
}

// x[2, 6, 16] -> four heads of queries and two of keys and values -> rotated, repeated -> attention -> linear.
Program grouped_queries(bool repeats) {
  ProgramBuilder b;
  Node* x = b.input("x", {2, 6, 16});
  const auto heads = [&](const std::string& name, int64_t count) {
    Node* rows = b.call("linear.default", {x, b.weight(name + ".weight", {count * 4, 16})});
    return b.call("transpose.int", {b.call("view.default", {rows, Argument::List{2, 6, count, 4}}), 1, 2});
  };
  Node *cos = b.weight("cos", {6, 4}), *sin = b.weight("sine", {6, 4});
  const auto rotated = [&](Node* from) {
    Node* turned = b.call("neg.default", {b.call("slice.Tensor", {from, 3, 2, 4})});
    Node* halves = b.call("cat.default", {Argument::List{turned, b.call("slice.Tensor", {from, 3, 0, 2})}, -1});
    return b.call("add.Tensor", {b.call("mul.Tensor", {from, cos}), b.call("mul.Tensor", {halves, sin})});
  };
  const auto repeated = [&](Node* from) {
    if (repeats) return b.call("repeat_interleave.self_int", {from, 2, 1});
    Node* pairs = b.call("expand.default", {b.call("unsqueeze.default", {from, 2}), Argument::List{2, 2, 2, 6, 4}});
    return b.call("reshape.default", {pairs, Argument::List{2, 4, 6, 4}});
  };
  Node* q = rotated(heads("q", 4));
  Node* k = repeated(rotated(heads("key", 2)));
  Node* v = repeated(heads("value", 2));
  Node* mixed = b.call("scaled_dot_product_attention.default", {q, k, v});
  Node* back = b.call("reshape.default", {b.call("transpose.int", {mixed, 1, 2}), Argument::List{2, 6, 16}});
  return b.finish({b.call("linear.default", {back, b.weight("out.weight", {4, 16})})});
}

TEST(Seams, GoThroughRotatedQueriesThatShareKeys) {
  for (const bool repeats : {false, true}) {
    const std::vector<Seam> seams = scaled_seams([&] { return grouped_queries(repeats); }, {{sample({2, 6, 16}, 1)}});
    ASSERT_EQ(seams.size(), 2u) << repeats;
    // A factor for each pair of channels that are rotated together, of each head of keys, and its inverse for queries.
    EXPECT_EQ(seams[0].fixed, std::vector<bool>(8)) << repeats;
    EXPECT_EQ(std::count(seams[0].twins.begin(), seams[0].twins.end(), -1), 0) << repeats;
    EXPECT_EQ(seams[1].fixed, std::vector<bool>(8)) << repeats;
  }
}

// x[2, 6, 16] -> queries, keys and values of two heads, taken apart by unbind -> attention -> linear.
TEST(Seams, GoThroughUnbinding) {
  const auto make = [] {
    ProgramBuilder b;
    Node* x = b.input("x", {2, 6, 16});
    Node* rows = b.call("linear.default", {x, b.weight("qkv.weight", {48, 16}), b.weight("qkv.bias", {48})});
    Node* view = b.call("view.default", {rows, Argument::List{2, 6, 3, 2, 8}});
    Node* parts = b.call("unbind.int", {b.call("permute.default", {view, Argument::List{2, 0, 3, 1, 4}})});
    std::vector<Node*> of;
    for (int64_t i = 0; i < 3; ++i) of.push_back(b.item(parts, i));
    Node* mixed = b.call("scaled_dot_product_attention.default", {of[0], of[1], of[2]});
    Node* back = b.call("reshape.default", {b.call("transpose.int", {mixed, 1, 2}), Argument::List{2, 6, 16}});
    return b.finish({b.call("linear.default", {back, b.weight("out.weight", {4, 16})})});
  };
  const std::vector<Seam> seams = scaled_seams(make, {{sample({2, 6, 16}, 1)}});
  ASSERT_EQ(seams.size(), 1u);
  EXPECT_EQ(seams[0].fixed, std::vector<bool>(48));
}

}  // namespace
}  // namespace qdq::seams_test
