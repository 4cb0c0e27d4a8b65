// Patterns as rows: finding their operators, and annotating them.
#include "quant/quantizers/patterns.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/stable_sort.h"
#include "op/facts.h"

namespace qdq {

namespace {

bool is_behind_others(const PatternPlace& place) {
  return place.inputs == Inputs::kBehindQuantized || place.inputs == Inputs::kAllBehindQuantized;
}

constexpr double kHistcBound = 3.4028235e15;  // PyTorch's histc fails for larger values

size_t length_of(const PatternRow& row) {
  size_t length = 0;
  while (length < row.places.size() && !row.places[length].operators.empty()) ++length;
  return length;
}

bool is_norm(const Node& node) { return is_a(node, Family::kBatchNorm) || is_a(node, Family::kNorm); }

const Argument& argument_in_role(const Node& node, int Roles::* role) {
  static const Argument none;
  const OpDef* op = op_of(node);
  return op == nullptr || op->roles.*role < 0 ? none : argument_of(node, static_cast<size_t>(op->roles.*role));
}

bool is_binary(const Node& node) {
  const OpDef* op = op_of(node);
  return op != nullptr && op->roles.other >= 0;
}

// The activations that a node reads, beside the one in front of it, which may stand at either place.
std::vector<Node*> operands(const Node& node, const Node* in_front) {
  if (in_front != nullptr && !is_binary(node)) return {};
  Node* both[] = {input_of(node), other_of(node)};
  const size_t left_out = in_front == nullptr ? 2 : both[0] == in_front ? 0 : 1;
  std::vector<Node*> out;
  for (size_t i = 0; i < 2; ++i)
    if (i != left_out && both[i] != nullptr) out.push_back(both[i]);
  return out;
}

// The same of a pattern's first operator, which may read a list of tensors.
std::vector<Node*> activations_of(const Node& first) {
  std::vector<Node*> out = operands(first, nullptr);
  if (const Argument& input = argument_in_role(first, &Roles::activation); input.is_list())
    input.for_each_node([&](Node* node) { out.push_back(node); });
  return out;
}

std::string joined(const Node* first) { return concat("it is computed together with ", first->name()); }

bool is_quantized_output(const Annotations& annotations, const Node* node) {
  const auto found = annotations.find(node);
  return found != annotations.end() && !std::holds_alternative<std::monostate>(found->second.output_qspec);
}

bool is_continued(Output output) {
  return output == Output::kContinued || output == Output::kQuantizedAndContinued ||
         output == Output::kLikeInputAndContinued;
}
bool is_like_input(Output output) { return output == Output::kLikeInput || output == Output::kLikeInputAndContinued; }

bool is_continued_output(const Annotations& annotations, const Node* node) {
  const auto found = annotations.find(node);
  return found != annotations.end() && found->second.annotated && found->second.is_output_of_quantized_pattern;
}

std::vector<std::string> names_of(std::string_view operators) {
  std::vector<std::string> out;
  for (const std::string_view word : words_of(operators)) {
    const size_t before = out.size();
    for (const OpDef& op : all_ops())
      if (stands_for(word, op.short_name())) out.emplace_back(op.short_name());
    if (out.size() == before) out.emplace_back(word);
  }
  return out;
}

}  // namespace

std::vector<std::string_view> words_of(std::string_view operators) {
  std::vector<std::string_view> out;
  while (!operators.empty()) {
    out.push_back(operators.substr(0, operators.find(' ')));
    operators.remove_prefix(std::min(operators.size(), out.back().size() + 1));
  }
  return out;
}

bool stands_for(std::string_view word, std::string_view name) {
  if (!name.starts_with(word)) return false;
  const std::string_view rest = name.substr(word.size());
  return rest.empty() || rest.starts_with('.') || rest.starts_with("_.");
}

bool is_one_of(const Node& node, std::string_view operators) {
  if (node.op() != Node::Op::kCallFunction) return false;
  const std::vector<std::string_view> words = words_of(operators);
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return stands_for(word, short_name(node.target())); });
}

