// convert_pt2e: observers become quantize / dequantize operators with their qparams, and weights become integers.
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/large_blocks.h"
#include "base/listed.h"
#include "graph/dead_code.h"
#include "op/targets.h"
#include "quant/constant_fold.h"
#include "quant/fold_batch_norm.h"
#include "quant/prepared_impl.h"
#include "quant/observers/qparams.h"
#include "quant/reference_representation.h"

namespace qdq {

namespace {

std::string decomposed(std::string_view name) { return op::target(concat("quantized_decomposed.", name)); }

ValueMeta with_dtype(const ValueMeta& like, DType dtype) {
  ValueMeta out = like;
  if (TensorMeta* tensor = std::get_if<TensorMeta>(&out.value)) {
    tensor->dtype = dtype;
    tensor->requires_grad = false;
  }
  return out;
}

// Replaces the observers of one program, a copy of the prepared one.
class Replacer {
 public:
  // `is_form`: observers without data get placeholders, as PyTorch gives them.
  Replacer(Program& program, const Prepared::Impl& prepared, const std::vector<ObserverGroup>& groups, bool is_form)
      : program_(program), graph_(*program.graph), prepared_(prepared), groups_(groups),
        takes_placeholders_(is_form || prepared.compat == Compat::kTorch26),
        leaves_unseen_(!takes_placeholders_ && prepared.has_seen_data()) {}

  void run() {
    for (Node* node : graph_.nodes()) {
      const auto group = prepared_.group_of_module(*node);
      if (!group) continue;
      const Observer& observer = *groups_[*group].observer;
      Node* input = node->arg(0).node();
      const auto point = graph_.insert_before(node);
      Node* replacement = input;
      if (observer.args().is_dynamic) replacement = quantize_dynamically(observer, input);
      else if (leaves_unseen_ && prepared_.is_unseen(*group)) replacement = input;
      else if (quantizes_statically(observer)) replacement = quantize(observer, input);
      else if (rounds_to_half(observer, prepared_.compat)) replacement = round_to_half(input, observer.args().dtype);
      if (replacement != input && node->meta.debug_handle) replacement->meta.debug_handle = node->meta.debug_handle;
      node->replace_all_uses_with(replacement);
      graph_.erase(node);
    }
    if (!uncalibrated_.empty()) {
      fail(ErrorCode::kNotCalibrated, "these observers have seen no data: ", listed(uncalibrated_, 5),
           "; run the calibration batches first, or leave those nodes out");
    }
    eliminate_dead_code(program_);
  }

 private:
  // FX graph mode shows a fake quantizer the folded weight once more before it asks for qparams
  // (torch/ao/quantization/fx/convert.py, convert_weighted_module).
  std::optional<QParams> qparams_of_folded_weight(const Observer& observer, const Node* input) {
    if (observer.args().qdtype == QDType::kPlain || !prepared_.is_qat) return std::nullopt;
    for (const QatConvBn& names : prepared_.conv_bns) {
      if (names.scaled_weight != input->name()) continue;
      Node *conv = graph_.find(names.conv), *weight = graph_.find(names.weight);
      return observer.qparams_after(
          folded_weight(program_, {conv, weight, conv, nullptr, conv, graph_.find(names.norm)}));
    }
    return std::nullopt;
  }

  QParams qparams_of(const Observer& observer, const Node* input) {
    if (observer.calibrated())
      if (auto qparams = qparams_of_folded_weight(observer, input)) return std::move(*qparams);
    if (takes_placeholders_) return observer.calculate_qparams_or_default();
    if (observer.calibrated()) return observer.calculate_qparams();
    uncalibrated_.push_back(concat("that of ", input->name()));
    return observer.calculate_qparams_or_default();
  }

