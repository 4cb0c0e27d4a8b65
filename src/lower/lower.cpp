#include "lower/lower.h"

#include <algorithm>
#include <unordered_set>

namespace qdq {
namespace {

std::unique_ptr<Backend> make_backend(std::string_view name) {
  if (name == "onednn") return make_onednn_backend();
  if (name == "simd") return make_simd_backend();
  return nullptr;
}

bool mutates_its_input(const OpDef& op) {
  return std::any_of(op.schema.arguments.begin(), op.schema.arguments.end(), [](const SchemaArgument& a) { return a.is_mutated; });
}

// Whether a node's value is the same at every run: its operator is pure and its inputs are constants that nothing writes to.
std::unordered_set<const Node*> constant_nodes(const Program& program) {
  std::unordered_set<std::string> written;
  for (const BufferMutation& mutation : program.buffer_mutations) written.insert(mutation.buffer);
  std::unordered_set<const Node*> constant;
  for (const Node* node : program.graph->nodes()) {
    const std::vector<Node*> inputs = node->input_nodes();
    const auto is_constant = [&](const Node* input) { return constant.count(input) != 0; };
    if (node->op() == Node::Op::kGetAttr) {
      if (written.count(node->target()) == 0) constant.insert(node);
    } else if (node->op() == Node::Op::kCallFunction) {
      const OpDef* op = find_op(node->target());
      if (op == nullptr) continue;
      if (mutates_its_input(*op)) {
        // What it writes to is no constant, nor is anything made from it; giving up on folding is the safe answer.
        for (const Node* input : inputs)
          if (is_constant(input)) return {};
        continue;
      }
      if (!inputs.empty() && std::all_of(inputs.begin(), inputs.end(), is_constant)) constant.insert(node);
    }
  }
  return constant;
}

// Replaces the outermost constant tensors (typically dequantized weights) by attributes computed on the reference operators.
//   get_attr(int8) -> dequantize -> conv        becomes        get_attr(float) -> conv
void fold_constants(Program& program) {
  Graph& graph = *program.graph;
  const std::unordered_set<const Node*> constant = constant_nodes(program);
  std::vector<Node*> roots;
  for (Node* node : graph.nodes()) {
    const bool is_root = constant.count(node) != 0 && node->op() == Node::Op::kCallFunction && node->meta.val.is_tensor() &&
                         std::any_of(node->users().begin(), node->users().end(), [&](Node* user) { return constant.count(user) == 0; });
    if (is_root) roots.push_back(node);
  }
  if (roots.empty()) return;
  Program constants;
  constants.attributes = program.attributes;
  Argument::List results;
  std::unordered_map<const Node*, Node*> copies;
  for (const Node* node : graph.nodes()) {
    if (constant.count(node) == 0) continue;
    const auto copied = [&](Node* input) { return copies.at(input); };
    std::vector<Argument> args;
    for (const Argument& argument : node->args()) args.push_back(argument.map_nodes(copied));
    Node::Kwargs kwargs;
    for (const auto& [key, value] : node->kwargs()) kwargs.emplace_back(key, value.map_nodes(copied));
    Node* copy = constants.graph->create(node->op(), node->target(), std::move(args), std::move(kwargs), node->name());
    copy->meta = node->meta;
    copies[node] = copy;
  }
  for (Node* root : roots) results.push_back(copies.at(root));
  constants.graph->create(Node::Op::kOutput, "output", {Argument(std::move(results))});
  const std::vector<Tensor> values = Interpreter(constants, {}).run({});
  for (size_t i = 0; i < roots.size(); ++i) {
    const std::string name = program.unique_attribute_name("_folded_" + roots[i]->name());
    program.add_attribute({name, values[i].contiguous(), Attribute::Kind::kBuffer});
    const auto point = graph.insert_before(roots[i]);
    Node* folded = graph.get_attr(name);
    folded->meta = roots[i]->meta;
    roots[i]->replace_all_uses_with(folded);
  }
  graph.eliminate_dead_code();
  program.erase_unused_attributes();
}

}  // namespace

std::vector<std::string_view> backend_names() {
  std::vector<std::string_view> out;
  if (make_onednn_backend() != nullptr) out.push_back("onednn");
  out.push_back("simd");
  out.push_back("reference");
  return out;
}

struct Session::Impl {
  Program program;
  std::vector<std::unique_ptr<Backend>> backends;
  std::unique_ptr<Interpreter> interpreter;
};

Session::Session(Program program, const LowerOptions& options) : impl_(std::make_unique<Impl>()) {
  check_ops(*program.graph);
  impl_->program = std::move(program);
  fold_constants(impl_->program);
  const std::vector<std::string_view> known = backend_names();
  const std::vector<std::string> wanted =
      options.backends.empty() ? std::vector<std::string>(known.begin(), known.end()) : options.backends;
  std::vector<Backend*> candidates;
  for (const std::string& name : wanted) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      std::string list;
      for (std::string_view one : known) list += (list.empty() ? "" : ", ") + std::string(one);
      fail(ErrorCode::kInvalidArgument, "there is no backend '", name, "' in this build; it has ", list);
    }
    if (std::unique_ptr<Backend> backend = make_backend(name)) {
      candidates.push_back(backend.get());
      impl_->backends.push_back(std::move(backend));
    }
  }
  impl_->interpreter = std::make_unique<Interpreter>(impl_->program, candidates);
}

Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

std::vector<Tensor> Session::run(std::span<const Tensor> inputs) { return impl_->interpreter->run(inputs); }
const Program& Session::program() const { return impl_->program; }
const std::vector<Interpreter::Placement>& Session::placements() const { return impl_->interpreter->placements(); }

Session lower(const Program& program, const LowerOptions& options) { return Session(program.clone(), options); }

}  // namespace qdq

#ifdef __EMSCRIPTEN__
namespace qdq {
std::unique_ptr<Backend> make_onednn_backend() { return nullptr; }
}  // namespace qdq
#endif
