"""Differential test: random ONNX graphs through ONNX Runtime and through qdq must agree.

  python3 tests/beside/differential_onnx.py make [--seed S] [--count N]
      in a Python with onnx and onnxruntime: graphs, inputs, what ONNX Runtime computes
  python3 tests/beside/differential_onnx.py run [--qdq COMMAND] [--ways portable onednn ...]
      where qdq runs: outputs natively, by each way, and in Node
  python3 tests/beside/differential_onnx.py check
      in the first Python again: compares, and runs the int8 files; exit status 1 if a graph disagrees

Graph number N of a seed is always the same (differential_onnx_graphs.py): `make --seed S --only N` makes it alone. What
is made goes to build/differential_onnx. Ways: portable (the default of `qdq run`), plain (node by node), onednn, the
levels SSE41, AVX2 and AVX512_CORE of portable (on a processor that has more), node (the npm package, which `./dev
package` makes), and int8: graphs with convolutions and products are quantized and written as .onnx, which qdq and ONNX
Runtime run.

A graph agrees if outputs have ONNX Runtime's dtypes and shapes, floats differ by at most 1e-3 of the largest (float16:
4e-3), and all others are equal. An int8 file agrees if outputs differ by at most a 50th of the largest on the mean.
"""

import argparse
import base64
import concurrent.futures
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "differential_onnx"
LIMIT = ROOT / "build/native/tests/libqdq_limit_dispatch.so"  # ./dev build native qdq_limit_dispatch
LEVELS = ("SSE41", "AVX2", "AVX512_CORE")
WAYS = ("portable", "plain", "onednn", *LEVELS, "node", "int8")
QUANTIZABLE = {"Conv", "ConvTranspose", "Gemm", "MatMul"}


def make(options):
    import numpy
    import onnx
    from differential_onnx_graphs import quiet_session, random_graph
    from differential_onnx_rare import RARE
    from differential_onnx_rules import LAYERS, RULES

    WORK.mkdir(parents=True, exist_ok=True)
    for old in WORK.glob("[0-9]*"):
        old.unlink()
    made = []
    for number in options.only or range(options.count):
        found = random_graph(options.seed, number, RULES, LAYERS, RARE)
        if found is None:
            continue
        model, inputs, outputs = found
        name = f"{number:06d}"
        try:
            wanted = quiet_session(model).run(outputs, inputs)
        except Exception as problem:  # a graph that is less than the sum of its nodes
            print(f"graph {number}: ONNX Runtime refuses it: {str(problem)[:160]}")
            continue
        onnx.save(model, WORK / f"{name}.onnx")
        numpy.savez(WORK / f"{name}.npz", **{f"b0_i{i}": a for i, a in enumerate(inputs.values())})
        numpy.savez(WORK / f"{name}.wanted.npz", **{f"o{i}": a for i, a in enumerate(wanted)})
        operators = {node.op_type for node in model.graph.node}
        made.append({"name": name, "quantize": bool(operators & QUANTIZABLE)})
    (WORK / "made.json").write_text(json.dumps({"seed": options.seed, "made": made}))
    print(f"seed {options.seed}: {len(made)} graphs")


def call(command, errors, environment=None):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, check=False)
    errors.write_text("" if done.returncode == 0 else f"{done.stderr.strip()[-600:]} (status {done.returncode})")
    return done.returncode == 0


def run_way(qdq, graph, way):
    name = WORK / graph["name"]
    out, errors = Path(f"{name}.{way}.npz"), Path(f"{name}.{way}.err")
    environment = dict(os.environ)
    if way in LEVELS:
        environment |= {"DNNL_MAX_CPU_ISA": way, "LD_PRELOAD": str(LIMIT)}
    model = f"{name}.onnx"
    if way == "int8":
        model = f"{name}.int8.onnx"
        quantize = [*qdq, "quantize", f"{name}.onnx", "--calibrate", f"{name}.npz", "-o", model]
        if not call(quantize, errors):
            return
    more = {"plain": ["--node-by-node"], "onednn": ["--backend", "onednn"]}.get(way, [])
    call([*qdq, "run", model, "--inputs", f"{name}.npz", "-o", str(out), *more], errors, environment)