  // A buffer with a value, and a get_attr node that reads it; named as PyTorch names it: "<scope>_scale_<n>".
  Node* buffer(const std::string& prefix, Tensor value) {
    std::string base = prefix;
    std::replace(base.begin(), base.end(), '.', '_');
    int64_t& n = next_buffer_[base];
    while (program_.find_attribute(base + std::to_string(n))) ++n;
    const std::string name = base + std::to_string(n);
    Node* node = graph_.get_attr(name);
    SymShape sizes;
    for (const int64_t size : value.sizes()) sizes.emplace_back(size);
    node->meta.val.value = TensorMeta{value.dtype(), sizes, {}, false};
    program_.add_attribute({name, std::move(value), Attribute::Kind::kBuffer, true, false});
    return node;
  }

  // The module that the buffers of a tensor's qparams are named by.
  std::string scope_of(const Node& input) const {
    const auto found = prepared_.scopes.find(input.name());
    return found == prepared_.scopes.end() ? "" : found->second;
  }

  // A weight in groups along its rows: (scales, zero points, quant_min, quant_max, dtype, group_size[, output_dtype]).
  Node* quantize_groups(const Observer& observer, Node* input, const QParams& qparams) {
    const TensorMeta* meta = input->meta.val.tensor();
    const DType dtype = observer.args().dtype, own = meta ? meta->dtype : DType::kF32;
    const auto count = static_cast<int64_t>(qparams.scale.size());
    const int64_t rows = meta && !meta->sizes.empty() ? meta->sizes[0].constant().value_or(1) : 1;
    const Shape sizes = {rows, rows == 0 ? 0 : count / rows};
    const std::string scope = scope_of(*input);
    std::vector<Argument> args = {input};
    args.emplace_back(buffer(scope + "_scale_", Tensor::of<float>(sizes, std::span<const float>(qparams.scale))));
    args.emplace_back(buffer(scope + "_zero_point_",
                             Tensor::of<int64_t>(sizes, std::span<const int64_t>(qparams.zero_point)).to(DType::kS32)));
    for (const Argument& rest : {Argument(observer.quant_min()), Argument(observer.quant_max()), Argument(dtype),
                                 Argument(observer.args().group_size)})
      args.push_back(rest);
    Node* q = graph_.call(std::string(op::kQuantizeGroups), std::vector<Argument>(args));
    q->meta.val = with_dtype(input->meta.val, dtype);
    args[0] = q;
    args.emplace_back(own);
    Node* dq = graph_.call(std::string(op::kDequantizeGroups), std::move(args));
    dq->meta.val = with_dtype(input->meta.val, own);
    return dq;
  }

  Node* quantize(const Observer& observer, Node* input) {
    const QParams qparams = qparams_of(observer, input);
    const DType dtype = observer.args().dtype;
    if (observer.args().group_size != 0) return quantize_groups(observer, input, qparams);
    const bool per_channel = is_per_channel(observer.args().qscheme);
    std::vector<Argument> rest;  // everything behind the tensor
    if (per_channel) {
      const std::string scope = scope_of(*input);
      const int64_t channels = static_cast<int64_t>(qparams.scale.size());
      rest.push_back(buffer(scope + "_scale_", Tensor::of<float>({channels}, std::span<const float>(qparams.scale))));
      const Tensor zero_points = qparams.float_zero_point.empty()
                                     ? Tensor::of<int64_t>({channels}, std::span<const int64_t>(qparams.zero_point))
                                           .to(qparams.zero_point_dtype)
                                     : Tensor::of<float>({channels}, std::span<const float>(qparams.float_zero_point));
      rest.push_back(buffer(scope + "_zero_point_", zero_points));
      rest.push_back(observer.args().ch_axis);
    } else {
      QDQ_CHECK(qparams.scale.size() == 1, kInvalidArgument, "the observer of ", input->name(), " gives ",
                qparams.scale.size(), " scales for a per-tensor scheme");
      rest.push_back(static_cast<double>(qparams.scale[0]));
      rest.push_back(qparams.float_zero_point.empty() ? qparams.zero_point.at(0)
                                                      : static_cast<int64_t>(qparams.float_zero_point.at(0)));
    }
    const QDType qdtype = observer.args().qdtype;
    const IntegerRange range = qdtype == QDType::kPlain      ? IntegerRange{observer.quant_min(), observer.quant_max()}
                               : qdtype == QDType::kQuint4x2 ? IntegerRange{0, 15}
                                                             : IntegerRange{min_of(dtype), max_of(dtype)};
    rest.push_back(range.min);
    rest.push_back(range.max);
    rest.push_back(dtype);
    if (qdtype != QDType::kPlain && !qparams.float_zero_point.empty() && input->op() == Node::Op::kGetAttr)
      return dequantize_table(input, qparams, observer.args().ch_axis, range, rest);
    const std::string kind = per_channel ? "quantize_per_channel.default" : "quantize_per_tensor.default";
    return pair(input, kind, rest, dtype);
  }

