"""How far scales and accuracy of MergeableHistogramObserver lie from those of PyTorch's HistogramObserver.

  python3 tests/beside/mergeable_scales.py MODELS

MODELS holds a folder for each model, with model.pt2, calib.npz, test.npz and labels.npy, as tests/beside/real_models.py
makes them in build/models. Each model is calibrated twice on the portable kernels: in one process with
HistogramObserver, whose search and bins are PyTorch's to the bit, and in four shards that are merged. Prints the table
of docs/scale.md.
"""

import argparse
import json
import shlex
import statistics
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "scales"
SHARDS = 4


program = []


def qdq(*words):
    done = subprocess.run([*program, *map(str, words)], cwd=WORK, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"qdq {' '.join(map(str, words))}: {done.stderr.strip()[-600:]}")
    return done.stdout


def scales(file):
    """The scales of histograms, by the place of their observers."""
    observers = json.loads((WORK / file).read_text())
    return {json.dumps(o["covers"]): o["scale"][0] for o in observers if o["class"].endswith("HistogramObserver")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--qdq", default=f"{ROOT}/dev qdq", help="the program")
    options = parser.parse_args()
    program.extend(shlex.split(options.qdq))
    WORK.mkdir(parents=True, exist_ok=True)
    print("| model | recipe | scales | within 0.1 % | median | largest | top-1 float | HistogramObserver | merged |")
    print("|---|---|---|---|---|---|---|---|---|")
    for folder in sorted(options.models.iterdir()):
        if options.only not in folder.name or not (folder / "labels.npy").exists():
            continue
        for file in ("model.pt2", "calib.npz", "test.npz", "labels.npy"):
            (WORK / file).write_bytes((folder / file).read_bytes())
        for short in ("xnnpack", "x86-inductor"):
            words = ["--quantizer", short, "--batch-size", 10]
            qdq("quantize", "model.pt2", "--calibrate", "calib.npz", "-o", "h.pt2", "--observers", "h.json", *words)
            parts = [f"part{k}.json" for k in range(1, SHARDS + 1)]
            for k, part in enumerate(parts, 1):
                qdq("calibrate", "model.pt2", "--data", "calib.npz", "--shard", f"{k}/{SHARDS}", "-o", part, *words)
            qdq("merge", *parts, "-o", "all.json")
            qdq(
                *["quantize", "model.pt2", "--calibrate", "all.json", "-o", "m.pt2", "--observers", "m.json"],
                *["--quantizer", short],
            )
            theirs, ours = scales("h.json"), scales("m.json")
            assert theirs.keys() == ours.keys() and theirs
            apart = [abs(ours[at] / theirs[at] - 1) for at in theirs]
            report = json.loads(
                qdq("evaluate", "model.pt2", "h.pt2", "m.pt2", "--data", "test.npz", "--labels", "labels.npy", "--json")
            )
            top1 = [f"{each['top1']:.2f}" for each in report]
            print(
                f"| {folder.name} | {short} | {len(apart)} | {sum(a <= 1e-3 for a in apart)} "
                f"| {100 * statistics.median(apart):.2f} % | {100 * max(apart):.1f} % | {' | '.join(top1)} |",
                flush=True,
            )


main()
