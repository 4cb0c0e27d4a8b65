// Operators of integers in place of floats between DequantizeLinear and QuantizeLinear.
#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "io/onnx/write_qoperators.h"

namespace qdq {

namespace {

using format::OnnxAttribute;
using format::OnnxGraph;
using format::OnnxNode;

// What a DequantizeLinear reads, or a QuantizeLinear gives: names of integers, scale and zero point.
struct Integers {
  std::string integers, scale, zero_point;
};

const OnnxAttribute* attribute_called(const OnnxNode& node, std::string_view name) {
  const auto found = std::find_if(node.attributes.begin(), node.attributes.end(),
                                  [&](const OnnxAttribute& each) { return each.name == name; });
  return found == node.attributes.end() ? nullptr : &*found;
}

class QOperators {
 public:
  explicit QOperators(OnnxGraph& graph) : graph_(graph) {
    for (const auto& [name, tensor] : graph.initializers) constants_[name] = &tensor;
    for (const auto& output : graph.outputs) kept_.insert(output.name);
    for (OnnxNode& node : graph.nodes) {
      for (const std::string& output : node.outputs) makers_[output] = &node;
      for (const std::string& input : node.inputs) readers_[input].push_back(&node);
      for (const OnnxAttribute& attribute : node.attributes)
        for (const auto& inner : attribute.graphs)
          for (const OnnxNode& reader : inner->nodes) kept_.insert(reader.inputs.begin(), reader.inputs.end());
    }
  }

  int64_t run() {
    int64_t count = 0;
    for (OnnxNode& node : graph_.nodes) count += replace(node);
    std::erase_if(graph_.nodes, [&](const OnnxNode& node) { return gone_.contains(&node); });
    return count;
  }

 private:
  using Inputs = std::optional<std::vector<std::string>>;
  struct Form {
    std::string_view op, integer_op, domain;
    Inputs (QOperators::*inputs)(const OnnxNode& node, const Integers& result) const;
  };

  const Tensor* constant(const std::string& name) const {
    const auto found = constants_.find(name);
    return found == constants_.end() ? nullptr : found->second;
  }

  // Scale and zero point that are known, of integers of 8 bits, or of a bias.
  bool is_known(const OnnxNode& node, bool is_bias) const {
    if (!node.domain.empty() || node.inputs.size() < 3 || attribute_called(node, "block_size")) return false;
    const Tensor *scale = constant(node.inputs[1]), *zero = constant(node.inputs[2]);
    if (scale == nullptr || zero == nullptr || scale->dtype() != DType::kF32) return false;
    return is_bias ? zero->dtype() == DType::kS32 : zero->dtype() == DType::kU8 || zero->dtype() == DType::kS8;
  }

  // What the input of a node is made of; with `axis` the scales may be those of channels along it.
  std::optional<Integers> read(const OnnxNode& node, size_t i, std::optional<int64_t> axis = {},
                               bool is_bias = false) const {
    const auto found = i < node.inputs.size() ? makers_.find(node.inputs[i]) : makers_.end();
    if (found == makers_.end() || found->second->op_type != "DequantizeLinear") return std::nullopt;
    const OnnxNode& from = *found->second;
    if (!is_known(from, is_bias)) return std::nullopt;
    const OnnxAttribute* along = attribute_called(from, "axis");
    const bool is_one = constant(from.inputs[1])->numel() == 1;
    if (!is_one && (!axis || (along ? along->i : 1) != *axis)) return std::nullopt;
    return Integers{from.inputs[0], from.inputs[1], from.inputs[2]};
  }

  // The node that alone reads the value, or null.
  OnnxNode* only_reader(const std::string& value) const {
    const auto found = readers_.find(value);
    if (kept_.contains(value) || found == readers_.end() || found->second.size() != 1) return nullptr;
    return found->second[0];
  }

