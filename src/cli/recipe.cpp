// `qdq recipe`: a recipe to begin with, and the schema of recipes.
#include <algorithm>

#include "cli/command_line.h"
#include "cli/verbs.h"
#include "format/json.h"
#include "graph/shown_module.h"
#include "io/model.h"
#include "op/facts.h"
#include "quant/pt2e.h"
#include "quant/qat.h"
#include "recipe/recipe_schema.h"

namespace qdq {

namespace {

using format::Json;

void add_once(std::vector<std::string>& list, std::string name) {
  if (std::find(list.begin(), list.end(), name) == list.end()) list.push_back(std::move(name));
}

// "torch.nn.modules.conv.Conv2d" -> "torch.nn.Conv2d", as recipes name classes.
std::string public_class(const std::string& type) {
  return type.starts_with("torch.nn.modules.") ? "torch.nn." + type.substr(type.rfind('.') + 1) : type;
}

// What the sections of a recipe can name in a model.
Json names_in(const Program& program) {
  std::vector<std::string> modules, classes, operators;
  for (const Node* node : program.graph->nodes()) {
    if (node->op() != Node::Op::kCallFunction) continue;
    if (const std::string target(node->target()); space_of(target) == "aten")
      add_once(operators, target.substr(0, target.rfind('.')));
    const std::optional<std::string> path = shown_module(node->meta);
    if (!path || path->empty()) continue;
    add_once(modules, *path);
    if (node->meta.nn_module_stack.empty()) continue;
    const std::string type = public_class(node->meta.nn_module_stack.back().type);
    if (!type.empty()) add_once(classes, type);  // ONNX files of the older exporter know paths alone
  }
  return format::json_object({{"modules", modules}, {"classes of modules", classes}, {"operators", operators}});
}

// What quantize would warn of, such as names that the model does not have.
void warn_of_settings(Program program, Quantizer& quantizer, bool is_qat, Host& host) {
  const Prepared prepared =
      is_qat ? prepare_qat_pt2e(std::move(program), quantizer) : prepare_pt2e(std::move(program), quantizer);
  for (const std::string& warning : prepared.warnings()) host.print_error(concat("qdq: warning: ", warning, "\n"));
}

}  // namespace

void recipe(const RecipeOptions& options, Host& host) {
  if (options.schema) {
    host.print(format::print_json(recipe_schema(), 1) + "\n");
    return;
  }
  const Json given = read_recipe(options.quantizer, host);
  const std::unique_ptr<Quantizer> quantizer = open_recipe(given, options.quantizer);
  Json out = {{"$schema", given.value("$schema", "./recipe.schema.json")}};
  out.update(commented_recipe(given));
  if (!options.model.empty()) {
    Program program = load_model(options.model, host.files, false).program;
    out["$comment"]["names in " + options.model] = names_in(program);
    const bool has_names = !options.quantizer.exclude.empty() || !options.quantizer.recipe.empty();
    if (has_names) warn_of_settings(std::move(program), *quantizer, options.quantizer.qat, host);
  }
  host.print(format::print_json(out, 1) + "\n");
}

void add_recipe(CommandLine& line) {
  const auto options = std::make_shared<RecipeOptions>();
  CLI::App* verb = line.verb("recipe", "print a recipe to start from, with every field explained",
                             "qdq recipe model.onnx >recipe.json", [options](Host& host) { recipe(*options, host); });
  verb->add_option("MODEL", options->model, "a model (.pt2 or .onnx); the recipe lists its modules and operators");
  CLI::Option* runtime = add_quantizer_options(*verb, options->quantizer);
  runtime->excludes(add_qat_option(*verb, options->quantizer));
  CLI::Option* schema =
      verb->add_flag("--schema", options->schema,
                     "print the JSON Schema of recipes instead, which lets editors complete and check them");
  for (const char* other :
       {"--quantizer", "--recipe", "--fx", "--for", "--dynamic", "--weights-only", "--reduce-range", "--equalize",
        "--exclude", "--weight-bits", "--observer", "--group-size", "--activation-bits", "--qat"})
    schema->excludes(verb->get_option(other));
}

}  // namespace qdq
