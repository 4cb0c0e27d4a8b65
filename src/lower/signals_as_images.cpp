#include "lower/signals_as_images.h"

#include <string>
#include <utility>

#include "lower/as_images.h"
#include "lower/fuse_nodes.h"
#include "op/targets.h"

namespace qdq {
namespace {

// Of the family those that pool a signal.
constexpr std::string_view kMaxPool1d = "torch.ops.aten.max_pool1d.default",
                           kAvgPool1d = "torch.ops.aten.avg_pool1d.default";

std::optional<int64_t> single(const Argument& argument, int64_t if_none) {
  if (argument.is_none() || (argument.is_list() && argument.list().empty())) return if_none;
  if (argument.is_list()) return argument.list().size() == 1 ? argument.list()[0].integer() : std::nullopt;
  return argument.integer();
}

// A list for two axes, of which the first is of one element.
Argument pair(int64_t first, int64_t second) { return Argument::List{first, second}; }

// [N, C, L] as [N, C, 1, L].
class SignalsAsImages : public AsImages {
 public:
  SignalsAsImages(Program& program, bool floats) : AsImages(program, 3, op::kConv1d, floats) {}

 private:
  bool takes_sizes(const SymShape&) const override { return true; }

  bool takes_convolution(const Node& node) const override {
    return single(node.arg(3), 1) && single(node.arg(4), 1) && single(node.arg(5), 1);
  }

  bool is_pool(const Node& node) const override {
    if (!node.is(kMaxPool1d) && !node.is(kAvgPool1d)) return false;
    for (const size_t i : {size_t{1}, size_t{2}, size_t{3}})
      if (!single(node.arg(i), 1)) return false;
    return !node.is(kMaxPool1d) || single(node.arg(4), 1).has_value();
  }

  std::optional<int64_t> image_axis(int64_t axis) const override { return axis == 2 ? 3 : axis; }
  Node* to_image(Node* value) override { return add_call(op::kUnsqueeze, {value, 2}); }
  Node* from_image(Node* image, const SymShape&) override { return add_call(op::kSqueezeDim, {image, 2}); }

  // The weight [OC, C, K] as [OC, C, 1, K].
  void rewrite_convolution(Node& node) override {
    Node* weight = node.arg(1).node();
    Shape sizes = weight_values(*weight).sizes();
    sizes.insert(sizes.begin() + 2, 1);
    node.set_arg(0, raised(node.arg(0).node()));
    node.set_arg(1, reshaped_weight(weight, &node, sizes));
    node.set_arg(3, pair(1, *single(node.arg(3), 1)));
    node.set_arg(4, pair(0, *single(node.arg(4), 0)));
    node.set_arg(5, pair(1, *single(node.arg(5), 1)));
    if (node.arg(6).is_none()) node.set_arg(6, 1);
    node.set_target(std::string(op::kConv2d));
    lift(node);
  }

  void rewrite_pool(Node& node) override {
    const bool is_max = node.is(kMaxPool1d);
    const int64_t size = *single(node.arg(1), 1);
    node.set_arg(0, raised(node.arg(0).node()));
    node.set_arg(1, pair(1, size));
    node.set_arg(2, pair(1, *single(node.arg(2), size)));
    node.set_arg(3, pair(0, *single(node.arg(3), 0)));
    if (is_max) node.set_arg(4, pair(1, *single(node.arg(4), 1)));
    std::vector<Argument> args = node.args();
    const auto set_default = [&](size_t i, bool value) {
      if (args.size() > i && args[i].is_none()) args[i] = value;
    };
    set_default(is_max ? 5 : 4, false);
    set_default(5, is_max ? false : true);
    node.set_args(std::move(args));
    node.set_target(std::string(is_max ? op::kMaxPool2d : op::kAvgPool2d));
    lift(node);
  }
};

}  // namespace

void make_images_of_signals(Program& program, bool floats) {
  if (fusion_obstacle(*program.graph).empty()) SignalsAsImages(program, floats).run();
}

}  // namespace qdq
