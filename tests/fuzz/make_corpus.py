#!/usr/bin/env python3
"""Makes the corpus of the fuzz targets: small files of each kind, in tests/fuzz/corpus/TARGET.

Needs numpy, onnx, Pillow and PyTorch 2.6: python3 tests/fuzz/make_corpus.py
"""

import io
import json
import pickle
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import torch
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

CORPUS = Path(__file__).parent / "corpus"
RANDOM = np.random.default_rng(20261123)


def put(target, name, data):
    """Writes a file of the corpus of a target."""
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())


def floats(*shape):
    """Small random numbers."""
    return RANDOM.normal(0, 0.4, shape).astype(np.float32)


def model(name, nodes, shape, weights=(), opset=17):
    """An ONNX model from x to y."""
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, key) for key, value in dict(weights).items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    proto.ir_version = 8
    put("onnx", name + ".onnx", proto.SerializeToString())


def node(op, inputs, outputs, **attributes):
    """A node by the names of its values, in words."""
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def models():
    """Graphs of the kinds that are quantized."""
    model(
        "conv",
        [
            node("Conv", "x w b", "c", pads=[1, 1, 1, 1]),
            node("Relu", "c", "r"),
            node("MaxPool", "r", "y", kernel_shape=[2, 2]),
        ],
        [1, 2, 6, 6],
        {"w": floats(4, 2, 3, 3), "b": floats(4)},
    )
    model(
        "residual",
        [
            node("Conv", "x w", "c"),
            node("BatchNormalization", "c s b m v", "n"),
            node("Clip", "n low high", "k"),
            node("Add", "k x", "a"),
            node("GlobalAveragePool", "a", "g"),
            node("Flatten", "g", "f"),
            node("Gemm", "f l", "y", transB=1),
        ],
        ["n", 3, 5, 5],
        {
            "w": floats(3, 3, 1, 1),
            "s": floats(3),
            "b": floats(3),
            "m": floats(3),
            "v": abs(floats(3)),
            "l": floats(2, 3),
            "low": np.float32(0),
            "high": np.float32(6),
        },
    )
    model(
        "attention",
        [
            node("MatMul", "x q", "a"),
            node("Transpose", "a", "t", perm=[0, 2, 1]),
            node("MatMul", "a t", "s"),
            node("Softmax", "s", "p", axis=-1),
            node("MatMul", "p a", "o"),
            node("LayerNormalization", "o g", "n"),
            node("Erf", "n", "y"),
        ],
        [1, 3, 4],
        {"q": floats(4, 4), "g": floats(4)},
    )
    model(
        "views",
        [
            node("Reshape", "x d", "r"),
            node("Split", "r", "a b", axis=1),
            node("Concat", "a b", "c", axis=0),
            node("Slice", "c i j", "s"),
            node("Unsqueeze", "s z", "u"),
            node("Squeeze", "u z", "q"),
            node("Gather", "q i", "y"),
        ],
        [2, 6],
        {"d": np.array([3, 4]), "i": np.array([0]), "j": np.array([2]), "z": np.array([1])},
    )
    model("lstm", [node("LSTM", "x w r", "y", hidden_size=2)], [3, 1, 2], {"w": floats(1, 8, 2), "r": floats(1, 8, 2)})
    model("upsample", [node("Resize", "x  s", "y", mode="linear")], [1, 1, 3, 3], {"s": np.float32([1, 1, 2, 2])})
    model(
        "integers",
        [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "y")],
        [2, 3],
        {"s": np.float32(0.1), "z": np.uint8(3)},
    )
    model(
        "gates",
        [node("Sigmoid", "x", "a"), node("Mul", "x a", "b"), node("HardSwish", "b", "c"), node("Pow", "c e", "y")],
        [2, 3],
        {"e": np.float32(2)},
    )


