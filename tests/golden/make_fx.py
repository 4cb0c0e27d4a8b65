#!/usr/bin/env python3
"""Cases of FX graph mode in the form that `./dev conformance` runs: for every model below what PyTorch's prepare_fx,
convert_to_reference_fx and convert_fx make of it, and the same model exported.

  python3 tests/golden/make_fx.py FOLDER [name ...]      in a Python with PyTorch 2.6

The tests run those that lie in tests/golden/fx.
"""

import copy
import json
import pathlib
import sys
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from fx_configs import backend_of, custom_of, type_of
from torch import nn
from torch.ao.quantization import qconfig as named_qconfigs
from torch.ao.quantization.fake_quantize import FakeQuantizeBase
from torch.ao.quantization.fx.tracer import QuantizationTracer
from torch.ao.quantization.observer import _is_activation_post_process
from torch.ao.quantization.qconfig_mapping import (
    QConfigMapping,
    get_default_qat_qconfig_mapping,
    get_default_qconfig_mapping,
)
from torch.ao.quantization.quantize_fx import convert_fx, convert_to_reference_fx, prepare_fx, prepare_qat_fx
from torchvision.ops import StochasticDepth

warnings.filterwarnings("ignore")


def text_of(target):
    if isinstance(target, str):
        return target
    module, name = target.__module__ or "torch", target.__name__
    return f"{ {'_operator': 'operator', 'torch._VariableFunctions': 'torch'}.get(module, module) }.{name}"


def json_of(value):
    if isinstance(value, torch.fx.Node):
        return {"node": value.name}
    if isinstance(value, (list, tuple, torch.Size)):
        return [json_of(v) for v in value]
    if isinstance(value, torch.dtype):
        return {"dtype": str(value)[6:]}
    if isinstance(value, slice):
        return {"slice": [json_of(value.start), json_of(value.stop), json_of(value.step)]}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return {"other": str(value)}


def inlined(graph_module, sub_graph):
    """The nodes of a graph with those of standalone modules in the place of their calls: (name, node, names of the
    nodes that it reads, what stands in front of its target)."""
    out, names = [], {}
    for node in graph_module.graph.nodes:
        sub = sub_graph(node) if node.op == "call_module" else None
        if sub is None:
            names[node] = node.name
            out.append((node.name, node, names, ""))
            continue
        inner_names, inputs = {}, list(node.args)
        for inner in sub.graph.nodes:
            if inner.op == "placeholder":
                inner_names[inner] = names[inputs.pop(0)]
            elif inner.op == "output":
                names[node] = inner_names[inner.args[0]]
            else:
                inner_names[inner] = f"{node.name}_{inner.name}"
                out.append((inner_names[inner], inner, inner_names, f"{node.target}."))
    return out


def sub_graph_of(model):
    """Standalone modules are graphs of their own in a model that was prepared or converted."""

    def get(node):
        module = model.get_submodule(node.target)
        return module if isinstance(module, torch.fx.GraphModule) else None

    return get


def renamed(value, names):
    if isinstance(value, dict):
        if set(value) == {"node"}:
            return {"node": names[value["node"]]}
        return {key: renamed(item, names) for key, item in value.items()}
    return [renamed(item, names) for item in value] if isinstance(value, list) else value


def graph_with_standalone(model, sub_graph):
    out = []
    for name, node, names, prefix in inlined(model, sub_graph):
        by_name = {inner.name: new for inner, new in names.items()}
        is_named = node.op in ("call_module", "get_attr")
        entry = {"name": name, "op": node.op, "target": (prefix if is_named else "") + text_of(node.target)}
        for key, value in (("args", node.args), ("kwargs", node.kwargs)):
            if value:
                plain = {k: json_of(v) for k, v in value.items()} if key == "kwargs" else json_of(value)
                entry[key] = renamed(plain, by_name)
        out.append(entry)
    return out


def numbers(tensor):
    return tensor.tolist()


def observer_of(module):
    out = {"class": type(module).__name__, "dtype": str(module.dtype)[6:], "qscheme": str(module.qscheme)[6:]}
    if isinstance(module, FakeQuantizeBase) and hasattr(module, "activation_post_process"):
        out["observer"] = observer_of(module.activation_post_process)
    for key in ("quant_min", "quant_max", "ch_axis", "is_dynamic", "reduce_range", "bins", "averaging_constant", "eps"):
        if hasattr(module, key) and (key != "eps" or type(module).__name__ != "FixedQParamsObserver"):
            value = getattr(module, key)
            out[key] = value.item() if isinstance(value, torch.Tensor) else value
    return out


def state_of(module):
    out = {}
    observer, module = module, getattr(module, "activation_post_process", module)
    if getattr(module, "min_val", None) is not None and type(module).__name__ != "FixedQParamsObserver":
        out |= {"min_val": numbers(module.min_val), "max_val": numbers(module.max_val)}
    if type(module).__name__ != "PlaceholderObserver":
        scale, zero_point = observer.calculate_qparams()
        out |= {"scale": numbers(scale.flatten()), "zero_point": numbers(zero_point.flatten())}
    return out


