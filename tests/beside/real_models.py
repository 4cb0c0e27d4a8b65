"""Quantizes trained models with qdq, natively and in Node, and holds the results against PyTorch's.

  python3 tests/beside/real_models.py prepare MODELS DATA
      in a Python with PyTorch 2.6, NumPy and Pillow: inputs, labels, PyTorch's own int8
  python3 tests/beside/real_models.py quantize MODELS
      where qdq runs: quantizes with both builds, compares bytes, evaluates
  python3 tests/beside/real_models.py check MODELS
      in PyTorch again: loads qdq's files, compares qparams, weights and outputs

MODELS and DATA are folders laid out as each model's README says; every stage takes --only NAME. What is made goes to
build/models. A model that is not there is skipped with a message. Exit status 1 if anything differs by more than the
limits below.
"""

import argparse
import csv
import json
import subprocess
import sys
import time
from pathlib import Path

from positional import positional

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "models"
NAMES = [
    "mnist-cnn",
    "kws-ds-cnn",
    "cifar-resnet20",
    "squeezenet1_1",
    "mobilenet-v1-075",
    "kws-kwt1",
    "trec-transformer",
]
QUANTIZERS = {"xnnpack": "xnnpack", "x86": "x86-inductor"}
BACKENDS = ["onednn", "simd"]
BATCH = 10
# PyTorch's scales depend on the kernels that it runs on: where a histogram's cut falls between two bins, the last bit
# of a sum decides. So `prepare` quantizes with PyTorch on this machine as it comes ("default") and without oneDNN
# ("native"), and its README's figures, made on another machine, stand beside ("recorded"). Calibrated on oneDNN, a
# scale must be one of these three; on the portable kernels, which add in an order of their own, those that moved are
# counted and may not move far.
SCALE_LIMIT = 1e-5
PORTABLE_LIMIT = 0.1
# Top-1 on oneDNN must lie within PyTorch's own range, or this near to it; on the portable kernels it may not be lower
# than that.
TOP1_LIMIT = 0.003
failures = []


def fail(text):
    failures.append(text)
    print(f"  FAIL {text}")


# --- prepare
# -----------------------------------------------------------------------------------------------------------


def load_data(name, data):
    """Calibration inputs, test inputs and test labels as the model's README describes them."""
    import numpy

    def split(table, column, label):
        with open(table) as lines:
            rows = [row for row in csv.DictReader(lines) if row[column]]
        pick = lambda part: [row for row in rows if row["split"] == part]
        return pick("calib"), pick("test"), lambda rows: numpy.array([int(row[label]) for row in rows])

    if name == "cifar-resnet20":
        folder = data / "cifar10-jpeg"
        mean, std = (numpy.array(v, "float32") for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
        image = lambda a: ((a.astype("float32") / numpy.float32(255) - mean) / std).transpose(0, 3, 1, 2)
        load = lambda part: image(numpy.load(folder / f"{part}_images.npy"))
        return load("calib"), load("test"), numpy.load(folder / "test_labels.npy")
    if name == "mnist-cnn":
        load = lambda part: numpy.load(data / "mnist" / f"{part}_images.npy").astype("float32").reshape(-1, 1, 28, 28)
        return load("calib"), load("test"), numpy.load(data / "mnist" / "test_labels.npy")
    if name == "trec-transformer":
        load = lambda part: numpy.load(data / "trec" / f"{part}_ids.npy").astype("int64")
        return load("calib"), load("test"), numpy.load(data / "trec" / "test_labels.npy")
    if name.startswith("kws"):
        table = data / "speech-commands" / "labels.csv"
        if name == "kws-ds-cnn":
            calib, test, labels = split(table, "row", "ds_cnn_label")
            features = numpy.load(data / "speech-commands" / "ds_cnn_mfcc.npy").astype("float32")
            features = ((features + numpy.float32(-83)) * numpy.float32(0.5847029)).reshape(-1, 1, 49, 10)
            column = "row"
        else:
            calib, test, labels = split(table, "kwt_row", "kwt_label")
            features = numpy.load(data / "speech-commands" / "kwt_mfcc.npy").astype("float32") / numpy.float32(64)
            column = "kwt_row"
        rows = lambda part: features[[int(row[column]) for row in part]]
        return rows(calib), rows(test), labels(test)

    from PIL import Image

    calib, test, labels = split(data / "imagenet-sample" / "labels.csv", "file", "label")

    def images(rows):
        out = numpy.empty((len(rows), 3, 224, 224), "float32")
        for i, row in enumerate(rows):
            pixels = numpy.asarray(Image.open(data / "imagenet-sample" / "images" / row["file"]).convert("RGB")).astype(
                "float32"
            )
            if name == "squeezenet1_1":
                pixels = pixels[:, :, ::-1] - numpy.array([103.939, 116.779, 123.68], "float32")
            else:
                pixels = pixels / numpy.float32(127.5) - numpy.float32(1)
            out[i] = pixels.transpose(2, 0, 1)
        return out

    return images(calib), images(test), labels(test)


def torch_quantizer(name):
    if name == "x86":
        from torch.ao.quantization.quantizer import x86_inductor_quantizer as x86

        return x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config())
    from torch.ao.quantization.quantizer import xnnpack_quantizer as xnnpack

    return xnnpack.XNNPACKQuantizer().set_global(xnnpack.get_symmetric_quantization_config(is_per_channel=True))


