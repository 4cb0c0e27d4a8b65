#!/usr/bin/env python3
"""Cases of quantization-aware training (prepare_qat_pt2e, three steps of SGD, convert_pt2e) for `./dev conformance`.

  python3 tests/beside/qat_networks.py FOLDER [NAME ...]      in a Python with PyTorch 2.6

The networks of networks.py that have one output and draw no random numbers, in training mode, with both quantizers.
"""

import copy
import json
import math
import pathlib
import sys
import warnings

import torch
from torch.ao.quantization import move_exported_model_to_eval
from torch.ao.quantization.pt2e import prepare
from torch.ao.quantization.quantize_pt2e import convert_pt2e, prepare_qat_pt2e

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "golden"))

from differential import torch_quantizer
from networks import NETWORKS

from positional import positional

warnings.filterwarnings("ignore")
RECIPES = {
    "xnnpack": {"quantizer": "XNNPACKQuantizer", "global": {"is_per_channel": True, "is_qat": True}},
    "x86": {"quantizer": "X86InductorQuantizer", "global": {"is_qat": True}},
}
TRAINING = {
    "loss": "mse",
    "optimizer": "sgd",
    "lr": 0.02,
    "momentum": 0.5,
    "steps": 3,
    "switches_before_step": {},
    "mode_before_convert": "eval",
}
TOLERANCES = {
    "training": {"loss_rel": 1e-5, "param_abs": 2e-5, "bn_abs": 2e-5, "scale_rel": 2e-5},
    "outputs_same_qparams": {"limits": [{"max_units": 1.01, "fraction": 0.1, "min_sqnr_db": 40}]},
}


def argument(value):
    from make_fx import json_of

    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    for kind, name in ((torch.device, "device"), (torch.memory_format, "memory_format"), (torch.layout, "layout")):
        if isinstance(value, kind):
            return {name: str(value).removeprefix("torch.")}
    if isinstance(value, (list, tuple)):
        return [argument(v) for v in value]
    return json_of(value)


def graph_of(graph_module):
    out = []
    for node in graph_module.graph.nodes:
        target = str(node.target)
        if isinstance(node.target, torch._ops.OpOverload):
            target = "torch.ops." + target
        elif node.op == "call_function":
            target = f"operator.{node.target.__name__}"
        entry = {"name": node.name, "op": node.op, "target": target, "users": [user.name for user in node.users]}
        if node.args and node.op != "placeholder":
            entry["args"] = argument(node.args)
        if node.kwargs:
            entry["kwargs"] = {key: argument(value) for key, value in node.kwargs.items()}
        if node.op == "call_function" and node.meta.get("nn_module_stack"):
            entry["module"] = list(node.meta["nn_module_stack"].values())[-1][0].removeprefix("L['self'].")
        out.append(entry)
    return out


def prepared_with_places(program, quantizer):
    """The prepared model and which edges and nodes each observer is for, in the order of their creation."""
    places, original = {}, prepare._get_obs_or_fq_map

    def recorded(*arguments):
        made = original(*arguments)
        for place, module in made.items():
            json_of_place = {"edge": [n.name for n in place]} if isinstance(place, tuple) else {"node": place.name}
            places.setdefault(id(module), (module, []))[1].append(json_of_place)
        return made

    prepare._get_obs_or_fq_map = recorded
    try:
        return prepare_qat_pt2e(program, quantizer), list(places.values())
    finally:
        prepare._get_obs_or_fq_map = original


def observers_of(prepared, places):
    from make_fx import observer_of

    out = []
    for module, covers in places:
        nodes = [
            n for n in prepared.graph.nodes if n.op == "call_module" and prepared.get_submodule(n.target) is module
        ]
        if nodes:
            inserted = [node.name for node in nodes]
            out.append((module, {"id": len(out), **observer_of(module), "inserted_as": inserted, "covers": covers}))
    return out


def state_of(module):
    scale, zero_point = module.calculate_qparams()
    found = {"scale": scale, "zero_point": zero_point, "fq_scale": module.scale, "fq_zero_point": module.zero_point}
    observer = module.activation_post_process
    found |= {"min_val": observer.min_val, "max_val": observer.max_val}
    return {key: value.detach().reshape(-1).tolist() for key, value in found.items()}


