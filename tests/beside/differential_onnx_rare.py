"""More rules of tests/beside/differential_onnx_graphs.py: graphs inside nodes, sequences, weights of few bits, integers
of com.microsoft, signals, strings and ai.onnx.ml, which networks rarely have."""

import numpy as np
from differential_onnx_graphs import Chain, Refused
from differential_onnx_rules import LAYERS, RULES, maybe, rule_into, scale_of, weights, zero_point_of
from onnx import TensorProto, ValueInfoProto, helper, numpy_helper

RARE = []
rule = rule_into(RARE)
INSIDE = [f for f in RULES if f.__name__ not in ("non_zero", "unique", "compress")] + LAYERS


# --- graphs inside nodes


def graph_of(inner, given, outputs):
    initializers = [numpy_helper.from_array(inner.arrays[name], name) for name in inner.initializers]
    values = [inner.type_of(name, "given") for name in given]
    return helper.make_graph(
        inner.nodes, "inside", values, [ValueInfoProto(name=name) for name in outputs], initializer=initializers
    )


def grown(g, given, count):
    inner = g.inside(given)
    inner.grow(INSIDE, count)
    return inner


def last_like(inner, array, same_shape=True):
    """A value that the graph makes, of the dtype and shape of another one."""
    is_like = lambda a: a.dtype == array.dtype and (a.shape == array.shape if same_shape else a.ndim == array.ndim)
    found = [name for name in inner.made_by_nodes if is_like(inner.arrays[name])]
    if not found:
        seen = [name for name in inner.arrays if is_like(inner.arrays[name])]
        if not seen or array.dtype.kind not in "fi":
            raise Refused
        inner.add((inner.among("Neg", "Abs"), [seen[-1]], {}, 1))
        found = inner.made_by_nodes
    return found[-1]


@rule
def condition(g):
    picked = g.value(np.array(g.chance(0.5)))
    then = grown(g, {}, g.number(1, 3))
    result = g.among(*then.made_by_nodes)
    other = grown(g, {}, g.number(1, 4))
    same = last_like(other, then.arrays[result], same_shape=g.chance(0.7))
    graphs = {"then_branch": graph_of(then, {}, [result]), "else_branch": graph_of(other, {}, [same])}
    return "If", [picked], graphs, 1


@rule
def loop(g):
    state = g.operand(g.among("float", "float", np.int64))
    array = g.arrays[state]
    tag = f"{g.prefix}l{len(g.nodes)}{g.number(0, 10**6)}"
    given = {f"{tag}_i": np.array(0, np.int64), f"{tag}_c": np.array(True), f"{tag}_x": array}
    inner = grown(g, given, g.number(1, 4))
    next_state = last_like(inner, array)
    count = g.number(0, 4)
    trips = g.value(np.array(count, np.int64), constant=not g.chance(0.2))
    go_on = f"{tag}_c"
    if g.chance(0.4):  # ends early
        most = inner.value(np.array(g.number(0, 3), np.int64), constant=True)
        inner.add(("Less", [f"{tag}_i", most], {}, 1))
        go_on = inner.made_by_nodes[-1]
    else:
        inner.add(("Identity", [f"{tag}_c"], {}, 1))
        go_on = inner.made_by_nodes[-1]
    collected = [inner.made_by_nodes[0]] if g.chance(0.5) and count > 0 else []
    if collected == [next_state]:
        inner.add(("Identity", collected, {}, 1))
        collected = [inner.made_by_nodes[-1]]
    begin = g.value(np.array(True), constant=True) if g.chance(0.5) else ""
    body = graph_of(inner, given, [go_on, next_state, *collected])
    return "Loop", [trips, begin, state], {"body": body}, 1 + len(collected)


