"""ONNX models whose weights are integers of few bits in blocks that share a scale.

  python3 tests/golden/make_onnx_blocks.py             in a Python with onnx and onnxruntime

Writes tests/golden/onnx/blocks.npz for tests/unit/cli/onnx_test.cpp.
"""

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from onnx_case import Const, add, floats, op, random, save


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


def gather(name, data_type, zero_points, indices, axis=0, quantize_axis=1):
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
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("i", TensorProto.INT64, indices.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        initializers,
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    add(name, helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString(), [indices])


gather("gather_int4", TensorProto.INT4, False, np.array([[0, 5], [2, 2]]))
gather("gather_uint4_zero_points", TensorProto.UINT4, True, np.array([3, -1, 0]))

integers = random.randint(-9999, 9999, 5).astype("int32")
op(
    "dequantize_single_scale",
    "DequantizeLinear",
    Const(integers),
    Const(np.array([0.01], "float32")),
    Const(np.int32(0)),
)
save("blocks")
