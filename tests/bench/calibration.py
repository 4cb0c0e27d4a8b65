"""Times calibration side by side: qdq natively, qdq in Node, and PyTorch's PT2E, one thread each, process after process.

  python3 tests/bench/calibration.py --torch "COMMAND that starts a Python with PyTorch 2.6 and torchvision"
      [--models DIR]      also the ResNet-20 of DIR/cifar-resnet20/model.pt2
      [--rounds 5] [--quantizer x86-inductor|xnnpack] [--batches 1,16] [--skip-node]

Each process reports the seconds of its calibration loop alone (loading, exporting and converting are left out). Rounds are
interleaved, ratios are taken round by round, and the median is printed with the smallest and largest. Run it from the checkout,
after ./dev build and npm run build.
"""
import argparse
import re
import shlex
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FOLDER = ROOT / "build" / "bench"


def run(command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def torch_seconds(torch, name, quantizer, batch):
    out = run(torch + ["tests/bench/calibration_torch.py", "time", str(FOLDER.relative_to(ROOT)), name, quantizer, str(batch)])
    return float(re.search(r"seconds ([0-9.]+)", out).group(1))


def qdq_seconds(program, name, quantizer, batch):
    out = run(program + ["quantize", f"build/bench/{name}.pt2", "--calibrate", f"build/bench/{name}.npz", "--batch-size", str(batch),
                         "--quantizer", quantizer, "--threads", "1", "-o", f"build/bench/{name}.int8.pt2"])
    value, unit = re.search(r"calibrated on \d+ samples in \d+ batch(?:es)?, ([0-9.]+) (ms|s)\b", out).groups()
    return float(value) / (1000 if unit == "ms" else 1)


def spread(values):
    return f"{statistics.median(values):7.2f} ({min(values):.2f} to {max(values):.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", required=True)
    parser.add_argument("--models")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quantizer", default="x86-inductor")
    parser.add_argument("--batches", default="1,16")
    parser.add_argument("--skip-node", action="store_true")
    options = parser.parse_args()
    torch = shlex.split(options.torch)
    FOLDER.mkdir(parents=True, exist_ok=True)
    names = ["resnet18", "mobilenet_v2"]
    if not all((FOLDER / f"{name}.npz").exists() for name in names):
        run(torch + ["tests/bench/calibration_torch.py", "export", str(FOLDER.relative_to(ROOT))])
    if options.models:
        shutil.copyfile(Path(options.models) / "cifar-resnet20" / "model.pt2", FOLDER / "resnet20.pt2")
        run(torch + ["-c", "import numpy; numpy.savez('build/bench/resnet20.npz', x=numpy.random.default_rng(0)"
                     ".standard_normal((256, 3, 32, 32)).astype('float32'))"])
        names.append("resnet20")
    native, node = ["build/native/qdq"], ["node", "dist/cjs/node/cli.js"]
    if not (ROOT / "build/native/qdq").exists() or subprocess.run([ROOT / "build/native/qdq", "--version"], capture_output=True).returncode:
        native = ["./dev", "qdq"]
    print(f"quantizer {options.quantizer}; seconds of the calibration loop; {options.rounds} interleaved rounds, one thread")
    for name in names:
        for batch in map(int, options.batches.split(",")):
            rows = {"PyTorch": [], "qdq native": [], "qdq Node": []}
            for _ in range(options.rounds):
                rows["PyTorch"].append(torch_seconds(torch, name, options.quantizer, batch))
                rows["qdq native"].append(qdq_seconds(native, name, options.quantizer, batch))
                if not options.skip_node:
                    rows["qdq Node"].append(qdq_seconds(node, name, options.quantizer, batch))
            print(f"{name}, batch {batch}")
            for who, seconds in rows.items():
                if seconds:
                    print(f"  {who:<12} {spread(seconds)} s")
            print(f"  native is {spread([a / b for a, b in zip(rows['PyTorch'], rows['qdq native'])])} times as fast as PyTorch")
            if rows["qdq Node"]:
                print(f"  Node takes {spread([a / b for a, b in zip(rows['qdq Node'], rows['qdq native'])])} times as long as native")


if __name__ == "__main__":
    main()
