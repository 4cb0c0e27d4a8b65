// Fuzz target of what --observers writes and --calibrate reads: statistics of a small program, which is converted by
// them.
#include "base/memory.h"
#include "format/json.h"
#include "fuzz/fuzz.h"
#include "fuzz/small_program.h"
#include "quant/pt2e.h"
#include "quant/quantizers/xnnpack_quantizer.h"
#include "report/observers_report.h"

QDQ_FUZZ_TARGET(statistics)(const uint8_t* data, size_t size) {
  using namespace qdq;
  static const Program program = fuzz::small_program();
  set_memory_limit(MemoryLimit(256 << 20, "that the fuzzing allows"));
  fuzz::refusable([&] {
    const format::Json json = format::parse_json(format::text_of(fuzz::input(data, size)), "the statistics");
    XNNPACKQuantizer quantizer;
    quantizer.set_global(get_symmetric_quantization_config());
    // As many bins as a small file tells of.
    const std::vector<std::pair<std::string, AttributeValue>> bins = {{"bins", int64_t{8}}};
    quantizer.set_observer_overrides({{{"x", "conv2d"}, bins}, {{"relu", ""}, bins}, {{"linear", ""}, bins}});
    Prepared prepared = prepare_pt2e(program.clone(), quantizer);
    load_observers(prepared, json, "the statistics");
    verify_program(convert_pt2e(prepared));
    format::print_json(observers_report(prepared));
  });
  return 0;
}
