#!/usr/bin/env python3
"""Cases of FX graph mode with backend configs, in the form of make_fx.py: PyTorch's own by name, and some that the
author of a backend would write, with constraints.

  python3 tests/golden/make_fx_backends.py FOLDER [name ...]      in a Python with PyTorch 2.6
"""

import json
import pathlib
import sys

import torch
import torch.nn.functional as F
from fx_configs import READY, json_of_backend
from make_fx import IMAGE, ROWS, OneInput, TwoInputs, make_case, mapping_of
from torch import nn
from torch.ao.quantization.qconfig_mapping import (
    _get_symmetric_qnnpack_qat_qconfig_mapping,
    _get_symmetric_qnnpack_qconfig_mapping,
)

QINT8 = {"dtype": "qint8", "quant_min_lower_bound": -127, "quant_max_upper_bound": 127}
SMALL = {"dtype": "qint8", "scale_min_lower_bound": 2**-12}


def dtypes(activation, weight=None):
    out = {"input_dtype": activation, "output_dtype": activation}
    return [out | ({"weight_dtype": weight, "bias_dtype": "float32"} if weight else {})]


def observers(activation, weight):
    return {
        "activation": {"class": "MinMaxObserver", "args": {"dtype": "qint8"} | activation},
        "weight": {"class": "MinMaxObserver", "args": {"dtype": "qint8", "qscheme": "per_tensor_symmetric"} | weight},
    }


OWN = {
    "name": "accelerator",
    "configs": [
        {
            "pattern": "torch.nn.Conv2d",
            "dtype_configs": dtypes(SMALL, QINT8 | SMALL),
            "root_module": "torch.nn.Conv2d",
        },
        {
            "pattern": ["torch.nn.Conv2d", "torch.nn.ReLU"],
            "dtype_configs": dtypes(SMALL, QINT8 | SMALL),
            "fused_module": "torch.ao.nn.intrinsic.ConvReLU2d",
        },
        {
            "pattern": "torch.ao.nn.intrinsic.ConvReLU2d",
            "dtype_configs": dtypes(SMALL, QINT8 | SMALL),
            "root_module": "torch.nn.Conv2d",
        },
        {"pattern": "torch.nn.MaxPool2d", "observation_type": "OUTPUT_SHARE_OBSERVER_WITH_INPUT"}
        | {"dtype_configs": dtypes("qint8")},
        {
            "pattern": ["operator.add", "torch.nn.functional.hardtanh"],
            "dtype_configs": dtypes("qint8"),
            "num_tensor_args_to_observation_type": {
                "1": "OUTPUT_SHARE_OBSERVER_WITH_INPUT",
                "2": "OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT",
            },
        },
        {
            "pattern": "torch.sigmoid",
            "dtype_configs": dtypes({"dtype": "qint8", "scale_exact_match": 1 / 256, "zero_point_exact_match": -128}),
        },
    ],
}


def own_net():
    return OneInput(
        lambda m, x: torch.sigmoid(
            F.hardtanh(m.pool(m.act(m.bn(m.a(x)))) + m.b(x)) + F.hardtanh(m.c(x) + 0.5) * m.d(x)
        ),
        a=nn.Conv2d(3, 4, 3, padding=1),
        bn=nn.BatchNorm2d(4),
        act=nn.ReLU(),
        pool=nn.MaxPool2d(3, 1, 1),
        b=nn.Conv2d(3, 4, 1),
        c=nn.Conv2d(3, 4, 1),
        d=nn.Conv2d(3, 4, 1),
    )


def conv_adds():
    return OneInput(
        lambda m, x: m.act(m.a(m.first(x)) + m.bn(m.b(x))) + m.act2(torch.add(x, m.bn2(m.c(x)))) + (x + m.d(x)),
        first=nn.Conv2d(3, 3, 1),
        a=nn.Conv2d(3, 3, 1),
        b=nn.Conv2d(3, 3, 1),
        bn=nn.BatchNorm2d(3),
        act=nn.ReLU(),
        c=nn.Conv2d(3, 3, 3, padding=1),
        bn2=nn.BatchNorm2d(3),
        act2=nn.ReLU(),
        d=nn.Conv2d(3, 3, 1),
    )


