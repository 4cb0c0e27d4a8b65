// Reads ONNX files.
#include "format/onnx_file.h"

#include <cstring>

#include "format/onnx_tensor.h"

namespace qdq::format {
namespace {

// How deep the messages of graphs and types lie at most: a graph in a graph is three messages further down.
constexpr int kMaxDepth = 64;

void check_depth(const OnnxMessage& message) {
  QDQ_CHECK(message.depth() <= kMaxDepth, kUnsupported,
            "the ONNX file has graphs in nodes (If, Loop, Scan) or types in types more than ", kMaxDepth,
            " messages deep, which is 20 levels of graphs; export it with fewer");
}

void read_graph(OnnxMessage message, OnnxGraph& out);

// The type of an attribute by what it has: writers before IR version 2 left the type out.
int64_t type_by_content(const OnnxAttribute& attribute) {
  if (attribute.t.defined()) return 4;
  if (!attribute.graphs.empty()) return 5;
  if (!attribute.floats.empty()) return 6;
  if (!attribute.ints.empty()) return 7;
  if (!attribute.strings.empty()) return 8;
  if (!attribute.s.empty()) return 3;
  return attribute.f != 0 ? 1 : 2;
}

OnnxAttribute read_attribute(OnnxMessage message) {
  OnnxAttribute out;
  Bytes floats;
  int64_t type = 0;
  while (message.next()) switch (message.field()) {
      case 1: out.name = message.text(); break;
      case 2: out.f = message.real(); break;
      case 3: out.i = message.integer(); break;
      case 4: {
        const protozero::data_view bytes = message.view();
        out.s.assign(bytes.data(), bytes.size());
        break;
      }
      case 5: {
        OnnxNamedTensor tensor = read_tensor(message.message("tensor"));
        out.t = std::move(tensor.tensor);
        out.has_four_bits = tensor.has_four_bits;
        break;
      }
      case 6:
      case 11: {
        auto graph = std::make_shared<OnnxGraph>();
        read_graph(message.message("graph"), *graph);
        out.graphs.push_back(std::move(graph));
        break;
      }
      case 7: message.append_fixed(floats, protozero::pbf_wire_type::fixed32, sizeof(float)); break;
      case 8: message.append_integers(out.ints); break;
      case 9: {
        const protozero::data_view bytes = message.view();
        out.strings.emplace_back(bytes.data(), bytes.size());
        break;
      }
      case 10: out.tensors.push_back(read_tensor(message.message("tensor")).tensor); break;
      case 20: type = message.integer(); break;
      case 21: out.reference = message.text(); break;
      case 22: {
        out.sparse = std::make_shared<OnnxSparseTensor>(read_sparse_tensor(message.message("sparse tensor")));
        out.t = dense(*out.sparse);
        break;
      }
      default: message.skip();
    }
  out.floats.resize(floats.size() / sizeof(float));
  if (!floats.empty()) std::memcpy(out.floats.data(), floats.data(), floats.size());
  if (type == 0 && out.reference.empty()) type = type_by_content(out);
  out.kind = type > 11 || type < 0 ? OnnxKind::kOther : static_cast<OnnxKind>(type);
  if (!out.reference.empty()) return out;
  const bool is_there = out.kind == OnnxKind::kTensor || out.kind == OnnxKind::kSparseTensor ? out.t.defined()
                        : out.kind == OnnxKind::kGraph                                       ? out.graphs.size() == 1
                                                                                             : true;
  QDQ_CHECK(is_there, kBadFile, "the attribute ", out.name, " of the ONNX file says that it is a ",
            out.kind == OnnxKind::kGraph ? "graph" : "tensor", ", but has none");
  return out;
}

OnnxNode read_node(OnnxMessage message) {
  OnnxNode out;
  while (message.next()) switch (message.field()) {
      case 1: out.inputs.push_back(message.text()); break;
      case 2: out.outputs.push_back(message.text()); break;
      case 3: out.name = message.text(); break;
      case 4: out.op_type = message.text(); break;
      case 5: out.attributes.push_back(read_attribute(message.message("attribute"))); break;
      case 7: out.domain = message.text(); break;
      case 9: out.metadata.push_back(read_entry(message.message("metadata entry"))); break;
      default: message.skip();
    }
  if (out.domain == "ai.onnx") out.domain.clear();
  return out;
}

OnnxDimension read_dimension(OnnxMessage message) {
  OnnxDimension out;
  while (message.next()) switch (message.field()) {
      case 1: out.value = message.integer(); break;
      case 2: out.param = message.text(); break;
      default: message.skip();
    }
  return out;
}

void read_tensor_type(OnnxMessage message, OnnxValueInfo& out) {
  while (message.next()) {
    if (message.field() == 1) {
      const int64_t type = message.integer();
      out.dtype = unpacked_dtype(type);
      out.has_four_bits = has_four_bits(type);
    } else if (message.field() == 2) {
      out.dims.emplace();
      for (OnnxMessage shape = message.message("shape"); shape.next();) {
        if (shape.field() == 1) out.dims->push_back(read_dimension(shape.message("dimension")));
        else shape.skip();
      }
    } else {
      message.skip();
    }
  }
}

// A TypeProto; what a tensor's says goes to `out`.
OnnxValueInfo::Type read_type(OnnxMessage message, OnnxValueInfo& out) {
  using Type = OnnxValueInfo::Type;
  check_depth(message);
  Type type = Type::kUnknown;
  while (message.next()) switch (message.field()) {
      case 1:
        type = Type::kTensor;
        read_tensor_type(message.message("tensor type"), out);
        break;
      case 4:
      case 9: {
        const bool is_optional = message.field() == 9;
        OnnxValueInfo of_element;
        Type element = Type::kUnknown;
        for (OnnxMessage wrapped = message.message("type of a list or an optional"); wrapped.next();) {
          if (wrapped.field() == 1) element = read_type(wrapped.message("element type"), of_element);
          else wrapped.skip();
        }
        if (element == Type::kTensor) type = is_optional ? Type::kOptional : Type::kSequence;
        else type = is_optional && element == Type::kSequence ? Type::kOptionalSequence : Type::kOther;
        break;
      }
      case 5:
      case 7:
      case 8:
        type = Type::kOther;
        message.skip();
        break;
      default: message.skip();
    }
  return type;
}

OnnxValueInfo read_value_info(OnnxMessage message) {
  OnnxValueInfo out;
  out.type = OnnxValueInfo::Type::kUnknown;
  while (message.next()) {
    if (message.field() == 1) out.name = message.text();
    else if (message.field() == 2) out.type = read_type(message.message("type"), out);
    else if (message.field() == 3) out.doc_string = message.text();
    else message.skip();
  }
  return out;
}

void read_graph(OnnxMessage message, OnnxGraph& out) {
  check_depth(message);
  while (message.next()) switch (message.field()) {
      case 1: out.nodes.push_back(read_node(message.message("node"))); break;
      case 2: out.name = message.text(); break;
      case 5: {
        OnnxNamedTensor tensor = read_tensor(message.message("tensor"));
        if (tensor.has_four_bits) out.four_bit_tensors.push_back(tensor.name);
        out.initializers.emplace_back(std::move(tensor.name), std::move(tensor.tensor));
        break;
      }
      case 10: out.doc_string = message.text(); break;
      case 11: out.inputs.push_back(read_value_info(message.message("input"))); break;
      case 12: out.outputs.push_back(read_value_info(message.message("output"))); break;
      case 13: out.values.push_back(read_value_info(message.message("value"))); break;
      case 15: {
        const OnnxSparseTensor sparse = read_sparse_tensor(message.message("sparse tensor"));
        out.initializers.emplace_back(sparse.name, dense(sparse));
        break;
      }
      default: message.skip();
    }
}

std::pair<std::string, int64_t> read_opset(OnnxMessage message) {
  std::pair<std::string, int64_t> out{"", 1};
  while (message.next()) {
    if (message.field() == 1) out.first = message.text();
    else if (message.field() == 2) out.second = message.integer();
    else message.skip();
  }
  if (out.first == "ai.onnx") out.first.clear();
  return out;
}

OnnxFunction read_function(OnnxMessage message) {
  OnnxFunction out;
  while (message.next()) switch (message.field()) {
      case 1: out.name = message.text(); break;
      case 4: out.inputs.push_back(message.text()); break;
      case 5: out.outputs.push_back(message.text()); break;
      case 6: out.attributes.push_back(message.text()); break;
      case 7: out.nodes.push_back(read_node(message.message("node"))); break;
      case 9: out.opsets.push_back(read_opset(message.message("operator set"))); break;
      case 10: out.domain = message.text(); break;
      case 11: out.default_attributes.push_back(read_attribute(message.message("attribute"))); break;
      default: message.skip();
    }
  if (out.domain == "ai.onnx") out.domain.clear();
  return out;
}

void read_model(OnnxMessage message, OnnxFile& out) {
  bool has_graph = false;
  while (message.next()) switch (message.field()) {
      case 1: out.ir_version = message.integer(); break;
      case 2: out.producer_name = message.text(); break;
      case 3: out.producer_version = message.text(); break;
      case 4: out.domain = message.text(); break;
      case 5: out.model_version = message.integer(); break;
      case 6: out.model_doc_string = message.text(); break;
      case 7:
        QDQ_CHECK(!has_graph, kBadFile, "the ONNX file has two graphs");
        has_graph = true;
        read_graph(message.message("graph"), out);
        break;
      case 8: out.opsets.push_back(read_opset(message.message("operator set"))); break;
      case 14: out.metadata.push_back(read_entry(message.message("metadata entry"))); break;
      case 25: out.functions.push_back(read_function(message.message("function"))); break;
      default: message.skip();
    }
  QDQ_CHECK(has_graph && out.ir_version > 0, kBadFile, "the file is not an ONNX model: it has ",
            has_graph ? "no version" : "no graph");
}

}  // namespace

OnnxFile read_onnx_file(ByteSpan bytes, const OnnxExternalData& external) {
  OnnxFile out;
  try {
    const std::string_view text = text_of(bytes);
    read_model(OnnxMessage({text.data(), text.size()}, "model", &external), out);
  } catch (const protozero::exception&) {
    fail(ErrorCode::kBadFile, "the file is not an ONNX model, or was cut off; copy or export it again");
  }
  return out;
}

}  // namespace qdq::format
