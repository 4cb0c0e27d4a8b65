"""Makes tests/golden/train/optim.json: what PyTorch 2.6's optimizers, learning rate schedules and distillation loss
compute.

Run in tests/golden: python3 make_optim.py

"optimizers": a parameter of 12 numbers takes six steps with the given gradients; the third has none, which skips the
parameter. "values" are those after each step. "schedules": the learning rate of each step, from 0 on.
"distillation": float32 outputs of two models, the loss and its gradient.
"""

import json
import pathlib

import torch
import torch.nn.functional as F
from torch.optim import SGD, Adam, AdamW
from torch.optim.lr_scheduler import ConstantLR, CosineAnnealingLR, LinearLR, SequentialLR, StepLR

torch.set_num_threads(1)
torch.manual_seed(17)
assert torch.__version__.startswith("2.6."), torch.__version__


def optimizer(kind, **options):
    parameter = torch.nn.Parameter(torch.randn(12))
    start = parameter.detach().tolist()
    adams = {"adam": Adam, "adamw": AdamW}
    torch_options = dict(options)
    if kind != "sgd" and "betas" in options:
        torch_options["betas"] = tuple(options["betas"])
    made = adams.get(kind, SGD)([parameter], **torch_options)
    grads, values = [], []
    for step in range(6):
        grad = None if step == 2 else torch.randn(12) * (10.0 ** (step % 3 - 1))
        parameter.grad = grad
        made.step()
        grads.append(None if grad is None else grad.tolist())
        values.append(parameter.detach().tolist())
    return {"options": {"optimizer": kind, **options}, "start": start, "grads": grads, "values": values}


def schedule(lr, steps, **options):
    made = SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    warmup = options.get("warmup_steps", 0)
    main = {
        "step": lambda: StepLR(made, options["step_size"], options.get("gamma", 0.1)),
        "cosine": lambda: CosineAnnealingLR(made, options["total_steps"], options.get("eta_min", 0.0)),
        "constant": lambda: ConstantLR(made, factor=1.0, total_iters=1),
    }[options.get("schedule", "constant")]
    if warmup:
        first = LinearLR(made, options.get("warmup_start_factor", 1 / 3), 1.0, warmup)
        used = SequentialLR(made, [first, main()], [warmup])
    else:
        used = main()
    rates = []
    for _ in range(steps):
        rates.append(made.param_groups[0]["lr"])
        made.step()
        used.step()
    return {"options": options, "lr": lr, "rates": rates}


def distillation(shape, temperature):
    output = (torch.randn(shape) * 3).requires_grad_()
    teacher = torch.randn(shape) * 3
    logs, wanted = (F.log_softmax(x / temperature, 1) for x in (output, teacher))
    samples = output.numel() // shape[1]
    loss = F.kl_div(logs, wanted, reduction="sum", log_target=True) * temperature**2 / samples
    loss.backward()
    return {
        "shape": shape,
        "temperature": temperature,
        "output": output.detach().flatten().tolist(),
        "teacher": teacher.flatten().tolist(),
        "loss": loss.item(),
        "grad": output.grad.flatten().tolist(),
    }


golden = {
    "optimizers": [
        optimizer("sgd", lr=0.1),
        optimizer("sgd", lr=0.1, momentum=0.9, weight_decay=0.01),
        optimizer("sgd", lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True),
        optimizer("adam", lr=0.01),
        optimizer("adam", lr=0.01, weight_decay=0.1, betas=[0.8, 0.95], eps=1e-6),
        optimizer("adamw", lr=0.01, weight_decay=0.01),
        optimizer("adamw", lr=0.1, weight_decay=0.5, betas=[0.5, 0.9], eps=1e-4),
    ],
    "schedules": [
        schedule(0.1, 12, schedule="step", step_size=4),
        schedule(0.1, 12, schedule="step", step_size=1, gamma=0.97),
        schedule(0.1, 12, schedule="cosine", total_steps=10),
        schedule(0.1, 30, schedule="cosine", total_steps=7, eta_min=0.01),
        schedule(0.3, 12, warmup_steps=5),
        schedule(0.3, 20, schedule="cosine", total_steps=14, warmup_steps=5, warmup_start_factor=0.01),
        schedule(0.3, 20, schedule="step", step_size=3, gamma=0.5, warmup_steps=4),
    ],
    "distillation": [distillation([4, 5], 1.0), distillation([4, 5], 4.0), distillation([2, 3, 2, 2], 2.0)],
}
path = pathlib.Path("train/optim.json")
lines = [f'{{"torch": "{torch.__version__}"']
for name in ("optimizers", "schedules", "distillation"):
    lines.append(f'"{name}": [\n' + ",\n".join(json.dumps(case) for case in golden[name]) + "]")
path.write_text(",\n".join(lines) + "}\n")
