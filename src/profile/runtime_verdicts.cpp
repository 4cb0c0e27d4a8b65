// The rules of a profile, held against the quantize and dequantize nodes of a program.
#include "profile/runtime_verdicts.h"

#include <algorithm>
#include <cmath>

#include "format/json.h"
#include "graph/shown_module.h"
#include "op/facts.h"
#include "op/targets.h"
#include "quant/quantizers/patterns.h"

namespace qdq {

namespace {

bool is_quantize(const Node& node) { return is_a(node, Family::kQuantize); }
bool is_dequantize(const Node& node) { return is_a(node, Family::kDequantize); }

// Whether a {quantize,dequantize} node has scales that the graph computes.
bool has_own_range(const Node& node) {
  const Node* scale = node.arg(1).node();
  return scale != nullptr && scale->op() != Node::Op::kGetAttr;
}

// Whether two quantize nodes give the same integers of the same value.
bool are_equal(const Node& a, const Node& b) { return a.target() == b.target() && a.args() == b.args(); }

// The dtype of the integers of a {quantize,dequantize}_per_{tensor,channel} node: its last argument.
DType dtype_of_integers(const Node& node) {
  for (const Argument& argument : node.args())
    if (argument.is<DType>()) return argument.as<DType>();
  return DType::kF32;
}

class Judge {
 public:
  Judge(const Program& program, const RuntimeProfile& profile) : program_(program), profile_(profile) {}

  std::vector<RuntimeVerdict> run() const {
    std::vector<RuntimeVerdict> out;
    for (const Node* node : program_.graph->nodes()) {
      if (node->op() != Node::Op::kCallFunction || is_quantize(*node) || is_dequantize(*node)) continue;
      const bool is_attention = is_a(*node, Family::kAttention);
      const bool is_product = is_attention || is_a(*node, Family::kConvolution) || is_a(*node, Family::kLinear) ||
                              is_a(*node, Family::kTransposedConvolution) || is_a(*node, Family::kMatmul);
      const RuntimeRule* rule = rule_of(*node);
      if (!is_product && (rule == nullptr || !touches_integers(*node))) continue;
      RuntimeVerdict verdict;
      verdict.node = node->name();
      verdict.module = shown_module(node->meta).value_or("");
      verdict.op = short_name(node->target());
      verdict.products = is_attention ? 2 : is_product ? 1 : 0;
      verdict.reason = rule ? why_float(*node, *rule) : concat(profile_.runtime, " has no integer form of it");
      verdict.in_integers = verdict.reason.empty();
      if (verdict.in_integers) verdict.kernel = kernel_of(*node, *rule);
      out.push_back(std::move(verdict));
    }
    return out;
  }

 private:
  std::string_view kernel_of(const Node& node, const RuntimeRule& rule) const {
    if (rule.kernel.empty()) return "moved as they are";
    const Node* input = rule.dynamic_kernel.empty() ? nullptr : dequantized(padded(node, input_of(node)));
    return input && has_own_range(*input) ? rule.dynamic_kernel : rule.kernel;
  }

  const RuntimeRule* rule_of(const Node& node) const {
    for (const RuntimeRule& rule : profile_.rules)
      if (is_one_of(node, rule.operators)) return &rule;
    return nullptr;
  }

  static bool touches_integers(const Node& node) {
    const std::vector<Node*> inputs = node.input_nodes();
    const auto reads = [](const Node* input) { return is_dequantize(*input); };
    const auto gives = [](const Node* user) { return is_quantize(*user); };
    return std::any_of(inputs.begin(), inputs.end(), reads) ||
           std::any_of(node.users().begin(), node.users().end(), gives);
  }

  // A convolution's zeros around its input are its own: they are apart where both sides differ.
  static const Node* padded(const Node& node, const Node* input) {
    if (!is_a(node, Family::kConvolution) || input == nullptr || input->users().size() != 1) return input;
    const bool is_pad = is_one_of(*input, "aten.pad aten.constant_pad_nd");
    if (!is_pad || (is_one_of(*input, "aten.pad") && input->args().size() > 2)) return input;
    const bool has_zeros = is_one_of(*input, "aten.pad") || input->arg(2).number().value_or(0) == 0;
    return has_zeros ? input_of(*input) : input;
  }

