"""The rules of tests/beside/differential_onnx_graphs.py: one for each way to write an operator of ONNX.

A rule draws one node: (operator, operands, attributes, number of outputs), or None. Attributes that are None are left
out. Rules read `g.opset`, for attributes became inputs and defaults changed from one opset to the next.
"""

import numpy as np

RULES = []


def rule_into(rules):
    """A decorator that puts rules into a list."""

    def keep(function):
        rules.append(function)
        return function

    return keep


rule = rule_into(RULES)


def maybe(g, value, probability=0.5):
    """An attribute that may be left out."""
    return value if g.chance(probability) else None


# --- elementwise

# fmt: off
UNARY = [
    "Abs", "Neg", "Sqrt", "Reciprocal", "Exp", "Log", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh",
    "Cosh", "Asinh", "Acosh", "Atanh", "Erf", "Sigmoid", "Tanh", "Relu", "Softplus", "Softsign", "Identity",
    "Selu", "HardSwish", "Mish",
]
# fmt: on
JUMPS = ["Floor", "Ceil", "Round", "Sign", "IsNaN"]  # of numbers that are the same everywhere
PARAMETERS = {
    "LeakyRelu": ("alpha",),
    "Elu": ("alpha",),
    "Celu": ("alpha",),
    "ThresholdedRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "Shrink": ("lambd", "bias"),
    "Selu": ("alpha", "gamma"),
}
COMPARISONS = ["Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"]


@rule
def unary(g):
    return g.among(*UNARY), [g.operand()], {}, 1


@rule
def jump(g):
    return g.among(*JUMPS), [g.operand(fresh=1)], {}, 1


@rule
def unary_of_integers(g):
    return g.among("Abs", "Neg", "Sign", "Identity", "Relu"), [g.operand(g.among(np.int64, np.int32, np.int8))], {}, 1


@rule
def with_parameters(g):
    name = g.among(*PARAMETERS)
    return name, [g.operand()], {p: maybe(g, g.real(0.1, 1.5)) for p in PARAMETERS[name]}, 1


@rule
def gelu(g):
    return "Gelu", [g.operand()], {"approximate": maybe(g, g.among("none", "tanh"))}, 1


@rule
def is_infinite(g):
    attributes = {"detect_negative": maybe(g, g.number(0, 1)), "detect_positive": maybe(g, g.number(0, 1))}
    return "IsInf", [g.operand()], attributes, 1


@rule
def clip(g):
    low, high = g.real(-2, 0), g.real(0, 2)
    if g.opset < 11:
        return "Clip", [g.operand()], {"min": maybe(g, low), "max": maybe(g, high)}, 1
    bounds = [g.scalar(low) if g.chance(0.7) else "", g.scalar(high) if g.chance(0.7) else ""]
    return "Clip", [g.operand(), *bounds], {}, 1


@rule
def prelu(g):
    x = g.operand(least_rank=1)
    slopes = g.among([1], [g.shape(x)[1], *[1] * (g.rank(x) - 2)] if g.rank(x) > 1 else [1], g.shape(x))
    return "PRelu", [x, g.value(g.data(slopes, g.float))], {}, 1


@rule
def binary(g):
    x = g.operand()
    operands = [x, g.broadcastable(x)]
    g.random.shuffle(operands)
    return g.among("Add", "Sub", "Mul", "Div", "Pow", "Min", "Max", "Mean", "Sum"), operands, {}, 1


@rule
def binary_of_integers(g):
    x = g.operand(g.among(np.int64, np.int32))
    operands = [x, g.broadcastable(x)]
    g.random.shuffle(operands)
    return g.among("Add", "Sub", "Mul", "Min", "Max"), operands, {}, 1


@rule
def divide_integers(g):
    x = g.operand(g.among(np.int64, np.int32))
    divisor = g.value(g.among(1, -1) * g.numpy.integers(1, 5, g.shape(x)).astype(g.arrays[x].dtype))
    if g.chance(0.5):
        return "Div", [x, divisor], {}, 1
    return "Mod", [x, divisor], {"fmod": maybe(g, g.number(0, 1))}, 1


@rule
def modulo(g):
    x = g.operand()
    return "Mod", [x, g.value(g.data(g.shape(x), g.float) + np.asarray(0.1, g.float))], {"fmod": 1}, 1


@rule
def power_of_other_type(g):
    types = [np.int64, np.int32, np.float32]
    x, y = g.operand(g.among(*types)), g.value(np.array(g.number(0, 3), g.among(*types)))
    return "Pow", [x, y], {}, 1


@rule
def several(g):
    x = g.operand()
    more = [g.broadcastable(x) for _ in range(g.number(0, 3))]
    return g.among("Sum", "Mean", "Max", "Min"), [x, *more], {}, 1


@rule
def compare(g):
    x = g.operand(g.among("float", np.int64, np.int32), fresh=1)
    return g.among(*COMPARISONS), [x, g.broadcastable(x)], {}, 1


@rule
def logic(g):
    x = g.operand(np.bool_)
    return g.among(("Not", [x], {}, 1), (g.among("And", "Or", "Xor", "Equal"), [x, g.broadcastable(x)], {}, 1))


