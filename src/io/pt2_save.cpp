// Writes a Program as a .pt2 file (torch/_export/serde/serialize.py, GraphModuleSerializer).
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/stable_sort.h"
#include "format/zip.h"
#include "io/pt2.h"
#include "io/pt2_archive.h"
#include "io/pt2_control.h"
#include "io/pt2_metadata.h"
#include "io/pt2_names.h"
#include "io/pt2_symbols.h"
#include "io/pytree.h"
#include "op/control_flow.h"
#include "op/facts.h"
#include "op/op.h"
#include "op/targets.h"

namespace qdq {
namespace {

using format::append_field;
using format::Json;
using format::TorchTensor;

// PyTorch's, as of the version whose schema is written.
constexpr std::string_view kTorchVersion = "2.6.0";
constexpr int64_t kAtenOpset = 10;

Json tagged(std::string_view kind, Json value) {
  Json out = Json::object();
  out[std::string(kind)] = std::move(value);
  return out;
}
Json as_name(std::string_view kind, const std::string& name) { return tagged(kind, tagged("as_name", name)); }
Json as_tensor(const std::string& name) { return tagged("as_tensor", tagged("name", name)); }

[[noreturn]] void refuse_to_save(const Node& node, const std::string& why) {
  throw Error(ErrorCode::kUnsupported, "node " + node.name() + " cannot be written to a .pt2 file: " + why, node.name(),
              node.target());
}

// Whether a file can tell of the node's results without inference.
bool has_value(const Node& node) {
  if (node.op() != Node::Op::kCallFunction || !std::holds_alternative<std::monostate>(node.meta.val.value)) return true;
  const OpDef* op = find_op(node.target());
  return op == nullptr ? find_mark(node.meta, kInputNames) != nullptr
                       : op->schema->num_returns == 0 && !op->schema->returns_list;
}

class ProgramWriter {
 public:
  // `hints`: the values of symbols at export; `around`: the call that runs the program, if one does.
  ProgramWriter(const Program& program, const std::map<std::string, int64_t>& hints, const Enclosing* around = nullptr)
      : program_(program), hints_(hints), around_(around), attribute_names_(pt2_attribute_names(program)) {}

  format::Parts write() {
    for (const Node* node : program_.graph->nodes()) taken_.insert(node->name());
    write_lifted_inputs();
    for (const Node* node : program_.graph->nodes()) {
      if (node->op() == Node::Op::kPlaceholder) write_user_input(*node);
      else if (node->op() == Node::Op::kCallFunction) write_node(*node);
      else if (node->op() == Node::Op::kCallModule)
        refuse_to_save(*node, "it calls the module '" + node->target() + "'; convert the program first");
    }
    write_constant_inputs(true);
    write_outputs();
    format::ZipWriter zip;
    const std::string exported = format::print_json(exported_program());
    zip.add_deflated(kProgramMember, format::bytes_of(exported));
    zip.add_parts(kStateMember, format::torch_file_parts(state_));
    zip.add_parts(kConstantsMember, format::torch_file_parts(constants_));
    zip.add(kExampleInputsMember, {});
    zip.add(kVersionMember, format::bytes_of(concat(kSchemaMajor, ".", kSchemaMinor)));
    return zip.finish_parts();
  }

 private:
  std::string free_name(const std::string& candidate) {
    std::string name = candidate;
    for (int64_t i = 1; !taken_.insert(name).second; ++i) name = candidate + "_" + std::to_string(i);
    return name;
  }

