#!/usr/bin/env python3
"""Makes an ONNX model of linear layers with random weights in a file beside it, as large as is wanted.

python3 tests/bench/large_model.py OUT.onnx GIGABYTES [--width 4096]

`qdq convert OUT.onnx OUT.pt2` makes the .pt2 of it. Needs NumPy and onnx, and the memory of one layer.
"""

import argparse
import os

import numpy as np
from onnx import TensorProto, helper


def external(name, shape, location, offset, length):
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("gigabytes", type=float)
    parser.add_argument("--width", type=int, default=4096)
    arguments = parser.parse_args()
    width, location = arguments.width, os.path.basename(arguments.out) + ".data"
    layers = max(1, round(arguments.gigabytes * 1e9 / (4 * width * width)))
    rng = np.random.default_rng(0)
    nodes, weights, value = [], [], "x"
    with open(arguments.out + ".data", "wb") as data:
        for i in range(layers):
            offset = data.tell()
            weight = rng.random((width, width), dtype=np.float32)
            weight -= 0.5
            weight *= 2 * (6 / width) ** 0.5  # keeps the size of what a ReLU follows
            data.write(weight)
            weights.append(external(f"layer{i}.weight", (width, width), location, offset, data.tell() - offset))
            nodes.append(helper.make_node("Gemm", [value, f"layer{i}.weight"], [f"sum{i}"], transB=1))
            value = f"relu{i}"
            nodes.append(helper.make_node("Relu", [f"sum{i}"], [value]))
    graph = helper.make_graph(
        nodes,
        "large",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", width])],
        [helper.make_tensor_value_info(value, TensorProto.FLOAT, ["batch", width])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with open(arguments.out, "wb") as out:
        out.write(model.SerializeToString())
    print(f"{arguments.out}: {layers} layers, {os.path.getsize(arguments.out + '.data') / 1e9:.2f} GB of weights")


if __name__ == "__main__":
    main()
