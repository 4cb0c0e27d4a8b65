// Builds a Program from the JSON and the tensors of a .pt2 file (torch/_export/serde/serialize.py,
// GraphModuleDeserializer).
#include <new>
#include <span>
#include <unordered_map>

#include "format/json.h"
#include "io/pt2.h"
#include "io/pt2_archive.h"
#include "io/pt2_metadata.h"
#include "op/facts.h"
#include "op/functional_write.h"
#include "op/op.h"

namespace qdq {
namespace {

using format::TorchTensor;

constexpr uint64_t kMaxCopiedText = uint64_t{64} << 20;
// Programs within programs: how deep they may go.
constexpr int kMostLevels = 32;

class ProgramReader {
 public:
  explicit ProgramReader(Pt2Archive archive)
      : archive_(std::move(archive)), root_(archive_.program, archive_.program_name + ":") {}
  // Of a graph that is an argument of a node.
  ProgramReader(Place graph, int level) : root_(std::move(graph)), level_(level) {}

  Program read() {
    read_versions();
    const Place module = root_["graph_module"];
    const Place graph = module["graph"];
    const Place signature = module["signature"];
    read_ranges();
    read_values(graph);
    read_inputs(graph["inputs"], signature["input_specs"]);
    const Place nodes = graph["nodes"];
    for (size_t i = 0; i < nodes.size(); ++i) read_node(nodes[i]);
    read_outputs(graph["outputs"], signature["output_specs"]);
    leave_out_answers();
    read_calling_convention(module["module_call_graph"]);
    return std::move(program_);
  }

  // Inputs and outputs of such a graph are its values, without a signature.
  Program read_subgraph() {
    if (level_ > kMostLevels) root_.bad("is a graph within ", kMostLevels, " others");
    read_values(root_);
    const Place inputs = root_["inputs"], outputs = root_["outputs"], nodes = root_["nodes"];
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto [kind, input] = inputs[i].choice();
      const std::optional<Place> name = output_name(kind, input);
      QDQ_CHECK(name, kUnsupported, input.path(), " is a constant input of a graph that is an argument");
      define_input(*name);
    }
    for (size_t i = 0; i < nodes.size(); ++i) read_node(nodes[i]);
    Argument::List results;
    for (size_t i = 0; i < outputs.size(); ++i) results.push_back(argument(outputs[i]));
    graph().create(Node::Op::kOutput, "output", {Argument(std::move(results))}, {}, "output");
    return std::move(program_);
  }

 private:
  Graph& graph() { return *program_.graph; }

  void read_versions() {
    const std::optional<Place> torch_version = root_.find("torch_version");
    if (torch_version) program_.torch_version = torch_version->string();
    const Place version = root_["schema_version"];
    const int64_t major = version["major"].integer();
    QDQ_CHECK(major == kSchemaMajor, kUnsupported, version.path(), ".major is ", major, " (written by PyTorch ",
              torch_version ? program_.torch_version : "of unknown version", "), qdq reads ", kSchemaMajor,
              "; export the model with PyTorch 2.6 or newer");
    const std::optional<Place> verifiers = root_.find("verifiers");
    if (verifiers && verifiers->size() > 0) program_.dialect = (*verifiers)[0].string();
  }

  void read_ranges() {
    const std::optional<Place> ranges = root_.find("range_constraints");
    if (!ranges) return;
    ranges->for_each_member([&](const std::string& symbol, const Place& range) {
      ValueRange& out = program_.symbol_ranges[symbol];
      if (const auto min = range.find("min_val")) out.min = min->integer();
      if (const auto max = range.find("max_val")) out.max = bound(*max);
    });
  }
  // PyTorch's integers have no end: where it computes with its largest size, it writes bounds such as 2^66.
  static std::optional<int64_t> bound(const Place& place) {
    const format::Json& json = place.json();
    const bool is_huge = (json.is_number_float() && json.get<double>() >= 0x1p63) ||
                         (json.is_number_unsigned() && json.get<uint64_t>() > uint64_t{INT64_MAX});
    return is_huge ? std::nullopt : std::optional(place.integer());
  }

