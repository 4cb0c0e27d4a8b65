"""Latency of single operators in qdq and ONNX Runtime, float: milliseconds of CPU time of one thread, worst ratio
first, and the share of the time that qdq spends in plain loops.

  python3 tests/bench/onnx_operators.py --onnxruntime COMMAND [--qdq COMMAND] [--only WORD ...] [--json OUT.json]

COMMAND starts a Python with onnx and onnxruntime in this checkout; it makes the models in build/onnx_operators, one for
each operator at sizes that networks have, and times ONNX Runtime before qdq. --only takes cases whose names contain a
word. Prints a table in Markdown, then every failure.
"""

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "onnx_operators"
SECONDS = 0.2  # of a turn


# --- in a Python with ONNX Runtime
# ------------------------------------------------------------------------------------


class Case:
    """One node. Inputs are arrays or None; those named in `weights` are initializers."""

    def __init__(self, name, op, inputs, weights=(), outputs=1, opset=18, **attributes):
        self.name, self.op, self.inputs, self.weights = name, op, inputs, set(weights)
        self.outputs, self.opset, self.attributes = outputs, opset, attributes

    def make(self, folder):
        import numpy
        from onnx import helper, numpy_helper, save, shape_inference

        folder.mkdir(parents=True, exist_ok=True)
        names = [f"x{i}" if x is not None else "" for i, x in enumerate(self.inputs)]
        outs = [f"y{i}" for i in range(self.outputs)]
        node = helper.make_node(self.op, names, outs, **self.attributes)
        given = [i for i, x in enumerate(self.inputs) if x is not None and i not in self.weights]
        tensor = lambda i: helper.make_tensor_value_info(
            names[i], helper.np_dtype_to_tensor_dtype(self.inputs[i].dtype), self.inputs[i].shape
        )
        graph = helper.make_graph(
            [node],
            "operator",
            [tensor(i) for i in given],
            [helper.make_empty_tensor_value_info(name) for name in outs],
            [numpy_helper.from_array(self.inputs[i], names[i]) for i in sorted(self.weights)],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])
        model.ir_version = 8
        model = shape_inference.infer_shapes(model)  # for the types of the outputs
        save(model, folder / "model.onnx")
        numpy.savez(folder / "inputs.npz", **{f"b0_i{k}": self.inputs[i] for k, i in enumerate(given)})


