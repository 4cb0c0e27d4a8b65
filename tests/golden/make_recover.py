"""Makes tests/golden/recover/formulas.json: what the remedies of src/recover should give, by PyTorch 2.6 and NumPy.

Run in tests/golden: python3 make_recover.py

"layer": a linear layer with samples, quantized by PyTorch's own prepare_pt2e and convert_pt2e (XNNPACKQuantizer,
weights per channel). "shift": what empirical bias correction adds to its bias, the mean of the float sums less that of
the quantized ones. "nearest", "gptq": for weights of 4 bits the mean squared error of the sums behind a bias that takes
back its mean, of the nearest integers and of GPTQ's (Frantar et al. 2022, column after column with the inverse of the
Hessian, with its mean diagonal added, as round_weights has it).
"seams": layer norm -> linear -> ReLU -> linear with channels of very different sizes; by alpha the factors of both
seams, exp(alpha log(range) - (1 - alpha) log(weight)) less the mean of that logarithm over the channels.
"ranges": values with the least mean squared error that a range of 8 bits leaves, of all pairs of ends among 200.
"norms": conv -> batch norm -> ReLU6 -> depthwise conv -> batch norm -> ReLU -> conv; the parameters, and what analytic
bias correction adds to the biases of the second and third convolution for weights of 4 bits: the sum over a row of
(weight - rounded weight) times the mean of what it reads, which is that of a clamped normal distribution by trapezoids.
"error": outputs of three axes, and the signal-to-noise ratio as output_error.h describes it.
"""

import json
import pathlib

import numpy
import torch
from torch.ao.quantization.quantize_pt2e import convert_pt2e, prepare_pt2e
from torch.ao.quantization.quantizer import xnnpack_quantizer

torch.set_num_threads(1)
torch.manual_seed(41)
assert torch.__version__.startswith("2.6."), torch.__version__
ALPHAS = [0.25, 0.5, 0.75, 1.0]


def quantized(module, x, bits):
    """What the converted program has there: rounded samples, rounded weight and its scales."""
    low = -127 if bits == 8 else -(2 ** (bits - 1))  # as the recipe has it
    config = xnnpack_quantizer.get_symmetric_quantization_config(
        is_per_channel=True, weight_qmin=low, weight_qmax=2 ** (bits - 1) - 1
    )
    quantizer = xnnpack_quantizer.XNNPACKQuantizer().set_global(config)
    prepared = prepare_pt2e(torch.export.export_for_training(module, (x,)).module(), quantizer)
    prepared(x)
    converted = convert_pt2e(prepared)
    seen = {}

    class Keep(torch.fx.Interpreter):
        def run_node(self, node):
            seen[node] = super().run_node(node)
            return seen[node]

    Keep(converted).run(x)
    layer = next(node for node in converted.graph.nodes if "linear" in str(node.target))
    scales = seen[layer.args[1].args[1]] if "per_channel" in str(layer.args[1].target) else None
    return seen[layer.args[0]].detach(), seen[layer.args[1]].detach(), scales, low


def centered_error(x, weight, rounded_x, rounded_weight):
    off = x @ weight.T - rounded_x @ rounded_weight.T
    return float(((off - off.mean(0)) ** 2).mean())


def gptq(x, weight, scales, low):
    weight, x = weight.double().clone(), x.double()
    x = x - x.mean(0)
    hessian = x.T @ x
    hessian += torch.eye(len(hessian)) * hessian.diagonal().mean()
    inverse = torch.linalg.cholesky(torch.linalg.inv(hessian), upper=True)
    out = torch.zeros_like(weight)
    for i in range(weight.shape[1]):
        out[:, i] = (weight[:, i] / scales).round().clamp(low, -low - 1) * scales
        error = (weight[:, i] - out[:, i]) / inverse[i, i]
        weight[:, i:] -= error[:, None] * inverse[i, i:][None]
    return out.float()


def make_layer():
    torch.manual_seed(43)
    layer = torch.nn.Linear(24, 10)
    mix = torch.randn(24, 24) * 0.3 + torch.eye(24)
    x = torch.relu(torch.randn(64, 24)) @ mix
    with torch.no_grad():
        rounded_x, rounded_weight, _, _ = quantized(layer, x, 8)
        shift = (layer(x) - torch.nn.functional.linear(rounded_x, rounded_weight, layer.bias)).mean(0)
        rounded_x, nearest, scales, low = quantized(layer, x, 4)
        found = gptq(rounded_x, layer.weight, scales, low)
        return {
            "x": x.flatten().tolist(),
            "weight": layer.weight.flatten().tolist(),
            "bias": layer.bias.tolist(),
            "shift": shift.tolist(),
            "rounded_x": rounded_x.flatten().tolist(),
            "nearest": centered_error(x, layer.weight, rounded_x, nearest),
            "gptq": centered_error(x, layer.weight, rounded_x, found),
        }