  // {"as_int": 3} or {"as_expr": {"expr_str": "Symbol('s0', ...)", "hint": {"as_int": 2}}}
  SymInt sym_int(const Place& place) {
    const auto [kind, value] = place.choice();
    if (kind == "as_int") return value.integer();
    if (kind != "as_expr") value.bad("is not an integer");
    const Place expression = value["expr_str"];
    SymInt out;
    try {
      out = SymInt::parse(expression.string());
    } catch (const Error& error) {
      expression.bad("cannot be read: ", error.message);
    }
    const std::optional<Place> hint = value.find("hint");
    if (!hint || !hint->has("as_int")) return out;
    // The hint of a lone symbol is the symbol's value at export.
    const std::string text = out.to_string();
    if (!out.is_constant() && out == SymInt::symbol(text)) program_.symbol_hints[text] = (*hint)["as_int"].integer();
    return out;
  }

  DType dtype(const Place& place) const {
    const std::optional<DType> out = dtype_from_number(place.integer());
    QDQ_CHECK(out, kUnsupported, place.path(), " is ", place.integer(),
              ", the number of a data type that qdq does not have");
    return *out;
  }

  void check_layout(const Place& place) const {
    QDQ_CHECK(place.integer() == static_cast<int64_t>(Layout::kStrided), kUnsupported, place.path(), " is ",
              place.integer(), "; qdq has dense tensors only (", static_cast<int64_t>(Layout::kStrided), ")");
  }

  TensorMeta tensor_meta(const Place& place) {
    TensorMeta out;
    out.dtype = dtype(place["dtype"]);
    const Place sizes = place["sizes"], strides = place["strides"];
    for (size_t i = 0; i < sizes.size(); ++i) {
      out.sizes.push_back(sym_int(sizes[i]));
      if (out.sizes[i].constant().value_or(0) < 0) sizes[i].bad("is negative");
    }
    for (size_t i = 0; i < strides.size(); ++i) out.strides.push_back(sym_int(strides[i]));
    if (out.strides.size() != out.sizes.size())
      place.bad("has ", out.sizes.size(), " sizes but ", out.strides.size(), " strides");
    try {
      if (out.strides == strides_in_c_order(out.sizes)) out.strides.clear();
    } catch (const Error& error) {
      place.bad("has absurd sizes: ", error.message);
    }
    out.requires_grad = place["requires_grad"].boolean();
    check_layout(place["layout"]);
    return out;
  }

  void read_values(const Place& graph) {
    const auto read = [&](std::string_view field, auto&& meta) {
      const std::optional<Place> values = graph.find(field);
      if (!values) return;
      values->for_each_member([&](const std::string& name, const Place& place) {
        if (!metas_.emplace(name, ValueMeta{meta(place)}).second)
          place.bad("describes a value that has a second description");
      });
    };
    read("tensor_values", [&](const Place& place) { return tensor_meta(place); });
    read("sym_int_values", [&](const Place& place) { return sym_int(place); });
    read("sym_bool_values", [](const Place&) { return false; });
    read("sym_float_values", [](const Place&) { return 0.0; });
  }

  // A name for a node that has none in the file; those that do keep theirs.
  std::string free_name(const std::string& candidate) {
    std::string name = candidate;
    for (int64_t i = 1; metas_.count(name) != 0 || graph().find(name) != nullptr; ++i)
      name = candidate + "_" + std::to_string(i);
    return name;
  }

  void define(const Place& place, const std::string& name, Node* node) {
    const auto meta = metas_.find(name);
    if (meta == metas_.end()) place.bad("defines the value '", name, "', which the file does not describe");
    if (!values_.emplace(name, node).second) place.bad("defines the value '", name, "' a second time");
    node->meta.val = meta->second;
  }

  Node* value(const Place& place) const {
    const auto found = values_.find(place.string());
    if (found == values_.end()) place.bad("names the value '", place.string(), "', which is not defined before");
    return found->second;
  }

