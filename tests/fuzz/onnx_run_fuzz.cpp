// Fuzz target of models that are run: what loads runs, or says why not, on inputs of the sizes that it asks for.
#include "base/memory.h"
#include "exec/interpreter.h"
#include "fuzz/fuzz.h"
#include "fuzz/small_program.h"
#include "io/model.h"
#include "io/onnx.h"
#include "lower/lower.h"

QDQ_FUZZ_TARGET(onnx_run)(const uint8_t* data, size_t size) {
  qdq::set_memory_limit(qdq::MemoryLimit(64 << 20, "that the fuzzing allows"));
  qdq::fuzz::refusable([&] {
    const qdq::Program program = qdq::load_program(qdq::fuzz::input(data, size));
    qdq::verify_program(program);
    const std::vector<qdq::Tensor> inputs = qdq::fuzz::inputs_of(program);
    qdq::fuzz::refusable([&] { qdq::Interpreter(program, {}).run(inputs); });
    qdq::fuzz::refusable([&] { qdq::lower(program).run(inputs); });
    qdq::fuzz::refusable([&] { qdq::load_onnx(qdq::save_onnx(program)); });
  });
  return 0;
}
