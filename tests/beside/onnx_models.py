"""Takes ONNX models of any origin through qdq: opens them, runs them natively and in Node, quantizes them with both
quantizers, and holds what comes out against the outputs that lie beside each model, and against ONNX Runtime.

  python3 tests/beside/onnx_models.py FOLDER [--only NAME] [--qdq COMMAND] [--node COMMAND] [--onnxruntime COMMAND]
      [--torch COMMAND]

A model is FOLDER/NAME/model.onnx with inputs.npz and outputs.npz, whose arrays stand in the order of the model's inputs
and outputs, and as many further pairs as there are: inputs_1.npz, outputs_1.npz, ...; or FOLDER/NAME.onnx with
NAME.npz, for which ONNX Runtime gives the outputs. The COMMAND of --onnxruntime starts a Python with onnxruntime in
this checkout, which runs the int8 .onnx files; that of --torch one with PyTorch 2.6, which loads and runs the int8 .pt2
files; that of --node the command line of the package (made by `./dev package`; without it Node is left out).
A float output agrees if no element is further off than 1e-3 of the largest. What is made goes to build/onnx_models.
Prints a table in Markdown, then every failure with its reason. Exit status 1 if a model does not open or does not
agree.
"""

import argparse
import array
import ast
import json
import math
import shlex
import shutil
import struct
import subprocess
import sys
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "onnx_models"
QUANTIZERS = ["xnnpack", "x86-inductor"]
LIMIT = 1e-3
# Of the mean difference between ONNX Runtime's and qdq's outputs of one int8 file, or twice as much as ONNX Runtime
# with its optimizations differs from itself without them: sums that end a last bit apart fall on two sides of a
# quantized step, and deep networks of random weights magnify that.
INT8_LIMIT = 2e-2
TYPES = {
    "f2": "e", "f4": "f", "f8": "d", "i1": "b", "i2": "h", "i4": "i", "i8": "q",
    "u1": "B", "u2": "H", "u4": "I", "u8": "Q", "b1": "?",
}  # fmt: skip


# --- arrays, without NumPy
# --------------------------------------------------------------------------------------------


def arrays_of(path):
    """[(dtype and shape, numbers)] of an .npz in the order of the file."""
    out = []
    with zipfile.ZipFile(path) as file:
        for name in file.namelist():
            data = file.read(name)
            wide = data[6] > 1
            size = struct.unpack_from("<I" if wide else "<H", data, 8)[0]
            begin = (12 if wide else 10) + size
            header = ast.literal_eval(data[begin - size : begin].decode())
            code = TYPES.get(header["descr"][1:])
            if code is None:
                raise RuntimeError(f"{name} is of type {header['descr']}, which this script does not compare")
            if code in "e?":
                numbers = struct.unpack(f"<{(len(data) - begin) // struct.calcsize(code)}{code}", data[begin:])
            else:
                numbers = array.array(code)
                numbers.frombytes(data[begin:])
            out.append(((header["descr"][1:], header["shape"]), numbers))
    return out


def name_by_position(source, target):
    """Copies an .npz under the names of a batch of inputs, b0_i0, b0_i1, ..."""
    with zipfile.ZipFile(source) as file, zipfile.ZipFile(target, "w") as out:
        for i, name in enumerate(file.namelist()):
            out.writestr(f"b0_i{i}.npy", file.read(name))


def distances(wanted, found):
    """The largest and the mean difference, of the largest value wanted (at least 0.01); why there is none, else."""
    if len(wanted) != len(found):
        raise RuntimeError(f"{len(found)} outputs, wanted {len(wanted)}")
    largest, means = 0.0, [0.0]
    for i, ((wanted_kind, want), (kind, have)) in enumerate(zip(wanted, found)):
        if kind != wanted_kind:
            raise RuntimeError(
                f"output {i} is {kind[0]} {list(kind[1])}, wanted {wanted_kind[0]} {list(wanted_kind[1])}"
            )
        scale = max([0.01] + [abs(v) for v in want if math.isfinite(v)])
        off = [0.0 if a == b or (a != a and b != b) else abs(a - b) / scale for a, b in zip(want, have)]
        off = [math.inf if math.isnan(v) else v for v in off]
        largest = max([largest] + off)
        means.append(sum(off) / max(1, len(off)))
    return largest, max(means)


