#include "fuzz/onnx_mutations.h"

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
  tensor = tensor.clone();
  if (tensor.dtype() == DType::kS64 && tensor.numel() > 0)
    tensor.data<int64_t>()[random.below(static_cast<uint64_t>(tensor.numel()))] = extreme(random);
  else if (random.below(2) == 0) tensor = tensor.reshape({tensor.numel()});
  else tensor = tensor.to(DType::kS64);
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
  format::OnnxNode& node = any_of(out.nodes, random);
  format::OnnxNode& other = any_of(out.nodes, random);
  switch (random.below(8)) {
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
      if (!out.initializers.empty()) change_tensor(any_of(out.initializers, random).second, random);
      break;
    case 6:
      if (!out.inputs.empty() && out.inputs[0].dims && !out.inputs[0].dims->empty()) {
        format::OnnxDimension& size = any_of(*out.inputs[0].dims, random);
        if (random.below(2) == 0) size = {std::nullopt, "n"};
        else size.value = extreme(random);
      }
      break;
    case 7: std::swap(node, other); break;
  }
  return out;
}

}  // namespace qdq::fuzz