  bool is_same_terms(const Node& node) const {
    const RuntimeRule* rule = rule_of(node);
    return rule && rule->form == IntegerForm::kSameTerms;
  }

  // The dequantize node that gives the value, perhaps through what only moves it; null if the value is float.
  const Node* dequantized(const Node* node) const {
    while (node && !is_dequantize(*node) && is_same_terms(*node) && !is_a(*node, Family::kConcat))
      node = input_of(*node);
    return node && is_dequantize(*node) ? node : nullptr;
  }

  // The data type of a dequantized activation or of a quantized result, as the runtime sees it.
  DType dtype_of(const Node& node) const {
    const DType dtype = dtype_of_integers(node);
    const Node* integers = is_quantize(node) ? &node : node.arg(0).node();
    if (dtype != DType::kS8 || !profile_.joins_lone_int8 || integers == nullptr) return dtype;
    // save_onnx writes it as uint8, unless it was read so; and then one that has one reader becomes uint8 there. The
    // floats within an operator of integers, which may be int8, have no names.
    const Node* floats = is_quantize(node) ? node.arg(0).node() : &node;
    if (!was_read(*integers) || !was_read(*floats) || integers->op() != Node::Op::kCallFunction) return DType::kU8;
    const bool is_lone = integers->users().size() == 1 && is_dequantize(*integers->users()[0]) &&
                         integers->users()[0]->users().size() == 1;
    return is_lone ? DType::kU8 : dtype;
  }

  static bool was_read(const Node& node) {
    return !node.meta.extra_of(kOnnxNode).empty() || !node.meta.extra_of(kOnnxValue).empty();
  }

  bool takes(DType dtype) const {
    if (profile_.wants_same_dtypes) return dtype == DType::kS8;
    return dtype == DType::kU8 || (profile_.can_16_bits && dtype == DType::kU16);
  }

  std::string_view wanted() const {
    return profile_.wants_same_dtypes ? "int8" : profile_.can_16_bits ? "uint8 or uint16" : "uint8";
  }

  std::string not_taken(DType dtype, std::string_view what) const {
    if (dtype == DType::kS8 && profile_.joins_lone_int8)
      return concat(what, " is int8 and has several readers; qdq convert FILE OUT.onnx writes it as uint8");
    return concat(what, " is ", to_string(dtype), ", wanted ", wanted());
  }

  std::vector<const Node*> activations(const Node& node) const {
    std::vector<const Node*> out;
    const OpDef* op = op_of(node);
    if (op->roles.activation >= 0)
      argument_of(node, static_cast<size_t>(op->roles.activation)).for_each_node([&](Node* n) { out.push_back(n); });
    if (const Node* other = other_of(node)) out.push_back(other);
    return out;
  }

  std::string why_float(const Node& node, const RuntimeRule& rule) const {
    const bool is_layer = rule.form == IntegerForm::kLayer || rule.form == IntegerForm::kOpenLayer;
    if (rule.form == IntegerForm::kTable) return why_not_its_weight(node);
    const std::vector<const Node*> inputs = activations(node);
    if (op_of(node)->roles.other >= 0 && inputs.size() < 2) return "one of its operands is a number";
    bool is_dynamic = false;
    DType dtype = DType::kF32;
    for (const Node* input : inputs) {
      const Node* dequantize = dequantized(padded(node, input));
      if (dequantize == nullptr) return concat("its input ", input->name(), " is not quantized");
      if (const TensorMeta* meta = dequantize->meta.val.tensor(); meta != nullptr && meta->dtype != DType::kF32)
        return concat("its input ", input->name(), " is ", to_string(meta->dtype), " where it is not integers, wanted ",
                      "float32");
      is_dynamic |= has_own_range(*dequantize);
      const DType own = dtype_of(*dequantize);
      if (is_dynamic) continue;
      if (!takes(own)) return not_taken(own, "its input " + input->name());
      if (dtype != DType::kF32 && own != dtype) return "its inputs are of different data types";
      dtype = own;
    }
    if (is_dynamic && (!profile_.can_dynamic || !is_layer)) return "the ranges of its inputs are found while it runs";
    if (!is_dynamic && profile_.is_dynamic && is_layer)
      return "the ranges of its inputs are fixed, and this profile finds them while the model runs";
    if (rule.only_global_pools)
      if (std::string reason = why_not_global_pool(node); !reason.empty()) return reason;
    if (rule.refuses != nullptr)
      if (std::string reason = rule.refuses(node, is_dynamic); !reason.empty()) return reason;
    if (is_layer)
      if (std::string reason = why_not_its_weight(node, is_dynamic); !reason.empty()) return reason;
    return is_dynamic ? "" : why_not_its_result(node, rule, dtype);
  }