@rule
def scan(g):
    if g.opset < 9:
        return None
    steps = g.number(1, 4)
    axis, turned = g.number(0, 1), g.number(0, 1)
    rows = g.operand(shape=[steps, 3] if axis == 0 else [3, steps])
    state = g.operand(shape=[3])
    tag = f"{g.prefix}s{len(g.nodes)}{g.number(0, 10**6)}"
    given = {f"{tag}_x": g.arrays[state], f"{tag}_r": np.zeros([3], g.float)}
    inner = g.inside(given)
    inner.add((g.among("Add", "Mul", "Sub", "Max"), [f"{tag}_x", f"{tag}_r"], {}, 1))
    inner.grow(INSIDE, g.number(0, 2))
    next_state, row = last_like(inner, g.arrays[state]), inner.made_by_nodes[0]
    if row == next_state:  # for which ONNX Runtime has zeros
        inner.add(("Identity", [row], {}, 1))
        row = inner.made_by_nodes[-1]
    body = graph_of(inner, given, [next_state, row])
    attributes = {"num_scan_inputs": 1, "scan_input_axes": [axis], "scan_input_directions": [turned]}
    if g.chance(0.3):
        attributes |= {"scan_output_axes": [g.number(0, 1)], "scan_output_directions": [g.number(0, 1)]}
    return "Scan", [state, rows], {"body": body, **attributes}, 2


# --- sequences


@rule
def parts_of_sequence(g):
    if g.opset < 11:
        return None
    x = g.operand(least_rank=1)
    axis = g.axis(x)
    size = g.shape(x)[axis]
    sizes = g.among([1] * size, [size], [g.number(1, size)] * 2)
    if sum(sizes) != size:
        sizes = [1] * size
    operands = [x] if g.chance(0.3) else [x, g.sizes(sizes)]
    split = g.node("SplitToSequence", operands, axis=axis, keepdims=maybe(g, g.number(0, 1)))
    count = g.number(-size, size - 1) if len(operands) == 1 else g.number(-len(sizes), len(sizes) - 1)
    place = g.value(np.array(count, np.int64), constant=not g.chance(0.3))
    if g.chance(0.5):
        last = g.node("SequenceAt", [split.output[0], place])
    elif g.chance(0.5):
        last = g.node("ConcatFromSequence", [split.output[0]], axis=g.number(0, g.rank(x) - 1), new_axis=g.number(0, 1))
    else:
        last = g.node("SequenceLength", [split.output[0]])
    return Chain([split, last], [*operands, place], list(last.output))


@rule
def changed_sequence(g):
    if g.opset < 11:
        return None
    x = g.operand(least_rank=1)
    y = g.operand(shape=g.shape(x))
    place = g.value(np.array(g.number(-2, 2), np.int64), constant=not g.chance(0.3))
    made = g.node("SequenceConstruct", [x, y])
    changed = g.among(
        g.node("SequenceInsert", [made.output[0], x, place]),
        g.node("SequenceErase", [made.output[0], place]),
        g.node("SequenceInsert", [made.output[0], y]),
    )
    last = g.node("ConcatFromSequence", [changed.output[0]], axis=g.axis(x), new_axis=g.number(0, 1))
    return Chain([made, changed, last], [x, y, place], list(last.output))


# --- weights of few bits


