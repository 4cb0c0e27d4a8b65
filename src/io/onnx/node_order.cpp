#include "io/onnx/node_order.h"

#include <algorithm>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"

namespace qdq {

using format::OnnxAttribute;
using format::OnnxNode;
using format::OnnxValueInfo;

std::string name_of(const OnnxNode& node) {
  return node.name.empty() && !node.outputs.empty() ? node.outputs[0] : node.name;
}

void collect_reads(const OnnxNode& node, std::vector<std::string>& reads) {
  for (const std::string& input : node.inputs)
    if (!input.empty()) reads.push_back(input);
  for (const OnnxAttribute& attribute : node.attributes)
    for (const auto& graph : attribute.graphs) {
      std::vector<std::string> inner;
      for (const OnnxNode& each : graph->nodes) collect_reads(each, inner);
      for (const OnnxValueInfo& output : graph->outputs) inner.push_back(output.name);
      std::unordered_set<std::string> own;
      for (const OnnxValueInfo& input : graph->inputs) own.insert(input.name);
      for (const auto& [name, tensor] : graph->initializers) own.insert(name);
      for (const OnnxNode& each : graph->nodes) own.insert(each.outputs.begin(), each.outputs.end());
      for (std::string& name : inner)
        if (own.count(name) == 0) reads.push_back(std::move(name));
    }
}

int64_t num_reads(const format::OnnxGraph& graph, const std::string& value) {
  std::vector<std::string> reads;
  for (const OnnxNode& node : graph.nodes) collect_reads(node, reads);
  for (const OnnxValueInfo& output : graph.outputs) reads.push_back(output.name);
  return std::count(reads.begin(), reads.end(), value);
}

std::vector<const OnnxNode*> in_order(const std::vector<OnnxNode>& nodes) {
  std::unordered_map<std::string, size_t> maker;
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const std::string& output : nodes[i].outputs)
      if (!output.empty())
        QDQ_CHECK(maker.emplace(output, i).second, kBadFile, "the value ", output, " of the ONNX model is made twice");
  std::vector<std::vector<size_t>> readers(nodes.size());
  std::vector<size_t> missing(nodes.size(), 0);
  for (size_t i = 0; i < nodes.size(); ++i) {
    std::vector<std::string> reads;
    collect_reads(nodes[i], reads);
    for (const std::string& name : reads)
      if (const auto found = maker.find(name); found != maker.end()) {
        readers[found->second].push_back(i);
        ++missing[i];
      }
  }
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t i = 0; i < nodes.size(); ++i)
    if (missing[i] == 0) ready.push(i);
  std::vector<const OnnxNode*> out;
  while (!ready.empty()) {
    const size_t i = ready.top();
    ready.pop();
    out.push_back(&nodes[i]);
    for (const size_t reader : readers[i])
      if (--missing[reader] == 0) ready.push(reader);
  }
  for (size_t i = 0; i < nodes.size(); ++i)
    QDQ_CHECK(missing[i] == 0, kBadFile, "the ONNX node ", name_of(nodes[i]), " (", nodes[i].op_type,
              ") reads a value that depends on its own result");
  return out;
}

}  // namespace qdq
