#!/usr/bin/env python3
"""Cases of FX graph mode with input-weight equalization (torch.ao.quantization.fx._equalize), for the runner of
make_fx.py's.

  python3 tests/golden/make_fx_equalization.py FOLDER [name ...]      in a Python with PyTorch 2.6

A case has what make_fx.py writes of the traced graph, so that the runner finds the calls, and of the program with
equalization: the factors of inputs, the qparams of all quantize operators on activations in the order of the graph, the
integers of weights, outputs.
"""

import copy
import json
import pathlib
import sys

import torch
import torch.nn.functional as F
from make_fx import (
    IMAGE,
    ROWS,
    OneInput,
    flat,
    graph_with_standalone,
    mapping_of,
    numbers,
    reference_modules,
    save_arrays,
    units_of,
)
from torch import nn
from torch.ao.quantization import QConfigMapping
from torch.ao.quantization.fx._equalize import default_equalization_qconfig
from torch.ao.quantization.fx.tracer import QuantizationTracer
from torch.ao.quantization.quantize_fx import convert_to_reference_fx, prepare_fx

EQUALIZE = {"named": "default_equalization_qconfig"}


PLAIN = {"named": "default_qconfig"}
MODELS = {
    # name: model, mapping, equalization, shapes, engine
    "equalized_linear": (lambda: OneInput(lambda m, x: m.fc(x), fc=nn.Linear(6, 4)), PLAIN, {}, [ROWS]),
    "equalized_conv": (
        lambda: OneInput(lambda m, x: m.b(F.max_pool2d(m.a(x), 2)), a=nn.Conv2d(3, 4, 3), b=nn.Conv2d(4, 2, 3)),
        PLAIN,
        {},
        [IMAGE],
    ),
    "equalized_chain": (
        lambda: OneInput(
            lambda m, x: m.c(m.act(m.b(m.a(x)))),
            a=nn.Linear(6, 7),
            b=nn.Linear(7, 5, bias=False),
            act=nn.ReLU(),
            c=nn.Linear(5, 3),
        ),
        PLAIN,
        {},
        [ROWS],
    ),
    "equalized_norm": (
        lambda: OneInput(
            lambda m, x: m.c(m.act(m.bn(m.a(x)))),
            a=nn.Conv2d(3, 6, 3),
            bn=nn.BatchNorm2d(6),
            act=nn.ReLU(),
            c=nn.Conv2d(6, 4, 1),
        ),
        {"named": "default_per_channel_qconfig"},
        {},
        [IMAGE],
    ),
    "equalized_some": (
        lambda: OneInput(
            lambda m, x: m.c(torch.tanh(m.b(torch.sigmoid(m.a(x))))),
            a=nn.Linear(6, 7),
            b=nn.Linear(7, 5),
            c=nn.Linear(5, 3),
        ),
        PLAIN,
        {"global": None, "module_name": [["c", EQUALIZE], ["a", EQUALIZE]]},
        [ROWS],
    ),
    "equalized_branch": (
        lambda: OneInput(
            lambda m, x: m.c(torch.cat([m.a(x), m.b(x)], 1)),
            a=nn.Linear(6, 4),
            b=nn.Linear(6, 3),
            c=nn.Linear(7, 2),
        ),
        PLAIN,
        {},
        [ROWS],
    ),
    "equalized_histogram": (
        lambda: OneInput(lambda m, x: m.b(F.relu(m.a(x))), a=nn.Linear(6, 5), b=nn.Linear(5, 3)),
        {"default": "x86"},
        {},
        [ROWS],
    ),
}


def quantizers_of(reference):
    """[scale, zero point] of each quantize operator of the graph that is no weight's."""
    out = []
    for node in reference.graph.nodes:
        if node.op == "call_function" and node.target is torch.quantize_per_tensor and node.args[0].op != "get_attr":
            out.append([float(getattr(reference, node.args[1].target)), int(getattr(reference, node.args[2].target))])
    return out


