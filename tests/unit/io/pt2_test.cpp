// Programs from .pt2 files: against what PyTorch reads from the same files, and refusals.
#include "io/pt2.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <set>

#include "format/bytes.h"
#include "format/json.h"
#include "format/onnx_file.h"
#include "io/onnx.h"
#include "op/op.h"
#include "source_dir.h"
#include "unit/io/edited_pt2.h"

namespace qdq::pt2_test {
namespace {

using format::Json;

std::vector<std::byte> read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  const std::vector<char> bytes((std::istreambuf_iterator<char>(in)), {});
  const auto* begin = reinterpret_cast<const std::byte*>(bytes.data());
  return {begin, begin + bytes.size()};
}

Json read_json(const std::filesystem::path& path) {
  const std::vector<std::byte> bytes = read_file(path);
  return format::parse_json(format::text_of(bytes), path.string());
}

const std::filesystem::path kGolden = std::filesystem::path(kSourceDir) / "tests/golden/io";
Program golden(const std::string& name) { return load_pt2(read_file(kGolden / (name + ".pt2"))); }

// An argument as the conformance cases write it.
Json json_of(const Argument& argument) {
  if (argument.is_node()) return {{"node", argument.node()->name()}};
  if (argument.is<bool>()) return argument.as<bool>();
  if (argument.is<int64_t>()) return argument.as<int64_t>();
  if (argument.is<double>()) return format::json_of_number(argument.as<double>());
  if (argument.is<std::string>()) return argument.as<std::string>();
  if (argument.is<DType>()) return {{"dtype", to_string(argument.as<DType>())}};
  if (argument.is<MemoryFormat>()) return {{"memory_format", to_string(argument.as<MemoryFormat>())}};
  if (argument.is<Layout>()) return {{"layout", "strided"}};
  if (argument.is<Device>()) return {{"device", argument.as<Device>().name}};
  if (!argument.is_list()) return nullptr;
  Json out = Json::array();
  for (const Argument& element : argument.list()) out.push_back(json_of(element));
  return out;
}

// Where the graph differs from expected.float_graph of a case; empty if nowhere.
std::string difference(const Graph& graph, const Json& expected) {
  const std::vector<Node*> nodes = graph.nodes();
  for (size_t i = 0; i < std::max(nodes.size(), expected.size()); ++i) {
    if (i >= nodes.size() || i >= expected.size()) return concat(nodes.size(), " nodes, wanted ", expected.size());
    const Node& node = *nodes[i];
    const Json& want = expected[i];
    Json args = Json::array(), kwargs = Json::object();
    for (const Argument& argument : node.args()) args.push_back(json_of(argument));
    std::set<std::string> keywords, users, wanted_users;
    for (const auto& [key, value] : node.kwargs()) kwargs[key] = json_of(value);
    for (const Node* user : node.users()) users.insert(user->name());
    for (const Json& user : want["users"]) wanted_users.insert(user.get<std::string>());
    const std::optional<std::string> module = node.meta.module_path();
    const auto wrong = [&](const std::string& what, const Json& found, const Json& wanted) {
      return concat("node ", node.name(), ": ", what, " ", found.dump(), ", wanted ", wanted.dump());
    };
    if (want["name"] != node.name()) return wrong("name", node.name(), want["name"]);
    if (want["op"] != to_string(node.op())) return wrong("op", to_string(node.op()), want["op"]);
    if (want["target"] != node.target()) return wrong("target", node.target(), want["target"]);
    if (args != want.value("args", Json::array())) return wrong("args", args, want.value("args", Json::array()));
    // Keywords have no order.
    const nlohmann::json found_kwargs = nlohmann::json::parse(kwargs.dump());
    const nlohmann::json wanted_kwargs = nlohmann::json::parse(want.value("kwargs", Json::object()).dump());
    if (found_kwargs != wanted_kwargs) return wrong("kwargs", kwargs, want.value("kwargs", Json::object()));
    if (users != wanted_users)
      return concat("node ", node.name(), ": ", users.size(), " other users, wanted ", want["users"].dump());
    if (module.has_value() != want.contains("module") || (module && want["module"] != *module))
      return wrong("module", module.value_or("(none)"), want.value("module", Json("(none)")));
  }
  return {};
}

TEST(LoadPt2, ReadsTheConformanceCasesAsTheyExpect) {
  const char* folder = std::getenv("QDQ_CONFORMANCE");
  if (folder == nullptr) GTEST_SKIP() << "set QDQ_CONFORMANCE to the folder of the conformance cases";
  int count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().filename() != "model.pt2") continue;
    const Json facts = read_json(entry.path().parent_path() / "case.json");
    SCOPED_TRACE(entry.path().string());
    try {
      const Program program = load_pt2(read_file(entry.path()));
      verify_program(program);
      ++count;
      if (!facts.contains("expected") || !facts["expected"].contains("float_graph")) {
        std::cout << "no float graph: " << entry.path() << "\n";
        continue;
      }
      EXPECT_EQ(difference(*program.graph, facts["expected"]["float_graph"]), "");
    } catch (const Error& error) {
      ADD_FAILURE() << error.message;
    }
  }
  std::cout << count << " programs\n";
}

