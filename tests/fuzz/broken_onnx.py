"""Valid ONNX models with one thing broken each, to be refused by name or run: files for qdq_onnx_fuzz --each.

  python3 tests/fuzz/broken_onnx.py FOLDER [--seed S] [--count N] [--from DATA]
      in a Python with onnx and onnxruntime

Writes N files, NUMBER_WHAT.onnx. Models are the random graphs of tests/beside/differential_onnx_graphs.py; or those of
a folder, such as that of Debian's libonnx-testdata.
"""

import argparse
import random
import sys
from pathlib import Path

import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "beside"))

INTEGERS = (0, -1, 1, 2, 3, 7, 255, 1 << 20, (1 << 31) - 1, 1 << 31, -(1 << 31), 1 << 40, (1 << 62) + 1)
INTEGERS += ((1 << 63) - 1, -(1 << 63), -(1 << 40), -3)
REALS = (0.0, -1.0, 0.5, 1e30, -1e38, 1e-40, float("inf"), float("-inf"), float("nan"), 9.3e18)
TEXTS = ("", "SAME_UPPER", "linear", "cubic", "reflect", "bidirectional", "mul", "a" * 300, "\x1b[31m", "...ij,->", "é")
TYPES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22)
BREAKS = []


class Nothing(Exception):
    """The model does not have what would be broken."""


def breaks(function):
    BREAKS.append(function)
    return function


def any_of(list_, r):
    if not list_:
        raise Nothing
    return r.choice(list(list_))


def graphs_of(graph):
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from graphs_of(attribute.g)


def nodes_of(model):
    return [node for graph in graphs_of(model.graph) for node in graph.node]


def tensors_of(model):
    found = [t for graph in graphs_of(model.graph) for t in graph.initializer]
    return found + [a.t for node in nodes_of(model) for a in node.attribute if a.HasField("t")]


def node_of(model, r):
    """Mostly one that computes."""
    nodes = nodes_of(model)
    return any_of([n for n in nodes if n.op_type != "Constant"] or nodes, r)


@breaks
def no_input(model, r):
    node = node_of(model, r)
    i = r.randrange(len(node.input)) if node.input else any_of([], r)
    if r.random() < 0.5:
        node.input[i] = ""
    else:
        del node.input[i]


@breaks
def other_input(model, r):
    node = node_of(model, r)
    names = [n for other in nodes_of(model) for n in [*other.input, *other.output]] + ["nobody"]
    i = r.randrange(len(node.input)) if node.input else any_of([], r)
    node.input[i] = any_of(names, r)


@breaks
def swapped_inputs(model, r):
    node = node_of(model, r)
    order = list(node.input)
    if len(order) < 2:
        raise Nothing
    r.shuffle(order)
    node.input[:] = order


@breaks
def more_inputs(model, r):
    node = node_of(model, r)
    node.input.extend([any_of(node.input, r)] * r.choice([1, 3, 8]))


@breaks
def more_outputs(model, r):
    node = node_of(model, r)
    node.output.extend([f"more{i}" for i in range(r.choice([1, 4]))])


@breaks
def fewer_outputs(model, r):
    node = node_of(model, r)
    del node.output[r.randrange(len(node.output))]


@breaks
def other_operator(model, r):
    node_of(model, r).op_type = any_of(OPERATORS, r)


@breaks
def other_domain(model, r):
    node = node_of(model, r)
    name = any_of(OPERATORS, r)
    node.domain, node.op_type = r.choice(["", "com.microsoft", "ai.onnx.ml"]), name


@breaks
def other_opset(model, r):
    model.opset_import[0].version = r.choice([1, 6, 9, 11, 13, 18, 22, 24, 10**6])


def reshaped(tensor, array):
    name = tensor.name
    tensor.CopyFrom(numpy_helper.from_array(array, name))


@breaks
def other_rank(model, r):
    tensor = any_of([t for t in tensors_of(model) if t.data_type not in (21, 22)], r)
    array = numpy_helper.to_array(tensor)
    shapes = [(1, *array.shape), (*array.shape, 1), (array.size,), (1,) * 9 + array.shape, array.shape[::-1]]
    if array.ndim and array.shape[0]:
        reshaped(tensor, r.choice([array[0], array[:1], array[:-1], *(array.reshape(s) for s in shapes)]))
    else:
        reshaped(tensor, array.reshape(r.choice(shapes)))


@breaks
def empty_tensor(model, r):
    tensor = any_of(tensors_of(model), r)
    dims = list(tensor.dims) or [1]
    dims[r.randrange(len(dims))] = 0
    tensor.CopyFrom(TensorProto(name=tensor.name, data_type=tensor.data_type, dims=dims))


