"""Int8 beside the same network in float where instructions are limited to a level: CPU milliseconds of one thread.

  python3 tests/bench/levels.py FOLDER [--level AVX2] [--only NAME ...] [--rounds 3] [--runs 9] [--qdq PROGRAM]
      [--limit LIBRARY]

FOLDER holds NAME.pt2 and NAME.int8.pt2. PROGRAM is the native program, LIBRARY libqdq_limit_dispatch.so of the build's
tests, which limits qdq's own kernels as DNNL_MAX_CPU_ISA limits oneDNN's. The two files of a network take turns, each
in a process of its own. A figure is the median of the rounds' medians, the ratio the median of the rounds with the
smallest and largest in brackets. Prints a table in Markdown.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def milliseconds(options, model):
    environment = dict(os.environ, DNNL_MAX_CPU_ISA=options.level, LD_PRELOAD=str(options.limit))
    words = [options.qdq, "benchmark", model, "--runs", str(options.runs), "--json"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return 1e3 * json.loads(done.stdout)[0]["cpu_seconds"]["median"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--level", default="AVX2", help="as DNNL_MAX_CPU_ISA names it")
    parser.add_argument("--only", nargs="*", help="networks of these names")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--qdq", default=ROOT / "build/native/qdq")
    parser.add_argument("--limit", default=ROOT / "build/native/tests/libqdq_limit_dispatch.so")
    options = parser.parse_args()
    print("| model | qdq int8 | qdq float | float to int8 |\n|---|---|---|---|")
    for file in sorted(options.folder.glob("*.int8.pt2")):
        name = file.name.split(".")[0]
        if options.only and name not in options.only:
            continue
        rounds = [
            (milliseconds(options, file), milliseconds(options, options.folder / f"{name}.pt2"))
            for _ in range(options.rounds)
        ]
        int8, floats = (statistics.median(column) for column in zip(*rounds))
        ratios = sorted(b / a for a, b in rounds)
        spread = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        print(f"| {name} | {int8:.3g} | {floats:.3g} | {spread} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
