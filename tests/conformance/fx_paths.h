// How the readers of a case's graph see its values, and how those of a program do.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "conformance/fx_calls.h"

namespace qdq::conformance {

// A value as a reader sees it: where it comes from, and what stands between, nearest to the reader first.
template <class Link> struct Path {
  std::string value;
  std::vector<Link> links;
};

class CasePaths : protected CaseCalls {
 protected:
  using CaseCalls::CaseCalls;

  // The traced nodes that a node of a later graph stands for: itself and those behind that were fused into it.
  std::vector<std::string> fused(const Json& graph, const std::string& name) const {
    std::vector<std::string> out = {name};
    const auto is_there = [&](const Json& node) {
      return std::any_of(graph.begin(), graph.end(),
                         [&](const Json& other) { return other.at("name") == node.at("name"); });
    };
    // A call with two inputs that is fused belongs to the one of them that is given the other.
    const size_t given = is_there({{"name", name}}) ? inputs_of(node_of(graph, name)).size() : 0;
    if (given == 0) return out;
    for (const Json& node : expected_.at("traced")) {
      const std::vector<std::string> inputs = inputs_of(node);
      const bool reads = inputs.size() > 1 && given > 1
                             ? std::find(inputs.begin(), inputs.end(), out.back()) != inputs.end()
                             : inputs.size() == 1 && inputs[0] == out.back();
      if (reads && node.at("op") != "output" && !is_there(node)) out.push_back(node.at("name").get<std::string>());
    }
    return out;
  }

  // The tracer numbers its constants anew whenever it traces a model: the first of a later graph is the first traced.
  std::string traced_name(const Json& graph, const std::string& name) const {
    constexpr std::string_view kConstant = "_tensor_constant";
    if (!name.starts_with(kConstant)) return name;
    const auto constants_of = [&](const Json& nodes) {
      std::vector<std::string> out;
      for (const Json& node : nodes)
        if (const auto of = node.at("name").get<std::string>(); of.starts_with(kConstant)) out.push_back(of);
      return out;
    };
    const std::vector<std::string> here = constants_of(graph), there = constants_of(expected_.at("traced"));
    const auto at = static_cast<size_t>(std::find(here.begin(), here.end(), name) - here.begin());
    return at < there.size() ? there[at] : name;
  }

  // The value of a node of a case's graph by its name here, where batch norms are folded and gone.
  std::string value_of(const Json& graph, const std::string& name) const {
    const std::vector<std::string> names = fused(graph, traced_name(graph, name));
    for (size_t i = names.size(); i-- > 0;)
      if (const auto found = values_.find(names[i]); found != values_.end() && program_->graph->find(found->second))
        return found->second;
    differ("the program has no value for ", name);
  }

  std::vector<const Node*> operators_of(const Json& graph, const std::string& name) const {
    std::vector<const Node*> out;
    for (const std::string& part : fused(graph, name))
      if (const auto call = calls_.find(part); call != calls_.end())
        for (const Node* node : call->second.nodes)
          if (const Node* now = program_->graph->find(node->name())) out.push_back(now);
    return out;
  }

  // A node of a graph that runs nothing and hands on its input, as torchvision's stochastic_depth does in inference
  // form, a function that PyTorch observes on both sides.
  bool hands_on(const Json& node) const {
    const auto name = node.at("name").get<std::string>();
    return node.at("op") == "call_function" && values_.contains(name) && !calls_.contains(name) &&
           node.at("target") != "operator.getitem" && !inputs_of(node).empty();
  }

  // A conversion to the dtype that is there already, which export keeps and others then read in the place of its input.
  static bool changes_nothing(const Node& node) {
    const Node* input = node.is("torch.ops.aten.to.dtype") ? node.arg(0).node() : nullptr;
    return input && input->meta.val.is_tensor() && node.meta.val.is_tensor() &&
           input->meta.val.tensor()->dtype == node.meta.val.tensor()->dtype;
  }

  // Compares how the readers of all values see them. `theirs` and `ours` tell whether a node stands between and is a
  // link; `same` compares two, and the last argument says that the second is seen once more, on the other side of a
  // node that hands on its input.
  template <class Theirs, class Ours, class Same>
  void same_paths(const Json& graph, const Theirs& theirs, const Ours& ours, const Same& same) {
    const std::set<std::string> live = names_that_are_read(graph);
    for (const Json& reader : graph) {
      const auto name = reader.at("name").get<std::string>(), op = reader.at("op").get<std::string>();
      if (op == "placeholder" || op == "get_attr" || theirs(reader)) continue;
      if (op != "output" && !live.contains(name)) continue;
      const bool is_output = op == "output";
      // a quantize, seen from its dequantize
      if (!is_output && !values_.contains(name) && !calls_.contains(name)) continue;
      const std::vector<const Node*> operators =
          is_output ? std::vector<const Node*>{program_->graph->output_node()} : operators_of(graph, name);
      if (operators.empty()) continue;
      for (const std::string& input : inputs_of(reader)) {
        if (const Json& read = node_of(graph, input);
            !theirs(read) && read.at("op") != "placeholder" && !values_.contains(traced_name(graph, input)))
          continue;
        Path<Json> wanted{input, {}};
        std::vector<Json> again;
        bool is_behind = false;
        for (const Json* node = &node_of(graph, wanted.value);; node = &node_of(graph, wanted.value)) {
          const bool is_link = theirs(*node);
          if (!is_link && !hands_on(*node)) break;
          if (is_link) (is_behind ? again : wanted.links).push_back(*node);
          else is_behind = true;
          wanted.value = inputs_of(*node)[0];
          // dequantize(quantize(x))
          if (is_link && node->at("op") == "call_method") wanted.value = inputs_of(node_of(graph, wanted.value))[0];
        }
        if (wanted.links.empty()) wanted.links.swap(again);
        wanted.value = value_of(graph, wanted.value);
        bool found_any = false;
        for (const Node* node : operators)
          for (const Node* given : node->input_nodes()) {
            Path<const Node*> found{"", {}};
            for (;; given = given->arg(0).node()) {
              for (; ours(*given); given = ours(*given)) found.links.push_back(given);
              if (given->name() == wanted.value || !changes_nothing(*given)) break;
            }
            if (given->name() != wanted.value) continue;
            found_any = true;
            const std::string what = concat(name, " reading ", wanted.value);
            if (found.links.size() != wanted.links.size())
              differ(what, ": there are ", found.links.size(), " observers or quantizers between, in PyTorch ",
                     wanted.links.size());
            for (size_t i = 0; i < found.links.size(); ++i) same(what, *found.links[i], wanted.links[i], false);
            for (const Json& link : again)
              if (!found.links.empty()) same(what, *found.links.back(), link, true);
          }
        if (!found_any) differ(name, " does not read ", wanted.value);
      }
    }
  }
};

}  // namespace qdq::conformance
