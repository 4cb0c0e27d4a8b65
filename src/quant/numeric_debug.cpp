// Debug handles and the comparison by them.
#include "quant/numeric_debug.h"

#include <cmath>
#include <limits>
#include <map>

namespace qdq {

namespace {

struct Logged {
  std::string node;
  std::vector<Tensor> values;  // by input set
};

std::map<int64_t, Logged> log_values(const Program& program, std::span<const std::vector<Tensor>> inputs,
                                     const std::vector<OpBackend*>& backends) {
  std::map<int64_t, const Node*> last;
  for (const Node* node : program.graph->nodes())
    if (node->op() == Node::Op::kCallFunction && node->meta.debug_handle) last[*node->meta.debug_handle] = node;
  std::map<int64_t, Logged> out;
  Interpreter interpreter(program, backends);
  interpreter.set_node_hook([&](const Node& node, const Value& value) {
    if (!node.meta.debug_handle || last.at(*node.meta.debug_handle) != &node) return;
    const Tensor* tensor = value.get_if<Tensor>();
    if (tensor == nullptr || !is_floating(tensor->dtype())) return;
    Logged& logged = out[*node.meta.debug_handle];
    logged.node = node.name();
    logged.values.push_back(tensor->to(DType::kF32).clone());  // operators behind may write into it
  });
  for (const std::vector<Tensor>& batch : inputs) interpreter.run(batch);
  return out;
}

}  // namespace

void generate_numeric_debug_handles(Program& program) {
  int64_t handle = 0;
  for (const Node* node : program.graph->nodes()) handle = std::max(handle, node->meta.debug_handle.value_or(0));
  for (Node* node : program.graph->nodes())
    if (node->op() == Node::Op::kCallFunction && !node->meta.debug_handle) node->meta.debug_handle = ++handle;
}

std::vector<NodeAccuracy> compare_by_debug_handle(const Program& ref, const Program& actual,
                                                  std::span<const std::vector<Tensor>> inputs,
                                                  const std::vector<OpBackend*>& backends) {
  const std::map<int64_t, Logged> expected = log_values(ref, inputs, backends),
                                  found = log_values(actual, inputs, backends);
  std::vector<NodeAccuracy> out;
  for (const auto& [handle, a] : expected) {
    const auto other = found.find(handle);
    if (other == found.end()) continue;
    const Logged& b = other->second;
    NodeAccuracy accuracy{handle, a.node, b.node, {}, {}};
    for (size_t i = 0; i < a.values.size() && i < b.values.size(); ++i) {
      QDQ_CHECK(a.values[i].sizes() == b.values[i].sizes(), kInvalidArgument, "nodes ", a.node, " and ", b.node,
                " carry the same debug handle, but have the shapes ", to_string(a.values[i].sizes()), " and ",
                to_string(b.values[i].sizes()));
      double signal = 0, noise = 0;
      const std::span<const float> x = a.values[i].span<float>(), y = b.values[i].span<float>();
      for (size_t k = 0; k < x.size(); ++k) {
        signal += static_cast<double>(y[k]) * y[k];  // PyTorch's signal is the quantized value
        noise += (static_cast<double>(x[k]) - y[k]) * (static_cast<double>(x[k]) - y[k]);
      }
      accuracy.mse.push_back(x.empty() ? 0 : noise / static_cast<double>(x.size()));
      accuracy.sqnr_db.push_back(noise == 0 ? std::numeric_limits<double>::infinity()
                                            : 10 * std::log10(signal / noise));
    }
    out.push_back(std::move(accuracy));
  }
  return out;
}

}  // namespace qdq
