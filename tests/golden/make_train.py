"""Makes tests/golden/train/gradients.json: the gradients that PyTorch 2.6's autograd gives for every operator that qdq
trains through.

Run in tests/golden: python3 make_train.py

A case is one call: "op", "args" and "kwargs" in schema order, "grads": for each argument the flat gradient, a list of
such for a list of tensors, or null. A tensor argument is {"t": shape, "seed": n, "factor": f, "offset": o}: a linear
congruential generator gives 24-bit numbers from -1 to 1, times the factor, plus the offset, in float32; {"i": values,
"shape": shape} is int64, {"b": values} bool. The gradient of result r is made likewise with the seed 1000 + r.
"""

import json
import math
import pathlib

import numpy as np
import torch

torch.set_num_threads(1)
assert torch.__version__.startswith("2.6."), torch.__version__
f32 = np.float32
seeds = iter(range(1, 1000))


def sample(shape, seed, factor=1.0, offset=0.0):
    out = np.empty(math.prod(shape), f32)
    state = (seed * 2654435761 + 1) % 2**32
    for i in range(out.size):
        state = (state * 1664525 + 1013904223) % 2**32
        out[i] = f32(state >> 8) / f32(8388608) - f32(1)
    return torch.from_numpy((out * f32(factor) + f32(offset)).reshape(shape))


def t(*shape, factor=1.0, offset=0.0):
    return {"t": list(shape), "seed": next(seeds), "factor": factor, "offset": offset}


def i(*values, shape=None):
    return {"i": list(values), "shape": shape or [len(values)]}


def b(*values):
    return {"b": list(values)}


def built(spec, leaves):
    if isinstance(spec, dict) and "t" in spec:
        leaf = sample(spec["t"], spec["seed"], spec["factor"], spec["offset"]).requires_grad_()
        leaves.append(leaf)
        return leaf
    if isinstance(spec, dict) and "i" in spec:
        return torch.tensor(spec["i"], dtype=torch.int64).reshape(spec["shape"])
    if isinstance(spec, dict) and "b" in spec:
        return torch.tensor(spec["b"], dtype=torch.bool)
    if isinstance(spec, dict) and "dtype" in spec:
        return getattr(torch, spec["dtype"])
    if isinstance(spec, list):
        return [built(element, leaves) for element in spec]
    return spec


def flat(tensor):
    return None if tensor is None else [float(f"{v:.9g}") for v in tensor.reshape(-1).tolist()]


def grads_of(value):
    if isinstance(value, torch.Tensor):
        return flat(value.grad) if value.requires_grad else None
    if isinstance(value, list) and value and isinstance(value[0], torch.Tensor):
        grads = [grads_of(element) for element in value]
        return grads if any(grads) else None
    return None


cases = []


def case(op, *args, **kwargs):
    name, _, overload = op.partition(".")
    function = getattr(getattr(torch.ops.aten, name), overload or "default")
    leaves = []
    values = [built(argument, leaves) for argument in args]
    options = {key: built(value, leaves) for key, value in kwargs.items()}
    results = function(*values, **options)
    results = [results] if isinstance(results, torch.Tensor) else list(results)
    if op.startswith(("native_", "_native")) or op.endswith("_with_indices"):
        results = results[:1]
    torch.autograd.backward(results, [sample(list(r.shape), 1000 + n) for n, r in enumerate(results)])
    cases.append(
        {
            "op": f"torch.ops.aten.{name}.{overload or 'default'}",
            "args": list(args),
            "kwargs": kwargs,
            "grads": [grads_of(v) for v in values],
        }
    )


