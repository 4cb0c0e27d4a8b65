// What the rules of fusion share: heads with what stands behind them, and one rule for each operator.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "lower/fuse.h"
#include "lower/fuse_nodes.h"
#include "lower/layer_norm_pattern.h"
#include "lower/plan_builder.h"

namespace qdq {

// What a head takes with it, the last node last.
struct Epilogue {
  Node* last = nullptr;
  Node* residual = nullptr;
  Activation activation;
  Node* quantize = nullptr;
};

class Fuser {
 public:
  Fuser(Program& program, const FusionOptions& options) : plans(program), options(options) {}

  PlanBuilder plans;
  const FusionOptions options;
  std::unordered_map<const Node*, DynamicInput> dynamic;  // by the dequantize node in front of products
  std::unordered_map<const Node*, TokenInput> tokens;     // by the dequantize node in front of linear layers
  std::unordered_map<const Node*, std::shared_ptr<const LayerNormPattern>> norms;  // with roundings, by each node

  // What stands behind `head` along values with one user. A residual is taken where `may_add`.
  Epilogue epilogue_of(Node& head, bool may_add, bool may_round = true) const;
  // Makes the step of a head now, or when the walk comes to the epilogue's last node. `fill` sets form and inputs, read
  // in the given order.
  enum class Order { kImages, kSequence };
  void emit(Node& head, const Epilogue& epilogue, std::function<void(PlanStep&, Order)> fill);
  size_t read(Node* node, Order order) {
    return order == Order::kSequence ? plans.read_sequence(node) : plans.read(node);
  }
  // The order in which the step of this node works: kSequence for linear layers and layer norms, and where what works
  // element by element reads sequences alone.
  Order order_of(const Node& head) const;
  // Makes the step that waits for this node; false if none does.
  bool make_pending(const Node& node);

  // Nodes whose work a head's step does: they are on the way to its last node, or in front of it.
  void take(const Node* node) { taken_.insert(node); }
  bool is_taken(const Node* node) const { return taken_.count(node) != 0; }
  // The packed weights of a dequantize_per_channel_group node, made once for all that read it; null, and why, if it has
  // none that kernels take.
  const kernel::GroupWeights* group_weights_of(const Node& dequantize, std::string* refusal = nullptr);

  // What the step of `head` does beside what stands behind it.
  void add_companions(const Node& head, std::vector<const Node*> nodes) { companions_[&head] = std::move(nodes); }

 private:
  void take_residual(Epilogue& epilogue) const;

  std::unordered_map<const Node*, std::vector<const Node*>> companions_;
  std::unordered_map<const Node*, std::variant<kernel::GroupWeights, std::string>> group_weights_;
  std::unordered_set<const Node*> taken_;
  std::unordered_map<const Node*, std::function<void()>> pending_;  // last node of an epilogue -> makes its step
};

// A rule puts a node into a plan and returns an empty string, or says why it cannot.

// fuse_elements.cpp
std::string fuse_quantize(Fuser& fuser, Node& node);
std::string fuse_dequantize(Fuser& fuser, Node& node);
std::string fuse_activation(Fuser& fuser, Node& node);
std::string fuse_add(Fuser& fuser, Node& node);
std::string fuse_mul(Fuser& fuser, Node& node);
std::string fuse_prelu(Fuser& fuser, Node& node);
std::string fuse_concat(Fuser& fuser, Node& node);
// fuse_products.cpp: convolutions and linear layers, and batch norms that no convolution takes with it
std::string fuse_product(Fuser& fuser, Node& node);
std::string fuse_batch_norm(Fuser& fuser, Node& node);
// fuse_groups.cpp: linear layers whose weight is dequantized by groups
std::string fuse_group_linear(Fuser& fuser, Node& node);
// Takes a choose_qparams_per_token_asymmetric node and what quantizes by it, if linear layers with such weights alone
// read that.
//   x -> choose -> scales, zero_points
//   x, scales, zero_points -> quantize_per_token -> dequantize_per_token -> linear
bool take_tokens(Fuser& fuser, Node& choose);
// fuse_images.cpp: pools
std::string fuse_max_pool(Fuser& fuser, Node& node);
std::string fuse_average_pool(Fuser& fuser, Node& node);
std::string fuse_adaptive_average_pool(Fuser& fuser, Node& node);
std::string fuse_mean(Fuser& fuser, Node& node);
// fuse_sequences.cpp
std::string fuse_layer_norm(Fuser& fuser, Node& node);
std::string fuse_rms_norm(Fuser& fuser, Node& node);
std::string fuse_rotary(Fuser& fuser, Node& node);
std::string fuse_attention(Fuser& fuser, Node& node);
// Takes the whole of a layer norm with roundings at its first node.
bool take_rounded_norm(Fuser& fuser, Node& node);
// Takes a choose_qparams node and what quantizes by it. Convolutions and linear layers quantize as they read; for all
// else that reads it there is a step that rounds.
//   x -> choose_qparams -> scale, zero_point;   x, scale, zero_point -> quantize -> dequantize -> linear
bool take_dynamic(Fuser& fuser, Node& choose);
// fuse_views.cpp: what moves no bytes, or no more than that
std::string fuse_reshape(Fuser& fuser, Node& node);
std::string fuse_permute(Fuser& fuser, Node& node);
std::string fuse_transpose(Fuser& fuser, Node& node);
std::string fuse_squeeze(Fuser& fuser, Node& node);
std::string fuse_unsqueeze(Fuser& fuser, Node& node);
std::string fuse_select(Fuser& fuser, Node& node);
std::string fuse_slice(Fuser& fuser, Node& node);
std::string fuse_split(Fuser& fuser, Node& node);
std::string fuse_getitem(Fuser& fuser, Node& node);
std::string fuse_identity(Fuser& fuser, Node& node);

}  // namespace qdq
