// A quantizer for an imaginary accelerator, written with patterns and source partitions, and what it does to a
// ResNet-18: the same as backend_quantizer.py does in PyTorch, which wrote the model, the calibration data and the
// expected numbers.
//   backend_quantizer EXAMPLES/backend_quantizer
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "format/json.h"
#include "qdq.h"

namespace {

using qdq::Argument;
using qdq::Node;
using qdq::format::Json;

qdq::QuantizationSpec activation_spec() {
  qdq::QuantizationSpec spec;
  spec.dtype = qdq::DType::kS8;
  spec.quant_min = -128;
  spec.quant_max = 127;
  spec.qscheme = qdq::QScheme::kPerTensorAffine;
  spec.observer.class_name = "MinMaxObserver";
  return spec;
}

qdq::QuantizationSpec weight_spec() {
  qdq::QuantizationSpec spec = activation_spec();
  spec.quant_min = -127;
  spec.qscheme = qdq::QScheme::kPerChannelSymmetric;
  spec.ch_axis = 0;
  spec.observer.class_name = "PerChannelMinMaxObserver";
  return spec;
}

// conv2d(x, weight, bias) (-> add(conv, other)) (-> relu); the settings of the convolution are wildcards too, see
// ignore_literals below.
qdq::Pattern conv_pattern(bool has_add, bool has_relu) {
  qdq::Pattern pattern;
  qdq::Graph& graph = *pattern.graph;
  const auto input = [&](const char* name) { return graph.create(Node::Op::kPlaceholder, name); };
  Node* x = input("x");
  Node* weight = input("weight");
  Node* bias = input("bias");
  const Argument::List ones{1, 1};
  Node* last = graph.call("torch.ops.aten.conv2d.default", {x, weight, bias, ones, ones});
  pattern.names = {{"conv", last}};
  if (has_add) {
    Node* other = input("other");
    last = graph.call("torch.ops.aten.add.Tensor", {last, other});
    pattern.names.insert(pattern.names.end(), {{"other", other}, {"add", last}});
  }
  if (has_relu) last = graph.call("torch.ops.aten.relu.default", {last});
  pattern.names.emplace_back("last", last);
  graph.create(Node::Op::kOutput, "output", {Argument(Argument::List{last})});
  return pattern;
}

// Convolutions with what the accelerator computes along with them, then linears, then what only moves numbers.
class AcceleratorQuantizer : public qdq::Quantizer {
 public:
  std::string_view name() const override { return "AcceleratorQuantizer"; }

  void annotate(qdq::Program& program, qdq::Annotations& annotations) override {
    const qdq::Graph& graph = *program.graph;
    for (const auto& [pattern_name, has_add, has_relu] :
         {std::tuple("conv_add_relu", true, true), std::tuple("conv_relu", false, true),
          std::tuple("conv", false, false)})
      for (const qdq::Match& match :
           qdq::find_matches(graph, conv_pattern(has_add, has_relu), {.ignore_literals = true}))
        annotate_conv(match, pattern_name, has_add, annotations);

    for (const qdq::SourcePartition& partition :
         qdq::get_source_partitions(graph, {qdq::source_name("torch.nn.Linear")})) {
      Node* linear = partition.output_nodes.at(0);
      qdq::QuantizationAnnotation& annotation = taken(linear, "linear", "it is an nn.Linear", annotations);
      annotation.set_input(linear->arg(0).node(), activation_spec());
      annotation.set_input(linear->arg(1).node(), weight_spec());
      annotation.output_qspec = activation_spec();
    }
    for (const auto& chain : qdq::find_sequential_partitions(
             graph, {qdq::source_name("torch.nn.ReLU"), qdq::source_name("torch.nn.MaxPool2d")}))
      annotate_shared(chain[1].output_nodes.at(0), annotations);
    for (const char* source : {"torch.nn.AdaptiveAvgPool2d", "torch.flatten"})
      for (const qdq::SourcePartition& partition : qdq::get_source_partitions(graph, {qdq::source_name(source)}))
        annotate_shared(partition.output_nodes.at(0), annotations);
  }

 private:
  qdq::QuantizationAnnotation& taken(Node* node, const char* pattern, std::string reason,
                                     qdq::Annotations& annotations) const {
    annotations.note(node, {std::string(name()), pattern, true, std::move(reason)});
    qdq::QuantizationAnnotation& annotation = annotations[node];
    annotation.annotated = true;
    annotation.annotator = qdq::concat(name(), " ", pattern);
    return annotation;
  }

  void annotate_conv(const qdq::Match& match, const char* pattern, bool has_add, qdq::Annotations& annotations) const {
    Node* conv = match.named("conv");
    Node* last = match.named("last");
    std::vector<Node*> nodes = {conv, last};
    if (has_add) nodes.push_back(match.named("add"));
    if (std::any_of(nodes.begin(), nodes.end(), [&](const Node* node) { return annotations.count(node) > 0; })) return;
    for (Node* node : nodes)
      taken(node, pattern, "the accelerator computes " + std::string(pattern) + " at once", annotations);
    annotations[conv].set_input(conv->arg(0).node(), activation_spec());
    annotations[conv].set_input(conv->arg(1).node(), weight_spec());
    if (has_add) annotations[match.named("add")].set_input(match.named("other"), activation_spec());
    annotations[last].output_qspec = activation_spec();
  }

