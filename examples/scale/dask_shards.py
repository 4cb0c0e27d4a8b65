"""All shards as tasks of a Dask cluster, whose workers see the same files. A task whose worker dies runs on another.

python3 dask_shards.py SCHEDULER N PARTS MODEL OPTION...        SCHEDULER: tcp://host:8786
"""

import pathlib
import subprocess
import sys

from distributed import Client, as_completed

HERE = pathlib.Path(__file__).resolve().parent


def calibrate(k, words):
    subprocess.run([str(HERE / "calibrate_shard.sh"), str(k), *words], check=True)


def main():
    scheduler, count, *words = sys.argv[1:]
    with Client(scheduler) as client:
        tasks = client.map(calibrate, range(1, int(count) + 1), words=[count, *words], retries=3, pure=False)
        for done in as_completed(tasks):
            done.result()


if __name__ == "__main__":
    main()
