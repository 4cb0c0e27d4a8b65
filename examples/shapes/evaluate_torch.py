"""Quantizes model.pt2 with PyTorch 2.6 and measures top-1 of the float and the int8 programs on the test images.

python3 evaluate_torch.py            the table of README.md; writes accuracy_torch.json, which also
                                     holds the class that every program gave every test image
python3 evaluate_torch.py --drawn N  the same for N images drawn anew, to tell effect from chance
"""

import argparse
import csv
import json
import platform
import warnings
from pathlib import Path

import numpy as np
import PIL
import torch
from PIL import Image
from torch.ao.quantization.quantize_pt2e import convert_pt2e, prepare_pt2e
from torch.ao.quantization.quantizer import x86_inductor_quantizer as x86
from torch.ao.quantization.quantizer import xnnpack_quantizer as xnnpack

import generate

HERE = Path(__file__).parent
BATCH = 16
DRAWN_STREAM = 4


def normalize(pixels, preprocess):
    """(pixel * scale - mean) / std in float32, [N, H, W, 3] -> [N, 3, H, W]."""
    mean, std = np.float32(preprocess["mean"]), np.float32(preprocess["std"])
    pixels = (pixels * np.float32(preprocess["scale"]) - mean) / std
    return torch.from_numpy(pixels.transpose(0, 3, 1, 2).copy())


def read_split(folder, preprocess):
    """f32 [N, 3, H, W] and the labels, in the order of labels.csv."""
    with open(folder / "labels.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    pixels = np.stack([np.asarray(Image.open(folder / row["file"]).convert("RGB"), np.float32) for row in rows])
    return normalize(pixels, preprocess), torch.tensor([int(row["label"]) for row in rows])


def draw_split(count, preprocess):
    drawn = [generate.image_of(DRAWN_STREAM, index) for index in range(count)]
    pixels = np.stack([image for image, _ in drawn]).astype(np.float32)
    return normalize(pixels, preprocess), torch.tensor([label for _, label in drawn])


def load_positional(path):
    """The loaded module with its operators' arguments in schema order.

    torch.export.load of PyTorch 2.6 turns arguments that have a default into keywords, and prepare_pt2e refuses those.
    """
    module = torch.export.load(path).module()
    for node in module.graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload) or not node.kwargs:
            continue
        slots = [a for a in node.target._schema.arguments if not a.kwarg_only]
        last = max((i for i, a in enumerate(slots) if i < len(node.args) or a.name in node.kwargs), default=-1)
        given = [
            node.args[i] if i < len(node.args) else node.kwargs.get(a.name, a.default_value)
            for i, a in enumerate(slots[: last + 1])
        ]
        names = {a.name for a in slots}
        node.args, node.kwargs = tuple(given), {k: v for k, v in node.kwargs.items() if k not in names}
    module.recompile()
    return module


def quantize(module, quantizer, calibration):
    prepared = prepare_pt2e(module, quantizer)
    with torch.no_grad():
        for batch in calibration.split(BATCH):
            prepared(batch)
    return convert_pt2e(prepared)


def run(module, inputs):
    with torch.no_grad():
        return torch.cat([module(batch) for batch in inputs.split(BATCH)])


def weight_layers(converted):
    """How many convolutions and linears read a folded int8 weight, and how many there are."""
    kinds = (torch.ops.aten.conv2d.default, torch.ops.aten.linear.default)
    layers = [n for n in converted.graph.nodes if n.target in kinds]
    return sum("dequantize" in str(n.args[1].target) for n in layers), len(layers)


def quantizers():
    def symmetric(per_channel):
        config = xnnpack.get_symmetric_quantization_config(is_per_channel=per_channel)
        return xnnpack.XNNPACKQuantizer().set_global(config)

    yield "xnnpack_per_channel", "XNNPACKQuantizer, per-channel weights (recipe.json)", symmetric(True)
    yield "xnnpack_per_tensor", "XNNPACKQuantizer, per-tensor weights", symmetric(False)
    config = x86.get_default_x86_inductor_quantization_config()
    yield "x86_inductor", "X86InductorQuantizer, default", x86.X86InductorQuantizer().set_global(config)


def main(drawn):
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    preprocess = json.loads((HERE / "preprocess.json").read_text())
    calibration, _ = read_split(HERE / "calibration", preprocess)
    inputs, labels = draw_split(drawn, preprocess) if drawn else read_split(HERE / "test", preprocess)
    float_module = load_positional(HERE / "model.pt2")
    reference = run(float_module, inputs)

    versions = {
        "torch": torch.__version__,
        "numpy": np.__version__,
        "pillow": PIL.__version__,
        "python": platform.python_version(),
    }
    print(versions)
    print(f"| | top-1 % | right of {len(labels)} | same top-1 as float % | SQNR of the logits, dB |")
    print("|---|---|---|---|---|")
    results = {}

    def report(key, title, logits, layers):
        choice = logits.argmax(1)
        right = int((choice == labels).sum())
        agree = 100 * (choice == reference.argmax(1)).float().mean().item()
        noise = (reference - logits).norm().item()
        sqnr = 20 * np.log10(reference.norm().item() / noise) if noise else None
        results[key] = {
            "top1": 100 * right / len(labels),
            "right": right,
            "agree": agree,
            "sqnr_db": sqnr,
            "layers": layers,
            "predicted": choice.tolist(),
        }
        more = "" if sqnr is None else f"{agree:.1f} | {sqnr:.1f}"
        print(f"| {title} | {100 * right / len(labels):.1f} | {right} | {more or ' | '} |", flush=True)

    report("float", "float", reference, None)
    for key, title, quantizer in quantizers():
        converted = quantize(load_positional(HERE / "model.pt2"), quantizer, calibration)
        report(key, title, run(converted, inputs), weight_layers(converted))
    if drawn:
        return
    record = {
        "versions": versions,
        "calibration": len(calibration),
        "batch": BATCH,
        "test": len(labels),
        "results": results,
    }
    (HERE / "accuracy_torch.json").write_text(json.dumps(record) + "\n")


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--drawn", type=int, default=0)
    main(options.parse_args().drawn)
