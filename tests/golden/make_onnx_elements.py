"""Cases of ONNX operators over elements, along axes, and of those that place and choose elements, by opset.

  python3 tests/golden/make_onnx_elements.py            in a Python with onnx and onnxruntime

Writes tests/golden/onnx/elements.npz for tests/unit/cli/onnx_test.cpp.
"""

import numpy as np
from onnx import TensorProto, helper
from onnx_case import Const, add, floats, op, random, save

inf, nan = np.inf, np.nan
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16"]


def ints(low, high, *shape, dtype="int64"):
    return random.randint(low, high, shape).astype(dtype)


def numbers(*values, dtype="int64"):
    return np.array(values, dtype)


def graph(name, nodes, inputs, outputs=1, opset=17, initializers=(), sizes=None):
    """Several nodes; inputs: name -> array; sizes: name -> its sizes, where some are open."""
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), (sizes or {}).get(n, x.shape))
        for n, x in inputs.items()
    ]
    model = helper.make_model(
        helper.make_graph(
            nodes, "case", infos, [helper.make_empty_tensor_value_info(f"y{i}") for i in range(outputs)], initializers
        ),
        opset_imports=[helper.make_opsetid("", opset)],
        ir_version=8 if opset < 21 else 10,
    )
    add(name, model.SerializeToString(), list(inputs.values()))


def elements():
    x = floats(2, 3, 4)
    unit = random.uniform(-0.95, 0.95, (2, 5)).astype("float32")
    for name in ["Asin", "Acos", "Atanh"]:
        op(name, name, unit)
    for name in ["Tan", "Atan", "Sinh", "Cosh", "Asinh", "Softsign", "ThresholdedRelu"]:
        op(name, name, x)
    op("Acosh", "Acosh", np.abs(x) + np.float32(1.1))
    for dtype in ["float16", "float64"]:
        for name in ["Exp", "Tanh", "Sqrt", "Ceil", "Abs", "Relu", "LeakyRelu", "Sign", "Round"]:
            if dtype == "float64" and name in ("LeakyRelu",):
                continue
            op(f"{name} {dtype}", name, np.abs(x).astype(dtype))
    op("Round half", "Round", np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], "float32"))
    op("ThresholdedRelu alpha", "ThresholdedRelu", x, alpha=0.7)
    op("Shrink", "Shrink", x)
    op("Shrink bias", "Shrink", x, bias=0.3, lambd=0.8)
    op("Shrink integers", "Shrink", ints(-4, 5, 3, 4), bias=1.0, lambd=1.5)
    op("Hardmax", "Hardmax", np.round(x))
    op("Hardmax axis", "Hardmax", np.round(x), axis=1)
    op("Hardmax 11", "Hardmax", np.round(x), opset=11)
    op("HardSigmoid other", "HardSigmoid", x, alpha=0.4, beta=0.3)
    op("Elu alpha", "Elu", x, alpha=1.7)
    op("Celu alpha", "Celu", x, alpha=0.6)
    op("Selu other", "Selu", x, alpha=2.0, gamma=3.0)
    op("PRelu by rows", "PRelu", x, Const(floats(4)))
    op("PRelu of one element", "PRelu", x, Const(floats(2, 1, 4)))
    op("PRelu vector", "PRelu", floats(5), Const(floats(5)))
    slopes = np.array([-0.5, 0.25, 2], "float32")
    op("PRelu of stretched slopes", "PRelu", x[None], Const(np.broadcast_to(slopes[1:, None, None], (2, 3, 4)).copy()))
    op("PRelu of slopes by rows", "PRelu", x[None], Const(np.broadcast_to(slopes[None, :, None], (2, 3, 4)).copy()))
    op("IsInf", "IsInf", numbers(1, inf, -inf, nan, dtype="float32"))
    op("IsInf positive", "IsInf", numbers(1, inf, -inf, nan, dtype="float32"), detect_negative=0)
    op("IsInf negative", "IsInf", numbers(1, inf, -inf, nan, dtype="float32"), detect_positive=0)
    op("IsInf neither", "IsInf", numbers(1, inf, dtype="float32"), detect_positive=0, detect_negative=0)
    for dtype in ["int32", "int64"]:
        whole = ints(1, 6, 2, 3, dtype=dtype)
        op(f"Pow {dtype} by a float", "Pow", whole, floats(3))
        op(f"Pow {dtype} by 2.5", "Pow", whole, Const(np.float32(2.5)))
        op(f"Pow {dtype} by 2.0", "Pow", whole, Const(np.float32(2)))
        op(f"Pow {dtype}", "Pow", whole, ints(0, 4, 3, dtype=dtype))
    op("Pow int32 by int64", "Pow", ints(1, 6, 3, dtype="int32"), ints(0, 4, 3))
    op("Pow of a float by int64", "Pow", np.abs(x), ints(0, 4, 4))
    op("Pow 7", "Pow", np.abs(x), floats(4), opset=7)
    for dtype in ["int8", "int32", "int64", "uint8"]:
        a, b = ints(-100, 100, 12).astype(dtype), ints(1, 9, 12).astype(dtype)
        op(f"Div {dtype}", "Div", a, b)
        op(f"Mod {dtype}", "Mod", a, b)
        op(f"Add {dtype}", "Add", a, a, opset=14)
        op(f"Mul {dtype}", "Mul", a, b, opset=14)
    for dtype in ["int8", "int16", "int32", "int64"]:
        a = numbers(-7, -7, 7, 7, -8, 0, dtype=dtype)
        b = numbers(3, -3, 3, -3, 4, 5, dtype=dtype)
        op(f"Mod signs {dtype}", "Mod", a, b)
        op(f"Mod of C signs {dtype}", "Mod", a, b, fmod=1)
    op("Mod of C float16", "Mod", floats(6).astype("float16"), floats(6).astype("float16"), fmod=1)
    for dtype in ["uint8", "uint16"]:
        if dtype == "uint8":
            for direction in ["LEFT", "RIGHT"]:
                op(f"BitShift {direction}", "BitShift", ints(0, 200, 6, dtype=dtype), ints(0, 8, 6, dtype=dtype),
                   direction=direction)  # fmt: skip
    for dtype in INTEGERS:
        a, b = ints(0, 100, 2, 3, dtype=dtype), ints(0, 100, 3, dtype=dtype)
        op(f"BitwiseAnd {dtype}", "BitwiseAnd", a, b, opset=18)
        op(f"BitwiseOr {dtype}", "BitwiseOr", a, b, opset=18)
        op(f"BitwiseXor {dtype}", "BitwiseXor", a, b, opset=18)
        op(f"BitwiseNot {dtype}", "BitwiseNot", a, opset=18)
    special = numbers(1, nan, -2, 0.5, dtype="float32")
    op("Max with NaN", "Max", special, floats(4), floats(2, 4))
    op("Min with NaN", "Min", special, floats(4), floats(2, 4))
    for name in ["Max", "Min", "Sum", "Mean"]:
        op(f"{name} of one", name, x)
        op(f"{name} of three", name, x, floats(4), floats(3, 1))
    for dtype in ["int8", "uint8", "int32", "int64", "float16", "float64"]:
        a, b = ints(-9, 9, 6).astype(dtype), ints(-9, 9, 6).astype(dtype)
        op(f"Max {dtype}", "Max", a, b)
        op(f"Min {dtype}", "Min", a, b)
        op(f"Clip {dtype}", "Clip", a, Const(np.array(2, dtype)), Const(np.array(5, dtype)))
    op("Clip 6", "Clip", x, opset=6, min=-0.5, max=0.7)
    op("Clip 6 below", "Clip", x, opset=7, min=-0.5)
    op("Clip 6 of nothing", "Clip", x, opset=7)
    op("Clip of nothing", "Clip", x)
    op("Clip crossed", "Clip", x, Const(np.float32(1)), Const(np.float32(-1)))
    op("Clip computed", "Clip", x, np.array(-0.5, "float32"), np.array(0.5, "float32"))
    op("Equal bool", "Equal", x > 0, floats(4) > 0)
    for dtype in ["int32", "int64", "float64"]:
        a, b = ints(0, 3, 6, dtype=dtype), ints(0, 3, 6, dtype=dtype)
        for name in ["Equal", "Less", "GreaterOrEqual"]:
            op(f"{name} {dtype}", name, a, b)
    for dtype in ["float16", "float64", "int64", "uint8", "bool"]:
        condition = x > 0
        op(f"Where {dtype}", "Where", condition, ints(0, 5, 3, 4).astype(dtype), ints(0, 5, 2, 1, 4).astype(dtype))
    wide = numbers(-300.7, -129, -1.5, -0.5, 0, 0.5, 1.5, 200.3, 300, 70000, dtype="float32")
    for to in ["FLOAT16", "DOUBLE", "INT8", "UINT8", "INT16", "UINT16", "INT32", "INT64", "BOOL", "BFLOAT16"]:
        if to == "BFLOAT16":
            nodes = [helper.make_node("Cast", ["x"], ["b"], to=TensorProto.BFLOAT16),
                     helper.make_node("Cast", ["b"], ["y0"], to=TensorProto.FLOAT)]  # fmt: skip
            graph("Cast to BFLOAT16", nodes, {"x": wide})
            continue
        number = getattr(TensorProto, to)
        op(f"Cast to {to}", "Cast", wide, to=number)
        op(f"Cast int64 to {to}", "Cast", ints(-70000, 70000, 20), to=number)
        op(f"Cast bool to {to}", "Cast", x > 0, to=number)
        op(f"Cast float16 to {to}", "Cast", floats(9).astype("float16"), to=number)
        op(f"Cast uint8 to {to}", "Cast", ints(0, 255, 9, dtype="uint8"), to=number)
    op("Cast far to int32", "Cast", numbers(3e9, -3e9, inf, -inf, nan, dtype="float32"), to=TensorProto.INT32)
    op("Cast far to int64", "Cast", numbers(1e19, -1e19, inf, -inf, nan, dtype="float32"), to=TensorProto.INT64)
    op("Cast double far to int32", "Cast", numbers(3e9, -3e9, inf, nan, dtype="float64"), to=TensorProto.INT32)
    op("Cast NaN to bool", "Cast", numbers(nan, inf, 0, -0.0, 1e-40, dtype="float32"), to=TensorProto.BOOL)
    op("CastLike", "CastLike", x, ints(0, 2, 1, dtype="int32"))
    op("Dropout 7", "Dropout", x, opset=7)
    op("Dropout 10 mask", "Dropout", x, opset=10, outputs=2)
    op("Dropout mask", "Dropout", x, Const(np.float32(0.3)), outputs=2)
    op("Dropout in training by nothing", "Dropout", x, Const(np.float32(0)), Const(np.array(True)), outputs=2)
    for name in ["Add", "Mul", "Sub", "Div"]:
        op(f"{name} 7", name, x, floats(3, 1), opset=7)
        op(f"{name} float16", name, x.astype("float16"), floats(4).astype("float16"))
        op(f"{name} float64", name, x.astype("float64"), floats(4).astype("float64"))


