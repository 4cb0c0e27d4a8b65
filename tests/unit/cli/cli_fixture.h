// A small classifier, samples and labels in memory, and the command line on them.
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "format/json.h"
#include "format/npz.h"
#include "io/pt2.h"
#include "op/op.h"
#include "unit/cli/memory_host.h"

namespace qdq {

inline Tensor noise(const Shape& shape, unsigned seed, float scale = 1) {
  const Tensor out = Tensor::empty(shape, DType::kF32);
  std::minstd_rand random(seed);
  for (float& value : out.span<float>()) value = scale * (static_cast<float>(random() % 2001) / 1000 - 1);
  return out;
}

// A float parameter of the program and the node that gets it.
inline Node* parameter(Program& program, const std::string& name, Tensor tensor) {
  Node* node = program.graph->get_attr(name, node_name_of(name));
  node->meta.val = {TensorMeta{DType::kF32, SymShape(tensor.sizes().begin(), tensor.sizes().end()), {}, true}};
  program.add_attribute({name, std::move(tensor), Attribute::Kind::kParameter, true, true});
  return node;
}

// x [s0, 2, 4, 4] -> conv2d 3x3 -> relu -> flatten -> linear -> [s0, 3].
inline Program classifier() {
  Program program;
  Graph& graph = *program.graph;
  Node* weight = parameter(program, "conv.weight", noise({4, 2, 3, 3}, 1));
  Node* bias = parameter(program, "conv.bias", noise({4}, 2));
  Node* head = parameter(program, "head.weight", noise({3, 64}, 3, 0.2F));
  Node* x = graph.create(Node::Op::kPlaceholder, "x");
  x->meta.val = {TensorMeta{DType::kF32, {SymInt::symbol("s0"), 2, 4, 4}, {}, false}};
  program.symbol_ranges["s0"] = {1, 1024};
  program.symbol_hints["s0"] = 2;
  const Argument::List pad{Argument(1), Argument(1)};
  Node* conv = graph.call("torch.ops.aten.conv2d.default", {x, weight, bias, pad, pad});
  Node* relu = graph.call("torch.ops.aten.relu.default", {conv});
  Node* flat = graph.call("torch.ops.aten.flatten.using_ints", {relu, 1});
  Node* linear = graph.call("torch.ops.aten.linear.default", {flat, head});
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{Argument(linear)})});
  infer_shapes(program);
  return program;
}

// The data in a file of --report.
inline format::Json report_in(const std::vector<std::byte>& file) {
  const std::string html(format::text_of(file)), begin = "id=\"report\">";
  const size_t at = html.find(begin) + begin.size();
  return format::parse_json(html.substr(at, html.find("</script>", at) - at), "the report");
}

struct CliTest : testing::Test {
  CliTest() {
    host.contents["model.pt2"] = save_pt2(classifier());
    host.contents["data.npz"] = format::write_npz(std::vector<format::NamedTensor>{{"x", noise({10, 2, 4, 4}, 4)}});
    host.add("labels.csv", "0,0\n1,1\n2,2\n3,0\n4,1\n5,2\n6,0\n7,1\n8,2\n9,0\n");
  }
  int run(std::vector<std::string> args) {
    host.out.clear();
    host.err.clear();
    return run_cli(args, host);
  }
  std::vector<std::string> quantize(std::vector<std::string> more = {}) {
    std::vector<std::string> args{"quantize", "model.pt2", "--calibrate",  "data.npz",
                                  "-o",       "out.pt2",   "--batch-size", "4"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  MemoryHost host;
};

}  // namespace qdq