class GoldenProgram : public testing::TestWithParam<std::pair<std::string, std::string>> {};

TEST_P(GoldenProgram, HasTheGraphThatPyTorchPrints) {
  const auto [file, facts_of] = GetParam();
  const Json facts = read_json(kGolden / (facts_of + ".json"));
  const Program program = golden(file);
  verify_program(program);
  // PyTorch's module() drops results that nobody uses from decomposed programs only.
  if (program.dialect == "ATEN")
    for (Node* node : program.graph->nodes())
      if (node->is("operator.getitem") && node->users().empty()) program.graph->erase(node);
  EXPECT_EQ(to_text(*program.graph), facts["graph"].get<std::string>());
}

// What a signature lists: names of attributes of one kind, each once.
std::vector<std::string> names_of(const Program& program, const std::function<bool(const Attribute&)>& which) {
  std::vector<std::string> out;
  for (const Attribute& attribute : program.attributes)
    if (which(attribute)) out.push_back(attribute.name);
  return out;
}

TEST_P(GoldenProgram, HasTheSignatureThatPyTorchReads) {
  const Json facts = read_json(kGolden / (GetParam().second + ".json"));
  const Program program = golden(GetParam().first);
  using Kind = Attribute::Kind;
  // PyTorch names a tied weight once for each module.
  const auto list = [&](const char* field) {
    auto names = facts[field].get<std::vector<std::string>>();
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
  };
  EXPECT_EQ(names_of(program, [](const Attribute& a) { return a.kind == Kind::kParameter; }), list("parameters"));
  EXPECT_EQ(names_of(program, [](const Attribute& a) { return a.kind == Kind::kBuffer; }), list("buffers"));
  EXPECT_EQ(names_of(program, [](const Attribute& a) { return a.kind == Kind::kBuffer && !a.persistent; }),
            list("not_persistent"));
  EXPECT_EQ(names_of(program, [](const Attribute& a) { return a.kind == Kind::kConstant; }), list("constants"));
  EXPECT_EQ(program.dialect, facts["dialect"].get<std::string>());
  Json mutated = Json::object();
  for (const BufferMutation& mutation : program.buffer_mutations) mutated[mutation.node] = mutation.buffer;
  EXPECT_EQ(mutated, facts["mutated"]);
  Json ranges = Json::object();
  for (const auto& [symbol, range] : program.symbol_ranges)
    ranges[symbol] = Json::array({range.min.value_or(-1), range.max.value_or(-1)});
  EXPECT_EQ(ranges, facts["ranges"]);
}