x = (2, 3, 4)
case("add.Tensor", t(*x), t(3, 1), alpha=2)
case("add.Tensor", t(*x), t(1))
case("add.Tensor", t(*x), 0.5)
case("add.Scalar", t(*x), 0.5)
case("sub.Tensor", t(3, 1), t(*x), alpha=0.5)
case("sub.Scalar", t(*x), 0.5)
case("rsub.Tensor", t(*x), t(4), alpha=2)
case("rsub.Scalar", t(*x), 1.0)
case("mul.Tensor", t(*x), t(2, 1, 4))
case("mul.Tensor", t(1, 4), t(*x))
case("mul.Tensor", t(*x), 3.0)
case("mul.Scalar", t(*x), 3.0)
case("div.Tensor", t(*x), t(3, 1, offset=2.0))
case("div.Tensor", t(1, 4), t(*x, offset=2.0))
case("div.Scalar", t(*x), 3.0)
case("pow.Tensor_Scalar", t(*x, offset=2.0), 2.5)
case("pow.Tensor_Scalar", t(*x), 2)
case("pow.Tensor_Scalar", t(*x), 0)
for name in ("neg", "abs", "square", "exp", "sigmoid", "tanh", "relu"):
    case(name, t(*x, factor=3.0))
for name in ("relu6", "hardswish", "hardsigmoid", "silu", "gelu"):
    case(name, t(*x, factor=8.0))
for name in ("log", "sqrt", "rsqrt", "reciprocal"):
    case(name, t(*x, offset=1.5))
case("gelu", t(*x, factor=3.0), approximate="tanh")
case("hardtanh", t(*x, factor=2.0))
case("hardtanh", t(*x, factor=2.0), -0.5, 1.5)
case("clamp", t(*x, factor=2.0), -0.5, 1.0)
case("clamp", t(*x, factor=2.0), None, 1.0)
case("clamp_min", t(*x), 0.1)
case("clamp_max", t(*x), 0.1)
case("leaky_relu", t(*x), 0.2)
case("elu", t(*x, factor=2.0), 1.5)

case("view", t(*x), [6, 4])
case("_unsafe_view", t(*x), [4, 6])
case("reshape", t(*x), [3, -1])
case("flatten.using_ints", t(*x), 1)
case("unflatten.int", t(2, 12), 1, [3, 4])
case("squeeze", t(2, 1, 3, 1))
case("squeeze.dim", t(2, 1, 3), 1)
case("squeeze.dims", t(2, 1, 3, 1), [1, 3])
case("unsqueeze", t(2, 3), 1)
case("expand", t(2, 1, 4), [2, 3, -1])
case("permute", t(*x), [2, 0, 1])
case("transpose.int", t(*x), 0, 2)
case("t", t(2, 3))
case("slice.Tensor", t(2, 7), 1, 1, 6, 2)
case("select.int", t(*x), 1, -1)
case("narrow", t(2, 7), 1, 2, 3)
case("chunk", t(2, 7), 3, 1)
case("split.Tensor", t(2, 7), 3, 1)
case("split.sizes", t(2, 7), [1, 4, 2], 1)
case("split_with_sizes", t(2, 7), [1, 4, 2], 1)
case("unbind.int", t(3, 2), 0)
case("clone", t(*x))
case("contiguous", t(*x))
case("alias", t(*x))
case("to.dtype", t(*x), {"dtype": "float32"})
case("to.dtype_layout", t(*x), dtype={"dtype": "float32"})
case("_to_copy", t(*x))
case("dropout", t(*x), 0.5, False)
case("cat", [t(2, 3), t(2, 1), t(2, 2)], 1)
case("concat", [t(1, 3), t(2, 3)], -2)
case("stack", [t(2, 3), t(2, 3)], 1)
case("embedding", t(5, 3), i(0, 4, 4, 2, shape=[2, 2]))
case("embedding", t(5, 3), i(0, 4, 1, 1), 1)

