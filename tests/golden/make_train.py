"""Makes tests/golden/train/gradients.json: the gradients that PyTorch 2.6's autograd gives for every operator that qdq
trains through.

Run in tests/golden: python3 make_train.py

A case is one call: "op", "args" and "kwargs" in schema order, "grads": for each argument the flat gradient, a list of
such for a list of tensors, or null. A tensor argument is {"t": shape, "seed": n, "factor": f, "offset": o}: a linear
congruential generator gives 24-bit numbers from -1 to 1, times the factor, plus the offset, in float32, and with "step"
rounded to whole multiples of it; {"i": values,
"shape": shape} is int64, {"b": values} bool, {"float": "inf"} a number that JSON does not have. The gradient of result
r is made likewise with the seed 1000 + r.
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


def equals(*shape, factor=1.0, step=0.5):
    """Few different numbers, as quantized tensors have: many are equal, zero, or an end of a range."""
    return t(*shape, factor=factor) | {"step": step}


def i(*values, shape=None):
    return {"i": list(values), "shape": shape or [len(values)]}


def b(*values):
    return {"b": list(values)}


def built(spec, leaves):
    if isinstance(spec, dict) and "t" in spec:
        leaf = sample(spec["t"], spec["seed"], spec["factor"], spec["offset"])
        if "step" in spec:
            leaf = (leaf / spec["step"]).round() * spec["step"]
        leaves.append(leaf.requires_grad_())
        return leaf
    if isinstance(spec, dict) and "i" in spec:
        return torch.tensor(spec["i"], dtype=torch.int64).reshape(spec["shape"])
    if isinstance(spec, dict) and "b" in spec:
        return torch.tensor(spec["b"], dtype=torch.bool)
    if isinstance(spec, dict) and "dtype" in spec:
        return getattr(torch, spec["dtype"])
    if isinstance(spec, dict):
        return float(spec["float"])
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
    if op.startswith(("native_", "_native", "_weight_norm_")) or op.endswith("_with_indices"):
        results = results[:1]
    results = [r for r in results if r.is_floating_point()]
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
    rest = [0.1, 1e-3] if op == "_native_batch_norm_legit_no_training" else [training, 0.1, 1e-3]
    if op == "batch_norm":
        rest.append(True)
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

# functions of elements
for name in ("sin", "cos", "tan", "sinh", "cosh", "asinh", "atan", "expm1", "exp2", "erf", "erfc", "frac"):
    case(name, t(*x))
for name in ("asin", "acos", "atanh", "erfinv"):
    case(name, t(*x, factor=0.9))
for name in ("log1p", "log2", "log10", "lgamma"):
    case(name, t(*x, offset=1.5))
case("acosh", t(*x, offset=2.5))
case("sinc", t(*x, offset=2.0))
for name in ("special_expit", "log_sigmoid", "selu", "celu", "softplus", "mish", "nan_to_num", "deg2rad", "rad2deg"):
    case(name, t(*x, factor=4.0))
case("positive", t(*x))
case("celu", t(*x, factor=3.0), 0.5)
case("softplus", t(*x, factor=8.0), 3.0, 4.0)
case("threshold", t(*x), 0.1, 2.0)
case("hardshrink", t(*x), 0.3)
case("softshrink", t(*x), 0.3)
case("logit", t(*x, factor=0.4, offset=0.5))
case("logit", t(*x, factor=0.5, offset=0.5), 0.2)
case("rrelu", t(*x), 0.1, 0.4)
case("prelu", t(*x), t(3))
case("prelu", t(*x), t(1))
case("glu", t(2, 6, 3), 1)
case("glu", t(2, 6))
for name in (
    "maximum",
    "max.other",
    "minimum",
    "min.other",
    "fmax",
    "fmin",
    "atan2",
    "hypot",
    "logaddexp",
    "logaddexp2",
):
    case(name, t(*x), t(3, 1))
case("maximum", i(1, 2, 3), t(3, factor=4.0))
case("xlogy.Tensor", t(*x), t(3, 1, offset=2.0))
case("xlogy.Scalar_Self", 2.0, t(*x, offset=2.0))
case("xlogy.Scalar_Other", t(*x), 2.0)
case("copysign.Tensor", t(*x), t(3, 1))
case("copysign.Scalar", t(*x), -1.0)
case("fmod.Tensor", t(*x, factor=5.0), t(3, 1, offset=2.0))
case("fmod.Scalar", t(*x, factor=5.0), 1.5)
case("remainder.Tensor", t(*x, factor=5.0), t(3, 1, offset=2.0))
case("remainder.Scalar", t(*x, factor=5.0), 1.5)
case("pow.Tensor_Tensor", t(*x, offset=2.0), t(3, 1, factor=3.0))
case("pow.Scalar", 2.5, t(*x))
case("addcmul", t(*x), t(3, 1), t(4), value=0.5)
case("addcdiv", t(*x), t(3, 1), t(4, offset=2.0), value=0.5)
case("lerp.Scalar", t(*x), t(3, 1), 0.3)
case("lerp.Tensor", t(*x), t(3, 1), t(4))
case("true_divide.Tensor", t(*x), t(3, 1, offset=2.0))
case("true_divide.Scalar", t(*x), 3.0)
case("div.Tensor_mode", t(*x), t(3, 1, offset=2.0), rounding_mode=None)
case("div.Tensor_mode", t(*x), t(3, 1, offset=2.0), rounding_mode="floor")
case("div.Scalar_mode", t(*x), 0.3, rounding_mode="trunc")
case("clamp.Tensor", t(*x), t(3, 1, factor=0.5), t(4, factor=0.5))
case("clamp.Tensor", t(*x), None, t(4))
case("clamp_min.Tensor", t(*x), t(3, 1))
case("clamp_max.Tensor", t(*x), t(4))
case("where.ScalarSelf", b(1, 0, 0, 1), 2.0, t(3, 4))
case("where.ScalarOther", b(1, 0, 0, 1), t(3, 4), 2.0)
case("masked_fill.Tensor", t(3, 4), b(1, 0, 0, 1), t())

# reductions, scans, what chooses
for name in ("amax", "amin"):
    case(name, t(*x), [1], True)
    case(name, t(*x), [0, 2])
for name in ("max", "min", "median"):
    case(name, t(*x))
    case(name + ".dim", t(*x), 1, True)
    case(name + ".dim", t(*x), -1)
case("prod", t(*x))
case("prod.dim_int", t(*x), 1)
case("logsumexp", t(*x, factor=3.0), [1, 2])
case("logsumexp", t(*x), [-1], True)
case("nansum", t(*x), [1])
for order in (2.0, 1.0, 3.0, 0.5, {"float": "inf"}):
    case("linalg_vector_norm", t(*x), order, [1, -1], True)
case("linalg_vector_norm", t(*x))
case("norm.Scalar", t(*x), 3)
case("norm.ScalarOpt_dim", t(*x), 2, [1])
case("norm.ScalarOpt_dtype", t(*x), 2, dtype={"dtype": "float32"})
case("norm.ScalarOpt_dim_dtype", t(*x), 1, [0], True, dtype={"dtype": "float32"})
case("frobenius_norm.dim", t(*x), [1, 2])
for name in ("var", "std"):
    case(name, t(*x), False)
    case(name + ".dim", t(*x), [1, 2], True, True)
    case(name + ".correction", t(*x), [0], correction=0)
    case(name + ".correction", t(*x), None)
    case(name + "_mean", t(*x))
    case(name + "_mean.dim", t(*x), [1], False)
    case(name + "_mean.correction", t(*x), [1, 2], correction=1, keepdim=True)
case("kthvalue", t(*x), 2, 1)
case("topk", t(*x), 2, 1)
case("topk", t(*x), 3, -1, False)
case("sort", t(*x), 1, True)
case("sort.stable", t(*x), stable=True, dim=0)
case("cummax", t(*x), 1)
case("cummin", t(*x), -1)
case("cumsum", t(*x), 1)
case("cumprod", t(*x), 2)
case("logcumsumexp", t(*x), 1)
case("_safe_softmax", t(*x), -1)
case("special_softmax", t(*x), 1)
case("special_log_softmax", t(*x), 1)

# products
case("mv", t(3, 4), t(4))
case("dot", t(4), t(4))
case("vdot", t(4), t(4))
case("outer", t(3), t(4))
case("ger", t(3), t(4))
case("linalg_vecdot", t(*x), t(3, 4), dim=-1)
case("inner", t(*x), t(5, 4))
case("einsum", "bij,bjk->bik", [t(2, 3, 4), t(2, 4, 5)])
case("einsum", "bhid,bhjd->bhij", [t(1, 2, 3, 4), t(1, 2, 5, 4)])
case("einsum", "...ij, jk -> ...ki", [t(2, 3, 4), t(4, 5)])
case("einsum", "ij,i->i", [t(3, 4), t(3)])
case("einsum", "i,j,k->ijk", [t(2), t(3), t(4)])
case("tensordot", t(2, 3, 4), t(4, 3, 5), [1, 2], [1, 0])
case("bilinear", t(2, 3, 4), t(2, 3, 5), t(6, 4, 5), t(6))
case("addmv", t(3), t(3, 4), t(4), beta=0.5, alpha=2)
case("addr", t(3, 4), t(3), t(4), beta=0.5, alpha=2)
case("baddbmm", t(3, 5), t(2, 3, 4), t(2, 4, 5), beta=0.5, alpha=2)
case("addbmm", t(3, 5), t(2, 3, 4), t(2, 4, 5), beta=0.5, alpha=2)
case("conv1d.padding", t(2, 4, 9), t(6, 2, 4), t(6), [1], "same", [2], 2)
case("conv2d.padding", t(2, 3, 7, 6), t(4, 3, 3, 2), None, [2, 1], "valid")
case("conv2d.padding", t(2, 3, 7, 6), t(4, 3, 3, 2), t(4), [1, 1], "same")
case("conv3d", t(2, 4, 5, 6, 4), t(6, 2, 2, 3, 2), t(6), [2, 1, 1], [1, 1, 0], [1, 2, 1], 2)
for name, gates, states in (("lstm", 4, 2), ("gru", 3, 1), ("rnn_tanh", 1, 1), ("rnn_relu", 1, 1)):
    hidden = [t(2, 2, 3) for _ in range(states)]
    weights = [t(3 * gates, 4), t(3 * gates, 3), t(3 * gates), t(3 * gates)]
    backward = [t(3 * gates, 4), t(3 * gates, 3), t(3 * gates), t(3 * gates)]
    case(
        f"{name}.input",
        t(5, 2, 4),
        hidden if states == 2 else hidden[0],
        weights + backward,
        True,
        1,
        0.0,
        False,
        True,
        False,
    )
    hidden = [t(2, 2, 3) for _ in range(states)]
    layers = [t(3 * gates, 4), t(3 * gates, 3), t(3 * gates, 3), t(3 * gates, 3)]
    case(f"{name}.input", t(2, 5, 4), hidden if states == 2 else hidden[0], layers, False, 2, 0.0, True, False, True)

# norms, distances, losses
case("group_norm", t(2, 6, 3, 2), 3, t(6, offset=1.0), t(6), 1e-3)
case("native_group_norm", t(2, 6, 5), t(6, offset=1.0), None, 2, 6, 5, 2, 1e-5)
case("instance_norm", t(2, 3, 5), t(3, offset=1.0), t(3), None, None, True, 0.1, 1e-5, False)
case("rms_norm", t(*x), [4], t(4, offset=1.0), 1e-3)
case("rms_norm", t(*x), [3, 4])
norm("native_batch_norm", t(4, 3, 5), t(3, offset=1.0), t(3), training=True)
norm("_native_batch_norm_legit", t(4, 3, 5), t(3, offset=1.0), t(3), training=False)
case("_native_batch_norm_legit.no_stats", t(4, 3, 5), t(3, offset=1.0), t(3), True, 0.1, 1e-3)
case("cosine_similarity", t(*x), t(*x), 1)
case("pairwise_distance", t(3, 4), t(3, 4), 2.0, 1e-6, True)
case("dist", t(3, 4), t(3, 4), 3)
case("cdist", t(2, 3, 4), t(2, 5, 4))
case("_cdist_forward", t(3, 4), t(5, 4), 2.0, None)
case("linalg_norm", t(*x))
case("linalg_norm", t(*x), 1, [1])
case("_weight_norm", t(3, 4, 2), t(3, 1, 1), 0)
case("_weight_norm_interface", t(3, 4, 2), t(3, 1, 1), 0)
for mode in (0, 1, 2):
    case("mse_loss", t(3, 4), t(3, 4), mode)
    case("l1_loss", t(3, 4), t(3, 4), mode)
    case("huber_loss", t(3, 4), t(3, 4), mode, 0.5)
    case("smooth_l1_loss", t(3, 4), t(3, 4), mode, 0.5)

# what moves elements
case("expand_as", t(2, 1, 4), t(*x))
case("broadcast_to", t(3, 1), [2, 3, 4])
case("view_as", t(3, 4), t(2, 6))
case("reshape_as", t(3, 4), t(2, 6))
for name in ("ravel", "mT", "adjoint", "numpy_T", "atleast_1d", "atleast_2d", "atleast_3d", "conj", "resolve_conj"):
    case(name, t(3, 4))
for name in ("resolve_neg", "real", "alias_copy", "lift_fresh_copy", "conj_physical", "_conj_physical"):
    case(name, t(3, 4))
for name in ("swapaxes", "swapdims", "movedim.int", "transpose_copy.int"):
    case(name, t(*x), 0, 2)
case("movedim.intlist", t(*x), [0, 1], [2, 0])
case("diagonal", t(*x), 1, 0, 2)
case("linalg_diagonal", t(3, 4), offset=1)
case("unfold", t(2, 7), 1, 3, 2)
case("unfold_copy", t(2, 7), 1, 3, 2)
case("as_strided", t(3, 4), [2, 3], [4, 1], 1)
case("as_strided_copy", t(3, 4), [2, 3], [4, 1], 1)
case("_reshape_alias", t(3, 4), [2, 6], [6, 1])
case("_reshape_copy", t(3, 4), [2, 6])
case("tensor_split.sections", t(2, 7), 3, 1)
case("tensor_split.indices", t(2, 7), [2, 5], 1)
case("unsafe_split.Tensor", t(2, 7), 3, 1)
case("unsafe_split_with_sizes", t(2, 7), [3, 4], 1)
case("unsafe_chunk", t(2, 7), 3, 1)
case("split_copy.Tensor", t(2, 7), 3, 1)
case("split_with_sizes_copy", t(2, 7), [3, 4], 1)
case("unbind_copy.int", t(3, 2), 0)
for name, shape in (("hsplit", (2, 6, 2)), ("vsplit", (6, 2)), ("dsplit", (2, 2, 6))):
    case(name + ".int", t(*shape), 3)
    case(name + ".array", t(*shape), [1, 4])
case("to.device", t(*x), "cpu", {"dtype": "float32"})
case("to.other", t(*x), t(1))
case("type_as", t(*x), t(1))
case("view_copy", t(*x), [6, 4])
case("squeeze_copy", t(2, 1, 3))
case("squeeze_copy.dim", t(2, 1, 3), 1)
case("squeeze_copy.dims", t(2, 1, 3), [1])
case("unsqueeze_copy", t(2, 3), 1)
case("expand_copy", t(2, 1), [2, 3])
case("permute_copy", t(*x), [2, 0, 1])
case("t_copy", t(2, 3))
case("slice_copy.Tensor", t(2, 7), 1, 1, 6, 2)
case("select_copy.int", t(*x), 1, -1)
case("diagonal_copy", t(3, 4))
case("tril", t(2, 3, 4), 1)
case("triu", t(2, 3, 4))
case("diag_embed", t(2, 3), 1)
case("diag", t(3, 4))
case("diag", t(3), -1)
case("diagflat", t(2, 2))
case("trace", t(3, 4))
case("rot90", t(3, 4), 1, [0, 1])
case("fliplr", t(3, 4))
case("flipud", t(3, 4))
case("im2col", t(1, 2, 4, 5), [2, 3], [1, 1], [1, 0], [2, 1])
case("col2im", t(1, 12, 9), [4, 5], [2, 3], [1, 1], [1, 0], [2, 1])
case("repeat_interleave.self_int", t(2, 3), 2, 1)
case("channel_shuffle", t(1, 6, 2, 2), 3)
case("reflection_pad3d", t(1, 2, 3, 3, 4), [1, 1, 0, 1, 1, 0])
case("replication_pad3d", t(1, 2, 3, 3, 4), [1, 1, 0, 1, 1, 0])
case("_pad_circular", t(1, 2, 4), [2, 1])
case("upsample_nearest1d", t(1, 2, 3), [5])
case("upsample_nearest1d.vec", t(1, 2, 3), None, [2.0])
case("upsample_nearest3d", t(1, 2, 2, 3, 2), [3, 5, 4])
case("upsample_nearest3d.vec", t(1, 2, 2, 3, 2), None, [2.0, 2.0, 2.0])
case("_upsample_nearest_exact1d", t(1, 2, 3), [5])
case("_upsample_nearest_exact1d.vec", t(1, 2, 3), None, [2.0])
case("_upsample_nearest_exact2d", t(1, 2, 3, 4), [5, 4])
case("_upsample_nearest_exact2d.vec", t(1, 2, 3, 4), None, [2.0, 2.0])
case("_upsample_nearest_exact3d", t(1, 2, 2, 3, 2), [3, 5, 4])
case("_upsample_nearest_exact3d.vec", t(1, 2, 2, 3, 2), None, [2.0, 2.0, 2.0])
for name in ("hstack", "vstack", "row_stack", "dstack", "column_stack", "block_diag"):
    case(name, [t(2, 3), t(2, 3)])
case("meshgrid", [t(2), t(3)])
case("meshgrid.indexing", [t(2), t(3)], indexing="xy")
case("cartesian_prod", [t(2), t(3)])
case("broadcast_tensors", [t(2, 1), t(3)])
for name in ("atleast_1d", "atleast_2d", "atleast_3d"):
    case(name + ".Sequence", [t(3), t(2, 3)])
case("scatter.src", t(3, 4), 1, i(0, 2, 1, 3, shape=[2, 2]), t(2, 2))
case("scatter.value", t(3, 4), 1, i(0, 2, 1, 3, shape=[2, 2]), 2.0)
case("scatter_add", t(3, 4), 1, i(0, 2, 1, 1, shape=[2, 2]), t(2, 2))
case("slice_scatter", t(3, 6), t(3, 2), 1, 1, 5, 2)
case("select_scatter", t(3, 6), t(3), 1, 2)
case("diagonal_scatter", t(3, 4), t(3))
case("index_copy", t(3, 4), 0, i(2, 0), t(2, 4))
case("index_fill.int_Scalar", t(3, 4), 1, i(2, 0), 1.5)
case("index_fill.int_Tensor", t(3, 4), 1, i(2, 0), t())
case("masked_scatter", t(3, 4), b(1, 0, 0, 1), t(8))
case("index_add", t(3, 4), 0, i(2, 0, 2), t(3, 4), alpha=0.5)
case("index_put", t(3, 4), [i(2, 0)], t(2, 4))
case("index_put", t(3, 4), [i(2, 0, 2)], t(3, 4), True)
case("_unsafe_index.Tensor", t(4, 3), [i(0, 2, 2)])
case("take", t(3, 4), i(0, 7, 7))
case("take_along_dim", t(3, 2), i(0, 2, 1, 1, shape=[2, 2]), 0)
case("masked_select", t(3, 4), b(1, 0, 0, 1))
case("max_unpool2d", t(1, 1, 2, 2), i(0, 3, 9, 14, shape=[1, 1, 2, 2]), [4, 4])
case("max_unpool3d", t(1, 1, 1, 2, 2), i(0, 3, 9, 14, shape=[1, 1, 1, 2, 2]), [1, 4, 4], [1, 2, 2], [0, 0, 0])

for name, outputs in (("lstm_cell", 4), ("gru_cell", 3), ("rnn_tanh_cell", 1), ("rnn_relu_cell", 1)):
    states = [t(2, 3), t(2, 3)] if name == "lstm_cell" else t(2, 3)
    weights = t(outputs * 3, 4), t(outputs * 3, 3)
    case(name, t(2, 4), states, *weights, t(outputs * 3), t(outputs * 3))
    case(name, t(2, 4), states, *weights)
case("conv3d.padding", t(1, 2, 3, 4, 5), t(3, 2, 2, 3, 3), t(3), [1, 1, 1], "same")
case("conv_transpose3d.input", t(2, 4, 2, 3, 3), t(4, 3, 3, 2, 3), t(6), [2, 1, 2], [1, 0, 1], [1, 0, 1], 2, [1, 2, 1])
case("conv_transpose3d.input", t(1, 2, 3, 2, 2), t(2, 3, 2, 2, 2))
case("conv_tbc", t(5, 2, 3), t(3, 3, 4), t(4), 1)
for name in ("max_pool3d", "max_pool3d_with_indices"):
    case(name, t(2, 2, 5, 6, 7), [2, 3, 2], [2, 2, 1], [1, 1, 0], [1, 1, 2], True)
case("max_pool3d", t(2, 4, 4, 4), [2, 2, 2])
case("max_pool1d_with_indices", t(2, 3, 7), [3], [2], [1])
case("avg_pool3d", t(2, 2, 5, 6, 7), [2, 3, 2], [2, 2, 1], [1, 1, 0], True, False)
case("avg_pool3d", t(2, 5, 6, 7), [2, 3, 2], [], [0, 1, 1], False, True, 5)
for name in ("adaptive_avg_pool3d", "_adaptive_avg_pool3d"):
    case(name, t(2, 2, 5, 6, 7), [2, 4, 3])
case("adaptive_max_pool1d", t(2, 3, 7), [3])
case("adaptive_max_pool2d", t(2, 3, 7, 5), [3, 2])
case("adaptive_max_pool3d", t(1, 2, 5, 4, 3), [2, 3, 1])
case("upsample_linear1d", t(1, 2, 3), [5], False)
case("upsample_linear1d", t(1, 2, 3), [5], True)
case("upsample_linear1d.vec", t(1, 2, 3), None, False, [2.5])
case("upsample_linear1d.vec", t(1, 2, 3), [4], True, None)
case("mT", t(2, 3, 4))
case("numpy_T", t(2, 3, 4))
for name in ("fft_fftshift", "fft_ifftshift"):
    case(name, t(3, 4))
    case(name, t(3, 5), [-1])
case("diff", t(2, 5))
case("diff", t(4, 3), 2, 0, t(1, 3), t(2, 3))
case("kron", t(2, 3), t(3, 1, 2))
case("cross", t(2, 3), t(2, 3))
case("cross", t(3, 2), t(3, 2), 0)
case("linalg_cross", t(2, 3, 4), t(1, 3, 4), dim=1)
case("linalg_multi_dot", [t(3), t(3, 4), t(4, 2)])
case("chain_matmul", [t(2, 3), t(3, 4), t(4, 2)])
case("linalg_matmul", t(2, 2, 3), t(3, 4))
for name in ("matrix_power", "linalg_matrix_power"):
    case(name, t(2, 3, 3), 3)
case("linalg_matrix_norm.str_ord", t(2, 3, 4))
case("linalg_norm.ord_str", t(3, 4), "fro", keepdim=True)
case("norm_except_dim", t(3, 4, 2), 2, 1)
case("nanmean", t(3, 4), [1], True)
case("msort", t(4, 3))
case("repeat_interleave.self_Tensor", t(3, 2), i(2, 0, 3), 0)
case("ldexp.Tensor", t(3, 2), t(2))
case("special_entr", t(3, 2, offset=1.5))
case("special_ndtr", t(3, 2, factor=2.0))

# What chooses among equal numbers, or bends at some.
for name in ("relu", "abs", "leaky_relu", "elu", "celu", "selu", "softplus"):
    case(name, equals(*x))
for name in ("relu6", "hardswish", "hardsigmoid"):
    case(name, equals(*x, factor=7.0, step=1.0))
case("hardtanh", equals(*x, factor=2.0))
case("prelu", equals(2, 3, 4), t(3))
case("threshold", equals(*x), 0.5, 2.0)
case("softshrink", equals(*x))
case("hardshrink", equals(*x))
case("clamp", equals(*x), -0.5, 0.5)
case("clamp.Tensor", equals(*x), equals(4), equals(3, 1))
case("clamp_min", equals(*x), -0.5)
case("clamp_max", equals(*x), 0.5)
for name in ("maximum", "minimum", "max.other", "min.other", "fmax", "fmin"):
    case(name, equals(*x), equals(3, 4))
for name in ("amax", "amin"):
    case(name, equals(*x), [1])
    case(name, equals(*x), [0, 2], True)
for name in ("max", "min"):
    case(name, equals(*x))
for name in ("max.dim", "min.dim", "cummax", "cummin"):
    case(name, equals(2, 5, 3), 1)
for order in (1, 2, math.inf):
    case("linalg_vector_norm", equals(*x), {"float": "inf"} if order == math.inf else order, [1])
case("max_pool1d", equals(2, 3, 9), [3], [2], [1])
case("max_pool2d", equals(2, 3, 9, 8), [3, 3], [2, 2], [1, 1])
case("max_pool2d", equals(2, 3, 9, 8), [2, 2])
case("max_pool3d", equals(2, 2, 5, 6, 7), [2, 3, 2], [2, 2, 1], [1, 1, 0])
case("adaptive_max_pool1d", equals(2, 3, 7), [3])
case("adaptive_max_pool2d", equals(2, 3, 7, 5), [3, 2])
case("adaptive_max_pool3d", equals(1, 2, 5, 4, 3), [2, 3, 1])

path = pathlib.Path("train/gradients.json")
path.parent.mkdir(exist_ok=True)
lines = ",\n".join(json.dumps(c) for c in cases)
path.write_text(f'{{"torch": "{torch.__version__}", "cases": [\n{lines}\n]}}\n')
print(len(cases), "cases")