def observer_groups(prepared):
    """[(observer, the nodes that call it)]"""
    groups = {}
    for name, node, _, prefix in inlined(prepared, sub_graph_of(prepared)):
        if node.op == "call_module" and _is_activation_post_process(prepared.get_submodule(prefix + node.target)):
            module = prepared.get_submodule(prefix + node.target)
            groups.setdefault(id(module), (module, []))[1].append(name)
    return list(groups.values())


def observers_of(prepared):
    out = []
    for number, (module, names) in enumerate(observer_groups(prepared)):
        out.append(
            {
                "id": number,
                **observer_of(module),
                "inserted_as": names,
                "state": state_of(module),
            }
        )
    return out


def weight_of(weight, key, arrays):
    scheme = str(weight.qscheme())[6:]
    if scheme.startswith("per_channel"):
        out = {
            "scale": numbers(weight.q_per_channel_scales().float()),
            "zero_point": numbers(weight.q_per_channel_zero_points()),
            "axis": weight.q_per_channel_axis(),
        }
    else:
        out = {"scale": [weight.q_scale()], "zero_point": [weight.q_zero_point()], "axis": 0}
    arrays[key] = weight.int_repr().numpy()
    return out | {"qscheme": scheme, "dtype": str(weight.dtype)[6:], "npz": key}


def reference_modules(model, arrays):
    out = []
    for name, module in model.named_modules():
        entry = {"name": name, "type": f"{type(module).__module__}.{type(module).__name__}"}
        if hasattr(module, "get_quantized_weight") and module.weight_dtype in (
            torch.qint8,
            torch.quint8,
            torch.quint4x2,
        ):
            entry["weight"] = weight_of(module.get_quantized_weight(), f"reference_{name}_weight", arrays)
        out.append(entry)
    return out[1:]


def lowered_modules(model, arrays):
    out = []
    for name, module in model.named_modules():
        entry = {"name": name, "type": f"{type(module).__module__}.{type(module).__name__}"}
        if ".quantized" in entry["type"] and hasattr(module, "scale"):
            entry |= {"scale": float(module.scale), "zero_point": int(module.zero_point)}
        if ".quantized" in entry["type"] and callable(getattr(module, "weight", None)) and module.weight().is_quantized:
            entry["weight"] = weight_of(module.weight(), f"lowered_{name}_weight", arrays)
        out.append(entry)
    return out[1:]


def flat(outputs):
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


def difference(a, b, unit):
    return float((a - b).abs().max() / unit)


def units_of(reference, outputs):
    """The scale of the quantizer behind each output, else 1/255 of its range."""
    results = next(n for n in reference.graph.nodes if n.op == "output").args[0]
    out = []
    for node, value in zip(flat(results), outputs):
        if (
            node.op == "call_method"
            and node.target == "dequantize"
            and node.args[0].target is torch.quantize_per_tensor
        ):
            out.append({"unit": float(getattr(reference, node.args[0].args[1].target))})
        else:
            out.append({"unit": float((value.max() - value.min()) / 255)})
    return out


def save_arrays(path, arrays):
    np.savez(
        path,
        **{key: value.detach().numpy() if isinstance(value, torch.Tensor) else value for key, value in arrays.items()},
    )


def record_what_observers_see(prepared, arrays):
    """arrays gets `seen_OBSERVER_CALL`, whenever an observer is called."""
    for number, (module, _) in enumerate(observer_groups(prepared)):
        calls = iter(range(1 << 30))

        def see(_, inputs, number=number, calls=calls):
            arrays[f"seen_{number}_{next(calls)}"] = inputs[0].detach().clone()

        module.register_forward_pre_hook(see)


class IntegersOfLayers(torch.fx.Interpreter):
    """Runs a reference model; arrays get `layer_DEQUANTIZE_tTEST`, the integers that it dequantizes."""

    def __init__(self, reference, arrays, test):
        super().__init__(reference)
        self.arrays, self.test = arrays, test

    def run_node(self, node):
        if node.op == "call_method" and node.target == "dequantize":
            self.arrays[f"layer_{node.name}_t{self.test}"] = self.env[node.args[0]].int_repr()
        return super().run_node(node)


