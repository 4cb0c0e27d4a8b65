"""Latency of single ATen operators in qdq and PyTorch, float unless the name says other: milliseconds of CPU time of
one thread, worst ratio first, and the share of the time that qdq spends in plain loops.

  python3 tests/bench/aten_operators.py --torch COMMAND [--qdq COMMAND] [--only WORD ...] [--json OUT.json]

COMMAND starts a Python with PyTorch 2.6 in this checkout; it exports a program for each operator to
build/aten_operators and times it eagerly before qdq runs the file. --only takes cases whose names contain a word.
"""

import argparse
import json
import shlex
import statistics
import sys
import time
from pathlib import Path

import onnx_operators as bench

WORK = bench.ROOT / "build" / "aten_operators"


# --- in a Python with PyTorch
# ------------------------------------------------------------------------------------


def make_cases():
    """name -> (function, inputs)"""
    import torch
    from torch.nn import functional as F

    torch.manual_seed(1)
    f, index = torch.randn, lambda high, *shape: torch.randint(0, high, shape)
    image, tokens = f(1, 64, 56, 56), f(8, 197, 768)
    grid, volume = torch.rand(1, 56, 56, 2) * 2 - 1, f(1, 16, 8, 28, 28)
    lstm, both = torch.nn.LSTM(128, 256), torch.nn.LSTM(128, 256, bidirectional=True)
    cell, gru = torch.nn.LSTMCell(128, 256), torch.nn.GRU(128, 256, 2)
    norm = torch.nn.LayerNorm([64, 56, 56])
    cases = {
        "index_put rows": (lambda x, i, v: x.index_put((i,), v), (f(4096, 256), index(4096, 512), f(512, 256))),
        "index_put adds": (
            lambda x, i, v: x.index_put((i,), v, accumulate=True),
            (f(4096, 256), index(4096, 512), f(512, 256)),
        ),
        "index_add": (lambda x, i, v: x.index_add(0, i, v), (f(4096, 256), index(4096, 512), f(512, 256))),
        "index_select": (lambda x, i: x.index_select(1, i), (tokens, index(197, 64))),
        "scatter_add": (lambda x, i, v: x.scatter_add(0, i, v), (f(4096, 64), index(4096, 2048, 64), f(2048, 64))),
        "scatter_reduce amax": (
            lambda x, i, v: x.scatter_reduce(1, i, v, "amax"),
            (f(64, 4096), index(4096, 64, 512), f(64, 512)),
        ),
        "gather": (lambda x, i: x.gather(1, i), (f(64, 4096), index(4096, 64, 512))),
        "take_along_dim": (lambda x, i: x.take_along_dim(i, 1), (f(64, 4096), index(4096, 64, 512))),
        "embedding_bag": (
            lambda x, i, o: F.embedding_bag(i, x, o),
            (f(10000, 64), index(10000, 2048), torch.arange(0, 2048, 16)),
        ),
        "masked_fill": (lambda x: x.masked_fill(x > 0, -1e9), (f(8, 12, 197, 197),)),
        "layer_norm images": (norm, (image,)),
        "layer_norm channels": (lambda x: F.layer_norm(x.permute(0, 2, 3, 1), (64,)), (image,)),
        "rms_norm": (lambda x: F.rms_norm(x, (768,)), (tokens,)),
        "group_norm": (lambda x: F.group_norm(x, 8), (image,)),
        "normalize": (lambda x: F.normalize(x, dim=1), (image,)),
        "softmax channels": (lambda x: x.softmax(1), (f(1, 21, 128, 128),)),
        "softmax middle": (lambda x: x.softmax(2), (f(1, 8, 16, 28, 28),)),
        "var_mean": (lambda x: torch.var_mean(x, dim=-1), (tokens,)),
        "std": (lambda x: x.std(dim=(2, 3)), (image,)),
        "norm": (lambda x: x.norm(dim=-1), (tokens,)),
        "prod": (lambda x: x.prod(dim=-1), (tokens,)),
        "max with places": (lambda x: x.max(dim=1), (f(1, 80, 8400),)),
        "max of all": (torch.max, (image,)),
        "argsort": (lambda x: x.argsort(descending=True), (f(16, 4096),)),
        "sort int64": (lambda x: x.sort(), (index(1000, 16, 4096),)),
        "unique": (torch.unique, (index(1000, 4096),)),
        "cummax": (lambda x: x.cummax(1), (f(64, 4096),)),
        "cumprod": (lambda x: x.cumprod(1), (f(64, 4096),)),
        "any": (lambda x: (x > 3).any(dim=1), (f(64, 4096),)),
        "nonzero": (torch.nonzero, (image > 1,)),
        "searchsorted": (torch.searchsorted, (f(1000).sort()[0], f(4096))),
        "bucketize": (torch.bucketize, (f(64, 512), f(64).sort()[0])),
        "permute windows": (lambda x: x.permute(0, 1, 3, 2, 4, 5).contiguous(), (f(1, 8, 7, 8, 7, 96),)),
        "permute volume": (lambda x: x.permute(0, 2, 3, 4, 1).contiguous(), (volume,)),
        "flip": (lambda x: x.flip(2, 3), (image,)),
        "roll": (lambda x: x.roll((3, 3), (1, 2)), (f(1, 56, 56, 96),)),
        "repeat": (lambda x: x.repeat(1, 1, 2, 2), (f(1, 64, 28, 28),)),
        "repeat_interleave": (lambda x: x.repeat_interleave(4, 1), (f(8, 8, 128, 64),)),
        "stack": (lambda x, y: torch.stack([x, y], -1), (tokens, f(8, 197, 768))),
        "unfold": (lambda x: F.unfold(x, 3, padding=1), (image,)),
        "fold": (lambda x: F.fold(x, 28, 3, padding=1), (f(1, 576, 784),)),
        "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), (image,)),
        "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 2), (image,)),
        "channel_shuffle": (lambda x: F.channel_shuffle(x, 4), (image,)),
        "tril": (torch.tril, (f(8, 512, 512),)),
        "bicubic": (lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), (f(1, 64, 28, 28),)),
        "bilinear corners": (
            lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True),
            (f(1, 64, 28, 28),),
        ),
        "bilinear antialias": (
            lambda x: F.interpolate(x, (224, 224), mode="bilinear", antialias=True),
            (f(1, 3, 480, 640),),
        ),
        "trilinear": (lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"), (f(1, 16, 8, 14, 14),)),
        "adaptive_avg_pool2d 7": (lambda x: F.adaptive_avg_pool2d(x, 7), (f(1, 256, 20, 20),)),
        "adaptive_max_pool2d 7": (lambda x: F.adaptive_max_pool2d(x, 7), (f(1, 256, 20, 20),)),
        "max_pool2d indices": (lambda x: F.max_pool2d(x, 2, return_indices=True), (image,)),
        "lp_pool2d": (lambda x: F.lp_pool2d(x, 2, 2), (image,)),
        "cdist": (torch.cdist, (f(256, 64), f(512, 64))),
        "cosine_similarity": (lambda x, y: F.cosine_similarity(x, y, dim=-1), (tokens, f(8, 197, 768))),
        "bilinear layer": (torch.nn.Bilinear(64, 64, 32), (f(64, 64), f(64, 64))),
        "baddbmm": (torch.baddbmm, (f(12, 197, 197), f(12, 197, 64), f(12, 64, 197))),
        "addmm scaled": (lambda x, y, z: torch.addmm(x, y, z, alpha=0.5), (f(64, 512), f(64, 512), f(512, 512))),
        "mv": (torch.mv, (f(1024, 1024), f(1024))),
        "vector by matrix": (lambda x, y: y @ x, (f(1024, 1024), f(1024))),
        "outer": (torch.outer, (f(1024), f(1024))),
        "lstm": (lstm, (f(64, 1, 128),)),
        "lstm both ways": (both, (f(64, 1, 128),)),
        "lstm_cell": (cell, (f(8, 128),)),
        "gru two layers": (gru, (f(64, 1, 128),)),
        "attention": (F.scaled_dot_product_attention, (f(1, 12, 197, 64), f(1, 12, 197, 64), f(1, 12, 197, 64))),
        "lerp": (lambda x, y: torch.lerp(x, y, 0.3), (image, f(1, 64, 56, 56))),
        "addcmul": (lambda x, y: torch.addcmul(x, x, y), (image, f(1, 64, 56, 56))),
        "atan2": (torch.atan2, (image, f(1, 64, 56, 56))),
        "remainder": (lambda x: torch.remainder(x, 0.7), (image,)),
        "floor_divide": (lambda x: torch.div(x, 0.7, rounding_mode="floor"), (image,)),
        "glu": (lambda x: F.glu(x, 1), (image,)),
        "logsigmoid": (F.logsigmoid, (image,)),
        "log2": (torch.log2, (image.abs(),)),
        "exp2": (torch.exp2, (image,)),
        "erfc": (torch.erfc, (image,)),
        "sign": (torch.sign, (image,)),
        "square": (torch.square, (image,)),
        "trunc": (torch.trunc, (image,)),
        "isnan": (torch.isnan, (image,)),
        "to int64": (lambda x: x.to(torch.int64), (image,)),
        "to uint8": (lambda x: x.to(torch.uint8), (image.abs(),)),
        "int64 to float": (lambda x: x.to(torch.float32), (index(99, 64, 3136),)),
        "uint8 to float": (lambda x: x.to(torch.float32) / 255, (index(255, 1, 3, 224, 224).to(torch.uint8),)),
        "add int64": (torch.add, (index(9, 64, 3136), index(9, 64, 3136))),
        "one_hot": (lambda x: F.one_hot(x, 1000), (index(1000, 256),)),
        "arange": (lambda x: torch.arange(10000) + x, (index(9, 1),)),
        "stft": (
            lambda x: torch.view_as_real(torch.stft(x, 400, 160, window=torch.ones(400), return_complex=True)),
            (f(1, 16000),),
        ),
        "rfft": (lambda x: torch.view_as_real(torch.fft.rfft(x)), (f(16, 1024),)),
    }
    cases.update(make_more_cases(f, index, image, tokens))
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            sampled = lambda x, g, m=mode, p=padding: F.grid_sample(x, g, m, p, align_corners=False)
            cases[f"grid_sampler {mode} {padding}"] = (sampled, (image, grid))
    for name in ("softmax channels", "lstm", "group_norm", "attention", "index_put rows", "cdist", "bicubic"):
        function, inputs = cases[name]
        if isinstance(function, torch.nn.Module):
            continue
        for dtype in (torch.float16, torch.bfloat16):
            narrow = tuple(x.to(dtype) if x.is_floating_point() else x for x in inputs)
            cases[f"{name} {str(dtype)[6:]}"] = (function, narrow)
    for name, op in (("conv", F.conv2d), ("linear", F.linear), ("gelu", F.gelu), ("layer_norm", F.layer_norm)):
        for dtype in (torch.float16, torch.bfloat16):
            more = {"conv": (f(64, 64, 3, 3) / 24,), "linear": (f(768, 768) / 28,)}.get(name, ())
            x = image if name == "conv" else tokens
            call = (lambda y, o=op: o(y, (768,))) if name == "layer_norm" else op
            cases[f"{name} {str(dtype)[6:]}"] = (call, tuple(y.to(dtype) for y in (x, *more)))
    return cases