  void read_inputs(const Place& inputs, const Place& specs) {
    if (inputs.size() != specs.size())
      specs.bad("has ", specs.size(), " entries, the graph has ", inputs.size(), " inputs");
    for (const bool lifted : {true, false}) {
      for (size_t i = 0; i < specs.size(); ++i) {
        const auto [kind, spec] = specs[i].choice();
        const bool is_user = kind == "user_input" || kind == "constant_input";
        if (is_user != lifted)
          is_user ? read_user_input(kind, spec, inputs[i]) : read_lifted_input(kind, spec, inputs[i]);
      }
    }
  }

  void read_lifted_input(const std::string& kind, const Place& spec, const Place& input) {
    Attribute attribute;
    if (kind == "parameter") {
      attribute.kind = Attribute::Kind::kParameter;
    } else if (kind == "buffer") {
      attribute.persistent = spec["persistent"].boolean();
    } else if (kind == "tensor_constant") {
      attribute.kind = Attribute::Kind::kConstant;
      attribute.persistent = false;
    } else {
      fail(ErrorCode::kUnsupported, spec.path(),
           " is an input of a kind that qdq does not have (a custom object or a token)");
    }
    const Place name = spec[kind + "_name"], argument = spec["arg"]["name"], input_name = input["as_tensor"]["name"];
    attribute.name = name.string();
    if (argument.string() != input_name.string())
      argument.bad("is '", argument.string(), "', the graph's input is '", input_name.string(), "'");
    const bool in_state = kind == "parameter" || attribute.persistent;
    auto& tensors = in_state ? archive_.state : archive_.constants;
    const auto found = tensors.find(attribute.name);
    if (found == tensors.end())
      name.bad("is '", attribute.name, "', but the file has no such tensor among its ",
               in_state ? "parameters and buffers" : "constants");
    attribute.tensor = found->second.tensor;
    attribute.requires_grad = kind == "parameter" && found->second.requires_grad;
    Node* node = graph().get_attr(attribute.name, free_name(node_name_of(attribute.name)));
    define(argument, argument.string(), node);
    const TensorMeta actual = meta_of_tensor(attribute.tensor, attribute.requires_grad);
    const TensorMeta* described = node->meta.val.tensor();
    if (described == nullptr || described->dtype != actual.dtype || described->sizes != actual.sizes)
      name.bad("is '", attribute.name, "', which the graph describes as ",
               described ? concat(to_string(described->dtype), to_string(described->sizes)) : "no tensor",
               ", but the file holds ", to_string(actual.dtype), to_string(actual.sizes));
    node->meta.val.value = actual;
    // PyTorch names a tied weight once for each module that has it.
    const Attribute* same = program_.find_attribute(attribute.name);
    if (same == nullptr) program_.add_attribute(std::move(attribute));
    else if (same->kind != attribute.kind) name.bad("is '", attribute.name, "', an input of another kind too");
  }

  void read_user_input(const std::string& kind, const Place& spec, const Place& input) {
    if (kind == "constant_input") return add_constant_input(spec["name"].string(), spec["value"]);
    const auto [argument_kind, argument] = spec["arg"].choice();
    const auto [input_kind, input_value] = input.choice();
    if (argument_kind != input_kind) argument.bad("is not of the kind of the graph's input, ", input_kind);
    const std::optional<Place> name = output_name(argument_kind, argument);
    if (!name) return add_constant_input("arg_" + std::to_string(user_inputs_), spec["arg"]);
    const std::string& input_name = output_name(input_kind, input_value)->string();
    if (name->string() != input_name) name->bad("is '", name->string(), "', the graph's input is '", input_name, "'");
    define_input(*name);
    ++user_inputs_;
  }

  void define_input(const Place& name) {
    define(name, name.string(), graph().create(Node::Op::kPlaceholder, name.string(), {}, {}, name.string()));
  }

  // {"as_none": true}, {"as_int": 3}, ...
  void add_constant_input(const std::string& name, const Place& value) {
    Argument constant = argument(value);
    if (constant.is_node() || constant.is_list()) value.bad("is not a constant");
    program_.constant_inputs.push_back({user_inputs_++, name, std::move(constant)});
  }

  static double number(const Place& place) { return format::number_of_json(place.json(), place.path()); }

