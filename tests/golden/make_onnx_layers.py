"""Layers as ONNX and ONNX Runtime have them, with what ONNX Runtime makes of them, for tests/unit/cli/onnx_test.cpp.

  python3 tests/golden/make_onnx_layers.py            in a Python with PyTorch 2.6, onnx and onnxruntime

Writes tests/golden/onnx/layers.npz, one operator each, in several versions, and dynamic.npz, a quantized network.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
import torchvision
from onnx_case import Const, add, floats, op, random, save
from onnxruntime.quantization import QuantType, quantize_dynamic

MICROSOFT = "com.microsoft"


def integers(*shape, dtype="int8"):
    info = np.iinfo(dtype)
    return random.randint(max(info.min, -128), min(info.max, 255) + 1, shape).astype(dtype)


def ms(name, op_type, *inputs, **attributes):
    op(name, op_type, *inputs, domain=MICROSOFT, opset=1, **attributes)


def convolutions():
    image = floats(2, 4, 7, 9)
    for name, open_axes in (("", []), (" of an open image", [0, 2, 3])):
        for mode in ("SAME_UPPER", "SAME_LOWER"):
            weight = Const(floats(3, 4, 4, 3))
            op(f"Conv {mode}{name}", "Conv", image, weight, auto_pad=mode, strides=[2, 3], open_axes=open_axes)
        op("Conv uneven" + name, "Conv", image, Const(floats(3, 4, 2, 2)), pads=[0, 1, 1, 2], open_axes=open_axes)
        pool = {"kernel_shape": [3, 2], "open_axes": open_axes}
        op("AveragePool uneven" + name, "AveragePool", image, pads=[0, 1, 1, 0], **pool)
        op("AveragePool uneven counting" + name, "AveragePool", image, pads=[0, 1, 1, 0], count_include_pad=1, **pool)
        op("AveragePool dilated" + name, "AveragePool", image, dilations=[2, 3], opset=19, **pool)
        op("MaxPool same" + name, "MaxPool", image, auto_pad="SAME_UPPER", strides=[2, 2], **pool)
    op("Conv of opset 7", "Conv", image, Const(floats(6, 2, 3, 3)), group=2, opset=7)
    op("Conv with a computed weight", "Conv", image, floats(3, 4, 2, 2))
    transposed = Const(floats(4, 3, 3, 2))
    op("ConvTranspose uneven", "ConvTranspose", image, transposed, strides=[2, 3], pads=[0, 1, 2, 0])
    for mode in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        op(f"ConvTranspose {mode}", "ConvTranspose", image, transposed, strides=[2, 3], auto_pad=mode)
        op(
            f"ConvTranspose to a shape {mode}",
            "ConvTranspose",
            image,
            transposed,
            strides=[2, 3],
            auto_pad=mode,
            output_shape=[14, 25],
        )
    # ONNX Runtime reads beyond its memory where no input reaches.
    weight, bias = floats(4, 3, 3, 2), floats(3)
    tensors = [torch.from_numpy(t) for t in (image, weight)]
    reached = torch.nn.functional.conv_transpose2d(*tensors, stride=2, output_padding=1)
    beyond = torch.nn.functional.pad(reached, (0, 3, 0, 1)) + torch.from_numpy(bias)[:, None, None]
    op(
        "ConvTranspose beyond its reach",
        "ConvTranspose",
        image,
        Const(weight),
        Const(bias),
        strides=[2, 2],
        output_shape=list(beyond.shape[2:]),
        results=[beyond.numpy()],
    )
    op("ConvTranspose dilated", "ConvTranspose", image, transposed, dilations=[2, 1], pads=[1, 0, 0, 1])
    op("ConvTranspose 3d", "ConvTranspose", floats(1, 2, 3, 4, 2), Const(floats(2, 2, 2, 2, 2)), strides=[2, 1, 2])
    op("MaxPool ceil uneven", "MaxPool", image, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1, pads=[0, 0, 1, 1])
    op("MaxPool dilated", "MaxPool", image, kernel_shape=[2, 3], dilations=[3, 2], pads=[0, 1, 0, 1])
    op("MaxPool of bytes", "MaxPool", integers(1, 2, 5, 5, dtype="uint8"), kernel_shape=[2, 2], pads=[0, 0, 1, 1])
    for order in (0, 1):
        indices = {"outputs": 2, "storage_order": order, "kernel_shape": [2, 2], "strides": [2, 2]}
        op(f"MaxPool indices {order}", "MaxPool", image, **indices)
        op(f"MaxPool indices {order} padded", "MaxPool", image, pads=[1, 0, 1, 1], **indices)
    op("MaxPool 1d indices", "MaxPool", floats(2, 3, 8), kernel_shape=[3], outputs=2)
    op("MaxPool widely padded", "MaxPool", image, kernel_shape=[3, 3], pads=[2, 2, 2, 2])
    op("AveragePool ceil", "AveragePool", image, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    op("AveragePool widely padded", "AveragePool", image, kernel_shape=[3, 3], pads=[2, 1, 2, 2])
    op("AveragePool 3d", "AveragePool", floats(1, 2, 4, 5, 6), kernel_shape=[2, 3, 2], pads=[0, 1, 0, 1, 1, 0])
    op("LpPool", "LpPool", image, kernel_shape=[2, 3], p=3, strides=[2, 1])
    op("LpPool padded", "LpPool", image, kernel_shape=[2, 2], pads=[1, 0, 0, 1])
    op("GlobalLpPool", "GlobalLpPool", image, p=1)
    top = np.int64([[[[0, 7], [17, 21]]]])
    op("MaxUnpool", "MaxUnpool", floats(1, 1, 2, 2), top, kernel_shape=[2, 2], strides=[3, 3])
    for mode in ("DCR", "CRD"):
        op(f"DepthToSpace {mode}", "DepthToSpace", floats(2, 12, 2, 3), blocksize=2, mode=mode)
    op("SpaceToDepth", "SpaceToDepth", floats(2, 3, 4, 6), blocksize=2)
    op("CenterCropPad", "CenterCropPad", image, Const(np.int64([5, 12])), axes=[2, -1], opset=18)
    columns = floats(2, 12, 20)
    op("Col2Im", "Col2Im", columns, Const(np.int64([5, 6])), Const(np.int64([2, 2])), opset=18)
    shape, block = Const(np.int64([6, 7])), Const(np.int64([2, 2]))
    op("Col2Im padded", "Col2Im", floats(1, 8, 12), shape, block, pads=[1, 0, 1, 0], strides=[2, 2], opset=18)


def normalization():
    image = floats(2, 4, 5, 3)
    four = [Const(floats(4)) for _ in range(3)] + [Const(np.abs(floats(4)) + np.float32(0.1))]
    for opset in (7, 9, 14):
        op(f"BatchNormalization of opset {opset}", "BatchNormalization", image, *four, opset=opset)
    op("BatchNormalization of rows", "BatchNormalization", floats(3, 4), *four, opset=15)
    op("BatchNormalization in training", "BatchNormalization", image, *four, training_mode=1, outputs=3, opset=15)
    op("LRN", "LRN", image, size=3, alpha=0.3, beta=0.6, bias=2.0)
    op("LpNormalization", "LpNormalization", image, axis=1, p=1)
    op("MeanVarianceNormalization", "MeanVarianceNormalization", image)
    op(
        "LayerNormalization all",
        "LayerNormalization",
        image,
        Const(floats(5, 3)),
        Const(floats(5, 3)),
        axis=2,
        outputs=3,
    )
    x = floats(2, 3, 4)
    op("Gemm with a column", "Gemm", floats(3, 4), Const(floats(5, 4)), Const(floats(3, 1)), transB=1, alpha=0.5)
    op("Gemm of opset 7", "Gemm", floats(3, 4), floats(4, 5), floats(1), opset=7, beta=0.5)
    op("MatMul of vectors", "MatMul", floats(4), floats(4))
    op("MatMul by a vector", "MatMul", x, Const(floats(4)))
    op("MatMul of integers", "MatMul", np.int32([[1, 2], [3, 4]]), np.int32([[5], [6]]))
    op("Einsum of three", "Einsum", floats(2, 3), floats(3, 4), floats(4, 2), equation="ij,jk,ki->i")


def resizing():
    image = floats(1, 2, 4, 5)
    places = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn")
    scales, sizes = Const(np.float32([1, 1, 1.5, 2.2])), Const(np.int64([1, 2, 7, 1]))
    for place in places:
        opset = 11 if place == "tf_half_pixel_for_nn" else 13
        roi = Const(np.float32([])) if opset == 11 else None
        here = {"coordinate_transformation_mode": place, "opset": opset}
        for nearest in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
            op(f"Resize nearest {place} {nearest}", "Resize", image, roi, scales, nearest_mode=nearest, **here)
        for mode in ("linear", "cubic"):
            op(f"Resize {mode} {place}", "Resize", image, roi, scales, mode=mode, **here)
            none = Const(np.float32([])) if opset == 11 else None
            op(f"Resize {mode} {place} to a size", "Resize", image, roi, none, sizes, mode=mode, **here)
    for name, more in (("of rows", {"axes": [2]}), ("smaller", {"axes": [3, 2]})):
        factors = Const(np.float32([0.6, 0.7][: len(more["axes"])]))
        for mode in ("nearest", "linear", "cubic"):
            op(f"Resize {mode} {name}", "Resize", image, None, factors, mode=mode, opset=18, **more)
    op("Resize cubic other", "Resize", image, None, scales, mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1)
    for mode, open_axes in (("linear", []), ("cubic", []), ("linear", [2, 3])):
        more = {"cubic_coeff_a": -0.5} if mode == "cubic" else {}
        op(
            f"Resize {mode} antialiased" + (" of an open image" if open_axes else ""),
            "Resize",
            floats(1, 2, 11, 9),
            None,
            None,
            Const(np.int64([1, 2, 4, 13])),
            mode=mode,
            antialias=1,
            exclude_outside=1,
            opset=18,
            open_axes=open_axes,
            **more,
        )
    roi = Const(np.float32([0, 0, 0.2, -0.3, 1, 1, 0.7, 1.2]))
    for mode in ("nearest", "linear"):
        op(
            f"Resize {mode} of a part",
            "Resize",
            image,
            roi,
            None,
            Const(np.int64([1, 2, 6, 7])),
            mode=mode,
            coordinate_transformation_mode="tf_crop_and_resize",
            extrapolation_value=9.0,
        )
    for policy in ("not_larger", "not_smaller"):
        op(
            f"Resize {policy}",
            "Resize",
            image,
            None,
            None,
            Const(np.int64([7, 8])),
            axes=[2, 3],
            keep_aspect_ratio_policy=policy,
            opset=18,
        )
    op("Resize of opset 10", "Resize", image, Const(np.float32([1, 1, 2, 3])), opset=10)
    op("Resize smaller of opset 10", "Resize", image, Const(np.float32([1, 1, 0.6, 0.6])), opset=10)
    op("Resize linear of opset 10", "Resize", image, Const(np.float32([1, 1, 2, 0.6])), mode="linear", opset=10)
    op("Upsample of opset 7", "Upsample", image, scales=[1.0, 1.0, 2.0, 3.0], opset=7)
    op("Upsample of opset 9", "Upsample", image, Const(np.float32([1, 1, 2, 2])), mode="linear", opset=9)
    op("Resize of channels", "Resize", image, None, Const(np.float32([1, 2, 2, 2])), nearest_mode="floor")
    for place in ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"):
        for mode in ("nearest", "linear", "cubic"):
            more = {"mode": mode, "coordinate_transformation_mode": place, "opset": 19}
            op(f"Resize {mode} {place} by computed scales", "Resize", image, None, scales.value, **more)
            op(f"Resize {mode} {place} by computed sizes", "Resize", image, None, None, sizes.value, **more)
    whole = Const(np.float32([1, 1, 2, 2]))
    for place in ("half_pixel", "asymmetric"):
        for mode in ("nearest", "linear"):
            op(
                f"Resize {mode} {place} of an open image",
                "Resize",
                image,
                None,
                whole,
                mode=mode,
                coordinate_transformation_mode=place,
                open_axes=[0, 2, 3],
            )


def quantized():
    image, weight = integers(2, 4, 6, 5, dtype="uint8"), Const(integers(3, 4, 3, 3))
    scale, zero = Const(np.float32(0.02)), Const(np.uint8(120))
    scales = Const(np.float32([0.011, 0.02, 0.007]))
    out = (Const(np.float32(0.31)), Const(np.uint8(131)))
    bias = Const(np.int32([300, -5000, 12]))
    op("QLinearConv", "QLinearConv", image, scale, zero, weight, Const(np.float32(0.01)), Const(np.int8(0)), *out)
    op(
        "QLinearConv by channel",
        "QLinearConv",
        image,
        scale,
        zero,
        weight,
        scales,
        Const(np.int8([0, 0, 0])),
        *out,
        bias,
        pads=[1, 1, 1, 1],
        strides=[2, 1],
    )
    computed = [np.array(0.02, "float32"), np.array(120, "uint8")]
    op("QLinearConv computed", "QLinearConv", image, *computed, weight, scales, Const(np.int8([0, 0, 0])), *out)
    a, b = integers(3, 4, dtype="uint8"), integers(4, 5)
    rest = (Const(np.float32(0.012)), Const(np.int8(3)), Const(np.float32(0.05)), Const(np.uint8(100)))
    op("QLinearMatMul", "QLinearMatMul", a, scale, zero, b, *rest)
    op("QLinearMatMul by a weight", "QLinearMatMul", a, scale, zero, Const(b), *rest)
    op("MatMulInteger", "MatMulInteger", a, b, Const(np.uint8(7)), Const(np.int8([1, 2, 3, -4, 0])), opset=10)
    op("MatMulInteger without zero points", "MatMulInteger", a, Const(b), opset=10)
    op(
        "ConvInteger",
        "ConvInteger",
        image,
        Const(weight.value.astype("uint8")),
        zero,
        Const(np.uint8(9)),
        pads=[1, 0, 1, 2],
        opset=10,
    )
    x = floats(2, 4, 6)
    for opset in (10, 13, 19, 21):
        op(
            f"QuantizeLinear of opset {opset}",
            "QuantizeLinear",
            x,
            Const(np.float32(0.013)),
            Const(np.int8(-7)),
            opset=opset,
        )
        op(
            f"DequantizeLinear of opset {opset}",
            "DequantizeLinear",
            integers(2, 4, 6),
            scale,
            Const(np.int8(9)),
            opset=opset,
        )
    op("QuantizeLinear to 16 bits", "QuantizeLinear", x, Const(np.float32(1e-4)), Const(np.int16(70)), opset=21)
    op("QuantizeLinear to uint16", "QuantizeLinear", x, Const(np.float32(1e-4)), output_dtype=4, opset=21)
    op(
        "DequantizeLinear of uint16",
        "DequantizeLinear",
        integers(3, 4, dtype="uint8").astype("uint16") * np.uint16(200),
        scale,
        opset=21,
    )
    by_axis = [np.float32([0.02, 0.05, 0.01, 0.03]), np.int8([1, 2, -3, 0])]
    op("QuantizeLinear by computed scales", "QuantizeLinear", x, *by_axis, axis=1)
    op("DequantizeLinear by computed scales", "DequantizeLinear", integers(2, 4, 6), *by_axis, axis=-2)
    op("QuantizeLinear by a computed scale", "QuantizeLinear", x, np.array(0.02, "float32"))
    op(
        "DequantizeLinear of int32",
        "DequantizeLinear",
        integers(3, 4, dtype="int32") * 70000,
        Const(np.float32([1e-6, 2e-6, 3e-6, 4e-6])),
        axis=1,
    )
    block = (Const(np.float32(random.uniform(0.01, 0.1, (2, 2, 6)))), Const(integers(2, 2, 6)))
    op("QuantizeLinear in blocks", "QuantizeLinear", x, *block, axis=1, block_size=2, opset=21)
    op("DequantizeLinear in blocks", "DequantizeLinear", integers(2, 4, 6), *block, axis=1, block_size=2, opset=21)
    op("DequantizeLinear to halves", "DequantizeLinear", integers(2, 4), Const(np.float16(0.03)), opset=19)
    u, v = integers(2, 3, 4, dtype="uint8"), integers(3, 4, dtype="uint8")
    for name in ("Add", "Mul"):
        ms(f"QLinear{name}", f"QLinear{name}", u, scale, zero, v, Const(np.float32(0.03)), Const(np.uint8(11)), *out)
    ms("QLinearSigmoid", "QLinearSigmoid", u, scale, zero, Const(np.float32(1 / 256)), Const(np.uint8(0)))
    ms("QLinearLeakyRelu", "QLinearLeakyRelu", u, scale, zero, *out, alpha=0.3)
    ms(
        "QLinearSoftmax",
        "QLinearSoftmax",
        u,
        scale,
        zero,
        Const(np.float32(1 / 256)),
        Const(np.uint8(0)),
        axis=-1,
        more={"opset": 13},
    )
    ms(
        "QLinearConcat",
        "QLinearConcat",
        *out,
        u,
        scale,
        zero,
        u[:, :2],
        Const(np.float32(0.4)),
        Const(np.uint8(3)),
        axis=1,
    )
    ms(
        "QLinearAveragePool",
        "QLinearAveragePool",
        image,
        scale,
        zero,
        Const(np.float32(0.015)),
        zero,
        kernel_shape=[3, 3],
        pads=[1, 1, 1, 1],
    )
    ms("QLinearGlobalAveragePool", "QLinearGlobalAveragePool", image, scale, zero, Const(np.float32(0.01)), zero)
    ms(
        "QLinearGlobalAveragePool last",
        "QLinearGlobalAveragePool",
        image,
        scale,
        zero,
        Const(np.float32(0.01)),
        zero,
        channels_last=1,
    )
    ms("QLinearWhere", "QLinearWhere", u > 100, u, scale, zero, v, Const(np.float32(0.03)), Const(np.uint8(11)), *out)
    ms(
        "QGemm",
        "QGemm",
        a,
        scale,
        zero,
        Const(b),
        Const(np.float32(0.02)),
        Const(np.int8(3)),
        Const(np.int32([5, -600, 7, 8, 900])),
        *rest[2:],
    )
    ms(
        "QGemm to floats",
        "QGemm",
        a,
        scale,
        zero,
        Const(b.T),
        Const(floats(5) ** 2),
        Const(np.int8([1, 2, 3, 4, 5])),
        transB=1,
        alpha=0.5,
    )
    ms(
        "MatMulIntegerToFloat",
        "MatMulIntegerToFloat",
        a,
        Const(b),
        scale,
        Const(np.float32(0.012)),
        zero,
        Const(np.int8(3)),
        Const(floats(5)),
    )
    ms(
        "DynamicQuantizeMatMul",
        "DynamicQuantizeMatMul",
        floats(3, 4),
        Const(b),
        Const(np.float32(0.012)),
        Const(np.int8(3)),
        Const(floats(5)),
    )
    ms("QuantizeLinear of Microsoft", "QuantizeLinear", x, scale, zero)
    ms("DequantizeLinear of Microsoft", "DequantizeLinear", u, scale, zero)
    ms("NhwcMaxPool", "NhwcMaxPool", image, kernel_shape=[2, 3], strides=[2, 1], pads=[0, 1, 1, 0])


def recurrent():
    time, batch, inputs, hidden = 4, 2, 3, 5
    x = floats(time, batch, inputs)
    for op_type, gates, activations in (("LSTM", 4, 3), ("GRU", 3, 2), ("RNN", 1, 1)):
        for direction in ("forward", "reverse", "bidirectional"):
            d = 2 if direction == "bidirectional" else 1
            weights = [Const(floats(d, gates * hidden, n) / 2) for n in (inputs, hidden)]
            bias = Const(floats(d, 2 * gates * hidden))
            states = [floats(d, batch, hidden) for _ in range(2 if op_type == "LSTM" else 1)]
            more = {"hidden_size": hidden, "direction": direction, "outputs": 1 + len(states)}
            for linear in (0, 1) if op_type == "GRU" else (None,):
                if linear is not None:
                    more["linear_before_reset"] = linear
                name = f"{op_type} {direction}" + (f" {linear}" if linear is not None else "")
                op(name, op_type, x, *weights, open_axes=[0, 1], **more)
                op(name + " with all", op_type, x, *weights, bias, None, *states, **more)
                lengths = np.int32([2, 4])
                op(name + " of lengths", op_type, x, *weights, bias, lengths, *states, clip=0.7, **more)
            names = ["HardSigmoid", "Elu", "Softsign"][:activations] * d
            if op_type == "RNN":  # ONNX Runtime's has no usual numbers
                more |= {"activation_alpha": [0.2] * d, "activation_beta": [0.5] * d}
            op(f"{op_type} {direction} activated", op_type, x, *weights, bias, activations=names, **more)
    weights = [Const(floats(1, 20, n)) for n in (inputs, hidden)]
    peepholes = Const(floats(1, 15))
    op("LSTM with peepholes", "LSTM", x, *weights, None, None, None, None, peepholes, hidden_size=5, outputs=3)
    op("LSTM coupled", "LSTM", x, *weights, hidden_size=5, input_forget=1, outputs=3)
    op("LSTM of opset 7", "LSTM", x, *weights, hidden_size=5, outputs=3, opset=7)
    op("LSTM of whole lengths", "LSTM", x, *weights, None, Const(np.int32([4, 4])), hidden_size=5, outputs=3)
    op("LSTM by computed weights", "LSTM", x, *[w.value for w in weights], hidden_size=5, outputs=2)
    op("RNN relu", "RNN", x, Const(floats(1, 5, 3)), Const(floats(1, 5, 5)), hidden_size=5, activations=["Relu"])
    scaled = {"activation_alpha": [0.3, 1.2], "activation_beta": [0.1]}
    names = ["LeakyRelu", "Affine"]
    op(
        "GRU scaled",
        "GRU",
        x,
        Const(floats(1, 15, 3)),
        Const(floats(1, 15, 5)),
        hidden_size=5,
        activations=names,
        **scaled,
    )


def sampling():
    image, grid = floats(2, 3, 4, 5), floats(2, 3, 6, 2) / np.float32(1.5)
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            more = {"mode": mode, "padding_mode": padding, "opset": 16}
            op(f"GridSample {mode} {padding}", "GridSample", image, grid, **more)
            op(f"GridSample {mode} {padding} aligned", "GridSample", image, grid, align_corners=1, **more)
    ms("GridSample of Microsoft", "GridSample", image, grid, mode="bilinear", align_corners=1)
    volume = floats(1, 2, 3, 4, 5)
    op("GridSample 3d", "GridSample", volume, floats(1, 2, 3, 2, 3) / np.float32(2), mode="linear", opset=20)
    for aligned in (0, 1):
        op(
            f"AffineGrid {aligned}",
            "AffineGrid",
            floats(2, 2, 3),
            Const(np.int64([2, 3, 4, 5])),
            align_corners=aligned,
            opset=20,
        )
    op("AffineGrid 3d", "AffineGrid", floats(2, 3, 4), Const(np.int64([2, 3, 2, 3, 4])), opset=20)
    boxes = np.float32([[0, 0, 4, 3], [1.2, 0.3, 3.7, 2.9], [-1, -2, 6, 5]])
    rows = np.int64([0, 1, 1])
    for opset, mode in ((10, "avg"), (16, "avg"), (16, "max")):
        for ratio in (0, 2):
            more = {
                "output_height": 3,
                "output_width": 2,
                "sampling_ratio": ratio,
                "spatial_scale": 0.8,
                "opset": opset,
            }
            op(f"RoiAlign {mode} of opset {opset} by {ratio}", "RoiAlign", image, boxes, rows, mode=mode, **more)
    for name, parts, masked in (("", 1, False), (" masked", 2, True)):
        offset, mask = floats(2, parts * 12, 3, 3), floats(2, parts * 6, 3, 3)
        weight, bias = floats(4, 2, 2, 3), floats(4)
        square = floats(2, 4, 4, 5)
        more = {"group": 2, "offset_group": parts, "opset": 19}
        given = [offset, Const(bias)] + ([mask] if masked else [])
        results = torchvision.ops.deform_conv2d(
            *map(torch.tensor, (square, offset, weight, bias)), mask=torch.tensor(mask) if masked else None
        )
        op("DeformConv" + name, "DeformConv", square, Const(weight), *given, results=[results.numpy()], **more)
    rois = np.concatenate([np.float32(rows[:, None]), np.round(boxes)], 1)
    op("MaxRoiPool", "MaxRoiPool", image, rois, pooled_shape=[2, 2], spatial_scale=0.9)


def microsoft():
    x, skip = floats(2, 3, 8), floats(2, 3, 8)
    image, weight = floats(1, 3, 5, 6), Const(floats(4, 3, 3, 3))
    for name, params in (("Relu", []), ("LeakyRelu", [0.2]), ("HardSigmoid", [0.3, 0.4]), ("Clip", [-1.0, 2.0])):
        more = {"activation": name, "pads": [1, 1, 1, 1]} | ({"activation_params": params} if params else {})
        ms(f"FusedConv {name}", "FusedConv", image, weight, Const(floats(4)), **more)
    ms("FusedConv of a sum", "FusedConv", image, weight, None, floats(1, 4, 3, 4), activation="Relu")
    for names in (["transA"], ["transB"], ["transA", "transB"]):
        a = floats(2, 4, 3) if "transA" in names else floats(2, 3, 4)
        b = floats(2, 5, 4) if "transB" in names else floats(2, 4, 5)
        ms(f"FusedMatMul {names}", "FusedMatMul", a, b, alpha=0.5, **dict.fromkeys(names, 1))
    ms("FusedMatMul by a weight", "FusedMatMul", floats(2, 3, 4), Const(floats(5, 4)), transB=1)
    ms("FusedMatMul of batches", "FusedMatMul", floats(3, 2, 4), floats(2, 4, 5), transBatchA=1)
    ms("FusedGemm", "FusedGemm", floats(3, 4), Const(floats(5, 4)), Const(floats(5)), transB=1, activation="Relu")
    for name in ("Elu", "ThresholdedRelu", "Softplus", "Softsign"):
        more = {"activation_alpha": 0.7} if name in ("Elu", "ThresholdedRelu") else {}
        ms(f"FusedGemm {name}", "FusedGemm", floats(3, 4), Const(floats(4, 5)), activation=name, **more)
    ms("Gelu of Microsoft", "Gelu", x)
    ms("BiasGelu", "BiasGelu", x, Const(floats(8)))
    ms("FastGelu", "FastGelu", x, Const(floats(8)))
    ms("FastGelu without bias", "FastGelu", x)
    ms("QuickGelu", "QuickGelu", x, alpha=1.5)
    gamma, beta, bias = Const(floats(8)), Const(floats(8)), Const(floats(8))
    op("SimplifiedLayerNormalization", "SimplifiedLayerNormalization", x, gamma, axis=-1, opset=14)
    ms("SkipLayerNormalization", "SkipLayerNormalization", x, skip, gamma, beta, bias)
    more = {"outputs": ["y0", "", "", "y3"]}
    ms("SkipLayerNormalization with its sum", "SkipLayerNormalization", x, skip, gamma, beta, epsilon=1e-3, **more)
    ms("SkipSimplifiedLayerNormalization", "SkipSimplifiedLayerNormalization", x, skip, gamma, bias)
    ids = np.int32([[1, 5, 2], [0, 3, 3]])
    tables = [Const(floats(n, 8)) for n in (6, 4, 2)]
    segments, counting = np.int32([[0, 1, 1], [0, 0, 1]]), np.int32([[1, 1, 1], [1, 1, 0]])
    ms("EmbedLayerNormalization", "EmbedLayerNormalization", ids, segments, *tables, gamma, beta, counting, outputs=2)
    more = [None, *tables[:2], None, gamma, beta]
    ms("EmbedLayerNormalization without segments", "EmbedLayerNormalization", ids, *more, outputs=2)
    packed, packed_bias = Const(floats(8, 24) / 2), Const(floats(24))
    for mask in (None, np.int32([3, 2]), np.int32([[1, 1, 1], [1, 1, 0]])):
        name = f"Attention of Microsoft{'' if mask is None else f' with a mask of {mask.ndim}'}"
        for causal in (0, 1):
            ms(f"{name} {causal}", "Attention", x, packed, packed_bias, mask, num_heads=2, unidirectional=causal)
    between = [packed, packed_bias, np.int32([3, 2, 0, 1])]
    ms("Attention of Microsoft between first and last", "Attention", x, *between, num_heads=2)
    uneven = {"num_heads": 2, "qkv_hidden_sizes": [4, 4, 12]}
    ms("Attention of Microsoft of uneven widths", "Attention", x, Const(floats(8, 20)), Const(floats(20)), **uneven)
    past = floats(2, 2, 2, 4, 4)
    ms(
        "Attention of Microsoft with past",
        "Attention",
        x,
        packed,
        packed_bias,
        None,
        past,
        num_heads=2,
        outputs=2,
        unidirectional=1,
    )
    ms("MultiHeadAttention", "MultiHeadAttention", x, floats(2, 5, 8), floats(2, 5, 8), packed_bias, num_heads=2)
    key_mask = np.int32([[1, 1, 0], [1, 1, 1]])
    ms(
        "MultiHeadAttention masked",
        "MultiHeadAttention",
        x,
        skip,
        skip,
        None,
        key_mask,
        floats(2, 2, 3, 3),
        num_heads=2,
    )
    old = [floats(2, 2, 4, 4) for _ in range(2)]
    ms(
        "MultiHeadAttention with past",
        "MultiHeadAttention",
        x,
        skip,
        x,
        None,
        None,
        None,
        *old,
        num_heads=2,
        outputs=3,
        unidirectional=1,
    )
    angles = [Const(f(np.arange(10)[:, None] * np.float32([1, 0.3])).astype("float32")) for f in (np.cos, np.sin)]
    for interleaved in (0, 1):
        places = np.int64([[0, 1, 2], [4, 5, 6]])
        ms(f"RotaryEmbedding {interleaved}", "RotaryEmbedding", x, places, *angles, interleaved=interleaved)
        ms(
            f"RotaryEmbedding of heads {interleaved}",
            "RotaryEmbedding",
            floats(2, 3, 5, 4),
            np.int64([2]),
            *angles,
            interleaved=interleaved,
        )
    ms(
        "RotaryEmbedding of a part",
        "RotaryEmbedding",
        floats(2, 3, 12),
        np.int64([1]),
        *angles,
        num_heads=2,
        rotary_embedding_dim=4,
    )
    q, k, v, more = (
        floats(2, 3, 64),
        floats(2, 3, 32),
        floats(2, 3, 32),
        {"num_heads": 4, "kv_num_heads": 2, "outputs": 3},
    )
    none, ends, total = np.zeros((2, 2, 0, 16), "float32"), np.int32([2, 2]), Const(np.array(3, "int32"))
    turns = [
        Const(f(np.arange(10)[:, None] * np.float32([1, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02])).astype("float32"))
        for f in (np.cos, np.sin)
    ]
    ms("GroupQueryAttention", "GroupQueryAttention", q, k, v, none, none, ends, total, **more)
    smooth = more | {"smooth_softmax": 1}
    ms("GroupQueryAttention smoothed", "GroupQueryAttention", q, k, v, none, none, ends, total, **smooth)
    more |= {"do_rotary": 1}
    ms("GroupQueryAttention turned", "GroupQueryAttention", q, k, v, none, none, ends, total, *turns, **more)
    old = [floats(2, 2, 5, 16) for _ in range(2)]
    later = [q[:, :1], k[:, :1], v[:, :1], *old, np.int32([5, 3]), Const(np.array(6, "int32"))]
    ms("GroupQueryAttention with past", "GroupQueryAttention", *later, *turns, local_window_size=3, scale=0.4, **more)
    ms("Pad of Microsoft", "Pad", x, Const(np.int64([0, 1, 0, 0, 0, 2])), Const(np.float32(3)))
    for metric in ("euclidean", "sqeuclidean"):
        ms(f"CDist {metric}", "CDist", floats(4, 3), floats(5, 3), metric=metric)
        ms(f"CDist {metric} of open sizes", "CDist", floats(4, 3), Const(floats(5, 3)), metric=metric, open_batch=True)
    ms("Inverse", "Inverse", floats(2, 3, 3) + 2 * np.eye(3, dtype="float32"))
    ms("CDist of doubles", "CDist", floats(2, 3).astype("float64"), floats(4, 3).astype("float64"))
    ms("Trilu of Microsoft", "Trilu", x, Const(np.int64(1)), upper=0)


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.linear = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Linear(8, 5)

    def forward(self, x):
        return self.linear(torch.relu(self.conv(x)).mean((2, 3)))


def dynamic():
    """A network that ONNX Runtime's quantize_dynamic made of PyTorch's."""
    torch.manual_seed(0)
    x = torch.randn(2, 3, 6, 6)
    with TemporaryDirectory() as folder:
        model, quantized = f"{folder}/model.onnx", f"{folder}/quantized.onnx"
        names = {"input_names": ["x"], "dynamic_axes": {"x": {0: "batch"}}}
        torch.onnx.export(Small().eval(), (x,), model, opset_version=17, dynamo=False, **names)
        for per_channel in (False, True):
            quantize_dynamic(model, quantized, per_channel=per_channel, weight_type=QuantType.QUInt8)
            add(f"per_channel {per_channel}", Path(quantized).read_bytes(), [x.numpy()])


def experimental():
    """Operators of ONNX's first versions that are no longer in it, which CoreML's and others' converters wrote."""
    image = floats(2, 3, 5, 6)
    op("Experimental ImageScaler", "ImageScaler", image, bias=[0.5, -1.0, 0.25], scale=0.5, opset=7)
    op("Experimental Crop", "Crop", image, border=[1, 0, 2, 1], open_axes=[2], opset=7)
    op("Experimental Crop to a size", "Crop", image, border=[1, 2, 0, 0], scale=[2, 3], opset=7)
    for name in ("Affine", "ParametricSoftplus", "ScaledTanh"):
        op(f"Experimental {name}", name, image, alpha=1.5, beta=0.25, opset=7)
    ends = [Const(np.int64(x)) for x in ([1, -4], [4, -1], [2, 3])]
    op("Experimental DynamicSlice", "DynamicSlice", image, *ends, opset=7)


for make in (convolutions, normalization, resizing, quantized, recurrent, sampling, microsoft, experimental):
    make()
save("layers")
dynamic()
save("dynamic")
