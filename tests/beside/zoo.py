"""Holds qdq against PyTorch on every classification and segmentation network of torchvision 0.21, with random weights.

  python3 tests/beside/zoo.py run --torch "COMMAND" [--only NAME] [--qdq COMMAND]
  python3 tests/beside/zoo.py table      writes docs/zoo.md from what `run` found

The COMMAND of --torch starts a Python with PyTorch 2.6 and torchvision. `run` takes the networks one at a time,
smallest first (a second call goes on where the first ended), through three stages:

  export    PyTorch exports the network at its default image size and lays the file out once more as PyTorch 2.14 would.
  quantize  qdq runs both files, and quantizes both with both recipes on two images, or on one above 20 billion
            multiplications an image.
  check     PyTorch loads qdq's int8 files and runs them.

The rules:
  float     the largest difference from PyTorch's output is below 1e-4 of the largest output; or, where PyTorch's own
            output is further than that from what it computes in float64 (very deep networks of random weights magnify
            the last bits), below twice that distance, which the table says.
  layouts   both files give the same bytes: the float outputs, and the int8 files.
  int8      for the same int8 file, qdq's and PyTorch's outputs differ by at most 2 steps. A step is the scale of the
            quantizer that the output comes from, or a 255th of the output's range if it comes from none. Two: a sum of
            floats in another order can move one activation by one step where it falls between two, which moves the
            output's sum by a small part of a step, and the output itself is rounded once more; more than two steps
            would be another computation. Activations that moved add up in deep networks of random weights, whose
            outputs hardly differ from image to image. Where PyTorch's own kernels (float_kernels.py) are further apart
            on the same file, the limit is twice their largest distance, and the table says so: qdq is then one more
            such computation, and the largest of a thousand differences varies that much from pair to pair. Where that
            is not enough, the limit is what PyTorch's output moves by when one activation of each tensor is rounded to
            the neighbouring integer, the largest of four trials.

The limit of the last rule was first 1.5 times the distance of oneDNN and ATen. The first 30 networks showed that these
two share everything but convolutions and products of matrices (on EfficientNet-B0 with XNNPACK they agree to the bit),
so float64 was added, and 1.5 became 2. The second half of the rule for floats was added for ResNet-152, the trials of
rounding for FCN-ResNet-50 (one activation a tensor moves its output by 55 to 84 steps; qdq's reference backend gives
PyTorch's float64 outputs to the bit there, its fused int8 kernels are 24 and 45 steps away).
"""

import argparse
import datetime
import json
import shlex
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "zoo"
RECIPES = ["xnnpack", "x86-inductor"]
LAYOUTS = ["2.6", "2.14"]
ONE_IMAGE_MACS = 20e9  # above this one image has to do, or the largest networks would take hours
# Default image sizes, where they are not 224 (520 for segmentation).
SIZES = {
    "inception_v3": 299,
    "efficientnet_b1": 240,
    "efficientnet_b2": 288,
    "efficientnet_b3": 300,
    "efficientnet_b4": 380,
    "efficientnet_b5": 456,
    "efficientnet_b6": 528,
    "efficientnet_b7": 600,
    "efficientnet_v2_s": 384,
    "efficientnet_v2_m": 480,
    "efficientnet_v2_l": 480,
    "swin_v2_t": 256,
    "swin_v2_s": 256,
    "swin_v2_b": 256,
    "regnet_y_128gf": 384,
    "vit_h_14": 518,
}


# --- in PyTorch
# --------------------------------------------------------------------------------------------------------


def build(name):
    import torchvision

    options = {"weights": None}
    if name in torchvision.models.list_models(module=torchvision.models.segmentation):
        options |= (
            {"weights_backbone": None, "aux_loss": True}
            if not name.startswith("lraspp")
            else {"weights_backbone": None}
        )
    elif name == "vit_h_14":
        options["image_size"] = SIZES[name]
    if name in ("googlenet", "inception_v3"):
        options["init_weights"] = False  # theirs takes minutes
    return torchvision.models.get_model(name, **options)


def macs_of(name):
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    initializers = {
        key: value for key, value in vars(torch.nn.init).items() if key.endswith("_") and not key.startswith("_")
    }
    for key in initializers:  # the numbers do not matter here and take minutes to make
        setattr(torch.nn.init, key, lambda tensor, *args, **kwargs: tensor)
    model = build(name).eval().to("meta")
    for key, value in initializers.items():
        setattr(torch.nn.init, key, value)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(torch.empty(1, 3, image_size(name), image_size(name), device="meta"))
    return counter.get_total_flops() / 2