  template <class Element> Argument list(const Place& place, Element&& element) {
    Argument::List out;
    out.reserve(place.size());
    for (size_t i = 0; i < place.size(); ++i) out.push_back(element(place[i]));
    return out;
  }

  // {"as_name": "sym_size"}, {"as_int": 3}, ...
  Argument sym_argument(const Place& place) {
    const auto [kind, v] = place.choice();
    return kind == "as_name" ? Argument(value(v)) : argument(place);
  }

  Argument device(const Place& place) const {
    const std::optional<Place> index = place.find("index");
    return Device{place["type"].string() + (index ? ":" + std::to_string(index->integer()) : "")};
  }

  Argument argument(const Place& place) {
    const auto [kind, v] = place.choice();
    const auto tensor = [&](const Place& p) { return Argument(value(p["name"])); };
    const auto sym = [&](const Place& p) { return sym_argument(p); };
    const auto integer = [](const Place& p) { return Argument(p.integer()); };
    if (kind == "as_none") return {};
    if (kind == "as_tensor") return tensor(v);
    if (kind == "as_int") return v.integer();
    if (kind == "as_float") return number(v);
    if (kind == "as_bool") return v.boolean();
    if (kind == "as_string" || kind == "as_operator") return v.string();
    if (kind == "as_tensors") return list(v, tensor);
    if (kind == "as_ints") return list(v, integer);
    if (kind == "as_floats") return list(v, [&](const Place& p) { return Argument(number(p)); });
    if (kind == "as_bools") return list(v, [](const Place& p) { return Argument(p.boolean()); });
    if (kind == "as_strings") return list(v, [](const Place& p) { return Argument(p.string()); });
    if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool") return sym_argument(v);
    if (kind == "as_sym_ints" || kind == "as_sym_floats" || kind == "as_sym_bools") return list(v, sym);
    if (kind == "as_optional_tensor") return argument(v);
    if (kind == "as_optional_tensors") return list(v, [&](const Place& p) { return argument(p); });
    if (kind == "as_int_lists") return list(v, [&](const Place& p) { return list(p, integer); });
    if (kind == "as_scalar_type") return dtype(v);
    if (kind == "as_layout") return check_layout(v), Layout::kStrided;
    if (kind == "as_device") return device(v);
    if (kind == "as_memory_format") {
      if (v.integer() < 1 || v.integer() > 4) v.bad("is not the number of a memory format");
      return static_cast<MemoryFormat>(v.integer());
    }
    if (kind == "as_graph")
      return std::make_shared<const Program>(ProgramReader(v["graph"], level_ + 1).read_subgraph());
    fail(ErrorCode::kUnsupported, v.path(), " is an argument of a kind that qdq does not have");
  }

  struct Inputs {
    std::vector<Argument> args;
    Node::Kwargs kwargs;
    std::string names;  // of args, where no schema tells them
  };

  // As they stand in the file; a keyword is told by its kind (2), which older files do not have. Arguments of
  // higher-order operators, which have no schema in PyTorch, have no names.
  Inputs inputs_in_file_order(const Place& inputs) {
    Inputs out;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::optional<Place> kind = inputs[i].find("kind");
      const Place name = inputs[i]["name"];
      Argument argument = this->argument(inputs[i]["arg"]);
      if (kind && kind->integer() == 2) {
        out.kwargs.emplace_back(name.string(), std::move(argument));
      } else {
        out.names += (out.args.empty() ? "" : ";") + name.string();
        out.args.push_back(std::move(argument));
      }
    }
    return out;
  }