def run(options):
    made = json.loads((WORK / "made.json").read_text())["made"]
    for way in options.ways:
        for old in WORK.glob(f"*.{way}.*"):
            old.unlink()
    if set(options.ways) & set(LEVELS) and not LIMIT.exists():
        sys.exit(f"the levels want {LIMIT}: ./dev build native qdq_limit_dispatch")
    qdq = shlex.split(options.qdq)
    native = [way for way in options.ways if way != "node"]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for way in native:
            graphs = [g for g in made if way != "int8" or g["quantize"]]
            list(pool.map(lambda graph, way=way: run_way(qdq, graph, way), graphs))
    if "node" in options.ways:
        subprocess.run(["node", str(ROOT / "tests/beside/differential_onnx.mjs"), str(WORK)], check=True)


def arrays_of(path):
    import numpy

    if path.suffix == ".json":  # of tests/beside/differential_onnx.mjs
        return [
            numpy.frombuffer(base64.b64decode(a["bytes"]), a["dtype"]).reshape(a["shape"])
            for a in json.loads(path.read_text())
        ]
    with numpy.load(path) as arrays:
        return [arrays[key] for key in arrays.files]


def difference(found, wanted, is_int8):
    import numpy

    if len(found) != len(wanted):
        return f"{len(found)} outputs instead of {len(wanted)}"
    for i, (a, b) in enumerate(zip(found, wanted)):
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"output {i} is {a.dtype}{list(a.shape)}, ONNX Runtime has {b.dtype}{list(b.shape)}"
        if a.size == 0:
            continue
        if b.dtype.kind != "f":
            if (a != b).any() and not is_int8:
                return f"output {i} ({b.dtype}): {int((a != b).sum())} of {a.size} differ"
            continue
        off = numpy.abs(a.astype("float64") - b.astype("float64"))
        largest = numpy.abs(b.astype("float64")).max()
        if is_int8:
            if off.mean() > 0.02 * max(largest, 1e-2):
                return f"output {i}: differs by {off.mean():.2e} on the mean, the largest is {largest:.2e}"
        elif not off.max() <= (4e-3 if b.dtype == "float16" else 1e-3) * max(largest, 1e-2):
            return f"output {i}: differs by {off.max():.2e}, the largest is {largest:.2e}"
    return None


def int8_outputs(name, graph):
    """What ONNX Runtime computes of the int8 file that qdq wrote."""
    import onnx
    from differential_onnx_graphs import quiet_session

    model = onnx.load(f"{name}.int8.onnx")
    onnx.checker.check_model(model)
    given = [v.name for v in model.graph.input if v.name not in {t.name for t in model.graph.initializer}]
    arrays = arrays_of(Path(f"{name}.npz"))
    return quiet_session(model).run(None, dict(zip(given, arrays)))


def check_one(graph, way):
    """(agrees, differs or refused, why)"""
    name = WORK / graph["name"]
    errors, found = Path(f"{name}.{way}.err"), Path(f"{name}.{way}.{'json' if way == 'node' else 'npz'}")
    if not found.exists():
        return "refused", errors.read_text().replace("\n", " ") if errors.exists() else "nothing was written"
    try:
        wanted = int8_outputs(name, graph) if way == "int8" else arrays_of(Path(f"{name}.wanted.npz"))
    except Exception as problem:
        return "differs", f"ONNX Runtime refuses the int8 file: {str(problem)[:300]}"
    why = difference(arrays_of(found), wanted, way == "int8")
    return ("differs", why) if why else ("agrees", "")


def check(options):
    made = json.loads((WORK / "made.json").read_text())
    wrong = 0
    for way in options.ways:
        counts = {"agrees": 0, "differs": 0, "refused": 0}
        for graph in made["made"]:
            if not any(WORK.glob(f"{graph['name']}.{way}.err")):
                continue
            verdict, why = check_one(graph, way)
            counts[verdict] += 1
            if verdict != "agrees":
                print(f"{graph['name']} {way} {verdict}: {why}")
        if sum(counts.values()):
            print(
                f"seed {made['seed']}, {way}: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
            )
        wrong += counts["differs"]
    sys.exit(1 if wrong else 0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["make", "run", "check"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--only", type=int, nargs="*")
    parser.add_argument("--qdq", default=str(ROOT / "build/native/qdq"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--ways", nargs="*", default=WAYS, choices=WAYS)
    options = parser.parse_args()
    {"make": make, "run": run, "check": check}[options.verb](options)


if __name__ == "__main__":
    main()
