"""Counts which convolutions and matrix products of int8 ONNX files ONNX Runtime runs in integers.

  python3 tests/beside/onnx_integers.py FILE.onnx...
      in a Python with onnx and onnxruntime

What a file calls quantized is a Conv, MatMul or Gemm whose inputs DequantizeLinear gives, turned around perhaps, and
an operator of integers. What runs in integers is told by the graph that ONNX Runtime writes once it is optimized
(session option optimized_model_filepath, level extended).
Exit status 1 if the two numbers differ.
"""

import collections
import os
import sys
import tempfile
from pathlib import Path

PRODUCTS = {"Conv", "ConvTranspose", "MatMul", "Gemm"}
MOVES = {"Flatten", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}
IN_INTEGERS = {
    "QLinearConv", "ConvInteger", "QLinearMatMul", "QGemm", "MatMulInteger", "MatMulIntegerToFloat",
    "DynamicQuantizeMatMul",
}  # fmt: skip


def called_quantized(path):
    """The convolutions and products with integers on both sides, and how many there are in all."""
    import onnx

    graph = onnx.load(path).graph
    dequantized = set()
    for node in graph.node:
        if node.op_type == "DequantizeLinear" or (node.op_type in MOVES and node.input[0] in dequantized):
            dequantized.update(node.output)
    products = [node for node in graph.node if node.op_type in PRODUCTS]
    in_integers = sum(node.op_type in IN_INTEGERS for node in graph.node)
    between = sum(all(name in dequantized for name in node.input[:2]) for node in products)
    return between + in_integers, len(products) + in_integers


def optimized(path):
    """How often each operator stands in ONNX Runtime's optimized graph."""
    import onnx
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = os.path.join(folder, "optimized.onnx")
        onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        # Of weights that ONNX Runtime packs itself the file names bytes that only its memory has.
        graph = onnx.load(options.optimized_model_filepath, load_external_data=False).graph
        return collections.Counter(node.op_type for node in graph.node)


def count(path):
    """(what runs in integers, what is called quantized, all) of the convolutions and products of a file."""
    wanted, total = called_quantized(path)
    return sum(number for name, number in optimized(path).items() if name in IN_INTEGERS), wanted, total


def main():
    import onnx.reference  # noqa: F401, before onnxruntime: some distributions share one schema registry

    failed = not sys.argv[1:]
    for path in map(Path, sys.argv[1:]):
        found, wanted, total = count(path)
        print(f"{path.name}: {found} of {total} convolutions and products in integers, quantized are {wanted}")
        failed |= found != wanted
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
