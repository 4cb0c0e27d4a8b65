#include "io/pt2_control.h"

#include <algorithm>
#include <unordered_map>

#include "op/infer.h"
#include "op/targets.h"

namespace qdq {
namespace {

bool runs_programs(const Node& node) {
  return node.op() == Node::Op::kCallFunction &&
         std::any_of(node.args().begin(), node.args().end(),
                     [](const Argument& argument) { return argument.is<Subprogram>(); });
}

ValueMeta tensor_value(DType dtype, SymShape sizes) { return {tensor_meta(dtype, std::move(sizes))}; }

// A node whose value is what its operator infers.
Node* call(Graph& graph, std::string_view local_name, std::vector<Argument> args, Node::Kwargs kwargs = {}) {
  Node* node = graph.call(op::aten(local_name), std::move(args), std::move(kwargs));
  infer_value(*node);
  return node;
}

Node* add_input(Program& program, Node* before, const std::string& name, ValueMeta value) {
  const auto point = program.graph->insert_before(before);
  Node* input = program.graph->create(Node::Op::kPlaceholder, name, {}, {}, name);
  input->meta.val = std::move(value);
  return input;
}

Node* after_inputs(const Program& program) {
  Node* last = nullptr;
  for (Node* input : program.graph->placeholders()) last = input;
  return last ? last->next() : program.graph->first();
}

// The first node that reads each tensor of a program.
using TensorNodes = std::unordered_map<std::string, Node*>;

TensorNodes tensor_nodes(const Program& program) {
  TensorNodes out;
  for (Node* node : program.graph->nodes())
    if (node->op() == Node::Op::kGetAttr) out.try_emplace(node->target(), node);
  return out;
}

// A tensor of the program around, as a node there, which becomes one of `nodes`.
Node* outer_tensor(Program& program, const Attribute& wanted, TensorNodes& nodes) {
  const Attribute* same = program.find_attribute(wanted.name);
  Attribute attribute = wanted;
  if (same == nullptr || same->tensor.storage() != wanted.tensor.storage() ||
      !bitwise_equal(same->tensor, wanted.tensor)) {
    attribute.name = program.unique_attribute_name(wanted.name);
    same = &program.add_attribute(attribute);
  }
  Node*& node = nodes[same->name];
  if (node != nullptr) return node;
  const auto point = program.graph->insert_before(program.graph->first());
  node = program.graph->get_attr(same->name, node_name_of(same->name));
  node->meta.val =
      tensor_value(same->tensor.dtype(), SymShape(same->tensor.sizes().begin(), same->tensor.sizes().end()));
  return node;
}

// The last argument of every operator that runs programs is a list of what these take behind all else.
void lift_tensors(Program& program, Node* node, std::vector<std::shared_ptr<Program>>& bodies, TensorNodes& outer) {
  Argument::List captured = node->args().back().list();
  std::vector<Node*> behind;
  for (const auto& body : bodies) behind.push_back(after_inputs(*body));
  for (const auto& body : bodies) {
    std::unordered_map<std::string, Node*> inputs;
    for (const Attribute& attribute : body->attributes) {
      captured.emplace_back(outer_tensor(program, attribute, outer));
      const ValueMeta& value = captured.back().node()->meta.val;
      for (size_t i = 0; i < bodies.size(); ++i) {
        Graph& graph = *bodies[i]->graph;
        Node* input = add_input(*bodies[i], behind[i], graph.unique_name(node_name_of(attribute.name)), value);
        if (bodies[i] == body) inputs[attribute.name] = input;
      }
    }
    for (Node* reader : body->graph->nodes()) {
      const auto input = inputs.find(reader->target());
      if (reader->op() != Node::Op::kGetAttr || input == inputs.end()) continue;
      reader->replace_all_uses_with(input->second);
      for (Node*& next : behind)
        if (next == reader) next = reader->next();
      body->graph->erase(reader);
    }
    body->attributes.erase_if([](const Attribute&) { return true; });
  }
  node->set_arg(node->args().size() - 1, Argument(std::move(captured)));
}

// Whether a value is a tensor of the program that holds one true element.
bool is_always_true(const Program& program, const Node* value) {
  if (value == nullptr || value->op() != Node::Op::kGetAttr) return false;
  const Tensor& tensor = program.attribute_of(*value);
  return tensor.numel() == 1 && tensor.item() != 0;
}

[[noreturn]] void refuse(const Node& loop, std::string_view why) {
  throw Error(ErrorCode::kUnsupported, concat("node ", loop.name(), " cannot be written to a .pt2 file: ", why),
              loop.name(), loop.target());
}

// ONNX's loop: (trip_count, condition, body, carried, captured), whose body takes the number of the iteration, the
// condition, what is carried and what is captured, and gives the condition, what is carried, and parts of results.
class LoopRewrite {
 public:
  LoopRewrite(Program& program, Node& loop)
      : program_(program), loop_(loop), body_(std::make_shared<Program>(loop.arg(2).as<Subprogram>()->clone())),
        carried_(loop.arg(3).list()), results_(body_->graph->output_node()->arg(0).list()) {}

