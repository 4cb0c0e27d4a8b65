"""Trains a small decoder as LLaMA has them, and holds its perplexity with few bits in three runtimes beside float's.

  python3 tests/beside/decoder_perplexity.py make FOLDER [--shape small] [--steps 400]
      In a Python with PyTorch 2.6. Trains a network of SHAPES (SwiGLU, RMS norm, rotary embedding; small: 1.9 million
      parameters, medium: 10.5) on the bytes of Python's own library, on one thread for some minutes, and writes
      FOLDER/{model.pt2,calib.npz,test.npz,next.npy}: windows of 64 bytes, 64 to round by and 256 others to measure on.
  python3 tests/beside/decoder_perplexity.py measure FOLDER --python COMMAND [--qdq COMMAND] [--only NAME ...]
      Makes each file of FORMS and prints a table in Markdown: perplexity of a byte in qdq, in PyTorch (the operators of
      the written .pt2) and in ONNX Runtime (the .onnx of it); in qdq the divergence of the next byte's distribution
      from float's (KL) and the signal-to-noise ratio of the logits; and the size of the .onnx. COMMAND of --python
      starts a Python with PyTorch and onnxruntime here.

Python's version moves the numbers.
"""

import argparse
import json
import shlex
import subprocess
import sysconfig
from pathlib import Path
from typing import NamedTuple


class Shape(NamedTuple):
    width: int
    layers: int
    heads: int
    shared: int  # heads of keys and values
    hidden: int
    batch: int
    rate: float  # of learning, at its largest


SHAPES = {"small": Shape(256, 3, 4, 2, 512, 8, 3e-3), "medium": Shape(384, 6, 6, 2, 1152, 32, 1.5e-3)}
WINDOW, CALIBRATION, TESTS = 64, 64, 256
LEAST = "4 bits, least error"
WEIGHTS = ["--weights-only", "--weight-bits", "4", "--group-size", "32"]
MIXED = [*WEIGHTS, "--max-size", "{mixed}", "--precisions", "int8-weights"]
FORMS = {
    "float": None,
    "int8": ["--calibrate", "{calib}"],
    "int8 dynamic": ["--dynamic"],
    "4 bits, whole range": ["--recipe", "{whole}"],
    LEAST: WEIGHTS,
    "4 bits, activation-aware": [*WEIGHTS, "--awq", "--calibrate", "{calib}"],
    "4 bits, GPTQ": [*WEIGHTS, "--gptq", "--calibrate", "{calib}"],
    "4 bits, both": [*WEIGHTS, "--awq", "--gptq", "--calibrate", "{calib}"],
    "4 and 8 bits": [*MIXED, "--calibrate", "{calib}"],
    "4 and 8 bits, GPTQ": [*MIXED, "--gptq", "--calibrate", "{calib}"],
    "8da4w": ["--dynamic", *WEIGHTS[1:]],
    "8da4w, activation-aware": ["--dynamic", *WEIGHTS[1:], "--awq", "--calibrate", "{calib}"],
    "8da4w, GPTQ": ["--dynamic", *WEIGHTS[1:], "--gptq", "--calibrate", "{calib}"],
    "8da4w, both": ["--dynamic", *WEIGHTS[1:], "--awq", "--gptq", "--calibrate", "{calib}"],
}


def text(part):
    """The bytes of Python's library: every tenth module to measure on, the others to train on."""
    import numpy as np

    files = sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py"))
    chosen = [file for i, file in enumerate(files) if (i % 10 == 9) == (part == "test")]
    return np.frombuffer(b"\n".join(file.read_bytes() for file in chosen), dtype=np.uint8).astype(np.int64)


def windows(rng, data, n):
    import numpy as np

    return np.stack([data[i : i + WINDOW + 1] for i in rng.integers(0, len(data) - WINDOW - 1, n)])


