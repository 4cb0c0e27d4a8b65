"""PyTorch's own spread: the same program on oneDNN, on ATen's kernels, and with every float operator computed in
float64 and rounded to float32.

Three ways to compute the same float32 operators, none of them wrong. How far they are apart is how far an
implementation may be from any of them. OtherRounding shows what it does to a quantized program when a few sums fall on
the other side of the middle between two integers.
"""

import contextlib

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

NAMES = ("onednn", "aten", "float64")
WIDENED = {
    f"aten.{name}"
    for name in (
        "convolution",
        "addmm",
        "mm",
        "bmm",
        "baddbmm",
        "mean",
        "sum",
        "native_layer_norm",
        "native_group_norm",
        "_softmax",
        "_log_softmax",
        "native_batch_norm",
        "_native_batch_norm_legit_no_training",
        "_adaptive_avg_pool2d",
        "avg_pool2d",
        "silu",
        "sigmoid",
        "hardswish",
        "hardsigmoid",
        "gelu",
        "tanh",
        "exp",
        "erf",
        "elu",
        "mish",
        "mul",
        "add",
        "sub",
        "div",
        "rsub",
        "pow",
        "sqrt",
        "rsqrt",
        "linalg_vector_norm",
        "upsample_bilinear2d",
        "upsample_bicubic2d",
        "leaky_relu",
    )
}


class InFloat64(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        def cast(value, source, target):
            return tree_map(lambda t: t.to(target) if isinstance(t, torch.Tensor) and t.dtype == source else t, value)

        if str(function).rpartition(".")[0] not in WIDENED:
            return function(*args, **(kwargs or {}))
        wide_args, wide_kwargs = (
            cast(args, torch.float32, torch.float64),
            cast(kwargs or {}, torch.float32, torch.float64),
        )
        return cast(function(*wide_args, **wide_kwargs), torch.float64, torch.float32)


@contextlib.contextmanager
def float_kernels(name):
    """Operators inside run on these kernels, without gradients."""
    precision = InFloat64() if name == "float64" else contextlib.nullcontext()
    with torch.no_grad(), torch.backends.mkldnn.flags(enabled=name == "onednn"), precision:
        yield


class OtherRounding(TorchDispatchMode):
    """This share of the activations, at least one of each tensor, is rounded to the neighbouring integer."""

    def __init__(self, seed, share):
        super().__init__()
        self.share = share
        self.generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        if str(function) == "quantized_decomposed.quantize_per_tensor.default":
            flat = out.flatten()
            at = torch.randperm(flat.numel(), generator=self.generator)[: max(1, int(flat.numel() * self.share))]
            moved = flat[at].to(torch.int32) + torch.randint(0, 2, at.shape, generator=self.generator) * 2 - 1
            flat[at] = moved.clamp(args[3], args[4]).to(flat.dtype)
            out = flat.view(out.shape)
        return out