def factors_of(reference):
    return [
        numbers(getattr(reference, node.target).flatten())
        for node in reference.graph.nodes
        if node.op == "get_attr" and "_equalization_scale" in node.target
    ]


def make(folder, name):
    torch.manual_seed(sum(map(ord, name)))
    build, qconfig, equalization, shapes = MODELS[name]
    model = build()
    for parameter in model.parameters():
        parameter.data.copy_(torch.randn(parameter.shape) * 0.3)
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.running_mean.copy_(torch.randn(module.running_mean.shape) * 0.1)
            module.running_var.copy_(torch.rand(module.running_var.shape) + 0.5)
    model.eval()
    torch.backends.quantized.engine = "onednn"
    recipe = qconfig if "default" in qconfig else {"global": qconfig}
    config = {"global": EQUALIZE} | equalization
    eq_mapping = QConfigMapping().set_global(default_equalization_qconfig if config["global"] else None)
    for path, _ in config.get("module_name", []):
        eq_mapping.set_module_name(path, default_equalization_qconfig)

    def draw(shape):
        """Channels of different size, as one equalizes."""
        sizes = torch.logspace(-1, 1, shape[1]).reshape([1, -1] + [1] * (len(shape) - 2))
        return torch.randn(shape) * sizes

    batches = [[draw(s) for s in shapes] for _ in range(2)]
    tests = [[draw(s) for s in shapes] for _ in range(2)]
    prepared = prepare_fx(copy.deepcopy(model), mapping_of(recipe), tuple(batches[0]), _equalization_config=eq_mapping)
    for batch in batches:
        prepared(*batch)
    arrays = {}
    reference = convert_to_reference_fx(copy.deepcopy(prepared))
    traced_model = copy.deepcopy(model)
    traced = torch.fx.GraphModule(traced_model, QuantizationTracer([], []).trace(traced_model))
    expected = {
        "traced": graph_with_standalone(traced, lambda node: None),
        "prepared": {"graph": graph_with_standalone(traced, lambda node: None)},
        "equalization": {"factors": factors_of(reference), "quantizers": quantizers_of(reference)},
        "reference": {"modules": reference_modules(reference, arrays)},
    }
    with torch.no_grad():
        outputs = [flat(reference(*test)) for test in tests]
    expected["outputs"] = units_of(reference, outputs[0])
    for t, values in enumerate(outputs):
        arrays |= {f"reference_t{t}_o{o}": value for o, value in enumerate(values)}
    program = torch.export.export(model, tuple(batches[0]), strict=True)
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # it has paths of this machine
    limit = {"max_units": 1.01, "fraction": 0.1, "min_sqnr_db": 30}
    case = {
        "name": name,
        "category": "fx",
        "flow": "fx_ptq",
        "recipe": {
            "mode": "fx",
            "qat": False,
            "qconfig_mapping": recipe,
            "backend_config": "native",
            "equalization_config": config,
        },
        "expected": expected,
        "tolerances": {
            "qparams": {"default": {"scale_rel": 1e-5, "zero_point": 0}},
            "reference_outputs": {"limits": [limit for _ in outputs[0]]},
        },
    }
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    (place / "case.json").write_text(json.dumps(case))
    torch.export.save(program, place / "model.pt2")
    save_arrays(place / "calib.npz", {f"b{n}_i{i}": v for n, batch in enumerate(batches) for i, v in enumerate(batch)})
    save_arrays(place / "test.npz", {f"t{n}_i{i}": v for n, test in enumerate(tests) for i, v in enumerate(test)})
    save_arrays(place / "expected.npz", arrays)
    print(name, expected["equalization"])


if __name__ == "__main__":
    for name in MODELS:
        if len(sys.argv) < 3 or name in sys.argv[2:]:
            make(pathlib.Path(sys.argv[1]), name)