std::string why_not_global_pool(const Node& last) {
  const TensorMeta* meta = last.arg(0).is_node() ? last.arg(0).node()->meta.val.tensor() : nullptr;
  if (!last.arg(1).is_list() || meta == nullptr || meta->sizes.size() != 4) return "it is not a pool over images";
  const Argument::List& list = last.arg(1).list();
  if (is_one_of(last, "aten.adaptive_avg_pool2d")) {
    const bool gives_one =
        std::all_of(list.begin(), list.end(), [](const Argument& size) { return size.integer() == 1; });
    return gives_one ? "" : "its result is larger than 1 x 1";
  }
  if (!is_one_of(last, "aten.mean.dim")) return "it is not a mean over height and width";
  int64_t axes = 0;
  for (const Argument& axis : list) axes |= int64_t{1} << ((axis.integer().value_or(0) + 4) % 4);
  if (axes != (1 << 2 | 1 << 3)) return "it averages over other axes than height and width";
  return last.arg(2).integer().value_or(0) != 0 ? "" : "it does not keep the axes that it averages over";
}

void PatternAnnotator::run() {
  for (const PatternRow& row : policy_.rows) annotate(row);
}

void PatternAnnotator::annotate(const PatternRow& row) {
  if (const QuantizationConfig* to = config()) {
    const uint8_t mode =
        to->is_qat ? (setting_.is_dynamic ? kDynamicQat : kQat) : (setting_.is_dynamic ? kDynamic : kStatic);
    if ((row.modes & mode) == 0) return;
  }
  if (row.annotate != nullptr) return row.annotate(*this, row);
  const size_t length = length_of(row);
  for (const PatternChain& chain : chains(row, length)) take(row, chain);
  if (!row.places[length - 1].may_be_missing) return;
  for (const PatternChain& chain : chains(row, length - 1)) take(row, chain);
}

// Ordered by their last operators, then by their first.
std::vector<PatternChain> PatternAnnotator::chains(const PatternRow& row, size_t length) const {
  if (policy_.rules.find != nullptr)
    if (auto found = policy_.rules.find(graph(), row, length, setting_.reaches)) return *found;
  std::vector<PatternChain> out;
  std::unordered_map<const Node*, size_t> position;
  for (Node* node : graph().nodes()) {
    position.emplace(node, position.size());
    if (is_one_of(*node, row.places[0].operators)) out.push_back({node});
  }
  for (size_t i = 1; i < length; ++i) {
    std::vector<PatternChain> longer;
    for (const PatternChain& chain : out)
      for (Node* user : chain.back()->users()) {
        const bool reads = input_of(*user) == chain.back() || other_of(*user) == chain.back();
        if (!reads || !is_one_of(*user, row.places[i].operators)) continue;
        longer.push_back(chain);
        longer.back().push_back(user);
      }
    out = std::move(longer);
  }
  sort_stably(out,
              [&](const PatternChain& a, const PatternChain& b) { return position[a.back()] < position[b.back()]; });
  return out;
}

bool PatternAnnotator::divides() const {
  return std::any_of(policy_.rows.begin(), policy_.rows.end(), [](const PatternRow& row) {
    return std::any_of(row.places.begin(), row.places.end(), [](const PatternPlace& place) {
      const std::vector<std::string_view> words = words_of(place.operators);
      return std::any_of(words.begin(), words.end(),
                         [](std::string_view word) { return word == "aten.div" || word.starts_with("aten.div."); });
    });
  });
}

