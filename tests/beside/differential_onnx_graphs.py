"""Random ONNX graphs for tests/beside/differential_onnx.py: a few nodes each, of any opset from 7 on, whose attributes,
axes and optional inputs are random.

A graph grows node by node. Each node is run at once by ONNX Runtime, as a model of its own; what that refuses, what is
not finite and what grows too large is thrown away, so that every graph is valid by construction. A rule is a function
that draws one node: it takes a Grower, asks it for operands and gives (operator, operands, attributes, number of
outputs), or a Chain of nodes that only make sense together, or None if there is nothing to draw from.
"""

import random
from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

MAX_ELEMENTS = 4000
# What gives or takes tensors without elements: elsewhere ONNX Runtime may crash, and PyTorch refuses.
MAY_BE_EMPTY = {"NonZero", "Slice", "Compress", "Unique", "Range", "Concat", "Reshape", "Flatten", "Transpose", "Shape"}
MAY_BE_EMPTY |= {"Size", "Unsqueeze", "Squeeze", "Gather", "Split", "Cast", "Identity", "Relu", "Add", "Mul", "Where"}
FLOATS = (np.float32, np.float64, np.float16)
INTEGERS = (np.int64, np.int32, np.int8, np.uint8)


def ir_version_of(opset):
    return 3 if opset < 9 else 8


def quiet_session(model):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


class Refused(Exception):
    """ONNX Runtime or a limit of ours refuses the node."""


@dataclass
class Chain:
    nodes: list
    operands: list
    outputs: list


def values_of_outside(graph):
    """The names that a graph inside a node reads and does not make."""
    made = {v.name for v in graph.input} | {t.name for t in graph.initializer}
    read = set()
    for node in graph.node:
        read |= names_read(node) - made
        made |= set(node.output)
    return read | {v.name for v in graph.output} - made


def names_read(node):
    inner = [values_of_outside(a.g) for a in node.attribute if a.HasField("g")]
    return {name for name in node.input if name}.union(*inner)