def make_seams():
    def power(n):
        return 10 ** (torch.rand(n) * 3 - 1.5)

    norm, first, second = torch.nn.LayerNorm(16), torch.nn.Linear(16, 12), torch.nn.Linear(12, 4)
    x = torch.randn(32, 16)
    with torch.no_grad():
        by = power(16)
        norm.weight.uniform_(0.5, 1.5).mul_(by)
        norm.bias.uniform_(-0.5, 0.5).mul_(by)
        first.weight.div_(by)
        by = power(12)
        first.weight.mul_(by[:, None])
        first.bias.mul_(by)
        second.weight.div_(by)
        behind_norm = norm(x)
        behind_relu = torch.relu(first(behind_norm))
        ranges = [behind_norm.abs().amax(0), behind_relu.abs().amax(0)]
        readers = [first.weight.abs().amax(0), second.weight.abs().amax(0)]
    factors = [
        [
            torch.exp(log - log.mean()).tolist()
            for log in [alpha * ranges[i].log() - (1 - alpha) * readers[i].log() for alpha in ALPHAS]
        ]
        for i in range(2)
    ]
    parameters = {
        f"{name}.{part}": getattr(module, part).detach().flatten().tolist()
        for name, module in (("norm", norm), ("first", first), ("second", second))
        for part in ("weight", "bias")
    }
    return {"x": x.flatten().tolist(), "parameters": parameters, "factors": factors}


def make_ranges():
    values = torch.distributions.StudentT(3.0).sample((2048,)).float() + 0.3
    x = values.double().numpy()
    out = {"values": values.tolist()}
    for word, symmetric in (("affine", False), ("symmetric", True)):
        best = numpy.inf
        highs = numpy.linspace(0.02, 1, 200) * (max(abs(x.min()), x.max()) if symmetric else x.max())
        lows = [None] if symmetric else numpy.linspace(0.02, 1, 200) * x.min()
        for high in highs:
            for low in lows:
                start = -high if symmetric else low
                step = (high - start) / 255
                off = x - (numpy.clip(numpy.round((x - start) / step), 0, 255) * step + start)
                best = min(best, float((off**2).mean()))
        out[word] = best
    return out


def clamped_mean(mean, deviation, low, high):
    z = numpy.linspace(-12, 12, 400001)
    density = numpy.exp(-(z**2) / 2) / numpy.sqrt(2 * numpy.pi)
    return numpy.array(
        [
            numpy.trapezoid(numpy.clip(m + d * z, low, high) * density, z)
            for m, d in zip(mean.double().numpy(), deviation.double().numpy(), strict=True)
        ]
    )


def make_norms():
    torch.manual_seed(53)
    nn = torch.nn
    convs = [nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3, groups=8, bias=False), nn.Conv2d(8, 5, 1)]
    norms = [nn.BatchNorm2d(8), nn.BatchNorm2d(8)]
    with torch.no_grad():
        for norm in norms:
            norm.weight.uniform_(-1.5, 3)
            norm.bias.uniform_(-2, 4)
            norm.running_mean.uniform_(-1, 1)
            norm.running_var.uniform_(0.2, 2)
        shifts = []
        for i, high in ((0, 6.0), (1, numpy.inf)):
            mean = clamped_mean(norms[i].bias, norms[i].weight.abs(), 0.0, high)
            weight = convs[i + 1].weight.flatten(2)
            if i == 0:
                factor = norms[1].weight / torch.sqrt(norms[1].running_var + norms[1].eps)
                weight = weight * factor[:, None, None]
            scale = weight.abs().amax((1, 2)) / 7.5
            zeros = torch.zeros(len(scale), dtype=torch.int32)
            rounded = torch.fake_quantize_per_channel_affine(weight, scale, zeros, 0, -8, 7)
            off = (weight - rounded).double().sum(2).numpy()
            shifts.append((off * (mean[:, None] if i == 0 else mean[None])).sum(1).tolist())
    parameters = {
        f"{name}.{part}": getattr(module, part).detach().flatten().tolist()
        for name, module in (("first", convs[0]), ("second", convs[1]), ("third", convs[2]))
        for part in ("weight", "bias")
        if getattr(module, part) is not None
    }
    for name, norm in zip(("norm1", "norm2"), norms, strict=True):
        for part in ("weight", "bias", "running_mean", "running_var"):
            parameters[f"{name}.{part}"] = getattr(norm, part).detach().tolist()
    return {"parameters": parameters, "shifts": shifts}


def make_error():
    x = numpy.random.default_rng(5).normal(size=(2, 6, 4)) * numpy.array([10, 1, 0.1, 3]) + numpy.array([5, 0, 1, 0])
    y = x + numpy.random.default_rng(6).normal(size=x.shape) * numpy.array([0.5, 0.02, 0.2, 0.1])
    x, y = x.astype("float32").astype("float64"), y.astype("float32").astype("float64")
    signal, noise = ((x - x.mean((0, 1))) ** 2).sum((0, 1)), ((x - y) ** 2).sum((0, 1))
    shares = noise / (signal + 0.01 * signal.mean())
    shares = numpy.where(shares > 1, 1 + numpy.log(numpy.maximum(shares, 1)), shares)
    decibels = -10 * numpy.log10(shares.mean() * 1.01)
    return {"x": x.flatten().tolist(), "y": y.flatten().tolist(), "decibels": float(decibels)}


out = {
    "layer": make_layer(),
    "seams": make_seams(),
    "ranges": make_ranges(),
    "norms": make_norms(),
    "error": make_error(),
}
folder = pathlib.Path(__file__).parent / "recover"
folder.mkdir(exist_ok=True)
(folder / "formulas.json").write_text(json.dumps(out) + "\n")
print({k: out["layer"][k] for k in ("nearest", "gptq")}, out["ranges"]["affine"], out["ranges"]["symmetric"])
