#include "graph/graph.h"

#include <algorithm>
#include <cctype>

namespace qdq {

std::string_view to_string(MemoryFormat format) {
  switch (format) {
    case MemoryFormat::kContiguous: return "contiguous_format";
    case MemoryFormat::kChannelsLast: return "channels_last";
    case MemoryFormat::kChannelsLast3d: return "channels_last_3d";
    case MemoryFormat::kPreserve: return "preserve_format";
  }
  return "preserve_format";
}

std::string_view to_string(Node::Op op) {
  switch (op) {
    case Node::Op::kPlaceholder: return "placeholder";
    case Node::Op::kGetAttr: return "get_attr";
    case Node::Op::kCallFunction: return "call_function";
    case Node::Op::kCallModule: return "call_module";
    case Node::Op::kOutput: return "output";
  }
  return "output";
}

std::optional<double> Argument::number() const {
  if (is<double>()) return as<double>();
  if (is<int64_t>()) return static_cast<double>(as<int64_t>());
  if (is<bool>()) return as<bool>() ? 1.0 : 0.0;
  return std::nullopt;
}

std::optional<int64_t> Argument::integer() const {
  if (is<int64_t>()) return as<int64_t>();
  if (is<bool>()) return as<bool>() ? 1 : 0;
  return std::nullopt;
}

void Argument::for_each_node(FunctionRef<void(Node*)> body) const {
  if (is_node()) {
    body(as<Node*>());
  } else if (is_list()) {
    for (const Argument& element : list()) element.for_each_node(body);
  }
}

Argument Argument::map_nodes(FunctionRef<Node*(Node*)> replacement) const {
  if (is_node()) return replacement(as<Node*>());
  if (!is_list()) return *this;
  List out;
  out.reserve(list().size());
  for (const Argument& element : list()) out.push_back(element.map_nodes(replacement));
  return out;
}

void Argument::replace(const Node* old_node, Node* new_node) {
  if (Node** node = std::get_if<Node*>(&value_); node != nullptr && *node == old_node) *node = new_node;
  if (List* list = std::get_if<List>(&value_))
    for (Argument& element : *list) element.replace(old_node, new_node);
}

std::string without_frame(std::string_view path) {
  constexpr std::string_view kGet = "getattr(", kFrame = "L['", kEnd = "']", kNext = ", '", kLast = "')";
  std::string_view inner = path;
  while (inner.starts_with(kGet)) inner.remove_prefix(kGet.size());
  if (!inner.starts_with(kFrame)) return std::string(path);
  const size_t end = inner.find(kEnd);
  if (end == std::string_view::npos) return std::string(path);
  inner.remove_prefix(end + kEnd.size());
  std::string out;
  while (!inner.empty()) {
    if (inner.starts_with(kNext)) out += '.', inner.remove_prefix(kNext.size());
    else if (inner.starts_with(kLast)) inner.remove_prefix(kLast.size());
    else if (inner[0] == '[') out += '.', inner.remove_prefix(1);
    else if (inner[0] == ']' || inner[0] == '\'') inner.remove_prefix(1);
    else out += inner[0], inner.remove_prefix(1);
  }
  return out.starts_with('.') ? out.substr(1) : out;
}

const std::string& NodeMeta::extra_of(std::string_view key) const {
  static const std::string kNone;
  const auto found = std::find_if(extra.rbegin(), extra.rend(), [&](const auto& entry) { return entry.first == key; });
  return found == extra.rend() ? kNone : found->second;
}

std::optional<std::string> NodeMeta::module_path() const {
  if (nn_module_stack.empty()) return std::nullopt;
  return nn_module_stack.back().path;
}

const Argument& Node::arg(size_t i) const {
  static const Argument none;
  return i < args_.size() ? args_[i] : none;
}

const Argument* Node::kwarg(std::string_view name) const {
  for (const auto& [key, value] : kwargs_)
    if (key == name) return &value;
  return nullptr;
}

std::vector<Node*> Node::input_nodes() const {
  std::vector<Node*> out;
  std::unordered_set<Node*> seen;
  const auto add = [&](Node* node) {
    if (seen.insert(node).second) out.push_back(node);
  };
  for (const Argument& argument : args_) argument.for_each_node(add);
  for (const auto& [key, value] : kwargs_) value.for_each_node(add);
  return out;
}

// Brings the users of all inputs in line after the arguments changed. As in torch.fx, a node whose arguments are set
// goes to the end of the line of every input, also of those that stay (torch/fx/node.py, __update_args_kwargs).
void Node::update_users(const std::vector<Node*>& before) {
  for (Node* input : before) input->users_.erase(std::find(input->users_.begin(), input->users_.end(), this));
  for (Node* input : input_nodes()) {
    QDQ_CHECK(input != nullptr, kInternal, "an argument of ", name_, " is not a node");
    input->users_.push_back(this);
  }
}

void Node::set_args(std::vector<Argument> args) {
  const std::vector<Node*> before = input_nodes();
  args_ = std::move(args);
  update_users(before);
}

void Node::set_arg(size_t i, Argument value) {
  const std::vector<Node*> before = input_nodes();
  if (i >= args_.size()) args_.resize(i + 1);
  args_[i] = std::move(value);
  update_users(before);
}

void Node::set_kwargs(Kwargs kwargs) {
  const std::vector<Node*> before = input_nodes();
  kwargs_ = std::move(kwargs);
  update_users(before);
}

void Node::put_last_of_users(Node* user) {
  if (!users_.empty() && users_.back() == user) return;
  if (const auto found = std::find(users_.begin(), users_.end(), user); found != users_.end()) users_.erase(found);
  users_.push_back(user);
}

// As update_users, without a list of the inputs: a concatenation may have 10,000, which are replaced one by one.
void Node::replace_input_with(Node* old_input, Node* new_input) {
  QDQ_CHECK(new_input != nullptr, kInternal, "an argument of ", name_, " is not a node");
  if (const auto found = std::find(old_input->users_.begin(), old_input->users_.end(), this);
      found != old_input->users_.end())
    old_input->users_.erase(found);
  const auto put_last = [this](Node* input) { input->put_last_of_users(this); };
  for (Argument& argument : args_) {
    argument.replace(old_input, new_input);
    argument.for_each_node(put_last);
  }
  for (auto& [key, value] : kwargs_) {
    value.replace(old_input, new_input);
    value.for_each_node(put_last);
  }
}

std::vector<Node*> Node::replace_all_uses_with(Node* other, const std::function<bool(Node*)>& which) {
  std::vector<Node*> changed;
  for (Node* user : std::vector<Node*>(users_)) {
    if (user == other || (which && !which(user))) continue;
    user->replace_input_with(this, other);
    changed.push_back(user);
  }
  return changed;
}

Node* Node::next() const {
  const auto after = std::next(position_);
  return after == graph_->nodes_.end() ? nullptr : after->get();
}

Node* Node::prev() const { return position_ == graph_->nodes_.begin() ? nullptr : std::prev(position_)->get(); }

std::vector<Node*> Graph::nodes() const {
  std::vector<Node*> out;
  out.reserve(nodes_.size());
  for (const auto& node : nodes_) out.push_back(node.get());
  return out;
}

Node* Graph::find(std::string_view name) const {
  const auto found = by_name_.find(std::string(name));
  return found == by_name_.end() ? nullptr : found->second;
}

Node* Graph::output_node() const {
  QDQ_CHECK(!nodes_.empty() && nodes_.back()->op_ == Node::Op::kOutput, kInvalidArgument,
            "the graph does not end with an output node");
  return nodes_.back().get();
}

std::vector<Node*> Graph::placeholders() const {
  std::vector<Node*> out;
  for (const auto& node : nodes_)
    if (node->op_ == Node::Op::kPlaceholder) out.push_back(node.get());
  return out;
}

namespace {
// "normLayer.weight" -> "norm_layer.weight" (torch/fx/graph.py, _snake_case).
std::string snake_case(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    if (i > 0 && std::islower(static_cast<unsigned char>(text[i - 1])) && std::isupper(c)) out += '_';
    out += static_cast<char>(std::tolower(c));
  }
  return out;
}

std::string identifier_of(std::string_view text) {
  std::string name;
  for (char c : text) name += std::isalnum(static_cast<unsigned char>(c)) || c == '_' ? c : '_';
  if (!name.empty() && std::isdigit(static_cast<unsigned char>(name[0]))) name = "_" + name;
  return name;
}

// "torch.ops.aten.split.Tensor" -> "split.tensor", as torch.fx names a call without a hint.
std::string name_of_target(Node::Op op, const std::string& target) {
  std::string name = target;
  if (op == Node::Op::kCallFunction && target.rfind("torch.ops.", 0) == 0) {
    const size_t overload = target.rfind('.');
    const size_t packet = overload == std::string::npos ? overload : target.rfind('.', overload - 1);
    if (packet != std::string::npos) name = target.substr(packet + 1);
  } else if (op == Node::Op::kCallFunction) {
    const size_t dot = target.rfind('.');
    if (dot != std::string::npos) name = target.substr(dot + 1);
  }
  return snake_case(name);
}
}  // namespace