def make_case(
    folder,
    name,
    model,
    mapping,
    recipe,
    shapes,
    engine,
    dtype=torch.float32,
    backend="native",
    custom=None,
    by_layer=False,
):
    """by_layer: a deep network with the weights that it has, whose layers are compared one by one
    (tests/conformance/fx_layers.h)."""
    torch.manual_seed(sum(map(ord, name)))
    for parameter in () if by_layer else model.parameters():
        parameter.data.copy_(torch.randn(parameter.shape) * 0.3)
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.running_mean.copy_(torch.randn(module.running_mean.shape) * 0.1)
            module.running_var.copy_(torch.rand(module.running_var.shape) + 0.5)
    model.eval()
    make = (lambda s: torch.randint(0, 10, s)) if dtype == torch.int64 else torch.randn
    batches = [[make(s) for s in shapes] for _ in range(2)]
    tests = [[make(s) for s in shapes] for _ in range(2)]
    torch.backends.quantized.engine = engine
    config = {"backend_config": backend_of(backend)}
    custom_config = custom_of(custom or {}, mapping_of, tuple(batches[0]))
    alone, alone_classes = custom_config.standalone_module_names, tuple(custom_config.standalone_module_classes)
    traced_model = copy.deepcopy(model)
    traced = torch.fx.GraphModule(
        traced_model,
        QuantizationTracer(
            [*alone, *custom_config.non_traceable_module_names],
            [*alone_classes, *custom_config.non_traceable_module_classes],
        ).trace(traced_model),
    )

    def traced_sub_graph(node):
        module = model.get_submodule(node.target)
        if node.target in alone or isinstance(module, alone_classes):
            return torch.fx.GraphModule(module, QuantizationTracer([], []).trace(module))
        return None

    is_qat = recipe.pop("qat", False)
    prepare = prepare_qat_fx if is_qat else prepare_fx
    prepared = prepare(
        copy.deepcopy(model).train(is_qat),
        mapping,
        tuple(batches[0]),
        prepare_custom_config=custom_config,
        **config,
    )
    arrays = {}
    if by_layer:
        record_what_observers_see(prepared, arrays)
    for batch in batches:
        prepared(*batch)
    for module, _ in observer_groups(prepared):
        module._forward_pre_hooks.clear()
    prepared.eval()
    reference = convert_to_reference_fx(copy.deepcopy(prepared), **config)
    qparams = {}
    for node_name, node, _, prefix in inlined(reference, sub_graph_of(reference)):
        if node.op == "get_attr":
            value = reference
            for part in (prefix + node.target).split("."):
                value = getattr(value, part)
            if value.numel() < 64:
                qparams[node_name] = {"dtype": str(value.dtype)[6:], "value": numbers(value)}
    expected = {
        "traced": graph_with_standalone(traced, traced_sub_graph),
        **({"by_layer": True} if by_layer else {}),
        "prepared": {
            "observers": observers_of(prepared),
            "graph": graph_with_standalone(prepared, sub_graph_of(prepared)),
        },
        "reference": {
            "graph": graph_with_standalone(reference, sub_graph_of(reference)),
            "qparams": qparams,
            "modules": reference_modules(reference, arrays),
        },
    }
    if is_qat:
        expected["prepared"]["module_fake_quants"] = {
            name: observer_of(module) | {"state": state_of(module)}
            for name, module in prepared.named_modules()
            if name.endswith("weight_fake_quant")
        }
    quantized = custom_config.input_quantized_indexes

    def given(inputs, model):
        """Integers by the range of the calibration, in the place of the inputs that are wanted so."""
        out = list(inputs)
        for index in quantized:
            observer = mapping.global_qconfig.activation()
            for batch in batches:
                observer(batch[index])
            scale, zero_point = observer.calculate_qparams()
            out[index] = torch.quantize_per_tensor(out[index], scale.item(), zero_point.item(), torch.quint8)
        return [value.dequantize() if value.is_quantized else value for value in flat(model(*out))]

    with torch.no_grad():
        outputs = [given(test, reference) for test in tests]
        if by_layer:
            for t, test in enumerate(tests):
                IntegersOfLayers(reference, arrays, t).run(*test)
    expected["outputs"] = units_of(reference, outputs[0])
    for t, values in enumerate(outputs):
        arrays |= {f"reference_t{t}_o{o}": value for o, value in enumerate(values)}
    try:
        lowered = convert_fx(copy.deepcopy(prepared), **config)
        with torch.no_grad():
            lowered_outputs = [given(test, lowered) for test in tests]
        expected["lowered"] = {"engine": engine, "modules": lowered_modules(lowered, arrays)}
        for t, values in enumerate(lowered_outputs):
            arrays |= {f"lowered_t{t}_o{o}": value for o, value in enumerate(values)}
        expected["lowered"]["difference_to_reference"] = [
            {
                "max_units": max(
                    difference(a[o], b[o], expected["outputs"][o]["unit"]) for a, b in zip(outputs, lowered_outputs)
                )
            }
            for o in range(len(outputs[0]))
        ]
    except (RuntimeError, NotImplementedError, AttributeError, AssertionError, TypeError) as error:
        print(f"{name}: convert_fx: {str(error).splitlines()[0][:150]}")
    program = torch.export.export(model, tuple(batches[0]), strict=True)
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # it has paths of this machine
    # Means of few integers lie between two others, and then single roundings go through all that is behind.
    limit = {"max_units": 1.01, "fraction": 0.1, "min_sqnr_db": 30}
    case = {
        "name": name,
        "category": "fx",
        "flow": "fx_ptq",
        "recipe": {
            "mode": "fx",
            "qat": is_qat,
            "qconfig_mapping": recipe,
            "backend_config": backend,
            **({"prepare_custom_config": custom} if custom else {}),
            "engine": engine,
        },
        "expected": expected,
        "tolerances": {
            "qparams": {"default": {"scale_rel": 1e-5, "zero_point": 0}},
            "reference_outputs": {"limits": [limit for _ in outputs[0]]},
            "lowered_outputs": {"max_units": 2.01},
        },
    }
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    (place / "case.json").write_text(json.dumps(case))
    torch.export.save(program, place / "model.pt2")
    save_arrays(place / "calib.npz", {f"b{n}_i{i}": v for n, batch in enumerate(batches) for i, v in enumerate(batch)})
    save_arrays(place / "test.npz", {f"t{n}_i{i}": v for n, test in enumerate(tests) for i, v in enumerate(test)})
    save_arrays(place / "expected.npz", arrays)


