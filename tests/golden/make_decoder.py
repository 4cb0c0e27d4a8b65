"""Makes tests/golden/programs/decoder.npz: small decoders with random weights, what PyTorch computes run by run, and
the tokens that follow a prompt in PyTorch and in ONNX Runtime; and examples/decoder/decoder.pt2, one of them. Needs
PyTorch 2.6, onnx and onnxruntime."""

import numpy as np
import onnx
import onnxruntime
import torch
import torch.nn.functional as F
from onnx import helper, numpy_helper
from program_case import OUT, add, arrays, save
from torch import nn

TOKENS, WIDTH, HEADS, SHARED, HIDDEN, PLACES = 64, 32, 2, 1, 48, 24
PROMPT, MOST = [5, 9, 33, 2], 16


class RMSNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(WIDTH) + 0.5)

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))


def rotate_half(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


class Layer(nn.Module):
    """Attention with a static cache and grouped queries, and SwiGLU, as LLaMA has them."""

    def __init__(self, form):
        super().__init__()
        size = WIDTH // HEADS
        self.form = form
        self.norm, self.mlp_norm = RMSNorm(), RMSNorm()
        self.q = nn.Linear(WIDTH, HEADS * size, bias=False)
        self.k = nn.Linear(WIDTH, SHARED * size)
        self.v = nn.Linear(WIDTH, SHARED * size)
        self.o = nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.up = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)
        self.register_buffer("k_cache", torch.zeros(1, SHARED, PLACES, size), persistent=False)
        self.register_buffer("v_cache", torch.zeros(1, SHARED, PLACES, size), persistent=False)

    def forward(self, x, cos, sin, allowed, places):
        h = self.norm(x)
        q, k, v = (p(h).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2) for p in (self.q, self.k, self.v))
        q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
        if self.form == "index_put":
            self.k_cache[:, :, places] = k
            self.v_cache[:, :, places] = v
        else:
            self.k_cache.index_copy_(2, places, k)
            self.v_cache.index_copy_(2, places, v)
        k, v = self.k_cache, self.v_cache
        if self.form == "index_put":
            x = x + self.attend(F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, enable_gqa=True))
        else:
            k, v = (c[:, :, None].expand(-1, -1, HEADS // SHARED, -1, -1).flatten(1, 2) for c in (k, v))
            mask = torch.where(allowed, 0.0, float("-inf"))
            x = x + self.attend(F.scaled_dot_product_attention(q, k, v, attn_mask=mask))
        h = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))

    def attend(self, x):
        return self.o(x.transpose(1, 2).flatten(2))


class Decoder(nn.Module):
    def __init__(self, form):
        super().__init__()
        torch.manual_seed(4)
        self.embed = nn.Embedding(TOKENS, WIDTH)
        self.layers = nn.ModuleList(Layer(form) for _ in range(2))
        self.norm = RMSNorm()
        self.head = nn.Linear(WIDTH, TOKENS, bias=False)
        size = WIDTH // HEADS
        self.register_buffer("frequencies", 10000.0 ** (-torch.arange(0, size, 2) / size), persistent=False)
        self.register_buffer("runs", torch.zeros(1), persistent=False)

    def forward(self, input_ids, cache_position):
        self.runs.add_(1)  # state that no output reads
        x = self.embed(input_ids)
        angles = cache_position[:, None].float() * self.frequencies
        angles = torch.cat((angles, angles), -1)[None, None]
        allowed = (torch.arange(PLACES)[None, :] <= cache_position[:, None])[None, None]
        for layer in self.layers:
            x = layer(x, angles.cos(), angles.sin(), allowed, cache_position)
        return self.head(self.norm(x))


def runs_of(prompt, more):
    yield torch.tensor([prompt]), torch.arange(len(prompt))
    for place, token in enumerate(more, len(prompt)):
        yield torch.tensor([[token]]), torch.tensor([place])


def greedy(step):
    """The tokens that follow PROMPT; step(ids, first place) gives the logits of the last id."""
    tokens, ids, place = [], PROMPT, 0
    for _ in range(MOST):
        tokens.append(int(np.argmax(step(ids, place))))
        place, ids = place + len(ids), [tokens[-1]]
    return np.array(tokens, "int64")


def add_decoder(name, form, decomposed=False):
    module = Decoder(form).requires_grad_(False)
    open_sizes = torch.export.Dim("t", min=1, max=PLACES)
    shapes = {"input_ids": {1: open_sizes}, "cache_position": {0: open_sizes}}
    add(name, module, list(runs_of(PROMPT, [7, 12, 7])), shapes, decomposed)

    def step(ids, place):
        with torch.no_grad():
            return module(torch.tensor([ids]), torch.arange(place, place + len(ids)))[0, -1].numpy()

    arrays[f"{name}/prompt"], arrays[f"{name}/tokens"] = np.array(PROMPT, "int64"), greedy(step)