  Inputs inputs_in_schema_order(const Place& inputs, const OpDef& op) {
    const Schema& schema = *op.schema;
    std::vector<std::optional<Argument>> given(schema.arguments.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Place name = inputs[i]["name"];
      const std::optional<size_t> index = schema.index_of(name.string());
      QDQ_CHECK(index, kUnsupported, name.path(), " is '", name.string(), "', an argument of ", op.target,
                " that qdq does not have");
      if (given[*index]) name.bad("gives the argument '", name.string(), "' of ", op.target, " a second time");
      given[*index] = argument(inputs[i]["arg"]);
    }
    size_t count = schema.num_positional();
    while (count > 0 && !given[count - 1]) --count;
    Inputs out;
    for (size_t i = 0; i < given.size(); ++i) {
      const SchemaArgument& wanted = schema.arguments[i];
      if (!given[i] && !wanted.default_value) inputs.bad("lack the argument '", wanted.name, "' of ", op.target);
      if (wanted.kwarg_only) {
        if (given[i]) out.kwargs.emplace_back(wanted.name, std::move(*given[i]));
      } else if (i < count) {
        out.args.push_back(given[i] ? std::move(*given[i]) : default_of(wanted));
      }
    }
    return out;
  }

  // "int[2] stride=1" means [1, 1].
  static Argument default_of(const SchemaArgument& argument) {
    const Argument& value = *argument.default_value;
    if (!argument.is_list || argument.list_size == 0 || value.is_list() || value.is_none()) return value;
    return Argument::List(static_cast<size_t>(argument.list_size), value);
  }

  void read_node(const Place& place) {
    std::string target = place["target"].string();
    // Python's own module is called _operator, everybody calls it operator.
    if (target.starts_with("_operator.")) target.erase(0, 1);
    if (const std::string_view view = view_of_in_place(target); !view.empty()) target = view;
    const bool has_schema = !space_of(target).empty();
    const OpDef* op = has_schema ? find_op(target) : nullptr;
    const Place inputs_place = place["inputs"], outputs = place["outputs"];
    const bool by_name = op && space_of(target) != "higher_order";
    Inputs inputs = by_name ? inputs_in_schema_order(inputs_place, *op) : inputs_in_file_order(inputs_place);
    if (const std::optional<size_t> body = body_that_runs_once(target, inputs)) {
      const Program& inner = *inputs.args[*body].as<Subprogram>();
      return inline_graph(inner, std::span(inputs.args).subspan(*body + 1), inputs_place, outputs);
    }
    NodeMeta meta;
    if (const auto metadata = place.find("metadata")) meta = read_node_metadata(*metadata);
    if (has_schema && !op) meta.extra.emplace_back(kInputNames, inputs.names);
    const std::optional<Place> single = single_result(outputs);
    std::string name = single ? single->string() : unnamed(place, target);
    Node* node = graph().call(std::move(target), std::move(inputs.args), std::move(inputs.kwargs), std::move(name));
    node->meta = std::move(meta);
    if (single) define(*single, single->string(), node);
    else if (outputs.size() > 0) read_results(outputs, node);
  }

  // torch.no_grad() and the like within forward: (enabled, body, ...), which inference needs not know of. So is
  // torch.autocast(device_type, dtype, enabled, cache_enabled, body, ...), for torch.export records its values in the
  // dtypes that they have without it.
  static std::optional<size_t> body_that_runs_once(const std::string& target, const Inputs& inputs) {
    std::optional<size_t> body;
    const std::string_view name = short_name(target);
    if (name == "higher_order.wrap_with_set_grad_enabled") body = 1;
    if (name == "higher_order.wrap_with_autocast") body = 4;
    return body && *body < inputs.args.size() && inputs.args[*body].is<Subprogram>() ? body : std::nullopt;
  }

