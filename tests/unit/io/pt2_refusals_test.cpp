// What load_pt2 and save_pt2 refuse, and what they say then.
#include <gtest/gtest.h>

#include "format/torch_file.h"
#include "io/pt2.h"
#include "unit/format/expect_error.h"
#include "unit/io/edited_pt2.h"

namespace qdq::pt2_refusals_test {
namespace {

using format::Bytes;
using format::Json;

constexpr const char* kProgram = "serialized_exported_program.json";

void refuses(ErrorCode code, std::string_view words, const Bytes& bytes) {
  SCOPED_TRACE(words);
  expect_error(code, words, [&] { load_pt2(bytes); });
}

// The graph of conv_net: conv2d, batch_norm, relu, max_pool2d, flatten, linear.
void refuses_edit(ErrorCode code, std::string_view words, const std::function<void(Json&)>& change) {
  refuses(code, words, with_json("conv_net", kProgram, change));
}
Json& graph_of(Json& program) { return program["graph_module"]["graph"]; }
Json& signature_of(Json& program) { return program["graph_module"]["signature"]; }
Json& argument_of(Json& program, size_t node, size_t input) {
  return graph_of(program)["nodes"][node]["inputs"][input]["arg"];
}

TEST(RefusePt2, WhatIsNoProgram) {
  refuses(ErrorCode::kBadFile, "the .pt2 file is empty", {});
  Bytes text;
  set_text(text, "this is not a zip archive, and long enough to hold one");
  refuses(ErrorCode::kBadFile, "this is not a .pt2 file, which is a zip archive, but it is a text that begins with ",
          text);
  const Bytes whole = golden_pt2("conv_net");
  for (const size_t size : {size_t{1}, whole.size() / 3, whole.size() - 30})
    refuses(ErrorCode::kBadFile, " .pt2 file", Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)));
  refuses(ErrorCode::kBadFile, "has no member 'serialized_exported_program.json', so it is not a .pt2 file",
          zip_of({{"readme", {}}}));
  refuses(ErrorCode::kUnsupported, "was written by PyTorch 2.1",
          zip_of({{kProgram, {}}, {"serialized_state_dict.json", {}}, {"serialized_constants.json", {}}}));
  refuses(ErrorCode::kUnsupported, "holds weights or a TorchScript module, not an exported program",
          format::write_torch_file(std::vector<format::TorchTensor>{{"w", Tensor::scalar(1.0f)}}));
}

TEST(RefusePt2, MissingMembers) {
  for (const std::string name : {"serialized_state_dict.pt", "serialized_constants.pt"}) {
    Members members = members_of("conv_net");
    members.erase(name);
    refuses(ErrorCode::kBadFile, "has no member '" + name + "'", zip_of(members));
  }
  const std::string root = "shared_archive/";
  for (const std::string name : {"data/weights/model_weights_config.json", "data/constants/model_constants_config.json",
                                 "data/weights/weight_1", "data/constants/tensor_0", "archive_version"}) {
    Members members = members_of("shared_archive");
    members.erase(root + name);
    refuses(ErrorCode::kBadFile, "'" + root + name + "'", zip_of(members));
  }
  Members members = members_of("shared_archive");
  members[root + "models/second.json"] = members[root + "models/model.json"];
  refuses(ErrorCode::kUnsupported, "holds 2 programs ('model', 'second', ...), wanted one", zip_of(members));
  members.erase(root + "models/second.json");
  members.erase(root + "models/model.json");
  refuses(ErrorCode::kUnsupported, "holds no exported program (models/*.json)", zip_of(members));
}

