// The operators that few networks have. A file of its own, in whose place `qdq/run` links bindings/run_ops.cpp.
#include "op/families.h"

namespace qdq {

void add_rare_ops(std::vector<OpDef>& ops) {
  add_bag_ops(ops);
  add_complex_ops(ops);
  add_composed_ops(ops);
  add_cummax_ops(ops);
  add_fourier_ops(ops);
  add_frame_ops(ops);
  add_onnx_ops(ops);
  add_onnx_attention_ops(ops);
  add_onnx_recurrent_ops(ops);
  add_onnx_sequence_ops(ops);
  add_rearranging_ops(ops);
  add_sample_ops(ops);
  add_search_ops(ops);
  add_square_matrix_ops(ops);
  add_string_ops(ops);
  add_torchvision_ops(ops);
  add_complex_forms(ops);
}

}  // namespace qdq
