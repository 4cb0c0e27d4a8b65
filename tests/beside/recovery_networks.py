"""Trains small networks of kinds that nothing was tuned for, and holds `--recover` on them beside the others.

  python3 tests/beside/recovery_networks.py make FOLDER [--only NAME]
      In a Python with PyTorch 2.6 and onnx. Draws data, trains each network for a few minutes on one thread, and writes
      FOLDER/NAME/{model.pt2,model.onnx,calib.npz,few.npz,test.npz,labels.npy}; NAME-damaged is the same function with
      channels scaled by 10^-1.5 to 10^1.5 and the weights that read them scaled back. few.npz are 16 samples of the
      100 of calib.npz.
  python3 tests/beside/recovery_networks.py measure FOLDER [--only NAME] [--qdq COMMAND] [--python COMMAND]
      Prints a table in Markdown: accuracy in % of the float model, of PyTorch's PT2E, of ONNX Runtime's quantize_static
      (the best of its calibrators) and of qdq. COMMAND of --python starts a Python with PyTorch and onnxruntime here;
      without it those columns are left out.

Pictures and sounds are drawn, texts are windows of 64 characters of Python's own library, so that its version moves the
numbers of the three networks that read text. Accuracy is that of classes: of pictures, of pixels (unet), of characters
(decoder).
"""

import argparse
import json
import re
import shlex
import sysconfig
from pathlib import Path

from accuracy_beside import BATCH, CALIBRATORS, accuracy, run

try:
    import numpy as np
except ImportError:  # `measure` leaves what needs it to the Python of --python
    np = None

SAMPLES = {"calib": 100, "few": 16}


# Data: each function gives inputs and labels.


def draw_shapes(rng, n, size=16):
    """Pictures [n, 3, size, size] of one of 12 shapes in clutter and noise, labels [n] and masks [n, size, size]."""
    y, x = np.mgrid[:size, :size].astype(np.float32) / size * 2 - 1
    label = rng.integers(0, 12, n)
    one = (n, 1, 1)
    turn = rng.uniform(-0.25, 0.25, one)
    u, v = x[None] - rng.uniform(-0.2, 0.2, one), y[None] - rng.uniform(-0.2, 0.2, one)
    u, v = u * np.cos(turn) - v * np.sin(turn), u * np.sin(turn) + v * np.cos(turn)
    r = rng.uniform(0.6, 0.8, one)
    u, v = u / r, v / r
    d, box = np.hypot(u, v), np.maximum(abs(u), abs(v))
    forms = [
        d < 1,
        (d < 1) & (d > 0.6),
        box < 0.85,
        (box < 0.85) & (box > 0.5),
        (v < 0.7) & (v > 1.8 * abs(u) - 0.9),
        (box < 0.9) & (np.minimum(abs(u), abs(v)) < 0.28),
        (box < 0.8) & (np.minimum(abs(u - v), abs(u + v)) < 0.38),
        (d < 1) & (v < 0.1),
        np.hypot(u, 2.2 * v) < 1,
        np.minimum(np.hypot(u - 0.5, v), np.hypot(u + 0.5, v)) < 0.45,
        (box < 0.85) & (np.sin(9 * u) > 0),
        (box < 0.85) & ((u < -0.3) | (v > 0.3)),
    ]
    mask = np.choose(label[:, None, None], forms)
    colour = rng.uniform(0, 1, (n, 3, 1, 1))
    ground = np.where(abs(colour - 0.5) < 0.25, (colour + 0.5) % 1, 1 - colour)
    slope = rng.uniform(-0.3, 0.3, (n, 3, 1, 1)) * x + rng.uniform(-0.3, 0.3, (n, 3, 1, 1)) * y
    image = np.where(mask[:, None], colour, ground) + slope
    for _ in range(1):
        a, b = rng.uniform(-1, 1, (2, *one))
        line = abs(np.cos(3 * a) * x + np.sin(3 * a) * y - b) < 0.06
        image = np.where(line[:, None], rng.uniform(0, 1, (n, 3, 1, 1)), image)
    image += rng.normal(0, 1, image.shape) * rng.uniform(0.05, 0.3, (n, 1, 1, 1))
    return ((image - 0.5) / 0.3).astype(np.float32), label, np.where(mask, label[:, None, None] + 1, 0)


def shapes(rng, n):
    images, labels, _ = draw_shapes(rng, n)
    return images, labels


