"""Takes models through ONNX Runtime's own tools and holds qdq's outputs on what they write against ONNX Runtime's.

  python3 tests/beside/onnx_tools.py FOLDER [--only NAME] [--qdq COMMAND] --onnxruntime COMMAND

A model is FOLDER/NAME/model.onnx, of any kind; its inputs are inputs.npz beside it, whose arrays stand in the order of
the model's inputs, or random numbers. The tools are quantize_static (QDQ and QOperator; activations of 8 bits with and
without signs), quantize_dynamic, quantization of MatMul to blocks of 4 bits, conversion to float16, the optimizer of
transformers, and the optimizations that a session saves (basic, extended). The COMMAND of --onnxruntime starts a
Python with onnxruntime in this checkout. What is made goes to build/onnx_tools.
Prints a table in Markdown with the largest difference of each file, over the largest output; a dash where the tool has
nothing to do or fails; then the reasons. Exit status 1 if a file does not open or differs: by more than 1e-3 in a float
file; in a quantized one or in float16, whose sums end a last bit apart and fall on two sides of a step, by 2e-2 in the
mean, and twice as much as ONNX Runtime without its optimizations differs from itself with them.
"""

import argparse
import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from onnx_models import ROOT, Failed, arrays_of, command, distances

WORK = ROOT / "build" / "onnx_tools"
FLOAT_LIMIT, INT8_LIMIT = 1e-3, 2e-2
TOOLS = {
    "static_qdq": "static, QDQ u8",
    "static_qdq_s8": "static, QDQ s8",
    "static_qoperator": "static, QOperator",
    "dynamic": "dynamic",
    "four_bits": "4 bits",
    "float16": "float16",
    "transformers": "transformers",
    "basic": "basic",
    "extended": "extended",
}
EXACT = ["transformers", "basic", "extended"]


def make(folder):
    """In a Python with onnxruntime: FOLDER/TOOL.onnx, and FOLDER/TOOL.npz with what ONNX Runtime makes of it."""
    import numpy
    import onnx
    import onnx.reference  # before onnxruntime: some distributions share one schema registry
    import onnxruntime
    from onnxruntime.quantization import (
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_dynamic,
        quantize_static,
    )
    from onnxruntime.transformers.float16 import convert_float_to_float16
    from onnxruntime.transformers.optimizer import optimize_model

    path = str(folder / "model.onnx")
    plain = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL

    def session_of(model, level=plain, save=None):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 4
        options.graph_optimization_level = level
        if save:
            options.optimized_model_filepath = save
        return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])

    kinds = {"tensor(float)": "f4", "tensor(int64)": "i8", "tensor(int32)": "i4", "tensor(float16)": "f2"}
    inputs = session_of(path).get_inputs()
    if (folder / "inputs.npz").exists():
        with numpy.load(folder / "inputs.npz") as arrays:
            feed = {i.name: arrays[key] for i, key in zip(inputs, arrays.files)}
    else:
        random, feed = numpy.random.RandomState(0), {}
        for i in inputs:
            sizes = [size if isinstance(size, int) and size > 0 else 2 for size in i.shape]
            is_whole = i.type in ("tensor(int64)", "tensor(int32)")
            feed[i.name] = (random.randint(0, 8, sizes) if is_whole else random.randn(*sizes)).astype(kinds[i.type])
        numpy.savez(folder / "inputs.npz", **feed)

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.feeds = iter([feed])

        def get_next(self):
            return next(self.feeds, None)

    def static(out, form, activation):
        quantize_static(path, out, Reader(), form, per_channel=True, activation_type=activation)

    def four_bits(out):
        try:
            from onnxruntime.quantization.matmul_4bits_quantizer import MatMul4BitsQuantizer as Quantizer
        except ImportError:
            from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer as Quantizer
        quantizer = Quantizer(onnx.load(path), 32, False)
        quantizer.process()
        quantizer.model.save_model_to_file(out)

    levels = onnxruntime.GraphOptimizationLevel
    tools = {
        "static_qdq": lambda out: static(out, QuantFormat.QDQ, QuantType.QUInt8),
        "static_qdq_s8": lambda out: static(out, QuantFormat.QDQ, QuantType.QInt8),
        "static_qoperator": lambda out: static(out, QuantFormat.QOperator, QuantType.QUInt8),
        "dynamic": lambda out: quantize_dynamic(path, out),
        "four_bits": four_bits,
        "float16": lambda out: onnx.save(convert_float_to_float16(onnx.load(path)), out),
        "transformers": lambda out: optimize_model(path, "bert", 0, 0, opt_level=0).save_model_to_file(out),
        "basic": lambda out: session_of(path, levels.ORT_ENABLE_BASIC, out),
        "extended": lambda out: session_of(path, levels.ORT_ENABLE_EXTENDED, out),
    }
    operators = lambda file: sorted((node.domain, node.op_type) for node in onnx.load(file).graph.node)
    found = {}
    for name, tool in tools.items():
        out = str(folder / f"{name}.onnx")
        try:
            tool(out)
            if operators(out) == operators(path) and name in ("four_bits", "dynamic", "transformers"):
                found[name] = "changes nothing"
                continue
            session, halves = session_of(out), {}
            for i in session.get_inputs():
                halves[i.name] = feed[i.name].astype(kinds[i.type]) if i.type in kinds else feed[i.name]
            numpy.savez(folder / f"{name}.inputs.npz", **halves)
            results = session.run(None, halves)
            numpy.savez(folder / f"{name}.npz", *[numpy.asarray(result) for result in results])
            # How far ONNX Runtime is from itself when it optimizes.
            own = [0.0]
            try:
                for a, b in zip(results, session_of(out, levels.ORT_ENABLE_ALL).run(None, halves)):
                    scale = max(0.01, float(numpy.abs(a).max(initial=0)))
                    own.append(float(numpy.abs(a.astype("f8") - b.astype("f8")).mean()) / scale)
            except Exception:
                pass  # not every file that it wrote can be optimized again
            found[name] = max(own)
        except Exception as error:
            found[name] = f"ONNX Runtime: {type(error).__name__}: {str(error).strip()[:200]}"
    print(json.dumps(found))