void PatternAnnotator::take(const PatternRow& row, const PatternChain& chain) {
  Node *first = chain[0], *last = chain.back();
  for (size_t i = 0; i < chain.size(); ++i) {
    if (i > 0 && is_read_by_others(row, chain, i)) return;
    if (!has_operands(row.places[i], *chain[i], i == 0 ? nullptr : chain[i - 1])) return;
  }
  if (!is_one_of(*first, row.places[0].operators)) return;  // a record of its source may say what it is not
  if (skip(row, row.first_decides ? PatternChain{first} : PatternChain(chain.rbegin(), chain.rend()))) return;
  if (config() == nullptr) return leave_float(chain);
  if (row.obstacle != nullptr)
    if (std::string why = row.obstacle(*last); !why.empty()) return refuse(last, row, std::move(why));
  for (const Node* node : chain) {
    const std::string_view why = policy_.rules.takes_positions ? std::string_view() : positions_.obstacle(*node);
    if (!why.empty()) return refuse(node, row, std::string(why));
  }
  if (is_behind_others(row.places[0]) && !is_behind_quantized(row, first)) return;
  if (row.places[0].inputs == Inputs::kBehindContinued && !is_behind_continued(row, first)) return;
  if (row.places[0].inputs == Inputs::kHandedOn) {
    hand_on(first, row);
    return;
  }
  std::vector<QuantizationAnnotation> parts(chain.size());
  for (size_t i = 0; i < chain.size(); ++i)
    if (!set_inputs(row, row.places[i], chain[i], i == 0 ? nullptr : chain[i - 1], parts[i])) return;
  if (!has_observable_output(row, last)) return;
  for (size_t i = 0; i < chain.size(); ++i) {
    if (row.places[i].inputs == Inputs::kFolded && chain[i] != last) {
      if (policy_.claims_folded) mark_annotated(annotations_, {chain[i]});
      continue;
    }
    QuantizationAnnotation& written = write(chain[i], row, i == 0 ? asked(row, chain) : joined(first));
    for (auto& [input, spec] : parts[i].input_qspec_map) written.set_input(input, std::move(spec));
  }
  QuantizationAnnotation& end = annotations_[last];
  if (row.output != Output::kContinued && row.output != Output::kFloat) end.output_qspec = spec_of_output(row, last);
  end.is_output_of_quantized_pattern = is_continued(row.output);
  if (policy_.claims_parameters) mark_annotated(annotations_, {weight_of(*first), bias_of(*first)});
}

// Whether the outputs of the producers, one of them or all, are quantized, and no operand is a number; else the reason
// is noted.
bool PatternAnnotator::is_behind_quantized(const PatternRow& row, Node* first) {
  const std::vector<Node*> read = activations_of(*first);
  const bool wants_all = row.places[0].inputs == Inputs::kAllBehindQuantized;
  const auto is_quantized = [&](const Node* operand) { return is_quantized_output(annotations_, operand); };
  const auto stays_float = std::find_if(read.begin(), read.end(), [&](const Node* operand) {
    return wants_all && operand->op() != Node::Op::kGetAttr && !is_quantized(operand);
  });
  if (is_binary(*first) && read.size() < 2) refuse(first, row, "one of its operands is a number, which stays float");
  else if (stays_float != read.end())
    refuse(first, row, concat("its input ", (*stays_float)->name(), " is not the output of a quantized operator"));
  else if (std::any_of(read.begin(), read.end(), is_quantized)) return true;
  else refuse(first, row, "the output of none of its producers is quantized");
  return false;
}

// Whether all that the operator reads comes from patterns that are continued; else the reason is noted.
bool PatternAnnotator::is_behind_continued(const PatternRow& row, const Node* first) {
  for (const Node* input : activations_of(*first)) {
    if (is_continued_output(annotations_, input)) continue;
    refuse(
        first, row,
        concat("its input ", input->name(), " does not come from a quantized operator: there is nothing to pass on"));
    return false;
  }
  return true;
}

// Whether others than the next operator of the pattern need the value, so that the two cannot be one.
bool PatternAnnotator::is_read_by_others(const PatternRow& row, const PatternChain& chain, size_t place) {
  const Node *in_front = chain[place - 1], *next = chain[place];
  if (in_front->users().size() == 1 || row.places[place].others == Readers::kAnybody) return false;
  if (policy_.rules.fuses_what_others_read && !is_binary(*next)) return false;
  if (row.places[place].others == Readers::kNobodyUnsaid) return true;
  const bool is_reached =
      policy_.rules.asks_for_readers_first || !setting_.reaches_together || setting_.reaches_together(chain);
  if (reaches(*next) && is_reached)
    refuse(next, row, concat("others read ", in_front->name(), " too, so the two are not computed together"));
  return true;
}