def masks(rng, n):
    images, _, classes = draw_shapes(rng, n)
    return images, (classes + 2) // 3  # ground, and four groups of three shapes


def sounds(rng, n, length=1024):
    """Waves [n, 1, length] of two of four chirps each, in noise: 16 classes."""
    t = np.linspace(0, 1, length // 2, dtype=np.float32)
    label = rng.integers(0, 16, n)

    def chirp(kind):
        base, depth = rng.uniform(30, 60, (n, 1)), rng.uniform(15, 30, (n, 1))
        bend = np.choose(kind[:, None], [t, 1 - t, 0.5 + 0 * t, 0.5 + 0.5 * np.sin(12 * np.pi * t)])
        phase = 2 * np.pi * np.cumsum(base + depth * bend, 1) / len(t) + rng.uniform(0, 6.28, (n, 1))
        return np.sin(phase) * abs(np.sin(np.pi * t)) ** 0.5 * rng.uniform(0.3, 1, (n, 1))

    wave = np.concatenate([chirp(label // 4), chirp(label % 4)], 1)
    wave += rng.normal(0, 1, wave.shape) * rng.uniform(0.05, 0.6, (n, 1))
    return wave[:, None].astype(np.float32), label


MODULES = ["argparse", "ast", "decimal", "datetime", "pydoc", "tarfile", "turtle", "typing", "inspect", "subprocess"]


def characters(module):
    names = {"decimal": "_pydecimal", "datetime": "_pydatetime"}
    library = Path(sysconfig.get_path("stdlib"))
    file = next(f for f in (library / f"{names.get(module, module)}.py", library / f"{module}.py") if f.exists())
    return np.minimum(np.frombuffer(file.read_bytes(), np.uint8), 127).astype(np.int64)


def windows(rng, n, length, part):
    """Windows of the modules' texts, by module: of each module's blocks of 1000 every fifth is kept for tests."""
    of = rng.integers(0, len(MODULES), n)
    out = np.zeros((n, length), np.int64)
    texts = [characters(module) for module in MODULES]
    for i, module in enumerate(of):
        blocks = len(texts[module]) // 1000
        kept = [b for b in range(blocks) if (b % 5 == 4) == (part != "train")]
        start = 1000 * kept[rng.integers(len(kept))] + rng.integers(0, 1000 - length)
        out[i] = texts[module][start : start + length]
    return out, of


def texts(rng, n, part):
    return windows(rng, n, 64, part)


def next_characters(rng, n, part):
    text, _ = windows(rng, n, 65, part)
    return text[:, :-1], text[:, 1:]


# Networks. They are made in functions, because only `make` has PyTorch.


def networks():
    import torch
    import torch.nn.functional as F
    from torch import nn

    class Attention(nn.Module):
        def __init__(self, dim, heads, causal=False):
            super().__init__()
            self.heads, self.causal = heads, causal
            self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

        def forward(self, x):
            n, t, d = x.shape
            q, k, v = self.qkv(x).reshape(n, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
            return self.out(y.transpose(1, 2).reshape(n, t, d))

    class ViTBlock(nn.Module):
        def __init__(self, dim, heads):
            super().__init__()
            self.norm1, self.attention, self.norm2 = nn.LayerNorm(dim), Attention(dim, heads), nn.LayerNorm(dim)
            self.fc1, self.fc2 = nn.Linear(dim, 3 * dim), nn.Linear(3 * dim, dim)

        def forward(self, x):
            x = x + self.attention(self.norm1(x))
            return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))

    class ViT(nn.Module):
        """Two residual channels of the first token are massive, as in large trained vision transformers."""

        def __init__(self, dim=48, depth=2, heads=3):
            super().__init__()
            self.patch = nn.Conv2d(3, dim, 4, stride=4)
            self.first = nn.Parameter(torch.zeros(1, 1, dim))
            self.place = nn.Parameter(torch.randn(1, 17, dim) * 0.02)
            massive = torch.zeros(1, 17, dim)
            massive[:, 0, 11], massive[:, 0, 40] = 150, -200
            self.register_buffer("massive", massive)
            self.blocks = nn.Sequential(*(ViTBlock(dim, heads) for _ in range(depth)))
            self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, 12)

        def forward(self, x):
            x = self.patch(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.place + self.massive
            return self.head(self.norm(self.blocks(x)).mean(1))

        def seams(self):
            for block in self.blocks:
                yield [block.norm1], [block.attention.qkv]
                yield [block.norm2], [block.fc1]

    def conv(a, b, k=3, stride=1, groups=1):
        return [nn.Conv2d(a, b, k, stride, k // 2, groups=groups, bias=False), nn.BatchNorm2d(b)]

    class Squeeze(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.pool, self.a, self.b = nn.AdaptiveAvgPool2d(1), nn.Conv2d(c, c // 4, 1), nn.Conv2d(c // 4, c, 1)

        def forward(self, x):
            return x * F.hardsigmoid(self.b(F.relu(self.a(self.pool(x)))))

    class Inverted(nn.Module):
        def __init__(self, a, mid, b, stride, squeeze, act):
            super().__init__()
            self.adds = stride == 1 and a == b
            self.expand = nn.Sequential(*conv(a, mid, 1), act())
            self.depth = nn.Sequential(*conv(mid, mid, 5 if squeeze else 3, stride, mid), act())
            self.squeeze = Squeeze(mid) if squeeze else nn.Identity()
            self.project = nn.Sequential(*conv(mid, b, 1))

        def forward(self, x):
            y = self.project(self.squeeze(self.depth(self.expand(x))))
            return x + y if self.adds else y

    class MobileNetV3(nn.Module):
        def __init__(self):
            super().__init__()
            h, r = nn.Hardswish, nn.ReLU
            self.stem = nn.Sequential(*conv(3, 16, 3, 2), h())
            self.blocks = nn.Sequential(
                Inverted(16, 32, 16, 1, False, r),
                Inverted(16, 64, 24, 2, False, r),
                Inverted(24, 72, 24, 1, False, r),
                Inverted(24, 96, 40, 1, True, h),
                Inverted(40, 120, 40, 1, True, h),
                Inverted(40, 160, 48, 2, True, h),
                Inverted(48, 160, 48, 1, True, h),
            )
            self.last = nn.Sequential(*conv(48, 160, 1), h())
            self.fc1, self.fc2 = nn.Linear(160, 128), nn.Linear(128, 12)

        def forward(self, x):
            x = self.last(self.blocks(self.stem(x))).mean([2, 3])
            return self.fc2(F.hardswish(self.fc1(x)))

        def seams(self):
            blocks = self.blocks
            stages = [[1, 2], [3, 4], [5, 6]]
            for stage in stages:  # what residual sums add up, and what reads them
                end = stage[-1] + 1
                readers = [blocks[i].expand[0] for i in (*stage[1:], end) if i < len(blocks)]
                yield [blocks[i].project[1] for i in stage], readers + ([self.last[0]] if end == len(blocks) else [])
            for i in (0, 1, 2):
                yield [blocks[i].expand[1]], [blocks[i].depth[0]]
                yield [blocks[i].depth[1]], [blocks[i].project[0]]

    class SiluBlock(nn.Module):
        def __init__(self, a, b, stride):
            super().__init__()
            self.norm1, self.conv1 = nn.GroupNorm(8, a), nn.Conv2d(a, b, 3, stride, 1)
            self.norm2, self.conv2 = nn.GroupNorm(8, b), nn.Conv2d(b, b, 3, 1, 1)
            self.skip = nn.Conv2d(a, b, 1, stride) if a != b else nn.Identity()

        def forward(self, x):
            y = self.conv1(F.silu(self.norm1(x)))
            return self.skip(x) + self.conv2(F.silu(self.norm2(y)))

    class SiluResNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Conv2d(3, 16, 3, 1, 1)
            self.blocks = nn.Sequential(
                SiluBlock(16, 16, 1), SiluBlock(16, 32, 2), SiluBlock(32, 32, 1), SiluBlock(32, 64, 2)
            )
            self.norm, self.head = nn.GroupNorm(8, 64), nn.Linear(64, 12)

        def forward(self, x):
            return self.head(F.silu(self.norm(self.blocks(self.stem(x)))).mean([2, 3]))

    def twice(a, b):
        return nn.Sequential(*conv(a, b), nn.ReLU(), *conv(b, b), nn.ReLU())

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.d1, self.d2, self.d3 = twice(3, 12), twice(12, 24), twice(24, 48)
            self.u2, self.c2 = nn.ConvTranspose2d(48, 24, 2, 2), twice(48, 24)
            self.u1, self.c1 = nn.ConvTranspose2d(24, 12, 2, 2), twice(24, 12)
            self.out = nn.Conv2d(12, 5, 1)

        def forward(self, x):
            a = self.d1(x)
            b = self.d2(F.max_pool2d(a, 2))
            c = self.d3(F.max_pool2d(b, 2))
            b = self.c2(torch.cat([self.u2(c), b], 1))
            return self.out(self.c1(torch.cat([self.u1(b), a], 1)))

        def seams(self):
            for part in (self.d1, self.d2, self.d3, self.c2, self.c1):
                yield [part[1]], [part[3]]
            yield [self.c1[4]], [self.out]

    class ConvNeXtBlock(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.depth, self.norm = nn.Conv2d(c, c, 5, 1, 2, groups=c), nn.LayerNorm(c)
            self.fc1, self.fc2 = nn.Linear(c, 4 * c), nn.Linear(4 * c, c)
            self.scale = nn.Parameter(0.1 * torch.ones(c))

        def forward(self, x):
            y = self.norm(self.depth(x).permute(0, 2, 3, 1))
            return x + (self.scale * self.fc2(F.gelu(self.fc1(y)))).permute(0, 3, 1, 2)

    class ConvNeXt(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Conv2d(3, 24, 2, 2)
            self.norm0 = nn.LayerNorm(24)
            self.stage1 = nn.Sequential(*(ConvNeXtBlock(24) for _ in range(2)))
            self.norm1, self.down = nn.LayerNorm(24), nn.Conv2d(24, 48, 2, 2)
            self.stage2 = nn.Sequential(*(ConvNeXtBlock(48) for _ in range(1)))
            self.norm, self.head = nn.LayerNorm(48), nn.Linear(48, 12)

        @staticmethod
        def over_channels(norm, x):
            return norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

        def forward(self, x):
            x = self.stage1(self.over_channels(self.norm0, self.stem(x)))
            x = self.stage2(self.down(self.over_channels(self.norm1, x)))
            return self.head(self.norm(x.mean([2, 3])))

        def seams(self):
            for block in (*self.stage1, *self.stage2):
                yield [block.norm], [block.fc1]
            yield [self.norm1], [self.down]

    class Sounds(nn.Module):
        def __init__(self):
            super().__init__()
            layers = [nn.Conv1d(1, 24, 32, 4, 14, bias=False), nn.BatchNorm1d(24), nn.ReLU6()]
            for a, b in ((24, 32), (32, 48), (48, 64)):
                layers += [nn.Conv1d(a, a, 9, 1, 4, groups=a, bias=False), nn.BatchNorm1d(a), nn.ReLU6()]
                layers += [nn.Conv1d(a, b, 1, bias=False), nn.BatchNorm1d(b), nn.ReLU6(), nn.MaxPool1d(2)]
            self.layers = nn.Sequential(*layers)
            self.head = nn.Linear(64 * 4, 16)

        def forward(self, x):
            return self.head(F.adaptive_avg_pool1d(self.layers(x), 4).flatten(1))

    class PostBlock(nn.Module):
        def __init__(self, dim, heads):
            super().__init__()
            self.attention, self.norm1, self.norm2 = Attention(dim, heads), nn.LayerNorm(dim), nn.LayerNorm(dim)
            self.fc1, self.fc2 = nn.Linear(dim, 3 * dim), nn.Linear(3 * dim, dim)

        def forward(self, x):
            x = self.norm1(x + self.attention(x))
            return self.norm2(x + self.fc2(F.relu(self.fc1(x))))

    class Encoder(nn.Module):
        def __init__(self, dim=64):
            super().__init__()
            self.embed = nn.Embedding(128, dim)
            self.place = nn.Parameter(torch.randn(1, 64, dim) * 0.02)
            self.mix = nn.Conv1d(dim, dim, 5, 1, 2)
            self.norm = nn.LayerNorm(dim)
            self.blocks = nn.Sequential(PostBlock(dim, 4), PostBlock(dim, 4))
            self.head = nn.Linear(dim, len(MODULES))

        def forward(self, x):
            x = self.embed(x)
            x = x + F.relu(self.mix(x.transpose(1, 2))).transpose(1, 2) + self.place
            return self.head(self.blocks(self.norm(x)).amax(1))

        def seams(self):
            for block in self.blocks:
                yield [block.fc1], [block.fc2]

    class RMS(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(dim))

        def forward(self, x):
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight

    class SwiGluBlock(nn.Module):
        def __init__(self, dim, heads):
            super().__init__()
            self.norm1, self.attention, self.norm2 = RMS(dim), Attention(dim, heads, causal=True), RMS(dim)
            self.gate, self.up = nn.Linear(dim, 2 * dim, bias=False), nn.Linear(dim, 2 * dim, bias=False)
            self.down = nn.Linear(2 * dim, dim, bias=False)

        def forward(self, x):
            x = x + self.attention(self.norm1(x))
            y = self.norm2(x)
            return x + self.down(F.silu(self.gate(y)) * self.up(y))

    class Decoder(nn.Module):
        def __init__(self, dim=64, depth=2):
            super().__init__()
            self.embed = nn.Embedding(128, dim)
            self.place = nn.Parameter(torch.randn(1, 64, dim) * 0.02)
            self.blocks = nn.Sequential(*(SwiGluBlock(dim, 4) for _ in range(depth)))
            self.norm, self.head = RMS(dim), nn.Linear(dim, 128, bias=False)

        def forward(self, x):
            return self.head(self.norm(self.blocks(self.embed(x) + self.place)))

        def seams(self):
            for block in self.blocks:
                yield [block.norm1], [block.attention.qkv]
                yield [block.norm2], [block.gate, block.up]
                yield [block.up], [block.down]

    class Lstm(nn.Module):
        def __init__(self, dim=64):
            super().__init__()
            self.embed, self.lstm = nn.Embedding(128, 32), nn.LSTM(32, dim, num_layers=1, batch_first=True)
            self.fc, self.head = nn.Linear(dim, 64), nn.Linear(64, len(MODULES))

        def forward(self, x):
            return self.head(F.relu(self.fc(self.lstm(self.embed(x))[0].amax(1))))

    # Class, data, steps of training, samples of a step, test samples.
    return {
        "vit-massive": (ViT, shapes, 900, 16, 2000),
        "mobilenet-v3": (MobileNetV3, shapes, 400, 32, 2000),
        "silu-resnet": (SiluResNet, shapes, 400, 32, 2000),
        "unet": (UNet, masks, 400, 32, 300),
        "convnext": (ConvNeXt, shapes, 500, 32, 2000),
        "sounds-conv1d": (Sounds, sounds, 900, 32, 2000),
        "encoder-post-norm": (Encoder, texts, 500, 32, 2000),
        "decoder-swiglu": (Decoder, next_characters, 350, 16, 200),
        "lstm": (Lstm, texts, 900, 32, 2000),
    }


def make(folder, only):
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(1)
    for name, (network, data, steps, batch, tests) in networks().items():
        if only and name not in only:
            continue
        torch.manual_seed(0)
        rng = np.random.default_rng(0)
        reads_text = data in (texts, next_characters)

        def draw(n, part, rng=rng, data=data, reads_text=reads_text):
            return data(rng, n, part) if reads_text else data(rng, n)

        net = network()
        optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=0.01)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps)
        for step in range(steps):
            x, y = (torch.from_numpy(np.ascontiguousarray(a)) for a in draw(batch, "train"))
            out = net(x)
            loss = F.cross_entropy(
                out.flatten(0, -2) if data is next_characters else out, y.flatten() if data is next_characters else y
            )
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            if step % 100 == 99:
                print(name, step + 1, f"{loss.item():.3f}", flush=True)
        net.eval()
        calib, (test, labels) = draw(SAMPLES["calib"], "test")[0], draw(tests, "test")
        export(net, folder / name, calib, test, labels)
        if hasattr(net, "seams"):
            damage(net, rng)
            export(net, folder / f"{name}-damaged", calib, test, labels)


def damage(net, rng):
    """Scales the channels that producers give, and back the weights of those that read them: the same function."""
    import torch

    with torch.no_grad():
        for producers, readers in net.seams():
            by = torch.from_numpy(10 ** rng.uniform(-1.5, 1.5, len(producers[0].weight))).float()
            for producer in producers:
                producer.weight.mul_(by.reshape(-1, *[1] * (producer.weight.dim() - 1)))
                if getattr(producer, "bias", None) is not None:
                    producer.bias.mul_(by)
            for reader in readers:
                if reader.weight.shape[1] == 1:  # depthwise
                    reader.weight.div_(by.reshape(-1, *[1] * (reader.weight.dim() - 1)))
                else:
                    reader.weight.div_(by.reshape(1, -1, *[1] * (reader.weight.dim() - 2)))


def export(net, folder, calib, test, labels):
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    example = (torch.from_numpy(calib[:2]),)
    dynamic = {"x": {0: torch.export.Dim("batch", min=1, max=4096)}}
    with torch.no_grad():
        torch.export.save(torch.export.export(net, example, dynamic_shapes=dynamic), folder / "model.pt2")
        torch.onnx.export(
            net,
            example,
            folder / "model.onnx",
            opset_version=17,
            dynamo=False,
            input_names=["x"],
            dynamic_axes={"x": {0: "batch"}},
        )
    np.savez(folder / "calib.npz", calib)
    np.savez(folder / "few.npz", calib[: SAMPLES["few"]])
    np.savez(folder / "test.npz", test)
    np.save(folder / "labels.npy", labels.astype(np.int64))
    with torch.no_grad():
        answers = torch.cat([net(torch.from_numpy(test[i : i + 50])) for i in range(0, len(test), 50)]).numpy()
    print(folder.name, f"{accuracy(answers, labels):.2f}", flush=True)


# Measures.

QDQ_RUNS = {  # column: words of `qdq quantize`
    "XNNPACK": [],
    "XNNPACK --recover": ["--recover"],
    "X86": ["--quantizer", "x86-inductor"],
    "X86 --recover": ["--quantizer", "x86-inductor", "--recover"],
    "few, XNNPACK": [],
    "few, XNNPACK --recover": ["--recover"],
    "few, X86 --recover": ["--quantizer", "x86-inductor", "--recover"],
    "4 bits": ["--weight-bits", "4"],
    "4 bits --recover": ["--weight-bits", "4", "--recover"],
}
OTHERS = ["PyTorch XNNPACK", "PyTorch X86", *(f"ONNX Runtime {c}" for c in CALIBRATORS)]


def run_qdq(folder, qdq):
    for column, words in QDQ_RUNS.items():
        file = folder / (re.sub(r"\W+", "-", column) + ".pt2")
        samples = folder / ("few.npz" if column.startswith("few") else "calib.npz")
        calibrate = ["--calibrate", str(samples), "--batch-size", str(BATCH)]
        text = run([*qdq, "quantize", str(folder / "model.pt2"), *calibrate, *words, "-o", str(file)])
        file.with_suffix(".txt").write_text(text)
        run([*qdq, "run", str(file), "--inputs", str(folder / "test.npz"), "-o", str(file.with_suffix(".npz"))])


def score(folder):
    """In a Python with numpy: the accuracies of what run_qdq left, as JSON."""
    labels = np.load(folder / "labels.npy")
    out = {}
    for column in QDQ_RUNS:
        found = np.load(folder / (re.sub(r"\W+", "-", column) + ".npz"))["output_0"]
        out[column] = accuracy(found, labels)
    (folder / "qdq.json").write_text(json.dumps(out))


def measure(folder, only, qdq, python):
    columns = ["float", *OTHERS, *QDQ_RUNS]
    print("| model | " + " | ".join(columns) + " |\n|" + "---|" * (len(columns) + 1), flush=True)
    for model in sorted(folder.glob("*/model.pt2")):
        at = model.parent
        if only and at.name not in only:
            continue
        run_qdq(at, qdq)
        run([*python, "tests/beside/recovery_networks.py", "score", str(at)])
        if not (at / "beside.json").exists():  # does not depend on qdq
            run([*python, "tests/beside/accuracy_beside.py", str(folder), "--measure", str(at)])
        found = json.loads((at / "beside.json").read_text()) | json.loads((at / "qdq.json").read_text())
        cells = [f"{found[c]:.2f}" if isinstance(found[c], float) else "–" for c in columns]
        print(f"| {at.name} | " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("stage", choices=["make", "measure", "score"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", action="append")
    parser.add_argument("--qdq", default="./dev qdq")
    parser.add_argument("--python", default="python3")
    options = parser.parse_args()
    if options.stage == "make":
        make(options.folder, options.only)
    elif options.stage == "score":
        score(options.folder)
    else:
        measure(options.folder, options.only, shlex.split(options.qdq), shlex.split(options.python))


if __name__ == "__main__":
    main()
