"""Transformers of the kinds that people export, for tests/beside/export_networks.py."""

import math

import torch
from torch import nn
from torch.nn import functional as F

WORDS, WIDTH, HEADS = 500, 64, 4


def image(channels=3, size=64, batch=2):
    return torch.randn(batch, channels, size, size)


def ids(length=12, batch=2):
    return torch.randint(1, WORDS, (batch, length))


def split(x):
    return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)


def join(x):
    return x.transpose(1, 2).flatten(2)


class Attention(nn.Module):
    """Attention by PyTorch's operator, over itself or another sequence."""

    def __init__(self, width=WIDTH):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x, other=None, mask=None, is_causal=False):
        other = x if other is None else other
        q, k, v = split(self.q(x)), split(self.k(other)), split(self.v(other))
        return self.out(join(F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=is_causal)))


class Block(nn.Module):
    def __init__(self, width=WIDTH, is_causal=False):
        super().__init__()
        self.attention, self.is_causal = Attention(width), is_causal
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, mask=None):
        x = x + self.attention(self.norms[0](x), mask=mask, is_causal=self.is_causal)
        return x + self.mlp(self.norms[1](x))


class Vit(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 16, 16)
        self.token, self.places = (nn.Parameter(torch.randn(1, n, WIDTH)) for n in (1, 17))
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


class WhisperEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv1d(40, WIDTH, 3, padding=1), nn.Conv1d(WIDTH, WIDTH, 3, 2, padding=1)])
        self.places = nn.Parameter(torch.randn(200, WIDTH))
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, mel):
        for conv in self.convs:
            mel = F.gelu(conv(mel))
        x = mel.permute(0, 2, 1)
        x = x + self.places[: x.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


class WhisperDecoder(nn.Module):
    """One step with a cache, which grows: cross attention, and a mask of what lies before."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Parameter(torch.randn(64, WIDTH))
        self.qkv, self.out, self.cross = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), Attention()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))

    def forward(self, ids, encoded, past_key, past_value):
        past = past_key.shape[2]
        places = torch.arange(past, past + ids.shape[1])
        x = self.words(ids) + self.places[places]
        q, k, v = self.qkv(self.norms[0](x)).chunk(3, -1)
        key, value = torch.cat([past_key, split(k)], 2), torch.cat([past_value, split(v)], 2)
        mask = torch.arange(key.shape[2])[None, :] <= places[:, None]
        x = x + self.out(join(F.scaled_dot_product_attention(split(q), key, value, attn_mask=mask)))
        x = x + self.cross(self.norms[1](x), encoded)
        return self.norms[2](x) @ self.words.weight.T, key, value


class Llama(nn.Module):
    """RMS norm, rotary embedding, grouped queries, SwiGLU, a float mask."""

    def __init__(self, has_cache):
        super().__init__()
        self.words, self.has_cache = nn.Embedding(WORDS, WIDTH), has_cache
        self.qkv, self.out = nn.Linear(WIDTH, 2 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate, self.up = (nn.Linear(WIDTH, 160, bias=False) for _ in range(2))
        self.down, self.head = nn.Linear(160, WIDTH, bias=False), nn.Linear(WIDTH, WORDS, bias=False)
        self.scales = nn.ParameterList(torch.rand(WIDTH) + 0.5 for _ in range(3))
        self.register_buffer("frequencies", 1.0 / 10000 ** (torch.arange(0, 16, 2) / 16))

    def norm(self, x, i):
        variance = x.to(torch.float32).pow(2).mean(-1, keepdim=True)
        return self.scales[i] * (x * torch.rsqrt(variance + 1e-6))

    def rotate(self, x, cos, sin):
        first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
        return x * cos + torch.cat((-second, first), dim=-1) * sin

    def forward(self, ids, past_key=None, past_value=None):
        past = past_key.shape[2] if self.has_cache else 0
        batch, length = ids.shape
        x = self.words(ids)
        q, k, v = self.qkv(self.norm(x, 0)).split([WIDTH, WIDTH // 2, WIDTH // 2], dim=-1)
        q, k, v = (t.view(batch, length, -1, 16).transpose(1, 2) for t in (q, k, v))
        places = torch.arange(past, past + length).unsqueeze(0)
        angles = (self.frequencies[None, :, None] @ places[:, None, :].float()).transpose(1, 2)
        angles = torch.cat((angles, angles), dim=-1)
        cos, sin = angles.cos()[:, None], angles.sin()[:, None]
        q, k = self.rotate(q, cos, sin), self.rotate(k, cos, sin)
        if self.has_cache:
            k, v = torch.cat([past_key, k], 2), torch.cat([past_value, v], 2)
        keys, values = (t[:, :, None].expand(-1, -1, 2, -1, -1).reshape(batch, 4, -1, 16) for t in (k, v))
        mask = torch.full((length, k.shape[2]), torch.finfo(torch.float32).min)
        mask = mask * (torch.arange(k.shape[2]) > places.reshape(-1, 1))
        weights = (q @ keys.transpose(2, 3)) / math.sqrt(16) + mask[None, None, :, :]
        attended = F.softmax(weights, dim=-1, dtype=torch.float32).to(q.dtype) @ values
        x = x + self.out(attended.transpose(1, 2).contiguous().reshape(batch, length, -1))
        y = self.norm(x, 1)
        x = x + self.down(F.silu(self.gate(y)) * self.up(y))
        logits = self.head(self.norm(x, 2))
        return (logits, k, v) if self.has_cache else logits


class StaticCache(nn.Module):
    """A step that writes its key and value at a place of a full cache."""

    def __init__(self, how):
        super().__init__()
        self.words, self.qkv, self.how = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, 3 * WIDTH), how
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, ids, place, keys, values):
        q, k, v = (split(t) for t in self.qkv(self.words(ids)).chunk(3, -1))
        if self.how == "index_put":
            keys, values = keys.clone(), values.clone()
            keys[:, :, place], values[:, :, place] = k, v
        elif self.how == "index_copy":
            keys, values = keys.index_copy(2, place, k), values.index_copy(2, place, v)
        else:
            index = place[None, None, :, None].expand_as(k)
            keys, values = keys.scatter(2, index, k), values.scatter(2, index, v)
        mask = torch.arange(keys.shape[2]) <= place[:, None]
        return self.head(join(F.scaled_dot_product_attention(q, keys, values, attn_mask=mask))), keys, values


class T5(nn.Module):
    """Relative places in buckets, padding by a mask of the smallest number."""

    def __init__(self):
        super().__init__()
        self.words, self.bias, self.head = nn.Embedding(WORDS, WIDTH), nn.Embedding(32, HEADS), nn.Linear(WIDTH, WORDS)
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def buckets(self, length):
        relative = torch.arange(length)[None, :] - torch.arange(length)[:, None]
        buckets = (relative > 0).to(torch.long) * 16
        distance = torch.abs(relative)
        far = 8 + (torch.log(distance.float().clamp(min=1) / 8) / math.log(128 / 8) * 8).to(torch.long)
        return buckets + torch.where(distance < 8, distance, torch.min(far, torch.full_like(far, 15)))

    def forward(self, ids, mask):
        x = self.words(ids)
        scores = torch.matmul(split(self.q(x)), split(self.k(x)).transpose(3, 2))
        scores += self.bias(self.buckets(ids.shape[1])).permute([2, 0, 1]).unsqueeze(0)
        scores += (1.0 - mask[:, None, None, :].to(scores.dtype)) * torch.finfo(scores.dtype).min
        weights = F.softmax(scores.float(), dim=-1).type_as(scores)
        return self.head(x + self.out(join(weights @ split(self.v(x)))))


class Gpt2(nn.Module):
    """A causal mask from a buffer by where, einsum, and the tanh form of GELU spelled out."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(64, WIDTH)
        self.qkv, self.out, self.norm = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)
        self.register_buffer("mask", torch.tril(torch.ones(64, 64, dtype=torch.bool)).view(1, 1, 64, 64))

    def forward(self, ids):
        length = ids.size(-1)
        x = self.words(ids) + self.places(torch.arange(length, dtype=torch.long).unsqueeze(0))
        q, k, v = (t.unflatten(-1, (HEADS, -1)) for t in self.qkv(self.norm(x)).split(WIDTH, dim=2))
        scores = torch.einsum("blhd,bmhd->bhlm", q, k) / 4.0
        scores = torch.where(self.mask[:, :, :length, :length], scores, torch.tensor(-1e4))
        x = x + self.out(torch.einsum("bhlm,bmhd->blhd", scores.softmax(-1), v).flatten(2))
        x = 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))
        return F.log_softmax(x[:, -1] @ self.words.weight.T, dim=-1)


class Roberta(nn.Module):
    """Places counted from the padding by cumsum, masks by masked_fill, the mean over what is there."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH, padding_idx=1)
        self.places = nn.Embedding(64, WIDTH, padding_idx=1)
        self.block = Block()

    def forward(self, ids):
        there = ids.ne(1).int()
        places = (torch.cumsum(there, dim=1).type_as(there) * there).long() + 1
        x = self.words(ids) + self.places(places)
        mask = torch.zeros(ids.shape).masked_fill(there == 0, float("-inf"))[:, None, None, :]
        x = self.block(x, mask.expand(-1, HEADS, ids.shape[1], -1))
        weight = there.unsqueeze(-1).float()
        return F.normalize((x * weight).sum(1) / weight.sum(1).clamp(min=1e-9), p=2, dim=1)


class Clip(nn.Module):
    """Two towers; the text's place is where its largest word stands."""

    def __init__(self):
        super().__init__()
        self.vision, self.words, self.block = Vit(), nn.Embedding(WORDS, WIDTH), Block(is_causal=True)
        self.project, self.scale = nn.Parameter(torch.randn(WIDTH, 10)), nn.Parameter(torch.tensor(2.6592))

    def forward(self, pixels, ids):
        seen = self.vision(pixels)
        x = self.block(self.words(ids))
        said = x[torch.arange(x.shape[0]), ids.to(torch.int).argmax(dim=-1)] @ self.project
        seen, said = (t / t.norm(p=2, dim=-1, keepdim=True) for t in (seen, said))
        return self.scale.exp() * said @ seen.t()