  void apply() {
    const std::vector<Node*> inputs = body_->graph->placeholders();
    QDQ_CHECK(inputs.size() >= 2 + carried_.size() && results_.size() >= 1 + carried_.size(), kInternal,
              "a loop's body takes ", inputs.size(), " values");
    iteration_ = inputs[0];
    condition_ = inputs[1];
    const Node* goes_on = results_[0].node();
    const bool begins = loop_.arg(1).is_none() || is_always_true(program_, loop_.arg(1).node());
    if (begins && !loop_.arg(0).is_none() && (goes_on == condition_ || is_always_true(*body_, goes_on)))
      return make_scan();
    if (results_.size() > 1 + carried_.size())
      refuse(loop_, "PyTorch has no loop that ends by a condition and joins what its iterations gave");
    make_while_loop();
  }

 private:
  // The iterations are numbers along which the scan goes. One that joins nothing gives these numbers, because PyTorch's
  // scan wants something to join.
  void make_scan() {
    const auto point = program_.graph->insert_before(&loop_);
    Node* trips = loop_.arg(0).node();
    Argument count;
    if (trips->op() == Node::Op::kGetAttr) count = program_.attribute_of(*trips).item_int();
    else count = call(*program_.graph, "item.default", {trips});
    Node* numbers = call(*program_.graph, "arange.default", {count});
    body_->graph->move_before(iteration_, body_->graph->placeholders().at(1 + carried_.size())->next());
    Argument::List results(results_.begin() + 1, results_.end());
    if (results.size() == carried_.size()) results.emplace_back(iteration_);
    body_->graph->output_node()->set_arg(0, Argument(results));
    Node* is_true = condition_;
    if (!condition_->users().empty()) {
      const auto inner = body_->graph->insert_before(after_inputs(*body_));
      is_true = call(*body_->graph, "full.default", {Argument(Argument::List{}), true}, {{"dtype", DType::kBool}});
      condition_->replace_all_uses_with(is_true);
    }
    body_->graph->erase(condition_);
    replace(op::kScan, {Argument(body_), Argument(carried_), Argument(Argument::List{numbers}), 0, false, loop_.arg(4)},
            0);
  }

