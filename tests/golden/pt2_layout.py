"""Lays a .pt2 file of PyTorch 2.6 out anew, in the archive that torch.export.save of PyTorch 2.9 and later writes or in
that of 2.8.

Needs PyTorch 2.6 (for the schemas of the operators and for the tensors). The content stays; names, kinds of arguments
and the place of the tensors become those of the newer writer: models/model.json, data/weights/weight_N and
data/constants/tensor_N with their configs.
"""

import io
import json
import math
import zipfile

import torch
from torch import nn


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def meta_of(tensor):
    return {
        "dtype": torch._export.serde.serialize._TORCH_TO_SERIALIZE_DTYPE[tensor.dtype].value,
        "sizes": [{"as_int": n} for n in tensor.shape],
        "requires_grad": tensor.requires_grad,
        "device": {"type": "cpu", "index": None},
        "strides": [{"as_int": n} for n in tensor.stride()],
        "storage_offset": {"as_int": tensor.storage_offset()},
        "layout": 7,
    }


def bytes_of(storage):
    return memoryview(torch.tensor([], dtype=torch.uint8).set_(storage).numpy())


def payload(tensors, prefix):
    files, config, numbers = {}, {}, {}
    for name, tensor in tensors.items():
        storage = tensor.untyped_storage()
        number = numbers.setdefault(storage.data_ptr(), len(numbers))
        files[f"{prefix}{number}"] = bytes_of(storage)
        config[name] = {
            "path_name": f"{prefix}{number}",
            "is_param": isinstance(tensor, nn.Parameter),
            "use_pickle": False,
            "tensor_meta": meta_of(tensor),
        }
    return files, {"config": config}


def program_of_today(text):
    """The newer schema: kinds of arguments, names of nodes, infinities as text."""
    program = json.loads(text)

    def newer(value):
        if isinstance(value, dict):
            return {k: newer(v) for k, v in value.items()}
        if isinstance(value, list):
            return [newer(v) for v in value]
        if isinstance(value, float) and math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        return value

    program = newer(program)
    program["schema_version"] = {"major": 8, "minor": 20}
    program["torch_version"] = "2.14.1"
    program["guards_code"] = []
    for node in program["graph_module"]["graph"]["nodes"]:
        operator = node["target"].removeprefix("torch.ops.").split(".")
        keyword = set()
        if node["target"].startswith("torch.ops."):  # the others are Python's own, on symbolic sizes
            schema = getattr(getattr(getattr(torch.ops, operator[0]), operator[1]), operator[2])._schema
            keyword = {a.name for a in schema.arguments if a.kwarg_only}
        for item in node["inputs"]:
            item["kind"] = 2 if item["name"] in keyword else 1
        first = node["outputs"][0] if len(node["outputs"]) == 1 else {}
        node["name"] = first["as_tensor"]["name"] if "as_tensor" in first else operator[1]
        node["is_hop_single_tensor_return"] = None
    return json.dumps(program).encode()


def write_zip(path, files, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = method
            with archive.open(info, "w", force_zip64=len(data) >= 2**31) as member:
                member.write(data)


def save_without_traces(program, path):
    """torch.export.save, compressed and without the stack traces, which name folders of the machine."""
    torch.export.save(program, path)
    files = members(path)
    text = json.loads(files["serialized_exported_program.json"])
    for node in text["graph_module"]["graph"]["nodes"]:
        node["metadata"].pop("stack_trace", None)
    files["serialized_exported_program.json"] = json.dumps(text).encode()
    write_zip(path, files, zipfile.ZIP_DEFLATED)


def archive_of(old, root):
    """The members of the archive layout whose folder is `root`, from those of a .pt2 of PyTorch 2.6."""
    state = torch.load(io.BytesIO(old["serialized_state_dict.pt"]))
    constants = torch.load(io.BytesIO(old["serialized_constants.pt"]))
    weights, weights_config = payload(state, "weight_")
    tensors, constants_config = payload(constants, "tensor_")
    files = {f"data/weights/{k}": v for k, v in weights.items()}
    files["data/weights/model_weights_config.json"] = json.dumps(weights_config).encode()
    files |= {f"data/constants/{k}": v for k, v in tensors.items()}
    files["data/constants/model_constants_config.json"] = json.dumps(constants_config).encode()
    files["models/model.json"] = program_of_today(old["serialized_exported_program.json"])
    files |= {
        "data/sample_inputs/model.pt": b"",
        "archive_format": b"pt2",
        "archive_version": b"0",
        ".data/version": b"6\n",
        "byteorder": b"little",
    }
    return {f"{root}/{k}": v for k, v in files.items()}


def archive28_of(old, root):
    """Likewise, as PyTorch 2.8 lays it out: the tensors are pickles still."""
    files = {
        "models/model.json": program_of_today(old["serialized_exported_program.json"]),
        "data/weights/model.pt": old["serialized_state_dict.pt"],
        "data/constants/model.pt": old["serialized_constants.pt"],
        "archive_format": b"pt2",
        "archive_version": b"0",
    }
    return {f"{root}/{k}": v for k, v in files.items()}
