"""Differential test: random small graphs through PyTorch 2.6 and through qdq must agree.

  python3 tests/beside/differential.py make  [--seed S] [--count N] [--networks]
      in a Python with PyTorch 2.6: graphs, inputs, what PyTorch computes; with --networks not random graphs but the
      networks of networks.py by five recipes each
  python3 tests/beside/differential.py run
      where qdq runs: float outputs, int8 files, their outputs
  python3 tests/beside/differential.py check
      in PyTorch again: compares; exit status 1 if a graph disagrees

Even graphs are float graphs of any operators of tests/beside/differential_graphs.py; odd ones are networks that are
quantized too, in the mode "torch-2.6": half of them with a random recipe of the XNNPACK or the X86 quantizer, half with
random annotations (differential_annotations.py). Graph number N of a seed is always the same: `make --seed S --only N`
makes it alone. What is made goes to build/differential. A graph agrees if

  float      outputs have PyTorch's dtypes and shapes; floats differ by at most 2e-5 of the output's largest value, or
             8 times PyTorch's own error (float32 against float64) where that is more; others are equal, where PyTorch
             in float64 has the same.
  quantized  qdq refuses what PyTorch refuses. Else the file that qdq wrote, loaded by PyTorch, has the operators that
             PyTorch's convert_pt2e made, in the same order and with the same arguments; integer weights and zero
             points are equal; scales, and int32 biases, whose scale is a product of them, differ by at most 1e-5 of
             themselves, scales also by two bins of a histogram (2 / 2048) where PyTorch's own scale moves with its
             kernels (float_kernels.py). Outputs that PyTorch and qdq compute from that file differ by at most 2
             quantization steps of the output (a 255th of its range where it is not quantized), or twice what PyTorch's
             own kernels differ by, or twice what PyTorch's output moves by where one activation in 200 is rounded to
             the neighbouring integer (a layer norm or a steep function behind a quantizer magnifies one step).
"""

import argparse
import json
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

from differential_annotations import annotation_quantizer, random_annotations
from positional import positional

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "differential"


# --- make
# --------------------------------------------------------------------------------------------------------------


def torch_quantizer(recipe):
    from torch.ao.quantization.quantizer import x86_inductor_quantizer as x86
    from torch.ao.quantization.quantizer import xnnpack_quantizer as xnnpack

    if recipe["quantizer"] == "AnnotationQuantizer":
        return annotation_quantizer(recipe)
    is_x86 = recipe["quantizer"] == "X86InductorQuantizer"
    config_of = (
        x86.get_default_x86_inductor_quantization_config if is_x86 else xnnpack.get_symmetric_quantization_config
    )
    config = lambda options: None if options is None else config_of(**options)
    quantizer = x86.X86InductorQuantizer() if is_x86 else xnnpack.XNNPACKQuantizer()
    if "global" in recipe:
        quantizer.set_global(config(recipe["global"]))
    for kind, options in recipe.get("module_type", []):
        import torch

        of = torch
        for part in kind.split(".")[1:]:
            of = getattr(of, part)
        getattr(quantizer, "set_module_type_qconfig" if is_x86 else "set_module_type")(of, config(options))
    for name, options in recipe.get("module_name", []):
        getattr(quantizer, "set_module_name_qconfig" if is_x86 else "set_module_name")(name, config(options))
    return quantizer


def facts_of(graph_module):
    """The calls of a graph in order: (target, all arguments in schema order).

    A node is its place among calls or inputs, an attribute its tensor.
    """
    import torch

    calls, place, inputs = [], {}, 0

    def plain(value):
        if isinstance(value, torch.fx.Node):
            if value.op == "get_attr":
                tensor = graph_module
                for part in value.target.split("."):
                    tensor = getattr(tensor, part)
                return ("tensor", tensor.detach().numpy().copy())
            return ("node", place[value])
        if isinstance(value, (list, tuple)):
            return ("list", [plain(v) for v in value])
        return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)

    for node in graph_module.graph.nodes:
        if node.op == "placeholder":
            place[node] = f"input {inputs}"
            inputs += 1
        elif node.op == "call_function":
            if "getitem" in str(node.target):  # a .pt2 has no place of its own for it: results are named with the call
                place[node] = f"{place[node.args[0]]}[{node.args[1]}]"
                continue
            place[node] = len(calls)
            args = list(node.args)
            if isinstance(node.target, torch._ops.OpOverload):
                given = {a.name: v for a, v in zip(node.target._schema.arguments, node.args)} | dict(node.kwargs)
                args = [
                    given.get(a.name, a.default_value if a.has_default_value() else None)
                    for a in node.target._schema.arguments
                ]
            calls.append((str(node.target), [plain(a) for a in args]))
        elif node.op == "output":
            calls.append(("output", [plain(node.args[0])]))
    return calls


