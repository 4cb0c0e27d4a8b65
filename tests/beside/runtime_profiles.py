"""What `qdq quantize --for` makes of models for each runtime that reads ONNX, in ONNX Runtime and ONNX Runtime Web,
beside what ONNX Runtime's own tools make.

  python3 tests/beside/runtime_profiles.py FOLDER --onnxruntime COMMAND [--qdq COMMAND] [--only NAME ...] [--rounds 5]
      [--web FOLDER]

A model is FOLDER/NAME/model.onnx, with inputs.npz to calibrate on and, if it is there, test.npz to compare on; their
array stands for the only input. The COMMAND of --onnxruntime starts a Python with onnxruntime in this checkout; the
FOLDER of --web holds node_modules/onnxruntime-web. Theirs are quantize_static (QDQ, uint8 activations, int8 weights by
channel; a model before opset 13 is converted first) and quantize_dynamic. What is made goes to build/runtime_profiles.

Prints a table in Markdown: the ratio of the float outputs to the difference from them in decibels; in brackets how many
samples have the float model's class, where outputs are classes; kilobytes; CPU milliseconds of one thread for one
sample, medians over rounds in which all files take turns; then how far ONNX Runtime Web's outputs are from ONNX
Runtime's, over the largest. Exit status 1 if a file does not run in one of both, or is worse than quantize_static in
all three of agreement, size and time.
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
WORK = ROOT / "build" / "runtime_profiles"
PROFILES = {
    "ort": [],
    "x86": [],
    "ort-web": [],
    "transformers.js": [],
    "webnn": [],
    "openvino": [],
    "qnn": [],
    "qnn, 16 bits": ["--activation-bits", "16"],
}
THEIRS = ("quantize_static", "quantize_dynamic")
SECONDS = 0.2  # of a turn


def start(file):
    import onnx.reference  # noqa: F401, before onnxruntime: some distributions share one schema registry
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = 1, 1, 4
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def quantize(folder):
    """ONNX Runtime's own files."""
    import numpy
    import onnx
    import onnx.reference
    import onnx.version_converter
    from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_dynamic, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    model = onnx.load(folder / "model.onnx")
    opset = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    if opset < 13:
        model = onnx.version_converter.convert_version(model, 13)
    onnx.save(model, folder / "converted.onnx")
    try:
        quant_pre_process(str(folder / "converted.onnx"), str(folder / "prepared.onnx"), skip_symbolic_shape=True)
    except Exception:
        shutil.copy(folder / "converted.onnx", folder / "prepared.onnx")
    name = start(folder / "model.onnx").get_inputs()[0].name
    samples = next(iter(numpy.load(folder / "inputs.npz").values()))

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.rest = iter([{name: samples[i : i + 1]} for i in range(len(samples))])

        def get_next(self):
            return next(self.rest, None)

    prepared = str(folder / "prepared.onnx")
    static = {"per_channel": True, "activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
    tools = {
        "quantize_static": lambda out: quantize_static(prepared, out, Reader(), **static),
        # ConvInteger has kernels for uint8 weights alone.
        "quantize_dynamic": lambda out: quantize_dynamic(prepared, out, weight_type=QuantType.QUInt8),
    }
    for tool, make in tools.items():
        try:
            make(str(folder / f"{tool}.onnx"))
        except Exception as error:
            print(f"{folder.name}, {tool}: {type(error).__name__}: {error}", file=sys.stderr)


def measure(folder, rounds):
    """In a Python with onnxruntime: what each file answers and takes, as JSON."""
    import numpy

    quantize(folder)
    test = folder / ("test.npz" if (folder / "test.npz").exists() else "inputs.npz")
    samples = next(iter(numpy.load(test).values()))
    found, sessions = {}, {}
    for name in ("float", *PROFILES, *THEIRS):
        file = folder / ("model.onnx" if name == "float" else f"{name}.onnx")
        if not file.exists():
            continue
        try:
            sessions[name] = start(file)
            feed = sessions[name].get_inputs()[0].name
            outputs = [sessions[name].run(None, {feed: samples[i : i + 1]}) for i in range(len(samples))]
        except Exception as error:
            found[name] = {"error": f"{type(error).__name__}: {str(error)[:160]}"}
            sessions.pop(name, None)
            continue
        numpy.savez(folder / f"{name}.npz", *outputs[0])
        flat = numpy.stack([numpy.concatenate([numpy.ravel(o) for o in sample]) for sample in outputs]).astype("f8")
        if name == "float":
            floats, has_classes = flat, len(outputs[0]) == 1 and outputs[0][0].ndim == 2 and flat.shape[1] > 1
        error = ((flat - floats) ** 2).sum()
        found[name] = {
            "bytes": file.stat().st_size,
            "decibels": float(10 * numpy.log10((floats**2).sum() / error)) if error else float("inf"),
            "ms": [],
        }
        if has_classes:
            found[name]["same"] = int((flat.argmax(1) == floats.argmax(1)).sum())
    for _ in range(rounds):
        for name, session in sessions.items():
            feed, runs = {session.get_inputs()[0].name: samples[:1]}, 0
            session.run(None, feed)
            began = time.process_time()
            while time.process_time() - began < SECONDS or runs < 2:
                session.run(None, feed)
                runs += 1
            found[name]["ms"].append(1000 * (time.process_time() - began) / runs)
    (folder / "sample.f32").write_bytes(samples[:1].astype("f4").tobytes())
    print(json.dumps({"samples": len(samples), "shape": list(samples[:1].shape), "files": found}))


def in_web(folder, shape, names, web):
    """What ONNX Runtime Web gives for the first sample: how far from ONNX Runtime's, over the largest, or an error."""
    script = """
import { createRequire } from "node:module";
import { readFileSync, writeFileSync } from "node:fs";
const [folder, shape, web, ...names] = process.argv.slice(2);
const ort = createRequire(`${web}/`)("onnxruntime-web");
ort.env.wasm.numThreads = 1;
const numbers = readFileSync(`${folder}/sample.f32`);
const data = new Float32Array(numbers.buffer, numbers.byteOffset, numbers.length / 4);
const out = {};
for (const name of names) {
  try {
    const model = readFileSync(`${folder}/${name}.onnx`);
    const session = await ort.InferenceSession.create(model, { executionProviders: ["wasm"] });
    const result = await session.run({ [session.inputNames[0]]: new ort.Tensor("float32", data, JSON.parse(shape)) });
    out[name] = session.outputNames.map((key) => [...result[key].data].map(Number));
    await session.release();
  } catch (error) {
    out[name] = String(error.message ?? error).slice(0, 160);
  }
}
writeFileSync(`${folder}/web.json`, JSON.stringify(out));
"""
    (WORK / "web.mjs").write_text(script)
    words = ["node", WORK / "web.mjs", folder, json.dumps(shape), web.resolve(), *names]
    subprocess.run(list(map(str, words)), check=True, capture_output=True)


def compare_web(folder):
    """In a Python with NumPy: the distances of web.json from ONNX Runtime's outputs."""
    import numpy

    distances = {}
    for name, outputs in json.loads((folder / "web.json").read_text()).items():
        if isinstance(outputs, str):
            distances[name] = outputs
            continue
        native = [array.ravel() for array in numpy.load(folder / f"{name}.npz").values()]
        largest = max(float(abs(array).max(initial=1e-9)) for array in native)
        pairs = zip(native, outputs, strict=True)
        distances[name] = max(float(abs(a - numpy.asarray(b)).max(initial=0)) for a, b in pairs) / largest
    print(json.dumps(distances))


def json_of(words):
    done = subprocess.run(list(map(str, words)), cwd=ROOT, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise SystemExit(f"{words}: {done.stderr.strip()[-600:]}")
    return json.loads(lines[-1])


def take(source, options):
    name, folder, failed = source.name, WORK / source.name, []
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in source.iterdir():
        if file.suffix == ".npz" or file.name.startswith("model.onnx"):
            shutil.copy(file, folder / file.name)
    for profile, more in PROFILES.items():
        runtime = profile.split(",")[0]
        words = ["quantize", folder / "model.onnx", "--for", runtime, *more, "-o", folder / f"{profile}.onnx"]
        if runtime != "transformers.js":
            words += ["--calibrate", folder / "inputs.npz"]
        words = list(map(str, [*shlex.split(options.qdq), *words]))
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            failed.append(f"{name}, {profile}: {done.stderr.strip()[-300:]}")
    python = [*shlex.split(options.onnxruntime), "python3", "tests/beside/runtime_profiles.py"]
    found = json_of([*python, "--measure", folder, str(options.rounds)])
    web = {}
    if options.web:
        names = [key for key, value in found["files"].items() if "ms" in value and key != "float"]
        in_web(folder, found["shape"], names, options.web)
        web = json_of([*python, "--compare", folder])
    theirs = found["files"].get("quantize_static", {})
    for key, value in found["files"].items():
        label = (
            "float"
            if key == "float"
            else key
            if key in THEIRS
            else f"`--for {key.split(',')[0]}`" + key[len(key.split(",")[0]) :]
        )
        if "error" in value:
            print(f"| {name} | {label} | does not run: {value['error']} |  |  |  |", flush=True)
            failed += [] if key in THEIRS else [f"{name}, {key}: {value['error']}"]
            continue
        ms = statistics.median(value["ms"])
        same = f" ({value['same']} of {found['samples']})" if "same" in value else ""
        agreement = "" if key == "float" else f"{value['decibels']:.1f} dB{same}"
        there = web.get(key, "")
        there = there if isinstance(there, str) else f"{there:.0e}"
        print(f"| {name} | {label} | {agreement} | {value['bytes'] / 1000:.0f} | {ms:.2f} | {there} |", flush=True)
        if key in PROFILES and isinstance(web.get(key), str):
            failed.append(f"{name}, {key} in ONNX Runtime Web: {web[key]}")
        if key in PROFILES and "ms" in theirs:
            is_worse = value["decibels"] < theirs["decibels"] and value["bytes"] > theirs["bytes"]
            if is_worse and ms > statistics.median(theirs["ms"]):
                failed.append(f"{name}, {key}: worse than quantize_static in agreement, size and time")
    return failed


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--measure":
        return measure(Path(sys.argv[2]), int(sys.argv[3]))
    if len(sys.argv) == 3 and sys.argv[1] == "--compare":
        return compare_web(Path(sys.argv[2]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", help="the models of these names")
    parser.add_argument("--qdq", default="./dev qdq", help="the native command line")
    parser.add_argument("--onnxruntime", required=True, help="what starts a Python with onnxruntime")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--web", type=Path, help="where node_modules/onnxruntime-web is")
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    print("| model | file | agreement | kB | ms | in Web |\n|" + "---|" * 6)
    failed = []
    for path in sorted(options.folder.iterdir()):
        if (path / "model.onnx").exists() and (options.only is None or path.name in options.only):
            failed += take(path, options)
    print("\n" + "\n".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
