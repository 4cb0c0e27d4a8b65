#include "lower/decoder.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "kernel/math.h"
#include "lower/mutable_buffers.h"
#include "op/facts.h"

namespace qdq {
namespace {

bool has_word(std::string_view name, std::string_view word) { return name.find(word) != std::string_view::npos; }

bool is_index(DType dtype) { return dtype == DType::kS64 || dtype == DType::kS32; }

// A name in the letters that names of nodes have.
std::string as_node_name(std::string name) {
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

// "past_key_values_0_key" and "past_0_key" are continued by "present_0_key".
std::string present_of(const std::string& past) {
  for (const std::string_view begin : {"past_key_values", "past_key_value", "past"}) {
    const size_t at = past.find(begin);
    if (at != std::string::npos) return past.substr(0, at) + "present" + past.substr(at + begin.size());
  }
  return {};
}

enum class Role { kTokens, kPlaces, kMask, kPast, kCacheBranch };

struct Input {
  std::string name;
  Role role;
  DType dtype;
  SymShape sizes;
  size_t present = 0;  // of kPast: the output that continues it
};

// The axis of a buffer along which the operator writes its slices; nothing for other operators.
std::optional<int64_t> written_axis(const Node& node) {
  const std::string_view name = base_name(node.target());
  if (name == "index_copy" || name == "index_copy_") return node.arg(1).integer();
  if (name == "slice_scatter") return node.arg(2).integer().value_or(0);
  if ((name != "index_put" && name != "index_put_") || !node.arg(1).is_list()) return std::nullopt;
  const Argument::List& indices = node.arg(1).list();
  for (size_t axis = 0; axis < indices.size(); ++axis)
    if (!indices[axis].is_none()) return static_cast<int64_t>(axis);
  return std::nullopt;
}

std::optional<int64_t> capacity_of(Program program) {
  make_functional(program);
  std::optional<int64_t> least;
  for (const BufferMutation& mutation : program.buffer_mutations) {
    const Node* node = program.graph->find(mutation.node);
    const Attribute* buffer = program.find_attribute(mutation.buffer);
    const std::optional<int64_t> axis = node == nullptr ? std::nullopt : written_axis(*node);
    if (!axis || buffer == nullptr) continue;
    const int64_t rank = buffer->tensor.dim(), at = *axis < 0 ? *axis + rank : *axis;
    if (at < 0 || at >= rank) continue;
    least = std::min(least.value_or(INT64_MAX), buffer->tensor.size(at));
  }
  return least;
}

// The numbers of SplitMix64 (Steele, Lea and Flood, 2014), as doubles from 0 up to 1.
double chance(uint64_t& state) {
  uint64_t z = state += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

int64_t largest_of(std::span<const float> logits) {
  size_t best = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    QDQ_CHECK(!std::isnan(logits[i]), kInvalidArgument, "the decoder's logit of token ", i,
              " is NaN: no token follows");
    if (logits[i] > logits[best]) best = i;
  }
  return static_cast<int64_t>(best);
}

int64_t sampled(std::span<const float> logits, const Sampling& sampling, uint64_t& state) {
  const float most = logits[static_cast<size_t>(largest_of(logits))];
  std::vector<int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto is_before = [&](int64_t a, int64_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  if (sampling.top_k > 0 && sampling.top_k < static_cast<int64_t>(order.size())) {
    std::partial_sort(order.begin(), order.begin() + sampling.top_k, order.end(), is_before);
    order.resize(static_cast<size_t>(sampling.top_k));
  }
  std::vector<float> weights(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    weights[i] = (logits[static_cast<size_t>(order[i])] - most) / static_cast<float>(sampling.temperature);
  kernel::exp_f32(weights.data(), static_cast<int64_t>(weights.size()), weights.data());
  double total = 0, sum = 0;
  for (const float weight : weights) total += static_cast<double>(weight);
  const double wanted = chance(state) * total;
  for (size_t i = 0; i < order.size(); ++i) {
    sum += static_cast<double>(weights[i]);
    if (sum > wanted) return order[i];
  }
  return order.back();
}

}  // namespace

struct Decoder::Impl {
  Session session;
  std::optional<int64_t> capacity;
  std::vector<Input> inputs;
  size_t logits = 0;  // which output
  std::optional<int64_t> tokens_per_run, vocabulary;

  Sampling sampling;
  uint64_t chances = 0;
  std::vector<Tensor> past;      // by input; undefined for all but kPast
  std::vector<int64_t> waiting;  // tokens that did not run yet
  int64_t place = 0, left = 0;   // tokens that ran; tokens that may follow
  bool is_started = false;

  void find_inputs(const Program& program);
  void find_outputs(const Program& program);
  Tensor input_for(const Input& input, size_t at, std::span<const int64_t> tokens) const;
  Tensor empty_past(const Input& input) const;
  Tensor run(std::span<const int64_t> tokens);
  Tensor run_waiting();
};

void Decoder::Impl::find_inputs(const Program& program) {
  std::vector<Node*> nodes = program.graph->placeholders();
  const Node* tokens = nullptr;
  for (const std::string_view word : {"input_ids", "tokens", "ids", ""})
    for (const Node* node : nodes) {
      const TensorMeta* meta = node->meta.val.tensor();
      const bool fits = tokens == nullptr && meta != nullptr && is_index(meta->dtype) && has_word(node->name(), word) &&
                        !has_word(node->name(), "pos") && !has_word(node->name(), "mask");
      if (fits && (meta->sizes.size() == 1 || meta->sizes.size() == 2)) tokens = node;
    }
  QDQ_CHECK(tokens != nullptr, kUnsupported,
            "the model takes no token ids: an input of integers [1, T] or [T], best called input_ids");
  for (const Node* node : nodes) {
    const TensorMeta* meta = node->meta.val.tensor();
    const std::string& name = node->name();
    std::optional<Role> role;
    if (node == tokens) role = Role::kTokens;
    else if (meta == nullptr) role = std::nullopt;
    else if (is_floating(meta->dtype) && has_word(name, "past") && meta->sizes.size() == 4) role = Role::kPast;
    else if (meta->dtype == DType::kBool && has_word(name, "use_cache")) role = Role::kCacheBranch;
    else if (is_index(meta->dtype) && has_word(name, "pos") && !meta->sizes.empty() && meta->sizes.size() <= 2)
      role = Role::kPlaces;
    else if ((is_index(meta->dtype) || meta->dtype == DType::kBool) && has_word(name, "mask") &&
             meta->sizes.size() == 2)
      role = Role::kMask;
    QDQ_CHECK(role.has_value(), kUnsupported, "the input '", name,
              "' is not one that generation knows: token ids, places (position), a mask [1, T] of integers or bools, "
              "past keys and values of four axes, or use_cache_branch");
    inputs.push_back({name, *role, meta->dtype, meta->sizes});
  }
  const Input& ids =
      *std::find_if(inputs.begin(), inputs.end(), [](const Input& one) { return one.role == Role::kTokens; });
  tokens_per_run = ids.sizes.back().constant();
  QDQ_CHECK(!tokens_per_run || *tokens_per_run == 1, kUnsupported, "the input '", ids.name, "' takes ", *tokens_per_run,
            " tokens a run; export the model with an open number of tokens, or with one");
}

void Decoder::Impl::find_outputs(const Program& program) {
  const Argument::List& results = program.graph->output_node()->arg(0).list();
  const auto name_of = [&](size_t i) {
    return i < program.output_names.size() ? program.output_names[i] : std::string();
  };
  std::optional<size_t> found;
  std::vector<size_t> caches;  // the outputs of four axes
  for (size_t i = results.size(); i-- > 0;) {
    const TensorMeta* meta = results[i].node() == nullptr ? nullptr : results[i].node()->meta.val.tensor();
    if (meta == nullptr || !is_floating(meta->dtype) || has_word(name_of(i), "present") || meta->sizes.empty())
      continue;
    if (meta->sizes.size() == 4) caches.insert(caches.begin(), i);
    else if (!found || name_of(*found) != "logits") found = i;
  }
  QDQ_CHECK(found.has_value(), kUnsupported, "the model gives no logits: an output of floats [1, T, V], [T, V] or [V]");
  logits = *found;
  vocabulary = results[logits].node()->meta.val.tensor()->sizes.back().constant();
  const bool goes_by_order = program.output_names.empty();
  size_t next = 0;
  for (Input& input : inputs) {
    if (input.role != Role::kPast) continue;
    if (goes_by_order && next < caches.size()) {
      input.present = caches[next++];
      continue;
    }
    const std::string present = present_of(input.name);
    const auto at = std::find_if(program.output_names.begin(), program.output_names.end(),
                                 [&](const std::string& name) { return as_node_name(name) == present; });
    QDQ_CHECK(at != program.output_names.end(), kUnsupported, "the input '", input.name,
              "' is a past, and the model has no output '", present, "' that continues it");
    input.present = static_cast<size_t>(at - program.output_names.begin());
  }
  QDQ_CHECK(!goes_by_order || next == 0 || next == caches.size(), kUnsupported, "the model takes ", next,
            " past keys and values, and gives ", caches.size(), " outputs of four axes to continue them");
}

Tensor Decoder::Impl::empty_past(const Input& input) const {
  Shape sizes;
  for (size_t axis = 0; axis < input.sizes.size(); ++axis)
    sizes.push_back(input.sizes[axis].constant().value_or(axis == 0 ? 1 : 0));
  return Tensor::full(sizes, input.dtype, 0);
}

Tensor Decoder::Impl::input_for(const Input& input, size_t at, std::span<const int64_t> tokens) const {
  const auto integers = [&](std::vector<int64_t> numbers) {
    const auto count = static_cast<int64_t>(numbers.size());
    const Shape shape = input.sizes.size() == 1 ? Shape{count} : Shape{1, count};
    const Tensor tensor = Tensor::of<int64_t>(shape, numbers);
    return input.dtype == DType::kS64 ? tensor : tensor.to(input.dtype);
  };
  switch (input.role) {
    case Role::kTokens: return integers({tokens.begin(), tokens.end()});
    case Role::kPlaces: {
      const bool is_first_alone = !tokens_per_run && input.sizes.back().constant() == 1;
      std::vector<int64_t> places(is_first_alone ? 1 : tokens.size());
      std::iota(places.begin(), places.end(), place);
      return integers(std::move(places));
    }
    case Role::kMask: {
      const int64_t all = place + static_cast<int64_t>(tokens.size());
      const std::optional<int64_t> fixed = input.sizes.back().constant();
      QDQ_CHECK(!fixed || *fixed >= all, kInvalidArgument, "the mask '", input.name, "' has ", *fixed, " places, and ",
                all, " tokens are to run");
      std::vector<int64_t> ones(static_cast<size_t>(fixed.value_or(all)), 0);
      std::fill_n(ones.begin(), all, 1);
      return integers(std::move(ones));
    }
    case Role::kPast: return past[at];
    case Role::kCacheBranch: return Tensor::full(Shape(input.sizes.size(), 1), DType::kBool, place > 0 ? 1 : 0);
  }
  return {};
}

// Runs tokens; the logits of the last one, [V].
Tensor Decoder::Impl::run(std::span<const int64_t> tokens) {
  std::vector<Tensor> given;
  for (size_t i = 0; i < inputs.size(); ++i) given.push_back(input_for(inputs[i], i, tokens));
  const std::vector<Tensor> outputs = session.run(given);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].role == Role::kPast) past[i] = outputs.at(inputs[i].present);
  place += static_cast<int64_t>(tokens.size());
  const Tensor all = outputs.at(logits).to(DType::kF32).contiguous();
  const int64_t width = all.size(-1), rows = width == 0 ? 0 : all.numel() / width;
  QDQ_CHECK(rows > 0, kInvalidArgument, "the decoder gave logits of shape ", to_string(all.sizes()));
  return all.reshape({rows, width}).slice(0, rows - 1, rows).reshape({width});
}

Tensor Decoder::Impl::run_waiting() {
  const std::vector<int64_t> tokens = std::exchange(waiting, {});
  if (!tokens_per_run) return run(tokens);
  Tensor last;
  for (const int64_t& token : tokens) last = run({&token, 1});
  return last;
}

Decoder::Decoder(const Program& program, const LowerOptions& options)
    : impl_(std::make_unique<Impl>(
          Impl{lower(program, options), capacity_of(program.clone()), {}, 0, {}, {}, {}, 0, {}, {}, 0, 0, false})) {
  impl_->find_inputs(program);
  impl_->find_outputs(program);
}

Decoder::~Decoder() = default;
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder& Decoder::operator=(Decoder&&) noexcept = default;

std::optional<int64_t> Decoder::capacity() const { return impl_->capacity; }
const Session& Decoder::session() const { return impl_->session; }

void Decoder::start(std::span<const int64_t> prompt, int64_t most, const Sampling& sampling) {
  Impl& impl = *impl_;
  QDQ_CHECK(!prompt.empty(), kInvalidArgument, "the prompt is empty: give it at least one token id");
  for (const int64_t token : prompt)
    QDQ_CHECK(token >= 0 && (!impl.vocabulary || token < *impl.vocabulary), kInvalidArgument, "the prompt's id ", token,
              " is not a token of the decoder",
              impl.vocabulary ? concat("; it has those from 0 to ", *impl.vocabulary - 1) : std::string());
  QDQ_CHECK(most >= 1, kInvalidArgument, "generation needs at least one new token, found ", most);
  QDQ_CHECK(sampling.temperature >= 0 && std::isfinite(sampling.temperature), kInvalidArgument,
            "the temperature must be 0 or more, found ", sampling.temperature);
  QDQ_CHECK(sampling.top_k >= 0, kInvalidArgument, "top_k must be 0 or more, found ", sampling.top_k);
  QDQ_CHECK(sampling.temperature > 0 || (sampling.top_k == 0 && sampling.seed == 0), kInvalidArgument,
            "top_k and seed choose by chance, and temperature 0 always takes the largest logit; give a temperature");
  const auto length = static_cast<int64_t>(prompt.size());
  QDQ_CHECK(!impl.capacity || most <= *impl.capacity - length + 1, kInvalidArgument, "a prompt of ", length,
            " tokens and ", most, " new ones do not fit into the decoder's cache of ", *impl.capacity, " places",
            length <= *impl.capacity ? concat("; ask for at most ", *impl.capacity - length + 1) : std::string());
  impl.is_started = false;
  impl.session.reset();
  impl.past.assign(impl.inputs.size(), {});
  for (size_t i = 0; i < impl.inputs.size(); ++i)
    if (impl.inputs[i].role == Role::kPast) impl.past[i] = impl.empty_past(impl.inputs[i]);
  impl.waiting.assign(prompt.begin(), prompt.end());
  impl.place = 0;
  impl.left = most;
  impl.sampling = sampling;
  impl.chances = sampling.seed;
  impl.is_started = true;
}

int64_t Decoder::next() {
  Impl& impl = *impl_;
  QDQ_CHECK(impl.is_started && impl.left > 0, kInvalidArgument,
            impl.is_started ? "all tokens that were asked for have been made" : "no prompt was given", "; start again");
  impl.is_started = false;  // if this run fails, its state is that of no prompt
  const Tensor logits = impl.run_waiting();
  impl.is_started = true;
  const std::span<const float> row = logits.span<float>();
  const int64_t token = impl.sampling.temperature > 0 ? sampled(row, impl.sampling, impl.chances) : largest_of(row);
  impl.waiting = {token};
  --impl.left;
  return token;
}

}  // namespace qdq
