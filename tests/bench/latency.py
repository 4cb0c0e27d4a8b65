"""Latency of int8 models beside the peers, interleaved on one machine: CPU milliseconds of one thread, or wall
milliseconds of several.

  python3 tests/bench/latency.py --models DIR --peers PEERS --torch "COMMAND" --limit "COMMAND" [--only NAME]
      [--rounds 9] [--batch 1] [--threads 1] [--floats] [--without LABEL] [--json OUT.json]

DIR holds NAME.pt2 (float), NAME.int8.pt2 (X86 recipe) and of transformers NAME.dyn.pt2 (dynamic, if it is there) of
qdq; weights/, onnx/ and shapes/ as PEERS/export_models.py writes them, whose networks those of DIR must be. PEERS are
workers that print {"ready": ...} and answer a line "run K" with {"wall": [...], "cpu": [...]} in milliseconds:
ort_worker.py (ONNX Runtime, QDQ u8s8) and torch_worker.py (Inductor, also compiled ahead of time), run by "COMMAND
python3"; "--limit COMMAND" runs oneDNN's bare primitives of a list of shapes ("COMMAND SHAPES.txt int8 BATCH"). What is
not given is left out.

In every round each variant runs some inferences, in random order, while the others wait. qdq is started anew in every
round (`qdq benchmark`, one run to warm up). A figure is the median over all inferences, a ratio the median over the
rounds.
"""

import argparse
import json
import os
import random
import shlex
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TRANSFORMERS = ["vit_b_16", "bert_base"]
NAMES = [
    "resnet18",
    "resnet50",
    "mobilenet_v2",
    "mobilenet_v3_large",
    "squeezenet1_1",
    "efficientnet_b0",
    *TRANSFORMERS,
]


class Peer:
    """A worker process that waits between its turns."""

    def __init__(self, command, threads):
        env = dict(os.environ, OMP_NUM_THREADS=str(threads), BT=str(threads))
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env
        )
        self.info = self.answer("ready")["ready"]

    def answer(self, key):
        for line in self.process.stdout:
            if line.startswith("{") and key in (answer := json.loads(line)):
                return answer
        raise RuntimeError(f"the worker ended with {self.process.wait()}")

    def run(self, count):
        self.process.stdin.write(f"run {count}\n")
        self.process.stdin.flush()
        return self.answer("wall")

    def stop(self):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()


class Qdq:
    def __init__(self, command):
        self.command, self.info = command, {}

    def run(self, count):
        words = [*self.command, "--runs", str(count), "--json"]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.strip())
        report = json.loads(done.stdout)[0]
        return {clock: [1e3 * report[f"{clock}_seconds"]["median"]] for clock in ("wall", "cpu")}

    def stop(self):
        pass


def variants(name, options):
    models, batch, threads = Path(options.models), str(options.batch), str(options.threads)
    qdq = [*shlex.split(options.qdq), "benchmark"]
    end = ["--batch", batch, "--threads", threads]
    out = {
        "qdq int8": lambda: Qdq([*qdq, str(models / f"{name}.int8.pt2"), *end]),
        "qdq f32": lambda: Qdq([*qdq, str(models / f"{name}.pt2"), *end]),
    }
    is_dynamic = name in TRANSFORMERS and (models / f"{name}.dyn.pt2").exists()
    if is_dynamic:
        out["qdq dynamic"] = lambda: Qdq([*qdq, str(models / f"{name}.dyn.pt2"), *end])
    if not options.floats:
        del out["qdq f32"]
    if options.limit:
        for kind in ("int8", "f32") if options.floats else ("int8",):
            command = [*shlex.split(options.limit), str(models / "shapes" / f"{name}.txt"), kind, batch]
            out[f"limit {kind}"] = lambda command=command: Peer(command, options.threads)
    if options.peers and options.torch:
        workers = Path(options.peers) / "workers"
        python = [*shlex.split(options.torch), "python3"]
        ort = [*python, str(workers / "ort_worker.py"), "--file", str(models / "onnx" / f"{name}.qdq_u8s8.onnx"), *end]
        out["ORT QDQ"] = lambda: Peer(ort, options.threads)
        if is_dynamic:
            dynamic = [part.replace(".qdq_u8s8.", ".dyn.") for part in ort]
            out["ORT dynamic"] = lambda: Peer(dynamic, options.threads)
        if options.floats:
            floats = [part.replace(".qdq_u8s8.", ".") for part in ort]
            out["ORT f32"] = lambda: Peer(floats, options.threads)
        kinds = (
            [("Inductor f32", "inductor")] * options.floats
            + [("Inductor int8", "pt2e"), ("Inductor int8, AOT", "aoti-pt2e")]
            + [("Inductor dynamic", "pt2e-dyn")] * is_dynamic
        )
        for label, variant in kinds:
            command = [
                *python,
                str(workers / "torch_worker.py"),
                "--model",
                name,
                "--variant",
                variant,
                "--data",
                str(models),
                "--cache",
                str(models / "inductor"),
                *end,
            ]
            out[label] = lambda command=command: Peer(command, options.threads)
    return out


def measure(name, options):
    clock = "cpu" if options.threads == 1 else "wall"
    running, samples, rounds = {}, {}, {}
    for label, start in variants(name, options).items():
        if any(label.startswith(prefix) for prefix in options.without or []):
            continue
        try:
            running[label] = start()
            first = statistics.median(running[label].run(2)[clock])
            samples[label], rounds[label] = [], []
            running[label].count = max(1, min(20, int(300 / max(first, 1e-3))))
        except (RuntimeError, OSError) as problem:
            running.pop(label, None)
            print(f"{name}: {label} is left out: {problem}", file=sys.stderr, flush=True)
    for _ in range(options.rounds):
        for label in random.sample(list(running), len(running)):
            times = running[label].run(running[label].count)[clock]
            samples[label] += times
            rounds[label].append(statistics.median(times))
    for worker in running.values():
        worker.stop()
    ours = rounds["qdq int8"]
    return {
        label: {
            "ms": statistics.median(samples[label]),
            "rounds": rounds[label],
            "of_qdq": statistics.median(theirs / mine for theirs, mine in zip(rounds[label], ours)),
        }
        for label in running
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", required=True)
    parser.add_argument("--peers")
    parser.add_argument("--torch")
    parser.add_argument("--limit")
    parser.add_argument("--qdq", default="./dev qdq")
    parser.add_argument("--only", action="append")
    parser.add_argument(
        "--floats",
        action="store_true",
        help="float sessions of qdq and the peers, and oneDNN's bare float primitives, too",
    )
    parser.add_argument(
        "--without",
        action="append",
        help="leave out the variants whose label begins so: compiling Inductor's takes minutes",
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json")
    options = parser.parse_args()
    results = {}
    for name in options.only or NAMES:
        results[name] = measure(name, options)
        row = "; ".join(f"{label} {r['ms']:.2f} ms ({r['of_qdq']:.2f})" for label, r in results[name].items())
        print(f"{name}: {row}", flush=True)
        if options.json:
            Path(options.json).write_text(json.dumps(results, indent=1))
    labels = list(dict.fromkeys(label for result in results.values() for label in result))
    print("\n| model | " + " | ".join(labels) + " |\n|" + "---|" * (len(labels) + 1))
    for name, result in results.items():
        cells = [
            f"{result[label]['ms']:.2f} ({result[label]['of_qdq']:.2f})" if label in result else "–" for label in labels
        ]
        print(f"| {name} | " + " | ".join(cells) + " |")
    print("milliseconds, in brackets the ratio to qdq int8")


if __name__ == "__main__":
    main()