def network(shape):
    import torch
    import torch.nn.functional as F
    from torch import nn

    width, size = shape.width, shape.width // shape.heads
    shared = shape.shared * size

    class RMSNorm(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(width))

        def forward(self, x):
            return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))

    def rotate_half(x):
        half = x.shape[-1] // 2
        return torch.cat((-x[..., half:], x[..., :half]), dim=-1)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.mlp_norm = RMSNorm(), RMSNorm()
            self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
            self.k, self.v = nn.Linear(width, shared, bias=False), nn.Linear(width, shared, bias=False)
            self.gate, self.up = nn.Linear(width, shape.hidden, bias=False), nn.Linear(width, shape.hidden, bias=False)
            self.down = nn.Linear(shape.hidden, width, bias=False)

        def forward(self, x, cos, sin):
            h = self.norm(x)
            q, k, v = (p(h).unflatten(-1, (-1, size)).transpose(1, 2) for p in (self.q, self.k, self.v))
            q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
            k, v = (
                k.repeat_interleave(shape.heads // shape.shared, 1),
                v.repeat_interleave(shape.heads // shape.shared, 1),
            )
            x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
            h = self.mlp_norm(x)
            return x + self.down(F.silu(self.gate(h)) * self.up(h))

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(256, width)
            self.layers = nn.ModuleList(Layer() for _ in range(shape.layers))
            self.norm, self.head = RMSNorm(), nn.Linear(width, 256, bias=False)
            angles = torch.arange(WINDOW)[:, None] * 10000.0 ** (-torch.arange(0, size, 2) / size)
            angles = torch.cat((angles, angles), -1)
            self.register_buffer("cos", angles.cos())
            self.register_buffer("sin", angles.sin())
            for parameter in self.parameters():
                if parameter.dim() == 2:
                    nn.init.normal_(parameter, std=0.02)

        def forward(self, ids):
            x = self.embed(ids)
            for layer in self.layers:
                x = layer(x, self.cos, self.sin)
            return self.head(self.norm(x))

    torch.manual_seed(0)
    return Network()


def make(folder, shape, steps):
    import numpy as np
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    data, held_out = text("train"), text("test")
    net = network(shape)
    print(f"{sum(p.numel() for p in net.parameters()) / 1e6:.1f} million parameters, {len(data) / 1e6:.1f} MB of text")
    optimizer = torch.optim.AdamW(net.parameters(), lr=shape.rate, betas=(0.9, 0.95), weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, shape.rate, total_steps=steps, pct_start=0.1)
    for step in range(steps):
        batch = torch.from_numpy(windows(rng, data, shape.batch))
        loss = F.cross_entropy(net(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 99:
            print(step + 1, f"{loss.item():.3f}", flush=True)
    net.eval().requires_grad_(False)
    calib, test = windows(rng, data, CALIBRATION), windows(rng, held_out, TESTS)
    example = torch.from_numpy(calib[:2, :-1])
    shapes = {"ids": {0: torch.export.Dim("batch", min=1, max=1024)}}
    torch.export.save(torch.export.export(net, (example,), dynamic_shapes=shapes), folder / "model.pt2")
    np.savez(folder / "calib.npz", ids=calib[:, :-1])
    np.savez(folder / "test.npz", ids=test[:, :-1])
    np.save(folder / "next.npy", test[:, 1:])


def whole_range(path):
    """A recipe of WEIGHTS whose scales hold the whole range of a group."""
    observer = {"class": "PerGroupMinMaxObserver", "args": {"group_size": 32}}
    weight = {"spec": "quantization", "dtype": "int8", "quant_min": -8, "quant_max": 7, "observer": observer}
    weight |= {"qscheme": "per_channel_symmetric", "ch_axis": 0}
    path.write_text(json.dumps({"quantizer": "XNNPACKQuantizer", "global": {"weight": weight}}))


def in_pytorch(file, ids):
    import torch
    import torch.ao.quantization.fx._decomposed

    with torch.no_grad():
        return torch.export.load(file).module()(torch.from_numpy(ids)).numpy()


def in_onnx_runtime(file, ids):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: ids})[0]


def compute(folder, names):
    """What `measure` asks the other Python: perplexities of the files that lie there, and decibels, as JSON."""
    import numpy as np

    ids, wanted = np.load(folder / "test.npz")["ids"], np.load(folder / "next.npy")

    def logarithms(logits):
        shifted = logits.astype(np.float64) - logits.max(-1, keepdims=True)
        return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))

    def perplexity(logits):
        return float(np.exp(-np.take_along_axis(logarithms(logits), wanted[..., None], -1).mean()))

    out, exact = {}, None
    for name in names:
        own = next(iter(np.load(folder / f"{name}.npz").values()))
        exact = own if exact is None else exact
        noise = float(np.square(own - exact, dtype=np.float64).sum())
        found = {"qdq": perplexity(own), "PyTorch": perplexity(in_pytorch(folder / f"{name}.pt2", ids))}
        if (folder / f"{name}.onnx").exists():
            found["ONNX Runtime"] = perplexity(in_onnx_runtime(folder / f"{name}.onnx", ids))
        wanted_logs, own_logs = logarithms(exact), logarithms(own)
        found["kl"] = float((np.exp(wanted_logs) * (wanted_logs - own_logs)).sum(-1).mean())
        if noise > 0:
            found["decibels"] = 10 * np.log10(float(np.square(exact, dtype=np.float64).sum()) / noise)
        out[name] = found
    print(json.dumps(out))


