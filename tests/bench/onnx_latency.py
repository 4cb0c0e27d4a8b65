"""Latency of ONNX models of any origin in qdq and ONNX Runtime, float and int8, interleaved: CPU milliseconds of one
thread, and the share of the time that qdq spends in plain loops.

  python3 tests/bench/onnx_latency.py FOLDER ... --onnxruntime COMMAND [--qdq COMMAND] [--only NAME ...] [--rounds 5]
      [--least MS] [--json OUT.json]

A model is FOLDER/NAME/model.onnx, with inputs.npz if random numbers do not do, or FOLDER/NAME.onnx with NAME.npz.
COMMAND starts a Python with onnxruntime in this checkout. The int8 models are those of `qdq quantize` with both
quantizers and of quantize_static (QDQ, uint8 activations, int8 weights, by channel where the file's opset has that);
ONNX Runtime runs the file of `qdq quantize --quantizer x86-inductor` as well. In every round each of the six runs for
some tenths of a second while the others wait; figures are medians over the rounds' medians, ratios medians over the
rounds, with the smallest and largest in brackets. A model that ONNX Runtime runs in less than --least milliseconds is
left out. What is made goes to build/onnx_latency. Prints a table in Markdown, then every failure.
"""

import argparse
import json
import shlex
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "onnx_latency"
SECONDS = 0.3  # of a turn
QUANTIZERS = ("x86-inductor", "xnnpack")


# --- in a Python with ONNX Runtime
# ------------------------------------------------------------------------------------


def make_inputs(session, folder):
    import numpy

    random = numpy.random.default_rng(1)
    types = {"tensor(float)": numpy.float32, "tensor(int64)": numpy.int64, "tensor(int32)": numpy.int32}
    types |= {"tensor(double)": numpy.float64, "tensor(float16)": numpy.float16, "tensor(bool)": numpy.bool_}
    arrays = {}
    for i, value in enumerate(session.get_inputs()):
        shape = [size if isinstance(size, int) and size > 0 else 1 for size in value.shape]
        kind = types[value.type]
        is_float = numpy.issubdtype(kind, numpy.floating)
        arrays[f"b0_i{i}"] = (random.standard_normal(shape) if is_float else numpy.ones(shape)).astype(kind)
    numpy.savez(folder / "inputs.npz", **arrays)


def in_onnxruntime(folder):
    """Makes the inputs and says so. Answers "run KIND" with the milliseconds of some runs, "quantize", which makes the
    int8 file, and "open KIND FILE" with the problem, if there is one."""
    import numpy
    import onnx.reference  # noqa: F401, before onnxruntime: some distributions share one schema registry
    import onnxruntime
    from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = 1, 1, 4
    start = lambda file: onnxruntime.InferenceSession(str(folder / file), options, providers=["CPUExecutionProvider"])
    sessions = {"float": start("model.onnx")}
    if not (folder / "inputs.npz").exists():
        make_inputs(sessions["float"], folder)
    with numpy.load(folder / "inputs.npz") as arrays:
        feed = {i.name: arrays[key] for i, key in zip(sessions["float"].get_inputs(), arrays.files)}

    class Reader(CalibrationDataReader):
        def __init__(self, feeds):
            self.feeds = iter(feeds)

        def get_next(self):
            return next(self.feeds, None)

    def quantize(by_channel):
        model, made = str(folder / "model.onnx"), str(folder / "theirs.onnx")
        types = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
        quantize_static(model, made, Reader([feed]), per_channel=by_channel, **types)
        sessions["int8"] = start("theirs.onnx")

    def run(session):
        times, began = [], time.perf_counter()
        session.run(None, feed)
        while not times or (time.perf_counter() - began < SECONDS and len(times) < 2000):
            cpu = time.process_time()
            session.run(None, feed)
            times.append(1e3 * (time.process_time() - cpu))
        return {"ms": times}

    def make_int8():
        try:
            quantize(True)
        except Exception:  # scales by channel are no part of opsets below 13
            quantize(False)

    def open_file(name, file):
        sessions[name] = start(file)
        sessions[name].run(None, feed)

    def attempt(call, *arguments):
        try:
            call(*arguments)
        except Exception as error:
            return {"problem": f"{type(error).__name__}: {str(error).strip()[:200]}"}
        return {"problem": None}

    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        verb, *words = line.split()
        if verb == "run":
            answer = run(sessions[words[0]])
        else:
            answer = attempt(make_int8) if verb == "quantize" else attempt(open_file, *words)
        print(json.dumps(answer), flush=True)