std::string node_name_of(std::string_view attribute) { return identifier_of(snake_case(attribute)); }

namespace {
// The last of the names base_2, base_3, ... that are taken one after the other behind `number`. Names stay taken, so
// that `ends` keeps what a search went past, under the base, a space, which no base has, and the number.
int64_t end_of_run(const std::string& base, int64_t number, const std::unordered_set<std::string>& taken,
                   std::unordered_map<std::string, int64_t>& ends) {
  std::vector<int64_t> passed;
  for (bool is_taken = true; is_taken;) {
    passed.push_back(number);
    const auto known = ends.find(base + ' ' + std::to_string(number));
    if (known != ends.end() && known->second > number) number = known->second;
    else if (is_taken = taken.count(base + "_" + std::to_string(number + 1)) != 0; is_taken) ++number;
  }
  if (passed.size() > 1)
    for (const int64_t from : passed) ends[base + ' ' + std::to_string(from)] = number;
  return number;
}
}  // namespace

// PyTorch's rule (torch/fx/graph.py, _Namespace.create_name): a free name stays as it is; of a taken one the number at
// its end, or the last number given to its base, is counted up.
std::string Graph::unique_name(std::string candidate) const {
  candidate = identifier_of(candidate);
  if (candidate.empty()) candidate = "_unnamed";
  std::string base = candidate;
  int64_t number = 0;
  const size_t underscore = candidate.rfind('_');
  if (underscore != std::string::npos && underscore + 1 < candidate.size() && candidate.size() - underscore <= 10 &&
      std::all_of(candidate.begin() + static_cast<int64_t>(underscore) + 1, candidate.end(),
                  [](unsigned char c) { return std::isdigit(c) != 0; })) {
    base = candidate.substr(0, underscore);
    number = std::stoll(candidate.substr(underscore + 1));
  }
  if (number == 0) number = next_suffix_[base];
  if (used_names_.count(candidate) != 0) {
    number = end_of_run(base, number, used_names_, next_suffix_) + 1;
    candidate = base + "_" + std::to_string(number);
  }
  next_suffix_[base] = number;
  return candidate;
}

