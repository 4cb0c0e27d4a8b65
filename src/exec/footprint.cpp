#include "exec/footprint.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "op/op.h"

namespace qdq {
namespace {

// The bytes of a node's one result; 0 where they are unknown. Products that overflow are more than any memory.
uint64_t bytes_of(const Node& node, const std::map<std::string, int64_t>& symbols) {
  const TensorMeta* meta = node.meta.val.tensor();
  if (meta == nullptr) return 0;
  uint64_t bytes = size_of(meta->dtype);
  for (const SymInt& size : meta->sizes) {
    const std::optional<int64_t> extent = size.evaluate(symbols);
    if (!extent || *extent <= 0) return 0;
    if (bytes > (uint64_t{1} << 62) / static_cast<uint64_t>(*extent)) return uint64_t{1} << 62;
    bytes *= static_cast<uint64_t>(*extent);
  }
  return bytes;
}

// The bytes that a node allocates for certain: what is made of no tensor; else an operator may write over an operand of
// its result's size that nobody needs any more, but one with a weight reads the operand to the end.
uint64_t bytes_made(const Node& node, const std::map<std::string, int64_t>& symbols) {
  if (node.op() != Node::Op::kCallFunction) return 0;
  const OpDef* op = find_op(node.target());
  const std::vector<Node*> inputs = node.input_nodes();
  // What keeps numbers may be a view, unless it joins several tensors.
  const bool joins = op != nullptr && !op->schema->arguments.empty() && op->schema->arguments[0].is_list;
  if (op == nullptr || (op->roles.shares_qparams && !joins)) return 0;
  const uint64_t bytes = bytes_of(node, symbols);
  const bool grows = std::all_of(inputs.begin(), inputs.end(), [&](const Node* input) {
    return input->meta.val.tensor() != nullptr && bytes_of(*input, symbols) < bytes;
  });
  return op->roles.weight >= 0 || grows ? bytes : 0;
}

}  // namespace

uint64_t least_bytes_of_results(const Program& program, const std::map<std::string, int64_t>& symbols) {
  std::unordered_map<const Node*, const Node*> last_user;
  for (const Node* node : program.graph->nodes())
    for (const Node* input : node->input_nodes()) last_user[input] = node;
  std::unordered_map<const Node*, uint64_t> dying;  // by the node after which they are gone
  uint64_t live = 0, most = 0;
  for (const Node* node : program.graph->nodes()) {
    const uint64_t made = bytes_made(*node, symbols);
    live = std::min(live + made, uint64_t{1} << 62);
    most = std::max(most, live);
    const auto last = last_user.find(node);
    dying[last == last_user.end() ? node : last->second] += made;
    const auto gone = dying.find(node);
    if (gone != dying.end()) live -= std::min(live, gone->second);
  }
  return most;
}

}  // namespace qdq