def reductions():
    x = floats(2, 3, 4)
    positive = np.abs(x) + np.float32(0.1)
    names = ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]
    for name in ["Reduce" + n for n in names]:
        data = positive if name == "ReduceLogSum" else x
        op(f"{name} 11", name, data, opset=11, axes=[1])
        op(f"{name} 11 all", name, data, opset=11)
        op(f"{name} 11 back", name, data, opset=11, axes=[-1, 0], keepdims=0)
        op(f"{name} 18", name, data, Const(numbers(1, 2)), opset=18)
        op(f"{name} 18 dropped", name, data, Const(numbers(-3)), opset=18, keepdims=0)
        op(f"{name} 18 all", name, data, opset=18, keepdims=0)
        op(f"{name} 18 noop", name, data, Const(np.zeros(0, "int64")), opset=18, noop_with_empty_axes=1)
        op(f"{name} 18 empty axes", name, data, Const(np.zeros(0, "int64")), opset=18)
        op(f"{name} number", name, np.array(1.5, "float32"), opset=18)
        op(f"{name} float64", name, data.astype("float64"), Const(numbers(1)), opset=18)
        for dtype in ["int32", "int64"]:
            if name == "ReduceLogSumExp" or (name in ("ReduceLogSum", "ReduceL1", "ReduceL2") and dtype == "int64"):
                continue
            whole = ints(1, 7, 2, 3, 4, dtype=dtype)
            op(f"{name} {dtype}", name, whole, Const(numbers(0, 2)), opset=18)
        empty = np.zeros((2, 0, 4), "float32")
        if name not in ("ReduceMean",):
            op(f"{name} of nothing", name, empty, Const(numbers(1)), opset=20)
    for dtype in ["int8", "uint8"]:
        op(f"ReduceMax {dtype}", "ReduceMax", ints(0, 100, 2, 5, dtype=dtype), Const(numbers(1)), opset=18)
        op(f"ReduceMin {dtype}", "ReduceMin", ints(0, 100, 2, 5, dtype=dtype), Const(numbers(1)), opset=18)
    op("ReduceMax bool", "ReduceMax", x > 0.5, Const(numbers(1)), opset=20)
    op("ReduceMin bool", "ReduceMin", x > -1.5, Const(numbers(1)), opset=20)
    op("ReduceSum 13 open", "ReduceSum", x, Const(numbers(0)), opset=13, open_batch=True)
    tied = np.round(floats(3, 4, 5))
    for name in ["ArgMax", "ArgMin"]:
        op(f"{name} first", name, tied)
        op(f"{name} last", name, tied, axis=1, select_last_index=1)
        op(f"{name} last dropped", name, tied, axis=-1, keepdims=0, select_last_index=1)
        op(f"{name} last open", name, tied, axis=0, select_last_index=1, open_batch=True)
        op(f"{name} 11", name, tied, axis=2, opset=11)
        op(f"{name} int32", name, ints(0, 4, 3, 4, dtype="int32"), axis=1)
    op("TopK 1", "TopK", x, outputs=2, opset=9, k=2)
    op("TopK 10", "TopK", x, Const(numbers(2)), outputs=2, opset=10, axis=1)
    op("TopK smallest", "TopK", x, Const(numbers(2)), outputs=2, largest=0, axis=1)
    op("TopK ties", "TopK", tied, Const(numbers(3)), outputs=2)
    op("TopK smallest ties", "TopK", tied, Const(numbers(3)), outputs=2, largest=0)
    for dtype in ["int32", "int64", "float64"]:
        op(f"TopK {dtype}", "TopK", ints(0, 50, 3, 6, dtype=dtype), Const(numbers(2)), outputs=2)
    graph("TopK of half an axis",
          [helper.make_node("Shape", ["x"], ["s"]),
           helper.make_node("Gather", ["s", "one"], ["n"]),
           helper.make_node("Div", ["n", "two"], ["k"]),
           helper.make_node("TopK", ["x", "k"], ["y0", "y1"])],
          {"x": x}, 2, initializers=[helper.make_tensor("one", 7, [1], [2]), helper.make_tensor("two", 7, [1], [2])],
          sizes={"x": [2, 3, "n"]})  # fmt: skip
    for dtype in ["float32", "float64", "int32", "int64"]:
        whole = ints(-5, 9, 3, 4, dtype=dtype)
        op(f"CumSum {dtype}", "CumSum", whole, Const(np.int32(1)))
        op(f"CumSum {dtype} exclusive", "CumSum", whole, Const(np.int64(-2)), exclusive=1)
        op(f"CumSum {dtype} reverse", "CumSum", whole, Const(np.int32(-1)), reverse=1)
        op(f"CumSum {dtype} reverse exclusive", "CumSum", whole, Const(np.int32(0)), exclusive=1, reverse=1)
    op("CumSum deep", "CumSum", x, Const(np.int32(0)), exclusive=1, open_batch=True)
    for name in ["Softmax", "LogSoftmax"]:
        op(f"{name} 11", name, x, opset=11)
        op(f"{name} 11 axis", name, x, opset=11, axis=2)
        op(f"{name} 11 back", name, x, opset=11, axis=-2)
        op(f"{name} 7 all", name, x, opset=7, axis=0)
        op(f"{name} 11 of images", name, floats(2, 3, 1, 1), opset=11)
        op(f"{name} 11 open", name, x, opset=11, open_batch=True)
        op(f"{name} 13 axis", name, x, axis=0)
        op(f"{name} float64", name, x.astype("float64"))
    op("NonZero", "NonZero", np.round(x))
    op("NonZero bool", "NonZero", x > 0)
    op("NonZero int64", "NonZero", ints(0, 2, 3, 4))
    values = numbers(2, 1, 1, 3, 4, 3, dtype="float32")
    for dtype in ["float32", "int64"]:
        op(f"Unique {dtype}", "Unique", values.astype(dtype), outputs=4)
        op(f"Unique {dtype} unsorted", "Unique", values.astype(dtype), outputs=4, sorted=0)
    op("Unique alone", "Unique", values)
    op("Unique of a matrix", "Unique", ints(0, 4, 3, 4), outputs=4)
    op("Unique of a matrix unsorted", "Unique", ints(0, 4, 3, 4), outputs=4, sorted=0)
    rows = np.array([[1, 0, 0], [1, 0, 0], [2, 3, 4], [0, 1, 0]], "float32")
    op("Unique rows", "Unique", rows, outputs=4, axis=0)
    op("Unique columns", "Unique", rows, outputs=4, axis=-1)
    op("Unique rows unsorted", "Unique", rows, outputs=4, axis=0, sorted=0)
    boxes, scores = np.sort(random.uniform(0, 1, (2, 6, 2, 2)), 2).astype("float32"), floats(2, 3, 6)
    boxes = boxes.reshape(2, 6, 4)
    limits = [Const(numbers(2)), Const(np.float32([0.3])), Const(np.float32([-0.5]))]
    op("NonMaxSuppression", "NonMaxSuppression", boxes, scores, *limits)
    op("NonMaxSuppression of all", "NonMaxSuppression", boxes, scores, Const(numbers(9)), Const(np.float32([0.9])))
    op("NonMaxSuppression of none", "NonMaxSuppression", boxes, scores)
    op("NonMaxSuppression flipped", "NonMaxSuppression", boxes[..., [2, 1, 0, 3]], scores, *limits)
    op("NonMaxSuppression center", "NonMaxSuppression", np.abs(boxes), scores, *limits, center_point_box=1, opset=11)
    equal = np.ones((1, 1, 6), "float32")
    op("NonMaxSuppression equal scores", "NonMaxSuppression", boxes[:1], equal, Const(numbers(4)),
       Const(np.float32([0.2])))  # fmt: skip
    condition = numbers(0, 1, 1, dtype="bool")
    op("Compress", "Compress", x, condition)
    op("Compress axis", "Compress", x, condition, axis=1)
    op("Compress short", "Compress", x, Const(condition), axis=-1)


