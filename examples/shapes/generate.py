"""Draws the images of the shapes example: sixteen shapes, 40x40 RGB, under clutter, noise, low contrast and occlusion.

    python3 generate.py [FOLDER]

writes FOLDER/calibration (128 images) and FOLDER/test (384 images), each with a labels.csv (`file,label`), and
classes.txt. An image depends only on (SEED, stream, index), never on how many others were drawn; train.py draws its
own images with the same `image_of`.
"""

import csv
import math
import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

CLASSES = [
    "triangle",
    "square",
    "pentagon",
    "hexagon",
    "disc",
    "ring",
    "crescent",
    "half_disc",
    "star5",
    "star6",
    "cross",
    "tee",
    "arrow",
    "stripes",
    "checks",
    "spiral",
]
SIZE = 40
SEED = 20261120
# The splits are streams of random numbers of their own, so that no image of one can turn up in another.
SPLITS = {"calibration": (1, 128), "test": (2, 384)}
TRAINING_STREAM = 3

SUPERSAMPLING = 3
CANVAS = SIZE * SUPERSAMPLING


def polygon(corners, phase=0.0, radius=1.0):
    angles = [phase + 2 * math.pi * i / corners for i in range(corners)]
    return [(radius * math.cos(a), radius * math.sin(a)) for a in angles]


def star(points, inner):
    outer_points, inner_points = polygon(points), polygon(points, math.pi / points, inner)
    return [p for pair in zip(outer_points, inner_points) for p in pair]


def box(left, top, right, bottom):
    return [(left, top), (right, top), (right, bottom), (left, bottom)]


def arc(start, stop, radius=1.0, steps=40):
    angles = [start + (stop - start) * i / steps for i in range(steps + 1)]
    return [(radius * math.cos(a), radius * math.sin(a)) for a in angles]


def parts_of(name, rng):
    """The shape inside the unit circle: polygons that are filled (1) or cut out (0), or ("line", points, width)."""
    if name in ("triangle", "square", "pentagon", "hexagon"):
        corners = {"triangle": 3, "square": 4, "pentagon": 5, "hexagon": 6}[name]
        hole = [] if rng.random() < 0.5 else [(0, polygon(corners, radius=rng.uniform(0.5, 0.7)))]
        return [(1, polygon(corners))] + hole
    if name == "disc":
        return [(1, polygon(48))]
    if name == "ring":
        return [(1, polygon(48)), (0, polygon(48, radius=rng.uniform(0.45, 0.72)))]
    if name == "crescent":
        shift = rng.uniform(0.35, 0.6)
        return [(1, polygon(48)), (0, [(x * 0.9 + shift, y * 0.9) for x, y in polygon(48)])]
    if name == "half_disc":
        return [(1, [(x, y - 0.35) for x, y in arc(0, math.pi)])]
    if name == "star5":
        return [(1, star(5, rng.uniform(0.38, 0.5)))]
    if name == "star6":
        return [(1, star(6, rng.uniform(0.42, 0.55)))]
    arm = rng.uniform(0.2, 0.32)
    if name == "cross":
        return [(1, box(-1, -arm, 1, arm)), (1, box(-arm, -1, arm, 1))]
    if name == "tee":
        return [(1, box(-0.9, -0.9, 0.9, -0.9 + 2 * arm)), (1, box(-arm, -0.9, arm, 0.95))]
    if name == "arrow":
        return [(1, [(1, 0), (0.1, 0.75), (0.1, -0.75)]), (1, box(-1, -arm, 0.15, arm))]
    if name == "stripes":
        bars = int(rng.integers(3, 5))
        pitch = 1.8 / (2 * bars - 1)
        return [(1, box(-0.9, -0.9 + 2 * i * pitch, 0.9, -0.9 + (2 * i + 1) * pitch)) for i in range(bars)]
    if name == "checks":
        cells = int(rng.integers(3, 5))
        pitch = 1.7 / cells
        dark = [(i, j) for i in range(cells) for j in range(cells) if (i + j) % 2 == 0]
        corners = [(-0.85 + i * pitch, -0.85 + j * pitch) for i, j in dark]
        return [(1, box(x, y, x + pitch, y + pitch)) for x, y in corners]
    turns, hand = rng.uniform(1.6, 2.3), rng.choice([-1.0, 1.0])
    angles = [(t / 60, hand * 2 * math.pi * turns * t / 60) for t in range(4, 61)]
    points = [(r * math.cos(a), r * math.sin(a)) for r, a in angles]
    return [("line", points, rng.uniform(0.16, 0.22))]