def quantized_facts(graph_module):
    """[(dtype, scale, zero point)] of the quantize nodes in order, and [(int weights, scale)] behind the dequantize
    nodes.
    """
    activations, weights = [], []
    for node in graph_module.graph.nodes:
        target = str(node.target)
        if target.startswith("quantized_decomposed.quantize_per_tensor"):
            activations.append((node.name, str(node.args[5]), float(node.args[1]), int(node.args[2])))
        if target.startswith("quantized_decomposed.dequantize") and node.args[0].op == "get_attr":
            value = graph_module
            for part in node.args[0].target.split("."):
                value = getattr(value, part)
            weights.append((node.name, value.detach().numpy()))
    return activations, weights


def relative(scales, others):
    return [abs(a - b) / b for a, b in zip(scales, others)]


def prepare(name, models, data):
    import numpy
    import torch
    from torch.ao.quantization.quantize_pt2e import convert_pt2e, prepare_pt2e

    folder = WORK / name
    folder.mkdir(parents=True, exist_ok=True)
    calib, test, labels = load_data(name, data)
    numpy.savez(folder / "calib.npz", arr_0=calib)
    numpy.savez(folder / "test.npz", arr_0=test)
    numpy.savez(folder / "first.npz", arr_0=test[:32])
    numpy.save(folder / "labels.npy", labels.astype("int64"))
    torch.set_num_threads(1)
    for quantizer in QUANTIZERS:
        facts = {}
        for kernels, mkldnn in (("default", True), ("native", False)):
            graph = positional(torch.export.load(models / name / "model.pt2").module())
            prepared = prepare_pt2e(graph, torch_quantizer(quantizer))
            with torch.no_grad(), torch.backends.mkldnn.flags(enabled=mkldnn):
                for start in range(0, len(calib), BATCH):
                    prepared(torch.from_numpy(calib[start : start + BATCH]))
            converted = convert_pt2e(prepared)
            with torch.no_grad():
                answers = [
                    converted(torch.from_numpy(test[i : i + 20])).argmax(1).numpy() for i in range(0, len(test), 20)
                ]
            activations, weights = quantized_facts(converted)
            facts[kernels] = {
                "scale": [a[2] for a in activations],
                "zero_point": [a[3] for a in activations],
                "top1": float((numpy.concatenate(answers) == labels).mean()),
            }
            print(f"  {name} {quantizer} {kernels}: top-1 {facts[kernels]['top1']:.4f}", flush=True)
        numpy.savez(folder / f"{quantizer}_weights.npz", *[w for _, w in weights])
        recorded = json.loads((models / name / "reference" / f"{quantizer}_qparams.json").read_text())["activations"]
        accuracy = json.loads((models / name / "reference" / "accuracy_torch.json").read_text())
        facts["recorded"] = {
            "scale": [a["scale"] for a in recorded],
            "zero_point": [a["zero_point"] for a in recorded],
            "top1": accuracy[quantizer][0],
        }
        (folder / f"{quantizer}_torch.json").write_text(json.dumps(facts))
        for kernels in ("native", "recorded"):
            errors = relative(facts[kernels]["scale"], facts["default"]["scale"])
            print(
                f"  {name} {quantizer}: {sum(e <= SCALE_LIMIT for e in errors)} of {len(errors)} scales "
                f"of PyTorch {kernels} within {SCALE_LIMIT} of PyTorch default, worst {max(errors):.1e}",
                flush=True,
            )
    print(f"{name}: {len(calib)} calibration and {len(test)} test samples")