def views():
    x = floats(3, 4, 5)
    op("Slice of opset 9", "Slice", x, opset=9, starts=[1, 0], ends=[3, 100], axes=[0, 2])
    op("Slice without axes of opset 7", "Slice", x, opset=7, starts=[1, -3], ends=[2, -1])
    op("Slice of opset 10", "Slice", x, Const(numbers(0)), Const(numbers(3)), opset=10)
    big = np.iinfo("int64")
    for i, (start, end, step) in enumerate(
        [(0, 3, 1), (-2, big.max, 1), (3, 0, -1), (-1, big.min, -1), (-1, -100, -2), (4, 1, -2), (100, -100, -3),
         (3, -1, -1), (1, 1, 1), (2, 1, 1), (-100, 100, 2), (0, -1, 3), (2, -6, -1), (-6, 100, 1), (0, 3, -1)]
    ):  # fmt: skip
        bounds = [Const(numbers(start)), Const(numbers(end)), Const(numbers(2)), Const(numbers(step))]
        op(f"Slice {i}", "Slice", x, *bounds)
    for i, (start, end, step) in enumerate(
        [(0, 2, 1), (0, 64, 1), (-64, 64, 1), (1, 64, 2), (-2, big.max, 1), (-1, big.min, -1), (-1, -100, -1),
         (100, 0, -1), (64, 128, 1), (-5, -1, 1), (2, -1, -1), (0, big.max, 64)]
    ):  # fmt: skip
        nodes = [helper.make_node("Slice", ["x", "a", "b", "axis", "c"], ["y0"]),
                 helper.make_node("Shape", ["y0"], ["y1"]),
                 helper.make_node("Reshape", ["y0", "to"], ["y2"])]  # fmt: skip
        known = [helper.make_tensor(n, 7, [len(v)], v) for n, v in
                 {"a": [start], "b": [end], "c": [step], "axis": [0], "to": [0, 2, 2, 5]}.items()]  # fmt: skip
        if max(0, len(range(3)[slice(start, end, step)])):
            graph(f"Slice open {i}", nodes, {"x": x}, 3, initializers=known, sizes={"x": ["n", 4, 5]})
    # The axes are shorter than the ends, and layers behind the slices are fused.
    for bounds in [(0, 64), (-64, 64), (0, 10**9)]:
        nodes = [helper.make_node("Slice", ["x", "a", "b", "axes"], ["part"]),
                 helper.make_node("Conv", ["part", "w"], ["convolved"]), helper.make_node("Relu", ["convolved"], ["r"]),
                 helper.make_node("Transpose", ["r"], ["t"], perm=[0, 2, 1]),
                 helper.make_node("MatMul", ["t", "m"], ["y0"])]  # fmt: skip
        known = [helper.make_tensor(n, 7, [2], v) for n, v in
                 {"a": [0, bounds[0]], "b": [10**9, bounds[1]], "axes": [0, 2]}.items()]  # fmt: skip
        known += [helper.make_tensor(n, 1, sizes, np.linspace(-1, 1, np.prod(sizes))) for n, sizes in
                  {"w": [3, 4, 2], "m": [3, 2]}.items()]  # fmt: skip
        graph(f"Layers behind a slice {bounds}", nodes, {"x": x}, initializers=known, sizes={"x": ["b", 4, "n"]})
    op("Split 11", "Split", x, outputs=2, opset=11, axis=1)
    op("Split 2 lengths", "Split", x, outputs=2, opset=7, axis=2, split=[2, 3])
    op("Split 13", "Split", x, outputs=2, axis=1)
    op("Split 18 uneven", "Split", x, outputs=2, opset=18, axis=-1, num_outputs=2)
    op("Split 18 uneven four", "Split", floats(7, 2), outputs=3, opset=18, axis=0, num_outputs=3)
    op("Split lengths", "Split", x, Const(numbers(1, 0, 4)), outputs=3, axis=2)
    op("Split open", "Split", floats(4, 3), outputs=2, axis=0, open_batch=True)
    op("Split open uneven", "Split", floats(5, 3), outputs=3, axis=0, opset=18, num_outputs=3, open_batch=True)
    op("Split into one", "Split", x, outputs=1, axis=0)
    single = floats(1, 3, 1, 2)
    op("Squeeze 11", "Squeeze", single, opset=11, axes=[0, -2])
    op("Squeeze 11 all", "Squeeze", single, opset=11)
    op("Squeeze all open", "Squeeze", floats(1, 3, 1, 2), open_batch=False)
    op("Squeeze to a number", "Squeeze", floats(1, 1))
    op("Unsqueeze 11", "Unsqueeze", x, opset=11, axes=[0, -1])
    op("Unsqueeze", "Unsqueeze", x, Const(numbers(-1, 1)))
    for axis in [0, 1, 2, 3, -1, -2]:
        op(f"Flatten {axis}", "Flatten", x, axis=axis)
        op(f"Flatten {axis} open", "Flatten", x, axis=axis, open_batch=True)
    op("Flatten of a vector", "Flatten", floats(4), axis=1)
    op("Flatten of a number", "Flatten", np.array(2, "float32"), axis=0)
    op("Reshape allowzero", "Reshape", np.zeros((0, 3), "float32"), Const(numbers(3, 0)), opset=14, allowzero=1)
    op("Reshape to a number", "Reshape", floats(1, 1), Const(np.zeros(0, "int64")))
    op("Expand smaller", "Expand", x, Const(numbers(1, 5)))
    op("Tile", "Tile", x, Const(numbers(1, 2, 3)))
    op("Tile nothing", "Tile", x, Const(numbers(1, 0, 3)))
    op("Concat of one", "Concat", x, axis=1)
    for dtype in ["int64", "uint8", "bool", "float16", "float64", "int32"]:
        a = ints(0, 5, 2, 3).astype(dtype)
        op(f"Concat {dtype}", "Concat", a, a, axis=-1)
        op(f"Pad {dtype}", "Pad", a, Const(numbers(0, 1, 2, 0)), Const(np.array(1, dtype)))
        op(f"Gather {dtype}", "Gather", a, Const(numbers(2, -1, 0)), axis=1)
        op(f"Transpose {dtype}", "Transpose", a)
        op(f"Tile {dtype}", "Tile", a, Const(numbers(2, 1)))
        op(f"Slice {dtype}", "Slice", a, Const(numbers(-1)), Const(numbers(-9)), Const(numbers(1)), Const(numbers(-1)))
        op(f"ScatterElements {dtype}", "ScatterElements", a, Const(numbers(1, 0).reshape(1, 2)), a[:1, :2])
    op("Pad 2", "Pad", x, opset=7, pads=[0, 1, 2, 0, 0, 1], value=1.5)
    op("Pad 2 reflect", "Pad", x, opset=10, pads=[0, 1, 2, 0, 0, 1], mode="reflect")
    op("Pad negative", "Pad", x, Const(numbers(0, -1, 2, 0, 1, -2)), Const(np.float32(3)))
    op("Pad axes", "Pad", x, Const(numbers(1, 2)), None, Const(numbers(-2)), opset=18)
    op("Pad value computed", "Pad", x, Const(numbers(0, 1, 2, 0, -1, 1)), np.array(2.5, "float32"))
    for mode in ["reflect", "edge", "wrap"]:
        opset = 19 if mode == "wrap" else 18
        op(f"Pad {mode}", "Pad", x, Const(numbers(1, 2, 0, 2, 1, 3)), opset=opset, mode=mode)
        op(f"Pad {mode} negative", "Pad", x, Const(numbers(0, -1, 2, 0, 1, -2)), opset=opset, mode=mode)
        op(f"Pad {mode} open", "Pad", x, Const(numbers(0, 1, 2, 0, 1, 1)), opset=opset, mode=mode, open_batch=True)
    op("Pad edge far", "Pad", x, Const(numbers(0, 9, 0, 5)), None, Const(numbers(0, 2)), opset=18, mode="edge")
    table = floats(6, 3)
    op("Gather negative ids", "Gather", Const(table), numbers(-1, 0, -6, 5))
    op("Gather ids of two axes", "Gather", Const(table), ints(-6, 6, 2, 3), axis=0)
    op("Gather computed number", "Gather", x, np.array(-2), axis=1)
    op("Gather two axes", "Gather", x, ints(-4, 4, 2, 3), axis=1)
    op("Gather by int32", "Gather", x, ints(-5, 5, 2, 1, 2, dtype="int32"), axis=2)
    op("Gather constant two axes", "Gather", x, Const(ints(-5, 5, 2, 3)), axis=-1)
    op("GatherElements negative", "GatherElements", x, ints(-4, 4, 3, 2, 5), axis=1)
    op("GatherND", "GatherND", x, ints(-3, 3, 2, 2))
    op("GatherND rows", "GatherND", x, ints(-3, 3, 2, 4, 1))
    op("GatherND all", "GatherND", x, ints(0, 3, 4, 3))
    op("GatherND batch", "GatherND", x, ints(-4, 4, 3, 2, 1), batch_dims=1)
    op("GatherND batches", "GatherND", x, ints(-5, 5, 3, 4, 1), batch_dims=2)
    op("GatherND batch open", "GatherND", x, ints(-4, 4, 3, 1), batch_dims=1, open_batch=True)
    places = numbers(2, -1, 0).reshape(3, 1)
    op("ScatterND", "ScatterND", floats(4, 2), places, floats(3, 2))
    op("ScatterND elements", "ScatterND", x, ints(0, 3, 2, 3), floats(2))
    again = numbers(1, -1, 1, 0).reshape(4, 1)
    for reduction in ["add", "mul", "max", "min"]:
        op(f"ScatterND {reduction}", "ScatterND", floats(3, 2), again, floats(4, 2), opset=18, reduction=reduction)
        op(f"ScatterND {reduction} deep", "ScatterND", x, ints(-3, 3, 2, 2, 2), floats(2, 2, 5), opset=18,
           reduction=reduction)  # fmt: skip
        op(f"ScatterND {reduction} int64", "ScatterND", ints(0, 9, 3, 2), again, ints(0, 9, 4, 2), opset=18,
           reduction=reduction)  # fmt: skip
        index = ints(-3, 3, 2, 4)
        op(f"ScatterElements {reduction}", "ScatterElements", floats(3, 4), index, floats(2, 4), opset=18,
           reduction=reduction)  # fmt: skip
        index = ints(-4, 4, 3, 2)
        op(f"ScatterElements {reduction} axis", "ScatterElements", floats(3, 4), index, floats(3, 2), axis=1, opset=18,
           reduction=reduction)  # fmt: skip
    op("ScatterElements", "ScatterElements", floats(3, 4), Const(numbers(2, -1, 0, 1).reshape(1, 4)), floats(1, 4))
    index = numbers(2, -3).reshape(1, 2)
    op("ScatterElements computed", "ScatterElements", floats(3, 4), index, floats(1, 2), axis=-1)
    op("Scatter", "Scatter", floats(3, 4), numbers(2, 1, 0, 1).reshape(1, 4), floats(1, 4), opset=9)
    op("ReverseSequence", "ReverseSequence", floats(4, 3, 2), numbers(1, 4, 2))
    op("ReverseSequence batch first", "ReverseSequence", floats(3, 4), numbers(2, 4, 1), batch_axis=0, time_axis=1)
    op("ReverseSequence open", "ReverseSequence", floats(3, 4), numbers(2, 4, 1), batch_axis=0, time_axis=1,
       open_batch=True)  # fmt: skip
    for dtype in ["float32", "float64", "int16", "int32", "int64"]:
        op(f"Range {dtype}", "Range", *[Const(np.array(v, dtype)) for v in (1, 8, 3)])
        op(f"Range {dtype} down", "Range", *[Const(np.array(v, dtype)) for v in (5, -4, -2)])
        op(f"Range {dtype} of nothing", "Range", *[Const(np.array(v, dtype)) for v in (5, 2, 2)])
    op("Range of fractions", "Range", *[Const(np.array(v, "float32")) for v in (0.5, 2, 0.3)])
    for dtype, bounds in {"float32": (1, 8, 1.5), "int32": (10, 3, -3), "int64": (4, 4, 2)}.items():
        op(f"Range computed {dtype}", "Range", *[np.array(v, dtype) for v in bounds])
    op("Reshape computed", "Reshape", x, numbers(0, 10, -1))
    op("Reshape computed zeros", "Reshape", x, numbers(3, 0, 5, 1))
    op("Expand computed", "Expand", floats(3, 1), numbers(2, 1, 6))
    op("Expand computed smaller", "Expand", floats(1, 3, 1), numbers(3, 1))
    op("Tile computed", "Tile", x, numbers(1, 2, 3))
    op("Slice computed", "Slice", x, numbers(1, -2), numbers(3, 9))
    shape = helper.make_node("Shape", ["x"], ["all"])
    nodes = [shape, helper.make_node("Slice", ["all"], ["y0"], starts=[-2], ends=[9])]
    graph("Sizes sliced by attributes", nodes, {"x": x}, opset=9, sizes={"x": ["a", "b", "c"]})
    nodes = [shape, helper.make_node("Slice", ["all", "a", "b", "axis", "c"], ["y0"])]
    for i, (start, end, step) in enumerate([(-1, big.min, -1), (2, 0, -1), (9, -9, -2), (0, 9, 2)]):
        known = {"a": [start], "b": [end], "c": [step], "axis": [0]}
        known = [helper.make_tensor(n, 7, [len(v)], v) for n, v in known.items()]
        graph(f"Sizes sliced {i}", nodes, {"x": x}, initializers=known, sizes={"x": ["a", "b", "c"]})
    # Padded to whole windows; and sizes that may be zero.
    nodes = [shape, helper.make_node("Gather", ["all", "last"], ["size"]),
             helper.make_node("Mod", ["size", "four"], ["rest"]),
             helper.make_node("Sub", ["four", "rest"], ["lack"]),
             helper.make_node("Mod", ["lack", "four"], ["more"]),
             helper.make_node("Concat", ["zeros", "more"], ["pads"], axis=0),
             helper.make_node("Pad", ["x", "pads"], ["padded"]),
             helper.make_node("Reshape", ["padded", "windows"], ["y0"]),
             helper.make_node("Equal", ["rest", "zero"], ["whole"]),
             helper.make_node("Sub", ["size", "five"], ["beyond"]),
             helper.make_node("Equal", ["beyond", "zero"], ["ends"]),
             helper.make_node("Where", ["whole", "zero", "four"], ["y1"]),
             helper.make_node("Where", ["ends", "zero", "four"], ["y2"])]  # fmt: skip
    known = {"last": [2], "zero": [0], "four": [4], "five": [5], "zeros": [0] * 5, "windows": [-1, 4]}
    known = [helper.make_tensor(n, 7, [len(v)], v) for n, v in known.items()]
    for size in (4, 5, 7):
        x_of_size = floats(1, 2, size)
        graph(f"Mod of sizes {size}", nodes, {"x": x_of_size}, 3, initializers=known, sizes={"x": ["a", "b", "c"]})
    # What decoders are given for the first token.
    nodes = [helper.make_node("Concat", ["past", "x"], ["y0"], axis=1),
             helper.make_node("MatMul", ["x", "turned"], ["scores"]),
             helper.make_node("Transpose", ["y0"], ["turned"], perm=[0, 2, 1]),
             helper.make_node("Softmax", ["scores"], ["y1"], axis=-1)]  # fmt: skip
    sizes = {"past": ["batch", "past", 5], "x": ["batch", "length", 5]}
    graph("Empty past", nodes, {"past": floats(3, 0, 5), "x": x}, 2, sizes=sizes)
    graph("Empty batch", nodes, {"past": floats(0, 2, 5), "x": floats(0, 4, 5)}, 2, sizes=sizes)
    op("ConstantOfShape computed", "ConstantOfShape", numbers(2, 3))
    op("TopK computed", "TopK", x, numbers(2), outputs=2)
    op("OneHot computed", "OneHot", ints(-5, 7, 2, 3), np.array(5, "float32"), Const(np.float32([0, 1])))
    classes = ints(-5, 7, 2, 3)
    op("OneHot", "OneHot", classes, Const(numbers(5)), Const(np.float32([2, 5])))
    op("OneHot axis", "OneHot", classes, Const(numbers(5)), Const(np.float32([0, 1])), axis=1)
    op("OneHot first", "OneHot", classes, Const(numbers(5)), Const(np.int64([0, 1])), axis=0)
    op("OneHot floats", "OneHot", classes.astype("float32"), Const(np.float32([5])), Const(np.float32([0, 1])))
    op("OneHot int32", "OneHot", classes.astype("int32"), Const(np.int32(5)), Const(np.float32([-1, 1])), opset=9)
    for k in [-1, 0, 2]:
        op(f"EyeLike {k}", "EyeLike", floats(3, 4), k=k)
    op("EyeLike int64", "EyeLike", floats(3, 4), dtype=7)
    op("EyeLike open", "EyeLike", floats(3, 4), open_batch=True)
    for k in [-1, 1]:
        op(f"Trilu computed {k}", "Trilu", x, np.array(k))
        op(f"Trilu computed {k} below", "Trilu", x, np.array(k), upper=0)
    op("Trilu int64", "Trilu", ints(0, 9, 3, 4), Const(np.array(1)))
    op("Size", "Size", x)
    op("Size open", "Size", x, open_batch=True)
    op("Shape part", "Shape", x, opset=15, start=-2, end=3)
    op("ConstantOfShape", "ConstantOfShape", Const(numbers(2, 3)))
    op("ConstantOfShape number", "ConstantOfShape", Const(np.zeros(0, "int64")))
    one = helper.make_tensor("v", TensorProto.INT32, [1], [7])
    op("ConstantOfShape int32", "ConstantOfShape", Const(numbers(2, 3)), value=one)
    for key, value in {"value_float": 2.5, "value_int": 3, "value_floats": [1.5, 2.5], "value_ints": [4, 5]}.items():
        graph(f"Constant {key}", [helper.make_node("Constant", [], ["y0"], **{key: value})], {}, opset=13)
    op("Identity", "Identity", x > 0)


