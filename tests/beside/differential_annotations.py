"""Random annotations for tests/beside/differential.py: which specs a graph's edges and nodes get, as a recipe and as a
quantizer of PyTorch 2.6.
"""

import random

AFFINE, SYMMETRIC = "per_tensor_affine", "per_tensor_symmetric"
# dtype, quant_min, quant_max, qscheme, observer, its arguments, whether dynamic
ACTIVATIONS = [
    ("int8", -128, 127, AFFINE, "HistogramObserver", {"eps": 2.0**-12}, False),
    ("int8", -128, 127, AFFINE, "MinMaxObserver", {}, False),
    ("int8", -127, 127, SYMMETRIC, "MinMaxObserver", {}, False),
    ("uint8", 0, 255, AFFINE, "HistogramObserver", {}, False),
    ("uint8", 0, 127, AFFINE, "MinMaxObserver", {"eps": 2.0**-12}, False),
    ("uint8", 0, 255, SYMMETRIC, "MinMaxObserver", {}, False),
    ("int8", -128, 127, AFFINE, "MovingAverageMinMaxObserver", {"averaging_constant": 0.1}, False),
    ("int8", -8, 7, AFFINE, "MinMaxObserver", {}, False),
    ("int16", -32768, 32767, AFFINE, "MinMaxObserver", {}, False),
    ("int8", -128, 127, AFFINE, "PlaceholderObserver", {"eps": 2.0**-12}, True),
]
WEIGHTS = [
    ("int8", -127, 127, SYMMETRIC, "MinMaxObserver", {}, None),
    ("int8", -128, 127, "per_channel_symmetric", "PerChannelMinMaxObserver", {}, 0),
    ("int8", -8, 7, "per_channel_symmetric", "PerChannelMinMaxObserver", {"eps": 2.0**-12}, 0),
    ("int8", -128, 127, "per_channel_affine", "PerChannelMinMaxObserver", {}, 1),
    ("int8", -127, 127, "per_channel_symmetric", "MovingAveragePerChannelMinMaxObserver", {}, 0),
]


def quantization(dtype, quant_min, quant_max, qscheme, observer, arguments, is_dynamic=False, ch_axis=None):
    return {
        "spec": "quantization",
        "dtype": dtype,
        "quant_min": quant_min,
        "quant_max": quant_max,
        "qscheme": qscheme,
        "ch_axis": ch_axis,
        "is_dynamic": is_dynamic,
        "observer": {"class": observer} | ({"args": arguments} if arguments else {}),
    }


def value_of(node):
    """The fake or real tensor of a node; what the folding of batch norms made has no fake one."""
    if node.op != "get_attr":
        return node.meta.get("val")
    owner = node.graph.owning_module
    return dict(owner.named_parameters()).get(node.target, dict(owner.named_buffers()).get(node.target))


def is_float_tensor(node):
    import torch

    value = value_of(node)
    return isinstance(value, torch.Tensor) and value.dtype == torch.float32


