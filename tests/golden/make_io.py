"""Writes tests/golden/io: small exported programs and what PyTorch reads from them.

Run with PyTorch 2.6 in this folder: python3 make_io.py. Every NAME.pt2 has a NAME.json: the flat graph as PyTorch
prints it, the attributes, the symbols, and outputs for the inputs that check_io.py feeds again. The files *_archive.pt2
hold the same programs in the layout that torch.export.save of PyTorch 2.9 and later writes, *_archive28.pt2 in the one
of 2.8, both laid out by hand. PyTorch stores the members of a .pt2 as they are; here most are deflated, which every
reader takes, to keep the folder small.
"""

import json
import math
import pathlib
import zipfile

import torch
from torch import nn
from torch.ao.quantization.quantize_pt2e import convert_pt2e, prepare_pt2e
from torch.ao.quantization.quantizer.xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config
from torch.export import Dim, export

from pt2_layout import archive28_of, archive_of, members, write_zip

OUT = pathlib.Path(__file__).parent / "io"
torch.set_num_threads(1)


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, padding=1, bias=False)
        self.normLayer = nn.BatchNorm2d(4)
        self.pool = nn.MaxPool2d(2, ceil_mode=True)
        self.fc = nn.Linear(16, 3)

    def forward(self, x):
        x = self.pool(torch.relu(self.normLayer(self.conv(x))))
        return self.fc(torch.flatten(x, 1))


class DynamicBatch(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 4)

    def forward(self, x):
        y = torch.cat([x, x + 1.0])
        return self.fc(y.reshape(x.shape[0] * 2, 6)), x.new_zeros(x.shape[0], 2)