INSTANTIATE_TEST_SUITE_P(Files, GoldenProgram,
                         testing::Values(std::pair("conv_net", "conv_net"), std::pair("conv_net_aten", "conv_net_aten"),
                                         std::pair("dynamic_batch", "dynamic_batch"),
                                         std::pair("many_results", "many_results"), std::pair("shared", "shared"),
                                         std::pair("shared_aten", "shared_aten"), std::pair("arguments", "arguments"),
                                         std::pair("int8", "int8"), std::pair("shared_archive", "shared"),
                                         std::pair("shared_archive28", "shared"),
                                         std::pair("arguments_archive", "arguments")),
                         [](const auto& info) { return info.param.first; });

TEST(LoadPt2, KeepsConstantInputsBesideTheGraph) {
  for (const std::string file : {"arguments", "arguments_archive"}) {
    const Program program = golden(file);
    ASSERT_EQ(program.constant_inputs.size(), 3u);
    EXPECT_EQ(program.constant_inputs[0], (ConstantInput{1, "none", {}}));
    EXPECT_EQ(program.constant_inputs[1], (ConstantInput{2, "number", 3}));
    EXPECT_EQ(program.constant_inputs[2], (ConstantInput{5, "flag", false}));
    EXPECT_EQ(program.clone().constant_inputs, program.constant_inputs);
  }
}

TEST(LoadPt2, ReadsTensorsThatNeedNotBeThere) {
  const format::Bytes file = with_json("conv_net", "serialized_exported_program.json", [](Json& program) {
    Json& argument = program["graph_module"]["graph"]["nodes"][0]["inputs"][2]["arg"];  // the bias
    argument = Json{{"as_optional_tensor", Json(argument)}};
  });
  EXPECT_EQ(to_text(*load_pt2(file).graph), to_text(*golden("conv_net").graph));
}

// As nn.TransformerEncoder leaves it, which asks whether its mask allows a nested tensor.
TEST(LoadPt2, LeavesOutUnknownOperatorsOfPyTorchThatNobodyReads) {
  for (const std::string space : {"aten", "mine"}) {
    const format::Bytes file = with_json("conv_net", "serialized_exported_program.json", [&](Json& program) {
      Json& nodes = program["graph_module"]["graph"]["nodes"];
      Json question = nodes[0];
      question["target"] = "torch.ops." + space + "._nested_tensor_from_mask_left_aligned.default";
      question["outputs"] = Json::array({{{"as_none", true}}});
      nodes.push_back(question);
    });
    const std::string text = to_text(*load_pt2(file).graph);
    EXPECT_EQ(text.find("left_aligned") == std::string::npos, space == "aten") << text;
  }
}

TEST(LoadPt2, ReadsViewsInPlaceAsTheViewsThatLaterCallsRead) {
  const format::Bytes file = with_json("conv_net", "serialized_exported_program.json", [&](Json& program) {
    for (Json& node : program["graph_module"]["graph"]["nodes"]) {
      if (node["target"] != "torch.ops.aten.flatten.using_ints") continue;
      node["target"] = "torch.ops.aten.transpose_.default";
      node["inputs"][1]["name"] = "dim0";
      node["inputs"].push_back({{"name", "dim1"}, {"arg", {{"as_int", 0}}}});
    }
  });
  EXPECT_NE(to_text(*load_pt2(file).graph).find("transpose.int"), std::string::npos);
}

// torch.export records the values of the region as float32; PyTorch 2.6 itself does not load the file.
TEST(LoadPt2, LeavesWhatAutocastRunsInItsDtypes) {
  const format::Bytes file = with_json("control/autocast", "serialized_exported_program.json", [](format::Json& p) {
    for (format::Json& node : p["graph_module"]["graph"]["nodes"])
      if (node["target"] == "torch.ops.higher_order.wrap_with_autocast") node["inputs"][0]["arg"]["as_string"] = "cpu";
  });
  const Program found = load_pt2(file), expected = load_pt2(golden_pt2("control/autocast"));
  EXPECT_EQ(to_text(*found.graph), to_text(*expected.graph));
  for (const Node* node : found.graph->nodes()) EXPECT_FALSE(node->target().starts_with("torch.ops.higher_order."));
}

