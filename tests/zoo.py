"""Holds qdq against PyTorch on torchvision's networks at full size, with random weights.

  python3 tests/zoo.py prepare     in a Python with PyTorch 2.6 and torchvision: exports the networks and their outputs
  python3 tests/zoo.py quantize    where qdq runs: float outputs, both recipes
  python3 tests/zoo.py check       in PyTorch again: loads qdq's files, runs them, prints the table

Every stage takes --only NAME. What is made goes to build/zoo. A network passes if qdq's float outputs are PyTorch's (relative error below
1e-4) and PyTorch runs qdq's int8 files with qdq's outputs: the largest difference is below 2 % of the largest output (single roundings
of activations that travel through random weights), or no more than between PyTorch's own two sets of kernels on the same file (a
network of random weights can have outputs of one quantization step). Exit status 1 if one does not pass.
"""
import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "zoo"
NAMES = ["resnet18", "resnet50", "mobilenet_v2", "mobilenet_v3_small", "mobilenet_v3_large", "squeezenet1_0", "squeezenet1_1", "vgg11_bn",
         "shufflenet_v2_x0_5", "mnasnet0_5", "densenet121", "efficientnet_b0"]
QUANTIZERS = ["xnnpack", "x86-inductor"]


def prepare(name):
    import numpy
    import torch
    import torchvision

    torch.manual_seed(0)
    model = getattr(torchvision.models, name)(weights=None).train()
    with torch.no_grad():  # running statistics of its own, so that activations keep a realistic scale
        for _ in range(3):
            model(torch.randn(4, 3, 224, 224))
    model.eval()
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export_for_training(model, (torch.randn(2, 3, 224, 224),), dynamic_shapes=({0: batch},), strict=True)
    torch.export.save(program, WORK / f"{name}.pt2")
    x = torch.randn(4, 3, 224, 224, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        y = model(x)
    numpy.savez(WORK / f"{name}.npz", x.numpy())
    numpy.save(WORK / f"{name}.float.npy", y.numpy())
    print(f"{name}: exported")


def quantize(name, qdq):
    def run(*args):
        done = subprocess.run(qdq + [str(a) for a in args], cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip()[-400:])

    at = Path("build/zoo")
    run("run", at / f"{name}.pt2", "--inputs", at / f"{name}.npz", "-o", at / f"{name}.float.npz")
    for quantizer in QUANTIZERS:
        out = at / f"{name}.{quantizer}.pt2"
        run("quantize", at / f"{name}.pt2", "--calibrate", at / f"{name}.npz", "--batch-size", 4, "--quantizer", quantizer, "-o", out)
        run("run", out, "--inputs", at / f"{name}.npz", "-o", at / f"{name}.{quantizer}.npz")
    print(f"{name}: quantized")


def check(name):
    import numpy
    import torch
    import torch.ao.quantization.fx._decomposed  # noqa: F401  registers the quantized_decomposed operators

    def first(path):
        with numpy.load(path) as arrays:
            return arrays[arrays.files[0]]

    def error(ours, theirs):
        return float(numpy.abs(ours - theirs).max() / numpy.abs(theirs).max())

    expected = numpy.load(WORK / f"{name}.float.npy")
    x = torch.from_numpy(first(WORK / f"{name}.npz"))
    of_float = error(first(WORK / f"{name}.float.npz"), expected)
    text, passed = f"{name:<20} float error {of_float:.1e}", of_float < 1e-4
    for quantizer in QUANTIZERS:
        file = WORK / f"{name}.{quantizer}.pt2"
        module = torch.export.load(file).module()
        with torch.no_grad():
            theirs = module(x).numpy()
        of_int8 = error(first(WORK / f"{name}.{quantizer}.npz"), theirs)
        text += f"; {quantizer} {file.stat().st_size / 1e6:.1f} MB, error {of_int8:.1e}"
        if of_int8 >= 0.02:
            with torch.no_grad(), torch.backends.mkldnn.flags(enabled=False):
                of_torch = error(module(x).numpy(), theirs)
            text += f" (PyTorch's own kernels: {of_torch:.1e})"
            passed = passed and of_int8 <= 1.1 * of_torch
    print(text + f"; float file {(WORK / f'{name}.pt2').stat().st_size / 1e6:.1f} MB; {'passed' if passed else 'FAILED'}", flush=True)
    return passed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=["prepare", "quantize", "check"])
    parser.add_argument("--only", action="append")
    parser.add_argument("--qdq", default="./dev qdq")
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in options.only or NAMES:
        try:
            if options.stage == "prepare":
                prepare(name)
            elif options.stage == "quantize":
                quantize(name, options.qdq.split())
            elif not check(name):
                failed.append(name)
        except Exception as problem:  # one network's trouble must not hide the others' results
            print(f"{name}: {type(problem).__name__}: {problem}", flush=True)
            failed.append(name)
    print(f"{len(failed)} failed{': ' + ', '.join(failed) if failed else ''}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