Node* Graph::create(Node::Op op, std::string target, std::vector<Argument> args, Node::Kwargs kwargs,
                    std::string name) {
  const auto place = insert_before_ ? insert_before_->position_ : nodes_.end();
  std::unique_ptr<Node> owned(new Node());
  Node* node = owned.get();
  node->graph_ = this;
  node->op_ = op;
  node->name_ = unique_name(name.empty() ? name_of_target(op, target) : std::move(name));
  node->target_ = std::move(target);
  used_names_.insert(node->name_);
  by_name_[node->name_] = node;
  node->position_ = nodes_.insert(place, std::move(owned));
  node->args_ = std::move(args);
  node->kwargs_ = std::move(kwargs);
  node->update_users({});
  return node;
}

void Graph::move_before(Node* node, Node* place) { nodes_.splice(place->position_, nodes_, node->position_); }

void Graph::erase(Node* node) {
  QDQ_CHECK(node->users_.empty(), kInternal, "node ", node->name_, " is erased although ", node->users_.front()->name_,
            " uses it");
  node->set_args({});
  node->set_kwargs({});
  by_name_.erase(node->name_);
  if (insert_before_ == node) insert_before_ = node->next();
  nodes_.erase(node->position_);
}

namespace {
bool is_in_place(const std::string& target) {
  const size_t overload = target.rfind('.');
  return overload != std::string::npos && overload > 0 && target[overload - 1] == '_';
}
}  // namespace

bool Graph::eliminate_dead_code(const std::function<bool(const Node*)>& keep) {
  bool changed = false;
  for (Node* node = last(); node != nullptr;) {
    Node* before = node->prev();
    const bool removable =
        node->op_ == Node::Op::kGetAttr || (node->op_ == Node::Op::kCallFunction && !is_in_place(node->target_));
    if (removable && node->users_.empty() && !(keep && keep(node))) {
      erase(node);
      changed = true;
    }
    node = before;
  }
  return changed;
}

void Graph::rename(Node* node, std::string name) {
  if (name == node->name_) return;
  by_name_.erase(node->name_);
  node->name_ = unique_name(std::move(name));
  used_names_.insert(node->name_);
  by_name_[node->name_] = node;
}

std::unique_ptr<Graph> Graph::clone(std::unordered_map<const Node*, Node*>* copies) const {
  auto out = std::make_unique<Graph>();
  std::unordered_map<const Node*, Node*> map;
  for (const auto& node : nodes_) {
    std::unique_ptr<Node> copy(new Node());
    copy->graph_ = out.get();
    copy->op_ = node->op_;
    copy->name_ = node->name_;
    copy->target_ = node->target_;
    copy->meta = node->meta;
    map[node.get()] = copy.get();
    out->by_name_[copy->name_] = copy.get();
    const auto position = out->nodes_.insert(out->nodes_.end(), std::move(copy));
    (*position)->position_ = position;
  }
  const auto replacement = [&](Node* node) { return map.at(node); };
  for (const auto& node : nodes_) {
    Node* copy = map.at(node.get());
    for (const Argument& argument : node->args_) copy->args_.push_back(argument.map_nodes(replacement));
    for (const auto& [key, value] : node->kwargs_) copy->kwargs_.emplace_back(key, value.map_nodes(replacement));
    for (Node* user : node->users_) copy->users_.push_back(map.at(user));
  }
  out->next_suffix_ = next_suffix_;
  out->used_names_ = used_names_;
  if (copies) *copies = std::move(map);
  return out;
}

}  // namespace qdq
