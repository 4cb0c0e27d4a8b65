// Every report that qdq writes, and what outputs are worth.
#pragma once

#include "report/evaluation.h"
#include "report/explanation_report.h"
#include "report/graph_report.h"
#include "report/layer_comparison.h"
#include "report/lowered_graph.h"
#include "report/metrics.h"
#include "report/observers_report.h"
#include "report/quantization_report.h"
#include "report/sensitivity_report.h"