def quantize_in_torch(file, recipe, batches, kernels):
    """The facts of PyTorch's converted graph; kernels: as in float_kernels.py."""
    import torch
    from torch.ao.quantization.quantize_pt2e import convert_pt2e, prepare_pt2e

    from float_kernels import float_kernels

    graph = positional(torch.export.load(file).module())
    prepared = prepare_pt2e(graph, torch_quantizer(recipe))
    with float_kernels(kernels):
        for batch in batches:
            prepared(*batch)
    return facts_of(convert_pt2e(prepared))


NETWORK_RECIPES = (
    {"quantizer": "XNNPACKQuantizer", "global": {"is_per_channel": True}},
    {"quantizer": "XNNPACKQuantizer", "global": {}},
    {"quantizer": "XNNPACKQuantizer", "global": {"is_per_channel": True, "is_dynamic": True}},
    {"quantizer": "X86InductorQuantizer", "global": {}},
    {"quantizer": "X86InductorQuantizer", "global": {"is_dynamic": True}},
)


def network_numbers():
    from networks import NETWORKS

    return [4 * i + 1 for i in range(len(NETWORKS) * len(NETWORK_RECIPES))]  # of kind 1: quantized, without annotations


def network(number):
    """(the network as a graph of differential_graphs.py, its recipe)"""
    import types

    import torch
    from networks import NETWORKS

    at, recipe = divmod(number // 4, len(NETWORK_RECIPES))
    name, (make, shapes) = list(NETWORKS.items())[at]
    torch.manual_seed(at)
    module = make()
    for part in module.modules():
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm):
            part.running_mean.copy_(torch.randn(part.running_mean.shape) * 0.1)
            part.running_var.copy_(torch.rand(part.running_var.shape) + 0.5)
    inputs, others = (tuple(torch.randn(shape) for shape in shapes) for _ in range(2))
    graph = types.SimpleNamespace(module=module.eval(), inputs=inputs, other_inputs=others, source=name)
    return graph, NETWORK_RECIPES[recipe]


def leaves(result):
    import torch.utils._pytree

    return [t.detach().numpy().copy() for t in torch.utils._pytree.tree_leaves(result)]


def make_one(seed, number, folder, networks):
    import numpy
    import torch
    from torch.ao.quantization.pt2e.utils import _fuse_conv_bn_

    import float_kernels
    from differential_graphs import random_graph, random_network, random_recipe

    quantized = number % 2 == 1
    if networks:
        graph, recipe = network(number)
    else:
        graph = (random_network if quantized else random_graph)(seed, number)
    name = f"{number:04d}"
    (folder / f"{name}.py").write_text(graph.source)
    program = torch.export.export_for_training(graph.module, graph.inputs, strict=True)
    torch.export.save(program, folder / f"{name}.pt2")
    record = {
        "quantized": quantized,
        "targets": sorted({str(n.target) for n in program.graph.nodes if n.op == "call_function"}),
    }
    copies = lambda: [t.clone() for t in graph.inputs]
    with torch.no_grad():
        record["float"] = leaves(program.module()(*copies()))
        try:
            wide = leaves(
                graph.module.double()(*[t.double() if t.is_floating_point() else t.clone() for t in graph.inputs])
            )
        except Exception:  # a graph with float32 of its own
            with float_kernels.float_kernels("float64"):
                wide = leaves(program.module()(*copies()))
        graph.module.float()
    record["double"] = wide
    numpy.savez(folder / f"{name}.npz", **{f"b0_i{i}": t.numpy() for i, t in enumerate(graph.inputs)})
    if quantized:
        if networks:
            pass
        elif number % 4 == 3:
            folded = positional(torch.export.load(folder / f"{name}.pt2").module())
            _fuse_conv_bn_(folded)  # as prepare_pt2e does before it annotates
            recipe = random_annotations(seed, number, folded)
        else:
            recipe = random_recipe(seed, number, graph)
        batches = [graph.inputs, graph.other_inputs]
        (folder / f"{name}.recipe.json").write_text(json.dumps(recipe | {"compat": "torch-2.6"}))
        numpy.savez(
            folder / f"{name}.calib.npz",
            **{f"b{b}_i{i}": t.numpy() for b, batch in enumerate(batches) for i, t in enumerate(batch)},
        )
        try:
            record["converted"] = {
                kernels: quantize_in_torch(folder / f"{name}.pt2", recipe, batches, kernels)
                for kernels in float_kernels.NAMES
            }
        except Exception as problem:
            record["refused"] = f"{type(problem).__name__}: {str(problem)[:200]}"
    with open(folder / f"{name}.pickle", "wb") as file:
        pickle.dump(record, file)


