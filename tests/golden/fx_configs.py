"""PyTorch's backend configs and custom configs out of the JSON of recipes, and back."""

import json
import sys

import torch
import torch.ao.quantization.quantize_fx  # makes the modules below complete
from torch.ao.quantization import backend_config as configs
from torch.ao.quantization.backend_config import BackendConfig, BackendPatternConfig, DTypeConfig, DTypeWithConstraints
from torch.ao.quantization.backend_config.qnnpack import get_qnnpack_backend_config
from torch.ao.quantization.backend_config.x86 import get_x86_backend_config
from torch.ao.quantization.fx.custom_config import PrepareCustomConfig
from torch.ao.quantization.utils import MatchAllNode

READY = {
    "native": configs.get_native_backend_config,
    "fbgemm": configs.get_fbgemm_backend_config,
    "x86": get_x86_backend_config,
    "qnnpack": get_qnnpack_backend_config,
    "onednn": configs.get_onednn_backend_config,
    "executorch": configs.get_executorch_backend_config,
    "tensorrt": configs.get_tensorrt_backend_config,
}


def type_of(name):
    """A class or function by its public name; a method is its name."""
    if name == "MatchAllNode":
        return MatchAllNode
    if "." not in name:
        return name
    value = __import__(name.split(".")[0])
    for part in name.split(".")[1:]:
        value = getattr(value, part)
    return value


def backend_of(entry):
    """A BackendConfig out of a name or the JSON of a recipe. Modules become one as PyTorch's own configs fuse them."""
    if isinstance(entry, str):
        return READY[entry]()
    out = READY[entry["base"]]() if "base" in entry else BackendConfig(entry["name"])
    fusers = {
        c.pattern: c.fuser_method for c in configs.get_native_backend_config().configs if c.fuser_method is not None
    }

    def dtype(value):
        if isinstance(value, dict):
            return DTypeWithConstraints(**(value | {"dtype": getattr(torch, value["dtype"])}))
        return getattr(torch, value)

    for config in entry["configs"]:
        names = config["pattern"]
        pattern = type_of(names) if isinstance(names, str) else tuple(map(type_of, names))
        made = BackendPatternConfig(pattern)
        if "observation_type" in config:
            made.set_observation_type(configs.ObservationType[config["observation_type"]])
        for dtypes in config["dtype_configs"]:
            made.add_dtype_config(
                DTypeConfig(**{key: value if key == "is_dynamic" else dtype(value) for key, value in dtypes.items()})
            )
        if "root_module" in config:
            root = type_of(config["root_module"])
            made.set_root_module(root)
            made.set_reference_quantized_module(getattr(torch.ao.nn.quantized.reference, root.__name__))
        if "fused_module" in config:
            made.set_fused_module(type_of(config["fused_module"]))
            made.set_fuser_method(fusers[pattern])
        if "num_tensor_args_to_observation_type" in config:
            counts = config["num_tensor_args_to_observation_type"]
            made._set_num_tensor_args_to_observation_type(
                {int(count): configs.ObservationType[kind] for count, kind in counts.items()}
            )
        out.set_backend_pattern_config(made)
    return out


def name_of(item):
    if isinstance(item, str):
        return item
    if item is MatchAllNode:
        return "MatchAllNode"
    dispatched = {getattr(torch.nn.functional, f"max_pool{n}d"): f"torch.nn.functional.max_pool{n}d" for n in (1, 2, 3)}
    if item in dispatched:
        return dispatched[item]
    name = item.__name__
    if isinstance(item, type):
        # A class for training counts as the one that it stands for.
        is_plain = item.__module__.startswith(("torch.nn.", "torch.ao.nn.qat"))
        return f"torch.nn.{name}" if is_plain else f"torch.ao.nn.intrinsic.{name}"
    for public, place in (
        ("torch.nn.functional", torch.nn.functional),
        ("torch._C._nn", torch._C._nn),
        ("torch", torch),
    ):
        if getattr(place, name, None) is item:
            return f"{public}.{name}"
    return f"operator.{name}"


def json_of_pattern(pattern):
    return [json_of_pattern(part) for part in pattern] if isinstance(pattern, tuple) else name_of(pattern)


def json_of_dtype(dtype):
    found = {key: value for key, value in vars(dtype).items() if value is not None}
    found["dtype"] = str(dtype.dtype)[6:]
    return found if len(found) > 1 else found["dtype"]


def json_of_dtypes(config):
    out = {}
    for key in ("input_dtype", "output_dtype", "weight_dtype"):
        dtype = getattr(config, key + "_with_constraints")
        if dtype.dtype is not None:
            out[key] = json_of_dtype(dtype)
    if config.bias_dtype is not None:
        out["bias_dtype"] = str(config.bias_dtype)[6:]
    return out | ({"is_dynamic": True} if config.is_dynamic else {})


def json_of_backend(backend):
    """Pattern -> what the backend says of it, in the order of the patterns."""
    out = {}
    for pattern, config in backend._pattern_complex_format_to_config.items():
        entry = {
            "pattern_complex_format": json_of_pattern(pattern),
            "observation_type": config.observation_type.name,
            "dtype_configs": [json_of_dtypes(dtypes) for dtypes in config.dtype_configs],
        }
        if config.root_module is not None and config.reference_quantized_module is not None:
            entry["root_module"] = name_of(config.root_module)
        if config.fused_module is not None:
            entry["fused_module"] = name_of(config.fused_module)
        elif config.fuser_method is not None:
            entry["fused_module"] = name_of(config.root_module)
        if config._num_tensor_args_to_observation_type:
            entry["num_tensor_args_to_observation_type"] = {
                str(count): kind.name for count, kind in config._num_tensor_args_to_observation_type.items()
            }
        out.setdefault(json.dumps(entry["pattern_complex_format"]), {}).update(entry)
    return {"name": backend.name, "configs": list(out.values())}


def custom_of(entry, mapping_of, batch):
    """A PrepareCustomConfig out of the JSON of a recipe."""
    out = PrepareCustomConfig()
    for key, add in (
        ("standalone_module_name", out.set_standalone_module_name),
        ("standalone_module_class", out.set_standalone_module_class),
    ):
        for module in entry.get(key, []):
            mapping, custom = module.get("qconfig_mapping"), module.get("prepare_custom_config")
            add(
                module["module"] if key.endswith("name") else class_of(module["module"]),
                None if mapping is None else mapping_of(mapping),
                batch,
                None if custom is None else custom_of(custom, mapping_of, batch),
                backend_of(module["backend_config"]) if "backend_config" in module else None,
            )
    out.set_non_traceable_module_names(entry.get("non_traceable_module_name", []))
    out.set_non_traceable_module_classes([class_of(name) for name in entry.get("non_traceable_module_class", [])])
    out.set_input_quantized_indexes(entry.get("input_quantized_idxs", []))
    out.set_output_quantized_indexes(entry.get("output_quantized_idxs", []))
    return out


def class_of(name):
    """A class of the script that runs."""
    return getattr(sys.modules["__main__"], name.rsplit(".", 1)[-1])
