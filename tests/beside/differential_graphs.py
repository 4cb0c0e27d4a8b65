"""Random programs for tests/beside/differential.py: small modules whose forward is random, but valid, PyTorch.

A statement is a template with places for tensors and numbers, filled at random and run at once on real tensors; what
PyTorch refuses, what is not finite and what grows too large is thrown away, so every program is valid by construction.
{f} is a float tensor, {f4} one with four axes, {i} an integer and {b} a boolean tensor, {t} a float tensor that may be
written to; the first tensor of a statement gives {d} an axis, {e} another one, {n} the size of that axis, {c} its
channels, {last} its last size, {shape} and {same} a float tensor of its shape. {r} is a real number, {p} a positive
one, {k} 1 to 3, {odd} 1 or 3. @...@ is a module made once. Of topk only the values are taken: PyTorch leaves open which
of equal elements it counts.
"""

import contextlib
import random
import re

import torch
from torch import nn

MAX_ELEMENTS = 4000
FLOAT = """
{f} + {same} | {f} - {same} | {f} * {same} | {f} / ({same}.abs() + {p}) | {f} + {r} | {f} - {r} | {f} * {r} | {f} / {p}
{r} - {f} | {r} / ({f}.abs() + 1) | torch.add({f}, {same}, alpha={r}) | torch.sub({f}, {same}, alpha={r})
torch.rsub({f}, {same}) | {f} + {f} | {f} * {f} | torch.maximum({f}, {same}) | torch.minimum({f}, {same})
torch.max({f}, {same}) | torch.min({f}, {same}) | torch.abs({f}) | torch.neg({f}) | torch.exp({f} * 0.3)
torch.expm1({f} * 0.3) | torch.log({f}.abs() + {p}) | torch.log1p({f}.abs()) | torch.log2({f}.abs() + {p})
torch.sqrt({f}.abs()) | torch.rsqrt({f}.abs() + {p}) | torch.square({f}) | torch.reciprocal({f}.abs() + 1)
torch.sin({f}) | torch.cos({f}) | torch.erf({f}) | torch.tanh({f}) | torch.sigmoid({f}) | torch.relu({f})
torch.floor({f} * 2 + 0.25) | torch.ceil({f} * 2 + 0.25) | torch.round({f} * 3) | torch.trunc({f} * 2) | torch.sign({f})
torch.pow({f}.abs() + {p}, {r}) | {f} ** 2 | {f} ** 3 | torch.pow({p}, {f}) | torch.pow({f}.abs() + {p}, {same})
F.relu6({f}) | F.hardswish({f}) | F.hardsigmoid({f}) | F.silu({f}) | F.gelu({f}) | F.gelu({f}, approximate='tanh')
F.elu({f}) | F.elu({f}, {p}) | F.leaky_relu({f}, 0.1) | F.hardtanh({f}, -{p}, {p}) | F.mish({f}) | F.logsigmoid({f})
F.celu({f}, {p}) | F.selu({f}) | F.softplus({f}) | F.hardshrink({f}) | F.threshold({f}, {r}, {r}) | F.glu({f}, {d})
torch.softmax({f}, {d}) | F.log_softmax({f}, {d}) | torch.clamp({f}, -{p}, {p}) | torch.clamp({f}, min={r})
torch.clamp({f}, max={r}) | torch.clamp({f}, {same} - {p}, {same} + {p}) | torch.clamp_min({f}, {r})
torch.clamp_max({f}, {r}) | torch.fmod({f}, {p}) | torch.remainder({f}, {p}) | torch.fmod({f}, {same}.abs() + {p})
torch.remainder({f}, {same}.abs() + {p}) | torch.div({f}, {p}, rounding_mode='floor')
torch.div({f}, {same}.abs() + {p}, rounding_mode='trunc') | torch.floor_divide({f}, {p})
torch.addcmul({f}, {same}, {same}, value={r}) | torch.addcdiv({f}, {same}, {same}.abs() + {p}, value={r})
torch.where({f} > {r}, {f}, {same}) | torch.where({f} > {r}, {f}, {r}) | torch.where({f} > {r}, {r}, {f})
{f}.masked_fill({same} > {r}, {r}) | torch.where({f} < {r}, {p}, {r}) | {f}.masked_fill({same} > {r}, torch.tensor({r}))
{f}.sum() | {f}.sum({d}) | {f}.sum({d}, keepdim=True) | {f}.sum([{d}, {e}]) | {f}.mean() | {f}.mean({d})
{f}.mean([{d}, {e}], keepdim=True) | {f}.amax({d}) | {f}.amin({d}, keepdim=True) | {f}.max() | {f}.min() | {f}.max({d})
{f}.min({d}, keepdim=True) | {f}.prod({d}) | {f}.std({d}) | {f}.var({d}, unbiased=False)
{f}.var([{d}, {e}], correction=0) | {f}.std() | {f}.var() | torch.var_mean({f}, {d}, correction=0)
{f}.std([{d}, {e}], correction=1) | torch.logsumexp({f}, {d}) | torch.linalg.vector_norm({f}, 2, {d}) | {f}.norm(2, {d})
{f}.cumsum({d}) | F.normalize({f}, dim={d}) | ({f} * 0.5 + 1).prod() | {f}.sort({d}) | {f}.topk({n}, {d})[0]
{f}.argmax({d}) | {f}.argmin({d}, keepdim=True) | ({f} > {r}).any({d}) | ({f} > {r}).all({d}) | ({f} > 9).any()
({f} < 9).all() | {f} > {r} | {f} <= {same} | {f}.ge({r}) | {f}.lt({same}) | {f} != {same} | {f} == {same}
torch.isnan({f}) | torch.isinf({f} / 0.0) | ({f} * 3).to(torch.int64) | ({f} * 3).round().int() | {f}.half().float()
{f}.to(torch.float64) * 2 | {f}.bfloat16().float() | {f} > {same} | {f} <= {r} | {f} >= {same} | {f} == 0 | {f} != 0
{f} < {same} | {f} < {r} | {f}.transpose({d}, {e}) | {f}.permute({perm}) | {f}.flatten() | {f}.flatten(1)
{f}.reshape(-1) | {f}.reshape({n}, -1) | {f}.unsqueeze({d}) | {f}.squeeze() | {f}[..., :1].squeeze(-1) | {f}.t()
{f}.view({shape}) | {f}.reshape({shape}).contiguous() | {f}.expand({k}, *{shape}) | {f}.repeat({reps})
{f}.tile(({k},)) | {f}.flip({d}) | {f}.flip([{d}, {e}]) | {f}.roll({k}, {d}) | {f}.roll([{k}, -1], [{d}, {e}])
{f}.movedim({d}, {e}) | {f}.swapaxes({d}, {e}) | {f}.select({d}, 0) | {f}.select({d}, -1) | {f}.narrow({d}, 0, {k})
{f}[{k}:] | {f}[:, ::2] | {f}[..., -1] | {f}[..., None] | {f}[:, -2:] | {f}[..., 1:3] | {f}.chunk(2, {d})
{f}.split({k}, {d}) | {f}.split([1, {n} - 1], {d}) | {f}.unbind({d}) | torch.tensor_split({f}, 2, {d})
torch.cat([{f}, {same}], {d}) | torch.cat([{f}, {f}, {same}], {d}) | torch.stack([{f}, {same}], {d})
torch.concat([{f}, {same}]) | {f}.repeat_interleave({k}, {d}) | {f}.unflatten({d}, (1, {n})) | {f}.clone()
{f}.detach() | {f}.tril() | {f}.triu({k}) | {f}.view_as({same}) | {f}.expand_as({same}) | {f}.type_as({same})
{f}.reshape_as({same}) | {f}.ravel() | {f}.contiguous() | F.pad({f}, [1, {k}], value={r}) | F.pad({f}, [0, 1, 1, 0])
F.pad({f3}, [1, 1], mode='reflect') | F.pad({f4}, [1, 1, 1, 0], mode='reflect')
F.pad({f4}, [1, 0, 1, 2], mode='replicate') | F.pad({f3}, [2, 0], mode='replicate')
torch.index_select({f}, {d}, torch.tensor([0, -1 % {n}])) | {f}[torch.tensor([0, -1])] | {f}[:, torch.tensor([0, 0])]
torch.gather({f}, {d}, torch.zeros_like({f}, dtype=torch.int64))
{f}.scatter({d}, torch.zeros_like({f}, dtype=torch.int64), {r}) | {f}.index_put((torch.tensor([0]),), torch.tensor({r}))
torch.select_scatter({f}, {f}.select({d}, 0) * 2, {d}, {n} - 1)
torch.slice_scatter({f}, {f}.narrow({d}, 0, 1), {d}, {n} - 1, {n}) | torch.zeros_like({f}) | torch.ones_like({f}) * {r}
torch.full_like({f}, {r}) | {f}.new_zeros({shape}) + {f} | {f}.new_ones({k}) | {f}.new_full(({k}, 2), {r})
torch.arange({n}) * {f}.sum() | torch.arange(1, {n} + 1, dtype=torch.float32) + {f}.mean() | torch.zeros({n})
torch.ones({k}, {n}) | torch.full(({n},), {r}) | torch.arange(0, 10, {k}) | {f} @ {f} | {f} @ {f}.transpose(-1, -2)
torch.matmul({f}, {same}.transpose(-1, -2)) | torch.mm({f2}, {same}.t()) | torch.bmm({f3}, {same}.transpose(1, 2))
torch.einsum('...i,...i->...', {f}, {same}) | torch.einsum('bij,bkj->bik', {f3}, {same}) | torch.addmm({f2}, {f2}, {f2})
torch.baddbmm({f3}[:, :1, :1], {f3}, {same}.transpose(1, 2)) | F.linear({f}, torch.ones({k}, {last}) * 0.3)
torch.mv({f2}, torch.ones({last})) | torch.dot({f}.flatten(), {same}.flatten())
F.scaled_dot_product_attention({f4}, {same}, {same})
F.scaled_dot_product_attention({f4}, {same}, {same}, is_causal=True)
F.scaled_dot_product_attention({f3}, {same}, {same}, scale=0.3) | @nn.Conv2d({c}, {k} * 2, {odd}, padding={k})@({f4})
@nn.Conv2d({c}, {c} * {k}, 3, stride=2, padding=1, groups={c}, bias=False)@({f4})
@nn.Conv2d({c}, 4, (1, 2), dilation=(1, 2))@({f4}) | @nn.Conv2d({c}, 3, 3, padding='same')@({f4})
@nn.Conv1d({c}, 4, {odd}, padding=1)@({f3}) | @nn.Conv1d({c}, {c}, 2, stride=2, groups={c})@({f3})
@nn.Conv3d({c}, 2, 2, padding=1)@({f5}) | @nn.ConvTranspose2d({c}, 3, 2, stride=2)@({f4})
@nn.ConvTranspose1d({c}, 3, 3, stride=2, padding=1, output_padding=1)@({f3})
@nn.ConvTranspose2d({c}, 4, 3, stride=2, padding=1, bias=False, dilation=2)@({f4})
@nn.ConvTranspose3d({c}, 2, 2)@({f5}) | @nn.Linear({last}, {k} * 3)@({f}) | @nn.Linear({last}, 4, bias=False)@({f})
@nn.BatchNorm2d({c})@({f4}) | @nn.BatchNorm1d({c})@({f3}) | @nn.LayerNorm({last})@({f})
@nn.LayerNorm({last}, elementwise_affine=False)@({f}) | @nn.GroupNorm(1, {c})@({f}) | @nn.GroupNorm({c}, {c})@({f4})
@nn.InstanceNorm2d({c})@({f4}) | @nn.RMSNorm({last})@({f}) | @nn.PReLU()@({f}) | @nn.PReLU({c})@({f4})
@nn.MaxPool2d(2)@({f4}) | @nn.MaxPool2d(3, stride=2, padding=1)@({f4}) | @nn.MaxPool2d(2, ceil_mode=True)@({f4})
@nn.MaxPool1d(2)@({f3}) | @nn.MaxPool3d(2)@({f5}) | @nn.AvgPool2d(2)@({f4})
@nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False)@({f4}) | @nn.AvgPool2d(3, 2, 1, ceil_mode=True)@({f4})
@nn.AvgPool1d(2)@({f3}) | @nn.AvgPool3d(2)@({f5}) | @nn.AdaptiveAvgPool2d(1)@({f4})
@nn.AdaptiveAvgPool2d((2, 3))@({f4}) | @nn.AdaptiveAvgPool1d({k})@({f3}) | @nn.AdaptiveAvgPool3d(2)@({f5})
F.adaptive_max_pool2d({f4}, 2) | F.adaptive_max_pool1d({f3}, {k}) | F.max_pool2d({f4}, 2, return_indices=True)
F.interpolate({f4}, scale_factor=2) | F.interpolate({f4}, size=(5, 6), mode='bilinear')
F.interpolate({f4}, scale_factor=1.5, mode='bilinear', align_corners=True)
F.interpolate({f4}, size=(5, 7), mode='bicubic') | F.interpolate({f3}, scale_factor=2)
F.interpolate({f3}, size=7, mode='linear') | F.interpolate({f4}, size=(4, 3), mode='nearest-exact')
F.pixel_shuffle({f4}, 2) | F.pixel_unshuffle({f4}, 2) | @nn.LSTM({last}, 3, batch_first=True)@({f3})[0]
@nn.GRU({last}, 4)@({f3})[0] | @nn.RNN({last}, 3)@({f3})[0]
@nn.GRU({last}, 2, bidirectional=True, batch_first=True)@({f3}) | @nn.LSTM({last}, 2, num_layers=2)@({f3})[0]
@nn.RNN({last}, 3, nonlinearity='relu', batch_first=True)@({f3})[0] | @nn.Dropout()@({f})
F.dropout({f}, training=False) | @nn.MultiheadAttention({last}, 1, batch_first=True)@({f3}, {same}, {same})[0]
@nn.TransformerEncoderLayer({last}, 1, 8, batch_first=True, norm_first=True)@({f3})
F.alpha_dropout({f}, training=False) | F.feature_alpha_dropout({f}, training=False) | {t}.relu_() | {t}.add_({same})
{t}.add_({r}) | {t}.sub_({same}) | {t}.mul_({r}) | {t}.mul_({same}) | {t}.div_({p}) | {t}.clamp_(-{p}, {p})
{t}.sigmoid_() | {t}.tanh_() | {t}.fill_({r}) | {t}.zero_() | {t}.copy_({same}) | {t}.masked_fill_({same} > {r}, {r})
{t}.select({d}, 0).add_({r}) | F.hardswish({t}, inplace=True) | F.silu({t}, inplace=True) | F.relu6({t}, inplace=True)
F.leaky_relu({t}, inplace=True) | F.elu({t}, inplace=True) | F.hardtanh({t}, inplace=True) | F.mish({t}, inplace=True)
{t}.clamp_min_({r}) | {t}.clamp_max_({r}) | {t}.sub_({r}) | {t}.index_put_((torch.tensor([0]),), torch.tensor({r}))
{t}.abs().sqrt_() | ({t} * 0.2).exp_() | F.hardsigmoid({t}, inplace=True) | {t}[..., :1].mul_({r})
{t}.narrow({d}, 0, 1).fill_({r}) | {t}.detach_() | {t}.div_({same}.abs() + {p}) | {i} + 1 | {i} * {k} | {i} - {i}
{i} // {k} | {i} % 3 | {i}.to(torch.float32) * {r} | {i}.float() | {i}.sum({d}) | {i}.max({d}) | {i} > {k}
{i}.cumsum({d}) | {i}.abs() | {i} & 3 | {i}.bitwise_or({k}) | {i} ^ 1 | ~{i} | {i} == {i} | {i}.int()
{i}.to(torch.uint8).float() | {i}.sort({d}) | {i} / 2 | {i}.eq(1) | {i}.ne({k})
@nn.Embedding(12, {k} * 2)@({i}.abs() % 12) | F.one_hot({i}.abs() % 5, 5).float() | torch.where({i} > 0, {i}, -{i})
{i}.clamp(-{k}, {k}) | {i}.flip({d}) | {i}.prod({d}) | torch.minimum({i}, {i}.flip({d})) | {b} & {b}
torch.bitwise_or({b}, {b}) | {b} ^ {b} | ~{b} | {b}.float() * {r} | {b}.sum({d}) | torch.logical_and({b}, {b})
torch.logical_or({b}, {b}) | torch.logical_not({b}) | torch.logical_xor({b}, {b}) | {b}.any() | {b}.all()
torch.where({b}, {r}, {r}) | {b}.int() | {b}.to(torch.float32) | torch.multiply({f}, {same})
torch.subtract({f}, {same}, alpha={r}) | torch.divide({f}, {p}) | torch.clip({f}, -{p}, {p}) | torch.absolute({f})
torch.negative({f}) | torch.greater({f}, {same}) | torch.less_equal({f}, {r}) | torch.concatenate([{f}, {same}], {d})
torch.moveaxis({f}, {d}, {e}) | torch.log10({f}.abs() + {p}) | torch.outer({f}.flatten()[:5], {f}.flatten()[:4])
torch.meshgrid(torch.arange({n}), torch.arange({k}), indexing='xy')
"""
# Networks that are quantized: layers that quantizers know, and float neighbours that break their patterns.
NETWORK = """
@nn.Conv2d({c}, {k} * 4, {odd}, padding=1)@({f4}) | @nn.Conv2d({c}, {k} * 4, 3, padding=1, stride=2, bias=False)@({f4})
@nn.Conv2d({c}, {c}, 3, padding=1, groups={c})@({f4}) | @nn.Conv2d({c}, {c}, 1)@({f4})
F.relu(@nn.Conv2d({c}, 4, 3, padding=1)@({f4})) | @nn.ReLU()@(@nn.Conv2d({c}, {k} * 2, 3, padding=1)@({f4}))
@nn.ReLU(inplace=True)@(@nn.BatchNorm2d(8)@(@nn.Conv2d({c}, 8, 3, padding=1, bias=False)@({f4})))
@nn.ReLU6()@(@nn.BatchNorm2d(4)@(@nn.Conv2d({c}, 4, 1)@({f4}))) | @nn.BatchNorm2d(6)@(@nn.Conv2d({c}, 6, 3)@({f4}))
@nn.Hardswish()@(@nn.Conv2d({c}, 4, 1)@({f4})) | @nn.Hardtanh()@(@nn.Conv2d({c}, 4, 3)@({f4}))
@nn.SiLU()@(@nn.Conv2d({c}, 4, 1)@({f4})) | @nn.LeakyReLU()@(@nn.Conv2d({c}, 4, 1)@({f4}))
@nn.Conv2d({c}, {c}, 3, padding=1)@({f4}) + {same} | torch.relu(@nn.Conv2d({c}, {c}, 1)@({f4}) + {same})
@nn.ReLU()@(@nn.Conv2d({c}, {c}, 3, padding=1)@({f4}) + {same}) | @nn.Conv1d({c}, 4, 3, padding=1)@({f3})
@nn.ReLU()@(@nn.BatchNorm1d(4)@(@nn.Conv1d({c}, 4, 3)@({f3}))) | @nn.ConvTranspose2d({c}, 4, 2, stride=2)@({f4})
F.relu(@nn.ConvTranspose2d({c}, 4, 2)@({f4})) | @nn.Linear({last}, {k} * 4)@({f})
@nn.Linear({last}, {last}, bias=False)@({f}) | F.relu(@nn.Linear({last}, 8)@({f}))
@nn.ReLU()@(@nn.Linear({last}, {k} * 4)@({f})) | @nn.GELU()@(@nn.Linear({last}, 8)@({f}))
@nn.Linear({last}, {last})@({f}) + {same} | torch.relu(@nn.Linear({last}, {last})@({f}) + {same})
@nn.Tanh()@(@nn.Linear({last}, 6)@({f})) | F.relu({f}) | torch.relu({f}) | {f} + {same} | F.relu({f} + {same})
{f} * {same} | F.relu({f} * {same}) | {f} + {f} | {f} + {r} | {f} * {r} | {f} - {same} | {t}.add_({same}) | {t}.relu_()
torch.sigmoid({f}) | torch.tanh({f}) | F.hardtanh({f}) | F.gelu({f}) | F.hardswish({f}) | F.softmax({f}, -1)
torch.cat([{f}, {same}], {d}) | torch.cat([{f4}, {f4}], 1) | torch.cat([{f}, {f}], 1) | @nn.MaxPool2d(2)@({f4})
@nn.MaxPool2d(3, 2, 1)@({f4}) | F.max_pool2d({f4}, 2) | @nn.AvgPool2d(2)@({f4}) | @nn.AdaptiveAvgPool2d(1)@({f4})
F.adaptive_avg_pool2d({f4}, (2, 2)) | {f4}.mean([2, 3]) | {f4}.mean((2, 3), keepdim=True) | {f}.flatten(1)
{f}.permute({perm}) | {f}.transpose({d}, {e}) | {f}.view({shape}) | {f}.reshape({n}, -1) | {f}.unsqueeze({d})
{f}.chunk(2, 1) | {f}.split({k}, {d}) | {f}.select({d}, 0) | {f}[..., 1:] | F.interpolate({f4}, scale_factor=2)
F.interpolate({f4}, size=(4, 4), mode='bilinear') | F.pad({f4}, [1, 1, 1, 1]) | @nn.LayerNorm({last})@({f})
@nn.BatchNorm2d({c})@({f4}) | @nn.GroupNorm(1, {c})@({f}) | {f} @ {f}.transpose(-1, -2)
torch.matmul({f}, {same}.transpose(-1, -2)) | torch.bmm({f3}, {same}.transpose(1, 2))
F.scaled_dot_product_attention({f4}, {same}, {same}) | @nn.Dropout()@({f}) | @nn.GRU({last}, 4)@({f3})[0]
F.dropout({f}, training=False) | @nn.Linear({last}, 4)@(@nn.LayerNorm({last})@({f}))
{f4} * torch.sigmoid(@nn.Conv2d({c}, {c}, 1)@(F.adaptive_avg_pool2d({f4}, 1))) | {f}.clone() | {f}.contiguous()
@nn.MultiheadAttention({last}, 1, batch_first=True)@({f3}, {same}, {same}, need_weights=False)[0]
@nn.Conv2d({c}, {c}, 3, padding='same')@({f4}) | @nn.Conv3d({c}, 2, 1)@({f5})
"""