  // The integers of a constant with float zero points, which torch.quantize_per_channel adds before it rounds, other
  // than the operator quantize_per_channel (ATen/native/quantized/AffineQuantizerBase.cpp, quantize_val_float_qparams).
  Node* dequantize_table(Node* input, const QParams& qparams, int64_t axis, IntegerRange range,
                         const std::vector<Argument>& rest) {
    const Tensor x = program_.attribute_of(*input).contiguous();
    const size_t at = wrap_axis(axis, x.dim());
    int64_t inner = 1;
    for (size_t i = at + 1; i < x.sizes().size(); ++i) inner *= x.sizes()[i];
    Tensor q = Tensor::empty(x.sizes(), DType::kU8);
    const std::span<const float> values = x.span<float>();
    const std::span<uint8_t> integers = q.span<uint8_t>();
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t channel = i / static_cast<size_t>(inner) % qparams.scale.size();
      const float sum = values[i] * (1.0f / qparams.scale[channel]) + qparams.float_zero_point[channel];
      integers[i] = static_cast<uint8_t>(
          std::clamp(std::nearbyint(sum), static_cast<float>(range.min), static_cast<float>(range.max)));
    }
    Node* table = buffer(node_name_of(input->target()) + "_quantized_", q);
    std::vector<Argument> args = {table};
    args.insert(args.end(), rest.begin(), rest.end());
    Node* dq = graph_.call(std::string(op::kDequantizeChannels), std::move(args));
    dq->meta.val = input->meta.val;
    return dq;
  }

  // quantize(input, rest) -> dequantize(that, rest)
  Node* pair(Node* input, const std::string& kind, const std::vector<Argument>& rest, DType dtype) {
    const auto args = [&](Node* first) {
      std::vector<Argument> out = {first};
      out.insert(out.end(), rest.begin(), rest.end());
      return out;
    };
    Node* q = graph_.call(decomposed(kind), args(input));
    q->meta.val = with_dtype(input->meta.val, dtype);
    Node::Kwargs kwargs;
    const TensorMeta* meta = input->meta.val.tensor();
    if (meta && meta->dtype != DType::kF32) kwargs.emplace_back("out_dtype", meta->dtype);
    Node* dq = graph_.call(decomposed("de" + kind), args(q), std::move(kwargs));
    dq->meta.val = with_dtype(input->meta.val, meta ? meta->dtype : DType::kF32);
    return dq;
  }

  static void set_choice(Node* choose, Node* scale, Node* zero_point, const SymShape& sizes) {
    const ValueMeta scale_meta{TensorMeta{DType::kF64, sizes, {}, false}},
        zero_meta{TensorMeta{DType::kS64, sizes, {}, false}};
    choose->meta.val.value = std::vector<ValueMeta>{scale_meta, zero_meta};
    scale->meta.val = scale_meta;
    zero_point->meta.val = zero_meta;
  }