def make_more_cases(f, index, image, tokens):
    """What networks for speech, text and images have besides."""
    import torch
    from torch.nn import functional as F

    signal, heads, wide = f(4, 256, 400), f(8, 12, 128, 64), f(8, 128, 768)
    weight = lambda *sizes: f(*sizes) / (f(*sizes)[0].numel() ** 0.5)
    causal = torch.ones(128, 128).tril().bool()
    conv = lambda x, w, **more: (lambda y: F.conv1d(y, w, **more), (x,))
    turned = lambda call, x, w, **more: (lambda y: call(y, w, **more), (x,))
    return {
        "conv1d 1x1": conv(signal, weight(512, 256, 1)),
        "conv1d 3": conv(signal, weight(256, 256, 3), padding=1),
        "conv1d dilated": conv(signal, weight(256, 256, 3), padding=4, dilation=4),
        "conv1d depthwise 31": conv(signal, weight(256, 1, 31), padding=15, groups=256),
        "conv1d groups": conv(signal, weight(256, 16, 5), padding=2, groups=16),
        "conv1d few samples": conv(f(1, 16, 40), weight(32, 16, 3), padding=1),
        "conv1d stem": conv(f(1, 1, 16000), weight(64, 1, 10), stride=5),
        "conv_transpose1d": turned(F.conv_transpose1d, f(1, 256, 128), weight(256, 128, 8), stride=4, padding=2),
        "conv_transpose2d 2x2": turned(F.conv_transpose2d, f(1, 128, 28, 28), weight(128, 64, 2, 2), stride=2),
        "conv_transpose2d 4x4": turned(
            F.conv_transpose2d, f(1, 128, 28, 28), weight(128, 64, 4, 4), stride=2, padding=1
        ),
        "conv3d depthwise": turned(F.conv3d, f(1, 32, 8, 28, 28), weight(32, 1, 3, 3, 3), padding=1, groups=32),
        "pad reflect": (lambda x: F.pad(x, (3, 3, 3, 3), "reflect"), (image,)),
        "pad replicate": (lambda x: F.pad(x, (1, 1, 1, 1), "replicate"), (image,)),
        "pad circular": (lambda x: F.pad(x, (1, 1, 1, 1), "circular"), (image,)),
        "pad of a signal": (lambda x: F.pad(x, (200, 200), "reflect"), (f(1, 1, 16000),)),
        "avg_pool2d 3 stride 1": (lambda x: F.avg_pool2d(x, 3, 1, 1), (image,)),
        "avg_pool2d 2": (lambda x: F.avg_pool2d(x, 2), (image,)),
        "adaptive_avg_pool2d of 1": (lambda x: F.adaptive_avg_pool2d(x, 1), (f(8, 256, 14, 14),)),
        "adaptive_avg_pool2d 6": (lambda x: F.adaptive_avg_pool2d(x, 6), (f(1, 256, 60, 60),)),
        "cumsum": (lambda x: x.cumsum(-1), (f(64, 4096),)),
        "cumsum of a mask": (lambda x: x.cumsum(1), (index(2, 8, 512),)),
        "argmax": (lambda x: x.argmax(-1), (f(64, 10000),)),
        "topk": (lambda x: x.topk(10), (f(64, 10000),)),
        "where": (lambda x: torch.where(x > 0, x, 0.1 * x), (image,)),
        "clamp": (lambda x: x.clamp(-1, 1), (image,)),
        "masked attention scores": (lambda x: x.masked_fill(~causal, -1e9).softmax(-1), (f(8, 12, 128, 128),)),
        "attention causal": (lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), (heads,)),
        "attention masked": (lambda q: F.scaled_dot_product_attention(q, q, q, attn_mask=causal), (heads,)),
        "attention one query": (
            F.scaled_dot_product_attention,
            (f(1, 12, 1, 64), f(1, 12, 512, 64), f(1, 12, 512, 64)),
        ),
        "attention products": (lambda q: (q @ q.transpose(-1, -2)).softmax(-1) @ q, (heads,)),
        "heads of tokens": (lambda x: x.view(8, 128, 12, 64).transpose(1, 2).contiguous(), (wide,)),
        "tokens of heads": (lambda x: x.transpose(1, 2).reshape(8, 128, 768), (heads,)),
        "channels last": (lambda x: x.permute(0, 2, 3, 1).contiguous(), (image,)),
        "channels first": (lambda x: x.permute(0, 3, 1, 2).contiguous(), (f(1, 56, 56, 64),)),
        "transposed matrix": (lambda x: x.t().contiguous(), (f(1024, 1024),)),
        "reversed axes": (lambda x: x.permute(2, 1, 0).contiguous(), (f(64, 96, 128),)),
        "windows": (
            lambda x: x.view(1, 8, 7, 8, 7, 96).permute(0, 1, 3, 2, 4, 5).reshape(-1, 49, 96),
            (f(1, 56, 56, 96),),
        ),
        "patches of tokens": (
            lambda x: torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1),
            (f(1, 56, 56, 96),),
        ),
        "rotary halves": (lambda x: torch.cat((-x[..., 32:], x[..., :32]), -1), (heads,)),
        "rotary pairs": (lambda x: torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2), (heads,)),
        "chunk gate": (lambda x: (lambda a, b: a * F.gelu(b))(*x.chunk(2, -1)), (wide,)),
        "gelu": (F.gelu, (wide,)),
        "gelu tanh": (lambda x: F.gelu(x, approximate="tanh"), (wide,)),
        "silu": (F.silu, (wide,)),
        "layer_norm": (lambda x: F.layer_norm(x, (768,)), (wide,)),
        "instance_norm": (torch.nn.InstanceNorm2d(64, affine=True), (image,)),
        "rms by operators": (lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6), (wide,)),
        "linear": (torch.nn.Linear(768, 768), (wide,)),
        "linear one row": (torch.nn.Linear(1024, 4096), (f(1, 1024),)),
        "einsum bhid,bhjd": (lambda x: torch.einsum("bhid,bhjd->bhij", x, x), (heads,)),
        "einsum bnhd,bmhd": (lambda x: torch.einsum("bnhd,bmhd->bhnm", x, x), (f(8, 128, 12, 64),)),
        "einsum relative": (lambda x, r: torch.einsum("bhid,ijd->bhij", x, r), (heads, f(128, 128, 64))),
        "lstm batch": (torch.nn.LSTM(128, 128, batch_first=True), (f(16, 50, 128),)),
        "gru batch": (torch.nn.GRU(128, 128, batch_first=True), (f(16, 50, 128),)),
        "amax": (lambda x: x.amax(-1), (wide,)),
        "mean middle": (lambda x: x.mean(1), (wide,)),
        "sum of images": (lambda x: x.sum((2, 3)), (image,)),
        "add of channels": (lambda x, y: x * y, (image, f(1, 64, 1, 1))),
        "add of positions": (lambda x, y: x + y, (wide, f(1, 128, 768))),
        "scale of tokens": (lambda x, y: x * y, (wide, f(8, 128, 1))),
        "eq of ids": (lambda x: x.eq(0), (index(9, 8, 4096),)),
        "embedding": (torch.nn.Embedding(30000, 256), (index(30000, 8, 128),)),
        "masks": (lambda x: (x > 0) & (x < 1), (image,)),
        "mean and std": (lambda x: (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-5), (wide,)),
        "bmm of one row": (torch.bmm, (f(64, 1, 128), f(64, 128, 512))),
        "bmm by transposed": (lambda x, y: torch.bmm(x, y.transpose(1, 2)), (f(64, 1, 128), f(64, 512, 128))),
    }