def signal():
    for name in ["HannWindow", "HammingWindow", "BlackmanWindow"]:
        op(name, name, Const(np.int64(10)))
        op(f"{name} symmetric", name, Const(np.int32(9)), periodic=0, output_datatype=TensorProto.DOUBLE)
        op(f"{name} computed", name, np.array(10))
        op(f"{name} computed symmetric", name, np.array(9), periodic=0)
    op("MelWeightMatrix", "MelWeightMatrix", *map(Const, np.int64([8, 64, 16000])), Const(np.float32(20)),
       Const(np.float32(7600)))  # fmt: skip
    op("MelWeightMatrix narrow", "MelWeightMatrix", *map(Const, np.int64([20, 32, 8000])), Const(np.float32(0)),
       Const(np.float32(4000)))  # fmt: skip
    real, complex_ = floats(2, 10, 1), floats(2, 10, 2)
    for kind, x in {"real": real, "complex": complex_}.items():
        op(f"DFT {kind}", "DFT", x)
        op(f"DFT {kind} inverse", "DFT", x, inverse=1)
        op(f"DFT {kind} longer", "DFT", x, Const(np.int64(13)), axis=1)
        op(f"DFT {kind} shorter", "DFT", x, Const(np.int64(7)), axis=1)
        op(f"DFT {kind} 20", "DFT", x, None, Const(np.int64(-2)), opset=20)
        op(f"DFT {kind} of another axis", "DFT", floats(2, 6, 3, x.shape[2]), axis=1)
        op(f"DFT {kind} of the first axis", "DFT", x, axis=0)
    op("DFT onesided", "DFT", real, onesided=1)
    op("DFT onesided odd", "DFT", floats(2, 9, 1), onesided=1, axis=1)
    op("DFT float64", "DFT", real.astype("float64"))
    window = np.hanning(8).astype("float32")
    # Real signals: of complex ones ONNX Runtime 1.21 reads memory that is not theirs.
    x, step = floats(2, 30, 1), Const(np.int64(3))
    op("STFT", "STFT", x, step, Const(window), Const(np.int64(8)), onesided=0)
    op("STFT by length", "STFT", x, step, None, Const(np.int64(7)), onesided=0)
    op("STFT onesided", "STFT", floats(2, 30, 1), Const(np.int64(4)), Const(window), Const(np.int64(8)))
    op("STFT of two axes", "STFT", floats(2, 30), Const(np.int64(4)), Const(window))
    op("STFT by window", "STFT", floats(2, 30, 1), Const(np.int64(4)), Const(window))
    op("STFT of a given window", "STFT", floats(2, 30, 1), Const(np.int64(4)), window)
    op("STFT open", "STFT", floats(2, 30, 1), Const(np.int64(4)), Const(window), open_batch=True)


