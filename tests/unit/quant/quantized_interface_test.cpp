// Programs that take and give integers.
#include "quant/quantized_interface.h"

#include <gtest/gtest.h>

#include "exec/interpreter.h"
#include "program_builder.h"
#include "quant/fx/qconfig_mapping_quantizer.h"
#include "quant/pt2e.h"

namespace qdq::quantized_interface_test {
namespace {

// x -> fc -> (its result, the sum of it)
Program converted(const PrepareCustomConfig& custom) {
  ProgramBuilder b;
  Node* weight = b.weight("fc.weight", {4, 4});
  Node* x = b.input("x", {2, 4});
  Node* fc = b.call("linear.default", {x, weight}, "fc", "torch.nn.modules.linear.Linear");
  Node* sum = b.call("sum.default", {fc});
  QConfigMappingQuantizer quantizer(QConfigMapping().set_global(named_qconfig("default_qconfig")));
  quantizer.set_prepare_custom_config(custom);
  Prepared prepared = prepare_pt2e(b.finish({fc, sum}), quantizer);
  prepared.run({sample({2, 4}, 1)});
  return convert_pt2e(prepared);
}

TEST(QuantizedInterface, TakesAndGivesIntegers) {
  PrepareCustomConfig custom;
  custom.input_quantized_indexes = custom.output_quantized_indexes = {0};
  const Program program = converted(custom);
  const Node* input = program.graph->placeholders()[0];
  EXPECT_EQ(input->meta.val.tensor()->dtype, DType::kU8);
  ASSERT_TRUE(input->users()[0]->is("torch.ops.quantized_decomposed.dequantize_per_tensor.default"));
  const Tensor integers = Tensor::of<uint8_t>({2, 4}, {0, 1, 2, 3, 100, 101, 102, 127});
  const std::vector<Tensor> outputs = Interpreter(program, {}).run({{integers}});
  EXPECT_EQ(outputs[0].dtype(), DType::kU8);
  EXPECT_EQ(outputs[1].dtype(), DType::kF32);

  // The same numbers as the program in float, given what the integers stand for.
  const Node& dequantize = *input->users()[0];
  Tensor reals = Tensor::empty({2, 4}, DType::kF32);
  for (size_t i = 0; i < 8; ++i)
    reals.span<float>()[i] =
        (static_cast<float>(integers.span<uint8_t>()[i]) - static_cast<float>(dequantize.arg(2).integer().value())) *
        static_cast<float>(dequantize.arg(1).number().value());
  const std::vector<Tensor> wanted = Interpreter(converted({}), {}).run({{reals}});
  EXPECT_TRUE(bitwise_equal(outputs[1], wanted[1]));
}

TEST(QuantizedInterface, RefusesWhatIsNotQuantized) {
  PrepareCustomConfig custom;
  custom.output_quantized_indexes = {1};
  EXPECT_THROW(converted(custom), Error);  // the sum
  custom.output_quantized_indexes = {2};
  EXPECT_THROW(converted(custom), Error);
  custom.output_quantized_indexes = {};
  custom.input_quantized_indexes = {1};
  EXPECT_THROW(converted(custom), Error);
}

}  // namespace
}  // namespace qdq::quantized_interface_test