  // A scale and a zero point for each row along the last axis, as torchao's Int8DynActInt4WeightQuantizer has them.
  Node* quantize_tokens(const Observer& observer, Node* input) {
    const DType dtype = observer.args().dtype;
    const TensorMeta* meta = input->meta.val.tensor();
    QDQ_CHECK(dtype == DType::kS8 && meta && meta->dtype == DType::kF32 && !meta->sizes.empty(), kUnsupported,
              "the dynamic spec of ", input->name(), " asks for ", to_string(dtype),
              " per token; PyTorch has that for int8 of float32 tensors with axes");
    const int64_t least = observer.args().quant_min.value_or(min_of(dtype)),
                  most = observer.args().quant_max.value_or(max_of(dtype));
    QDQ_CHECK(least == min_of(dtype) && most == max_of(dtype), kUnsupported, "the dynamic spec of ", input->name(),
              " asks for integers from ", least, " to ", most, " per token; PyTorch's operator chooses among ",
              min_of(dtype), " to ", max_of(dtype));
    Node* choose = graph_.call(std::string(op::kChooseQParamsPerToken), {input, dtype});
    Node* scale = graph_.call(std::string(op::kGetItem), {choose, 0});
    Node* zero_point = graph_.call(std::string(op::kGetItem), {choose, 1});
    SymShape sizes = meta->sizes;
    sizes.back() = SymInt(1);
    set_choice(choose, scale, zero_point, sizes);
    std::vector<Argument> args = {input, scale, zero_point, least, most, dtype};
    Node* q = graph_.call(std::string(op::kQuantizePerToken), std::vector<Argument>(args));
    q->meta.val = with_dtype(input->meta.val, dtype);
    args[0] = q;
    args.emplace_back(DType::kF32);
    Node* dq = graph_.call(std::string(op::kDequantizePerToken), std::move(args));
    dq->meta.val = with_dtype(input->meta.val, DType::kF32);
    return dq;
  }

  Node* quantize_dynamically(const Observer& observer, Node* input) {
    const ObserverArgs& settings = observer.args();
    QDQ_CHECK(settings.dtype == DType::kU8 || settings.dtype == DType::kS8, kUnsupported, "the dynamic spec of ",
              input->name(), " asks for ", to_string(settings.dtype), "; dynamic quantization knows int8 and uint8");
    if (settings.qscheme == QScheme::kPerTokenAffine) return quantize_tokens(observer, input);
    const bool symmetric = settings.qscheme == QScheme::kPerTensorSymmetric;
    QDQ_CHECK(symmetric || settings.qscheme == QScheme::kPerTensorAffine, kUnsupported, "the dynamic spec of ",
              input->name(), " asks for ", to_string(settings.qscheme),
              "; dynamic quantization is per tensor or per token");
    // A fake quantizer does not hand on its observer's eps; PyTorch then takes that of float32.
    const double eps = observer.is_fake_quantize() ? ObserverArgs().eps : settings.eps;
    Node* choose = graph_.call(decomposed(symmetric ? "choose_qparams_symmetric.tensor" : "choose_qparams.tensor"),
                               {input, observer.quant_min(), observer.quant_max(), eps, settings.dtype});
    Node* scale = graph_.call(std::string(op::kGetItem), {choose, 0});
    Node* zero_point = graph_.call(std::string(op::kGetItem), {choose, 1});
    set_choice(choose, scale, zero_point, {SymInt(1)});
    return pair(input, "quantize_per_tensor.tensor",
                {scale, zero_point, observer.quant_min(), observer.quant_max(), settings.dtype}, settings.dtype);
  }

  // `dtype`: float16 or bfloat16.
  Node* round_to_half(Node* input, DType dtype) {
    Node* half = graph_.call(std::string(op::kConvertElementType), {input, dtype});
    half->meta.val = with_dtype(input->meta.val, dtype);
    Node* full = graph_.call(std::string(op::kConvertElementType), {half, DType::kF32});
    full->meta.val = with_dtype(input->meta.val, DType::kF32);
    return full;
  }