@breaks
def other_type(model, r):
    tensor = any_of([t for t in tensors_of(model) if t.data_type not in (21, 22)], r)
    array = numpy_helper.to_array(tensor)
    if array.dtype.kind not in "fiub":
        raise Nothing
    kind = r.choice(TYPES)
    if kind == TensorProto.STRING:
        made = helper.make_tensor(tensor.name, kind, array.shape, [str(v) for v in array.reshape(-1)])
    elif kind in (14, 15):
        reshaped(tensor, array.astype("complex64" if kind == 14 else "complex128"))
        return
    else:
        values = array.reshape(-1)
        integral = kind in (2, 3, 4, 5, 6, 7, 9, 12, 13, 21, 22)
        values = [int(v) % 7 if integral else float(v) for v in values]
        made = helper.make_tensor(tensor.name, kind, array.shape, values)
    tensor.CopyFrom(made)


@breaks
def only_type(model, r):
    any_of(tensors_of(model), r).data_type = r.choice([0, 23, 99, *TYPES])


@breaks
def other_sizes(model, r):
    tensor = any_of(tensors_of(model), r)
    if tensor.dims and r.random() < 0.7:
        tensor.dims[r.randrange(len(tensor.dims))] = r.choice(INTEGERS)
    else:
        tensor.dims.extend([r.choice(INTEGERS)] * r.choice([1, 2, 70]))


@breaks
def other_numbers(model, r):
    tensor = any_of([t for t in tensors_of(model) if t.data_type in (1, 6, 7, 10, 11)], r)
    array = numpy_helper.to_array(tensor).copy()
    if array.size == 0:
        raise Nothing
    if array.dtype.kind == "f":
        value = r.choice(REALS)
    else:
        value = r.choice([v for v in INTEGERS if array.dtype.itemsize == 8 or abs(v) < 1 << 31])
    with numpy_quiet():
        if r.random() < 0.3:
            array[...] = value
        else:
            array.reshape(-1)[r.randrange(array.size)] = value
    reshaped(tensor, array)


def numpy_quiet():
    import numpy

    return numpy.errstate(all="ignore")


@breaks
def other_bytes(model, r):
    tensor = any_of([t for t in tensors_of(model) if t.raw_data], r)
    tensor.raw_data = tensor.raw_data[: r.randrange(len(tensor.raw_data))] + b"\x80" * r.choice([0, 1, 9])


@breaks
def data_elsewhere(model, r):
    tensor = any_of(tensors_of(model), r)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    places = ["", ".", "..", "/dev/zero", "/etc/passwd", "../x", "a/../../x", "missing", "\x00", "a" * 5000]
    tensor.external_data.add(key="location", value=r.choice(places))
    tensor.external_data.add(key="offset", value=str(r.choice([*INTEGERS, "x", ""])))
    tensor.external_data.add(key="length", value=str(r.choice([*INTEGERS, "1e9"])))


@breaks
def no_attribute(model, r):
    node = any_of([n for n in nodes_of(model) if n.attribute], r)
    del node.attribute[r.randrange(len(node.attribute))]


@breaks
def other_attribute(model, r):
    attribute = any_of([a for n in nodes_of(model) for a in n.attribute], r)
    if attribute.type == onnx.AttributeProto.INT:
        attribute.i = r.choice(INTEGERS)
    elif attribute.type == onnx.AttributeProto.FLOAT:
        attribute.f = r.choice(REALS)
    elif attribute.type == onnx.AttributeProto.STRING:
        attribute.s = r.choice(TEXTS).encode()
    elif attribute.type == onnx.AttributeProto.INTS and attribute.ints:
        attribute.ints[r.randrange(len(attribute.ints))] = r.choice(INTEGERS)
    elif attribute.type == onnx.AttributeProto.FLOATS and attribute.floats:
        attribute.floats[r.randrange(len(attribute.floats))] = r.choice((0.0, float("nan"), float("inf"), -1e30))
    elif attribute.type == onnx.AttributeProto.STRINGS and attribute.strings:
        attribute.strings[r.randrange(len(attribute.strings))] = r.choice(TEXTS).encode()
    else:
        raise Nothing


@breaks
def other_length(model, r):
    attribute = any_of([a for n in nodes_of(model) for a in n.attribute if a.ints or a.floats or a.strings], r)
    for values in (attribute.ints, attribute.floats, attribute.strings):
        if values:
            way = r.randrange(4)
            if way == 0:
                del values[-1]
            elif way == 1:
                values.extend(list(values)[-1:] * r.choice([1, 2, 50]))
            elif way == 2:
                del values[:]
            else:
                values[:] = [values[0]] * len(values)


