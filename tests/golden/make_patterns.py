"""Writes tests/golden/patterns: small models, patterns exported as functions, and what PyTorch finds in and makes of
them.

Run with PyTorch 2.6 in this folder: python3 make_patterns.py. MODEL.pt2 and PATTERN.pt2 are strict exports.
facts.json has

  matches      model -> pattern -> the name_node_map of every match of SubgraphMatcherWithNameNodeMap
  partitions   model -> list of [sources, [[nodes, sorted inputs, sorted outputs] of every partition]]
  sequences    model -> list of [sources, [[nodes of every partition of the sequence] of every sequence]]
  provenance   model -> recipe -> name of every operator of the converted graph -> [stack trace, module path, source]

The stack trace of an operator is "trace of NAME", so that no path of the machine gets into the files.
"""

import copy
import json
import operator
import pathlib
import zipfile

import torch
import torch.nn.functional as F
from torch import nn
from torch.ao.quantization.pt2e.graph_utils import find_sequential_partitions
from torch.ao.quantization.quantize_pt2e import convert_pt2e, prepare_pt2e
from torch.ao.quantization.quantizer.xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config
from torch.export import export_for_training
from torch.fx.passes.utils.matcher_with_name_node_map_utils import SubgraphMatcherWithNameNodeMap
from torch.fx.passes.utils.source_matcher_utils import get_source_partitions

OUT = pathlib.Path(__file__).parent / "patterns"
torch.set_num_threads(1)
torch.manual_seed(20261121)


class BasicBlock(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.downsample = None
        if stride != 1 or before != after:
            self.downsample = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        kept = x if self.downsample is None else self.downsample(x)
        return self.relu(self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x))))) + kept)


class ResNet18(nn.Module):
    """The graph of torchvision's resnet18 with a few channels."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(4)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        widths = [4, 4, 6, 8, 8]
        for i in range(4):
            stride = 1 if i == 0 else 2
            blocks = [BasicBlock(widths[i], widths[i + 1], stride), BasicBlock(widths[i + 1], widths[i + 1], 1)]
            setattr(self, f"layer{i + 1}", nn.Sequential(*blocks))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(8, 10)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class TransformerBlock(nn.Module):
    def __init__(self, width=8, heads=2):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width), nn.ReLU())

    def forward(self, x):
        batch, length, width = x.shape
        split = lambda t: t.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
        y = self.norm1(x)
        scores = torch.matmul(split(self.q(y)), split(self.k(y)).transpose(-2, -1)) * 0.5
        y = torch.matmul(torch.softmax(scores, -1), split(self.v(y))).transpose(1, 2).reshape(batch, length, width)
        x = x + self.out(y)
        return x + self.mlp(self.norm2(x))


class Reused(nn.Module):
    """Operators that are read twice, literals of both types, arguments by default and spelt out."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 3, 1), nn.Conv2d(3, 3, 1, bias=False)

    def forward(self, x):
        first = self.a(x)
        y = F.relu(first) + first
        y = F.relu(self.b(y))
        y = F.relu(F.conv2d(y, self.b.weight, None, [1, 1], [0, 0]))
        y = torch.add(y, y, alpha=2)
        y = torch.add(y, x)
        return F.hardtanh(y, 0.0, 6.0), F.hardtanh(y, 0, 6)


def conv_relu(x, weight):
    conv = F.conv2d(x, weight)
    relu = F.relu(conv)
    return relu, {"input": x, "weight": weight, "conv": conv, "relu": relu}


def conv_bias_relu(x, weight, bias):
    conv = F.conv2d(x, weight, bias)
    relu = F.relu(conv)
    return relu, {"conv": conv, "relu": relu}


def conv_padded(x, weight):
    conv = F.conv2d(x, weight, None, [1, 1], [1, 1])
    return conv, {"conv": conv}


def add_relu(x, y):
    total = x + y
    relu = F.relu(total)
    return relu, {"add": total, "relu": relu, "right": y}


def linear_two(x, w, b, v, c):
    first, second = F.linear(x, w, b), F.linear(x, v, c)
    return first, second, {"first": first, "second": second}


def scaled_softmax(x):
    scores = x * 0.5
    out = torch.softmax(scores, -1)
    return out, {"mul": scores, "softmax": out}


def relu6(x):
    out = F.hardtanh(x, 0.0, 6.0)
    return out, {"out": out}


def add(x, y):
    total = torch.add(x, y)
    return total, {"add": total}