def random_annotations(seed, number, graph_module):
    """A recipe for AnnotationQuantizer: about two of three calls are annotated, with few kinds of specs, so that many
    are equal.
    """
    pick = random.Random(f"annotations {seed} {number}")
    kinds = pick.sample(ACTIVATIONS, pick.randint(1, 2))
    annotations, places = [], []  # places: what a shared or derived spec can name

    def activation():
        if places and pick.random() < 0.25:
            return {"spec": "shared", "with": pick.choice(places)}
        if pick.random() < 0.08:
            return {
                "spec": "fixed_qparams",
                "dtype": "uint8",
                "scale": pick.choice([1 / 256, 0.05]),
                "zero_point": pick.choice([0, 100]),
                "quant_min": 0,
                "quant_max": 255,
                "qscheme": AFFINE,
            }
        return quantization(*pick.choice(kinds))

    for node in graph_module.graph.nodes:
        if node.op != "call_function" or not is_float_tensor(node) or node.kwargs or pick.random() < 0.35:
            continue
        inputs, edges = [], []
        for source in dict.fromkeys(node.all_input_nodes):
            if not is_float_tensor(source) or pick.random() < 0.15:
                continue
            is_weight = source.op == "get_attr" and value_of(source).dim() > 1
            if (
                source.op == "get_attr"
                and value_of(source).dim() == 1
                and len(edges) == 2
                and len(node.all_input_nodes) == 3
            ):
                if pick.random() < 0.5:
                    continue
                channels = next(spec for name, spec in inputs if name == edges[1]["edge"][0])
                per_channel = channels.get("qscheme", "").startswith("per_channel")
                if channels.get("ch_axis") == 1:  # the bias has the other axis' channels
                    continue
                spec = {
                    "spec": "derived",
                    "from": edges[:2],
                    "rule": "product_of_scales",
                    "dtype": "int32",
                    "quant_min": -(2**31),
                    "quant_max": 2**31 - 1,
                    "qscheme": "per_channel_symmetric" if per_channel else SYMMETRIC,
                    "ch_axis": 0 if per_channel else None,
                }
            elif is_weight:
                *rest, axis = pick.choice(WEIGHTS)
                spec = quantization(*rest, ch_axis=axis)
            else:
                spec = activation()
            edge = {"edge": [source.name, node.name]}
            edges.append(edge)
            inputs.append([source.name, spec])
            if source.op != "get_attr":
                places.append(edge)
        output = activation() if pick.random() < 0.7 else None
        if output:
            places.append({"node": node.name})
        annotations.append(
            {"node": node.name, "inputs": inputs, "output": output, "allow_implicit_sharing": pick.random() < 0.85}
        )
    return {"quantizer": "AnnotationQuantizer", "annotations": annotations}


def annotation_quantizer(recipe):
    """PyTorch's quantizer that writes the recipe's annotations."""
    import torch
    from torch.ao.quantization import observer as observers
    from torch.ao.quantization.quantizer import (
        DerivedQuantizationSpec,
        FixedQParamsQuantizationSpec,
        QuantizationAnnotation,
        QuantizationSpec,
        Quantizer,
        SharedQuantizationSpec,
    )

    def product_of_scales(sources):
        scale = torch.tensor([1.0], dtype=torch.float32)
        for source in sources:
            scale = scale * source.calculate_qparams()[0].to(torch.float32)
        return scale, torch.zeros(scale.numel(), dtype=torch.int32)

    class AnnotationQuantizer(Quantizer):
        def annotate(self, model):
            by_name = {node.name: node for node in model.graph.nodes}
            place = lambda of: by_name[of["node"]] if "node" in of else tuple(by_name[name] for name in of["edge"])

            def spec_of(json):
                if json is None:
                    return None
                if json["spec"] == "shared":
                    return SharedQuantizationSpec(place(json["with"]))
                common = {
                    "dtype": getattr(torch, json["dtype"]),
                    "quant_min": json["quant_min"],
                    "quant_max": json["quant_max"],
                    "qscheme": getattr(torch, json["qscheme"]),
                }
                if json["spec"] == "fixed_qparams":
                    return FixedQParamsQuantizationSpec(scale=json["scale"], zero_point=json["zero_point"], **common)
                if json["spec"] == "derived":
                    return DerivedQuantizationSpec(
                        derived_from=[place(of) for of in json["from"]],
                        derive_qparams_fn=product_of_scales,
                        ch_axis=json["ch_axis"],
                        **common,
                    )
                made = getattr(observers, json["observer"]["class"]).with_args(**json["observer"].get("args", {}))
                return QuantizationSpec(
                    observer_or_fake_quant_ctr=made, ch_axis=json["ch_axis"], is_dynamic=json["is_dynamic"], **common
                )

            for annotation in recipe["annotations"]:
                by_name[annotation["node"]].meta["quantization_annotation"] = QuantizationAnnotation(
                    input_qspec_map={by_name[name]: spec_of(spec) for name, spec in annotation["inputs"]},
                    output_qspec=spec_of(annotation["output"]),
                    allow_implicit_sharing=annotation["allow_implicit_sharing"],
                    _annotated=True,
                )
            return model

        def validate(self, model):
            pass

    return AnnotationQuantizer()