def in_torch(words):
    """Exports all cases, and prints for each what PyTorch took or its problem."""
    import numpy
    import torch

    torch.set_num_threads(1)
    WORK.mkdir(parents=True, exist_ok=True)

    class Alone(torch.nn.Module):
        def __init__(self, function):
            super().__init__()
            self.function = function

        def forward(self, *inputs):
            out = self.function(*inputs)
            return tuple(out) if isinstance(out, tuple) else out

    for name, (function, inputs) in make_cases().items():
        if words and not any(word in name for word in words):
            continue
        answer = {"name": name}
        try:
            with torch.no_grad():
                folder = WORK / bench.folder_of(name)
                folder.mkdir(exist_ok=True)
                torch.export.save(torch.export.export(Alone(function).eval(), inputs), folder / "model.pt2")
                arrays = [x.float() if x.dtype == torch.bfloat16 else x for x in inputs]  # which qdq rounds again
                numpy.savez(folder / "inputs.npz", **{f"b0_i{k}": x.numpy() for k, x in enumerate(arrays)})
                times, began = [], time.perf_counter()
                function(*inputs)
                while len(times) < 3 or (time.perf_counter() - began < bench.SECONDS and len(times) < 2000):
                    cpu = time.process_time()
                    function(*inputs)
                    times.append(1e3 * (time.process_time() - cpu))
            answer["ms"] = statistics.median(times)
        except Exception as error:
            answer["problem"] = f"{type(error).__name__}: {str(error).strip()[:200]}"
        print(json.dumps(answer), flush=True)


def main():
    if len(sys.argv) >= 2 and sys.argv[1] == "--in-torch":
        in_torch(sys.argv[2:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", required=True, help="what starts a Python with PyTorch")
    parser.add_argument("--qdq", default="./dev qdq", help="the native command line")
    parser.add_argument("--only", nargs="*", default=[], help="cases whose names contain one of these words")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    words = [*shlex.split(options.torch), "python3", "tests/bench/aten_operators.py", "--in-torch", *options.only]
    theirs = [json.loads(line) for line in bench.call(words).splitlines() if line.startswith("{")]
    return bench.time_and_tell(theirs, "PyTorch", options, lambda name: WORK / bench.folder_of(name) / "model.pt2")


if __name__ == "__main__":
    sys.exit(main())
