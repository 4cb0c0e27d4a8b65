"""Holds the accuracy of trained models, quantized by qdq, beside PyTorch's and ONNX Runtime's on the same samples.

  python3 tests/beside/accuracy_beside.py MODELS [--only NAME] [--qdq COMMAND] --python COMMAND

MODELS is the folder of tests/beside/real_models.py, whose stage prepare has put calib.npz, test.npz and labels.npy into
build/models/NAME. The COMMAND of --python starts a Python with PyTorch 2.6 and onnxruntime in this checkout. PyTorch
takes XNNPACKQuantizer with weights per channel and X86InductorQuantizer by prepare_pt2e; ONNX Runtime takes
quantize_static (QDQ, u8 activations, s8 weights per channel, behind quant_pre_process) with each of its calibrators;
qdq takes both quantizers, plain and with --recover. What is made goes to build/models.
Prints a table in Markdown with top-1 in %; a dash where a tool fails, and its last line behind the table.
"""

import argparse
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from positional import positional
from real_models import NAMES, WORK, torch_quantizer

BATCH = 10
CALIBRATORS = ["MinMax", "Entropy", "Percentile"]
QDQ = {"xnnpack": "xnnpack", "x86": "x86-inductor"}
COLUMNS = [
    "float",
    "PyTorch XNNPACK",
    "PyTorch X86",
    *(f"ONNX Runtime {calibrator}" for calibrator in CALIBRATORS),
    "qdq XNNPACK",
    "qdq X86",
    "qdq XNNPACK --recover",
    "qdq X86 --recover",
]


def accuracy(outputs, labels):
    """In %; the axis of classes is the one that labels do not have."""
    axis = next(a for a in range(1, outputs.ndim) if outputs.shape[:a] + outputs.shape[a + 1 :] == labels.shape)
    return 100 * float((outputs.argmax(axis) == labels).mean())


def measure_others(folder):
    """In a Python with both: the columns of PyTorch and ONNX Runtime, as JSON; an error's last line where one fails."""
    import numpy

    calib, test = (numpy.load(folder / f"{part}.npz")["arr_0"] for part in ("calib", "test"))
    labels = numpy.load(folder / "labels.npy")

    def top1(run):
        return accuracy(numpy.concatenate([run(test[i : i + BATCH]) for i in range(0, len(test), BATCH)]), labels)

    def by_torch(quantizer):
        import torch
        from torch.ao.quantization.quantize_pt2e import convert_pt2e, prepare_pt2e

        torch.set_num_threads(1)
        with torch.no_grad():
            graph = positional(torch.export.load(folder / "model.pt2").module())
            if quantizer:
                graph = prepare_pt2e(graph, torch_quantizer(quantizer))
                for i in range(0, len(calib), BATCH):
                    graph(torch.from_numpy(calib[i : i + BATCH]))
                graph = convert_pt2e(graph)
            return top1(lambda x: graph(torch.from_numpy(x)).numpy())

    def by_onnxruntime(calibrator):
        import onnx.reference  # noqa: F401 before onnxruntime: some distributions share one schema registry
        import onnxruntime
        from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantType, quantize_static
        from onnxruntime.quantization.shape_inference import quant_pre_process

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        feed = onnxruntime.InferenceSession(str(folder / "model.onnx")).get_inputs()[0].name

        class Samples(CalibrationDataReader):
            def __init__(self):
                self.batches = iter(calib[i : i + BATCH] for i in range(0, len(calib), BATCH))

            def get_next(self):
                batch = next(self.batches, None)
                return None if batch is None or len(batch) < BATCH else {feed: batch}

        quant_pre_process(str(folder / "model.onnx"), str(folder / "pre.onnx"), skip_symbolic_shape=True)
        quantize_static(
            str(folder / "pre.onnx"),
            str(folder / "ort.onnx"),
            Samples(),
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            calibrate_method=getattr(CalibrationMethod, calibrator),
        )
        session = onnxruntime.InferenceSession(str(folder / "ort.onnx"), options)
        return top1(lambda x: session.run(None, {feed: x})[0])

    out = {}
    for column, measure in (
        ("float", lambda: by_torch(None)),
        ("PyTorch XNNPACK", lambda: by_torch("xnnpack")),
        ("PyTorch X86", lambda: by_torch("x86")),
        *((f"ONNX Runtime {c}", lambda c=c: by_onnxruntime(c)) for c in CALIBRATORS),
    ):
        try:
            out[column] = measure()
        except Exception as error:  # a tool that fails is a result
            out[column] = f"{type(error).__name__}: {error}".strip().splitlines()[-1][:200]
    (folder / "beside.json").write_text(json.dumps(out))


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(command)}: {(done.stderr or done.stdout).strip().splitlines()[-1]}")
    return done.stdout


def measure_qdq(name, qdq):
    folder = WORK / name
    model = str(folder / "model.pt2")
    out = {}
    for word, quantizer in QDQ.items():
        for recover in ([], ["--recover"]):
            file = str(folder / f"beside-{word}{'-recover' if recover else ''}.pt2")
            calibrate = ["--calibrate", str(folder / "calib.npz"), "--batch-size", str(BATCH)]
            run([*qdq, "quantize", model, *calibrate, "--quantizer", quantizer, *recover, "-o", file])
            labelled = ["--data", str(folder / "test.npz"), "--labels", str(folder / "labels.npy")]
            text = run([*qdq, "evaluate", file, *labelled])
            column = {"xnnpack": "qdq XNNPACK", "x86": "qdq X86"}[word] + (" --recover" if recover else "")
            out[column] = float(re.findall(r"([\d.]+) %", text)[0])
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", type=Path)
    parser.add_argument("--only", action="append")
    parser.add_argument("--qdq", default="./dev qdq")
    parser.add_argument("--python")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        return measure_others(options.measure)
    if not options.python:
        parser.error("--python is wanted: the command of a Python with PyTorch and onnxruntime")
    qdq, notes = shlex.split(options.qdq), []
    print("| model | " + " | ".join(COLUMNS) + " |\n|" + "---|" * (len(COLUMNS) + 1), flush=True)
    for name in options.only or NAMES:
        if not (WORK / name / "labels.npy").exists() or not (options.models / name / "model.pt2").exists():
            notes.append(f"{name}: skipped; it is not there, or real_models.py has not prepared it")
            continue
        shutil.copyfile(options.models / name / "model.pt2", WORK / name / "model.pt2")
        run([*qdq, "convert", str(WORK / name / "model.pt2"), str(WORK / name / "model.onnx")])
        found = measure_qdq(name, qdq)
        script = ["tests/beside/accuracy_beside.py", "build/models", "--measure", str(WORK / name)]
        run([*shlex.split(options.python), *script])
        found |= json.loads((WORK / name / "beside.json").read_text())
        notes += [f"{name}, {column}: {why}" for column, why in found.items() if isinstance(why, str)]
        cells = [f"{found[c]:.2f}" if isinstance(found[c], float) else "–" for c in COLUMNS]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    print("\n".join(["", *notes]) if notes else "")
    return None


if __name__ == "__main__":
    main()
