"""What the scripts make_onnx*.py share: one-node ONNX models with what ONNX Runtime makes of them.

A file holds, for a case NAME: NAME/model, the bytes of the model; NAME/input_0, ...; NAME/output_0, ... A script that
gets words makes the cases whose names have one of them, and leaves all others as the files have them; without words it
makes all anew, and their last bits differ from processor to processor.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
import onnx.reference  # before onnxruntime: some distributions share one schema registry
import onnxruntime
from onnx import helper, numpy_helper

OUT = Path(__file__).parent / "onnx"
random = np.random.RandomState(0)
cases = {}


def floats(*shape):
    return random.uniform(-2, 2, shape).astype("float32")


def run(model, inputs):
    """By ONNX Runtime; where it has no kernel, by ONNX's own reference."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        reference = onnx.reference.ReferenceEvaluator(onnx.load_from_string(model))
        return reference.run(None, dict(zip(reference.input_names, inputs)))
    return session.run(None, {value.name: x for value, x in zip(session.get_inputs(), inputs)})


def is_made(name):
    return len(sys.argv) == 1 or any(word in name for word in sys.argv[1:])


def add(name, model, inputs, results=None):
    """A case; of what ONNX Runtime does not have, others give the results."""
    if not is_made(name):
        return
    outputs = results or run(model, inputs)
    cases[f"{name}/model"] = np.frombuffer(model, "uint8")
    for i, x in enumerate(inputs):
        cases[f"{name}/input_{i}"] = x
    for i, y in enumerate(outputs):
        cases[f"{name}/output_{i}"] = np.asarray(y)


class Const:
    def __init__(self, value):
        self.value = np.asarray(value)


def op(
    name,
    op_type,
    *inputs,
    outputs=1,
    opset=17,
    open_batch=False,
    open_axes=(),
    typed_data=False,
    domain="",
    more=None,
    results=None,
    **attributes,
):
    """One node; a Const is an initializer, None is left out, any other array an input, whose `open_axes` have names."""
    open_axes = [0] if open_batch else open_axes
    results_of = [f"y{i}" for i in range(outputs)] if isinstance(outputs, int) else outputs
    names, given, initializers = [], [], []
    for i, x in enumerate(inputs):
        if x is None:
            names.append("")
        elif isinstance(x, Const):
            names.append(f"c{i}")
            tensor = numpy_helper.from_array(x.value, f"c{i}")
            if typed_data:
                tensor = helper.make_tensor(f"c{i}", tensor.data_type, x.value.shape, x.value.flatten().tolist())
            initializers.append(tensor)
        else:
            names.append(f"x{i}")
            given.append((f"x{i}", x))
    node = helper.make_node(
        op_type,
        names,
        results_of,
        name="/layer/it/" + op_type,
        domain=domain,
        **attributes,
        **(more or {}),
    )
    infos = [
        helper.make_tensor_value_info(
            n,
            helper.np_dtype_to_tensor_dtype(x.dtype),
            [f"size{i}" if i in open_axes else size for i, size in enumerate(x.shape)],
        )
        for n, x in given
    ]
    graph = helper.make_graph(
        [node], "case", infos, [onnx.ValueInfoProto(name=y) for y in results_of if y], initializers
    )
    # Of a domain of its own the operator's opset, beside a plain one of ONNX.
    opsets = [helper.make_opsetid("", 17 if domain else opset)] + (
        [helper.make_opsetid(domain, opset)] if domain else []
    )
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8 if opset < 21 else 10)
    add(name, model.SerializeToString(), [x for _, x in given], results)


def save(name):
    """Writes the cases to a file of that name and begins anew."""
    kept = {}
    if len(sys.argv) > 1:
        with np.load(OUT / f"{name}.npz") as old:
            kept = {key: old[key] for key in old.files if not is_made(key.rsplit("/", 1)[0])}
    np.savez_compressed(OUT / f"{name}.npz", **kept, **cases)
    count = sum(key.endswith("/model") for key in [*kept, *cases])
    size = (OUT / f"{name}.npz").stat().st_size
    print(name, count, "cases", size, "bytes; onnx", onnx.__version__, "onnxruntime", onnxruntime.__version__)
    cases.clear()
