// prepare_pt2e: folds batch norm, annotates, and puts observers into the graph.
#include <algorithm>
#include <functional>
#include <unordered_map>

#include "base/disk_blocks.h"
#include "base/memory.h"
#include "exec/footprint.h"
#include "op/targets.h"
#include "quant/constant_fold.h"
#include "quant/observer_map.h"
#include "quant/prepared_impl.h"
#include "op/recompose.h"
#include "quant/training_mode.h"
#include "quant/unknown_operators.h"
#include "quant/written_values.h"

namespace qdq {

namespace {

// Puts the observers of a map into the graph, node by node (torch/ao/quantization/pt2e/prepare.py).
class Inserter {
 public:
  Inserter(Prepared::Impl& prepared, const ObserverMap& map) : prepared_(prepared), graph_(*prepared.program.graph) {
    for (const auto& [at, observer] : map) {
      if (!observer) continue;
      if (const Edge* edge = std::get_if<Edge>(&at)) edges_[edge->second].emplace_back(edge->first, observer.get());
      else outputs_[std::get<Node*>(at)] = observer.get();
      if (group_of_.emplace(observer.get(), prepared.groups.size()).second)
        prepared.groups.push_back({observer, {}, {}, {}});
      prepared.groups[group_of_.at(observer.get())].covers.push_back(at);
    }
  }

  void run() {
    for (Node* node : graph_.nodes()) {
      const auto annotation = prepared_.annotations.find(node);
      if (annotation == prepared_.annotations.end()) continue;
      observe_inputs(node);
      if (node->meta.val.is_tensor()) observe_output(node);
    }
  }

 private:
  // The node whose value this is, seen through observers.
  Node* original(Node* node) const {
    while (prepared_.group_of_module(*node)) node = node->arg(0).node();
    return node;
  }

  Node* insert_behind(Node* node, Observer* observer) {
    ObserverGroup& group = prepared_.groups[group_of_.at(observer)];
    const std::string module = "activation_post_process_" + std::to_string(prepared_.modules.size());
    prepared_.modules[module] = group_of_.at(observer);
    const auto point = graph_.insert_after(node);
    Node* call = graph_.create(Node::Op::kCallModule, module, {node});
    call->meta.val = node->meta.val;
    group.inserted_as.push_back(call->name());
    return call;
  }

  Node* observed_input(Node* argument, Node* node) {
    Node* source = original(argument);
    Observer* observer = nullptr;
    if (const auto found = edges_.find(node); found != edges_.end())
      for (const auto& [input, of_edge] : found->second)
        if (input == source) observer = of_edge;
    if (observer == nullptr) return argument;
    const auto output = outputs_.find(source);
    if (output != outputs_.end() && output->second == observer) return argument;
    for (Node* user : argument->users())
      if (const auto group = prepared_.group_of_module(*user);
          group && prepared_.groups[*group].observer.get() == observer)
        return user;
    return insert_behind(argument, observer);
  }

  void observe_inputs(Node* node) {
    // The three are PyTorch's own exceptions.
    if (prepared_.compat == Compat::kTorch26 && !node->kwargs().empty() && !node->is(op::kClone) &&
        !node->is(op::kZerosLike) && !node->is(op::kGelu))
      throw Error(ErrorCode::kInvalidArgument,
                  concat("the annotated node ", node->name(), " has the keyword argument '", node->kwargs()[0].first,
                         "'; PyTorch 2.6 quantizes only nodes whose arguments are all positional"),
                  node->name(), node->target());
    std::vector<Argument> args;
    const std::function<Node*(Node*)> observe = [&](Node* input) { return observed_input(input, node); };
    for (const Argument& argument : node->args()) args.push_back(argument.map_nodes(observe));
    node->set_args(std::move(args));
    if (node->kwargs().empty()) return;
    Node::Kwargs kwargs;
    for (const auto& [name, argument] : node->kwargs()) kwargs.emplace_back(name, argument.map_nodes(observe));
    node->set_kwargs(std::move(kwargs));
  }