def make(options):
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for old in WORK.glob("[0-9]*"):
        old.unlink()
    numbers = options.only or (network_numbers() if options.networks else range(options.count))
    made, unmakeable = [], []
    for number in numbers:
        torch._dynamo.reset()
        try:
            make_one(options.seed, number, WORK, options.networks)
            made.append(number)
        except Exception as problem:  # PyTorch does not export or save it
            unmakeable.append(number)
            reason = f"{type(problem).__name__}: {problem}".splitlines()[0][:160]
            print(f"graph {number}: PyTorch has no file of it: {reason}", flush=True)
    (WORK / "made.json").write_text(json.dumps({"seed": options.seed, "made": made}))
    print(f"seed {options.seed}: {len(made)} graphs made; PyTorch refused to export {len(unmakeable)}")


# --- run
# ---------------------------------------------------------------------------------------------------------------


def run(options):
    made = json.loads((WORK / "made.json").read_text())
    lines = ["set -u", "ok=0"]
    at = "build/differential"
    for number in made["made"]:
        name = f"{at}/{number:04d}"
        lines.append(
            f"{options.program} run {name}.pt2 --inputs {name}.npz -o {name}.ours.npz "
            f"2>{name}.err >/dev/null && ok=$((ok+1))"
        )
        if (WORK / f"{number:04d}.recipe.json").exists():
            lines.append(
                f"{options.program} quantize {name}.pt2 --calibrate {name}.calib.npz --recipe {name}.recipe.json "
                f"-o {name}.int8.pt2 2>{name}.quantize.err >/dev/null && "
                f"{options.program} run {name}.int8.pt2 --inputs {name}.npz -o {name}.int8.npz "
                f"2>{name}.int8.err >/dev/null"
            )
    (WORK / "run.sh").write_text("\n".join(lines + ["echo $ok float graphs ran", ""]))
    for old in list(WORK.glob("*.ours.npz")) + list(WORK.glob("*.int8.*")):
        old.unlink()
    subprocess.run([str(ROOT / "dev"), "build", "native"], cwd=ROOT, check=True)
    sys.exit(subprocess.run([str(ROOT / "dev"), "sh", f"{at}/run.sh"], cwd=ROOT, check=False).returncode)


# --- check
# -------------------------------------------------------------------------------------------------------------


def arrays_of(path):
    import numpy

    with numpy.load(path) as arrays:
        return [arrays[key] for key in arrays.files]


def error_of(path):
    return path.read_text().strip().replace("\n", " ")[:300] if path.exists() else "no error text"


def compare_floats(ours, theirs, wide):
    import numpy

    if len(ours) != len(theirs):
        return f"{len(ours)} outputs instead of {len(theirs)}"
    for i, (our, their) in enumerate(zip(ours, theirs)):
        a, b = our, their
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"output {i} is {a.dtype}{list(a.shape)}, PyTorch has {b.dtype}{list(b.shape)}"
        exact = wide[i] if wide and wide[i].shape == b.shape else None
        if a.dtype.kind != "f":
            unsure = (exact != b) if exact is not None else numpy.zeros(b.shape, bool)
            if ((a != b) & ~unsure).any():
                return f"output {i} ({a.dtype}): {int(((a != b) & ~unsure).sum())} of {a.size} differ"
            continue
        if a.size == 0:
            continue
        if (numpy.isnan(a) != numpy.isnan(b)).any():
            return f"output {i}: not the same NaN"
        a, b = numpy.nan_to_num(a.astype("float64")), numpy.nan_to_num(b.astype("float64"))
        scale = numpy.abs(b).max()
        allowed = 2e-5 * scale + 1e-30
        if exact is not None:
            allowed = max(allowed, 8 * numpy.abs(numpy.nan_to_num(exact.astype("float64")) - b).max())
        if numpy.abs(a - b).max() > allowed:
            differs = numpy.abs(a - b).max()
            return f"output {i}: differs by {differs:.2e}, the largest is {scale:.2e}, allowed {allowed:.1e}"
    return None