  // Parameters, buffers, constants, as PyTorch orders them; an attribute that is only written to comes last of its
  // kind.
  void write_lifted_inputs() {
    struct Lifted {
      const Attribute* attribute;
      const Node* node;
    };
    std::unordered_map<std::string, const Attribute*> attributes;
    for (const Attribute& attribute : program_.attributes) attributes.emplace(attribute.name, &attribute);
    std::vector<Lifted> lifted;
    for (const Node* node : program_.graph->nodes())
      if (node->op() == Node::Op::kGetAttr) lifted.push_back({attributes.at(node->target()), node});
    for (const BufferMutation& mutation : program_.buffer_mutations) {
      const Attribute* attribute = attributes.at(mutation.buffer);
      if (std::none_of(lifted.begin(), lifted.end(), [&](const Lifted& l) { return l.attribute == attribute; }))
        lifted.push_back({attribute, nullptr});
    }
    sort_stably(lifted, [](const Lifted& a, const Lifted& b) { return a.attribute->kind < b.attribute->kind; });
    std::unordered_set<const Attribute*> written;
    for (const auto& [attribute, node] : lifted) {
      const std::string name = write_lifted_input(*attribute);
      if (node != nullptr) names_[node] = name;
      if (written.insert(attribute).second) add_tensor(*attribute);
    }
  }

  std::string write_lifted_input(const Attribute& attribute) {
    using Kind = Attribute::Kind;
    QDQ_CHECK(attribute.tensor.defined(), kInvalidArgument, "the attribute '", attribute.name, "' has no tensor");
    const std::string kind = attribute.kind == Kind::kParameter ? "parameter"
                             : attribute.kind == Kind::kBuffer  ? "buffer"
                                                                : "tensor_constant";
    // p_, b_ and c_ are PyTorch's prefixes (torch/_export/utils.py, placeholder_prefixes).
    const std::string prefix = attribute.kind == Kind::kParameter ? "p_"
                               : attribute.kind == Kind::kBuffer  ? "b_"
                                                                  : "c_";
    const std::string name = free_name(prefix + node_name_of(attribute.name));
    Json spec = tagged("arg", tagged("name", name));
    spec[kind + "_name"] = attribute_names_.at(attribute.name);
    if (attribute.kind == Kind::kBuffer) spec["persistent"] = attribute.persistent;
    input_specs_.push_back(tagged(kind, std::move(spec)));
    inputs_.push_back(as_tensor(name));
    add_tensor_value(name, meta_of_tensor(attribute.tensor, requires_grad(attribute)));
    return name;
  }

  static bool requires_grad(const Attribute& attribute) {
    return attribute.kind == Attribute::Kind::kParameter && attribute.requires_grad &&
           is_floating(attribute.tensor.dtype());
  }

  void add_tensor(const Attribute& attribute) {
    const bool is_parameter = attribute.kind == Attribute::Kind::kParameter;
    const bool in_state = is_parameter || (attribute.kind == Attribute::Kind::kBuffer && attribute.persistent);
    (in_state ? state_ : constants_)
        .push_back({attribute_names_.at(attribute.name), attribute.tensor, is_parameter, requires_grad(attribute)});
  }

  void write_user_input(const Node& node) {
    write_constant_inputs(false);
    if (std::holds_alternative<std::monostate>(node.meta.val.value))
      refuse_to_save(node, "nothing is known of this input; its dtype and sizes are needed");
    names_[&node] = node.name();
    inputs_.push_back(add_value(node, node.name(), node.meta.val));
    input_specs_.push_back(tagged("user_input", tagged("arg", inputs_.back())));
    ++user_inputs_;
  }

  // Those whose turn it is, or all that are left.
  void write_constant_inputs(bool all) {
    const std::vector<ConstantInput>& constants = program_.constant_inputs;
    for (; constant_inputs_ < constants.size() && (all || constants[constant_inputs_].position <= user_inputs_);
         ++constant_inputs_, ++user_inputs_) {
      const ConstantInput& constant = constants[constant_inputs_];
      Json spec = tagged("name", free_name(constant.name));
      inputs_.push_back(spec["value"] = argument(*program_.graph->output_node(), constant.value, nullptr));
      input_specs_.push_back(tagged("constant_input", std::move(spec)));
    }
  }

  Json sym_int(const SymInt& value) const {
    if (const auto constant = value.constant()) return tagged("as_int", *constant);
    Json expression = tagged("expr_str", value.to_srepr());
    if (const auto hint = pt2_hint_of(value, hints_)) expression["hint"] = tagged("as_int", *hint);
    return tagged("as_expr", std::move(expression));
  }

  Json sym_ints(const SymShape& shape) const {
    Json out = Json::array();
    for (const SymInt& size : shape) out.push_back(sym_int(size));
    return out;
  }