  // The number of the iteration and the condition are carried in front of the rest.
  void make_while_loop() {
    const auto point = program_.graph->insert_before(&loop_);
    Graph& outer = *program_.graph;
    TensorNodes tensors = tensor_nodes(program_);
    const auto constant = [&](const char* name, Tensor tensor) {
      return outer_tensor(program_, {name, std::move(tensor), Attribute::Kind::kConstant}, tensors);
    };
    Argument::List carried{Argument(constant("first_iteration", Tensor::scalar<int64_t>(0)))};
    if (loop_.arg(1).is_none()) carried.emplace_back(constant("first_condition", Tensor::full({}, DType::kBool, 1)));
    else carried.emplace_back(as_scalar(outer, loop_.arg(1).node()));
    carried.insert(carried.end(), carried_.begin(), carried_.end());
    Argument::List captured = loop_.arg(4).list();
    condition_->meta.val = tensor_value(DType::kBool, {});

    auto test = std::make_shared<Program>();
    for (const Node* input : body_->graph->placeholders())
      test->graph->create(Node::Op::kPlaceholder, input->name(), {}, {}, input->name())->meta.val = input->meta.val;
    Node* result = test->graph->placeholders()[1];
    if (Node* trips = loop_.arg(0).node()) {
      trips = as_scalar(outer, trips);
      captured.emplace_back(trips);
      add_input(*body_, after_inputs(*body_), body_->graph->unique_name("trips"), trips->meta.val);
      const std::string name = test->graph->unique_name("trips");
      Node* last = test->graph->create(Node::Op::kPlaceholder, name, {}, {}, name);
      last->meta.val = trips->meta.val;
      Node* is_left = call(*test->graph, "lt.Tensor", {test->graph->placeholders()[0], last});
      result = call(*test->graph, "logical_and.default", {is_left, result});
    }
    test->graph->create(Node::Op::kOutput, "output", {Argument(Argument::List{result})}, {}, "output");

    Node* output = body_->graph->output_node();
    const auto inner = body_->graph->insert_before(output);
    Argument::List results{call(*body_->graph, "add.Tensor", {iteration_, 1}),
                           as_scalar(*body_->graph, results_[0].node())};
    results.insert(results.end(), results_.begin() + 1, results_.end());
    output->set_arg(0, Argument(std::move(results)));
    replace(op::kWhileLoop,
            {Argument(test), Argument(body_), Argument(std::move(carried)), Argument(std::move(captured))}, 2);
  }

  // A tensor of one element without axes, as PyTorch wants conditions.
  static Node* as_scalar(Graph& graph, Node* node) {
    const TensorMeta* meta = node->meta.val.tensor();
    if (meta != nullptr && meta->sizes.empty()) return node;
    return call(graph, "reshape.default", {node, Argument(Argument::List{})});
  }

  void replace(std::string_view target, std::vector<Argument> args, int64_t skipped) {
    Node* made = program_.graph->call(std::string(target), std::move(args), {}, loop_.name());
    std::vector<ValueMeta> values;
    for (const Argument& result :
         made->arg(made->is(op::kScan) ? 0 : 1).as<Subprogram>()->graph->output_node()->arg(0).list())
      values.push_back(result.node()->meta.val);
    if (const auto* known = std::get_if<std::vector<ValueMeta>>(&loop_.meta.val.value))
      std::copy(known->begin(), known->end(), values.begin() + skipped);
    if (made->is(op::kScan) && values.size() > results_.size() - 1) {
      const TensorMeta* numbers = made->arg(2).list()[0].node()->meta.val.tensor();
      values.back() = tensor_value(DType::kS64, numbers->sizes);
    }
    made->meta = loop_.meta;
    made->meta.val.value = std::move(values);
    for (Node* user : std::vector<Node*>(loop_.users())) {
      user->replace_input_with(&loop_, made);
      if (skipped != 0) user->set_arg(1, *user->arg(1).integer() + skipped);
    }
    program_.graph->erase(&loop_);
  }

  Program& program_;
  Node& loop_;
  std::shared_ptr<Program> body_;
  Argument::List carried_, results_;
  Node *iteration_ = nullptr, *condition_ = nullptr;
};

}  // namespace

bool runs_programs(const Program& program) {
  const std::vector<Node*> nodes = program.graph->nodes();
  return std::any_of(nodes.begin(), nodes.end(), [](const Node* node) { return runs_programs(*node); });
}

void rewrite_control_flow_for_pt2(Program& program) {
  for (Node* node : program.graph->nodes())
    if (node->is(op::kLoop)) LoopRewrite(program, *node).apply();
  TensorNodes outer = tensor_nodes(program);
  for (Node* node : program.graph->nodes()) {
    if (!runs_programs(*node)) continue;
    std::vector<std::shared_ptr<Program>> bodies;
    for (size_t i = 0; i < node->args().size(); ++i) {
      if (!node->arg(i).is<Subprogram>()) continue;
      bodies.push_back(std::make_shared<Program>(node->arg(i).as<Subprogram>()->clone()));
      rewrite_control_flow_for_pt2(*bodies.back());
      node->set_arg(i, Argument(Subprogram(bodies.back())));
    }
    lift_tensors(program, node, bodies, outer);
  }
  program.erase_unused_attributes();
}

}  // namespace qdq