class Difference(Exception):
    pass


def compare_calls(ours, theirs):
    """Returns the number of scales beyond 1e-5 that PyTorch's own runs excuse."""
    import numpy

    first = theirs["onednn"]
    names = lambda calls: [target for target, _ in calls]
    if names(ours) != names(first):
        at = next((i for i, (a, b) in enumerate(zip(names(ours), names(first))) if a != b), min(len(ours), len(first)))
        raise Difference(
            f"call {at} is {names(ours)[at : at + 3]}, PyTorch has {names(first)[at : at + 3]} "
            f"({len(ours)} and {len(first)} calls)"
        )
    excused = 0

    def same_scale(a, values, where):
        nonlocal excused
        a, values = numpy.asarray(a, "float64"), [numpy.asarray(v, "float64") for v in values]
        error = lambda x: float((numpy.abs(x - values[0]) / numpy.abs(values[0])).max())
        if a.shape != values[0].shape or error(a) > 1e-5:
            moved = max(map(error, values[1:]))
            if a.shape != values[0].shape or moved == 0 or error(a) > 1.01 * max(2 / 2048, moved):
                raise Difference(
                    f"{where}: scale {a.tolist()}, PyTorch has {values[0].tolist()} "
                    f"(with its other kernels it moves by {moved:.1e})"
                )
            excused += 1

    def same(a, others, where):
        b = others[0]
        if isinstance(b, tuple) and b[0] == "tensor" and isinstance(a, tuple) and a[0] == "tensor":
            if a[1].dtype != b[1].dtype or a[1].shape != b[1].shape:
                raise Difference(
                    f"{where}: a tensor {a[1].dtype}{list(a[1].shape)}, PyTorch has {b[1].dtype}{list(b[1].shape)}"
                )
            if a[1].dtype.kind == "f" and where.endswith("scale"):
                same_scale(a[1], [o[1] for o in others], where)
            elif a[1].dtype == numpy.int32 and where.endswith(
                "argument 0"
            ):  # a bias, whose scale is a product of others' within 1e-5
                if (numpy.abs(a[1].astype("int64") - b[1]) > 1 + 1e-5 * numpy.abs(b[1].astype("int64"))).any():
                    raise Difference(f"{where}: integers of a bias differ by more than 1e-5 of themselves")
            elif not (a[1] == b[1]).all() and (
                a[1].dtype.kind != "f" or numpy.abs(a[1] - b[1]).max() > 1e-6 * numpy.abs(b[1]).max()
            ):
                raise Difference(
                    f"{where}: {int((a[1] != b[1]).sum())} of {a[1].size} elements of a {a[1].dtype} tensor differ"
                )
        elif (
            isinstance(b, tuple)
            and b[0] == "list"
            and isinstance(a, tuple)
            and a[0] == "list"
            and len(a[1]) == len(b[1])
        ):
            for i, item in enumerate(a[1]):
                same(item, [o[1][i] for o in others], where)
        elif isinstance(b, float) and isinstance(a, float) and where.endswith("scale"):
            same_scale(a, others, where)
        elif a != b:
            short = lambda v: str(v)[:80]
            if where.endswith("zero point") and isinstance(a, int) and isinstance(b, int) and a in others:
                return  # moves with PyTorch's kernels
            raise Difference(f"{where} is {short(a)}, PyTorch has {short(b)}")

    for at, (target, args) in enumerate(ours):
        for i, a in enumerate(args):
            what = (
                {1: "scale", 2: "zero point"}.get(i, f"argument {i}") if "quantize_per" in target else f"argument {i}"
            )
            same(a, [theirs[kernels][at][1][i] for kernels in theirs], f"call {at} {target}: {what}")
    return excused


