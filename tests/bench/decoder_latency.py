"""Tokens per second of one thread: qdq on a .pt2 decoder beside ONNX Runtime on one of the same shape.

  python3 tests/bench/decoder_latency.py --qdq "COMMAND" --model DECODER.pt2 --shape small|qwen
      [--tokens 300] [--prompt 16] [--rounds 7] [--keep FOLDER]

ONNX Runtime's decoder is made here, with random weights of 4 bits in blocks of 32: MatMulNBits (accuracy_level 0, float
activations, and 4, int8 activations), GroupQueryAttention with rotary embedding and one buffer for past and present,
and SkipSimplifiedLayerNormalization, as onnxruntime-genai's builder writes them. DECODER.pt2 is what `qdq quantize
--weights-only --group-size 32 --weight-bits 4` makes of the exported decoder. The runtimes take turns; "COMMAND run
DECODER.pt2 --generate N" is started anew in each round. Seconds are those of the processor, so that other work on the
machine counts little: of qdq what N tokens take beyond what one takes, of ONNX Runtime what its runs take behind the
first. A figure is the median of the rounds, with the least and the most. --keep: where ONNX Runtime's files stay, for
decoder_latency.mjs.
"""

import argparse
import contextlib
import json
import resource
import shlex
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

SHAPES = {
    "small": dict(vocab=4096, width=384, layers=8, heads=6, shared=2, hidden=1536, places=512),
    "qwen": dict(vocab=151936, width=896, layers=24, heads=14, shared=2, hidden=4864, places=1024),
}
BLOCK = 32