# --- in a Python with ONNX Runtime
# ------------------------------------------------------------------------------------


def in_onnxruntime(folder, is_beside=True):
    """One model: its own outputs if they are wanted, those of the int8 files, and the time of quantize_static."""
    import numpy
    import onnx.reference  # noqa: F401, before onnxruntime: some distributions share one schema registry
    import onnxruntime
    from onnxruntime.quantization import CalibrationDataReader, quantize_static

    def answers(model, inputs, output, is_plain=False):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 4
        if is_plain:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(str(folder / model), options, providers=["CPUExecutionProvider"])
        with numpy.load(folder / inputs) as arrays:
            feed = {i.name: arrays[key] for i, key in zip(session.get_inputs(), arrays.files)}
        if output is None:
            return feed
        results = session.run(None, feed)
        numpy.savez(folder / output, *[numpy.asarray(r) for r in results])
        return feed

    def attempt(what, body):
        try:
            found[what] = body()
        except Exception as error:
            found[what] = f"{type(error).__name__}: {str(error).strip()[:300]}"

    class Reader(CalibrationDataReader):
        def __init__(self, feeds):
            self.feeds = iter(feeds)

        def get_next(self):
            return next(self.feeds, None)

    def quantize():
        feed = answers("model.onnx", "inputs.npz", None)
        began = time.perf_counter()
        quantize_static(str(folder / "model.onnx"), str(folder / "theirs.onnx"), Reader([feed]), per_channel=True)
        return time.perf_counter() - began

    found = {}
    if not (folder / "outputs.npz").exists():
        attempt("outputs", lambda: bool(answers("model.onnx", "inputs.npz", "outputs.npz", True)))
    for quantizer in QUANTIZERS:
        if (folder / f"{quantizer}.onnx").exists():
            run = lambda q=quantizer: bool(answers(f"{q}.onnx", "inputs.npz", f"{q}.onnxruntime.npz"))
            plain = lambda q=quantizer: bool(answers(f"{q}.onnx", "inputs.npz", f"{q}.itself.npz", True))
            attempt(quantizer, run)
            attempt(f"{quantizer} itself", plain)
    if is_beside:
        attempt("quantize_static", quantize)
    print(json.dumps(found))


# --- in a Python with PyTorch
# -----------------------------------------------------------------------------------------


def in_torch(folder):
    """Loads the int8 .pt2 files and runs them."""
    import numpy
    import torch
    import torch.ao.quantization.fx._decomposed  # registers the quantized_decomposed operators

    found = {}
    for quantizer in QUANTIZERS:
        if not (folder / f"{quantizer}.pt2").exists():
            continue
        try:
            program = torch.export.load(folder / f"{quantizer}.pt2")
            with numpy.load(folder / "inputs.npz") as arrays:
                inputs = [torch.from_numpy(arrays[key]) for key in arrays.files]
            with torch.no_grad():
                outputs = torch.utils._pytree.tree_leaves(program.module()(*inputs))
            numpy.savez(folder / f"{quantizer}.torch.npz", *[output.numpy() for output in outputs])
            found[quantizer] = True
        except Exception as error:
            found[quantizer] = f"{type(error).__name__}: {str(error).strip()[:300]}"
    print(json.dumps(found))


# --- where qdq runs
# ----------------------------------------------------------------------------------------------------


class Failed(Exception):
    pass


def command(words):
    """Seconds that the command took. Throws its last line if it fails."""
    began = time.perf_counter()
    try:
        done = subprocess.run(
            [str(w) for w in words], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
        )
    except subprocess.TimeoutExpired:
        raise Failed("took more than 10 minutes") from None
    if done.returncode:
        text = (done.stderr.strip() or done.stdout.strip()).splitlines() or [f"ended with {done.returncode}"]
        raise Failed(" ".join(text)[-400:].removeprefix("qdq: ") if done.returncode > 0 else f"{done.returncode}")
    return time.perf_counter() - began


def find_models(folder):
    """{name: {file in the work folder: where it is}}."""
    out = {}
    for path in sorted(folder.iterdir()):
        if (path / "model.onnx").exists():
            out[path.name] = {file.name: file for file in path.iterdir() if file.name != "facts.json"}
        elif path.suffix == ".onnx" and path.with_suffix(".npz").exists():
            out[path.stem] = {"model.onnx": path, "inputs.npz": path.with_suffix(".npz")}
    return out