class Net(nn.Module):
    """Modules by name, and a function of them and the inputs."""

    def __init__(self, forward, **modules):
        super().__init__()
        for name, module in modules.items():
            setattr(self, name, module)
        self.forward_ = forward

    def forward(self, *inputs):
        return self.forward_(self, *inputs)


class OneInput(Net):
    def forward(self, x):
        return self.forward_(self, x)


class TwoInputs(Net):
    def forward(self, x, y):
        return self.forward_(self, x, y)


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.fc, self.act = nn.Linear(size, size), nn.ReLU()

    def forward(self, x):
        return self.act(self.fc(x)) + x


class Functional(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.b = nn.Parameter(torch.zeros(4, 3, 3, 3)), nn.Parameter(torch.zeros(4))
        self.gamma, self.beta = nn.Parameter(torch.zeros(4)), nn.Parameter(torch.zeros(4))

    def forward(self, x):
        y = F.relu(F.conv2d(x, self.w, self.b, padding=1))
        y = F.leaky_relu(F.group_norm(y, 2, self.gamma, self.beta), 0.1)
        y = F.adaptive_avg_pool2d(F.max_pool2d(y, 2), 2)
        y = F.hardtanh(torch.mean(y, [2, 3]), -0.5, 0.5)
        return F.layer_norm(y, (4,), self.gamma, self.beta)


class Constants(nn.Module):
    """What is read twice, a buffer and a parameter; what is made of buffers alone; a tensor of the code."""

    def __init__(self):
        super().__init__()
        self.register_buffer("adjacent", torch.rand(3, 3))
        self.register_buffer("mask", torch.tensor([[0.0, -2.0, 1.0]]))
        self.shift = nn.Parameter(torch.zeros(6))
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x):
        y = torch.matmul(self.adjacent, self.a(x + self.shift))
        y = torch.matmul(self.adjacent, self.b(y)) + self.shift
        y = torch.matmul((self.mask.repeat(3, 1) - 1).unsqueeze(0), y)
        return y * torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])


class Buffered(nn.Module):
    """Operators with a buffer and with a parameter on the left, where Python asks it first; a module of a buffer, a
    constant that is made and viewed, a conversion that changes nothing."""

    def __init__(self):
        super().__init__()
        self.register_buffer("buffer", torch.rand(6, 6))
        self.parameter, self.fc = nn.Parameter(torch.zeros(6, 6)), nn.Linear(6, 6)

    def forward(self, x):
        x = self.fc(x)
        y = (self.buffer * x, self.buffer + x, self.buffer - x, self.buffer @ x, self.buffer[0] * x)
        z = (x * self.buffer, self.parameter * x, x @ self.buffer, torch.mul(self.buffer, x), -self.buffer + x)
        w = self.fc(self.buffer) / torch.arange(1, 7).view(1, 6)
        return self.fc(sum(y[1:], y[0])) + self.fc(sum(z[1:], z[0])) + F.softmax(w.float(), dim=-1).type_as(w)


IMAGE, ROWS = (2, 3, 8, 8), (3, 6)


def q(name):
    return getattr(named_qconfigs, name)