// Whether the tensors are there that the place's operator has to have: a weight, a list that is not empty, and behind
// another operator no number in the place of the other operand.
bool PatternAnnotator::has_operands(const PatternPlace& place, const Node& node, const Node* in_front) const {
  const Argument& input = argument_in_role(node, &Roles::activation);
  if (input.is_list() && input.list().empty()) return false;
  const OpDef* op = op_of(node);
  if (in_front == nullptr) return !op || op->roles.weight < 0 || is_norm(node) || weight_of(node) != nullptr;
  if (!is_binary(node) || place.inputs == Inputs::kFolded) return true;
  if (input_of(node) != in_front && other_of(node) != in_front) return false;
  const bool is_there = !operands(node, in_front).empty();
  QDQ_CHECK(is_there || !policy_.rules.refuses_numbers, kInvalidArgument, "the operator ", node.name(),
            " adds a number to the quantized operator ", in_front->name(), ", which PyTorch 2.6 refuses");
  return is_there;
}

bool PatternAnnotator::skip(const PatternRow& row, const PatternChain& members) {
  if (setting_.reaches_together && !setting_.reaches_together(members)) return true;
  const auto out_of_reach =
      std::find_if_not(members.begin(), members.end(), [&](const Node* node) { return reaches(*node); });
  if (out_of_reach != members.end()) {
    for (const Node* node : members)
      if (reaches(*node))
        refuse(node, row,
               concat(setting_.words, " does not reach ", (*out_of_reach)->name(), ", which belongs to the pattern"));
    return true;
  }
  for (Node* taken : members) {
    if (!is_annotated(annotations_, {taken})) continue;
    const QuantizationAnnotation& annotation = annotations_.at(taken);
    for (const Node* node : members)
      if (annotation.id <= began_)
        refuse(node, row,
               concat(node == taken ? "it" : taken->name() + ", which belongs to the pattern,",
                      " is already annotated by ", annotation.annotator));
    return true;
  }
  return policy_.rules.parameters_are_members && !row.adds && parameters_are_taken(row, members);
}

bool PatternAnnotator::parameters_are_taken(const PatternRow& row, const PatternChain& members) {
  const Node* first = members.back();
  for (Node* parameter : {weight_of(*first), bias_of(*first)}) {
    if (!parameter) continue;
    const bool is_taken = is_annotated(annotations_, {parameter});
    if (!is_taken && reaches(*parameter)) continue;
    const std::string why =
        is_taken
            ? concat("its parameter ", parameter->name(), " already belongs to another call, and PyTorch 2.6 ",
                     "does not quantize it twice; without compat torch-2.6 it does not matter")
            : concat(setting_.words, " does not reach its parameter ", parameter->name(), ", which belongs to no ",
                     "module, and PyTorch 2.6 looks at it too; without compat torch-2.6 the operator alone counts");
    refuse(first, row, why);
    return true;
  }
  return false;
}

QuantizationAnnotation& PatternAnnotator::write(Node* node, const PatternRow& row, std::string reason) {
  annotations_.note(node, {std::string(policy_.quantizer), std::string(row.name), true, std::move(reason)});
  QuantizationAnnotation& annotation = annotations_[node];
  if (!row.adds) annotation = QuantizationAnnotation();
  annotation.annotated = true;
  annotation.in_pattern = policy_.members_count;
  annotation.annotator = concat(policy_.quantizer, " ", row.name);
  return annotation;
}

void PatternAnnotator::refuse(const Node* node, const PatternRow& row, std::string reason) {
  annotations_.note(node, {std::string(policy_.quantizer), std::string(row.name), false, std::move(reason)});
}

void PatternAnnotator::leave_float(const PatternChain& chain) {
  for (Node* node : chain) {
    QuantizationAnnotation annotation;
    annotation.annotated = true;
    annotation.annotator = concat(policy_.quantizer, " ", setting_.words);
    annotations_[node] = std::move(annotation);
    annotations_.note(node, {std::string(policy_.quantizer), "", false, concat(setting_.words, " leaves it in float")});
  }
}

bool PatternAnnotator::hand_on(Node* node, const PatternRow& row) {
  Node* input = input_of(*node);
  if (input == nullptr) return false;
  if (!is_quantized_output(annotations_, input)) {
    refuse(node, row, concat("the output of ", input->name(), " is not quantized: there is nothing to pass on"));
    return false;
  }
  QuantizationAnnotation& written =
      write(node, row, concat("it passes on the values of ", input->name(), " with the same scale and zero point"));
  written.set_input(input, SharedQuantizationSpec{input});
  written.output_qspec = SharedQuantizationSpec{input};
  return true;
}