def take(name, source, options):
    folder = WORK / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in source.iterdir():
        if file.name == "inputs.npz" or file.name.startswith("model.onnx"):
            shutil.copy(file, folder / file.name)
    words = [*shlex.split(options.onnxruntime), "python3", "tests/beside/onnx_tools.py", "--make", str(folder)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise SystemExit(f"{name}: {done.stderr.strip()[-400:]}")
    made, cells, notes, failed = json.loads(lines[-1]), [], [], False
    for tool in TOOLS:
        if isinstance(made[tool], str):
            cells.append("–")
            notes.append(f"{name}, {tool}: {made[tool]}")
            continue
        try:
            output = folder / f"{tool}.qdq.npz"
            words = ["run", folder / f"{tool}.onnx", "--inputs", folder / f"{tool}.inputs.npz", "-o", output]
            command([*shlex.split(options.qdq), *words])
            worst, mean = distances(arrays_of(folder / f"{tool}.npz"), arrays_of(output))
            cells.append(f"{worst:.1e}")
            if worst > FLOAT_LIMIT if tool in EXACT else mean > max(INT8_LIMIT, 2 * made[tool]):
                raise Failed(
                    f"differs by {worst:.1e} of the largest output, {mean:.1e} in the mean; "
                    f"ONNX Runtime from itself by {made[tool]:.1e}"
                )
        except (Failed, RuntimeError) as error:
            cells.append("**no**")
            notes.append(f"{name}, {tool}: {error}")
            failed = True
    print("| " + " | ".join([name, *cells]) + " |", flush=True)
    return notes, failed


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--make":
        return make(Path(sys.argv[2]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", help="the model of this name")
    parser.add_argument("--qdq", default="./dev qdq", help="the native command line")
    parser.add_argument("--onnxruntime", required=True, help="what starts a Python with onnxruntime")
    options = parser.parse_args()
    columns = ["model", *TOOLS.values()]
    print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    notes, failed = [], False
    for path in sorted(options.folder.iterdir()):
        if (path / "model.onnx").exists() and options.only in (None, path.name):
            more, bad = take(path.name, path, options)
            notes, failed = notes + more, failed or bad
    print("\n" + "\n".join(notes))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
