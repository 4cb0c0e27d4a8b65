"""Time and memory of `qdq merge` on many parts.

  python3 tests/bench/merge.py STATISTICS.json [--parts 1000 10000] [--qdq "./dev qdq"]

STATISTICS.json is what `qdq calibrate` wrote of all samples of a model. Parts are made of it in build/parts: the same
counts as those of one batch each, every third of them with ranges twice as wide, so that bins are joined. A second
merge of the same parts in another order must write the same bytes.
"""

import argparse
import json
import os
import random
import resource
import shlex
import shutil
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "parts"


def widened(value):
    if isinstance(value, list):
        return [widened(each) for each in value]
    return value * 2


def make(state, count):
    shutil.rmtree(WORK, ignore_errors=True)
    (WORK / "parts").mkdir(parents=True)
    texts = []
    for variant in range(2):
        state["data"] = {"id": "bench", "samples": count, "batches": count}
        state["shards"], state["seen"] = "SHARD", "SEEN"
        for observer in state["observers"]:
            for field in ("min_val", "max_val"):
                if variant == 1 and field in observer:
                    observer[field] = widened(observer[field])
        texts.append(json.dumps(state, indent=1))
    size = 0
    for k in range(1, count + 1):
        text = texts[1 if k % 3 == 0 else 0].replace('"SEEN"', f"[[{k - 1}, {k}]]").replace("SHARD", f"{k}/{count}")
        (WORK / "parts" / f"{k}.json").write_text(text)
        size += len(text)
    return size


def run(program, *words):
    """Seconds, and the largest resident memory in MB."""
    began = time.time()
    pid = os.spawnvp(os.P_NOWAIT, program[0], [*program, *words])
    _, status, usage = os.wait4(pid, 0)
    if status != 0:
        raise SystemExit(f"{' '.join(program)} {words[0]} failed")
    return time.time() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("statistics", type=Path)
    parser.add_argument("--parts", type=int, nargs="+", default=[1000, 10000])
    parser.add_argument("--qdq", default=f"{ROOT}/dev qdq", help="the program")
    options = parser.parse_args()
    program = shlex.split(options.qdq)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    for count in options.parts:
        size = make(json.loads(options.statistics.read_text()), count)
        folder, first, second = (str(WORK / name) for name in ("parts", "first.json", "second.json"))
        seconds, cpu, memory = run(program, "merge", folder, "-o", first)
        if count <= 10000:
            files = [str(WORK / "parts" / f"{k}.json") for k in range(1, count + 1)]
            random.Random(1).shuffle(files)
            run(program, "merge", *files, "-o", second)
            assert Path(first).read_bytes() == Path(second).read_bytes()
        print(f"{count} parts of {size / count / 1e3:.0f} kB: {seconds:.1f} s, {cpu:.1f} s CPU, {memory:.0f} MB")


main()