TEST(RefusePt2, BrokenJson) {
  Members members = members_of("conv_net");
  members[kProgram].resize(members[kProgram].size() / 2);
  refuses(ErrorCode::kBadFile, kProgram, zip_of(members));
  set_text(members[kProgram], "[1, 2]");
  refuses(ErrorCode::kBadFile, "serialized_exported_program.json: is an array, wanted an object", zip_of(members));
  set_text(members[kProgram], std::string(100000, '['));
  refuses(ErrorCode::kBadFile, kProgram, zip_of(members));
  refuses_edit(ErrorCode::kBadFile, "serialized_exported_program.json: lacks the field 'graph_module'",
               [](Json& p) { p.erase("graph_module"); });
  refuses_edit(ErrorCode::kBadFile, "graph_module.graph.nodes[2] lacks the field 'target'",
               [](Json& p) { graph_of(p)["nodes"][2].erase("target"); });
  refuses_edit(ErrorCode::kBadFile, "graph_module.graph.nodes is an object, wanted an array",
               [](Json& p) { graph_of(p)["nodes"] = Json::object(); });
  refuses_edit(ErrorCode::kBadFile, "nodes[0].inputs[3].arg has 2 fields",
               [](Json& p) { argument_of(p, 0, 3)["as_int"] = 1; });
  refuses_edit(ErrorCode::kBadFile, "inputs[3].arg.as_ints[1] is a string, wanted an integer",
               [](Json& p) { argument_of(p, 0, 3)["as_ints"][1] = "1"; });
}

TEST(RefusePt2, OtherVersions) {
  refuses_edit(
      ErrorCode::kUnsupported,
      "schema_version.major is 7 (written by PyTorch 2.5.1), qdq reads 8; export the model with PyTorch 2.6 or newer",
      [](Json& p) {
        p["schema_version"]["major"] = 7;
        p["torch_version"] = "2.5.1";
      });
  Members members = members_of("shared_archive");
  set_text(members["shared_archive/archive_version"], "1");
  refuses(ErrorCode::kUnsupported, "the .pt2 archive has version '1'", zip_of(members));
  set_text(members["shared_archive/archive_format"], "executorch");
  refuses(ErrorCode::kUnsupported, "holds 'executorch', wanted 'pt2'", zip_of(members));
}

TEST(RefusePt2, WeightsThatAreMissingOrOfOtherSizes) {
  refuses_edit(ErrorCode::kBadFile,
               "input_specs[0].parameter.parameter_name is 'conv.bias', but the file has no such tensor among its "
               "parameters and buffers",
               [](Json& p) { signature_of(p)["input_specs"][0]["parameter"]["parameter_name"] = "conv.bias"; });
  refuses_edit(
      ErrorCode::kBadFile,
      "'conv.weight', which the graph describes as float32[4, 2, 3, 5], but the file holds float32[4, 2, 3, 3]",
      [](Json& p) { graph_of(p)["tensor_values"]["p_conv_weight"]["sizes"][3]["as_int"] = 5; });
  refuses_edit(ErrorCode::kBadFile, "'conv.weight', which the graph describes as float64",
               [](Json& p) { graph_of(p)["tensor_values"]["p_conv_weight"]["dtype"] = 8; });
  refuses_edit(ErrorCode::kBadFile, "defines the value 'x', which the file does not describe",
               [](Json& p) { graph_of(p)["tensor_values"].erase("x"); });
  refuses_edit(ErrorCode::kBadFile, "sizes[0] is negative",
               [](Json& p) { graph_of(p)["tensor_values"]["x"]["sizes"][0]["as_int"] = -1; });
  refuses_edit(ErrorCode::kBadFile, "has absurd sizes", [](Json& p) {
    for (Json& size : graph_of(p)["tensor_values"]["x"]["sizes"]) size["as_int"] = INT64_MAX;
  });
}

TEST(RefusePt2, StoragesThatAreTooSmall) {
  const std::string config = "shared_archive/data/weights/model_weights_config.json";
  const auto edit = [&](std::string_view words, const std::function<void(Json&)>& change) {
    refuses(ErrorCode::kBadFile, words,
            with_json("shared_archive", config, [&](Json& json) { change(json["config"]["turned"]["tensor_meta"]); }));
  };
  edit("the weight 'turned' in shared_archive/data/weights/weight_1 does not fit its bytes",
       [](Json& meta) { meta["sizes"][0]["as_int"] = 400; });
  edit("does not fit its bytes", [](Json& meta) { meta["sizes"][0]["as_int"] = INT64_MAX; });
  edit("does not fit its bytes", [](Json& meta) { meta["sizes"][0]["as_int"] = -4; });
  edit("does not fit its bytes", [](Json& meta) { meta["strides"][0]["as_int"] = INT64_MAX; });
  edit("does not fit its bytes", [](Json& meta) { meta["strides"][0]["as_int"] = -1; });
  edit("does not fit its bytes", [](Json& meta) { meta["storage_offset"]["as_int"] = 5; });
  edit("does not fit its bytes", [](Json& meta) { meta["storage_offset"]["as_int"] = -1; });
  edit("does not fit its bytes", [](Json& meta) { meta["strides"].push_back({{"as_int", 1}}); });
  Members members = members_of("shared_archive");
  members["shared_archive/data/weights/weight_0"].resize(8);
  refuses(ErrorCode::kBadFile, "does not fit its bytes", zip_of(members));
}