@rule
def bits(g):
    x = g.operand(g.among(np.int64, np.int32, np.uint8))
    if g.chance(0.3):
        return "BitwiseNot", [x], {}, 1
    if g.chance(0.3):
        x = g.operand(np.uint8)
        shifts = g.value(g.numpy.integers(0, 7, g.shape(x)).astype(np.uint8))
        return "BitShift", [x, shifts], {"direction": g.among("LEFT", "RIGHT")}, 1
    return g.among("BitwiseAnd", "BitwiseOr", "BitwiseXor"), [x, g.broadcastable(x)], {}, 1


@rule
def where(g):
    x = g.operand(g.among("float", np.int64))
    return "Where", [g.value(g.data(g.shape(x), np.bool_)), x, g.broadcastable(x)], {}, 1


@rule
def cast(g):
    to = g.among(1, 1, 2, 3, 6, 7, 9, 10, 11)
    kind = g.among("float", "float", np.int64, np.int32, np.bool_, np.uint8)
    x = g.operand(kind, fresh=1)
    if to == 2 and kind != np.bool_:  # what a negative float becomes there is the processor's business
        x = g.value(g.numpy.integers(0, 200, g.any_shape(2)).astype(g.float if kind == "float" else kind))
    return "Cast", [x], {"to": to}, 1


@rule
def cast_like(g):
    return "CastLike", [g.operand(fresh=1), g.operand(g.among("float", np.int64, np.int32))], {}, 1


# --- reductions

REDUCTIONS = [
    f"Reduce{name}" for name in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")
]


@rule
def reduce(g):
    name = g.among(*REDUCTIONS)
    x = g.operand(g.among("float", "float", "float", np.int32, np.int64))
    if g.arrays[x].dtype.kind == "i" and ("Log" in name or "L2" in name):  # ONNX Runtime has integers on the way, too
        return None
    attributes = {"keepdims": maybe(g, g.number(0, 1))}
    axes = g.axes(x) if g.chance(0.8) else None
    if g.opset < (13 if name == "ReduceSum" else 18):
        return name, [x], {"axes": axes or None, **attributes}, 1
    attributes["noop_with_empty_axes"] = maybe(g, g.number(0, 1), 0.3)
    return name, [x, g.sizes(axes) if axes is not None else ""], attributes, 1


@rule
def arg(g):
    x = g.operand(least_rank=1, fresh=1)
    attributes = {"axis": maybe(g, g.axis(x), 0.8), "keepdims": maybe(g, g.number(0, 1))}
    if g.opset >= 12:
        attributes["select_last_index"] = maybe(g, g.number(0, 1), 0.3)
    return g.among("ArgMax", "ArgMin"), [x], attributes, 1


@rule
def running_sum(g):
    x = g.operand(g.among("float", np.int64, np.int32), least_rank=1)
    axis = g.scalar(g.axis(x), g.among(np.int64, np.int32))
    return "CumSum", [x, axis], {"exclusive": maybe(g, g.number(0, 1)), "reverse": maybe(g, g.number(0, 1))}, 1


@rule
def soft(g):
    name = g.among("Softmax", "LogSoftmax", "Hardmax")
    x = g.operand(least_rank=1, fresh=1 if name == "Hardmax" else None)
    return name, [x], {"axis": maybe(g, g.axis(x), 0.7)}, 1


@rule
def top(g):
    x = g.value(g.numpy.permutation(24).reshape(2, 3, 4).astype(g.float))
    axis = g.axis(x)
    most = g.number(1, g.shape(x)[axis])
    if g.opset < 10:
        return "TopK", [x], {"axis": axis, "k": most}, 2
    attributes = {"axis": axis}
    if g.opset >= 11:
        attributes |= {"largest": maybe(g, g.number(0, 1)), "sorted": maybe(g, 1)}
    return "TopK", [x, g.sizes([most])], attributes, 2


# --- shapes


