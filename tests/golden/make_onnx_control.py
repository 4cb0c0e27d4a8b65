"""ONNX models with graphs in graphs: If, Loop, Scan, functions of the file, sequences, nodes in any order.

  python3 tests/golden/make_onnx_control.py            in a Python with onnx and onnxruntime

Writes tests/golden/onnx/control.npz for tests/unit/cli/onnx_test.cpp.
"""

import numpy as np
import onnx
from onnx import numpy_helper
from onnx_case import OUT, add, floats, save

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'


def text(name, model, *inputs, weights=None, head=HEAD):
    """A model in ONNX's own language; weights: name -> array, of the main graph."""
    proto = onnx.parser.parse_model(head + model)
    for key, value in (weights or {}).items():
        proto.graph.initializer.append(numpy_helper.from_array(np.asarray(value), key))
    add(name, proto.SerializeToString(), list(inputs))


def both(name, model, inputs, flag="flag", **more):
    """The same for both values of the input that decides."""
    for value in (True, False):
        text(f"{name}_{value}", model, *inputs, np.array(value), **more)


x = floats(2, 3)
branches = """
agraph (float[N, 3] x, bool flag) => (float[M, 3] y) {
  a = Relu(x)
  y = If(flag) <
    then_branch = g1 () => (float[M, 3] t) { b = MatMul(a, w) t = Add(b, x) },
    else_branch = g2 () => (float[M, 3] e) { e = Concat<axis = 0>(a, x) }
  >
}
"""
both("if", branches, [x], weights={"w": floats(3, 3)})
nested = """
agraph (float[2, 3] x, bool flag) => (float[2, 3] y, float[2] z) {
  other = Not(flag)
  y, r = If(flag) <
    then_branch = g1 () => (float[2, 3] t, float[2] u) {
      t = If(other) <
        then_branch = g3 () => (float[2, 3] t1) { t1 = Neg(x) },
        else_branch = g4 () => (float[2, 3] t2) { k = Constant<value_float = 3.0>() t2 = Mul(x, k) }
      >
      u = ReduceMax<axes = [1], keepdims = 0>(t)
    },
    else_branch = g2 () => (float[2, 3] e, float[2] f) {
      e = Identity(x)
      f = ReduceMin<axes = [1], keepdims = 0>(x)
    }
  >
  z = Neg(r)
}
"""
both("if_in_if", nested, [x])
text(
    "if_known",
    """
agraph (float[2, 3] x) => (float[3] y) {
  c = Constant<value_int = 1>()
  d = Cast<to = 9>(c)
  y = If(d) <
    then_branch = g1 () => (float[3] t) { t = ReduceSum<keepdims = 0>(x, axis) },
    else_branch = g2 () => (float[2, 3] e) { e = Identity(x) }
  >
}
""",
    x,
    weights={"axis": np.array([0])},
)
loop = """
agraph (float[3] x, int64 trips) => (float[3] last, float[K, 3] all) {
  last, all = Loop(trips, , x) <
    body = g (int64 i, bool go, float[3] s) => (bool again, float[3] next, float[3] out) {
      again = Identity(go)
      f = Cast<to = 1>(i)
      next = Add(s, f)
      out = Mul(next, x)
    }
  >
}
"""
for trips in (0, 1, 5):
    text(f"loop_{trips}", loop, floats(3), np.array(trips))
text("loop_known", loop.replace(", int64 trips", ""), floats(3), weights={"trips": np.array(4)})
text(
    "loop_while",
    """
agraph (float[3] x, float limit) => (float[3] last, int64 count) {
  zero = Constant<value_int = 0>()
  yes = Cast<to = 9>(one)
  last, count = Loop(most, yes, x, zero) <
    body = g (int64 i, bool go, float[3] s, int64 n) => (bool again, float[3] next, int64 m) {
      next = Add(s, s)
      m = Add(n, one)
      largest = ReduceMax<keepdims = 0>(next)
      again = Less(largest, limit)
    }
  >
}
""",
    np.array([1, 2, 0.5], "float32"),
    np.array(50, "float32"),
    weights={"one": np.array(1), "most": np.array(1000)},
)
text(
    "loop_that_grows",
    """
agraph (float[1, 2] x, int64 trips) => (float[K, 2] y) {
  y = Loop(trips, , x) <
    body = g (int64 i, bool go, float[P, 2] s) => (bool again, float[Q, 2] next) {
      again = Identity(go)
      next = Concat<axis = 0>(s, x)
    }
  >
}
""",
    floats(1, 2),
    np.array(3),
)
scan = """
agraph (float[2] h, float[T, 2] x) => (float[2] last, float[T, 2] all) {
  last, all = Scan<num_scan_inputs = 1, scan_input_directions = [DIRECTION], scan_output_directions = [OUT]>(h, x) <
    body = g (float[2] s, float[2] e) => (float[2] next, float[2] out) {
      t = Mul(s, w)
      next = Add(t, e)
      out = Relu(next)
    }
  >
}
"""
for direction in (0, 1):
    model = scan.replace("DIRECTION", str(direction)).replace("OUT", str(1 - direction))
    model = model.replace(">(h, x) <\n    body = ", ", body = ").replace("    }\n  >\n", "    }>(h, x)\n")
    text(f"scan_{direction}", model, floats(2), floats(5, 2), weights={"w": floats(2)})
    known = model.replace("float[T, 2] x", "float[4, 2] x")
    text(f"scan_known_{direction}", known, floats(2), floats(4, 2), weights={"w": floats(2)})