def recipes():
    """Recipes of each quantizer, and patterns."""
    symmetric = {"is_per_channel": True}
    spec = {
        "spec": "quantization",
        "dtype": "int8",
        "quant_min": -128,
        "quant_max": 127,
        "qscheme": "per_tensor_affine",
        "observer": {"class": "HistogramObserver", "args": {"bins": 64, "eps": 0.0002}},
    }
    weight = {
        **spec,
        "qscheme": "per_channel_symmetric",
        "ch_axis": 0,
        "observer": {"class": "PerChannelMinMaxObserver"},
    }
    fixed = {"spec": "fixed_qparams", "dtype": "uint8", "scale": 0.00390625, "zero_point": 0}
    override = [{"edge": ["x", "conv2d"], "attributes": {"quant_max": 63, "dtype": "int8"}}]
    cases = {
        "xnnpack": {"quantizer": "XNNPACKQuantizer", "global": symmetric, "observer_overrides": override},
        "specs": {
            "quantizer": "XNNPACKQuantizer",
            "global": {"input_activation": spec, "output_activation": spec, "weight": weight},
        },
        "x86": {
            "quantizer": "X86InductorQuantizer",
            "global": {"is_dynamic": False},
            "function_type": [["torch.nn.functional.relu", None]],
        },
        "fx": {"quantizer": "QConfigMapping", "qconfig_mapping": {"default": "x86", "module_name": [["head", None]]}},
        "annotations": {
            "quantizer": "AnnotationQuantizer",
            "annotations": [
                {"node": "conv2d", "inputs": [["x", spec], ["weight", weight]], "output": fixed},
                {"node": "relu", "output": {"spec": "shared", "with": {"node": "conv2d"}}},
            ],
        },
        "composed": {
            "quantizer": "ComposableQuantizer",
            "quantizers": [
                {"quantizer": "EmbeddingQuantizer"},
                {"quantizer": "XNNPACKQuantizer", "global": {"is_dynamic": True}},
            ],
        },
        "pattern": {
            "inputs": ["x"],
            "outputs": ["y"],
            "nodes": [{"name": "y", "target": "torch.ops.aten.relu.default", "args": [{"node": "x"}]}],
        },
    }
    for name, case in cases.items():
        put("recipe", name + ".json", json.dumps(case))
    put("json", "preprocess.json", '{"resize": [8, 8], "crop": [4, 4], "mean": [0.5], "std": [0.25], "scale": 0.00392}')
    put("json", "values.json", '{"a": [1, -2.5e3, true, null, "\\u00e9\\n"], "b": {"c": 9007199254740993}}')


def arrays():
    """Arrays, pictures and archives."""

    def bytes_of(save):
        out = io.BytesIO()
        save(out)
        return out.getvalue()

    npy = {
        name: bytes_of(lambda out, a=array: np.save(out, a))
        for name, array in {
            "floats": floats(2, 3),
            "fortran": np.asfortranarray(floats(3, 2)),
            "big": np.arange(4, dtype=">i4"),
            "labels": np.array([0, 1]),
            "none": np.zeros((0, 2), np.int8),
        }.items()
    }
    npz = bytes_of(lambda out: np.savez_compressed(out, x=floats(2, 3, 6, 6)))
    for name, data in npy.items():
        put("npz", name + ".npy", data)
    put("npz", "arrays.npz", bytes_of(lambda out: np.savez(out, x=floats(2, 2), y=np.array([True, False]))))
    put("npz", "deflated.npz", npz)
    picture = Image.fromarray(RANDOM.integers(0, 256, (6, 5, 3), dtype=np.uint8))
    pictures = {kind: bytes_of(lambda out, k=kind: picture.save(out, k)) for kind in ("PNG", "JPEG", "BMP")}
    pictures["palette.PNG"] = bytes_of(lambda out: picture.convert("P").save(out, "PNG"))
    for kind, data in pictures.items():
        put("image", "picture." + kind.lower(), data)

    def archive(out):
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for name, data in {"0.png": pictures["PNG"], "0.cls": b"1", "a" * 120 + ".png": pictures["PNG"]}.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))

    # Without the zeros that fill a whole record.
    tar = bytes_of(archive).rstrip(b"\0")
    tar += bytes(-len(tar) % 512 + 1024)
    put("tar", "shard.tar", tar)

    def members(out):
        with zipfile.ZipFile(out, "w") as zipped:
            zipped.writestr("stored", b"abc" * 9)
            zipped.writestr("deflated", b"abc" * 99, zipfile.ZIP_DEFLATED)

    put("zip", "members.zip", bytes_of(members))
    for i, data in enumerate(
        [
            b"0.bmp,cat\n1.bmp,1\n",
            b'cat\n"a dog"\n',
            b'{"resize": [6], "mean": [0.1, 0.2, 0.3]}',
            tar,
            npz,
            pictures["BMP"],
            npy["labels"],
            npy["floats"],
        ]
    ):
        put("data", f"{i}.bin", bytes([i]) + data)
    state = {"w": torch.ones(2, 3), "n": torch.arange(3)[1:], "s": [1, "two", None, (3.5, True)]}
    put("torch_file", "state.pt", bytes_of(lambda out: torch.save(state, out)))
    for protocol in (2, 4):
        put(
            "pickle",
            f"plain_{protocol}.pkl",
            pickle.dumps({"a": [1, 2.5, (None, b"x")], "b": {1 << 70, "t"}}, protocol),
        )
    with zipfile.ZipFile(io.BytesIO(bytes_of(lambda out: torch.save(state, out)))) as zipped:
        put("pickle", "state.pkl", zipped.read(next(n for n in zipped.namelist() if n.endswith("data.pkl"))))


class Net(torch.nn.Module):
    """A convolution and a linear layer."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(2, 3, 3)
        self.linear = torch.nn.Linear(3, 2)

    def forward(self, x):
        """Mean of the convolution's planes, then two classes."""
        return self.linear(torch.relu(self.conv(x)).mean((2, 3)))


def programs():
    """A program that PyTorch exported."""
    torch.manual_seed(0)
    out = io.BytesIO()
    torch.export.save(torch.export.export_for_training(Net().eval(), (torch.ones(1, 2, 5, 5),)), out)
    put("pt2", "net.pt2", out.getvalue())


models()
recipes()
arrays()
programs()