def prepare(name, files):
    work = WORK / name
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    for file, source in files.items():
        if file.startswith("inputs"):
            name_by_position(source, work / file)
        else:
            shutil.copy(source, work / file)
    return work


class Model:
    """What became of one model: numbers and words for its row, and the reasons of all failures. `kinds`: of the int8
    files that are made."""

    def __init__(self, name, work, kinds=("pt2", "onnx")):
        self.name, self.work, self.kinds, self.row, self.failures = name, work, kinds, {}, []

    def attempt(self, what, body):
        try:
            self.row[what] = body()
        except (Failed, RuntimeError) as error:
            self.row[what] = None
            self.failures.append(f"{self.name}, {what}: {error}")
        return self.row[what] is not None

    def run(self, program, model, inputs, output):
        command([*program, "run", self.work / model, "--inputs", self.work / inputs, "-o", self.work / output])
        return arrays_of(self.work / output)

    def agree(self, program, output):
        """The largest difference from the wanted outputs over all pairs."""
        worst = 0.0
        for wanted in sorted(self.work.glob("outputs*.npz")):
            found = self.run(program, "model.onnx", wanted.name.replace("outputs", "inputs"), output)
            worst = max(worst, distances(arrays_of(wanted), found)[0])
        if worst > LIMIT:
            raise Failed(f"differs by {worst:.1e} of the largest output")
        return worst

    def quantize(self, qdq, quantizer):
        """Seconds of the quantizing, and the mean difference from the float outputs, of the int8 files."""
        model, calibrate = self.work / "model.onnx", ["--calibrate", self.work / "inputs.npz"]
        seconds, error = 0.0, 0.0
        for kind in self.kinds:
            file = f"{quantizer}.{kind}"
            words = [*qdq, "quantize", model, *calibrate, "--quantizer", quantizer, "-o", self.work / file]
            seconds = command(words)
            found = self.run(qdq, file, "inputs.npz", f"{file}.npz")
            if (self.work / "outputs.npz").exists():
                error = max(error, distances(arrays_of(self.work / "outputs.npz"), found)[1])
        return seconds, error

    def ask(self, tool, stage):
        """What a stage of this script finds in another Python."""
        words = [*shlex.split(tool), "python3", "tests/beside/onnx_models.py", stage, self.name]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if not lines:
            self.failures.append(f"{self.name}, {stage}: {done.stderr.strip()[-300:]}")
        return json.loads(lines[-1]) if lines else {}

    def compare(self, found, quantizer, theirs, ours):
        """The mean difference of the outputs of one int8 file."""
        if found.get(quantizer) is not True:
            raise Failed(found.get(quantizer, "was not run"))
        outputs = arrays_of(self.work / theirs)
        mean, own = distances(outputs, arrays_of(self.work / ours))[1], 0
        if mean > INT8_LIMIT and found.get(f"{quantizer} itself") is True:
            own = distances(outputs, arrays_of(self.work / f"{quantizer}.itself.npz"))[1]
            self.row[f"{quantizer} itself"] = own
        if mean > max(INT8_LIMIT, 2 * own):
            raise Failed(
                f"differs by {mean:.1e} of the largest output in the mean; ONNX Runtime from itself by {own:.1e}"
            )
        return mean

    def compare_all(self, found, kind, tool):
        for quantizer in QUANTIZERS:
            if self.row.get(quantizer) is not None:
                files = (f"{quantizer}.{tool.lower().replace(' ', '')}.npz", f"{quantizer}.{kind}.npz")
                self.attempt(f"{quantizer} in {tool}", lambda q=quantizer, f=files: self.compare(found, q, *f))