def make_cases():
    import numpy
    from onnx import TensorProto

    random = numpy.random.default_rng(1)
    f = lambda *shape: random.standard_normal(shape).astype(numpy.float32)
    positive = lambda *shape: numpy.abs(f(*shape)) + numpy.float32(0.1)
    words = str.split
    unit = lambda *shape: random.uniform(-0.9, 0.9, shape).astype(numpy.float32)
    index = lambda high, *shape: random.integers(0, high, shape)
    longs = lambda *values: numpy.array(values, numpy.int64)
    half = lambda x: x.astype(numpy.float16)
    cases = []
    add = lambda *arguments, **more: cases.append(Case(*arguments, **more))

    image, tokens = f(1, 64, 56, 56), f(8, 197, 768)
    unary = (
        "Relu Sigmoid Tanh Exp Sin Cos Tan Erf Floor Ceil Round Abs Neg Sign Softplus Softsign HardSigmoid HardSwish"
    )
    unary += " LeakyRelu Elu Selu Celu ThresholdedRelu Sinh Cosh Atan Asinh Mish IsNaN IsInf Identity Reciprocal"
    for op in unary.split():
        add(op, op, [image])
    for op in words("Acos Asin Atanh"):
        add(op, op, [unit(1, 64, 56, 56)])
    for op in words("Log Sqrt Acosh"):
        add(op, op, [positive(1, 64, 56, 56) + numpy.float32(1)])
    add("Gelu", "Gelu", [image], opset=20)
    add("Not", "Not", [image > 0])
    for op in words("Add Sub Mul Div Pow Max Min Equal Less Greater GreaterOrEqual Mod"):
        more = {"fmod": 1} if op == "Mod" else {}
        add(f"{op} equal", op, [positive(1, 64, 56, 56), positive(1, 64, 56, 56)], **more)
        add(f"{op} channel", op, [positive(1, 64, 56, 56), positive(1, 64, 1, 1)], **more)
        if op in ("Add", "Mul", "Max"):
            add(f"{op} row", op, [positive(1, 64, 56, 56), positive(56)])
            add(f"{op} int64", op, [index(9, 64, 3136), index(9, 64, 3136)])
    add("PRelu channel", "PRelu", [image, positive(64, 1, 1)], weights=[1])
    for op in words("And Or Xor"):
        add(op, op, [image > 0, f(1, 64, 56, 56) > 0])
    add("Where mask", "Where", [f(8, 12, 197, 197) > 0, f(8, 12, 197, 197), numpy.float32(-1e9)], weights=[2])
    add("Clip", "Clip", [image, numpy.float32(-1), numpy.float32(1)], weights=[1, 2])
    for name, to in (("half", TensorProto.FLOAT16), ("int64", TensorProto.INT64), ("uint8", TensorProto.UINT8)):
        add(f"Cast float to {name}", "Cast", [image], to=to)
    add("Cast bool to float", "Cast", [image > 0], to=TensorProto.FLOAT)
    add("Cast bool to double", "Cast", [image > 0], to=TensorProto.DOUBLE)
    add("Cast half to float", "Cast", [half(image)], to=TensorProto.FLOAT)
    add("Cast int64 to float", "Cast", [index(9, 64, 3136)], to=TensorProto.FLOAT)
    add("Cast uint8 to float", "Cast", [index(9, 64, 3136).astype(numpy.uint8)], to=TensorProto.FLOAT)

    reductions = words("Mean Sum Max Min Prod L1 L2 LogSum LogSumExp SumSquare")
    for op in reductions:
        x = positive(8, 197, 768) if op == "LogSum" else tokens
        add(f"Reduce{op} last", f"Reduce{op}", [x, longs(2)], weights=[1])
        add(f"Reduce{op} middle", f"Reduce{op}", [x, longs(1)], weights=[1])
    add("ReduceMean images", "ReduceMean", [image, longs(2, 3)], weights=[1])
    add("ReduceMean channels", "ReduceMean", [image, longs(1)], weights=[1])
    add("ReduceSum int64", "ReduceSum", [index(9, 64, 3136), longs(1)], weights=[1])
    for op in ("ArgMax", "ArgMin"):
        add(f"{op} last", op, [tokens], axis=2)
        add(f"{op} channels", op, [f(1, 21, 256, 256)], axis=1)
    add("CumSum last", "CumSum", [f(64, 4096), numpy.int64(1)], weights=[1])
    add("CumSum first", "CumSum", [f(1024, 256), numpy.int64(0)], weights=[1])
    add("Softmax last", "Softmax", [f(8, 12, 197, 197)], axis=3)
    add("Softmax channels", "Softmax", [f(1, 21, 128, 128)], axis=1)
    add("LogSoftmax last", "LogSoftmax", [f(64, 10000)], axis=1)
    add("LogSoftmax channels", "LogSoftmax", [f(1, 21, 128, 128)], axis=1)
    add("Hardmax", "Hardmax", [f(64, 1000)], axis=1)
    add("TopK 5 of 1000", "TopK", [f(64, 1000), longs(5)], weights=[1], outputs=2)
    add("TopK 300 of 20000", "TopK", [f(1, 20000), longs(300)], weights=[1], outputs=2)
    add("TopK all", "TopK", [f(16, 4096), longs(4096)], weights=[1], outputs=2)

    w = lambda *shape: f(*shape) / numpy.float32(numpy.prod(shape[1:]) ** 0.5)
    add("BatchNormalization", "BatchNormalization", [image, f(64), f(64), f(64), positive(64)], weights=[1, 2, 3, 4])
    add("InstanceNormalization", "InstanceNormalization", [image, f(64), f(64)], weights=[1, 2])
    add("GroupNormalization", "GroupNormalization", [image, f(64), f(64)], weights=[1, 2], opset=21, num_groups=8)
    add("LayerNormalization", "LayerNormalization", [tokens, f(768), f(768)], weights=[1, 2])
    add("LpNormalization", "LpNormalization", [f(64, 768)], axis=1)
    add("LRN", "LRN", [image], size=5)
    add("MeanVarianceNormalization", "MeanVarianceNormalization", [image])

    signal, volume = f(1, 64, 4096), f(1, 32, 16, 28, 28)
    for op in ("MaxPool", "AveragePool"):
        for name, x, axes in (("1d", signal, 1), ("2d", image, 2), ("3d", volume, 3)):
            add(f"{op} {name}", op, [x], kernel_shape=[3] * axes, strides=[2] * axes, pads=[1] * 2 * axes)
            add(f"{op} {name} 2", op, [x], kernel_shape=[2] * axes, strides=[2] * axes)
            add(f"Global{op} {name}", f"Global{op}", [x])
        add(f"{op} 5 stride 1", op, [f(1, 256, 20, 20)], kernel_shape=[5, 5], pads=[2, 2, 2, 2])
    add("LpPool", "LpPool", [image], kernel_shape=[2, 2], strides=[2, 2])
    add("MaxPool indices", "MaxPool", [image], kernel_shape=[2, 2], strides=[2, 2], outputs=2)
    conv = lambda name, x, kernel, **more: add(f"Conv {name}", "Conv", [x, kernel], weights=[1], **more)
    conv("1d", signal, w(64, 64, 3), pads=[1, 1])
    conv("1d wide", f(1, 1, 16000), w(64, 1, 400), strides=[160])
    conv("1d depthwise", signal, w(64, 1, 9), pads=[4, 4], group=64)
    conv("1d dilated", signal, w(64, 64, 3), pads=[8, 8], dilations=[8])
    conv("2d 1x1", image, w(64, 64, 1, 1))
    conv("2d 3x3", image, w(64, 64, 3, 3), pads=[1] * 4)
    conv("2d 3x3 stride", image, w(128, 64, 3, 3), pads=[1] * 4, strides=[2, 2])
    conv("2d stem", f(1, 3, 224, 224), w(64, 3, 7, 7), pads=[3] * 4, strides=[2, 2])
    conv("2d patch", f(1, 3, 224, 224), w(768, 3, 16, 16), strides=[16, 16])
    conv("2d depthwise", image, w(64, 1, 3, 3), pads=[1] * 4, group=64)
    conv("2d depthwise 7x7", image, w(64, 1, 7, 7), pads=[3] * 4, group=64)
    conv("2d depthwise 5x5 stride", image, w(64, 1, 5, 5), pads=[2] * 4, group=64, strides=[2, 2])
    conv("2d multiplier", image, w(128, 1, 3, 3), pads=[1] * 4, group=64)
    conv("2d groups", f(1, 128, 56, 56), w(128, 4, 3, 3), pads=[1] * 4, group=32)
    conv("2d groups 1x1", f(1, 240, 28, 28), w(240, 80, 1, 1), group=3)
    conv("2d dilated", f(1, 256, 28, 28), w(256, 256, 3, 3), pads=[12] * 4, dilations=[12, 12])
    conv("2d 1x7", f(1, 128, 17, 17), w(128, 128, 1, 7), pads=[0, 3, 0, 3])
    conv("3d", volume, w(32, 32, 3, 3, 3), pads=[1] * 6)
    conv("3d stem", f(1, 3, 16, 112, 112), w(32, 3, 3, 7, 7), pads=[1, 3, 3] * 2, strides=[1, 2, 2])
    conv("3d 1x1", volume, w(64, 32, 1, 1, 1))
    conv("3d depthwise", volume, w(32, 1, 3, 3, 3), pads=[1] * 6, group=32)
    add("Conv 2d given weights", "Conv", [f(1, 8 * 32, 28, 28), w(8 * 32, 32, 3, 3)], pads=[1] * 4, group=8)
    turned = lambda name, x, kernel, **more: add(f"ConvTranspose {name}", "ConvTranspose", [x, kernel], [1], **more)
    turned("1d", f(1, 128, 256), w(128, 64, 16), strides=[8], pads=[4, 4])
    turned("2d 2x2", f(1, 128, 28, 28), w(128, 64, 2, 2), strides=[2, 2])
    turned("2d 4x4", f(1, 128, 28, 28), w(128, 64, 4, 4), strides=[2, 2], pads=[1] * 4)
    turned("2d 3x3", f(1, 128, 28, 28), w(128, 64, 3, 3), pads=[1] * 4)
    turned("2d depthwise", f(1, 64, 56, 56), w(64, 1, 4, 4), strides=[2, 2], pads=[1] * 4, group=64)
    turned("3d", f(1, 32, 8, 14, 14), w(32, 16, 2, 2, 2), strides=[2, 2, 2])
    turned("3d 3x3", f(1, 16, 8, 14, 14), w(16, 16, 3, 3, 3), pads=[1] * 6)
    add("DeformConv", "DeformConv", [f(1, 64, 28, 28), w(64, 64, 3, 3), f(1, 18, 28, 28)], [1], opset=19, pads=[1] * 4)

    add("Gather rows", "Gather", [f(30000, 256), index(30000, 8, 128)], weights=[0])
    add("Gather columns", "Gather", [tokens, index(768, 64)], axis=2)
    add("GatherElements", "GatherElements", [f(64, 4096), index(4096, 64, 512)], axis=1)
    add("GatherND", "GatherND", [f(64, 64, 64), index(64, 4096, 2)])
    add("ScatterElements", "ScatterElements", [f(64, 4096), index(4096, 64, 512), f(64, 512)], axis=1)
    add("ScatterND", "ScatterND", [f(64, 64, 64), index(64, 1024, 2), f(1024, 64)])
    add("OneHot", "OneHot", [index(1000, 256), numpy.int64(1000), numpy.array([0, 1], numpy.float32)], [1, 2])
    add("NonZero", "NonZero", [(f(1, 64, 56, 56) > 1).astype(numpy.float32)])
    for mode in ("nearest", "linear", "cubic"):
        scales = numpy.array([1, 1, 2, 2], numpy.float32)
        add(f"Resize {mode} up", "Resize", [f(1, 64, 28, 28), None, scales], weights=[2], mode=mode)
    sizes = longs(1, 3, 224, 224)
    add("Resize linear down", "Resize", [f(1, 3, 480, 640), None, None, sizes], weights=[3], mode="linear")
    scales = numpy.array([1, 1, 2, 2, 2], numpy.float32)
    for mode in ("nearest", "linear"):
        add(f"Resize {mode} 3d", "Resize", [f(1, 16, 8, 14, 14), None, scales], weights=[2], mode=mode)
    add("Resize linear antialias", "Resize", [f(1, 3, 480, 640), None, None, sizes], [3], mode="linear", antialias=1)
    for mode in ("linear", "nearest", "cubic"):
        add(f"GridSample {mode}", "GridSample", [f(1, 64, 56, 56), unit(1, 56, 56, 2)], opset=20, mode=mode)
    add("AffineGrid", "AffineGrid", [f(1, 2, 3), longs(1, 3, 224, 224)], weights=[1], opset=20)
    corners = positive(100, 2) * 10
    boxes = numpy.concatenate([corners, corners + positive(100, 2) * 10], 1)
    add("RoiAlign", "RoiAlign", [f(1, 256, 50, 50), boxes, index(1, 100)], output_height=7, output_width=7)
    for mode in ("constant", "reflect", "edge", "wrap"):
        add(f"Pad {mode}", "Pad", [image, longs(0, 0, 1, 1, 0, 0, 1, 1)], weights=[1], mode=mode, opset=19)
    add("Pad 3d", "Pad", [volume, longs(0, 0, 1, 1, 1, 0, 0, 1, 1, 1)], weights=[1])
    add("Tile", "Tile", [f(1, 64, 28, 28), longs(1, 1, 2, 2)], weights=[1])
    add("Expand", "Expand", [f(1, 64, 1, 1), longs(1, 64, 56, 56)], weights=[1])
    add("Concat channels", "Concat", [image, f(1, 32, 56, 56)], axis=1)
    add("Concat last", "Concat", [f(64, 128, 3), f(64, 128, 5)], axis=2)
    add("Split last", "Split", [tokens], outputs=3, axis=2, num_outputs=3)
    add("Slice steps", "Slice", [image, longs(0, 0), longs(56, 56), longs(2, 3), longs(2, 2)], weights=[1, 2, 3, 4])
    add("Transpose nhwc", "Transpose", [image], perm=[0, 2, 3, 1])
    add("Transpose heads", "Transpose", [f(8, 197, 12, 64)], perm=[0, 2, 1, 3])
    add("Transpose matrix", "Transpose", [f(1024, 1024)], perm=[1, 0])
    add("DepthToSpace", "DepthToSpace", [f(1, 64, 56, 56)], blocksize=2)
    add("SpaceToDepth", "SpaceToDepth", [f(1, 16, 112, 112)], blocksize=2)
    add("Trilu", "Trilu", [f(8, 512, 512)])
    add("EyeLike", "EyeLike", [f(512, 512)])
    add("ReverseSequence", "ReverseSequence", [f(64, 16, 128), numpy.full(16, 50)], weights=[1])
    add("Det", "Det", [f(64, 8, 8)])

    product = lambda name, *operands, **more: add(f"MatMul {name}", "MatMul", list(operands), **more)
    product("weight", f(197, 768), w(768, 768), weights=[1])
    product("weight of one row", f(1, 1024), w(1024, 4096), weights=[1])
    product("batched", f(12, 197, 64), f(12, 64, 197))
    product("vector", f(1024, 1024), f(1024))
    product("by vector", f(1024), f(1024, 1024))
    product("broadcast", f(8, 12, 64, 64), f(64, 64))
    product("one query", f(12, 1, 64), f(12, 64, 512))
    add("Gemm", "Gemm", [f(64, 1024), w(1000, 1024), f(1000)], weights=[1, 2], transB=1)
    add("Gemm given", "Gemm", [f(64, 1024), f(1024, 1000), f(1000)], alpha=0.5, beta=2.0)
    sums = lambda equation, *operands: add(f"Einsum {equation}", "Einsum", list(operands), equation=equation)
    sums("bhid,bhjd->bhij", f(1, 12, 197, 64), f(1, 12, 197, 64))
    sums("bthd,bshd->bhts", f(1, 197, 12, 64), f(1, 197, 12, 64))
    sums("ij,ij->i", f(1024, 1024), f(1024, 1024))
    sums("bi,bj->bij", f(16, 256), f(16, 256))
    sums("ijk->ikj", f(64, 128, 64))
    sums("ijk->i", f(64, 128, 64))
    sums("bij,j->bi", f(16, 256, 256), f(256))
    sums("bnd,bnm,bme->bde", f(8, 128, 64), f(8, 128, 64), f(8, 64, 64))
    sums("nkd,nkm,nqd->nqm", f(8, 128, 32), f(8, 128, 32), f(8, 128, 32))
    sums("bln,bld,bl->bldn", f(2, 128, 16), f(2, 128, 128), f(2, 128))
    sums("bij,bjk,bkl->bil", f(4, 64, 64), f(4, 64, 64), f(4, 64, 64))
    for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        operands = [f(64, 1, 128), w(1, gates * 256, 128), w(1, gates * 256, 256), f(1, gates * 512)]
        more = {"linear_before_reset": 1} if op == "GRU" else {}  # as PyTorch's
        add(op, op, operands, weights=[1, 2, 3], hidden_size=256, **more)
        both = [f(64, 1, 128), w(2, gates * 256, 128), w(2, gates * 256, 256), f(2, gates * 512)]
        add(f"{op} both ways", op, both, weights=[1, 2, 3], hidden_size=256, direction="bidirectional", **more)
        add(f"{op} lengths", op, [*operands, numpy.array([50], numpy.int32)], [1, 2, 3], hidden_size=256, **more)
    add(
        "GRU reset first",
        "GRU",
        [f(64, 1, 128), w(1, 768, 128), w(1, 768, 256), f(1, 1536)],
        [1, 2, 3],
        hidden_size=256,
    )
    add("STFT", "STFT", [f(1, 16000, 1), numpy.int64(160), f(400), numpy.int64(400)], weights=[1, 2, 3])
    add("DFT", "DFT", [f(16, 1024, 1)], axis=1, opset=17)
    boxes = positive(1, 400, 4) * 100
    nms = [
        boxes,
        positive(1, 20, 400),
        longs(100),
        numpy.array([0.5], numpy.float32),
        numpy.array([0.1], numpy.float32),
    ]
    cases.append(Case("NonMaxSuppression", "NonMaxSuppression", nms, [2, 3, 4]))

    make_more_cases(add, random)
    return cases + [half_of(case) for case in cases if case.name in HALVES]