def models():
    """name -> (model, mapping as set_... calls, shapes, engine)"""
    n = nn
    yield (
        "modules_conv",
        OneInput(
            lambda m, x: m.drop(m.elu(m.up(m.act(m.bn(m.conv(x)))))),
            conv=n.Conv2d(3, 4, 3),
            bn=n.BatchNorm2d(4),
            act=n.ReLU(),
            up=n.ConvTranspose2d(4, 2, 2),
            elu=n.ELU(),
            drop=n.Dropout(),
        ),
        {"default": "x86"},
        [IMAGE],
        "onednn",
    )
    yield (
        "batch_norm_alone",
        OneInput(lambda m, x: m.conv(m.act(m.bn(x))), bn=n.BatchNorm2d(3), act=n.ReLU(), conv=n.Conv2d(3, 2, 1)),
        {"default": "qnnpack"},
        [IMAGE],
        "qnnpack",
    )
    yield "functions", Functional(), {"default": "onednn"}, [IMAGE], "onednn"
    yield (
        "first_operators",
        OneInput(
            lambda m, x: (torch.sigmoid(x), F.hardswish(x), m.fc(x.reshape(3, 6)), x.view(2, 9).unsqueeze(0)),
            fc=n.Linear(6, 2),
        ),
        {"default": "x86"},
        [ROWS],
        "onednn",
    )
    yield (
        "blocks",
        OneInput(lambda m, x: m.head(m.body(x)), body=n.Sequential(Block(6), Block(6)), head=n.Linear(6, 2)),
        {"default": "fbgemm", "module_name": [["body.1", None]]},
        [ROWS],
        "onednn",
    )
    yield (
        "numbers",
        TwoInputs(
            lambda m, x, y: (
                F.relu(x + 1),
                torch.add(2, y),
                (x * y) * x,
                x - y,
                m.relu(torch.mul(x, 0.5)),
                torch.relu(x + y),
            ),
            relu=n.ReLU(),
        ),
        {"default": "qnnpack"},
        [ROWS, ROWS],
        "qnnpack",
    )
    yield (
        "operators_of_constants",
        Buffered(),
        {"default": "x86"},
        [(6, 6)],
        "onednn",
    )
    yield (
        "shared_from_afar",
        TwoInputs(
            lambda m, x, y: (
                m.a(torch.exp(x + y).view(6, 3)),
                m.b(torch.einsum("ij,kj->ik", m.c(x), m.c(y)).reshape(9)),
                m.a(torch.max(m.c(x).view(6, 3, 1), dim=-1).values),
            ),
            a=n.Linear(3, 3),
            b=n.Linear(9, 2),
            c=n.Linear(6, 6),
        ),
        {"default": "x86"},
        [ROWS, ROWS],
        "onednn",
    )
    yield (
        "cats",
        TwoInputs(
            lambda m, x, y: (
                torch.cat([m.a(x), y, x], 1),
                torch.cat([x, m.a(y)]),
                torch.stack([m.a(x), m.b(y)]).sum(0),
            ),
            a=n.Linear(6, 6),
            b=n.Linear(6, 6),
        ),
        {"default": "qnnpack"},
        [ROWS, ROWS],
        "qnnpack",
    )
    yield (
        "matmul",
        TwoInputs(
            lambda m, x, y: (torch.matmul(x, y.transpose(0, 1)), x @ y.t(), m.fc(torch.matmul(x.permute(1, 0), y))),
            fc=n.Linear(6, 6),
        ),
        {"default": "x86"},
        [ROWS, ROWS],
        "onednn",
    )
    yield (
        "branches",
        OneInput(
            lambda m, x: torch.clamp(m.a(x), -1, 1) + m.tanh(m.b(x)) * torch.sigmoid(m.b(x)),
            a=n.Linear(6, 6),
            b=n.Linear(6, 6),
            tanh=n.Tanh(),
        ),
        {"default": "x86"},
        [ROWS],
        "onednn",
    )
    yield (
        "activations",
        OneInput(
            lambda m, x: (
                m.relu6(m.conv(x)),
                m.hard(m.conv(x)),
                m.leaky(m.conv(x)),
                m.swish(m.conv(x)),
                m.gelu(m.conv(x)),
                m.prelu(m.conv(x)),
                F.silu(m.conv(x)),
                F.interpolate(m.conv(x), scale_factor=2),
            ),
            conv=n.Conv2d(3, 2, 3),
            relu6=n.ReLU6(),
            hard=n.Hardtanh(),
            leaky=n.LeakyReLU(),
            swish=n.Hardswish(),
            gelu=n.GELU(),
            prelu=n.PReLU(),
        ),
        {"default": "qnnpack"},
        [IMAGE],
        "qnnpack",
    )
    yield (
        "conv1d",
        OneInput(
            lambda m, x: m.norm(m.pool(m.act(m.conv(x)))),
            conv=n.Conv1d(3, 4, 3),
            act=n.ReLU(),
            pool=n.AvgPool1d(2),
            norm=n.InstanceNorm1d(4),
        ),
        {"default": "qnnpack"},
        [(2, 3, 10)],
        "qnnpack",
    )
    yield (
        "flatten_and_softmax",
        OneInput(
            lambda m, x: m.soft(m.fc(m.flat(m.pool(x)))),
            pool=n.MaxPool2d(4),
            flat=n.Flatten(),
            fc=n.Linear(12, 5),
            soft=n.Softmax(1),
        ),
        {"default": "x86"},
        [IMAGE],
        "onednn",
    )
    yield (
        "in_place",
        OneInput(
            lambda m, x: m.relu(m.b(m.a(x).relu_()).add_(1)).mul(2),
            a=n.Conv2d(3, 3, 1),
            b=n.Conv2d(3, 3, 1),
            relu=n.ReLU(inplace=True),
        ),
        {"default": "x86"},
        [IMAGE],
        "onednn",
    )
    yield (
        "methods",
        OneInput(
            lambda m, x: m.fc(x.contiguous().squeeze().repeat(1, 1)).clamp(-1, 1).mean(0, keepdim=True),
            fc=n.Linear(6, 4),
        ),
        {"default": "x86"},
        [ROWS],
        "onednn",
    )
    yield (
        "dynamic_and_static",
        OneInput(
            lambda m, x: m.c(m.act(m.b(m.a(x)))), a=n.Linear(6, 6), b=n.Linear(6, 6), act=n.ReLU(), c=n.Linear(6, 2)
        ),
        {"global": {"named": "default_qconfig"}, "module_name": [["a", {"named": "per_channel_dynamic_qconfig"}]]},
        [ROWS],
        "onednn",
    )
    yield (
        "float16",
        OneInput(lambda m, x: m.b(m.a(x)), a=n.Linear(6, 6), b=n.Linear(6, 2)),
        {"global": {"named": "float16_dynamic_qconfig"}},
        [ROWS],
        "onednn",
    )
    yield (
        "weight_dtypes",
        OneInput(lambda m, x: m.b(m.a(x)), a=n.Linear(6, 6), b=n.Linear(6, 2)),
        {
            "global": {"named": "default_quint8_weight_qconfig"},
            "module_name": [["b", {"named": "default_symmetric_qnnpack_qconfig"}]],
        },
        [ROWS],
        "onednn",
    )
    yield (
        "different_ranges",
        OneInput(lambda m, x: m.a(x) + m.b(x), a=n.Linear(6, 6), b=n.Linear(6, 6)),
        {
            "global": {"named": "default_qconfig"},
            "module_name": [
                [
                    "b",
                    {
                        "activation": {
                            "class": "MovingAverageMinMaxObserver",
                            "args": {"dtype": "quint8", "averaging_constant": 0.1},
                        },
                        "weight": {
                            "class": "MinMaxObserver",
                            "args": {"dtype": "qint8", "qscheme": "per_tensor_affine"},
                        },
                    },
                ]
            ],
        },
        [ROWS],
        "onednn",
    )
    yield (
        "orders",
        OneInput(lambda m, x: F.relu(m.c(m.b(m.a(x)) + 1) * x), a=n.Linear(6, 6), b=n.Linear(6, 6), c=n.Linear(6, 6)),
        {
            "default": "x86",
            "module_name_object_type_order": [["", "torch.nn.Linear", 1, None], ["", "operator.mul", 0, None]],
        },
        [ROWS],
        "onednn",
    )
    yield (
        "operators_by_type",
        OneInput(lambda m, x: m.c(F.relu(m.a(x) + x)) * x, a=n.Linear(6, 6), c=n.Linear(6, 6)),
        {"default": "x86", "object_type": [["torch.nn.functional.relu", None], ["operator.mul", None]]},
        [ROWS],
        "onednn",
    )
    yield (
        "squeeze_excite",
        OneInput(
            lambda m, x: x * m.gate(m.up(m.act(m.down(m.pool(x))))),
            pool=n.AdaptiveAvgPool2d(1),
            down=n.Conv2d(3, 2, 1),
            act=n.ReLU(),
            up=n.Conv2d(2, 3, 1),
            gate=n.Hardsigmoid(),
        ),
        {"default": "qnnpack"},
        [IMAGE],
        "qnnpack",
    )
    yield (
        "linear_batch_norm",
        OneInput(
            lambda m, x: m.b(m.act(m.bn(m.a(x)))), a=n.Linear(6, 4), bn=n.BatchNorm1d(4), act=n.ReLU(), b=n.Linear(4, 2)
        ),
        {"default": "x86"},
        [ROWS],
        "onednn",
    )
    yield (
        "transposed_batch_norm",
        OneInput(
            lambda m, x: m.act(m.bn(m.conv(x))), conv=n.ConvTranspose2d(3, 4, 2), bn=n.BatchNorm2d(4), act=n.ReLU()
        ),
        {"default": "qnnpack"},
        [IMAGE],
        "qnnpack",
    )
    yield (
        "conv3d",
        OneInput(
            lambda m, x: m.pool(m.norm(m.conv(x))), conv=n.Conv3d(3, 2, 2), norm=n.BatchNorm3d(2), pool=n.MaxPool3d(2)
        ),
        {"default": "x86"},
        [(2, 3, 4, 5, 5)],
        "onednn",
    )
    yield (
        "attention",
        OneInput(lambda m, x: m.head(m.att(x, x, x)[0]), att=n.MultiheadAttention(6, 2), head=n.Linear(6, 2)),
        {"default": "x86"},
        [(3, 2, 6)],
        "onednn",
    )
    yield (
        "transformer",
        OneInput(
            lambda m, x: m.head(m.layer(m.first(x))),
            first=n.Linear(6, 6),
            layer=n.TransformerEncoderLayer(6, 2, 8, dropout=0.0),
            head=n.Linear(6, 2),
        ),
        {"default": "x86"},
        [(3, 2, 6)],
        "onednn",
    )
    yield (
        "parts",
        OneInput(
            lambda m, x: (lambda parts: m.b(parts[0]) + m.c(parts[1]))(torch.chunk(m.a(x), 2, 1)),
            a=n.Linear(6, 8),
            b=n.Linear(4, 4),
            c=n.Linear(4, 4),
        ),
        {"default": "x86"},
        [ROWS],
        "onednn",
    )
    yield (
        "slices",
        OneInput(
            lambda m, x: m.b(m.a(x)[:, 1:4]).view(x.size(0), -1, 2).softmax(-1), a=n.Linear(6, 8), b=n.Linear(3, 4)
        ),
        {"default": "x86"},
        [ROWS],
        "onednn",
    )
    yield (
        "sequential",
        n.Sequential(
            n.Sequential(n.Conv2d(3, 4, 3), n.BatchNorm2d(4), n.ReLU()),
            n.Sequential(n.Conv2d(4, 4, 3), n.ReLU6(), n.Dropout()),
            n.AdaptiveAvgPool2d(1),
            n.Flatten(),
            n.Linear(4, 2),
        ),
        {"default": "x86", "module_name_regex": [["1\\..*", None]]},
        [IMAGE],
        "onednn",
    )
    yield (
        "conv_read_by_others",
        OneInput(
            lambda m, x: (lambda y: m.act(m.bn(y)) + y)(m.conv(x)),
            conv=n.Conv2d(3, 4, 3),
            bn=n.BatchNorm2d(4),
            act=n.ReLU(),
        ),
        {"default": "x86"},
        [IMAGE],
        "onednn",
    )
    yield (
        "shuffle",
        OneInput(
            lambda m, x: m.up(m.shuffle(m.conv(x))).mean([2, 3]),
            conv=n.Conv2d(3, 4, 3),
            shuffle=n.PixelShuffle(2),
            up=n.Upsample(scale_factor=2),
        ),
        {"default": "qnnpack"},
        [IMAGE],
        "qnnpack",
    )
    yield (
        "static_embedding",
        OneInput(
            lambda m, x: m.fc(m.norm(m.emb(x)).flatten(1)),
            emb=n.Embedding(10, 6),
            norm=n.LayerNorm(6),
            fc=n.Linear(24, 2),
        ),
        {
            "default": "x86",
            "object_type": [["torch.nn.Embedding", {"named": "float_qparams_weight_only_qconfig_4bit"}]],
        },
        [(2, 4)],
        "onednn",
    )
    yield (
        "embedding_by_default",
        OneInput(lambda m, x: m.fc(m.emb(x)), emb=n.Embedding(10, 6), fc=n.Linear(6, 2)),
        {"default": "x86"},
        [(2, 4)],
        "onednn",
    )
    yield (
        "activation_only",
        OneInput(lambda m, x: m.b(F.relu(m.a(x))), a=n.Linear(6, 6), b=n.Linear(6, 2)),
        {
            "object_type": [
                ["torch.nn.functional.relu", {"named": "default_qconfig"}],
                ["torch.nn.Linear", {"named": "default_qconfig"}],
                ["torch.nn.ReLU", {"named": "default_qconfig"}],
            ],
            "module_name": [["a", None]],
        },
        [ROWS],
        "onednn",
    )
    yield (
        "identities",
        OneInput(
            lambda m, x: m.b(m.drop(m.id(m.a(x)))),
            a=n.Linear(6, 6),
            id=n.Identity(),
            drop=n.Dropout(0.2),
            b=n.Linear(6, 2),
        ),
        {"default": "x86"},
        [ROWS],
        "onednn",
    )
    yield (
        "fixed_without_mapping",
        OneInput(lambda m, x: torch.sigmoid(m.a(x)), a=n.Linear(6, 6)),
        {"global": {"named": "default_qconfig"}},
        [ROWS],
        "onednn",
    )
    yield (
        "recurrent_dynamic",
        OneInput(lambda m, x: m.fc(m.lstm(x)[0]), lstm=n.LSTM(6, 4), fc=n.Linear(4, 2)),
        {"global": {"named": "default_dynamic_qconfig"}},
        [(3, 2, 6)],
        "qnnpack",
    )
    yield (
        "qat_layers",
        OneInput(lambda m, x: m.b(m.act(m.a(x))), a=n.Linear(6, 4), act=n.ReLU(), b=n.Linear(4, 2)),
        {"default": "qnnpack", "qat": True},
        [ROWS],
        "qnnpack",
    )
    yield (
        "qat_convolutions",
        OneInput(
            lambda m, x: torch.sigmoid(m.c(m.norm(m.b(m.act(m.bn(m.a(x))))))),
            a=n.Conv2d(3, 4, 3, bias=False),
            bn=n.BatchNorm2d(4),
            act=n.ReLU(),
            b=n.Conv2d(4, 4, 3),
            norm=n.BatchNorm2d(4),
            c=n.Conv2d(4, 2, 1),
        ),
        {"default": "x86", "qat": True},
        [IMAGE],
        "onednn",
    )
    yield (
        "qat_linear_norm",
        OneInput(
            lambda m, x: m.c(m.norm(F.relu(m.bn(m.a(m.first(x)))))),
            first=n.BatchNorm1d(6),
            a=n.Linear(6, 4),
            bn=n.BatchNorm1d(4),
            norm=n.BatchNorm1d(4),
            c=n.Linear(4, 2),
        ),
        {"default": "x86", "qat": True},
        [(8, 6)],
        "onednn",
    )
    yield (
        "qat_three_axes",
        OneInput(
            lambda m, x: m.b(m.act(m.bn(m.a(x)))).flatten(1),
            a=n.Conv3d(3, 4, 2, bias=False),
            bn=n.BatchNorm3d(4, eps=1e-3),
            act=n.ReLU(),
            b=n.Conv3d(4, 2, 1),
        ),
        {"default": "qnnpack", "qat": True},
        [(2, 3, 4, 5, 5)],
        "qnnpack",
    )
    yield (
        "qat_transposed",
        OneInput(
            lambda m, x: m.c(F.relu(m.bn(m.up(x)))),
            up=n.ConvTranspose2d(3, 4, 2, 2),
            bn=n.BatchNorm2d(4),
            c=n.Conv2d(4, 2, 1),
        ),
        {"default": "qnnpack", "qat": True},
        [IMAGE],
        "qnnpack",
    )
    yield "constants", Constants(), {"default": "qnnpack"}, [ROWS], "qnnpack"
    yield (
        "results",
        OneInput(
            lambda m, x: (
                lambda parts, y, z: m.fc(torch.cat([parts[2], y, torch.relu(y + parts[1]), parts[0]], 1)) + z
            )(
                *(lambda p: (p, m.a(p[1]), m.b(p[0])))(torch.split(x, 2, 1)),
            ),
            a=n.Linear(2, 2),
            b=n.Linear(2, 3),
            fc=n.Linear(8, 3),
        ),
        {"default": "qnnpack"},
        [ROWS],
        "qnnpack",
    )
    yield (
        "results_of_modules",
        OneInput(
            lambda m, x: (
                lambda seen, states: m.fc(seen[0] + x) + seen[1].mean() + m.state(states[1][1][-1]) + states[1][0][0, 0]
            )(m.att(x, x, x), m.lstm(x)),
            att=n.MultiheadAttention(6, 2, batch_first=True),
            lstm=n.LSTM(6, 4),
            fc=n.Linear(6, 4),
            state=n.Linear(4, 4),
        ),
        {"default": "x86"},
        [(3, 3, 6)],
        "onednn",
    )
    yield (
        "pools_and_pads",
        OneInput(
            lambda m, x: m.b(F.max_pool2d(F.pad(m.a(x), (1, 0, 2, 1)), 2)).amax((2, 3)),
            a=n.Conv2d(3, 4, 3),
            b=n.Conv2d(4, 2, 2),
        ),
        {"default": "x86"},
        [IMAGE],
        "onednn",
    )
    # A function that hands on its input, with observers on both sides.
    drop = OneInput(
        lambda m, x: m.head(m.drop(m.bn(m.conv(x))) + x),
        conv=n.Conv2d(3, 3, 3, padding=1),
        bn=n.BatchNorm2d(3),
        drop=StochasticDepth(0.2, "row"),
        head=n.Conv2d(3, 2, 1),
    )
    yield "stochastic_depth", drop, {"default": "x86"}, [IMAGE], "onednn"
    deep = n.Sequential(*[m for _ in range(4) for m in (n.Conv2d(4, 4, 3, padding=1), n.Hardswish())])
    yield "deep_by_layer", n.Sequential(n.Conv2d(3, 4, 1), deep), {"default": "x86"}, [IMAGE], "onednn"