class Skip(Exception):
    pass


class Graph:
    """A module made of source text, with inputs for it."""

    def __init__(self, source, module, inputs, other_inputs):
        self.source, self.module, self.inputs, self.other_inputs = source, module, inputs, other_inputs


class Writer:
    def __init__(self, seed, number, shapes, has_integers):
        self.random = random.Random(f"{seed} {number}")
        torch.manual_seed(seed * 100003 + number)
        self.owner = nn.Module()
        self.shapes, self.has_integers = shapes, has_integers
        self.inputs = self.sample()
        self.names = {"torch": torch, "F": nn.functional, "nn": nn, "self": self.owner}
        self.init, self.lines, self.used = [], [], set()
        self.in_place = set()
        self.values = []
        for i, tensor in enumerate(self.inputs):
            self.names[f"x{i}"] = tensor
            self.values.append(f"x{i}")

    def sample(self):
        tensors = [torch.randn(shape) for shape in self.shapes]
        return tuple(tensors + ([torch.randint(-4, 9, (2, 3))] if self.has_integers else []))

    def pick(self, kind, first):
        def fits(name):
            tensor = self.names[name]
            if kind == "i":
                return tensor.dtype == torch.int64
            if kind == "b":
                return tensor.dtype == torch.bool
            if tensor.dtype != torch.float32:
                return False
            if kind == "same":
                return first is not None and tensor.shape == first.shape
            if kind == "t":
                return name in self.in_place
            return len(kind) == 1 or tensor.dim() == int(kind[1])

        found = [name for name in self.values if fits(name)]
        if not found:
            raise Skip
        # Recent values are taken more often: programs grow deep.
        return found[max(self.random.randrange(len(found)), self.random.randrange(len(found)))]

    def fill(self, template):
        first, picked = None, []

        def tensor(match):
            nonlocal first
            name = self.pick(match[1], first)
            first = self.names[name] if first is None else first
            picked.append(name)
            return name

        # The first tensor of the text decides the sizes, also those of a module that stands before it.
        text = re.sub(r"\{(f\d?|i|b|t|same)\}", tensor, template)
        dims = list(range(first.dim())) if first is not None else []
        self.random.shuffle(dims)
        axis, other = (dims + [0, 0])[0], (dims + [0, 0])[1]
        shape = list(first.shape) if first is not None else []
        perm = dims[:]
        self.random.shuffle(perm)
        sign = lambda d: d - len(shape) if self.random.random() < 0.3 else d
        choose = self.random.choice
        numbers = {
            "d": lambda: sign(axis),
            "e": lambda: sign(other),
            "n": lambda: shape[axis],
            "c": lambda: shape[1],
            "last": lambda: shape[-1],
            "shape": lambda: shape,
            "perm": lambda: perm,
            "reps": lambda: [choose([1, 2]) for _ in shape],
            "r": lambda: choose([-1.5, -0.5, 0.25, 0.5, 1.25, 2.0]),
            "p": lambda: choose([0.5, 0.75, 1.0, 1.5]),
            "k": lambda: choose([1, 2, 3]),
            "odd": lambda: choose([1, 3]),
        }
        return re.sub(r"\{(\w+)\}", lambda match: str(numbers[match[1]]()), text), picked

    def add(self, template):
        """Tries a statement; raises if PyTorch refuses it or its values are of no use."""
        text, picked = self.fill(template)
        made = []

        def module(match):
            name = f"m{len(self.init) + len(made)}"
            layer = eval(match[1], self.names).eval()
            for key, value in list(layer.named_buffers()):
                if key.endswith("running_mean"):
                    value.normal_(0, 0.3)
                if key.endswith("running_var"):
                    value.uniform_(0.5, 1.5)
            setattr(self.owner, name, layer)
            made.append(f"self.{name} = {match[1]}")
            return f"self.{name}"

        text = re.sub(r"@([^@]*(?:\([^@]*\))?)@(?=\()", module, text) if template.count("@nn") else text
        with torch.no_grad():
            result = eval(text, self.names)
        results = list(result) if isinstance(result, (tuple, list)) else [result]
        for tensor in results:
            if (
                not isinstance(tensor, torch.Tensor)
                or tensor.numel() == 0
                or tensor.numel() > MAX_ELEMENTS
                or tensor.dim() > 5
            ):
                raise Skip
            if tensor.is_floating_point() and (not torch.isfinite(tensor).all() or tensor.abs().max() > 100):
                raise Skip
            if not tensor.is_floating_point() and tensor.dtype != torch.bool and tensor.abs().max() > 10000:
                raise Skip
        names = [f"v{len(self.lines)}" + (f"_{i}" if len(results) > 1 else "") for i in range(len(results))]
        self.lines.append(
            f"{', '.join(names)}{',' if isinstance(result, (tuple, list)) and len(results) == 1 else ''} = {text}"
        )
        self.init += made
        self.used.update(picked)
        in_place = "{t}" in template
        for name, tensor in zip(names, results):
            self.names[name] = tensor
            self.values.append(name)
            # Broadcast tensors and inputs are not written to.
            storage = tensor.untyped_storage().data_ptr()
            is_input = any(storage == t.untyped_storage().data_ptr() for t in self.inputs)
            if tensor.dtype == torch.float32 and (in_place or not is_input) and 0 not in tensor.stride():
                self.in_place.add(name)

    def finish(self):
        outputs = [name for name in self.values if name not in self.used and not name.startswith("x")][-4:]
        inputs = ", ".join(f"x{i}" for i in range(len(self.inputs)))
        body = "\n        ".join(self.lines + [f"return {', '.join(outputs)},"])
        init = "\n        ".join(["super().__init__()"] + self.init)
        source = (
            f"class Program(nn.Module):\n    def __init__(self):\n        {init}\n\n"
            f"    def forward(self, {inputs}):\n        {body}\n"
        )
        space = {"torch": torch, "F": nn.functional, "nn": nn}
        exec(compile(source, "<random program>", "exec"), space)
        program = space["Program"]().eval()
        state = self.owner.state_dict()  # which also holds the modules of statements that failed
        program.load_state_dict({key: state[key] for key in program.state_dict()})
        torch.manual_seed(77)
        return Graph(source, program, tuple(self.sample()), tuple(self.sample()))