@rule
def reshape(g):
    x = g.operand(None)
    count, shape = g.arrays[x].size, g.shape(x)
    ways = [[-1], [count], [1, -1], [-1, 1, 1]]
    if shape:
        ways += [[0, -1], [0] * len(shape), [shape[0], -1], [*shape[:-1], 1, shape[-1]], shape[::-1]]
    if count % 2 == 0:
        ways += [[2, -1], [-1, 2], [2, count // 2]]
    return "Reshape", [x, g.sizes(g.among(*ways))], {"allowzero": maybe(g, 0, 0.2) if g.opset >= 14 else None}, 1


@rule
def flatten(g):
    x = g.operand(None)
    return "Flatten", [x], {"axis": maybe(g, g.number(0 if g.opset < 11 else -g.rank(x), g.rank(x)), 0.7)}, 1


def with_axes(g, name, x, axes):
    if g.opset < 13:
        return name, [x], {"axes": axes}, 1
    return name, [x, g.sizes(axes)], {}, 1


@rule
def squeeze(g):
    if g.chance(0.2):  # of a value whose sizes are known
        return "Squeeze", [g.value(g.data([1, 3, 1, 4], g.float), constant=True)], {}, 1
    x = g.operand(shape=[1, 3, 1, 4])
    return with_axes(g, "Squeeze", x, g.among([0], [2], [0, 2], *([[-2], [-4, 2]] if g.opset >= 11 else [])))


@rule
def unsqueeze(g):
    x = g.operand(None)
    rank = g.rank(x)
    axes = g.random.sample(range(rank + 2), 2) if g.chance(0.3) else [g.number(0, rank)]
    if g.opset >= 11 and g.chance(0.3):
        axes = [axes[0] - rank - len(axes), *axes[1:]]
    return with_axes(g, "Unsqueeze", x, axes)


@rule
def transpose(g):
    x = g.operand(g.among("float", None))
    order = g.random.sample(range(g.rank(x)), g.rank(x))
    return "Transpose", [x], {"perm": maybe(g, order, 0.8) or None}, 1


@rule
def concat(g):
    x = g.operand(g.among("float", np.int64), least_rank=1)
    axis = g.axis(x)
    shape = g.shape(x)
    others = []
    for _ in range(g.number(0, 2)):
        other = list(shape)
        other[axis] = g.number(1, 4)
        others.append(g.operand(g.arrays[x].dtype, shape=other))
    return "Concat", [x, *others], {"axis": axis}, 1


@rule
def split(g):
    x = g.operand(least_rank=1)
    axis = g.axis(x)
    size = g.shape(x)[axis]
    first = g.number(1, size)
    parts = [first, size - first] if size > first else [size]
    if g.opset < 13:
        return "Split", [x], {"axis": maybe(g, axis) if axis == 0 else axis, "split": parts}, len(parts)
    if g.opset >= 18 and g.chance(0.5):
        return "Split", [x], {"axis": axis, "num_outputs": len(parts)}, len(parts)
    return "Split", [x, g.sizes(parts)], {"axis": axis}, len(parts)


@rule
def slice_of(g):
    x = g.operand(g.among("float", "float", np.int64), least_rank=1)
    axes = g.axes(x, negative_from=10)
    shape = g.shape(x)
    starts = [g.number(-shape[a] - 1, shape[a]) for a in axes]
    ends = [g.among(g.number(-shape[a], shape[a] + 2), 2**31 - 1, 2**63 - 1, -(2**31)) for a in axes]
    if g.opset < 10:
        return "Slice", [x], {"axes": axes, "starts": starts, "ends": ends}, 1
    steps = [g.among(1, 2, -1, -2, 3) for _ in axes] if g.chance(0.5) else None
    if steps:  # before the front of an axis of open size (docs/onnx.md)
        starts = [max(n, -shape[a]) if step < 0 else n for n, a, step in zip(starts, axes, steps)]
    operands = [x, *(g.value(np.array(numbers, np.int64), constant=True) for numbers in (starts, ends, axes))]
    if steps:
        operands.append(g.sizes(steps))
    return "Slice", operands, {}, 1


@rule
def gather(g):
    x = g.operand(g.among("float", np.int64), least_rank=1)
    axis = g.axis(x)
    size = g.shape(x)[axis]
    least = -size if g.opset >= 11 else 0
    indices = g.numpy.integers(least, size, g.any_shape(g.number(0, 2))).astype(g.among(np.int64, np.int32))
    return "Gather", [x, g.value(indices)], {"axis": axis if axis != 0 else maybe(g, 0)}, 1


@rule
def gather_elements(g):
    x = g.operand(least_rank=1)
    axis = g.axis(x)
    shape = [g.number(1, n) for n in g.shape(x)]
    size = g.shape(x)[axis]
    indices = g.value(g.numpy.integers(-size, size, shape).astype(np.int64))
    return "GatherElements", [x, indices], {"axis": axis}, 1


@rule
def gather_nd(g):
    x = g.operand(least_rank=2)
    shape = g.shape(x)
    batch = 1 if g.opset >= 12 and g.chance(0.4) else 0
    last = g.number(1, len(shape) - batch)
    lead = shape[:batch] + g.any_shape(g.number(0, 2))
    columns = [g.numpy.integers(-shape[batch + i], shape[batch + i], [*lead, 1]) for i in range(last)]
    indices = g.value(np.concatenate(columns, -1).astype(np.int64))
    return "GatherND", [x, indices], {"batch_dims": batch or None}, 1


def scatter_reduction(g):
    return (
        maybe(g, g.among("none", "add", "mul", *(["min", "max"] if g.opset >= 18 else []))) if g.opset >= 16 else None
    )


@rule
def scatter_elements(g):
    x = g.operand(least_rank=1)
    axis = g.axis(x)
    shape = g.shape(x)
    size = shape[axis]
    order = g.numpy.permutation(size)[: g.number(1, size)]
    taken = [n if i != axis % len(shape) else len(order) for i, n in enumerate(shape)]
    places = order.reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))])
    indices = g.value(np.broadcast_to(places, taken).astype(np.int64))
    updates = g.value(g.data(taken, g.float))
    name = "Scatter" if g.opset < 11 else "ScatterElements"
    return name, [x, indices, updates], {"axis": axis, "reduction": scatter_reduction(g)}, 1


@rule
def scatter_nd(g):
    x = g.operand(least_rank=1)
    rows = g.numpy.permutation(g.shape(x)[0])[: g.number(1, g.shape(x)[0])]
    indices = g.value(rows.reshape(-1, 1).astype(np.int64))
    updates = g.value(g.data([len(rows), *g.shape(x)[1:]], g.float))
    return "ScatterND", [x, indices, updates], {"reduction": scatter_reduction(g)}, 1