TEST(LoadPt2, SharesStoragesAsTheFileDoes) {
  for (const std::string file : {"shared", "shared_archive", "shared_archive28"}) {
    const Program program = golden(file);
    const Tensor low = program.find_attribute("low")->tensor, turned = program.find_attribute("turned")->tensor;
    EXPECT_EQ(low.storage(), turned.storage());
    EXPECT_EQ(turned.storage_offset(), 4);
    EXPECT_EQ(turned.strides(), (Shape{1, 4}));
    EXPECT_EQ(turned.contiguous().span<float>()[1], 8.0f);
    const Program again = load_pt2(save_pt2(program));
    EXPECT_EQ(again.find_attribute("low")->tensor.storage(), again.find_attribute("turned")->tensor.storage());
  }
}

TEST(LoadPt2, ReadsSymbolicSizesAndTheirHints) {
  const Program program = golden("dynamic_batch");
  const SymInt s0 = SymInt::symbol("s0");
  EXPECT_EQ(program.graph->find("x")->meta.val.tensor()->sizes, (SymShape{s0, 6}));
  EXPECT_EQ(program.graph->find("linear")->meta.val.tensor()->sizes, (SymShape{s0 * 2, 4}));
  EXPECT_EQ(std::get<SymInt>(program.graph->find("mul")->meta.val.value), s0 * 2);
  EXPECT_EQ(program.symbol_hints, (std::map<std::string, int64_t>{{"s0", 3}}));
}

TEST(SavePt2, GivesOpenSizesOfInputsAValueAtExport) {
  Program program = golden("dynamic_batch");
  program.symbol_hints.clear();
  EXPECT_EQ(load_pt2(save_pt2(program)).symbol_hints, (std::map<std::string, int64_t>{{"s0", 2}}));
  program.symbol_ranges["s0"] = {5, 9};
  EXPECT_EQ(load_pt2(save_pt2(program)).symbol_hints, (std::map<std::string, int64_t>{{"s0", 5}}));
}

// As where many sizes that values tell are multiplied: their own hints are chosen large.
TEST(SavePt2, LeavesOutHintsOfMoreThan64Bits) {
  Program program = golden("dynamic_batch");
  program.symbol_hints["s0"] = int64_t{1} << 62;
  const Program again = load_pt2(save_pt2(program));
  EXPECT_EQ(again.graph->find("linear")->meta.val.tensor()->sizes, (SymShape{SymInt::symbol("s0") * 2, 4}));
  EXPECT_EQ(again.symbol_hints, program.symbol_hints);
}

// PyTorch loads no file with a size below zero.
TEST(SavePt2, GivesOpenLengthsAValueThatWindowsFitInto) {
  Program program;
  Node* x = program.graph->create(Node::Op::kPlaceholder, "x", {}, {}, "x");
  x->meta.val.value = TensorMeta{DType::kF32, {SymInt::symbol("s0"), 1, SymInt::symbol("s1")}, {}, false};
  program.add_attribute({"weight", Tensor::full({2, 1, 100}, DType::kF32, 0.5)});
  Node* weight = program.graph->get_attr("weight");
  Node* first = program.graph->call("torch.ops.aten.conv1d.default",
                                    {x, weight, Argument(), Argument(Argument::List{Argument(int64_t{10})})});
  program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{first})}, {}, "output");
  EXPECT_EQ(load_pt2(save_pt2(program)).symbol_hints, (std::map<std::string, int64_t>{{"s0", 2}, {"s1", 128}}));
}