  // The number of a dtype in torch.export's schema. Throws Error{kUnsupported} for those that PyTorch 2.6 has none for.
  static int number_of(DType dtype) {
    const auto number = static_cast<int>(dtype);
    constexpr int kLast = static_cast<int>(DType::kU16);
    QDQ_CHECK(number <= kLast, kUnsupported, "torch.export of PyTorch 2.6 has no number for the dtype ",
              to_string(dtype), ", so a .pt2 file cannot have it; write an ONNX file");
    return number;
  }

  void add_tensor_value(const std::string& name, const TensorMeta& meta) {
    Json out = Json::object();
    out["dtype"] = number_of(meta.dtype);
    out["sizes"] = sym_ints(meta.sizes);
    out["requires_grad"] = meta.requires_grad;
    out["device"] = tagged("type", "cpu");
    out["strides"] = sym_ints(meta.strides.empty() ? strides_in_c_order(meta.sizes) : meta.strides);
    out["storage_offset"] = tagged("as_int", 0);
    out["layout"] = static_cast<int>(Layout::kStrided);
    append_field(tensor_values_, name, std::move(out));
  }

  // Describes a value and returns the argument that defines it.
  Json add_value(const Node& node, const std::string& name, const ValueMeta& meta) {
    if (const TensorMeta* tensor = meta.tensor()) {
      add_tensor_value(name, *tensor);
      return as_tensor(name);
    }
    if (const SymInt* integer = std::get_if<SymInt>(&meta.value)) {
      append_field(sym_int_values_, name, sym_int(*integer));
      return as_name("as_sym_int", name);
    }
    if (const double* number = std::get_if<double>(&meta.value)) {
      append_field(sym_float_values_, name, tagged("as_float", *number));
      return as_name("as_sym_float", name);
    }
    if (const bool* boolean = std::get_if<bool>(&meta.value)) {
      append_field(sym_bool_values_, name, tagged("as_bool", *boolean));
      return as_name("as_sym_bool", name);
    }
    const std::string fixes = node.is(op::kCond) ? fixes_of(*node.arg(0).node(), around_) : "";
    refuse_to_save(
        node, concat("nothing is known of its result '", name, "', and the file tells how many axes each has",
                     fixes.empty() ? "" : "; it branches on what hangs on inputs: read the ONNX model with", fixes));
  }

  const std::string& name_of(const Node& user, const Node* value) const {
    const auto found = names_.find(value);
    if (found == names_.end()) refuse_to_save(user, "it uses the list " + value->name() + " as a whole");
    return found->second;
  }

  Json node_argument(const Node& user, const Node* value) const {
    const std::string& name = name_of(user, value);
    const auto& meta = value->meta.val.value;
    if (std::holds_alternative<SymInt>(meta)) return as_name("as_sym_int", name);
    if (std::holds_alternative<double>(meta)) return as_name("as_sym_float", name);
    if (std::holds_alternative<bool>(meta)) return as_name("as_sym_bool", name);
    return as_tensor(name);
  }

  Json argument(const Node& user, const Argument& value, const SchemaArgument* schema) const {
    if (value.is_none()) return tagged("as_none", true);
    if (value.is_node()) return node_argument(user, value.node());
    if (value.is<bool>()) return tagged("as_bool", value.as<bool>());
    if (value.is<int64_t>()) return tagged("as_int", value.as<int64_t>());
    if (value.is<double>()) return tagged("as_float", value.as<double>());
    if (value.is<std::string>()) return tagged("as_string", value.as<std::string>());
    if (value.is<DType>()) return tagged("as_scalar_type", number_of(value.as<DType>()));
    if (value.is<MemoryFormat>()) return tagged("as_memory_format", static_cast<int>(value.as<MemoryFormat>()));
    if (value.is<Layout>()) return tagged("as_layout", static_cast<int>(value.as<Layout>()));
    if (value.is<Device>()) return tagged("as_device", device(value.as<Device>()));
    if (value.is<Subprogram>()) return subgraph(user, value);
    return list(user, value.list(), schema);
  }

