// qdq: post-training quantization of exported PyTorch programs, the PT2E flow in C++. This header is all that a user includes.
//
//   auto prepared = qdq::prepare_pt2e(qdq::load_pt2(bytes), quantizer);
//   for (const auto& batch : calibration) prepared.run({batch});
//   auto quantized = qdq::convert_pt2e(prepared);
//   auto session = qdq::lower(quantized);
#pragma once

#include "base/error.h"                       // IWYU pragma: export
#include "base/parallel.h"                    // IWYU pragma: export
#include "exec/interpreter.h"                 // IWYU pragma: export
#include "format/image.h"                     // IWYU pragma: export
#include "format/npz.h"                       // IWYU pragma: export
#include "graph/program.h"                    // IWYU pragma: export
#include "graph/source_partition.h"           // IWYU pragma: export
#include "io/onnx.h"                          // IWYU pragma: export
#include "io/pattern.h"                       // IWYU pragma: export
#include "io/pt2.h"                           // IWYU pragma: export
#include "lower/lower.h"                      // IWYU pragma: export
#include "op/match.h"                         // IWYU pragma: export
#include "op/op.h"                            // IWYU pragma: export
#include "quant/annotation_quantizer.h"       // IWYU pragma: export
#include "quant/composable_quantizer.h"       // IWYU pragma: export
#include "quant/explain.h"                    // IWYU pragma: export
#include "quant/observer.h"                   // IWYU pragma: export
#include "quant/pt2e.h"                       // IWYU pragma: export
#include "quant/qat.h"                        // IWYU pragma: export
#include "quant/qconfig_mapping_quantizer.h"  // IWYU pragma: export
#include "quant/quantizer.h"                  // IWYU pragma: export
#include "quant/x86_inductor_quantizer.h"     // IWYU pragma: export
#include "quant/xnnpack_quantizer.h"          // IWYU pragma: export
#include "tensor/tensor.h"                    // IWYU pragma: export
#include "train/trainer.h"                    // IWYU pragma: export