def take(name, files, options, kinds=("pt2", "onnx"), is_beside=True):
    """`is_beside`: whether the time of ONNX Runtime's quantize_static is taken, too."""
    work = prepare(name, files)
    model = Model(name, work, kinds)
    qdq, node = shlex.split(options.qdq), shlex.split(options.node)
    if options.onnxruntime and not (work / "outputs.npz").exists():
        model.ask(options.onnxruntime, "--in-onnxruntime")
    if model.attempt("opens", lambda: command([*qdq, "inspect", work / "model.onnx", "--json"])):
        model.attempt("native", lambda: model.agree(qdq, "native.npz"))
        if node:
            model.attempt("node", lambda: model.agree(node, "node.npz"))
        for quantizer in QUANTIZERS:
            model.attempt(quantizer, lambda q=quantizer: model.quantize(qdq, q))
    if options.onnxruntime:
        found = model.ask(options.onnxruntime, "--in-onnxruntime" if is_beside else "--only-in-onnxruntime")
        model.row["quantize_static"] = found.get("quantize_static")
        model.compare_all(found, "onnx", "ONNX Runtime")
    if options.torch and any(model.row.get(quantizer) for quantizer in QUANTIZERS):
        model.compare_all(model.ask(options.torch, "--in-torch"), "pt2", "torch")
    return model


OF_QUANTIZER = [": error", ", s", ", beside ONNX Runtime", ", beside PyTorch"]
COLUMNS = ["model", "opens", "natively", "in Node"]
COLUMNS += [quantizer + what for quantizer in QUANTIZERS for what in OF_QUANTIZER] + ["quantize_static, s"]


def row_of(model):
    def cell(value, form="{:.1e}"):
        if value is None:
            return "**no**"
        return form.format(value) if isinstance(value, float) else str(value)

    def get(what, form="{:.1e}"):
        return cell(model.row[what], form) if what in model.row else "–"

    cells = [model.name, get("opens", "{:.2f} s"), get("native"), get("node")]
    for quantizer in QUANTIZERS:
        result = model.row.get(quantizer, "–")
        pair = result if isinstance(result, tuple) else (result, result)
        cells += [
            cell(pair[1]),
            cell(pair[0], "{:.2f}"),
            get(f"{quantizer} in ONNX Runtime"),
            get(f"{quantizer} in torch"),
        ]
    static = model.row.get("quantize_static", "–")
    cells.append("fails" if isinstance(static, str) and static != "–" else cell(static, "{:.2f}"))
    return "| " + " | ".join(cells) + " |"


def summary(models):
    total = len(models)
    count = lambda test: sum(1 for model in models if test(model.row))
    done = lambda row, what: row.get(what) is not None
    both = lambda tool: count(lambda row: all(done(row, quantizer + tool) for quantizer in QUANTIZERS))
    lines = [
        f"{count(lambda row: done(row, 'opens'))} of {total} open",
        f"{count(lambda row: done(row, 'native'))} agree natively",
        f"{count(lambda row: done(row, 'node'))} agree in Node",
        f"{both('')} quantize with both quantizers, and run",
        f"both files of {both(' in ONNX Runtime')} run and agree in ONNX Runtime, of {both(' in torch')} in PyTorch",
    ]

    def is_faster(row):
        static, times = row.get("quantize_static"), [row.get(quantizer) for quantizer in QUANTIZERS]
        return isinstance(static, float) and all(pair is not None and pair[0] < static for pair in times)

    lines.append(f"{count(is_faster)} quantize faster than quantize_static")
    return "; ".join(lines) + "."


def main():
    stages = {"--in-onnxruntime": in_onnxruntime, "--in-torch": in_torch}
    stages["--only-in-onnxruntime"] = lambda folder: in_onnxruntime(folder, False)
    if len(sys.argv) == 3 and sys.argv[1] in stages:
        stages[sys.argv[1]](WORK / sys.argv[2])
        return 0
    package = ROOT / "dist" / "cjs" / "node" / "cli.js"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", help="the model of this name")
    parser.add_argument("--qdq", default="./dev qdq", help="the native command line")
    parser.add_argument("--node", default=f"node {package}" if package.exists() else "", help="the package's")
    parser.add_argument("--onnxruntime", default="", help="what starts a Python with onnxruntime")
    parser.add_argument("--torch", default="", help="what starts a Python with PyTorch 2.6")
    options = parser.parse_args()
    models = []
    print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS))
    for name, files in find_models(options.folder).items():
        if options.only in (None, name):
            models.append(take(name, files, options))
            print(row_of(models[-1]), flush=True)
    print("\n" + summary(models) + "\n")
    for model in models:
        for failure in model.failures:
            print("FAIL", failure)
    agree = all(model.row.get("opens") and model.row.get("native") is not None for model in models)
    return 0 if models and agree else 1


if __name__ == "__main__":
    sys.exit(main())