  // A program as an argument: {"as_graph": {"name": ..., "graph": ...}}. PyTorch makes it a module of this name.
  Json subgraph(const Node& user, const Argument& value) const {
    const size_t place =
        static_cast<size_t>(std::find(user.args().begin(), user.args().end(), value) - user.args().begin());
    const bool is_condition = user.is(op::kWhileLoop) && place == 0;
    const std::string role = user.is(op::kCond)   ? (place == 1 ? "true" : "false")
                             : user.is(op::kScan) ? "scan_combine"
                             : is_condition       ? "while_loop_cond"
                                                  : "body";
    Json out = tagged("name", concat(role, "_graph_", user.name()));
    const Enclosing around{&user, around_};
    ProgramWriter writer(*value.as<Subprogram>(), hints_, &around);
    out["graph"] = writer.graph_alone(is_condition);
    return tagged("as_graph", std::move(out));
  }

  Json graph_alone(bool is_single_tensor_return) {
    for (const Node* node : program_.graph->nodes()) taken_.insert(node->name());
    for (const Node* node : program_.graph->nodes()) {
      if (node->op() == Node::Op::kPlaceholder) {
        names_[node] = node->name();
        inputs_.push_back(add_value(*node, node->name(), node->meta.val));
      } else if (node->op() == Node::Op::kCallFunction) {
        write_node(*node);
      } else if (node->op() == Node::Op::kOutput) {
        for (const Argument& result : node->arg(0).list()) outputs_.push_back(argument(*node, result, nullptr));
      } else {
        refuse_to_save(*node, "it stands in a program within the program");
      }
    }
    return graph(is_single_tensor_return);
  }

  // "cuda:0" is {"type": "cuda", "index": 0}.
  static Json device(const Device& value) {
    const size_t colon = value.name.find(':');
    Json out = tagged("type", value.name.substr(0, colon));
    if (colon != std::string::npos) out["index"] = std::atoi(value.name.c_str() + colon + 1);
    return out;
  }

  static std::string_view kind_of_empty(const SchemaArgument* schema) {
    const std::string_view type = schema ? std::string_view(schema->type) : "";
    if (type == "bool") return "as_bools";
    if (type == "float") return "as_floats";
    if (type == "str") return "as_strings";
    if (type == "int" || type == "SymInt" || type == "Scalar") return "as_ints";
    return "as_tensors";
  }

  // PyTorch's order of trial (serialize_input): constants of one type, symbolic numbers among them, tensors, tensors
  // with gaps.
  Json list(const Node& user, const Argument::List& values, const SchemaArgument* schema) const {
    const auto all = [&](const auto& test) { return std::all_of(values.begin(), values.end(), test); };
    const auto each = [&](std::string_view kind, const auto& element) {
      Json out = Json::array();
      for (const Argument& value : values) out.push_back(element(value));
      return tagged(kind, std::move(out));
    };
    // {"as_name": ...} for a node, else {"as_int": ...}
    const auto symbolic = [&](const Argument& value) {
      return value.is_node() ? tagged("as_name", name_of(user, value.node())) : argument(user, value, nullptr);
    };
    const auto tensor = [&](const Argument& value) { return tagged("name", name_of(user, value.node())); };
    const auto is_value = [](const Argument& value, const auto type) {
      using T = std::decay_t<decltype(type)>;
      return value.is_node() && std::holds_alternative<T>(value.node()->meta.val.value);
    };
    if (values.empty()) return tagged(kind_of_empty(schema), Json::array());
    if (all([](const Argument& v) { return v.is<bool>(); }))
      return each("as_bools", [](const Argument& v) { return v.as<bool>(); });
    if (all([](const Argument& v) { return v.is<int64_t>(); }))
      return each("as_ints", [](const Argument& v) { return v.as<int64_t>(); });
    if (all([](const Argument& v) { return v.is<int64_t>() || v.is<double>(); }))
      return each("as_floats", [](const Argument& v) { return *v.number(); });
    if (all([](const Argument& v) { return v.is<std::string>(); }))
      return each("as_strings", [](const Argument& v) { return v.as<std::string>(); });
    if (all([&](const Argument& v) { return v.is<int64_t>() || is_value(v, SymInt()); }))
      return each("as_sym_ints", symbolic);
    if (all([&](const Argument& v) { return v.is<double>() || is_value(v, 0.0); }))
      return each("as_sym_floats", symbolic);
    if (all([&](const Argument& v) { return v.is<bool>() || is_value(v, false); }))
      return each("as_sym_bools", symbolic);
    if (all([](const Argument& v) { return v.is_node(); })) return each("as_tensors", tensor);
    if (all([](const Argument& v) { return v.is_node() || v.is_none(); }))
      return each("as_optional_tensors", [&](const Argument& v) {
        return v.is_none() ? tagged("as_none", true) : tagged("as_tensor", tensor(v));
      });
    refuse_to_save(user, "the list " + to_text(Argument(values)) + " has elements that do not go together");
  }