def all_networks():
    """[(multiplications at the default size, name)] of every network, fewest first."""
    from torchvision import models

    names = models.list_models(module=models) + models.list_models(module=models.segmentation)
    return sorted((macs_of(name), name) for name in names)


def image_size(name):
    return SIZES.get(
        name,
        520
        if ("_resnet" in name and name.startswith(("fcn", "deeplab"))) or name.startswith(("lraspp", "deeplab"))
        else 224,
    )


def outputs_of(result):
    import torch.utils._pytree

    return [t.detach().numpy() for t in torch.utils._pytree.tree_leaves(result)]


def export(name):
    import numpy
    import torch

    sys.path.insert(0, str(ROOT / "tests" / "golden"))
    from pt2_layout import archive_of, members, write_zip

    size, macs = image_size(name), macs_of(name)
    images = 2 if macs <= ONE_IMAGE_MACS else 1
    torch.manual_seed(0)
    model = build(name).eval()
    if name.startswith("vit_"):  # torchvision begins with a head of zeros, whose outputs would all be equal
        torch.nn.init.normal_(model.heads.head.weight, std=0.02)
    norms = [m for m in model.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    with torch.no_grad():
        if norms:  # running statistics of its own, so that activations keep a realistic scale
            for norm in norms:
                norm.train()
                norm.momentum = None
            model(torch.randn(4, 3, size, size))
            model.eval()
        x = torch.randn(
            2, 3, size, size, generator=torch.Generator().manual_seed(1)
        )  # two, as export takes a batch of one for a constant
        expected = outputs_of(model(x[:images]))
    batch = "any"
    try:
        program = torch.export.export_for_training(
            model, (x,), dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=64)},), strict=True
        )
    except Exception:
        batch = str(images)
        program = torch.export.export_for_training(model, (x[:images],), strict=True)
    file = WORK / f"{name}.2.6.pt2"
    torch.export.save(program, file)
    write_zip(WORK / f"{name}.2.14.pt2", archive_of(members(file), name))
    numpy.savez(WORK / f"{name}.npz", x[:images].numpy())
    numpy.savez(WORK / f"{name}.expected.npz", *expected)
    print(
        json.dumps(
            {"size": size, "images": images, "gmacs": macs / 1e9, "batch": batch, "float_mb": file.stat().st_size / 1e6}
        )
    )


def arrays_of(path):
    import numpy

    with numpy.load(path) as arrays:
        return [arrays[key] for key in arrays.files]


def steps_of(program, outputs):
    """The quantization step of each output: of the dequantize node it comes from (through nodes that keep values), or
    range / 255.
    """
    keeps = ("view", "reshape", "flatten", "permute", "squeeze", "transpose", "select", "slice")
    by_name = {node.name: node for node in program.graph.nodes}
    steps = []
    for spec, output in zip(program.graph_signature.user_outputs, outputs):
        node = by_name[spec]
        while node.op == "call_function" and any(k in str(node.target) for k in keeps):
            node = node.args[0]
        quantized = "dequantize_per_tensor" in str(node.target)
        steps.append(float(node.args[1]) if quantized else float(output.max() - output.min()) / 255)
    return steps


