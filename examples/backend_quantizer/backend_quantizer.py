"""A quantizer for an imaginary accelerator, written for PyTorch 2.6, and what it does to a ResNet-18.

Run with PyTorch 2.6 in this folder: python3 backend_quantizer.py. It writes model.pt2 (a ResNet-18 with few channels
and random weights), calibration.f32 (two batches of 2 x 3 x 32 x 32) and expected.json: every annotation and, after
calibration, all qparams. backend_quantizer.cpp and backend_quantizer.mjs are the same quantizer for qdq; they read
these files and compare.
"""

import json
import pathlib
import zipfile

import torch
import torch.nn.functional as F
from torch import nn
from torch.ao.quantization.observer import MinMaxObserver, PerChannelMinMaxObserver
from torch.ao.quantization.pt2e.graph_utils import find_sequential_partitions
from torch.ao.quantization.quantize_pt2e import convert_pt2e, prepare_pt2e
from torch.ao.quantization.quantizer import QuantizationAnnotation, QuantizationSpec, Quantizer, SharedQuantizationSpec
from torch.export import export_for_training
from torch.fx.passes.utils.matcher_with_name_node_map_utils import SubgraphMatcherWithNameNodeMap
from torch.fx.passes.utils.source_matcher_utils import get_source_partitions

HERE = pathlib.Path(__file__).parent
torch.set_num_threads(1)
torch.manual_seed(18)

ACTIVATION = QuantizationSpec(torch.int8, MinMaxObserver, -128, 127, torch.per_tensor_affine)
WEIGHT = QuantizationSpec(torch.int8, PerChannelMinMaxObserver, -127, 127, torch.per_channel_symmetric, 0)


def conv_add_relu(x, weight, bias, other):
    conv = F.conv2d(x, weight, bias, [1, 1], [1, 1])
    add = conv + other
    relu = F.relu(add)
    return relu, {"conv": conv, "other": other, "add": add, "last": relu}


def conv_relu(x, weight, bias):
    conv = F.conv2d(x, weight, bias, [1, 1], [1, 1])
    relu = F.relu(conv)
    return relu, {"conv": conv, "last": relu}


def conv(x, weight, bias):
    result = F.conv2d(x, weight, bias, [1, 1], [1, 1])
    return result, {"conv": result, "last": result}


class Function(nn.Module):
    """A function with three or four inputs as a module, which torch.export wants."""

    def __init__(self, body, count):
        super().__init__()
        self.body = body
        three, four = lambda x, y, z: body(x, y, z), lambda x, y, z, u: body(x, y, z, u)  # noqa: PLW0108, export counts
        self.forward = three if count == 3 else four


def matcher(body, *shapes):
    exported = export_for_training(Function(body, len(shapes)), tuple(torch.randn(shape) for shape in shapes))
    return SubgraphMatcherWithNameNodeMap(exported.module(), ignore_literals=True)


class AcceleratorQuantizer(Quantizer):
    """Convolutions with what the accelerator computes along with them, then linears, then what only moves numbers."""

    def annotate(self, model):
        image, kernel, bias = (1, 2, 4, 4), (2, 2, 3, 3), (2,)
        one = (image, kernel, bias)
        for pattern in (matcher(conv_add_relu, *one, image), matcher(conv_relu, *one), matcher(conv, *one)):
            for match in pattern.match(model.graph):
                self.annotate_conv(match.name_node_map)
        for partition in get_source_partitions(model.graph, [nn.Linear]).get(nn.Linear, []):
            linear = partition.output_nodes[0]
            inputs = {linear.args[0]: ACTIVATION, linear.args[1]: WEIGHT}
            linear.meta["quantization_annotation"] = QuantizationAnnotation(inputs, ACTIVATION, _annotated=True)
        for _, pool in find_sequential_partitions(model, [nn.ReLU, nn.MaxPool2d]):
            self.annotate_shared(pool.output_nodes[0])
        for source in (nn.AdaptiveAvgPool2d, torch.flatten):
            for partition in get_source_partitions(model.graph, [source]).get(source, []):
                self.annotate_shared(partition.output_nodes[0])
        return model

    @staticmethod
    def annotate_conv(named):
        nodes = {named[name] for name in ("conv", "add", "last") if name in named}
        if any("quantization_annotation" in node.meta for node in nodes):
            return
        for node in nodes:
            node.meta["quantization_annotation"] = QuantizationAnnotation(_annotated=True)
        conv_node = named["conv"]
        conv_node.meta["quantization_annotation"].input_qspec_map = {
            conv_node.args[0]: ACTIVATION,
            conv_node.args[1]: WEIGHT,
        }
        if "add" in named:
            named["add"].meta["quantization_annotation"].input_qspec_map = {named["other"]: ACTIVATION}
        named["last"].meta["quantization_annotation"].output_qspec = ACTIVATION

    @staticmethod
    def annotate_shared(node):
        shared = SharedQuantizationSpec(node.args[0])
        node.meta["quantization_annotation"] = QuantizationAnnotation({node.args[0]: shared}, shared, _annotated=True)

    def validate(self, model):
        pass


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
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(4)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        widths = [4, 4, 6, 8, 8]
        for i in range(4):
            blocks = [
                BasicBlock(widths[i], widths[i + 1], 1 if i == 0 else 2),
                BasicBlock(widths[i + 1], widths[i + 1], 1),
            ]
            setattr(self, f"layer{i + 1}", nn.Sequential(*blocks))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(8, 10)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


def text(spec):
    if spec is None:
        return "float"
    if isinstance(spec, SharedQuantizationSpec):
        return f"shared with {spec.edge_or_node.name}"
    name = lambda value: str(value).removeprefix("torch.")
    return f"{name(spec.dtype)} [{spec.quant_min}, {spec.quant_max}] {name(spec.qscheme)}"


def annotations_of(graph):
    found = {}
    for node in graph.nodes:
        annotation = node.meta.get("quantization_annotation")
        if annotation is not None:
            inputs = {producer.name: text(spec) for producer, spec in annotation.input_qspec_map.items()}
            found[node.name] = {"inputs": inputs, "output": text(annotation.output_qspec)}
    return found


def qparams_of(model):
    """Of every dequantize: the scales and zero points."""
    found = {}
    for node in model.graph.nodes:
        if node.op == "call_function" and "dequantize_per" in str(node.target):
            value = lambda arg: getattr(model, arg.target).tolist() if isinstance(arg, torch.fx.Node) else [arg]
            found[node.name] = {"scale": value(node.args[1]), "zero_point": value(node.args[2])}
    return found


def main():
    model = ResNet18().eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.uniform_(module.bias, -0.2, 0.2)
    batches = [torch.randn(2, 3, 32, 32) for _ in range(2)]
    program = export_for_training(model, (batches[0],))
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)
    path = HERE / "model.pt2"
    torch.export.save(program, path)
    with zipfile.ZipFile(path) as source:
        members = [(info.filename, source.read(info)) for info in source.infolist()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        for name, data in members:
            target.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)
    (HERE / "calibration.f32").write_bytes(torch.stack(batches).numpy().tobytes())

    prepared = prepare_pt2e(program.module(), AcceleratorQuantizer())
    annotations = annotations_of(prepared.graph)
    for batch in batches:
        prepared(batch)
    expected = {"torch": torch.__version__, "annotations": annotations, "qparams": qparams_of(convert_pt2e(prepared))}
    (HERE / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