@rule
def tile(g):
    x = g.operand(None, least_rank=1)
    return "Tile", [x, g.sizes([g.number(1, 3) for _ in g.shape(x)])], {}, 1


@rule
def expand(g):
    x = g.operand(shape=[3, 1])
    return "Expand", [x, g.sizes(g.among([3, 4], [2, 3, 4], [1], [3, 1], [2, 1, 5]))], {}, 1


@rule
def pad(g):
    x = g.operand(least_rank=1)
    rank = g.rank(x)
    mode = g.among("constant", "constant", "reflect", "edge", *(["wrap"] if g.opset >= 19 else []))
    cuts = mode == "constant" and g.opset >= 11
    most = [min(2, n - 1) if mode in ("reflect", "wrap") else 2 for n in g.shape(x)]
    least = [-1 if cuts and n > 2 else 0 for n in g.shape(x)]  # ONNX Runtime has random numbers where all is cut away
    pads = [g.number(few, many) for few, many in zip(least + least, most + most)]
    if g.opset < 11:
        return (
            "Pad",
            [x],
            {"pads": pads, "mode": maybe(g, mode) if mode == "constant" else mode, "value": maybe(g, g.real())},
            1,
        )
    operands = [x, g.sizes(pads), g.scalar(g.real()) if g.chance(0.5) and mode == "constant" else ""]
    if g.opset >= 18 and g.chance(0.4):
        axes = g.axes(x)
        operands[1] = g.sizes([pads[a] for a in axes] + [pads[a % rank + rank] for a in axes])
        operands += [g.sizes(axes)]
    return "Pad", operands, {"mode": mode}, 1


@rule
def blocks_of_space(g):
    if g.chance(0.5):
        mode = maybe(g, g.among("DCR", "CRD")) if g.opset >= 11 else None
        return "DepthToSpace", [g.operand(shape=[1, 8, 2, 3])], {"blocksize": 2, "mode": mode}, 1
    return "SpaceToDepth", [g.operand(shape=[2, 3, 4, 6])], {"blocksize": 2}, 1


@rule
def shape_of(g):
    x = g.operand(None)
    attributes = {}
    if g.opset >= 15:
        attributes = {"start": maybe(g, g.number(-3, 3), 0.3), "end": maybe(g, g.number(-3, 3), 0.3)}
    return g.among(("Shape", [x], attributes, 1), ("Size", [x], {}, 1))


@rule
def constant_of_shape(g):
    import onnx

    kind = g.among(1, 7, 6, 9)
    value = maybe(g, onnx.helper.make_tensor("value", kind, [1], [1]))
    return "ConstantOfShape", [g.sizes(g.any_shape(g.number(0, 3)))], {"value": value}, 1


@rule
def steps(g):
    kind = g.among(np.int64, np.float32, np.int32)
    return "Range", [g.value(np.array(n, kind)) for n in g.among((0, 5, 1), (7, 0, -2), (1, 8, 3))], {}, 1


@rule
def one_hot(g):
    indices = g.value(g.numpy.integers(-4, 4, g.any_shape(g.number(1, 2))).astype(np.int64))
    values = g.value(np.array([0, 1], g.among(np.float32, np.int64)))
    return "OneHot", [indices, g.scalar(4, np.int64), values], {"axis": maybe(g, g.axis(indices, 1))}, 1


@rule
def triangle(g):
    x = g.operand(least_rank=2)
    offset = g.scalar(g.number(-2, 2), np.int64) if g.chance(0.5) else ""
    return "Trilu", [x, offset], {"upper": maybe(g, g.number(0, 1))}, 1


@rule
def eye(g):
    return "EyeLike", [g.operand(rank=2)], {"k": maybe(g, g.number(-1, 1)), "dtype": maybe(g, g.among(1, 7))}, 1


@rule
def reverse(g):
    x = g.operand(shape=[4, 3, 2])
    attributes = g.among({}, {"batch_axis": 1, "time_axis": 0}, {"batch_axis": 0, "time_axis": 1})
    batch, steps_ = (4, 3) if attributes.get("batch_axis") == 0 else (3, 4)
    return "ReverseSequence", [x, g.value(g.numpy.integers(1, steps_ + 1, batch).astype(np.int64))], attributes, 1


@rule
def compress(g):
    x = g.operand(least_rank=1)
    axis = g.axis(x)
    size = g.shape(x)[axis]
    if g.chance(0.3):
        return "Compress", [x, g.value(g.data([g.number(1, g.arrays[x].size)], np.bool_))], {}, 1
    return "Compress", [x, g.value(g.data([g.number(1, size)], np.bool_))], {"axis": axis}, 1


@rule
def non_zero(g):
    return "NonZero", [g.operand(g.among("float", np.int64, np.bool_), least_rank=1, fresh=1)], {}, 1


@rule
def unique(g):
    x = g.value(g.numpy.integers(0, 4, [3, 4]).astype(g.among(np.float32, np.int64)))
    return "Unique", [x], {"axis": maybe(g, g.axis(x)), "sorted": maybe(g, 1)}, g.number(1, 4)


# --- layers