def shape_mask(name, rng):
    """Coverage of the shape, [SIZE, SIZE] in 0..1: placed, turned, squeezed and scaled at random."""
    radius = rng.uniform(0.24, 0.42) * CANVAS
    slack = max(0.0, CANVAS / 2 - 0.85 * radius)
    centre = CANVAS / 2 + rng.uniform(-slack, slack, 2)
    turn, squeeze, lean = rng.uniform(0, 2 * math.pi), rng.uniform(0.78, 1.0), rng.uniform(0, math.pi)
    rotate = np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
    axis = np.array([math.cos(lean), math.sin(lean)])
    matrix = radius * (np.eye(2) - (1 - squeeze) * np.outer(axis, axis)) @ rotate

    def place(points):
        return [tuple(p) for p in (np.asarray(points) @ matrix.T + centre).tolist()]

    canvas = Image.new("L", (CANVAS, CANVAS), 0)
    pen = ImageDraw.Draw(canvas)
    for part in parts_of(name, rng):
        if part[0] == "line":
            pen.line(place(part[1]), fill=255, width=max(2, int(part[2] * radius)), joint="curve")
        else:
            pen.polygon(place(part[1]), fill=255 * part[0])
    return np.asarray(canvas.reduce(SUPERSAMPLING), np.float32) / 255


def clutter(rng, background):
    """A shaded background with lines, dots and fragments, [SIZE, SIZE, 3] in 0..255."""
    canvas = Image.new("RGB", (CANVAS, CANVAS), tuple(int(c) for c in background))
    pen = ImageDraw.Draw(canvas)
    for _ in range(int(rng.integers(3, 10))):
        colour = tuple(int(c) for c in np.clip(background + rng.normal(0, 38, 3), 0, 255))
        x, y = rng.uniform(0, CANVAS, 2)
        reach = rng.uniform(0.05, 0.22) * CANVAS
        kind = rng.integers(0, 4)
        if kind == 0:
            pen.ellipse([x - reach / 2, y - reach / 2, x + reach / 2, y + reach / 2], fill=colour)
        elif kind == 1:
            pen.polygon([(x + dx, y + dy) for dx, dy in rng.uniform(-reach, reach, (3, 2))], fill=colour)
        elif kind == 2:
            dx, dy = rng.uniform(-3 * reach, 3 * reach, 2)
            pen.line([(x, y), (x + dx, y + dy)], fill=colour, width=int(rng.integers(2, 7)))
        else:
            start = rng.uniform(0, 360)
            frame, stop = [x - reach, y - reach, x + reach, y + reach], start + rng.uniform(60, 250)
            pen.arc(frame, start, stop, fill=colour, width=int(rng.integers(3, 7)))
    pixels = np.asarray(canvas.reduce(SUPERSAMPLING), np.float32)
    ramp = np.linspace(-0.5, 0.5, SIZE, dtype=np.float32)
    slope = rng.normal(0, 25, (2, 3)).astype(np.float32)
    return pixels + ramp[:, None, None] * slope[0] + ramp[None, :, None] * slope[1]


def occlude(rng, mask):
    """Takes a bar out of the shape, as if something that looks like the background lay across it."""
    angle, offset, half = rng.uniform(0, math.pi), rng.uniform(-8, 8), rng.uniform(1.0, 2.6)
    y, x = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32) - (SIZE - 1) / 2
    distance = np.abs(x * math.cos(angle) + y * math.sin(angle) - offset)
    return mask * np.clip(distance - half + 0.5, 0, 1)


def veil(pixels, thickest, rng):
    """The scene through haze: its contrast falls to between 1 and `thickest` of what it was, around one colour.

    A float network can still see such an image. An int8 one has to fit it and the clear ones into the same 256 steps.
    """
    clarity = thickest ** rng.uniform(0, 1)
    haze = rng.uniform(25, 230, 3)
    return haze + clarity * (pixels - pixels.mean((0, 1)))


def draw(label, rng, hazy, thickest):
    """One image of class `label`, uint8 [SIZE, SIZE, 3]; a share `hazy` of all images lies in haze."""
    background = rng.uniform(40, 215, 3)
    step = rng.normal(0, 1, 3)
    step *= rng.uniform(50, 170) / np.sqrt((step * step).sum())
    step = np.where((background + step < 0) | (background + step > 255), -step, step)
    mask = shape_mask(CLASSES[label], rng)
    if rng.random() < 0.35:
        mask = occlude(rng, mask)
    pixels = clutter(rng, background) + mask[..., None] * step.astype(np.float32)
    pixels += rng.normal(0, rng.uniform(2, 14), pixels.shape)
    if rng.random() < hazy:
        pixels = veil(pixels, thickest, rng)
    return np.clip(np.rint(pixels), 0, 255).astype(np.uint8)


def image_of(stream, index, hazy=0.75, thickest=0.03):
    """(image, label) number `index` of a stream; labels go round, so every class has its share."""
    label = index % len(CLASSES)
    return draw(label, np.random.Generator(np.random.PCG64([SEED, stream, index])), hazy, thickest), label


def write_split(folder, stream, count):
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "labels.csv", "w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["file", "label"])
        for index in range(count):
            pixels, label = image_of(stream, index)
            name = f"{index:03d}.png"
            Image.fromarray(pixels, "RGB").save(folder / name, optimize=True)
            rows.writerow([name, label])


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent)
    for split, (stream, count) in SPLITS.items():
        write_split(target / split, stream, count)
    (target / "classes.txt").write_text("\n".join(CLASSES) + "\n")
