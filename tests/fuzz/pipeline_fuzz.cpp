// Fuzz target of everything behind a model: open, infer, prepare, calibrate on one batch, convert, lower, run,
// save, and read again, after which the program runs to the same bits. The input's size chooses the quantizer.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/memory.h"
#include "fuzz/fuzz.h"
#include "fuzz/small_program.h"
#include "io/model.h"
#include "io/onnx.h"
#include "io/pt2.h"
#include "lower/lower.h"
#include "quant/pt2e.h"
#include "quant/quantizers/x86_inductor_quantizer.h"
#include "quant/quantizers/xnnpack_quantizer.h"

namespace {

using namespace qdq;

Program quantized(const Program& program, Quantizer& quantizer, const std::vector<Tensor>& inputs) {
  Prepared prepared = prepare_pt2e(program.clone(), quantizer);
  prepared.run(inputs);
  Program converted = convert_pt2e(prepared);
  verify_program(converted);
  return converted;
}

// Which NaN a number is, the JSON of a .pt2 does not tell.
Tensor with_one_nan(const Tensor& tensor) {
  if (!is_floating(tensor.dtype())) return tensor.contiguous();
  Tensor out = tensor.to(DType::kF64).contiguous().clone();
  std::replace_if(
      out.data<double>(), out.data<double>() + out.numel(), [](double number) { return std::isnan(number); },
      std::numeric_limits<double>::quiet_NaN());
  return out;
}

void run_and_save(const Program& program, const std::vector<Tensor>& inputs) {
  const LowerOptions portable{{"simd"}};
  const std::vector<Tensor> outputs = lower(program, portable).run(inputs);
  fuzz::refusable([&] { lower(program).run(inputs); });
  const Program again = load_pt2(save_pt2(program));
  const std::vector<Tensor> same = lower(again, portable).run(inputs);
  QDQ_CHECK(outputs.size() == same.size(), kInternal, "a program that was saved has another number of outputs");
  for (size_t i = 0; i < outputs.size(); ++i)
    QDQ_CHECK(outputs[i].dtype() == same[i].dtype() && bitwise_equal(with_one_nan(outputs[i]), with_one_nan(same[i])),
              kInternal, "output ", i, " of a program that was saved differs");
  fuzz::refusable([&] { load_onnx(save_onnx(program)); });
}

}  // namespace

QDQ_FUZZ_TARGET(pipeline)(const uint8_t* data, size_t size) {
  set_memory_limit(MemoryLimit(64 << 20, "that the fuzzing allows"));
  fuzz::refusable([&] {
    const Program program = load_program(fuzz::input(data, size));
    verify_program(program);
    const std::vector<Tensor> inputs = fuzz::inputs_of(program);
    // One quantizer a run, so that twice as many models run.
    if (size % 2 == 0) {
      X86InductorQuantizer quantizer;
      quantizer.set_global(get_default_x86_inductor_quantization_config());
      run_and_save(quantized(program, quantizer, inputs), inputs);
    } else {
      XNNPACKQuantizer quantizer;
      quantizer.set_global(get_symmetric_quantization_config({.is_per_channel = size % 4 == 1}));
      run_and_save(quantized(program, quantizer, inputs), inputs);
    }
  });
  return 0;
}
