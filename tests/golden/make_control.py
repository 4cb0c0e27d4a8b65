"""Writes tests/golden/programs/control.npz: exported programs that run programs, and what PyTorch computes with them.

Run with PyTorch 2.6 in this folder: python3 make_control.py.
"""

import torch
from program_case import add, save
from torch import nn
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim

torch.set_num_threads(1)


class Branches(nn.Module):
    """Both branches read weights of the module; their results are of an open size."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)

    def forward(self, x):
        x = self.a(x)
        return torch.cond(x.sum() > 0, lambda x: self.a(x).relu(), lambda x: self.b(x) * 2, (x,)) + 1


class Nested(nn.Module):
    """A branch branches again, and reads a tensor of forward and a buffer."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.register_buffer("k", torch.tensor([1.0, 2.0, 3.0, 4.0]))

    def forward(self, x):
        y = x + self.k

        def inner(x):
            return torch.cond(x.mean() > 1, lambda x: x * y, lambda x: self.a(x) - self.k, (x,))

        return torch.cond(x.sum() > 0, inner, lambda x: x - 1, (x,))


class OnSize(nn.Module):
    """A size decides; two results, one of them an input."""

    def forward(self, x, y):
        return torch.cond(x.shape[0] > 3, lambda x, y: (x + 1, y + 0), lambda x, y: (x * 2, y - 1), (x, y))


class While(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, i, x):
        return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, self.fc(x)), (i, x))


class WhileOfBranches(nn.Module):
    def forward(self, x):
        def step(i, x):
            return i + 1, torch.cond(x.sum() > 4, lambda x: x * 0.5, lambda x: x + 1.25, (x,))

        return while_loop(lambda i, x: (i < 6) & (x.max() < 9), step, (torch.zeros([], dtype=torch.int64), x))


class Map(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, xs, y):
        return map_rows(lambda x, y: torch.tanh(self.fc(x)) + y, xs, y)


class Scan(nn.Module):
    def __init__(self, reverse):
        super().__init__()
        self.reverse = reverse

    def forward(self, init, xs):
        return scan(lambda c, x: (c * 0.5 + x, c * x), init, xs, dim=0, reverse=self.reverse)


class NoGrad(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        with torch.no_grad():
            y = self.a(x)
            z = y * 2
        return self.b(torch.relu(y + z)), z


class Autocast(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x):
        with torch.autocast("cuda", dtype=torch.float16):  # which computes nothing differently on the processor
            y = self.a(x)
        with torch.autocast("cpu", enabled=False):
            return torch.relu(y) + 1


def main():
    torch.manual_seed(0)
    batch = ({0: Dim("batch", min=2, max=64)},)
    ones = torch.ones(3, 4)
    add("branches", Branches(), [(torch.randn(3, 4),), (ones * 9,), (torch.randn(5, 4) - 2,)], batch)
    add("nested", Nested(), [(ones * 3,), (ones * 0.5,), (-ones,)])
    rows = ({0: Dim("rows", min=2, max=64)}, None)
    add("on_size", OnSize(), [(torch.randn(3, 4), torch.randn(2)), (torch.randn(6, 4), torch.randn(2))], rows)
    add("while_loop", While(), [(torch.tensor(0), torch.randn(3, 4)), (torch.tensor(7), torch.randn(3, 4))])
    add("while_of_branches", WhileOfBranches(), [(torch.randn(2, 2),), (torch.full((2, 2), 8.5),)])
    add("map", Map(), [(torch.randn(5, 2, 4), torch.randn(3))])
    add("scan", Scan(False), [(torch.randn(3), torch.randn(4, 3))])
    add("scan_reverse", Scan(True), [(torch.randn(3), torch.randn(4, 3))])
    add("no_grad", NoGrad(), [(torch.randn(3, 4),)])
    add("autocast", Autocast(), [(torch.randn(3, 4),)])
    save("control")


main()