  Program& program_;
  Graph& graph_;
  const Prepared::Impl& prepared_;
  const std::vector<ObserverGroup>& groups_;  // of the prepared program, but for those that equalization changed
  const bool takes_placeholders_, leaves_unseen_;
  std::vector<std::string> uncalibrated_;
  std::unordered_map<std::string, int64_t> next_buffer_;  // of each prefix, the first number that may be free
};

// PyTorch names these two overloads, not sym_size.int, which counts as a user like any other.
bool reads_size_only(const Node& node) {
  return node.is("torch.ops.aten.sym_size.default") || node.is("torch.ops.aten.sym_numel.default");
}

// choose_qparams -> getitem -> quantize -> dequantize: all users of a dynamically quantized tensor share it.
bool is_dynamic_affine(const Node& dequantize) {
  const Node* quantize = dequantize.arg(0).node();
  if (quantize == nullptr || !is_quantize(*quantize)) return false;
  const Node* scale = quantize->arg(1).node();
  const Node* choose = scale && scale->is(op::kGetItem) ? scale->arg(0).node() : nullptr;
  return choose && (choose->is(op::kChooseQParams) || choose->is(op::kChooseQParamsPerToken));
}

// Gives every annotated user of a dequantize one of its own, so that backends find dq -> op -> q without branches
// (torch/ao/quantization/pt2e/duplicate_dq_pass.py).
void duplicate_dequantize(Program& program,
                          const std::unordered_map<const Node*, const QuantizationAnnotation*>& annotations) {
  Graph& graph = *program.graph;
  for (Node* node : graph.nodes()) {
    if (!is_dequantize(*node)) continue;
    std::vector<Node*> users = node->users();
    std::erase_if(users, [](const Node* user) { return reads_size_only(*user); });
    if (users.size() <= 1 || is_dynamic_affine(*node)) continue;
    for (Node* user : users) {
      const auto annotation = annotations.find(user);
      if (annotation == annotations.end() || !annotation->second->is_valid()) continue;
      const auto point = graph.insert_after(node);
      Node* own = graph.create(node->op(), node->target(), node->args(), node->kwargs(), node->name());
      own->meta = node->meta;
      user->replace_input_with(node, own);
    }
  }
  eliminate_dead_code(program);
}

// Gives the inserted operators the stack traces of the operators that they serve, and nothing else of their metadata
// (torch/ao/quantization/pt2e/port_metadata_pass.py): a dequantize that of its user, a quantize that of the producer of
// an annotated output, choose_qparams and what follows it that of the user, what stands between a parameter and its
// quantize that of the parameter.
class StackTraces {
 public:
  StackTraces(const std::unordered_map<const Node*, const QuantizationAnnotation*>& annotations,
              const std::unordered_map<const Node*, Node*>& copies)
      : annotations_(annotations), copies_(copies) {}

  void port(Graph& graph) {
    for (Node* node : graph.nodes()) {
      const auto found = annotations_.find(node);
      if (found == annotations_.end() || !found->second->is_valid()) continue;
      for (const auto& [input, spec] : found->second->input_qspec_map) {
        const auto copy = copies_.find(input);
        if (std::holds_alternative<std::monostate>(spec) || copy == copies_.end()) continue;
        const auto* quantization = std::get_if<QuantizationSpec>(&spec);
        if (quantization && quantization->is_dynamic) port_dynamic(copy->second, node);
        else port_input(copy->second, node);
      }
      if (!std::holds_alternative<std::monostate>(found->second->output_qspec)) port_output(node);
    }
  }

 private:
  static void hand_on(Node* to, const Node* from) {
    if (!from->meta.stack_trace.empty()) to->meta.stack_trace = from->meta.stack_trace;
  }
  static std::vector<Node*> users_of(const Node* node) {
    std::vector<Node*> users = node->users();
    std::erase_if(users, [](const Node* user) { return reads_size_only(*user); });
    return users;
  }
  // The views that PyTorch looks through on the way to a parameter.
  static bool is_looked_through(const Node& node) {
    for (const std::string_view target : {op::kFlatten, op::kPermute, op::kPermuteCopy, op::kSliceCopy, op::kSqueezeDim,
                                          op::kSqueezeCopyDim, op::kTranspose, op::kViewCopy, op::kView})
      if (node.is(target)) return true;
    return false;
  }

