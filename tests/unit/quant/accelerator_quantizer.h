#include "quant/quantizers/pattern_quantizer.h"

// For an imaginary accelerator that computes a convolution, an addition and a ReLU at once.
inline qdq::PatternQuantizer accelerator_quantizer() {
  qdq::QuantizationConfig int8;
  int8.input_activation = int8.output_activation =
      qdq::default_activation_spec(qdq::DType::kS8, -128, 127, /*is_qat=*/false, /*is_dynamic=*/false);
  int8.weight = qdq::default_weight_spec(-127, 127, /*is_per_channel=*/true, /*is_qat=*/false);

  // The first pattern that fits has an operator, so the longer ones stand in front.
  qdq::PatternQuantizer quantizer(
      "AcceleratorQuantizer",
      {
          {.name = "conv_add_relu", .places = {{{"aten.conv2d"}, {"aten.add"}, {"aten.relu"}}}},
          {.name = "conv_relu", .places = {{{"aten.conv2d"}, {"aten.relu"}}}, .note = "nobody else reads the conv"},
          {.name = "conv", .places = {{{"aten.conv2d"}}}},
          {.name = "linear", .places = {{{"aten.linear"}}}, .modes = qdq::kStatic | qdq::kDynamic},
          {.name = "concat", .places = {{{"aten.cat"}}}, .output = qdq::Output::kLikeInput},
          {.name = "moves numbers", .places = {{{"aten.max_pool2d aten.flatten", qdq::Inputs::kHandedOn}}}},
      });
  quantizer.set_global(int8);
  return quantizer;
}
