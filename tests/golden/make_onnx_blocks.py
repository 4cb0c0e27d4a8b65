"""ONNX models with quantized operators of com.microsoft: weights of few bits in blocks, attention, embeddings, LSTM.

  python3 tests/golden/make_onnx_blocks.py             in a Python with onnx and onnxruntime

Writes tests/golden/onnx/{blocks,qtransformers,qlstm}.npz for tests/unit/cli/onnx_test.cpp.
"""

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from onnx_case import Const, add, floats, op, random, run, save


def packed(integers, bits):
    """The last axis in bytes, the first integer in the lowest bits."""
    per_byte = 8 // bits
    spare = -integers.shape[-1] % per_byte
    padded = np.concatenate([integers, np.zeros((*integers.shape[:-1], spare), "uint8")], -1)
    parts = padded.reshape(*integers.shape[:-1], -1, per_byte)
    return np.bitwise_or.reduce(parts << (np.arange(per_byte) * bits).astype("uint8"), -1).astype("uint8")


def weights(rows, blocks, block, bits):
    return random.randint(0, 1 << bits, (rows, blocks, block)).astype("uint8")


def matmul(name, rows, depth, block, bits, zero_points=None, bias=False, dtype="float32"):
    blocks = -(-depth // block)
    scales = random.uniform(0.01, 0.1, rows * blocks).astype(dtype)
    zeros = None
    if zero_points == "integers":
        zeros = Const(packed(random.randint(0, 1 << bits, (rows, blocks)).astype("uint8"), bits).reshape(-1))
    elif zero_points == "floats":
        zeros = Const(random.uniform(0, 1 << bits, rows * blocks).astype(dtype))
    inputs = [
        floats(2, 3, depth).astype(dtype),
        Const(packed(weights(rows, blocks, block, bits), bits)),
        Const(scales),
        zeros,
        None,
        Const(floats(rows).astype(dtype)) if bias else None,
    ]
    while inputs[-1] is None:
        inputs.pop()
    op(name, "MatMulNBits", *inputs, domain="com.microsoft", opset=1, K=depth, N=rows, bits=bits, block_size=block)


matmul("matmul_4_bits", 8, 64, 32, 4)
matmul("matmul_4_bits_zero_points", 8, 96, 16, 4, "integers")
matmul("matmul_4_bits_rest_of_a_block", 5, 40, 16, 4, "integers", bias=True)
matmul("matmul_4_bits_float_zero_points", 4, 48, 16, 4, "floats")
# ONNX Runtime has four bits only; these are by the operator's text.
integers, x = weights(4, 2, 16, 8), floats(2, 3, 32)
scales, zeros = random.uniform(0.01, 0.1, (4, 2)).astype("float32"), random.randint(0, 256, (4, 2)).astype("uint8")
wanted = x @ ((integers - zeros[..., None].astype("float32")) * scales[..., None]).reshape(4, 32).T
parts = [Const(integers), Const(scales.reshape(-1)), Const(zeros.reshape(-1))]
sizes = {"K": 32, "N": 4, "bits": 8, "block_size": 16}
op("matmul_8_bits", "MatMulNBits", x, *parts, domain="com.microsoft", opset=1, results=[wanted], **sizes)


def gather(name, data_type, zero_points, indices, axis=0, quantize_axis=1, are_nodes=False):
    table, block = (6, 32), 16
    low, high = (0, 16) if data_type == TensorProto.UINT4 else (-8, 8)
    sizes = [table[0], table[1]]
    sizes[quantize_axis] //= block
    four_bits = lambda name, shape: helper.make_tensor(
        name, data_type, shape, random.randint(low, high, shape).astype("int8").reshape(-1).tolist()
    )
    scales = random.uniform(0.01, 0.1, sizes).astype("float32")
    initializers = [four_bits("data", table), numpy_helper.from_array(scales, "scales")]
    names = ["data", "i", "scales"]
    if zero_points:
        initializers.append(four_bits("zeros", sizes))
        names.append("zeros")
    node = helper.make_node(
        "GatherBlockQuantized",
        names,
        ["y"],
        domain="com.microsoft",
        gather_axis=axis,
        quantize_axis=quantize_axis,
        block_size=block,
    )
    # Constants are initializers, or values of nodes.
    tensors = initializers if are_nodes else []
    graph = helper.make_graph(
        [*(helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in tensors), node],
        "g",
        [helper.make_tensor_value_info("i", TensorProto.INT64, indices.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [] if are_nodes else initializers,
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    add(name, helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString(), [indices])


gather("gather_int4", TensorProto.INT4, False, np.array([[0, 5], [2, 2]]))
gather("gather_uint4_zero_points", TensorProto.UINT4, True, np.array([3, -1, 0]))
gather("gather_uint4_of_nodes", TensorProto.UINT4, True, np.array([2, 0, -2]), are_nodes=True)

integers = random.randint(-9999, 9999, 5).astype("int32")
op(
    "dequantize_single_scale",
    "DequantizeLinear",
    Const(integers),
    Const(np.array([0.01], "float32")),
    Const(np.int32(0)),
)
for kind, name in enumerate(["float4", "normal_float4"]):
    parts = [Const(random.randint(0, 256, 64).astype("uint8")), Const(random.uniform(0.1, 1, 8).astype("float32"))]
    sizes = {"K": 16, "N": 8, "block_size": 16, "quant_type": kind}
    op(f"matmul_{name}", "MatMulBnb4", floats(3, 16), *parts, domain="com.microsoft", opset=1, **sizes)
save("blocks")

# Operators that quantize_dynamic makes of what the optimizer of transformers fused, and of an LSTM.
scale, zero = Const(np.float32(0.02)), Const(np.uint8(128))
op(
    "qattention",
    "QAttention",
    random.randint(0, 256, (2, 5, 8)).astype("uint8"),
    Const(random.randint(-127, 128, (8, 24)).astype("int8")),
    Const(floats(24)),
    scale,
    Const(np.float32(0.01)),
    np.array([5, 3], "int32"),
    zero,
    Const(np.int8(0)),
    domain="com.microsoft",
    opset=1,
    num_heads=2,
)
table = lambda *shape: Const(random.randint(0, 256, shape).astype("uint8"))
op(
    "qembed_layer_norm",
    "QEmbedLayerNormalization",
    random.randint(0, 9, (2, 4)).astype("int32"),
    random.randint(0, 2, (2, 4)).astype("int32"),
    *[table(9, 8), table(6, 8), table(2, 8), table(8), table(8)],
    np.array([[1, 1, 1, 0], [1, 1, 0, 0]], "int32"),
    *[Const(np.float32(value)) for value in (0.01, 0.02, 0.03, 0.01, 0.005)],
    *[Const(np.uint8(value)) for value in (128, 120, 130, 0, 127)],
    outputs=2,
    domain="com.microsoft",
    opset=1,
    epsilon=1e-5,
)
save("qtransformers")

# ONNX Runtime rounds the inputs and states of this one as well; wanted is the LSTM of the same weights.
for name, by_column in (("one_scale", False), ("scale_by_column", True)):
    x, bias, start = floats(4, 2, 6), floats(2, 32), [floats(2, 2, 4), floats(2, 2, 4)]
    sizes = (2, 16) if by_column else (2,)
    parts, dense = [], []
    for rows in (6, 4):
        integers, zeros = random.randint(-128, 128, (2, rows, 16)).astype("int8"), np.zeros(sizes, "int8")
        scales = random.uniform(0.005, 0.01, sizes).astype("float32")
        parts.append((integers, scales, zeros))
        dense.append((integers * scales.reshape(2, 1, -1)).transpose(0, 2, 1).astype("float32"))
    settings = {"hidden_size": 4, "direction": "bidirectional"}
    lstm = helper.make_model(
        helper.make_graph(
            [helper.make_node("LSTM", ["x", "w", "r", "b", "", "h", "c"], ["y", "yh", "yc"], **settings)],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("y", "yh", "yc")],
            [numpy_helper.from_array(a, n) for n, a in zip("wrbhc", [*dense, bias, *start])],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    (w, w_scale, w_zero), (r, r_scale, r_zero) = parts
    op(
        f"dynamic_quantize_lstm_{name}",
        "DynamicQuantizeLSTM",
        x,
        *[Const(a) for a in (w, r, bias)],
        None,
        *[Const(a) for a in start],
        None,
        *[Const(a) for a in (w_scale, w_zero, r_scale, r_zero)],
        outputs=3,
        domain="com.microsoft",
        opset=1,
        results=run(lstm.SerializeToString(), [x]),
        **settings,
    )
save("qlstm")