  static bool is_higher_order(const Node& node) { return space_of(node.target()) == "higher_order"; }

  // Of an operator without a schema: as the file had them, or those of Python's functions on numbers.
  static std::vector<std::string> names_of_inputs(const Node& node) {
    if (space_of(node.target()).empty()) return {"a", "b"};
    const std::string* names = find_mark(node.meta, kInputNames);
    std::vector<std::string> out;
    for (size_t begin = 0; names != nullptr && begin <= names->size();) {
      const size_t end = std::min(names->find(';', begin), names->size());
      out.push_back(names->substr(begin, end - begin));
      begin = end + 1;
    }
    return out;
  }

  Json node_inputs(const Node& node, const OpDef* op) const {
    Json out = Json::array();
    const auto add = [&](const std::string& name, const Argument& value, const SchemaArgument* schema) {
      Json input = tagged("name", name);
      input["arg"] = argument(node, value, schema);
      out.push_back(std::move(input));
    };
    if (op == nullptr) {
      const std::vector<std::string> names = names_of_inputs(node);
      if (node.args().size() > names.size())
        refuse_to_save(
            node, "qdq does not have " + node.target() +
                      " and so does not know the names of its arguments; bring it by register_operator, or write an "
                      ".onnx file");
      for (size_t i = 0; i < node.args().size(); ++i) add(names[i], node.args()[i], nullptr);
      for (const auto& [name, value] : node.kwargs()) add(name, value, nullptr);
      return out;
    }
    if (is_higher_order(node)) {  // without names; the first one names an operator
      for (const Argument& value : node.args()) add("", value, nullptr);
      if (!out.empty() && node.arg(0).is<std::string>())
        out[0]["arg"] = tagged("as_operator", node.arg(0).as<std::string>());
      return out;
    }
    const Schema& schema = *op->schema;
    if (node.args().size() > schema.num_positional())
      refuse_to_save(node, "it has more arguments than " + node.target() + " takes");
    for (size_t i = 0; i < schema.arguments.size(); ++i) {
      const SchemaArgument& wanted = schema.arguments[i];
      const Argument* value = i < node.args().size() ? &node.args()[i] : node.kwarg(wanted.name);
      if (value != nullptr) add(wanted.name, *value, &wanted);
    }
    return out;
  }

  // The names of the elements of a list that a node returns: those of the getitem nodes that take them out.
  std::vector<const Node*> getitems(const Node& node, size_t count) {
    std::vector<const Node*> out(count, nullptr);
    for (const Node* user : node.users()) {
      if (!user->is(op::kGetItem)) refuse_to_save(*user, "it uses the list " + node.name() + " as a whole");
      const std::optional<int64_t> index = user->arg(1).integer();
      if (!index || *index < 0 || static_cast<size_t>(*index) >= count)
        refuse_to_save(
            *user, "it takes an element that " + node.name() + " does not have (it has " + std::to_string(count) + ")");
      const Node*& first = out[static_cast<size_t>(*index)];
      if (first == nullptr) first = user;
      else copies_[first].push_back(user);
    }
    return out;
  }

