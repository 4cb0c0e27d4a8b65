"""Prints hashes of what PyTorch gives for the seeded inputs of tests/unit/kernel/pytorch_test.cpp, which holds them.

Made with PyTorch 2.6.0 on a CPU, one thread.
"""

import numpy as np
import torch
import torch.ao.quantization.fx._decomposed  # registers quantized_decomposed
import torch.nn.functional as F

torch.set_num_threads(1)
MASK = (1 << 64) - 1


class Random:
    """The generator of tests/unit/kernel/plain.h."""

    def __init__(self, seed):
        self.state = (seed * 0x9E3779B97F4A7C15 + 1) & MASK

    def next(self):
        s = self.state
        s ^= s >> 12
        s ^= (s << 25) & MASK
        s ^= s >> 27
        self.state = s
        return (s * 0x2545F4914F6CDD1D) & MASK

    def floats(self, n, lo, hi):
        lo, hi = np.float32(lo), np.float32(hi)
        u = np.array([self.next() >> 40 for _ in range(n)], dtype=np.float32) * np.float32(2.0**-24)
        return torch.from_numpy(lo + (hi - lo) * u)


def show(name, tensor):
    value = 0xCBF29CE484222325
    for byte in tensor.contiguous().numpy().tobytes():
        value = ((value ^ byte) * 0x100000001B3) & MASK
    print(f"{name} 0x{value:016x}")


random = Random(21)
images = random.floats(2 * 3 * 13 * 18, -2, 2).reshape(2, 3, 13, 18)
show("max_pool", F.max_pool2d(images, 3, 2, 1))
show("max_pool_dilated", F.max_pool2d(images, 2, 1, 0, dilation=3))
show("max_pool_ceil", F.max_pool2d(images, 2, 2, 0, ceil_mode=True))
show("avg_pool", F.avg_pool2d(images, 3, 2, 1))
show("avg_pool_without_pad", F.avg_pool2d(images, 3, 2, 1, count_include_pad=False))
show("avg_pool_ceil", F.avg_pool2d(images, 3, 2, 1, ceil_mode=True))
show("avg_pool_divisor", F.avg_pool2d(images, 3, 1, 0, divisor_override=7))
show("adaptive_avg_pool", F.adaptive_avg_pool2d(images, (5, 7)))

x = random.floats(3 * 7 * 50, -20, 20)
show("histc", torch.histc(x, 2048, min=float(x.min()), max=float(x.max())).to(torch.int64))
show("histc_100", torch.histc(x, 100, min=-7.3, max=11.1).to(torch.int64))
show("hardswish", F.hardswish(x))
show("hardsigmoid", F.hardsigmoid(x))
show("leaky_relu", F.leaky_relu(x, 0.01))

ops = torch.ops.quantized_decomposed
scale = float(np.float32(0.0713))
u8 = ops.quantize_per_tensor(x, scale, 117, 0, 255, torch.uint8)
show("quantize_u8", u8)
show("quantize_s8", ops.quantize_per_tensor(x, scale, -3, -127, 127, torch.int8))
show("quantize_s16", ops.quantize_per_tensor(x, scale / 256, 0, -32768, 32767, torch.int16))
show("dequantize_u8", ops.dequantize_per_tensor(u8, scale, 117, 0, 255, torch.uint8))
show("fake_quantize", torch.fake_quantize_per_tensor_affine(x, scale, 117, 0, 255))
channels = x.reshape(3, 7, 50)
scales = random.floats(7, 0.01, 0.2)
zero_points = torch.arange(7, dtype=torch.int64) - 3
s8 = ops.quantize_per_channel(channels, scales, zero_points, 1, -128, 127, torch.int8)
show("quantize_channels", s8)
show("dequantize_channels", ops.dequantize_per_channel(s8, scales, zero_points, 1, -128, 127, torch.int8))
show(
    "fake_quantize_channels",
    torch.fake_quantize_per_channel_affine(channels, scales, zero_points.to(torch.int32), 1, -128, 127),
)