  void observe_output(Node* node) {
    const auto found = outputs_.find(node);
    if (found == outputs_.end()) return;
    const std::vector<Node*> users = node->users();
    Node* call = insert_behind(node, found->second);
    call->meta.debug_handle = node->meta.debug_handle;
    for (Node* user : users) user->replace_input_with(node, call);
  }

  Prepared::Impl& prepared_;
  Graph& graph_;
  std::unordered_map<const Node*, std::vector<std::pair<Node*, Observer*>>> edges_;  // of a consumer
  std::unordered_map<const Node*, Observer*> outputs_;
  std::unordered_map<const Observer*, size_t> group_of_;
};

// The last component of the innermost module's path, from which convert names buffers.
std::unordered_map<std::string, std::string> scopes_of(const Graph& graph) {
  std::unordered_map<std::string, std::string> out;
  for (const Node* node : graph.nodes()) {
    const std::string path = node->meta.module_path().value_or("");
    out[node->name()] = path.substr(path.rfind('.') + 1);
  }
  return out;
}

void check_annotations(const Graph& graph, const Annotations& annotations, Compat compat) {
  for (const Node* node : graph.nodes()) {
    const auto found = annotations.find(node);
    if (found == annotations.end()) continue;
    const std::vector<Node*> inputs = node->input_nodes();
    for (const auto& [input, spec] : found->second.input_qspec_map)
      if (input == nullptr ||
          (compat == Compat::kNone && std::find(inputs.begin(), inputs.end(), input) == inputs.end()))
        throw Error(ErrorCode::kInvalidArgument,
                    concat("the annotation of ", node->name(), " names the input ", input ? input->name() : "None",
                           ", which ", node->name(), " does not read"),
                    node->name(), node->target());
  }
}

// Makes channel axes that count from the end count from the front, and refuses those that a tensor does not have.
void resolve_axes(const Graph& graph, Annotations& annotations) {
  const auto resolve = [](const Node& of, QSpec& spec, const EdgeOrNode& at) {
    const auto wrap = [&](auto& s) {
      if constexpr (requires { s.ch_axis; }) {
        const TensorMeta* meta = of.meta.val.tensor();
        if (!s.ch_axis || (meta == nullptr && *s.ch_axis >= 0)) return;
        if (*s.ch_axis >= 0 && !(s.qscheme && is_per_channel(*s.qscheme))) return;  // not read
        const auto rank = meta ? static_cast<int64_t>(meta->sizes.size()) : 0;
        QDQ_CHECK(-rank <= *s.ch_axis && *s.ch_axis < rank, kInvalidArgument, "the spec of ", to_string(at),
                  " has ch_axis ", *s.ch_axis, ", but ", of.name(),
                  meta ? concat(" has ", rank, " axes") : std::string(" is not a tensor"));
        if (*s.ch_axis < 0) s.ch_axis = *s.ch_axis + rank;
      }
    };
    std::visit(wrap, spec);
  };
  for (Node* node : graph.nodes()) {
    const auto found = annotations.find(node);
    if (found == annotations.end()) continue;
    for (auto& [input, spec] : found->second.input_qspec_map) resolve(*input, spec, Edge{input, node});
    resolve(*node, found->second.output_qspec, node);
  }
}

// What a program must not be that is quantized.
void check_float(const Graph& graph) {
  const std::vector<Node*> nodes = graph.nodes();
  const auto found = std::find_if(nodes.begin(), nodes.end(), [](const Node* node) {
    // The last is how the reference representation multiplies integers.
    return is_quantize(*node) || is_dequantize(*node) || node->is(op::kOutDtype);
  });
  QDQ_CHECK(found == nodes.end(), kInvalidArgument, "the program is quantized already (node ",
            found == nodes.end() ? "" : (*found)->name(), "); wanted the float model that it was made from");
}

// Folds batch norms, and notes what those that are gone say of the values in front of them.
void fold_norms(Quantizer& quantizer, Prepared::Impl& impl) {
  std::vector<NormBehindConv> norms = norms_behind_convs(impl.program);
  quantizer.fold_batch_norms(impl.program);
  std::unordered_set<std::string> left;
  for (const Node* node : impl.program.graph->nodes()) left.insert(node->name());
  for (NormBehindConv& norm : norms)
    if (left.count(norm.conv) != 0 && left.count(norm.norm) == 0)
      impl.normals.emplace(std::move(norm.conv), std::move(norm.normals));
}

}  // namespace

Prepared prepare_pt2e(Program program, Quantizer& quantizer, std::vector<OpBackend*> backends) {
  return Prepared::Impl::prepare(std::move(program), quantizer, std::move(backends), /*is_qat=*/false);
}

Prepared Prepared::Impl::prepare(Program program, Quantizer& quantizer, std::vector<OpBackend*> backends, bool is_qat) {
  check_memory(least_bytes_of_results(program, {}), "calibrating the program");
  if (quantizer.compat() == Compat::kNone) {
    check_float(*program.graph);
    if (!is_qat) check_in_inference_form(*program.graph);
  }
  auto impl = std::make_unique<Prepared::Impl>();
  impl->program = std::move(program);
  impl->compat = quantizer.compat();
  impl->hides_masks = quantizer.hides_masks();
  impl->scopes = scopes_of(*impl->program.graph);
  impl->is_qat = is_qat;
  const BlocksOnDisk as_the_weights(has_disk_blocks());
  if (quantizer.recomposes()) recompose(impl->program);
  if (!is_qat) {
    if (quantizer.folds_computed_weights()) fold_computed_weights(impl->program);
    fold_norms(quantizer, *impl);
    own_written_attributes(impl->program);
    for (const std::string& name : written_attributes(impl->program))
      if (const Attribute* attribute = impl->program.find_attribute(name))
        impl->state_before.emplace(name, attribute->tensor.clone());
  }
  quantizer.transform_for_annotation(impl->program);
  annotate_and_note(quantizer, impl->program, impl->annotations);
  impl->warnings = quantizer.warnings();
  impl->interface = quantizer.quantized_interface();
  leave_unknown_in_float(impl->program, impl->annotations);
  if (impl->compat == Compat::kNone) leave_written_in_float(impl->program, impl->annotations);
  check_annotations(*impl->program.graph, impl->annotations, impl->compat);
  if (impl->compat == Compat::kNone) resolve_axes(*impl->program.graph, impl->annotations);
  quantizer.validate(impl->program, impl->annotations);
  if (is_qat) impl->conv_bns = fuse_conv_bn_qat(impl->program, impl->annotations, quantizer, impl->replaced);

  std::vector<std::pair<std::shared_ptr<Observer>, std::vector<std::shared_ptr<Observer>>>> derived;
  ObserverMap observers = make_observers(*impl->program.graph, impl->annotations, &derived, is_qat);
  quantizer.adjust_observers(impl->program, observers);
  Inserter(*impl, observers).run();
  for (ObserverGroup& group : impl->groups)
    for (const auto& [observer, sources] : derived)
      if (observer == group.observer) group.derived_from = sources;
  impl->observe_constants();
  const LayersToEqualize layers = quantizer.layers_to_equalize();
  QDQ_CHECK(!is_qat || layers.nodes.empty(), kInvalidArgument,
            "inputs are equalized after training, not for it; leave the equalization config out");
  impl->equalized = equalized_layers(*impl, layers, impl->warnings);
  if (impl->groups.empty() && impl->warnings.empty())
    impl->warnings.push_back(
        "the quantizer asks for no tensor of this program, so that everything stays float; explain(), or qdq "
        "inspect --explain, tells why");

  if (backends.empty()) {
    impl->own_backend = make_simd_ops();
    backends = {impl->own_backend.get()};
  }
  impl->backends = std::move(backends);
  return Prepared(std::move(impl));
}

Prepared Prepared::Impl::copy_to_try(const Prepared& prepared) {
  const Impl& from = of(prepared);
  auto impl = std::make_unique<Prepared::Impl>();
  impl->program = from.program.clone();
  impl->compat = from.compat;
  impl->hides_masks = from.hides_masks;
  impl->groups = from.groups;
  impl->interface = from.interface;
  impl->modules = from.modules;
  impl->of_constants = from.of_constants;
  impl->float_constants = from.float_constants;
  impl->backends = from.backends;
  return Prepared(std::move(impl));
}

}  // namespace qdq