def executorch_net():
    return OneInput(
        lambda m, x: m.head(
            torch.mean(
                m.elu(F.pad(m.act(m.bn(m.a(x))) - m.b(x), (1, 1, 0, 1))) * torch.permute(m.c(x), (0, 1, 2, 3)).mean(),
                (2, 3),
            )
        ),
        a=nn.Conv2d(3, 4, 3, padding=1),
        bn=nn.BatchNorm2d(4),
        act=nn.ReLU(),
        b=nn.Conv2d(3, 4, 1),
        elu=nn.ELU(),
        c=nn.Conv2d(3, 4, 1),
        head=nn.Linear(4, 2),
    )


def norms_net():
    return OneInput(
        lambda m, x: m.head(torch.sigmoid(m.norm(m.act(m.one(m.a(x))) * m.b(x)).relu())),
        a=nn.Linear(6, 6),
        one=nn.BatchNorm1d(6),
        act=nn.ReLU(),
        b=nn.Linear(6, 6),
        norm=nn.LayerNorm(6),
        head=nn.Linear(6, 2),
    )


SYMMETRIC = {"named": "default_symmetric_qnnpack_qconfig"}


def models():
    """name -> (model, mapping as set_... calls, shapes, engine, backend config)"""
    own = observers({"eps": 2**-12}, {"quant_min": -127, "quant_max": 127, "eps": 2**-12})
    yield (
        "own_backend",
        own_net(),
        {
            "global": own,
            "module_name": [
                ["b", observers({}, {"quant_min": -127, "quant_max": 127, "eps": 2**-12})],
                ["c", observers({"eps": 2**-12}, {"eps": 2**-12})],
                ["d", observers({"eps": 2**-10}, {"quant_min": -100, "quant_max": 100, "eps": 2**-10})],
            ],
            "object_type": [
                [
                    "torch.sigmoid",
                    {
                        "activation": {
                            "class": "FixedQParamsObserver",
                            "args": {
                                "dtype": "qint8",
                                "scale": 1 / 256,
                                "zero_point": -128,
                                "quant_min": -128,
                                "quant_max": 127,
                            },
                        },
                        "weight": {"class": "MinMaxObserver", "args": {"dtype": "qint8"}},
                    },
                ]
            ],
        },
        [IMAGE],
        "qnnpack",
        OWN,
    )
    yield "own_backend_ranges", own_net(), {"global": own}, [IMAGE], "qnnpack", OWN
    yield (
        "own_backend_on_native",
        TwoInputs(
            lambda m, x, y: (torch.matmul(m.a(x), m.b(y).transpose(0, 1)), F.relu(m.c(x)), x - y),
            a=nn.Linear(6, 6),
            b=nn.Linear(6, 6),
            c=nn.Linear(6, 6),
        ),
        {"default": "x86"},
        [ROWS, ROWS],
        "onednn",
        {
            "base": "native",
            "name": "accelerator",
            "configs": [
                {"pattern": "torch.matmul", "observation_type": "OUTPUT_SHARE_OBSERVER_WITH_INPUT"}
                | {"dtype_configs": dtypes("quint8")},
                {"pattern": "transpose", "observation_type": "INPUT_OUTPUT_NOT_OBSERVED"}
                | {"dtype_configs": dtypes("quint8")},
                {"pattern": "operator.sub", "dtype_configs": dtypes("quint8")},
            ],
        },
    )
    yield "conv_add", conv_adds(), {"global": {"named": "default_qconfig"}}, [IMAGE], "onednn", "onednn"
    yield (
        "linear_activations",
        OneInput(
            lambda m, x: m.c(m.tanh(m.b(m.leaky(m.bn(m.a(x)))))) + m.tanh2(m.d(x)) + m.leaky2(m.e(x)),
            a=nn.Linear(6, 4),
            bn=nn.BatchNorm1d(4),
            leaky=nn.LeakyReLU(0.2),
            b=nn.Linear(4, 4),
            tanh=nn.Tanh(),
            c=nn.Linear(4, 2),
            d=nn.Linear(6, 2),
            tanh2=nn.Tanh(),
            leaky2=nn.LeakyReLU(),
            e=nn.Linear(6, 2),
        ),
        {"global": {"named": "default_per_channel_qconfig"}},
        [ROWS],
        "onednn",
        "onednn",
    )
    yield "executorch", executorch_net(), {"default": "executorch"}, [IMAGE], "qnnpack", "executorch"
    yield "executorch_qat", executorch_net(), {"default": "executorch", "qat": True}, [IMAGE], "qnnpack", "executorch"
    yield "executorch_linear", norms_net(), {"default": "executorch"}, [ROWS], "qnnpack", "executorch"
    yield (
        "executorch_dynamic",
        norms_net(),
        {"global": {"named": "default_dynamic_qconfig"}},
        [ROWS],
        "qnnpack",
        "executorch",
    )
    yield (
        "qnnpack_symmetric",
        norms_net(),
        {
            "global": SYMMETRIC,
            "module_name": [["head", {"named": "default_qconfig"}]],
            "object_type": [["torch.nn.functional.relu", {"named": "default_qconfig"}]],
        },
        [ROWS],
        "qnnpack",
        "qnnpack",
    )
    yield (
        "qnnpack_constraints",
        conv_adds(),
        {
            "global": SYMMETRIC,
            "module_name": [
                ["b", observers({}, {"quant_min": -127, "quant_max": 127, "eps": 2**-12})],
                ["d", observers({"eps": 2**-12}, {"eps": 2**-12})],
            ],
        },
        [IMAGE],
        "qnnpack",
        "qnnpack",
    )
    yield "x86_norms", norms_net(), {"default": "x86"}, [ROWS], "onednn", "x86"
    yield "fbgemm_norms", norms_net(), {"default": "fbgemm"}, [ROWS], "onednn", "fbgemm"
    yield "onednn_norms", norms_net(), {"default": "onednn"}, [ROWS], "onednn", "onednn"
    yield (
        "tensorrt",
        OneInput(
            lambda m, x: torch.addmm(m.shift, m.act(m.a(x)), m.w) + m.norm(m.b(x)),
            a=nn.Linear(6, 6),
            act=nn.ReLU(),
            b=nn.Linear(6, 4),
            norm=nn.LayerNorm(4),
            shift=nn.Parameter(torch.zeros(4)),
            w=nn.Parameter(torch.zeros(6, 4)),
        ),
        {"global": observers({"qscheme": "per_tensor_symmetric"}, {})},
        [ROWS],
        "qnnpack",
        "tensorrt",
    )


def mapping_with_executorch(recipe):
    if recipe.get("default") != "executorch":
        return mapping_of(recipe)
    if recipe.get("qat"):
        return _get_symmetric_qnnpack_qat_qconfig_mapping()
    return _get_symmetric_qnnpack_qconfig_mapping()


def facts(folder):
    """What PyTorch's own backend configs say."""
    expected = {
        "default_mappings": {},
        "named_qconfigs": {},
        "backend_configs": {name: json_of_backend(make()) for name, make in READY.items()},
    }
    case = {"name": "backend_configs", "category": "fx", "flow": "fx_facts", "expected": expected}
    place = folder / "backend_configs"
    place.mkdir(parents=True, exist_ok=True)
    (place / "case.json").write_text(json.dumps(case))


if __name__ == "__main__":
    folder, wanted = pathlib.Path(sys.argv[1]), sys.argv[2:]
    if not wanted or "backend_configs" in wanted:
        facts(folder)
    for name, model, recipe, shapes, engine, backend in models():
        if not wanted or name in wanted:
            make_case(
                folder, name, model, mapping_with_executorch(recipe), recipe, shapes, engine, torch.float32, backend
            )