# --- where qdq runs
# ----------------------------------------------------------------------------------------------------


class Peer:
    def __init__(self, command, name):
        words = [*shlex.split(command), "python3", "tests/bench/onnx_latency.py", "--in-onnxruntime", name]
        self.process = subprocess.Popen(
            words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.answer("ready")

    def answer(self, key):
        for line in self.process.stdout:
            if line.startswith("{") and key in (answer := json.loads(line)):
                return answer
        raise RuntimeError(f"ONNX Runtime's process ended with {self.process.wait()}")

    def ask(self, question, key):
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        return self.answer(key)[key]

    def run(self, kind):
        return self.ask(f"run {kind}", "ms")

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


def call(words):
    done = subprocess.run([str(w) for w in words], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError((done.stderr.strip() or f"ended with {done.returncode}")[-300:])
    return done.stdout


class Qdq:
    def __init__(self, command, work, file):
        self.words = [*shlex.split(command), "benchmark", work / file, "--inputs", work / "inputs.npz", "--json"]
        self.plain, self.loops = 0, []
        first = self.report(1)
        report = self.report(7, "--profile", "--explain")
        steps = [(s["seconds"], s["name"], s["what"]) for s in report["steps"] if s["backend"] == "reference"]
        self.plain = sum(s[0] for s in steps) / max(1e-12, sum(s["seconds"] for s in report["steps"]))
        self.loops = [[1e3 * s, name, what] for s, name, what in sorted(steps, reverse=True)[:8]]
        self.count = max(3, min(2000, int(SECONDS / max(1e-6, first["wall_seconds"]["median"]))))

    def report(self, runs, *more):
        return json.loads(call([*self.words, "--runs", runs, *more]))[0]

    def run(self):
        return [1e3 * self.report(self.count)["cpu_seconds"]["median"]]


def quantize(qdq, work, quantizer, formats=("pt2", "onnx")):
    """Makes the int8 file and returns its name; ONNX holds what a .pt2 file cannot."""
    words = [*shlex.split(qdq), "quantize", work / "model.onnx", "--calibrate", work / "inputs.npz"]
    for file in (f"{quantizer}.{suffix}" for suffix in formats):
        try:
            call([*words, "--quantizer", quantizer, "-o", work / file])
            return file
        except RuntimeError as error:
            problem = error
    raise problem


def measure(name, source, options):
    work = WORK / name
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    if source.is_dir():
        for file in source.iterdir():
            if file.is_file() and not file.name.startswith(("inputs", "outputs")):
                shutil.copy(file, work / file.name)
        if (source / "inputs.npz").exists():
            sys.path.insert(0, str(ROOT / "tests" / "beside"))
            from onnx_models import name_by_position

            name_by_position(source / "inputs.npz", work / "inputs.npz")
    else:
        shutil.copy(source, work / "model.onnx")
        if source.with_suffix(".npz").exists():
            sys.path.insert(0, str(ROOT / "tests" / "beside"))
            from onnx_models import name_by_position

            name_by_position(source.with_suffix(".npz"), work / "inputs.npz")
    peer, result, failures, runners = Peer(options.onnxruntime, name), {}, [], {}
    if statistics.median(peer.run("float")) < options.least:
        peer.stop()
        return None

    def add_theirs(kind, question, what):
        if problem := peer.ask(question, "problem"):
            failures.append(f"{what}: {problem}")
        else:
            runners[f"theirs {kind}"] = lambda: peer.run(kind)

    runners["theirs float"] = lambda: peer.run("float")
    add_theirs("int8", "quantize", "quantize_static")
    for kind in ("float", *QUANTIZERS):
        try:
            file = "model.onnx" if kind == "float" else quantize(options.qdq, work, kind)
            ours = Qdq(options.qdq, work, file)
            result |= {f"plain {kind}": ours.plain, f"loops {kind}": ours.loops}
            runners[f"ours {kind}"] = ours.run
        except RuntimeError as error:
            failures.append(f"{kind}: {error}")
    try:
        quantize(options.qdq, work, QUANTIZERS[0], ["onnx"])
        add_theirs("ours", f"open ours {QUANTIZERS[0]}.onnx", "ONNX Runtime on qdq's file")
    except RuntimeError as error:
        failures.append(f"{QUANTIZERS[0]}.onnx: {error}")
    rounds = {label: [] for label in runners}
    for _ in range(options.rounds):
        for label, run in runners.items():
            rounds[label].append(statistics.median(run()))
    peer.stop()
    for label, times in rounds.items():
        result[label] = statistics.median(times)
    for first, second in RATIOS:
        if first in rounds and second in rounds:
            ratios = sorted(a / b for a, b in zip(rounds[first], rounds[second]) if b > 0)
            result[f"{first} / {second}"] = [statistics.median(ratios), ratios[0], ratios[-1]] if ratios else None
    return result | {"failures": failures}


COLUMNS = {
    "ours float": "qdq float",
    "theirs float": "ONNX Runtime float",
    "ours float / theirs float": "ratio",
    "ours x86-inductor": "qdq X86",
    "ours xnnpack": "qdq XNNPACK",
    "theirs int8": "ONNX Runtime int8",
    "ours x86-inductor / theirs int8": "ratio, X86",
    "theirs ours": "ONNX Runtime, qdq's X86",
    "ours x86-inductor / theirs ours": "ratio, same file",
    "ours x86-inductor / ours float": "X86 to float",
    "ours xnnpack / ours float": "XNNPACK to float",
    "plain float": "plain loops, float",
    "plain x86-inductor": "X86",
    "plain xnnpack": "XNNPACK",
}
RATIOS = [tuple(column.split(" / ")) for column in COLUMNS if " / " in column]


def row_of(name, result):
    def cell(column):
        if result.get(column) is None:
            return "–"
        value = result[column]
        if isinstance(value, list):
            return f"{value[0]:.2f} ({value[1]:.2f} to {value[2]:.2f})"
        return f"{100 * value:.0f} %" if column.startswith("plain") else f"{value:.3g}"

    return f"| {name} | " + " | ".join(cell(column) for column in COLUMNS) + " |"


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--in-onnxruntime":
        in_onnxruntime(WORK / sys.argv[2])
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--onnxruntime", required=True, help="what starts a Python with onnxruntime")
    parser.add_argument("--qdq", default="./dev qdq", help="the native command line")
    parser.add_argument("--only", nargs="*", help="models of these names")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--least", type=float, default=0, help="milliseconds: leave out models that take less")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    models = {}
    for folder in options.folders:
        models |= {p.name: p for p in sorted(folder.iterdir()) if (p / "model.onnx").exists()}
        models |= {p.stem: p for p in sorted(folder.glob("*.onnx"))}
    results = {}
    print("| model | " + " | ".join(COLUMNS.values()) + " |\n|" + "---|" * (len(COLUMNS) + 1))
    for name, source in models.items():
        if options.only and name not in options.only:
            continue
        try:
            results[name] = measure(name, source, options)
        except RuntimeError as error:
            results[name] = {"failures": [str(error)]}
        if results[name] is None:
            del results[name]
            continue
        print(row_of(name, results[name]), flush=True)
        if options.json:
            options.json.write_text(json.dumps(results, indent=1))
    print()
    for name, result in results.items():
        for failure in result["failures"]:
            print(f"FAIL {name}, {failure}")
    return 0 if results else 1


if __name__ == "__main__":
    sys.exit(main())
