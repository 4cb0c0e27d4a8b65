// Fuzz target of ONNX models: what loads is well-formed, and can be saved or says why not.
#include "io/onnx.h"

#include "fuzz/fuzz.h"
#include "io/pt2.h"

QDQ_FUZZ_TARGET(onnx)(const uint8_t* data, size_t size) {
  qdq::fuzz::refusable([&] {
    const qdq::Program program = qdq::load_onnx(qdq::fuzz::input(data, size));
    qdq::verify_program(program);
    qdq::save_pt2(program);
    qdq::load_onnx(qdq::save_onnx(program));
  });
  return 0;
}