// Whether the operand can be observed; else the reason is noted. PyTorch annotates integers in some patterns, on which
// its observers fail, and float64 in all, which its quantized programs refuse.
bool PatternAnnotator::is_observable(const PatternRow& row, const Node* node, const Node* operand) {
  const TensorMeta* meta = operand->meta.val.tensor();
  if (!row.only_float32 && (meta == nullptr || is_quantizable(meta->dtype))) return true;
  const bool is_float = meta != nullptr && meta->dtype == DType::kF32;
  // One number everywhere, as masks are made of: PyTorch looks at a stored number alone, and fails on others.
  const auto is_large = [&] {
    const Node* source = operand;
    while (is_a(*source, Family::kView) && source->arg(0).is_node()) source = source->arg(0).node();
    if (source->is("torch.ops.aten.full.default")) return std::fabs(source->arg(1).number().value_or(0)) > kHistcBound;
    if (source->op() != Node::Op::kGetAttr) return false;
    const Tensor& tensor = program_.attribute_of(*source);
    if (tensor.dtype() != DType::kF32 || tensor.numel() == 0) return false;
    const Tensor flat = tensor.contiguous();
    const float first = flat.data<float>()[0];
    const auto rest = flat.span<float>().subspan(1);
    return std::fabs(first) > kHistcBound && std::all_of(rest.begin(), rest.end(), [&](float x) { return x == first; });
  };
  if (is_float && !is_large()) return true;
  const std::string what = meta ? concat("is ", to_string(meta->dtype)) : std::string("is not a tensor");
  refuse(node, row,
         concat("its operand ", operand->name(),
                is_float ? concat(" is too large to observe (above ", kHistcBound, ")")
                         : concat(" ", what, ", and only float32 is quantized")));
  return false;
}

// Whether a weight that is to be cut into channels or groups can be; else the reason is noted.
bool PatternAnnotator::has_channels(const PatternRow& row, const Node* node, const Node* weight) {
  const int64_t group = config()->weight ? config()->weight->observer.group_size : 0;
  const TensorMeta* meta = weight->meta.val.tensor();
  if (meta == nullptr) return true;
  if (meta->sizes.size() < 2 && config()->weight &&
      is_per_channel(config()->weight->qscheme.value_or(QScheme::kPerTensorAffine))) {
    refuse(node, row, concat("its weight of shape ", to_string(meta->sizes), " has no channels"));
    return false;
  }
  if (group == 0) return true;
  const bool is_matrix = meta->sizes.size() == 2 && meta->sizes[1].is_constant();
  if (is_matrix && *meta->sizes[1].constant() % group == 0) return true;
  refuse(node, row, concat("its weight of shape ", to_string(meta->sizes), " has no rows of whole groups of ", group));
  return false;
}

// Whether no samples are needed for the weight where none are for activations; else the reason is noted.
bool PatternAnnotator::has_known_range(const PatternRow& row, const Node* node, const Node* weight) {
  const bool needs_samples = config()->input_activation && !config()->is_dynamic();
  if (needs_samples || policy_.rules.takes_computed_weights || positions_.is_constant(*weight)) return true;
  refuse(node, row, concat("its weight ", weight->name(), " is computed from inputs: only samples tell its range"));
  return false;
}

// Whether the pattern's result can be observed; else the reason is noted.
bool PatternAnnotator::has_observable_output(const PatternRow& row, const Node* last) {
  if (row.output == Output::kContinued || row.output == Output::kFloat) return true;
  const TensorMeta* meta = last->meta.val.tensor();
  std::string why;
  if (meta && !is_quantizable(meta->dtype))
    why = concat("its result is ", to_string(meta->dtype), ", and only float32 is quantized");
  else if (is_like_input(row.output) && argument_in_role(*last, &Roles::activation).is_none())
    why = "qdq knows no input of it whose numbers its output could share";
  if (why.empty()) return true;
  refuse(last, row, std::move(why));
  return false;
}

