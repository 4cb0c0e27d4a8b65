// Fuzz target of ONNX models that are run: what loads runs, or says why not, on inputs of the sizes that it asks for.
#include "base/memory.h"
#include "exec/interpreter.h"
#include "fuzz/fuzz.h"
#include "io/onnx.h"
#include "lower/lower.h"

namespace {

constexpr int64_t kLargestInput = 1 << 16;  // elements; more of them find nothing that fewer do not

// Small numbers that repeat, so that they are indices and booleans too. Open sizes are 2.
std::vector<qdq::Tensor> inputs_of(const qdq::Program& program) {
  std::vector<qdq::Tensor> out;
  for (const qdq::Node* node : program.graph->nodes()) {
    if (node->op() != qdq::Node::Op::kPlaceholder) continue;
    const qdq::TensorMeta* meta = node->meta.val.tensor();
    QDQ_CHECK(meta, kUnsupported, "an input is no tensor");
    qdq::Shape sizes;
    for (const qdq::SymInt& size : meta->sizes) sizes.push_back(size.constant().value_or(2));
    QDQ_CHECK(qdq::numel_of(sizes) <= kLargestInput, kUnsupported, "an input is too large");
    qdq::Tensor numbers = qdq::Tensor::empty(sizes, qdq::DType::kF32);
    const auto values = numbers.span<float>();
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7) - 2;
    out.push_back(numbers.to(meta->dtype));
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  qdq::set_memory_limit(qdq::MemoryLimit(64 << 20, "that the fuzzing allows"));
  qdq::fuzz::refusable([&] {
    const qdq::Program program = qdq::load_onnx(qdq::fuzz::input(data, size));
    qdq::verify_program(program);
    const std::vector<qdq::Tensor> inputs = inputs_of(program);
    qdq::fuzz::refusable([&] { qdq::Interpreter(program, {}).run(inputs); });
    qdq::fuzz::refusable([&] { qdq::lower(program).run(inputs); });
    qdq::fuzz::refusable([&] { qdq::load_onnx(qdq::save_onnx(program)); });
  });
  return 0;
}