def train(prepared, observers, batches, targets, arrays):
    optimizer = torch.optim.SGD(prepared.parameters(), lr=TRAINING["lr"], momentum=TRAINING["momentum"])
    steps = []
    for step, (batch, target) in enumerate(zip(batches, targets)):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(prepared(*batch), target)
        loss.backward()
        parameters = dict(prepared.named_parameters())
        if step == 0:
            arrays |= {f"step0_grad_{n}": p.grad for n, p in parameters.items() if p.grad is not None}
        optimizer.step()
        statistics = {n: b for n, b in prepared.named_buffers() if n.endswith(("running_mean", "running_var"))}
        arrays |= {f"step{step}_param_{n}": p.detach().clone() for n, p in parameters.items()}
        arrays |= {f"step{step}_bn_{n}": b.clone() for n, b in statistics.items()}
        states = {str(i): state_of(module) for i, (module, _) in enumerate(observers)}
        steps.append({"loss": loss.item(), "fake_quants": states, "params": list(parameters), "bn": list(statistics)})
    return steps


def tensors_of(converted, arrays):
    out = {}
    for node in converted.graph.nodes:
        if node.op == "get_attr":
            value = converted
            for part in node.target.split("."):
                value = getattr(value, part)
            arrays[f"attr_{node.target}"] = value.detach()
            out[node.target] = {"dtype": str(value.dtype)[6:], "npz": f"attr_{node.target}"}
    return out


def make_case(folder, name, model, recipe, shapes):
    from make_fx import save_arrays

    torch.manual_seed(sum(map(ord, name)))
    inputs = lambda: tuple(torch.randn(shape) for shape in shapes)
    batches, tests = [inputs() for _ in range(3)], [inputs() for _ in range(2)]
    program = torch.export.export_for_training(model.train(), inputs(), strict=True)
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # it has paths of this machine
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    torch.export.save(program, place / "model.pt2")
    graph = positional(torch.export.load(place / "model.pt2").module())
    sample = graph(*tests[0])
    if not isinstance(sample, torch.Tensor):
        raise ValueError("several outputs")
    targets, arrays = [torch.randn(sample.shape) for _ in batches], {}
    graph = positional(torch.export.load(place / "model.pt2").module())
    expected = {"float_graph": graph_of(graph)}
    prepared, places = prepared_with_places(graph, torch_quantizer(recipe))
    observers = observers_of(prepared, places)
    expected["prepared"] = {"graph": graph_of(prepared), "observers": [copy.deepcopy(entry) for _, entry in observers]}
    expected["steps"] = train(prepared, observers, batches, targets, arrays)
    move_exported_model_to_eval(prepared)
    prepared.apply(torch.ao.quantization.disable_observer)
    with torch.no_grad():
        arrays |= {f"prepared_t{t}_o0": prepared(*test) for t, test in enumerate(tests)}
        converted = convert_pt2e(prepared)
        expected["converted"] = {"graph": graph_of(converted), "tensors": tensors_of(converted, arrays)}
        arrays |= {f"converted_t{t}_o0": converted(*test) for t, test in enumerate(tests)}
    output = arrays["converted_t0_o0"]
    expected["outputs"] = [{"unit": float((output.max() - output.min()) / 255)}]
    case = {
        "name": name,
        "category": "qat",
        "flow": "qat",
        "recipe": recipe,
        "training": TRAINING,
        "convert": {"fold_quantize": True},
        "expected": expected,
        "tolerances": TOLERANCES,
    }
    (place / "case.json").write_text(json.dumps(case))
    train_arrays = {f"b{n}_i{i}": v for n, batch in enumerate(batches) for i, v in enumerate(batch)}
    save_arrays(place / "train.npz", train_arrays | {f"b{n}_target": target for n, target in enumerate(targets)})
    save_arrays(place / "test.npz", {f"t{n}_i{i}": v for n, test in enumerate(tests) for i, v in enumerate(test)})
    save_arrays(place / "expected.npz", arrays)


def main():
    torch.set_num_threads(1)
    folder = pathlib.Path(sys.argv[1])
    for name in sys.argv[2:] or NETWORKS:
        make, shapes = NETWORKS[name]
        for kind, recipe in RECIPES.items():
            torch._dynamo.reset()
            torch.manual_seed(0)
            try:
                make_case(folder, f"{name}_{kind}", make(), recipe, shapes)
                print("made", f"{name}_{kind}", flush=True)
            except Exception as error:  # what PyTorch does not make is no case
                print(f"not {name}_{kind}: {type(error).__name__}: {str(error).splitlines()[:1]}", flush=True)


if __name__ == "__main__":
    main()
