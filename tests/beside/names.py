#!/usr/bin/env python3
"""Looks for every public name of PyTorch's PT2E, FX and numeric-suite modules in docs/names.md, and for cells of its
tables that are empty without a note.

  python3 tests/beside/names.py      in a Python with PyTorch 2.6

A public name is one of a module's __all__, or where it has none a class or function without an underscore in front that
the module itself defines. Status 1 if a name is missing or a cell says nothing.
"""

import importlib
import inspect
import pathlib
import pkgutil
import re
import sys

AO = "torch.ao."
MODULES = [
    "quantization.quantize_pt2e",
    "quantization.quantize_fx",
    "quantization.qconfig",
    "quantization.qconfig_mapping",
    "quantization.observer",
    "quantization.fake_quantize",
    "quantization._learnable_fake_quantize",
    "quantization.fuser_method_mappings",
    "quantization.quantizer.quantizer",
    "quantization.quantizer.composable_quantizer",
    "quantization.quantizer.embedding_quantizer",
    "quantization.quantizer.xnnpack_quantizer",
    "quantization.quantizer.xnnpack_quantizer_utils",
    "quantization.quantizer.x86_inductor_quantizer",
    "quantization.quantizer.xpu_inductor_quantizer",
    "quantization.quantizer.utils",
    "quantization.pt2e._numeric_debugger",
    "quantization.backend_config",
    "quantization.backend_config.backend_config",
    "quantization.backend_config.observation_type",
    "quantization.backend_config.native",
    "quantization.backend_config.fbgemm",
    "quantization.backend_config.x86",
    "quantization.backend_config.qnnpack",
    "quantization.backend_config.onednn",
    "quantization.backend_config.executorch",
    "quantization.backend_config.tensorrt",
    "quantization.fx._equalize",
    "quantization.fx._model_report.model_report",
    "quantization.fx._model_report.model_report_visualizer",
    "quantization.fx._model_report.detector",
    "ns._numeric_suite",
    "ns._numeric_suite_fx",
    "quantization.backend_config.utils",
]
# All modules in them whose names begin without an underscore.
PACKAGES = ["quantization.pt2e", "quantization.fx", "ns.fx"]


def inner_modules():
    out = []
    for package in PACKAGES:
        path = importlib.import_module(AO + package).__path__
        out += [m.name.removeprefix(AO) for m in pkgutil.walk_packages(path, AO + package + ".")]
    return [name for name in out if "._" not in name]


def names_of(module):
    """name -> whether it is defined there, public ones."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module.__name__
    ]


def main():
    text = (pathlib.Path(__file__).parents[2] / "docs/names.md").read_text()
    known = set()
    for quoted in re.findall(r"`([^`]+)`", text):
        known.update(re.findall(r"\w+", quoted))
    missing, total = {}, set()
    for name in MODULES + inner_modules():
        for each in names_of(importlib.import_module(AO + name)):
            total.add(each)
            # A prefix or an ending stands for all names that have it, as `default_*_observer` does.
            if each not in known and not any(re.fullmatch(p, each) for p in patterns(text)):
                missing.setdefault(name, []).append(each)
    for module, names in missing.items():
        print(f"{module}: {', '.join(names)}")
    empty = 0
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        is_row = line.startswith("|") and not set(cells[0]) <= set("-") and cells[0] != "PyTorch"
        says_nothing = any(cell == "" for cell in cells[:-1]) or (not cells[-1] and "–" in cells[1:-1])
        if is_row and says_nothing:
            print("an empty cell:", line)
            empty += 1
    count = sum(map(len, missing.values()))
    print(f"{len(total)} public names, {count} missing, {empty} rows with an empty cell")
    return 1 if count or empty else 0


def patterns(text):
    return [q.replace("*", r"\w+") for q in re.findall(r"`([\w*]*\*[\w*]*)`", text)]


if __name__ == "__main__":
    sys.exit(main())