class Experts(nn.Module):
    """A layer of experts: the best two of four, by topk, one_hot and index_add."""

    def __init__(self):
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(WIDTH, 4), *(nn.Parameter(torch.randn(4, WIDTH, WIDTH)) for _ in "ab")

    def forward(self, x):
        weights, chosen = torch.topk(self.gate(x).softmax(-1), 2, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        dense = torch.zeros(*x.shape[:2], 4).scatter_(-1, chosen, weights)
        uses = F.one_hot(chosen, 4).sum(2)
        y = torch.einsum("ebli,eio->eblo", F.silu(torch.einsum("bli,eio->eblo", x, self.up)), self.down)
        return torch.einsum("eblo,ble->blo", y, dense), uses


class Conformer(nn.Module):
    """Gated linear units, depthwise convolution over time, attention with shifted relative places."""

    def __init__(self):
        super().__init__()
        self.inside, self.out = nn.Conv1d(WIDTH, 2 * WIDTH, 1), nn.Conv1d(WIDTH, WIDTH, 1)
        self.depth, self.bn = nn.Conv1d(WIDTH, WIDTH, 15, padding=7, groups=WIDTH), nn.BatchNorm1d(WIDTH)
        self.q, self.k, self.v, self.p = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.u, self.w = (nn.Parameter(torch.randn(HEADS, 16)) for _ in range(2))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x):
        batch, length = x.shape[0], x.shape[1]
        y = F.glu(self.inside(self.norm(x).transpose(1, 2)), dim=1)
        x = x + self.out(F.silu(self.bn(self.depth(y)))).transpose(1, 2)
        steps = torch.arange(length - 1, -length, -1.0)[:, None] / 10000 ** (torch.arange(0, WIDTH, 2) / WIDTH)
        places = split(self.p(torch.stack([steps.sin(), steps.cos()], -1).flatten(1))[None])
        q, k, v = (part(x).view(batch, length, HEADS, 16) for part in (self.q, self.k, self.v))
        content = torch.matmul((q + self.u).transpose(1, 2), k.permute(0, 2, 3, 1))
        by_place = F.pad(torch.matmul((q + self.w).transpose(1, 2), places.transpose(-2, -1)), (1, 0))
        by_place = by_place.view(batch, HEADS, -1, length)[:, :, 1:].reshape(batch, HEADS, length, -1)
        weights = ((content + by_place[:, :, :, :length]) / 4.0).softmax(-1)
        return x + torch.matmul(weights, v.transpose(1, 2)).transpose(1, 2).reshape(batch, length, WIDTH)


class LinearAttention(nn.Module):
    """Attention without softmax: sums that grow along the sequence."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x):
        q, k, v = (split(t) for t in self.qkv(x).chunk(3, -1))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        sums = torch.cumsum(torch.einsum("bhld,bhle->bhlde", k, v), dim=2)
        norm = 1 / torch.einsum("bhld,bhld->bhl", q, k.cumsum(2) + 1e-6)
        return join(torch.einsum("bhld,bhlde,bhl->bhle", q, sums, norm))


class Mamba(nn.Module):
    """A selective state space, its scan in closed form."""

    def __init__(self):
        super().__init__()
        self.inside, self.conv = nn.Linear(WIDTH, 2 * WIDTH), nn.Conv1d(WIDTH, WIDTH, 4, padding=3, groups=WIDTH)
        self.parts, self.step, self.out = nn.Linear(WIDTH, 36), nn.Linear(4, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.a = nn.Parameter(torch.log(torch.arange(1, 17.0)).repeat(WIDTH, 1))

    def forward(self, x):
        x, gate = self.inside(x).chunk(2, dim=-1)
        x = F.silu(self.conv(x.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2))
        step, b, c = self.parts(x).split([4, 16, 16], dim=-1)
        step = F.softplus(self.step(step))
        decay = torch.einsum("bld,dn->bldn", step, -torch.exp(self.a) * 0.1)
        update = torch.einsum("bld,bln,bld->bldn", step, b, x)
        sums = F.pad(decay[:, 1:].flip(1).cumsum(1).exp().flip(1), (0, 0, 0, 0, 0, 1), value=1.0)
        state = (update * sums).cumsum(1) / (sums + 1e-12)
        return self.out((torch.einsum("bldn,bln->bld", state, c) + x) * F.silu(gate))
