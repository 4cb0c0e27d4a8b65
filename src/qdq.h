// The public header of the library: everything that a program which quantizes or runs models needs.
#pragma once

#include "base/error.h"
#include "base/parallel.h"
#include "exec/interpreter.h"
#include "graph/program.h"
#include "io/pt2.h"
#include "lower/lower.h"
#include "op/op.h"
#include "quant/annotation_quantizer.h"
#include "quant/composable_quantizer.h"
#include "quant/observer.h"
#include "quant/pt2e.h"
#include "quant/quantizer.h"
#include "quant/x86_inductor_quantizer.h"
#include "quant/xnnpack_quantizer.h"
#include "tensor/tensor.h"
