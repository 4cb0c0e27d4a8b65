"""Holds calibration side by side: qdq natively, qdq in Node, PyTorch's PT2E and ONNX Runtime, one thread each, process
after process.

  python3 tests/bench/calibration.py --torch "COMMAND" [--rounds 5] [--images 32] [--quantizer x86-inductor|xnnpack]
      [--batches 1,16] [--node PATH] [--skip-node] [--skip-ort] [NAME...]

COMMAND starts a Python with PyTorch 2.6, torchvision and, if there, onnxruntime.

Every process does the whole job, from the float model's file to the quantized one. Its CPU seconds (not wall: other
work may run beside it) and its peak memory are taken from the system. The calibration alone: PyTorch's loop and ONNX
Runtime's quantize_static tell their own CPU seconds; of qdq it is what all the images take more than the first batch,
which is steadier with more images. Rounds are interleaved, ratios are taken round by round, and the median is printed
with the smallest and largest. Run it from the checkout, after ./dev build and ./dev package.
"""

import argparse
import os
import re
import shlex
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "bench"


class Run:
    """One process and those that it started: what it printed, its CPU seconds, its peak memory in MB."""

    def __init__(self, command):
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.text = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            sys.exit(f"{shlex.join(map(str, command))} failed:\n{self.text}")
        self.cpu = usage.ru_utime + usage.ru_stime
        self.memory = usage.ru_maxrss / 1024

    @property
    def told(self):
        return float(re.search(r"seconds ([0-9.]+)", self.text).group(1))


def native_program():
    """The program itself where the system has its libraries, else through ./dev."""
    program = [str(ROOT / "build/native/qdq")]
    try:
        return (
            program
            if subprocess.run([*program, "--version"], capture_output=True, check=False).returncode == 0
            else ["./dev", "qdq"]
        )
    except OSError:
        return ["./dev", "qdq"]


def qdq(program, name, images, quantizer, batch):
    """(images per CPU second of calibration, the whole run)"""

    def job(limit):
        return Run(
            program
            + [
                "quantize",
                f"build/bench/{name}.pt2",
                "--calibrate",
                f"build/bench/{name}.npz",
                "--batch-size",
                str(batch),
                "--limit",
                str(limit),
                "--quantizer",
                quantizer,
                "--threads",
                "1",
                "-o",
                f"build/bench/{name}.int8.pt2",
            ]
        )

    whole = job(images)
    first = min(job(batch).cpu, job(batch).cpu)
    return (images - batch) / (whole.cpu - first), whole


def peer(torch, job, folder, name, images, *arguments):
    run = Run(torch + ["tests/bench/calibration_torch.py", job, folder, name, str(images), *arguments])
    return images / run.told, run


def spread(values):
    return f"{statistics.median(values):7.2f} ({min(values):.2f} to {max(values):.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--images", type=int, default=32, help="at most 96")
    parser.add_argument("--quantizer", default="x86-inductor")
    parser.add_argument("--batches", default="1,16")
    parser.add_argument("--node", default="node")
    parser.add_argument("--skip-node", action="store_true")
    parser.add_argument("--skip-ort", action="store_true")
    parser.add_argument("names", nargs="*", default=["resnet18", "resnet50", "mobilenet_v2"])
    options = parser.parse_args()
    torch = shlex.split(options.torch)
    FOLDER.mkdir(parents=True, exist_ok=True)
    folder = str(FOLDER.relative_to(ROOT))
    if not all((FOLDER / f"{name}.onnx").exists() for name in options.names):
        Run(torch + ["tests/bench/calibration_torch.py", "export", folder])
    ours = {"qdq native": native_program()}
    if not options.skip_node:
        ours["qdq Node"] = [options.node, "dist/cjs/node/cli.js"]
    print(
        f"quantizer {options.quantizer}; {options.images} images, {options.rounds} interleaved rounds, one thread; "
        "CPU seconds"
    )
    for name in options.names:
        for batch in map(int, options.batches.split(",")):
            rows = {}
            for _ in range(options.rounds):
                done = {"PyTorch": peer(torch, "torch", folder, name, options.images, options.quantizer, str(batch))}
                if not options.skip_ort:
                    done["ONNX Runtime"] = peer(torch, "ort", folder, name, options.images)
                done |= {
                    who: qdq(program, name, options.images, options.quantizer, batch) for who, program in ours.items()
                }
                for who, result in done.items():
                    rows.setdefault(who, []).append(result)
            print(f"{name}, batch {batch}")
            for who, results in rows.items():
                print(
                    f"  {who:<12} {spread([rate for rate, _ in results])} images/s; whole process"
                    f" {spread([run.cpu for _, run in results])} s, {max(run.memory for _, run in results):.0f} MB"
                )
            for who in rows:
                if who == "qdq native":
                    continue
                ratios = [mine[0] / other[0] for mine, other in zip(rows["qdq native"], rows[who])]
                whole = [other[1].cpu / mine[1].cpu for mine, other in zip(rows["qdq native"], rows[who])]
                print(
                    f"  native is {spread(ratios)} times as fast as {who}, {spread(whole)} times as a whole process",
                    flush=True,
                )


if __name__ == "__main__":
    main()