  // Whether the activation changes nothing that the integers could hold.
  bool is_within(const OnnxNode& activation, const OnnxNode& quantize) const {
    const Tensor &scale = *constant(quantize.inputs[1]), &zero = *constant(quantize.inputs[2]);
    if (scale.numel() != 1) return false;
    const auto at = [&](int64_t integer) { return static_cast<double>(integer - zero.item_int()) * scale.item(); };
    const double low = at(min_of(zero.dtype())), high = at(max_of(zero.dtype()));
    if (activation.op_type == "Relu") return low >= 0;
    const auto bound = [&](size_t i, double other) -> std::optional<double> {
      if (i >= activation.inputs.size() || activation.inputs[i].empty()) return other;
      const Tensor* tensor = constant(activation.inputs[i]);
      return tensor ? std::optional(tensor->item()) : std::nullopt;
    };
    const auto least = bound(1, low), most = bound(2, high);
    return activation.op_type == "Clip" && least && most && *least <= low && high <= *most;
  }

  bool replace(OnnxNode& node) {
    const Form* form = form_of(node);
    if (form == nullptr || node.outputs.size() != 1) return false;
    OnnxNode *next = only_reader(node.outputs[0]), *activation = nullptr;
    if (next && (next->op_type == "Relu" || next->op_type == "Clip") && next->inputs[0] == node.outputs[0]) {
      activation = next;
      next = only_reader(activation->outputs[0]);
    }
    if (!next || next->op_type != "QuantizeLinear" || !is_known(*next, false)) return replace_product(node);
    if (constant(next->inputs[1])->numel() != 1 || (activation && !is_within(*activation, *next)))
      return replace_product(node);
    const Integers result{next->outputs[0], next->inputs[1], next->inputs[2]};
    Inputs inputs = (this->*form->inputs)(node, result);
    if (!inputs) return false;
    become(node, form->integer_op, form->domain, std::move(*inputs));
    node.outputs = {result.integers};
    gone_.insert(next);
    if (activation) gone_.insert(activation);
    makers_[result.integers] = &node;
    return true;
  }

  // Products of matrices have operators that give floats, too.
  bool replace_product(OnnxNode& node) {
    if (node.op_type != "MatMul" && node.op_type != "Gemm") return false;
    const bool is_gemm = node.op_type == "Gemm";
    Inputs inputs = is_gemm ? gemm(node, {}) : matmul_to_float(node);
    if (!inputs) return false;
    while (inputs->back().empty()) inputs->pop_back();  // the result's scale and zero point, and a bias that is none
    become(node, is_gemm ? "QGemm" : "MatMulIntegerToFloat", kMicrosoft, std::move(*inputs));
    return true;
  }

  static void become(OnnxNode& node, std::string_view op, std::string_view domain, std::vector<std::string> inputs) {
    node.op_type = op;
    node.domain = domain;
    node.inputs = std::move(inputs);
    if (op == "QGemm") std::erase_if(node.attributes, [](const OnnxAttribute& each) { return each.name == "beta"; });
  }

  static void append(std::vector<std::string>& to, const Integers& from) {
    to.insert(to.end(), {from.integers, from.scale, from.zero_point});
  }

  // The inputs in front, each with its scale and zero point, then those of the result.
  Inputs of_inputs(const OnnxNode& node, const Integers& result, size_t count) const {
    std::vector<std::string> out;
    for (size_t i = 0; i < count; ++i) {
      const auto input = read(node, i);
      if (!input) return std::nullopt;
      append(out, *input);
    }
    out.insert(out.end(), {result.scale, result.zero_point});
    return out;
  }
  Inputs unary(const OnnxNode& node, const Integers& result) const { return of_inputs(node, result, 1); }
  Inputs binary(const OnnxNode& node, const Integers& result) const { return of_inputs(node, result, 2); }

  // The integers of the bias of a layer, "" if it has none.
  std::optional<std::string> bias(const OnnxNode& node) const {
    if (node.inputs.size() < 3) return std::string();
    const auto integers = read(node, 2, 0, true);
    return integers ? std::optional(integers->integers) : std::nullopt;
  }

  Inputs convolution(const OnnxNode& node, const Integers& result) const {
    const auto x = read(node, 0), weight = read(node, 1, 0);
    const auto added = bias(node);
    if (!x || !weight || !added) return std::nullopt;
    std::vector<std::string> out;
    append(out, *x);
    append(out, *weight);
    out.insert(out.end(), {result.scale, result.zero_point});
    if (!added->empty()) out.push_back(*added);
    return out;
  }