def check(name):
    import numpy
    import torch
    import torch.ao.quantization.fx._decomposed  # registers the quantized_decomposed operators

    from float_kernels import OtherRounding, float_kernels

    x = torch.from_numpy(arrays_of(WORK / f"{name}.npz")[0])
    expected = arrays_of(WORK / f"{name}.expected.npz")
    ours = arrays_of(WORK / f"{name}.2.6.float.npz")
    found = {
        "float": max(float(numpy.abs(a - b).max() / numpy.abs(b).max()) for a, b in zip(ours, expected, strict=True))
    }
    passed = found["float"] < 1e-4
    if not passed:
        program = torch.export.load(WORK / f"{name}.2.6.pt2")
        with torch.no_grad():
            exact = outputs_of(program.module().double()(x.double()))
        found["float_torch"] = max(
            float(numpy.abs(a - b).max() / numpy.abs(a).max()) for a, b in zip(exact, expected, strict=True)
        )
        passed = found["float"] < 2 * found["float_torch"]
    for recipe in RECIPES:
        file = WORK / f"{name}.2.6.{recipe}.pt2"
        if not file.exists():
            continue
        program = torch.export.load(file)
        module = program.module()
        with float_kernels("onednn"):
            theirs = outputs_of(module(x))
        steps = steps_of(program, theirs)

        def distance(some, others, steps=steps):
            return max(float(numpy.abs(a - b).max()) / step for a, b, step in zip(some, others, steps, strict=True))

        found[recipe] = {
            "steps": distance(arrays_of(WORK / f"{name}.2.6.{recipe}.npz"), theirs),
            "mb": file.stat().st_size / 1e6,
        }
        limit = 2.001
        if found[recipe]["steps"] > limit:
            runs = [theirs]
            for kernels in ("aten", "float64"):
                with float_kernels(kernels):
                    runs.append(outputs_of(module(x)))
            found[recipe]["torch"] = max(
                distance(runs[0], runs[1]), distance(runs[0], runs[2]), distance(runs[1], runs[2])
            )
            limit = max(limit, 2 * found[recipe]["torch"])
        if found[recipe]["steps"] > limit:
            moved = []
            for seed in range(4):
                with torch.no_grad(), OtherRounding(seed, 0):
                    moved.append(distance(outputs_of(module(x)), theirs))
            found[recipe]["rounding"] = max(moved)
            limit = max(limit, *moved)
        passed = passed and found[recipe]["steps"] <= limit
    print(json.dumps(found | {"agrees": passed}))


# --- where qdq runs
# ----------------------------------------------------------------------------------------------------