@rule
def product_of_bits(g):
    bits, block = 4, g.among(16, 32)
    rows, depth = g.number(1, 5), g.among(16, 32, 48, 40, 5)
    blocks = -(-depth // block)
    a = g.operand(np.float32, shape=[g.number(1, 3), depth])
    packed = g.value(g.numpy.integers(0, 256, [rows, blocks, block * bits // 8]).astype(np.uint8), constant=True)
    scales = g.value(g.numpy.uniform(0.01, 0.1, [rows * blocks]).astype(np.float32), constant=True)
    zeros = g.numpy.integers(0, 256, [rows * -(-blocks * bits // 8)]).astype(np.uint8)
    operands = [a, packed, scales, g.value(zeros, constant=True) if g.chance(0.5) else ""]
    if g.chance(0.3):
        operands += ["", weights(g, [rows])]
    attributes = {"K": depth, "N": rows, "bits": bits, "block_size": block}
    return "com.microsoft.MatMulNBits", operands, attributes, 1


@rule
def rows_of_bits(g):
    block, kind = g.among(16, 32), g.among(TensorProto.UINT4, TensorProto.INT4)
    rows, width = g.number(1, 5), block * g.number(1, 2)
    axis = g.number(0, 1)
    shape = [rows, width] if axis == 0 else [width, rows]
    least, most = (0, 15) if kind == TensorProto.UINT4 else (-8, 7)
    table = helper.make_tensor("table", kind, shape, g.numpy.integers(least, most + 1, rows * width))
    by_block = [rows, width // block] if axis == 0 else [width // block, rows]
    data = g.node("Constant", [], value=table)
    scales = g.value(g.numpy.uniform(0.01, 0.1, by_block).astype(np.float32), constant=True)
    nodes, operands = [data], [data.output[0], None, scales]
    if g.chance(0.5):
        count = int(np.prod(by_block))
        zeros = helper.make_tensor("zeros", kind, by_block, g.numpy.integers(least, most + 1, count))
        nodes.append(g.node("Constant", [], value=zeros))
        operands.append(nodes[-1].output[0])
    indices = g.value(
        g.numpy.integers(-rows, rows, g.any_shape(g.number(0, 2))).astype(g.among(np.int64, np.int32)),
    )
    operands[1] = indices
    last = g.node(
        "com.microsoft.GatherBlockQuantized", operands, gather_axis=axis, quantize_axis=1 - axis, block_size=block
    )
    return Chain([*nodes, last], [indices, scales], list(last.output))


@rule
def quantize_in_blocks(g):
    if g.opset < 21:
        return None
    block, blocks = g.among(2, 3), g.number(1, 3)
    axis = g.number(0, 1)
    shape = [block * blocks, 4] if axis == 0 else [4, block * blocks]
    x = g.operand(np.float32, shape=shape)
    by_block = [blocks, 4] if axis == 0 else [4, blocks]
    scales = g.value(g.numpy.uniform(0.1, 0.5, by_block).astype(np.float32), constant=True)
    kind = g.among(TensorProto.UINT4, TensorProto.INT4, TensorProto.INT8, TensorProto.UINT8, TensorProto.INT16)
    zeros = helper.make_tensor("zeros", kind, by_block, g.numpy.integers(0, 7, 4 * blocks))
    zero = g.node("Constant", [], value=zeros)
    integers = g.node("QuantizeLinear", [x, scales, zero.output[0]], axis=axis, block_size=block)
    floats = g.node("DequantizeLinear", [integers.output[0], scales, zero.output[0]], axis=axis, block_size=block)
    return Chain([zero, integers, floats], [x, scales], list(floats.output))


# --- integers of com.microsoft


def integers_of(g, shape, dtype):
    return [g.value(g.data(shape, dtype)), scale_of(g), zero_point_of(g, dtype)]


@rule
def binary_of_quantized(g):
    dtype = g.among(np.uint8, np.int8)
    shape = g.any_shape(g.number(1, 4))
    other = shape if g.chance(0.6) else [n if g.chance(0.5) else 1 for n in shape]
    operands = [*integers_of(g, shape, dtype), *integers_of(g, other, dtype), scale_of(g), zero_point_of(g, dtype)]
    return g.among("com.microsoft.QLinearAdd", "com.microsoft.QLinearMul"), operands, {}, 1


@rule
def unary_of_quantized(g):
    """Without QLinearSoftmax, whose quotients ONNX Runtime cuts off."""
    dtype = g.among(np.uint8, np.int8)
    operands = [*integers_of(g, g.any_shape(4), dtype), scale_of(g), zero_point_of(g, dtype)]
    return g.among(
        ("com.microsoft.QLinearSigmoid", operands, {}, 1),
        ("com.microsoft.QLinearLeakyRelu", operands, {"alpha": maybe(g, 0.3)}, 1),
        ("com.microsoft.QLinearGlobalAveragePool", operands, {"channels_last": g.number(0, 1)}, 1),
        ("com.microsoft.QLinearAveragePool", operands, {"kernel_shape": [1, 1], "strides": maybe(g, [2, 1])}, 1),
    )


@rule
def joined_quantized(g):
    dtype = g.among(np.uint8, np.int8)
    parts = [integers_of(g, [2, g.number(1, 3), 3], dtype) for _ in range(g.number(1, 3))]
    operands = [scale_of(g), zero_point_of(g, dtype), *(name for part in parts for name in part)]
    return "com.microsoft.QLinearConcat", operands, {"axis": 1}, 1


@rule
def product_of_quantized(g):
    m, k, n = g.number(1, 5), g.number(1, 9), g.number(1, 6)
    turned = g.number(0, 1)
    kind = g.among(np.uint8, np.int8)
    b = g.value(g.data([n, k] if turned else [k, n], kind), constant=True)
    per_column = n if g.chance(0.4) else None
    zero = g.value(np.zeros([n] if per_column else [], kind), constant=True)
    if g.chance(0.5):
        a = integers_of(g, [m, k], np.uint8)
        c = g.value(g.numpy.integers(-300, 300, [n]).astype(np.int32), constant=True) if g.chance(0.6) else ""
        out = [scale_of(g), zero_point_of(g, np.uint8)] if g.chance(0.6) else []
        operands = [*a, b, scale_of(g, per_column), zero, c, *out]
        return "com.microsoft.QGemm", operands, {"transB": turned}, 1
    if turned:
        return None
    a, a_scale, a_zero = integers_of(g, [m, k], np.uint8)
    bias = weights(g, [n]) if g.chance(0.5) and g.float == np.float32 else ""
    operands = [a, b, a_scale, scale_of(g, per_column), a_zero, zero, bias]
    return "com.microsoft.MatMulIntegerToFloat", operands, {}, 1


# --- signals, places, matrices


@rule
def transform(g):
    if g.opset < 17:
        return None
    length, parts = g.number(1, 8), g.number(1, 2)
    x = g.operand(np.float32, shape=[g.number(1, 2), length, parts])
    inverse = g.number(0, 1)
    onesided = g.number(0, 1) if parts == 1 and not inverse else 0
    attributes = {"inverse": maybe(g, inverse), "onesided": maybe(g, onesided)}
    points = g.value(np.array(g.among(length, g.number(1, 9)), np.int64), constant=True) if g.chance(0.5) else ""
    if g.opset < 20:
        return "DFT", [x, points], {"axis": 1, **attributes}, 1
    axis = g.value(np.array(g.among(1, -2), np.int64), constant=True)
    return "DFT", [x, points, axis], attributes, 1


@rule
def short_transforms(g):
    if g.opset < 17:
        return None
    frame = g.among(4, 5, 8)
    x = g.operand(np.float32, shape=[g.number(1, 2), frame + g.number(0, 9), 1])
    step = g.value(np.array(g.number(1, 4), np.int64), constant=True)
    window = weights(g, [frame]) if g.chance(0.6) and g.float == np.float32 else ""
    length = g.value(np.array(frame, np.int64), constant=True)
    return "STFT", [x, step, window, length], {"onesided": maybe(g, g.number(0, 1))}, 1


@rule
def places_of_grid(g):
    if g.opset < 20:
        return None
    theta = g.operand(np.float32, shape=[2, 2, 3])
    aligned = g.number(0, 1)
    # A single place lies at 0 in PyTorch, at 1 in ONNX Runtime and at -1 in ONNX's reference.
    sizes = [2, 3, *(g.number(1 + aligned, 4) for _ in range(2))]
    return "AffineGrid", [theta, g.sizes(sizes)], {"align_corners": aligned}, 1


@rule
def crop_or_pad(g):
    if g.opset < 18:
        return None
    x = g.operand(least_rank=1)
    axes = g.axes(x)
    return "CenterCropPad", [x, g.sizes([g.number(1, 6) for _ in axes])], {"axes": axes}, 1


@rule
def image_of_columns(g):
    if g.opset < 18:
        return None
    height, width, block = g.number(3, 5), g.number(3, 5), [g.number(1, 2), g.number(1, 2)]
    attributes = {"strides": maybe(g, [g.number(1, 2)] * 2), "pads": maybe(g, [g.number(0, 1) for _ in range(4)], 0.3)}
    attributes["dilations"] = maybe(g, [g.number(1, 2)] * 2, 0.3)
    stride, gap = (attributes[key] or [1, 1] for key in ("strides", "dilations"))
    pads = attributes["pads"] or [0] * 4
    count = 1
    for i, size in enumerate((height, width)):
        count *= (size + pads[i] + pads[i + 2] - gap[i] * (block[i] - 1) - 1) // stride[i] + 1
    x = g.operand(np.float32, shape=[1, 2 * block[0] * block[1], count])
    return "Col2Im", [x, g.sizes([height, width]), g.sizes(block)], attributes, 1


@rule
def unpool(g):
    x = g.value(g.numpy.permutation(2 * 4 * 6).reshape(1, 2, 4, 6).astype(np.float32))
    width, stride = g.among((2, 2), (3, 1), (1, 1))  # whose pooled places lie in the result, or ONNX Runtime ends
    attributes = {"kernel_shape": [2, width], "strides": [2, stride]}
    pooled = g.node("MaxPool", [x], 2, **attributes)
    # Where the result has other sizes than what was pooled, ONNX Runtime counts places in the result.
    shape = [g.sizes([1, 2, 4, 6])] if g.chance(0.4) else []
    last = g.node("MaxUnpool", [*pooled.output, *shape], **attributes)
    return Chain([pooled, last], [x, *shape], list(last.output))


@rule
def boxes(g):
    if g.opset < 10:
        return None
    count, classes, batch = g.number(1, 6), g.number(1, 3), g.number(1, 2)
    corner = g.numpy.uniform(0, 4, [batch, count, 2])
    found = g.value(np.concatenate([corner, corner + g.numpy.uniform(1, 4, corner.shape)], -1).astype(np.float32))
    scores = g.value(g.numpy.uniform(0, 1, [batch, classes, count]).astype(np.float32))
    limits = [
        g.value(np.array([g.number(0, 4)], np.int64), constant=not g.chance(0.3)),
        g.value(np.array([g.among(0.0, 0.3, 0.5, 1.0)], np.float32), constant=not g.chance(0.3)),
        g.value(np.array([g.among(0.0, 0.4)], np.float32), constant=not g.chance(0.3)),
    ][: g.number(1, 3)]
    return "NonMaxSuppression", [found, scores, *limits], {"center_point_box": maybe(g, g.number(0, 1))}, 1


@rule
def determinant(g):
    n = g.number(1, 4)
    if g.chance(0.3):
        matrix = np.eye(n) * 3 + g.numpy.uniform(-0.5, 0.5, [2, n, n])
        return "com.microsoft.Inverse", [g.value(matrix.astype(np.float32))], {}, 1
    return "Det", [g.operand(np.float32, shape=[*g.any_shape(g.number(0, 2)), n, n])], {}, 1


# --- attention


@rule
def attention(g):
    batch, length, heads, width = g.number(1, 2), g.number(1, 4), g.among(1, 2, 4), 4
    keys = g.number(1, 5)
    query = g.operand(np.float32, shape=[batch, length, heads * width])
    key, value = (g.operand(np.float32, shape=[batch, keys, heads * width]) for _ in range(2))
    bias = weights(g, [3 * heads * width]) if g.chance(0.3) and g.float == np.float32 else ""
    mask = ""
    if g.chance(0.4):
        held = g.numpy.integers(0, 2, [batch, keys])
        held[:, 0] = 1
        mask = g.value(held.astype(np.int32))
    added = ""
    if g.chance(0.4):  # of samples that share it among heads, ONNX Runtime reads that of another sample
        shared = g.among(1, batch)
        added = g.operand(np.float32, shape=[shared, g.among(1, heads) if shared == 1 else heads, length, keys])
    attributes = {"num_heads": heads, "scale": maybe(g, 0.4), "mask_filter_value": maybe(g, -1000.0)}
    if keys == length:  # of more keys, ONNX Runtime's last query sees all
        attributes["unidirectional"] = maybe(g, 1, 0.3)
    return "com.microsoft.MultiHeadAttention", [query, key, value, bias, mask, added], attributes, 1


@rule
def rotated(g):
    heads, width, length, batch = g.among(1, 2), 8, g.number(1, 4), g.number(1, 2)
    x = g.operand(np.float32, shape=g.among([batch, length, heads * width], [batch, heads, length, width]))
    positions = g.value(g.numpy.integers(0, 6, [batch, length]).astype(np.int64))
    angles = g.numpy.uniform(0, 6, [6, width // 2])
    cos, sin = (g.value(f(angles).astype(np.float32), constant=True) for f in (np.cos, np.sin))
    return "com.microsoft.RotaryEmbedding", [x, positions, cos, sin], {"interleaved": maybe(g, g.number(0, 1))}, 1


# --- other numbers and strings


@rule
def through_other_type(g):
    """Rounded to a type of fewer bits and back."""
    kinds = [TensorProto.BFLOAT16, TensorProto.FLOAT16]
    if g.opset >= 19:
        kinds += [TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2, TensorProto.FLOAT8E4M3FNUZ]
    if g.opset < 13:
        kinds = kinds[1:]
    kind = g.among(*kinds)
    x = g.operand(np.float32)
    there = g.node("Cast", [x], to=kind, saturate=maybe(g, g.number(0, 1)) if g.opset >= 19 and kind > 16 else None)
    back = g.node("Cast", [there.output[0]], to=TensorProto.FLOAT)
    return Chain([there, back], [x], list(back.output))


@rule
def computed_in_float16(g):
    x, y = g.operand(np.float32, least_rank=2), None
    k = g.shape(x)[-1]
    y = g.value(g.data([k, g.number(1, 5)], np.float32))
    narrow = [g.node("Cast", [name], to=TensorProto.FLOAT16) for name in (x, y)]
    names = [node.output[0] for node in narrow]
    middle = g.among(
        g.node("MatMul", names),
        g.node("Add", [names[0], names[0]]),
        g.node("Softmax", names[:1]),
        g.node("Sigmoid", names[:1]),
        g.node("Gelu", names[:1]) if g.opset >= 20 else g.node("Tanh", names[:1]),
        g.node("Mul", [names[0], names[0]]),
    )
    # Not cast back: on x86 ONNX Runtime takes casts away that stand around what it computes in float32.
    return Chain([*narrow, middle], [x, y], list(middle.output))


@rule
def through_strings(g):
    x = g.value(g.data(g.any_shape(g.number(0, 2)), g.among(np.int64, np.int32)))
    texts = g.node("Cast", [x], to=TensorProto.STRING)
    more = [g.node("Cast", [texts.output[0]], to=g.among(TensorProto.INT64, TensorProto.FLOAT))]
    if g.chance(0.5):
        moved = g.among(
            g.node("Reshape", [texts.output[0], g.sizes([-1])]),
            g.node("Concat", [texts.output[0], texts.output[0]], axis=0) if g.rank(x) else None,
            g.node("Identity", [texts.output[0]]) if g.opset >= 13 else None,
        )
        if moved is None:
            return None
        more = [moved, g.node("Cast", [moved.output[0]], to=TensorProto.INT64)]
    elif g.chance(0.3) and g.opset >= 11:
        more = [g.node("Equal", [texts.output[0], texts.output[0]])] if g.opset >= 19 else more
    operands = [x, *(n for node in more for n in node.input if n in g.arrays)]
    return Chain([texts, *more], operands, list(more[-1].output))


# --- ai.onnx.ml


@rule
def table_of_numbers(g):
    x = g.operand(np.float32, shape=[g.number(1, 4), 3])
    keys = g.among([1, 2, 5], [0, -3, 7])
    return g.among(
        ("ai.onnx.ml.Scaler", [x], {"offset": [g.real() for _ in range(3)], "scale": [0.5, 2.0, g.real()]}, 1),
        ("ai.onnx.ml.Normalizer", [x], {"norm": g.among("L1", "L2", "MAX")}, 1),
        ("ai.onnx.ml.Binarizer", [x], {"threshold": g.real()}, 1),
        ("ai.onnx.ml.Imputer", [x], {"imputed_value_floats": [g.real()], "replaced_value_float": 1.0}, 1),
        ("ai.onnx.ml.ArrayFeatureExtractor", [x, g.sizes([g.number(0, 2) for _ in range(g.number(1, 3))])], {}, 1),
        (
            "ai.onnx.ml.LabelEncoder",
            [g.value(g.data([4], np.int64))],
            {"keys_int64s": keys, "values_floats": [0.5, 1.5, -2.0], "default_float": maybe(g, 3.0)},
            1,
        ),
        (
            "ai.onnx.ml.OneHotEncoder",
            [g.value(g.data(g.any_shape(g.number(1, 2)), np.int64))],
            {"cats_int64s": keys, "zeros": 1},
            1,
        ),
        (
            "ai.onnx.ml.LinearRegressor",
            [x],
            {"coefficients": [g.real() for _ in range(6)], "intercepts": [0.5, -0.5], "targets": 2},
            1,
        ),
        (
            "ai.onnx.ml.LinearClassifier",
            [x],
            {
                "coefficients": [g.real() for _ in range(9)],
                "intercepts": [g.real() for _ in range(3)],
                "classlabels_ints": keys,
                "post_transform": g.among("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"),
            },
            2,
        ),
    )


@rule
def trees(g):
    x = g.operand(np.float32, shape=[g.number(1, 4), 3])
    count = g.number(1, 3)
    ids, nodes, features, values, modes, left, right = [], [], [], [], [], [], []
    kinds = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GT", "BRANCH_GTE", "BRANCH_EQ", "BRANCH_NEQ")
    for tree in range(count):
        for node in range(5):
            is_leaf = node >= 2
            ids.append(tree)
            nodes.append(node)
            features.append(0 if is_leaf else g.number(0, 2))
            values.append(0.0 if is_leaf else g.real())
            modes.append("LEAF" if is_leaf else g.among(*kinds))
            left.append({0: 1, 1: 3}.get(node, 0))
            right.append({0: 2, 1: 4}.get(node, 0))
    leaves = [(t, n) for t in range(count) for n in (2, 3, 4)]
    attributes = {
        "nodes_treeids": ids,
        "nodes_nodeids": nodes,
        "nodes_featureids": features,
        "nodes_values": values,
        "nodes_modes": modes,
        "nodes_truenodeids": left,
        "nodes_falsenodeids": right,
        "n_targets": 2,
        "target_treeids": [t for t, _ in leaves],
        "target_nodeids": [n for _, n in leaves],
        "target_ids": [g.number(0, 1) for _ in leaves],
        "target_weights": [g.real() for _ in leaves],
        "aggregate_function": maybe(g, g.among("SUM", "AVERAGE", "MIN", "MAX")),
        "base_values": maybe(g, [0.25, -0.25]),
    }
    return "ai.onnx.ml.TreeEnsembleRegressor", [x], attributes, 1
