"""Makes tests/golden/train/lsq.json: what PyTorch 2.6's _LearnableFakeQuantize computes.

Run in tests/golden: python3 make_lsq.py

Each case: the module sees the first input with its observer on (enable_static_estimate), then learns
(enable_param_learning): for each of the other inputs it gives "output", and the sum of output times "grad" gives
"x_grad", "scale_grad" and "zero_point_grad", by which SGD moves scale and zero point ("scale", "zero_point": after the
step). Of a whole tensor PyTorch 2.6 takes a negative zero point z on the way back for that of z + 1/2 without its
fraction; the cases of a whole tensor are of zero points that are not negative.
"""

import json
import pathlib

import torch
from torch.ao.quantization import (
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
)
from torch.ao.quantization._learnable_fake_quantize import _LearnableFakeQuantize

torch.set_num_threads(1)
torch.manual_seed(23)
assert torch.__version__.startswith("2.6."), torch.__version__


def case(
    dtype,
    qscheme,
    low,
    high,
    shape,
    offset,
    channels=-1,
    ch_axis=0,
    use_grad_scaling=False,
    lr=1e-5,
    zero_point_lr=0.5,
    narrow=1.0,
):
    per_channel = channels != -1
    observer = MovingAveragePerChannelMinMaxObserver if per_channel else MovingAverageMinMaxObserver
    options = {"dtype": getattr(torch, dtype), "qscheme": getattr(torch, qscheme)}
    if per_channel:
        options["ch_axis"] = ch_axis
    module = _LearnableFakeQuantize(
        observer, low, high, channel_len=channels, use_grad_scaling=use_grad_scaling, **options
    )
    module.enable_static_estimate()
    seen = torch.randn(shape) * narrow + offset
    module(seen)
    module.enable_param_learning()
    optimizer = torch.optim.SGD(
        [{"params": [module.scale]}, {"params": [module.zero_point], "lr": zero_point_lr}], lr=lr
    )
    steps = []
    for _ in range(3):
        x = (torch.randn(shape) * 1.5 + offset).requires_grad_()
        grad = torch.randn(shape)
        optimizer.zero_grad()
        output = module(x)
        (output * grad).sum().backward()
        step = {
            "x": x.detach().flatten().tolist(),
            "grad": grad.flatten().tolist(),
            "output": output.detach().flatten().tolist(),
            "x_grad": x.grad.flatten().tolist(),
            "scale_grad": module.scale.grad.tolist(),
            "zero_point_grad": module.zero_point.grad.tolist(),
        }
        optimizer.step()
        step["scale"] = module.scale.detach().tolist()
        step["zero_point"] = module.zero_point.detach().tolist()
        steps.append(step)
    scale, zero_point = module.calculate_qparams()
    return {
        "settings": {
            "dtype": dtype,
            "qscheme": qscheme,
            "quant_min": low,
            "quant_max": high,
            "ch_axis": ch_axis,
            "use_grad_scaling": use_grad_scaling,
        },
        "inner": observer.__name__,
        "shape": list(shape),
        "lr": lr,
        "zero_point_lr": zero_point_lr,
        "seen": seen.flatten().tolist(),
        "steps": steps,
        "qparams": {"scale": scale.tolist(), "zero_point": zero_point.tolist()},
    }


cases = [
    case("quint8", "per_tensor_affine", 0, 255, (3, 4, 5), 0.5, narrow=0.6, lr=1e-6, zero_point_lr=10.0),
    case("quint8", "per_tensor_affine", 0, 255, (3, 4, 5), 0.5, use_grad_scaling=True, lr=1e-3, zero_point_lr=50.0),
    case("quint8", "per_tensor_affine", 0, 127, (6, 10), -0.3, narrow=0.5, lr=1e-3),
    case("qint8", "per_tensor_symmetric", -128, 127, (6, 10), 0.0, narrow=0.5, lr=1e-5),
    case("qint8", "per_channel_symmetric", -127, 127, (4, 3, 5), 0.0, channels=4, lr=1e-5),
    case("qint8", "per_channel_symmetric", -127, 127, (4, 3, 5), 0.0, channels=3, ch_axis=1, use_grad_scaling=True),
    case("qint8", "per_channel_affine", -128, 127, (4, 3, 5), 0.4, channels=4, narrow=0.5, lr=1e-6, zero_point_lr=10.0),
]
lines = ",\n".join(json.dumps(c) for c in cases)
pathlib.Path("train/lsq.json").write_text(f'{{"torch": "{torch.__version__}", "cases": [\n{lines}\n]}}\n')
print(len(cases), "cases")
for c in cases:
    print(c["settings"]["qscheme"], [s["zero_point"][:4] for s in c["steps"]], [s["scale"][:2] for s in c["steps"]])