def templates_of(text):
    return [
        template.strip() for line in text.strip().splitlines() for template in line.split(" | ") if template.strip()
    ]


def write(seed, number, shapes, templates, count, has_integers):
    writer = Writer(seed, number, shapes, has_integers)
    tries = 0
    while len(writer.lines) < count and tries < 60 * count:
        tries += 1
        template = writer.random.choice(templates)
        before = {name: writer.names[name].clone() for name in writer.in_place} if "{t}" in template else {}
        try:
            writer.add(template)
        except Exception:
            for name, value in before.items():  # undo a half-done write
                with contextlib.suppress(RuntimeError):
                    writer.names[name].copy_(value)
    return writer.finish()


def random_graph(seed, number):
    pick = random.Random(f"float {seed} {number}")
    shapes = pick.choice(
        [
            [(2, 4, 6, 5)],
            [(2, 3, 4), (2, 3, 4)],
            [(3, 6), (3, 6)],
            [(2, 4, 5, 5), (2, 4, 5, 5)],
            [(2, 6, 8)],
            [(1, 2, 4, 4, 4)],
            [(4, 4), (2, 4, 4)],
            [(5,), (4, 5)],
        ]
    )
    return write(seed, number, shapes, templates_of(FLOAT), pick.randint(4, 14), pick.random() < 0.4)


