"""Writes tests/golden/quant/reference_*.pt2 and reference.json: quantized programs, and PyTorch's reference
representation of them.

Run with PyTorch 2.6 in this folder: python3 make_reference.py. NAME.pt2 is what convert_pt2e gives; reference.json has
the targets of the operators that convert_pt2e(use_reference_representation=True) gives for the same model, in order,
and what that program computes. rewritten_linear.pt2 is the reference representation of one of them.
"""

import json
import operator
import pathlib

import torch
import torch.ao.quantization.fx._decomposed  # defines quantized_decomposed
from torch import nn
from torch.ao.quantization.observer import MinMaxObserver, PerChannelMinMaxObserver
from torch.ao.quantization.quantize_pt2e import convert_pt2e, prepare_pt2e
from torch.ao.quantization.quantizer import QuantizationAnnotation, QuantizationSpec, Quantizer
from torch.ao.quantization.quantizer.xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config
from torch.export import export, export_for_training

from pt2_layout import save_without_traces

OUT = pathlib.Path(__file__).parent / "quant"
torch.set_num_threads(1)

ACTIVATION = QuantizationSpec(torch.int8, MinMaxObserver, -128, 127, torch.per_tensor_affine)
WEIGHT = QuantizationSpec(torch.int8, MinMaxObserver, -127, 127, torch.per_tensor_symmetric)
PER_CHANNEL = QuantizationSpec(torch.int8, PerChannelMinMaxObserver, -127, 127, torch.per_channel_symmetric, ch_axis=0)


class Everything(Quantizer):
    """Quantizes inputs, weights and outputs of all the operators that the reference representation has patterns for."""

    def __init__(self, activation, weight):
        self.activation, self.weight = activation, weight

    def annotate(self, model):
        for node in model.graph.nodes:
            target, inputs, output = str(node.target), {}, self.activation
            if target.startswith(("aten.conv", "aten.linear")):
                inputs = {node.args[0]: self.activation, node.args[1]: self.weight}
            elif target.startswith("aten.add"):
                inputs = {node.args[0]: self.activation, node.args[1]: self.activation}
            elif target.startswith("aten.max_pool2d"):
                inputs = {node.args[0]: self.activation}
            elif target.startswith("aten.relu") or node.target is not operator.getitem:
                continue
            reads_relu = len(node.users) == 1 and str(next(iter(node.users)).target).startswith("aten.relu")
            if reads_relu:
                following = next(iter(node.users))
                following.meta["quantization_annotation"] = QuantizationAnnotation(output_qspec=output, _annotated=True)
            returns_tuple = target == "aten.max_pool2d_with_indices.default"
            node.meta["quantization_annotation"] = QuantizationAnnotation(
                inputs, None if reads_relu or returns_tuple else output, _annotated=True
            )
        return model

    def validate(self, model):
        pass


class Convs(nn.Module):
    def __init__(self, pool):
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, stride=2, padding=1)
        self.pool = pool
        self.second = nn.Conv2d(4, 6, (1, 2), stride=(1, 2), groups=2)

    def forward(self, x):
        return self.second(self.pool(self.first(x)))


class Sums(nn.Module):
    def forward(self, x, y):
        return torch.relu((x + y) + x)


class Linears(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.second(self.first(x))


def target_of(node):
    if node.target is operator.getitem:
        return "operator.getitem"
    text = str(node.target)
    if text == "out_dtype":
        return "torch.ops.higher_order.out_dtype"
    return "torch.ops." + (text if text.count(".") == 2 else text + ".default")


def main():
    facts = {}
    image, pair, rows = (torch.randn(2, 3, 13, 12),), (torch.randn(2, 5), torch.randn(2, 5)), (torch.randn(4, 6),)
    dynamic = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_dynamic=True))
    models = {
        "conv2d": (Convs(nn.MaxPool2d(2)), image, True, Everything(ACTIVATION, WEIGHT)),
        "conv2d_by_name": (Convs(nn.MaxPool2d(2)), image, False, Everything(ACTIVATION, WEIGHT)),
        "padded_pool": (Convs(nn.MaxPool2d(3, 1, 1)), image, True, Everything(ACTIVATION, WEIGHT)),
        "per_channel": (Convs(nn.Identity()), image, True, Everything(ACTIVATION, PER_CHANNEL)),
        "add": (Sums(), pair, False, Everything(ACTIVATION, WEIGHT)),
        "linear": (Linears(), rows, False, Everything(ACTIVATION, WEIGHT)),
        # One linear: the result is float64, which PyTorch's choose_qparams of a second one refuses.
        "linear_dynamic": (nn.Sequential(nn.Linear(6, 8)), rows, False, dynamic),
    }
    for name, (model, inputs, decomposed, quantizer) in models.items():
        pair = []
        for as_reference in (False, True):
            program = export_for_training(model.eval(), inputs)
            prepared = prepare_pt2e((program.run_decompositions() if decomposed else program).module(), quantizer)
            prepared(*inputs)
            pair.append(convert_pt2e(prepared, use_reference_representation=as_reference))
        converted, reference = pair
        save_without_traces(export(converted, inputs), OUT / f"reference_{name}.pt2")
        if name == "linear":  # the rewritten program as PyTorch writes it
            save_without_traces(export(reference, inputs), OUT / "rewritten_linear.pt2")
        facts[name] = {
            "targets": [target_of(node) for node in reference.graph.nodes if node.op == "call_function"],
            "inputs": [{"shape": list(t.shape), "values": t.flatten().tolist()} for t in inputs],
            "output": reference(*inputs)[0].flatten().tolist()
            if isinstance(reference(*inputs), tuple)
            else reference(*inputs).flatten().tolist(),
        }
    (OUT / "reference.json").write_text(json.dumps(facts) + "\n")


torch.manual_seed(3)
main()