def measure(folder, qdq, python, only):
    whole_range(folder / "whole.json")
    places = {"{calib}": str(folder / "calib.npz"), "{whole}": str(folder / "whole.json")}
    names = {
        name: name.replace(", ", "-").replace(" ", "-") for name in FORMS if not only or name in {"float", LEAST, *only}
    }
    for name, file in names.items():
        written, onnx = folder / f"{file}.pt2", folder / f"{file}.onnx"
        onnx.unlink(missing_ok=True)
        if "{mixed}" in (FORMS[name] or []):
            four = folder / f"{names[LEAST]}.onnx"
            places["{mixed}"] = str(round(1.04 * four.stat().st_size))
        words = [places.get(word, word) for word in FORMS[name] or []]
        # The limit is that of the .onnx file, which stores 4 bits as 4. Activations by token have no form there.
        first, second = (onnx, written) if "--max-size" in words else (written, onnx)
        if FORMS[name] is None:
            written.write_bytes((folder / "model.pt2").read_bytes())
        else:
            subprocess.run([*qdq, "quantize", folder / "model.pt2", *words, "-q", "-o", first], check=True)
        subprocess.run([*qdq, "convert", first, "-q", second], stderr=subprocess.DEVNULL, check=False)
        outputs = ["-o", folder / f"{file}.npz"]
        subprocess.run([*qdq, "run", written, "--inputs", folder / "test.npz", "-q", *outputs], check=True)
    text = subprocess.check_output([*python, __file__, "compute", folder, *names.values()], text=True)
    found = json.loads(text.splitlines()[-1])
    print("| | qdq | PyTorch | ONNX Runtime | KL | logits | .onnx |\n|---|---|---|---|---|---|---|")
    for name, file in names.items():
        row = found[file]
        runtimes = ("qdq", "PyTorch", "ONNX Runtime")
        shown = " | ".join(f"{row[runtime]:.4f}" if runtime in row else "–" for runtime in runtimes)
        size = f"{(folder / f'{file}.onnx').stat().st_size / 1e6:.2f} MB" if "ONNX Runtime" in row else "–"
        print(f"| {name} | {shown} | {row['kl']:.5f} | {row.get('decibels', 0):.1f} dB | {size} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["make", "measure", "compute"])
    parser.add_argument("folder", type=lambda path: Path(path).resolve())
    parser.add_argument("names", nargs="*")
    parser.add_argument("--shape", choices=SHAPES, default="small")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--qdq", type=shlex.split, default=["qdq"])
    parser.add_argument("--python", type=shlex.split, default=["python3"])
    parser.add_argument("--only", nargs="*")
    args = parser.parse_args()
    if args.verb == "make":
        make(args.folder, SHAPES[args.shape], args.steps)
    elif args.verb == "measure":
        measure(args.folder, args.qdq, args.python, args.only)
    else:
        compute(args.folder, args.names)


if __name__ == "__main__":
    main()
