"""Small ONNX models with what ONNX Runtime makes of them, for tests/unit/cli/onnx_test.cpp.

  python3 tests/golden/make_onnx.py            in a Python with PyTorch 2.6, onnx and onnxruntime

Writes tests/golden/onnx/operators.npz (one operator each) and networks.npz (exported by PyTorch, and quantized by ONNX
Runtime). Both hold, for a case NAME: NAME/model, the bytes of the file; NAME/input_0, ...; NAME/output_0, ... The model
"vision" stands in vision.onnx too, and in external/ with its tensors in a file of their own.
"""

import io
import os
import sys
from pathlib import Path

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper
from onnx_case import OUT, Const, add, cases, floats, op, random, save
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static


def operators():
    x = floats(2, 3, 5)
    for name in [
        "Abs",
        "Ceil",
        "Cos",
        "Erf",
        "Exp",
        "Floor",
        "HardSwish",
        "Identity",
        "Neg",
        "Relu",
        "Round",
        "Selu",
        "Sigmoid",
        "Sign",
        "Sin",
        "Softplus",
        "Tanh",
        "LeakyRelu",
        "Elu",
        "Celu",
        "HardSigmoid",
        "IsNaN",
        "Shape",
        "Flatten",
        "Transpose",
        "Squeeze",
        "Dropout",
    ]:
        op(name, name, x)
    op("Mish", "Mish", x, opset=18)
    for name in ["Log", "Sqrt", "Reciprocal"]:
        op(name, name, np.abs(x) + np.float32(0.5))
    op("LeakyRelu alpha", "LeakyRelu", x, alpha=0.3)
    op("HardSigmoid of PyTorch", "HardSigmoid", x, alpha=1 / 6)
    op("Gelu", "Gelu", x, opset=20)
    op("Gelu tanh", "Gelu", x, opset=20, approximate="tanh")
    op("Clip to 6", "Clip", x, Const(np.float32(0)), Const(np.float32(6)))
    op("Clip below", "Clip", x, Const(np.float32(-0.5)))
    op("Clip above", "Clip", x, None, Const(np.float32(0.5)))
    op("Clip integers", "Clip", np.arange(-5, 5), Const(np.int64(-2)), Const(np.int64(3)))
    op("PRelu", "PRelu", floats(2, 3, 4, 4), Const(floats(3, 1, 1)))
    op("PRelu shared", "PRelu", x, Const(floats(1)))
    for name in ["Add", "Sub", "Mul", "Div"]:
        op(name, name, x, floats(3, 5))
        op(name + " number", name, x, Const(np.float32(1.5)))
        op(name + " number first", name, Const(np.float32(1.5)), x)
        op(name + " broadcasting", name, floats(3, 1), floats(2, 1, 5))
        op(name + " integers", name, np.arange(-6, 6), Const(np.int64([4])))
    op("Add to more axes", "Add", floats(4), Const(floats(1, 1, 1)))
    op("Pow", "Pow", np.abs(x), Const(np.float32(2.5)))
    op("Pow of tensors", "Pow", np.abs(x), floats(5))
    op("Mod", "Mod", np.arange(-6, 6), Const(np.int64(4)))
    op("Mod of C", "Mod", x, floats(5), fmod=1)
    for name in ["Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"]:
        op(name, name, np.arange(6), np.int64([3, 3, 3, 2, 5, 6]))
        op(name + " number", name, np.arange(6), Const(np.int64(3)))
    a, b = x > 0, floats(3, 5) > 0
    for name in ["And", "Or", "Xor"]:
        op(name, name, a, b)
    op("Not", "Not", a)
    op("Where", "Where", a, x, Const(np.float32(-7)))
    for name in ["Min", "Max", "Sum", "Mean"]:
        op(name, name, x, floats(5), floats(3, 1))
    for name in ["ReduceMean", "ReduceMax", "ReduceMin"]:
        op(name, name, x, axes=[1, -1])
        op(name + " by input", name, x, Const(np.int64([-1])), opset=18, keepdims=0)
        op(name + " all", name, x, opset=18, keepdims=0)
    op("ReduceSum", "ReduceSum", x, Const(np.int64([0, 2])))
    op("ReduceLogSumExp", "ReduceLogSumExp", x, axes=[0, 1])
    op("ReduceProd", "ReduceProd", x, axes=[1], keepdims=0)
    op("ReduceL2", "ReduceL2", x, axes=[2], keepdims=0)
    op("ArgMax", "ArgMax", x, axis=-1, keepdims=0)
    op("ArgMin", "ArgMin", x, axis=1)
    op("TopK", "TopK", x, Const(np.int64([2])), outputs=2)
    op("Softmax", "Softmax", x)
    op("Softmax of axis 1", "Softmax", x, axis=1)
    op("LogSoftmax", "LogSoftmax", x, axis=0)
    op("CumSum", "CumSum", x, Const(np.int64(1)))
    op("Concat", "Concat", x, floats(2, 1, 5), axis=1)
    op("Split", "Split", x, outputs=3, axis=1)
    op("Split sizes", "Split", x, Const(np.int64([1, 4])), outputs=2, axis=-1)
    op("Split unevenly", "Split", x, outputs=2, axis=1, opset=18, num_outputs=2)
    op(
        "Slice",
        "Slice",
        x,
        Const(np.int64([1, 0])),
        Const(np.int64([2**62, -1])),
        Const(np.int64([2, 1])),
        Const(np.int64([2, 1])),
    )
    op("Slice of first axes", "Slice", x, Const(np.int64([0, -2])), Const(np.int64([1, 3])))
    op(
        "Slice backwards",
        "Slice",
        x,
        Const(np.int64([-1])),
        Const(np.int64([-(2**63)])),
        Const(np.int64([1])),
        Const(np.int64([-1])),
    )
    op("Gather number", "Gather", x, Const(np.int64(-1)), axis=1)
    op("Gather list", "Gather", x, Const(np.int64([2, 0])), axis=1)
    op("Gather table", "Gather", Const(floats(6, 4)), np.int64([[0, 5], [3, 3]]))
    op("Gather table along columns", "Gather", Const(floats(6, 4)), np.int64([[0, 2], [3, 3]]), axis=1)
    op("GatherElements", "GatherElements", x, np.int64(random.randint(0, 5, (2, 3, 2))), axis=2)
    op("Reshape", "Reshape", x, Const(np.int64([0, -1])))
    op("Reshape of an open batch", "Reshape", x, Const(np.int64([-1, 15])), open_batch=True)
    op("Flatten of axis 0", "Flatten", x, axis=0)
    op("Flatten of axis 2", "Flatten", x, axis=2, open_batch=True)
    op("Transpose two", "Transpose", x, perm=[0, 2, 1])
    op("Transpose cycle", "Transpose", x, perm=[2, 0, 1])
    op("Squeeze axis", "Squeeze", floats(2, 1, 3, 1), Const(np.int64([1])))
    op("Squeeze axes", "Squeeze", floats(2, 1, 3, 1), Const(np.int64([1, -1])))
    op("Unsqueeze", "Unsqueeze", x, Const(np.int64([-1, 0])))
    op("Expand", "Expand", floats(3, 1), Const(np.int64([2, 1, 4])))
    op("Tile", "Tile", x, Const(np.int64([1, 2, 2])))
    op("Pad", "Pad", x, Const(np.int64([0, 1, 0, 0, 0, 2])), Const(np.float32(3)))
    op("Pad edge", "Pad", x, Const(np.int64([0, 0, 2, 0, 0, 1])), mode="edge")
    op("Pad reflect axes", "Pad", x, Const(np.int64([1, 2])), None, Const(np.int64([-1])), mode="reflect", opset=18)
    op("Cast", "Cast", x, to=TensorProto.INT64)
    op("Cast to bool", "Cast", np.arange(3), to=TensorProto.BOOL)
    op("CastLike", "CastLike", x, Const(np.int64(0)))
    op(
        "ConstantOfShape",
        "ConstantOfShape",
        Const(np.int64([2, 3])),
        value=helper.make_tensor("v", TensorProto.FLOAT, [1], [4.5]),
    )
    op("Range", "Range", Const(np.int64(2)), Const(np.int64(11)), Const(np.int64(3)))
    op("Einsum", "Einsum", floats(2, 3, 4), floats(2, 4, 5), equation="bij,bjk->bik")
    op("DepthToSpace", "DepthToSpace", floats(1, 8, 2, 3), blocksize=2, mode="CRD")
    op("Trilu", "Trilu", x, Const(np.int64(1)), upper=0, opset=17)
    op("Shape from 1", "Shape", x, start=1)
    op("Typed data", "Add", np.arange(3), Const(np.int64([5, -6, 7])), typed_data=True)
    op("Typed halves", "Add", floats(3).astype("float16"), Const(floats(3).astype("float16")), typed_data=True)

    image = floats(2, 4, 7, 9)
    op("Conv", "Conv", image, Const(floats(6, 4, 3, 3)), Const(floats(6)), pads=[1, 1, 1, 1])
    op("Conv groups", "Conv", image, Const(floats(8, 2, 3, 3)), group=2, strides=[2, 1], dilations=[1, 2])
    op("Conv one side", "Conv", image, Const(floats(3, 4, 2, 2)), pads=[0, 0, 1, 1], strides=[2, 2])
    op("Conv same upper", "Conv", image, Const(floats(3, 4, 4, 3)), auto_pad="SAME_UPPER", strides=[2, 2])
    op("Conv same lower", "Conv", image, Const(floats(3, 4, 4, 3)), auto_pad="SAME_LOWER")
    op("Conv valid", "Conv", image, Const(floats(3, 4, 2, 3)), auto_pad="VALID")
    op("Conv 1d", "Conv", floats(2, 3, 8), Const(floats(4, 3, 3)), Const(floats(4)), pads=[1, 1])
    op("Conv 3d", "Conv", floats(1, 2, 4, 5, 6), Const(floats(3, 2, 2, 3, 2)), strides=[1, 2, 1])
    op(
        "ConvTranspose",
        "ConvTranspose",
        image,
        Const(floats(4, 3, 3, 3)),
        Const(floats(3)),
        strides=[2, 2],
        pads=[1, 1, 1, 1],
        output_padding=[1, 1],
    )
    op("ConvTranspose groups", "ConvTranspose", floats(1, 4, 5), Const(floats(4, 2, 3)), group=2)
    op("MaxPool", "MaxPool", image, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    op("MaxPool one side", "MaxPool", image, kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 1, 1])
    op("MaxPool ceil", "MaxPool", image, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    op("MaxPool 1d", "MaxPool", floats(2, 3, 8), kernel_shape=[3])
    op("AveragePool", "AveragePool", image, kernel_shape=[3, 2], strides=[2, 2])
    op("AveragePool padded", "AveragePool", image, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    op("AveragePool counting", "AveragePool", image, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)
    op("GlobalAveragePool", "GlobalAveragePool", image)
    op("GlobalAveragePool 1d", "GlobalAveragePool", x)
    op("GlobalMaxPool", "GlobalMaxPool", image)
    positive = np.abs(floats(4)) + np.float32(0.1)
    op(
        "BatchNormalization",
        "BatchNormalization",
        image,
        Const(floats(4)),
        Const(floats(4)),
        Const(floats(4)),
        Const(positive),
    )
    op("InstanceNormalization", "InstanceNormalization", image, Const(floats(4)), Const(floats(4)), epsilon=1e-3)
    op("GroupNormalization", "GroupNormalization", image, Const(floats(4)), Const(floats(4)), num_groups=2, opset=21)
    op("LayerNormalization", "LayerNormalization", image, Const(floats(9)), Const(floats(9)))
    op("LayerNormalization of two axes", "LayerNormalization", x, Const(floats(3, 5)), axis=1, epsilon=1e-3)
    op("Gemm", "Gemm", floats(3, 4), Const(floats(4, 5)), Const(floats(5)))
    op("Gemm transposed", "Gemm", floats(3, 4), Const(floats(5, 4)), Const(floats(5)), transB=1)
    op("Gemm scaled", "Gemm", floats(4, 3), Const(floats(4, 5)), Const(floats(3, 5)), transA=1, alpha=0.5, beta=2.0)
    op("MatMul of a weight", "MatMul", x, Const(floats(5, 4)))
    op("MatMul of values", "MatMul", x, floats(2, 5, 4))
    op(
        "Resize nearest",
        "Resize",
        image,
        None,
        Const(np.float32([1, 1, 2, 2])),
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    op(
        "Resize linear",
        "Resize",
        image,
        None,
        None,
        Const(np.int64([2, 4, 14, 20])),
        mode="linear",
        coordinate_transformation_mode="pytorch_half_pixel",
    )
    op(
        "Resize corners",
        "Resize",
        image,
        None,
        None,
        Const(np.int64([2, 4, 13, 5])),
        mode="linear",
        coordinate_transformation_mode="align_corners",
    )
    op("QuantizeLinear", "QuantizeLinear", x, Const(np.float32(0.03)), Const(np.int8(5)))
    op("QuantizeLinear of unsigned", "QuantizeLinear", x, Const(np.float32(0.02)))
    op(
        "QuantizeLinear by channel",
        "QuantizeLinear",
        x,
        Const(np.float32([0.02, 0.05, 0.01])),
        Const(np.uint8([128, 3, 250])),
        axis=1,
    )
    op("DequantizeLinear", "DequantizeLinear", np.int8([-128, 0, 127]), Const(np.float32(0.5)), Const(np.int8(3)))
    op(
        "DequantizeLinear by channel",
        "DequantizeLinear",
        random.randint(-128, 128, (2, 3, 4)).astype("int8"),
        Const(np.float32([0.5, 1, 2])),
        Const(np.int8([0, 1, -1])),
        axis=1,
    )
    op(
        "DequantizeLinear bias",
        "DequantizeLinear",
        Const(np.int32([700, -80000, 9])),
        Const(np.float32([0.5, 1e-3, 2])),
        Const(np.int32([0, 0, 0])),
        axis=0,
    )
    op("DynamicQuantizeLinear", "DynamicQuantizeLinear", x, outputs=3)


class Vision(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1 = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU())
        self.squeeze = torch.nn.Conv2d(8, 8, 1)
        self.head = torch.nn.Linear(8, 5)

    def forward(self, x):
        x = self.layer1(x)
        x = F.silu(self.squeeze(x)) + x
        x = F.max_pool2d(F.pad(x, (0, 1, 0, 1)), 2)
        return self.head(torch.flatten(F.adaptive_avg_pool2d(F.relu6(x), 1), 1))


class Text(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(11, 16)
        self.token = torch.nn.Parameter(torch.randn(1, 1, 16))
        self.qkv = torch.nn.Linear(16, 48)
        self.norm = torch.nn.LayerNorm(16)
        self.up, self.down = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16, bias=False)

    def forward(self, ids):
        batch, length = ids.shape
        x = self.words(ids)
        q, k, v = self.qkv(self.norm(x)).view(batch, length, 3, 2, 8).permute(2, 0, 3, 1, 4)
        mask = torch.zeros(ids.shape).masked_fill(ids == 0, -1000.0)[:, None, None, :]
        x = x + F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).reshape(batch, length, -1)
        x = torch.cat([self.token.expand(batch, -1, -1), x], 1)
        x = x + self.down(F.gelu(self.up(x)))
        return F.gelu(x, approximate="tanh").mean(1)


class Reader(CalibrationDataReader):
    def __init__(self, samples):
        self.samples = iter(samples)

    def get_next(self):
        return next(self.samples, None)


def networks():
    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(False)
    dynamic = {"x": {0: "batch"}}
    for name, model, example, folding in [
        ("vision", Vision(), torch.randn(1, 3, 8, 8), True),
        ("vision unfolded", Vision(), torch.randn(1, 3, 8, 8), False),
        ("text", Text(), torch.randint(0, 11, (1, 6)), True),
    ]:
        buffer = io.BytesIO()
        mode = torch.onnx.TrainingMode.EVAL if folding else torch.onnx.TrainingMode.PRESERVE
        torch.onnx.export(
            model.eval(),
            (example,),
            buffer,
            opset_version=17,
            dynamo=False,
            input_names=["x"],
            output_names=["y"],
            dynamic_axes=dynamic,
            training=mode,
            do_constant_folding=folding,
        )
        x = torch.cat([torch.roll(example, i) for i in range(3)]).numpy()
        add(name, buffer.getvalue(), [x])
    file, quantized = "/tmp/vision.onnx", "/tmp/vision.int8.onnx"
    for kind in (QuantType.QInt8, QuantType.QUInt8):
        Path(file).write_bytes(cases["vision/model"].tobytes())
        quantize_static(
            file,
            quantized,
            Reader([{"x": cases["vision/input_0"]}]),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=kind,
            weight_type=QuantType.QInt8,
        )
        add("vision " + kind.name, Path(quantized).read_bytes(), [cases["vision/input_0"]])
        os.remove(file), os.remove(quantized)


operators()
save("operators")
if len(sys.argv) > 1:
    sys.exit()  # networks are made all together
networks()
(OUT / "vision.onnx").write_bytes(cases["vision/model"].tobytes())
(OUT / "external").mkdir(exist_ok=True)
(OUT / "external" / "vision.onnx.data").unlink(missing_ok=True)
onnx.save_model(
    onnx.load_from_string(cases["vision/model"].tobytes()),
    OUT / "external" / "vision.onnx",
    save_as_external_data=True,
    location="vision.onnx.data",
    size_threshold=64,
)
save("networks")
