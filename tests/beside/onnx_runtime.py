"""Quantizes trained models from ONNX files into ONNX files, and holds ONNX Runtime's answers on those against qdq's
own.

  python3 tests/beside/onnx_runtime.py data MODELS DATA
      in a Python with NumPy and Pillow: inputs and labels
  python3 tests/beside/onnx_runtime.py quantize MODELS
      where qdq runs: MODELS/NAME/model.onnx -> int8 .onnx, MODELS/NAME/model.pt2 -> .onnx
  python3 tests/beside/onnx_runtime.py check MODELS
      in a Python with onnxruntime: runs them, compares

MODELS and DATA are the folders of tests/beside/real_models.py; every stage takes --only NAME. What is made goes to
build/onnx. Exit status 1 if a float model's outputs differ from those of MODELS/NAME/model.onnx by more than rounding,
or a quantized one runs less in integers than it says (tests/beside/onnx_integers.py), gives another class than qdq in
more than 2 samples of 100, and in more than 2 of 100 beyond those in which ONNX Runtime differs from itself without its
optimizations: sums that end a last bit apart fall on two sides of a step, and some networks carry that to the end.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from onnx_integers import count
from real_models import BATCH, NAMES, QUANTIZERS, ROOT, load_data

WORK = ROOT / "build" / "onnx"
FLOAT_LIMIT = 1e-5  # of the largest output
SAME_TOP1 = 0.98
PLAIN_SAMPLES = 200  # ONNX Runtime without optimizations is slow
failures = []


def qdq(*words):
    done = subprocess.run(["./dev", "qdq", *map(str, words)], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(
            f"qdq {' '.join(map(str, words))} ended with {done.returncode}: {done.stderr.strip()[-600:]}"
        )


def data(name, models, folder, source):
    import numpy

    calib, test, labels = load_data(name, source)
    for file, array in (("calib", calib), ("test", test)):
        numpy.savez(folder / f"{file}.npz", arr_0=array)
    numpy.save(folder / "labels.npy", labels.astype("int64"))


def quantize(name, models, folder, _):
    qdq("convert", models / name / "model.pt2", folder / "float.onnx")
    for short, quantizer in QUANTIZERS.items():
        file = folder / f"{short}.onnx"
        qdq(
            "quantize",
            models / name / "model.onnx",
            "--calibrate",
            folder / "calib.npz",
            "--quantizer",
            quantizer,
            "--batch-size",
            BATCH,
            "-o",
            file,
        )
        qdq("run", file, "--inputs", folder / "test.npz", "-o", folder / f"{short}.npz")
        print(
            f"  {name} {short}: {(models / name / 'model.onnx').stat().st_size} -> {file.stat().st_size} bytes",
            flush=True,
        )


def answers(file, inputs, is_optimized=True):
    import numpy
    import onnx.reference  # before onnxruntime: some distributions share one schema registry
    import onnxruntime

    onnx.checker.check_model(str(file), full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    if not is_optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    feed = session.get_inputs()[0].name
    return numpy.concatenate([session.run(None, {feed: inputs[i : i + 16]})[0] for i in range(0, len(inputs), 16)])


def check(name, models, folder, _):
    import numpy

    test, labels = numpy.load(folder / "test.npz")["arr_0"], numpy.load(folder / "labels.npy")
    top1 = lambda logits: 100 * float((logits.argmax(1) == labels).mean())
    floats = answers(models / name / "model.onnx", test)
    saved = answers(folder / "float.onnx", test)
    difference = float(abs(saved - floats).max() / abs(floats).max())
    print(
        f"  {name} float: top-1 {top1(floats):.2f}, of the written file {top1(saved):.2f}, "
        f"largest difference {difference:.1e} of the largest output"
    )
    if difference > FLOAT_LIMIT:
        failures.append(f"{name}: the written float model differs")
    for short in QUANTIZERS:
        theirs, ours = answers(folder / f"{short}.onnx", test), numpy.load(folder / f"{short}.npz")["output_0"]
        same = float((theirs.argmax(1) == ours.argmax(1)).mean())
        plain = answers(folder / f"{short}.onnx", test[:PLAIN_SAMPLES], False)
        itself = float((theirs[:PLAIN_SAMPLES].argmax(1) == plain.argmax(1)).mean())
        error = float(abs(theirs - ours).mean() / abs(ours).max())
        print(
            f"  {name} {short}: top-1 in ONNX Runtime {top1(theirs):.2f}, in qdq {top1(ours):.2f}, "
            f"the same class {100 * same:.2f} % (ONNX Runtime without optimizations {100 * itself:.2f} %), "
            f"mean difference {error:.1e} of the largest output",
            flush=True,
        )
        found, wanted, total = count(folder / f"{short}.onnx")
        print(f"  {name} {short}: {found} of {total} convolutions and products in integers, quantized are {wanted}")
        if found != wanted:
            failures.append(f"{name} {short}: {wanted - found} quantized convolutions or products run in float")
        if same < min(SAME_TOP1, itself - (1 - SAME_TOP1)):
            failures.append(f"{name} {short}: ONNX Runtime answers otherwise")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=["data", "quantize", "check"])
    parser.add_argument("models", type=Path)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--only", choices=NAMES)
    options = parser.parse_args()
    for name in [options.only] if options.only else NAMES:
        if not (options.models / name / "model.onnx").exists():
            print(f"{name}: there is no {options.models / name / 'model.onnx'}, skipped")
            continue
        folder = WORK / name
        folder.mkdir(parents=True, exist_ok=True)
        {"data": data, "quantize": quantize, "check": check}[options.stage](
            name, options.models.resolve(), folder, options.data
        )
    for failure in failures:
        print("FAIL", failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