  // The nodes of a graph in the place of a node that runs it once.
  void inline_graph(const Program& inner, std::span<const Argument> given, const Place& inputs, const Place& outputs) {
    const Argument::List& results = inner.graph->output_node()->arg(0).list();
    std::vector<Place> names;
    const auto add = [&](const Place& output) {
      const auto [kind, value] = output.choice();
      const std::optional<Place> name = output_name(kind, value);
      if (name) names.push_back(*name);
      else if (kind != "as_tensors") value.bad("is a result of a kind that its graph does not give");
      else
        for (size_t i = 0; i < value.size(); ++i) names.push_back(value[i]["name"]);
    };
    for (size_t i = 0; i < outputs.size(); ++i) add(outputs[i]);
    if (names.size() != results.size()) outputs.bad("are ", names.size(), " values, the graph gives ", results.size());
    std::unordered_map<const Node*, std::string> wanted;  // of what is a result: its name outside
    for (size_t i = 0; i < names.size(); ++i)
      if (const Node* result = results[i].node()) wanted.emplace(result, names[i].string());
    std::unordered_map<const Node*, Node*> copies;
    for (const Node* node : inner.graph->nodes()) {
      if (node->op() == Node::Op::kOutput) continue;
      if (node->op() == Node::Op::kPlaceholder) {
        const Node* value = copies.size() < given.size() ? given[copies.size()].node() : nullptr;
        if (value == nullptr) inputs.bad("give the graph ", given.size(), " arguments, wanted a value for each input");
        copies.emplace(node, const_cast<Node*>(value));
        continue;
      }
      const auto copy = [&](const Argument& argument) {
        return argument.map_nodes([&](Node* used) { return copies.at(used); });
      };
      std::vector<Argument> args;
      for (const Argument& argument : node->args()) args.push_back(copy(argument));
      Node::Kwargs kwargs;
      for (const auto& [name, argument] : node->kwargs()) kwargs.emplace_back(name, copy(argument));
      Node* made = graph().call(node->target(), std::move(args), std::move(kwargs),
                                wanted.contains(node) ? wanted[node] : free_name(node->name()));
      made->meta = node->meta;
      copies.emplace(node, made);
    }
    for (size_t i = 0; i < names.size(); ++i) {
      if (!results[i].is_node()) names[i].bad("is a constant of the graph");
      if (!values_.emplace(names[i].string(), copies.at(results[i].node())).second)
        names[i].bad("defines the value '", names[i].string(), "' a second time");
    }
  }

  // A node with several results is not named by older files; PyTorch then names it after its target.
  std::string unnamed(const Place& place, const std::string& target) {
    const std::optional<Place> name = place.find("name");
    if (name && !name->string().empty()) return free_name(name->string());
    if (space_of(target) == "higher_order") return free_name(std::string(local_name(target)));  // without overloads
    const size_t overload = target.rfind('.');
    const size_t packet =
        overload == std::string::npos || overload == 0 ? std::string::npos : target.rfind('.', overload - 1);
    return free_name(node_name_of(packet == std::string::npos ? target : target.substr(packet + 1)));
  }

  // The name of the value, if the outputs are one value.
  std::optional<Place> single_result(const Place& outputs) const {
    if (outputs.size() != 1) return std::nullopt;
    const auto [kind, output] = outputs[0].choice();
    return output_name(kind, output);
  }

  std::optional<Place> output_name(const std::string& kind, const Place& output) const {
    if (kind == "as_tensor") return output["name"];
    if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool") return output["as_name"];
    return std::nullopt;
  }

  // Several results are a list whose elements getitem nodes take out.
  void read_results(const Place& outputs, Node* node) {
    // Every getitem node gets a copy of the metadata.
    uint64_t text = 0;
    for (const auto& [key, value] : node_metadata(node->meta)) text += value.size();
    const auto [kind, output] = outputs[0].choice();
    const bool is_list = outputs.size() == 1 && kind == "as_tensors";
    const Place& elements = is_list ? output : outputs;
    QDQ_CHECK(text * elements.size() <= kMaxCopiedText, kUnsupported, elements.path(), " has ", elements.size(),
              " results, too many for metadata of ", text, " bytes each");
    node->meta.val.value = read_elements(elements, node, is_list);
  }

  std::vector<ValueMeta> read_elements(const Place& elements, Node* node, bool are_tensors) {
    std::vector<ValueMeta> metas;
    for (size_t i = 0; i < elements.size(); ++i) {
      const auto getitem = [&](std::string name) {
        Node* item = graph().call("operator.getitem", {node, static_cast<int64_t>(i)}, {}, std::move(name));
        item->meta = node->meta;
        return item;
      };
      if (are_tensors) {
        const Place name = elements[i]["name"];
        Node* item = getitem(name.string());
        define(name, name.string(), item);
        metas.push_back(item->meta.val);
        continue;
      }
      const auto [kind, output] = elements[i].choice();
      if (const auto name = output_name(kind, output)) {
        Node* item = getitem(name->string());
        define(*name, name->string(), item);
        metas.push_back(item->meta.val);
      } else if (kind == "as_tensors") {
        Node* item = getitem(free_name("getitem"));
        item->meta.val.value = read_elements(output, item, true);
        metas.push_back(item->meta.val);
      } else if (kind == "as_none") {
        metas.emplace_back();
      } else {
        fail(ErrorCode::kUnsupported, output.path(), " is a result of a kind that qdq does not have");
      }
    }
    return metas;
  }