  // input -> quantize -> dequantize -> node
  static void port_input(const Node* input, Node* node) {
    for (const Argument& argument : node->args()) {
      Node* dequantize = argument.node();
      if (dequantize == nullptr || !is_dequantize(*dequantize)) continue;
      Node* quantize = dequantize->arg(0).node();
      const Node* source = dequantize;
      while (is_dequantize(*source) || is_quantize(*source)) source = source->arg(0).node();
      if (source != input) continue;
      if (!is_quantize(*quantize)) return;
      std::vector<Node*> between = {quantize};
      Node* constant = quantize->arg(0).node();
      for (; constant->op() == Node::Op::kCallFunction && is_looked_through(*constant);
           constant = constant->arg(0).node())
        between.push_back(constant);
      if (constant->op() == Node::Op::kGetAttr)
        for (Node* inserted : between) hand_on(inserted, constant);
      hand_on(dequantize, node);
      return;
    }
  }

  static void port_dynamic(Node* input, const Node* node) {
    std::vector<Node*> queue = {input};
    for (size_t i = 0; i < queue.size(); ++i) {
      Node* choose = queue[i];
      if (!choose->target().starts_with(decomposed("choose_qparams"))) {
        for (Node* user : choose->users())
          if (std::find(queue.begin(), queue.end(), user) == queue.end()) queue.push_back(user);
        continue;
      }
      Node* quantize = users_of(choose).back()->users().at(0);
      hand_on(choose, node);
      hand_on(quantize, node);
      hand_on(users_of(quantize).back(), node);
      return;
    }
  }

  static void port_output(const Node* node) {
    const std::vector<Node*> users = users_of(node);
    if (!users.empty() && is_quantize(*users.back())) hand_on(users.back(), node);
  }

  const std::unordered_map<const Node*, const QuantizationAnnotation*>& annotations_;
  const std::unordered_map<const Node*, Node*>& copies_;
};

Program convert(const Prepared& prepared, const ConvertOptions& options, bool is_form) {
  const Prepared::Impl& impl = Prepared::Impl::of(prepared);
  impl.check_idle();
  impl.interpreter.reset();  // frees the packed weights; another run makes it again
  release_kept_blocks();
  std::unordered_map<const Node*, Node*> copies;
  Program program = impl.program.clone(&copies);
  for (const auto& [name, tensor] : impl.state_before)
    if (Attribute* attribute = program.find_attribute(name)) attribute->tensor = tensor.clone();
  std::unordered_map<const Node*, const QuantizationAnnotation*> annotations;
  for (const auto& [node, annotation] : impl.annotations)
    if (const auto copy = copies.find(node); copy != copies.end()) annotations[copy->second] = &annotation;

  std::vector<ObserverGroup> groups = impl.groups;
  if (!is_form) equalize_inputs(program, impl, groups);
  Replacer(program, impl, groups, is_form).run();
  if (impl.is_qat) {
    fold_conv_bn_qat(program, impl.conv_bns, impl.compat);
    if (impl.compat == Compat::kNone) set_training_mode(program, false, impl.compat);
  }
  duplicate_dequantize(program, annotations);
  StackTraces(annotations, copies).port(*program.graph);
  if (options.fold_quantize) fold_quantized_constants(program, impl.compat);
  take_quantized_interface(program, impl.interface);
  if (options.use_reference_representation) rewrite_as_reference_representation(program, impl.compat);
  program.erase_unused_attributes();
  return program;
}

}  // namespace

Program convert_pt2e(const Prepared& prepared, const ConvertOptions& options) {
  return convert(prepared, options, false);
}

Program form_of_converted(const Prepared& prepared, const ConvertOptions& options) {
  return convert(prepared, options, true);
}

}  // namespace qdq