IMAGE, TOKENS = torch.randn(1, 3, 16, 16), torch.randn(1, 5, 8)
KERNEL = torch.randn(3, 3, 1, 1)
VECTOR, MATRIX = torch.randn(8), torch.randn(8, 8)
MODELS = {
    "resnet18": (ResNet18(), IMAGE),
    "transformer_block": (TransformerBlock(), TOKENS),
    "reused": (Reused(), IMAGE),
}
PATTERNS = {
    "conv_relu": (conv_relu, (IMAGE, KERNEL)),
    "conv_bias_relu": (conv_bias_relu, (IMAGE, KERNEL, torch.randn(3))),
    "conv_padded": (conv_padded, (IMAGE, KERNEL)),
    "add_relu": (add_relu, (IMAGE, IMAGE)),
    "linear_two": (linear_two, (TOKENS, MATRIX, VECTOR, MATRIX, VECTOR)),
    "scaled_softmax": (scaled_softmax, (TOKENS,)),
    "relu6": (relu6, (IMAGE,)),
    "add": (add, (IMAGE, IMAGE)),
}
SOURCES = {
    "resnet18": [[nn.Conv2d], [nn.Linear, torch.flatten], [operator.add], [nn.ReLU, nn.MaxPool2d]],
    "transformer_block": [[nn.Linear], [torch.matmul], [nn.LayerNorm, nn.GELU]],
    "reused": [[nn.Conv2d], [torch.conv2d, F.relu], [torch.add]],
}
SEQUENCES = {
    "resnet18": [
        [nn.Conv2d, nn.BatchNorm2d],
        [nn.Conv2d, nn.BatchNorm2d, nn.ReLU],
        [nn.BatchNorm2d, operator.add, nn.ReLU],
    ],
    "transformer_block": [
        [nn.Linear, nn.GELU],
        [nn.GELU, nn.Linear],
        [nn.LayerNorm, nn.Linear],
        [nn.Linear, nn.ReLU, operator.add],
    ],
    "reused": [[nn.Conv2d, nn.ReLU], [torch.add, nn.Hardtanh]],
}
RECIPES = {"static": {"is_per_channel": True}, "dynamic": {"is_dynamic": True}}


def source_text(source):
    """As torch.export.save writes it."""
    if isinstance(source, str):
        return source
    if source.__qualname__.startswith("_VariableFunctionsClass."):
        return f"torch.{source.__name__}"
    return f"{source.__module__}.{source.__qualname__}"


class AsModule(nn.Module):
    def __init__(self, body, count):
        super().__init__()
        self.body = body
        names = ["x", "y", "z", "u", "v"][:count]
        exec(f"def forward(self, {', '.join(names)}): return self.body({', '.join(names)})", scope := {})
        self.forward = scope["forward"].__get__(self)


def exported(module, args):
    program = export_for_training(module.eval(), args)
    for node in program.graph.nodes:
        if node.op == "call_function":
            node.meta["stack_trace"] = f"trace of {node.name}"
    return program


def write(program, name):
    """Saves a program, deflated, without the header of this machine."""
    path = OUT / f"{name}.pt2"
    torch.export.save(program, path)
    with zipfile.ZipFile(path) as source:
        members = [(info.filename, source.read(info)) for info in source.infolist()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        for member, data in members:
            target.writestr(zipfile.ZipInfo(member, (2026, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)


def operators(nodes):
    return [node.name for node in nodes if node.op == "call_function"]


def partition_facts(partition):
    inputs = sorted(node.name for node in partition.input_nodes if node.op != "get_attr")
    return [operators(partition.nodes), inputs, sorted(operators(partition.output_nodes))]


def provenance(model, args, recipe):
    graph_module = exported(model, args).module()
    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(**recipe))
    prepared = prepare_pt2e(graph_module, quantizer)
    prepared(*args)
    facts = {}
    for node in convert_pt2e(prepared).graph.nodes:
        if node.op != "call_function":
            continue
        modules = list(node.meta.get("nn_module_stack", {}).values())
        sources = node.meta.get("source_fn_stack", [])
        path = modules[-1][0].removeprefix("L['self'].").removeprefix("L['self']") if modules else None
        facts[node.name] = [node.meta.get("stack_trace", ""), path, source_text(sources[-1][1]) if sources else None]
    return facts


OUT.mkdir(exist_ok=True)
facts = {"torch": torch.__version__, "matches": {}, "partitions": {}, "sequences": {}, "provenance": {}}
patterns = {}
for name, (body, args) in PATTERNS.items():
    # Equal tensors would become one input.
    program = exported(AsModule(body, len(args)), tuple(arg.clone() for arg in args))
    patterns[name] = program.module()
    write(program, name)
for name, (model, image) in MODELS.items():
    program = exported(model, (image,))
    write(program, name)
    graph_module = program.module()
    facts["matches"][name] = {}
    for pattern, pattern_module in patterns.items():
        for ignore in (False, True):
            matcher = SubgraphMatcherWithNameNodeMap(copy.deepcopy(pattern_module), ignore_literals=ignore)
            found = matcher.match(graph_module.graph)
            calls = [
                {key: node.name for key, node in match.name_node_map.items() if node.op == "call_function"}
                for match in found
            ]
            facts["matches"][name][pattern + (" ignore_literals" if ignore else "")] = calls
    # Before it is saved, a graph has sources on nodes of parameters too, which no file keeps and which change the
    # order.
    graph_module = torch.export.load(OUT / f"{name}.pt2").module()
    facts["partitions"][name] = []
    for sources in SOURCES[name]:
        found = get_source_partitions(graph_module.graph, sources)
        facts["partitions"][name].append(
            [
                [source_text(s) for s in sources],
                [partition_facts(p) for partitions in found.values() for p in partitions],
            ]
        )
    facts["sequences"][name] = []
    for sources in SEQUENCES[name]:
        found = find_sequential_partitions(graph_module, sources)
        facts["sequences"][name].append(
            [[source_text(s) for s in sources], [[operators(p.nodes) for p in chain] for chain in found]]
        )
    if name != "reused":
        facts["provenance"][name] = {recipe: provenance(model, (image,), config) for recipe, config in RECIPES.items()}
(OUT / "facts.json").write_text(json.dumps(facts, indent=1, sort_keys=True) + "\n")