TEST(RefusePt2, ValuesThatAreNotDefinedOnceBeforeTheirUse) {
  refuses_edit(ErrorCode::kBadFile,
               "nodes[1].inputs[0].arg.as_tensor.name names the value 'nowhere', which is not defined before",
               [](Json& p) { argument_of(p, 1, 0)["as_tensor"]["name"] = "nowhere"; });
  refuses_edit(ErrorCode::kBadFile, "names the value 'linear', which is not defined before",
               [](Json& p) { argument_of(p, 2, 0)["as_tensor"]["name"] = "linear"; });
  refuses_edit(ErrorCode::kBadFile, "names the value 'relu', which is not defined before",
               [](Json& p) { argument_of(p, 2, 0)["as_tensor"]["name"] = "relu"; });
  refuses_edit(ErrorCode::kBadFile, "defines the value 'conv2d' a second time",
               [](Json& p) { graph_of(p)["nodes"][2]["outputs"][0]["as_tensor"]["name"] = "conv2d"; });
  refuses_edit(ErrorCode::kBadFile, "graph_module.graph.outputs[0].as_tensor.name names the value 'y'",
               [](Json& p) { graph_of(p)["outputs"][0]["as_tensor"]["name"] = "y"; });
  refuses_edit(ErrorCode::kBadFile, "does not name the graph's output",
               [](Json& p) { signature_of(p)["output_specs"][0]["user_output"]["arg"]["as_tensor"]["name"] = "relu"; });
  refuses_edit(ErrorCode::kBadFile, "the graph has 8 inputs", [](Json& p) { graph_of(p)["inputs"].erase(0); });
  refuses_edit(ErrorCode::kBadFile, "the key 'x' appears twice in one object", [](Json& p) {
    Json& values = graph_of(p)["tensor_values"];
    Json copy = values["x"];
    values.get_ref<Json::object_t&>().emplace_back("x", copy);
  });
}

TEST(RefusePt2, ArgumentsThatTheOperatorDoesNotTake) {
  refuses_edit(ErrorCode::kUnsupported,
               "nodes[0].inputs[4].name is 'pad', an argument of torch.ops.aten.conv2d.default that qdq does not have",
               [](Json& p) { graph_of(p)["nodes"][0]["inputs"][4]["name"] = "pad"; });
  refuses_edit(ErrorCode::kBadFile, "gives the argument 'stride' of torch.ops.aten.conv2d.default a second time",
               [](Json& p) { graph_of(p)["nodes"][0]["inputs"][4]["name"] = "stride"; });
  refuses_edit(ErrorCode::kBadFile, "lack the argument 'weight' of torch.ops.aten.conv2d.default",
               [](Json& p) { graph_of(p)["nodes"][0]["inputs"].erase(1); });
}

TEST(RefusePt2, GraphsWithinGraphs) {
  const std::string member = "serialized_exported_program.json";
  const auto refuses_graph = [&](const char* words, const std::function<void(Json & graph)>& change) {
    refuses(ErrorCode::kBadFile, words, with_json("control/nested", member, [&](Json& p) {
              for (Json& node : graph_of(p)["nodes"])
                if (node["target"] == "torch.ops.higher_order.cond")
                  change(node["inputs"][1]["arg"]["as_graph"]["graph"]);
            }));
  };
  refuses_graph("as_graph.graph lacks the field 'inputs'", [](Json& graph) { graph.erase("inputs"); });
  refuses_graph("which is not defined before", [](Json& graph) { graph["outputs"][0]["as_tensor"]["name"] = "lost"; });
  refuses_graph("is a graph within 32 others", [](Json& graph) {
    // The branch that is innermost gets its own copy inside, again and again.
    const Json whole = graph;
    for (int level = 0; level < 40; ++level) {
      Json outer = whole;
      for (Json& node : outer["nodes"])
        if (node["target"] == "torch.ops.higher_order.cond") node["inputs"][1]["arg"]["as_graph"]["graph"] = graph;
      graph = std::move(outer);
    }
  });
}

