#!/usr/bin/env python3
"""Writes tests/golden/suite: small networks, and what PyTorch 2.6's Numeric Suite and numeric
debugger say of their quantized layers.

  python3 make_suite.py      in this folder, in a Python with PyTorch 2.6

NAME.pt2 is the exported float model. suite.json has the inputs and
  weights    layer -> SQNR of its weights (torch.ao.ns._numeric_suite_fx.extract_weights, compute_sqnr)
  outputs    debug handle -> SQNR and mean squared error of what is there (compare_results of _numeric_debugger), of
             operators that make floats out of floats
  shadows    layer -> SQNR and mean squared error of the layer alone, between floats (prepare_n_shadows_model).
             PyTorch's own comparison there has the shadow's signal over the noise; this has the float layer's, as its
             comparison of weights does, and qdq's of layers.

A mean of integers with an even number of them lies halfway between two every now and then, and float noise decides
where to it is rounded; the means here are of 49.
"""

import copy
import json
import pathlib
import warnings

import torch
from torch import nn
from torch.ao.ns import _numeric_suite_fx as ns
from torch.ao.ns.fx.qconfig_multi_mapping import QConfigMultiMapping
from torch.ao.ns.fx.utils import compute_sqnr
from torch.ao.quantization import QConfig, QConfigMapping
from torch.ao.quantization.backend_config import get_native_backend_config
from torch.ao.quantization.observer import MinMaxObserver, PerChannelMinMaxObserver
from torch.ao.quantization.pt2e._numeric_debugger import (
    compare_results,
    extract_results_from_loggers,
    generate_numeric_debug_handle,
    prepare_for_propagation_comparison,
)
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx
from torch.ao.quantization.quantize_pt2e import convert_pt2e, prepare_pt2e
from torch.ao.quantization.quantizer import xnnpack_quantizer as xnnpack

from pt2_layout import save_without_traces

warnings.simplefilter("ignore")
OUT = pathlib.Path(__file__).parent / "suite"
torch.set_num_threads(1)
torch.backends.quantized.engine = "onednn"

QCONFIG = QConfig(
    activation=MinMaxObserver.with_args(dtype=torch.quint8),
    weight=PerChannelMinMaxObserver.with_args(dtype=torch.qint8, qscheme=torch.per_channel_symmetric),
)


class Dense(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(6, 16), nn.Linear(16, 12), nn.Linear(12, 5)

    def forward(self, x):
        return self.c(torch.tanh(self.b(self.a(x))))


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.head = nn.Conv2d(8, 4, 1)

    def forward(self, x):
        return self.head(self.second(self.first(x))).mean((2, 3))


def suite_of(model, calibration, test):
    mapping = QConfigMapping().set_global(QCONFIG)
    prepared = prepare_fx(copy.deepcopy(model), mapping, (calibration,))
    prepared(calibration)
    quantized = convert_fx(copy.deepcopy(prepared))
    weights = {
        name: float(compute_sqnr(*(entry["weight"][m][0]["values"][0].dequantize() for m in ("float", "int8"))))
        for name, entry in ns.extract_weights("float", copy.deepcopy(model), "int8", quantized).items()
    }
    backend = get_native_backend_config()
    multi = QConfigMultiMapping().set_global([QCONFIG])
    shadows = ns.prepare_n_shadows_model(copy.deepcopy(model), (calibration,), multi, backend)
    shadows(calibration)
    shadows = ns.convert_n_shadows_model(shadows)
    ns.loggers_set_enabled(shadows, True)
    ns.loggers_set_save_activations(shadows, True)
    shadows(test)
    results = ns.extract_results_n_shadows_model(shadows)["model"]["node_output"]
    found = {}
    for name, (shadow,) in results.items():
        if name.endswith("_1") and shadow["fqn"]:
            x, y = results[name[:-1] + "0"][0]["values"][0], shadow["values"][0]
            y = y.dequantize() if y.is_quantized else y
            found[shadow["fqn"]] = {"sqnr": float(compute_sqnr(x, y)), "mse": float(nn.functional.mse_loss(y, x))}
    return weights, found


def debugged(model, calibration, test, name):
    program = torch.export.export_for_training(model, (calibration,), strict=True)
    generate_numeric_debug_handle(program)
    reference = prepare_for_propagation_comparison(copy.deepcopy(program).module())
    quantizer = xnnpack.XNNPACKQuantizer().set_global(xnnpack.get_symmetric_quantization_config(is_per_channel=True))
    prepared = prepare_pt2e(program.module(), quantizer)
    prepared(calibration)
    converted = convert_pt2e(prepared)
    compared = prepare_for_propagation_comparison(copy.deepcopy(converted))
    reference(test), compared(test)
    results = compare_results(extract_results_from_loggers(reference), extract_results_from_loggers(compared))
    save_without_traces(program, OUT / f"{name}.pt2")
    return {
        str(handle): [{"sqnr": float(r.sqnr), "mse": float(r.mse_loss)} for r in summary.results]
        for handle, summary in results.items()
    }


def main():
    OUT.mkdir(exist_ok=True)
    facts = {"torch": torch.__version__}
    for name, model, shape in (("dense", Dense(), (8, 6)), ("images", Images(), (4, 3, 7, 7))):
        torch.manual_seed(sum(map(ord, name)))
        for parameter in model.parameters():
            parameter.data.copy_(torch.randn(parameter.shape) * 0.3)
        model.eval()
        calibration, test = torch.randn(shape), torch.randn(shape)
        with torch.no_grad():
            weights, shadows = suite_of(model, calibration, test)
            outputs = debugged(model, calibration, test, name)
        facts[name] = {
            "shape": list(shape),
            "calibration": calibration.flatten().tolist(),
            "test": test.flatten().tolist(),
            "weights": weights,
            "shadows": shadows,
            "outputs": outputs,
        }
        print(name, weights, shadows, outputs)
    (OUT / "suite.json").write_text(json.dumps(facts) + "\n")


main()