class Grower:
    def __init__(self, seed, number):
        self.random = random.Random(f"{seed}/{number}")
        self.numpy = np.random.default_rng([seed, number])
        self.prefix = ""
        self.opset = self.random.choice([7, 8, 9, 10, 11, 11, 12, 13, 13, 14, 15, 16, 17, 17, 18, 19, 20, 21])
        self.float = self.random.choices(FLOATS, [20, 1, 1])[0]
        self.arrays, self.nodes, self.inputs, self.initializers = {}, [], [], []
        self.pending, self.made_by_nodes = [], []
        self.fresh = 0.3  # how often an operand is a new value, though there are others

    def inside(self, given):
        """A grower of a graph inside a node: it sees all values here, and those that the graph is given."""
        inner = object.__new__(Grower)
        inner.random, inner.numpy, inner.opset, inner.float = self.random, self.numpy, self.opset, self.float
        inner.prefix = f"{self.prefix}g{len(self.nodes)}{self.number(0, 10**6)}_"
        inner.arrays = self.arrays | given
        inner.nodes, inner.inputs, inner.initializers, inner.pending, inner.made_by_nodes = [], [], [], [], []
        inner.fresh = 0.1
        return inner

    # --- chance

    def chance(self, probability):
        return self.random.random() < probability

    def among(self, *choices):
        return self.random.choice(choices)

    def number(self, least, most):
        return self.random.randint(least, most)

    def real(self, least=-2.0, most=2.0):
        return round(self.random.uniform(least, most), 3)

    def axis(self, name, extra=0, negative_from=11):
        """An axis of a value, counted from the end at times."""
        rank = self.rank(name) + extra
        axis = self.number(0, rank - 1)
        return axis - rank if self.opset >= negative_from and self.chance(0.4) else axis

    def axes(self, name, negative_from=11):
        rank = self.rank(name)
        chosen = self.random.sample(range(rank), self.number(1, rank)) if rank else []
        return [a - rank if self.opset >= negative_from and self.chance(0.3) else a for a in chosen]

    # --- operands

    def shape(self, name):
        return list(self.arrays[name].shape)

    def rank(self, name):
        return self.arrays[name].ndim

    def fits(self, array, dtype, rank, least_rank, shape):
        return (
            (dtype is None or array.dtype == dtype)
            and (rank is None or array.ndim == rank)
            and array.ndim >= least_rank
            and (shape is None or list(array.shape) == list(shape))
        )

    def data(self, shape, dtype):
        dtype = np.dtype(dtype)
        if dtype.kind == "f":
            return (self.numpy.standard_normal(shape) * self.among(0.5, 1, 3)).astype(dtype)
        if dtype.kind == "b":
            return self.numpy.integers(0, 2, shape).astype(bool)
        return self.numpy.integers(0 if dtype.kind == "u" else -9, 10, shape).astype(dtype)

    def any_shape(self, rank):
        return [self.among(1, 2, 3, 3, 4, 5, 7) for _ in range(rank)]

    def operand(self, dtype="float", rank=None, least_rank=0, shape=None, fresh=None):
        """The name of a value of that kind: one that is there, or a new one."""
        dtype = self.float if dtype == "float" else dtype
        found = [n for n, a in self.arrays.items() if self.fits(a, dtype, rank, least_rank, shape)]
        if found and not self.chance(self.fresh if fresh is None else fresh):
            return self.among(*found[-6:])
        if shape is None:
            shape = self.any_shape(rank if rank is not None else max(least_rank, self.among(0, 1, 2, 3, 4, 4)))
        return self.value(self.data(shape, dtype if dtype is not None else self.float))

    def broadcastable(self, name):
        """A value that broadcasts with another one."""
        shape = [n if self.chance(0.7) else 1 for n in self.shape(name)]
        return self.operand(
            self.arrays[name].dtype, shape=shape[self.number(0, len(shape)) if self.chance(0.3) else 0 :]
        )

    def value(self, array, constant=None):
        """A new input, initializer or constant with these numbers."""
        array = np.asarray(array)
        name = f"{self.prefix}v{len(self.arrays)}_{len(self.pending)}"
        kind = self.random.choices(["input", "initializer", "constant"], [5, 4, 2])[0]
        if kind == "input" and (constant or self.prefix):
            kind = "initializer"
        if self.prefix and self.opset < 9:  # IR version 3 wants initializers among the inputs
            kind = "constant"
        self.pending.append((kind, name, array))
        self.arrays[name] = array
        return name

    def sizes(self, numbers, dtype=np.int64):
        """A one-dimensional constant, as axes, pads and shapes are."""
        return self.value(np.array(numbers, dtype), constant=not self.chance(0.1))

    def scalar(self, number, dtype="float"):
        return self.value(np.array(number, self.float if dtype == "float" else dtype), constant=True)

    # --- nodes

    def drop_pending(self):
        for _, name, _ in self.pending:
            del self.arrays[name]
        self.pending = []

    def keep_pending(self):
        for kind, name, array in self.pending:
            if kind == "input":
                self.inputs.append(name)
            elif kind == "initializer":
                self.initializers.append(name)
            else:
                tensor = numpy_helper.from_array(array, name)
                self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        self.pending = []

    def evaluate(self, nodes, names, results):
        inputs = [self.type_of(n, "given") for n in names]
        outputs = [onnx.ValueInfoProto(name=o) for o in results]
        graph = helper.make_graph(nodes, "node", inputs, outputs)
        model = helper.make_model(graph, opset_imports=self.opset_imports(), ir_version=ir_version_of(self.opset))
        has_elements = lambda arrays: nodes[0].op_type in MAY_BE_EMPTY or all(array.size for array in arrays)
        if not has_elements([self.arrays[n] for n in names]):
            raise Refused
        found = quiet_session(model).run(None, {n: self.arrays[n] for n in names})
        if not has_elements(found):
            raise Refused
        for array in found:
            if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiub" or array.size > MAX_ELEMENTS:
                raise Refused
            if array.dtype.kind == "f" and not (np.isfinite(array).all() and np.abs(array).max(initial=0) < 1e4):
                raise Refused
        return found

    def opset_imports(self):
        domains = [("", self.opset), ("com.microsoft", 1), ("ai.onnx.ml", 3)]
        return [helper.make_opsetid(*domain) for domain in domains]

    def node(self, operator, operands, outputs=1, **attributes):
        """A node of a new name for each output."""
        domain, _, operator = operator.rpartition(".")
        operands = list(operands)
        while operands and not operands[-1]:
            operands.pop()
        self.count = getattr(self, "count", 0) + 1
        names = [f"{self.prefix}n{self.count}_{i}" for i in range(outputs)]
        attributes = {key: value for key, value in attributes.items() if value is not None}
        return helper.make_node(operator, operands, names, domain=domain, **attributes)

    def add(self, drawn):
        if not isinstance(drawn, Chain):
            operator, operands, attributes, outputs = drawn
            node = self.node(operator, operands, outputs, **attributes)
            drawn = Chain([node], operands, list(node.output))
        inner = set().union(*(names_read(node) for node in drawn.nodes)) & set(self.arrays)
        names = dict.fromkeys([o for o in drawn.operands if o] + sorted(inner))
        found = self.evaluate(drawn.nodes, list(names), drawn.outputs)
        self.keep_pending()
        self.nodes += drawn.nodes
        for name, array in zip(drawn.outputs, found):
            self.arrays[name] = array
            self.made_by_nodes.append(name)

    def grow(self, rules, count):
        refusals = 0
        while count > 0 and refusals < 60:
            try:
                drawn = self.among(*rules)(self)
                if drawn is not None:
                    self.add(drawn)
                    count -= 1
                    continue
            except Exception:  # the rule asked for what cannot be, or ONNX Runtime refuses the node
                pass
            refusals += 1
            self.drop_pending()

    # --- the model

    def type_of(self, name, style):
        """Sizes are given, or open with a name each."""
        array = self.arrays[name]
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        shape = [f"{name}_{i}" if style == "open" and self.chance(0.5) else n for i, n in enumerate(array.shape)]
        return helper.make_tensor_value_info(name, kind, shape)

    def model(self):
        """(the model, its inputs, the names of its outputs); None if nothing grew that has an input."""
        used = set().union(*(names_read(node) for node in self.nodes))
        ends = [name for name in self.made_by_nodes if name not in used]
        if not ends or not self.inputs:
            return None
        more = [name for name in self.made_by_nodes if name in used and self.chance(0.2)]
        outputs = ends + more
        style = self.among("given", "open")
        initializers = [numpy_helper.from_array(self.arrays[n], n) for n in self.initializers]
        inputs = [self.type_of(n, style) for n in self.inputs]
        if self.opset < 9 or self.chance(0.1):
            inputs += [self.type_of(n, "given") for n in self.initializers]
        graph = helper.make_graph(
            self.nodes,
            "random",
            inputs,
            [self.type_of(n, style) for n in outputs],
            initializer=initializers,
        )
        model = helper.make_model(graph, opset_imports=self.opset_imports(), ir_version=ir_version_of(self.opset))
        return model, {n: self.arrays[n] for n in self.inputs}, outputs


def random_graph(seed, number, rules, layers, rare):
    """Of any operators; every third one of those that networks rarely have, among others; every other one of layers
    that mostly read each other, as networks are."""
    grower = Grower(seed, number)
    if number % 3 == 2:
        grower.grow([*rare * (1 + len(rules) // len(rare)), *rules], grower.number(1, 6))
    elif number % 2 == 1:
        grower.float, grower.fresh = np.float32, 0.05
        grower.grow(layers, grower.number(3, 12))
    else:
        grower.grow(rules, grower.number(1, 8))
    return grower.model()