def onnx_decoder(grouped):
    """One layer: attention of ONNX Runtime with its cache, or plain operators with a past that grows."""
    random = np.random.RandomState(1)
    size, shared = WIDTH // HEADS, SHARED if grouped else HEADS
    nodes, constants = [], []

    def constant(name, value):
        constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def call(op, inputs, outputs, domain="", **attributes):
        nodes.append(helper.make_node(op, inputs, outputs, domain=domain, **attributes))

    def weight(name, *sizes):
        return constant(name, random.uniform(-0.5, 0.5, sizes).astype("float32"))

    call("Gather", [weight("embed", TOKENS, WIDTH), "input_ids"], ["x"])
    for name, heads in (("q", HEADS), ("k", shared), ("v", shared)):
        call("MatMul", ["x", weight(f"w{name}", WIDTH, heads * size)], [name])
    if grouped:
        angles = np.arange(PLACES)[:, None] * 10000.0 ** (-np.arange(0, size, 2) / size)
        call("ReduceSum", ["attention_mask", constant("one", [1])], ["counts"], keepdims=0)
        call("Sub", ["counts", constant("uno", np.int64(1))], ["lengths"])
        call("Cast", ["lengths"], ["seqlens"], to=onnx.TensorProto.INT32)
        call("Shape", ["attention_mask"], ["sizes"])
        call("Gather", ["sizes", constant("at", np.int64(1))], ["all"])
        call("Cast", ["all"], ["total"], to=onnx.TensorProto.INT32)
        call(
            "GroupQueryAttention",
            ["q", "k", "v", "past_key_values.0.key", "past_key_values.0.value", "seqlens", "total"]
            + [constant(n, f(angles).astype("float32")) for n, f in (("cos", np.cos), ("sin", np.sin))],
            ["attended", "present.0.key", "present.0.value"],
            "com.microsoft",
            num_heads=HEADS,
            kv_num_heads=shared,
            do_rotary=1,
        )
    else:
        for name in "qkv":
            call("Reshape", [name, constant(f"{name}_sizes", [0, 0, HEADS, size])], [f"{name}_heads"])
            call("Transpose", [f"{name}_heads"], [f"{name}_t"], perm=[0, 2, 1, 3])
        for name, kind in (("k", "key"), ("v", "value")):
            call("Concat", [f"past_key_values.0.{kind}", f"{name}_t"], [f"present.0.{kind}"], axis=2)
        call("Transpose", ["present.0.key"], ["columns"], perm=[0, 1, 3, 2])
        call("MatMul", ["q_t", "columns"], ["products"])
        call("Mul", ["products", constant("scale", np.float32(size**-0.5))], ["scores"])
        call("Shape", ["attention_mask"], ["sizes"])
        call("Gather", ["sizes", constant("at", np.int64(1))], ["all"])
        call("Range", [constant("zero", np.int64(0)), "all", constant("step", np.int64(1))], ["keys"])
        call("Unsqueeze", ["position_ids", constant("last", [2])], ["queries"])
        call("LessOrEqual", ["keys", "queries"], ["seen"])
        call("Where", ["seen", constant("shown", np.float32(0)), constant("hidden", np.float32(-1e9))], ["mask"])
        call("Add", ["scores", "mask"], ["masked"])
        call("Softmax", ["masked"], ["shares"], axis=-1)
        call("MatMul", ["shares", "present.0.value"], ["mixed"])
        call("Transpose", ["mixed"], ["mixed_t"], perm=[0, 2, 1, 3])
        call("Reshape", ["mixed_t", constant("flat", [0, 0, WIDTH])], ["attended"])
    call("MatMul", ["attended", weight("wo", WIDTH, WIDTH)], ["o"])
    call("Add", ["x", "o"], ["y"])
    call("MatMul", ["y", weight("head", WIDTH, TOKENS)], ["logits"])
    value, int64, float32 = helper.make_tensor_value_info, onnx.TensorProto.INT64, onnx.TensorProto.FLOAT
    cache = [(f"past_key_values.0.{kind}", f"present.0.{kind}") for kind in ("key", "value")]
    inputs = [value("input_ids", int64, ["batch", "new"]), value("attention_mask", int64, ["batch", "total"])]
    if not grouped:
        inputs.append(value("position_ids", int64, ["batch", "new"]))
    inputs += [value(past, float32, ["batch", shared, "past", size]) for past, _ in cache]
    outputs = [value("logits", float32, ["batch", "new", TOKENS])]
    outputs += [value(present, float32, ["batch", shared, "total", size]) for _, present in cache]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(nodes, "decoder", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString(), shared


def add_onnx(name, grouped):
    model, shared = onnx_decoder(grouped)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    state = {
        f"past_key_values.0.{kind}": np.zeros((1, shared, 0, WIDTH // HEADS), "float32") for kind in ("key", "value")
    }

    def step(ids, place):
        given = {
            "input_ids": np.array([ids], "int64"),
            "attention_mask": np.ones((1, place + len(ids)), "int64"),
            "position_ids": np.arange(place, place + len(ids))[None],
            **state,
        }
        known = {one.name for one in session.get_inputs()}
        logits, key, value = session.run(None, {k: v for k, v in given.items() if k in known})
        state.update({"past_key_values.0.key": key, "past_key_values.0.value": value})
        return logits[0, -1]

    arrays[f"{name}/model"] = np.frombuffer(model, "uint8")
    arrays[f"{name}/prompt"], arrays[f"{name}/tokens"] = np.array(PROMPT, "int64"), greedy(step)


add_decoder("in_place", "index_copy")
add_decoder("functional", "index_copy", {})
add_decoder("grouped", "index_put")
add_onnx("onnx_grouped", True)
add_onnx("onnx_past", False)
for key in sorted(arrays):
    if key.endswith("/tokens"):
        print(key, arrays[key].tolist())
save("decoder")
(OUT.parents[2] / "examples/decoder/decoder.pt2").write_bytes(arrays["functional/model"].tobytes())
