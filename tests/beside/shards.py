"""One int8 model however its calibration is cut and merged.

  python3 tests/beside/shards.py MODELS [--only NAME,...] [--shards 1 2 7 64] [--qdq "./dev qdq"] [--node "npx qdq"]
      [--recover] [--recipe "--weight-bits 4"]

MODELS holds a folder for each model, with model.pt2 and calib.npz, as tests/beside/real_models.py makes them in
build/models. Each is calibrated in so many shards, natively, by the program that --node names, and by both in turn; the
parts are merged in a random order, all at once, one after the other as a chain, and in pairs as a tree. Prints the
SHA-256 of the models, and fails where one differs. With --recover the parts hold what layers read, too, and accuracy is
recovered by it.
"""

import argparse
import hashlib
import random
import shlex
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "shards"


class Programs:
    """Who does the next step: one program, or several in turn."""

    def __init__(self, programs):
        self.programs, self.turn = programs, 0

    def run(self, *words):
        program = self.programs[self.turn % len(self.programs)]
        self.turn += 1
        done = subprocess.run([*program, *map(str, words)], cwd=WORK, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{shlex.join(program)} {' '.join(map(str, words))}: {done.stderr.strip()[-600:]}")


def at_once(by, parts):
    by.run("merge", *parts, "-o", "all.json")


def chain(by, parts):
    before = parts[0]
    for at, part in enumerate(parts[1:], 1):
        by.run("merge", before, part, "-o", f"chain{at}.json", "--partial")
        before = f"chain{at}.json"
    by.run("merge", before, "-o", "all.json")


def tree(by, parts):
    level = 0
    while len(parts) > 1:
        pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
        parts = []
        for at, pair in enumerate(pairs):
            parts.append(f"tree{level}-{at}.json")
            by.run("merge", *pair, "-o", parts[-1], "--partial")
        level += 1
    by.run("merge", parts[0], "-o", "all.json")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path)
    parser.add_argument("--only", default="", help="the models, all without it")
    parser.add_argument("--shards", type=int, nargs="+", default=[1, 2, 7, 64])
    parser.add_argument("--qdq", default=f"{ROOT}/dev qdq", help="the native program")
    parser.add_argument("--node", help="the program of the npm package; without it all is done natively")
    parser.add_argument("--recover", action="store_true", help="recover accuracy by the merged statistics")
    parser.add_argument("--recipe", default="", help="words of the recipe, for calibrate and quantize")
    options = parser.parse_args()
    recipe = [*shlex.split(options.recipe), *(["--recover"] if options.recover else [])]
    builds = {"natively": [shlex.split(options.qdq)]}
    if options.node:
        builds["in Node"] = [shlex.split(options.node)]
        builds["mixed"] = builds["natively"] + builds["in Node"]
    WORK.mkdir(parents=True, exist_ok=True)
    for folder in sorted(options.models.iterdir()):
        if options.only and folder.name not in options.only.split(","):
            continue
        for file in ("model.pt2", "calib.npz"):
            (WORK / file).write_bytes((folder / file).read_bytes())
        hashes, runs, began = set(), 0, time.time()
        for build, programs in builds.items():
            by = Programs(programs)
            for count in options.shards:
                parts = [f"part{k}.json" for k in range(1, count + 1)]
                for k, part in enumerate(parts, 1):
                    words = ["--data", "calib.npz", "--batch-size", 2, "--shard", f"{k}/{count}"]
                    by.run("calibrate", "model.pt2", *words, *recipe, "-o", part)
                random.Random(count).shuffle(parts)
                for merge in (at_once, chain, tree):
                    merge(by, parts)
                    by.run("quantize", "model.pt2", "--calibrate", "all.json", *recipe, "-o", "int8.pt2")
                    hashes.add(hashlib.sha256((WORK / "int8.pt2").read_bytes()).hexdigest())
                    runs += 1
                    if len(hashes) > 1:
                        raise SystemExit(f"{folder.name}, {count} shards {build}, {merge.__name__}: another model")
        print(f"{folder.name}: {hashes.pop()}, {runs} ways, {time.time() - began:.0f} s", flush=True)


main()
