"""What a calibration in shards takes on many cores, from a simulation that measured costs feed.

  python3 tests/bench/scale_simulation.py [--images 1000000] [--cores 1 10 100 1000 10000] [--shards 1000 10000]
      [--sample 0.040] [--start 1.1] [--engine 0.1] [--dispatch 0.005] [--part 0.271] [--merge 0.0013] [--lost 0.01]

--sample is what a core takes for an image, --start to open the model and the data for a shard, --engine what an engine
adds to a shard where it runs, --dispatch what its one scheduler takes to hand a shard out, --merge what merging a part
takes, all in seconds; --part is the size of a part in MB, --lost the share of shards whose worker dies halfway. Samples
take up to a tenth longer or shorter from shard to shard. A core that is free takes the next shard. Prints the table of
docs/scale.md.
"""

import argparse
import heapq
import random


def simulate(options, cores, shards):
    """Seconds until the last part is there, and seconds of cores that were paid for work."""
    rng = random.Random(1)
    free = [0.0] * cores
    scheduler = busy = last = 0.0
    waiting = shards
    while waiting:
        waiting -= 1
        scheduler = max(scheduler, free[0]) + options.dispatch
        work = options.images / shards * options.sample * rng.uniform(0.9, 1.1)
        took = options.engine + options.start + work
        if rng.random() < options.lost:
            took /= 2
            waiting += 1
        heapq.heapreplace(free, scheduler + took)
        busy += took
        last = max(last, scheduler + took)
    return last, busy


def in_words(seconds):
    return (
        f"{seconds:.0f} s"
        if seconds < 120
        else f"{seconds / 60:.1f} min"
        if seconds < 7200
        else f"{seconds / 3600:.1f} h"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=1_000_000)
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 10, 100, 1000, 10000])
    parser.add_argument("--shards", type=int, nargs="+", default=[1000, 10000])
    for name, value in (("sample", 0.040), ("start", 1.1), ("engine", 0.1), ("dispatch", 0.005), ("part", 0.271)):
        parser.add_argument(f"--{name}", type=float, default=value)
    parser.add_argument("--merge", type=float, default=0.0013)
    parser.add_argument("--lost", type=float, default=0.01)
    options = parser.parse_args()
    print("| shards | cores | until all parts are there | merging them | all | core hours | of linear |")
    print("|---|---|---|---|---|---|---|")
    for shards in options.shards:
        for cores in options.cores:
            if cores > shards:
                continue
            parts, busy = simulate(options, cores, shards)
            merging = shards * options.merge
            linear = options.images * options.sample / cores
            print(
                f"| {shards} | {cores} | {in_words(parts)} | {in_words(merging)} | {in_words(parts + merging)} "
                f"| {busy / 3600:.1f} | {100 * linear / (parts + merging):.0f} % |"
            )
        print(f"{shards} parts have {shards * options.part / 1000:.1f} GB", flush=True)


main()