  std::string why_not_its_weight(const Node& node, bool is_dynamic = false) const {
    const Node *weight = weight_of(node), *bias = bias_of(node);
    if (weight == nullptr || !is_dequantize(*weight)) return "its weight is not quantized";
    const DType dtype = dtype_of_integers(*weight);
    if (weight->is(op::kDequantizeGroups) && profile_.ending == ".onnx")
      return "its weight has scales by groups, which ONNX has only for float inputs (MatMulNBits)";
    if (is_dynamic && dtype == DType::kS8 && is_a(node, Family::kConvolution) && profile_.ending == ".onnx" &&
        was_read(*dequantized(padded(node, input_of(node)))->arg(0).node()))
      return "ONNX Runtime has no ConvInteger of int8 weights and refuses the file; qdq convert FILE OUT.onnx writes "
             "them as uint8";
    if (dtype != DType::kS8 && (profile_.wants_same_dtypes || dtype != DType::kU8))
      return concat("its weight is ", to_string(dtype), ", wanted int8");
    if (bias == nullptr) return profile_.wants_bias ? "it has no bias" : "";
    if (bias->op() != Node::Op::kGetAttr) return "its bias is computed, so that it cannot be int32";
    return "";
  }

  std::string why_not_its_result(const Node& node, const RuntimeRule& rule, DType dtype) const {
    const bool may_be_float = rule.form == IntegerForm::kOpenLayer || rule.form == IntegerForm::kProduct;
    const Node* last = &node;
    std::vector<const Node*> readers(node.users().begin(), node.users().end());
    const auto quantizes = [](const Node* reader) { return is_quantize(*reader); };
    if (readers.size() == 1 && is_one_of(*readers[0], rule.fused.value_or(profile_.fused)) &&
        std::any_of(readers[0]->users().begin(), readers[0]->users().end(), quantizes)) {
      last = readers[0];
      if (!may_be_float && !profile_.clips_freely && !is_redundant(*last))
        return concat(last->name(), " behind it cuts off what its integers can hold");
      readers.assign(last->users().begin(), last->users().end());
    }
    if (std::none_of(readers.begin(), readers.end(), quantizes)) {
      if (may_be_float) return "";
      if (rule.form == IntegerForm::kSameTerms && std::all_of(readers.begin(), readers.end(), [&](const Node* reader) {
            return is_one_of(*reader, kProducts);
          }))
        return "";
      return concat("its result ", last->name(), " is not quantized");
    }
    if (may_be_float && last != &node) return "";
    // Pairs for each reader are one to a runtime that computes what is equal once.
    const bool is_one = std::all_of(readers.begin(), readers.end(),
                                    [&](const Node* reader) { return are_equal(*reader, *readers[0]); });
    if (readers.size() > 1 && (!is_one || profile_.ending != ".onnx"))
      return concat("others read its result ", last->name(), " as float, or in other terms");
    const DType own = dtype_of(*readers[0]);
    if (own != dtype) return not_taken(own, "its result " + last->name());
    return rule.form == IntegerForm::kSameTerms && !is_a(node, Family::kConcat) ? why_not_same_terms(node, *readers[0])
                                                                                : "";
  }