def check_quantized(name, record):
    import numpy
    import torch

    from float_kernels import NAMES, OtherRounding, float_kernels

    wrote = (WORK / f"{name}.int8.pt2").exists()
    if "refused" in record:
        return ("PyTorch refused (" + record["refused"][:100] + "), qdq did not") if wrote else None
    if not wrote:
        return "qdq refused: " + error_of(WORK / f"{name}.quantize.err")
    module = torch.export.load(WORK / f"{name}.int8.pt2").module()
    facts = facts_of(module)
    excused[name] = compare_calls(facts, record["converted"])
    inputs = [torch.from_numpy(a) for a in arrays_of(WORK / f"{name}.npz")]
    outputs = {}
    for kernels in NAMES:
        with float_kernels(kernels):
            outputs[kernels] = leaves(module(*[t.clone() for t in inputs]))
    if not (WORK / f"{name}.int8.npz").exists():
        return "qdq does not run its file: " + error_of(WORK / f"{name}.int8.err")
    ours = arrays_of(WORK / f"{name}.int8.npz")
    for i, (a, b, c, d, kind) in enumerate(zip(ours, *outputs.values(), facts[-1][1][0][1], strict=True)):
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"int8 output {i} is {a.dtype}{list(a.shape)}, PyTorch has {b.dtype}{list(b.shape)}"
        if a.dtype.kind != "f" or a.size == 0:
            continue
        call = facts[kind[1]] if isinstance(kind[1], int) else ("", [])
        is_static = call[0] == "quantized_decomposed.dequantize_per_tensor.default"
        step = call[1][1] if is_static else float(b.max() - b.min()) / 255
        distance = lambda x, y, step=step: float(numpy.abs(x - y).max()) / max(step, 1e-30)
        spread = max(distance(b, c), distance(b, d), distance(c, d))
        if distance(a, b) > max(2.001, 2 * spread):
            for seed in range(8):
                with torch.no_grad(), OtherRounding(seed, 0.005):
                    spread = max(spread, distance(leaves(module(*[t.clone() for t in inputs]))[i], b))
        if distance(a, b) > max(2.001, 2 * spread):
            return f"int8 output {i}: {distance(a, b):.2f} steps apart, PyTorch's own spread {spread:.2f}"
    return None


excused = {}


def check(options):
    import torch
    import torch.ao.quantization.fx._decomposed  # registers the quantized_decomposed operators

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    made = json.loads((WORK / "made.json").read_text())
    failed, targets, counts, refused = [], set(), {False: 0, True: 0}, 0
    for number in made["made"]:
        name = f"{number:04d}"
        with open(WORK / f"{name}.pickle", "rb") as file:
            record = pickle.load(file)
        targets.update("torch.ops." + t for t in record["targets"])
        counts[record["quantized"]] += 1
        refused += "refused" in record
        ours = WORK / f"{name}.ours.npz"
        problem = "qdq refused: " + error_of(WORK / f"{name}.err")
        if ours.exists():
            problem = compare_floats(arrays_of(ours), record["float"], record["double"])
        if problem is None and record["quantized"]:
            try:
                problem = check_quantized(name, record)
            except Exception as difference:
                problem = str(difference) or type(difference).__name__
        if problem:
            failed.append(number)
            print(f"graph {number}: {problem}  [make --seed {made['seed']} --only {number}]", flush=True)
    known = json.loads((ROOT / "tests/golden/op/cases.json").read_text())["schemas"]
    used = len(targets & set(known))
    agree = len(made["made"]) - len(failed)
    print(
        f"seed {made['seed']}: {agree} of {len(made['made'])} graphs agree "
        f"({counts[False]} float, {counts[True]} quantized, of which PyTorch refuses {refused} and so must qdq); "
        f"{used} of the {len(known)} operators of the table occur; "
        f"{sum(excused.values())} scales beyond 1e-5 that move in PyTorch too"
    )
    if options.verbose:
        print(
            "operators that do not occur:", " ".join(sorted(t.removeprefix("torch.ops.") for t in set(known) - targets))
        )
    sys.exit(1 if failed else 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=["make", "run", "check"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--only", type=int, action="append")
    parser.add_argument("--networks", action="store_true")
    parser.add_argument("--program", default="build/native/qdq")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    {"make": make, "run": run, "check": check}[options.stage](options)


if __name__ == "__main__":
    main()
