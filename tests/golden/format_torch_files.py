"""Makes tests/golden/format/*.pt: files of torch.save that format/torch_file.cpp has to read.

Run in this folder with PyTorch 2.6.0.
"""

from collections import OrderedDict

import torch

assert torch.__version__.startswith("2.6"), torch.__version__


def counted(shape, dtype):
    return torch.arange(torch.Size(shape).numel()).reshape(shape).to(dtype)


DTYPES = ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "bool", "bfloat16", "uint16"]
torch.save({name: counted((2, 3), getattr(torch, name)) for name in DTYPES}, "format/dtypes.pt")

weight = torch.nn.Parameter(counted((4, 3), torch.float32))
base = counted((10,), torch.float32)
with_state = torch.nn.Parameter(counted((2,), torch.float32), requires_grad=False)
with_state.note = "kept by nobody"
with_attribute = counted((2,), torch.float32)
with_attribute.note = 1
torch.save(
    OrderedDict(
        weight=weight,
        tied=weight,
        inner=OrderedDict(transposed=counted((2, 3), torch.float32).t(), tail=base[4:], base=base, step=base[1::3]),
        listed=[torch.tensor(7), torch.empty(0, 5)],
        frozen=torch.nn.Parameter(torch.ones(2), requires_grad=False),
        with_state=with_state,
        with_attribute=with_attribute,
    ),
    "format/nested.pt",
)


class Refused:
    def __reduce__(self):
        import os

        return os.system, ("touch executed",)


torch.save({"weight": torch.ones(2), "evil": Refused()}, "format/refused.pt")
