"""Writes tests/golden/bf16: two small random networks, float and quantized, and what PyTorch 2.6 computes of them in
float32 and in bfloat16.

Run with PyTorch 2.6 in this folder: python3 make_bf16.py. NAME.pt2 is the exported model, NAME.int8.pt2 what
convert_pt2e makes of it with the X86 recipe; bf16.json has their inputs, their outputs and those under
torch.autocast("cpu", torch.bfloat16), of the int8 ones compiled by Inductor too, which is int8-mixed-bf16: integers are
multiplied as they are, where the graph alone rounds dequantized activations and weights first.
"""

import json
import pathlib
import sys

import torch
import torch._inductor.config
import torch.nn.functional as F
from torch import nn
from torch.ao.quantization.quantize_pt2e import convert_pt2e, prepare_pt2e
from torch.ao.quantization.quantizer import x86_inductor_quantizer as x86

from pt2_layout import save_without_traces

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "beside"))
from positional import positional

OUT = pathlib.Path(__file__).parent / "bf16"
torch.set_num_threads(1)


class Mobile(nn.Module):
    """Depthwise and pointwise convolutions, squeeze and excitation, a residual sum, pools."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.deep = nn.Sequential(nn.Conv2d(16, 16, 3, 1, 1, groups=16, bias=False), nn.BatchNorm2d(16), nn.Hardswish())
        self.down, self.up = nn.Conv2d(16, 8, 1), nn.Conv2d(8, 16, 1)
        self.narrow = nn.Sequential(nn.Conv2d(16, 16, 1, bias=False), nn.BatchNorm2d(16))
        self.classes = nn.Linear(16, 10)

    def forward(self, x):
        x = self.stem(x)
        y = self.deep(x)
        gate = F.hardsigmoid(self.up(F.relu(self.down(y.mean((2, 3), keepdim=True)))))
        x = F.max_pool2d(x + self.narrow(y * gate), 2)
        return self.classes(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Transformer(nn.Module):
    """One block after the norm, as in ViT."""

    def __init__(self):
        super().__init__()
        self.embed, self.qkv, self.out = nn.Linear(12, 32), nn.Linear(32, 96), nn.Linear(32, 32)
        self.first, self.second = nn.LayerNorm(32), nn.LayerNorm(32)
        self.wide, self.narrow = nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x):
        x = self.embed(x)
        q, k, v = self.qkv(self.first(x)).view(2, 6, 3, 4, 8).permute(2, 0, 3, 1, 4).unbind(0)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 6, 32))
        return x + self.narrow(F.gelu(self.wide(self.second(x))))


def inductor_outputs_of(model, x):
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16), torch._inductor.config.patch(freezing=True):
        return torch.compile(model)(x).float().flatten().tolist()


def outputs_of(model, x):
    with torch.no_grad():
        plain = model(x)
        with torch.autocast("cpu", torch.bfloat16):
            return {
                "f32": plain.flatten().tolist(),
                "bf16": model(x).float().flatten().tolist(),
                "shape": list(plain.shape),
            }


def main():
    OUT.mkdir(exist_ok=True)
    torch.manual_seed(5)
    facts = {}
    for name, model, x in (
        ("mobile", Mobile(), torch.randn(2, 3, 16, 16)),
        ("transformer", Transformer(), torch.randn(2, 6, 12)),
    ):
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                nn.init.uniform_(module.weight, 0.5, 1.5), nn.init.uniform_(module.bias, -0.5, 0.5)
                nn.init.uniform_(module.running_mean, -0.5, 0.5), nn.init.uniform_(module.running_var, 0.5, 1.5)
        program = torch.export.export_for_training(model.eval(), (x,), strict=True)
        save_without_traces(program, OUT / f"{name}.pt2")
        quantizer = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config())
        prepared = prepare_pt2e(positional(program.module()), quantizer)
        with torch.no_grad():
            prepared(x)
        converted = convert_pt2e(prepared)
        save_without_traces(torch.export.export_for_training(converted, (x,), strict=False), OUT / f"{name}.int8.pt2")
        facts[name] = {
            "input": x.flatten().tolist(),
            "input_shape": list(x.shape),
            "float": outputs_of(model, x),
            "int8": outputs_of(converted, x) | {"inductor": inductor_outputs_of(converted, x)},
        }
        print(
            {
                kind: max(abs(a - b) for a, b in zip(facts[name][kind]["f32"], facts[name][kind]["bf16"]))
                for kind in ("float", "int8")
            }
        )
    (OUT / "bf16.json").write_text(json.dumps(facts) + "\n")


main()