text(
    "function",
    """
agraph (float[2, 3] x) => (float[2, 3] y, float[2, 3] z) {
  y = local.twice<k = 3.0>(x)
  z = local.twice(y)
}
<domain: "local", opset_import: ["" : 17, "local" : 1]>
twice<k: float = 2.0>(a) => (b) {
  c = Constant<value_float: float = @k>()
  d = Mul(a, c)
  b = local.shift(d)
}
<domain: "local", opset_import: ["" : 17]>
shift(a) => (b) {
  c = Constant<value_float = 1.0>()
  b = Add(a, c)
}
""",
    x,
    head='<ir_version: 8, opset_import: ["" : 17, "local" : 1]>\n',
)
text(
    "sequences",
    """
agraph (float[4, 3] x) => (float[4, 3] y, float[1, 3] z, int64 n) {
  s = SplitToSequence<axis = 0>(x, one)
  z = SequenceAt(s, two)
  t = SequenceErase(s, one)
  u = SequenceInsert(t, z)
  y = ConcatFromSequence<axis = 0>(u)
  n = SequenceLength(u)
}
""",
    floats(4, 3),
    weights={"one": np.array(1), "two": np.array(2)},
)
# As PyTorch 2.6 and newer write unbind: a size, and no axis in the parts.
text(
    "sequences_of_single_rows",
    """
agraph (float[N, 3] x) => (float[N] y, float[3] z) {
  s = SplitToSequence<axis = 1, keepdims = 0>(x, one)
  y = SequenceAt(s, two)
  t = SplitToSequence<axis = 0, keepdims = 0>(x, one)
  z = SequenceAt(t, one)
}
""",
    floats(4, 3),
    weights={"one": np.array(1), "two": np.array(2)},
)
text(
    "sizes_that_a_run_computes",
    """
agraph (float[N, 6] x, int64[2] sizes) => (float[A, B] y, float[C, D] z) {
  y = Reshape(x, sizes)
  shape = Shape(y)
  turned = Gather(shape, order)
  z = Reshape(x, turned)
}
""",
    floats(2, 6),
    np.array([3, 4]),
    weights={"order": np.array([1, 0])},
)
# What exporters write for a squeeze that may have nothing to remove: the rank of the result, and of what stands within
# other branches behind it, is known when it runs.
squeezed = """
agraph (float[N, 3, T] x) => (float[] y) {
  shape = Shape(x)
  size = Gather(shape, two)
  is_one = Equal(size, one)
  a = If(is_one) <
    then_branch = g1 () => (float[N, 3] t) { t = Squeeze(x, last) },
    else_branch = g2 () => (float[N, 3, T] e) { e = Identity(x) }
  >
  shape_a = Shape(a)
  rank = Size(shape_a)
  is_matrix = Equal(rank, two)
  y = If(is_matrix) <
    then_branch = g3 () => (float[] b) { c = Relu(a) b = Unsqueeze(c, zero) },
    else_branch = g4 () => (float[] d) { d = Neg(a) }
  >
}
"""
numbers = {"zero": np.array([0]), "one": np.array(1), "two": np.array(2), "last": np.array([-1])}
for length in (1, 4):
    text(f"if_gives_other_ranks_{length}", squeezed, floats(2, 3, length), weights=numbers)
text(
    "large_constants_are_joined",
    """
agraph (float[2, 60] x) => (float[2, 70] y) {
  w = Concat<axis = 0>(a, b)
  y = MatMul(x, w)
}
""",
    floats(2, 60),
    weights={"a": floats(30, 70), "b": floats(30, 70)},
)
# The last of an open axis, and of a sequence that grows, which a squeeze without axes takes for one.
text(
    "squeezes_the_last",
    """
agraph (float[1, T, 3] x) => (int64[1, N] y, float[3] z) {
  end = Slice(x, last, far, one)
  z = Squeeze(end)
  y = Loop(count, yes, first) <
    body = step (int64 i, bool c, int64[1, L] seen) => (bool goes_on, int64[1, M] all) {
      token = Slice(seen, last, beyond, one)
      twice = Add(token, token)
      all = Concat<axis = 1>(seen, twice)
      number = Squeeze(twice)
      goes_on = Less(number, most)
    }
  >
}
""",
    floats(1, 4, 3),
    weights={
        "last": np.array([-1]),
        "far": np.array([2**63 - 1]),
        "beyond": np.array([9999]),
        "one": np.array([1]),
        "count": np.array(6),
        "yes": np.array(True),
        "first": np.array([[1]]),
        "most": np.array(9),
    },
)
save("control")

# Of an operator that nobody has, for tests/js/operator.test.js; its shape stands in the file.
custom = onnx.parser.parse_model(
    """<ir_version: 8, opset_import: ["" : 17, "com.example" : 1]>
agraph (float[N, 2, 4, 4] x) => (float[N, 2, 4, 4] y)
<float[2, 2, 1, 1] w = {1, 2, 3, 4}, float[N, 2, 4, 4] b> {
  a = Conv(x, w)
  b = com.example.Blur<sigma = 3.0>(a)
  y = Conv(b, w)
}
"""
)
(OUT / "custom.onnx").write_bytes(custom.SerializeToString())
