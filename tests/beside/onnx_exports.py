"""Exports networks to ONNX as users do and takes the files through tests/beside/onnx_models.py: the classification
networks of torchvision, networks like BERT, GPT and those around LSTM and GRU, and those of
tests/beside/export_networks.py.

  python3 tests/beside/onnx_exports.py --torch COMMAND [--only NAME ...] [--exporters TorchScript dynamo]
      [--qdq COMMAND] [--node COMMAND] [--onnxruntime COMMAND]
  python3 tests/beside/onnx_exports.py --make NAME FOLDER EXPORTER ...      in a Python with PyTorch 2.6 and torchvision

Weights are random; the outputs that qdq's are held against are PyTorch's. The batch is open, and of sequences the
length. Images are 96 x 96 where the network takes any. torch.onnx.export writes as TorchScript does (opset 17); its
newer form (dynamo=True, opset 18) is tried too where the package onnxscript is there. Each file is opened, run,
quantized to int8 ONNX by both quantizers, and those files run by qdq and ONNX Runtime. What is made goes to
build/onnx_exports, a network at a time. A second call goes on where the first ended. Prints a table in Markdown with a
row for each file: the largest difference from PyTorch's outputs, then for each quantizer the mean difference of the
int8 file's outputs from PyTorch's, and of ONNX Runtime's outputs of that file from qdq's (and where that is much, of
ONNX Runtime's from its own without optimizations); all over the largest output.
"""

import argparse
import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import onnx_models

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "onnx_exports"
IMAGE = 96
# Networks that take one size only, and the smallest that others take.
SIZES = {"maxvit_t": 224, "inception_v3": 299, "vit_h_14": 224}
ONNX_RUNTIME = [f"{quantizer} in ONNX Runtime" for quantizer in onnx_models.QUANTIZERS]
EXPORTERS = ["TorchScript", "dynamo"]
SEQUENCES = ["bert", "bert_pooled", "gpt", "lstm", "lstm_bidirectional", "gru", "rnn", "seq2seq"]


# --- in PyTorch
# --------------------------------------------------------------------------------------------------------