def random_network(seed, number):
    pick = random.Random(f"network {seed} {number}")
    shapes = pick.choice(
        [
            [(2, 3, 10, 10)],
            [(2, 4, 8, 8), (2, 4, 8, 8)],
            [(3, 8), (3, 8)],
            [(2, 6, 8)],
            [(2, 5, 8), (2, 5, 8)],
            [(2, 4, 12, 12)],
            [(1, 8, 6, 6)],
        ]
    )
    templates = templates_of(NETWORK)
    return write(seed, number, shapes, templates + 2 * [t for t in templates if "@nn" in t], pick.randint(3, 9), False)


def random_recipe(seed, number, graph):
    pick = random.Random(f"recipe {seed} {number}")
    modules = re.findall(r"self\.(m\d+) = nn\.(\w+)", graph.source)
    if pick.random() < 0.5:
        config = pick.choice([{}, {}, {}, {"reduce_range": True}, {"is_dynamic": True}])
        recipe = {"quantizer": "X86InductorQuantizer", "global": config}
        if modules and pick.random() < 0.2:
            recipe["module_name"] = [[pick.choice(modules)[0], None]]
        elif modules and pick.random() < 0.2:
            recipe["module_type"] = [[f"torch.nn.{pick.choice(modules)[1]}", pick.choice([None, config])]]
        return recipe
    config = pick.choice(
        [
            {},
            {"is_per_channel": True},
            {"is_per_channel": True},
            {"is_per_channel": True, "is_dynamic": True},
            {"is_dynamic": True},
            {"act_qmin": -64, "act_qmax": 63},
        ]
    )
    recipe = {"quantizer": "XNNPACKQuantizer", "global": config}
    if modules and pick.random() < 0.2:
        recipe["module_name"] = [[pick.choice(modules)[0], {"is_per_channel": pick.random() < 0.5}]]
    return recipe