  static constexpr std::string_view kProducts = "aten.linear aten.matmul aten.bmm";

  // Whether the integers behind a clip hold nothing that it would cut off.
  static bool is_redundant(const Node& clip) {
    const Node& quantize =
        **std::find_if(clip.users().begin(), clip.users().end(), [](const Node* user) { return is_quantize(*user); });
    if (!quantize.is(op::kQuantize)) return false;
    const auto activation = activation_function(clip);
    const double scale = quantize.arg(1).number().value_or(0);
    const auto bound = [&](size_t i) {
      return static_cast<double>(quantize.arg(i).integer().value_or(0) - quantize.arg(2).integer().value_or(0)) * scale;
    };
    double low = -INFINITY, high = INFINITY;
    if (is_form_of(clip, op::kRelu)) low = 0;
    else if (op_of(clip)->family == Family::kClamp || activation) {
      low = clip.args().size() > 1 ? clip.arg(1).number().value_or(-INFINITY) : low;
      high = clip.args().size() > 2 ? clip.arg(2).number().value_or(INFINITY) : high;
      if (base_name(clip.target()).starts_with("relu6")) low = 0, high = 6;
      if (base_name(clip.target()).starts_with("hardtanh") && clip.args().size() == 1) low = -1, high = 1;
    }
    const double slack = scale / 100;  // of rounding
    return bound(3) >= low - slack && bound(4) <= high + slack;
  }

  static std::string why_not_same_terms(const Node& node, const Node& quantize) {
    const Node* dequantize = input_of(node);
    if (dequantize == nullptr || !is_dequantize(*dequantize)) return "";
    for (const size_t i : {size_t{1}, size_t{2}})
      if (dequantize->arg(i).number() != quantize.arg(i).number())
        return "its input and its result have different scales or zero points";
    return "";
  }

  const Program& program_;
  const RuntimeProfile& profile_;
};

}  // namespace

std::vector<RuntimeVerdict> runtime_verdicts(const Program& program, const RuntimeProfile& profile) {
  return Judge(program, profile).run();
}

bool needs_rounding(const Node& value, const RuntimeProfile& profile) {
  const auto is_behind = [&](const RuntimeRule& rule) {
    if (rule.form != IntegerForm::kLayer) return false;
    if (is_one_of(value, rule.operators)) return true;
    const Node* layer = is_one_of(value, rule.fused.value_or(profile.fused)) ? input_of(value) : nullptr;
    return layer != nullptr && layer->users().size() == 1 && is_one_of(*layer, rule.operators);
  };
  return std::any_of(profile.rules.begin(), profile.rules.end(), is_behind);
}

ProductCount count_products(const std::vector<RuntimeVerdict>& verdicts) {
  ProductCount out;
  for (const RuntimeVerdict& verdict : verdicts) {
    out.total += verdict.products;
    out.in_integers += verdict.in_integers ? verdict.products : 0;
  }
  return out;
}

format::Json verdicts_report(const std::vector<RuntimeVerdict>& verdicts, const RuntimeProfile& profile) {
  using format::json_object;
  const ProductCount count = count_products(verdicts);
  format::Json operators = format::Json::array();
  for (const RuntimeVerdict& verdict : verdicts) {
    format::Json entry = json_object({{"node", verdict.node},
                                      {"products", verdict.products},
                                      {"module", verdict.module},
                                      {"op", verdict.op},
                                      {"runs", verdict.in_integers ? "integers" : "float"}});
    if (verdict.in_integers) entry["kernel"] = verdict.kernel;
    else entry["reason"] = verdict.reason;
    operators.push_back(std::move(entry));
  }
  return json_object({{"profile", profile.name},
                      {"runtime", profile.runtime},
                      {"products", json_object({{"in_integers", count.in_integers}, {"total", count.total}})},
                      {"operators", std::move(operators)}});
}

}  // namespace qdq