def qconfig_of(entry):
    if entry is None:
        return None
    if "named" in entry:
        return q(entry["named"])

    def observer(spec):
        args = {k: getattr(torch, v) if k in ("dtype", "qscheme") else v for k, v in spec.get("args", {}).items()}
        return getattr(torch.ao.quantization.observer, spec["class"]).with_args(**args)

    return named_qconfigs.QConfig(observer(entry["activation"]), observer(entry["weight"]))


def mapping_of(recipe):
    default = get_default_qat_qconfig_mapping if recipe.get("qat") else get_default_qconfig_mapping
    mapping = default(recipe["default"]) if "default" in recipe else QConfigMapping()
    if "global" in recipe:
        mapping.set_global(qconfig_of(recipe["global"]))
    for name, entry in recipe.get("object_type", []):
        mapping.set_object_type(type_of(name), qconfig_of(entry))
    for name, entry in recipe.get("module_name_regex", []):
        mapping.set_module_name_regex(name, qconfig_of(entry))
    for name, entry in recipe.get("module_name", []):
        mapping.set_module_name(name, qconfig_of(entry))
    for module, name, index, entry in recipe.get("module_name_object_type_order", []):
        mapping.set_module_name_object_type_order(module, type_of(name), index, qconfig_of(entry))
    return mapping


if __name__ == "__main__":
    for name, model, recipe, shapes, engine in models():
        if len(sys.argv) < 3 or name in sys.argv[2:]:
            dtype = torch.int64 if "embedding" in name else torch.float32
            folder, by_layer = pathlib.Path(sys.argv[1]), name.endswith("_by_layer")
            make_case(folder, name, model, mapping_of(recipe), recipe, shapes, engine, dtype, by_layer=by_layer)