  Json write_elements(const Node& node, const std::vector<ValueMeta>& metas, bool are_tensors) {
    const std::vector<const Node*> items = getitems(node, metas.size());
    Json out = Json::array();
    for (size_t i = 0; i < metas.size(); ++i) {
      if (const auto* nested = std::get_if<std::vector<ValueMeta>>(&metas[i].value)) {
        if (are_tensors || items[i] == nullptr)
          refuse_to_save(node, "its result " + std::to_string(i) + " is a list that nobody takes apart");
        out.push_back(tagged("as_tensors", write_elements(*items[i], *nested, true)));
        continue;
      }
      if (std::holds_alternative<std::monostate>(metas[i].value) && items[i] == nullptr && !are_tensors) {
        out.push_back(tagged("as_none", true));
        continue;
      }
      const std::string name = items[i] ? items[i]->name() : free_name(node.name() + "_unused_" + std::to_string(i));
      if (items[i] != nullptr) {
        names_[items[i]] = name;
        for (const Node* copy : copies_[items[i]]) names_[copy] = name;
      }
      Json value = add_value(node, name, metas[i]);
      out.push_back(are_tensors ? value["as_tensor"] : std::move(value));
    }
    return out;
  }

  Json node_outputs(const Node& node, const OpDef* op) {
    Json out = Json::array();
    if (const auto* metas = std::get_if<std::vector<ValueMeta>>(&node.meta.val.value)) {
      // Higher-order operators have no schema in PyTorch.
      const bool is_list = op != nullptr && !is_higher_order(node) ? op->schema->returns_list : metas->size() == 1;
      Json elements = write_elements(node, *metas, is_list);
      if (is_list) out.push_back(tagged("as_tensors", std::move(elements)));
      else out = std::move(elements);
      return out;
    }
    if (std::holds_alternative<std::monostate>(node.meta.val.value) && has_value(node)) return out;
    names_[&node] = node.name();
    out.push_back(add_value(node, node.name(), node.meta.val));
    return out;
  }

  void write_node(const Node& node) {
    if (node.is(op::kGetItem)) return;
    const OpDef* op = space_of(node.target()).empty() ? nullptr : find_op(node.target());
    Json out = Json::object();
    out["target"] = (node.target().starts_with("operator.") ? "_" : "") + node.target();
    out["inputs"] = node_inputs(node, op);
    out["outputs"] = node_outputs(node, op);
    Json& metadata = out["metadata"] = Json::object();
    for (auto& [key, text] : node_metadata(node.meta)) metadata[key] = std::move(text);
    nodes_.push_back(std::move(out));
  }

  void write_outputs() {
    for (const BufferMutation& mutation : program_.buffer_mutations) {
      const std::string& name = name_of(*program_.graph->output_node(), program_.graph->find(mutation.node));
      Json spec = tagged("arg", tagged("name", name));
      spec["buffer_name"] = attribute_names_.at(mutation.buffer);
      output_specs_.push_back(tagged("buffer_mutation", std::move(spec)));
      outputs_.push_back(as_tensor(name));
    }
    const Node& output = *program_.graph->output_node();
    const Argument::List single{output.arg(0)};
    const Argument::List& results = output.arg(0).is_list() ? output.arg(0).list() : single;
    for (const Argument& result : results) {
      if (result.is_list()) refuse_to_save(output, "an output is a list; outputs are flat");
      outputs_.push_back(argument(output, result, nullptr));
      output_specs_.push_back(tagged("user_output", tagged("arg", outputs_.back())));
    }
    user_outputs_ = results.size();
  }

  Json module_call_graph() const {
    Json signature = Json::object();
    signature["inputs"] = Json::array();
    signature["outputs"] = Json::array();
    const bool has_in_spec = spec_has_leaves(program_.in_spec, user_inputs_);
    signature["in_spec"] = has_in_spec ? program_.in_spec : flat_in_spec(user_inputs_);
    signature["out_spec"] =
        spec_has_leaves(program_.out_spec, user_outputs_) ? program_.out_spec : flat_out_spec(user_outputs_);
    if (has_in_spec && !program_.forward_arg_names.empty()) signature["forward_arg_names"] = program_.forward_arg_names;
    Json root = tagged("fqn", "");
    root["signature"] = std::move(signature);
    Json out = Json::array({std::move(root)});
    // Every module that a node came from, so that torch.export.unflatten finds them.
    std::unordered_set<std::string> seen{""};
    for (const Node* node : program_.graph->nodes())
      for (const ModuleStackEntry& entry : node->meta.nn_module_stack)
        if (entry.type != entry.path && seen.insert(entry.path).second) out.push_back(tagged("fqn", entry.path));
    return out;
  }

