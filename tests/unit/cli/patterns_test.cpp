// Patterns, source partitions and provenance against PyTorch's own (tests/golden/make_patterns.py).
#include <gtest/gtest.h>

#include <algorithm>

#include "format/bytes.h"
#include "format/json.h"
#include "golden_bytes.h"
#include "graph/source_partition.h"
#include "io/pattern.h"
#include "io/pt2.h"
#include "quant/pt2e.h"
#include "quant/quantizers/xnnpack_quantizer.h"

namespace qdq::patterns_test {
namespace {

using Json = nlohmann::json;  // objects are equal in any order of their fields

const Json& facts() {
  static const Json facts = format::parse_json(format::text_of(golden_bytes("patterns/facts.json")), "facts.json");
  return facts;
}

Json operators(const std::vector<Node*>& nodes, bool sorted = false) {
  std::vector<std::string> names;
  for (const Node* node : nodes)
    if (node->op() == Node::Op::kCallFunction) names.push_back(node->name());
  if (sorted) std::sort(names.begin(), names.end());
  return names;
}

TEST(PatternGolden, FindsWhatPyTorchFinds) {
  size_t found = 0;
  for (const auto& [model, of_model] : facts()["matches"].items()) {
    const Program program = load_pt2(golden_bytes("patterns/" + model + ".pt2"));
    for (const auto& [key, wanted] : of_model.items()) {
      const MatchOptions options{.ignore_literals = key.ends_with(" ignore_literals")};
      const Pattern pattern = pattern_of(load_pt2(golden_bytes("patterns/" + key.substr(0, key.find(' ')) + ".pt2")));
      Json matches = Json::array();
      for (const Match& match : find_matches(*program.graph, pattern, options)) {
        Json names = Json::object();
        for (const auto& [name, node] : match.name_node_map)
          if (node && node->op() == Node::Op::kCallFunction) names[name] = node->name();
        matches.push_back(std::move(names));
      }
      EXPECT_EQ(matches, wanted) << key << " in " << model;
      found += matches.size();
    }
  }
  EXPECT_GT(found, 20u);
}

TEST(PatternGolden, PartitionsAreThoseOfPyTorch) {
  for (const auto& [model, of_model] : facts()["partitions"].items()) {
    const Program program = load_pt2(golden_bytes("patterns/" + model + ".pt2"));
    for (const Json& entry : of_model) {
      Json partitions = Json::array();
      for (const SourcePartition& partition :
           get_source_partitions(*program.graph, entry[0].get<std::vector<std::string>>())) {
        std::vector<std::string> inputs;
        for (const Node* node : partition.input_nodes)
          if (node->op() != Node::Op::kGetAttr) inputs.push_back(node->name());
        std::sort(inputs.begin(), inputs.end());
        partitions.push_back({operators(partition.nodes), inputs, operators(partition.output_nodes, true)});
      }
      EXPECT_EQ(partitions, entry[1]) << entry[0] << " in " << model;
      EXPECT_FALSE(entry[1].empty());
    }
  }
}

TEST(PatternGolden, SequencesAreThoseOfPyTorch) {
  for (const auto& [model, of_model] : facts()["sequences"].items()) {
    const Program program = load_pt2(golden_bytes("patterns/" + model + ".pt2"));
    for (const Json& entry : of_model) {
      Json chains = Json::array();
      for (const auto& chain : find_sequential_partitions(*program.graph, entry[0].get<std::vector<std::string>>())) {
        Json nodes = Json::array();
        for (const SourcePartition& partition : chain) nodes.push_back(operators(partition.nodes));
        chains.push_back(std::move(nodes));
      }
      EXPECT_EQ(chains, entry[1]) << entry[0] << " in " << model;
    }
  }
}

// Which operator of the float model an operator of the converted one comes from.
TEST(PatternGolden, ProvenanceIsKeptAsInPyTorch) {
  for (const auto& [model, recipes] : facts()["provenance"].items())
    for (const auto& [recipe, wanted] : recipes.items()) {
      Program program = load_pt2(golden_bytes("patterns/" + model + ".pt2"));
      const TensorMeta& input = *program.graph->placeholders().at(0)->meta.val.tensor();
      Shape sizes;
      for (const SymInt& size : input.sizes) sizes.push_back(*size.constant());
      XNNPACKQuantizer quantizer(Compat::kTorch26);
      quantizer.set_global(
          get_symmetric_quantization_config({.is_per_channel = recipe == "static", .is_dynamic = recipe == "dynamic"}));
      Prepared prepared = prepare_pt2e(std::move(program), quantizer);
      const Tensor zeros = Tensor::empty(sizes, DType::kF32);
      std::fill(zeros.span<float>().begin(), zeros.span<float>().end(), 0.5f);
      prepared.run({zeros});
      const Program converted = convert_pt2e(prepared);
      size_t operators = 0;
      for (const Node* node : converted.graph->nodes()) {
        if (node->op() != Node::Op::kCallFunction) continue;
        ++operators;
        ASSERT_TRUE(wanted.contains(node->name())) << node->name() << " in " << model;
        const auto path = node->meta.module_path();
        const auto& sources = node->meta.source_fn_stack;
        const Json found{node->meta.stack_trace, path ? Json(*path) : Json(),
                         sources.empty() ? Json() : Json(sources.back().second)};
        EXPECT_EQ(found, wanted[node->name()]) << node->name() << " in " << model << " " << recipe;
      }
      EXPECT_EQ(operators, wanted.size()) << model << " " << recipe;
    }
}

}  // namespace
}  // namespace qdq::patterns_test
