#include "fuzz/onnx_mutations.h"

#include <cmath>
#include <iterator>

namespace qdq::fuzz {
namespace {

constexpr int64_t kExtreme[] = {0, -1, 1, 2, 3, 7, 255, 1 << 20, INT64_MAX, INT64_MIN, -(int64_t{1} << 40)};

int64_t extreme(Random& random) { return kExtreme[random.below(std::size(kExtreme))]; }

template <class T> T& any_of(std::vector<T>& list, Random& random) { return list[random.below(list.size())]; }

void change_integers(std::vector<int64_t>& ints, Random& random) {
  if (ints.empty() || random.below(3) == 0) ints.push_back(extreme(random));
  else if (random.below(3) == 0) ints.pop_back();
  else any_of(ints, random) = extreme(random);
}

void change_tensor(Tensor& tensor, Random& random) {
  static constexpr float kFloats[] = {0, -1, 0.5f, 1e30f, -1e-30f, INFINITY, NAN};
  static constexpr DType kDTypes[] = {DType::kF32, DType::kF16, DType::kF64, DType::kS64,
                                      DType::kS32, DType::kS8,  DType::kU8,  DType::kBool};
  tensor = tensor.clone();
  const auto count = static_cast<uint64_t>(tensor.numel());
  const bool has_numbers = tensor.dtype() != DType::kString;
  switch (random.below(6)) {
    case 0:
    case 1:
      if (tensor.dtype() == DType::kS64 && count > 0) tensor.data<int64_t>()[random.below(count)] = extreme(random);
      if (tensor.dtype() == DType::kF32 && count > 0)
        tensor.data<float>()[random.below(count)] = kFloats[random.below(std::size(kFloats))];
      break;
    case 2: tensor = tensor.reshape({tensor.numel()}); break;
    case 3: tensor = tensor.unsqueeze(0); break;
    case 4:
      if (tensor.dim() > 0)
        tensor = tensor.slice(static_cast<int64_t>(random.below(tensor.sizes().size())), 0, 0).contiguous();
      break;
    case 5:
      if (has_numbers && !is_complex(tensor.dtype())) tensor = tensor.to(kDTypes[random.below(std::size(kDTypes))]);
      break;
  }
}

void change_attribute(format::OnnxAttribute& attribute, Random& random) {
  static constexpr float kFloats[] = {0, -1, 0.5f, 1e30f, 1e-30f, INFINITY, -INFINITY, NAN};
  static constexpr const char* kTexts[] = {"", "SAME_UPPER", "linear", "cubic", "reflect", "bidirectional", "mul", "a"};
  attribute.i = extreme(random);
  attribute.f = kFloats[random.below(std::size(kFloats))];
  if (attribute.t.defined()) change_tensor(attribute.t, random);
  if (attribute.kind == format::OnnxKind::kString) attribute.s = kTexts[random.below(std::size(kTexts))];
  if (!attribute.floats.empty()) any_of(attribute.floats, random) = attribute.f;
  if (!attribute.strings.empty()) any_of(attribute.strings, random) = kTexts[random.below(std::size(kTexts))];
}

void change_graph(format::OnnxGraph& graph, Random& random);

// The graph of an attribute, as that of If has.
void change_inner_graph(format::OnnxNode& node, Random& random) {
  for (format::OnnxAttribute& attribute : node.attributes) {
    if (attribute.graphs.empty() || random.below(2) == 0) continue;
    auto inner = std::make_shared<format::OnnxGraph>(*any_of(attribute.graphs, random));
    if (!inner->nodes.empty()) change_graph(*inner, random);
    attribute.graphs[0] = std::move(inner);
  }
}

void change_graph(format::OnnxGraph& graph, Random& random) {
  format::OnnxNode& node = any_of(graph.nodes, random);
  format::OnnxNode& other = any_of(graph.nodes, random);
  switch (random.below(14)) {
    case 0: node.op_type = other.op_type; break;
    case 1:
      if (!node.inputs.empty() && !other.inputs.empty()) any_of(node.inputs, random) = any_of(other.inputs, random);
      break;
    case 2:
      if (!node.inputs.empty())
        node.inputs.erase(node.inputs.begin() + static_cast<std::ptrdiff_t>(random.below(node.inputs.size())));
      break;
    case 3:
      if (!node.attributes.empty()) any_of(node.attributes, random).i = extreme(random);
      break;
    case 4:
      if (!node.attributes.empty()) change_integers(any_of(node.attributes, random).ints, random);
      break;
    case 5:
    case 6:
      if (!graph.initializers.empty()) change_tensor(any_of(graph.initializers, random).second, random);
      break;
    case 7:
      if (!graph.inputs.empty() && graph.inputs[0].dims && !graph.inputs[0].dims->empty()) {
        format::OnnxDimension& size = any_of(*graph.inputs[0].dims, random);
        if (random.below(2) == 0) size = {std::nullopt, "n"};
        else size.value = extreme(random);
      }
      break;
    case 8: std::swap(node, other); break;
    case 9:
      if (!node.attributes.empty()) change_attribute(any_of(node.attributes, random), random);
      break;
    case 10:
      if (!node.attributes.empty())
        node.attributes.erase(node.attributes.begin() +
                              static_cast<std::ptrdiff_t>(random.below(node.attributes.size())));
      break;
    case 11:
      if (!graph.inputs.empty()) {
        format::OnnxValueInfo& input = any_of(graph.inputs, random);
        if (random.below(2) == 0) input.dims.reset();
        else input.dtype = random.below(2) == 0 ? DType::kS64 : DType::kF16;
      }
      break;
    case 12:
      // An initializer that a run gives.
      if (!graph.initializers.empty()) {
        const auto& [name, tensor] = any_of(graph.initializers, random);
        graph.inputs.push_back({name, tensor.dtype(), std::nullopt});
        std::erase_if(graph.initializers, [&](const auto& each) { return each.first == graph.inputs.back().name; });
      }
      break;
    case 13: change_inner_graph(node, random); break;
  }
}

}  // namespace

format::Bytes with_other_bytes(format::Bytes model, Random& random) {
  for (uint64_t changes = 1 + random.below(4); changes > 0; --changes)
    any_of(model, random) = static_cast<std::byte>(random.below(256));
  if (random.below(5) == 0) model.resize(random.below(model.size()));
  return model;
}

format::OnnxFile with_other_graph(const format::OnnxFile& model, Random& random) {
  format::OnnxFile out = model;
  constexpr int64_t kFirstOpset = 6;
  if (random.below(16) == 0 && !out.opsets.empty())
    any_of(out.opsets, random).second = kFirstOpset + static_cast<int64_t>(random.below(20));
  else change_graph(out, random);
  return out;
}

}  // namespace qdq::fuzz
