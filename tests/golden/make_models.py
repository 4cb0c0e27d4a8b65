"""Writes tests/golden/models: small random models of the kinds that people quantize, and what PyTorch 2.6 makes of
them.

Run with PyTorch 2.6 in this folder: python3 make_models.py. NAME.pt2 is the exported model; models.json has for each
its inputs, its float output, and for four recipes the targets of the operators of the converted program, in order, with
its output (or the error, where PyTorch refuses).
"""

import json
import operator
import pathlib
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.ao.quantization.quantize_pt2e import convert_pt2e, prepare_pt2e
from torch.ao.quantization.quantizer import x86_inductor_quantizer as x86
from torch.ao.quantization.quantizer import xnnpack_quantizer as xnnpack

from pt2_layout import save_without_traces

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "beside"))
from positional import positional

OUT = pathlib.Path(__file__).parent / "models"
torch.set_num_threads(1)

RECIPES = {
    "xnnpack": {"quantizer": "XNNPACKQuantizer", "global": {"is_per_channel": True}},
    "xnnpack_dynamic": {"quantizer": "XNNPACKQuantizer", "global": {"is_per_channel": True, "is_dynamic": True}},
    "x86": {"quantizer": "X86InductorQuantizer", "global": {}},
    "x86_dynamic": {"quantizer": "X86InductorQuantizer", "global": {"is_dynamic": True}},
}


def quantizer_of(recipe):
    if recipe["quantizer"] == "X86InductorQuantizer":
        return x86.X86InductorQuantizer().set_global(
            x86.get_default_x86_inductor_quantization_config(**recipe["global"])
        )
    return xnnpack.XNNPACKQuantizer().set_global(xnnpack.get_symmetric_quantization_config(**recipe["global"]))


class Attention(nn.Module):
    """Written out, as in BERT."""

    def __init__(self, width, heads):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.heads = heads

    def forward(self, x, mask):
        b, t, c = x.shape
        split = lambda y: y.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        scores = split(self.query(x)) @ split(self.key(x)).transpose(-1, -2) / (c // self.heads) ** 0.5
        y = torch.softmax(scores + mask, -1) @ split(self.value(x))
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(20, 8), nn.Embedding(6, 8)
        self.norm0, self.norm1, self.norm2 = nn.LayerNorm(8), nn.LayerNorm(8), nn.LayerNorm(8)
        self.attention, self.up, self.down, self.head = (
            Attention(8, 2),
            nn.Linear(8, 16),
            nn.Linear(16, 8),
            nn.Linear(8, 3),
        )

    def forward(self, ids, mask):
        hidden = (1.0 - mask[:, None, None, :].to(torch.float32)) * -1e4
        x = self.norm0(self.words(ids) + self.places(torch.arange(ids.shape[1])))
        x = self.norm1(x + self.attention(x, hidden))
        x = self.norm2(x + self.down(F.gelu(self.up(x))))
        return self.head(torch.tanh(x[:, 0]))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(20, 8), nn.Parameter(torch.randn(1, 6, 8) * 0.1)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(8), nn.LayerNorm(8), nn.LayerNorm(8)
        self.qkv, self.out, self.up, self.down = nn.Linear(8, 24), nn.Linear(8, 8), nn.Linear(8, 16), nn.Linear(16, 8)
        self.head = nn.Linear(8, 20, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids):
        x = self.words(ids) + self.places[:, : ids.shape[1]]
        q, k, v = (
            t.reshape(t.shape[0], t.shape[1], 2, 4).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(8, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        x = x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))
        return self.head(self.norm3(x))


class Vit(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches, self.token = nn.Conv2d(3, 8, 4, stride=4), nn.Parameter(torch.zeros(1, 1, 8))
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", batch_first=True, norm_first=True)
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 5)

    def forward(self, image):
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1)
        return self.head(self.norm(self.layer(x))[:, 0])


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.lstm, self.head = (
            nn.Embedding(20, 8),
            nn.LSTM(8, 6, batch_first=True, bidirectional=True),
            nn.Linear(12, 4),
        )

    def forward(self, ids):
        return self.head(torch.relu(self.lstm(self.words(ids))[0]))


class Gru(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.gru, self.head = nn.Linear(5, 8), nn.GRU(8, 6), nn.Linear(6, 3)

    def forward(self, x, state):
        y, last = self.gru(torch.relu(self.first(x)), state)
        return self.head(y), last


class Functional(nn.Module):
    """Activations as functions and methods."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.d = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1), nn.Linear(4, 3)

    def forward(self, x):
        x = F.hardswish(self.b(torch.relu(self.a(x))))
        return self.d(self.c(x).relu().mean((2, 3)))


class Reused(nn.Module):
    """One convolution and one linear, each called twice."""

    def __init__(self):
        super().__init__()
        self.conv, self.fc, self.act = nn.Conv2d(3, 3, 3, padding=1), nn.Linear(3, 3), nn.ReLU()

    def forward(self, x):
        x = self.act(self.conv(self.act(self.conv(x)))).mean((2, 3))
        return self.fc(self.act(self.fc(x)))


def leaves(result):
    return [t.detach() for t in torch.utils._pytree.tree_leaves(result)]


def plain(tensors):
    return [{"dtype": str(t.dtype)[6:], "shape": list(t.shape), "values": t.flatten().tolist()} for t in tensors]


def target_of(node):
    return "operator.getitem" if node.target is operator.getitem else f"torch.ops.{node.target}"


def converted(path, recipe, inputs):
    try:
        prepared = prepare_pt2e(positional(torch.export.load(path).module()), quantizer_of(recipe))
        with torch.no_grad():
            prepared(*inputs)
            program = convert_pt2e(prepared)
            calls = [
                n
                for n in program.graph.nodes
                if n.op == "call_function" and (n.users or n.target is not operator.getitem)
            ]
            return {"targets": [target_of(n) for n in calls], "outputs": plain(leaves(program(*inputs)))}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def main():
    OUT.mkdir(exist_ok=True)
    for old in OUT.iterdir():
        old.unlink()
    ids, image = torch.randint(0, 20, (2, 6)), torch.randn(2, 3, 8, 8)
    models = {
        "bert": (Bert(), (ids, torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])), True),
        "gpt": (Gpt(), (ids,), True),
        "vit": (Vit(), (image,), True),
        "lstm": (Lstm(), (ids,), True),
        "gru": (Gru(), (torch.randn(5, 2, 5), torch.zeros(1, 2, 6)), True),
        "functional": (Functional(), (image,), True),
        "reused": (Reused(), (image,), True),
        "vit_non_strict": (Vit(), (image,), False),
        "functional_non_strict": (Functional(), (image,), False),
    }
    facts = {}
    for name, (model, inputs, strict) in models.items():
        path = OUT / f"{name}.pt2"
        program = torch.export.export_for_training(model.eval(), inputs, strict=strict)
        save_without_traces(program, path)
        with torch.no_grad():
            outputs = leaves(program.module()(*inputs))
        recipes = {key: {"recipe": recipe} | converted(path, recipe, inputs) for key, recipe in RECIPES.items()}
        facts[name] = {"inputs": plain(inputs), "outputs": plain(outputs), "recipes": recipes}
        print(
            name,
            path.stat().st_size,
            {k: v.get("error", sum("dequantize" in t for t in v.get("targets", []))) for k, v in recipes.items()},
        )
    (OUT / "models.json").write_text(json.dumps(facts) + "\n")


torch.manual_seed(9)
main()
