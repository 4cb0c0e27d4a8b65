// Finds channels that can be scaled, through views, sums, products, concatenations and splits.
#include <algorithm>
#include <map>
#include <numeric>

#include "base/stable_sort.h"
#include "op/facts.h"
#include "op/targets.h"
#include "recover/channel_axes.h"
#include "recover/seams.h"

namespace qdq {

namespace {

// A constant of its own that a product takes for each channel, as exporters spell out the weight of an RMS norm or the
// scale of a layer.
struct ChannelScale {
  OwnConstant constant;
  std::optional<size_t> observer;  // that sees it as it sees activations
  int64_t axis;                    // of the channels in the product
};

std::optional<ChannelScale> channel_scale_of(const Prepared::Impl& impl, const Node& node) {
  const TensorMeta* value = node.meta.val.tensor();
  if (!is_a(node, Family::kMultiply) || value == nullptr || node.args().size() < 2) return std::nullopt;
  for (size_t i = 0; i < 2; ++i) {
    const Node* argument = node.arg(i).node();
    if (argument == nullptr || node.arg(1 - i).node() == nullptr) continue;
    std::optional<OwnConstant> constant = own_constant(impl, argument);
    std::optional<size_t> observer;
    if (!constant && (observer = impl.group_of_module(*argument)) && argument->users().size() == 1)
      constant = own_constant(impl, argument->arg(0).node());
    if (!constant) continue;
    const Shape& sizes = impl.program.find_attribute(constant->name)->tensor.sizes();
    const auto is_many = [](int64_t size) { return size != 1; };
    const auto channels = std::find_if(sizes.begin(), sizes.end(), is_many);
    if (channels == sizes.end() || std::any_of(channels + 1, sizes.end(), is_many)) continue;
    const auto axis = static_cast<int64_t>(value->sizes.size()) - (sizes.end() - channels);
    if (axis >= 0 && value->sizes[static_cast<size_t>(axis)] == SymInt(*channels))
      return ChannelScale{*constant, observer, axis};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Reader> reader_of(const Prepared::Impl& impl, const Node& node, const Node& input, int64_t axis) {
  const TensorMeta* value = input.meta.val.tensor();
  if (value == nullptr) return std::nullopt;
  const auto rank = static_cast<int64_t>(value->sizes.size());
  const bool is_transposed = is_a(node, Family::kTransposedConvolution);
  const bool convolves = is_plain_convolution(node) || is_transposed;
  if (!(convolves ? axis == 1 : is_linear(node) && axis == rank - 1) || input_of(node) != &input) return std::nullopt;
  const auto weight = own_constant(impl, weight_of(node));
  if (!weight) return std::nullopt;
  Reader out{&node, &input, axis, {}, *weight};
  if (!convolves) return out;
  out.groups = argument_called(node, "groups").integer().value_or(0);
  out.is_transposed = is_transposed;
  return out.groups > 0 ? std::optional(out) : std::nullopt;
}

std::optional<std::pair<Producer, int64_t>> producer_of(const Prepared::Impl& impl, const Node& node) {
  const TensorMeta* value = node.meta.val.tensor();
  if (value == nullptr || value->dtype != DType::kF32 || node.op() != Node::Op::kCallFunction || op_of(node) == nullptr)
    return std::nullopt;
  if (const auto scale = channel_scale_of(impl, node))
    return {{{&node, {}, scale->constant, std::nullopt, scale->observer}, scale->axis}};
  const bool is_transposed = is_a(node, Family::kTransposedConvolution),
             convolves = is_plain_convolution(node) || is_transposed,
             norms = is_a(node, Family::kNorm) || is_a(node, Family::kBatchNorm);
  if (!convolves && !norms && !is_linear(node)) return std::nullopt;
  const auto weight = own_constant(impl, weight_of(node));
  if (!weight) return std::nullopt;
  const std::string_view name = name_of(node);
  const bool lies_last = norms ? name.starts_with("layer_norm") || name.starts_with("rms_norm") : !convolves;
  const auto rank = static_cast<int64_t>(value->sizes.size()), axis = lies_last ? rank - 1 : int64_t{1};
  const Tensor& values = impl.program.find_attribute(weight->name)->tensor;
  if (values.dim() == 0 || (norms && values.dim() != 1) || axis < 0 || axis >= rank) return std::nullopt;
  Producer out{&node, {}, *weight, std::nullopt, std::nullopt};
  if (is_transposed) out.groups = argument_called(node, "groups").integer().value_or(0);
  out.is_transposed = is_transposed;
  if (out.groups < 1 ||
      value->sizes[static_cast<size_t>(axis)] != SymInt(is_transposed ? values.size(1) * out.groups : values.size(0)))
    return std::nullopt;
  const Node* bias = bias_of(node);
  if (bias != nullptr && (!(out.bias = own_constant(impl, bias)) || out.bias->observer)) return std::nullopt;
  return {{std::move(out), axis}};
}

namespace {

bool same_sizes(const Node& a, const Node& b) {
  const TensorMeta *x = a.meta.val.tensor(), *y = b.meta.val.tensor();
  return x != nullptr && y != nullptr && x->sizes == y->sizes;
}

// Finds all that has to be scaled together with what one producer makes.
class SeamSearch {
 public:
  SeamSearch(const Prepared::Impl& impl, std::unordered_set<const Node*>& known, bool of_weights)
      : impl_(impl), known_(known), of_weights_(of_weights) {}

  std::optional<Seam> from(const Node& node) {
    const auto first = producer_of(impl_, node);
    if (!first) return std::nullopt;
    const auto count = node.meta.val.tensor()->sizes[static_cast<size_t>(first->second)].constant();
    if (!count) return std::nullopt;
    reach(node, {{first->second}, new_names(*count)}, false);
    for (size_t i = 0; i < open_.size(); ++i) {
      const auto [value, is_made] = open_[i];
      const Channels& channels = reached_.at(value);
      if (all_fixed(channels.names)) continue;
      if (!is_made && !trace(*value, channels)) fix(channels.names);
      for (const Node* user : value->users())
        if (!pass(*value, channels, *user)) fix(channels.names);
    }
    for (const Node* product : products_)  // both factors would scale
      if (reached_.count(product->arg(0).node()) + reached_.count(product->arg(1).node()) != 1)
        fix(reached_.at(product).names);
    return finished();
  }

 private:
  std::vector<int64_t> new_names(int64_t count) {
    std::vector<int64_t> out(static_cast<size_t>(count));
    std::iota(out.begin(), out.end(), std::ssize(same_as_));
    same_as_.insert(same_as_.end(), out.begin(), out.end());
    fixed_.resize(same_as_.size());
    is_inverse_.resize(same_as_.size());
    return out;
  }

  // Of the names that have the same factor or its inverse, the first; and whether this one has the inverse.
  std::pair<int64_t, bool> root_of(int64_t name) {
    int64_t first = name;
    bool inverse = false;
    for (; same_as_[static_cast<size_t>(first)] != first; first = same_as_[static_cast<size_t>(first)])
      inverse ^= is_inverse_[static_cast<size_t>(first)];
    same_as_[static_cast<size_t>(name)] = first;
    is_inverse_[static_cast<size_t>(name)] = inverse;
    return {first, inverse};
  }
  int64_t first_of(int64_t name) { return root_of(name).first; }

  void unite(int64_t a, int64_t b, bool inverse = false) {
    const auto [x, of_x] = root_of(a);
    const auto [y, of_y] = root_of(b);
    const int64_t first = std::min(x, y), other = std::max(x, y);
    const bool differs = (of_x != of_y) != inverse;
    if (x == y && differs) fixed_[static_cast<size_t>(first)] = true;  // a factor that is its own inverse
    if (x == y) return;
    same_as_[static_cast<size_t>(other)] = first;
    is_inverse_[static_cast<size_t>(other)] = differs;
    fixed_[static_cast<size_t>(first)] = fixed_[static_cast<size_t>(first)] || fixed_[static_cast<size_t>(other)];
  }

  // Channels that have to keep their size.
  void fix(const std::vector<int64_t>& names) {
    for (const int64_t name : names) fixed_[static_cast<size_t>(first_of(name))] = true;
  }
  bool all_fixed(const std::vector<int64_t>& names) {
    return std::all_of(names.begin(), names.end(),
                       [&](int64_t name) { return fixed_[static_cast<size_t>(first_of(name))]; });
  }

  // Notes the channels of a value; `is_made`: what makes the value is one of these values.
  bool reach(const Node& value, Channels channels, bool is_made) {
    const TensorMeta* meta = value.meta.val.tensor();
    if (meta == nullptr || count_along(*meta, channels.axes) != std::ssize(channels.names)) return false;
    drop_ones(*meta, channels.axes);
    const auto [known, is_new] = reached_.try_emplace(&value, channels);
    if (is_new) {
      open_.emplace_back(&value, is_made);
      return true;
    }
    const Channels& before = known->second;
    if (before.axes != channels.axes || before.names.size() != channels.names.size()) {
      fix(before.names);
      return false;
    }
    for (size_t i = 0; i < channels.names.size(); ++i) unite(before.names[i], channels.names[i]);
    return true;
  }

  // The names along one of the axes, where those that lie beside each other along the others get one factor.
  std::optional<std::vector<int64_t>> names_along(const Node& value, const Channels& channels, int64_t axis) {
    const auto at = std::find(channels.axes.begin(), channels.axes.end(), axis);
    if (at == channels.axes.end()) return std::nullopt;
    const TensorMeta& meta = *value.meta.val.tensor();
    const int64_t inner = *count_along(meta, {at + 1, channels.axes.end()}), size = *count_along(meta, {axis});
    std::vector<int64_t> out;
    for (int64_t i = 0; i < size; ++i) out.push_back(channels.names[static_cast<size_t>(i * inner)]);
    for (size_t i = 0; i < channels.names.size(); ++i)
      unite(out[i / static_cast<size_t>(inner) % static_cast<size_t>(size)], channels.names[i]);
    return out;
  }

  // Axes of one element say nothing beside others.
  static void drop_ones(const TensorMeta& value, Axes& axes) {
    for (size_t i = axes.size(); i-- > 0 && axes.size() > 1;)
      if (value.sizes[static_cast<size_t>(axes[i])] == SymInt(1)) axes.erase(axes.begin() + static_cast<ptrdiff_t>(i));
  }

  // Goes back to what makes a value.
  bool trace(const Node& value, const Channels& channels) {
    if (auto producer = producer_of(impl_, value)) {
      known_.insert(&value);
      auto names = names_along(value, channels, producer->second);
      if (!names) return false;
      if (const auto& observer = producer->first.observer) {
        if (!takes_one_range(impl_, *observer)) return false;
        seam_.looks.push_back({*observer, channels.names});
      }
      producer->first.channels = std::move(*names);
      producer->first.axis = producer->second;
      seam_.producers.push_back(std::move(producer->first));
      return true;
    }
    if (is_a(value, Family::kConcat)) return trace_parts(value, channels);
    if (is_part(value)) return trace_part(value, channels);
    if (const Node* factor = wide_factor(value)) {
      products_.push_back(&value);
      return reach(*factor, channels, false);
    }
    const Node* from = value.args().empty() ? nullptr : value.arg(0).node();
    if (from == nullptr) return false;
    if (impl_.group_of_module(value)) return reach(*from, channels, false);
    if (op_of(value) == nullptr) return false;
    const Node* other = addend(value, *from);
    if (other != nullptr) return reach(*from, channels, false) && reach(*other, channels, false);
    const auto source = channels_before(value, channels);
    return source && reach(*from, *source, false);
  }

  // The factor that has all elements of a product whose other one is broadcast: what rotary embeddings turn.
  static const Node* wide_factor(const Node& product) {
    if (!is_a(product, Family::kMultiply) || product.args().size() < 2) return nullptr;
    const Node *a = product.arg(0).node(), *b = product.arg(1).node();
    if (a == nullptr || b == nullptr || same_sizes(*a, product) == same_sizes(*b, product)) return nullptr;
    return same_sizes(*a, product) ? a : b;
  }

  // What a concatenation joins.
  static std::vector<const Node*> parts_of(const Node& concat) {
    std::vector<const Node*> out;
    for (const Argument& part : concat.arg(0).list()) out.push_back(part.node());
    return out;
  }

  static std::optional<int64_t> size_of(const Node* value, int64_t axis) {
    const TensorMeta* meta = value != nullptr ? value->meta.val.tensor() : nullptr;
    return meta != nullptr && axis < std::ssize(meta->sizes) ? meta->sizes[static_cast<size_t>(axis)].constant()
                                                             : std::nullopt;
  }

  // How many channels lie in front of each other along the axes before this one; nothing if it is none of theirs.
  static std::optional<int64_t> count_before(const Node& value, const Axes& axes, int64_t axis) {
    const auto at = std::find(axes.begin(), axes.end(), axis);
    if (at == axes.end()) return std::nullopt;
    return count_along(*value.meta.val.tensor(), {axes.begin(), at});
  }

  bool trace_parts(const Node& concat, const Channels& channels) {
    if (!concat.arg(0).is_list() || channels.names.empty()) return false;
    const int64_t axis = axis_of(concat, std::ssize(concat.meta.val.tensor()->sizes));
    const auto outer = count_before(concat, channels.axes, axis), whole = size_of(&concat, axis);
    auto begin = channels.names.begin();
    for (const Node* part : parts_of(concat)) {
      const auto size = size_of(part, axis);
      if (part == nullptr) return false;
      Channels there{channels.axes, {}};
      if (!outer) {
        there.names = channels.names;
      } else {
        if (!size || !whole) return false;
        const int64_t row = std::ssize(channels.names) / *outer, some = row / *whole * *size;
        for (int64_t i = 0; i < *outer; ++i)
          there.names.insert(there.names.end(), begin + i * row, begin + i * row + some);
        begin += some;
      }
      if (!reach(*part, std::move(there), false)) return false;
    }
    return true;
  }

  // Goes on to a concatenation, whose other parts get names if they have none yet.
  bool pass_to_concat(const Node& value, const Channels& channels, const Node& concat) {
    if (!concat.arg(0).is_list() || channels.names.empty()) return false;
    const int64_t axis = axis_of(concat, std::ssize(value.meta.val.tensor()->sizes));
    const auto outer = count_before(value, channels.axes, axis), own = size_of(&value, axis);
    if (!outer) return reach(concat, channels, false);
    std::vector<std::vector<int64_t>> parts;
    for (const Node* part : parts_of(concat)) {
      const auto known = reached_.find(part);
      const auto size = size_of(part, axis);
      if (!size || !own || (known != reached_.end() && known->second.axes != channels.axes)) return false;
      parts.push_back(known != reached_.end() ? known->second.names
                                              : new_names(std::ssize(channels.names) / *own * *size));
    }
    Channels whole{channels.axes, {}};
    for (int64_t i = 0; i < *outer; ++i)
      for (const std::vector<int64_t>& names : parts) {
        const int64_t row = std::ssize(names) / *outer;
        whole.names.insert(whole.names.end(), names.begin() + i * row, names.begin() + (i + 1) * row);
      }
    return reach(concat, whole, false);
  }

  // Goes back to the value that a part shows channels of.
  bool trace_whole(const Part& part, const Axes& axes, const std::vector<int64_t>& names) {
    const auto count = count_along(*part.of->meta.val.tensor(), axes);
    if (!count || part.shown.size() != names.size()) return false;
    Channels whole{axes, new_names(*count)};
    for (size_t i = 0; i < part.shown.size(); ++i) unite(whole.names[static_cast<size_t>(part.shown[i])], names[i]);
    return reach(*part.of, whole, false);
  }

  // Goes back to what a slice, a part of a split, a shuffle or a repetition is made of. What is selected from along an
  // axis is taken to have channels along it, too.
  bool trace_part(const Node& value, const Channels& channels) {
    if (const auto part = part_of(value, channels.axes))
      if (part->axes == channels.axes) return trace_whole(*part, channels.axes, channels.names);
    const auto axes = axes_shown(value, channels.axes);
    const auto part = axes ? part_of(value, *axes) : std::nullopt;
    return part && part->axes == channels.axes && trace_whole(*part, *axes, channels.names);
  }

  bool pass_to_part(const Node& user, const Part& part, const Channels& channels) {
    Channels shown{part.axes, {}};
    for (const int64_t number : part.shown) shown.names.push_back(channels.names.at(static_cast<size_t>(number)));
    return reach(user, shown, true);
  }

  // Goes on to what an operator makes of a value, or notes it as a reader.
  bool pass(const Node& value, const Channels& channels, const Node& user) {
    if (const auto observer = impl_.group_of_module(user)) {
      if (of_weights_ && impl_.groups[*observer].observer->args().is_dynamic) return reach(user, channels, true);
      if (!takes_one_range(impl_, *observer)) return false;
      seam_.looks.push_back({*observer, channels.names});
      return reach(user, channels, true);
    }
    if (op_of(user) == nullptr || user.op() != Node::Op::kCallFunction) return false;
    if (const Node* other = addend(user, value)) return reach(*other, channels, false) && reach(user, channels, true);
    if (is_a(user, Family::kMultiply) && same_sizes(user, value) && !channel_scale_of(impl_, user)) {
      if (user.arg(0).node() != nullptr && user.arg(1).node() != nullptr) products_.push_back(&user);
      return reach(user, channels, true);
    }
    if (is_a(user, Family::kConcat)) return pass_to_concat(value, channels, user);
    if (is_a(user, Family::kSplit)) {
      for (const Node* item : user.users()) {
        const auto part = item->target() == op::kGetItem ? part_of(*item, channels.axes) : std::nullopt;
        if (!part || !pass_to_part(*item, *part, channels)) return false;
      }
      return true;
    }
    if (const auto part = part_of(user, channels.axes)) return pass_to_part(user, *part, channels);
    if (const auto axes = axes_of_partner(value, channels.axes, user))
      return pass_to_partner(value, *axes, channels, user);
    if (const auto there = channels_behind(user, value, channels, seam_.clamps)) {
      const auto function = activation_function(user);
      if (function && function->kind == kernel::Activation::Kind::kClamp &&
          (function->low < 0 || function->high < static_cast<double>(kInf))) {
        if (channels.axes.size() != 1) return false;
        seam_.cuts.push_back({&value, channels.axes[0], channels.names});
      }
      return reach(user, *there, true);
    }
    const int64_t axis = is_linear(user) ? channels.axes.back() : 1;
    auto reader = reader_of(impl_, user, value, axis);
    auto names = reader ? names_along(value, channels, axis) : std::nullopt;
    if (!names) return false;
    reader->channels = std::move(*names);
    seam_.readers.push_back(std::move(*reader));
    return true;
  }

  // The axes of the channels in the other operand of a product that sums over the innermost of these: the scores of
  // attention, queries times keys.
  std::optional<Axes> axes_of_partner(const Node& value, const Axes& axes, const Node& product) const {
    const bool attends = is_form_of(product, op::kAttention);
    if (of_weights_ || !(attends || is_a(product, Family::kMatmul)) || product.args().size() < 2) return std::nullopt;
    const std::string& name = op_of(product)->schema->arguments[1].name;
    if (!attends && name != "other" && name != "mat2") return std::nullopt;
    const Node* partner = partner_of(value, product);
    const TensorMeta *x = value.meta.val.tensor(), *y = partner != nullptr ? partner->meta.val.tensor() : nullptr;
    if (x == nullptr || y == nullptr || x->sizes.size() != y->sizes.size() || x->sizes.size() < 2) return std::nullopt;
    for (size_t i = 2; attends && i < product.args().size(); ++i)  // as values, or a mask
      if (product.arg(i).node() == &value || product.arg(i).node() == partner) return std::nullopt;
    const int64_t last = std::ssize(x->sizes) - 1, before = attends ? last : last - 1;
    const bool is_left = product.arg(0).node() == &value;
    const int64_t here = is_left ? last : before, there = is_left ? before : last;
    Axes out;
    for (const int64_t axis : axes) {
      const auto at = static_cast<size_t>(axis);
      if (axis != here && (axis + 1 >= last || x->sizes[at] != y->sizes[at])) return std::nullopt;
      out.push_back(axis == here ? there : axis);
    }
    return out.back() == there ? std::optional(out) : std::nullopt;
  }

  static const Node* partner_of(const Node& value, const Node& product) {
    const Node *left = product.arg(0).node(), *right = product.arg(1).node();
    if (left == right) return nullptr;
    return left == &value ? right : right == &value ? left : nullptr;
  }

  // The channels of the other operand are multiplied where these are divided.
  bool pass_to_partner(const Node& value, const Axes& axes, const Channels& channels, const Node& product) {
    const Node& partner = *partner_of(value, product);
    if (count_along(*partner.meta.val.tensor(), axes) != std::ssize(channels.names)) return false;
    const Channels there{axes, new_names(std::ssize(channels.names))};
    for (size_t i = 0; i < there.names.size(); ++i) unite(there.names[i], channels.names[i], true);
    return reach(partner, there, false);
  }

  // What a sum adds to this value, of the same sizes; null if it is no such sum.
  static const Node* addend(const Node& sum, const Node& value) {
    if (!(is_a(sum, Family::kAdd) || is_a(sum, Family::kSubtract)) || sum.args().size() < 2) return nullptr;
    const Node *a = sum.arg(0).node(), *b = sum.arg(1).node();
    if (a == nullptr || b == nullptr || !same_sizes(*a, sum) || !same_sizes(*b, sum)) return nullptr;
    return a == &value ? b : b == &value ? a : nullptr;
  }

  // The seam with numbers in place of names, without what keeps its size.
  std::optional<Seam> finished() {
    std::map<std::pair<int64_t, bool>, int64_t> numbers;
    const auto numbered = [&](auto& all) {
      std::erase_if(all, [&](const auto& each) { return all_fixed(each.channels); });
      for (auto& each : all)
        for (int64_t& channel : each.channels) {
          const auto [number, is_new] = numbers.try_emplace(root_of(channel), std::ssize(numbers));
          if (is_new) seam_.fixed.push_back(fixed_[static_cast<size_t>(first_of(channel))]);
          channel = number->second;
        }
    };
    numbered(seam_.producers);
    numbered(seam_.readers);
    numbered(seam_.looks);
    numbered(seam_.cuts);
    seam_.twins.assign(seam_.fixed.size(), -1);
    bool has_twins = false;
    for (const auto& [name, number] : numbers)
      if (const auto twin = numbers.find({name.first, !name.second}); twin != numbers.end()) {
        seam_.twins[static_cast<size_t>(number)] = twin->second;
        has_twins = true;
      }
    if ((seam_.readers.empty() && !has_twins) || (seam_.looks.empty() && !of_weights_)) return std::nullopt;
    if (seam_.cuts.empty()) seam_.clamps = {-kInf, kInf};
    seam_.low.resize(seam_.fixed.size());
    seam_.high.resize(seam_.fixed.size());
    return std::move(seam_);
  }

  const Prepared::Impl& impl_;
  std::unordered_set<const Node*>& known_;  // producers that were found
  bool of_weights_;
  Seam seam_;
  std::map<const Node*, Channels> reached_;
  std::vector<std::pair<const Node*, bool>> open_;
  std::vector<const Node*> products_;  // of a value and another one
  std::vector<int64_t> same_as_;       // of each name, another one of the same factor or its inverse, or itself
  std::vector<bool> is_inverse_;       // of each name: its factor is the inverse of that of same_as_
  std::vector<bool> fixed_;
};

}  // namespace

std::vector<Seam> seams_of(const Prepared& prepared, bool of_weights) {
  const Prepared::Impl& impl = Prepared::Impl::of(prepared);
  std::vector<Seam> out;
  std::unordered_set<const Node*> known;
  for (const Node* node : impl.program.graph->nodes())
    if (known.count(node) == 0)
      if (auto seam = SeamSearch(impl, known, of_weights).from(*node)) out.push_back(std::move(*seam));
  return out;
}

}  // namespace qdq