def window(g, spatial, padding=True):
    """(kernel, attributes of a window over so many axes)"""
    kernel = [g.number(1, 3) for _ in range(spatial)]
    attributes = {"strides": maybe(g, [g.number(1, 3) for _ in range(spatial)])}
    way = g.among("pads", "auto", "none") if padding else "none"
    if way == "pads":
        attributes["pads"] = [g.number(0, k - 1) for k in kernel + kernel]
    elif way == "auto":
        attributes["auto_pad"] = g.among("SAME_UPPER", "SAME_LOWER", "VALID")
        if attributes["strides"]:  # ONNX Runtime pads by less than nothing where a stride is wider than the kernel
            attributes["strides"] = [min(s, k) for s, k in zip(attributes["strides"], kernel)]
    return kernel, attributes


def image(g, spatial, channels=None):
    least = {1: 6, 2: 5, 3: 4}[spatial]
    shape = [g.number(1, 2), channels or g.among(1, 2, 3, 4, 6), *[g.number(least, least + 3) for _ in range(spatial)]]
    return g.operand(rank=spatial + 2) if channels is None and g.chance(0.6) else g.operand(shape=shape)


def weights(g, shape):
    return g.value(g.data(shape, g.float), constant=not g.chance(0.1))


@rule
def conv(g):
    spatial = g.random.choices([1, 2, 3], [2, 5, 1])[0]
    x = image(g, spatial)
    channels = g.shape(x)[1]
    groups = g.among(1, 1, channels, *([2] if channels % 2 == 0 else []))
    kernel, attributes = window(g, spatial)
    attributes |= {
        "dilations": maybe(g, [g.number(1, 2) for _ in kernel], 0.3),
        "group": groups if groups > 1 else None,
    }
    attributes["kernel_shape"] = maybe(g, kernel)
    outputs = groups * g.number(1, 4)
    operands = [x, weights(g, [outputs, channels // groups, *kernel])]
    return "Conv", operands + ([weights(g, [outputs])] if g.chance(0.6) else []), attributes, 1


@rule
def conv_transpose(g):
    spatial = g.among(1, 2, 2, 3)
    x = image(g, spatial)
    channels = g.shape(x)[1]
    groups = g.among(1, 1, channels)
    kernel, attributes = window(g, spatial)
    strides = attributes["strides"] or [1] * spatial
    attributes |= {
        "dilations": maybe(g, [g.number(1, 2) for _ in kernel], 0.2),
        "group": groups if groups > 1 else None,
    }
    if g.chance(0.3):
        attributes["output_padding"] = [g.number(0, s - 1) for s in strides]
    elif g.chance(0.2):
        attributes.pop("pads", None)
        attributes["output_shape"] = [
            (n - 1) * s + k - g.number(0, 1) for n, s, k in zip(g.shape(x)[2:], strides, kernel)
        ]
    outputs = g.number(1, 3)
    operands = [x, weights(g, [channels, outputs, *kernel])]
    return "ConvTranspose", operands + ([weights(g, [outputs * groups])] if g.chance(0.6) else []), attributes, 1


@rule
def pool(g):
    spatial = g.among(1, 2, 2, 3)
    x = image(g, spatial)
    kernel, attributes = window(g, spatial)
    attributes["kernel_shape"] = kernel
    name = g.among("MaxPool", "AveragePool", "LpPool")
    if g.opset >= (18 if name == "LpPool" else 10):
        attributes["ceil_mode"] = maybe(g, g.number(0, 1))
    if name == "AveragePool":
        # The end of the padding ONNX Runtime leaves out from opset 19 on; before, it counts what lies behind it.
        counts = g.opset < 19 and not attributes.get("ceil_mode")
        attributes["count_include_pad"] = maybe(g, g.number(0, 1) if counts else 0)
    # The size of SAME ONNX Runtime takes without dilations.
    is_same = attributes.get("auto_pad", "").startswith("SAME")
    if g.opset >= {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[name] and not is_same:
        attributes["dilations"] = maybe(g, [g.number(1, 2) for _ in kernel], 0.3)
    if not is_same:
        gaps, pads = attributes.get("dilations") or [1] * spatial, attributes.get("pads") or [0] * 2 * spatial
        sizes = [n + pads[i] + pads[i + spatial] for i, n in enumerate(g.shape(x)[2:])]
        if any((k - 1) * d >= n for k, d, n in zip(kernel, gaps, sizes)):
            return None  # ONNX Runtime may give one result of a window that is wider than the image
    if name == "LpPool":
        attributes["p"] = maybe(g, g.number(1, 3))
    if name == "MaxPool" and g.opset >= 8 and g.chance(0.2):
        return name, [x], attributes | {"storage_order": maybe(g, g.number(0, 1))}, 2
    return name, [x], attributes, 1


@rule
def global_pool(g):
    return g.among("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"), [image(g, g.among(1, 2, 3))], {}, 1


@rule
def batch_norm(g):
    x = image(g, g.among(1, 2, 3))
    channels = [g.shape(x)[1]]
    scale, bias, mean = (weights(g, channels) for _ in range(3))
    variance = g.value(np.abs(g.data(channels, g.float)) + np.asarray(0.5, g.float), constant=True)
    attributes = {"epsilon": maybe(g, 1e-3), "momentum": maybe(g, 0.8)}
    return "BatchNormalization", [x, scale, bias, mean, variance], attributes, 1


@rule
def other_norms(g):
    x = image(g, g.among(1, 2))
    channels = g.shape(x)[1]
    scale, bias = weights(g, [channels]), weights(g, [channels])
    if g.chance(0.5):
        return "InstanceNormalization", [x, scale, bias], {"epsilon": maybe(g, 1e-2)}, 1
    return "GroupNormalization", [x, scale, bias], {"num_groups": g.among(1, channels), "epsilon": maybe(g, 1e-2)}, 1


@rule
def layer_norm(g):
    x = g.operand(least_rank=1)
    axis = g.axis(x)
    shape = g.shape(x)[axis % g.rank(x) :]
    if np.prod(shape) < 3:  # whose variance may be next to nothing
        return None
    bias = weights(g, shape) if g.chance(0.6) else ""
    axis_or_default = axis if axis % g.rank(x) != g.rank(x) - 1 else maybe(g, axis)
    return "LayerNormalization", [x, weights(g, shape), bias], {"axis": axis_or_default, "epsilon": maybe(g, 1e-2)}, 1


@rule
def norms_without_weights(g):
    x = image(g, 2)
    return g.among(
        (
            "LRN",
            [x],
            {"size": g.among(1, 3, 4), "alpha": maybe(g, 0.1), "beta": maybe(g, 0.5), "bias": maybe(g, 2.0)},
            1,
        ),
        ("MeanVarianceNormalization", [x], {"axes": maybe(g, g.among([0, 2, 3], [2, 3], [1]))}, 1),
        ("LpNormalization", [x], {"axis": maybe(g, g.axis(x)), "p": maybe(g, g.number(1, 2))}, 1),
    )


@rule
def gemm(g):
    m, k, n = (g.number(1, 6) for _ in range(3))
    turned_a, turned_b = g.number(0, 1), g.number(0, 1)
    a = g.operand(shape=[k, m] if turned_a else [m, k])
    b = weights(g, [n, k] if turned_b else [k, n])
    c = weights(g, g.among([n], [m, n], [1, n], [m, 1], [1], [])) if g.opset < 11 or g.chance(0.7) else ""
    attributes = {"transA": turned_a or maybe(g, 0), "transB": turned_b or maybe(g, 0)}
    return "Gemm", [a, b, c], attributes | {"alpha": maybe(g, g.real()), "beta": maybe(g, g.real())}, 1


@rule
def matrix_product(g):
    a = g.operand(least_rank=1)
    shape = g.shape(a)
    k, lead = shape[-1], [n if g.chance(0.7) else 1 for n in shape[:-2]]
    right = g.among([k, g.number(1, 5)], [*lead, k, g.number(1, 5)], [k], [2, *[1] * len(lead), k, 3])
    return "MatMul", [a, g.operand(shape=right)], {}, 1


@rule
def einsum(g):
    equation, *shapes = g.among(
        ("bij,bjk->bik", [2, 3, 4], [2, 4, 3]),
        ("ij,jk", [3, 4], [4, 2]),
        ("bhid,bhjd->bhij", [1, 2, 3, 4], [1, 2, 5, 4]),
        ("i,j->ij", [3], [4]),
        ("ii->i", [3, 3]),
        ("ij->ji", [3, 4]),
        ("ij->", [3, 4]),
        ("...ij,...jk->...ik", [2, 2, 3], [2, 3, 2]),
        ("bi,i,bi->b", [2, 3], [3], [2, 3]),
    )
    return "Einsum", [g.operand(shape=s) for s in shapes], {"equation": equation}, 1


@rule
def resize(g):
    x = g.operand(rank=4)
    mode = g.among("nearest", "linear", *(["cubic"] if g.opset >= 11 else []))
    scales = [1.0, 1.0, g.among(0.5, 1.0, 1.5, 2.0, 2.5), g.among(0.6, 1.0, 2.0, 3.0)]
    if g.opset < 9:
        return "Upsample", [x], {"mode": mode, "scales": [max(s, 1.0) for s in scales]}, 1
    if g.opset < 10:
        return (
            "Upsample",
            [x, g.value(np.array([max(s, 1.0) for s in scales], np.float32), constant=True)],
            {"mode": mode},
            1,
        )
    if g.opset < 11:
        return "Resize", [x, g.value(np.array(scales, np.float32), constant=True)], {"mode": mode}, 1
    return resize_11(g, x, mode, scales)


def resize_11(g, x, mode, scales):
    places = ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"]
    attributes = {"mode": mode, "coordinate_transformation_mode": maybe(g, g.among(*places), 0.8)}
    if g.opset >= 19 and g.chance(0.2):
        attributes["coordinate_transformation_mode"] = "half_pixel_symmetric"
    if mode == "nearest":
        rounds = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
        attributes["nearest_mode"] = maybe(g, g.among(*rounds))
    if mode == "cubic":
        attributes |= {"cubic_coeff_a": maybe(g, -0.5), "exclude_outside": maybe(g, g.number(0, 1))}
    if g.opset >= 18 and mode != "nearest":
        attributes["antialias"] = maybe(g, 1, 0.2)
    no_roi = g.value(np.zeros([0], np.float32), constant=True) if g.opset < 13 else ""
    if g.chance(0.5):
        return "Resize", [x, no_roi, g.value(np.array(scales, np.float32), constant=True)], attributes, 1
    sizes = [*g.shape(x)[:2], g.number(1, 9), g.number(1, 9)]
    no_scales = g.value(np.zeros([0], np.float32), constant=True) if g.opset < 13 else ""
    return "Resize", [x, no_roi, no_scales, g.sizes(sizes)], attributes, 1


@rule
def grid_sample(g):
    x = g.operand(shape=[2, 3, 4, 5])
    grid = g.value((g.numpy.uniform(-1.3, 1.3, [2, 3, 4, 2])).astype(g.float))
    modes = ["linear", "nearest", "cubic"] if g.opset >= 20 else ["bilinear", "nearest", "bicubic"]
    attributes = {
        "mode": maybe(g, g.among(*modes)),
        "padding_mode": maybe(g, g.among("zeros", "border", "reflection")),
        "align_corners": maybe(g, g.number(0, 1)),
    }
    return "GridSample", [x, grid], attributes, 1


@rule
def roi_align(g):
    x = g.operand(shape=[2, 3, 8, 8])
    corner = g.numpy.uniform(0, 4, [3, 2])
    boxes = g.value(np.concatenate([corner, corner + g.numpy.uniform(1, 4, [3, 2])], 1).astype(g.float))
    attributes = {"output_height": 2, "output_width": 3, "sampling_ratio": maybe(g, 2), "spatial_scale": maybe(g, 0.5)}
    attributes["mode"] = maybe(g, g.among("avg", "max"))
    if g.opset >= 16:
        attributes["coordinate_transformation_mode"] = maybe(g, g.among("half_pixel", "output_half_pixel"))
    return "RoiAlign", [x, boxes, g.value(np.array([0, 1, 1], np.int64))], attributes, 1


@rule
def recurrent(g):
    name, gates = g.among(("LSTM", 4), ("GRU", 3), ("RNN", 1))
    steps_, batch, features, hidden = g.number(1, 4), g.number(1, 3), g.number(1, 4), g.number(1, 4)
    direction = g.among("forward", "reverse", "bidirectional")
    ways = 2 if direction == "bidirectional" else 1
    operands = [
        g.operand(shape=[steps_, batch, features]),
        weights(g, [ways, gates * hidden, features]),
        weights(g, [ways, gates * hidden, hidden]),
        weights(g, [ways, 2 * gates * hidden]) if g.chance(0.7) else "",
        g.value(g.numpy.integers(1, steps_ + 1, batch).astype(np.int32)) if g.chance(0.3) else "",
        g.operand(shape=[ways, batch, hidden]) if g.chance(0.5) else "",
    ]
    if name == "LSTM":
        operands.append(g.operand(shape=[ways, batch, hidden]) if g.chance(0.5) else "")
        operands.append(weights(g, [ways, 3 * hidden]) if g.chance(0.2) else "")
    attributes = {"hidden_size": hidden, "direction": direction if direction != "forward" else maybe(g, direction)}
    attributes["clip"] = maybe(g, 1.5, 0.2)
    if name == "GRU":
        attributes["linear_before_reset"] = maybe(g, g.number(0, 1))
    return name, operands, attributes, g.number(1, 3 if name == "LSTM" else 2)


# --- integers


def scale_of(g, size=None):
    return g.value(g.numpy.uniform(0.01, 0.1, [] if size is None else [size]).astype(np.float32), constant=True)


def zero_point_of(g, dtype, size=None):
    least, most = (100, 150) if dtype == np.uint8 else (-20, 20)
    return g.value(g.numpy.integers(least, most, [] if size is None else [size]).astype(dtype), constant=True)


def with_qparams(g, x, dtype):
    """(x, its scale or one for each of an axis, and its zero points or none), and that axis"""
    axis = g.axis(x) if g.opset >= 13 and g.chance(0.5) else None
    size = g.shape(x)[axis] if axis is not None else None
    zero_point = zero_point_of(g, dtype, size) if g.chance(0.8) else ""
    return [x, scale_of(g, size), zero_point], {"axis": axis}


@rule
def quantize(g):
    x = g.operand(np.float32, least_rank=1, fresh=1)
    return "QuantizeLinear", *with_qparams(g, x, g.among(np.uint8, np.int8)), 1


@rule
def dequantize(g):
    dtype = g.among(np.uint8, np.int8)
    return "DequantizeLinear", *with_qparams(g, g.operand(dtype, least_rank=1), dtype), 1


@rule
def quantize_dynamically(g):
    return "DynamicQuantizeLinear", [g.operand(np.float32, fresh=1)], {}, 3


@rule
def integer_product(g):
    a_type, b_type = np.uint8, g.among(np.uint8, np.int8)
    m, k, n = g.number(1, 5), g.number(1, 9), g.number(1, 6)
    a, b = g.operand(a_type, shape=[m, k]), g.value(g.data([k, n], b_type), constant=True)
    a_zero, b_zero = zero_point_of(g, a_type), zero_point_of(g, b_type)
    if g.chance(0.5):
        return "MatMulInteger", [a, b, a_zero if g.chance(0.7) else "", b_zero if g.chance(0.5) else ""], {}, 1
    return (
        "QLinearMatMul",
        [a, scale_of(g), a_zero, b, scale_of(g), b_zero, scale_of(g), zero_point_of(g, a_type)],
        {},
        1,
    )


@rule
def integer_convolution(g):
    kernel, attributes = window(g, 2)
    channels, outputs = g.number(1, 4), g.number(1, 4)
    w_type = g.among(np.uint8, np.int8)
    x = g.operand(np.uint8, shape=[1, channels, 5, 6])
    w = g.value(g.data([outputs, channels, *kernel], w_type), constant=True)
    x_zero = zero_point_of(g, np.uint8)
    if g.chance(0.4):
        return "ConvInteger", [x, w, x_zero if g.chance(0.7) else ""], attributes, 1
    per_channel = g.chance(0.5)
    scale = scale_of(g, outputs if per_channel else None)
    w_zero = g.value(np.zeros([outputs] if per_channel else [], w_type), constant=True)
    bias = [g.value(g.numpy.integers(-200, 200, [outputs]).astype(np.int32), constant=True)] if g.chance(0.5) else []
    operands = [x, scale_of(g), x_zero, w, scale, w_zero, scale_of(g), zero_point_of(g, np.uint8), *bias]
    return "QLinearConv", operands, attributes, 1


# --- com.microsoft


@rule
def microsoft_activations(g):
    x = g.operand(np.float32, least_rank=1)
    bias = g.operand(np.float32, shape=[g.shape(x)[-1]])
    return g.among(
        ("com.microsoft.Gelu", [x], {}, 1),
        ("com.microsoft.BiasGelu", [x, bias], {}, 1),
        ("com.microsoft.FastGelu", [x, bias if g.chance(0.5) else ""], {}, 1),
        ("com.microsoft.QuickGelu", [x], {"alpha": maybe(g, 1.2)}, 1),
    )


@rule
def microsoft_norms(g):
    x = g.operand(np.float32, shape=[*g.any_shape(2), g.number(4, 8)])
    last = [g.shape(x)[-1]]
    skip = g.operand(np.float32, shape=g.shape(x))
    gamma, beta, bias = (g.operand(np.float32, shape=last) for _ in range(3))
    attributes = {"epsilon": maybe(g, 1e-3)}
    return g.among(
        ("com.microsoft.SkipLayerNormalization", [x, skip, gamma, g.among(beta, ""), g.among(bias, "")], attributes, 1),
        ("com.microsoft.SkipSimplifiedLayerNormalization", [x, skip, gamma, g.among(bias, "")], attributes, 1),
        ("SimplifiedLayerNormalization", [x, gamma], {"axis": -1, **attributes}, 1),
    )


@rule
def microsoft_fused(g):
    a = g.operand(np.float32, rank=2)
    turned = g.number(0, 1)
    inner = g.shape(a)[0 if turned else 1]
    b = g.operand(np.float32, shape=[inner, g.number(1, 5)])
    attributes = {"transA": turned, "alpha": maybe(g, 0.5)}
    if g.chance(0.5):
        return "com.microsoft.FusedMatMul", [a, b], attributes, 1
    activation = g.among(
        ("Relu", None), ("LeakyRelu", [0.2]), ("Clip", [-0.5, 0.5]), ("HardSigmoid", [0.3, 0.4]), ("Tanh", None)
    )
    x = g.operand(np.float32, shape=[1, 3, 5, 6])
    operands = [x, weights(g, [2, 3, 3, 3])]
    return "com.microsoft.FusedConv", operands, {"activation": activation[0], "activation_params": activation[1]}, 1


@rule
def microsoft_attention(g):
    batch, length, heads, width = g.number(1, 2), g.number(1, 4), g.among(2, 4), 8
    groups = g.among(heads, heads // 2)
    query = g.operand(np.float32, shape=[batch, length, heads * width])
    key, value = (g.operand(np.float32, shape=[batch, length, groups * width]) for _ in range(2))
    if g.chance(0.4):
        return "com.microsoft.MultiHeadAttention", [query, query, query], {"num_heads": heads}, 1
    past = [g.operand(np.float32, shape=[batch, groups, 3, width]) if g.chance(0.5) else ""] * 2
    before = 3 if past[0] else 0
    seen = g.value(np.full([batch], before + length - 1, np.int32), constant=True)
    total = g.value(np.array(before + length, np.int32), constant=True)
    attributes = {"num_heads": heads, "kv_num_heads": groups, "scale": maybe(g, 0.3)}
    attributes["local_window_size"] = maybe(g, 2, 0.3)
    return "com.microsoft.GroupQueryAttention", [query, key, value, *past, seen, total], attributes, 3


@rule
def max_roi_pool(g):
    corner = g.numpy.integers(0, 4, [2, 2])
    boxes = np.concatenate([[[0], [1]], corner, corner + g.numpy.integers(1, 4, [2, 2])], 1)
    x = g.operand(np.float32, shape=[2, 3, 8, 8])
    operands = [x, g.value(boxes.astype(np.float32))]
    return "MaxRoiPool", operands, {"pooled_shape": [2, 3], "spatial_scale": maybe(g, 0.5)}, 1


# What networks are made of.
LAYERS = [conv, conv, conv, conv_transpose, pool, pool, global_pool, batch_norm, layer_norm, other_norms, gemm, resize]
LAYERS += [matrix_product, matrix_product, unary, unary, with_parameters, clip, prelu, binary, binary, binary, several]
LAYERS += [soft, concat, concat, split, slice_of, reshape, flatten, transpose, pad, reduce, blocks_of_space, recurrent]
LAYERS += [microsoft_fused, microsoft_attention, microsoft_norms]