# --- quantize
# ----------------------------------------------------------------------------------------------------------


def run(command, threads=1):
    start = time.time()
    done = subprocess.run(
        [*map(str, command), "--threads", str(threads)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stderr.strip()[-600:]}")
    return done.stdout, time.time() - start


def top1_of(text, file):
    line = next(line for line in text.splitlines() if line.startswith(str(file)))
    return float(line[len(str(file)) :].split()[0]) / 100


def torch_facts(name, short):
    return json.loads((WORK / name / f"{short}_torch.json").read_text())


def quantize(name, models, options):
    folder = (WORK / name).relative_to(ROOT)
    model = folder / "model.pt2"
    (ROOT / model).write_bytes((models / name / "model.pt2").read_bytes())
    expected = json.loads((models / name / "reference" / "accuracy_torch.json").read_text())
    native, node = options.native.split(), options.node.split()
    outputs = {}
    for short in QUANTIZERS:
        recipe = folder / f"{short}.json"
        config = {"is_per_channel": True} if short == "xnnpack" else {}
        (ROOT / recipe).write_text(
            json.dumps(
                {
                    "quantizer": "XNNPACKQuantizer" if short == "xnnpack" else "X86InductorQuantizer",
                    "global": config,
                    "compat": "torch-2.6",
                }
            )
        )
        command = [
            "quantize",
            model,
            "--calibrate",
            folder / "calib.npz",
            "--recipe",
            recipe,
            "--batch-size",
            BATCH,
            "-o",
        ]
        text = f"  {name} {short}:"
        for backend in BACKENDS:
            int8 = folder / f"{short}_{backend}.pt2"
            _, seconds = run(native + command + [int8, "--backend", backend])
            outputs[short, backend] = int8
            run(
                native + ["run", int8, "--inputs", folder / "first.npz", "-o", folder / f"{short}_{backend}_logits.npz"]
            )
            text += f" {backend} {seconds:.1f} s,"
        text += f" {(ROOT / int8).stat().st_size} bytes"
        if not options.skip_node:
            other = folder / f"{short}_node.pt2"
            for threads in options.node_threads:
                _, seconds = run(node + command + [other], threads)
                same = (ROOT / outputs[short, "simd"]).read_bytes() == (ROOT / other).read_bytes()
                text += f", Node with {threads} threads {seconds:.1f} s, bytes {'equal' if same else 'DIFFER'}"
                if not same:
                    fail(f"{name} {short}: the native and the Node file differ ({threads} threads)")
        print(text, flush=True)
    if options.skip_evaluate:
        return
    text, _ = run(
        native
        + ["evaluate", model]
        + list(outputs.values())
        + ["--data", folder / "test.npz", "--labels", folder / "labels.npy"]
    )
    line = f"  {name} float {top1_of(text, model):.4f} (PyTorch {expected['float'][0]:.4f})"
    for (short, backend), int8 in outputs.items():
        top1 = top1_of(text, int8)
        theirs = {kernels: facts["top1"] for kernels, facts in torch_facts(name, short).items()}
        line += f", {short} {backend} {top1:.4f}"
        if backend == BACKENDS[-1]:
            line += f" (PyTorch {', '.join(f'{value:.4f} {kernels}' for kernels, value in theirs.items())})"
        apart = min(theirs.values()) - top1
        if backend == "onednn":
            apart = max(apart, top1 - max(theirs.values()))
        if apart > TOP1_LIMIT + 5e-5:
            fail(f"{name} {short} {backend}: top-1 {top1:.4f}, PyTorch's is {theirs}")
    print(line, flush=True)


# --- check
# -------------------------------------------------------------------------------------------------------------


def check(name):
    import torch.ao.quantization.fx._decomposed  # noqa: F401  registers the quantized_decomposed operators

    folder = WORK / name
    for short in QUANTIZERS:
        for backend in BACKENDS:
            check_file(name, folder, short, backend)


def check_file(name, folder, short, backend):
    import numpy
    import torch

    which = f"{name} {short} {backend}"
    file = folder / f"{short}_{backend}.pt2"
    if not file.exists():
        print(f"  {which}: not quantized, skipped")
        return
    graph = torch.export.load(file).module()
    activations, weights = quantized_facts(graph)
    facts = torch_facts(name, short)
    default = facts["default"]
    if len(default["scale"]) != len(activations):
        fail(f"{which}: {len(activations)} quantize nodes, PyTorch has {len(default['scale'])}")
        return
    scales = [a[2] for a in activations]
    errors = relative(scales, default["scale"])
    nearest = [min(each) for each in zip(*(relative(scales, other["scale"]) for other in facts.values()))]
    spread = max(error for other in facts.values() for error in relative(other["scale"], default["scale"]))
    moved = [a[0] for a, zero_point in zip(activations, default["zero_point"]) if a[3] != zero_point]
    limit = SCALE_LIMIT if backend == "onednn" else PORTABLE_LIMIT
    far = [f"{a[0]} {error:.1e}" for a, error in zip(activations, nearest) if error > limit]
    if far:
        fail(f"{which}: scales that are none of PyTorch's: {', '.join(far[:6])}{' ...' if len(far) > 6 else ''}")
    with numpy.load(folder / f"{short}_weights.npz") as arrays:
        theirs = [arrays[key] for key in arrays.files]
    different = sum(
        int((ours != other).sum()) if ours.shape == other.shape else ours.size
        for (_, ours), other in zip(weights, theirs)
    )
    if len(theirs) != len(weights) or different:
        fail(f"{which}: {different} integer weights differ in {len(weights)} tensors (PyTorch: {len(theirs)})")
    with numpy.load(folder / "first.npz") as arrays, torch.no_grad():
        theirs = graph(torch.from_numpy(arrays["arr_0"])).numpy()
    with numpy.load(folder / f"{short}_{backend}_logits.npz") as arrays:
        ours = arrays[arrays.files[0]]
    worst = float(numpy.abs(ours - theirs).max() / numpy.abs(theirs).max())
    agree = float((ours.argmax(1) == theirs.argmax(1)).mean())
    print(
        f"  {which}: {sum(e <= SCALE_LIMIT for e in errors)} of {len(errors)} scales within {SCALE_LIMIT} "
        f"of PyTorch default, {sum(e <= SCALE_LIMIT for e in nearest)} of one of PyTorch's; "
        f"worst {max(errors, default=0):.1e} (PyTorch's own {spread:.1e}), {len(moved)} zero points moved; "
        f"{len(weights)} weight tensors, {different} integers differ; PyTorch running qdq's file: "
        f"outputs at most {worst:.1e} of the largest apart, top-1 agrees on {agree:.3f}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=["prepare", "quantize", "check"])
    parser.add_argument("models", type=Path)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--only", action="append")
    parser.add_argument("--native", default="./dev qdq")
    parser.add_argument("--node", default="node dist/cjs/node/cli.js")
    parser.add_argument("--node-threads", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--skip-node", action="store_true")
    parser.add_argument("--skip-evaluate", action="store_true")
    options = parser.parse_args()
    for name in options.only or NAMES:
        if not (options.models / name / "model.pt2").exists():
            print(f"{name}: no {options.models / name / 'model.pt2'}, skipped")
            continue
        try:
            if options.stage == "prepare":
                prepare(name, options.models, options.data)
            elif options.stage == "quantize":
                quantize(name, options.models.resolve(), options)
            else:
                check(name)
        except Exception as error:  # one model's trouble must not hide the others' results
            fail(f"{name}: {type(error).__name__}: {error}")
    print(f"{len(failures)} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