bool PatternAnnotator::set_inputs(const PatternRow& row, const PatternPlace& place, Node* node, const Node* in_front,
                                  QuantizationAnnotation& to) {
  if (place.inputs == Inputs::kFloat || place.inputs == Inputs::kFolded) return true;
  const QSpec spec = config()->input_qspec();
  const bool may_share = place.inputs == Inputs::kLikeProducer || is_behind_others(place);
  const auto spec_of = [&](Node* operand) {
    const bool is_shared =
        may_share && is_annotated(annotations_, {operand}) && is_quantized_output(annotations_, operand);
    return is_shared ? QSpec(SharedQuantizationSpec{operand}) : spec;
  };
  if (const Argument& input = argument_in_role(*node, &Roles::activation); input.is_list()) {
    Node* first = input.list()[0].node();
    for (const Argument& next : input.list())
      if (!is_observable(row, node, next.node())) return false;
    // What is joined to a result of other terms may have terms of its own.
    const bool is_apart = !is_like_input(row.output);
    to.set_input(first, is_apart ? spec_of(first) : spec);
    for (const Argument& next : input.list())
      if (!to.find_input(next.node()))
        to.set_input(next.node(), is_apart ? spec_of(next.node()) : QSpec(SharedQuantizationSpec{Edge{first, node}}));
    return true;
  }
  for (Node* operand : operands(*node, in_front)) {
    if (!is_observable(row, node, operand)) return false;
    to.set_input(operand, spec_of(operand));
  }
  if (is_norm(*node)) return true;
  if (Node* weight = weight_of(*node)) {
    if (!has_channels(row, node, weight) || !has_known_range(row, node, weight)) return false;
    to.set_input(weight, config()->weight_qspec());
  }
  if (Node* bias = bias_of(*node)) to.set_input(bias, config()->bias_qspec());
  return true;
}

QSpec PatternAnnotator::spec_of_output(const PatternRow& row, Node* last) const {
  if (row.fixed_output) return *row.fixed_output;
  if (!is_like_input(row.output)) return config()->output_qspec();
  const Argument& input = argument_in_role(*last, &Roles::activation);
  return SharedQuantizationSpec{Edge{input.is_list() ? input.list()[0].node() : input.node(), last}};
}

// What is said of the first operator when a setting takes a pattern.
std::string PatternAnnotator::asked(const PatternRow& row, const PatternChain& chain) const {
  if (row.places[0].inputs == Inputs::kBehindContinued)
    return "it passes on the values of a quantized operator with the same scale and zero point";
  std::string out = setting_.words + " asks for it";
  const size_t named = row.first_decides ? std::min<size_t>(chain.size(), 2) : chain.size();
  for (size_t i = 1; i < named; ++i) out += (i == 1 ? ", together with " : " and ") + chain[i]->name();
  if (config()->is_dynamic()) out += ", with qparams chosen at run time";
  if (!config()->input_activation && !weight_of(*chain[0]))
    out += ", but for weights alone, and this operator has none";
  return row.says_note ? concat(out, ", ", row.note) : out;
}

void note_rest(std::string_view quantizer, const Program& program, Annotations& annotations, size_t mark,
               const std::function<std::string(const Node&)>& reason) {
  for (const Node* node : program.graph->nodes())
    if (node->op() == Node::Op::kCallFunction && !annotations.decided_since(node, mark))
      annotations.note(node, {std::string(quantizer), "", false, reason(*node)});
}

QuantizationCapabilities capabilities_of(std::string_view quantizer, std::span<const PatternRow> rows) {
  QuantizationCapabilities out{std::string(quantizer), {}, {}};
  for (const PatternRow& row : rows) {
    PatternCapability capability{std::string(row.name),      {},
                                 (row.modes & kStatic) != 0, (row.modes & kDynamic) != 0,
                                 (row.modes & kQat) != 0,    std::string(row.note)};
    for (size_t i = 0; i < length_of(row); ++i) capability.operators.push_back(names_of(row.places[i].operators));
    out.patterns.push_back(std::move(capability));
  }
  return out;
}

}  // namespace qdq