def make_more_cases(add, random):
    """Other axes, dtypes and modes, and what stands between quantized layers."""
    import numpy
    from onnx import TensorProto

    f = lambda *shape: random.standard_normal(shape).astype(numpy.float32)
    unit = lambda *shape: random.uniform(-0.9, 0.9, shape).astype(numpy.float32)
    index = lambda high, *shape: random.integers(0, high, shape)
    longs = lambda *values: numpy.array(values, numpy.int64)
    number = numpy.float32
    image, tokens = f(1, 64, 56, 56), f(8, 197, 768)
    for by in (2, 3, 0.5, 1.7):
        add(f"Pow by {by}", "Pow", [numpy.abs(image), number(by)], weights=[1])
    add("Shrink", "Shrink", [image], lambd=0.5)
    add("Gelu tanh", "Gelu", [image], opset=20, approximate="tanh")
    add("Swish of Sigmoid", "Sigmoid", [f(1, 256, 80, 80)])
    add("Where of two", "Where", [image > 0, f(1, 64, 56, 56), f(1, 64, 56, 56)])
    add("Where int64", "Where", [image > 0, index(9, 1, 64, 56, 56), index(9, 1, 64, 56, 56)])
    add("Equal int64", "Equal", [index(9, 64, 3136), numpy.int64(3)], weights=[1])
    add("Max of three", "Max", [image, f(1, 64, 56, 56), f(1, 64, 56, 56)])
    add("Sum of three", "Sum", [image, f(1, 64, 56, 56), f(1, 64, 56, 56)])
    add("Mean of two", "Mean", [image, f(1, 64, 56, 56)])
    add("BitwiseAnd", "BitwiseAnd", [index(99, 64, 3136), index(99, 64, 3136)])
    add("Cast float to int32", "Cast", [image * number(9)], to=TensorProto.INT32)
    add("Cast int32 to float", "Cast", [index(9, 64, 3136).astype(numpy.int32)], to=TensorProto.FLOAT)
    add("Cast float to bool", "Cast", [image], to=TensorProto.BOOL)
    add("Cast float to bfloat16", "Cast", [image], to=TensorProto.BFLOAT16)

    add("CumSum last reversed", "CumSum", [f(64, 4096), numpy.int64(1)], weights=[1], reverse=1, exclusive=1)
    add("CumSum int64", "CumSum", [index(2, 8, 512), numpy.int64(1)], weights=[1])
    add("Softmax middle of 5", "Softmax", [f(1, 8, 16, 28, 28)], axis=2)
    add("Softmax short rows", "Softmax", [f(1, 8400, 4, 16)], axis=3)
    add("LayerNormalization of images", "LayerNormalization", [image, f(64, 56, 56), f(64, 56, 56)], [1, 2], axis=1)
    add("ReduceMean outer", "ReduceMean", [image, longs(0, 1)], weights=[1])
    add("ReduceMax of 5", "ReduceMax", [f(1, 32, 16, 28, 28), longs(2, 4)], weights=[1])
    add("ReduceMax int64", "ReduceMax", [index(99, 64, 3136), longs(1)], weights=[1])
    add("ReduceMin all", "ReduceMin", [image])
    add("ArgMax int64", "ArgMax", [index(99, 64, 3136)], axis=1)
    add("ArgMax of a row", "ArgMax", [f(1, 30000)], axis=1)
    add("TopK 100 of boxes", "TopK", [f(1, 8400, 1), longs(100)], weights=[1], outputs=2, axis=1)
    add("TopK 1 of tokens", "TopK", [f(1, 50000), longs(1)], weights=[1], outputs=2)
    add("TopK smallest", "TopK", [f(64, 1000), longs(5)], weights=[1], outputs=2, largest=0)
    add("Unique", "Unique", [index(1000, 4096)], outputs=4)
    add("Compress", "Compress", [tokens, index(2, 768) > 0], weights=[1], axis=2)

    volume = f(1, 32, 16, 28, 28)
    add("Transpose volume", "Transpose", [volume], perm=[0, 2, 3, 4, 1])
    add("Transpose windows", "Transpose", [f(1, 8, 7, 8, 7, 96)], perm=[0, 1, 3, 2, 4, 5])
    add("Transpose axes", "Transpose", [f(32, 64, 96)], perm=[2, 1, 0])
    add("Transpose from nhwc", "Transpose", [f(1, 56, 56, 64)], perm=[0, 3, 1, 2])
    add("DepthToSpace CRD", "DepthToSpace", [image], blocksize=2, mode="CRD")
    add("Slice last", "Slice", [tokens, longs(64), longs(512), longs(2)], weights=[1, 2, 3])
    add("Slice backwards", "Slice", [tokens, longs(-1), longs(-10000), longs(1), longs(-1)], weights=[1, 2, 3, 4])
    add("Split channels", "Split", [image], outputs=2, axis=1, num_outputs=2)
    add("Expand rows", "Expand", [f(8, 197, 1), longs(8, 197, 768)], weights=[1])
    add("Tile rows", "Tile", [f(197, 1, 64), longs(1, 12, 1)], weights=[1])
    add("Gather middle", "Gather", [tokens, index(197, 64)], axis=1)
    add("Gather int64", "Gather", [index(99, 30000), index(30000, 4096)], axis=0)
    add("GatherElements first", "GatherElements", [f(4096, 64), index(4096, 512, 64)], axis=0)
    add(
        "ScatterElements add",
        "ScatterElements",
        [f(64, 4096), index(4096, 64, 512), f(64, 512)],
        axis=1,
        reduction="add",
    )
    add("ScatterND add", "ScatterND", [f(64, 64, 64), index(64, 1024, 2), f(1024, 64)], reduction="add")
    add("Col2Im", "Col2Im", [f(1, 64 * 9, 784), longs(28, 28), longs(3, 3)], weights=[1, 2], pads=[1] * 4)
    add("ReverseSequence batch first", "ReverseSequence", [f(16, 64, 128), index(64, 16)], time_axis=1, batch_axis=0)
    add("MaxUnpool", "MaxUnpool", [f(1, 64, 28, 28), index(56, 1, 64, 28, 28)], kernel_shape=[2, 2], strides=[2, 2])
    for mode in ("border", "reflection"):
        add(f"GridSample {mode}", "GridSample", [image, unit(1, 56, 56, 2)], opset=20, padding_mode=mode)
    add("GridSample 3d", "GridSample", [volume, unit(1, 8, 14, 14, 3)], opset=20)
    sizes = numpy.array([1, 1, 0.5, 0.5], number)
    for mode in ("nearest", "linear", "cubic"):
        add(f"Resize {mode} half the size", "Resize", [image, None, sizes], weights=[2], mode=mode)
    twice = numpy.array([1, 1, 2, 2], number)
    more = {"coordinate_transformation_mode": "align_corners"}
    add("Resize linear corners", "Resize", [f(1, 64, 28, 28), None, twice], weights=[2], mode="linear", **more)
    add(
        "Resize cubic antialias",
        "Resize",
        [f(1, 3, 480, 640), None, None, longs(1, 3, 224, 224)],
        [3],
        mode="cubic",
        antialias=1,
    )
    last = numpy.array([1, 2, 2, 1], number)
    add("Resize linear nhwc", "Resize", [f(1, 28, 28, 64), None, last], weights=[2], mode="linear")
    add("MaxPool 3 stride 1", "MaxPool", [image], kernel_shape=[3, 3], pads=[1] * 4)
    add("MaxPool 13 stride 1", "MaxPool", [f(1, 256, 20, 20)], kernel_shape=[13, 13], pads=[6] * 4)
    add("AveragePool 7 stride 7", "AveragePool", [image], kernel_shape=[7, 7], strides=[7, 7])

    scale, zero, byte = number(0.02), numpy.uint8(128), index(255, 1, 64, 56, 56).astype(numpy.uint8)
    scales = numpy.abs(f(64)) + number(0.01)
    add("QuantizeLinear", "QuantizeLinear", [image, scale, zero], weights=[1, 2])
    add("QuantizeLinear channels", "QuantizeLinear", [image, scales, numpy.zeros(64, numpy.int8)], [1, 2], axis=1)
    add("DequantizeLinear", "DequantizeLinear", [byte, scale, zero], weights=[1, 2])
    add("DequantizeLinear channels", "DequantizeLinear", [byte, scales, numpy.zeros(64, numpy.uint8)], [1, 2], axis=1)
    add("DynamicQuantizeLinear", "DynamicQuantizeLinear", [image], outputs=3)
    kernel = index(255, 64, 64, 3, 3).astype(numpy.int8)
    add(
        "QLinearConv",
        "QLinearConv",
        [byte, scale, zero, kernel, scale, numpy.int8(0), number(1), zero],
        range(1, 8),
        pads=[1] * 4,
    )
    add("ConvInteger", "ConvInteger", [byte, kernel, zero], [1, 2], pads=[1] * 4)
    rows, matrix = index(255, 197, 768).astype(numpy.uint8), index(255, 768, 768).astype(numpy.int8)
    add(
        "QLinearMatMul",
        "QLinearMatMul",
        [rows, scale, zero, matrix, scale, numpy.int8(0), number(1), zero],
        range(1, 8),
    )
    add("MatMulInteger", "MatMulInteger", [rows, matrix, zero, numpy.int8(0)], [1, 2, 3])
    add("Transpose nhwc uint8", "Transpose", [byte], perm=[0, 2, 3, 1])
    add("Concat channels uint8", "Concat", [byte, byte[:, :32]], axis=1)
    add("Slice channels uint8", "Slice", [byte, longs(16), longs(48), longs(1)], weights=[1, 2, 3])
    add("MaxPool uint8", "MaxPool", [byte], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    add("MaxPool 5 uint8", "MaxPool", [byte[:, :, :20, :20]], kernel_shape=[5, 5], pads=[2] * 4)
    add("Resize nearest uint8", "Resize", [byte[:, :, :28, :28], None, twice], weights=[2], mode="nearest")
    add("Pad uint8", "Pad", [byte, longs(0, 0, 1, 1, 0, 0, 1, 1)], weights=[1])
    add("Gather uint8", "Gather", [index(255, 30000, 256).astype(numpy.uint8), index(30000, 8, 128)], weights=[0])
    add("Relu int8", "Relu", [(byte.astype(numpy.int16) - 128).astype(numpy.int8)])
    add("Clip uint8", "Clip", [byte, numpy.uint8(10), numpy.uint8(99)], weights=[1, 2])


HALVES = """
Relu|Sigmoid|Tanh|Exp|Erf|Add equal|Mul channel|Div equal|Softmax last|ReduceMean last|MaxPool 2d|AveragePool 2d
GlobalAveragePool 2d|Conv 2d 1x1|Conv 2d 3x3|Conv 2d depthwise|MatMul weight|MatMul batched|Gemm|LayerNormalization
BatchNormalization|Transpose heads|Concat channels|Resize linear up|Gather rows|ConvTranspose 2d 2x2|Where mask|Clip
Sqrt|Pow equal|Pad constant|Gelu|Softplus|LSTM|Transpose matrix|Transpose nhwc|Slice last|Split last|Expand|Tile
ReduceMax middle|ReduceSum last|InstanceNormalization|GroupNormalization|TopK 5 of 1000|ArgMax last|Resize nearest up
HardSwish|HardSigmoid|LeakyRelu|MaxPool 5 stride 1|Einsum bhid,bhjd->bhij|CumSum last|Gather columns|GatherElements
"""
HALVES = [name for line in HALVES.split("\n") for name in line.split("|")]


def half_of(case):
    """The case in float16; the factors of a Resize stay float32."""
    import numpy

    inputs = list(case.inputs)
    for i, x in enumerate(inputs):
        if x is not None and x.dtype == numpy.float32 and not (case.op == "Resize" and i == 2):
            inputs[i] = x.astype(numpy.float16)
    name = f"{case.name} half"
    return Case(name, case.op, inputs, case.weights, case.outputs, case.opset, **case.attributes)


def in_onnxruntime(words):
    """Makes the models of all cases, and prints for each what ONNX Runtime took or its problem."""
    import numpy
    import onnx.reference  # noqa: F401, before onnxruntime: some distributions share one schema registry
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = 1, 1, 4
    for case in make_cases():
        if words and not any(word in case.name for word in words):
            continue
        answer = {"name": case.name}
        try:
            folder = WORK / folder_of(case.name)
            case.make(folder)
            file = str(folder / "model.onnx")
            session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
            with numpy.load(folder / "inputs.npz") as arrays:
                feed = {i.name: arrays[key] for i, key in zip(session.get_inputs(), arrays.files)}
            times, began = [], time.perf_counter()
            session.run(None, feed)
            while len(times) < 3 or (time.perf_counter() - began < SECONDS and len(times) < 2000):
                cpu = time.process_time()
                session.run(None, feed)
                times.append(1e3 * (time.process_time() - cpu))
            answer["ms"] = statistics.median(times)
        except Exception as error:
            answer["problem"] = f"{type(error).__name__}: {str(error).strip()[:200]}"
        print(json.dumps(answer), flush=True)


# --- where qdq runs
# ----------------------------------------------------------------------------------------------------


def folder_of(name):
    return "".join(c if c.isalnum() else "_" for c in name)


def call(words):
    done = subprocess.run([str(w) for w in words], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError((done.stderr.strip() or f"ended with {done.returncode}")[-300:])
    return done.stdout


def time_qdq(command, model):
    """CPU milliseconds, and the share of the plain loops."""
    words = [*shlex.split(command), "benchmark", model, "--inputs", model.parent / "inputs.npz", "--json"]
    report = lambda runs, *more: json.loads(call([*words, "--runs", runs, *more]))[0]
    first = report(2, "--profile", "--explain")
    steps = [(s["seconds"], s["backend"] == "reference") for s in first["steps"]]
    plain = sum(seconds for seconds, is_plain in steps if is_plain) / max(1e-12, sum(seconds for seconds, _ in steps))
    count = max(3, min(2000, int(SECONDS / max(1e-6, first["wall_seconds"]["median"]))))
    return 1e3 * report(count)["cpu_seconds"]["median"], plain


def time_and_tell(theirs, others, options, model_of):
    """Times qdq on what the others took, and prints the table."""
    results, failures = [], []
    for case in theirs:
        if "problem" in case:
            failures.append(f"{case['name']}, {others}: {case['problem']}")
        try:
            ours, plain = time_qdq(options.qdq, model_of(case["name"]))
            results.append({"name": case["name"], "qdq": ours, "other": case.get("ms"), "plain": plain})
        except RuntimeError as error:
            failures.append(f"{case['name']}, qdq: {error}")
    ratio = lambda result: result["qdq"] / max(1e-6, result["other"]) if result["other"] else 0
    print(f"| operator | qdq | {others} | ratio | plain loops |\n|---|---|---|---|---|")
    for result in sorted(results, key=ratio, reverse=True):
        other = "–" if result["other"] is None else f"{result['other']:.3g}"
        figures = f"{result['qdq']:.3g} | {other} | {ratio(result):.2f} | {100 * result['plain']:.0f} %"
        print(f"| {result['name']} | {figures} |")
    print()
    for failure in failures:
        print(f"FAIL {failure}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    return 0 if results else 1


def main():
    if len(sys.argv) >= 2 and sys.argv[1] == "--in-onnxruntime":
        in_onnxruntime(sys.argv[2:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--onnxruntime", required=True, help="what starts a Python with onnx and onnxruntime")
    parser.add_argument("--qdq", default="./dev qdq", help="the native command line")
    parser.add_argument("--only", nargs="*", default=[], help="cases whose names contain one of these words")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    words = [*shlex.split(options.onnxruntime), "python3", "tests/bench/onnx_operators.py", "--in-onnxruntime"]
    theirs = [json.loads(line) for line in call([*words, *options.only]).splitlines() if line.startswith("{")]
    return time_and_tell(theirs, "ONNX Runtime", options, lambda name: WORK / folder_of(name) / "model.onnx")


if __name__ == "__main__":
    sys.exit(main())