  void read_outputs(const Place& outputs, const Place& specs) {
    if (outputs.size() != specs.size())
      specs.bad("has ", specs.size(), " entries, the graph has ", outputs.size(), " outputs");
    Argument::List results;
    for (size_t i = 0; i < specs.size(); ++i) {
      const auto [kind, spec] = specs[i].choice();
      Argument result = argument(outputs[i]);
      if (kind == "buffer_mutation") {
        const Place buffer = spec["buffer_name"];
        const Attribute* found = program_.find_attribute(buffer.string());
        if (found == nullptr || found->kind != Attribute::Kind::kBuffer)
          buffer.bad("is '", buffer.string(), "', which is not a buffer of the program");
        if (!result.is_node() || value(spec["arg"]["name"]) != result.node())
          spec.bad("does not name the graph's output");
        program_.buffer_mutations.push_back({result.node()->name(), buffer.string()});
      } else if (kind == "user_output") {
        const Argument specified = argument(spec["arg"]);
        if (specified.node() != result.node()) spec.bad("does not name the graph's output");
        results.push_back(std::move(result));
      } else {
        fail(ErrorCode::kUnsupported, spec.path(),
             " is an output of a kind that qdq does not have (a changed input, a loss or a gradient)");
      }
    }
    graph().create(Node::Op::kOutput, "output", {Argument(std::move(results))}, {}, "output");
  }

  // What the model asked PyTorch while it was exported, such as whether a mask allows a nested tensor, stays in the
  // graph though nobody reads it. qdq need not have such an operator.
  void leave_out_answers() {
    const std::vector<BufferMutation>& written = program_.buffer_mutations;
    for (Node* node = graph().last(); node != nullptr;) {
      Node* before = node->prev();
      const bool is_unknown = node->op() == Node::Op::kCallFunction && space_of(node->target()) == "aten" &&
                              !base_name(node->target()).ends_with("_") && find_op(node->target()) == nullptr;
      if (is_unknown && node->users().empty() &&
          std::none_of(written.begin(), written.end(), [&](const auto& each) { return each.node == node->name(); }))
        graph().erase(node);
      node = before;
    }
  }

  void read_calling_convention(const Place& calls) {
    for (size_t i = 0; i < calls.size(); ++i) {
      const std::optional<Place> signature = calls[i].find("signature");
      if (!signature || !calls[i]["fqn"].string().empty()) continue;
      program_.in_spec = (*signature)["in_spec"].string();
      program_.out_spec = (*signature)["out_spec"].string();
      if (const auto names = signature->find("forward_arg_names"))
        for (size_t j = 0; j < names->size(); ++j) program_.forward_arg_names.push_back((*names)[j].string());
    }
  }

  Pt2Archive archive_;
  Place root_;
  int level_ = 0;
  Program program_;
  size_t user_inputs_ = 0;
  std::unordered_map<std::string, ValueMeta> metas_;
  std::unordered_map<std::string, Node*> values_;  // by their names in the file
};

}  // namespace

Program load_pt2(std::span<const std::byte> bytes) { return load_pt2(std::make_shared<format::MemorySource>(bytes)); }

Program load_pt2(std::shared_ptr<const format::ByteSource> source) {
  try {
    return ProgramReader(read_pt2_archive(source)).read();
  } catch (const std::bad_alloc&) {
    fail(ErrorCode::kOutOfMemory, "the .pt2 file of ", source->size(),
         " bytes does not fit into memory when it is read");
  }
}

}  // namespace qdq
