"""Trains the float model of the shapes example on images it draws itself and exports it as model.pt2.

    python3 train.py [--seconds 540] [--pool 60000] [--threads 2] [--out model.pt2]

PyTorch 2.6, CPU. Time decides when it ends, so a second run gives another model of about the same accuracy.
"""

import argparse
import math
import multiprocessing
import time

import numpy as np
import torch
from torch import nn

import generate

# The network sees (pixel / 255 - MEAN) / STD, as preprocess.json says too; about the channels' own mean and deviation.
MEAN = [0.5, 0.5, 0.5]
STD = [0.215, 0.215, 0.215]
NUM_CLASSES = len(generate.CLASSES)


def conv_bn(inputs, outputs, kernel, stride=1, groups=1):
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(outputs)]


class Stem(nn.Module):
    """A convolution, then a strided convolution and a max pool side by side, concatenated: halves the image."""

    def __init__(self, width, pooled_width, channels=3):
        super().__init__()
        self.conv = nn.Sequential(*conv_bn(channels, width, 3), nn.ReLU())
        self.down = nn.Sequential(*conv_bn(width, pooled_width, 3, stride=2), nn.ReLU())
        self.pool = nn.MaxPool2d(2)

    def forward(self, x):
        x = self.conv(x)
        return torch.cat([self.down(x), self.pool(x)], 1)


class Separable(nn.Sequential):
    """Depthwise and pointwise convolution, relu6 after each, as in MobileNet v1."""

    def __init__(self, inputs, outputs, stride=1):
        super().__init__(
            *conv_bn(inputs, inputs, 3, stride, groups=inputs), nn.ReLU6(), *conv_bn(inputs, outputs, 1), nn.ReLU6()
        )


class Inverted(nn.Module):
    """Inverted residual with hardswish, as in MobileNet v3."""

    def __init__(self, width, hidden):
        super().__init__()
        self.body = nn.Sequential(
            *conv_bn(width, hidden, 1),
            nn.Hardswish(),
            *conv_bn(hidden, hidden, 3, groups=hidden),
            nn.Hardswish(),
            *conv_bn(hidden, width, 1),
        )

    def forward(self, x):
        return x + self.body(x)


class Residual(nn.Module):
    """Basic residual block, as in ResNet."""

    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(*conv_bn(width, width, 3), nn.ReLU(), *conv_bn(width, width, 3))
        self.relu = nn.ReLU()

    def forward(self, x):
        return self.relu(x + self.body(x))


class ShapeNet(nn.Module):
    """f32 [N, 3, 40, 40] -> logits f32 [N, 16]."""

    def __init__(self, classes=NUM_CLASSES):
        super().__init__()
        self.stem = Stem(16, 32)
        self.separable1 = Separable(48, 64)
        self.separable2 = Separable(64, 72, stride=2)
        self.inverted1 = Inverted(72, 144)
        self.residual = Residual(72)
        self.separable3 = Separable(72, 128, stride=2)
        self.inverted2 = Inverted(128, 256)
        self.head = nn.Sequential(*conv_bn(128, 192, 1), nn.Hardswish())
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(192, classes)

    def forward(self, x):
        x = self.separable1(self.stem(x))  # 20 x 20
        x = self.residual(self.inverted1(self.separable2(x)))  # 10 x 10
        x = self.head(self.inverted2(self.separable3(x)))  # 5 x 5
        return self.classifier(torch.flatten(self.pool(x), 1))


def draw_one(index):
    """A training image. Its haze is thinner than that of the test images, so that they lie where margins are small."""
    return generate.image_of(generate.TRAINING_STREAM, index, hazy=0.65, thickest=0.07)


def draw_pool(count, threads):
    with multiprocessing.Pool(threads) as workers:
        drawn = workers.map(draw_one, range(count), chunksize=256)
    images = torch.from_numpy(np.stack([image for image, _ in drawn])).permute(0, 3, 1, 2).contiguous()
    return images, torch.tensor([label for _, label in drawn])


def normalize(pixels):
    mean, std = torch.tensor(MEAN).view(1, 3, 1, 1), torch.tensor(STD).view(1, 3, 1, 1)
    return (pixels.float() * (1 / 255) - mean) / std


def augment(pixels):
    """Turns, mirrors and recolours a batch: no class depends on handedness, direction or colour."""
    if torch.rand(()) < 0.5:
        pixels = pixels.flip(3)
    pixels = torch.rot90(pixels, int(torch.randint(4, ())), (2, 3))
    pixels = pixels[:, torch.randperm(3)]
    return torch.where(torch.rand(len(pixels), 1, 1, 1) < 0.5, pixels, 255 - pixels)


@torch.no_grad()
def accuracy(model, images, labels):
    model.eval()
    right = sum((model(normalize(x)).argmax(1) == y).sum().item() for x, y in zip(images.split(256), labels.split(256)))
    model.train()
    return 100 * right / len(labels)


def train(model, images, labels, held_out, seconds, batch=96, peak=4e-3):
    """AdamW with one cosine cycle over `seconds` of wall time."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak, weight_decay=0.05)
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.05)
    begin, step, epoch = time.monotonic(), 0, 0
    while (done := (time.monotonic() - begin) / seconds) < 1:
        for rows in torch.randperm(len(images)).split(batch):
            done = min(1.0, (time.monotonic() - begin) / seconds)
            rate = peak * min((step + 1) / 100, 0.5 * (1 + math.cos(math.pi * done)))
            for group in optimizer.param_groups:
                group["lr"] = rate
            inputs = normalize(augment(images[rows])).contiguous(memory_format=torch.channels_last)
            loss = loss_of(model(inputs), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if done >= 1:
                break
        epoch += 1
        print(
            f"epoch {epoch}, {100 * done:.0f} % of the time, loss {loss.item():.3f}, "
            f"held-out top-1 {accuracy(model, *held_out):.1f} %",
            flush=True,
        )


def export(model, example, path):
    """A strict export with a dynamic batch, without example inputs; `example` is a batch of two."""
    model = model.to(memory_format=torch.contiguous_format).eval()
    batch = torch.export.Dim("batch", min=1, max=1024)
    program = torch.export.export_for_training(model, (example,), dynamic_shapes={"x": {0: batch}}, strict=True)
    program._example_inputs = None
    # Stack traces name the folders of the machine that trained, and nothing here reads them.
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)
    torch.export.save(program, path)


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--seconds", type=float, default=540)
    options.add_argument("--pool", type=int, default=60000)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--out", default="model.pt2")
    options = options.parse_args()
    torch.manual_seed(generate.SEED)
    torch.set_num_threads(options.threads)
    images, labels = draw_pool(options.pool + 1600, options.threads)
    held_out = images[options.pool :], labels[options.pool :]
    seen = images[: options.pool].float() / 255
    print("mean", seen.mean((0, 2, 3)).tolist(), "std", seen.std((0, 2, 3)).tolist())
    del seen
    model = ShapeNet().to(memory_format=torch.channels_last)
    print(sum(p.numel() for p in model.parameters()), "parameters", flush=True)
    train(model, images[: options.pool], labels[: options.pool], held_out, options.seconds)
    export(model, torch.zeros(2, 3, generate.SIZE, generate.SIZE), options.out)