// As a decoder's past is less than the length of its mask: both are doubled in vain, the whole length alone is not.
TEST(SavePt2, GivesOpenLengthsValuesWhoseDifferenceIsNotBelowZero) {
  Program program;
  const auto input = [&](const std::string& name, const std::string& symbol) {
    Node* node = program.graph->create(Node::Op::kPlaceholder, name, {}, {}, name);
    node->meta.val.value = TensorMeta{DType::kF32, {1, SymInt::symbol(symbol)}, {}, false};
    return node;
  };
  Node* whole = input("mask", "s0");
  Node* past = input("past", "s1");
  Node* length = program.graph->call("torch.ops.aten.sym_size.int", {past, int64_t{1}});
  Node* rest = program.graph->call("torch.ops.aten.slice.Tensor",
                                   {whole, int64_t{1}, length, std::numeric_limits<int64_t>::max()});
  program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{rest})}, {}, "output");
  const Program again = load_pt2(save_pt2(program));
  EXPECT_EQ(again.graph->find("slice_tensor")->meta.val.tensor()->sizes[1],
            SymInt::symbol("s0") - SymInt::symbol("s1"));
  EXPECT_EQ(again.symbol_hints, (std::map<std::string, int64_t>{{"s0", 128}, {"s1", 128}}));
}

TEST(LoadPt2, SizesMayHaveBoundsBeyond64Bits) {
  const auto read = [](const Json& most) {
    const format::Bytes bytes = with_json("dynamic_batch", "serialized_exported_program.json",
                                          [&](Json& json) { json["range_constraints"]["s0"]["max_val"] = most; });
    return load_pt2(bytes).symbol_ranges.at("s0").max;
  };
  EXPECT_EQ(read(0x1p66), std::nullopt);
  EXPECT_EQ(read(uint64_t{1} << 63), std::nullopt);
  EXPECT_EQ(read(INT64_MAX), INT64_MAX);
  EXPECT_THROW(read(2.5), Error);
}

TEST(LoadPt2, ReadsWhereNodesComeFrom) {
  const Program program = golden("conv_net");
  const NodeMeta& meta = program.graph->find("batch_norm")->meta;
  ASSERT_EQ(meta.nn_module_stack.size(), 2u);
  EXPECT_EQ(meta.nn_module_stack[1],
            (ModuleStackEntry{"L__self___normLayer", "normLayer", "torch.nn.modules.batchnorm.BatchNorm2d"}));
  ASSERT_EQ(meta.source_fn_stack.size(), 1u);
  EXPECT_EQ(meta.source_fn_stack[0].second, "torch.nn.modules.batchnorm.BatchNorm2d");
  EXPECT_EQ(meta.torch_fn, "batch_norm_1;function.batch_norm");
}

// Only what the graph reads is written: a quantized program has no float weights.
TEST(SavePt2, LeavesOutAttributesThatNobodyReads) {
  Program program = golden("int8");
  program.add_attribute(
      {"conv1.weight", Tensor::full({4, 2, 3, 3}, DType::kF32, 1), Attribute::Kind::kParameter, true, true});
  const Program again = load_pt2(save_pt2(program));
  EXPECT_EQ(again.find_attribute("conv1.weight"), nullptr);
  ASSERT_NE(again.find_attribute("_frozen_param0"), nullptr);
  EXPECT_EQ(again.find_attribute("_frozen_param0")->tensor.dtype(), DType::kS8);
}

TEST(SavePt2, InfersWhatNodesLackAndInventsACallingConvention) {
  Program program;
  Node* x = program.graph->create(Node::Op::kPlaceholder, "x", {}, {}, "x");
  x->meta.val.value = TensorMeta{DType::kF32, {SymInt::symbol("s0"), 3}, {}, false};
  program.symbol_ranges["s0"] = {1, 8};
  program.add_attribute({"weight", Tensor::full({2, 3}, DType::kF32, 0.5)});
  Node* weight = program.graph->get_attr("weight");
  Node* linear = program.graph->call("torch.ops.aten.linear.default", {x, weight}, {}, "linear");
  Node* relu = program.graph->call("torch.ops.aten.relu.default", {linear}, {}, "relu");
  program.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{linear, relu})}, {}, "output");
  const Program again = load_pt2(save_pt2(program));
  EXPECT_EQ(again.graph->find("relu")->meta.val.tensor()->sizes, (SymShape{SymInt::symbol("s0"), 2}));
  EXPECT_EQ(again.graph->first()->name(), "weight");
  const auto count = [](const std::string& spec) {
    size_t leaves = 0;
    for (size_t at = spec.find("null,\"context"); at != std::string::npos; at = spec.find("null,\"context", at + 1))
      ++leaves;
    return leaves;
  };
  EXPECT_EQ(count(again.in_spec), 1u) << again.in_spec;
  EXPECT_EQ(count(again.out_spec), 2u) << again.out_spec;
}

