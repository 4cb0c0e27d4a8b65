#!/usr/bin/env python3
"""Cases of FX graph mode with a PrepareCustomConfig, in the form of make_fx.py: standalone modules, modules that are
left alone, inputs and outputs as integers.

  python3 tests/golden/make_fx_custom.py FOLDER [name ...]      in a Python with PyTorch 2.6

The graphs of standalone modules are written in the place of their calls, with their names in front.
"""

import pathlib
import sys

import torch
import torch.nn.functional as F
from make_fx import IMAGE, ROWS, OneInput, TwoInputs, make_case, mapping_of
from torch import nn


class Unit(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.fc, self.act, self.out = nn.Linear(size, size), nn.ReLU(), nn.Linear(size, size)

    def forward(self, x):
        return self.out(self.act(self.fc(x)))


class Pair(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.a, self.b = nn.Linear(size, size), nn.Linear(size, size)

    def forward(self, x, y):
        return F.relu(self.a(x) + self.b(y))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.act = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()

    def forward(self, x):
        return self.act(self.bn(self.conv(x))) + x


def body():
    return OneInput(
        lambda m, x: m.head(m.sub(m.first(x))),
        first=nn.Linear(6, 6),
        sub=Unit(6),
        head=nn.Linear(6, 2),
    )


def images():
    return OneInput(
        lambda m, x: m.last(m.sub(m.first(x))),
        first=nn.Conv2d(3, 4, 1),
        sub=Block(),
        last=nn.Conv2d(4, 2, 1),
    )


PER_CHANNEL, PLAIN = {"named": "default_per_channel_qconfig"}, {"named": "default_qconfig"}


def entry(module, mapping=None, **rest):
    return {"module": module, "qconfig_mapping": mapping} | rest


def models():
    """name -> (model, mapping as set_... calls, shapes, engine, backend config, custom config)"""
    yield (
        "standalone_float",
        body(),
        {"global": PLAIN},
        [ROWS],
        "onednn",
        "native",
        {"standalone_module_name": [entry("sub", {"global": PER_CHANNEL, "module_name": [["fc", None]]})]},
    )
    quantized = {"input_quantized_idxs": [0], "output_quantized_idxs": [0]}
    yield (
        "standalone_quantized",
        body(),
        {"global": PLAIN},
        [ROWS],
        "onednn",
        "native",
        {"standalone_module_name": [entry("sub", {"global": PER_CHANNEL}, prepare_custom_config=quantized)]},
    )
    yield (
        "standalone_class",
        images(),
        {"default": "x86"},
        [IMAGE],
        "onednn",
        "native",
        {"standalone_module_class": [entry("Block", prepare_custom_config={"input_quantized_idxs": [0]})]},
    )
    yield (
        "standalone_backend",
        images(),
        {"global": {"named": "default_symmetric_qnnpack_qconfig"}},
        [IMAGE],
        "qnnpack",
        "qnnpack",
        {
            "standalone_module_name": [
                entry("sub", {"global": PLAIN, "module_name": [["conv", None]]}, backend_config="native")
            ]
        },
    )
    yield (
        "standalone_pair",
        TwoInputs(
            lambda m, x, y: m.head(m.sub(m.first(x), y)),
            first=nn.Linear(6, 6),
            sub=Pair(6),
            head=nn.Linear(6, 2),
        ),
        {"global": PLAIN},
        [ROWS, ROWS],
        "onednn",
        "native",
        {
            "standalone_module_name": [
                entry("sub", {"global": PER_CHANNEL}, prepare_custom_config={"input_quantized_idxs": [1]})
            ]
        },
    )
    yield (
        "non_traceable_name",
        body(),
        {"default": "x86"},
        [ROWS],
        "onednn",
        "native",
        {"non_traceable_module_name": ["sub"]},
    )
    yield (
        "non_traceable_class",
        images(),
        {"default": "qnnpack"},
        [IMAGE],
        "qnnpack",
        "native",
        {"non_traceable_module_class": ["Block"]},
    )
    yield (
        "quantized_input",
        body(),
        {"global": PLAIN},
        [ROWS],
        "onednn",
        "native",
        {"input_quantized_idxs": [0]},
    )
    yield (
        "quantized_both",
        TwoInputs(
            lambda m, x, y: (m.a(x) + m.b(y), m.b(y)),
            a=nn.Linear(6, 6),
            b=nn.Linear(6, 6),
        ),
        {"global": PLAIN},
        [ROWS, ROWS],
        "onednn",
        "native",
        {"input_quantized_idxs": [1], "output_quantized_idxs": [0]},
    )


if __name__ == "__main__":
    for name, model, recipe, shapes, engine, backend, custom in models():
        if len(sys.argv) < 3 or name in sys.argv[2:]:
            make_case(
                pathlib.Path(sys.argv[1]),
                name,
                model,
                mapping_of(recipe),
                recipe,
                shapes,
                engine,
                torch.float32,
                backend,
                custom,
            )