  void annotate_shared(Node* node, qdq::Annotations& annotations) const {
    Node* input = node->arg(0).node();
    qdq::QuantizationAnnotation& annotation =
        taken(node, "moves numbers", "its output is made of its input's numbers", annotations);
    annotation.set_input(input, qdq::SharedQuantizationSpec{input});
    annotation.output_qspec = qdq::SharedQuantizationSpec{input};
  }
};

std::vector<std::byte> read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw qdq::Error(qdq::ErrorCode::kIo, path.string() + " cannot be read");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

std::string text_of(const qdq::QSpec& spec) {
  if (const auto* shared = std::get_if<qdq::SharedQuantizationSpec>(&spec))
    return "shared with " + qdq::to_string(shared->with);
  const auto* own = std::get_if<qdq::QuantizationSpec>(&spec);
  return own ? qdq::concat(to_string(own->dtype), " [", *own->quant_min, ", ", *own->quant_max, "] ",
                           to_string(*own->qscheme))
             : "float";
}

// In the form of expected.json.
nlohmann::json annotations_of(const qdq::Prepared& prepared) {
  nlohmann::json out = nlohmann::json::object();
  for (const auto& [node, annotation] : prepared.annotations()) {
    nlohmann::json inputs = nlohmann::json::object();
    for (const auto& [producer, spec] : annotation.input_qspec_map) inputs[producer->name()] = text_of(spec);
    out[node->name()] = {{"inputs", inputs}, {"output", text_of(annotation.output_qspec)}};
  }
  return out;
}

std::vector<double> numbers(const qdq::Program& program, const Argument& argument) {
  if (const auto number = argument.number()) return {*number};
  const qdq::Tensor values = program.attribute_of(*argument.node()).to(qdq::DType::kF64);
  return {values.span<double>().begin(), values.span<double>().end()};
}

// How many dequantize operators have the qparams that PyTorch found, scales within the rounding of sums.
size_t count_equal_qparams(const qdq::Program& converted, const Json& expected) {
  size_t equal = 0;
  for (const Node* node : converted.graph->nodes()) {
    if (!expected.contains(node->name())) continue;
    const auto scales = expected[node->name()]["scale"].get<std::vector<double>>();
    const std::vector<double> found = numbers(converted, node->arg(1));
    bool same = scales.size() == found.size() &&
                expected[node->name()]["zero_point"].get<std::vector<double>>() == numbers(converted, node->arg(2));
    for (size_t i = 0; same && i < scales.size(); ++i) same = std::fabs(found[i] - scales[i]) <= 1e-5 * scales[i];
    if (!same) std::printf("%s has other qparams than in PyTorch\n", node->name().c_str());
    equal += same;
  }
  return equal;
}

int run(const std::filesystem::path& folder) {
  const std::vector<std::byte> text = read_file(folder / "expected.json");
  const Json expected =
      qdq::format::parse_json({reinterpret_cast<const char*>(text.data()), text.size()}, "expected.json");

  AcceleratorQuantizer quantizer;
  qdq::Prepared prepared = qdq::prepare_pt2e(qdq::load_pt2(read_file(folder / "model.pt2")), quantizer);
  const std::vector<std::byte> data = read_file(folder / "calibration.f32");
  for (size_t at = 0; at < data.size();) {
    const qdq::Tensor batch = qdq::Tensor::empty({2, 3, 32, 32}, qdq::DType::kF32);
    std::memcpy(batch.raw(), data.data() + at, batch.nbytes());
    at += batch.nbytes();
    prepared.run({batch});
  }
  const qdq::Program converted = qdq::convert_pt2e(prepared);

  const nlohmann::json wanted = expected["annotations"];
  const bool same_annotations = annotations_of(prepared) == wanted;
  const size_t same_qparams = count_equal_qparams(converted, expected["qparams"]);
  for (const qdq::Explanation& explanation : qdq::explain(prepared))
    if (explanation.outcome == qdq::Explanation::Outcome::kFloat)
      std::printf("%s stays in float: %s\n", explanation.node.c_str(), explanation.reason.c_str());
  std::printf("annotations of %zu nodes %s PyTorch's, %zu of %zu qparams agree\n", wanted.size(),
              same_annotations ? "equal" : "differ from", same_qparams, expected["qparams"].size());
  return same_annotations && same_qparams == expected["qparams"].size() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: backend_quantizer EXAMPLES/backend_quantizer\n");
    return 2;
  }
  try {
    return run(argv[1]);
  } catch (const qdq::Error& error) {
    std::fprintf(stderr, "backend_quantizer: %s\n", error.message.c_str());
    return 1;
  }
}
