"""Takes the photographs of the clothing example from Debian's package dataset-fashion-mnist.

    python3 photographs.py [--data /usr/share/datasets/fashion-mnist]

writes calibration (100 photographs of the package's training part) and test (300 of its test part) beside this file,
each with a labels.csv (`file,label`), and classes.txt. The choice is fixed: the first of each class, the classes in
turn. train.py reads the package with the same `read_part` and leaves out the photographs for calibration.
"""

import argparse
import csv
import gzip
from pathlib import Path

import numpy as np
from PIL import Image

CLASSES = ["T-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"]
SIZE = 28
SPLITS = {"calibration": ("train", 10), "test": ("t10k", 30)}  # folder: part of the package, photographs per class
HERE = Path(__file__).parent


def read_part(folder, part):
    """(images uint8 [N, 28, 28], labels uint8 [N]) of a part of the package, "train" or "t10k"."""
    with gzip.open(Path(folder) / f"{part}-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, SIZE, SIZE)
    with gzip.open(Path(folder) / f"{part}-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    return images, labels


def first_of_each_class(labels, count):
    """Indices of the first `count` of each class: one of each class, then the next of each, ..."""
    return np.stack([np.flatnonzero(labels == label)[:count] for label in range(len(CLASSES))], 1).reshape(-1)


def write_split(folder, images, labels):
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "labels.csv", "w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["file", "label"])
        for index, (image, label) in enumerate(zip(images, labels)):
            name = f"{index:03d}.png"
            Image.fromarray(image, "L").save(folder / name, optimize=True)
            rows.writerow([name, label])


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    options = options.parse_args()
    for split, (part, count) in SPLITS.items():
        images, labels = read_part(options.data, part)
        chosen = first_of_each_class(labels, count)
        write_split(HERE / split, images[chosen], labels[chosen])
    (HERE / "classes.txt").write_text("\n".join(CLASSES) + "\n")