def decoder(path, accuracy_level, vocab, width, layers, heads, shared, hidden, places):
    random = np.random.RandomState(0)
    nodes, constants = [], []
    size = width // heads

    def constant(name, value):
        constants.append(numpy_helper.from_array(value, name))
        return name

    def call(op, inputs, outputs, domain="", **attributes):
        nodes.append(helper.make_node(op, inputs, outputs, outputs[0], domain=domain, **attributes))

    def norm_weight(name):
        return constant(name, np.ones(width, "float32"))

    def linear(x, name, rows, columns):
        blocks = columns // BLOCK
        packed = random.randint(0, 256, (rows, blocks, BLOCK // 2)).astype("uint8")
        scales = random.uniform(0.001, 0.003, rows * blocks).astype("float32")
        inputs = [x, constant(f"{name}.weight", packed), constant(f"{name}.scales", scales)]
        how = dict(N=rows, K=columns, bits=4, block_size=BLOCK, accuracy_level=accuracy_level)
        call("MatMulNBits", inputs, [name], "com.microsoft", **how)
        return name

    angles = np.arange(places)[:, None] * 10000.0 ** (-np.arange(0, size, 2) / size)
    tables = [constant("cos", np.cos(angles).astype("float32")), constant("sin", np.sin(angles).astype("float32"))]
    embed = constant("embed", random.uniform(-1, 1, (vocab, width)).astype("float32"))
    call("Gather", [embed, "input_ids"], ["x0"])
    call("SimplifiedLayerNormalization", ["x0", norm_weight("norm0")], ["h0"], axis=-1, epsilon=1e-5)
    x, h, caches = "x0", "h0", []
    for i in range(layers):
        q = linear(h, f"q{i}", heads * size, width)
        k, v = (linear(h, f"{n}{i}", shared * size, width) for n in "kv")
        past = [f"past_key_values.{i}.{kind}" for kind in ("key", "value")]
        present = [f"present.{i}.{kind}" for kind in ("key", "value")]
        caches += zip(past, present)
        how = dict(num_heads=heads, kv_num_heads=shared, do_rotary=1)
        inputs = [q, k, v, *past, "seqlens", "total", *tables]
        call("GroupQueryAttention", inputs, [f"a{i}", *present], "com.microsoft", **how)
        o = linear(f"a{i}", f"o{i}", width, heads * size)
        skip = dict(epsilon=1e-5)
        outputs = [f"g{i}", "", "", f"y{i}"]
        inputs = [x, o, norm_weight(f"norm{i}m")]
        call("SkipSimplifiedLayerNormalization", inputs, outputs, "com.microsoft", **skip)
        gate, up = linear(f"g{i}", f"gate{i}", hidden, width), linear(f"g{i}", f"up{i}", hidden, width)
        call("Sigmoid", [gate], [f"s{i}"])
        call("Mul", [gate, f"s{i}"], [f"silu{i}"])
        call("Mul", [f"silu{i}", up], [f"m{i}"])
        down = linear(f"m{i}", f"down{i}", width, hidden)
        x, h = f"x{i + 1}", f"h{i + 1}"
        inputs = [f"y{i}", down, norm_weight(f"norm{i}a")]
        call("SkipSimplifiedLayerNormalization", inputs, [h, "", "", x], "com.microsoft", **skip)
    nodes.append(helper.make_node("Identity", [linear(h, "head", vocab, width)], ["logits"]))
    value, int32 = helper.make_tensor_value_info, TensorProto.INT32
    inputs = [
        value("input_ids", TensorProto.INT64, [1, "new"]),
        value("seqlens", int32, [1]),
        value("total", int32, []),
    ]
    cache = ["batch", shared, "places", size]
    inputs += [value(past, TensorProto.FLOAT, cache) for past, _ in caches]
    outputs = [value("logits", TensorProto.FLOAT, [1, "new", vocab])]
    outputs += [value(present, TensorProto.FLOAT, cache) for _, present in caches]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(nodes, "decoder", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    onnx.save(model, path, save_as_external_data=True, location=path.name + ".data")


class OnnxRuntime:
    def __init__(self, folder, level, shape):
        path = folder / f"level{level}.onnx"
        decoder(path, level, **shape)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        cache = (1, shape["shared"], shape["places"], shape["width"] // shape["heads"])
        self.caches = {
            one.name: onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros(cache, "float32"))
            for one in self.session.get_inputs()
            if one.name.startswith("past")
        }

    def step(self, ids, place):
        binding = self.session.io_binding()
        binding.bind_cpu_input("input_ids", np.array([ids], "int64"))
        binding.bind_cpu_input("seqlens", np.array([place + len(ids) - 1], "int32"))
        binding.bind_cpu_input("total", np.array(place + len(ids), "int32"))
        for name, buffer in self.caches.items():
            binding.bind_ortvalue_input(name, buffer)
            binding.bind_ortvalue_output(name.replace("past_key_values", "present"), buffer)
        binding.bind_output("logits")
        self.session.run_with_iobinding(binding)
        return int(np.argmax(binding.get_outputs()[-1].numpy()[0, -1]))

    def tokens_per_second(self, prompt, count):
        place, token = len(prompt), self.step(prompt, 0)
        began = time.process_time()
        for _ in range(count - 1):
            token = self.step([token], place)
            place += 1
        return (count - 1) / (time.process_time() - began)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--qdq", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--shape", choices=SHAPES, required=True)
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("--prompt", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--keep")
    args = parser.parse_args()
    prompt = list(range(1, args.prompt + 1))

    def seconds(count):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        words = ["run", args.model, "--generate", str(count), "--prompt", ",".join(map(str, prompt)), "--json"]
        made = json.loads(subprocess.check_output([*shlex.split(args.qdq), *words]))["tokens"]
        assert len(made) == count
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def qdq():
        return (args.tokens - 1) / (seconds(args.tokens) - seconds(1))

    with contextlib.ExitStack() as stack:
        folder = args.keep or stack.enter_context(tempfile.TemporaryDirectory())
        peers = {
            f"ONNX Runtime, accuracy_level {level}": OnnxRuntime(Path(folder), level, SHAPES[args.shape])
            for level in (0, 4)
        }
        variants = {
            "qdq": qdq,
            **{name: lambda p=peer: p.tokens_per_second(prompt, args.tokens) for name, peer in peers.items()},
        }
        rates = {name: [] for name in variants}
        seconds(1)  # reads the file, which the system keeps
        for _ in range(args.rounds):
            for name, run in variants.items():
                rates[name].append(run())
    for name, found in rates.items():
        ratios = [own / other for own, other in zip(rates["qdq"], found)]
        print(
            f"{name:34} {statistics.median(found):8.1f} tokens/s ({min(found):.1f} to {max(found):.1f}); "
            f"qdq is {statistics.median(ratios):.2f} times as fast ({min(ratios):.2f} to {max(ratios):.2f})"
        )


if __name__ == "__main__":
    main()
