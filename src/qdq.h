// qdq quantizes programs that PyTorch exported, and ONNX models, to integers by PyTorch's PT2E flow (or its FX graph
// mode), trains them to live with the rounding, and runs what came out. This header is all that a user includes.
//
//   qdq::Model model = qdq::load_model("model.pt2");
//   const std::unique_ptr<qdq::Quantizer> quantizer = qdq::load_recipe("recipe.json");
//   qdq::Prepared prepared = qdq::prepare_pt2e(std::move(model.program), *quantizer);
//   for (const std::vector<qdq::Tensor>& batch : batches) prepared.run(batch);
//   const qdq::Program quantized = qdq::convert_pt2e(prepared);
//   qdq::Session session = qdq::lower(quantized);
//   const std::vector<qdq::Tensor> outputs = session.run(inputs);
//
// Errors are qdq::Error, or std::bad_alloc where the system has no memory left. Objects may move between threads, but
// one is not to be used by two at once. What runs, runs on num_threads() threads, and gives the same bytes on any
// number of them.
#pragma once

// QDQ_VERSION; Error; set_num_threads; set_memory_limit.
#include "base/error.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/version.h"

// Program, Graph, Tensor; load_model, load_pt2, load_onnx and their counterparts; samples and labels from files;
// register_operator for what qdq does not have.
#include "data/data.h"
#include "io/model.h"
#include "op/custom.h"

// What is quantized and how: quantizers, recipes that name them, specs, observers, patterns, explain().
#include "quant/explain.h"
#include "quant/quantizers/quantizers.h"
#include "profile/runtime_verdicts.h"
#include "recipe/recipe.h"

// prepare_pt2e, prepare_qat_pt2e, Trainer, recover, convert_pt2e; for calibrations in parts state_of, merge_states and
// load_state, and observe_layers and recover_by_statistics.
#include "recover/recovery.h"
#include "recover/sensitivity.h"
#include "recover/statistics.h"
#include "state/calibration_state.h"
#include "state/state_file.h"
#include "train/trainer.h"

// lower, Session, step backends of one's own; evaluation and comparison beside the float model, layer by layer; reports
// of all that happened.
#include "lower/lower.h"
#include "lower/step_backend.h"
#include "quant/numeric_debug.h"
#include "report/reports.h"
