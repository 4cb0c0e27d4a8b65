"""Trains the float model of the clothing example and exports it as model.pt2.

    python3 train.py [--data /usr/share/datasets/fashion-mnist] [--epochs 8] [--threads 2] [--out model.pt2]

PyTorch 2.6, CPU. The network has the parts of the shapes example's network, at less than half their width.
"""

import argparse
import importlib.util
import math
import sys
import zipfile
from pathlib import Path

import torch
from photographs import CLASSES, SIZE, SPLITS, first_of_each_class, read_part
from torch import nn

HERE = Path(__file__).parent
# What preprocess.json says too: x = (pixel / 255 - MEAN) / STD.
MEAN, STD = 0.286, 0.353


def module_of(path):
    """A script as a module, although it shares its name with this one."""
    sys.path.append(str(path.parent))  # it imports what lies beside it
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where the strict export finds what its classes use
    spec.loader.exec_module(module)
    return module


shapes = module_of(HERE.parent / "shapes/train.py")


class ClothingNet(nn.Module):
    """f32 [N, 1, 28, 28] -> logits f32 [N, 10]."""

    def __init__(self):
        super().__init__()
        self.stem = shapes.Stem(8, 16, channels=1)
        self.separable1 = shapes.Separable(24, 32)
        self.separable2 = shapes.Separable(32, 40, stride=2)
        self.inverted1 = shapes.Inverted(40, 80)
        self.residual = shapes.Residual(40)
        self.separable3 = shapes.Separable(40, 64, stride=2)
        self.inverted2 = shapes.Inverted(64, 128)
        self.head = nn.Sequential(*shapes.conv_bn(64, 96, 1), nn.Hardswish())
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(96, len(CLASSES))

    def forward(self, x):
        x = self.separable1(self.stem(x))  # 14 x 14
        x = self.residual(self.inverted1(self.separable2(x)))  # 7 x 7
        x = self.head(self.inverted2(self.separable3(x)))  # 4 x 4
        return self.classifier(torch.flatten(self.pool(x), 1))


def augment(pixels):
    """Mirrors half of a batch and moves it by up to two pixels."""
    pixels = torch.where(torch.rand(len(pixels), 1, 1, 1) < 0.5, pixels, pixels.flip(3))
    down, right = torch.randint(5, (2,)).tolist()
    return nn.functional.pad(pixels, (2, 2, 2, 2))[:, :, down : down + SIZE, right : right + SIZE]


def normalize(pixels):
    return (pixels.float() * (1 / 255) - MEAN) / STD


@torch.no_grad()
def accuracy(model, images, labels):
    model.eval()
    right = sum((model(normalize(x)).argmax(1) == y).sum().item() for x, y in zip(images.split(500), labels.split(500)))
    model.train()
    return 100 * right / len(labels)


def train(model, images, labels, epochs, batch=128, peak=4e-3):
    """AdamW with one cosine cycle."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak, weight_decay=0.05)
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.05)
    steps = epochs * math.ceil(len(images) / batch)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimizer, peak, total_steps=steps, pct_start=0.1)
    for epoch in range(epochs):
        for rows in torch.randperm(len(images)).split(batch):
            inputs = normalize(augment(images[rows])).contiguous(memory_format=torch.channels_last)
            loss = loss_of(model(inputs), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rate.step()
        print(f"epoch {epoch + 1} of {epochs}, loss {loss.item():.3f}", flush=True)


def deflate(path):
    """Writes a .pt2 anew with deflated members, which torch.export.load reads as well."""
    with zipfile.ZipFile(path) as stored:
        members = [(info.filename, stored.read(info)) for info in stored.infolist()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as deflated:
        for name, data in members:
            deflated.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)


def part_of(folder, part):
    images, labels = read_part(folder, part)
    return torch.from_numpy(images.copy()).unsqueeze(1), torch.from_numpy(labels.astype("int64"))


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    options.add_argument("--epochs", type=int, default=8)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--out", default=HERE / "model.pt2")
    options = options.parse_args()
    torch.manual_seed(20261128)
    torch.set_num_threads(options.threads)
    images, labels = part_of(options.data, "train")
    kept = torch.ones(len(images), dtype=torch.bool)
    kept[first_of_each_class(labels.numpy(), SPLITS["calibration"][1])] = False
    model = ClothingNet().to(memory_format=torch.channels_last)
    print(sum(p.numel() for p in model.parameters()), "parameters", flush=True)
    train(model, images[kept], labels[kept], options.epochs)
    print(f"top-1 on the 10,000 photographs of the test part: {accuracy(model, *part_of(options.data, 't10k')):.2f} %")
    shapes.export(model, torch.zeros(2, 1, SIZE, SIZE), options.out)
    deflate(options.out)
