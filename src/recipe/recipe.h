// Recipes: JSON that says what to quantize and how, for the command line, C++ and JavaScript alike.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/files.h"
#include "format/json_fwd.h"
#include "op/match.h"
#include "quant/quantizer.h"

namespace qdq {

// What a recipe may name besides the quantizers and observers of qdq: the language border puts those written in
// JavaScript here.
struct RecipeExtensions {
  // {"quantizer": "JavaScript", "number": n, "name": text}
  std::function<std::unique_ptr<Quantizer>(int64_t number, const std::string& name)> quantizer;
  // {"observer": {"custom": n}} in a quantization spec, and {"custom": n, "args"?} in a QConfig
  std::function<std::shared_ptr<Observer>(int64_t number, const ObserverArgs& args)> observer;
  // {"rule": {"custom": n}} in a derived spec: from the qparams of its sources, in order
  std::function<QParams(int64_t number, const std::vector<QParams>& sources)> derive;
  // {"filter_function": {"custom": n}}
  std::function<bool(int64_t number, const Node& node)> filter;
};

// The quantizer of a recipe. `what` names it in errors: "recipe.json".
// Throws Error{kInvalidArgument} for an unknown quantizer, field or setting, with the nearest known name.
std::unique_ptr<Quantizer> parse_recipe(const format::Json& recipe, const std::string& what,
                                        const RecipeExtensions& extensions = {});
// The quantizer of a recipe in a file. Throws also what Files::read and parse_json throw.
std::unique_ptr<Quantizer> load_recipe(const std::string& path, Files& files = disk());

// A pattern given as JSON: {"inputs": [name], "nodes": [{"name", "target", "args", "kwargs"?}], "outputs": [name]}.
// Arguments are written as in reports: {"node": name}, {"dtype": "int8"}, {"float": 1}, lists, constants. Every input
// and node goes by its name. Throws Error{kInvalidArgument} for a name that is not there (yet) or is there twice.
Pattern parse_pattern(const format::Json& pattern, const std::string& what);

// Writes annotations given as JSON (the list `annotations` of an AnnotationQuantizer's recipe) on the nodes of the
// graph, in the name of `quantizer`.
// Throws Error{kInvalidArgument} for a node that the graph does not have, or a spec that makes no sense.
void write_annotations(const format::Json& annotations, const std::string& quantizer, Program& program,
                       Annotations& out, const RecipeExtensions& extensions = {});

}  // namespace qdq