TEST(SavePt2, WritesDebugHandlesWherePyTorchLooksForThem) {
  Program program = golden("conv_net");
  program.graph->find("relu")->meta.debug_handle = 7;
  const Program again = load_pt2(save_pt2(program));
  EXPECT_EQ(again.graph->find("relu")->meta.debug_handle, 7);
  ASSERT_EQ(again.graph->find("relu")->meta.extra.size(), 1u);
  EXPECT_EQ(again.graph->find("relu")->meta.extra[0].second, R"({"numeric_debug_handle":7})");
}

// Where the programs differ in what a file holds; empty if nowhere.
std::string difference(const Program& a, const Program& b) {
  if (to_text(*a.graph) != to_text(*b.graph)) return to_text(*a.graph) + "\nand\n" + to_text(*b.graph);
  for (const Attribute& attribute : a.attributes) {
    const Attribute* other = b.find_attribute(attribute.name);
    if (other == nullptr) return "no attribute " + attribute.name;
    if (!bitwise_equal(attribute.tensor, other->tensor) || attribute.tensor.strides() != other->tensor.strides())
      return "other values in " + attribute.name;
    if (attribute.kind != other->kind || attribute.persistent != other->persistent ||
        attribute.requires_grad != other->requires_grad)
      return "another kind of attribute " + attribute.name;
  }
  if (a.attributes.size() != b.attributes.size()) return "another number of attributes";
  const std::vector<Node*> nodes = a.graph->nodes(), others = b.graph->nodes();
  for (size_t i = 0; i < nodes.size(); ++i) {
    const NodeMeta &x = nodes[i]->meta, &y = others[i]->meta;
    if (!(x.val == y.val)) return "other values of " + nodes[i]->name();
    if (x.nn_module_stack != y.nn_module_stack || x.source_fn_stack != y.source_fn_stack || x.torch_fn != y.torch_fn ||
        x.stack_trace != y.stack_trace || x.debug_handle != y.debug_handle || x.extra != y.extra)
      return "other metadata of " + nodes[i]->name();
  }
  for (const auto& [symbol, range] : a.symbol_ranges) {
    const auto other = b.symbol_ranges.find(symbol);
    if (other == b.symbol_ranges.end() || other->second.min != range.min || other->second.max != range.max)
      return "another range of " + symbol;
  }
  if (a.symbol_hints != b.symbol_hints || a.in_spec != b.in_spec || a.out_spec != b.out_spec ||
      a.forward_arg_names != b.forward_arg_names || a.dialect != b.dialect || a.constant_inputs != b.constant_inputs ||
      a.buffer_mutations.size() != b.buffer_mutations.size())
    return "another calling convention";
  return {};
}

TEST_P(GoldenProgram, SurvivesSavingAndLoading) {
  const Program program = golden(GetParam().first);
  const std::vector<std::byte> bytes = save_pt2(program);
  EXPECT_EQ(difference(program, load_pt2(bytes)), "");
  EXPECT_TRUE(bytes == save_pt2(program));
}

// PyTorch makes modules of the parts of a name; files of other origin have tensors called anything.
TEST(SavePt2, GivesTensorsNamesThatPyTorchCanHave) {
  Program program;
  Argument::List results;
  for (const char* name : {"to", "a", "a.b", "a..c", "fc.weight", "to_tensor"}) {
    program.add_attribute({name, Tensor::scalar(1.0f)});
    results.emplace_back(program.graph->get_attr(name));
  }
  program.graph->create(Node::Op::kOutput, "output", {Argument(results)}, {}, "output");
  infer_shapes(program);
  std::vector<std::string> names;
  for (const Attribute& attribute : load_pt2(save_pt2(program)).attributes) names.push_back(attribute.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"to_tensor_1", "a", "a_b_tensor", "a__c_tensor", "fc.weight", "to_tensor"}));
}