class ManyResults(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(4, 3, batch_first=True)

    def forward(self, x):
        a, b = torch.split(x, 2, dim=1)
        values, _ = torch.max(a, dim=2)
        (lone,) = torch.chunk(b, 1, dim=0)
        y, _ = self.gru(x)
        return {"a": values, "b": (lone + b, y), "c": 3}


class Shared(nn.Module):
    """Tied weights, two views of one storage, all kinds of buffers, a constant."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.embedding.weight
        base = torch.arange(12, dtype=torch.float32)
        self.register_buffer("low", base[:4])
        self.register_buffer("turned", base[4:12].view(2, 4).t())
        self.register_buffer("mask", torch.tensor([True, False, True, True]), persistent=False)
        self.register_buffer("halves", torch.ones(4, dtype=torch.float16))
        self.register_buffer("steps", torch.tensor(7))

    def forward(self, ids):
        x = self.embedding(ids) + self.low + torch.tensor([0.5, 1.0, 1.5, 2.0]) + self.halves
        x = torch.where(self.mask, x, x * 2) @ self.turned
        self.steps.add_(1)
        return self.head(x.repeat(1, 1, 2)), self.steps * 1


class Arguments(nn.Module):
    """Arguments of every kind, constant inputs, keywords, a nested input."""

    def forward(self, x, none, number, *, pair, flag=True):
        first, second = pair
        index = torch.tensor([1, 0])
        y = x.masked_fill(x > 1, float("-inf")).clamp(max=2.0)
        y = torch.softmax(y, -1, dtype=torch.float64).to(torch.float32, memory_format=torch.contiguous_format)
        y = y[:, index] + first["k"] * number + second
        y = nn.functional.gelu(y, approximate="tanh")
        return (
            torch.mean(y, dim=[0, -1], keepdim=True),
            torch.add(y, y, alpha=2),
            y.clone(memory_format=torch.preserve_format),
        )


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(2, 4, 3, padding=1)
        self.conv2 = nn.Conv2d(4, 4, 1)

    def forward(self, x):
        x = torch.relu(self.conv1(x))
        return torch.relu(self.conv2(x) + x).mean((2, 3))


def quantized(x):
    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
    prepared = prepare_pt2e(export(Residual().eval(), (x,)).module(), quantizer)
    prepared(x)
    return export(convert_pt2e(prepared), (x,))


def plain(value):
    if isinstance(value, torch.Tensor):
        return {
            "dtype": str(value.dtype)[6:],
            "shape": list(value.shape),
            "values": [plain(v) for v in value.flatten().tolist()],
        }
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    return value


def positional(node):
    """Arguments in schema order: torch.export.load turns those that have a default into keywords."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return
    given, args, kwargs = dict(node.kwargs), [], {}
    for i, argument in enumerate(node.target._schema.arguments):
        known = i < len(node.args) or argument.name in given
        value = (
            node.args[i]
            if i < len(node.args)
            else given.get(argument.name, argument.default_value if argument.has_default_value() else None)
        )
        if argument.kwarg_only:
            if known:
                kwargs[argument.name] = value
        else:
            args.append((known, value))
    while args and not args[-1][0]:
        args.pop()
    node.args, node.kwargs = tuple(v for _, v in args), kwargs


def facts(path, example):
    ep = torch.export.load(path)
    gm = ep.module()
    constants = {
        spec.arg.name
        for spec in ep.graph_signature.input_specs
        if isinstance(spec.arg, torch.export.graph_signature.ConstantArgument)
    }
    for node in list(gm.graph.nodes):
        positional(node)
        if node.op == "placeholder" and node.name in constants:  # qdq keeps them beside the graph
            gm.graph.erase_node(node)
        if node.target == torch.ops.aten.copy_.default:  # how PyTorch spells a mutated buffer
            node.replace_all_uses_with(node.args[1])
            gm.graph.erase_node(node)
    args, kwargs = example
    signature = ep.graph_signature
    return {
        "torch": torch.__version__.split("+")[0],
        "graph": str(gm.graph).strip() + "\n",
        "parameters": list(signature.parameters),
        "buffers": list(signature.buffers),
        "not_persistent": list(signature.non_persistent_buffers),
        "constants": list(signature.lifted_tensor_constants),
        "mutated": dict(signature.buffers_to_mutate),
        "ranges": {str(k): [int(v.lower), int(v.upper)] for k, v in ep.range_constraints.items()},
        "dialect": ep.dialect,
        "args": plain(args),
        "kwargs": plain(kwargs),
        "outputs": plain(torch.utils._pytree.tree_leaves(torch.export.load(path).module()(*args, **kwargs))),
    }


def write(path, files):
    write_zip(
        path, files, zipfile.ZIP_STORED if path.stem in ("conv_net", "int8", "shared_archive") else zipfile.ZIP_DEFLATED
    )


def to_archive(name):
    old = members(OUT / f"{name}.pt2")
    write(OUT / f"{name}_archive.pt2", archive_of(old, f"{name}_archive"))
    write(OUT / f"{name}_archive28.pt2", archive28_of(old, f"{name}_archive28"))


def save(name, ep, args, kwargs=None):
    path = OUT / f"{name}.pt2"
    torch.export.save(ep, path)
    old = members(path)
    program = json.loads(old["serialized_exported_program.json"])
    for node in program["graph_module"]["graph"]["nodes"]:
        node["metadata"].pop("stack_trace", None)  # names folders of the machine
    old["serialized_exported_program.json"] = json.dumps(program).encode()
    write(path, old)
    (OUT / f"{name}.json").write_text(json.dumps(facts(path, (args, kwargs or {})), indent=1) + "\n")


def main():
    OUT.mkdir(exist_ok=True)
    for old in OUT.iterdir():
        old.unlink()
    torch.manual_seed(0)
    image = torch.randn(1, 2, 4, 4)
    net = ConvNet().eval()
    save("conv_net", export(net, (image,)), (image,))
    save("conv_net_aten", export(net, (image,)).run_decompositions(), (image,))
    batch = torch.randn(3, 6)
    save(
        "dynamic_batch", export(DynamicBatch(), (batch,), dynamic_shapes=({0: Dim("batch", min=2, max=64)},)), (batch,)
    )
    sequence = torch.randn(2, 4, 4)
    save("many_results", export(ManyResults(), (sequence,)), (sequence,))
    ids = torch.tensor([[0, 1, 4]])
    save("shared", export(Shared(), (ids,)), (ids,))
    save("shared_aten", export(Shared(), (ids,)).run_decompositions(), (ids,))
    args = (torch.randn(2, 3), None, 3)
    kwargs = {"pair": [{"k": torch.randn(2, 2)}, torch.randn(2)], "flag": False}
    save("arguments", export(Arguments(), args, kwargs), args, kwargs)
    save("int8", quantized(image), (image,))
    to_archive("shared")
    to_archive("arguments")
    (OUT / "arguments_archive28.pt2").unlink()


main()