  Json graph(bool is_single_tensor_return) {
    Json graph = Json::object();
    graph["inputs"] = std::move(inputs_);
    graph["outputs"] = std::move(outputs_);
    graph["nodes"] = std::move(nodes_);
    graph["tensor_values"] = std::move(tensor_values_);
    graph["sym_int_values"] = std::move(sym_int_values_);
    graph["sym_bool_values"] = std::move(sym_bool_values_);
    graph["is_single_tensor_return"] = is_single_tensor_return;
    graph["custom_obj_values"] = Json::object();
    graph["sym_float_values"] = std::move(sym_float_values_);
    return graph;
  }

  Json exported_program() {
    Json module = tagged("graph", graph(false));
    module["signature"] =
        format::json_object({{"input_specs", std::move(input_specs_)}, {"output_specs", std::move(output_specs_)}});
    module["module_call_graph"] = module_call_graph();
    module["metadata"] = Json::object();
    Json out = tagged("graph_module", std::move(module));
    out["opset_version"] = tagged("aten", kAtenOpset);
    out["range_constraints"] = pt2_range_constraints(program_);
    out["schema_version"] = format::json_object({{"major", kSchemaMajor}, {"minor", kSchemaMinor}});
    out["verifiers"] = Json::array({program_.dialect});
    out["torch_version"] = kTorchVersion;
    return out;
  }

  const Program& program_;
  const std::map<std::string, int64_t> hints_;
  const Enclosing* around_;
  const std::unordered_map<std::string, std::string> attribute_names_;  // in the file
  std::unordered_set<std::string> taken_;
  std::unordered_map<const Node*, std::string> names_;  // of values in the file
  // getitem nodes that take the same element as the first
  std::unordered_map<const Node*, std::vector<const Node*>> copies_;
  Json inputs_ = Json::array(), outputs_ = Json::array(), nodes_ = Json::array();
  Json input_specs_ = Json::array(), output_specs_ = Json::array();
  Json tensor_values_ = Json::object(), sym_int_values_ = Json::object(), sym_bool_values_ = Json::object(),
       sym_float_values_ = Json::object();
  std::vector<TorchTensor> state_, constants_;
  size_t user_inputs_ = 0, user_outputs_ = 0, constant_inputs_ = 0;
};

}  // namespace

std::vector<std::string> operators_outside_pytorch(const Program& program) {
  std::vector<std::string> out;
  const auto add = [&](const std::string& name) {
    if (std::find(out.begin(), out.end(), name) == out.end()) out.push_back(name);
  };
  for (const Node* node : program.graph->nodes()) {
    if (node->op() != Node::Op::kCallFunction) continue;
    const std::string_view target = node->target(), space = space_of(target);
    if (space.empty() ? !target.starts_with("operator.") : space == "onnx") add(std::string(short_name(target)));
    for (const Argument& argument : node->args())
      if (argument.is<Subprogram>())
        for (const std::string& name : operators_outside_pytorch(*argument.as<Subprogram>())) add(name);
  }
  return out;
}

std::vector<std::byte> save_pt2(const Program& program) { return save_pt2_parts(program).joined(); }

format::Parts save_pt2_parts(const Program& program) {
  verify_program(program);
  const std::vector<Node*> nodes = program.graph->nodes();
  const bool is_complete = std::all_of(nodes.begin(), nodes.end(), [](const Node* node) { return has_value(*node); });
  const bool has_control_flow = runs_programs(program);
  if (is_complete && !has_control_flow) return ProgramWriter(program, pt2_hints(program)).write();
  Program complete = program.clone();
  if (!is_complete) infer_shapes(complete);
  if (has_control_flow) rewrite_control_flow_for_pt2(complete);
  return ProgramWriter(complete, pt2_hints(complete)).write();
}

}  // namespace qdq