  Inputs gemm(const OnnxNode& node, const Integers& result) const {
    const OnnxAttribute *turned = attribute_called(node, "transB"), *beta = attribute_called(node, "beta");
    const auto a = read(node, 0), b = read(node, 1, turned && turned->i != 0 ? 0 : 1);
    const auto added = bias(node);
    if (!a || !b || !added || (beta && beta->f != 1)) return std::nullopt;
    std::vector<std::string> out;
    append(out, *a);
    append(out, *b);
    out.insert(out.end(), {*added, result.scale, result.zero_point});
    return out;
  }

  Inputs matmul(const OnnxNode& node, const Integers& result) const {
    const auto a = read(node, 0), b = read(node, 1, 1);
    if (!a || !b) return std::nullopt;
    std::vector<std::string> out;
    append(out, *a);
    append(out, *b);
    out.insert(out.end(), {result.scale, result.zero_point});
    return out;
  }

  Inputs matmul_to_float(const OnnxNode& node) const {
    const auto a = read(node, 0), b = read(node, 1, 1);
    if (!a || !b) return std::nullopt;
    return std::vector<std::string>{a->integers, b->integers, a->scale, b->scale, a->zero_point, b->zero_point};
  }

  Inputs concat(const OnnxNode& node, const Integers& result) const {
    std::vector<std::string> out = {result.scale, result.zero_point};
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const auto input = read(node, i);
      if (!input) return std::nullopt;
      append(out, *input);
    }
    return out;
  }

  // What only moves numbers moves integers if these keep their scale.
  Inputs moved(const OnnxNode& node, const Integers& result) const {
    const auto input = read(node, 0);
    if (!input || input->scale != result.scale || input->zero_point != result.zero_point) return std::nullopt;
    std::vector<std::string> out = node.inputs;
    out[0] = input->integers;
    return out;
  }

  static constexpr std::string_view kMicrosoft = "com.microsoft";

  static const Form* form_of(const OnnxNode& node) {
    static constexpr Form kForms[] = {{"Conv", "QLinearConv", "", &QOperators::convolution},
                                      {"Gemm", "QGemm", kMicrosoft, &QOperators::gemm},
                                      {"MatMul", "QLinearMatMul", "", &QOperators::matmul},
                                      {"Add", "QLinearAdd", kMicrosoft, &QOperators::binary},
                                      {"Mul", "QLinearMul", kMicrosoft, &QOperators::binary},
                                      {"Sigmoid", "QLinearSigmoid", kMicrosoft, &QOperators::unary},
                                      {"LeakyRelu", "QLinearLeakyRelu", kMicrosoft, &QOperators::unary},
                                      {"AveragePool", "QLinearAveragePool", kMicrosoft, &QOperators::unary},
                                      {"GlobalAveragePool", "QLinearGlobalAveragePool", kMicrosoft, &QOperators::unary},
                                      {"Concat", "QLinearConcat", kMicrosoft, &QOperators::concat},
                                      {"Flatten", "Flatten", "", &QOperators::moved},
                                      {"MaxPool", "MaxPool", "", &QOperators::moved},
                                      {"Reshape", "Reshape", "", &QOperators::moved},
                                      {"Slice", "Slice", "", &QOperators::moved},
                                      {"Squeeze", "Squeeze", "", &QOperators::moved},
                                      {"Transpose", "Transpose", "", &QOperators::moved},
                                      {"Unsqueeze", "Unsqueeze", "", &QOperators::moved}};
    if (!node.domain.empty()) return nullptr;
    const auto found =
        std::find_if(std::begin(kForms), std::end(kForms), [&](const Form& form) { return form.op == node.op_type; });
    return found == std::end(kForms) ? nullptr : found;
  }

  OnnxGraph& graph_;
  std::unordered_map<std::string, const Tensor*> constants_;
  std::unordered_map<std::string, const OnnxNode*> makers_;
  std::unordered_map<std::string, std::vector<OnnxNode*>> readers_;
  std::unordered_set<std::string> kept_;  // values that the graph gives, or that graphs within it read
  std::unordered_set<const OnnxNode*> gone_;
};

}  // namespace

int64_t use_qoperators(OnnxGraph& graph) { return QOperators(graph).run(); }

}  // namespace qdq