case("linear", t(2, 3, 5), t(4, 5), t(4))
case("linear", t(5), t(4, 5))
case("addmm", t(4), t(3, 5), t(5, 4))
case("mm", t(3, 5), t(5, 4))
case("bmm", t(2, 3, 5), t(2, 5, 4))
case("matmul", t(2, 3, 5), t(5, 4))
case("matmul", t(2, 1, 3, 5), t(4, 5, 2))
case("matmul", t(5), t(2, 5, 4))
case("matmul", t(2, 3, 5), t(5))
case("matmul", t(5), t(5))
case("conv1d", t(2, 3, 9), t(4, 3, 3), t(4), [2], [1])
case("conv1d", t(2, 4, 9), t(4, 1, 3), t(4), [1], [2], [2], 4)
case("conv2d", t(2, 3, 7, 6), t(4, 3, 3, 2), t(4), [2, 1], [1, 0])
case("conv2d", t(2, 3, 5, 5), t(4, 3, 3, 3), None, [1, 1], [2, 2], [2, 2])
case("conv2d", t(2, 4, 5, 5), t(6, 2, 3, 3), t(6), [1, 1], [1, 1], [1, 1], 2)
case("conv2d", t(2, 3, 4, 5), t(4, 3, 1, 1), t(4))
case("conv2d", t(1, 3, 4, 5), t(4, 3, 1, 1), t(4), [2, 2])
case("conv2d", t(2, 3, 6, 12), t(3, 1, 3, 3), t(3), [1, 1], [1, 1], [1, 1], 3)
case("conv2d", t(2, 3, 7, 21), t(3, 1, 3, 3), None, [2, 2], [1, 1], [1, 1], 3)
case("convolution", t(2, 3, 5, 5), t(4, 3, 3, 3), t(4), [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
case("conv_transpose1d", t(2, 3, 5), t(3, 4, 3), t(4), [2], [1], [1])
case("conv_transpose2d.input", t(2, 4, 4, 5), t(4, 3, 3, 2), t(6), [2, 2], [1, 0], [1, 0], 2)
case("conv_transpose2d.input", t(1, 2, 4, 4), t(2, 3, 2, 2), None, [1, 1], [0, 0], [0, 0], 1, [2, 2])

stats = {"t": [3], "seed": 900, "factor": 0.5, "offset": 0.25}
variance = {"t": [3], "seed": 901, "factor": 0.5, "offset": 1.0}


def norm(op, *args, training):
    # The statistics are no leaves: autograd refuses to write to them.
    leaves = []
    values = [built(a, leaves) for a in args]
    mean, var = (built(s, []).detach() for s in (stats, variance))
    rest = [training, 0.1, 1e-3, True] if op == "batch_norm" else [0.1, 1e-3]
    result = getattr(torch.ops.aten, op)(*values, mean, var, *rest)
    result = result if isinstance(result, torch.Tensor) else result[0]
    result.backward(sample(list(result.shape), 1000))
    cases.append(
        {
            "op": f"torch.ops.aten.{op}.default",
            "args": [*args, stats, variance, *rest],
            "kwargs": {},
            "grads": [*[grads_of(v) for v in values], None, None],
        }
    )


norm("batch_norm", t(4, 3, 5, 2), t(3, offset=1.0), t(3), training=True)
norm("batch_norm", t(4, 3), t(3, offset=1.0), t(3), training=True)
norm("batch_norm", t(4, 3, 5), None, None, training=True)
norm("batch_norm", t(4, 3, 5, 2), t(3, offset=1.0), t(3), training=False)
norm("_native_batch_norm_legit_no_training", t(4, 3, 5), t(3, offset=1.0), t(3), training=False)
case("layer_norm", t(2, 3, 5), [5], t(5, offset=1.0), t(5))
case("layer_norm", t(2, 3, 5), [3, 5])
case("native_layer_norm", t(2, 3, 5), [5], t(5, offset=1.0), t(5), 1e-5)
case("max_pool1d", t(2, 3, 9), [3], [2], [1])
case("max_pool2d", t(2, 3, 7, 6), [3, 2], [2, 2], [1, 0])
case("max_pool2d", t(2, 3, 9, 9), [2], [], [0], [2])
case("max_pool2d_with_indices", t(2, 3, 7, 6), [3, 3], [2, 2], [1, 1])
case("avg_pool1d", t(2, 3, 9), [3], [2], [1])
case("avg_pool2d", t(2, 3, 7, 6), [3, 2], [2, 2], [1, 0])
case("avg_pool2d", t(2, 3, 7, 6), [3, 3], [2, 2], [1, 1], True, False)
case("avg_pool2d", t(2, 3, 7, 6), [3, 3], [2, 2], [1, 1], True, True)
case("avg_pool2d", t(2, 3, 7, 6), [3, 3], [2, 2], [1, 1], False, True, 5)
case("adaptive_avg_pool1d", t(2, 3, 7), [3])
case("adaptive_avg_pool2d", t(2, 3, 7, 5), [3, 2])
case("adaptive_avg_pool2d", t(2, 3, 7, 5), [1, 1])
case("_adaptive_avg_pool2d", t(2, 3, 7, 5), [2, 2])
case("mean", t(*x))
case("mean.dim", t(*x), [-1, 0])
case("mean.dim", t(*x), [1], True)
case("sum", t(*x))
case("sum.dim_IntList", t(*x), [1])
case("softmax.int", t(*x, factor=3.0), 1)
case("_softmax", t(*x, factor=3.0), -1, False)
case("log_softmax.int", t(*x, factor=3.0), -1)
case("_log_softmax", t(*x, factor=3.0), 0, False)

case("where.self", b(1, 0, 0, 1), t(3, 4), t(4))
case("masked_fill.Scalar", t(3, 4), b(1, 0, 0, 1), -5.0)
case("pad", t(2, 3, 4), [0, 1, 2, 0], "constant", 3.0)
case("pad", t(2, 3, 4), [-1, 2])
case("pad", t(2, 3, 4), [2, 1], "reflect")
case("constant_pad_nd", t(2, 3, 4), [1, 2], 0.5)
case("reflection_pad1d", t(2, 3, 4), [2, 1])
case("reflection_pad2d", t(2, 3, 4, 4), [2, 1, 1, 0])
case("replication_pad1d", t(2, 3, 4), [2, 1])
case("replication_pad2d", t(2, 3, 4, 4), [2, 1, 1, 0])
case("roll", t(3, 4), [1, -1], [0, 1])
case("flip", t(3, 4), [1])
case("repeat", t(2, 3), [2, 1, 2])
case("tile", t(2, 3), [2])
case("pixel_shuffle", t(1, 4, 2, 3), 2)
case("pixel_unshuffle", t(1, 1, 4, 6), 2)
case("upsample_nearest2d", t(1, 2, 3, 4), [5, 4])
case("upsample_nearest2d.vec", t(1, 2, 3, 4), None, [2.0, 2.0])
case("index.Tensor", t(4, 3), [i(0, 2, 2)])
case("index_select", t(4, 3), 1, i(2, 0, 2))
case("gather", t(3, 2), 0, i(0, 2, 1, 1, shape=[2, 2]))
case("upsample_bilinear2d.vec", t(2, 2, 3, 4), [5, 7], False, None)
case("upsample_bilinear2d.vec", t(1, 2, 3, 4), None, True, [2.0, 2.0])
case("upsample_bilinear2d.vec", t(1, 2, 6, 8), None, False, [0.5, 0.5])
case("upsample_bilinear2d", t(1, 2, 3, 4), [6, 8], True)
case("upsample_bicubic2d.vec", t(1, 2, 5, 4), [7, 3], False, None)
case("upsample_bicubic2d", t(1, 2, 5, 4), [7, 9], True)
case("scaled_dot_product_attention", t(2, 3, 4), t(2, 5, 4), t(2, 5, 6))
case("scaled_dot_product_attention", t(1, 2, 3, 4), t(2, 5, 4), t(5, 6), t(3, 5))
case("scaled_dot_product_attention", t(2, 4, 4), t(2, 4, 4), t(2, 4, 3), None, 0.0, True, scale=0.5)
case("scaled_dot_product_attention", t(3, 4), t(4, 4), t(4, 3), b(1, 0, 1, 1))

path = pathlib.Path("train/gradients.json")
path.parent.mkdir(exist_ok=True)
lines = ",\n".join(json.dumps(c) for c in cases)
path.write_text(f'{{"torch": "{torch.__version__}", "cases": [\n{lines}\n]}}\n')
print(len(cases), "cases")