TEST(RefusePt2, WhatQdqDoesNotHave) {
  refuses_edit(ErrorCode::kUnsupported, "tensor_values.x.dtype is 9, the number of a data type that qdq does not have",
               [](Json& p) { graph_of(p)["tensor_values"]["x"]["dtype"] = 9; });
  refuses_edit(ErrorCode::kUnsupported, "tensor_values.x.layout is 1; qdq has dense tensors only",
               [](Json& p) { graph_of(p)["tensor_values"]["x"]["layout"] = 1; });
  refuses_edit(ErrorCode::kUnsupported,
               "nodes[0].inputs[3].arg.as_custom_obj is an argument of a kind that qdq does not have",
               [](Json& p) { argument_of(p, 0, 3) = {{"as_custom_obj", {{"name", "obj"}}}}; });
  refuses_edit(ErrorCode::kUnsupported, "input_specs[0].custom_obj is an input of a kind that qdq does not have",
               [](Json& p) {
                 signature_of(p)["input_specs"][0] = {
                     {"custom_obj", {{"arg", {{"name", "obj"}, {"class_fqn", "x"}}}, {"custom_obj_name", "obj"}}}};
               });
  refuses_edit(ErrorCode::kUnsupported,
               "output_specs[0].user_input_mutation is an output of a kind that qdq does not have", [](Json& p) {
                 signature_of(p)["output_specs"][0] = {
                     {"user_input_mutation", {{"arg", {{"name", "linear"}}}, {"user_input_name", "x"}}}};
               });
  refuses(ErrorCode::kUnsupported, "is not a tensor; custom objects are not supported",
          with_json("shared_archive", "shared_archive/data/constants/model_constants_config.json",
                    [](Json& json) { json["config"].begin().value()["tensor_meta"] = nullptr; }));
}

TEST(RefusePt2, PicklesThatNameOtherFunctions) {
  refuses(ErrorCode::kUnsupported, "os.system", pt2_with_system_call());
}

TEST(RefuseToSave, WhatTheFormatDoesNotHave) {
  const auto program = [] {
    Program out;
    Node* x = out.graph->create(Node::Op::kPlaceholder, "x", {}, {}, "x");
    x->meta.val.value = TensorMeta{DType::kF32, {2, 3}, {}, false};
    return out;
  };
  const auto finish = [](Program& p, Node* result) {
    p.graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{result})}, {}, "output");
  };
  {
    Program p = program();
    Node* observer = p.graph->create(Node::Op::kCallModule, "activation_post_process_0", {p.graph->first()}, {},
                                     "activation_post_process_0");
    finish(p, observer);
    expect_error(ErrorCode::kUnsupported, "it calls the module 'activation_post_process_0'; convert the program first",
                 [&] { save_pt2(p); });
  }
  {
    Program p = program();
    Node* call = p.graph->call("torch.ops.mine.op.default", {p.graph->first()}, {}, "op");
    call->meta.val.value = TensorMeta{DType::kF32, {2, 3}, {}, false};
    finish(p, call);
    expect_error(ErrorCode::kUnsupported, "does not have torch.ops.mine.op.default", [&] { save_pt2(p); });
  }
  {
    Program p = program();
    Node* split = p.graph->call("torch.ops.aten.chunk.default", {p.graph->first(), 2}, {}, "chunk");
    const ValueMeta half{TensorMeta{DType::kF32, {1, 3}, {}, false}};
    split->meta.val.value = std::vector<ValueMeta>{half, half};
    Node* cat = p.graph->call("torch.ops.aten.cat.default", {split}, {}, "cat");
    cat->meta.val.value = TensorMeta{DType::kF32, {2, 3}, {}, false};
    finish(p, cat);
    expect_error(ErrorCode::kUnsupported, "uses the list chunk as a whole", [&] { save_pt2(p); });
  }
  {
    Program p = program();
    p.graph->first()->meta.val = {};
    finish(p, p.graph->first());
    expect_error(ErrorCode::kUnsupported, "nothing is known of this input", [&] { save_pt2(p); });
  }
}

}  // namespace
}  // namespace qdq::pt2_refusals_test
