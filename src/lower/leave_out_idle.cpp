// Operators that return what they are given.
#include <algorithm>

#include "lower/fuse_nodes.h"
#include "lower/join_operators.h"
#include "op/facts.h"
#include "op/targets.h"

namespace qdq {
namespace {

const TensorMeta* given_meta(const Node& node) {
  const Node* given = node.arg(0).node();
  return given == nullptr ? nullptr : given->meta.val.tensor();
}

// A cast to the dtype that its input has.
bool is_idle_cast(const Node& node) {
  const TensorMeta *from = given_meta(node), *to = node.meta.val.tensor();
  return is_a(node, Family::kCast) && from != nullptr && to != nullptr && from->dtype == to->dtype &&
         from->sizes == to->sizes;
}

// softmax(x, axis, dtype) of an x that has the dtype.
bool has_idle_dtype(const Node& node) {
  const TensorMeta* from = given_meta(node);
  return is_a(node, Family::kSoftmax) && from != nullptr && node.arg(2) == Argument(from->dtype);
}

bool is_read_by_output(const Node& node) {
  return std::any_of(node.users().begin(), node.users().end(),
                     [](const Node* user) { return user->op() == Node::Op::kOutput; });
}

}  // namespace

void leave_out_idle_operators(Program& program) {
  for (Node* node : program.graph->nodes()) {
    if (has_idle_dtype(*node)) node->set_arg(2, Argument());
    if (!(is_idle_dropout(*node) || is_idle_cast(*node)) || !node->arg(0).is_node() || is_read_by_output(*node))
      continue;
    node->replace_all_uses_with(node->arg(0).node());
    program.graph->erase(node);  // or its input would have two users
  }
}

}  // namespace qdq