@breaks
def attribute_of_other_kind(model, r):
    node = node_of(model, r)
    name = any_of([a.name for n in nodes_of(model) for a in n.attribute] + ["axis", "to", "value", "activations"], r)
    for old in [a for a in node.attribute if a.name == name]:
        node.attribute.remove(old)
    values = [r.choice(INTEGERS), r.choice(REALS[:3]), r.choice(TEXTS), [r.choice(INTEGERS)] * 2, [0.5], ["a", "b"]]
    node.attribute.append(helper.make_attribute(name, r.choice(values)))


@breaks
def unknown_number_of_axes(model, r):
    any_of([v for g in graphs_of(model.graph) for v in g.input], r).type.tensor_type.ClearField("shape")


@breaks
def other_input_size(model, r):
    shape = any_of(model.graph.input, r).type.tensor_type.shape
    size = any_of(shape.dim, r)
    if r.random() < 0.3:
        size.dim_param = r.choice(["n", "", "a+b", "-1", "n" * 200])
    else:
        size.dim_value = r.choice(INTEGERS)


@breaks
def other_input_rank(model, r):
    shape = any_of(model.graph.input, r).type.tensor_type.shape
    if shape.dim and r.random() < 0.5:
        del shape.dim[r.randrange(len(shape.dim))]
    else:
        for _ in range(r.choice([1, 1, 2, 60])):
            shape.dim.add(dim_value=r.choice([0, 1, 2]))


@breaks
def other_input_type(model, r):
    any_of(model.graph.input, r).type.tensor_type.elem_type = r.choice([0, 23, *TYPES])


@breaks
def given_by_the_run(model, r):
    graph = model.graph
    tensor = any_of(graph.initializer, r)
    shape = r.choice([None, ["n"] * len(tensor.dims), list(tensor.dims)])
    if tensor.name not in {v.name for v in graph.input}:
        graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, shape))
    graph.initializer.remove(tensor)


@breaks
def turned_order(model, r):
    graph = any_of([g for g in graphs_of(model.graph) if len(g.node) > 1], r)
    nodes = list(graph.node)[::-1]
    del graph.node[:]
    graph.node.extend(nodes)


@breaks
def circle(model, r):
    node = node_of(model, r)
    if not node.input:
        raise Nothing
    node.input[r.randrange(len(node.input))] = node.output[0]


@breaks
def same_names(model, r):
    node = node_of(model, r)
    node.output[0] = any_of([n for other in nodes_of(model) for n in [*other.output, *other.input] if n], r)


@breaks
def other_graph_output(model, r):
    graph = any_of(list(graphs_of(model.graph)), r)
    way = r.randrange(3)
    if way == 0:
        del graph.output[r.randrange(len(graph.output))]
    elif way == 1:
        graph.output[0].name = "nobody"
    else:
        graph.output.extend([graph.output[0]])


OPERATORS = []


def sources(options):
    """Endless valid models."""
    if options.models:
        paths = sorted(p for p in Path(options.models).rglob("*.onnx") if p.stat().st_size < 1 << 16)
        number = 0
        while True:
            yield onnx.load(paths[number % len(paths)], load_external_data=False)
            number += 1
    from differential_onnx_graphs import random_graph
    from differential_onnx_rare import RARE
    from differential_onnx_rules import LAYERS, RULES

    number = 0
    while True:
        found = random_graph(options.seed, number, RULES, LAYERS, RARE)
        if found is not None:
            for _ in range(10):
                yield found[0]
        number += 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--from", dest="models")
    options = parser.parse_args()
    OPERATORS.extend(sorted({schema.name for schema in onnx.defs.get_all_schemas_with_history()}))
    OPERATORS.extend(["MatMulNBits", "GatherBlockQuantized", "MultiHeadAttention", "QLinearAdd", "FusedConv", "QGemm"])
    folder = Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    r, written = random.Random(options.seed), 0
    for model in sources(options):
        if written >= options.count:
            break
        copy, what = onnx.ModelProto(), r.choice(BREAKS)
        copy.CopyFrom(model)
        try:
            what(copy, r)
        except (Nothing, ValueError, OverflowError, TypeError):
            continue
        (folder / f"{written:06d}_{what.__name__}.onnx").write_bytes(copy.SerializeToString())
        written += 1
    print(f"seed {options.seed}: {written} models")


if __name__ == "__main__":
    main()
