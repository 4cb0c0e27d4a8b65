// Reading names out of an exported function's result.
#include "io/pattern.h"

#include "format/json.h"

namespace qdq {

namespace {

using format::Json;

size_t count_leaves(const Json& spec) {
  const Json& children = spec.at("children_spec");
  if (children.empty()) return spec.at("type").is_null() ? 1 : 0;
  size_t count = 0;
  for (const Json& child : children) count += count_leaves(child);
  return count;
}

// The keys of the dictionary that comes last in a tuple of results; empty if there is none.
std::vector<std::string> keys_of(const std::string& out_spec, size_t num_outputs) {
  if (out_spec.empty()) return {};
  const Json spec = format::parse_json(out_spec, "the pytree spec of the pattern's results");
  if (!spec.is_array() || spec.size() != 2 || !spec[1].is_object() || !spec[1].contains("children_spec")) return {};
  const Json& children = spec[1]["children_spec"];
  if (count_leaves(spec[1]) != num_outputs || children.size() < 2 ||
      children.back().value("type", Json()) != "builtins.dict")
    return {};
  const Json& dictionary = children.back();
  if (count_leaves(dictionary) != dictionary["children_spec"].size()) return {};
  const Json keys = format::parse_json(dictionary["context"].get<std::string>(), "the names of the pattern");
  std::vector<std::string> out;
  for (const Json& key : keys) {
    QDQ_CHECK(key.is_string(), kInvalidArgument, "the names that a pattern returns must be texts, found ", key.dump());
    out.push_back(key.get<std::string>());
  }
  return out;
}

}  // namespace

Pattern pattern_of(const Program& program) {
  Pattern out;
  out.graph = program.graph->clone();
  Node* output = out.graph->output_node();
  Argument::List results = output->arg(0).is_list() ? output->arg(0).list() : Argument::List{output->arg(0)};
  const std::vector<std::string> keys = keys_of(program.out_spec, results.size());
  if (keys.empty()) {
    for (const Node* node : out.graph->nodes())
      if (node->op() == Node::Op::kCallFunction || node->op() == Node::Op::kPlaceholder)
        out.names.emplace_back(node->name(), node);
    return out;
  }
  const size_t first = results.size() - keys.size();
  QDQ_CHECK(first > 0, kInvalidArgument, "the pattern returns names only; wanted its results in front of them");
  for (size_t i = 0; i < keys.size(); ++i) {
    QDQ_CHECK(results[first + i].is_node(), kInvalidArgument, "the name '", keys[i],
              "' of the pattern stands for a constant");
    out.names.emplace_back(keys[i], results[first + i].node());
  }
  results.resize(first);
  output->set_args({Argument(std::move(results))});
  return out;
}

}  // namespace qdq
