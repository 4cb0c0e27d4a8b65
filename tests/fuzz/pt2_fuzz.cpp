// Fuzz target of exported programs: what loads is well-formed, and can be saved or says why not; what was saved loads.
#include "io/pt2.h"

#include "fuzz/fuzz.h"

QDQ_FUZZ_TARGET(pt2)(const uint8_t* data, size_t size) {
  qdq::fuzz::refusable([&] {
    const qdq::Program program = qdq::load_pt2(qdq::fuzz::input(data, size));
    std::vector<std::byte> saved;
    try {
      qdq::verify_program(program);
      saved = qdq::save_pt2(program);
    } catch (const qdq::Error& error) {
      if (error.code == qdq::ErrorCode::kUnsupported) throw;
      throw qdq::Error(qdq::ErrorCode::kInternal, "load_pt2 made a program that is not well-formed: " + error.message);
    }
    try {
      qdq::load_pt2(saved);
    } catch (const qdq::Error& error) {
      throw qdq::Error(qdq::ErrorCode::kInternal, "a saved program does not load: " + error.message);
    }
  });
  return 0;
}
