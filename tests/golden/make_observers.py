"""Makes tests/golden/quant/observers.json: observers and fake quantizers of PyTorch 2.6 on numbers that the test makes
itself.

Run in tests/golden on an x86 CPU with AVX2: python3 make_observers.py

A batch is {"seed", "shape", "factor", "offset", "relu"}: a linear congruential generator gives 16-bit numbers, four of
them are summed, centred, multiplied by the factor and shifted in float32. Large arrays are kept as FNV-1a hashes of
their bytes.
"""

import json
import math
import pathlib
import warnings

import numpy as np
import torch
from torch.ao.quantization import fake_quantize, observer

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
assert torch.__version__.startswith("2.6."), torch.__version__

f32 = np.float32


def numbers(batch):
    count = math.prod(batch["shape"])
    out = np.empty(count, f32)
    state = batch["seed"]
    for i in range(count):
        total = 0
        for _ in range(4):
            state = (state * 1664525 + 1013904223) % 2**32
            total += state >> 16
        out[i] = f32(total - 131070) * f32(batch["factor"]) + f32(batch["offset"])
    if batch.get("relu"):
        out = np.maximum(out, f32(0))
    return torch.from_numpy(out.reshape(batch["shape"]))


def fnv(tensor):
    value = 0xCBF29CE484222325
    for byte in tensor.contiguous().numpy().tobytes():
        value = ((value ^ byte) * 0x100000001B3) % 2**64
    return f"{value:016x}"


def batch(seed, shape, factor=2.0**-16, offset=0.0, **more):
    return {"seed": seed, "shape": list(shape), "factor": float(f32(factor)), "offset": float(f32(offset)), **more}


def find(name):
    return getattr(observer, name, None) or getattr(fake_quantize, name)


def constructed(entry):
    args = dict(entry["args"])
    inner = args.pop("inner_class", None)
    for key in ("dtype", "qscheme"):
        if key in args:
            args[key] = getattr(torch, args[key])
    if inner:
        args["observer"] = find(inner)
    return find(entry["class"])(**args)


def run(entry):
    stage = "construct"
    try:
        module = constructed(entry)
        inner = getattr(module, "activation_post_process", module)
        if hasattr(inner, "_non_linear_param_search"):
            search = inner._non_linear_param_search
            inner._non_linear_param_search = lambda: (
                entry.setdefault("ranges", []).append([v.item() for v in search()])
                or tuple(torch.tensor(v) for v in entry["ranges"][-1])
            )
        entry["states"] = []
        for n, b in enumerate(entry["batches"]):
            stage = "forward"
            for switch in entry.get("switches", {}).get(str(n), []):
                getattr(module, switch)()
            y = module(numbers(b))
            state = {"min": inner.min_val.flatten().tolist(), "max": inner.max_val.flatten().tolist()}
            if hasattr(inner, "histogram"):
                state["histogram"] = fnv(inner.histogram)
            if inner is not module:
                state |= {"scale": module.scale.tolist(), "zero_point": module.zero_point.tolist(), "output": fnv(y)}
            entry["states"].append(state)
        stage = "calculate_qparams"
        scale, zero_point = module.calculate_qparams()
        entry |= {
            "scale": scale.tolist(),
            "zero_point": zero_point.tolist(),
            "zero_point_dtype": str(zero_point.dtype)[6:],
        }
    except Exception as error:  # the refusal is what counts
        entry["error"] = stage
        entry["message"] = " ".join(str(error).split())[:160]
    return entry


