// Every quantizer that qdq has.
#pragma once

#include "quant/fx/fuse_fx.h"
#include "quant/fx/qconfig_mapping_quantizer.h"
#include "quant/quantizers/annotation_quantizer.h"
#include "quant/quantizers/composable_quantizer.h"
#include "quant/quantizers/mergeable_quantizer.h"
#include "quant/quantizers/pattern_quantizer.h"
#include "quant/quantizers/x86_inductor_quantizer.h"
#include "quant/quantizers/xnnpack_quantizer.h"
