// How libFuzzer changes ONNX models: a byte now and then, else one thing that a graph is made of.
#include <cstring>

#include "fuzz/onnx_mutations.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  using namespace qdq;
  Random random(seed);
  if (random.below(4) == 0) return LLVMFuzzerMutate(data, size, max_size);
  try {
    format::OnnxFile file = format::read_onnx_file(std::as_bytes(std::span(data, size)));
    for (uint64_t changes = 1 + random.below(3); changes > 0 && !file.nodes.empty(); --changes)
      file = fuzz::with_other_graph(file, random);
    const format::Bytes bytes = format::write_onnx_file(file);
    if (bytes.empty() || bytes.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
    std::memcpy(data, bytes.data(), bytes.size());
    return bytes.size();
  } catch (const Error&) {  // what is not read has no graph to change
    return LLVMFuzzerMutate(data, size, max_size);
  }
}