E = 2.0**-12
normal = [batch(1, [2000]), batch(2, [3000], 1.3 * 2.0**-16), batch(3, [3000], 2.0**-16, 0.25)]
rows = [batch(4, [5, 3, 4]), batch(5, [5, 3, 4], 2.0**-15)]
hist, fake, fused = "HistogramObserver", "FakeQuantize", "FusedMovingAvgObsFakeQuantize"
entries = [
    ("MinMaxObserver", dict(dtype="int8", eps=E), normal),
    ("MinMaxObserver", dict(dtype="uint8", reduce_range=True), normal[:1]),
    ("MinMaxObserver", dict(dtype="int8", qscheme="per_tensor_symmetric", quant_min=-127, quant_max=127), normal[:2]),
    ("MinMaxObserver", dict(dtype="uint8", qscheme="per_tensor_symmetric"), normal[:1]),
    ("MinMaxObserver", dict(dtype="uint8", qscheme="per_tensor_symmetric", quant_min=0, quant_max=127), normal[:1]),
    ("MinMaxObserver", dict(dtype="uint16", qscheme="per_tensor_symmetric"), normal[:1]),
    ("MinMaxObserver", dict(dtype="int32"), normal[:1]),
    ("MinMaxObserver", dict(dtype="int8", quant_min=-127, quant_max=127, reduce_range=True), normal[:1]),
    ("MinMaxObserver", dict(dtype="int8"), [batch(6, [100], 2.0**-16, 9)]),
    ("MinMaxObserver", dict(dtype="int8", eps=0.25), [batch(6, [100], 2.0**-20)]),
    ("MinMaxObserver", dict(dtype="int8", qscheme="per_channel_affine"), []),
    ("MinMaxObserver", dict(dtype="quint8", qscheme="per_tensor_symmetric", reduce_range=True), []),
    ("MinMaxObserver", dict(dtype="int8", quant_min=5, quant_max=127), []),
    ("MinMaxObserver", dict(dtype="int8", quant_min=-200, quant_max=127), []),
    ("MinMaxObserver", dict(dtype="float32"), []),
    ("MovingAverageMinMaxObserver", dict(dtype="int8", eps=E), normal),
    ("MovingAverageMinMaxObserver", dict(dtype="uint8", averaging_constant=1, is_dynamic=True), normal),
    ("MovingAverageMinMaxObserver", dict(dtype="uint8", is_dynamic=True), []),
    (
        "PerChannelMinMaxObserver",
        dict(dtype="int8", qscheme="per_channel_symmetric", quant_min=-127, quant_max=127, eps=E),
        rows,
    ),
    ("PerChannelMinMaxObserver", dict(dtype="uint8", qscheme="per_channel_affine", ch_axis=1), rows),
    ("PerChannelMinMaxObserver", dict(dtype="uint8", qscheme="per_channel_affine_float_qparams", ch_axis=-1), rows),
    ("PerChannelMinMaxObserver", dict(dtype="int8", qscheme="per_channel_affine"), [batch(7, [8])]),
    ("PerChannelMinMaxObserver", dict(dtype="int8", qscheme="per_channel_affine", is_dynamic=True), []),
    (
        "MovingAveragePerChannelMinMaxObserver",
        dict(dtype="int8", qscheme="per_channel_symmetric", averaging_constant=0.1),
        rows,
    ),
    (hist, dict(dtype="int8", quant_min=-128, quant_max=127, eps=E), normal),
    (hist, dict(dtype="uint8"), [batch(8, [4000], relu=True), batch(9, [4000], 2.0**-15, relu=True)]),
    (hist, dict(dtype="int8"), [batch(10, [120000])]),
    (hist, dict(dtype="int8"), [batch(11, [500], 0, 3), batch(12, [500])]),
    (hist, dict(dtype="int8"), [batch(11, [500], 0, 3)]),
    (hist, dict(dtype="int8"), [batch(13, [500], 2.0**-37, 3), batch(14, [500], 2.0**-36, 3)]),
    (hist, dict(dtype="int8", bins=100), normal),
    (hist, dict(dtype="int8", bins=7), normal[:2]),
    (hist, dict(dtype="int16"), normal),
    (hist, dict(dtype="int32"), normal[:2]),
    (hist, dict(dtype="int8", is_dynamic=True), []),
    (fake, dict(inner_class="MovingAverageMinMaxObserver", quant_min=-128, quant_max=127, dtype="int8"), normal),
    (fake, dict(inner_class=hist, quant_min=0, quant_max=127, dtype="uint8"), normal[:2]),
    (
        fake,
        dict(
            inner_class="PerChannelMinMaxObserver",
            quant_min=-127,
            quant_max=127,
            dtype="int8",
            qscheme="per_channel_symmetric",
            ch_axis=1,
        ),
        rows,
    ),
    (
        fake,
        dict(
            inner_class="PerChannelMinMaxObserver",
            quant_min=0,
            quant_max=255,
            dtype="uint8",
            ch_axis=0,
            qscheme="per_channel_affine_float_qparams",
        ),
        rows,
    ),
    (fake, dict(inner_class="MinMaxObserver", quant_min=-200, quant_max=127, dtype="int8"), []),
    (
        fused,
        dict(inner_class="MovingAverageMinMaxObserver", quant_min=-128, quant_max=127, dtype="int8", eps=E),
        normal,
    ),
    (
        fused,
        dict(
            inner_class="MovingAverageMinMaxObserver",
            quant_min=-127,
            quant_max=127,
            dtype="int8",
            qscheme="per_tensor_symmetric",
        ),
        normal,
    ),
    (
        fused,
        dict(inner_class="MovingAverageMinMaxObserver", quant_min=0, quant_max=255, dtype="uint8"),
        [batch(8, [100], relu=True)],
    ),
    (
        fused,
        dict(inner_class="MovingAverageMinMaxObserver", quant_min=0, quant_max=255, dtype="uint8"),
        [batch(8, [100], 2.0**-30)],
    ),
    (
        fused,
        dict(
            inner_class="MovingAveragePerChannelMinMaxObserver",
            quant_min=-127,
            quant_max=127,
            dtype="int8",
            ch_axis=0,
            qscheme="per_channel_symmetric",
        ),
        rows,
    ),
    (fused, dict(inner_class="MinMaxObserver", quant_min=0, quant_max=255, dtype="uint8"), []),
]
entries = [{"class": c, "args": a, "batches": b} for c, a, b in entries]
entries.append(
    {
        "class": fake,
        "args": {"inner_class": "MinMaxObserver", "quant_min": -128, "quant_max": 127, "dtype": "int8"},
        "batches": normal,
        "switches": {"1": ["disable_observer"], "2": ["enable_observer", "disable_fake_quant"]},
    }
)
entries.append(
    {
        "class": fused,
        "args": {"inner_class": "MovingAverageMinMaxObserver", "quant_min": 0, "quant_max": 255, "dtype": "uint8"},
        "batches": normal,
        "switches": {"0": ["disable_fake_quant"], "2": ["enable_fake_quant", "disable_observer"]},
    }
)

results = [run(entry) for entry in entries]
lines = ",\n".join(json.dumps(entry) for entry in results)
path = pathlib.Path(__file__).parent / "quant" / "observers.json"
path.write_text(f'{{"made_by": "make_observers.py", "torch": "{torch.__version__}", "entries": [\n{lines}\n]}}\n')
print(len(results), "entries,", path.stat().st_size, "bytes")
for entry in results:
    if "error" in entry:
        print(entry["class"], entry["args"], entry["error"], entry["message"])