TEST(SavePt2, TellsWhichOperatorsNoPyTorchHas) {
  auto inner = std::make_shared<Program>();
  inner->graph->call("torch.ops.onnx.roi_align_max.default", {});
  inner->graph->call("torch.ops.aten.relu.default", {});
  Program program;
  program.graph->call("torch.ops.quantized_decomposed.quantize_per_tensor.default", {});
  program.graph->call("torch.ops.onnx.other.default", {});
  program.graph->call("torch.ops.higher_order.cond",
                      {Argument(), Argument(Subprogram(inner)), Argument(Subprogram(inner))});
  EXPECT_EQ(operators_outside_pytorch(program),
            (std::vector<std::string>{"onnx.other.default", "onnx.roi_align_max.default"}));
}

// Loads every .pt2 of one folder and saves it to another, for tests/golden/check_io.py to try in PyTorch.
TEST(SavePt2, WritesFilesForPyTorch) {
  const char* from = std::getenv("QDQ_RESAVE_FROM");
  const char* to = std::getenv("QDQ_RESAVE_TO");
  if (from == nullptr || to == nullptr) GTEST_SKIP() << "set QDQ_RESAVE_FROM and QDQ_RESAVE_TO to folders";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(from)) {
    if (entry.path().extension() != ".pt2") continue;
    SCOPED_TRACE(entry.path().string());
    const std::filesystem::path path = std::filesystem::path(to) / std::filesystem::relative(entry.path(), from);
    std::filesystem::create_directories(path.parent_path());
    try {
      const Program program = load_pt2(read_file(entry.path()));
      const std::vector<std::byte> bytes = save_pt2(program);
      EXPECT_EQ(difference(program, load_pt2(bytes)), "");
      std::ofstream(path, std::ios::binary)
          .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    } catch (const Error& error) {
      ADD_FAILURE() << error.message;
    }
  }
}

// Each tensor of a branch becomes an input of both.
TEST(Pt2, ABranchMayHaveManyTensors) {
  constexpr size_t kTensors = 4000;
  const auto value = [](std::string name, DType dtype, std::vector<format::OnnxDimension> dims) {
    return format::OnnxValueInfo{std::move(name), dtype, std::move(dims)};
  };
  const auto branch = [&](const char* name, size_t tensors) {
    auto graph = std::make_shared<format::OnnxGraph>();
    std::string last = "x";
    for (size_t i = 0; i < tensors; ++i) {
      const std::string number = std::to_string(i);
      graph->initializers.emplace_back(name + number, Tensor::full({4}, DType::kF32, static_cast<double>(i)));
      graph->nodes.push_back({"", "Add", "", {last, name + number}, {name + ("_" + number)}, {}, {}});
      last = graph->nodes.back().outputs[0];
    }
    graph->outputs.push_back(value(last, DType::kF32, {{4, ""}}));
    format::OnnxAttribute out;
    out.name = name;
    out.kind = format::OnnxKind::kGraph;
    out.graphs = {std::move(graph)};
    return out;
  };
  format::OnnxFile file;
  file.ir_version = 8;
  file.opsets = {{"", 17}};
  file.inputs = {value("x", DType::kF32, {{4, ""}}), value("c", DType::kBool, {})};
  file.outputs = {value("y", DType::kF32, {{4, ""}})};
  file.nodes.push_back({"if", "If", "", {"c"}, {"y"}, {branch("then_branch", kTensors), branch("else_branch", 1)}, {}});
  const Program program = load_pt2(save_pt2(load_onnx(format::write_onnx_file(file))));
  EXPECT_EQ(program.attributes.size(), kTensors + 1);
}

}  // namespace
}  // namespace qdq::pt2_test
