#include "lower/rewrite_for_steps.h"

#include "lower/fold_constants.h"
#include "lower/join_operators.h"
#include "lower/signals_as_images.h"
#include "lower/volumes_as_images.h"
#include "op/recompose.h"
#include "op/widen_halves.h"

namespace qdq {

void rewrite_for_steps(Program& program, bool floats) {
  recompose(program);
  widen_quantized_halves(program);
  fold_written_constants(program);
  fold_quantized_constants(program);
  join_operators(program);
  make_images_of_signals(program, floats);
  make_images_of_volumes(program);
}

}  // namespace qdq