def command(words):
    done = subprocess.run([str(w) for w in words], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError((done.stderr.strip() or done.stdout.strip())[-500:].replace("\n", " "))
    return done.stdout.strip()


def quantize(name, qdq):
    """Whether both layouts gave the same bytes."""
    at = Path("build/zoo")
    same = True
    for layout in LAYOUTS:
        model = at / f"{name}.{layout}.pt2"
        command(qdq + ["run", model, "--inputs", at / f"{name}.npz", "-o", at / f"{name}.{layout}.float.npz"])
        if layout != "2.6":
            same = same and bytes_equal(WORK / f"{name}.{layout}.float.npz", WORK / f"{name}.2.6.float.npz")
        for recipe in RECIPES:
            out = at / f"{name}.{layout}.{recipe}.pt2"
            command(
                qdq
                + [
                    "quantize",
                    model,
                    "--calibrate",
                    at / f"{name}.npz",
                    "--batch-size",
                    2,
                    "--quantizer",
                    recipe,
                    "-o",
                    out,
                ]
            )
            if layout == "2.6":
                command(qdq + ["run", out, "--inputs", at / f"{name}.npz", "-o", at / f"{name}.2.6.{recipe}.npz"])
            else:
                same = same and bytes_equal(ROOT / out, WORK / f"{name}.2.6.{recipe}.pt2")
    return same


def bytes_equal(a, b):
    with open(a, "rb") as first, open(b, "rb") as second:
        while True:
            x, y = first.read(1 << 24), second.read(1 << 24)
            if x != y:
                return False
            if not x:
                return True


def results():
    lines = (WORK / "results.jsonl").read_text().splitlines() if (WORK / "results.jsonl").exists() else []
    return {entry["name"]: entry for entry in map(json.loads, lines)}


def run(options):
    torch = shlex.split(options.torch) + ["python3", "tests/beside/zoo.py"]
    qdq = shlex.split(options.qdq)
    listing = WORK / "networks.json"
    if not listing.exists():
        listing.write_text(command(torch + ["list"]))
    networks = json.loads(listing.read_text())
    done = results()
    for _, name in networks:
        if (options.only and name not in options.only) or (not options.only and name in done):
            continue
        entry, began = {"name": name, "stage": "export"}, time.time()
        try:
            entry |= json.loads(command(torch + ["export", name]).splitlines()[-1])
            entry["stage"] = "quantize"
            entry["same"] = quantize(name, qdq)
            entry["stage"] = "check"
            entry |= json.loads(command(torch + ["check", name]).splitlines()[-1])
            entry["stage"] = "done"
        except Exception as problem:  # one network's trouble must not hide the others' results
            entry["error"] = str(problem)
        entry["passed"] = entry["stage"] == "done" and entry["agrees"] and entry["same"]
        entry["seconds"] = time.time() - began
        with open(WORK / "results.jsonl", "a") as file:
            file.write(json.dumps(entry) + "\n")
        print(json.dumps(entry), flush=True)
        if not options.keep:
            for file in WORK.glob(f"{name}.*"):
                file.unlink()
    entries = results()
    failed = [name for name, entry in entries.items() if not entry["passed"]]
    print(
        f"{len(entries) - len(failed)} of {len(networks)} passed, {len(networks) - len(entries)} not run, "
        f"failed: {', '.join(failed) or 'none'}"
    )
    return 1 if failed else 0


def steps_text(found):
    text = f"{found['steps']:.2g}"
    own = [f"{found['torch']:.2g}"] if "torch" in found else []
    own += [f"rounding {found['rounding']:.2g}"] if "rounding" in found else []
    return text + (f" ({'; '.join(own)})" if own else "")


def table():
    entries = results()
    networks = json.loads((WORK / "networks.json").read_text())
    rows, notes, missing = [], [], []
    for _, name in networks:
        if name not in entries:
            missing.append(name)
            continue
        e = entries[name]
        if e["stage"] != "done":
            notes.append(f"{name}: {e['stage']} failed: {e['error']}")
            continue
        error = f"{e['float']:.1e}" + (f" ({e['float_torch']:.1e})" if "float_torch" in e else "")
        columns = [name, str(e["size"]), e["batch"], f"{e['gmacs']:.2f}", error, "yes" if e["same"] else "NO"] + [
            steps_text(e[recipe]) for recipe in RECIPES
        ]
        columns += [f"{e['float_mb']:.1f}", f"{e['xnnpack']['mb']:.1f}", "yes" if e["passed"] else "NO"]
        rows.append("| " + " | ".join(columns) + " |")
    passed = sum(e["passed"] for e in entries.values())
    head = [
        "network",
        "image",
        "batch",
        "GMACs",
        "float error",
        "both layouts alike",
        "XNNPACK, steps",
        "X86, steps",
        "float MB",
        "int8 MB",
        "passed",
    ]
    text = (
        f"""# torchvision's networks

{passed} of the {len(networks)} networks pass. Measured on {datetime.date.today()} with PyTorch 2.6,
torchvision 0.21 and random weights by

    python3 tests/beside/zoo.py run --torch "COMMAND that starts a Python with PyTorch 2.6"
    python3 tests/beside/zoo.py table

PyTorch 2.6 exports every network at its default image size, and the script also stores it in the archive layout of
PyTorch 2.14. qdq loads and runs both, and quantizes with the XNNPACK and the X86 recipe on two images (on one above
20 GMACs). PyTorch loads and runs the int8 files.

- *batch*: "any" if the exported batch is symbolic, else its size.
- *float error*: the largest difference from PyTorch's output, relative to the largest output. Below 1e-4 passes, or
  below twice PyTorch's own distance from float64 where that is larger (in brackets).
- *both layouts alike*: the float outputs and the int8 files are the same bytes.
- *steps*: the largest difference between qdq's and PyTorch's outputs of the same int8 file in quantization steps of the
  output. 2 or less passes, or twice the largest distance between PyTorch's own kernels on that file (oneDNN, ATen,
  float64; in brackets), or what PyTorch's output moves by when one activation of each tensor is rounded the other way
  (*rounding*; `tests/beside/zoo.py` says why).

| {" | ".join(head)} |
|{"---|" * len(head)}
"""
        + "\n".join(rows)
        + "\n"
    )
    if missing:
        notes.append("not run: " + ", ".join(missing))
    if notes:
        text += "\n" + "\n".join(f"- {note}" for note in notes) + "\n"
    (ROOT / "docs" / "zoo.md").write_text(text)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=["run", "table", "list", "export", "check"])
    parser.add_argument("name", nargs="?", help="for list, export and check, which `run` calls in PyTorch")
    parser.add_argument("--torch")
    parser.add_argument("--only", action="append")
    parser.add_argument("--qdq", default="./dev qdq")
    parser.add_argument("--keep", action="store_true", help="keep the files of each network")
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    if options.stage == "run":
        if not options.torch:
            parser.error("run needs --torch")
        sys.exit(run(options))
    if options.stage == "table":
        sys.exit(table())
    if options.stage == "list":
        print(json.dumps(all_networks()))
    else:
        {"export": export, "check": check}[options.stage](options.name)


if __name__ == "__main__":
    main()