def ml(name, op_type, *inputs, opset=1, **more):
    op(name, op_type, *inputs, domain="ai.onnx.ml", opset=opset, **more)


def machine_learning():
    x = floats(5, 3)
    weights = [float(v) for v in floats(9)]
    for transform in ["NONE", "LOGISTIC", "SOFTMAX"]:
        ml(f"LinearClassifier {transform}", "LinearClassifier", x, outputs=2, classlabels_ints=[4, 7, 9],
           coefficients=weights, intercepts=weights[:3], post_transform=transform)  # fmt: skip
        ml(f"LinearRegressor {transform}", "LinearRegressor", x, coefficients=weights[:6], intercepts=weights[:2],
           targets=2, post_transform=transform)  # fmt: skip
    ml("LinearClassifier of two", "LinearClassifier", x, outputs=2, classlabels_ints=[0, 1], coefficients=weights[:6],
       intercepts=weights[:2], post_transform="LOGISTIC", multi_class=1)  # fmt: skip
    ml("LinearClassifier of fewer columns", "LinearClassifier", x[:, :2], outputs=2, classlabels_ints=[4, 7, 9],
       coefficients=weights, intercepts=weights[:3])  # fmt: skip
    ml("LinearClassifier of one score", "LinearClassifier", x, outputs=2, classlabels_ints=[3, 5],
       coefficients=weights[:3], intercepts=weights[:1])  # fmt: skip
    for transform in ["LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"]:  # which ONNX Runtime does not apply
        ml(f"LinearClassifier of one score {transform}", "LinearClassifier", x, outputs=2, classlabels_ints=[3, 5],
           coefficients=weights[:3], intercepts=weights[:1], post_transform=transform)  # fmt: skip
    ml("Scaler", "Scaler", x, offset=weights[:3], scale=weights[3:6])
    ml("Scaler of one", "Scaler", x, offset=weights[:1], scale=weights[3:4])
    ml("Scaler of integers", "Scaler", ints(-3, 4, 5, 3), offset=weights[:3], scale=weights[3:6])
    rows = np.vstack([np.abs(x), np.zeros((1, 3), "float32")])
    for norm in ["MAX", "L1", "L2"]:
        ml(f"Normalizer {norm}", "Normalizer", rows, norm=norm)
    ml("Normalizer L1 of signs", "Normalizer", x, norm="L1")
    ml("Normalizer L2 of signs", "Normalizer", x, norm="L2")
    ml("Binarizer", "Binarizer", x, threshold=0.3)
    gaps = x.copy()
    gaps[1, 2] = gaps[3, 0] = nan
    ml("Imputer", "Imputer", gaps, imputed_value_floats=[7.0], replaced_value_float=nan)
    ml("Imputer by column", "Imputer", gaps, imputed_value_floats=[7.0, 8.0, 9.0], replaced_value_float=nan)
    ml("Imputer of integers", "Imputer", ints(0, 3, 4, 2), imputed_value_int64s=[9, 8], replaced_value_int64=1)
    ml("ArrayFeatureExtractor", "ArrayFeatureExtractor", x, Const(numbers(2, 0)))
    ml("ArrayFeatureExtractor of a row", "ArrayFeatureExtractor", floats(4), Const(numbers(1, 3).reshape(1, 2)))
    ml("OneHotEncoder", "OneHotEncoder", ints(0, 5, 4), cats_int64s=[1, 3, 4])
    ml("OneHotEncoder of floats", "OneHotEncoder", ints(0, 5, 4, 1, dtype="float32"), cats_int64s=[1, 3, 4])
    ml("FeatureVectorizer", "FeatureVectorizer", x, floats(5, 2), inputdimensions=[3, 2])
    keys = {"keys_int64s": [3, 1, 4], "values_floats": [0.5, 1.5, 2.5], "default_float": -1.0}
    ml("LabelEncoder to floats", "LabelEncoder", ints(0, 6, 2, 5), opset=2, **keys)
    ml("LabelEncoder to integers", "LabelEncoder", numbers(1, 2.5, nan, 7, dtype="float32"), opset=2,
       keys_floats=[2.5, nan, 1.0], values_int64s=[10, 20, 30], default_int64=-7)  # fmt: skip
    tensors = {
        "keys_tensor": helper.make_tensor("k", TensorProto.INT64, [2], [5, 6]),
        "values_tensor": helper.make_tensor("v", TensorProto.DOUBLE, [2], [0.25, 0.75]),
        "default_tensor": helper.make_tensor("d", TensorProto.DOUBLE, [1], [-2.0]),
    }
    ml("LabelEncoder by tensors", "LabelEncoder", ints(4, 8, 6), opset=4, **tensors)
    vectors = [float(v) for v in floats(12)]
    for kernel in ["LINEAR", "POLY", "RBF", "SIGMOID"]:
        ml(f"SVMRegressor {kernel}", "SVMRegressor", x, kernel_type=kernel, kernel_params=[0.4, 0.3, 3.0], n_supports=4,
           coefficients=weights[:4], support_vectors=vectors, rho=[0.2])  # fmt: skip
    ml("SVMRegressor of one class", "SVMRegressor", x, kernel_type="RBF", kernel_params=[0.4, 0.0, 3.0], n_supports=4,
       coefficients=weights[:4], support_vectors=vectors, rho=[0.2], one_class=1)  # fmt: skip
    gapped = np.vstack([x, gaps[1:4]])
    # Two trees: one of three nodes and four, one of a node and two leaves.
    modes = ["BRANCH_LEQ", "BRANCH_GT", "LEAF", "LEAF", "LEAF", "BRANCH_LT", "LEAF", "LEAF"]
    nodes = dict(
        nodes_treeids=[0, 0, 0, 0, 0, 1, 1, 1], nodes_nodeids=[0, 1, 2, 3, 4, 0, 1, 2],
        nodes_featureids=[0, 2, 0, 0, 0, 1, 0, 0], nodes_modes=modes,
        nodes_values=[0.2, -0.3, 0.0, 0.0, 0.0, 0.4, 0.0, 0.0], nodes_truenodeids=[1, 2, 0, 0, 0, 1, 0, 0],
        nodes_falsenodeids=[4, 3, 0, 0, 0, 2, 0, 0], nodes_missing_value_tracks_true=[1, 0, 0, 0, 0, 0, 0, 0],
    )  # fmt: skip
    leaf = dict(
        treeids=[0, 0, 0, 1, 1], nodeids=[2, 3, 4, 1, 2], ids=[0, 1, 2, 1, 0], weights=[0.5, -1.5, 2.0, 0.7, 0.9]
    )
    targets = {"target_" + key: value for key, value in leaf.items()}
    for aggregate in ["SUM", "AVERAGE", "MIN", "MAX"]:
        ml(f"TreeEnsembleRegressor {aggregate}", "TreeEnsembleRegressor", gapped, n_targets=3,
           aggregate_function=aggregate, base_values=[0.1, 0.2, 0.3], **nodes, **targets)  # fmt: skip
    ml("TreeEnsembleRegressor of one", "TreeEnsembleRegressor", gapped, n_targets=1, **nodes,
       **{**targets, "target_ids": [0] * 5})  # fmt: skip
    classes = {"class_" + key: value for key, value in leaf.items()}
    for transform in ["NONE", "LOGISTIC", "SOFTMAX"]:
        ml(f"TreeEnsembleClassifier {transform}", "TreeEnsembleClassifier", gapped, outputs=2,
           classlabels_int64s=[5, 6, 8], post_transform=transform, **nodes, **classes)  # fmt: skip
        two = {**classes, "class_ids": [0, 1, 0, 1, 0]}
        ml(f"TreeEnsembleClassifier of two {transform}", "TreeEnsembleClassifier", gapped, outputs=2,
           classlabels_int64s=[0, 1], post_transform=transform, **nodes, **two)  # fmt: skip
    for number in [0, 1]:
        for transform in ["NONE", "LOGISTIC"]:
            one = {**classes, "class_ids": [number] * 5}
            ml(f"TreeEnsembleClassifier by class {number} {transform}", "TreeEnsembleClassifier", gapped, outputs=2,
               classlabels_int64s=[0, 1], post_transform=transform, **nodes, **one)  # fmt: skip
            ml(f"TreeEnsembleClassifier by class {number} with base {transform}", "TreeEnsembleClassifier", gapped,
               outputs=2, classlabels_int64s=[0, 1], post_transform=transform, base_values=[0.3], **nodes,
               **one)  # fmt: skip
            positive = {**one, "class_weights": [0.1, 0.3, 0.2, 0.4, 0.15]}
            ml(f"TreeEnsembleClassifier by positive class {number} {transform}", "TreeEnsembleClassifier", gapped,
               outputs=2, classlabels_int64s=[0, 1], post_transform=transform, **nodes, **positive)  # fmt: skip
    probabilities = {**nodes, **{"class_" + k: v for k, v in dict(
        treeids=[0] * 6 + [1] * 4, nodeids=[2, 2, 3, 3, 4, 4, 1, 1, 2, 2], ids=[0, 1] * 5,
        weights=[0.1, 0.4, 0.3, 0.2, 0.5, 0.0, 0.25, 0.25, 0.4, 0.1]).items()}}  # fmt: skip
    ml("TreeEnsembleClassifier of a forest", "TreeEnsembleClassifier", gapped, outputs=2, classlabels_int64s=[0, 1],
       **probabilities)  # fmt: skip
    ml("TreeEnsembleClassifier SOFTMAX_ZERO", "TreeEnsembleClassifier", gapped, outputs=2,
       classlabels_int64s=[5, 6, 8], post_transform="SOFTMAX_ZERO", **nodes, **classes)  # fmt: skip


elements()
reductions()
views()
signal()
machine_learning()
save("elements")