def sequence_network(name):
    """A network, example inputs, and which axes are open."""
    import torch
    from torch import nn

    words, width, heads = 1000, 64, 4

    class Bert(nn.Module):
        def __init__(self, pools):
            super().__init__()
            self.words, self.places, self.kinds = (nn.Embedding(n, width) for n in (words, 128, 2))
            self.norm = nn.LayerNorm(width)
            layer = nn.TransformerEncoderLayer(width, heads, 4 * width, activation="gelu", batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
            self.pooler, self.pools = nn.Linear(width, 2), pools

        def forward(self, ids, mask):
            places = torch.arange(ids.shape[1]).unsqueeze(0)
            x = self.norm(self.words(ids) + self.places(places) + self.kinds(torch.zeros_like(ids)))
            x = self.encoder(x, src_key_padding_mask=mask == 0)
            return torch.tanh(self.pooler(x[:, 0])) if self.pools else x

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(words, width), nn.Embedding(128, width)
            parts = lambda: nn.ModuleList(
                [nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)]
                + [nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)]
            )
            self.blocks = nn.ModuleList(parts() for _ in range(3))
            self.norm = nn.LayerNorm(width)

        def forward(self, ids):
            batch, length = ids.shape
            x = self.words(ids) + self.places(torch.arange(length))
            for before, qkv, out, between, up, down in self.blocks:
                split = qkv(before(x)).view(batch, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
                attended = nn.functional.scaled_dot_product_attention(split[0], split[1], split[2], is_causal=True)
                x = x + out(attended.transpose(1, 2).reshape(batch, length, width))
                x = x + down(nn.functional.gelu(up(between(x)), approximate="tanh"))
            return self.norm(x) @ self.words.weight.t()

    class Recurrent(nn.Module):
        def __init__(self, kind, **settings):
            super().__init__()
            self.words = nn.Embedding(words, width)
            self.net = kind(width, 48, num_layers=2, batch_first=True, **settings)
            self.head = nn.Linear(96 if settings.get("bidirectional") else 48, 5)

        def forward(self, ids):
            return self.head(self.net(self.words(ids))[0][:, -1])

    class Seq2Seq(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(words, width)
            self.encoder, self.decoder = nn.LSTM(width, width), nn.LSTM(width, width)
            self.head = nn.Linear(width, words)

        def forward(self, source, target):
            state = self.encoder(self.words(source).transpose(0, 1))[1]
            return self.head(self.decoder(self.words(target).transpose(0, 1), state)[0]).transpose(0, 1)

    ids = torch.randint(0, words, (2, 12))
    open_axes = {0: "batch", 1: "length"}
    networks = {
        "bert": lambda: (Bert(False), {"ids": ids, "mask": torch.arange(12) < torch.tensor([[12], [9]])}),
        "bert_pooled": lambda: (Bert(True), {"ids": ids, "mask": torch.ones(2, 12, dtype=torch.bool)}),
        "gpt": lambda: (Gpt(), {"ids": ids}),
        "lstm": lambda: (Recurrent(nn.LSTM), {"ids": ids}),
        "lstm_bidirectional": lambda: (Recurrent(nn.LSTM, bidirectional=True), {"ids": ids}),
        "gru": lambda: (Recurrent(nn.GRU), {"ids": ids}),
        "rnn": lambda: (Recurrent(nn.RNN), {"ids": ids}),
        "seq2seq": lambda: (Seq2Seq(), {"source": ids, "target": ids[:, :7]}),
    }
    model, inputs = networks[name]()
    return model, inputs, {key: open_axes | ({1: "target_length"} if key == "target" else {}) for key in inputs}


def image_network(name):
    import torch
    import torchvision

    size = SIZES.get(name, 224 if name.startswith(("vit_", "vgg", "alexnet")) else IMAGE)
    options = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    model = torchvision.models.get_model(name, weights=None, **options)
    if name.startswith("vit"):  # whose last layer begins with zeros, and gives nothing else
        torch.nn.init.normal_(model.heads.head.weight, std=0.1)
    # Batch norms by what they see, as in a trained network; else some networks' outputs vanish.
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = None
    with torch.no_grad():
        model.train()(torch.randn(4, 3, size, size))
    return model, {"image": torch.randn(2, 3, size, size)}, {"image": {0: "batch"}}


def network(name):
    from export_networks import NETWORKS

    if name not in NETWORKS:
        return image_network(name)
    model, inputs, open_axes = NETWORKS[name]()
    return model, inputs, dict(zip(inputs, open_axes))


def make(name, folder, exporters):
    """FOLDER/EXPORTER with model.onnx, inputs.npz and outputs.npz of each exporter that is there, or error.txt."""
    import numpy
    import torch

    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(False)  # which torch.onnx.export has no form for
    model, inputs, open_axes = (sequence_network if name in SEQUENCES else network)(name)
    model.eval()
    with torch.no_grad():
        results = torch.utils._pytree.tree_leaves(model(*[value.clone() for value in inputs.values()]))
    names = {"input_names": list(inputs), "output_names": [f"out_{i}" for i in range(len(results))]}
    axes = open_axes | {key: {0: "batch"} for key in names["output_names"]}
    settings = {"TorchScript": {"opset_version": 17, "dynamic_axes": axes}}
    if has_onnxscript():
        # torch.export writes the steps of a recurrent layer one by one, and their number with them.
        is_unrolled = name in SEQUENCES and name not in ("bert", "bert_pooled", "gpt")
        shapes = tuple({0: "batch"} if is_unrolled else axes for axes in open_axes.values())
        settings["dynamo"] = {"dynamo": True, "opset_version": 18, "external_data": True, "dynamic_shapes": shapes}
    for exporter, how in settings.items():
        if exporter not in exporters:
            continue
        to = folder / exporter
        to.mkdir(parents=True)
        try:
            with torch.no_grad():
                torch.onnx.export(model, tuple(inputs.values()), str(to / "model.onnx"), **names, **how)
            numpy.savez(to / "inputs.npz", **{key: value.numpy() for key, value in inputs.items()})
            numpy.savez(to / "outputs.npz", *[value.numpy() for value in results])
        except Exception as error:
            (to / "error.txt").write_text(f"{type(error).__name__}: {str(error).strip()[:300]}")


def has_onnxscript():
    try:
        import onnxscript  # noqa: F401

        return True
    except ImportError:
        return False


def names():
    """Names of all networks, the cheapest first, and whether the newer exporter is there."""
    from export_networks import NETWORKS
    from torchvision import models
    from zoo import macs_of

    images = sorted(models.list_models(module=models), key=macs_of)
    print(json.dumps([SEQUENCES + list(NETWORKS) + images, has_onnxscript()]))


# --- where qdq runs
# ----------------------------------------------------------------------------------------------------


COLUMNS = ["network", "exporter", "difference"]
COLUMNS += [quantizer + what for quantizer in ("XNNPACK", "X86") for what in (": error", ", beside ONNX Runtime")]


def row_of(network, exporter, model):
    cell = lambda value: "–" if value == "–" else "**no**" if value is None else f"{value:.1e}"
    cells = [network, exporter, cell(model.row.get("native"))]
    for quantizer in onnx_models.QUANTIZERS:
        pair = model.row.get(quantizer)
        own = model.row.get(f"{quantizer} itself")
        beside = cell(model.row.get(f"{quantizer} in ONNX Runtime", "–"))
        cells += [cell(pair and pair[1]), beside if own is None else f"{beside} (itself: {own:.1e})"]
    return "| " + " | ".join(cells) + " |"


def take(network, exporters, python, options):
    """{exporter: {line: a row, failures, row: numbers by what was done}}."""
    folder, out = WORK / network, {}
    shutil.rmtree(folder, ignore_errors=True)
    made = python("--make", network, str(folder), *exporters)
    for exporter in exporters:
        error, source = f"ended with {made.returncode}: {made.stderr[-300:]}", folder / exporter
        if (source / "outputs.npz").exists():
            name = f"{network}-{exporter}"
            files = {file.name: file for file in source.iterdir()}
            model = onnx_models.take(name, files, options, ["onnx"], False)
            row = {"line": row_of(network, exporter, model), "failures": model.failures, "row": model.row}
            shutil.rmtree(onnx_models.WORK / name)
        elif source.exists() or made.returncode:
            error = (source / "error.txt").read_text() if (source / "error.txt").exists() else error
            failures = [f"{network}, {exporter}: PyTorch does not export it: {error}"]
            row = {"line": f"| {network} | {exporter} | PyTorch does not export it |  |  |  |  |", "failures": failures}
        else:
            continue
        shutil.rmtree(source, ignore_errors=True)
        out[exporter] = row
    shutil.rmtree(folder, ignore_errors=True)
    return out


def main():
    if len(sys.argv) > 4 and sys.argv[1] == "--make":
        return make(sys.argv[2], Path(sys.argv[3]), sys.argv[4:])
    if sys.argv[1:] == ["--names"]:
        return names()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", required=True, help="what starts a Python with PyTorch 2.6 and torchvision")
    parser.add_argument("--only", nargs="+", default=[], help="the networks of these names")
    parser.add_argument("--exporters", nargs="+", choices=EXPORTERS, default=EXPORTERS)
    parser.add_argument("--qdq", default="./dev qdq", help="the native command line")
    parser.add_argument("--node", default="", help="the package's")
    parser.add_argument("--onnxruntime", default="", help="what starts a Python with onnxruntime")
    options = parser.parse_args()
    in_torch, options.torch = [*shlex.split(options.torch), "python3", "tests/beside/onnx_exports.py"], ""
    python = lambda *words: subprocess.run(
        [*in_torch, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    WORK.mkdir(parents=True, exist_ok=True)
    listed = WORK / "names.json"
    if not listed.exists():
        listed.write_text(python("--names").stdout.splitlines()[-1])
    networks, newer = json.loads(listed.read_text())
    if not newer:
        print("torch.onnx.export(dynamo=True) is left out: the package onnxscript is not there\n")
    models = []
    print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS), flush=True)
    for network in [name for name in networks if not options.only or name in options.only]:
        file = WORK / f"{network}.json"
        rows = json.loads(file.read_text()) if file.exists() else {}
        wanted = [exporter for exporter in options.exporters if exporter not in rows]
        if wanted:
            rows |= take(network, wanted, python, options)
            file.write_text(json.dumps(rows))
        for found in rows.values():
            print(found["line"], flush=True)
            models.append(found)
    print()
    for found in models:
        for failure in found["failures"]:
            print("FAIL", failure)
    count = lambda *what: sum(all(m.get("row", {}).get(key) is not None for key in what) for m in models)
    print(
        f"{count('opens')} of {len(models)} open, {count('native')} agree, "
        f"{count(*onnx_models.QUANTIZERS)} quantize with both quantizers, of {count(*ONNX_RUNTIME)} ONNX Runtime gives "
        "qdq's outputs of both int8 files"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
